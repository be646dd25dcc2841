//! Blocks of bit-packed words, and words that are put together from two such columns.

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
pub(super) struct Blocks {
    bytes: ByteBuffer,
    pub(super) bits: usize,
    /// Bytes of a word before it is packed.
    width: usize,
}

impl Blocks {
    /// The words of an array of words of `width` bytes; `None` if it is stored in another way, or
    /// with too many bits.
    pub(super) fn of_array(array: &ArrayRef, width: usize) -> Result<Option<Self>, ColumnarError> {
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

    pub(super) fn unpack(&self, block: usize, words: &mut [u32; BLOCK]) {
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

    pub(super) fn unpack(&self, block: usize, codes: &mut [u32; BLOCK]) {
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
                for (code, number) in codes.iter_mut().zip(&numbers) {
                    *code |= words[*number as usize % UPPER_WORDS];
                }
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
