//! One row of zstd frames: its frame is decompressed as a whole, and kept for its neighbours.

use std::ops::Range;
use std::sync::OnceLock;

use super::reading::{Reading, outside};
use super::scalars::{Scalars, Validity, is_valid, position, ranges_of_validity, required};
use super::sorted::Sorted;
use super::state::Kept;
use crate::error::ColumnarError;
use crate::frames::{Dictionary, place_rows};
use crate::layout::wire::ensure;
use crate::source::{ByteSource, read_range};

/// Strings in frames, see [`crate::frames`].
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) dictionary: Range<u64>,
    pub(super) data: Range<u64>,
    pub(super) row_ends: Sorted,
    pub(super) data_ends: Scalars,
    pub(super) lengths: Scalars,
    pub(super) validity: Validity,
    pub(super) len: u32,
    pub(super) slot: usize,
    pub(super) prepared: OnceLock<Dictionary>,
}

impl Frames {
    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        if !is_valid(&self.validity, row, reading)? {
            return Ok(false);
        }
        if let Kept::Frame {
            first_row,
            bytes,
            ends,
        } = &reading.slots[self.slot].kept
            && let Some(value) = value_of(row, *first_row, bytes, ends)
        {
            out.extend_from_slice(value);
            return Ok(true);
        }
        self.load(row, reading)?;
        match &reading.slots[self.slot].kept {
            Kept::Frame {
                first_row,
                bytes,
                ends,
            } => {
                let value = value_of(row, *first_row, bytes, ends);
                out.extend_from_slice(value.ok_or_else(|| outside("a row"))?);
                Ok(true)
            }
            _ => Err(outside("a row").into()),
        }
    }

    /// Decompresses the frame of a row.
    fn load<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<(), S::Error> {
        let frame = self.row_ends.lower_bound(u64::from(row) + 1, reading)?;
        let end = |ends: &Scalars, frame: Option<u32>, reading: &mut Reading<'_, S>| match frame {
            None => Ok(0),
            Some(frame) => required(ends, frame, reading),
        };
        let before = frame.checked_sub(1);
        let first_row = position(end(&self.row_ends.values, before, reading)?)?;
        let last_row = position(end(&self.row_ends.values, Some(frame), reading)?)?;
        let start = end(&self.data_ends, before, reading)?;
        let stop = end(&self.data_ends, Some(frame), reading)?;
        ensure(
            last_row <= self.len && start <= stop && stop <= self.data.end - self.data.start,
            "a frame lies outside of its node",
        )?;
        let mut lengths = Vec::new();
        self.lengths
            .append_required(first_row..last_row, reading, &mut lengths)?;
        let lengths = lengths.into_iter().map(position);
        let lengths = lengths.collect::<Result<Vec<_>, _>>()?;
        let (mut bytes, mut ends) = match std::mem::take(&mut reading.slots[self.slot].kept) {
            Kept::Frame { bytes, ends, .. } => (bytes, ends),
            _ => (Vec::new(), Vec::new()),
        };
        ends.clear();
        let len = place_rows(lengths.into_iter(), &mut ends)?;
        bytes.clear();
        if self.prepared.get().is_none() {
            let dictionary = read_range(reading.source, self.dictionary.clone())?;
            reading.hold(Dictionary::memory_bytes(dictionary.len()));
            let _ = self.prepared.set(Dictionary::new(&dictionary)?);
        }
        let dictionary = self
            .prepared
            .get()
            .ok_or_else(|| ColumnarError::corrupt("a dictionary is missing"))?;
        reading.fetch(self.data.start + start, (stop - start) as usize)?;
        dictionary.decompress(reading.scratch, len, &mut bytes)?;
        reading.slots[self.slot].kept = Kept::Frame {
            first_row,
            bytes,
            ends,
        };
        Ok(())
    }

    pub(super) fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        if self.prepared.get().is_none() {
            out.push(self.dictionary.clone());
        }
        ranges_of_validity(&self.validity, row, out);
        self.row_ends.ranges(out);
        self.lengths.ranges(row, out);
    }
}

/// The bytes of a row, if the frame holds it.
fn value_of<'b>(row: u32, first_row: u32, bytes: &'b [u8], ends: &[u32]) -> Option<&'b [u8]> {
    let at = row.checked_sub(first_row)? as usize;
    let end = *ends.get(at)?;
    let start = at.checked_sub(1).map_or(0, |before| ends[before]);
    bytes.get(start as usize..end as usize)
}
