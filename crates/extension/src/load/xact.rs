//! Where transactions and statements end, pending groups are written or dropped.

use howdah_bridge::ffi;
use pgrx::{pg_guard, pg_sys};

use super::pending;

static mut PREVIOUS_EXECUTOR_FINISH: pg_sys::ExecutorFinish_hook_type = None;

/// Registers the callbacks and hooks. Call once, from `_PG_init`.
pub fn register() {
    // SAFETY: called while the library loads, before any query runs; hooks are chained.
    unsafe {
        pg_sys::RegisterXactCallback(Some(at_transaction_event), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(at_subtransaction_event), std::ptr::null_mut());
        PREVIOUS_EXECUTOR_FINISH = pg_sys::ExecutorFinish_hook;
        pg_sys::ExecutorFinish_hook = Some(at_executor_finish);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_event(
    event: pg_sys::XactEvent::Type,
    _arg: *mut std::ffi::c_void,
) {
    use pg_sys::XactEvent::*;
    match event {
        XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE => pending::flush_all(),
        XACT_EVENT_ABORT | XACT_EVENT_COMMIT | XACT_EVENT_PREPARE => pending::reset(),
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
    match event {
        SUBXACT_EVENT_PRE_COMMIT_SUB => pending::flush_subtransaction(subtransaction),
        SUBXACT_EVENT_ABORT_SUB => pending::discard_subtransaction(subtransaction),
        _ => {}
    }
}

/// A writing statement's rows are written before its AFTER triggers are fired. A plain frame, see
/// [`howdah_bridge::ffi::unguarded`]: a trigger's ERROR jumps over it unchanged.
unsafe extern "C-unwind" fn at_executor_finish(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the executor hands us a started query; the previous hook or the standard
    // function is called exactly once.
    unsafe {
        if pending::has_pending() && !(*query).estate.is_null() {
            flush_statement((*(*query).estate).es_output_cid);
        }
        match PREVIOUS_EXECUTOR_FINISH {
            Some(previous) => previous(query),
            None => ffi::unguarded::standard_ExecutorFinish(query),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn flush_statement(command: pg_sys::CommandId) {
    pending::flush_command(command);
}
