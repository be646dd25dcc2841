//! Deletion vectors: bitmaps of 16,384 rows of a group.
//!
//! ```text
//!   hidden rows 2,048 bytes, rows for which no index has an entry 2,048 bytes
//! ```
//!
//! Row `at` of the vector is bit `at mod 8` of byte `at / 8` of each half.

use crate::frame::{Building, open, seal_again};
use crate::row_set::RowSet;
use crate::{Kind, RecordError};

/// Rows of a group that share a deletion vector.
pub const ROWS_PER_VECTOR: u32 = 16_384;
const HALF_BYTES: usize = ROWS_PER_VECTOR as usize / 8;
/// Where the first half begins in the record.
const HIDDEN_AT: usize = 2;
const CLEANED_AT: usize = HIDDEN_AT + HALF_BYTES;

/// A deletion vector whose bytes were verified.
#[derive(Clone, Copy, Debug)]
pub struct DeletionVector<'a> {
    record: &'a [u8],
    hidden: &'a [u8; HALF_BYTES],
    cleaned: &'a [u8; HALF_BYTES],
}

impl<'a> DeletionVector<'a> {
    /// # Errors
    /// The record is damaged, or was written by a newer version.
    pub fn open(record: &'a [u8]) -> Result<DeletionVector<'a>, RecordError> {
        let fields = open(Kind::DeletionVector, record)?;
        let damaged = fields.damaged();
        let (hidden, rest) = fields.rest().split_first_chunk().ok_or(damaged)?;
        Ok(DeletionVector {
            record,
            hidden,
            cleaned: rest.try_into().map_err(|_| damaged)?,
        })
    }

    /// Whether it hides the row; rows behind the vector are not hidden.
    #[inline]
    pub fn hides(&self, at: u32) -> bool {
        let byte = self.hidden.get(at as usize / 8);
        byte.is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    }

    /// The rows that it hides.
    pub fn hidden(&self) -> RowSet {
        RowSet::from_bytes(self.hidden)
    }

    /// The rows for which no index has an entry.
    pub fn cleaned(&self) -> RowSet {
        RowSet::from_bytes(self.cleaned)
    }

    /// A copy that can be changed.
    pub fn edit(&self) -> EditedVector {
        EditedVector {
            bytes: self.record.to_vec(),
        }
    }
}

/// A deletion vector that is being written.
#[derive(Clone, Debug)]
pub struct EditedVector {
    /// The whole record; its check is set in the end.
    bytes: Vec<u8>,
}

impl EditedVector {
    /// One without rows.
    pub fn empty() -> EditedVector {
        let bytes = Building::<Vec<u8>>::of(Kind::DeletionVector)
            .put_all(&[0; 2 * HALF_BYTES])
            .seal();
        EditedVector { bytes }
    }

    /// # Panics
    /// If the row is behind the vector.
    pub fn hide(&mut self, at: u32) {
        self.set(HIDDEN_AT, at);
    }

    /// Notes that no index has an entry for the row.
    ///
    /// # Panics
    /// If the row is behind the vector.
    pub fn note_as_cleaned(&mut self, at: u32) {
        self.set(CLEANED_AT, at);
    }

    fn set(&mut self, half: usize, at: u32) {
        assert!(at < ROWS_PER_VECTOR, "a vector has {ROWS_PER_VECTOR} rows");
        self.bytes[half + at as usize / 8] |= 1 << (at % 8);
    }

    /// The bytes of the record.
    pub fn seal(mut self) -> Vec<u8> {
        seal_again(&mut self.bytes);
        self.bytes
    }
}
