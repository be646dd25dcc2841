//! Where entries of the directory were found before.

use std::cell::RefCell;

use howdah_bridge::lock_span::LockSpan;
use howdah_bridge::store::{ColdStore, EntryAt, Judge, StoreId};
use howdah_bridge::tid::{ROWS_PER_COLD_BLOCK, RowNumber, Tid};

use super::entry::{DIRECTORY_ID, PlacedEntry, placed};
use crate::errors::ColdError;
use crate::store::cache::settled_entries::ByBlock;

/// Where an entry was found before.
#[derive(Clone, Copy)]
struct Place {
    /// The first cold block after its range.
    end: u32,
    tid: Tid,
    /// When the place was last seen inside the file.
    seen_in: LockSpan,
}

/// The number of entries that are remembered.
const MOST_PLACES: usize = 4_096;

thread_local! {
    /// Hints by file and group. Each use checks the tuple that is there: VACUUM may have removed
    /// the entry.
    static PLACES: RefCell<ByBlock<Place>> = RefCell::new(ByBlock::of_entries(MOST_PLACES));
}

/// The entry that covers the row, by a remembered place; `None` if there is no such entry at it.
pub(super) fn recall(
    store: &ColdStore,
    row: RowNumber,
    judge: &mut Judge<'_>,
) -> Option<Result<PlacedEntry, ColdError>> {
    let (file, block) = (store.id(), row.cold_block());
    let (group, place) = PLACES.with_borrow_mut(|places| {
        let ((_, group), place) = places.nearest((file, 0)..=(file, block))?;
        if block >= place.end {
            return None;
        }
        if place.seen_in != LockSpan::current() {
            // VACUUM may have truncated the file.
            if !store.toast().has_block(place.tid.block()) {
                return None;
            }
            place.seen_in = LockSpan::current();
        }
        Some((*group, *place))
    })?;
    match entry_at(store, place.tid, group as i32, judge) {
        EntryAt::There(entry) => match placed(&entry) {
            Ok(found) => found.entry.covers(row).then_some(Ok(found)),
            Err(error) => Some(Err(error)),
        },
        EntryAt::Refused | EntryAt::Gone => None,
    }
}

pub(super) fn remember(store: &ColdStore, found: &PlacedEntry) {
    let place = Place {
        end: found.entry.group().first_block()
            + found.entry.capacity_rows / ROWS_PER_COLD_BLOCK as u32,
        tid: found.tid,
        seen_in: LockSpan::current(),
    };
    PLACES.with_borrow_mut(|places| {
        places.insert((store.id(), found.entry.group().first_block()), place)
    });
}

/// What is at a remembered place of an entry.
pub(in crate::store) fn entry_at(
    store: &ColdStore,
    tid: Tid,
    seq: i32,
    judge: &mut Judge<'_>,
) -> EntryAt {
    store.entry_at(tid, DIRECTORY_ID, seq, judge)
}

/// Discards the places of entries of a file that is truncated in place.
pub(in crate::store) fn forget_file(file: StoreId) {
    PLACES.with_borrow_mut(|places| places.retain(|(of, _), _| *of != file));
}
