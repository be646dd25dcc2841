//! The node in the executor.
//!
//! ```text
//!   begin ─▶ first row asked for: engine.run ─┬─ rows ─▶ batches of datums ─▶ HAVING ─▶ projection
//!                                             └─ None ─▶ the child is begun, its rows are ours
//! ```
//!
//! Invariant: the engine and all its threads have ended before the first row is returned. So
//! between calls the node holds memory only. A rescan runs the engine again if a parameter of the
//! node has changed; otherwise it returns the same rows again.
//!
//! [`exec_custom_scan`] runs once per row. It calls nothing that can panic and holds nothing that
//! has a destructor, so PostgreSQL's errors may jump over it. All other work is behind guarded
//! functions.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pgrx::{PgList, PgMemoryContexts, pg_guard, pg_sys};

use super::analysis::restricted_equality;
use super::batch::Batch;
use super::explain::explain_custom_scan;
use super::foreign::Raised;
use super::plan::{self, NAME};
use super::pruning;
use super::run::{OpenTable, Run, emptied_run_memory, operand_states, values};
use super::{Left, Rows, engine};
use crate::custom_node::{Methods, new_state, no_exec_methods};
use crate::ffi::unguarded;
use crate::role::Role;
use crate::row_expr::{interrupts, passes, project};
use crate::slot::clear;

static EXEC_METHODS: Methods<pg_sys::CustomExecMethods> = Methods(pg_sys::CustomExecMethods {
    BeginCustomScan: Some(begin_custom_scan),
    ExecCustomScan: Some(exec_custom_scan),
    EndCustomScan: Some(end_custom_scan),
    ReScanCustomScan: Some(rescan_custom_scan),
    ExplainCustomScan: Some(explain_custom_scan),
    ..no_exec_methods(NAME)
});

/// The executor's node; the core knows `css` only.
#[repr(C)]
struct VectorizedState {
    css: pg_sys::CustomScanState,
    /// Rust's part, made by [`begin_custom_scan`], dropped with the query's memory.
    inner: *mut Inner,
}

/// What the node keeps in Rust memory.
pub(super) struct Inner {
    /// The relation in the query, whose attributes the shape names.
    pub(super) relation: pg_sys::Relation,
    /// Its place in the range table of the whole statement.
    pub(super) rti: i32,
    pub(super) tables: Vec<OpenTable>,
    /// Partitions that initial pruning has excluded.
    pub(super) pruned_count: usize,
    width: usize,
    rows: Option<Box<dyn Rows>>,
    /// Why PostgreSQL's own plan is run, if it is.
    left: Option<Left>,
    batch: Batch,
    /// The next row of the batch.
    at: usize,
    has_started: bool,
    /// The operands, ready to be evaluated; `None` before the first run.
    pub(super) operands: Option<Vec<*mut pg_sys::ExprState>>,
    /// What a run allocates besides its rows; NULL before the first. It is emptied before each run,
    /// so that any number of rescans needs no more than one.
    pub(super) run_memory: pg_sys::MemoryContext,
    /// PostgreSQL's own plan; NULL unless it is run.
    child: *mut pg_sys::PlanState,
    /// The same once it was begun, be it only for its pruning; NULL before.
    begun: *mut pg_sys::PlanState,
    /// Under which the node was begun; the rights of its expressions are those of this role,
    /// whichever fetches from a cursor.
    pub(super) role: Role,
    /// The ERROR of a foreign expression, by which the run is unwinding.
    pub(super) raised: Raised,
}

impl Inner {
    pub(super) fn relation_oid(&self) -> pg_sys::Oid {
        // SAFETY: the relation is open until the executor ends.
        unsafe { (*self.relation).rd_id }
    }

    /// Whether the relation stands for others.
    pub(super) fn is_parent(&self) -> bool {
        !matches!(self.tables.as_slice(), [one] if one.relation == self.relation)
    }

    pub(super) fn table_oids(&self) -> impl Iterator<Item = pg_sys::Oid> {
        // SAFETY: the relations are open until the executor ends.
        (self.tables.iter()).map(|table| unsafe { (*table.relation).rd_id })
    }

    /// Tables that parameters of the last run have excluded.
    pub(super) fn left_out_count(&self) -> usize {
        self.tables.iter().filter(|table| table.is_left_out).count()
    }

    pub(super) fn left(&self) -> Option<&Left> {
        self.left.as_ref()
    }

    pub(super) fn rows(&self) -> Option<&dyn Rows> {
        self.rows.as_deref()
    }
}

/// The Rust part of a node.
///
/// # Safety
/// `node` was begun and not ended.
pub(super) unsafe fn inner<'a>(node: *mut pg_sys::CustomScanState) -> &'a mut Inner {
    // SAFETY: `css` is the first field; the executor calls a node from one place at a time.
    unsafe { &mut *(*node.cast::<VectorizedState>()).inner }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn create_custom_scan_state(
    _plan: *mut pg_sys::CustomScan,
) -> *mut pg_sys::Node {
    // SAFETY: `css` is the first field; all fields may be zero.
    unsafe { new_state::<VectorizedState>(&EXEC_METHODS) }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin_custom_scan(
    node: *mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    eflags: i32,
) {
    // SAFETY: the core has filled in the node; the current memory context is the query's.
    unsafe {
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let rti = plan::table_index(plan);
        let relation = pg_sys::ExecOpenScanRelation(estate, rti, eflags);
        // All places in the range table were shifted by as much as this one.
        let shift = rti as i32 - plan::shape((*plan).custom_private).rti;
        let planned = plan::tables((*plan).custom_private);
        let planned_count = planned.len();
        let mut tables = Vec::with_capacity(planned_count);
        for table in planned {
            let rti = table.rti + shift;
            // Where initial pruning excludes a partition, none of its rows passes the filter.
            if pg_sys::bms_is_member(rti, (*estate).es_unpruned_relids) {
                tables.push(OpenTable {
                    relation: pg_sys::ExecOpenScanRelation(estate, rti as pg_sys::Index, eflags),
                    rti,
                    is_left_out: false,
                    attributes: table.attributes,
                });
            }
        }
        let desc = (*(*node).ss.ss_ScanTupleSlot).tts_tupleDescriptor;
        // The last place is the table's variable.
        let width = (*desc).natts as usize - 1;
        pg_sys::ExecStoreAllNullTuple((*node).ss.ss_ScanTupleSlot);
        pg_sys::ExecClearTuple((*node).ss.ss_ScanTupleSlot);
        let state = Inner {
            relation,
            rti: rti as i32,
            pruned_count: planned_count - tables.len(),
            tables,
            width,
            rows: None,
            left: None,
            batch: Batch::default(),
            at: 0,
            has_started: false,
            operands: None,
            run_memory: std::ptr::null_mut(),
            child: std::ptr::null_mut(),
            begun: std::ptr::null_mut(),
            role: Role::current(),
            raised: std::ptr::null_mut(),
        };
        (*node.cast::<VectorizedState>()).inner =
            PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(state);
    }
}

/// Returns the next row, or an empty slot.
///
/// # Safety
/// `node` was begun by the executor, and is not ended yet.
unsafe extern "C-unwind" fn exec_custom_scan(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: see the module's header. The batch holds `row_count` rows of `width` places, which
    // the scan slot has.
    unsafe {
        let state: *mut Inner = (*node.cast::<VectorizedState>()).inner;
        if !(*state).has_started {
            let raised = start(node);
            if !raised.is_null() {
                unguarded::ThrowErrorData(raised);
            }
        }
        if !(*state).child.is_null() {
            return next_of_child(node, (*state).child);
        }
        let slot = (*node).ss.ss_ScanTupleSlot;
        loop {
            if (*state).at == (*state).batch.row_count {
                if !refill(state) {
                    return nothing(node);
                }
                continue;
            }
            let (row, width) = ((*state).at, (*state).width);
            (*state).at = row + 1;
            let values = (*state).batch.values.as_ptr().add(row * width);
            let nulls = (*state).batch.nulls.as_ptr().add(row * width);
            clear(slot);
            std::ptr::copy_nonoverlapping(values, (*slot).tts_values, width);
            std::ptr::copy_nonoverlapping(nulls, (*slot).tts_isnull, width);
            (*slot).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
            (*slot).tts_nvalid = (*(*slot).tts_tupleDescriptor).natts as i16;
            let context = (*node).ss.ps.ps_ExprContext;
            if !passes((*node).ss.ps.qual, context, slot) {
                let instrument = (*node).ss.ps.instrument;
                if !instrument.is_null() {
                    (*instrument).nfiltered1 += 1.0;
                }
                interrupts();
                continue;
            }
            let projection = (*node).ss.ps.ps_ProjInfo;
            return match projection.is_null() {
                true => slot,
                false => project(projection, context, slot),
            };
        }
    }
}

/// The slot in which the node's rows are returned.
///
/// # Safety
/// `node` was begun by the executor, and is not ended yet.
unsafe fn result_slot(node: *mut pg_sys::CustomScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as for the caller.
    unsafe {
        let projection = (*node).ss.ps.ps_ProjInfo;
        match projection.is_null() {
            true => (*node).ss.ss_ScanTupleSlot,
            false => (*projection).pi_state.resultslot,
        }
    }
}

/// The empty slot that ends the rows.
///
/// # Safety
/// `node` was begun by the executor, and is not ended yet.
unsafe fn nothing(node: *mut pg_sys::CustomScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as for the caller; the slot is virtual.
    unsafe {
        let slot = result_slot(node);
        clear(slot);
        slot
    }
}

/// A row of PostgreSQL's own plan, in the node's own slot: its consumers count on a virtual one.
#[pg_guard]
unsafe extern "C-unwind" fn next_of_child(
    node: *mut pg_sys::CustomScanState,
    child: *mut pg_sys::PlanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: the child was begun; its rows have the node's columns, in a scan slot one more than
    // these.
    unsafe {
        // As the core's ExecProcNode does: a plan whose parameters have changed starts anew.
        if !(*child).chgParam.is_null() {
            pg_sys::ExecReScan(child);
        }
        // `ExecSetExecProcNode` has set it. Read each time: the first call replaces it.
        let next = (*child).ExecProcNode.unwrap_unchecked();
        let from = pg_sys::ffi::pg_guard_ffi_boundary(|| next(child));
        let slot = nothing(node);
        if from.is_null() || (*from).tts_flags & pg_sys::TTS_FLAG_EMPTY as u16 != 0 {
            return slot;
        }
        let count = (*(*from).tts_tupleDescriptor).natts;
        if i32::from((*from).tts_nvalid) < count {
            pg_sys::slot_getsomeattrs_int(from, count);
        }
        std::ptr::copy_nonoverlapping((*from).tts_values, (*slot).tts_values, count as usize);
        std::ptr::copy_nonoverlapping((*from).tts_isnull, (*slot).tts_isnull, count as usize);
        pg_sys::ExecStoreVirtualTuple(slot)
    }
}

/// Runs the engine, or begins PostgreSQL's own plan. Returns the ERROR of a foreign expression, to
/// be raised as it was.
#[pg_guard]
unsafe extern "C-unwind" fn start(node: *mut pg_sys::CustomScanState) -> Raised {
    // SAFETY: the node was begun; what is begun here lives in the query's memory, as if it had been
    // begun with the node.
    unsafe {
        inner(node).has_started = true;
        let estate = (*node).ss.ps.state;
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let query_memory = (*estate).es_query_cxt;
        let old = pg_sys::MemoryContextSwitchTo(query_memory);
        let states = operand_states(node, (*plan).custom_exprs);
        if plan::is_pruned((*plan).custom_private) {
            let left_out = pruning::tables_left_out(begun_child(node));
            for table in &mut inner(node).tables {
                table.is_left_out = left_out.contains(&table.rti);
            }
        }
        pg_sys::MemoryContextSwitchTo(emptied_run_memory(node, query_memory));
        let run = Run {
            node,
            shape: plan::shape((*plan).custom_private),
            operands: values((*node).ss.ps.ps_ExprContext, &states),
            foreign: plan::foreign((*plan).custom_private),
            decisions: plan::decisions((*plan).custom_private),
            executor: PhantomData,
        };
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let before = inner(node).rows.take();
            let keys = run.shape.keys.iter().copied();
            if keys.filter_map(restricted_equality).next().is_some() {
                return Err(Left::Changed);
            }
            engine().map_or(Err(Left::Changed), |engine| engine.run(&run, before))
        }));
        let rows = match ran {
            Ok(rows) => rows,
            Err(panic) => {
                let raised = std::mem::replace(&mut *run.raised(), std::ptr::null_mut());
                if raised.is_null() {
                    resume_unwind(panic);
                }
                pg_sys::MemoryContextSwitchTo(old);
                return raised;
            }
        };
        pg_sys::MemoryContextSwitchTo(query_memory);
        // Borrowed only now: the run has looked at the tables.
        let rows = match rows {
            Ok(rows) => rows,
            Err(left) => {
                let child = begun_child(node);
                let mut children = PgList::<pg_sys::PlanState>::new();
                children.push(child);
                (*node).custom_ps = children.into_pg();
                inner(node).left = Some(left);
                inner(node).child = child;
                pg_sys::MemoryContextSwitchTo(old);
                return std::ptr::null_mut();
            }
        };
        let state = inner(node);
        let row_count = rows.row_count();
        state.rows = Some(rows);
        state.batch = Batch::of(state.width, row_count);
        state.at = 0;
        pg_sys::MemoryContextSwitchTo(old);
    }
    std::ptr::null_mut()
}

/// PostgreSQL's own plan, begun in the current memory, which is the query's.
///
/// # Safety
/// `node` was begun.
unsafe fn begun_child(node: *mut pg_sys::CustomScanState) -> *mut pg_sys::PlanState {
    // SAFETY: as for this function; the executor's state lives as long as the node.
    unsafe {
        if inner(node).begun.is_null() {
            let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
            let plans = PgList::<pg_sys::Plan>::from_pg((*plan).custom_plans);
            let child = plans.get_ptr(0).unwrap_or(std::ptr::null_mut());
            let (role, estate) = (inner(node).role, (*node).ss.ps.state);
            inner(node).begun = role.run(|| pg_sys::ExecInitNode(child, estate, 0));
        }
        inner(node).begun
    }
}

/// Takes the next rows from the engine; `false` at the end.
#[pg_guard]
unsafe extern "C-unwind" fn refill(state: *mut Inner) -> bool {
    // SAFETY: the node was started.
    let state = unsafe { &mut *state };
    crate::check_for_interrupts!();
    state.at = 0;
    state.batch.row_count = 0;
    if let Some(rows) = &mut state.rows {
        rows.next(&mut state.batch);
    }
    state.batch.row_count > 0
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan_custom_scan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node was begun.
    unsafe {
        let state = inner(node);
        let has_changed = !(*node).ss.ps.chgParam.is_null();
        pg_sys::ExecClearTuple((*node).ss.ss_ScanTupleSlot);
        state.at = 0;
        state.batch.row_count = 0;
        if !state.child.is_null() {
            if has_changed {
                pg_sys::UpdateChangedParamSet(state.child, (*node).ss.ps.chgParam);
            }
            if (*state.child).chgParam.is_null() {
                pg_sys::ExecReScan(state.child);
            }
        } else if has_changed {
            if !state.begun.is_null() {
                // Should it be run, it starts anew.
                pg_sys::UpdateChangedParamSet(state.begun, (*node).ss.ps.chgParam);
            }
            if let Some(rows) = &mut state.rows {
                rows.forget();
            }
            state.has_started = false;
        } else if let Some(rows) = &mut state.rows {
            rows.rewind();
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end_custom_scan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node was begun. What is large goes now, the rest with the query's memory; tables
    // are closed with the executor's range table.
    unsafe {
        if (*node.cast::<VectorizedState>()).inner.is_null() {
            return;
        }
        let state = inner(node);
        state.rows = None;
        state.batch = Batch::default();
        if !state.begun.is_null() {
            pg_sys::ExecEndNode(state.begun);
            state.begun = std::ptr::null_mut();
            state.child = std::ptr::null_mut();
        }
    }
}
