//! Invalidation of plans that no longer suit the table.
//!
//! A prepared statement keeps its plan as long as the session lasts, or until the table is
//! analyzed. A scan that finds one of two changes when it ends invalidates this backend's plans for
//! the table, as if the table had been altered:
//!
//! - A small table was cold when the statement was planned, and is hot ever after. A sequential
//!   scan is then sufficient, and starts sooner. This is told once for each file of a table: a
//!   planner that makes the same plan again is not called once more.
//! - The table had few hot pages, and now has many, which a ColumnarScan reads all. An index may
//!   have become better. This is told whenever the hot pages are [`TIMES`] as many as before.

use std::cell::RefCell;

use howdah_bridge::relation::forget_plans_here;
use howdah_bridge::table::{Table, TableFile};

use crate::bounded_cache::HashCache;

/// The number of tables that are remembered.
const MOST: usize = 256;

/// A hot side has grown if it has so many times the pages that it had, and this many more.
const TIMES: u32 = 4;
const MORE_PAGES: u32 = 128;

/// What the plans for a table are supposed to know.
#[derive(Clone, Copy)]
struct Known {
    hot_pages: u32,
    has_cold_side: bool,
}

impl Known {
    fn new(hot_pages: u32) -> Known {
        Known {
            hot_pages,
            has_cold_side: true,
        }
    }

    fn has_grown_to(self, pages: u32) -> bool {
        pages > (self.hot_pages.saturating_mul(TIMES)).saturating_add(MORE_PAGES)
    }
}

thread_local! {
    static KNOWN: RefCell<HashCache<TableFile, Known>> = RefCell::new(HashCache::of_entries(MOST));
}

/// Invalidates the plans for a table that has no cold row left, unless that was done before.
pub fn without_cold_side(table: Table<'_>) {
    change(table, |known, _| {
        let is_new = known.has_cold_side;
        known.has_cold_side = false;
        is_new
    });
}

/// Invalidates the plans for a table whose hot side is much larger than when this was last asked.
pub fn with_hot_side(table: Table<'_>) {
    change(table, |known, pages| {
        let has_grown = known.has_grown_to(pages);
        if has_grown {
            known.hot_pages = pages;
        }
        has_grown
    });
}

/// Invalidates the plans for a table if the change, which is told the hot pages, says so.
fn change(table: Table<'_>, change: impl FnOnce(&mut Known, u32) -> bool) {
    let (file, hot_pages) = (table.file(), table.main_fork_blocks());
    let is_told = KNOWN.with_borrow_mut(|tables| {
        let mut known = (tables.get(&file).copied()).unwrap_or(Known::new(hot_pages));
        let is_told = change(&mut known, hot_pages);
        tables.insert(file, known);
        is_told
    });
    if is_told {
        forget_plans_here(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_side_has_grown_if_it_is_several_times_as_large() {
        let known = Known::new(100);
        assert!(!known.has_grown_to(528));
        assert!(known.has_grown_to(529));
        assert!(!Known::new(u32::MAX / 2).has_grown_to(u32::MAX));
    }
}
