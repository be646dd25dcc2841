//! The size of a table's cold side.

use crate::store::directory::GroupEntry;

/// Rows and bytes of a table's cold side as the latest snapshot sees it, without groups of which no
/// row is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColdSize {
    /// Visible rows, approximately.
    pub rows: u64,
    /// Rows of the groups, hidden ones too.
    pub stored_rows: u64,
    pub bytes: u64,
    pub groups: u32,
    /// Rows that a reader of the whole table passes over, approximately: the hidden ones of all
    /// groups, also of those of which no row is left, unless that is known.
    pub passed_over: u64,
}

impl ColdSize {
    /// Adds a group of which so many rows, but not all, are hidden.
    pub(super) fn add(&mut self, entry: &GroupEntry, hidden: u32) {
        self.rows += u64::from(entry.row_count - hidden);
        self.stored_rows += u64::from(entry.row_count);
        self.bytes += entry.body_bytes + u64::from(entry.footer_bytes);
        self.groups += 1;
        self.passed_over += u64::from(hidden);
    }
}
