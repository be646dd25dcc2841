//! The cold row that this transaction has changed last.
//!
//! An update of a cold row reaches its old version repeatedly: a check of uniqueness finds its
//! index entry, and so does the next statement that looks up the new version by the same key. For
//! these, this module remembers what they would read from the mark: that the row is hidden, from
//! the command on at which heap's cmax would hide it.
//!
//! The memory is cleared when the transaction ends, when a subtransaction is rolled back, which may
//! have removed the mark, and when a file is emptied in place; other files have other names.

use std::cell::Cell;

use howdah_bridge::tid::RowNumber;
use pgrx::pg_sys;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    table: pg_sys::Oid,
    file: pg_sys::Oid,
    row: RowNumber,
}

impl Place {
    /// # Safety
    /// `rel` is open.
    unsafe fn of(rel: pg_sys::Relation, row: RowNumber) -> Place {
        // SAFETY: as for this function.
        unsafe {
            Place {
                table: (*rel).rd_id,
                file: (*rel).rd_locator.relNumber,
                row,
            }
        }
    }
}

thread_local! {
    static LAST: Cell<Option<(Place, pg_sys::CommandId)>> = const { Cell::new(None) };
}

/// Remembers that the command has marked the row.
///
/// # Safety
/// `rel` is open.
pub unsafe fn note(rel: pg_sys::Relation, row: RowNumber, command: pg_sys::CommandId) {
    // SAFETY: as for this function.
    let place = unsafe { Place::of(rel, row) };
    LAST.set(Some((place, command)));
}

pub fn forget() {
    LAST.set(None);
}

/// Whether the row is known to be hidden from an MVCC or a dirty snapshot.
///
/// # Safety
/// `rel` is open, the snapshot valid and of one of these kinds.
pub unsafe fn hides(rel: pg_sys::Relation, row: RowNumber, snapshot: pg_sys::Snapshot) -> bool {
    let Some((place, command)) = LAST.get() else {
        return false;
    };
    // SAFETY: as for this function.
    unsafe {
        let dirty = (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_DIRTY;
        place == Place::of(rel, row) && (dirty || command < (*snapshot).curcid)
    }
}
