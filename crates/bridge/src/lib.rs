//! # bridge: PostgreSQL behind guards
//!
//! This crate holds PostgreSQL's pointers. It knows pages, tuples, slots, indexes, snapshots and
//! locks; it does not know row groups, columns or encodings, and it decides nothing about them.
//!
//! ```text
//!   extension ──> store::ColdStore   key–value access to a table's TOAST relation
//!             ──> tid                row numbers <-> cold TIDs
//!             ──> slot               values -> a buffer slot holding a cold heap tuple
//!             ──> slot_batch         several slots, for rows that are inserted together
//!             ──> late_slot          rows in slots that are put together when they are read
//!             ──> relation           open relations as guards
//!             ──> table              open relations as borrowed values, and their attributes
//!             ──> snapshot           snapshots as borrowed values
//!             ──> shown_tuple        a tuple whose visibility may be judged
//!             ──> xid                transaction ids and their status
//!             ──> row_request        requests to change or lock a row, and their results
//!             ──> heap_am            heap's own access method
//!             ──> hot                heap's operations on hot rows, safe for cold t_ctid links
//!             ──> cold_lock          locks on cold rows and row groups
//!             ──> rewrite            row versions into a new main fork
//!             ──> tuple_sort         rows in the order of an index
//!             ──> catalog            the rows of a system catalog
//!             ──> security_label     labels of tables and columns
//!             ──> collation          how a collation orders text
//!             ──> time_zone          the changes of the session's zone
//!             ──> counters           cumulative statistics per table
//!             ──> table_counts       PostgreSQL's own statistics of a table, changed immediately
//!             ──> wait_context       the context line of an error that ends a wait for a row
//!             ──> damage             the error about stored bytes that are not what was written
//!             ──> wal                flushing the write-ahead log
//!             ──> io_cost            I/O counted and limited, as in VACUUM
//!             ──> shared_memory      areas that all processes share
//!             ──> malloc             freed memory kept for the next row group
//!             ──> spare_memory       set aside, so that a refused allocation ends a statement only
//!             ──> memory             small allocations
//!             ──> row_memory         a memory scope for the values of one row
//!             ──> partitions         the tree of a partitioned table
//!             ──> needed_columns     which columns of a row a scan must return
//!             ──> proc_flags         status flags of this process that others read
//!             ──> recovery_conflict  what standbys must resolve before they replay a change
//!             ──> maintained         a table open for maintenance, as its owner
//!             ──> transactions       ending one and starting the next; callbacks at their ends
//!             ──> procedure          entry points of procedures
//!             ──> background         entry points of background workers
//!             ──> utility            notification of utility statements
//!             ──> default_method     the access method of tables that extensions create
//!             ──> statement_settings a setting changed while a utility statement runs
//!             ──> object_access      notification of dropped tables
//!             ──> invalidation       relcache invalidations, received and sent
//!             ──> access_method      changes of a table's access method
//!             ──> advisory_lock      locks of sessions by a number
//!             ──> names              of relations, columns, types, roles
//!             ──> rights             rights of the current user
//!             ──> role               the role whose rights count
//!             ──> process            this process, and others
//!             ──> lockers            waiting for the holders of a table's locks
//!             ──> vacuum             vacuuming a relation
//!             ──> table_vacuum       a run of VACUUM over a table, as its callback gets it
//!             ──> table_am           callbacks of an access method, as traits: scans, fetches,
//!                                    changes, sizes, …
//!             ──> custom_node        what our plan nodes have in common
//!             ──> index_build        what index builds do with hot rows
//!             ──> indexes            the indexes of a table
//!             ──> new_entries        index entries of rows that got new TIDs
//!             ──> scan               a plan node that scans a table with cold rows
//!             ──> explanation        output of nodes for EXPLAIN
//!             ──> executor           what is done before statements start and finish
//!             ──> plain_insert       rows of INSERT that a load takes from the plan
//!             ──> insert_plan        how many rows a statement is expected to insert
//!             ──> expr               expression trees as borrowed values
//!             ──> datum              datums with the form of their type
//!             ──> builtin            OIDs of built-in types and operators
//!             ──> column_statistics  statistics of columns from ANALYZE
//!             ──> upper              a plan node for the upper part of a query over one table
//!             ──> client_rows        rows of our nodes and tables to the client
//!             ──> row_expr           a node's qual and projection, row by row
//!             ──> ffi                functions that pgrx does not bind
//! ```
//!
//! Invariants
//! - Everything here runs on the backend's main thread.
//! - A guard that is dropped while a PostgreSQL error unwinds does nothing: the resource
//!   owner of the aborting transaction releases what the guard held.
//! - What differs between PostgreSQL majors stays in this crate.

pub mod access_method;
pub mod advisory_lock;
pub mod background;
pub mod builtin;
pub mod catalog;
pub mod client_rows;
pub mod cold_lock;
pub mod collation;
pub mod column_statistics;
pub mod counters;
mod custom_node;
pub mod damage;
pub mod datum;
mod default_method;
pub mod executor;
mod explanation;
pub mod expr;
pub mod ffi;
pub mod heap_am;
pub mod hot;
pub mod index_build;
pub mod indexes;
pub mod insert_plan;
pub mod invalidation;
pub mod io_cost;
pub mod late_slot;
pub mod lock_span;
pub mod lockers;
pub mod maintained;
pub mod malloc;
pub mod memory;
pub mod names;
pub mod needed_columns;
pub mod new_entries;
pub mod object_access;
pub mod partitions;
pub mod plain_insert;
pub mod predicate;
pub mod proc_flags;
pub mod procedure;
pub mod process;
pub mod recovery_conflict;
pub mod relation;
pub mod rewrite;
pub mod rights;
mod role;
pub mod row_expr;
pub mod row_image;
pub mod row_memory;
pub mod row_request;
mod rows_after;
pub mod scan;
pub mod security_label;
pub mod shared_memory;
pub mod shown_tuple;
pub mod slot;
pub mod slot_batch;
pub mod snapshot;
pub mod spare_memory;
mod statement_settings;
pub mod store;
pub mod table;
pub mod table_am;
pub mod table_counts;
pub mod table_vacuum;
pub mod tid;
pub mod time_zone;
pub mod transactions;
pub mod tuple;
pub mod tuple_sort;
pub mod upper;
pub mod utility;
pub mod vacuum;
mod wait_context;
pub mod wal;
mod wants;
pub mod xid;

pub use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
pub use pgrx::pg_sys::{Datum, Oid};
