//! What code that writes, copies or discards marks tells the filter.

use howdah_bridge::tid::GroupId;
use std::sync::atomic::{Ordering, fence};

use howdah_bridge::store::{ColdStore, StoreId};

use super::slots::{MARK_FILTER, Slot};
use crate::store::directory::GroupEntry;
use crate::store::marks::group_name::Name;

/// Has marks of the rows at these positions of the group written by `write`.
pub(in crate::store) fn noting<R>(
    store: &ColdStore,
    entry: &GroupEntry,
    positions: impl IntoIterator<Item = u32> + Clone,
    write: impl FnOnce() -> R,
) -> R {
    note_marks(store, entry, positions.clone());
    let written = write();
    note_marks(store, entry, positions);
    written
}

/// To be called before and after marks of the rows at these positions of the group enter the store.
pub(in crate::store) fn note_marks(
    store: &ColdStore,
    entry: &GroupEntry,
    positions: impl IntoIterator<Item = u32>,
) {
    fence(Ordering::SeqCst);
    if let Some(shared) = MARK_FILTER.get() {
        let name = Name::of(store, entry);
        for position in positions {
            shared.set(&name, position);
        }
    }
}

/// To be called when marks of a group were copied into a store that no other backend can see yet.
pub(in crate::store) fn forget_group(store: &ColdStore, entry: &GroupEntry) {
    if let Some(shared) = MARK_FILTER.get() {
        let name = Name::of(store, entry);
        for slot in shared.slots_of(&name).filter(|slot| slot.is_of(&name)) {
            slot.give_back();
        }
    }
}

/// Frees the slots of a file that is truncated in place. They would only lead to look-ups in vain,
/// as their bits are never cleared, but no new ones are built while they exist.
pub fn forget_file(file: StoreId) {
    let Some(shared) = MARK_FILTER.get() else {
        return;
    };
    let any_group = Name::in_file(file, GroupId::of_block(0));
    for slot in shared
        .slots
        .iter()
        .filter(|slot| slot.is_in_file(&any_group))
    {
        slot.give_back();
    }
}

/// Discards everything: names of files may be used again.
pub fn forget() {
    let Some(shared) = MARK_FILTER.get() else {
        return;
    };
    shared.slots.iter().for_each(Slot::give_back);
}
