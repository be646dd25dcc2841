//! Generated queries of the vectorized engine, and the comparison of their answers with heap's.
//!
//! ```text
//!   Dice ─► tables       h of heap, t of howdah, with the same rows; columns: of which types
//!     └───► author       a query: what is returned, its filter, groups, order, how it is asked
//!              │ expressions, changes
//!              ▼
//!           query        its text over t, or over h
//!              ▼
//!           compare      by the engine, by PostgreSQL's nodes over cold rows, over heap
//!              │ answer
//!              ▼
//!           Tally
//! ```
//!
//! Each schema draws for every column how its values are: few or many, constant, runs, all NULL,
//! with NULLs, extremes, NaN, infinities, -0, numbers of many digits, long common beginnings. Rows
//! are hot, cold, marked and updated alike in both tables. Half of the tables are partitioned, by
//! list, range or hash, on two levels, with partitions whose columns are in another order. Floats
//! are multiples of a quarter, so that sums are exact in any order. Some columns are of types that
//! the engine only reads, or that are grouped by another equality than that of their bytes; two
//! were added when the rows were cold already. Every third query has an expression that the engine
//! does not know, which PostgreSQL evaluates for it; some read parts of documents. Of every query
//! the dice choose the number of threads, the memory, the rows that are worked on at a time, down
//! to one, and the bits of hashes, down to none. Queries are asked as they are, as prepared
//! statements with parameters in generic plans and custom ones, by rescans with other parameters,
//! below other queries, by cursors that read forward and backward, in transactions that have
//! changed the table, before and after they roll that back, and in loops whose body fails and goes
//! on.
//!
//! An error of a conjunct is an exception to equal answers: the engine evaluates conjuncts that can
//! raise one last, so that fewer rows meet them. Where heap raises an error and the engine does
//! not, the query over heap is asked again with the other conjuncts evaluated first; where the
//! engine raises one alone, without its LIMIT, at which PostgreSQL's nodes may stop before they
//! reach the row.

mod answer;
mod author;
mod changes;
mod columns;
mod compare;
mod expressions;
mod query;
mod tables;

pub use answer::{Answer, Plan, answer, plan, same};
pub use author::{author, values};
pub use changes::committed_changes;
pub use compare::{Tally, compare_next, compare_next_in, is_conflict};
pub use query::{Query, Way};
pub use tables::{FUNCTIONS, make_tables};
