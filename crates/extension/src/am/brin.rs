//! BRIN indexes of tables with cold rows.
//!
//! A BRIN index describes ranges of heap blocks. Cold TIDs start at block 2³¹; an index build over
//! them would first summarize millions of empty ranges. So a BRIN index covers the hot side only,
//! and a query must not use it if the table has cold rows:
//!
//! - A table with a BRIN index that never had a cold row loads hot ([`crate::load`]), so its index
//!   stays complete.
//! - Once a table has (ever had) cold rows, the planner does not get to see its BRIN indexes. Zone
//!   maps serve the same purpose. "Ever" is decided by the high-water mark, which does not depend
//!   on a snapshot; TRUNCATE removes it together with the rows.
//! - The two cannot race: CREATE INDEX waits for every load in progress, and a load that starts
//!   later sees the index, valid or not.
//! - Index builds and validation omit cold rows. The insertion of a single cold TID needs no
//!   special case: its range is never summarized, and for such a range `brininsert` does nothing.
//!   (An index with `autosummarize` requests autovacuum to summarize the range before, which lies
//!   past the end of the table.)

use howdah_bridge::table::Table;
use pgrx::{pg_guard, pg_sys};

use super::is_howdah;
use crate::store::directory::ever_cold;

static mut PREVIOUS_RELATION_INFO: pg_sys::get_relation_info_hook_type = None;

/// Installs the planner hook. Must be called once, from `_PG_init`.
pub fn register() {
    // SAFETY: called while the library loads, before any query is planned.
    unsafe {
        PREVIOUS_RELATION_INFO = pg_sys::get_relation_info_hook;
        pg_sys::get_relation_info_hook = Some(hide_brin_indexes);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn hide_brin_indexes(
    root: *mut pg_sys::PlannerInfo,
    relation: pg_sys::Oid,
    inherits: bool,
    rel: *mut pg_sys::RelOptInfo,
) {
    // SAFETY: arguments come from the planner, which holds a lock on the relation; the list and
    // its members live in the planner's memory.
    unsafe {
        if let Some(previous) = PREVIOUS_RELATION_INFO {
            previous(root, relation, inherits, rel);
        }
        let indexes = (*rel).indexlist;
        let brin: Vec<*mut pg_sys::IndexOptInfo> = (0..pg_sys::list_length(indexes))
            .map(|i| pg_sys::list_nth(indexes, i).cast::<pg_sys::IndexOptInfo>())
            .filter(|&index| (*index).relam == pg_sys::BRIN_AM_OID)
            .collect();
        // The parent of an inheritance tree is planned for its own rows by a call of its own.
        if brin.is_empty() || inherits {
            return;
        }
        let table = pg_sys::table_open(relation, pg_sys::NoLock as i32);
        if is_howdah(table) && ever_cold(Table::from_raw(table)) {
            for index in brin {
                (*rel).indexlist = pg_sys::list_delete_ptr((*rel).indexlist, index.cast());
            }
        }
        pg_sys::table_close(table, pg_sys::NoLock as i32);
    }
}
