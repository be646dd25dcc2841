//! Numbers in pages that are decoded one at a time: pco, which only the smallest size is worth.
//!
//! ```text
//!   parts   words of chunk 0 │ page 0 │ page 1 │ …     a page: up to 8,192 values without nulls
//!   row ─ nulls before it ─▶ value ─▶ page ─ decoded with its chunk's words ─▶ kept
//! ```
//!
//! Pages are kept as long as the state is: its owner drops it where all states are too large. Where
//! rows may be null, which are is decoded once for all of them, and kept as bits.

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use vortex_array::dtype::DType;

use super::metadata::PcoMetadata;
use super::reading::{Reading, outside};
use super::state::{Kept, Slot};
use super::whole::{Whole, numbers_of};
use crate::chunk::ChunkBuffer;
use crate::codec;
use crate::nodes::{Encoding, NodeTable};
use crate::source::ByteSource;

/// Rows for which the number of values before them is kept.
const STEP: usize = 1_024;

/// A node of numbers in pages.
#[derive(Debug)]
pub(super) struct Pages {
    header: Box<[u8]>,
    pages: Box<[Page]>,
    /// Of a page by itself, which has no nulls.
    dtype: DType,
    len: u32,
    /// Which rows have a value.
    valid: Option<Whole>,
    /// The slot of the first page; those of the others follow.
    first_slot: usize,
}

/// One page. Ranges are of the stored value.
#[derive(Debug)]
struct Page {
    /// Its values, counted without nulls.
    values: Range<u32>,
    /// What pages of its chunk have in common.
    words: Range<u64>,
    bytes: Range<u64>,
}

impl Pages {
    /// `parts` are those of the node: of each chunk the words, then all pages. `None` if they are
    /// not as the metadata tells, or there is one page only.
    pub(super) fn new(
        metadata: &PcoMetadata<'_>,
        parts: &[Range<u64>],
        dtype: DType,
        len: u32,
        valid: Option<Whole>,
        first_slot: usize,
    ) -> Option<Self> {
        let (words, bytes) = parts.split_at_checked(metadata.chunks.len())?;
        let mut bytes = bytes.iter();
        let mut pages = Vec::new();
        let mut start = 0u32;
        for (chunk, words) in metadata.chunks.iter().zip(words) {
            for &count in chunk {
                let end = start.checked_add(count).filter(|&end| end <= len)?;
                pages.push(Page {
                    values: start..end,
                    words: words.clone(),
                    bytes: bytes.next()?.clone(),
                });
                start = end;
            }
        }
        let is_whole = bytes.next().is_none() && (valid.is_some() || start == len);
        (is_whole && pages.len() > 1).then(|| Self {
            header: metadata.header.into(),
            pages: pages.into(),
            dtype,
            len,
            valid,
            first_slot,
        })
    }

    /// The slots that pages take.
    pub(super) fn slot_count(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn may_be_null(&self) -> bool {
        self.valid.is_some()
    }

    /// The number of the page that has a value.
    fn page_of(&self, value: u32) -> usize {
        self.pages.partition_point(|page| page.values.end <= value)
    }

    /// The bits of a row's value; `None` is NULL.
    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<u64>, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        let value = match &self.valid {
            None => row,
            Some(valid) => {
                let bits = Bits::read(valid, reading)?;
                if !bits.is_set(row) {
                    return Ok(None);
                }
                bits.before(row)
            }
        };
        let at = self.page_of(value);
        let page = self.pages.get(at).ok_or_else(|| outside("a value"))?;
        let slot = self.first_slot + at;
        if !reading.slots[slot].holds(0) {
            self.load(page, slot, reading)?;
        }
        let value = (value - page.values.start) as usize;
        let value = reading.slots[slot].values.get(value);
        Ok(Some(value.ok_or_else(|| outside("a value"))?))
    }

    fn load<S: ByteSource + ?Sized>(
        &self,
        page: &Page,
        slot: usize,
        reading: &mut Reading<'_, S>,
    ) -> Result<(), S::Error> {
        let words_len = (page.words.end - page.words.start) as usize;
        let bytes_len = (page.bytes.end - page.bytes.start) as usize;
        let mut buffer = ChunkBuffer::with_len(words_len + bytes_len);
        let (words, bytes) = buffer.as_mut_slice().split_at_mut(words_len);
        reading.source.read(page.words.start, words)?;
        reading.source.read(page.bytes.start, bytes)?;
        let count = page.values.end - page.values.start;
        let mut tree = NodeTable::default();
        let metadata = PcoMetadata {
            header: &self.header,
            chunks: vec![vec![count]],
        };
        let node = tree.begin(Encoding::Pco, &metadata.encode(), None);
        let (middle, end) = (words_len as u32, (words_len + bytes_len) as u32);
        tree.add_part(0..middle, 1);
        tree.add_part(middle..end, 1);
        tree.end(node, 0);
        let node = tree.roots().next().ok_or_else(|| outside("a page"))?;
        let buffer = buffer.into_bytes();
        let array = codec::rebuild(node, &buffer, 0, &self.dtype, count as usize)?;
        let (values, _) = numbers_of(array)?;
        let slot = &mut reading.slots[slot];
        slot.values.fill_wide(values);
        slot.kept = Kept::Block(0);
        Ok(())
    }

    /// Appends the ranges that a row's value is known to need.
    pub(super) fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        match &self.valid {
            Some(valid) => out.push(valid.range()),
            None => {
                let page = self.pages.get(self.page_of(row));
                out.extend(page.into_iter().flat_map(Page::ranges));
            }
        }
    }

    /// Rounds of reading: of which rows have values, if that is not known, and of pages.
    pub(super) fn rounds(&self) -> usize {
        1 + usize::from(self.valid.is_some())
    }

    /// Appends what reading any of these rows needs in a round.
    pub(super) fn needs<S: ByteSource + ?Sized>(
        &self,
        rows: &Range<u32>,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        let values = match (&self.valid, round) {
            (None, 0) => rows.clone(),
            (Some(valid), 0) => {
                if Bits::kept(&reading.slots[valid.slot]).is_none() {
                    out.push(valid.range());
                }
                return Ok(());
            }
            (Some(valid), 1) => {
                let bits = Bits::read(valid, reading)?;
                bits.before(rows.start)..bits.before(rows.end)
            }
            _ => return Ok(()),
        };
        if values.is_empty() {
            return Ok(());
        }
        let pages = self.page_of(values.start)..=self.page_of(values.end - 1);
        for (at, page) in self.pages.iter().enumerate() {
            if pages.contains(&at) && !reading.slots[self.first_slot + at].holds(0) {
                out.extend(page.ranges());
            }
        }
        Ok(())
    }
}

impl Page {
    fn ranges(&self) -> [Range<u64>; 2] {
        [self.words.clone(), self.bytes.clone()]
    }
}

/// Which rows have values, as a slot keeps it: the bits, and how many are set before each
/// [`STEP`] of them.
struct Bits<'s> {
    slot: &'s Slot,
    bits: &'s BooleanBuffer,
}

impl<'s> Bits<'s> {
    fn kept(slot: &'s Slot) -> Option<Self> {
        match &slot.kept {
            Kept::Whole(Some(bits)) => Some(Self { slot, bits }),
            _ => None,
        }
    }

    fn read<S: ByteSource + ?Sized>(
        valid: &Whole,
        reading: &'s mut Reading<'_, S>,
    ) -> Result<Self, S::Error> {
        if Bits::kept(&reading.slots[valid.slot]).is_none() {
            let bits = valid.bits(reading)?;
            let mut before = vec![0];
            for start in (0..bits.len()).step_by(STEP) {
                let some = bits.slice(start, STEP.min(bits.len() - start));
                before.push(before[before.len() - 1] + some.count_set_bits() as u64);
            }
            let slot = &mut reading.slots[valid.slot];
            slot.values.fill_wide(before);
            slot.kept = Kept::Whole(Some(bits));
        }
        let kept = Self::kept(&reading.slots[valid.slot]);
        Ok(kept.ok_or_else(|| outside("a row"))?)
    }

    fn is_set(&self, row: u32) -> bool {
        self.bits.value(row as usize)
    }

    /// How many are set before a row; beyond the last one, how many there are.
    fn before(&self, row: u32) -> u32 {
        let row = self.bits.len().min(row as usize);
        let (step, rest) = (row / STEP, row % STEP);
        let before = self.slot.values.get(step).unwrap_or(0) as u32;
        before + self.bits.slice(step * STEP, rest).count_set_bits() as u32
    }
}
