//! The note of the last rewrite of a table as a whole. It has no fields: what it tells is which
//! transaction wrote it.

use crate::frame::{Building, ShortRecord, open};
use crate::{Kind, RecordError};

/// The table was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewriteNote;

impl RewriteNote {
    /// The bytes of the record.
    pub fn encode(self) -> ShortRecord {
        Building::<ShortRecord>::of(Kind::RewriteNote).seal()
    }

    /// # Errors
    /// The record is damaged, or was written by a newer version.
    pub fn decode(record: &[u8]) -> Result<RewriteNote, RecordError> {
        open(Kind::RewriteNote, record)?.end()?;
        Ok(RewriteNote)
    }
}
