//! FastLanes bit-packing (Afroozeh and Boncz, VLDB 2023), read in checked code: blocks of 1,024
//! values, of which one value or all are unpacked.
//!
//! ```text
//!   block = W rows of 128 bytes; a row is 1024/T lanes of T bits each
//!   value i: lane i % lanes, position FL_ORDER⁻¹ of i among the T values of its lane
//! ```

use crate::wide::wide;

/// Values in a block.
pub(crate) const BLOCK: usize = 1_024;

/// Bytes of one row of words in a block.
const ROW_BYTES: usize = 128;

/// Values that are unpacked at a time.
const SIXTEEN: usize = 16;

/// The order of groups of 8 positions; its own inverse.
const ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

/// A type that values are packed from.
pub(crate) trait Word: Copy + Default + Into<u64> {
    /// Its bits.
    const BITS: usize;

    /// The words of a row, by lane.
    fn lanes(row: &[u8]) -> impl Iterator<Item = Self>;

    /// Sixteen neighbouring words of a row.
    fn sixteen(row: &[u8], at: usize) -> [Self; SIXTEEN];

    /// `(low >> shift) & mask`
    fn take(self, shift: usize, mask: Self) -> Self;

    /// `(low >> shift | high << (BITS - shift)) & mask`; `shift` is not 0, and so great that the
    /// mask has more than `BITS - shift` bits.
    fn join(self, high: Self, shift: usize, mask: Self) -> Self;

    /// The lowest 32 bits.
    fn narrow(self) -> u32;

    /// The lowest `bits` bits.
    fn mask(bits: usize) -> Self;
}

macro_rules! impl_word {
    ($($ty:ty),*) => {$(
        impl Word for $ty {
            const BITS: usize = <$ty>::BITS as usize;

            #[inline(always)]
            fn lanes(row: &[u8]) -> impl Iterator<Item = Self> {
                let (words, _) = row.as_chunks::<{ size_of::<$ty>() }>();
                words.iter().map(|word| <$ty>::from_le_bytes(*word))
            }

            #[inline(always)]
            fn sixteen(row: &[u8], at: usize) -> [Self; SIXTEEN] {
                let (words, _) = row.as_chunks::<{ size_of::<$ty>() }>();
                let words = &words[at * SIXTEEN..(at + 1) * SIXTEEN];
                sixteen_of(
                    #[inline(always)]
                    |lane| <$ty>::from_le_bytes(words[lane]),
                )
            }

            #[inline(always)]
            fn take(self, shift: usize, mask: Self) -> Self {
                (self >> shift) & mask
            }

            #[inline(always)]
            fn join(self, high: Self, shift: usize, mask: Self) -> Self {
                // The lower part has no bits beyond the mask. Masking the upper one alone keeps the
                // compiler from a funnel shift, which it does not vectorize.
                self >> shift | (high << (Self::BITS as usize - shift)) & mask
            }

            #[inline(always)]
            fn narrow(self) -> u32 {
                self as u32
            }

            fn mask(bits: usize) -> Self {
                match bits {
                    0 => 0,
                    bits => <$ty>::MAX >> (Self::BITS as usize - bits),
                }
            }
        }
    )*};
}

impl_word!(u8, u16, u32, u64);

/// Sixteen values. `std::array::from_fn` does the same, but is not always inlined, and what is not
/// inlined is not compiled for wide vectors.
#[inline(always)]
fn sixteen_of<T: Copy + Default>(value: impl Fn(usize) -> T) -> [T; SIXTEEN] {
    let mut values = [T::default(); SIXTEEN];
    for (lane, out) in values.iter_mut().enumerate() {
        *out = value(lane);
    }
    values
}

/// Bytes of a block of values packed to `bits` bits.
pub(crate) fn block_bytes(bits: usize) -> usize {
    ROW_BYTES * bits
}

/// Unpacks a block. `packed` has [`block_bytes`] bytes, `out` has [`BLOCK`] values, and `bits`
/// is at most the word's.
pub(crate) fn unpack<W: Word>(packed: &[u8], bits: usize, out: &mut [W]) {
    assert!(packed.len() == block_bytes(bits) && out.len() == BLOCK && bits <= W::BITS);
    if bits == 0 {
        out.fill(W::default());
        return;
    }
    let mask = W::mask(bits);
    let lanes = BLOCK / W::BITS;
    for position in 0..W::BITS {
        let (word, shift) = (position * bits / W::BITS, position * bits % W::BITS);
        let start = ORDER[position / 8] * 16 + position % 8 * 128;
        let out = &mut out[start..start + lanes];
        let low = &packed[word * ROW_BYTES..(word + 1) * ROW_BYTES];
        if shift + bits <= W::BITS {
            for (out, low) in out.iter_mut().zip(W::lanes(low)) {
                *out = low.take(shift, mask);
            }
        } else {
            let high = &packed[(word + 1) * ROW_BYTES..(word + 2) * ROW_BYTES];
            for ((out, low), high) in out.iter_mut().zip(W::lanes(low)).zip(W::lanes(high)) {
                *out = low.join(high, shift, mask);
            }
        }
    }
}

/// Unpacks a block into 32 bits. `bits` is at most 32 and the word's.
pub(crate) fn unpack_narrow<W: Word>(packed: &[u8], bits: usize, out: &mut [u32; BLOCK]) {
    wide(
        #[inline(always)]
        move || unpack_narrow_plainly::<W>(packed, bits, out),
    );
}

/// Sixteen values are computed before any is stored, so that the compiler need not know that the
/// bytes are not those of the values.
#[inline(always)]
fn unpack_narrow_plainly<W: Word>(packed: &[u8], bits: usize, out: &mut [u32; BLOCK]) {
    assert!(packed.len() == block_bytes(bits) && bits <= W::BITS);
    if bits == 0 {
        out.fill(0);
        return;
    }
    let mask = W::mask(bits);
    let lanes = BLOCK / W::BITS;
    for position in 0..W::BITS {
        let (word, shift) = (position * bits / W::BITS, position * bits % W::BITS);
        let start = ORDER[position / 8] * 16 + position % 8 * 128;
        let (out, _) = out[start..start + lanes].as_chunks_mut::<SIXTEEN>();
        let low = &packed[word * ROW_BYTES..(word + 1) * ROW_BYTES];
        if shift + bits <= W::BITS {
            for (at, out) in out.iter_mut().enumerate() {
                let low = W::sixteen(low, at);
                *out = sixteen_of(
                    #[inline(always)]
                    |lane| low[lane].take(shift, mask).narrow(),
                );
            }
        } else {
            let high = &packed[(word + 1) * ROW_BYTES..(word + 2) * ROW_BYTES];
            for (at, out) in out.iter_mut().enumerate() {
                let (low, high) = (W::sixteen(low, at), W::sixteen(high, at));
                *out = sixteen_of(
                    #[inline(always)]
                    |lane| low[lane].join(high[lane], shift, mask).narrow(),
                );
            }
        }
    }
}

/// Where the bits of one value of a block lie.
pub(crate) struct Place {
    /// First byte of the first word.
    pub(crate) start: usize,
    /// Bits of the first word below the value.
    shift: usize,
    /// Bytes to read: a word, or two words of neighbouring rows and what is between them.
    pub(crate) len: usize,
}

impl Place {
    /// The place of value `index` of a block of words of `width` bytes, packed to `bits`, which
    /// is at least 1.
    pub(crate) fn of(index: usize, width: usize, bits: usize) -> Self {
        // A word's bits are a power of two, so that a shift divides by them: a division takes
        // longer than all else here.
        let word_bits = 8 * width;
        let log = word_bits.trailing_zeros();
        let lane = index & ((BLOCK >> log) - 1);
        let position = ORDER[index % 128 / 16 - lane / 16] * 8 + index / 128;
        let (word, shift) = (
            (position * bits) >> log,
            (position * bits) & (word_bits - 1),
        );
        Self {
            start: word * ROW_BYTES + lane * width,
            shift,
            len: match shift + bits <= word_bits {
                true => width,
                false => ROW_BYTES + width,
            },
        }
    }

    /// How many values from `index` on lie side by side, at the same bits of words that follow each
    /// other, and the bytes to read for `most` of them: from the place of the first.
    pub(crate) fn beside(&self, index: usize, width: usize, most: usize) -> (usize, usize) {
        let lanes = BLOCK / (8 * width);
        let count = most.min(lanes - index % lanes);
        (count, self.len + count.saturating_sub(1) * width)
    }

    /// Appends values that lie [beside](Self::beside) each other, of the bytes from the first one's
    /// place on.
    pub(crate) fn append(&self, bytes: &[u8], width: usize, bits: usize, out: &mut Vec<u64>) {
        match width {
            1 => self.append_words::<u8>(bytes, bits, out),
            2 => self.append_words::<u16>(bytes, bits, out),
            4 => self.append_words::<u32>(bytes, bits, out),
            _ => self.append_words::<u64>(bytes, bits, out),
        }
    }

    #[inline]
    fn append_words<W: Word>(&self, bytes: &[u8], bits: usize, out: &mut Vec<u64>) {
        let mask = W::mask(bits);
        if self.len == W::BITS / 8 {
            out.extend(W::lanes(bytes).map(|low| low.take(self.shift, mask).into()));
        } else {
            let both = W::lanes(bytes).zip(W::lanes(&bytes[ROW_BYTES..]));
            out.extend(both.map(|(low, high)| low.join(high, self.shift, mask).into()));
        }
    }

    /// The value, of the bytes at the place.
    pub(crate) fn value(&self, bytes: &[u8], width: usize, bits: usize) -> u64 {
        let word = |bytes: &[u8]| {
            let mut wide = [0; 8];
            wide[..width].copy_from_slice(&bytes[..width]);
            u64::from_le_bytes(wide)
        };
        let mut value = word(bytes) >> self.shift;
        if self.len > width {
            value |= word(&bytes[ROW_BYTES..]) << (8 * width - self.shift);
        }
        value & u64::mask(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs as FastLanes does, plainly.
    fn pack<W: Word>(values: &[u64], bits: usize) -> Vec<u8> {
        let mut packed = vec![0u8; block_bytes(bits)];
        let lanes = BLOCK / W::BITS;
        for position in 0..W::BITS {
            for lane in 0..lanes {
                let value = values[ORDER[position / 8] * 16 + position % 8 * 128 + lane];
                for bit in 0..bits {
                    let at = position * bits + bit;
                    let (word, place) = (at / W::BITS, at % W::BITS);
                    let byte = word * ROW_BYTES + lane * (W::BITS / 8) + place / 8;
                    packed[byte] |= ((value >> bit & 1) as u8) << (place % 8);
                }
            }
        }
        packed
    }

    fn check<W: Word>() {
        for bits in 0..=W::BITS {
            let values: Vec<u64> = (0..BLOCK as u64)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & u64::mask(bits))
                .collect();
            let packed = pack::<W>(&values, bits);
            let mut unpacked = vec![W::default(); BLOCK];
            unpack(&packed, bits, &mut unpacked);
            let mut narrow = [u32::MAX; BLOCK];
            unpack_narrow::<W>(&packed, bits, &mut narrow);
            for (index, &value) in values.iter().enumerate() {
                assert_eq!(unpacked[index].into(), value, "{bits} bits, value {index}");
                if bits <= 32 {
                    assert_eq!(
                        u64::from(narrow[index]),
                        value,
                        "{bits} bits, value {index}"
                    );
                }
                if bits > 0 {
                    let width = W::BITS / 8;
                    let place = Place::of(index, width, bits);
                    let bytes = &packed[place.start..place.start + place.len];
                    assert_eq!(place.value(bytes, width, bits), value);
                    for most in [1, 2, 7, BLOCK] {
                        let (count, len) = place.beside(index, width, most);
                        let mut few = Vec::new();
                        let bytes = &packed[place.start..place.start + len];
                        place.append(bytes, width, bits, &mut few);
                        assert_eq!(few, values[index..index + count], "{bits} bits at {index}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_width_unpacks_as_a_block_and_one_by_one() {
        check::<u8>();
        check::<u16>();
        check::<u32>();
        check::<u64>();
    }
}
