//! Tests that need whole servers: crash, standby, dump and restore, heap and howdah side by side.
//!
//! ```text
//!   tests/*.rs ──► cluster::Primary ──► howdah_cli::scratch ──► one server, gone when dropped
//!                       └─► Standby      (base backup + streaming, in the primary's directory)
//!   buffers       pages that a statement touches
//!   checks        invariants of a table: equal to its heap twin, sound indexes, unique TIDs
//!   compaction    compactions that wait at a named step
//!   damage        a cold store damaged on disk, bit by bit
//!   death         backends killed at a named step
//!   differential  generated statements on heap and howdah
//!   process       threads, open files and memory of a backend
//!   queries       generated queries of the vectorized engine, and their answers
//!   replay        a standby's replay that old snapshots block, and what happens to them
//!   settings      numbers from the environment, for longer runs
//!   harmed_table  a table of which one column of one row group is damaged, in any of several ways
//!   stored_groups where the column chunks of a damaged table lie in its file
//! ```
//!
//! Run by `./howdah test --only server`, or by `cargo test -p howdah-server-tests` after
//! `./howdah up` has put the extension's files in place.

#![forbid(unsafe_code)]

pub mod buffers;
pub mod checks;
pub mod cluster;
pub mod compaction;
pub mod damage;
pub mod death;
pub mod differential;
pub mod harmed_table;
pub mod process;
pub mod queries;
pub mod replay;
pub mod settings;
pub mod stored_groups;
