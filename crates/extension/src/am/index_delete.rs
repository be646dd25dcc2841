//! Which entries an index may delete to make space.
//!
//! Entries of hot rows are left to heap. A cold row with a mark that is visible to all was reported
//! as dead to all when its entry was followed ([`super::fetch`]); such an entry may be deleted. An
//! index that is about to split a page full of versions of the same rows (bottom-up deletion) also
//! passes entries that no scan has followed. Then the marks of the rows are read, if this
//! transaction has the store open for writing, as a transaction that updates a cold row has.
//! Otherwise each update of a cold row would leave its entry until the next VACUUM, and split its
//! page.
//!
//! The index page is locked meanwhile. Pages of the store are locked after it, one at a time, as in
//! a check of uniqueness. This cannot deadlock, because a backend that has locked a page of the
//! store locks no page of the table's indexes. No heavyweight lock is requested, since that might
//! have to wait.
//!
//! The index also needs the snapshot conflict horizon: the latest transaction that a standby's
//! snapshots must see as finished to need none of the entries. It is computed from the transactions
//! that hid the rows ([`marks::last_hider`]), not from the current horizon: that may have moved
//! back since the entry was found dead, by another backend or before a restart. For entries that
//! are already known to be dead the marks are read without waiting; if the store is locked against
//! readers, the result is the latest transaction that exists, which cancels more snapshots than
//! necessary.

use howdah_bridge::recovery_conflict;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Table;
use howdah_bridge::table_am::{self, DeleteEntries, Routine};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::Xid;

use super::cold_rows::held_group;
use crate::store::directory::{self, GroupEntry};
use crate::store::marks::{self, DeadSearch};

pub(super) fn install(am: &mut Routine) {
    table_am::set_delete_entries::<ColdRows>(am);
}

struct ColdRows;

impl DeleteEntries for ColdRows {
    fn last_hider(table: Table<'_>, rows: &[RowNumber]) -> Xid {
        let store = ColdStore::open_at_once(table);
        let known = store.and_then(|store| marks::last_hider(&store, rows).ok());
        known.unwrap_or_else(|| Xid::from_raw(recovery_conflict::latest()))
    }

    fn dead_of(table: Table<'_>, rows: &[RowNumber]) -> (Vec<RowNumber>, Xid) {
        let mut youngest = Xid::INVALID;
        let mut dead = Vec::new();
        let Some(store) = ColdStore::open_held(table) else {
            return (dead, youngest);
        };
        let is_over = |xid| table.is_removable_xid(xid);
        let mut search = DeadSearch::new(&is_over);
        let mut rest = rows;
        while let Some(&first) = rest.first() {
            let Some(entry) = known_group(table, &store, first) else {
                rest = &rest[1..];
                continue;
            };
            let (of_group, others) = rest.split_at(rest.partition_point(|&row| entry.covers(row)));
            search.for_each_dead(&store, &entry, of_group, &mut |row, hider| {
                dead.push(row);
                if hider.is_normal() {
                    youngest = youngest.younger(hider);
                }
            });
            rest = others;
        }
        dead.sort_unstable();
        (dead, youngest)
    }
}

/// The group of a row, if it is known without reading the directory.
fn known_group(table: Table<'_>, store: &ColdStore, row: RowNumber) -> Option<GroupEntry> {
    held_group(table, row).or_else(|| Some(directory::settled(store, row)?.entry))
}
