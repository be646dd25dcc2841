//! Groups that this backend knows to be wholly hidden, and from whom.
//!
//! A row that a committed transaction has hidden stays hidden from whoever takes a snapshot later: marks
//! are not taken back, numbers are not used twice, and a group never grows. So once every row of a group was
//! found hidden by transactions that are over for the asking snapshot, no snapshot of which the same
//! is true needs to look again. Small tables whose rows were all updated once, and which are read
//! from end to end for each statement, would pay for every mark each time.
//!
//! All of this is true within one file, and files are known by their names. One that is emptied in place keeps its
//! name, and may hold marks by earlier transactions before: CLUSTER has copied them for older snapshots. What
//! is known of it is forgotten (`am/truncate.rs`).

use std::cell::RefCell;

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::xid::Xid;

use crate::store::directory::GroupEntry;

/// Groups that are remembered.
const MOST: usize = 64;

#[derive(Clone, Copy)]
struct Vanished {
    file: StoreId,
    group: u32,
    /// The youngest transaction that hid any of its rows.
    youngest: Xid,
}

thread_local! {
    static VANISHED: RefCell<Vec<Vanished>> = const { RefCell::new(Vec::new()) };
}

fn is_over(xid: Xid, snapshot: Snapshot<'_>) -> bool {
    xid.precedes(snapshot.xmin())
}

/// The youngest transaction that hid a row, if all of the group is known to be hidden from the MVCC snapshot.
pub(in crate::store) fn youngest(
    store: &ColdStore,
    group: u32,
    snapshot: Snapshot<'_>,
) -> Option<Xid> {
    let file = store.id();
    VANISHED.with_borrow(|vanished| {
        vanished
            .iter()
            .find(|v| v.group == group && v.file == file && is_over(v.youngest, snapshot))
            .map(|v| v.youngest)
    })
}

/// Forgets the groups of a file that is emptied in place.
pub(super) fn forget_file(file: StoreId) {
    VANISHED.with_borrow_mut(|vanished| vanished.retain(|v| v.file != file));
}

/// Notes that all of the group is hidden from the MVCC snapshot, by transactions of which `youngest` is the
/// last, if that will be true of later snapshots.
pub(in crate::store) fn note(
    store: &ColdStore,
    entry: &GroupEntry,
    youngest: Xid,
    snapshot: Snapshot<'_>,
) {
    if !is_over(youngest, snapshot) {
        return;
    }
    let noted = Vanished {
        file: store.id(),
        group: entry.group(),
        youngest,
    };
    VANISHED.with_borrow_mut(|vanished| {
        vanished.retain(|v| v.group != noted.group || v.file != noted.file);
        if vanished.len() >= MOST {
            vanished.remove(0);
        }
        vanished.push(noted);
    });
}
