//! Where transactions and statements end, pending groups are written or dropped.

use pgrx::{pg_guard, pg_sys};

use super::pending;

static mut PREVIOUS_PROCESS_UTILITY: pg_sys::ProcessUtility_hook_type = None;
static mut PREVIOUS_EXECUTOR_FINISH: pg_sys::ExecutorFinish_hook_type = None;

/// Registers the callbacks and hooks. Call once, from `_PG_init`.
pub fn register() {
    // SAFETY: called while the library loads, before any query runs; hooks are chained.
    unsafe {
        pg_sys::RegisterXactCallback(Some(at_transaction_event), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(at_subtransaction_event), std::ptr::null_mut());
        PREVIOUS_EXECUTOR_FINISH = pg_sys::ExecutorFinish_hook;
        pg_sys::ExecutorFinish_hook = Some(at_executor_finish);
        PREVIOUS_PROCESS_UTILITY = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(at_utility);
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

/// COPY calls `finish_bulk_insert` only when it inserts in batches; what a row-by-row COPY left
/// pending is written when it ends.
#[pg_guard]
#[allow(clippy::too_many_arguments)] // PostgreSQL's signature
unsafe extern "C-unwind" fn at_utility(
    statement: *mut pg_sys::PlannedStmt,
    query_string: *const std::ffi::c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    destination: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: arguments are passed on as they came; the next function is called exactly once.
    unsafe {
        let is_copy = (*(*statement).utilityStmt).type_ == pg_sys::NodeTag::T_CopyStmt;
        let serial = pending::serial_now();
        match PREVIOUS_PROCESS_UTILITY {
            Some(previous) => previous(
                statement,
                query_string,
                read_only_tree,
                context,
                params,
                environment,
                destination,
                completion,
            ),
            None => pg_sys::standard_ProcessUtility(
                statement,
                query_string,
                read_only_tree,
                context,
                params,
                environment,
                destination,
                completion,
            ),
        }
        if is_copy {
            pending::flush_since(serial);
        }
    }
}

/// A writing statement's rows are written before its AFTER triggers are fired.
#[pg_guard]
unsafe extern "C-unwind" fn at_executor_finish(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the executor hands us a started query; the previous hook or the standard
    // function is called exactly once.
    unsafe {
        if pending::has_pending() && !(*query).estate.is_null() {
            pending::flush_command((*(*query).estate).es_output_cid);
        }
        match PREVIOUS_EXECUTOR_FINISH {
            Some(previous) => previous(query),
            None => pg_sys::standard_ExecutorFinish(query),
        }
    }
}
