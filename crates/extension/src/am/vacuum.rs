//! VACUUM.
//!
//! ```text
//!   1 hot side    heap_vacuum_rel, unchanged
//!   2 cold side   survey (high-water mark, live entries) ──> gaps, dead rows with marks
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
//! recycling index pages that are being read. A worker does not wait for it: it would wait as long
//! as the TOAST relation's own VACUUM takes, or cancel it at each visit so that it never ends. It
//! vacuums the hot side and leaves the rest to the next VACUUM.
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

use howdah_bridge::Oid;
use howdah_bridge::cold_lock::Locks;
use howdah_bridge::indexes::is_brin;
use howdah_bridge::maintained;
use howdah_bridge::process::is_worker;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::table_am::{self, Routine};
use howdah_bridge::table_vacuum::{
    IndexCleanup, TableVacuum, counted_rows, is_partial, set_index_statistics,
};
use howdah_bridge::xid::may_be_assigned;

use super::estimate::cold_rows;
use crate::errors::or_raise;
use crate::stop_point;
use crate::store::gaps::Survey;
use crate::store::marks;

/// `BYPASS_THRESHOLD_PAGES` of heap's vacuum, for rows.
const BYPASS_SHARE: f64 = 0.02;

pub(super) fn install(am: &mut Routine) {
    table_am::set_vacuum::<BothSides>(am);
}

struct BothSides;

impl table_am::Vacuum for BothSides {
    fn vacuum(vacuum: TableVacuum<'_>) {
        run(vacuum);
    }
}

fn run(vacuum: TableVacuum<'_>) {
    let table = vacuum.table();
    let cold_before = match survey(table) {
        ColdSide::None => {
            vacuum.heap();
            return;
        }
        ColdSide::Busy => {
            let cold_rows = cold_rows(table);
            let indexes_before = index_row_counts(vacuum);
            vacuum.heap_apart(cold_rows);
            finish_statistics(vacuum, &indexes_before, cold_rows);
            return;
        }
        ColdSide::Surveyed(survey) => survey,
    };
    let indexes_before = index_row_counts(vacuum);
    vacuum.heap_apart(cold_before.live_rows());
    // A load that was in progress at the first survey may have committed meanwhile.
    let cold = match survey(table) {
        ColdSide::Surveyed(now) => now,
        ColdSide::None | ColdSide::Busy => cold_before,
    };
    let removed = clean_indexes(vacuum, &cold);
    finish_statistics(vacuum, &indexes_before, cold.live_rows());
    if vacuum.is_verbose() {
        report(table, &cold, removed);
    }
}

/// What VACUUM finds of the cold side.
enum ColdSide {
    /// The table never had cold rows.
    None,
    /// The TOAST relation is being vacuumed, and this is a worker, which does not wait.
    Busy,
    Surveyed(Survey),
}

/// The state of the cold side.
fn survey(table: Table<'_>) -> ColdSide {
    // First checks under AccessShareLock, which blocks nothing, as most tables are all hot. It is
    // given back before the stronger one is asked for: REINDEX CONCURRENTLY of the TOAST relation
    // holds that one, and waits for all that hold any.
    let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
        return ColdSide::None;
    };
    let toast = store.toast().oid();
    let is_empty = store.toast().main_fork_blocks() == 0;
    store.release();
    if is_empty {
        return ColdSide::None;
    }
    if is_worker() && !maintained::try_lock(toast) {
        return ColdSide::Busy;
    }
    let surveyed = ColdStore::open(table, LockMode::ShareUpdateExclusive)
        .and_then(|store| or_raise(table.oid(), Survey::take(&store)));
    surveyed.map_or(ColdSide::None, ColdSide::Surveyed)
}

/// Index entries removed, and from how many indexes.
#[derive(Clone, Copy, Default)]
struct Removed {
    entry_count: f64,
    index_count: usize,
    gap_row_numbers: u64,
}

fn clean_indexes(vacuum: TableVacuum<'_>, cold: &Survey) -> Removed {
    let table = vacuum.table();
    let mut removed = Removed::default();
    let Some(store) = ColdStore::open(table, LockMode::RowExclusive) else {
        return removed;
    };
    let marked: u64 = cold.uncleaned().map(|m| u64::from(m.uncleaned.len())).sum();
    let dirty = cold.gaps.not_yet_cleaned(&store) + marked;
    removed.gap_row_numbers = dirty;
    let few = (dirty as f64) < cold.live_rows() as f64 * BYPASS_SHARE;
    let is_wanted = match vacuum.index_cleanup() {
        IndexCleanup::On => true,
        IndexCleanup::Auto => !few,
        IndexCleanup::Off => false,
    };
    // What is written then is frozen, but takes a transaction id: near the limit of these, when
    // VACUUM is asked for to get away from it, it must do without.
    if dirty == 0 || !is_wanted || !may_be_assigned() {
        return removed;
    }
    stop_point!("vacuum_surveyed");
    vacuum.log_conflict(cold.conflict_horizon());
    vacuum.for_each_index(|index| {
        if !is_brin(index) {
            let is_dead = |row| cold.is_dead(row);
            removed.entry_count += vacuum.delete_entries(index, cold.live_rows(), &is_dead);
            removed.index_count += 1;
        }
    });
    stop_point!("vacuum_cleaned");
    cold.gaps.note_as_cleaned(&store);
    fold_marks(table, &store, cold);
    removed
}

/// Records that no index has entries for these rows any more, in deletion vectors that hide them
/// as their marks do. A group that another transaction is working on is left to the next VACUUM.
fn fold_marks(table: Table<'_>, store: &ColdStore, cold: &Survey) {
    let locks = Locks::of(table);
    for marked in cold.uncleaned() {
        let group = marked.placed.entry.group();
        if !locks.lock_for_maintenance(group) {
            continue;
        }
        stop_point!("vacuum_fold");
        let folded = marks::fold(store, &marked.placed, &marked.uncleaned);
        stop_point!("vacuum_folded");
        locks.unlock_for_maintenance(group);
        or_raise(table.oid(), folded);
        howdah_bridge::check_for_interrupts!();
    }
}

fn index_row_counts(vacuum: TableVacuum<'_>) -> Vec<(Oid, f32)> {
    let mut counts = Vec::new();
    vacuum.for_each_index(|index| counts.push((index.oid(), counted_rows(index))));
    counts
}

/// Adds the cold rows to the statistics that heap's VACUUM has written, which counted hot rows
/// only.
fn finish_statistics(vacuum: TableVacuum<'_>, indexes_before: &[(Oid, f32)], cold_rows: u64) {
    if cold_rows == 0 {
        return;
    }
    vacuum.table().ensure_first_page();
    let total = vacuum.add_to_rows(cold_rows);
    vacuum.for_each_index(|index| {
        if is_brin(index) {
            return;
        }
        // Index AMs clamp their count to the table's, and they got the hot part of that only.
        let now = counted_rows(index);
        let before = indexes_before
            .iter()
            .find(|(oid, _)| *oid == index.oid())
            .map_or(-1.0, |(_, count)| *count);
        let right = match is_partial(index) {
            true => f64::from(now.max(before)),
            false => total,
        };
        if f64::from(now) < right {
            set_index_statistics(index, index.main_fork_blocks(), right);
        }
    });
}

fn report(table: Table<'_>, cold: &Survey, removed: Removed) {
    let name = table.name();
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
