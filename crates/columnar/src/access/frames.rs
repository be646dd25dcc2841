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

    /// Whether the frame of a row was decompressed last.
    pub(super) fn holds<S: ?Sized>(&self, row: u32, reading: &Reading<'_, S>) -> bool {
        match &reading.slots[self.slot].kept {
            Kept::Frame {
                first_row, ends, ..
            } => row
                .checked_sub(*first_row)
                .is_some_and(|at| (at as usize) < ends.len()),
            _ => false,
        }
    }

    /// The rows of the frame of a row, and where it lies.
    pub(super) fn frame_of<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<(Range<u32>, Range<u64>), S::Error> {
        let frame = self.row_ends.lower_bound(u64::from(row) + 1, reading)?;
        let (first_row, start) = match frame.checked_sub(1) {
            None => (0, 0),
            Some(before) => (
                position(self.row_ends.value(before, reading)?)?,
                required(&self.data_ends, before, reading)?,
            ),
        };
        let last_row = position(self.row_ends.value(frame, reading)?)?;
        let stop = required(&self.data_ends, frame, reading)?;
        ensure(
            last_row <= self.len && start <= stop && stop <= self.data.end - self.data.start,
            "a frame lies outside of its node",
        )?;
        let data = self.data.start + start..self.data.start + stop;
        Ok((first_row..last_row, data))
    }

    /// Decompresses the frame of a row.
    fn load<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<(), S::Error> {
        let (rows, data) = self.frame_of(row, reading)?;
        let mut lengths = Vec::new();
        self.lengths
            .append_required(rows.clone(), reading, &mut lengths)?;
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
        reading.fetch(data.start, (data.end - data.start) as usize)?;
        dictionary.decompress(reading.scratch, len, &mut bytes)?;
        reading.slots[self.slot].kept = Kept::Frame {
            first_row: rows.start,
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
