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

#[cfg(test)]
mod tests {
    use super::super::blocks::{Packed, Plain};
    use super::super::packed::Place;
    use super::super::reading::{Held, Searches};
    use super::super::scalars::Scalars;
    use super::super::sorted::{Exceptions, Sorted};
    use super::super::state::Slot;
    use super::*;

    const LEN: u32 = 2_000;

    /// Every second row is an exception.
    fn value(row: u32) -> u64 {
        match row % 2 {
            0 => u64::from(row % 97),
            _ => 60_000 + u64::from(row),
        }
    }

    fn plain(start: usize, width: u8, slot: usize) -> Plain {
        Plain {
            start: start as u64,
            width,
            len: LEN / 2,
            slot,
            validity: None,
        }
    }

    #[test]
    fn a_block_with_many_exceptions_is_decoded_late_and_its_values_are_the_same() {
        // Two blocks of a word for each value, the exceptions' rows, their values.
        let mut bytes = vec![0; 4 * 2 * BLOCK];
        for row in 0..LEN as usize {
            let at = row / BLOCK * 4 * BLOCK + Place::of(row % BLOCK, 4, 32).start;
            bytes[at..at + 4].copy_from_slice(&(row as u32 % 97).to_le_bytes());
        }
        let odd = || (0..LEN).filter(|row| row % 2 == 1);
        bytes.extend(odd().flat_map(u32::to_le_bytes));
        bytes.extend(odd().flat_map(|row| (value(row) as u32).to_le_bytes()));
        let (rows, values) = (8 * BLOCK, 8 * BLOCK + 2 * LEN as usize);
        let patches = Patches {
            at: Exceptions {
                rows: Sorted::new(Scalars::Plain(plain(rows, 4, 1)), LEN / 2),
                offset: 0,
            },
            values: Box::new(Scalars::Plain(plain(values, 4, 2))),
        };
        let packed = Packed {
            start: 0,
            bits: 32,
            width: 4,
            offset: 0,
            len: LEN,
            slot: 0,
            singles: patches.singles(2),
            patches: Some(patches),
            validity: None,
        };
        let mut slots: [Slot; 3] = std::array::from_fn(|_| Slot::default());
        let (mut scratch, held) = (Vec::new(), Held::default());
        let mut reading = Reading {
            source: &bytes[..],
            slots: &mut slots,
            scratch: &mut scratch,
            held: &held,
            unfenced: Searches::default(),
        };
        for block in 0..2 {
            let first = block * BLOCK as u32;
            for at in 0..100 {
                let row = first + at * 317 % (LEN - BLOCK as u32);
                let found = packed.get(row, &mut reading).expect("within the bytes");
                assert_eq!(found, value(row), "row {row}");
                assert_eq!(reading.slots[0].holds(block), at >= 62 + 4, "read {at}");
            }
        }
        let mut found = vec![0; 300];
        let patches = packed.patches.as_ref().expect("some");
        (patches.apply(900..1_200, &mut reading, &mut found)).expect("within the bytes");
        for (row, found) in (900..1_200).zip(found) {
            assert_eq!(found, (row % 2) * value(row as u32), "row {row}");
        }
    }
}
