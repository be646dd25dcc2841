//! Index entries that an index may drop while it needs space: `index_delete_tuples`.
//!
//! ```text
//!   entries of a page ──┬── hot  ──▶ heap's callback
//!                       └── cold, asked for ──▶ DeleteEntries ──▶ those of dead rows
//! ```
//!
//! Cold TIDs are taken out before heap is called, which would read their blocks; those that are
//! known to be dead are put back afterwards. The caller finds entries by their ids, and may rely on
//! none of them being omitted. The caller holds its page's lock, so that nothing may be waited for
//! here.

use pgrx::{pg_guard, pg_sys};

use super::Routine;
use crate::heap_am;
use crate::table::Table;
use crate::tid::{RowNumber, is_cold};
use crate::xid::Xid;

/// Decides which index entries of cold rows may be deleted.
pub trait DeleteEntries {
    /// The latest transaction that hid one of these rows, ascending, all of which are dead. Not a
    /// normal id if no snapshot can need any of them.
    fn last_hider(table: Table<'_>, rows: &[RowNumber]) -> Xid;

    /// Those of these rows, both ascending, that are dead to all, and the latest transaction that
    /// hid one of them, as above.
    fn dead_of(table: Table<'_>, rows: &[RowNumber]) -> (Vec<RowNumber>, Xid);
}

/// Has entries of cold rows judged by `D`.
pub fn set_delete_entries<D: DeleteEntries>(routine: &mut Routine) {
    routine.index_delete_tuples = Some(index_delete_tuples::<D>);
}

#[pg_guard]
unsafe extern "C-unwind" fn index_delete_tuples<D: DeleteEntries>(
    rel: pg_sys::Relation,
    request: *mut pg_sys::TM_IndexDeleteOp,
) -> pg_sys::TransactionId {
    // SAFETY: the arrays hold `ndeltids` entries, and each names its status by `id`; they belong to
    // the index AM, which waits for this call. The relation is open and locked.
    unsafe {
        let state = &mut *request;
        let all = std::slice::from_raw_parts_mut(state.deltids, state.ndeltids as usize);
        let is_asked = |entry: &pg_sys::TM_IndexDelete| {
            let status = &*state.status.add(entry.id as usize);
            match state.bottomup {
                true => status.promising,
                false => status.knowndeletable,
            }
        };
        let mut cold = Vec::new();
        let mut hot = 0;
        for i in 0..all.len() {
            if !is_cold(&all[i].tid) {
                all[hot] = all[i];
                hot += 1;
            } else if is_asked(&all[i]) {
                cold.push(all[i]);
            }
        }
        state.ndeltids = hot as i32;
        let mut conflict = match hot {
            0 => pg_sys::InvalidTransactionId,
            _ => {
                let delete = heap_am::callbacks().index_delete_tuples;
                pg_sys::ffi::pg_guard_ffi_boundary(|| delete(rel, request))
            }
        };
        let state = &mut *request;
        if cold.is_empty() {
            return conflict;
        }
        let (table, rows) = (Table::from_raw(rel), rows_of(&cold));
        let last = match state.bottomup {
            true => {
                let (dead, last) = D::dead_of(table, &rows);
                cold.retain(|entry| row_of(entry).is_some_and(|row| is_among(&dead, row)));
                last
            }
            false => D::last_hider(table, &rows),
        };
        if !cold.is_empty() {
            for entry in &cold {
                (*state.status.add(entry.id as usize)).knowndeletable = true;
            }
            let first = state.deltids.add(state.ndeltids as usize);
            std::ptr::copy_nonoverlapping(cold.as_ptr(), first, cold.len());
            state.ndeltids += cold.len() as i32;
            conflict = Xid::from_raw(conflict).younger(last).raw();
        }
        conflict
    }
}

fn row_of(entry: &pg_sys::TM_IndexDelete) -> Option<RowNumber> {
    RowNumber::from_tid(&entry.tid)
}

/// The rows of the entries, ascending, each once.
fn rows_of(entries: &[pg_sys::TM_IndexDelete]) -> Vec<RowNumber> {
    let mut rows: Vec<RowNumber> = entries.iter().filter_map(row_of).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

fn is_among(rows: &[RowNumber], row: RowNumber) -> bool {
    rows.binary_search(&row).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(row: u64, id: i16) -> pg_sys::TM_IndexDelete {
        let tid = RowNumber(row).tid().raw();
        pg_sys::TM_IndexDelete { tid, id }
    }

    #[test]
    fn rows_of_entries_are_ascending_and_named_once() {
        let hot = pg_sys::TM_IndexDelete {
            tid: crate::tid::tid_of(7, 3),
            id: 9,
        };
        let entries = [entry(700, 0), entry(3, 1), hot, entry(700, 2)];
        let rows = rows_of(&entries);
        assert_eq!(rows, [RowNumber(3), RowNumber(700)]);
        assert!(is_among(&rows, RowNumber(700)) && !is_among(&rows, RowNumber(4)));
        assert_eq!(row_of(&hot), None, "a hot row");
    }
}
