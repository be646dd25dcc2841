//! A plan node that scans one table: its hot rows by heap's own scan, its cold rows in batches of
//! datums.
//!
//! ```text
//!   planner    planner ─── set_rel_pathlist_hook: asks the scanner, adds paths
//!              others ──── tables whose rows another extension supplies
//!              cursors ─── which statements are cursors that may be scrolled
//!              planned ─── the table and its clauses, as the scanner is given them
//!              surcharge ─ what PostgreSQL's own paths cost besides
//!              by_index ── those of them that are faster than their price
//!              lookup_joins ─ set_join_pathlist_hook: look-ups that are, too
//!              plan ────── path to plan
//!   executor   node ────── begin, rescan, end                exec ──── one row after the other
//!              batch ───── cold rows, column by column       parallel ─ words that are shared
//!              explain ─── output of EXPLAIN
//!
//!   ┌─ Scanner (the caller's) ───┐        ┌─ ColdRows (the caller's), one for each node ─┐
//!   │ offer: at what cost?       │ begin  │ operands, ask ─▶ next ─▶ next ─▶ … ─▶ end    │
//!   │ pushed: which clauses?     ├───────▶│ previous, rewind, close; share, publish      │
//!   └────────────────────────────┘        └──────────────────────────────────────────────┘
//! ```
//!
//! Invariants
//! - Every returned row satisfies the pushed clauses: those that the scanner evaluates, which are
//!   in `custom_exprs` instead of the node's qual. Cold rows are filtered by them already, unless
//!   their batch must be rechecked; hot rows are always filtered here.
//! - Rows of both sides are returned in a virtual slot. Its datums point into the current batch or
//!   into the pinned hot page, and stay valid until the next call.
//!
//! Under UPDATE, DELETE, MERGE and row locks the node finds the rows as any scan does: by a
//! snapshot, with ctid among its columns. EvalPlanQual gives it the one row to recheck ([`exec`]).

mod batch;
pub(crate) mod by_index;
mod cursors;
mod exec;
mod explain;
mod lookup;
mod lookup_joins;
mod node;
pub(crate) mod others;
mod parallel;
mod plan;
mod planned;
mod planner;
mod surcharge;

use std::sync::OnceLock;

use pgrx::pg_sys;

pub use crate::explanation::Explanation;
pub use batch::{Batch, Column};
pub(crate) use cursors::may_scroll;
pub use node::{Attributes, Begun};
pub use parallel::SharedWords;
pub use planned::{Clause, NamedAttributes, PlannedTable, QualCost};
pub(crate) use planner::cost_of_first;
pub use planner::{Offer, UnitCosts, unit_costs};

use crate::datum::{ArrayDatum, TypedDatum};
use crate::expr::Node;
use crate::slot::Slot;

/// Decides where the node is offered, and reads cold rows.
pub trait Scanner: Sync {
    /// The least cost of a scan of a table; `None` if there is nothing to offer. Called first, and
    /// makes no look-ups.
    fn least_cost(&self, table: &PlannedTable<'_>) -> Option<f64>;

    /// The offer of the node for a table; `None` offers none.
    fn offer(&self, table: &PlannedTable<'_>) -> Option<Offer>;

    /// Which of the clauses it evaluates, one flag for each. Called once more for the path that is
    /// used: the result must be the same.
    fn pushed(&self, table: &PlannedTable<'_>, clauses: &[Clause<'_>]) -> Vec<bool>;

    /// Begins a node. Nothing is read yet, because EXPLAIN begins nodes, too.
    fn begin<'q>(&self, begun: Begun<'q>) -> Box<dyn ColdRows + 'q>;
}

/// An operand: an expression whose value does not change during a scan.
#[derive(Clone, Copy)]
pub enum OperandNode<'a> {
    Value(Node<'a>),
    Array(Node<'a>),
}

/// The value of an operand.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    Value(TypedDatum<'a>),
    Array(ArrayDatum<'a>),
}

/// The cold rows of one node.
pub trait ColdRows {
    /// Whether hot rows that the snapshot sees must be passed to [`ColdRows::hides`]. Called when a
    /// scan starts.
    fn follows_hot_rows(&self) -> bool;

    /// Whether a hot row must not be returned; it is removed from the slot then.
    fn hides(&self, row: Slot<'_>) -> bool;

    /// Opens the cold side, unless it is open; `false` if it has no rows.
    fn open(&mut self) -> bool;

    /// The operands of the pushed clauses, to be evaluated for each scan; called once.
    fn operands<'a>(&mut self, pushed: &[Node<'a>]) -> Vec<OperandNode<'a>>;

    /// Sets the tests of the following scan, by the values of the operands; `None` is NULL. The
    /// values live until the call returns.
    fn ask(&mut self, operands: &[Option<Operand<'_>>]);

    /// Stores the next rows in the batch; `false` at the end. They live until the next call.
    fn next(&mut self, shared: Option<&SharedWords>, batch: &mut Batch) -> bool;

    /// Stores the rows in the batch that come before those it holds; `false` if these are the
    /// first. [`ColdRows::next`] goes on from there. Only for nodes that may be moved backwards.
    fn previous(&mut self, batch: &mut Batch) -> bool;

    /// Starts again, if it is open; counts are kept.
    fn rewind(&mut self);

    /// Releases everything that was read, except the values of the last batch. It may be opened
    /// again.
    fn close(&mut self);

    /// Ends the node: the last call. Releases everything.
    fn end(&mut self, is_leader: bool);

    /// Counts rows that were returned unfiltered and did not pass the pushed clauses.
    fn count_removed(&mut self, rows: u64);

    /// Creates the words that this many participants share. The node is closed; no worker runs.
    fn share(&mut self, participants: usize) -> SharedWords;

    /// Resets the shared words for another scan.
    fn share_again(&self, shared: &SharedWords);

    /// Adds what was counted since the last call to the shared words.
    fn publish(&mut self, shared: &SharedWords);

    /// Copies the counts of all participants: their shared words are about to be freed.
    fn collect(&mut self, shared: &SharedWords);

    /// Adds the counts to EXPLAIN ANALYZE.
    fn explain(&self, has_pushed: bool, to: &mut Explanation);
}

/// Whether these are the methods of the node's plan.
pub(crate) fn is_of(methods: *const pg_sys::CustomScanMethods) -> bool {
    std::ptr::eq(methods, &raw const plan::SCAN_METHODS.0)
}

static SCANNER: OnceLock<&'static dyn Scanner> = OnceLock::new();

fn scanner() -> Option<&'static dyn Scanner> {
    SCANNER.get().copied()
}

/// Registers the node with planner and executor. Call once, from `_PG_init`.
pub fn register(scanner: &'static dyn Scanner) {
    if SCANNER.set(scanner).is_ok() {
        // SAFETY: the library is being loaded, nothing else runs in the process.
        unsafe {
            pg_sys::RegisterCustomScanMethods(&plan::SCAN_METHODS.0);
            planner::install();
            lookup_joins::install();
            cursors::install();
        }
    }
}
