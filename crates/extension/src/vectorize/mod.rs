//! Queries of one table, computed by columns and by several threads.
//!
//! ```text
//!   planner    offer ─── takes the query if all of it is known, at what cost     translate ── expressions
//!              semantics  PostgreSQL types whose meaning the stored form keeps
//!   executor   run ───── survey: groups the snapshot sees, their statistics ─▶ skip · answered · read
//!              feed ──── chunks as stored, pending rows, hot rows ─▶ morsels ─▶ howdah_vector's threads
//!              answer ── its result as datums        threads ── the server's budget
//! ```
//!
//! The node, its plan and its place in the planner are the bridge's ([`howdah_bridge::upper`]); what is computed, and how, is
//! [`howdah_vector`]'s, which knows no PostgreSQL. This room translates: expression trees into its description, the
//! storage into its morsels, its result into datums.
//!
//! Threads. The main thread reads pages, asks for interrupts, and hands copied bytes over; threads open, decode, filter
//! and aggregate them. They never call PostgreSQL, and are gone when [`run`](run::run) returns or unwinds.
//!
//! Exactness. What the engine does not compute exactly it is not given (fail closed: an unknown expression, function,
//! type or collation leaves the query to PostgreSQL), or it stops without a result, and PostgreSQL's own plan is run
//! in its place. So it is where it would need more memory than a hash table may have: PostgreSQL's spills.
//!
//! Not here: joins, windows, sorts without a limit, rows returned as they are.

mod answer;
mod feed;
mod offer;
mod run;
mod semantics;
mod threads;
mod translate;

pub use threads::THREADS;

use howdah_bridge::upper::{self, Engine, Offer, Oid, Planner, Rows, Run, Shape};

struct Vectorized;

impl Engine for Vectorized {
    fn least_cost(&self, table: Oid) -> Option<f64> {
        offer::least_cost(table)
    }

    fn offer<'a>(&self, shape: &Shape<'a>, planner: &Planner<'_>) -> Option<Offer<'a>> {
        offer::offer(shape, planner)
    }

    fn run(&self, run: &Run<'_>) -> Option<Box<dyn Rows>> {
        run::run(run)
    }
}

/// Makes the node known to planner and executor. Call once, from `_PG_init`.
pub fn register() {
    upper::register(&Vectorized);
}
