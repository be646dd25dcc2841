//! What is done before a statement starts, when it has started, and before it finishes: the
//! executor's hooks.
//!
//! The hooks are not guarded as a whole, see [`crate::ffi::unguarded`]: an ERROR of the statement
//! keeps its position and its context. Only the work that is done here is.

use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

use crate::ffi::unguarded;
use crate::insert_plan::{self, PlannedInsert};
use crate::plain_insert;
use crate::xid::CommandId;

/// What is done around each statement.
pub struct StatementHooks {
    /// Whether a query that starts now must do without workers. Must neither panic nor raise an
    /// ERROR.
    pub forbids_workers: fn() -> bool,
    /// Called with the command of a query that changes rows, before its AFTER triggers fire.
    pub before_finish: fn(CommandId),
    /// Told of a statement that is going to insert rows, when it has started. Must neither panic
    /// nor raise an ERROR.
    pub expect_rows: fn(&PlannedInsert),
    /// Told of a statement that is going to update or delete rows, when it has started: its
    /// command, and the planner's estimate of how many rows, of all its tables. Must neither panic
    /// nor raise an ERROR.
    pub expect_changes: fn(CommandId, f64),
}

static HOOKS: OnceLock<StatementHooks> = OnceLock::new();
static mut PREVIOUS_START: pg_sys::ExecutorStart_hook_type = None;
static mut PREVIOUS_FINISH: pg_sys::ExecutorFinish_hook_type = None;

/// Installs the hooks in front of those that are there. Does nothing the second time.
pub fn install(hooks: StatementHooks) {
    if HOOKS.set(hooks).is_err() {
        return;
    }
    // SAFETY: called while the library loads, before any query runs; hooks are chained.
    unsafe {
        PREVIOUS_START = pg_sys::ExecutorStart_hook;
        pg_sys::ExecutorStart_hook = Some(at_start);
        PREVIOUS_FINISH = pg_sys::ExecutorFinish_hook;
        pg_sys::ExecutorFinish_hook = Some(at_finish);
    }
}

/// # Safety
/// Called by the executor, with a query that was not started.
unsafe extern "C-unwind" fn at_start(query: *mut pg_sys::QueryDesc, flags: i32) {
    // SAFETY: arguments are passed on unchanged, to exactly one successor; this frame owns nothing.
    unsafe {
        if (*(*query).plannedstmt).parallelModeNeeded
            && let Some(hooks) = HOOKS.get()
            && (hooks.forbids_workers)()
        {
            forbid_workers(query);
        }
        match PREVIOUS_START {
            Some(previous) => previous(query, flags),
            None => unguarded::standard_ExecutorStart(query, flags),
        }
        if plain_insert::is_candidate(query, flags) {
            expect_rows(query);
            plain_insert::prepare(query);
        } else if let Some(planned) = insert_plan::of_new_table(query, flags)
            && let Some(hooks) = HOOKS.get()
        {
            (hooks.expect_rows)(&planned);
        } else {
            expect_changes(query);
        }
    }
}

/// Tells how many rows an UPDATE, DELETE or MERGE is expected to change.
///
/// # Safety
/// A query that `standard_ExecutorStart` has started.
unsafe fn expect_changes(query: *mut pg_sys::QueryDesc) {
    use pg_sys::CmdType::{CMD_DELETE, CMD_MERGE, CMD_UPDATE};
    // SAFETY: the nodes and the state of a started query live until it ends; a node has a plan.
    unsafe {
        let (state, operation) = ((*query).planstate, (*query).operation);
        if !matches!(operation, CMD_UPDATE | CMD_DELETE | CMD_MERGE)
            || state.is_null()
            || (*state).type_ != pg_sys::NodeTag::T_ModifyTableState
        {
            return;
        }
        let child = (*state).lefttree;
        if let Some(hooks) = HOOKS.get()
            && !child.is_null()
        {
            let row_count = (*(*child).plan).plan_rows;
            (hooks.expect_changes)((*(*query).estate).es_output_cid, row_count);
        }
    }
}

/// Tells what an INSERT is expected to insert.
///
/// # Safety
/// As for [`plain_insert::prepare`].
#[pg_guard]
unsafe extern "C-unwind" fn expect_rows(query: *mut pg_sys::QueryDesc) {
    // SAFETY: as for this function.
    if let Some(planned) = unsafe { insert_plan::of_insert(query) }
        && let Some(hooks) = HOOKS.get()
    {
        (hooks.expect_rows)(&planned);
    }
}

/// Gives the query a statement of its own that runs without workers: the plan may be one that is
/// kept for further executions.
///
/// # Safety
/// As for [`at_start`].
#[pg_guard]
unsafe extern "C-unwind" fn forbid_workers(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the query has a statement, which may also be run without workers. The copy shares
    // its plan, and lives as long as the query's descriptor, which was allocated.
    unsafe {
        let memory = pg_sys::GetMemoryChunkContext(query.cast());
        let statement = pg_sys::MemoryContextAlloc(memory, size_of::<pg_sys::PlannedStmt>())
            .cast::<pg_sys::PlannedStmt>();
        statement.copy_from_nonoverlapping((*query).plannedstmt, 1);
        (*statement).parallelModeNeeded = false;
        (*query).plannedstmt = statement;
    }
}

/// # Safety
/// Called by the executor, with a started query.
unsafe extern "C-unwind" fn at_finish(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the argument is passed on unchanged, to exactly one successor; this frame owns
    // nothing.
    unsafe {
        run_to_the_end(query);
        finish(query);
        match PREVIOUS_FINISH {
            Some(previous) => previous(query),
            None => unguarded::standard_ExecutorFinish(query),
        }
    }
}

/// Runs the data-modifying CTEs that the query has not read to their ends, as the server would do
/// right before AFTER triggers fire. It runs them again, and finds them at their ends. Not guarded:
/// an ERROR keeps its context.
///
/// # Safety
/// As for [`at_finish`].
unsafe fn run_to_the_end(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the nodes were initialised with the query, and run in its memory, as by
    // `ExecPostprocessPlan`. After an ERROR the current memory context is set by what handles it.
    // Nothing here has a destructor.
    unsafe {
        let estate = (*query).estate;
        if estate.is_null() || (*estate).es_finished || (*estate).es_auxmodifytables.is_null() {
            return;
        }
        let before = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = (*estate).es_query_cxt;
        (*estate).es_direction = pg_sys::ScanDirection::ForwardScanDirection;
        let nodes = (*estate).es_auxmodifytables;
        let mut at = 0;
        while at < (*nodes).length {
            let node = (*(*nodes).elements.add(at as usize)).ptr_value;
            let node = node.cast::<pg_sys::PlanState>();
            // One with other parameters begins anew, which is left to the server.
            while (*node).chgParam.is_null()
                && let Some(next) = (*node).ExecProcNode
            {
                let slot = next(node);
                if slot.is_null() || (*slot).tts_flags as u32 & pg_sys::TTS_FLAG_EMPTY != 0 {
                    break;
                }
            }
            at += 1;
        }
        pg_sys::CurrentMemoryContext = before;
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn finish(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the query was started; its state lives until it is ended.
    let command = unsafe {
        let state = (*query).estate;
        // Of a query that only reads, the state names no command, and 0 may be that of another.
        let changes = (*query).operation != pg_sys::CmdType::CMD_SELECT
            || (*(*query).plannedstmt).hasModifyingCTE;
        (changes && !state.is_null()).then(|| (*state).es_output_cid)
    };
    if let Some(hooks) = HOOKS.get()
        && let Some(command) = command
    {
        (hooks.before_finish)(command);
    }
}
