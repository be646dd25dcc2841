//! Plans that have outlived what they were made for.
//!
//! A prepared statement keeps its plan for as long as the session lasts. Small tables may be cold when it is
//! planned and hot for ever after; a sequential scan is then all there is to do, and starts sooner. So the
//! first scan that finds nothing cold left lets this backend's plans for the table be made anew, as if the table
//! had been altered. Once for each file of a table: a planner that makes the same plan again is not asked
//! once more.

use std::cell::RefCell;

use howdah_bridge::relation::forget_plans_here;
use howdah_bridge::table::Table;

/// Tables that are remembered.
const MOST: usize = 256;

thread_local! {
    /// Tables and their files.
    static TOLD: RefCell<Vec<(u32, u32)>> = const { RefCell::new(Vec::new()) };
}

/// Lets plans for a table of which nothing cold is left be made anew, unless that was done before.
pub fn without_cold_side(table: Table<'_>) {
    let name = (table.oid().to_u32(), table.file_number());
    let is_new = TOLD.with_borrow_mut(|told| {
        let is_new = !told.contains(&name);
        if is_new {
            if told.len() >= MOST {
                told.remove(0);
            }
            told.push(name);
        }
        is_new
    });
    if is_new {
        forget_plans_here(table);
    }
}
