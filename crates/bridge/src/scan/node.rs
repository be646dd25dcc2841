//! The node's state: begin, rescan, end.

use std::marker::PhantomData;

use pgrx::{PgList, PgMemoryContexts, pg_guard, pg_sys};

use super::batch::Batch;
use super::explain::explain_custom_scan;
use super::parallel::{self, SharedWords};
use super::plan::NAME;
use super::planned::named_in;
use super::{ColdRows, Operand, OperandNode, exec, scanner};
use crate::custom_node::{Methods, new_state, no_exec_methods};
use crate::datum::{ArrayDatum, Datum, TypedDatum, form_of_type};
use crate::expr::nodes;
use crate::heap_am::{self, Callbacks};
use crate::role::Role;
use crate::row_expr::value_of;
use crate::snapshot::Snapshot;
use crate::table::Table;

static EXEC_METHODS: Methods<pg_sys::CustomExecMethods> = Methods(pg_sys::CustomExecMethods {
    BeginCustomScan: Some(begin_custom_scan),
    ExecCustomScan: Some(exec::exec_custom_scan),
    EndCustomScan: Some(end_custom_scan),
    ReScanCustomScan: Some(rescan_custom_scan),
    EstimateDSMCustomScan: Some(parallel::estimate_dsm),
    InitializeDSMCustomScan: Some(parallel::initialize_dsm),
    ReInitializeDSMCustomScan: Some(parallel::reinitialize_dsm),
    InitializeWorkerCustomScan: Some(parallel::initialize_worker),
    ShutdownCustomScan: Some(parallel::shutdown),
    ExplainCustomScan: Some(explain_custom_scan),
    ..no_exec_methods(NAME)
});

/// The executor's node; the core knows `css` only.
#[repr(C)]
pub(super) struct ColumnarScanState {
    css: pg_sys::CustomScanState,
    /// Rust's part, made by [`begin_custom_scan`], dropped with the query's memory.
    pub(super) scan: *mut Scan,
}

/// Which attributes a scan needs.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    /// Those needed of every row.
    pub always: Vec<usize>,
    /// Those needed if pushed clauses are rechecked; includes `always`.
    pub recheck: Vec<usize>,
}

impl Attributes {
    pub fn of(&self, recheck: bool) -> &[usize] {
        if recheck { &self.recheck } else { &self.always }
    }
}

/// A node at its begin.
pub struct Begun<'q> {
    /// The scanned table, open and locked until the executor ends.
    pub table: Table<'q>,
    /// Its index in the range table, to which its variables refer.
    pub rti: i32,
    pub snapshot: Snapshot<'q>,
    pub attributes: Attributes,
    /// Whether it may be moved backwards.
    pub is_scrolled: bool,
    /// The lifetime of all of this.
    query: PhantomData<&'q ()>,
}

/// The position of the scan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Nothing is open yet.
    Start,
    Hot,
    Cold,
    End,
}

/// How a row is returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Emit {
    /// As the scan tuple.
    Scan,
    /// Columns go straight into the result slot.
    Direct,
    /// Through PostgreSQL's projection.
    Project,
}

/// One column on its way from the batch into a slot.
pub(super) struct ColumnCopy {
    pub values: *const Datum,
    pub nulls: *const bool,
    pub to: usize,
}

/// An operand that is prepared for evaluation.
#[derive(Clone, Copy)]
struct Prepared {
    state: *mut pg_sys::ExprState,
    is_array: bool,
    /// Of the operand's type.
    len: i16,
    by_value: bool,
}

/// What a node keeps in Rust memory.
pub(super) struct Scan {
    pub side: Side,
    pub emit: Emit,
    /// The place in the batch after the row that was returned last, and the batch's end. Where no
    /// row is left, it is the place after the end.
    pub at: usize,
    pub end: usize,
    /// Row number of the batch's first row, or of what `positions` are relative to.
    pub first_row: u64,
    pub positions: *const u32,
    /// Whether rows of the batch must pass through the scan slot.
    pub through_scan_slot: bool,
    pub recheck: bool,
    pub into_scan: Vec<ColumnCopy>,
    pub into_result: Vec<ColumnCopy>,

    /// Heap's own callbacks.
    pub(crate) heap: &'static Callbacks,
    /// Heap's scan of the hot side; NULL until started.
    pub hot: pg_sys::TableScanDesc,
    pub hot_slot: *mut pg_sys::TupleTableSlot,
    /// Whether hot rows that the snapshot sees are passed to [`ColdRows::hides`].
    pub follows: bool,
    /// Highest attribute number needed.
    pub last_attribute: i32,
    /// For [`Emit::Direct`]: attribute index and place in the result.
    pub direct: Vec<(usize, usize)>,
    /// The pushed clauses, for rows that come unfiltered.
    pub pushed_qual: *mut pg_sys::ExprState,

    pub attributes: Attributes,
    /// The table and the snapshot to which these refer belong to the executor: they are released
    /// before it ends.
    pub cold: Box<dyn ColdRows>,
    pub batch: Batch,
    /// Whether the operands were passed to the cold rows since the scan was started; not before the
    /// scan reaches them.
    pub asked: bool,
    /// Created when they are first evaluated.
    operands: Option<Vec<Prepared>>,
    /// Under which the node was begun; the rights of its expressions are those of this role,
    /// whichever fetches from a cursor.
    role: Role,
    /// Rows that were read unfiltered and did not pass the pushed clauses, since they were last
    /// reported.
    pub rows_removed: u64,
    /// The state of a parallel scan that participants share.
    pub shared: *const SharedWords,
}

impl Scan {
    /// Reports the rows that were removed here to the cold rows, which count them.
    pub fn report_removed(&mut self) {
        let rows = std::mem::take(&mut self.rows_removed);
        self.cold.count_removed(rows);
    }
}

/// The Rust part of a node.
///
/// # Safety
/// `node` was begun and not ended.
pub(super) unsafe fn scan_of<'a>(node: *mut pg_sys::CustomScanState) -> &'a mut Scan {
    // SAFETY: `css` is the first field; the executor calls a node from one place at a time.
    unsafe { &mut *(*node.cast::<ColumnarScanState>()).scan }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn create_custom_scan_state(
    _plan: *mut pg_sys::CustomScan,
) -> *mut pg_sys::Node {
    // SAFETY: `css` is the first field; all fields may be zero.
    unsafe { new_state::<ColumnarScanState>(&EXEC_METHODS) }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin_custom_scan(
    node: *mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    eflags: i32,
) {
    // SAFETY: the core has filled in the node: relation open and locked, slots and qual made. The
    // current memory context is the query's. Table and snapshot live until the executor ends, which
    // ends the node before.
    unsafe {
        let table = Table::from_raw((*node).ss.ss_currentRelation);
        let desc = table.descriptor().raw();
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let rti = (*plan).scan.scanrelid;
        let attributes = attributes(plan, rti, table);
        let (emit, direct) = emission(node, rti as i32);
        let pushed_qual = pg_sys::ExecInitQual((*plan).custom_exprs, node.cast());
        let hot_slot =
            pg_sys::ExecInitExtraTupleSlot(estate, desc, &raw const pg_sys::TTSOpsBufferHeapTuple);
        (*(*node).ss.ss_ScanTupleSlot).tts_tableOid = table.oid();
        // Columns that are not read, and dropped ones in particular, stay NULL: code that makes a
        // whole-row value from the slot reads every column.
        pg_sys::ExecStoreAllNullTuple((*node).ss.ss_ScanTupleSlot);
        pg_sys::ExecClearTuple((*node).ss.ss_ScanTupleSlot);
        let snapshot = Snapshot::from_nullable((*estate).es_snapshot);
        let (Some(scanner), Some(snapshot)) = (scanner(), snapshot) else {
            pgrx::error!("ColumnarScan is begun without a snapshot");
        };
        let cold = scanner.begin(Begun {
            table,
            rti: rti as i32,
            snapshot,
            attributes: attributes.clone(),
            is_scrolled: eflags as u32 & pg_sys::EXEC_FLAG_BACKWARD != 0,
            query: PhantomData,
        });
        let scan = Scan {
            side: Side::Start,
            emit,
            at: 0,
            end: 0,
            first_row: 0,
            positions: std::ptr::null(),
            through_scan_slot: true,
            recheck: true,
            into_scan: Vec::new(),
            into_result: Vec::new(),
            heap: heap_am::callbacks(),
            hot: std::ptr::null_mut(),
            hot_slot,
            follows: false,
            last_attribute: attributes.recheck.last().map_or(0, |&i| i as i32 + 1),
            direct,
            pushed_qual,
            attributes,
            cold,
            batch: Batch::new(table.descriptor().attribute_count()),
            asked: false,
            operands: None,
            role: Role::current(),
            rows_removed: 0,
            shared: std::ptr::null(),
        };
        (*node.cast::<ColumnarScanState>()).scan =
            PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(scan);
    }
}

/// The attributes that occur in the plan's expressions.
///
/// # Safety
/// `plan` is a finished plan node of ours, whose relation `rti` is `table`.
unsafe fn attributes(
    plan: *mut pg_sys::CustomScan,
    rti: pg_sys::Index,
    table: Table<'_>,
) -> Attributes {
    // SAFETY: finished expressions whose variables carry the scan's index.
    unsafe {
        let mut numbers: *mut pg_sys::Bitmapset = std::ptr::null_mut();
        pg_sys::pull_varattnos((*plan).scan.plan.targetlist.cast(), rti, &mut numbers);
        pg_sys::pull_varattnos((*plan).scan.plan.qual.cast(), rti, &mut numbers);
        let always = named_in(numbers, table).columns;
        pg_sys::pull_varattnos((*plan).custom_exprs.cast(), rti, &mut numbers);
        Attributes {
            always,
            recheck: named_in(numbers, table).columns,
        }
    }
}

/// How rows are returned by the node.
///
/// # Safety
/// `node` is being begun: its projection is set up.
unsafe fn emission(node: *mut pg_sys::CustomScanState, rti: i32) -> (Emit, Vec<(usize, usize)>) {
    // SAFETY: the core has set up the projection, if there is one.
    unsafe {
        if (*node).ss.ps.ps_ProjInfo.is_null() {
            return (Emit::Scan, Vec::new());
        }
        let targets = PgList::<pg_sys::TargetEntry>::from_pg((*(*node).ss.ps.plan).targetlist);
        let direct: Option<Vec<(usize, usize)>> = targets
            .iter_ptr()
            .enumerate()
            .map(|(place, target)| {
                let expr = (*target).expr;
                if (*expr).type_ != pg_sys::NodeTag::T_Var {
                    return None;
                }
                let var = &*expr.cast::<pg_sys::Var>();
                (var.varno == rti && var.varattno > 0).then(|| (var.varattno as usize - 1, place))
            })
            .collect();
        match direct {
            Some(direct) => (Emit::Direct, direct),
            None => (Emit::Project, Vec::new()),
        }
    }
}

/// Evaluates the operands, and passes them to the cold rows.
///
/// # Safety
/// `node` was begun.
pub(super) unsafe fn ask(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the prepared operands live as long as the query. They are evaluated in the node's
    // per-tuple memory, which is reset when the answer was given; an ERROR is caught at the
    // boundary and goes on as a panic.
    unsafe {
        let scan = scan_of(node);
        if scan.operands.is_none() {
            let old = pg_sys::MemoryContextSwitchTo((*(*node).ss.ps.state).es_query_cxt);
            let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
            let operands = scan.cold.operands(&nodes((*plan).custom_exprs));
            let prepared = operands.into_iter().map(|operand| prepare(operand, node));
            scan.operands = Some(scan.role.run(|| prepared.collect()));
            pg_sys::MemoryContextSwitchTo(old);
        }
        let context = (*node).ss.ps.ps_ExprContext;
        let values: Vec<Option<Operand<'_>>> = (scan.operands.iter().flatten())
            .map(|prepared| {
                let value = value_of(prepared.state, context)?;
                Some(match prepared.is_array {
                    true => Operand::Array(ArrayDatum::of(value)),
                    false => Operand::Value(TypedDatum::of(value, prepared.len, prepared.by_value)),
                })
            })
            .collect();
        let old = pg_sys::MemoryContextSwitchTo((*context).ecxt_per_tuple_memory);
        scan.cold.ask(&values);
        pg_sys::MemoryContextSwitchTo(old);
        pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
        scan.asked = true;
    }
}

/// # Safety
/// A finished expression of the node's plan; the current memory context is the query's.
unsafe fn prepare(operand: OperandNode<'_>, node: *mut pg_sys::CustomScanState) -> Prepared {
    let (operand, is_array) = match operand {
        OperandNode::Value(operand) => (operand, false),
        OperandNode::Array(operand) => (operand, true),
    };
    let (len, by_value) = form_of_type(operand.type_oid());
    Prepared {
        // SAFETY: as for this function.
        state: unsafe { pg_sys::ExecInitExpr(operand.raw().cast(), node.cast()) },
        is_array,
        len,
        by_value,
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan_custom_scan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node was begun. Heap's scan starts again at its beginning, in a parallel scan at
    // what the leader sets up next.
    unsafe {
        let scan = scan_of(node);
        pg_sys::ExecClearTuple(scan.hot_slot);
        if !scan.hot.is_null() {
            let rescan = scan.heap.scan_rescan;
            let hot = scan.hot;
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                rescan(hot, std::ptr::null_mut(), false, false, false, false);
            });
        }
        scan.cold.rewind();
        scan.at = 0;
        scan.end = 0;
        scan.side = Side::Start;
        pg_sys::ExecScanReScan(&mut (*node).ss);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end_custom_scan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node was begun; heap's scan is ended once. The rest of `scan` goes with the
    // query's memory, what is large in it goes now.
    unsafe {
        if (*node.cast::<ColumnarScanState>()).scan.is_null() {
            return;
        }
        let scan = scan_of(node);
        pg_sys::ExecClearTuple((*node).ss.ss_ScanTupleSlot);
        if !(*node).ss.ps.ps_ResultTupleSlot.is_null() {
            pg_sys::ExecClearTuple((*node).ss.ps.ps_ResultTupleSlot);
        }
        close_hot_side(scan);
        scan.report_removed();
        scan.cold.end(pg_sys::ParallelWorkerNumber < 0);
        scan.side = Side::End;
        scan.batch = Batch::default();
    }
}

/// Ends the scans of both sides; the node may be started again.
///
/// # Safety
/// The node of `scan` was begun and not ended.
pub(super) unsafe fn close(scan: &mut Scan) {
    // SAFETY: as for this function.
    unsafe { close_hot_side(scan) };
    scan.report_removed();
    scan.cold.close();
    scan.at = 0;
    scan.end = 0;
    scan.side = Side::Start;
}

/// # Safety
/// As for [`close`].
unsafe fn close_hot_side(scan: &mut Scan) {
    // SAFETY: heap's scan is ended once; an ERROR is caught at the boundary.
    unsafe {
        pg_sys::ExecClearTuple(scan.hot_slot);
        let hot = std::mem::replace(&mut scan.hot, std::ptr::null_mut());
        if !hot.is_null() {
            let end = scan.heap.scan_end;
            pg_sys::ffi::pg_guard_ffi_boundary(|| end(hot));
        }
    }
}
