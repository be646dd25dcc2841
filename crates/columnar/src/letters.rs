//! `howdah.letters`: strings of one length made of few different characters, as digests, codes and
//! numbers written as text are. Each character is packed to a few bits.
//!
//! ```text
//!   metadata: length of a string, alphabet      child: validity, if rows may be null (bool)
//!   part 0:   ├─ row 0 ─┼─ row 1 ─┼─ …          each of the same number of bytes
//! ```
//!
//! A row's place follows from its number alone, so that reading it costs one place instead of those
//! of its offsets and its bytes. A null has the space of a row, filled with zeros.
//!
//! Characters are ASCII, so that decoded text is UTF-8 by itself. A code that is no character's is
//! decoded as a byte that is none of ASCII's, and found so: damage never gives a wrong string. Bits
//! behind the last character are found likewise, also where packed strings are compared.

mod unpack;

use std::ops::Range;

use arrow_array::BinaryViewArray;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use vortex_array::ArrayRef;
use vortex_array::validity::Validity;
use vortex_buffer::ByteBuffer;

use unpack::{HIGH_BITS, Steps, TOGETHER, each};

use crate::builder::BytesBuilder;
use crate::byte_views::{built, nulls_of_range, view_of};
use crate::codec;
use crate::error::ColumnarError;
use crate::layout::wire::{Reader, ensure, put_varint};
use crate::nodes::NodeRef;
use crate::wide::wide;

/// The most characters of an alphabet: all of ASCII.
const MOST_CHARACTERS: usize = 128;
/// The longest string.
const MOST_LEN: usize = 1 << 16;
/// What stands for codes without a character.
const NO_CHARACTER: u8 = 0xFF;
/// The most steps of an alphabet whose characters are computed: `A-Za-z0-9+/` has four.
const MOST_STEPS: usize = 4;

/// The length of the strings of a column, and the characters that they are made of.
#[derive(Clone, Debug)]
pub(crate) struct Alphabet {
    len: usize,
    /// The bits of a character, 1 to 7.
    bits: usize,
    /// The bytes that a row is packed to.
    row_bytes: usize,
    /// The character of each code.
    characters: Box<[u8; MOST_CHARACTERS]>,
    count: usize,
    way: Way,
}

/// How codes become characters.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// As of decimal and hexadecimal digits.
    One(Steps<1>),
    Few(Steps<MOST_STEPS>),
    Table,
}

impl Alphabet {
    /// `characters` ascend.
    fn new(len: usize, characters: &[u8]) -> Result<Self, ColumnarError> {
        ensure(
            (1..=MOST_LEN).contains(&len)
                && (1..=MOST_CHARACTERS).contains(&characters.len())
                && characters.is_ascii()
                && characters.is_sorted_by(|a, b| a < b),
            "an alphabet is wrong",
        )?;
        let mut table = Box::new([NO_CHARACTER; MOST_CHARACTERS]);
        table[..characters.len()].copy_from_slice(characters);
        let bits = characters.len().next_power_of_two().trailing_zeros() as usize;
        let one = Steps::of(characters).map(Way::One);
        let way = one.or_else(|| Steps::of(characters).map(Way::Few));
        let bits = bits.max(1);
        Ok(Self {
            len,
            bits,
            row_bytes: (len * bits).div_ceil(8),
            characters: table,
            count: characters.len(),
            way: way.unwrap_or(Way::Table),
        })
    }

    /// Of a node, from its metadata.
    pub(crate) fn parse(metadata: &[u8]) -> Result<Self, ColumnarError> {
        let mut metadata = Reader::new(metadata);
        let len = metadata.count()? as usize;
        let count = metadata.count()? as usize;
        let characters = metadata.take(count)?;
        metadata.finish()?;
        Self::new(len, characters)
    }

    /// That of the rows which are not null, if all of them have one length and are ASCII.
    pub(crate) fn of(rows: &BytesBuilder) -> Option<Self> {
        let valid = rows.validity.words();
        let is_valid =
            |row: usize| valid.is_none_or(|words| words[row / 64] >> (row % 64) & 1 == 1);
        let (mut start, mut len) = (0, None);
        for (row, &end) in rows.ends.iter().enumerate() {
            if is_valid(row) && *len.get_or_insert(end - start) != end - start
                || !is_valid(row) && end > start
            {
                return None;
            }
            start = end;
        }
        if !rows.data.is_ascii() {
            return None;
        }
        let mut found = [false; MOST_CHARACTERS];
        for &byte in &rows.data {
            found[usize::from(byte)] = true;
        }
        let characters: Vec<u8> = (0..MOST_CHARACTERS as u8)
            .filter(|&byte| found[usize::from(byte)])
            .collect();
        Self::new(len?, &characters).ok()
    }

    pub(crate) fn metadata(&self) -> Vec<u8> {
        let mut metadata = Vec::new();
        put_varint(&mut metadata, self.len as u64);
        put_varint(&mut metadata, self.count as u64);
        metadata.extend_from_slice(&self.characters[..self.count]);
        metadata
    }

    /// The length of every string, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes that a row is packed to.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Appends the strings of rows that are packed end to end.
    pub(crate) fn unpack(&self, packed: &[u8], out: &mut Vec<u8>) -> Result<(), ColumnarError> {
        self.unpack_part(packed, &(0..self.len), out)
    }

    /// The least part of a string that has these characters and is packed to whole bytes.
    fn part_with(&self, characters: &Range<usize>) -> Range<usize> {
        let start = characters.start / TOGETHER * TOGETHER;
        start..self.len.min(characters.end.next_multiple_of(TOGETHER))
    }

    /// Appends a [part](Self::part_with), not empty, of the string of each row.
    fn unpack_part(
        &self,
        packed: &[u8],
        part: &Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), ColumnarError> {
        // Mostly it is one.
        let rows = match packed.len() == self.row_bytes {
            true => 1,
            false => packed.len() / self.row_bytes,
        };
        out.reserve(rows * part.len() + TOGETHER);
        let seen = match self.bits {
            1 => self.unpack_rows::<1>(packed, part, out),
            2 => self.unpack_rows::<2>(packed, part, out),
            3 => self.unpack_rows::<3>(packed, part, out),
            4 => self.unpack_rows::<4>(packed, part, out),
            5 => self.unpack_rows::<5>(packed, part, out),
            6 => self.unpack_rows::<6>(packed, part, out),
            _ => self.unpack_rows::<7>(packed, part, out),
        };
        ensure(seen & HIGH_BITS == 0, "a code is no character's")
    }

    /// The bits of the last byte of a row that no character has.
    fn unused_bits(&self) -> u8 {
        !(u8::MAX >> ((8 - self.len * self.bits % 8) % 8))
    }

    /// Appends a part of rows of characters of so many bits. Returns the bits that are set in any
    /// string.
    fn unpack_rows<const BITS: usize>(
        &self,
        packed: &[u8],
        part: &Range<usize>,
        out: &mut Vec<u8>,
    ) -> u64 {
        let bytes = part.start * BITS / 8..(part.end * BITS).div_ceil(8);
        let (row_bytes, len) = (self.row_bytes, part.len());
        let mut rest = packed;
        // Without a division, as `chunks_exact` has it: mostly it is one row.
        let rows = std::iter::from_fn(move || {
            let (row, others) = rest.split_at_checked(row_bytes)?;
            rest = others;
            row.get(bytes.clone())
        });
        match self.way {
            Way::One(steps) => wide(
                #[inline(always)]
                move || steps.unpack::<BITS>(rows, len, out),
            ),
            Way::Few(steps) => wide(
                #[inline(always)]
                move || steps.unpack::<BITS>(rows, len, out),
            ),
            Way::Table => {
                let one = |code: u8| self.characters[usize::from(code)];
                let eight = |codes: u64| u64::from_le_bytes(codes.to_le_bytes().map(one));
                each::<BITS>(rows, len, one, eight, out)
            }
        }
    }

    /// The code of each character; that of others is no code.
    fn codes(&self) -> [u8; MOST_CHARACTERS] {
        let mut codes = [NO_CHARACTER; MOST_CHARACTERS];
        for (code, &character) in self.characters[..self.count].iter().enumerate() {
            codes[usize::from(character)] = code as u8;
        }
        codes
    }

    /// A string as it is packed, if it can be that of a row.
    fn packed(&self, string: &[u8]) -> Option<Vec<u8>> {
        let codes = self.codes();
        let is_known = |&byte: &u8| {
            let code = codes.get(usize::from(byte));
            code.is_some_and(|&code| code != NO_CHARACTER)
        };
        if string.len() != self.len || !string.iter().all(is_known) {
            return None;
        }
        let mut packed = Vec::with_capacity(self.row_bytes());
        self.pack(&codes, string, &mut packed);
        Some(packed)
    }

    /// Appends a string, packed.
    fn pack(&self, codes: &[u8; MOST_CHARACTERS], string: &[u8], out: &mut Vec<u8>) {
        for group in string.chunks(TOGETHER) {
            let mut word = 0;
            for (at, &character) in group.iter().enumerate() {
                word |= u64::from(codes[usize::from(character)]) << (at * self.bits);
            }
            let len = (group.len() * self.bits).div_ceil(8);
            out.extend_from_slice(&word.to_le_bytes()[..len]);
        }
    }
}

/// Rows to be stored.
pub(crate) struct NewLetters {
    pub(crate) alphabet: Alphabet,
    pub(crate) data: Vec<u8>,
}

impl NewLetters {
    /// Packs the rows from which the alphabet is.
    pub(crate) fn pack(rows: &BytesBuilder, alphabet: Alphabet) -> Self {
        let row_bytes = alphabet.row_bytes();
        let stored_bytes = rows.ends.len() * row_bytes;
        let codes = alphabet.codes();
        let (mut data, mut start) = (Vec::with_capacity(stored_bytes), 0);
        for &end in &rows.ends {
            match end > start {
                true => alphabet.pack(&codes, &rows.data[start..end], &mut data),
                false => data.resize(data.len() + row_bytes, 0),
            }
            start = end;
        }
        Self { alphabet, data }
    }
}

/// The letters of an open chunk.
#[derive(Debug)]
pub(crate) struct Letters {
    alphabet: Alphabet,
    data: ByteBuffer,
    validity: Option<ArrayRef>,
    row_count: usize,
}

impl Letters {
    pub(crate) fn open(
        node: NodeRef<'_>,
        bytes: &ByteBuffer,
        row_count: usize,
    ) -> Result<Self, ColumnarError> {
        let alphabet = Alphabet::parse(node.metadata())?;
        let [part] = node.parts() else {
            return Err(ColumnarError::corrupt("letters lack a part"));
        };
        let range = part.start as usize..part.end as usize;
        ensure(
            range.end <= bytes.len() && range.len() == row_count * alphabet.row_bytes(),
            "letters do not fill their chunk",
        )?;
        let validity = match node.child(0) {
            None => None,
            Some(child) => Some(codec::rebuild(
                child,
                bytes,
                0,
                &Validity::DTYPE,
                row_count,
            )?),
        };
        Ok(Self {
            alphabet,
            data: bytes.slice_unaligned(range),
            validity,
            row_count,
        })
    }

    /// Which rows of a range are valid; `None`: all.
    fn nulls(&self, rows: Range<usize>) -> Result<Option<NullBuffer>, ColumnarError> {
        nulls_of_range(self.validity.as_ref(), rows)
    }

    /// Which rows of a range are valid.
    pub(crate) fn valid_rows(&self, rows: Range<usize>) -> Result<BooleanBuffer, ColumnarError> {
        let len = rows.len();
        let nulls = self.nulls(rows)?;
        Ok(nulls.map_or_else(|| BooleanBuffer::new_set(len), NullBuffer::into_inner))
    }

    /// Which rows of a range have this string.
    pub(crate) fn equal(
        &self,
        rows: Range<usize>,
        string: &[u8],
    ) -> Result<BooleanBuffer, ColumnarError> {
        let Some(wanted) = self.alphabet.packed(string) else {
            return Ok(BooleanBuffer::new_unset(rows.len()));
        };
        let data = self.data.as_slice();
        let mut last_bytes = 0;
        let equal = BooleanBuffer::collect_bool(rows.len(), |at| {
            let start = (rows.start + at) * wanted.len();
            let row = &data[start..start + wanted.len()];
            last_bytes |= row[row.len() - 1];
            row == &wanted[..]
        });
        // A row that has any would differ from the string that it has.
        let unused = last_bytes & self.alphabet.unused_bits();
        ensure(unused == 0, "a row has bits behind its last character")?;
        Ok(match self.nulls(rows)? {
            None => equal,
            Some(nulls) => &equal & nulls.inner(),
        })
    }

    /// Decodes a range of rows.
    pub(crate) fn decode(&self, rows: Range<usize>) -> Result<BinaryViewArray, ColumnarError> {
        self.decode_characters(rows, 0..self.alphabet.len())
    }

    /// The length of every string, in bytes.
    pub(crate) fn string_len(&self) -> usize {
        self.alphabet.len()
    }

    /// Decodes, of a range of rows, the characters in a range, which is not empty.
    pub(crate) fn decode_characters(
        &self,
        rows: Range<usize>,
        characters: Range<usize>,
    ) -> Result<BinaryViewArray, ColumnarError> {
        let nulls = self.nulls(rows.clone())?;
        let row_bytes = self.alphabet.row_bytes();
        let packed = &self.data.as_slice()[rows.start * row_bytes..rows.end * row_bytes];
        self.built(packed, rows.len(), characters, nulls)
    }

    /// Decodes the rows with these ascending indexes.
    pub(crate) fn take(&self, rows: &[u32]) -> Result<BinaryViewArray, ColumnarError> {
        let nulls = self.nulls(0..self.row_count)?.map(|nulls| {
            let is_valid = |at: usize| nulls.is_valid(rows[at] as usize);
            NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), is_valid))
        });
        let row_bytes = self.alphabet.row_bytes();
        let mut packed = Vec::with_capacity(rows.len() * row_bytes);
        for &row in rows {
            let start = row as usize * row_bytes;
            packed.extend_from_slice(&self.data.as_slice()[start..start + row_bytes]);
        }
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        self.built(&packed, rows.len(), 0..self.alphabet.len(), nulls)
    }

    fn built(
        &self,
        packed: &[u8],
        row_count: usize,
        characters: Range<usize>,
        nulls: Option<NullBuffer>,
    ) -> Result<BinaryViewArray, ColumnarError> {
        let part = self.alphabet.part_with(&characters);
        let len = part.len();
        ensure(row_count * len <= i32::MAX as usize, "a chunk is too long")?;
        let mut bytes = Vec::with_capacity(row_count * len);
        self.alphabet.unpack_part(packed, &part, &mut bytes)?;
        let string = characters.start - part.start..characters.end - part.start;
        let views = bytes.chunks_exact(len).enumerate();
        let views = views
            .map(|(row, part)| view_of(&part[string.clone()], (row * len + string.start) as u32));
        let views = views.collect();
        built(views, bytes, nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(strings: &[&str]) -> BytesBuilder {
        let mut rows = BytesBuilder::default();
        for string in strings {
            rows.data.extend_from_slice(string.as_bytes());
            rows.ends.push(rows.data.len());
            rows.validity.push_valid();
        }
        rows
    }

    #[test]
    fn packed_strings_of_every_length_and_alphabet_are_unpacked_again() {
        for count in 1..=MOST_CHARACTERS {
            let characters: Vec<u8> = (0..count as u8).rev().collect();
            for len in 1..=33 {
                let string = |first: usize| -> String {
                    let at = |nth: usize| characters[(first + nth * 7) % count];
                    (0..len).map(|nth| char::from(at(nth))).collect()
                };
                let strings: Vec<String> = (0..5 + count).map(string).collect();
                let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
                let rows = rows(&strings);
                let new = NewLetters::pack(&rows, Alphabet::of(&rows).expect("packs"));
                let alphabet = Alphabet::parse(&new.alphabet.metadata()).expect("parses");
                assert_eq!(new.data.len(), strings.len() * alphabet.row_bytes());
                let mut bytes = Vec::new();
                alphabet.unpack(&new.data, &mut bytes).expect("unpacks");
                assert_eq!(bytes, strings.concat().as_bytes(), "{count} {len}");
                for characters in [0..1, 0..len, len / 2..len, len / 3..len / 3 + 1] {
                    let part = alphabet.part_with(&characters);
                    assert!(part.start <= characters.start && characters.end <= part.end);
                    let mut bytes = Vec::new();
                    let unpacked = alphabet.unpack_part(&new.data, &part, &mut bytes);
                    unpacked.expect("unpacks");
                    let parts = strings.iter().map(|string| &string[part.clone()]);
                    let parts: Vec<&str> = parts.collect();
                    assert_eq!(bytes, parts.concat().as_bytes(), "{count} {len} {part:?}");
                }
            }
        }
    }

    #[test]
    fn characters_are_those_of_their_alphabet_whichever_way_they_are_made() {
        let base64: Vec<u8> = (0..128)
            .filter(|c: &u8| c.is_ascii_alphanumeric() || b"+/".contains(c))
            .collect();
        let scattered: Vec<u8> = (0..128).step_by(3).collect();
        let ends = [0, 1, 126, 127];
        let of = |way: &Way| match way {
            Way::One(_) => "one",
            Way::Few(_) => "few",
            Way::Table => "table",
        };
        for (characters, way) in [
            (&b"7"[..], "one"),
            (b"0123456789", "one"),
            (b"0123456789abcdef", "one"),
            (b"-0123456789abcdef", "few"),
            (&ends, "one"),
            (&base64, "few"),
            (&scattered, "table"),
        ] {
            for len in [1, 7, 8, 9, 40, 41, 64, 100, 120] {
                let alphabet = Alphabet::new(len, characters).expect("is right");
                assert_eq!(of(&alphabet.way), way);
                let mut stored = vec![0; alphabet.row_bytes() * 256];
                let mut rows = stored.chunks_exact_mut(alphabet.row_bytes());
                for code in 0..=u8::MAX {
                    let row = rows.next().expect("one for each");
                    let codes = (0..len).map(|nth| usize::from(code) + 3 * nth);
                    for (nth, code) in codes.enumerate() {
                        let code = code % (1 << alphabet.bits);
                        let at = nth / TOGETHER * TOGETHER * alphabet.bits
                            + nth % TOGETHER * alphabet.bits;
                        for bit in (0..alphabet.bits).filter(|bit| code >> bit & 1 == 1) {
                            row[(at + bit) / 8] |= 1 << ((at + bit) % 8);
                        }
                    }
                    let mut out = b"before".to_vec();
                    let unpacked = alphabet.unpack(row, &mut out);
                    let codes = (0..len).map(|nth| usize::from(code) + 3 * nth);
                    let string: Option<Vec<u8>> = codes
                        .map(|code| characters.get(code % (1 << alphabet.bits)).copied())
                        .collect();
                    assert_eq!(unpacked.is_ok(), string.is_some(), "{characters:?} {code}");
                    if let Some(string) = string {
                        assert_eq!(out, [&b"before"[..], &string].concat());
                    }
                }
            }
        }
    }

    #[test]
    fn other_strings_are_not_packed() {
        assert!(Alphabet::of(&rows(&["abc", "ab"])).is_none());
        assert!(Alphabet::of(&rows(&["abc", "abé"])).is_none());
        assert!(Alphabet::of(&rows(&["", ""])).is_none());
        assert!(Alphabet::of(&rows(&["abc", "abd"])).is_some());
    }

    #[test]
    fn codes_of_no_character_are_damage() {
        let alphabet = Alphabet::new(3, b"abc").expect("is right");
        let mut out = Vec::new();
        assert!(alphabet.unpack(&[0b00_10_01_00], &mut out).is_ok());
        assert_eq!(out, b"abc");
        assert!(alphabet.unpack(&[0b00_11_01_00], &mut out).is_err());
        for (len, characters) in [
            (0, &b"a"[..]),
            (3, b""),
            (3, b"ba"),
            (3, b"aa"),
            (3, b"\xE9"),
        ] {
            assert!(Alphabet::new(len, characters).is_err());
        }
    }
}
