//! Whether a snapshot sees one cold row, named by its number.
//!
//! ```text
//!   pending row of this backend ──> the rule of cmin       (pending_groups)
//!   else: entry of its group    ──> visible to the snapshot? (directory)
//!         what hides the row    ──> marks, recent rows        (marks)
//!         moved, and changed there by this transaction        (moved)
//! ```
//!
//! [`super::view`] answers the same for all rows of a group at once.

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;

use super::directory::{self, GroupEntry, GroupState};
use super::marks::{self, moved_changes};
use super::{moved, pending_groups};
use crate::errors::or_raise;

/// The entry of the row's group, if the snapshot sees the group and it has the row.
fn entry_seen(
    store: &ColdStore,
    table: Table<'_>,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Option<GroupEntry> {
    if snapshot.is_dirty() {
        // As HeapTupleSatisfiesDirty does first: the transaction that the caller finds named there
        // must not be its own, because of a row of its own load in progress.
        snapshot.reset_dirty();
    }
    if let Some(pending) = pending_groups::of_row(table, row, snapshot) {
        return pending.map(|(group, _)| *group.entry());
    }
    let entry = or_raise(table.oid(), directory::group_of(store, row, snapshot))?.entry;
    // While another backend loads the group, how many rows it has is not known.
    let has_row = entry.state == GroupState::Loading || entry.position_of(row).is_some();
    has_row.then_some(entry)
}

/// Whether the snapshot sees a cold row at this place. `store` is that of the table.
pub fn sees_row(
    store: &ColdStore,
    table: Table<'_>,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> bool {
    let Some(entry) = entry_seen(store, table, row, snapshot) else {
        return false;
    };
    let oid = table.oid();
    if or_raise(oid, marks::hides(store, &entry, row, snapshot)) {
        return false;
    }
    let follows = moved::is_wanted(snapshot);
    !follows || !or_raise(oid, moved::hides(store, table, row, snapshot))
}

/// Whether the snapshot sees a cold row at this place, or at the place where it was before it was
/// moved.
pub fn sees_row_somewhere(
    store: &ColdStore,
    table: Table<'_>,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> bool {
    sees_row(store, table, row, snapshot)
        || or_raise(table.oid(), moved_changes::is_seen(store, row, snapshot))
}
