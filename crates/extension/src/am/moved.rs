//! Follows rows that a snapshot sees at an old place to their current place.
//!
//! Three kinds of readers need the state of a row at its current place. A serializable transaction
//! locks the row there too ([`super::serializable`]). A transaction that has itself changed the row
//! there must not see it any more ([`elsewhere`]). AFTER triggers are the third kind. All other
//! scans read the row at its old place without following it.
//!
//! AFTER triggers. The executor names a row by the TID that its snapshot sees; if the row was moved
//! meanwhile, it is changed at its new place ([`super::modify`]), and the executor does not learn
//! its TID there. After the change it fetches the old version by the TID it knows, under
//! `SnapshotAny`, and a deferred trigger fetches it again at commit by the TID in that slot. On
//! heap the old version stays until the transaction that changed it ends. Here the version at the
//! old place carries the xmax of the mover: the statement's snapshot keeps it, but in read
//! committed VACUUM may remove it before the commit, and another row may take its line pointer. So
//! the fetch returns the version that carries this transaction's mark ([`changed_hot`],
//! [`changed_cold`]), with its TID. That version stays: its group is locked until this transaction
//! ends, and no horizon passes the mark of an in-progress transaction.

use howdah_bridge::hot::moved_to;
use howdah_bridge::predicate::{is_serializable, lock_row};
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::{RowNumber, is_cold};
use pgrx::pg_sys;

use crate::errors::{ColdError, or_raise};
use crate::store::directory::{self, GroupEntry};
use crate::store::marks::{self, elsewhere};

/// Whether rows that the snapshot sees must be followed.
///
/// # Safety
/// `snapshot` is valid.
#[inline]
pub unsafe fn is_wanted(snapshot: pg_sys::Snapshot) -> bool {
    // SAFETY: as for this function.
    unsafe {
        elsewhere::may_hide(snapshot)
            || is_serializable() && (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC
    }
}

/// Follows a row that was read by TID. Returns whether this transaction has changed it at its
/// current place; if so, the slot is cleared.
///
/// # Safety
/// `rel` is open and locked, the snapshot valid; the slot holds a row of the relation that is
/// pinned, if it is a hot one.
#[inline]
pub unsafe fn hides_hot(
    rel: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
) -> bool {
    // SAFETY: as for this function.
    unsafe { is_wanted(snapshot) && follow_hot(rel, slot, snapshot) }
}

unsafe fn follow_hot(
    rel: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
) -> bool {
    // SAFETY: as for `hides_hot`.
    unsafe {
        if is_cold(&(*slot).tts_tid) {
            return false;
        }
        let tuple = (*slot.cast::<pg_sys::BufferHeapTupleTableSlot>())
            .base
            .tuple;
        if tuple.is_null() {
            return false;
        }
        let header = (*tuple).t_data;
        let hides = moved_to(header).is_some_and(|row| {
            let has_moved = pg_sys::TransactionIdDidCommit((*header).t_choice.t_heap.t_xmax);
            if !has_moved && !is_serializable() {
                return false;
            }
            let Some(store) = ColdStore::open(rel, pg_sys::AccessShareLock) else {
                return false;
            };
            let changed = or_raise((*rel).rd_id, follow(&store, rel, row, snapshot));
            // While the mover is in progress, or if it aborted, no transaction can have changed the
            // row at its new place.
            has_moved && changed
        });
        if hides {
            howdah_bridge::slot::clear(slot);
        }
        hides
    }
}

/// Follows a cold row that was read to the place that it was moved to. Returns whether this
/// transaction has changed it there.
///
/// # Safety
/// `rel` is open and locked, `store` its cold store, the snapshot valid and [wanted](is_wanted).
pub unsafe fn hides(
    store: &ColdStore,
    rel: pg_sys::Relation,
    row: RowNumber,
    snapshot: pg_sys::Snapshot,
) -> Result<bool, ColdError> {
    // SAFETY: as for this function.
    unsafe {
        match moved_on(store, row)? {
            None => Ok(false),
            Some(next) => follow(store, rel, next, snapshot),
        }
    }
}

/// Checks which transaction has changed a row at the place that it was moved to, or at the place
/// that it was moved to from there.
unsafe fn follow(
    store: &ColdStore,
    rel: pg_sys::Relation,
    mut row: RowNumber,
    snapshot: pg_sys::Snapshot,
) -> Result<bool, ColdError> {
    // SAFETY: as for `hides`.
    unsafe {
        loop {
            if is_serializable() {
                lock_row(rel, row, snapshot);
            }
            if let Some(entry) = entry_now(store, row)? {
                return marks::hides(store, &entry, row, snapshot);
            }
            match moved_on(store, row)? {
                None => return Ok(false),
                Some(next) => row = next,
            }
        }
    }
}

/// The place where this transaction has changed a hot row that was moved meanwhile; `None` if the
/// row was not changed, or by another transaction.
///
/// # Safety
/// `rel` is open and locked; the slot holds a hot row of it, pinned.
pub unsafe fn changed_hot(
    rel: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
) -> Option<RowNumber> {
    if !elsewhere::any_changed() {
        return None;
    }
    // SAFETY: as for this function.
    unsafe {
        let header = (*(*slot.cast::<pg_sys::BufferHeapTupleTableSlot>())
            .base
            .tuple)
            .t_data;
        let to = moved_to(header)?;
        if !pg_sys::TransactionIdDidCommit((*header).t_choice.t_heap.t_xmax) {
            return None;
        }
        let store = ColdStore::open(rel, pg_sys::AccessShareLock)?;
        or_raise((*rel).rd_id, changed_from(&store, to))
    }
}

/// The same for a cold row whose group was merged meanwhile.
///
/// # Safety
/// `rel` is open and locked.
pub unsafe fn changed_cold(rel: pg_sys::Relation, row: RowNumber) -> Option<RowNumber> {
    if !elsewhere::any_changed() {
        return None;
    }
    // SAFETY: as for this function.
    unsafe {
        let store = ColdStore::open(rel, pg_sys::AccessShareLock)?;
        let changed = match moved_on(&store, row) {
            Ok(Some(next)) => changed_from(&store, next),
            other => other,
        };
        or_raise((*rel).rd_id, changed)
    }
}

/// The place where this transaction has changed a row, searched from a place that it was moved to.
fn changed_from(store: &ColdStore, mut row: RowNumber) -> Result<Option<RowNumber>, ColdError> {
    loop {
        if let Some(entry) = entry_now(store, row)? {
            let mark = marks::of_row(store, &entry, row)?;
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
    let in_force = &raw mut pg_sys::SnapshotSelfData;
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
    Ok(marks::forwarded(store, group, row)?.map(|(to, _)| to))
}
