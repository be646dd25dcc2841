//! The high-water mark of row numbers.
//!
//! ```text
//!   row number u64
//! ```

use crate::frame::{Building, ShortRecord, open};
use crate::{Kind, ROW_NUMBER_LIMIT, RecordError};

/// Every row number in use or ever used is below this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HighWater(pub u64);

impl HighWater {
    /// The bytes of the record.
    pub fn encode(self) -> ShortRecord {
        Building::<ShortRecord>::of(Kind::HighWater)
            .put(self.0.to_le_bytes())
            .seal()
    }

    /// # Errors
    /// The record is damaged, or was written by a newer version.
    pub fn decode(record: &[u8]) -> Result<HighWater, RecordError> {
        let mut fields = open(Kind::HighWater, record)?;
        let (damaged, mark) = (fields.damaged(), fields.u64()?);
        fields.end()?;
        match mark <= ROW_NUMBER_LIMIT {
            true => Ok(HighWater(mark)),
            false => Err(damaged),
        }
    }
}
