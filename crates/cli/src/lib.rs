//! The `howdah` command: what a person types, from `up` to `test`.
//!
//! ```text
//!   ./howdah (bash)  ──env──►  main ─► command ─┬─► instance   up, down, status, psql
//!   packages, Rust,                             ├─► doctor     what is missing, and its cure
//!   PostgreSQL, build                           ├─► demo       real data, heap beside howdah
//!                                               ├─► bench      heap, howdah, DuckDB; goals
//!                                               ├─► install    files for the user's own PostgreSQL
//!                                               ├─► package    the same files as a .deb
//!                                               ├─► test       every suite, one last line
//!                                               └─► soak       what only finds something in hours
//!                     paths · account · cluster · machine · progress      (used by all of them)
//! ```
//!
//! It starts servers and talks SQL to them; it links no PostgreSQL code and no other crate of
//! Howdah, so that it shows what any client would see.
//!
//! Invariants:
//! - No system cluster is ever touched: every server that is started here has its own data
//!   directory, its own socket directory and, if it listens at all, listens on the loopback address
//!   only.
//! - Servers never run as root; [`account`] decides which user runs them.
//! - A command that reports success has checked it; a difference between heap and howdah is a
//!   failure.
//!
//! `tests/server` uses [`cluster`] and [`paths`] from here, so that there is one way to start a
//! private server.

#![forbid(unsafe_code)]

pub mod account;
pub mod bench;
pub mod cluster;
pub mod command;
pub mod demo;
pub mod doctor;
pub mod install;
pub mod instance;
pub mod machine;
pub mod package;
pub mod paths;
pub mod progress;
mod release;
pub mod scratch;
pub mod soak;
pub mod test;
pub mod units;
