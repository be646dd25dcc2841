//! Directory entries: one for each row group.
//!
//! ```text
//!   state u8, 0 u8, flags u32, first row u64, capacity u32, rows u32,
//!   value id u32, first block u32, footer bytes u32, body bytes u64
//! ```

use crate::frame::{Building, ShortRecord, open};
use crate::{Kind, MOST_GROUP_ROWS, ROW_NUMBER_LIMIT, ROWS_PER_COLD_BLOCK, RecordError};

/// Where a row group is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Reserved by a load; its rows are in the loading backend's memory.
    Loading,
    /// Written.
    Stored,
}

/// What a reader must look for before it returns rows of a group. A flag is set in place, outside
/// of any transaction, before the first record that it announces is written, and is never cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFlags(u32);

impl GroupFlags {
    /// There may be marks of single rows.
    pub const ROW_MARKS: GroupFlags = GroupFlags(1);
    /// There may be deletion vectors of hidden rows.
    pub const DELETION_VECTORS: GroupFlags = GroupFlags(2);
    /// There may be lists of rows that are younger than the group.
    pub const RECENT_INSERTS: GroupFlags = GroupFlags(4);
    /// The group was filled by moving rows that every snapshot saw.
    pub const MOVED_ROWS: GroupFlags = GroupFlags(8);
    /// There may be records of rows beside each other that were deleted.
    pub const BLOCK_DELETIONS: GroupFlags = GroupFlags(16);

    /// All flags that this version knows. A reader that does not know a flag cannot tell which
    /// rows it hides.
    const KNOWN: u32 = 31;

    /// Whether all of `other` are set.
    #[inline]
    pub fn contain(self, other: GroupFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether every row of the group is visible to each snapshot that sees the group.
    #[inline]
    pub fn are_clear(self) -> bool {
        self.without(GroupFlags::MOVED_ROWS).0 == 0
    }

    /// These flags but for `other`.
    #[inline]
    pub fn without(self, other: GroupFlags) -> GroupFlags {
        GroupFlags(self.0 & !other.0)
    }

    /// The flags of both.
    #[inline]
    pub fn union(self, other: GroupFlags) -> GroupFlags {
        GroupFlags(self.0 | other.0)
    }
}

/// What the directory says about one row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Where the group is in its life.
    pub state: GroupState,
    /// What else is recorded of its rows.
    pub flags: GroupFlags,
    /// The number of its first row.
    pub first_row: u64,
    /// Row numbers reserved.
    pub capacity_rows: u32,
    /// Rows stored.
    pub row_count: u32,
    /// The id of the long value that holds it.
    pub value_id: u32,
    /// Where that value begins: a hint.
    pub first_block: u32,
    /// Length of its footer.
    pub footer_bytes: u32,
    /// Length of its body.
    pub body_bytes: u64,
}

impl GroupEntry {
    /// The bytes of the record.
    pub fn encode(&self) -> ShortRecord {
        let state = match self.state {
            GroupState::Loading => 0,
            GroupState::Stored => 1,
        };
        Building::<ShortRecord>::of(Kind::GroupEntry)
            .put([state, 0])
            .put(self.flags.0.to_le_bytes())
            .put(self.first_row.to_le_bytes())
            .put(self.capacity_rows.to_le_bytes())
            .put(self.row_count.to_le_bytes())
            .put(self.value_id.to_le_bytes())
            .put(self.first_block.to_le_bytes())
            .put(self.footer_bytes.to_le_bytes())
            .put(self.body_bytes.to_le_bytes())
            .seal()
    }

    /// The entry of the group whose first cold block is `group`.
    ///
    /// # Errors
    /// The record is damaged, is another group's, or was written by a newer version.
    #[inline]
    pub fn decode(group: u32, record: &[u8]) -> Result<GroupEntry, RecordError> {
        let mut fields = open(Kind::GroupEntry, record)?;
        let damaged = fields.damaged();
        let state = match (fields.u8()?, fields.u8()?) {
            (0, 0) => GroupState::Loading,
            (1, 0) => GroupState::Stored,
            _ => return Err(damaged),
        };
        let entry = GroupEntry {
            state,
            flags: GroupFlags(fields.u32()?),
            first_row: fields.u64()?,
            capacity_rows: fields.u32()?,
            row_count: fields.u32()?,
            value_id: fields.u32()?,
            first_block: fields.u32()?,
            footer_bytes: fields.u32()?,
            body_bytes: fields.u64()?,
        };
        fields.end()?;
        if entry.flags.0 & !GroupFlags::KNOWN != 0 {
            let (kind, version) = (Kind::GroupEntry, Kind::GroupEntry.version());
            return Err(RecordError::Newer { kind, version });
        }
        let is_sound = entry.first_row < ROW_NUMBER_LIMIT
            && entry.first_row / ROWS_PER_COLD_BLOCK == u64::from(group)
            && entry.row_count <= entry.capacity_rows
            && entry.capacity_rows <= MOST_GROUP_ROWS;
        if is_sound { Ok(entry) } else { Err(damaged) }
    }
}
