//! Numbers of rows that follow each other, read together.
//!
//! A number of a row whose neighbours are read as well costs more for the way to it (the tree of
//! encodings, its block) than for itself. So numbers are read some rows ahead, as strings are
//! ([`super::stretch`]), and kept as the bits of their type. Only columns without NULLs are: the
//! validity of others would have to be read row by row.
//!
//! What cannot be read is given up, and the rows are read one by one, so that damage is met by the
//! row that it belongs to.

use std::ops::Range;

use super::reading::Reading;
use super::scalars::Scalars;
use super::stretch::rows_to_read;
use crate::source::ByteSource;

/// The numbers of some rows.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    rows: Range<u32>,
    /// How many rows the next ones are to be.
    next_rows: u32,
    bits: Vec<u64>,
}

impl Ahead {
    pub(super) fn heap_bytes(&self) -> usize {
        self.bits.capacity() * size_of::<u64>()
    }

    /// The bits of a row that it holds.
    #[inline]
    pub(super) fn get(&self, row: u32) -> Option<u64> {
        let at = self.rows.contains(&row).then(|| row - self.rows.start)?;
        self.bits.get(at as usize).copied()
    }

    /// Reads `row` and some that follow or precede it; none if one of them cannot be read.
    pub(super) fn read<S: ByteSource + ?Sized>(
        &mut self,
        scalars: &Scalars,
        row: u32,
        row_count: u32,
        reading: &mut Reading<'_, S>,
    ) {
        let rows = rows_to_read(&self.rows, &mut self.next_rows, row, row_count);
        // Before the source is asked: an ERROR of the server's unwinds from there.
        self.rows = 0..0;
        self.bits.clear();
        let read = scalars.append_required(rows.clone(), reading, &mut self.bits);
        match read.is_ok() && self.bits.len() == rows.len() {
            true => self.rows = rows,
            false => self.bits.clear(),
        }
    }
}
