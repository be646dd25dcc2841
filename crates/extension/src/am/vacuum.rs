//! VACUUM.
//!
//! ```text
//!   1 hot side    heap_vacuum_rel, unchanged
//!   2 cold side   survey (mark, entries that are not dead) ──> gaps, rows marked as dead
//!                 those not cleaned yet ──> bulk-delete their index entries, record it
//!   3 statistics  pg_class.reltuples = hot + cold; live rows for autovacuum likewise
//! ```
//!
//! The directory entries and the pieces of dead groups are ordinary dead tuples of the TOAST
//! relation, which VACUUM processes next by itself. Only VACUUM of the table can remove index
//! entries: see [`crate::store::gaps`] for which are dead and how a second VACUUM finds that there
//! is nothing to do.
//!
//! As heap does with few dead line pointers, an automatic choice of index cleanup skips gaps until
//! they amount to 2% of the number of cold rows; `INDEX_CLEANUP on` cleans any, `off` none.
//!
//! Locks: VACUUM's own on the table; the same mode on the TOAST relation while the cold side is
//! surveyed, because VACUUM's snapshot does not keep a concurrent VACUUM of that relation from
//! recycling index pages that are being read.
//!
//! Rows that marks hide from all snapshots are folded into their group's deletion vector once
//! no index has entries for them. Other backends neither wait for VACUUM's own transaction nor see
//! its changes by MVCC. So what it writes is frozen from the start or changed in place, under the
//! lock on the whole group. Deleting the folded marks is left to compaction.
//!
//! Standbys: index entries are removed and bits are set without MVCC. For a snapshot on a standby
//! (whose xmin was not reported here by `hot_standby_feedback`) rows would disappear too soon. So
//! the latest transaction that made one of the rows dead is logged first, as a snapshot conflict
//! ([`howdah_bridge::recovery_conflict`]): replay waits for, or cancels, snapshots that do not see
//! it as finished. There is one record per VACUUM that removes anything.
//!
//! A crash or an error after some indexes were cleaned leaves no record of it: the next VACUUM
//! starts over.

use howdah_bridge::cold_lock::Locks;
use howdah_bridge::recovery_conflict;
use howdah_bridge::relation::{ensure_first_page, main_fork_blocks, name_of};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::RowNumber;
use pgrx::{pg_guard, pg_sys};

use super::heap;
use super::index_entry::is_hot_only;
use crate::errors::or_raise;
use crate::stop_point;
use crate::store::gaps::Survey;
use crate::store::marks;

/// `BYPASS_THRESHOLD_PAGES` of heap's vacuum, for rows.
const BYPASS_SHARE: f64 = 0.02;

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.relation_vacuum = Some(relation_vacuum);
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_vacuum(
    table: pg_sys::Relation,
    params: *mut pg_sys::VacuumParams,
    strategy: pg_sys::BufferAccessStrategy,
) {
    // SAFETY: arguments come from VACUUM, which holds the table open and locked.
    unsafe {
        let Some(cold_before) = survey(table) else {
            // Called without a guard, so that an ERROR keeps the error context that VACUUM gives
            // it.
            (heap().relation_vacuum.unwrap_unchecked())(table, params, strategy);
            return;
        };
        let indexes_before = index_row_counts(table);
        vacuum_hot(table, params, strategy, &cold_before);
        // A load that was in progress at the first survey may have committed meanwhile.
        let cold = survey(table).unwrap_or(cold_before);
        let removed = clean_indexes(table, params, strategy, &cold);
        if cold.live_rows() > 0 {
            ensure_first_page(table);
            correct_statistics(table, &indexes_before, &cold);
        }
        if (*params).options & pg_sys::VACOPT_VERBOSE != 0 {
            report(table, &cold, removed);
        }
    }
}

/// The state of the cold side; `None` if the table never had cold rows.
///
/// # Safety
/// The table is open and locked.
unsafe fn survey(table: pg_sys::Relation) -> Option<Survey> {
    // SAFETY: the table is open and locked.
    unsafe {
        // First checks under AccessShareLock, which blocks nothing, as most tables are all hot.
        let table = Table::from_raw(table);
        let empty = ColdStore::open(table, LockMode::AccessShare)
            .is_none_or(|store| store.toast().main_fork_blocks() == 0);
        if empty {
            return None;
        }
        let store = ColdStore::open(table, LockMode::ShareUpdateExclusive)?;
        or_raise(table.oid(), Survey::take(&store))
    }
}

/// Runs heap's VACUUM, and keeps it from counting cold rows as hot ones in its statistics and from
/// truncating the last page.
///
/// # Safety
/// The arguments are those of VACUUM, which holds the table open and locked.
unsafe fn vacuum_hot(
    table: pg_sys::Relation,
    params: *mut pg_sys::VacuumParams,
    strategy: pg_sys::BufferAccessStrategy,
    cold: &Survey,
) {
    // SAFETY: as for relation_vacuum; rd_rel is the relcache entry's own copy, refreshed by the
    // update of pg_class that ends heap's VACUUM.
    unsafe {
        let mut params = *params;
        if main_fork_blocks(table) <= 1 && cold.live_rows() > 0 {
            params.truncate = pg_sys::VacOptValue::VACOPTVALUE_DISABLED;
        }
        let known = (*(*table).rd_rel).reltuples;
        if known > 0.0 {
            // Heap scales the old count to the pages that it skips, so the count must be that of
            // hot rows.
            (*(*table).rd_rel).reltuples = (known - cold.live_rows() as f32).max(0.0);
        }
        pg_sys::heap_vacuum_rel(table, &mut params, strategy);
    }
}

/// Index entries removed, and from how many indexes.
#[derive(Clone, Copy, Default)]
struct Removed {
    entry_count: f64,
    index_count: usize,
    gap_row_numbers: u64,
}

/// # Safety
/// The arguments are those of VACUUM, which holds the table open and locked.
unsafe fn clean_indexes(
    table: pg_sys::Relation,
    params: *mut pg_sys::VacuumParams,
    strategy: pg_sys::BufferAccessStrategy,
    cold: &Survey,
) -> Removed {
    use pg_sys::VacOptValue::{VACOPTVALUE_DISABLED, VACOPTVALUE_ENABLED};
    // SAFETY: the table is open and locked; indexes are closed again, or by the abort after an
    // ERROR.
    unsafe {
        let wish = (*params).index_cleanup;
        let mut removed = Removed::default();
        let Some(store) = ColdStore::open(Table::from_raw(table), LockMode::RowExclusive) else {
            return removed;
        };
        let marked: u64 = cold.uncleaned().map(|m| u64::from(m.uncleaned.len())).sum();
        let dirty = cold.gaps.not_yet_cleaned(&store) + marked;
        removed.gap_row_numbers = dirty;
        let few = (dirty as f64) < cold.live_rows() as f64 * BYPASS_SHARE;
        if dirty == 0
            || wish == VACOPTVALUE_DISABLED
            || (wish != VACOPTVALUE_ENABLED && few)
            || pg_sys::VacuumFailsafeActive
        {
            return removed;
        }
        stop_point!("vacuum_surveyed");
        recovery_conflict::log(table, cold.conflict_horizon().raw());
        for_each_index(table, pg_sys::RowExclusiveLock, |index| {
            if !is_hot_only(index) {
                removed.entry_count += clean_index(table, index, params, strategy, cold);
                removed.index_count += 1;
            }
        });
        stop_point!("vacuum_cleaned");
        cold.gaps.note_as_cleaned(&store);
        fold_marks(table, &store, cold);
        removed
    }
}

/// Records that no index has entries for these rows any more, in deletion vectors that hide them
/// as their marks do. A group that another transaction is working on is left to the next VACUUM.
///
/// # Safety
/// The table is open and locked.
unsafe fn fold_marks(table: pg_sys::Relation, store: &ColdStore, cold: &Survey) {
    // SAFETY: the table is open and locked.
    let locks = Locks::of(unsafe { Table::from_raw(table) });
    for marked in cold.uncleaned() {
        let group = marked.placed.entry.group();
        if !locks.lock_for_maintenance(group) {
            continue;
        }
        stop_point!("vacuum_fold");
        let folded = marks::fold(store, &marked.placed, &marked.uncleaned);
        stop_point!("vacuum_folded");
        locks.unlock_for_maintenance(group);
        // SAFETY: the table is open.
        or_raise(unsafe { (*table).rd_id }, folded);
        pgrx::check_for_interrupts!();
    }
}

/// # Safety
/// The arguments are those of VACUUM, which holds the table open and locked; the index is one of
/// its indexes, open and locked.
unsafe fn clean_index(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    params: *mut pg_sys::VacuumParams,
    strategy: pg_sys::BufferAccessStrategy,
    cold: &Survey,
) -> f64 {
    // SAFETY: table and index are open; the survey outlives both calls.
    unsafe {
        let verbose = (*params).options & pg_sys::VACOPT_VERBOSE != 0;
        let mut info = pg_sys::IndexVacuumInfo {
            index,
            heaprel: table,
            analyze_only: false,
            report_progress: false,
            // An exact count would make index AMs clamp theirs to that of the hot side.
            estimated_count: true,
            message_level: if verbose {
                pg_sys::INFO
            } else {
                pg_sys::DEBUG2
            } as i32,
            num_heap_tuples: f64::from((*(*table).rd_rel).reltuples) + cold.live_rows() as f64,
            strategy,
        };
        let survey = std::ptr::from_ref(cold).cast_mut().cast();
        let none = std::ptr::null_mut();
        let stats = pg_sys::index_bulk_delete(&mut info, none, Some(is_dead), survey);
        let stats = pg_sys::index_vacuum_cleanup(&mut info, stats);
        if stats.is_null() {
            return 0.0;
        }
        if !(*stats).estimated_count {
            set_index_statistics(index, (*stats).num_pages, (*stats).num_index_tuples);
        }
        (*stats).tuples_removed
    }
}

/// Callback of the index AM: whether an entry is dead.
///
/// # Safety
/// Called by the index access method: `survey` is what `clean_index` passed.
unsafe extern "C-unwind" fn is_dead(
    tid: pg_sys::ItemPointer,
    survey: *mut std::ffi::c_void,
) -> bool {
    // SAFETY: `survey` is what clean_index passed.
    unsafe { RowNumber::from_tid(&*tid).is_some_and(|row| (*survey.cast::<Survey>()).is_dead(row)) }
}

/// # Safety
/// The table is open.
unsafe fn for_each_index(
    table: pg_sys::Relation,
    lockmode: u32,
    mut f: impl FnMut(pg_sys::Relation),
) {
    // SAFETY: the table is open; the array is palloc'd by vac_open_indexes.
    unsafe {
        let mut count = 0;
        let mut indexes = std::ptr::null_mut();
        pg_sys::vac_open_indexes(table, lockmode as i32, &mut count, &mut indexes);
        for i in 0..count as usize {
            f(*indexes.add(i));
        }
        pg_sys::vac_close_indexes(count, indexes, pg_sys::NoLock as i32);
    }
}

/// # Safety
/// The table is open.
unsafe fn index_row_counts(table: pg_sys::Relation) -> Vec<(pg_sys::Oid, f32)> {
    let mut counts = Vec::new();
    // SAFETY: the table is open; each index is open during the call.
    unsafe {
        for_each_index(table, pg_sys::RowExclusiveLock, |index| {
            counts.push(((*index).rd_id, (*(*index).rd_rel).reltuples));
        });
    }
    counts
}

/// Adds the cold rows to the statistics that heap's VACUUM has written, which counted hot rows
/// only.
///
/// # Safety
/// The table is open and locked.
unsafe fn correct_statistics(
    table: pg_sys::Relation,
    indexes_before: &[(pg_sys::Oid, f32)],
    cold: &Survey,
) {
    // SAFETY: the table is open and locked; in-place updates of pg_class need nothing else.
    unsafe {
        pg_sys::AcceptInvalidationMessages();
        let form = (*table).rd_rel;
        let hot_rows = (*form).reltuples.max(0.0);
        let total = f64::from(hot_rows) + cold.live_rows() as f64;
        pg_sys::vac_update_relstats(
            table,
            main_fork_blocks(table),
            total,
            (*form).relallvisible as pg_sys::BlockNumber,
            (*form).relallfrozen as pg_sys::BlockNumber,
            (*form).relhasindex,
            pg_sys::InvalidTransactionId,
            pg_sys::MultiXactId::from(0),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            false,
        );
        howdah_bridge::relation::add_to_reported_live_rows(table, cold.live_rows());
        for_each_index(table, pg_sys::RowExclusiveLock, |index| {
            if is_hot_only(index) {
                return;
            }
            // Index AMs clamp their count to the table's, and they got the hot part of that only.
            let now = (*(*index).rd_rel).reltuples;
            let before = indexes_before
                .iter()
                .find(|(oid, _)| *oid == (*index).rd_id)
                .map_or(-1.0, |(_, count)| *count);
            let partial = !pg_sys::RelationGetIndexPredicate(index).is_null();
            let right = if partial {
                f64::from(now.max(before))
            } else {
                total
            };
            if f64::from(now) < right {
                let pages = main_fork_blocks(index);
                set_index_statistics(index, pages, right);
            }
        });
    }
}

/// # Safety
/// The index is open and locked.
unsafe fn set_index_statistics(index: pg_sys::Relation, pages: pg_sys::BlockNumber, rows: f64) {
    // SAFETY: the index is open and locked.
    unsafe {
        pg_sys::vac_update_relstats(
            index,
            pages,
            rows,
            0,
            0,
            false,
            pg_sys::InvalidTransactionId,
            pg_sys::MultiXactId::from(0),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            false,
        );
    }
}

/// # Safety
/// The table is open.
unsafe fn report(table: pg_sys::Relation, cold: &Survey, removed: Removed) {
    // SAFETY: the table is open.
    let name = unsafe { name_of(table) };
    let rows = cold.live_rows();
    let groups = cold.live_groups();
    if removed.index_count > 0 {
        pgrx::info!(
            "\"{name}\": {rows} cold rows in {groups} row groups; removed {} index entries of dead cold rows from {} indexes",
            removed.entry_count,
            removed.index_count
        );
    } else if removed.gap_row_numbers > 0 {
        pgrx::info!(
            "\"{name}\": {rows} cold rows in {groups} row groups; index entries of up to {} dead cold rows remain",
            removed.gap_row_numbers
        );
    } else {
        pgrx::info!("\"{name}\": {rows} cold rows in {groups} row groups");
    }
}
