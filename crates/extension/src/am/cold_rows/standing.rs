//! Step 2 of a request: what a row is whose lock is held.
//!
//! The look comes after the lock. What it finds stays true until this transaction changes it: the
//! group is locked, so that its entry stays in force, and the row is locked, so that no other
//! transaction marks it.

use howdah_bridge::cold_lock::RowLock;
use howdah_bridge::row_request::{Refusal, RowFailure, RowResult};
use howdah_bridge::tid::{GroupId, RowNumber, Tid};
use howdah_bridge::xid::{CommandId, INVALID_COMMAND, Xid};

use super::located::LocatedRow;
use super::locked_groups::LockedGroup;
use crate::errors::ColdError;
use crate::stop_point;
use crate::store::directory::{self, GroupState, PlacedEntry};
use crate::store::marks::{self, Mark, RowFate, RowState};

/// The standing of a row whose lock is held.
pub(super) enum Standing {
    /// The row is in this group, and no mark hides it.
    There(PlacedEntry),
    /// The same, but another transaction in progress has marked it.
    BeingModified(PlacedEntry, Mark),
    Marked(Mark),
    /// Loaded by this command, or by one that this command runs inside.
    Invisible,
    /// The group was merged into another one.
    Moved {
        to: RowNumber,
        by: Xid,
    },
    /// The group is gone, with all of its rows.
    Gone,
}

/// Learns the standing of a row that is locked in this mode.
pub(super) fn learn(
    target: &LocatedRow<'_>,
    lock: RowLock,
    command: CommandId,
) -> Result<Standing, ColdError> {
    let Some(group) = target.group() else {
        return Ok(Standing::Gone);
    };
    let Some(mut known) = target.known() else {
        return read(target, group, command);
    };
    let in_bulk = target.locks.holds_bulk(group, lock);
    if in_bulk {
        known.bulk = known.bulk.max(Some(lock));
    }
    recall(target, &mut known, command, in_bulk)
}

/// Learns the standing of a row again: its lock does not keep out a transaction that changes no
/// key.
pub(super) fn learn_again(
    target: &LocatedRow<'_>,
    command: CommandId,
) -> Result<Standing, ColdError> {
    match (target.known(), target.group()) {
        (Some(mut known), _) => recall(target, &mut known, command, false),
        (None, Some(group)) => read(target, group, command),
        (None, None) => Ok(Standing::Gone),
    }
}

/// The standing of a row of a group that is remembered.
fn recall(
    target: &LocatedRow<'_>,
    known: &mut LockedGroup,
    command: CommandId,
    in_bulk: bool,
) -> Result<Standing, ColdError> {
    if known.own.is_some_and(|loader| loader >= command) {
        return Ok(Standing::Invisible);
    }
    if in_bulk && known.is_unmarked(target.store(), target.row)? {
        return Ok(Standing::There(known.placed));
    }
    stop_point!("group_recalled");
    // The entry was read under the group's lock: only its flags may have changed. They are read
    // again whatever is known of this row: what collects rows of the group relies on them.
    known.refresh(target.store())?;
    by_marks(target, known.placed)
}

/// The standing of a row of a group that is read now, and remembered.
fn read(
    target: &LocatedRow<'_>,
    group: GroupId,
    command: CommandId,
) -> Result<Standing, ColdError> {
    let (store, row) = (target.store(), target.row);
    let Some((placed, own)) = entry_now(target, group)? else {
        if let Some((to, by)) = marks::forwarded(store, group, row)? {
            return Ok(Standing::Moved { to, by });
        }
        // What a committed transaction has hidden may still be visible to our snapshot.
        let mark = marks::of_dropped_row(store, group, row)?;
        return Ok(mark.map_or(Standing::Gone, Standing::Marked));
    };
    let standing = match own.is_some_and(|loader| loader >= command) {
        true => Ok(Standing::Invisible),
        false => by_marks(target, placed),
    };
    // A group that is still being loaded gives back the end of its range, which the next group
    // gets.
    if placed.entry.state == GroupState::Stored {
        let (table, file) = (target.table, store.id());
        target.remember(LockedGroup::new(table, file, placed, own, command));
    }
    standing
}

/// The entry of the row's group as it is now, if it is in force, and the command that loaded the
/// group, if that was one of our transaction.
fn entry_now(
    target: &LocatedRow<'_>,
    group: GroupId,
) -> Result<Option<(PlacedEntry, Option<CommandId>)>, ColdError> {
    directory::entry_in_force(target.store(), group, target.row)
}

/// The mark of a row that another transaction in progress has written. The row need not be locked;
/// a lock that does not conflict with the change may be held.
pub(super) fn arriving(target: &LocatedRow<'_>) -> Result<Option<Mark>, ColdError> {
    let Some(group) = target.group() else {
        return Ok(None);
    };
    // Flags may have been added since the entry was last read.
    let Some((placed, _)) = entry_now(target, group)? else {
        return Ok(None);
    };
    Ok(match by_marks(target, placed)? {
        Standing::BeingModified(_, mark) => Some(mark),
        _ => None,
    })
}

/// The standing of a row by its marks. The entry of its group was read after the row was locked.
fn by_marks(target: &LocatedRow<'_>, placed: PlacedEntry) -> Result<Standing, ColdError> {
    let state = marks::state_of_row(target.store(), &placed.entry, target.row)?;
    Ok(match state {
        RowState::Marked(mark) => Standing::Marked(mark),
        RowState::Arriving(mark) => Standing::BeingModified(placed, mark),
        RowState::Unmarked => Standing::There(placed),
    })
}

impl Standing {
    /// The entry of the row's group if the row is there; otherwise the answer to the executor,
    /// which has named the row by this place.
    pub fn report(&self, tid: Tid, command: CommandId) -> Result<PlacedEntry, Refusal> {
        use RowResult::{Deleted, Invisible, SelfModified, Updated};
        let none = Xid::INVALID;
        let (result, ctid, xmax, cmax) = match self {
            Standing::There(placed) | Standing::BeingModified(placed, _) => return Ok(*placed),
            Standing::Invisible => (Invisible, tid, none, None),
            Standing::Gone => (Deleted, tid, none, None),
            Standing::Moved { to, by } => (Updated, to.tid(), *by, None),
            Standing::Marked(mark) => {
                let (result, ctid) = match mark.fate {
                    RowFate::Deleted => (Deleted, tid),
                    RowFate::Updated { to, .. } => (Updated, to),
                    RowFate::MovedPartitions => (Updated, Tid::moved_to_another_partition()),
                };
                match mark.own {
                    Some(own) if own >= command => (SelfModified, ctid, mark.xid, Some(own)),
                    Some(_) => (Invisible, ctid, mark.xid, None),
                    None => (result, ctid, mark.xid, None),
                }
            }
        };
        let failure = RowFailure {
            cmax: cmax.unwrap_or(INVALID_COMMAND),
            ..RowFailure::at(ctid, xmax)
        };
        Err(Refusal { result, failure })
    }
}

/// The new place of the row that was to be changed or locked at `tid`, if the row was moved and not
/// changed otherwise: the caller continues there, as it would on heap, where the row stays in
/// place. For a row that the caller must not change, because its snapshot does not see it, `tmfd`
/// holds the row's own TID, and the result is `None`.
pub(in crate::am) fn moved_meanwhile(
    tid: Tid,
    result: RowResult,
    failure: &RowFailure,
) -> Option<RowNumber> {
    if result != RowResult::Updated {
        return None;
    }
    failure.ctid.row().filter(|&to| tid.row() != Some(to))
}
