//! Heap's own table access method, for hot rows.
//!
//! Its callbacks are called without a guard: an ERROR passes over the frames up to the next guard.
//! So a caller must not hold anything that only `Drop` releases.

use std::sync::OnceLock;

use pgrx::pg_sys;

use crate::hot::growth::Growth;
use crate::row_request::{LockRequest, RowFailure, RowResult};
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::tid::Tid;
use crate::xid::CommandId;

struct Routine(pg_sys::TableAmRoutine);
// SAFETY: function pointers only; never written after it was made.
unsafe impl Send for Routine {}
// SAFETY: shared references only read it: it is never written after it was made.
unsafe impl Sync for Routine {}

/// Heap's routine.
pub fn routine() -> &'static pg_sys::TableAmRoutine {
    static HEAP: OnceLock<Routine> = OnceLock::new();
    let read = || {
        // SAFETY: returns a pointer to a static of the server.
        Routine(unsafe { *pg_sys::GetHeapamTableAmRoutine() })
    };
    &HEAP.get_or_init(read).0
}

/// Inserts the row in the slot, and stores its TID there. The table is locked for writing.
pub fn insert(table: Table<'_>, slot: Slot<'_>, command: CommandId) {
    let mut growth = Growth::of(table);
    // SAFETY: heap has this callback; table and slot are valid, and the slot holds a row of the
    // table.
    unsafe {
        let insert = routine().tuple_insert.unwrap_unchecked();
        insert(table.raw(), slot.raw(), command, 0, growth.state());
    }
    growth.end();
}

/// The result of a row lock, with the place of the row that was locked.
pub struct LockedRow {
    pub result: RowResult,
    pub failure: RowFailure,
    pub at: Tid,
}

/// Locks the row at a hot TID, and stores it in the slot.
pub fn lock(table: Table<'_>, tid: Tid, slot: Slot<'_>, request: LockRequest<'_>) -> LockedRow {
    let mut at = tid.raw();
    let mut failure = pg_sys::TM_FailureData::default();
    let snapshot = request.snapshot.map_or(std::ptr::null_mut(), Snapshot::raw);
    // SAFETY: heap has this callback; table, snapshot and slot are valid.
    let result = unsafe {
        let lock_row = routine().tuple_lock.unwrap_unchecked();
        lock_row(
            table.raw(),
            &mut at,
            snapshot,
            slot.raw(),
            request.command,
            request.lock.raw(),
            request.wait.raw(),
            request.flags.raw(),
            &mut failure,
        )
    };
    LockedRow {
        result: RowResult::from_raw(result),
        failure: RowFailure::from_raw(&failure),
        at: Tid::from_raw(at),
    }
}
