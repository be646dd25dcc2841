//! A plan node that scans one table: its hot rows by heap's own scan, its cold rows in batches of datums.
//!
//! ```text
//!   planner    planner ─── set_rel_pathlist_hook: asks the scanner, adds paths      cursors ── which cursors forbid it
//!              planned ─── the table and its clauses, as they are told              plan ───── path to plan
//!   executor   node ────── begin, rescan, end                exec ─── one row after the other
//!              batch ───── cold rows, column by column       parallel ── words that participants share
//!              explain ─── what EXPLAIN says
//!
//!   ┌─ Scanner (the caller's) ───┐        ┌─ ColdRows (the caller's), one for each node ─┐
//!   │ offer: at what cost?       │ begin  │ operands, ask ─▶ next ─▶ next ─▶ … ─▶ end    │
//!   │ pushed: which clauses?     ├───────▶│ rewind, close; share, publish                │
//!   └────────────────────────────┘        └──────────────────────────────────────────────┘
//! ```
//!
//! Clauses that the scanner takes are *pushed*: they lie in `custom_exprs` instead of the node's qual. Cold rows come filtered
//! by them, unless their batch says that it must be rechecked; hot rows are always filtered here.
//!
//! Rows are returned in a virtual slot whatever side they come from. Its datums point into the current batch or into
//! the pinned hot page, and stay valid until the next call.
//!
//! Under UPDATE, DELETE, MERGE and row locks the node finds the rows, as any scan does: by a snapshot, ctid among its
//! columns. EvalPlanQual gives it the one row to look at again ([`exec`]).

mod batch;
mod cursors;
mod exec;
mod explain;
mod node;
mod parallel;
mod plan;
mod planned;
mod planner;

use std::sync::OnceLock;

use pgrx::pg_sys;

pub use crate::upper::Explanation;
pub use batch::{Batch, Column};
pub use node::{Attributes, Begun};
pub use parallel::SharedWords;
pub use planned::{Clause, NamedAttributes, PlannedTable, QualCost};
pub use planner::{Offer, UnitCosts, unit_costs};

use crate::datum::{ArrayDatum, TypedDatum};
use crate::expr::Node;
use crate::slot::Slot;

/// Decides where the node is offered, and reads cold rows.
pub trait Scanner: Sync {
    /// What the planner is told of the node for a table; `None` offers none.
    fn offer(&self, table: &PlannedTable<'_>) -> Option<Offer>;

    /// Which of the clauses it evaluates, one answer for each. Asked once more for the path that is taken: the answer must be
    /// the same.
    fn pushed(&self, table: &PlannedTable<'_>, clauses: &[Clause<'_>]) -> Vec<bool>;

    /// Begins a node. Nothing is read yet: EXPLAIN begins nodes too.
    fn begin<'q>(&self, begun: Begun<'q>) -> Box<dyn ColdRows + 'q>;
}

/// An operand: an expression that is fixed in a scan.
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
    /// Whether hot rows that the snapshot sees must be shown to [`ColdRows::hides`]. Asked when a scan starts.
    fn follows_hot_rows(&self) -> bool;

    /// Whether a hot row is not to be seen; it is taken out of the slot then.
    fn hides(&self, row: Slot<'_>) -> bool;

    /// Opens the cold side, unless it is open; `false` if it has no rows.
    fn open(&mut self) -> bool;

    /// The operands of the pushed clauses, to be evaluated for each scan; told once.
    fn operands<'a>(&mut self, pushed: &[Node<'a>]) -> Vec<OperandNode<'a>>;

    /// What the scan asks from now on, by the values of the operands; `None` is NULL. They live until the call returns.
    fn ask(&mut self, operands: &[Option<Operand<'_>>]);

    /// Fills the next rows into the batch; `false` at the end. They live until the next call.
    fn next(&mut self, shared: Option<&SharedWords>, batch: &mut Batch) -> bool;

    /// Begins again, if it is open; counts go on.
    fn rewind(&mut self);

    /// Lets go of everything that was read, but for the values of the last batch. It may be opened again.
    fn close(&mut self);

    /// The node ends: the last call. Lets go of everything.
    fn end(&mut self, is_leader: bool);

    /// Counts rows that came unfiltered and did not pass the pushed clauses.
    fn count_removed(&mut self, rows: u64);

    /// Makes the words that so many participants share. The node is closed; no worker runs.
    fn share(&mut self, participants: usize) -> SharedWords;

    /// Has the shared words begin another scan.
    fn share_again(&self, shared: &SharedWords);

    /// Adds what was counted since the last time to the shared words.
    fn publish(&mut self, shared: &SharedWords);

    /// Takes the counts of all participants over: their shared words are about to go.
    fn collect(&mut self, shared: &SharedWords);

    /// Tells EXPLAIN ANALYZE what was read.
    fn explain(&self, has_pushed: bool, to: &mut Explanation);
}

static SCANNER: OnceLock<&'static dyn Scanner> = OnceLock::new();

fn scanner() -> Option<&'static dyn Scanner> {
    SCANNER.get().copied()
}

/// Makes the node known to planner and executor. Call once, from `_PG_init`.
pub fn register(scanner: &'static dyn Scanner) {
    if SCANNER.set(scanner).is_ok() {
        // SAFETY: the library is being loaded, nothing else runs in the process.
        unsafe {
            pg_sys::RegisterCustomScanMethods(&plan::SCAN_METHODS.0);
            planner::install();
            cursors::install();
        }
    }
}
