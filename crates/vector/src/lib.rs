//! Vectorized execution: a query over columns, compiled and run by several threads.
//!
//! ```text
//!   plan ── the query: columns, conjuncts, groups and aggregates, or the first rows by an order
//!     │
//!     ▼ compile                     functions ── one entry per built-in function
//!   operators ◀── expr ◀────────────┘
//!     │    ▲      aggregates ── states of groups: add rows, merge, finish
//!     │    │      domain ────── groups without hashing
//!     │    └── source ── morsels: chunks as encoded, or columns
//!     ▼
//!   runtime ── threads, queue, stop, memory          oracle ── the same, row by row
//!     └── foreign ── expressions that only the caller's thread can evaluate
//! ```
//!
//! Values are those of [`howdah_columnar`]: its storage types, its columns. The meaning of an
//! integer (a date, a timestamp) is known to the caller only; infinities are extreme values.
//!
//! This room knows nothing of PostgreSQL except the results of its built-in functions, which are
//! identified by their `prosrc`. What depends on the session's time zone is told the
//! [`zone`]'s changes.
//!
//! Invariants
//! - A result is exactly PostgreSQL's, errors included; of several rows that fail, any one's. A
//!   query that cannot be computed exactly is not compiled ([`Declined`](error::Declined)), or its
//!   run stops with [`VectorError::Unsupported`], and the caller evaluates it by other means. No
//!   row is returned before the end of a run.
//! - A run is over when [`runtime::run`] returns, also if the caller panics: no thread and no
//!   memory is left.
//! - Every loop over more than a morsel's rows checks the stop flag.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod aggregates;
mod domain;
pub mod error;
pub mod expr;
pub mod foreign;
pub mod functions;
pub mod operators;
pub mod oracle;
pub mod plan;
pub mod runtime;
pub mod source;
mod stop;
pub mod zone;

pub use error::{Declined, VectorError};
