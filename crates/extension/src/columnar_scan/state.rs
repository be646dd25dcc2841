//! The node's state: begin, rescan, end.

use std::rc::Rc;

use howdah_bridge::row_expr::value_of;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::{Descriptor, Table};
use pgrx::{PgList, PgMemoryContexts, pg_guard, pg_sys};

use super::EXEC_METHODS;
use super::batch::Batch;
use super::explain::Counts;
use super::operand;
use super::parallel::Shared;
use super::pushdown::{Condition, Operand, Test, condition_of};
use super::reader::{ColumnPredicate, Question, Reader, Wanted};
use super::replan;
use crate::am;
use crate::store::emptied;
use crate::store::view::ColdView;
use crate::types::TableLayout;

/// The executor's node; the core knows `css` only.
#[repr(C)]
pub struct ColumnarScanState {
    pub css: pg_sys::CustomScanState,
    /// Rust's part, made by [`begin_custom_scan`], dropped with the query's memory.
    pub scan: *mut Scan,
}

/// Where the scan is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Nothing is open yet.
    Start,
    Hot,
    Cold,
    End,
}

/// How a row is returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    /// As the scan tuple.
    Scan,
    /// Columns go straight into the result slot.
    Direct,
    /// Through PostgreSQL's projection.
    Project,
}

/// One column on its way from the batch into a slot.
pub struct ColumnCopy {
    pub values: *const pg_sys::Datum,
    pub nulls: *const bool,
    pub to: usize,
}

/// What a scan keeps in Rust memory.
pub struct Scan {
    pub side: Side,
    pub emit: Emit,
    /// Rows of the batch that are still to come.
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

    /// Heap's scan of the hot side; NULL until started.
    pub hot: pg_sys::TableScanDesc,
    pub hot_slot: *mut pg_sys::TupleTableSlot,
    /// Whether hot rows that the snapshot sees are to be followed; see [`crate::am::moved`].
    pub follows: bool,
    /// Highest attribute number needed.
    pub last_attribute: i32,
    /// For [`Emit::Direct`]: attribute index and place in the result.
    pub direct: Vec<(usize, usize)>,
    /// The pushed clauses, for rows that are not decided by row groups.
    pub pushed_qual: *mut pg_sys::ExprState,

    pub layout: Rc<TableLayout>,
    pub wanted: Wanted,
    pub reader: Option<Reader>,
    /// Made early for the sake of parallel scans.
    pub view: Option<ColdView<'static>>,
    pub batch: Batch,
    pub question: Question,
    /// Whether `question` was asked since the scan was started: not before it comes to cold rows.
    pub asked: bool,
    /// Taken apart when they are first asked.
    conditions: Option<Vec<(Condition, *mut pg_sys::ExprState)>>,

    /// Hot and rechecked rows that pushed clauses removed.
    pub rows_removed: u64,
    /// The counts of readers that are closed.
    pub finished: Counts,
    /// In a parallel scan: what is shared, and what was already added to its counts.
    pub shared: *const Shared,
    pub published: Counts,
    /// The counts of all participants, once they are known.
    pub totals: Option<Counts>,
}

/// The Rust part of a node.
///
/// # Safety
/// `node` was begun and not ended.
pub unsafe fn scan_of<'a>(node: *mut pg_sys::CustomScanState) -> &'a mut Scan {
    // SAFETY: `css` is the first field of a ColumnarScanState; the executor calls a node from
    // one place at a time.
    unsafe { &mut *(*node.cast::<ColumnarScanState>()).scan }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn create_custom_scan_state(
    _plan: *mut pg_sys::CustomScan,
) -> *mut pg_sys::Node {
    // SAFETY: zeroed memory in the query's context; tag and methods are set as the core asks.
    unsafe {
        let state =
            pg_sys::palloc0(std::mem::size_of::<ColumnarScanState>()).cast::<ColumnarScanState>();
        (*state).css.ss.ps.type_ = pg_sys::NodeTag::T_CustomScanState;
        (*state).css.methods = &EXEC_METHODS.0;
        state.cast()
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn begin_custom_scan(
    node: *mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    _eflags: i32,
) {
    // SAFETY: the core has filled in the node: relation open and locked, slots and qual made.
    // The current memory context is the query's.
    unsafe {
        let table = (*node).ss.ss_currentRelation;
        let desc = (*table).rd_att;
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let rti = (*plan).scan.scanrelid;
        let layout = Rc::new(TableLayout::of(Descriptor::from_raw(desc)));
        let wanted = wanted(plan, rti, &layout);
        let (emit, direct) = emission(node, rti as i32);
        let pushed_qual = pg_sys::ExecInitQual((*plan).custom_exprs, node.cast());
        let hot_slot =
            pg_sys::ExecInitExtraTupleSlot(estate, desc, &raw const pg_sys::TTSOpsBufferHeapTuple);
        (*(*node).ss.ss_ScanTupleSlot).tts_tableOid = (*table).rd_id;
        // Columns that are not read, the dropped ones above all, stay null: a whole row that
        // is made from the slot looks at every one.
        pg_sys::ExecStoreAllNullTuple((*node).ss.ss_ScanTupleSlot);
        pg_sys::ExecClearTuple((*node).ss.ss_ScanTupleSlot);
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
            hot: std::ptr::null_mut(),
            hot_slot,
            follows: false,
            last_attribute: wanted.recheck.last().map_or(0, |&i| i as i32 + 1),
            direct,
            pushed_qual,
            batch: Batch::new(layout.attributes.len()),
            layout,
            wanted,
            reader: None,
            view: None,
            question: Question::default(),
            asked: false,
            conditions: None,
            rows_removed: 0,
            finished: Counts::default(),
            shared: std::ptr::null(),
            published: Counts::default(),
            totals: None,
        };
        (*node.cast::<ColumnarScanState>()).scan =
            PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(scan);
    }
}

/// The pushed clauses taken apart, operands ready to be evaluated.
unsafe fn conditions(
    node: *mut pg_sys::CustomScanState,
    rti: i32,
    layout: &TableLayout,
) -> Vec<(Condition, *mut pg_sys::ExprState)> {
    // SAFETY: `custom_exprs` are the clauses that planning pushed.
    unsafe {
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        PgList::<pg_sys::Node>::from_pg((*plan).custom_exprs)
            .iter_ptr()
            .filter_map(|clause| condition_of(clause, rti, layout))
            .map(|condition| {
                let operand = match &condition.test {
                    Test::Fixed(_) => std::ptr::null_mut(),
                    Test::Compare { operand, .. }
                    | Test::Any(operand)
                    | Test::NotAll(operand)
                    | Test::Like { operand, .. } => {
                        let Operand { expr, .. } = *operand;
                        pg_sys::ExecInitExpr(expr, node.cast())
                    }
                };
                (condition, operand)
            })
            .collect()
    }
}

/// The attributes that the plan's expressions name.
unsafe fn wanted(
    plan: *mut pg_sys::CustomScan,
    rti: pg_sys::Index,
    layout: &TableLayout,
) -> Wanted {
    // SAFETY: finished expressions whose variables carry the scan's index.
    unsafe {
        let mut numbers: *mut pg_sys::Bitmapset = std::ptr::null_mut();
        pg_sys::pull_varattnos((*plan).scan.plan.targetlist.cast(), rti, &mut numbers);
        pg_sys::pull_varattnos((*plan).scan.plan.qual.cast(), rti, &mut numbers);
        let always = attributes_of(numbers, layout);
        pg_sys::pull_varattnos((*plan).custom_exprs.cast(), rti, &mut numbers);
        Wanted {
            always,
            recheck: attributes_of(numbers, layout),
        }
    }
}

/// Indexes of the live attributes in a set as `pull_varattnos` makes it.
///
/// # Safety
/// `numbers` is a valid set.
pub unsafe fn attributes_of(numbers: *const pg_sys::Bitmapset, layout: &TableLayout) -> Vec<usize> {
    let contains = |number: i32| {
        // SAFETY: as for this function.
        unsafe {
            pg_sys::bms_is_member(number - pg_sys::FirstLowInvalidHeapAttributeNumber, numbers)
        }
    };
    let whole_row = contains(0);
    (0..layout.attributes.len())
        .filter(|&i| !layout.attributes[i].dropped && (whole_row || contains(i as i32 + 1)))
        .collect()
}

/// How rows leave the node.
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

/// Evaluates the operands: what the scan asks of row groups.
///
/// # Safety
/// `node` was begun.
pub unsafe fn ask(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the conditions live as long as the query. Operands are evaluated in the node's per-tuple
    // memory, values are copied out of it; an ERROR is caught at the boundary and goes on as a panic.
    unsafe {
        let scan = scan_of(node);
        let taken_apart = scan.conditions.get_or_insert_with(|| {
            let old = pg_sys::MemoryContextSwitchTo((*(*node).ss.ps.state).es_query_cxt);
            let plan = (*node).ss.ps.plan.cast::<pg_sys::Scan>();
            let conditions = conditions(node, (*plan).scanrelid as i32, &scan.layout);
            pg_sys::MemoryContextSwitchTo(old);
            conditions
        });
        let context = (*node).ss.ps.ps_ExprContext;
        let mut question = Question {
            predicates: Vec::new(),
            exact: true,
        };
        for (condition, state) in taken_apart.iter() {
            let operand = match state.is_null() {
                true => None,
                false => value_of(*state, context),
            };
            let attribute = condition.attribute;
            let column = scan.layout.attributes[attribute].column_type;
            let old = pg_sys::MemoryContextSwitchTo((*context).ecxt_per_tuple_memory);
            let bound = operand::bind(&condition.test, operand, column);
            pg_sys::MemoryContextSwitchTo(old);
            question.exact &= bound.exact;
            question
                .predicates
                .extend(
                    bound
                        .predicates
                        .into_iter()
                        .map(|predicate| ColumnPredicate {
                            attribute,
                            predicate,
                        }),
                );
        }
        pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
        scan.question = question;
        scan.asked = true;
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn rescan_custom_scan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node was begun. Heap's scan starts again at its beginning, in a parallel scan
    // at what the leader sets up next.
    unsafe {
        let scan = scan_of(node);
        pg_sys::ExecClearTuple(scan.hot_slot);
        if !scan.hot.is_null() {
            let rescan = am::heap().scan_rescan.unwrap_unchecked();
            let hot = scan.hot;
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                rescan(hot, std::ptr::null_mut(), false, false, false, false);
            });
        }
        if let Some(reader) = &mut scan.reader {
            reader.rewind();
        }
        scan.at = 0;
        scan.end = 0;
        scan.side = Side::Start;
        pg_sys::ExecScanReScan(&mut (*node).ss);
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn end_custom_scan(node: *mut pg_sys::CustomScanState) {
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
        let table = (*node).ss.ss_currentRelation;
        let is_leader = pg_sys::ParallelWorkerNumber < 0;
        let outlived = is_leader
            && scan.reader.as_ref().is_some_and(Reader::is_empty)
            && emptied::is_known(
                Table::from_raw(table),
                Snapshot::from_raw((*(*node).ss.ps.state).es_snapshot),
            );
        close(node);
        if outlived {
            replan::without_cold_side(table);
        }
        let counts = scan.finished;
        crate::scan_stats::count(
            (*table).rd_id,
            crate::scan_stats::ScanCounts {
                columnar_scans: i64::from(counts.groups > 0 && is_leader),
                groups_read: (counts.groups - counts.groups_skipped) as i64,
                groups_skipped: counts.groups_skipped as i64,
                zones_read: (counts.zones - counts.zones_skipped) as i64,
                zones_skipped: counts.zones_skipped as i64,
                groups_read_by_row: 0,
            },
        );
        scan.side = Side::End;
        scan.batch = Batch::default();
    }
}

/// Ends the scans of both sides; the node may be started again.
///
/// # Safety
/// `node` was begun.
pub unsafe fn close(node: *mut pg_sys::CustomScanState) {
    // SAFETY: heap's scan is ended once; an ERROR is caught at the boundary.
    unsafe {
        let scan = scan_of(node);
        pg_sys::ExecClearTuple(scan.hot_slot);
        let hot = std::mem::replace(&mut scan.hot, std::ptr::null_mut());
        if !hot.is_null() {
            let end = am::heap().scan_end.unwrap_unchecked();
            pg_sys::ffi::pg_guard_ffi_boundary(|| end(hot));
        }
        scan.finished = scan.counts();
        scan.rows_removed = 0;
        scan.reader = None;
        scan.view = None;
        scan.at = 0;
        scan.end = 0;
        scan.side = Side::Start;
    }
}
