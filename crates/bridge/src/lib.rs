//! # bridge: PostgreSQL behind guards
//!
//! This crate holds PostgreSQL's pointers. It knows pages, tuples, slots, indexes, snapshots and
//! locks; it does not know row groups, columns or encodings, and it decides nothing about them.
//!
//! ```text
//!   extension ──> store::ColdStore   key–value access to a table's TOAST relation
//!             ──> tid                row numbers <-> cold TIDs
//!             ──> slot               values -> a buffer slot holding a cold heap tuple
//!             ──> relation           open relations as guards
//!             ──> table              open relations as borrowed values, and their attributes
//!             ──> snapshot           snapshots as borrowed values
//!             ──> shown_tuple        a tuple that may be judged
//!             ──> xid                transaction ids and what the server knows of them
//!             ──> row_request        what is asked of a row to be changed or locked, and answers
//!             ──> heap_am            heap's own access method
//!             ──> hot                heap's operations on hot rows, safe for cold t_ctid links
//!             ──> cold_lock          locks on cold rows and row groups
//!             ──> rewrite            row versions into a new main fork
//!             ──> tuple_sort         rows in the order of an index
//!             ──> catalog            the rows of a system catalog
//!             ──> security_label     labels of tables and columns
//!             ──> collation          how a collation orders text
//!             ──> counters           cumulative statistics per table
//!             ──> table_counts       PostgreSQL's own statistics of a table, changed at once
//!             ──> wal                flushing the write-ahead log
//!             ──> io_cost            I/O counted and slowed down, as VACUUM has it
//!             ──> shared_memory      areas that all processes share
//!             ──> malloc             freed memory kept for the next row group
//!             ──> memory             small allocations
//!             ──> needed_columns     which columns of a row a scan must return
//!             ──> proc_flags         status flags of this process that others read
//!             ──> recovery_conflict  what standbys must resolve before they replay a change
//!             ──> upper              a plan node for the upper part of a query over one table
//!             ──> row_expr           a node's qual and projection, row by row
//!             ──> ffi                functions that pgrx does not bind
//! ```
//!
//! Invariants
//! - Everything here runs on the backend's main thread.
//! - A guard that is dropped while a PostgreSQL error unwinds does nothing: the resource
//!   owner of the aborting transaction releases what the guard held.
//! - What differs between PostgreSQL majors stays in this crate.

pub mod catalog;
pub mod cold_lock;
pub mod collation;
pub mod counters;
pub mod ffi;
pub mod heap_am;
pub mod hot;
pub mod io_cost;
pub mod malloc;
pub mod memory;
pub mod needed_columns;
pub mod predicate;
pub mod proc_flags;
pub mod recovery_conflict;
pub mod relation;
pub mod rewrite;
pub mod row_expr;
pub mod row_request;
pub mod security_label;
pub mod shared_memory;
pub mod shown_tuple;
pub mod slot;
pub mod snapshot;
pub mod store;
pub mod table;
pub mod table_counts;
pub mod tid;
pub mod tuple;
pub mod tuple_sort;
pub mod upper;
pub mod wal;
pub mod xid;

pub use pgrx::pg_sys::{Datum, Oid};
