//! One run of the engine: what it is given by the node, and the memory it uses.
//!
//! A run borrows the node, which stays begun until the run is over: its tables are open and locked,
//! its snapshot is registered.

use std::marker::PhantomData;

use pgrx::{PgList, pg_sys};

use super::Shape;
use super::expr::Node;
use super::foreign::Raised;
use super::node::inner;
use super::tables::AttributeMap;
use crate::row_expr::evaluator;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// A table that a run reads.
pub struct OpenTable {
    /// Open and locked until the executor ends.
    pub(super) relation: pg_sys::Relation,
    /// Its place in the range table of the whole statement.
    pub(super) rti: i32,
    /// Parameters of this run exclude all of its rows.
    pub(super) is_left_out: bool,
    /// The positions of the attributes that the shape uses.
    pub attributes: AttributeMap,
}

impl OpenTable {
    pub fn table(&self) -> Table<'_> {
        // SAFETY: it is open as long as the executor's node lives, which owns this.
        unsafe { Table::from_raw(self.relation) }
    }
}

/// An operand that was evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    pub type_oid: pg_sys::Oid,
    /// `None` is NULL.
    pub value: Option<pg_sys::Datum>,
}

/// One run of the engine.
pub struct Run<'a> {
    pub(super) node: *mut pg_sys::CustomScanState,
    /// What is computed.
    pub shape: Shape<'a>,
    pub operands: Vec<Operand>,
    /// The parts of the shape that PostgreSQL was to evaluate when the query was planned.
    pub foreign: Vec<Node<'a>>,
    /// The decisions that came with the offer.
    pub decisions: Vec<bool>,
    pub(super) executor: PhantomData<&'a ()>,
}

impl Run<'_> {
    pub(super) fn node(&self) -> *mut pg_sys::CustomScanState {
        self.node
    }

    /// Where the ERROR of a foreign expression is left.
    pub(super) fn raised(&self) -> *mut Raised {
        // SAFETY: the node was begun; its Rust part stays at its address until the query's memory
        // is deleted.
        unsafe { &raw mut inner(self.node).raised }
    }

    /// The relation whose attributes the shape names, open and locked until the executor ends.
    pub fn relation(&self) -> Table<'_> {
        // SAFETY: the node was begun; it holds the relation open until it ends.
        unsafe { Table::from_raw(inner(self.node).relation) }
    }

    /// The tables to read: the relation itself, or its partitions and children.
    pub fn tables(&self) -> impl Iterator<Item = &OpenTable> {
        // SAFETY: the node was begun; its tables stay as they are until the run is over.
        let tables = unsafe { &inner(self.node).tables };
        tables.iter().filter(|table| !table.is_left_out)
    }

    /// The snapshot, valid until the executor ends.
    pub fn snapshot(&self) -> Snapshot<'_> {
        // SAFETY: the node was begun; the executor has registered its snapshot.
        unsafe { Snapshot::from_raw((*(*self.node).ss.ps.state).es_snapshot) }
    }

    /// Whether EXPLAIN ANALYZE collects times.
    pub fn wants_times(&self) -> bool {
        // SAFETY: the node was begun; its instrumentation lives as long.
        unsafe {
            let instrument = (*self.node).ss.ps.instrument;
            !instrument.is_null() && (*instrument).need_timer
        }
    }

    /// Whether this process may start threads: a parallel worker, which shares the work, may not.
    pub fn may_use_threads(&self) -> bool {
        // SAFETY: plain reads of globals.
        unsafe { pg_sys::ParallelWorkerNumber < 0 }
    }
}

/// The operands, initialised with the first run, in the query's memory.
///
/// # Safety
/// `node` was begun, and `exprs` are the operands of its plan.
pub(super) unsafe fn operand_states(
    node: *mut pg_sys::CustomScanState,
    exprs: *mut pg_sys::List,
) -> Vec<*mut pg_sys::ExprState> {
    // SAFETY: the node was begun; finished expressions.
    unsafe {
        if let Some(states) = &inner(node).operands {
            return states.clone();
        }
        let exprs = PgList::<pg_sys::Expr>::from_pg(exprs);
        let states = (exprs.iter_ptr()).map(|expr| pg_sys::ExecInitExpr(expr, node.cast()));
        let states: Vec<_> = inner(node).role.run(|| states.collect());
        inner(node).operands = Some(states.clone());
        states
    }
}

/// The memory of a run, emptied.
///
/// # Safety
/// `node` was begun in `query_memory`. No run is in progress, and rows of the last one are not used
/// any more.
pub(super) unsafe fn emptied_run_memory(
    node: *mut pg_sys::CustomScanState,
    query_memory: pg_sys::MemoryContext,
) -> pg_sys::MemoryContext {
    // SAFETY: the node was begun; no run is in progress, and rows of the last one were dropped.
    unsafe {
        let state = inner(node);
        match state.run_memory.is_null() {
            true => {
                state.run_memory = pg_sys::AllocSetContextCreateInternal(
                    query_memory,
                    c"Vectorized run".as_ptr(),
                    pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                    pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                    pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
                );
            }
            false => pg_sys::MemoryContextReset(state.run_memory),
        }
        state.run_memory
    }
}

/// Evaluates operands. Values that are passed by reference lie in the current memory.
///
/// # Safety
/// The states were initialised for the node whose context it is.
pub(super) unsafe fn values(
    context: *mut pg_sys::ExprContext,
    states: &[*mut pg_sys::ExprState],
) -> Vec<Operand> {
    let value = |&state: &*mut pg_sys::ExprState| {
        // SAFETY: the state was initialised for the node whose context it is, with an expression
        // that lives as long.
        unsafe {
            let evaluate = evaluator(state);
            let mut null = true;
            let value =
                pg_sys::ffi::pg_guard_ffi_boundary(|| evaluate(state, context, &raw mut null));
            Operand {
                type_oid: pg_sys::exprType((*state).expr.cast()),
                value: (!null).then_some(value),
            }
        }
    };
    states.iter().map(value).collect()
}
