//! Queries of one table, or of the partitions of one, computed by columns and by several threads.
//!
//! ```text
//!   planner    offer ───── accepts a query, with a cost
//!              translate ─ expressions
//!              semantics ─ PostgreSQL types whose meaning the stored form keeps
//!              zone ────── the session's time zone
//!   executor   run ─────── survey: visible groups, their statistics ─▶ skip · answered · read
//!              feed ────── chunks as stored, pending rows ─▶ morsels ─▶ howdah_vector's threads
//!              foreign ─── expressions that the engine does not know, evaluated by PostgreSQL
//!              hot ─────── hot rows, and those of heap partitions: batches of columns ─▶ likewise
//!              late ────── values of first rows that are read when the rows are known
//!              counts ──── what was read and skipped, for EXPLAIN and statistics
//!              answer ──── the result as datums
//! ```
//!
//! The node, its plan and its place in the planner are in [`howdah_bridge::upper`]; what is
//! computed, and how, is in [`howdah_vector`], which does not use PostgreSQL. This room translates:
//! expression trees into the engine's description, the storage into morsels, the engine's result
//! into datums.
//!
//! Invariants
//! - Threads never call PostgreSQL, and have ended when [`run`](run::run) returns or unwinds. The
//!   main thread reads pages, checks for interrupts, and hands copied bytes over; threads open,
//!   decode, filter and aggregate them.
//! - While an expression is evaluated for the engine, which may run any query, the main thread
//!   holds no lock of a page and borrows nothing that a query changes.
//! - The engine never returns an inexact result. Expressions with unknown functions, types or
//!   collations are evaluated by PostgreSQL; what it may not evaluate here either, and unknown
//!   aggregates, leave the query to PostgreSQL's own plan. If the engine meets a value that it
//!   cannot compute exactly, or needs more memory than a hash table may have, it stops without a
//!   result, and PostgreSQL's own plan, which can spill, is run in its place.
//!
//! Not here: joins, windows, sorts without a limit, rows returned as they are.

mod answer;
mod counts;
mod feed;
mod foreign;
mod hot;
mod late;
mod offer;
mod run;
mod semantics;
mod source;
mod survey;
mod translate;
mod zone;

use howdah_bridge::upper::{
    self, Engine, Left, Offer, Oid, Planner, QueriedTable, Reason, Rows, Run, Shape,
};

use crate::am::estimate::planned_size;

struct Vectorized;

impl Engine for Vectorized {
    fn least_cost(&self, tables: &[QueriedTable]) -> Result<f64, Reason> {
        offer::least_cost(tables)
    }

    fn offer<'a>(&self, shape: &Shape<'a>, planner: &Planner<'_>) -> Result<Offer<'a>, Reason> {
        offer::offer(shape, planner)
    }

    fn owns(&self, table: Oid) -> bool {
        planned_size(table).is_some()
    }

    fn run(&self, run: &Run<'_>, before: Option<Box<dyn Rows>>) -> Result<Box<dyn Rows>, Left> {
        run::run(run, before)
    }
}

/// Registers the node with planner and executor. Call once, from `_PG_init`.
pub fn register() {
    upper::register(&Vectorized);
}
