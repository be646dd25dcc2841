//! Tables of which nothing cold is left.
//!
//! A small table whose rows have all been changed once is hot from then on, but whoever reads it from end to end
//! would have to ask its cold side each time, which takes as long as the rest of a short statement. So
//! it is remembered that every row group a table has or is getting was wholly hidden by transactions that
//! are over: that stays true until the directory changes ([`super::changes`]), or a file is emptied in
//! place (`am/truncate.rs`).

use std::cell::RefCell;

use howdah_bridge::ffi::quiet;
use pgrx::pg_sys;

use super::changes;

/// Tables that are remembered.
const MOST: usize = 64;

#[derive(Clone, Copy)]
struct Emptied {
    table: u32,
    /// Names the table's contents: whatever exchanges its TOAST relation's file exchanges this one too.
    file: u32,
    changes: u32,
    /// The youngest transaction that hid a row.
    youngest: pg_sys::TransactionId,
}

thread_local! {
    static EMPTIED: RefCell<Vec<Emptied>> = const { RefCell::new(Vec::new()) };
}

/// Remembers that, after so many changes of the directory, nothing cold was left, and who hid it last.
///
/// # Safety
/// `table` is open.
pub(super) unsafe fn note(table: pg_sys::Relation, changes: u32, youngest: pg_sys::TransactionId) {
    // SAFETY: as for this function.
    let noted = unsafe {
        Emptied {
            table: (*table).rd_id.to_u32(),
            file: (*table).rd_locator.relNumber.to_u32(),
            changes,
            youngest,
        }
    };
    EMPTIED.with_borrow_mut(|emptied| {
        emptied.retain(|e| e.table != noted.table);
        if emptied.len() >= MOST {
            emptied.remove(0);
        }
        emptied.push(noted);
    });
}

/// Whether the snapshot is known to see no stored row of the table's cold side.
///
/// # Safety
/// `table` is open, the snapshot valid.
pub unsafe fn is_known(table: pg_sys::Relation, snapshot: pg_sys::Snapshot) -> bool {
    // SAFETY: as for this function.
    unsafe {
        if (*snapshot).snapshot_type != pg_sys::SnapshotType::SNAPSHOT_MVCC {
            return false;
        }
        let oid = (*table).rd_id.to_u32();
        let known = EMPTIED.with_borrow(|emptied| emptied.iter().find(|e| e.table == oid).copied());
        known.is_some_and(|known| {
            known.file == (*table).rd_locator.relNumber.to_u32()
                && quiet::TransactionIdPrecedes(known.youngest, (*snapshot).xmin)
                && changes::count(toast_of(table)) == Some(known.changes)
        })
    }
}

/// # Safety
/// `table` is open.
pub(super) unsafe fn toast_of(table: pg_sys::Relation) -> u32 {
    // SAFETY: as for this function.
    unsafe { (*(*table).rd_rel).reltoastrelid.to_u32() }
}

/// Forgets a table whose files are emptied in place.
pub(super) fn forget_table(table: pg_sys::Oid) {
    EMPTIED.with_borrow_mut(|emptied| emptied.retain(|e| e.table != table.to_u32()));
}
