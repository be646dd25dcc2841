//! One row of strings of one length, whose place follows from its number.

use std::ops::Range;

use super::reading::{Reading, outside};
use super::scalars::{Validity, is_valid, ranges_of_validity};
use crate::error::ColumnarError;
use crate::letters::Alphabet;
use crate::source::ByteSource;

/// Strings of one length, see [`crate::letters`].
#[derive(Debug)]
pub(super) struct Letters {
    pub(super) alphabet: Alphabet,
    /// Where the first row lies.
    pub(super) start: u64,
    pub(super) validity: Validity,
    pub(super) len: u32,
}

impl Letters {
    /// Where some rows lie.
    pub(super) fn place(&self, rows: Range<u32>) -> Result<Range<u64>, ColumnarError> {
        if rows.end > self.len {
            return Err(outside("a row"));
        }
        let at = |row: u32| self.start + u64::from(row) * self.alphabet.row_bytes() as u64;
        Ok(at(rows.start)..at(rows.end))
    }

    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        let place = self.place(row..row.saturating_add(1))?;
        if !is_valid(&self.validity, row, reading)? {
            return Ok(false);
        }
        self.append(place, reading, out)?;
        Ok(true)
    }

    /// Appends the strings of the rows that lie in a range.
    pub(super) fn append<S: ByteSource + ?Sized>(
        &self,
        place: Range<u64>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<(), S::Error> {
        Ok(reading.look(&place, |packed| self.alphabet.unpack(packed, out))??)
    }

    pub(super) fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        ranges_of_validity(&self.validity, row, out);
        if let Ok(place) = self.place(row..row.saturating_add(1)) {
            out.push(place);
        }
    }
}
