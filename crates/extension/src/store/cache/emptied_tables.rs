//! Tables whose cold side is known to have no visible row.
//!
//! A small table whose rows have all been changed once is hot from then on, but a scan of it would
//! have to ask its cold side each time, which takes as long as the rest of a short statement. So it
//! is remembered that every row group of a table was wholly hidden by transactions that have ended.
//! That stays true until the directory changes ([`crate::store::directory_version`]), or a file is
//! emptied in place (`am/truncate.rs`).

use std::cell::RefCell;

use howdah_bridge::Oid;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::{Table, TableFile};
use howdah_bridge::xid::Xid;

use crate::bounded_cache::HashCache;
use crate::store::directory_version;

/// The number of tables that are remembered.
const MOST: usize = 64;

#[derive(Clone, Copy)]
struct Emptied {
    /// Identifies the table's contents: whatever replaces the file of its TOAST relation replaces
    /// this.
    file: TableFile,
    changes: u32,
    /// The youngest transaction that hid a row.
    youngest: Xid,
}

thread_local! {
    /// By table.
    static EMPTIED: RefCell<HashCache<Oid, Emptied>> = RefCell::new(HashCache::of_entries(MOST));
}

/// Remembers that, after so many changes of the directory, no cold row was left, and which
/// transaction hid the last one.
pub(in crate::store) fn note(table: Table<'_>, changes: u32, youngest: Xid) {
    let noted = Emptied {
        file: table.file(),
        changes,
        youngest,
    };
    EMPTIED.with_borrow_mut(|emptied| emptied.insert(table.oid(), noted));
}

/// Whether the snapshot is known to see no stored row of the table's cold side.
pub fn is_known(table: Table<'_>, snapshot: Snapshot<'_>) -> bool {
    if !snapshot.is_mvcc() {
        return false;
    }
    let oid = table.oid();
    let known = EMPTIED.with_borrow_mut(|emptied| emptied.get(&oid).copied());
    known.is_some_and(|known| {
        known.file == table.file()
            && known.youngest.precedes(snapshot.xmin())
            && directory_version::current(toast_of(table)) == Some(known.changes)
    })
}

pub(in crate::store) fn toast_of(table: Table<'_>) -> Oid {
    table.toast_oid().unwrap_or(Oid::INVALID)
}

/// Discards a table whose files are truncated in place.
pub(super) fn forget_table(table: Oid) {
    EMPTIED.with_borrow_mut(|emptied| emptied.remove(&table));
}
