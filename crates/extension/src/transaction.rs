//! What happens at the ends of transactions and statements: pending rows and marks are written or
//! dropped, and the rooms that remember anything of a transaction forget it.
//!
//! Above all rooms that it tells: none of them knows of this one.
//!
//! A process that is terminated (`pg_terminate_backend`, a fast shutdown) aborts its transaction
//! from wherever it is: the interrupted functions are still on the stack, with the values that they
//! have borrowed, and will not continue. State that belongs to this process alone ends with it and
//! must be left as it is: a panic here would keep PostgreSQL from releasing the process's buffer
//! pins, and a backend that waits for those buffers would wait for ever.

use howdah_bridge::cold_lock::locker;
use howdah_bridge::ffi::unguarded;
use pgrx::{pg_guard, pg_sys};

use crate::am::{cold_rows, fetch};
use crate::store::visibility::moved_changes;
use crate::store::{directory_version, pending_groups, pending_marks};
use crate::{load, slot_writer};

static mut PREVIOUS_EXECUTOR_START: pg_sys::ExecutorStart_hook_type = None;
static mut PREVIOUS_EXECUTOR_FINISH: pg_sys::ExecutorFinish_hook_type = None;

/// Registers the callbacks and hooks. Must be called once, from `_PG_init`.
pub fn register() {
    // SAFETY: called while the library loads, before any query runs; hooks are chained.
    unsafe {
        pg_sys::RegisterXactCallback(Some(at_transaction_event), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(at_subtransaction_event), std::ptr::null_mut());
        PREVIOUS_EXECUTOR_START = pg_sys::ExecutorStart_hook;
        pg_sys::ExecutorStart_hook = Some(at_executor_start);
        PREVIOUS_EXECUTOR_FINISH = pg_sys::ExecutorFinish_hook;
        pg_sys::ExecutorFinish_hook = Some(at_executor_finish);
    }
}

/// Whether this process is exiting.
fn is_ending() -> bool {
    // SAFETY: plain read of a flag.
    unsafe { pg_sys::proc_exit_inprogress }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_event(
    event: pg_sys::XactEvent::Type,
    _arg: *mut std::ffi::c_void,
) {
    use pg_sys::XactEvent::*;
    if is_ending() {
        return;
    }
    match event {
        XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE => {
            load::flush_all();
            pending_marks::write_all();
            if event == XACT_EVENT_PRE_PREPARE {
                crate::stop_point!("prepare");
            }
        }
        XACT_EVENT_ABORT | XACT_EVENT_COMMIT | XACT_EVENT_PREPARE => {
            load::reset();
            pending_marks::reset();
            moved_changes::reset();
            cold_rows::reset();
            directory_version::transaction_ends();
            locker::transaction_ends();
            fetch::reset();
            slot_writer::reset(event == XACT_EVENT_ABORT);
        }
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_subtransaction_event(
    event: pg_sys::SubXactEvent::Type,
    subtransaction: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut std::ffi::c_void,
) {
    use pg_sys::SubXactEvent::*;
    if is_ending() {
        return;
    }
    match event {
        SUBXACT_EVENT_PRE_COMMIT_SUB => {
            load::flush_subtransaction(subtransaction);
            pending_marks::write_subtransaction(subtransaction);
        }
        SUBXACT_EVENT_COMMIT_SUB => locker::subtransaction_commits(subtransaction),
        SUBXACT_EVENT_ABORT_SUB => {
            directory_version::subtransaction_aborts();
            locker::subtransaction_aborts(subtransaction);
            pending_groups::discard_subtransaction(subtransaction);
            pending_marks::discard_subtransaction(subtransaction);
            cold_rows::forget_locks();
            fetch::reset();
        }
        _ => {}
    }
}

/// Pending rows of a statement are written before its AFTER triggers fire.
///
/// Not guarded as a whole, see [`howdah_bridge::ffi::unguarded`].
///
/// # Safety
/// Called by the executor, with a started query.
unsafe extern "C-unwind" fn at_executor_finish(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the executor passes a started query; the previous hook or the standard function is
    // called exactly once, with nothing owned by this frame.
    unsafe {
        write_pending_of(query);
        match PREVIOUS_EXECUTOR_FINISH {
            Some(previous) => previous(query),
            None => unguarded::standard_ExecutorFinish(query),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn write_pending_of(query: *mut pg_sys::QueryDesc) {
    // SAFETY: as for at_executor_finish.
    unsafe {
        if pending_groups::any() && !(*query).estate.is_null() {
            load::flush_command((*(*query).estate).es_output_cid);
        }
        pending_marks::write_here();
    }
}

/// A query that starts while rows are being hidden in bulk, for example in a trigger, may run in
/// parallel, and its workers do not see this backend's memory.
///
/// Not guarded as a whole, see [`howdah_bridge::ffi::unguarded`].
///
/// # Safety
/// Called by the executor, with a query that was not started.
unsafe extern "C-unwind" fn at_executor_start(query: *mut pg_sys::QueryDesc, flags: i32) {
    // SAFETY: as for at_executor_finish.
    unsafe {
        if pending_marks::any() {
            prepare_for(query);
        }
        match PREVIOUS_EXECUTOR_START {
            Some(previous) => previous(query, flags),
            None => unguarded::standard_ExecutorStart(query, flags),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn prepare_for(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the query has a plan, which may also be run without workers.
    unsafe {
        if !pg_sys::IsInParallelMode() {
            pending_marks::write_here();
            if pending_marks::any() {
                (*(*query).plannedstmt).parallelModeNeeded = false;
            }
        }
    }
}
