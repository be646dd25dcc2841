//! ColumnarScan: reading a table by column inside PostgreSQL's executor.
//!
//! ```text
//!   planner   cost ── whether the node is offered, and what it costs
//!             pushdown ── which clauses row groups can evaluate (used again by the executor)
//!
//!   executor  hot rows:  heap's own scan, by the bridge ───────────────┐
//!             cold rows: cold_scan ─ reader ── units of zones:         ├──> virtual slot
//!                        current_group (verdicts, filter)              │
//!                        → decoded (decode) → batch ───────────────────┘
//!                                             datums, column by column
//!             operand ── values to compare with       units ── shared by parallel scans
//!             counts ── what was read          replan ── plans made when there were cold rows
//! ```
//!
//! The node itself, its paths, plans and rows are in [`howdah_bridge::scan`]; this room decides
//! when it is used, and what it reads.
//!
//! Invariants
//! - A table that has no cold rows is never offered this node, so it is planned exactly like heap.
//! - A pushed clause may run before all others: it is leakproof, or no clause of a lower security
//!   level exists.
//! - Between calls the cold side holds no pin, no lock and no open relation.
//!
//! Clauses. A clause that row groups can evaluate exactly is *pushed*: it is removed from the
//! node's qual and kept in `custom_exprs`. Statistics and zone maps exclude row groups and zones;
//! the rows of the others are filtered on encoded data. If a group cannot decide (a numeric image,
//! a column that was added later, an operand without an exact form), its rows are *rechecked*:
//! PostgreSQL evaluates the pushed clauses. Hot rows are always rechecked.
//!
//! Not here: joins, aggregates, TABLESAMPLE.

mod batch;
mod cold_scan;
mod cost;
mod counts;
mod current_group;
mod decoded;
mod hidden_rows;
mod history;
mod like;
mod operand;
mod piece;
mod pushdown;
mod reader;
mod replan;
mod singles;
mod units;

use howdah_bridge::scan::{self, Begun, Clause, ColdRows, Offer, PlannedTable, Scanner};

pub use cost::{
    FIRST_ROW, FIRST_VALUE, Filter, ROWS_OF_A_THREAD, STRING_GROUP, cost_of_passing, cost_of_run,
    hot_reading, layout_of, least_cost_of_vectorized, reading, small_reading,
};

use crate::types::TableLayout;

struct ColumnarScan;

impl Scanner for ColumnarScan {
    fn least_cost(&self, planned: &PlannedTable<'_>) -> Option<f64> {
        cost::least_cost(planned)
    }

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

/// Registers the node with planner and executor. Call once, from `_PG_init`.
pub fn register() {
    scan::register(&ColumnarScan);
}
