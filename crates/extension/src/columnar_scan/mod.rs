//! ColumnarScan: reading a table by column inside PostgreSQL's executor.
//!
//! ```text
//!   planner   path ── offers the node for tables that have cold rows
//!             cost ── what it costs
//!             pushdown ── which clauses row groups can evaluate (used again by the executor)
//!
//!   executor  state ── begin, rescan, end        exec ── one row after the other
//!             hot rows:  heap's own scan ──────────────────────────────┐
//!             cold rows: reader ── units of zones: verdicts → filter   ├──> virtual slot
//!                        → decode → batch ── datums, column by column ─┘
//!             operand ── values to compare with       parallel ── shared units
//!             explain ── what was read         replan ── plans that have outlived the cold side
//! ```
//!
//! A table that has no cold rows is never offered this node, so it plans exactly like heap.
//!
//! Clauses. A clause that row groups can evaluate exactly is *pushed*: taken out of the node's
//! qual and kept in `custom_exprs`. Verdicts of statistics and zone maps skip row groups and
//! zones; what is left is filtered on encoded data. Where a group cannot decide (a numeric
//! image, a column that was added later, an operand that has no exact form) its rows are
//! *rechecked*: the pushed clauses are evaluated as PostgreSQL would. Hot rows always are.
//! A clause is pushed only if it is leakproof or no clause of a lower security level exists;
//! so it may always run first.
//!
//! Rows are returned in a virtual slot whatever side they come from. Its datums point into
//! the current batch or into the pinned hot page, and stay valid until the next call.
//!
//! Under UPDATE, DELETE, MERGE and row locks the node finds the rows, as any scan does: by a snapshot, ctid
//! among its columns. EvalPlanQual gives it the one row to look at again ([`exec`]).
//!
//! Not here: joins, aggregates, TABLESAMPLE.

mod batch;
mod cost;
mod cursors;
mod exec;
mod explain;
mod like;
mod operand;
mod parallel;
mod path;
mod pushdown;
mod reader;
mod replan;
mod singles;
mod state;

use std::ffi::CStr;

use howdah_bridge::upper::Methods;
use pgrx::pg_sys;

pub use cost::{cost_of_run, hot_reading, layout_of, reading, small_reading};

/// The node's name in EXPLAIN and in serialized plans.
const NAME: &CStr = c"ColumnarScan";

static PATH_METHODS: Methods<pg_sys::CustomPathMethods> = Methods(pg_sys::CustomPathMethods {
    CustomName: NAME.as_ptr(),
    PlanCustomPath: Some(path::plan_custom_path),
    ReparameterizeCustomPathByChild: None,
});

static SCAN_METHODS: Methods<pg_sys::CustomScanMethods> = Methods(pg_sys::CustomScanMethods {
    CustomName: NAME.as_ptr(),
    CreateCustomScanState: Some(state::create_custom_scan_state),
});

static EXEC_METHODS: Methods<pg_sys::CustomExecMethods> = Methods(pg_sys::CustomExecMethods {
    CustomName: NAME.as_ptr(),
    BeginCustomScan: Some(state::begin_custom_scan),
    ExecCustomScan: Some(exec::exec_custom_scan),
    EndCustomScan: Some(state::end_custom_scan),
    ReScanCustomScan: Some(state::rescan_custom_scan),
    MarkPosCustomScan: None,
    RestrPosCustomScan: None,
    EstimateDSMCustomScan: Some(parallel::estimate_dsm),
    InitializeDSMCustomScan: Some(parallel::initialize_dsm),
    ReInitializeDSMCustomScan: Some(parallel::reinitialize_dsm),
    InitializeWorkerCustomScan: Some(parallel::initialize_worker),
    ShutdownCustomScan: Some(parallel::shutdown),
    ExplainCustomScan: Some(explain::explain_custom_scan),
});

/// Makes the node known to planner and executor. Call once, from `_PG_init`.
pub fn register() {
    // SAFETY: the table is a static; the planner's hook is chained.
    unsafe {
        pg_sys::RegisterCustomScanMethods(&SCAN_METHODS.0);
        path::install();
        cursors::install();
    }
}
