//! A rewrite in progress, and what it counts.

use howdah_bridge::table::Table;
use howdah_bridge::xid::Xid;
use pgrx::pg_sys;

/// A rewrite in progress.
pub(super) struct Rewriting {
    pub old_table: pg_sys::Relation,
    pub new_table: pg_sys::Relation,
    /// The horizon of the server's rewrite, for hot rows.
    pub oldest_xmin: pg_sys::TransactionId,
    /// Every transaction older than this is finished for all snapshots in this database.
    pub horizon: Xid,
}

impl Rewriting {
    pub fn table(&self) -> pg_sys::Oid {
        self.old_heap().oid()
    }

    pub fn old_heap(&self) -> Table<'_> {
        // SAFETY: the table is open as long as it is being rewritten.
        unsafe { Table::from_raw(self.old_table) }
    }

    pub fn new_heap(&self) -> Table<'_> {
        // SAFETY: as for `old_heap`.
        unsafe { Table::from_raw(self.new_table) }
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
