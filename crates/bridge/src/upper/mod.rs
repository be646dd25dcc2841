//! A plan node that computes the upper part of a query over one relation, a table or a partitioned
//! one: its groups, its distinct rows, or its first rows by an order.
//!
//! ```text
//!   planner    planner ── create_upper_paths_hook: asks the engine, adds a path
//!              analysis ─ what of the query the engine is asked (Shape)
//!              fields ─── every field of the query and its relation: read, or declining
//!              tables ─── the table, or the partitions and children that it stands for
//!              own_plan ─ PostgreSQL's own path, kept beside ours
//!              reason ─── why a query was declined      notes ── kept for EXPLAIN (VERBOSE)
//!              jit ────── none for what the engine computes
//!              plan ───── path to plan: expressions into lists that survive copying and setrefs
//!   executor   node ───── begin, rescan, end; runs the engine once, then returns its rows
//!              run ────── what a run of the engine is given, and the memory it uses
//!              batch ──── rows that the engine returns, some at a time, as datums
//!              pruning ── partitions that parameters of the run leave out
//!              foreign ── expressions that PostgreSQL evaluates for the engine
//!              hot_rows ─ the heap side of the table, for the engine
//!              page_rows  the visible rows of a heap page, without a call for each
//!              explain ── output of EXPLAIN             wait ── wait event in pg_stat_activity
//! ```
//!
//! The engine ([`Engine`]) belongs to the caller. It is given expression trees ([`expr`]) and
//! computes rows of keys and aggregates; PostgreSQL evaluates HAVING, and expressions over these,
//! in the node.
//!
//! Invariants
//! - A result is exact. PostgreSQL's own path is kept as the node's child; if the engine finds that
//!   it cannot compute the result exactly, the child is run instead. The engine finds that before
//!   the first row is returned.
//! - What the engine computes per row contains only columns of the table and *operands*:
//!   subexpressions without variables, which are evaluated once for each run. Operands are in
//!   `custom_exprs`, so that the planner knows their parameters. All other expressions are in
//!   `custom_private` as they were planned. Attribute numbers are read from them, and *foreign*
//!   ones are evaluated as they are, in a slot of the relation's own; PostgreSQL's own plan holds
//!   the same expressions, so that the planner knows their parameters and dependencies, too.

mod analysis;
mod batch;
mod explain;
mod fields;
mod foreign;
mod hot_rows;
mod jit;
mod node;
mod notes;
mod own_plan;
mod page_rows;
mod plan;
mod planner;
mod pruning;
mod reason;
mod run;
pub mod tables;
mod wait;

use std::any::Any;
use std::sync::OnceLock;

use pgrx::pg_sys;

use crate::malloc;
use crate::spare_memory;

pub use crate::expr;
pub use crate::expr::Node;
pub use batch::Batch;
pub use explain::{OperatorWork, Work};
pub use foreign::{Arguments, CHUNK_ROWS, ForeignExpressions, ForeignRun};
pub use hot_rows::{BatchMemory, HotRows};
pub use pgrx::pg_sys::{Datum, Oid};
pub use planner::{Offer, Planner};
pub use reason::{Left, Reason};
pub use run::{OpenTable, Operand, Run};
pub use tables::{AttributeMap, QueriedTable};
pub use wait::Waiting;

/// Whether these are the methods of the node's plan.
pub(crate) fn is_of(methods: *const pg_sys::CustomScanMethods) -> bool {
    std::ptr::eq(methods, &raw const plan::SCAN_METHODS.0)
}

/// What the node computes from the rows that pass the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// One row for each group: keys, then aggregates.
    Group,
    /// The first rows by an order: their columns.
    First,
}

/// One part of an order.
pub struct Order<'a> {
    pub node: Node<'a>,
    pub descending: bool,
    pub nulls_first: bool,
}

/// The analysis of a query over one relation.
pub struct Shape<'a> {
    pub stage: Stage,
    /// The relation's index in the range table, to which its variables refer.
    pub rti: i32,
    /// Conjuncts in the order in which they must be evaluated.
    pub filter: Vec<Node<'a>>,
    /// What to group by.
    pub keys: Vec<Node<'a>>,
    /// Aggregates of each group.
    pub aggregates: Vec<Node<'a>>,
    /// Of the first rows: the columns to return.
    pub columns: Vec<Node<'a>>,
    pub order: Vec<Order<'a>>,
    /// How many of the first rows.
    pub limit: u64,
}

/// Computes queries of these shapes.
pub trait Engine: Sync {
    /// The least cost of any query over these tables, as far as it is known before anything is
    /// translated.
    ///
    /// # Errors
    ///
    /// The reason why it accepts no query over them.
    fn least_cost(&self, tables: &[QueriedTable]) -> Result<f64, Reason>;

    /// Whether it accepts the query, at what cost, and which operands must be evaluated.
    fn offer<'a>(&self, shape: &Shape<'a>, planner: &Planner<'_>) -> Result<Offer<'a>, Reason>;

    /// Whether a table of the statement that is being planned has rows that it reads by column.
    fn owns(&self, table: Oid) -> bool;

    /// Computes all rows. `before` is the last run's result, without its rows, if the node was run
    /// before: the new one tells the figures of both.
    ///
    /// # Errors
    ///
    /// Why the query is left to PostgreSQL.
    fn run(&self, run: &Run<'_>, before: Option<Box<dyn Rows>>) -> Result<Box<dyn Rows>, Left>;
}

/// Rows that the engine has computed.
pub trait Rows: Any {
    /// How many there are.
    fn row_count(&self) -> usize;

    /// Stores the next rows in the batch: values of keys and aggregates, or of the columns, in the
    /// shape's order. They live until the next call. Nothing is stored at the end.
    fn next(&mut self, batch: &mut Batch);

    /// Starts again.
    fn rewind(&mut self);

    /// Drops the rows, but not the figures.
    fn forget(&mut self);

    /// What all runs of the node did, for EXPLAIN ANALYZE.
    fn work(&self) -> Work;
}

static ENGINE: OnceLock<&'static dyn Engine> = OnceLock::new();

fn engine() -> Option<&'static dyn Engine> {
    ENGINE.get().copied()
}

/// Registers the node with planner and executor. Call once, from `_PG_init`.
pub fn register(engine: &'static dyn Engine) {
    if ENGINE.set(engine).is_ok() {
        // SAFETY: the library is being loaded, nothing else runs in the process.
        unsafe {
            pg_sys::RegisterCustomScanMethods(&plan::SCAN_METHODS.0);
            planner::install();
            notes::install();
        }
    }
}

/// Memory that a hash table of a plan node may take, in bytes: `work_mem` times
/// `hash_mem_multiplier`.
pub fn hash_memory_bytes() -> usize {
    // SAFETY: plain reads of settings.
    unsafe { pg_sys::get_hash_memory_limit() }
}

/// Calls `f` with the image, without its header, of `sum / count`, divided as PostgreSQL's averages
/// do.
///
/// # Safety
/// `sum` is a numeric.
pub unsafe fn with_quotient<R>(sum: Datum, count: i64, f: impl FnOnce(&[u8]) -> R) -> R {
    /// `numeric_div` in `pg_proc`.
    const NUMERIC_DIV: u32 = 1727;
    // SAFETY: a built-in function of two numerics, which returns a plain varlena of its own.
    unsafe {
        let count = pg_sys::int64_to_numeric(count);
        let quotient = pg_sys::OidFunctionCall2Coll(
            NUMERIC_DIV.into(),
            pg_sys::InvalidOid,
            sum,
            Datum::from(count),
        );
        let varlena = quotient.cast_mut_ptr::<pg_sys::varlena>();
        let image = std::slice::from_raw_parts(
            pgrx::vardata_any(varlena).cast::<u8>(),
            pgrx::varsize_any_exhdr(varlena),
        );
        let result = f(image);
        pg_sys::pfree(varlena.cast());
        pg_sys::pfree(count.cast());
        result
    }
}

/// Whether a signal has come that ends the statement or the session; the main thread's next check
/// for interrupts raises its ERROR. For any thread of a run, where none may be raised.
///
/// Another thread may see a count that is changing, and learns of the signal at its next call.
/// Where the main thread raises no ERROR after all, PostgreSQL's own plan runs in the run's place.
pub fn statement_ends() -> bool {
    // SAFETY: flags that signal handlers set, and counts of the main thread: aligned words, which
    // are only read here.
    unsafe {
        let is_set = |flag: *const pg_sys::sig_atomic_t| flag.read_volatile() != 0;
        let is_zero = |count: *const u32| count.read_volatile() == 0;
        (is_set(&raw const pg_sys::QueryCancelPending)
            && is_zero(&raw const pg_sys::QueryCancelHoldoffCount)
            || is_set(&raw const pg_sys::ProcDiePending)
            || spare_memory::was_needed()
            || is_set(&raw const pg_sys::TransactionTimeoutPending))
            && is_zero(&raw const pg_sys::InterruptHoldoffCount)
            && is_zero(&raw const pg_sys::CritSectionCount)
    }
}

/// Returns freed memory to the system when it is dropped, unless the run has succeeded.
///
/// What threads have freed stays with the allocator for the next run, which is good when there is
/// one like it. A run that is stopped may have been the last, and the largest.
#[derive(Default)]
pub struct ReturnMemory {
    has_succeeded: bool,
}

impl ReturnMemory {
    /// The run has a result: the next one may need as much.
    pub fn keep_it(mut self) {
        self.has_succeeded = true;
    }
}

impl Drop for ReturnMemory {
    fn drop(&mut self) {
        if !self.has_succeeded {
            malloc::return_freed_memory();
        }
    }
}

/// Calls a function with every signal blocked on the calling thread. Threads that it starts inherit
/// the mask: signal handlers belong to the backend's main thread. Their memory is the main
/// thread's.
pub fn with_signals_blocked(f: &mut dyn FnMut()) {
    malloc::keep_freed_memory();
    struct Restore(libc::sigset_t);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: changes the mask of this thread only.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        }
    }
    // SAFETY: changes the mask of this thread only; both sets are filled in before they are read.
    let before = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
        before
    };
    let _restore = Restore(before);
    f();
}
