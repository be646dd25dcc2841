//! Queries of one table, or of the partitions of one, computed by columns and by several threads.
//!
//! ```text
//!   planner    offer ─── takes the query if all of it is known, at what cost     translate ── expressions
//!              semantics  PostgreSQL types whose meaning the stored form keeps
//!   executor   run ───── survey: groups the snapshot sees, their statistics ─▶ skip · answered · read
//!              feed ──── chunks as stored, pending rows ─▶ morsels ─▶ howdah_vector's threads
//!              hot ───── hot rows, and those of heap partitions: batches of columns ─▶ likewise
//!              counts ── what was read and skipped, for EXPLAIN and statistics
//!              answer ── its result as datums        threads ── the server's budget
//! ```
//!
//! The node, its plan and its place in the planner are the bridge's ([`howdah_bridge::upper`]);
//! what is computed, and how, is [`howdah_vector`]'s, which knows no PostgreSQL. This room
//! translates: expression trees into its description, the storage into its morsels, its result into
//! datums.
//!
//! Threads. The main thread reads pages, asks for interrupts, and hands copied bytes over; threads
//! open, decode, filter and aggregate them. They never call PostgreSQL, and are gone when
//! [`run`](run::run) returns or unwinds.
//!
//! Exactness. What the engine does not compute exactly it is not given (fail closed: an unknown
//! expression, function, type or collation leaves the query to PostgreSQL), or it stops without a
//! result, and PostgreSQL's own plan is run in its place. So it is where it would need more memory
//! than a hash table may have: PostgreSQL's spills.
//!
//! Not here: joins, windows, sorts without a limit, rows returned as they are.

mod answer;
mod counts;
mod feed;
mod hot;
mod offer;
mod run;
mod semantics;
mod survey;
mod threads;
mod translate;

pub use threads::THREADS;

use howdah_bridge::upper::{self, Engine, Offer, Oid, Planner, Reason, Rows, Run, Shape};

use crate::am::estimate::planned_size;

struct Vectorized;

impl Engine for Vectorized {
    fn least_cost(&self, tables: &mut dyn Iterator<Item = Oid>) -> Result<f64, Reason> {
        offer::least_cost(tables)
    }

    fn offer<'a>(&self, shape: &Shape<'a>, planner: &Planner<'_>) -> Result<Offer<'a>, Reason> {
        offer::offer(shape, planner)
    }

    fn owns(&self, table: Oid) -> bool {
        planned_size(table).is_some()
    }

    fn run(&self, run: &Run<'_>) -> Option<Box<dyn Rows>> {
        run::run(run)
    }
}

/// Makes the node known to planner and executor. Call once, from `_PG_init`.
pub fn register() {
    upper::register(&Vectorized);
}
