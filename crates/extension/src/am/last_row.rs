//! The cold row that was last stored in a slot.
//!
//! The executor reads a row by index or by scan, and then again by its TID to lock, update or
//! return it: the second time the row is copied from here. A remembered row belongs to the command
//! that read it, within which its table is neither altered nor rewritten. In-place truncation need
//! not end a command, and may give the same TID to another row: then the row is dropped
//! ([`super::truncate`]).

use std::cell::RefCell;

use howdah_bridge::slot::RowImage;
use howdah_bridge::tid::RowNumber;
use pgrx::pg_sys;

use super::moment::Moment;

thread_local! {
    static LAST: RefCell<Option<(Moment, RowImage)>> = const { RefCell::new(None) };
}

/// Remembers the row in a slot.
///
/// # Safety
/// The slot has just been given a cold row.
pub unsafe fn remember(slot: *mut pg_sys::TupleTableSlot) {
    LAST.with_borrow_mut(|last| {
        let (moment, image) = last.get_or_insert_with(|| (Moment::now(), RowImage::default()));
        *moment = Moment::now();
        // SAFETY: as for this function.
        unsafe { image.take(slot) };
    });
}

pub fn forget() {
    LAST.set(None);
}

/// Puts the row into the slot, if it is the one that this command has read last.
///
/// # Safety
/// `rel` is open; `slot` is a buffer slot of it.
pub unsafe fn recall(
    rel: pg_sys::Relation,
    row: RowNumber,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: as for this function.
    unsafe { with(rel, row, |image| image.store(slot)).unwrap_or(false) }
}

/// Passes the row to `look`, if it is the one that this command has read last, with the descriptor
/// that the table has now.
///
/// # Safety
/// `rel` is open.
pub unsafe fn with<R>(
    rel: pg_sys::Relation,
    row: RowNumber,
    look: impl FnOnce(&RowImage) -> R,
) -> Option<R> {
    // SAFETY: as for this function.
    let (table, desc) = unsafe { ((*rel).rd_id, (*rel).rd_att) };
    LAST.with_borrow(|last| match last {
        Some((moment, image))
            if image.is_of(table, &row.tid())
                && image.has_descriptor(desc)
                && *moment == Moment::now() =>
        {
            Some(look(image))
        }
        _ => None,
    })
}
