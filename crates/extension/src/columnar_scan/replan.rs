//! Invalidation of plans that were made when there were cold rows.
//!
//! A prepared statement keeps its plan as long as the session lasts. A small table may be cold when
//! the statement is planned, and hot ever after; a sequential scan is then sufficient, and starts
//! sooner. So the first scan that finds no cold row left invalidates this backend's plans for the
//! table, as if the table had been altered. It does so once for each file of a table: a planner
//! that makes the same plan again is not called once more.

use std::cell::RefCell;

use howdah_bridge::relation::forget_plans_here;
use howdah_bridge::table::{Table, TableFile};

use crate::bounded_cache::HashCache;

/// The number of tables that are remembered.
const MOST: usize = 256;

thread_local! {
    static TOLD: RefCell<HashCache<TableFile, ()>> = RefCell::new(HashCache::of_entries(MOST));
}

/// Invalidates the plans for a table that has no cold row left, unless that was done before.
pub fn without_cold_side(table: Table<'_>) {
    let file = table.file();
    let is_new = TOLD.with_borrow_mut(|told| {
        let is_new = told.get(&file).is_none();
        if is_new {
            told.insert(file, ());
        }
        is_new
    });
    if is_new {
        forget_plans_here(table);
    }
}
