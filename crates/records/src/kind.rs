//! The kinds of records.

use std::fmt;

/// What a record says. Its number is the first byte of the record, and mostly the [id](Kind::id) of
/// its key.
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
    /// [`BlockDeletions`](crate::BlockDeletions).
    BlockDeletions = 10,
    /// [`RowMark`](crate::RowMark).
    RowMark = 16,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 11] = [
        Kind::GroupEntry,
        Kind::HighWater,
        Kind::CleanedGaps,
        Kind::DeletionVector,
        Kind::Forward,
        Kind::UpdateLinks,
        Kind::RecentInserts,
        Kind::RewriteNote,
        Kind::ForwardTable,
        Kind::BlockDeletions,
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
            | Kind::BlockDeletions
            | Kind::RowMark => 1,
        }
    }

    /// The id of the keys of its records; the first one, of row marks and block deletions, whose
    /// keys name rows. A [`Kind::ForwardTable`] is a long value, and has none.
    pub const fn id(self) -> u32 {
        match self {
            Kind::BlockDeletions => 512,
            _ => self as u32,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", *self as u8)
    }
}
