//! Whether a snapshot sees one cold row, named by its number.
//!
//! ```text
//!   pending row of this backend ──> the rule of cmin       (pending_groups)
//!   else: entry of its group    ──> visible to the snapshot? (directory)
//!         what hides the row    ──> records of the group      (hidden)
//!         moved, and changed there by this transaction        (moved)
//! ```

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;

use super::hidden::hides_row;
use super::{last_change, moved, moved_changes};
use crate::errors::or_raise;
use crate::store::directory::{self, GroupEntry, GroupState};
use crate::store::pending_groups;
use crate::store::pending_marks::memory;

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
    if or_raise(oid, hides_row(store, &entry, row, snapshot)) {
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

/// Whether it is known, without a look at the store, that the row is hidden from an MVCC or a dirty
/// snapshot: because this transaction has just hidden it.
#[inline]
pub fn is_surely_hidden(table: Table<'_>, row: RowNumber, snapshot: Snapshot<'_>) -> bool {
    if snapshot.is_mvcc() {
        return last_change::hides(table, row, snapshot);
    }
    // Checks of constraints fetch one row at a time, mostly the row that is being replaced.
    snapshot.is_dirty()
        && (last_change::hides(table, row, snapshot) || memory::hides_now(table.oid(), row))
}
