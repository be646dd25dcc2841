//! The cold row that was last stored in a slot.
//!
//! The executor reads a row by index or by scan, and then again by its TID to lock, update or
//! return it: the second time the row is copied from here. A remembered row belongs to the command
//! that read it, within which its table is neither altered nor rewritten. In-place truncation need
//! not end a command, and may give the same TID to another row: then the row is dropped
//! ([`super::truncate`]).

use std::cell::RefCell;

use howdah_bridge::row_image::RowImage;
use howdah_bridge::slot::Slot;
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;

use super::moment::Moment;

thread_local! {
    static LAST: RefCell<Option<(Moment, RowImage)>> = const { RefCell::new(None) };
}

/// Remembers the cold row that a slot has just been given.
pub fn remember(slot: Slot<'_>) {
    LAST.with_borrow_mut(|last| {
        let (moment, image) = last.get_or_insert_with(|| (Moment::now(), RowImage::default()));
        *moment = Moment::now();
        image.take(slot);
    });
}

pub fn forget() {
    LAST.set(None);
}

/// Puts the row into the slot, which is one of the table's, if it is the one that this command has
/// read last.
pub fn recall(table: Table<'_>, row: RowNumber, slot: Slot<'_>) -> bool {
    // SAFETY: the table has the image's descriptor; the slot is a buffer slot.
    with(table, row, |image| unsafe { image.store(slot.raw()) }).unwrap_or(false)
}

/// Passes the row to `look`, if it is the one that this command has read last, with the descriptor
/// that the table has now.
pub fn with<R>(table: Table<'_>, row: RowNumber, look: impl FnOnce(&RowImage) -> R) -> Option<R> {
    LAST.with_borrow(|last| match last {
        Some((moment, image))
            if image.is_of(table.oid(), &row.tid().raw())
                && image.has_descriptor(table.descriptor().raw())
                && *moment == Moment::now() =>
        {
            Some(look(image))
        }
        _ => None,
    })
}
