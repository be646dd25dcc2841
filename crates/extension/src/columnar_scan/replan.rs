//! Plans that have outlived what they were made for.
//!
//! A prepared statement keeps its plan for as long as the session lasts. Small tables may be cold when it is
//! planned and hot for ever after; a sequential scan is then all there is to do, and starts sooner. So the
//! first scan that finds nothing cold left lets this backend's plans for the table be made anew, as if the table
//! had been altered. Once for each file of a table: a planner that insists is left in peace.

use std::cell::RefCell;

use pgrx::pg_sys;

/// Tables that are remembered.
const MOST: usize = 256;

thread_local! {
    /// Tables and their files.
    static TOLD: RefCell<Vec<(u32, u32)>> = const { RefCell::new(Vec::new()) };
}

/// Lets plans for a table of which nothing cold is left be made anew, unless that was done before.
///
/// # Safety
/// `table` is open.
pub unsafe fn without_cold_side(table: pg_sys::Relation) {
    // SAFETY: as for this function.
    let (name, oid) = unsafe {
        let file = (*table).rd_locator.relNumber.to_u32();
        (((*table).rd_id.to_u32(), file), (*table).rd_id)
    };
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
    if !is_new {
        return;
    }
    // SAFETY: a message as another backend might have sent it; open relations are rebuilt in place.
    unsafe {
        let mut message = pg_sys::SharedInvalidationMessage {
            rc: pg_sys::SharedInvalRelcacheMsg {
                id: pg_sys::SHAREDINVALRELCACHE_ID as i8,
                dbId: pg_sys::MyDatabaseId,
                relId: oid,
            },
        };
        pg_sys::LocalExecuteInvalidationMessage(&mut message);
    }
}
