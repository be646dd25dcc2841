//! Sizes and row counts for the planner.
//!
//! Heap estimates rows as `reltuples / relpages × pages`, where `reltuples` would count cold rows
//! over hot pages only. Here the cold side is counted from the directory, less the rows that marks
//! and deletion vectors hide ([`hidden`]). The hot side is the row count of the last VACUUM or
//! ANALYZE less the current number of cold rows, plus, for pages added since, as many rows as fit,
//! as heap guesses for a table that was never analyzed. So rows that compaction has moved since are
//! not counted twice, nor rows that VACUUM found marked. If cold rows were updated since, there are
//! fewer of them, and their new versions are on the new pages: the old pages are never taken to
//! hold more rows than they can.
//!
//! A group whose rows have all been changed does not count: a table without visible cold rows is
//! planned as heap, without ColumnarScan, which takes longer to start than reading a few rows.
//!
//! The planner requests sizes first and paths later; the counts are remembered for the paths, so
//! that one planning reads the directory once. For a table that is all hot it checks only the size
//! of the TOAST relation.

mod cold_size;
mod hidden;
mod settled_sizes;

use std::cell::RefCell;
use std::time::Instant;

use howdah_bridge::relation::main_fork_blocks;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use pgrx::{pg_guard, pg_sys};

pub use self::cold_size::ColdSize;
use self::settled_sizes::Asked;
use super::heap;
use crate::bounded_cache::HashCache;
use crate::store::cache::emptied_tables;
use crate::store::directory::{self, GroupState};

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.relation_estimate_size = Some(relation_estimate_size);
    am.relation_needs_toast_table = Some(relation_needs_toast_table);
    am.relation_toast_am = Some(relation_toast_am);
}

/// The number of pages that `table_block_relation_estimate_size` assumes for a small table that was
/// never analyzed.
const NEW_TABLE_PAGES: u32 = 10;

/// The most tables that are remembered: more than a sensible query has.
const MOST_REMEMBERED: usize = 1024;

thread_local! {
    /// By table; only of tables that have cold rows.
    static PLANNED: RefCell<HashCache<u32, ColdSize>> =
        RefCell::new(HashCache::of_entries(MOST_REMEMBERED));
}

/// The size of a table's cold side that the planner got last; `None` if it has no cold rows. Every
/// planning requests the sizes of its tables first, so the answer is no older than that.
pub fn planned_size(table: pg_sys::Oid) -> Option<ColdSize> {
    PLANNED.with_borrow_mut(|sizes| sizes.get(&table.to_u32()).copied())
}

fn remember(table: pg_sys::Oid, size: ColdSize) {
    PLANNED.with_borrow_mut(|sizes| {
        if size.groups == 0 {
            sizes.remove(&table.to_u32());
            return;
        }
        sizes.insert(table.to_u32(), size);
    });
}

/// Forgets the size of a table whose files are emptied in place, or of which a row is hidden.
pub(super) fn forget(table: pg_sys::Oid) {
    settled_sizes::forget(table.to_u32());
}

/// The latest snapshot, where one may be taken. None may be taken during a parallel operation (a
/// function that queries tables, in a worker or in its leader); then it is the snapshot with which
/// the planner evaluates functions, which exists in every planning in parallel mode.
fn planning_snapshot() -> pg_sys::Snapshot {
    // SAFETY: reads this backend's state; the snapshot is valid until the caller has registered it.
    unsafe {
        if !pg_sys::IsInParallelMode() {
            pg_sys::GetLatestSnapshot()
        } else if pg_sys::ActiveSnapshotSet() {
            pg_sys::GetActiveSnapshot()
        } else {
            pg_sys::GetTransactionSnapshot()
        }
    }
}

/// `None` if the table never had cold rows.
///
/// # Safety
/// `rel` is open.
unsafe fn cold_size(rel: pg_sys::Relation) -> Option<ColdSize> {
    // SAFETY: the relation is open; the snapshot is unregistered before returning, and by the
    // resource owner after an ERROR.
    unsafe {
        let asked = Asked::about(
            (*rel).rd_id.to_u32(),
            (*rel).rd_locator.relNumber.to_u32(),
            (*(*rel).rd_rel).reltoastrelid.to_u32(),
        );
        if let Some(size) = asked.known() {
            return Some(size);
        }
        let began = Instant::now();
        let table = Table::from_raw(rel);
        let store = ColdStore::open_used(table, LockMode::AccessShare)?;
        let registered = pg_sys::RegisterSnapshot(planning_snapshot());
        let snapshot = Snapshot::from_raw(registered);
        let groups = match emptied_tables::is_known(table, snapshot) {
            true => Vec::new(),
            false => directory::groups(&store, snapshot).unwrap_or_default(),
        };
        if groups.is_empty() && !directory::ever_had_cold_rows(&store) {
            // The TOAST relation holds toasted values only.
            pg_sys::UnregisterSnapshot(registered);
            return None;
        }
        let entries: Vec<_> = groups
            .iter()
            .map(|placed| &placed.entry)
            .filter(|entry| entry.state == GroupState::Stored)
            .collect();
        let size = entries
            .iter()
            .zip(hidden::counts(&store, &entries, snapshot))
            .filter(|&(entry, hidden)| hidden < entry.row_count)
            .fold(ColdSize::default(), |size, (entry, hidden)| ColdSize {
                rows: size.rows + u64::from(entry.row_count - hidden),
                stored_rows: size.stored_rows + u64::from(entry.row_count),
                bytes: size.bytes + entry.body_bytes + u64::from(entry.footer_bytes),
                groups: size.groups + 1,
            });
        pg_sys::UnregisterSnapshot(registered);
        // In parallel mode the snapshot may be an old one.
        let is_latest = !pg_sys::IsInParallelMode();
        if is_latest && size.groups > 0 {
            if entries.iter().all(|entry| entry.flags.are_clear()) {
                asked.remember(size);
            } else if hidden::may_be_kept(&entries) {
                asked.remember_for(size, hidden::kept_after(began.elapsed()));
            }
        }
        Some(size)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_estimate_size(
    rel: pg_sys::Relation,
    attr_widths: *mut i32,
    pages: *mut pg_sys::BlockNumber,
    tuples: *mut f64,
    allvisfrac: *mut f64,
) {
    // SAFETY: arguments come from the planner.
    unsafe {
        let cold = cold_size(rel);
        remember((*rel).rd_id, cold.unwrap_or_default());
        (heap().relation_estimate_size.unwrap_unchecked())(
            rel,
            attr_widths,
            pages,
            tuples,
            allvisfrac,
        );
        // A table that never had cold rows is planned as heap, however full its pages are.
        let Some(cold) = cold else {
            return;
        };
        let per_page = rows_per_page(rel, attr_widths);
        if cold.groups == 0 && !known(rel).is_some_and(|known| known.counts_cold_rows(per_page)) {
            return;
        }
        let hot_pages = main_fork_blocks(rel);
        let cold_pages = cold.bytes.div_ceil(u64::from(pg_sys::BLCKSZ)) as u32;
        *pages = hot_pages.saturating_add(cold_pages);
        *tuples = hot_rows(rel, per_page, cold.rows) + cold.rows as f64;
        if known(rel).is_none() && !(*(*rel).rd_rel).relhassubclass {
            // Heap's guess for a new table, which may grow soon.
            *pages = (*pages).max(NEW_TABLE_PAGES);
            *tuples = (*tuples).max(f64::from(NEW_TABLE_PAGES) * per_page);
        }
        // An index-only scan reads nothing of a cold row whose group hides none.
        let shown = cold.rows as f64 / (cold.stored_rows as f64).max(1.0);
        let visible = *allvisfrac * f64::from(hot_pages) + shown * f64::from(cold_pages);
        *allvisfrac = (visible / f64::from((*pages).max(1))).clamp(0.0, 1.0);
    }
}

/// A page may hold this many times the number of rows of average width that would fill it.
const MOST_CROWDED: f64 = 2.0;
/// `MaxHeapTuplesPerPage`.
const MOST_ROWS_PER_PAGE: f64 = 291.0;

/// The counts of the last VACUUM or ANALYZE.
#[derive(Clone, Copy, Default)]
struct Known {
    /// On both sides.
    rows: f64,
    hot_pages: pg_sys::BlockNumber,
}

impl Known {
    /// The most rows that may have been hot.
    fn most_hot_rows(self, per_page: f64) -> f64 {
        f64::from(self.hot_pages) * (per_page * MOST_CROWDED).min(MOST_ROWS_PER_PAGE)
    }

    /// Whether there were more rows than the hot side can have held.
    fn counts_cold_rows(self, per_page: f64) -> bool {
        self.hot_pages > 0 && self.rows > self.most_hot_rows(per_page)
    }

    /// Rows of a hot side that has this many pages beside this many cold rows.
    fn hot_rows_now(self, hot_pages: pg_sys::BlockNumber, per_page: f64, cold_rows: f64) -> f64 {
        let old_pages = hot_pages.min(self.hot_pages);
        let left = f64::from(old_pages) / f64::from(self.hot_pages.max(1));
        let new_pages = f64::from(hot_pages - old_pages);
        let not_cold = (self.rows - cold_rows).max(0.0);
        let old_rows = not_cold.min(self.most_hot_rows(per_page));
        // Rows that were cold then; unless they were deleted, they are on the new pages.
        let updated = (not_cold - old_rows).min(new_pages * MOST_ROWS_PER_PAGE);
        (old_rows * left + (new_pages * per_page).max(updated)).round()
    }
}

/// # Safety
/// `rel` is open.
unsafe fn known(rel: pg_sys::Relation) -> Option<Known> {
    // SAFETY: as for this function.
    unsafe {
        let form = &*(*rel).rd_rel;
        (form.reltuples >= 0.0).then(|| Known {
            rows: f64::from(form.reltuples),
            hot_pages: form.relpages as u32,
        })
    }
}

/// Rows that fit in a page, as heap computes it; `attr_widths` are the planner's, or NULL.
///
/// # Safety
/// `rel` is open.
unsafe fn rows_per_page(rel: pg_sys::Relation, attr_widths: *mut i32) -> f64 {
    // SAFETY: as for this function.
    let width = f64::from(unsafe { pg_sys::get_rel_data_width(rel, attr_widths) });
    ((f64::from(pg_sys::BLCKSZ) - 24.0) / (width + 28.0))
        .floor()
        .max(1.0)
}

/// Rows of the hot side as the planner guesses them of a table that has so many cold rows.
pub fn guessed_hot_rows(table: Table<'_>, cold_rows: u64) -> f64 {
    let (rel, no_widths) = (table.raw(), std::ptr::null_mut());
    // SAFETY: the relation is open; every out-pointer is valid; widths may be left to the planner.
    unsafe {
        if cold_rows > 0 {
            return hot_rows(rel, rows_per_page(rel, no_widths), cold_rows);
        }
        let (mut pages, mut tuples, mut visible) = (0, 0.0, 0.0);
        relation_estimate_size(rel, no_widths, &mut pages, &mut tuples, &mut visible);
        tuples
    }
}

/// Rows of the hot side of a table that has so many cold rows, about.
///
/// # Safety
/// `rel` is open and has storage.
unsafe fn hot_rows(rel: pg_sys::Relation, per_page: f64, cold_rows: u64) -> f64 {
    // SAFETY: as for this function.
    let (hot_pages, known) = unsafe { (main_fork_blocks(rel), known(rel)) };
    if known.is_none() && hot_pages == 1 {
        // The page that a table with cold rows keeps; it is usually empty.
        return 0.0;
    }
    let known = known.unwrap_or_default();
    known.hot_rows_now(hot_pages, per_page, cold_rows as f64)
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_needs_toast_table(_rel: pg_sys::Relation) -> bool {
    // The cold store is the TOAST relation.
    true
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_toast_am(_rel: pg_sys::Relation) -> pg_sys::Oid {
    pg_sys::HEAP_TABLE_AM_OID
}

#[cfg(test)]
mod tests {
    use super::Known;

    const PER_PAGE: f64 = 50.0;

    fn known(rows: f64, hot_pages: u32) -> Known {
        Known { rows, hot_pages }
    }

    #[test]
    fn a_hot_side_is_what_is_known_less_what_is_cold() {
        assert_eq!(known(5e6, 20_000).hot_rows_now(20_000, PER_PAGE, 4e6), 1e6);
        assert_eq!(known(5e6, 20_000).hot_rows_now(10_000, PER_PAGE, 4e6), 5e5);
        assert_eq!(
            known(1e6, 20_000).hot_rows_now(20_100, PER_PAGE, 0.0),
            1_005_000.0
        );
        assert_eq!(
            known(0.0, 0).hot_rows_now(100, PER_PAGE, 7.0),
            5_000.0,
            "never analyzed"
        );
    }

    #[test]
    fn updated_cold_rows_are_counted_once_on_the_pages_that_came_since() {
        let all_cold = known(2e6, 1);
        assert_eq!(all_cold.hot_rows_now(1, PER_PAGE, 2e6), 0.0);
        assert_eq!(all_cold.hot_rows_now(40_000, PER_PAGE, 0.0), 2_000_050.0);
        // The average width is overestimated.
        assert_eq!(all_cold.hot_rows_now(40_000, 20.0, 0.0), 2e6);
        // Deleted, not updated.
        assert_eq!(all_cold.hot_rows_now(1, PER_PAGE, 0.0), 100.0);
    }

    #[test]
    fn only_pages_that_are_too_few_tell_of_cold_rows() {
        assert!(known(2e6, 1).counts_cold_rows(PER_PAGE));
        assert!(!known(2e6, 40_000).counts_cold_rows(PER_PAGE));
        assert!(
            !known(2e6, 25_000).counts_cold_rows(PER_PAGE),
            "narrower than thought"
        );
        assert!(!known(0.0, 0).counts_cold_rows(PER_PAGE));
    }
}
