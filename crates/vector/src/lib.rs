//! Vectorized execution: a query over columns, compiled and run by several threads.
//!
//! ```text
//!   plan ── what is asked: columns, conjuncts, groups and aggregates, or the first rows by an order
//!     │
//!     ▼ compile                     functions ── one entry per built-in function
//!   operators ◀── expr ◀────────────┘
//!     │    ▲      aggregates ── states of groups: add rows, merge, finish;  domain ── groups without hashing
//!     │    └── source ── morsels: chunks as encoded, or columns
//!     ▼
//!   runtime ── threads, queue, stop, memory          oracle ── the same, row by row
//! ```
//!
//! Values are those of [`howdah_columnar`]: its storage types, its columns. What an integer means
//! (a date, a timestamp) is the caller's business; infinities are extreme values.
//!
//! This room knows nothing of PostgreSQL but what its built-in functions compute: they are named by
//! their `prosrc`, and compute exactly what PostgreSQL computes, errors included. What cannot be
//! computed exactly is not compiled ([`Declined`](error::Declined)), or stops the run with
//! [`VectorError::Unsupported`], upon which the caller evaluates the query by other means: no row
//! leaves a run before its end.
//!
//! Invariants: a run is over when [`runtime::run`] returns, also by a panic of the caller: no
//! thread and no memory is left. Every loop over more than a morsel's rows looks at the stop flag.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod aggregates;
mod domain;
pub mod error;
pub mod expr;
pub mod functions;
pub mod operators;
pub mod oracle;
pub mod plan;
pub mod runtime;
pub mod source;

pub use error::{Declined, VectorError};
