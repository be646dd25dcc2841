//! The kinds of records.

use std::fmt;

/// What a record says. Its number is the first byte of the record, and, but for
/// [`Kind::ForwardTable`], the id of its key; row marks use ids from 16 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// [`GroupEntry`](crate::GroupEntry).
    GroupEntry = 1,
    /// [`HighWater`](crate::HighWater).
    HighWater = 2,
    /// [`CleanedGaps`](crate::CleanedGaps).
    CleanedGaps = 3,
    /// [`DeletionVector`](crate::DeletionVector).
    DeletionVector = 4,
    /// [`Forward`](crate::Forward).
    Forward = 5,
    /// [`UpdateLinks`](crate::UpdateLinks).
    UpdateLinks = 6,
    /// [`RecentInserts`](crate::RecentInserts).
    RecentInserts = 7,
    /// [`RewriteNote`](crate::RewriteNote).
    RewriteNote = 8,
    /// [`ForwardTable`](crate::ForwardTable), stored as a long value.
    ForwardTable = 9,
    /// [`RowMark`](crate::RowMark).
    RowMark = 16,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 10] = [
        Kind::GroupEntry,
        Kind::HighWater,
        Kind::CleanedGaps,
        Kind::DeletionVector,
        Kind::Forward,
        Kind::UpdateLinks,
        Kind::RecentInserts,
        Kind::RewriteNote,
        Kind::ForwardTable,
        Kind::RowMark,
    ];

    /// The newest version of its layout, which is the one that is written.
    pub const fn version(self) -> u8 {
        match self {
            Kind::GroupEntry
            | Kind::HighWater
            | Kind::CleanedGaps
            | Kind::DeletionVector
            | Kind::Forward
            | Kind::UpdateLinks
            | Kind::RecentInserts
            | Kind::RewriteNote
            | Kind::ForwardTable
            | Kind::RowMark => 1,
        }
    }

    /// The id of the keys of its records; the first one, of row marks.
    pub const fn id(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id())
    }
}
