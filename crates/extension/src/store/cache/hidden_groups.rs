//! Groups that this backend knows to be wholly hidden, and the youngest transaction that hid a row.
//!
//! A row that a committed transaction has hidden stays hidden from every later snapshot: marks are
//! not removed, numbers are not used again, and a group never grows. So once every row of a group
//! was found to be hidden by transactions that the snapshot sees as finished, a snapshot that sees
//! them as finished, too, need not look again. Otherwise each scan of a small table whose rows were
//! all updated once would examine every mark.
//!
//! All of this holds within one file, and files are identified by their names. A file that is
//! truncated in place keeps its name, and may hold marks of earlier transactions afterwards, which
//! CLUSTER has copied for older snapshots. Therefore what is known of it is discarded
//! (`am/truncate.rs`).

use howdah_bridge::tid::GroupId;
use std::cell::RefCell;

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::xid::Xid;

use crate::bounded_cache::HashCache;
use crate::store::directory::GroupEntry;
use crate::store::group_name::GroupName;

/// Groups that are remembered.
const MOST: usize = 64;

thread_local! {
    /// By file and group: the youngest transaction that hid any of the group's rows.
    static HIDDEN: RefCell<HashCache<GroupName, Xid>> =
        RefCell::new(HashCache::of_entries(MOST));
}

fn is_over(xid: Xid, snapshot: Snapshot<'_>) -> bool {
    xid.precedes(snapshot.xmin())
}

/// The youngest transaction that hid a row, if the whole group is known to be hidden from the MVCC
/// snapshot.
pub(in crate::store) fn youngest(
    store: &ColdStore,
    group: GroupId,
    snapshot: Snapshot<'_>,
) -> Option<Xid> {
    let name = GroupName {
        store: store.id(),
        group,
    };
    let youngest = HIDDEN.with_borrow_mut(|hidden| hidden.get(&name).copied());
    youngest.filter(|&youngest| is_over(youngest, snapshot))
}

/// Discards the groups of a file that is truncated in place.
pub(super) fn forget_file(file: StoreId) {
    HIDDEN.with_borrow_mut(|hidden| hidden.retain(|name, _| name.store != file));
}

/// Notes that the whole group is hidden from the MVCC snapshot, by transactions of which `youngest`
/// is the last, if that will hold for later snapshots.
pub(in crate::store) fn note(
    store: &ColdStore,
    entry: &GroupEntry,
    youngest: Xid,
    snapshot: Snapshot<'_>,
) {
    if !is_over(youngest, snapshot) {
        return;
    }
    let name = GroupName::of(store, entry);
    HIDDEN.with_borrow_mut(|hidden| hidden.insert(name, youngest));
}
