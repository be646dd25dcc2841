//! The exceptions among rows that follow each other, read together: a block of packed values may
//! have hundreds.

use std::ops::Range;

use super::packed::BLOCK;
use super::reading::{Reading, outside};
use super::sorted::Patches;
use super::state::SINGLES;
use crate::error::ColumnarError;
use crate::source::ByteSource;

/// The exceptions in a range of rows.
pub(super) struct Found {
    range: Range<u64>,
    rows: Vec<u64>,
    values: Vec<u64>,
    /// Which have a value.
    valid: Vec<bool>,
}

impl Found {
    /// Whether all of them are what a search for the range can find: they ascend.
    pub(super) fn check(&self) -> Result<(), ColumnarError> {
        let are_within = self.rows.iter().all(|row| self.range.contains(row));
        match are_within && self.rows.is_sorted_by(|a, b| a < b) {
            true => Ok(()),
            false => Err(outside("an exception")),
        }
    }

    /// The place of each in the range, and its value.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, Option<u64>)> {
        let values = self.values.iter().zip(&self.valid);
        let found = self.rows.iter().zip(values);
        let found = found.filter(|(row, _)| self.range.contains(row));
        let start = self.range.start;
        found.map(move |(row, (&value, &valid))| ((row - start) as usize, valid.then_some(value)))
    }
}

/// Exceptions that are put into a block in the time that a single value takes.
const PER_SINGLE: u64 = 8;

impl Patches {
    /// How many values are read one by one before their block is loaded, where so many have these.
    pub(super) fn singles(&self, blocks: u64) -> u8 {
        let of_block = u64::from(self.at.rows.len) / blocks.max(1);
        SINGLES + (of_block.min(BLOCK as u64) / PER_SINGLE) as u8
    }

    /// The exceptions in a range of rows.
    pub(super) fn among<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
    ) -> Result<Found, S::Error> {
        let stored = |row: u32| u64::from(row) + self.at.offset;
        let mut found = Found {
            range: stored(rows.start)..stored(rows.end),
            rows: Vec::new(),
            values: Vec::new(),
            valid: Vec::new(),
        };
        let all = &self.at.rows;
        let first = all.lower_bound(found.range.start, reading)?;
        if first == all.len || all.value(first, reading)? >= found.range.end {
            return Ok(found);
        }
        let end = all.lower_bound(found.range.end, reading)?;
        let some = first..end.max(first);
        (all.values).append_required(some.clone(), reading, &mut found.rows)?;
        (self.values).append_optional(some, reading, &mut found.values, &mut found.valid)?;
        Ok(found)
    }

    /// Puts the exceptions among some rows into their values.
    pub(super) fn apply<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        values: &mut [u64],
    ) -> Result<(), S::Error> {
        let found = self.among(rows, reading)?;
        found.check()?;
        for (at, value) in found.each() {
            values[at] = value.ok_or_else(null)?;
        }
        Ok(())
    }
}

pub(super) fn null() -> ColumnarError {
    ColumnarError::corrupt("an exception is null")
}
