//! Index kinds that keep a table's loads hot, and BRIN indexes of tables with cold rows.
//!
//! A BRIN index describes ranges of heap blocks. Cold TIDs start at block 2³¹; an index build over
//! them would first summarize millions of empty ranges. So a BRIN index covers the hot side only,
//! and a query must not use it if the table has cold rows:
//!
//! - A table with a BRIN index that never had a cold row loads hot, so its index stays complete.
//! - Once a table has (ever had) cold rows, the planner does not get to see its BRIN indexes. Zone
//!   maps serve the same purpose. "Ever" is decided by the high-water mark, which does not depend
//!   on a snapshot; TRUNCATE removes it together with the rows.
//! - The two cannot race: CREATE INDEX waits for every load in progress, and a load that starts
//!   later sees the index, valid or not.
//! - Index builds and validation omit cold rows. The insertion of a single cold TID needs no
//!   special case: its range is never summarized, and for such a range `brininsert` does nothing.
//!   (An index with `autosummarize` requests autovacuum to summarize the range before, which lies
//!   past the end of the table.)
//!
//! A table with an exclusion constraint loads hot for another reason. A conflict may be found by a
//! lossy index (GiST), which must recheck it on the row itself; the rows of a load in progress are
//! in the memory of the loading backend only. Hot rows can be read while their transaction is in
//! progress. (Compaction may move such rows: they are committed.)
//!
//! So does a table with a unique index on an expression that might fail on NULLs. ON CONFLICT
//! evaluates the expression on a row that has the same key before it waits for that row's
//! transaction. For a row in another backend's memory the values are not known, and NULLs are used
//! instead ([`super::point_reader`]). Moved and merged rows can be read before an index leads to
//! them.
//!
//! So does the first load of a transaction that has rebuilt the cold store's index: the high-water
//! mark would be in the new index only, and a rollback would restore the old index, after which row
//! numbers would be assigned a second time.

use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use pgrx::{pg_guard, pg_sys};

use super::index_entry::may_fail_on_nulls;
use super::is_howdah;
use crate::store::directory::ever_had_cold_rows;

static mut PREVIOUS_RELATION_INFO: pg_sys::get_relation_info_hook_type = None;

/// Installs the planner hook. Must be called once, from `_PG_init`.
pub fn register() {
    // SAFETY: called while the library loads, before any query is planned.
    unsafe {
        PREVIOUS_RELATION_INFO = pg_sys::get_relation_info_hook;
        pg_sys::get_relation_info_hook = Some(hide_brin_indexes);
    }
}

/// Whether an index of the table, or the state of its cold store, requires that a load stays hot.
/// The table is locked for writing.
pub fn loads_stay_hot(table: Table<'_>) -> bool {
    // SAFETY: the table is open; each index is open while it is inspected. The inserting statement
    // holds the same lock on it anyway.
    unsafe {
        let list = pg_sys::RelationGetIndexList(table.raw());
        let (mut has_brin, mut needs_values) = (false, false);
        for i in 0..pg_sys::list_length(list) {
            let index = pg_sys::index_open(
                pg_sys::list_nth_oid(list, i),
                pg_sys::AccessShareLock as i32,
            );
            has_brin |= (*(*index).rd_rel).relam == pg_sys::BRIN_AM_OID;
            needs_values |= (*(*index).rd_index).indisexclusion || may_fail_on_nulls(index);
            pg_sys::index_close(index, pg_sys::AccessShareLock as i32);
        }
        pg_sys::list_free(list);
        needs_values || (has_brin && !ever_cold(table)) || mark_may_vanish(table)
    }
}

/// Whether a high-water mark made now could be lost by a rollback.
fn mark_may_vanish(table: Table<'_>) -> bool {
    ColdStore::open(table, LockMode::AccessShare)
        .is_some_and(|store| store.index_may_vanish() && !ever_had_cold_rows(&store))
}

/// Whether the table, which is locked, has or ever had cold rows, according to the high-water mark.
pub fn ever_cold(table: Table<'_>) -> bool {
    ColdStore::open(table, LockMode::AccessShare)
        .is_some_and(|store| store.toast().main_fork_blocks() > 0 && ever_had_cold_rows(&store))
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
