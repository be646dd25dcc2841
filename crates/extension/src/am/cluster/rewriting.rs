//! A rewrite in progress, and what it counts.

use howdah_bridge::Oid;
use howdah_bridge::table::Table;
use howdah_bridge::xid::Xid;

/// A rewrite in progress.
pub(super) struct Rewriting<'a> {
    pub old_heap: Table<'a>,
    pub new_heap: Table<'a>,
    /// The horizon of the server's rewrite, for hot rows.
    pub oldest_xmin: Xid,
    /// Every transaction older than this is finished for all snapshots in this database.
    pub horizon: Xid,
}

impl Rewriting<'_> {
    /// The table that is rewritten.
    pub fn table(&self) -> Oid {
        self.old_heap.oid()
    }
}

/// Counts of row versions, as CLUSTER reports them.
#[derive(Default)]
pub(super) struct Counts {
    pub kept: f64,
    pub removed: f64,
    pub recently_dead: f64,
    /// Rows that were written to the new table.
    pub written: u64,
}
