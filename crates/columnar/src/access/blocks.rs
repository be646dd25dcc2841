//! Values of fixed width as they lie in a chunk: as they are, as bits, bit-packed.
//!
//! One by one they are read from their place; from the third row in a block of 1,024 on, the block
//! is decoded and kept ([`super::state`]).

use std::ops::Range;

use super::packed::{BLOCK, Place, block_bytes};
use super::reading::{Reading, outside};
use super::scalars::{Validity, required};
use super::sorted::{Patches, patched};
use super::state::{Approach, Kept, SINGLES, Slot};
use crate::source::ByteSource;

/// Two words of neighbouring rows of a packed block, and what is between them.
const WORDS_BYTES: usize = 136;
/// A block that is read whole at once, in bytes.
const SMALL_BLOCK_BYTES: usize = 256;

/// Values as they are.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) start: u64,
    pub(super) width: u8,
    pub(super) len: u32,
    pub(super) slot: usize,
    pub(super) validity: Validity,
}

/// A bitmap.
#[derive(Debug)]
pub(super) struct Bits {
    pub(super) start: u64,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) slot: usize,
    pub(super) validity: Validity,
}

/// Blocks of bit-packed values.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) start: u64,
    /// Bits of a packed value, bytes of an unpacked one.
    pub(super) bits: u8,
    pub(super) width: u8,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) slot: usize,
    pub(super) patches: Option<Patches>,
    pub(super) validity: Validity,
}

impl Plain {
    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<u64, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        let block = row / BLOCK as u32;
        let first = block * BLOCK as u32;
        let len = (self.len - first).min(BLOCK as u32) as usize * usize::from(self.width);
        match reading.slots[self.slot].approach(block, len <= SMALL_BLOCK_BYTES) {
            Approach::Kept => {}
            Approach::Single => {
                let mut bytes = [0; 8];
                let at = self.start + u64::from(row) * u64::from(self.width);
                reading
                    .source
                    .read(at, &mut bytes[..usize::from(self.width)])?;
                return Ok(u64::from_le_bytes(bytes));
            }
            Approach::Load => {
                reading.fetch(self.start + u64::from(first) * u64::from(self.width), len)?;
                let slot = &mut reading.slots[self.slot];
                slot.values.fill_plain(reading.scratch, self.width);
                slot.kept = Kept::Block(block);
            }
        }
        let value = reading.slots[self.slot].values.get((row - first) as usize);
        Ok(value.ok_or_else(|| outside("a row"))?)
    }
}

impl Bits {
    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<u64, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        // A block of bits is one of bytes: 8 times the rows, and still small.
        let at = self.offset + row;
        let block = at / 8 / BLOCK as u32;
        let first = block * BLOCK as u32;
        let len = ((self.offset + self.len).div_ceil(8) - first).min(BLOCK as u32) as usize;
        let byte = at / 8;
        let value = match reading.slots[self.slot].approach(block, len <= SMALL_BLOCK_BYTES) {
            Approach::Single => {
                let mut bytes = [0; 1];
                reading
                    .source
                    .read(self.start + u64::from(byte), &mut bytes)?;
                return Ok(u64::from(bytes[0] >> (at % 8) & 1));
            }
            Approach::Kept => reading.slots[self.slot].values.get((byte - first) as usize),
            Approach::Load => {
                reading.fetch(self.start + u64::from(first), len)?;
                let slot = &mut reading.slots[self.slot];
                slot.values.fill_plain(reading.scratch, 1);
                slot.kept = Kept::Block(block);
                slot.values.get((byte - first) as usize)
            }
        };
        Ok(value.ok_or_else(|| outside("a row"))? >> (at % 8) & 1)
    }
}

impl Packed {
    pub(super) fn block_range(&self, block: u32) -> Range<u64> {
        let len = block_bytes(self.bits.into()) as u64;
        let start = self.start + u64::from(block) * len;
        start..start + len
    }

    fn is_small(&self) -> bool {
        block_bytes(self.bits.into()) <= SMALL_BLOCK_BYTES
    }

    /// The block of a row, and the row's index there.
    fn place_of(&self, row: u32) -> (u32, usize) {
        let at = self.offset + row;
        (at / BLOCK as u32, at as usize % BLOCK)
    }

    /// Where the value of a row is read, if it is the first one of its block.
    pub(super) fn range(&self, row: u32) -> Range<u64> {
        let (block, index) = self.place_of(row);
        let range = self.block_range(block);
        if self.is_small() {
            return range;
        }
        let place = Place::of(index, self.width.into(), self.bits.into());
        let start = range.start + place.start as u64;
        start..start + place.len as u64
    }

    /// The values of a row and of the next one, which mostly lie side by side, by one read where
    /// that is so; `None`: they are better read one by one.
    pub(super) fn two<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<[u64; 2]>, S::Error> {
        let (bits, width) = (usize::from(self.bits), usize::from(self.width));
        let (block, index) = self.place_of(row);
        let is_plain = self.patches.is_none() && self.validity.is_none() && !self.is_small();
        if !is_plain || row.saturating_add(1) >= self.len || index + 1 == BLOCK {
            return Ok(None);
        }
        let places = [index, index + 1].map(|index| Place::of(index, width, bits));
        let start = places[0].start.min(places[1].start);
        let end = (places[0].start + places[0].len).max(places[1].start + places[1].len);
        let mut bytes = [0; 2 * WORDS_BYTES];
        let Some(bytes) = bytes.get_mut(..end - start) else {
            return Ok(None);
        };
        let slot = &mut reading.slots[self.slot];
        if !slot.is_single(block) {
            return Ok(None);
        }
        reading
            .source
            .read(self.block_range(block).start + start as u64, bytes)?;
        let value = |place: &Place| place.value(&bytes[place.start - start..], width, bits);
        Ok(Some([value(&places[0]), value(&places[1])]))
    }

    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<u64, S::Error> {
        self.first_of(row, 1, reading)
    }

    /// The value of a row, after which `count - 1` more rows are read.
    pub(super) fn first_of<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        count: usize,
        reading: &mut Reading<'_, S>,
    ) -> Result<u64, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        let (bits, width) = (usize::from(self.bits), usize::from(self.width));
        let (block, index) = self.place_of(row);
        let range = self.block_range(block);
        let are_many = count.min(BLOCK - index) > SINGLES.into();
        match reading.slots[self.slot].approach(block, are_many || self.is_small()) {
            Approach::Kept => {}
            Approach::Single => {
                if let Some(value) = patched(self.patches.as_ref(), row, reading)? {
                    return Ok(value);
                }
                let mut bytes = [0; WORDS_BYTES];
                let place = Place::of(index, width, bits);
                let bytes = &mut bytes[..place.len];
                reading
                    .source
                    .read(range.start + place.start as u64, bytes)?;
                return Ok(place.value(bytes, width, bits));
            }
            Approach::Load => {
                reading.fetch(range.start, block_bytes(bits))?;
                let slot = &mut reading.slots[self.slot];
                slot.kept = Kept::Nothing;
                slot.values.fill_packed(reading.scratch, self.width, bits);
                self.patch_block(block, reading)?;
                reading.slots[self.slot].kept = Kept::Block(block);
            }
        }
        let value = reading.slots[self.slot].values.get(index);
        Ok(value.ok_or_else(|| outside("a row"))?)
    }

    /// Appends the values of rows as far as the block that is kept has them; how many.
    pub(super) fn append_kept(&self, rows: Range<u32>, slots: &[Slot], out: &mut Vec<u64>) -> u32 {
        let slot = &slots[self.slot];
        let Kept::Block(block) = slot.kept else {
            return 0;
        };
        if rows.is_empty() || rows.end > self.len {
            return 0;
        }
        let at = self.offset + rows.start;
        if at / BLOCK as u32 != block {
            return 0;
        }
        let index = at as usize % BLOCK;
        let end = (index + rows.len()).min(BLOCK);
        let before = out.len();
        slot.values.append(index..end, out);
        (out.len() - before) as u32
    }

    /// Puts the exceptions among a block's rows into its unpacked values.
    fn patch_block<S: ByteSource + ?Sized>(
        &self,
        block: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<(), S::Error> {
        let Some(patches) = &self.patches else {
            return Ok(());
        };
        let first = u64::from(block) * BLOCK as u64;
        // Positions in the blocks, of rows, of numbers in the patches.
        let number = |at: u64| at.saturating_sub(self.offset.into()) + patches.at.offset;
        let mut patch = patches.at.rows.lower_bound(number(first), reading)?;
        while patch < patches.at.rows.len {
            let row = required(&patches.at.rows.values, patch, reading)?;
            let at = row
                .wrapping_sub(patches.at.offset)
                .wrapping_add(self.offset.into());
            let Some(at) = at.checked_sub(first).filter(|&at| at < BLOCK as u64) else {
                break;
            };
            let value = required(&patches.values, patch, reading)?;
            reading.slots[self.slot].values.set(at as usize, value);
            patch += 1;
        }
        Ok(())
    }
}
