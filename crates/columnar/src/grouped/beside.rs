//! A column of a group whose own nodes only name the column that has those of all: what the columns
//! have in common is stored once.

use std::ops::RangeInclusive;

use crate::error::ColumnarError;
use crate::layout::wire::{Reader, ensure, put_bytes, put_varint};
use crate::nodes::FIRST_OPTIONAL_RECORD;

/// The record of a node section that stands for all others.
pub(crate) const RECORD_BESIDE: u8 = 4;
/// The records for which it stands.
const OTHERS: RangeInclusive<u8> = 1..=3;

/// The place of a column in its group, and where the rest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    /// The column's number in its group.
    pub(crate) index: usize,
    /// The column of the row group whose nodes are those of the whole group.
    pub(crate) column: usize,
}

impl Beside {
    /// Appends the node section of the column.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let mut record = Vec::new();
        put_varint(&mut record, self.index as u64);
        put_varint(&mut record, self.column as u64);
        out.push(RECORD_BESIDE);
        put_bytes(out, &record);
    }

    /// Reads a node section; `None` if the column has nodes of its own, which are not looked at.
    pub(crate) fn find(section: &[u8]) -> Result<Option<Self>, ColumnarError> {
        let mut section = Reader::new(section);
        let mut found = None;
        while !section.is_empty() {
            let (kind, mut record) = section.record()?;
            match (kind, found) {
                (RECORD_BESIDE, None) => {
                    found = Some(Self {
                        index: record.count()? as usize,
                        column: record.count()? as usize,
                    });
                    record.finish()?;
                }
                (FIRST_OPTIONAL_RECORD.., _) => {}
                (_, None) => return Ok(None),
                (kind, Some(_)) => {
                    let is_known = OTHERS.contains(&kind) || kind == RECORD_BESIDE;
                    ensure(!is_known, "a column has its own nodes and those of a group")?;
                    return Err(ColumnarError::newer("column record", kind.into()));
                }
            }
        }
        Ok(found)
    }
}
