//! Values of fixed width as they lie in a chunk: as they are, as bits, bit-packed.
//!
//! One by one they are read from their place; from the fifth row in a block of 1,024 on, the block
//! is decoded and kept ([`super::state`]).

use std::ops::Range;

use super::packed::{BLOCK, Place, Word, block_bytes};
use super::patches::null;
use super::reading::{Reading, outside};
use super::scalars::Validity;
use super::sorted::{Patches, patched};
use super::state::{Approach, Kept, SINGLES, Slot};
use crate::source::ByteSource;

/// Two words of neighbouring rows of a packed block, and what is between them.
const WORDS_BYTES: usize = 136;
/// A block that is read whole at once, in bytes.
const SMALL_BLOCK_BYTES: usize = 256;
/// The most reads of values side by side that spare reading their block.
const FEW_READS: usize = 4;
/// Values side by side, of a whole row of words, and as many words of the next row.
const BESIDE_BYTES: usize = 256;
/// Plain values that are read without their block, in bytes.
const FEW_BYTES: usize = 512;
const FEW_BIT_BYTES: usize = 16;

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
    /// Values of a block that are read one by one before it is loaded.
    pub(super) singles: u8,
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
        match reading.slots[self.slot].approach(block, len <= SMALL_BLOCK_BYTES, SINGLES) {
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

impl Plain {
    /// Appends the values of rows that follow each other, of nulls, too.
    pub(super) fn append<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u64>,
    ) -> Result<(), S::Error> {
        let few = self.append_few(rows.clone(), reading, out)?;
        for row in rows.start + few..rows.end {
            out.push(self.get(row, reading)?);
        }
        Ok(())
    }

    /// The same by one read, if they are few and of one block, and nothing else was read of it; how
    /// many.
    fn append_few<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u64>,
    ) -> Result<u32, S::Error> {
        let width = usize::from(self.width);
        let mut bytes = [0; FEW_BYTES];
        let Some(bytes) = bytes.get_mut(..rows.len() * width) else {
            return Ok(0);
        };
        if !self.read_single(&rows, reading, bytes)? {
            return Ok(0);
        }
        out.extend(bytes.chunks_exact(width).map(widened));
        Ok(rows.len() as u32)
    }

    /// The values of a row and of the next one by one read; `None`: they are better read one by
    /// one.
    pub(super) fn two<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<[u64; 2]>, S::Error> {
        let width = usize::from(self.width);
        let (mut bytes, rows) = ([0; 16], row..row.saturating_add(2));
        let Some(bytes) = bytes.get_mut(..2 * width) else {
            return Ok(None);
        };
        let is_read = self.validity.is_none() && self.read_single(&rows, reading, bytes)?;
        let (one, two) = bytes.split_at(width);
        Ok(is_read.then(|| [widened(one), widened(two)]))
    }

    /// Fills `bytes` with the values of rows, if these are of one block that is not small, and of
    /// which nothing else was read.
    fn read_single<S: ByteSource + ?Sized>(
        &self,
        rows: &Range<u32>,
        reading: &mut Reading<'_, S>,
        bytes: &mut [u8],
    ) -> Result<bool, S::Error> {
        let Some((block, _)) = within_block(rows, 0) else {
            return Ok(false);
        };
        if rows.is_empty() || rows.end > self.len {
            return Ok(false);
        }
        let of_block = (self.len - block * BLOCK as u32).min(BLOCK as u32);
        if self.is_small_block(of_block as usize)
            || !reading.slots[self.slot].is_single(block, SINGLES)
        {
            return Ok(false);
        }
        let at = self.start + u64::from(rows.start) * u64::from(self.width);
        reading.source.read(at, bytes)?;
        Ok(true)
    }

    /// Whether a block of so many rows is read whole at once.
    pub(super) fn is_small_block(&self, row_count: usize) -> bool {
        row_count * usize::from(self.width) <= SMALL_BLOCK_BYTES
    }
}

impl Bits {
    /// Appends the bits of rows that follow each other by one read, if they are few and of one
    /// block, and nothing else was read of it; how many.
    pub(super) fn append_few<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<bool>,
    ) -> Result<u32, S::Error> {
        if rows.is_empty() || rows.end > self.len {
            return Ok(0);
        }
        let (first, end) = (self.offset + rows.start, self.offset + rows.end);
        let (start, stop) = (first / 8, end.div_ceil(8));
        let block = start / BLOCK as u32;
        let of_block = ((self.offset + self.len).div_ceil(8) - block * BLOCK as u32) as usize;
        let mut bytes = [0; FEW_BIT_BYTES];
        let Some(bytes) = bytes.get_mut(..(stop - start) as usize) else {
            return Ok(0);
        };
        if (stop - 1) / BLOCK as u32 != block
            || self.is_small_block(of_block.min(BLOCK))
            || !reading.slots[self.slot].is_single(block, SINGLES)
        {
            return Ok(0);
        }
        let at = self.start + u64::from(start);
        reading.source.read(at, bytes)?;
        let bit = |at: u32| bytes[(at / 8 - start) as usize] >> (at % 8) & 1 == 1;
        out.extend((first..end).map(bit));
        Ok(rows.len() as u32)
    }

    /// Whether a block of so many bytes is read whole at once.
    pub(super) fn is_small_block(&self, byte_count: usize) -> bool {
        byte_count <= SMALL_BLOCK_BYTES
    }
}

/// The number of at most 8 bytes.
fn widened(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

/// Where some rows lie in their block, if they are of one block, and that block.
fn within_block(rows: &Range<u32>, offset: u32) -> Option<(u32, Range<usize>)> {
    let first = offset.checked_add(rows.start)?;
    let (block, index) = (first / BLOCK as u32, first as usize % BLOCK);
    let end = index + rows.len();
    (end <= BLOCK).then_some((block, index..end))
}

impl Plain {
    /// See [`Scalars::search_kept`](super::scalars::Scalars::search_kept).
    pub(super) fn search_kept(&self, rows: Range<u32>, bound: u64, slots: &[Slot]) -> Option<u32> {
        let (block, range) = within_block(&rows, 0)?;
        if rows.end > self.len || self.validity.is_some() {
            return None;
        }
        let less = slots[self.slot].search(block, range, bound)?;
        Some(rows.start + less as u32)
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
        let is_small = self.is_small_block(len);
        let value = match reading.slots[self.slot].approach(block, is_small, SINGLES) {
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

    /// Whether no value takes any bits, and so none has a place.
    fn is_empty(&self) -> bool {
        self.bits == 0
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
        if self.is_empty() {
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
        let is_plain = self.patches.is_none() && self.validity.is_none() && !self.is_empty();
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
        if !slot.is_single(block, self.singles) {
            return Ok(None);
        }
        reading
            .source
            .read(self.block_range(block).start + start as u64, bytes)?;
        let value = |place: &Place| place.value(&bytes[place.start - start..], width, bits);
        Ok(Some([value(&places[0]), value(&places[1])]))
    }

    /// Appends the values of rows that follow each other, of nulls, too.
    pub(super) fn append<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u64>,
    ) -> Result<(), S::Error> {
        let mut next = rows.start;
        while next < rows.end {
            let few = self.append_few(next..rows.end, reading, out)?;
            if few > 0 {
                next += few;
                continue;
            }
            // The first makes sure of the block, which most likely has the others, too.
            let count = (rows.end - next) as usize;
            out.push(self.first_of(next, count, reading)?);
            next += 1;
            next += self.append_kept(next..rows.end, reading.slots, out);
        }
        Ok(())
    }

    /// The same by a read for values that lie side by side, as far as all are of one block, if they
    /// are few and nothing else was read of the block; how many.
    fn append_few<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u64>,
    ) -> Result<u32, S::Error> {
        let (bits, width) = (usize::from(self.bits), usize::from(self.width));
        if self.is_empty() || rows.is_empty() || rows.end > self.len {
            return Ok(0);
        }
        let (block, index) = self.place_of(rows.start);
        let count = rows.len().min(BLOCK - index);
        let lanes = BLOCK / (8 * width);
        if count.div_ceil(lanes) > FEW_READS
            || !reading.slots[self.slot].is_single(block, self.singles)
        {
            return Ok(0);
        }
        let (first, start) = (out.len(), self.block_range(block).start);
        let (mut at, end) = (index, index + count);
        while at < end {
            let place = Place::of(at, width, bits);
            let (beside, len) = place.beside(at, width, end - at);
            let mut bytes = [0; BESIDE_BYTES];
            let bytes = &mut bytes[..len];
            reading.source.read(start + place.start as u64, bytes)?;
            place.append(bytes, width, bits, out);
            at += beside;
        }
        if let Some(patches) = &self.patches {
            let rows = rows.start..rows.start + count as u32;
            patches.apply(rows, reading, &mut out[first..])?;
        }
        Ok(count as u32)
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
        let are_many = count.min(BLOCK - index) > self.singles.into();
        let at_once = are_many || self.is_empty();
        match reading.slots[self.slot].approach(block, at_once, self.singles) {
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

    /// The greatest value that there may be, if there are no exceptions.
    pub(super) fn most(&self) -> Option<u64> {
        self.patches.is_none().then(|| u64::mask(self.bits.into()))
    }

    /// See [`Scalars::search_kept`](super::scalars::Scalars::search_kept).
    pub(super) fn search_kept(&self, rows: Range<u32>, bound: u64, slots: &[Slot]) -> Option<u32> {
        let (block, range) = within_block(&rows, self.offset)?;
        if rows.end > self.len || self.validity.is_some() {
            return None;
        }
        let less = slots[self.slot].search(block, range, bound)?;
        Some(rows.start + less as u32)
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
        // Rows are behind their places in the blocks by the offset.
        let first = block * BLOCK as u32;
        let row = |at: u32| at.saturating_sub(self.offset).min(self.len);
        let rows = row(first)..row(first.saturating_add(BLOCK as u32));
        let before = self.offset.saturating_sub(first) as usize;
        let found = patches.among(rows, reading)?;
        let values = &mut reading.slots[self.slot].values;
        for (at, value) in found.each() {
            values.set(before + at, value.ok_or_else(null)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::{Held, Searches};
    use super::*;

    #[test]
    fn few_neighbours_are_what_each_of_them_is() {
        // Any bytes are packed values.
        let bytes: Vec<u8> = (0..20_000_u32)
            .map(|i| (i.wrapping_mul(0x9E37_79B9) >> 24) as u8)
            .collect();
        let held = Held::default();
        for (width, bits) in [
            (1, 3),
            (1, 8),
            (2, 7),
            (2, 12),
            (4, 1),
            (4, 19),
            (8, 33),
            (8, 64),
        ] {
            let packed = Packed {
                start: 100,
                bits,
                width,
                offset: 5,
                len: 2_000,
                slot: 0,
                singles: SINGLES,
                patches: None,
                validity: None,
            };
            let mut few = 0;
            for first in (0..1_990).step_by(7) {
                for count in [0, 1, 2, 9, 31, 100, 129] {
                    let rows = first..(first + count).min(packed.len);
                    let (mut slots, mut scratch) = ([Slot::default()], Vec::new());
                    let mut reading = Reading {
                        source: &bytes[..],
                        slots: &mut slots,
                        scratch: &mut scratch,
                        held: &held,
                        unfenced: Searches::default(),
                    };
                    let mut values = vec![77];
                    let read = packed
                        .append_few(rows.clone(), &mut reading, &mut values)
                        .expect("within the bytes");
                    assert_eq!(values.len(), 1 + read as usize);
                    few += usize::from(read > 0);
                    for (row, value) in rows.zip(&values[1..]) {
                        reading.slots[0] = Slot::default();
                        let alone = packed.get(row, &mut reading).expect("within the bytes");
                        assert_eq!(*value, alone, "row {row}, {bits} of {width}");
                    }
                }
            }
            assert!(few > 285, "{few} reads, {bits} of {width}");
        }
    }
}
