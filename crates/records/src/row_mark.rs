//! Marks of single rows. One is written for each changed row, so they are short: with its tuple's
//! header and keys a mark fills 48 bytes exactly.
//!
//! ```text
//!   block u32, u16: offset (14 bits), fate (upper 2 bits)
//!     fate 0  deleted; block and offset are 0
//!     fate 1  updated to (block, offset)
//!     fate 2  updated to (block, offset), keeps its key
//!     fate 3  moved to another partition; block and offset are 0
//! ```

use crate::frame::{Building, ShortRecord, open};
use crate::{Kind, Place, RecordError, RowFate};

const FATE_SHIFT: u32 = 14;
/// Offsets are smaller: a page of 32 kB, the largest, has 8,192 of them.
const OFFSET_LIMIT: u16 = 1 << FATE_SHIFT;

/// The mark of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMark(pub RowFate);

impl RowMark {
    /// The bytes of the record.
    ///
    /// # Panics
    /// If the place of the new version has an offset that no page has.
    pub fn encode(self) -> ShortRecord {
        let nowhere = Place {
            block: 0,
            offset: 0,
        };
        let (fate, place) = match self.0 {
            RowFate::Deleted => (0, nowhere),
            RowFate::Updated { to, keeps_key } => (1 + u16::from(keeps_key), to),
            RowFate::MovedPartitions => (3, nowhere),
        };
        assert!(
            place.offset < OFFSET_LIMIT,
            "an offset is below {OFFSET_LIMIT}"
        );
        Building::<ShortRecord>::of(Kind::RowMark)
            .put(place.block.to_le_bytes())
            .put((fate << FATE_SHIFT | place.offset).to_le_bytes())
            .seal()
    }

    /// # Errors
    /// The record is damaged, or was written by a newer version.
    pub fn decode(record: &[u8]) -> Result<RowMark, RecordError> {
        let mut fields = open(Kind::RowMark, record)?;
        let damaged = fields.damaged();
        let (block, packed) = (fields.u32()?, fields.u16()?);
        fields.end()?;
        let offset = packed & (OFFSET_LIMIT - 1);
        let to = Place { block, offset };
        let fate = match (packed >> FATE_SHIFT, block, offset) {
            (0, 0, 0) => RowFate::Deleted,
            (fate @ (1 | 2), ..) => RowFate::Updated {
                to,
                keeps_key: fate == 2,
            },
            (3, 0, 0) => RowFate::MovedPartitions,
            _ => return Err(damaged),
        };
        Ok(RowMark(fate))
    }
}
