//! The function by which ModifyTable gets a row of a plain INSERT from its child.
//!
//! [`next_row`] calls nodes that may raise an ERROR, which is to keep its position and its context:
//! it owns nothing and does not panic, so an ERROR may jump over it. The load is called behind
//! a guard of its own.
//!
//! EXPLAIN ANALYZE counts the rows that are taken as rows of the child, and the time in which they
//! are taken as ModifyTable's own: the child's clock is stopped meanwhile.

use pgrx::{pg_guard, pg_sys};

use super::{LOAD, PlainInsert, started_with};
use crate::ffi::unguarded::slot_getsomeattrs_int;
use crate::slot::Slot;
use crate::table::Table;

/// Passes rows of the child on to the load, and returns the first row that is to be inserted by
/// ModifyTable; an empty slot at the end.
///
/// # Safety
/// Called by the executor as the child's function. The statement runs.
pub(super) unsafe extern "C-unwind" fn next_row(
    child: *mut pg_sys::PlanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: see the module's header. The statement's part lives as long as the child's node.
    unsafe {
        let plain = started_with(child);
        let next = (*plain).next;
        loop {
            let slot = next(child);
            if slot.is_null() || (*slot).tts_flags & pg_sys::TTS_FLAG_EMPTY as u16 != 0 {
                return slot;
            }
            if !is_complete(plain, slot) {
                return slot;
            }
            stop_clock(child);
            let is_taken = take_row(plain, slot);
            start_clock(child);
            if !is_taken {
                return slot;
            }
            count(plain, 1);
            if (*plain).page.is_some() {
                take_page(plain, child);
            }
        }
    }
}

/// Whether the row has all attributes of the table, and a value where one must not be NULL. A
/// row that lacks something is left to ModifyTable, which fills it in, or raises the ERROR.
///
/// # Safety
/// The child of the statement has returned the slot, which holds a row.
#[inline]
unsafe fn is_complete(plain: *mut PlainInsert, slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: as for this function. An ERROR of other kinds of slots jumps over this frame.
    unsafe {
        let result = (*(*plain).modify).resultRelInfo;
        let width = (*plain).width;
        // The first row of a statement initialises the projection: it then compares the types of
        // plan and table, and finds out whether the plan returns more than the row.
        if !(*result).ri_projectNewInfoValid
            || !(*result).ri_projectNew.is_null()
            || (*(*slot).tts_tupleDescriptor).natts != width
        {
            return false;
        }
        if i32::from((*slot).tts_nvalid) < width {
            slot_getsomeattrs_int(slot, width);
        }
        for &index in &(*plain).not_null {
            if *(*slot).tts_isnull.add(index) {
                return false;
            }
        }
        true
    }
}

/// Offers the row to the load.
///
/// # Safety
/// The child of the statement has returned the slot, which holds a complete row.
#[pg_guard]
unsafe extern "C-unwind" fn take_row(
    plain: *mut PlainInsert,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: as for this function; the table is open and locked as long as the statement runs.
    unsafe {
        let (table, command) = target(plain);
        LOAD.get()
            .is_some_and(|load| load.take_row(table, Slot::from_raw(slot), command))
    }
}

/// Offers the rest of the page that the child is on to the load.
///
/// # Safety
/// The child has returned a row, and nothing has happened to its scan since.
#[inline]
unsafe fn take_page(plain: *mut PlainInsert, child: *mut pg_sys::PlanState) {
    // SAFETY: as for this function.
    unsafe {
        stop_clock(child);
        let taken = take_tuples(plain, child);
        start_clock(child);
        count(plain, taken);
    }
}

/// Passes the plain tuples that follow on the child's page to the load; returns how many it took,
/// which the child does not return then.
///
/// # Safety
/// As for [`take_page`].
#[pg_guard]
unsafe extern "C-unwind" fn take_tuples(
    plain: *mut PlainInsert,
    child: *mut pg_sys::PlanState,
) -> usize {
    // SAFETY: as for this function; the page stays pinned by the scan.
    unsafe {
        let (table, command) = target(plain);
        let (Some(page), Some(load)) = (&mut (*plain).page, LOAD.get()) else {
            return 0;
        };
        let Some(tuples) = page.rest_of(child) else {
            return 0;
        };
        let taken = load.take_tuples(table, &tuples, command);
        page.pass_over(child, taken);
        taken
    }
}

/// The table and the command of a statement.
///
/// # Safety
/// The statement runs.
unsafe fn target<'a>(plain: *mut PlainInsert) -> (Table<'a>, pg_sys::CommandId) {
    // SAFETY: as for this function.
    unsafe {
        let modify = (*plain).modify;
        let table = Table::from_raw((*(*modify).resultRelInfo).ri_RelationDesc);
        (table, (*(*modify).ps.state).es_output_cid)
    }
}

/// Counts rows that were taken, as ModifyTable counts rows that it has inserted, and the child
/// rows that it has returned.
///
/// # Safety
/// The statement runs.
#[inline]
unsafe fn count(plain: *mut PlainInsert, rows: usize) {
    // SAFETY: as for this function.
    unsafe {
        let modify = (*plain).modify;
        (*plain).taken += rows as u64;
        if (*modify).canSetTag {
            let processed = &mut (*(*modify).ps.state).es_processed;
            *processed = processed.wrapping_add(rows as u64);
        }
        let instrument = (*(*plain).child).instrument;
        if !instrument.is_null() {
            (*instrument).tuplecount += rows as f64;
        }
    }
}

/// # Safety
/// The node runs, and its clock with it if it has one.
#[inline]
unsafe fn stop_clock(node: *mut pg_sys::PlanState) {
    // SAFETY: as for this function; no ERROR, as the clock runs.
    unsafe {
        if !(*node).instrument.is_null() {
            pg_sys::InstrStopNode((*node).instrument, 0.0);
        }
    }
}

/// # Safety
/// The node runs, and its clock was stopped.
#[inline]
unsafe fn start_clock(node: *mut pg_sys::PlanState) {
    // SAFETY: as for this function; no ERROR, as the clock does not run.
    unsafe {
        if !(*node).instrument.is_null() {
            pg_sys::InstrStartNode((*node).instrument);
        }
    }
}
