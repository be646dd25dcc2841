//! Blocks of bit-packed words, and words that are put together from two such columns.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u32x8};
use vortex_array::ArrayRef;
use vortex_array::dtype::PType;
use vortex_buffer::ByteBuffer;
use vortex_fastlanes::{BitPacked, BitPackedArrayExt, BitWidthsView};

use super::MOST_BITS;
use crate::access::packed::{self, BLOCK};
use crate::codec;
use crate::error::ColumnarError;

/// The upper parts of split floats: as many words as three bits can name.
pub(super) const UPPER_WORDS: usize = 8;

/// Bit-packed words, all of one width, without a thought for exceptions.
#[derive(Debug)]
pub(crate) struct Blocks {
    bytes: ByteBuffer,
    pub(super) bits: usize,
    /// Bytes of a word before it is packed.
    width: usize,
}

impl Blocks {
    /// The words of an array of words of `width` bytes; `None` if it is stored in another way, or
    /// with too many bits.
    pub(crate) fn of_array(array: &ArrayRef, width: usize) -> Result<Option<Self>, ColumnarError> {
        let Some(packed) = array.as_opt::<BitPacked>() else {
            return Ok(None);
        };
        let BitWidthsView::Global(bits) = packed.bit_widths() else {
            return Ok(None);
        };
        let bits = usize::from(bits);
        let has_width =
            PType::try_from(array.dtype()).is_ok_and(|ptype| ptype.byte_width() == width);
        if !has_width || packed.offset() != 0 || bits > MOST_BITS.min(8 * width) {
            return Ok(None);
        }
        let bytes = codec::guarded(|| packed.packed().try_to_host_sync())?;
        let needed = array.len().div_ceil(BLOCK) * packed::block_bytes(bits);
        Ok((bytes.len() >= needed).then_some(Self { bytes, bits, width }))
    }

    /// The bytes of a block; `of_array` made sure that every block of the array is there.
    pub(super) fn bytes(&self, block: usize) -> &[u8] {
        let len = packed::block_bytes(self.bits);
        &self.bytes.as_slice()[block * len..(block + 1) * len]
    }

    pub(crate) fn unpack(&self, block: usize, words: &mut [u32; BLOCK]) {
        let bytes = self.bytes(block);
        match self.width {
            2 => packed::unpack_narrow::<u16>(bytes, self.bits, words),
            4 => packed::unpack_narrow::<u32>(bytes, self.bits, words),
            _ => packed::unpack_narrow::<u64>(bytes, self.bits, words),
        }
    }

    pub(super) fn get(&self, row: usize) -> u32 {
        if self.bits == 0 {
            return 0;
        }
        let place = packed::Place::of(row % BLOCK, self.width, self.bits);
        let bytes = &self.bytes(row / BLOCK)[place.start..place.start + place.len];
        place.value(bytes, self.width, self.bits) as u32
    }
}

/// Adds the upper part of each code, whose number is less than [`UPPER_WORDS`].
#[inline(always)]
fn add_upper<S: Simd>(
    simd: S,
    codes: &mut [u32; BLOCK],
    numbers: &[u32; BLOCK],
    words: &[u32; UPPER_WORDS],
) {
    let words: u32x8<S> = (*words).simd_into(simd);
    let (codes, _) = codes.as_chunks_mut::<UPPER_WORDS>();
    let (numbers, _) = numbers.as_chunks::<UPPER_WORDS>();
    for (codes, numbers) in codes.iter_mut().zip(numbers) {
        let numbers: u32x8<S> = (*numbers).simd_into(simd);
        // Where the four bytes of each word are, the least significant first.
        let fours = u32x8::splat(simd, 0x0404_0404);
        let places = numbers * fours + u32x8::splat(simd, 0x0302_0100);
        let lower: u32x8<S> = (*codes).simd_into(simd);
        (lower | words.swizzle_dyn(places.to_bytes())).store_array(codes);
    }
}

/// Where the codes of rows are.
#[derive(Debug)]
pub(super) enum Codes {
    Packed(Blocks),
    /// The bits of floats: the lower ones as they are, the upper ones as the number of a word.
    Split {
        lower: Blocks,
        upper: Blocks,
        words: [u32; UPPER_WORDS],
    },
}

impl Codes {
    /// Bits of a code.
    pub(super) fn bits(&self) -> usize {
        match self {
            Self::Packed(blocks) => blocks.bits,
            Self::Split { .. } => MOST_BITS,
        }
    }

    pub(crate) fn unpack(&self, block: usize, codes: &mut [u32; BLOCK]) {
        match self {
            Self::Packed(blocks) => blocks.unpack(block, codes),
            Self::Split {
                lower,
                upper,
                words,
            } => {
                let mut numbers = [0; BLOCK];
                lower.unpack(block, codes);
                upper.unpack(block, &mut numbers);
                dispatch!(Level::new(), simd => add_upper(simd, codes, &numbers, words));
            }
        }
    }

    /// The code of a row, which is checked by the caller.
    pub(super) fn get(&self, row: usize) -> u32 {
        match self {
            Self::Packed(blocks) => blocks.get(row),
            Self::Split {
                lower,
                upper,
                words,
            } => lower.get(row) | words[upper.get(row) as usize % UPPER_WORDS],
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::wide::levels;

    #[test]
    fn upper_parts_are_added_at_every_level() {
        let numbers = std::array::from_fn(|at| (at as u32 * 7_919) >> 4 & 7);
        let words = std::array::from_fn(|at| (at as u32 + 100) << 23);
        for level in levels() {
            let mut codes = std::array::from_fn(|at| at as u32);
            dispatch!(level, simd => add_upper(simd, &mut codes, &numbers, &words));
            for (at, code) in codes.iter().enumerate() {
                assert_eq!(*code, at as u32 | words[numbers[at] as usize], "{level:?}");
            }
        }
    }
}
