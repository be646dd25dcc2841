//! ColumnarScan: reading a table by column inside PostgreSQL's executor.
//!
//! ```text
//!   planner   cost ── whether the node is offered, and what it costs
//!             pushdown ── which clauses row groups can evaluate (used again by the executor)
//!
//!   executor  hot rows:  heap's own scan, by the bridge ───────────────┐
//!             cold rows: cold_scan ─ reader ── units of zones:         ├──> virtual slot
//!                        verdicts → filter → decode → batch ───────────┘
//!                                             datums, column by column
//!             operand ── values to compare with       units ── shared by parallel scans
//!             counts ── what was read          replan ── plans that have outlived the cold side
//! ```
//!
//! The node itself, its paths, plans and rows are the bridge's ([`howdah_bridge::scan`]); this room decides.
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
//! Not here: joins, aggregates, TABLESAMPLE.

mod batch;
mod cold_scan;
mod cost;
mod counts;
mod like;
mod operand;
mod pushdown;
mod reader;
mod replan;
mod singles;
mod units;

use howdah_bridge::scan::{self, Begun, Clause, ColdRows, Offer, PlannedTable, Scanner};

pub use cost::{least_cost_of_vectorized, reading};

use crate::types::TableLayout;

struct ColumnarScan;

impl Scanner for ColumnarScan {
    fn offer(&self, planned: &PlannedTable<'_>) -> Option<Offer> {
        cost::offer(planned)
    }

    fn pushed(&self, planned: &PlannedTable<'_>, clauses: &[Clause<'_>]) -> Vec<bool> {
        let table = planned.open();
        let layout = TableLayout::of(table.table().descriptor());
        pushdown::pushed(planned, clauses, &layout)
    }

    fn begin<'q>(&self, begun: Begun<'q>) -> Box<dyn ColdRows + 'q> {
        Box::new(cold_scan::ColdScan::begin(begun))
    }
}

/// Makes the node known to planner and executor. Call once, from `_PG_init`.
pub fn register() {
    scan::register(&ColumnarScan);
}
