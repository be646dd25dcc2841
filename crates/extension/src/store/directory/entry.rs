//! An entry of the directory: what it says of a row group, and its bytes.

use howdah_bridge::slot::Origin;
use howdah_bridge::store::Entry;
use howdah_bridge::tid::{BlockNumber, GroupId, RowNumber, Tid};
use howdah_records::{GroupFlags, GroupState, Kind, ShortRecord};

use crate::errors::ColdError;

pub(super) const DIRECTORY_ID: u32 = Kind::GroupEntry.id();

/// What the directory says about one row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    pub state: GroupState,
    pub first_row: RowNumber,
    /// Row numbers reserved; a multiple of [`ROWS_PER_COLD_BLOCK`].
    pub capacity_rows: u32,
    pub row_count: u32,
    pub value_id: u32,
    /// Where the value begins: a hint, which is void once the TOAST relation was rewritten.
    pub first_block: BlockNumber,
    pub footer_bytes: u32,
    pub body_bytes: u64,
    /// The transaction that inserted the group; not stored, but taken from the entry's tuple.
    pub origin: Origin,
    /// What else the store records of the group's rows; flags are only ever added.
    pub flags: GroupFlags,
}

impl GroupEntry {
    /// The group's id: its first cold block.
    pub fn group(&self) -> GroupId {
        GroupId::of_block(self.first_row.cold_block())
    }

    /// The row's position inside the group, if the group holds it.
    #[inline]
    pub fn position_of(&self, row: RowNumber) -> Option<u32> {
        let position = row.0.checked_sub(self.first_row.0)?;
        (position < u64::from(self.row_count)).then_some(position as u32)
    }

    /// Whether the number lies in the reserved range, filled or not.
    pub fn covers(&self, row: RowNumber) -> bool {
        row.0 >= self.first_row.0 && row.0 < self.first_row.0 + u64::from(self.capacity_rows)
    }

    pub(super) fn encode(&self) -> ShortRecord {
        howdah_records::GroupEntry {
            state: self.state,
            flags: self.flags,
            first_row: self.first_row.0,
            capacity_rows: self.capacity_rows,
            row_count: self.row_count,
            value_id: self.value_id,
            first_block: self.first_block,
            footer_bytes: self.footer_bytes,
            body_bytes: self.body_bytes,
        }
        .encode()
    }

    pub(super) fn decode(seq: i32, bytes: &[u8]) -> Result<GroupEntry, ColdError> {
        let group = GroupId::of_key(seq);
        let record = howdah_records::GroupEntry::decode(group.first_block(), bytes)
            .map_err(|error| ColdError::of_entry(group, error))?;
        Ok(GroupEntry {
            state: record.state,
            first_row: RowNumber(record.first_row),
            capacity_rows: record.capacity_rows,
            row_count: record.row_count,
            value_id: record.value_id,
            first_block: record.first_block,
            footer_bytes: record.footer_bytes,
            body_bytes: record.body_bytes,
            origin: Origin::FROZEN,
            flags: record.flags,
        })
    }
}

/// A directory entry together with its place, at which it can be completed or deleted.
#[derive(Clone, Copy, Debug)]
pub struct PlacedEntry {
    pub entry: GroupEntry,
    pub tid: Tid,
}

pub(in crate::store) fn placed(found: &Entry) -> Result<PlacedEntry, ColdError> {
    let entry = GroupEntry::decode(found.seq, &found.payload)?;
    Ok(PlacedEntry {
        entry: GroupEntry {
            origin: found.origin,
            ..entry
        },
        tid: found.tid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> GroupEntry {
        GroupEntry {
            state: GroupState::Stored,
            first_row: RowNumber(512),
            capacity_rows: 768,
            row_count: 600,
            value_id: 20_000,
            first_block: 7,
            footer_bytes: 90,
            body_bytes: 1 << 33,
            origin: Origin::FROZEN,
            flags: GroupFlags::ROW_MARKS.union(GroupFlags::MOVED_ROWS),
        }
    }

    #[test]
    fn a_group_covers_its_range_and_holds_the_rows_that_were_written() {
        let entry = entry();
        for (row, position, covered) in [
            (511, None, false),
            (512, Some(0), true),
            (1_111, Some(599), true),
            (1_112, None, true),
            (1_279, None, true),
            (1_280, None, false),
        ] {
            assert_eq!(entry.position_of(RowNumber(row)), position, "row {row}");
            assert_eq!(entry.covers(RowNumber(row)), covered, "row {row}");
        }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written_and_only_under_its_own_key() {
        let entry = entry();
        let bytes = entry.encode();
        assert_eq!(entry.group().first_block(), 2);
        assert_eq!(GroupEntry::decode(2, &bytes).ok(), Some(entry));
        assert!(
            GroupEntry::decode(3, &bytes).is_err(),
            "another group's key"
        );
        let mut damaged = bytes.to_vec();
        damaged[5] ^= 1;
        assert!(GroupEntry::decode(2, &damaged).is_err(), "a flipped bit");
    }
}
