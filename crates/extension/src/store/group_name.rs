//! Names of row groups, for what is remembered of them.

use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::tid::GroupId;

use super::directory::GroupEntry;

/// A file of a cold store, and a group in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupName {
    pub store: StoreId,
    pub group: GroupId,
}

impl GroupName {
    /// The group of an entry of the store's directory.
    pub fn of(store: &ColdStore<'_>, entry: &GroupEntry) -> GroupName {
        GroupName {
            store: store.id(),
            group: entry.group(),
        }
    }
}

/// The bytes of a group. They never change: what is remembered of them is never stale, unless the
/// file is emptied in place and the id is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupValueName {
    pub(super) store: StoreId,
    group: GroupId,
    value_id: u32,
}

impl GroupValueName {
    /// The bytes to which an entry of a directory leads.
    pub(super) fn of(store: StoreId, entry: &GroupEntry) -> GroupValueName {
        GroupValueName {
            store,
            group: entry.group(),
            value_id: entry.value_id,
        }
    }
}
