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
//! planned as heap, without ColumnarScan, which takes longer to start than reading a few rows. But
//! as heap's pages of dead rows make a scan dear until they are vacuumed, so do hidden rows
//! ([`ColdSize::passed_over`]): foreign keys are checked by plans that are made when all rows are
//! gone.
//!
//! The planner requests sizes first and paths later; the counts are remembered for the paths, so
//! that one planning reads the directory once. For a table that is all hot it checks only the size
//! of the TOAST relation.

mod cold_size;
mod hidden;
mod settled_sizes;

use std::cell::{LazyCell, RefCell};
use std::time::Instant;

use howdah_bridge::Oid;
use howdah_bridge::relation::PAGE_BYTES;
use howdah_bridge::snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::table_am::{self, EstimateSizes, Routine, Sizes, Widths, rows_per_page};
use howdah_bridge::tid::BlockNumber;
use howdah_bridge::xid::is_in_parallel_mode;

pub use self::cold_size::ColdSize;
use self::settled_sizes::Asked;
use crate::bounded_cache::HashCache;
use crate::store::cache::emptied_tables;
use crate::store::directory::{self, GroupState};
use crate::store::visibility::is_all_hidden;

pub(super) fn install(am: &mut Routine) {
    table_am::set_sizes::<BothSides>(am);
    // The cold store is the TOAST relation.
    table_am::set_toast_of_heap(am);
}

/// The number of pages that `table_block_relation_estimate_size` assumes for a small table that was
/// never analyzed.
const NEW_TABLE_PAGES: u32 = 10;

/// Hidden rows that take as long to pass over as a page takes to read, between some hundred, which
/// have marks of their own, and some thousands.
const PASSED_ROWS_PER_PAGE: u64 = 200;

/// The most tables that are remembered: more than a sensible query has.
const MOST_REMEMBERED: usize = 1024;

thread_local! {
    /// By table; only of tables that have cold rows.
    static PLANNED: RefCell<HashCache<Oid, PlannedSize>> =
        RefCell::new(HashCache::of_entries(MOST_REMEMBERED));
}

/// What the planner was told of a table that has cold rows.
#[derive(Clone, Copy)]
pub struct PlannedSize {
    pub cold: ColdSize,
    /// The pages of the hot side.
    pub hot_pages: BlockNumber,
}

/// The size of a table that the planner got last; `None` if it has no cold rows. Every planning
/// requests the sizes of its tables first, so the answer is no older than that.
pub fn planned_size(table: Oid) -> Option<PlannedSize> {
    PLANNED.with_borrow_mut(|sizes| sizes.get(&table).copied())
}

fn remember(table: Oid, size: Option<PlannedSize>) {
    PLANNED.with_borrow_mut(|sizes| {
        let Some(size) = size else {
            sizes.remove(&table);
            return;
        };
        sizes.insert(table, size);
    });
}

/// Notes that this backend has hidden a cold row of a table.
pub(super) fn hide_row(table: Oid) {
    settled_sizes::hide_row(table);
}

/// Forgets the size of a table whose files are emptied in place.
pub(super) fn forget(table: Oid) {
    settled_sizes::forget(table);
}

/// `None` if the table never had cold rows.
fn cold_size(table: Table<'_>) -> Option<ColdSize> {
    let toast = table.toast_oid().unwrap_or(Oid::INVALID);
    let asked = Asked::about(table.file(), toast);
    if let Some(size) = asked.known() {
        return Some(size);
    }
    let began = Instant::now();
    let store = ColdStore::open_used(table, LockMode::AccessShare)?;
    snapshot::with_latest(|snapshot| {
        let groups = match emptied_tables::is_known(table, snapshot) {
            true => Vec::new(),
            false => directory::groups(&store, snapshot).unwrap_or_default(),
        };
        if groups.is_empty() && !directory::ever_had_cold_rows(&store) {
            // The TOAST relation holds toasted values only.
            return None;
        }
        let entries: Vec<_> = groups
            .iter()
            .map(|placed| &placed.entry)
            .filter(|entry| entry.state == GroupState::Stored)
            .collect();
        let mut size = ColdSize::default();
        for (entry, hidden) in entries
            .iter()
            .zip(hidden::counts(&store, &entries, snapshot))
        {
            if hidden < entry.row_count {
                size.add(entry, hidden);
            } else if !is_all_hidden(&store, entry.group(), snapshot) {
                size.passed_over += u64::from(hidden);
            }
        }
        // In parallel mode the snapshot may be an old one.
        if !is_in_parallel_mode() && size.groups > 0 {
            if entries.iter().all(|entry| entry.flags.are_clear()) {
                asked.remember(size);
            } else if hidden::may_be_kept(&entries) {
                asked.remember_for(size, hidden::kept_after(began.elapsed()));
            }
        }
        Some(size)
    })
}

/// The cold rows of a table, about; 0 if they cannot be read.
pub(super) fn cold_rows(table: Table<'_>) -> u64 {
    cold_size(table).map_or(0, |cold| cold.rows)
}

struct BothSides;

impl EstimateSizes for BothSides {
    fn estimate(table: Table<'_>, widths: Widths<'_>) -> Sizes {
        let cold = cold_size(table);
        let heap = table_am::heap_sizes(table, widths);
        let known = known(table);
        // Of a table that was analyzed heap tells the pages that there are.
        let hot_pages = match (known, cold) {
            (None, Some(_)) => table.main_fork_blocks(),
            _ => heap.pages,
        };
        let planned = cold.filter(|cold| cold.groups > 0);
        remember(
            table.oid(),
            planned.map(|cold| PlannedSize { cold, hot_pages }),
        );
        // A table that never had cold rows is planned as heap, however full its pages are.
        let Some(cold) = cold else {
            return heap;
        };
        let per_page = LazyCell::new(|| rows_per_page(table, widths));
        // As on heap, the places of rows that are gone are scanned until they are given up.
        let passed_pages = (cold.passed_over / PASSED_ROWS_PER_PAGE) as u32;
        if cold.groups == 0 && !known.is_some_and(|known| known.counts_cold_rows(*per_page)) {
            let pages = heap.pages.saturating_add(passed_pages);
            return Sizes { pages, ..heap };
        }
        let cold_pages = cold.bytes.div_ceil(u64::from(PAGE_BYTES)) as u32;
        let mut pages = hot_pages
            .saturating_add(cold_pages)
            .saturating_add(passed_pages);
        let mut rows = hot_rows(hot_pages, known, &per_page, cold.rows) + cold.rows as f64;
        if known.is_none() && !table.has_children() {
            // Heap's guess for a new table, which may grow soon.
            pages = pages.max(NEW_TABLE_PAGES);
            rows = rows.max(f64::from(NEW_TABLE_PAGES) * *per_page);
        }
        // An index-only scan reads nothing of a cold row whose group hides none.
        let shown = cold.rows as f64 / (cold.stored_rows as f64).max(1.0);
        let visible = heap.all_visible * f64::from(hot_pages) + shown * f64::from(cold_pages);
        let with_rows = f64::from(pages.saturating_sub(passed_pages).max(1));
        Sizes {
            pages,
            rows,
            all_visible: (visible / with_rows).clamp(0.0, 1.0),
        }
    }

    fn pages_elsewhere(table: Table<'_>) -> u64 {
        let Some(cold) = cold_size(table) else {
            return 0;
        };
        let pages = cold.rows as f64 / rows_per_page(table, Widths::unknown());
        // A table that was never analyzed has the widths of its types.
        (pages.ceil() as u64).max(cold.bytes / u64::from(PAGE_BYTES))
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
    hot_pages: BlockNumber,
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
    fn hot_rows_now(self, hot_pages: BlockNumber, per_page: f64, cold_rows: f64) -> f64 {
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

/// What is known of a table; `None` if it was never vacuumed or analyzed.
fn known(table: Table<'_>) -> Option<Known> {
    let (rows, hot_pages) = table.counted()?;
    Some(Known {
        rows: f64::from(rows),
        hot_pages,
    })
}

/// Rows of the hot side as the planner guesses them of a table that has so many cold rows.
pub fn guessed_hot_rows(table: Table<'_>, cold_rows: u64) -> f64 {
    let widths = Widths::unknown();
    match cold_rows {
        0 => BothSides::estimate(table, widths).rows,
        _ => {
            let per_page = LazyCell::new(|| rows_per_page(table, widths));
            hot_rows(table.main_fork_blocks(), known(table), &per_page, cold_rows)
        }
    }
}

/// Rows of the hot side of a table that has so many cold rows, about.
fn hot_rows(
    hot_pages: BlockNumber,
    known: Option<Known>,
    per_page: &LazyCell<f64, impl FnOnce() -> f64>,
    cold_rows: u64,
) -> f64 {
    if known.is_none() && hot_pages == 1 {
        // The page that a table with cold rows keeps; it is usually empty.
        return 0.0;
    }
    let known = known.unwrap_or_default();
    if hot_pages <= known.hot_pages && known.rows <= cold_rows as f64 {
        // However many rows fit in a page.
        return 0.0;
    }
    known.hot_rows_now(hot_pages, **per_page, cold_rows as f64)
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
