//! The note of the gaps between row groups for which no index has an entry.
//!
//! ```text
//!   row numbers in gaps u64, fingerprint of the gaps u64
//! ```

use xxhash_rust::xxh3::Xxh3Default;

use crate::frame::{Building, ShortRecord, open};
use crate::{Kind, RecordError};

/// What VACUUM has cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanedGaps {
    /// Row numbers in the gaps.
    pub row_numbers: u64,
    /// See [`fingerprint_of`].
    pub fingerprint: u64,
}

/// The XXH3-64 of the gaps, half-open ranges of row numbers in ascending order: start and end of
/// each, of 8 bytes.
pub fn fingerprint_of(ranges: &[(u64, u64)]) -> u64 {
    let mut hash = Xxh3Default::new();
    for (start, end) in ranges {
        hash.update(&start.to_le_bytes());
        hash.update(&end.to_le_bytes());
    }
    hash.digest()
}

impl CleanedGaps {
    /// The bytes of the record.
    pub fn encode(&self) -> ShortRecord {
        Building::<ShortRecord>::of(Kind::CleanedGaps)
            .put(self.row_numbers.to_le_bytes())
            .put(self.fingerprint.to_le_bytes())
            .seal()
    }

    /// # Errors
    /// The record is damaged, or was written by a newer version.
    pub fn decode(record: &[u8]) -> Result<CleanedGaps, RecordError> {
        let mut fields = open(Kind::CleanedGaps, record)?;
        let note = CleanedGaps {
            row_numbers: fields.u64()?,
            fingerprint: fields.u64()?,
        };
        fields.end()?;
        Ok(note)
    }
}
