//! Follows rows that a snapshot sees at an old place to their current place.
//!
//! Three kinds of readers need the state of a row at its current place. A serializable transaction
//! locks the row there too (`am/serializable.rs`). A transaction that has itself changed the row
//! there must not see it any more ([`moved_changes`]). AFTER triggers are the third kind. All other
//! scans read the row at its old place without following it.
//!
//! AFTER triggers. The executor names a row by the TID that its snapshot sees; if the row was moved
//! meanwhile, it is changed at its new place (`am/modify.rs`), and the executor does not learn
//! its TID there. After the change it fetches the old version by the TID it knows, under
//! `SnapshotAny`, and a deferred trigger fetches it again at commit by the TID in that slot. On
//! heap the old version stays until the transaction that changed it ends. Here the version at the
//! old place carries the xmax of the mover: the statement's snapshot keeps it, but in read
//! committed VACUUM may remove it before the commit, and another row may take its line pointer. So
//! the fetch returns the version that carries this transaction's mark ([`changed_hot`],
//! [`changed_cold`]), with its TID. That version stays: its group is locked until this transaction
//! ends, and no horizon passes the mark of an in-progress transaction.

use howdah_bridge::predicate::{is_serializable, lock_relation, lock_row};
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::RowNumber;

use super::hidden::hides_row;
use super::moved_changes;
use crate::errors::{ColdError, or_raise};
use crate::store::directory::{self, GroupEntry};
use crate::store::marks::forward::forwarded;
use crate::store::marks::row_state;

/// Whether rows that the snapshot sees must be followed.
#[inline]
pub fn is_wanted(snapshot: Snapshot<'_>) -> bool {
    moved_changes::may_hide(snapshot) || is_serializable() && snapshot.is_mvcc()
}

/// Follows a row that was read by TID into the slot. Returns whether this transaction has changed
/// it at its current place; if so, the slot is cleared.
#[inline]
pub fn hides_hot(table: Table<'_>, slot: Slot<'_>, snapshot: Snapshot<'_>) -> bool {
    is_wanted(snapshot) && follow_hot(table, slot, snapshot)
}

fn follow_hot(table: Table<'_>, slot: Slot<'_>, snapshot: Snapshot<'_>) -> bool {
    let Some((row, mover)) = slot.moved_to() else {
        return false;
    };
    let has_moved = mover.did_commit();
    if !has_moved && !is_serializable() {
        return false;
    }
    let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
        return false;
    };
    let changed = or_raise(table.oid(), follow(&store, table, row, snapshot));
    // While the mover is in progress, or if it aborted, no transaction can have changed the row at
    // its new place.
    let hides = has_moved && changed;
    if hides {
        slot.clear();
    }
    hides
}

/// Follows a cold row that was read to the place that it was moved to. Returns whether this
/// transaction has changed it there. `store` is the table's, the snapshot [wanted](is_wanted).
pub fn hides(
    store: &ColdStore,
    table: Table<'_>,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<bool, ColdError> {
    // Before the look for a forward: the merge may commit between the two.
    lock_if_merged(store, table, row, snapshot)?;
    match moved_on(store, row)? {
        None => Ok(false),
        Some(next) => follow(store, table, next, snapshot),
    }
}

/// Has a serializable transaction, which has locked a row, lock the whole table if the row's group
/// is just being merged: the merge may have transferred the locks of readers already, and its
/// forwards cannot be read before it commits. If the group is in force and none deletes it, the
/// transfer is still to come; if it is not in force, there is a forward.
fn lock_if_merged(
    store: &ColdStore,
    table: Table<'_>,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<(), ColdError> {
    if !is_serializable() {
        return Ok(());
    }
    let Some(group) = directory::nearest_group(store, row) else {
        return Ok(());
    };
    let mut is_merged = false;
    directory::entry_covering(store, group, row, &mut |shown| {
        let is_in_force = shown.is_in_force();
        if is_in_force {
            let (deleter, own) = shown.deleter();
            // It may have committed meanwhile.
            is_merged |= own.is_none()
                && deleter.is_normal()
                && (deleter.is_in_progress() || deleter.did_commit());
        }
        is_in_force
    })?;
    if is_merged {
        lock_relation(table, snapshot);
    }
    Ok(())
}

/// Checks which transaction has changed a row at the place that it was moved to, or at the place
/// that it was moved to from there.
fn follow(
    store: &ColdStore,
    table: Table<'_>,
    mut row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<bool, ColdError> {
    loop {
        if is_serializable() {
            lock_row(table, row, snapshot);
            lock_if_merged(store, table, row, snapshot)?;
        }
        if let Some(entry) = entry_now(store, row)? {
            return hides_row(store, &entry, row, snapshot);
        }
        match moved_on(store, row)? {
            None => return Ok(false),
            Some(next) => row = next,
        }
    }
}

/// The place where this transaction has changed a hot row, the one in the slot, that was moved
/// meanwhile; `None` if the row was not changed, or by another transaction.
pub fn changed_hot(table: Table<'_>, slot: Slot<'_>) -> Option<RowNumber> {
    if !moved_changes::any_changed() {
        return None;
    }
    let (to, mover) = slot.moved_to()?;
    if !mover.did_commit() {
        return None;
    }
    let store = ColdStore::open(table, LockMode::AccessShare)?;
    or_raise(table.oid(), changed_from(&store, to))
}

/// The same for a cold row whose group was merged meanwhile.
pub fn changed_cold(table: Table<'_>, row: RowNumber) -> Option<RowNumber> {
    if !moved_changes::any_changed() {
        return None;
    }
    let store = ColdStore::open(table, LockMode::AccessShare)?;
    let changed = match moved_on(&store, row) {
        Ok(Some(next)) => changed_from(&store, next),
        other => other,
    };
    or_raise(table.oid(), changed)
}

/// The place where this transaction has changed a row, searched from a place that it was moved to.
fn changed_from(store: &ColdStore, mut row: RowNumber) -> Result<Option<RowNumber>, ColdError> {
    loop {
        if let Some(entry) = entry_now(store, row)? {
            let mark = row_state::of_row(store, &entry, row)?;
            return Ok(mark.and_then(|mark| mark.own).map(|_| row));
        }
        match moved_on(store, row)? {
            None => return Ok(None),
            Some(next) => row = next,
        }
    }
}

/// The group of a row, if it is in force.
fn entry_now(store: &ColdStore, row: RowNumber) -> Result<Option<GroupEntry>, ColdError> {
    let in_force = Snapshot::in_force();
    Ok(directory::group_of(store, row, in_force)?.map(|placed| placed.entry))
}

/// The current place of a row whose group was deleted.
fn moved_on(store: &ColdStore, row: RowNumber) -> Result<Option<RowNumber>, ColdError> {
    if entry_now(store, row)?.is_some() {
        return Ok(None);
    }
    let Some(group) = directory::nearest_group(store, row) else {
        return Ok(None);
    };
    Ok(forwarded(store, group, row)?.map(|(to, _)| to))
}
