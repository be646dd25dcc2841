//! Packed characters become bytes again: by arithmetic where the alphabet allows it, in vectors.
//!
//! ```text
//!   packed    ├ 8 characters, each of BITS bits ┤ …
//!   spread    a code in each byte of a word        four words are a vector
//!   characters   the first one + the code, and a step more from some codes on; or a table
//! ```
//!
//! A code that is no character's gives a byte of 128 or more. Callers look at the bits that were
//! seen in any byte.

/// Characters that are packed together, to as many bytes as each has bits.
pub(super) const TOGETHER: usize = 8;
/// Characters that are unpacked as a vector, if it is one of 256 bits.
const VECTOR: usize = 32;
const EACH_BYTE: u64 = 0x0101_0101_0101_0101;
pub(super) const HIGH_BITS: u64 = 0x80 * EACH_BYTE;

/// The characters of an alphabet as arithmetic: from one to the next it is a step of one, and here
/// and there of more.
///
/// ```text
///   codes        0 1 … 9 10 11 …          a code's character: the first one + its code
///   characters   0 1 … 9  a  b …              + 39 from code 10 on
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps<const N: usize> {
    /// The first character, eight times.
    first: u64,
    /// Added to the codes it sets the highest bit of those that are no character's.
    beyond: u64,
    /// What sets the highest bit of the codes from which on a step is made, and how much is added
    /// to their characters.
    steps: [(u64, u64); N],
}

impl<const N: usize> Steps<N> {
    /// None if there are more steps.
    pub(super) fn of(characters: &[u8]) -> Option<Self> {
        let mut steps = [(0, 0); N];
        let mut rest = steps.iter_mut();
        for (code, pair) in (1..).zip(characters.windows(2)) {
            if pair[1] - pair[0] > 1 {
                *rest.next()? = (from(code), EACH_BYTE * u64::from(pair[1] - pair[0] - 1));
            }
        }
        Some(Self {
            first: EACH_BYTE * u64::from(characters[0]),
            beyond: from(characters.len() as u8),
            steps,
        })
    }

    /// Appends strings of so many characters from packed rows. Returns the bits that are set in
    /// any.
    #[inline(always)]
    pub(super) fn unpack<'a, const BITS: usize>(
        self,
        rows: impl Iterator<Item = &'a [u8]>,
        len: usize,
        out: &mut Vec<u8>,
    ) -> u64 {
        each::<BITS>(
            rows,
            len,
            #[inline(always)]
            |code| self.character(code),
            #[inline(always)]
            |codes| self.characters(codes),
            out,
        )
    }

    /// As [`characters`](Self::characters), of one code.
    #[inline(always)]
    fn character(&self, code: u8) -> u8 {
        let mut character = code.wrapping_add(self.first as u8);
        for (from, by) in self.steps {
            let is_above = code.wrapping_add(from as u8) >= 0x80;
            character = character.wrapping_add(if is_above { by as u8 } else { 0 });
        }
        character | (code.wrapping_add(self.beyond as u8) & 0x80)
    }

    /// The characters of eight codes, a byte each, all less than 128; 128 or more for a code that
    /// is no character's. No byte overflows: the last character is less than 128, too.
    #[inline(always)]
    fn characters(&self, codes: u64) -> u64 {
        let mut characters = codes.wrapping_add(self.first);
        for (from, by) in self.steps {
            let above = codes.wrapping_add(from) & HIGH_BITS;
            // 0xFF for each byte whose highest bit is set.
            let by = (above << 1).wrapping_sub(above >> 7) & by;
            characters = characters.wrapping_add(by);
        }
        characters | (codes.wrapping_add(self.beyond) & HIGH_BITS)
    }
}

/// What sets the highest bit of a code that is at least this one, eight times.
fn from(code: u8) -> u64 {
    EACH_BYTE * u64::from(0x80 - code)
}

/// Appends strings of so many characters from packed rows, by the character of a code, and the
/// characters of eight. Returns the bits that are set in any, and the highest one if there are any
/// behind the last character.
///
/// All is appended in arrays of a constant length, so that the strings need not be zeros first.
#[inline(always)]
pub(super) fn each<'a, const BITS: usize>(
    rows: impl Iterator<Item = &'a [u8]>,
    len: usize,
    one: impl Fn(u8) -> u8,
    eight: impl Fn(u64) -> u64,
    out: &mut Vec<u8>,
) -> u64 {
    let mut seen = [0_u64; VECTOR / TOGETHER];
    for row in rows {
        let (mut row, mut len) = (row, len);
        if BITS == 4 {
            let (pairs, _) = row.as_chunks::<{ VECTOR / 2 }>();
            let pairs = &pairs[..pairs.len().min(len / VECTOR)];
            for pairs in pairs {
                append(&halves(pairs, &one), &mut seen, out);
            }
            (row, len) = (&row[pairs.len() * VECTOR / 2..], len % VECTOR);
        }
        let (packed, last) = row.as_chunks::<BITS>();
        let (packed, behind) = packed.split_at(packed.len().min(len / TOGETHER));
        let (vectors, packed) = packed.as_chunks::<{ VECTOR / TOGETHER }>();
        for packed in vectors {
            let mut words = packed.each_ref().map(
                #[inline(always)]
                |packed| word_of(packed),
            );
            for word in &mut words {
                *word = eight(spread::<BITS>(*word));
            }
            let mut string = [0; VECTOR];
            for (group, word) in string.as_chunks_mut().0.iter_mut().zip(words) {
                *group = word.to_le_bytes();
            }
            append(&string, &mut seen, out);
        }
        for packed in packed {
            let word = eight(spread::<BITS>(word_of(packed)));
            out.extend_from_slice(&word.to_le_bytes());
            seen[0] |= word;
        }
        let rest = len % TOGETHER;
        if rest > 0 {
            // They may take as many bytes as a group.
            let last = behind.first().map_or(last, |packed| packed);
            let word = (last.iter().rev()).fold(0, |word, &byte| word << 8 | u64::from(byte));
            let unused = word >> (rest * BITS);
            let word = eight(spread::<BITS>(word));
            out.extend_from_slice(&word.to_le_bytes());
            out.truncate(out.len() - (TOGETHER - rest));
            seen[0] |= word & ((1 << (rest * 8)) - 1) | u64::from(unused != 0) << 7;
        }
    }
    seen.iter().fold(0, |all, word| all | word)
}

/// Appends characters, and notes the bits that are set in them.
#[inline(always)]
fn append(string: &[u8; VECTOR], seen: &mut [u64; VECTOR / TOGETHER], out: &mut Vec<u8>) {
    for (seen, group) in seen.iter_mut().zip(string.as_chunks().0) {
        *seen |= u64::from_le_bytes(*group);
    }
    out.extend_from_slice(string);
}

/// The characters of both halves of each byte, in vectors.
#[inline(always)]
fn halves(pairs: &[u8; VECTOR / 2], character: impl Fn(u8) -> u8) -> [u8; VECTOR] {
    let mut both = [0; VECTOR];
    for (both, pair) in both.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
        *both = [character(pair & 15), character(pair >> 4)];
    }
    both
}

/// Eight codes of so many bits as a byte each: halves are moved apart, then quarters, then eighths.
#[inline(always)]
fn spread<const BITS: usize>(word: u64) -> u64 {
    let low = |bits: usize| (1 << bits) - 1;
    let (half, quarter) = (4 * BITS, 2 * BITS);
    let word = (word & low(half)) | (((word >> half) & low(half)) << 32);
    let mask = low(quarter) * 0x0000_0001_0000_0001;
    let word = (word & mask) | (((word >> quarter) & mask) << 16);
    let mask = low(BITS) * 0x0001_0001_0001_0001;
    (word & mask) | (((word >> BITS) & mask) << 8)
}

/// Up to 8 bytes as a number.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
