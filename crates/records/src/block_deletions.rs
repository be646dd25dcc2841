//! Block deletions: rows beside each other that one command has deleted.
//!
//! ```text
//!   a bitmap of 32 bytes: row `at` of the block is bit `at mod 8` of byte `at / 8`
//! ```
//!
//! The key names the first of the rows, so that two records in force never have the same key: a row
//! is deleted once.

use crate::frame::{Building, ShortRecord, open};
use crate::{Kind, RecordError};

const BYTES: usize = crate::ROWS_PER_COLD_BLOCK as usize / 8;

/// Rows of one cold block, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDeletions {
    bits: [u8; BYTES],
}

impl BlockDeletions {
    /// The rows at these places in their block.
    ///
    /// # Panics
    /// If there is none.
    pub fn of(places: &[u8]) -> BlockDeletions {
        assert!(!places.is_empty(), "a record is about at least one row");
        let mut bits = [0; BYTES];
        for &at in places {
            bits[usize::from(at) / 8] |= 1 << (at % 8);
        }
        BlockDeletions { bits }
    }

    /// The bytes of the record.
    pub fn encode(self) -> ShortRecord {
        let record = Building::<ShortRecord>::of(Kind::BlockDeletions);
        record.put(self.bits).seal()
    }

    /// A record whose key names the row at this place in its block.
    ///
    /// # Errors
    /// The record is damaged, was written by a newer version, or has another first row.
    pub fn decode(first: u8, record: &[u8]) -> Result<BlockDeletions, RecordError> {
        let fields = open(Kind::BlockDeletions, record)?;
        let damaged = fields.damaged();
        let bits = fields.rest().try_into().map_err(|_| damaged)?;
        let deletions = BlockDeletions { bits };
        match deletions.places().next() {
            Some(at) if at == first => Ok(deletions),
            _ => Err(damaged),
        }
    }

    /// Whether the row at this place is deleted.
    #[inline]
    pub fn contain(&self, at: u8) -> bool {
        self.bits[usize::from(at) / 8] >> (at % 8) & 1 == 1
    }

    /// The places of the rows, ascending.
    pub fn places(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&at| self.contain(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_again() {
        for places in [
            vec![0],
            vec![255],
            vec![7, 8, 63, 64, 200],
            (0..=255).collect(),
        ] {
            let record = BlockDeletions::of(&places).encode();
            let read = BlockDeletions::decode(places[0], &record).expect("a record of ours");
            assert!(read.places().eq(places.iter().copied()));
            assert!((0..=255).all(|at| read.contain(at) == places.contains(&at)));
        }
    }

    #[test]
    fn a_record_without_its_first_row_is_damage() {
        let record = BlockDeletions::of(&[7, 9]).encode();
        for first in [0, 6, 8, 9, 255] {
            assert!(BlockDeletions::decode(first, &record).is_err());
        }
        let none = Building::<ShortRecord>::of(Kind::BlockDeletions)
            .put([0; BYTES])
            .seal();
        assert!(BlockDeletions::decode(0, &none).is_err());
    }
}
