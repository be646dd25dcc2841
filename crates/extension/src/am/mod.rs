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
//!   held_store    locks that checks of uniqueness need
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
pub mod held_store;
mod index_delete;
mod known_groups;
pub mod last_row;
mod late_rows;
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
use howdah_bridge::table_am::{SharedRoutine, routine_of_heap};
use howdah_bridge::{needed_columns, table_am_handler};

/// Our routine.
fn routine() -> &'static SharedRoutine {
    static HOWDAH: OnceLock<SharedRoutine> = OnceLock::new();
    HOWDAH.get_or_init(|| {
        let mut am = routine_of_heap();
        scan::install(&mut am);
        fetch::install(&mut am);
        index_delete::install(&mut am);
        modify::install(&mut am);
        estimate::install(&mut am);
        truncate::install(&mut am);
        build::install(&mut am);
        validate::install(&mut am);
        vacuum::install(&mut am);
        cluster::install(&mut am);
        SharedRoutine::new(am)
    })
}

table_am_handler!(
    howdah_tableam_handler,
    pg_finfo_howdah_tableam_handler,
    routine
);

/// Installs the hook that tells scans which columns they must return, and what takes the rows of
/// plain INSERT statements. Must be called once, from `_PG_init`.
pub fn register() {
    plain_insert::register();
    late_rows::install();
    // SAFETY: nothing else runs in the process yet.
    unsafe { needed_columns::install(is_ours) }
}

/// Whether a relation uses this access method.
pub fn is_ours(table: Table<'_>) -> bool {
    routine().is_of(table)
}
