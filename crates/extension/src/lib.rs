//! # howdah: the extension
//!
//! A table is an ordinary heap with a columnar cold side. See ARCHITECTURE.md for the map.
//!
//! ```text
//!   am        the table access method      load     bulk loads on their way to row groups
//!   store     directory and row groups     cursor   cold rows one by one
//!   compact   hot rows become cold         columnar_scan  reading by column
//!   options   options of single tables     sql      functions that SQL calls
//!   types     datums <-> column values     utility  what utility statements need done after them
//!   slot_writer  cold rows into slots      stop_point  where tests stop or kill
//!   transaction  its end, and a statement's
//!   vectorize    groups, aggregates and first rows by columns and threads
//!   row_order    sorting inside groups     written_databases  what compaction should visit
//!   thread_budget  the server's threads    bounded_cache  what a backend remembers
//!   settings, errors
//! ```

mod am;
mod bounded_cache;
mod columnar_scan;
mod compact;
mod cursor;
mod errors;
mod load;
mod options;
mod row_order;
mod scan_stats;
mod settings;
mod slot_writer;
mod sql;
mod stop_point;
mod store;
mod thread_budget;
mod transaction;
mod types;
mod utility;
mod vectorize;
mod written_databases;

use howdah_bridge::cold_lock::{MAINTAINERS, locker};
use howdah_bridge::shared_memory::{self, AnyArea};
use howdah_bridge::store::mapped as mapped_files;
use howdah_bridge::store::verified_notes::VERIFIED_NOTES;
use howdah_bridge::{object_access, process, spare_memory};
use pgrx::pg_guard;

pgrx::pg_module_magic!();

#[global_allocator]
static ALLOCATOR: spare_memory::Allocator = spare_memory::Allocator;

/// What processes share.
static SHARED_AREAS: &[&dyn AnyArea] = &[
    &compact::SHARED,
    &written_databases::WRITTEN,
    &store::marks::mark_filter::MARK_FILTER,
    &store::marks::dead_rows::DEAD_ROWS,
    &store::directory_version::DIRECTORY_VERSIONS,
    &store::visibility::constraint_checks::LAST_MOVER,
    &locker::LOCKERS,
    &MAINTAINERS,
    &thread_budget::THREADS,
    &VERIFIED_NOTES,
];

/// Called when the library is loaded.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    if !process::is_preloading() {
        pgrx::ereport!(
            pgrx::PgLogLevel::ERROR,
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "howdah must be loaded through shared_preload_libraries",
            "Add howdah to shared_preload_libraries in postgresql.conf and restart the server."
        );
    }
    keep_backtraces_out_of_errors();
    shared_memory::register(SHARED_AREAS);
    settings::register();
    stop_point::register();
    locker::register();
    mapped_files::register();
    written_databases::register();
    compact::register();
    load::register();
    transaction::register();
    options::register();
    scan_stats::register();
    object_access::at_drop(|dropped| {
        scan_stats::note_drop(dropped.relation);
        if let Some(table) = dropped.brin_of {
            load::note_dropped_brin(table);
        }
    });
    am::brin::register();
    utility::register();
    columnar_scan::register();
    howdah_bridge::client_rows::register(am::is_ours);
    vectorize::register();
    am::register();
    process::refuse_other_settings(c"howdah");
}

/// Every PostgreSQL ERROR that passes through Rust frames would carry a Rust backtrace in its
/// DETAIL where the server was started with RUST_BACKTRACE set: slow, and nothing for users.
/// Set RUST_LIB_BACKTRACE as well to see them.
fn keep_backtraces_out_of_errors() {
    if std::env::var_os("RUST_LIB_BACKTRACE").is_none() {
        // SAFETY: the postmaster has one thread while it loads libraries.
        unsafe { std::env::set_var("RUST_LIB_BACKTRACE", "0") }
    }
}
