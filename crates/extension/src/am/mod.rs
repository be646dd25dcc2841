//! The table access method `howdah`.
//!
//! The routine is a copy of heap's, with those callbacks replaced that may reach a cold row. Every
//! replacement first checks which side a TID or a scan is on and passes hot rows to heap's own
//! callback, so a table without cold rows behaves as heap does.
//!
//! ```text
//!   scan      sequential and TID-range scans, forwards and backwards, parallel
//!   bitmap    bitmap heap scans          sample   TABLESAMPLE
//!   fetch     index fetches, TID fetches, visibility of a slot
//!   point_reader  single cold rows       index_delete  entries that an index may drop
//!   serializable  predicate locks
//!   modify    inserts (hot or into a load), updates, deletes, row locks
//!   plain_insert  rows that a load takes from the plan of an INSERT
//!   cold_rows the same for cold rows    decoded  what logical decoding gets to see of that
//!   last_row             what the same command is about to ask again
//!   estimate  sizes and row counts for the planner
//!   build     index builds               validate the second scan of concurrent builds
//!   brin      indexes that the planner must not see
//!   analyze   one sample of both sides
//!   cluster   VACUUM FULL and CLUSTER
//!   truncate  truncation in place
//!   vacuum    hot side by heap's code, then index entries of dead cold rows
//! ```

mod analyze;
mod bitmap;
pub mod brin;
mod build;
mod cluster;
pub mod cold_rows;
mod decoded;
pub mod estimate;
pub mod fetch;
mod index_delete;
mod known_groups;
mod last_row;
pub mod modify;
mod moment;
mod plain_insert;
pub mod point_reader;
mod sample;
pub mod scan;
pub mod serializable;
mod truncate;
mod vacuum;
mod validate;

use std::sync::OnceLock;

use howdah_bridge::table::Table;
use pgrx::{pg_guard, pg_sys};

pub use howdah_bridge::heap_am::routine as heap;

struct Routine(pg_sys::TableAmRoutine);
// SAFETY: function pointers only; never written after initialization.
unsafe impl Send for Routine {}
// SAFETY: shared references only read it: it is never written after initialization.
unsafe impl Sync for Routine {}

static HOWDAH: OnceLock<Routine> = OnceLock::new();

/// Our routine.
pub fn howdah() -> &'static pg_sys::TableAmRoutine {
    &HOWDAH
        .get_or_init(|| {
            let mut am = *heap();
            scan::install(&mut am);
            bitmap::install(&mut am);
            sample::install(&mut am);
            fetch::install(&mut am);
            index_delete::install(&mut am);
            modify::install(&mut am);
            estimate::install(&mut am);
            truncate::install(&mut am);
            build::install(&mut am);
            validate::install(&mut am);
            vacuum::install(&mut am);
            cluster::install(&mut am);
            analyze::install(&mut am);
            Routine(am)
        })
        .0
}

/// Installs the hook that tells scans which columns they must return, and what takes the rows of
/// plain INSERT statements. Must be called once, from
/// `_PG_init`.
pub fn register() {
    plain_insert::register();
    // SAFETY: nothing else runs in the process yet; the function reads the routine of an open
    // relation.
    unsafe { howdah_bridge::needed_columns::install(is_howdah) }
}

/// Whether a relation uses this access method.
///
/// # Safety
/// `rel` is an open relation.
pub unsafe fn is_howdah(rel: pg_sys::Relation) -> bool {
    // SAFETY: the caller holds the relation open.
    unsafe { std::ptr::eq((*rel).rd_tableam, howdah()) }
}

/// As [`is_howdah`], of a borrowed relation.
pub fn is_ours(table: Table<'_>) -> bool {
    // SAFETY: the relation is open as long as it is borrowed.
    unsafe { is_howdah(table.raw()) }
}

#[pg_guard]
#[unsafe(no_mangle)]
extern "C-unwind" fn howdah_tableam_handler(_fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    pg_sys::Datum::from(std::ptr::from_ref(howdah()).cast_mut())
}

#[unsafe(no_mangle)]
extern "C" fn pg_finfo_howdah_tableam_handler() -> *const pg_sys::Pg_finfo_record {
    static INFO: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &INFO
}
