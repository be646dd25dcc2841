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
use howdah_bridge::tid::{RowNumber, is_cold};
use howdah_bridge::xid::Xid;
use pgrx::{pg_guard, pg_sys};

use super::cold_rows::held_group;
use super::heap;
use crate::store::directory::{self, GroupEntry};
use crate::store::marks;

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.index_delete_tuples = Some(index_delete_tuples);
}

#[pg_guard]
unsafe extern "C-unwind" fn index_delete_tuples(
    rel: pg_sys::Relation,
    delstate: *mut pg_sys::TM_IndexDeleteOp,
) -> pg_sys::TransactionId {
    // SAFETY: the arrays hold `ndeltids` entries; each names its status by `id`. Cold TIDs are
    // taken out before heap is called, which would read their blocks, and those that are known to
    // be dead are put back afterwards: the caller finds them by their ids, and may rely on none of
    // them being omitted. The caller holds its page's lock, so nothing may be waited for here.
    unsafe {
        let state = &mut *delstate;
        let all = std::slice::from_raw_parts_mut(state.deltids, state.ndeltids as usize);
        let is_asked = |entry: &pg_sys::TM_IndexDelete| {
            let status = &*state.status.add(entry.id as usize);
            match state.bottomup {
                true => status.promising,
                false => status.knowndeletable,
            }
        };
        let mut dead_cold = Vec::new();
        let mut hot = 0;
        for i in 0..all.len() {
            if !is_cold(&all[i].tid) {
                all[hot] = all[i];
                hot += 1;
            } else if is_asked(&all[i]) {
                dead_cold.push(all[i]);
            }
        }
        state.ndeltids = hot as i32;
        let mut conflict = match hot {
            0 => pg_sys::InvalidTransactionId,
            _ => {
                let delete = heap().index_delete_tuples.unwrap_unchecked();
                pg_sys::ffi::pg_guard_ffi_boundary(|| delete(rel, delstate))
            }
        };
        let state = &mut *delstate;
        if dead_cold.is_empty() {
            return conflict;
        }
        let youngest = match state.bottomup {
            true => keep_dead(rel, &mut dead_cold),
            false => last_hider(rel, &dead_cold),
        };
        if !dead_cold.is_empty() {
            for entry in &dead_cold {
                (*state.status.add(entry.id as usize)).knowndeletable = true;
            }
            let first = state.deltids.add(state.ndeltids as usize);
            std::ptr::copy_nonoverlapping(dead_cold.as_ptr(), first, dead_cold.len());
            state.ndeltids += dead_cold.len() as i32;
            conflict = Xid::from_raw(conflict)
                .younger(Xid::from_raw(youngest))
                .raw();
        }
        conflict
    }
}

/// The latest transaction that hid one of these rows, all of which are dead; not a normal id if
/// none of the marks or deletion vectors that hide them names its transaction any more.
///
/// # Safety
/// The relation is open and locked.
unsafe fn last_hider(
    rel: pg_sys::Relation,
    entries: &[pg_sys::TM_IndexDelete],
) -> pg_sys::TransactionId {
    let mut rows: Vec<RowNumber> = entries.iter().filter_map(row_of).collect();
    rows.sort_unstable();
    rows.dedup();
    // SAFETY: the relation is open.
    let store = ColdStore::open_at_once(unsafe { Table::from_raw(rel) });
    let known = store.and_then(|store| marks::last_hider(&store, &rows).ok());
    known.map_or_else(recovery_conflict::latest, Xid::raw)
}

/// Keeps the entries of rows whose marks are visible to all; returns the youngest transaction that
/// wrote such a mark, if any is not frozen.
///
/// # Safety
/// The relation is open and locked.
unsafe fn keep_dead(
    rel: pg_sys::Relation,
    entries: &mut Vec<pg_sys::TM_IndexDelete>,
) -> pg_sys::TransactionId {
    let mut youngest = Xid::INVALID;
    let mut dead = Vec::new();
    // SAFETY: the relation is open.
    let table = unsafe { Table::from_raw(rel) };
    if let Some(store) = ColdStore::open_held(table) {
        let mut rows: Vec<RowNumber> = entries.iter().filter_map(row_of).collect();
        rows.sort_unstable();
        let is_over = |xid| table.is_over_for_all(xid);
        let mut rest = &rows[..];
        while let Some(&first) = rest.first() {
            let Some(entry) = known_group(table, &store, first) else {
                rest = &rest[1..];
                continue;
            };
            let (of_group, others) = rest.split_at(rest.partition_point(|&row| entry.covers(row)));
            marks::for_each_dead(&store, &entry, of_group, &is_over, &mut |row, hider| {
                dead.push(row);
                if hider.is_normal() {
                    youngest = youngest.younger(hider);
                }
            });
            rest = others;
        }
    }
    entries.retain(|entry| row_of(entry).is_some_and(|row| dead.binary_search(&row).is_ok()));
    youngest.raw()
}

fn row_of(entry: &pg_sys::TM_IndexDelete) -> Option<RowNumber> {
    RowNumber::from_tid(&entry.tid)
}

/// The group of a row, if it is known without reading the directory.
fn known_group(table: Table<'_>, store: &ColdStore, row: RowNumber) -> Option<GroupEntry> {
    held_group(table, row).or_else(|| Some(directory::settled(store, row)?.entry))
}
