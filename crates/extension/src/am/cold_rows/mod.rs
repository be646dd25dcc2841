//! Deleting, updating and locking cold rows.
//!
//! The path of one update:
//!
//! ```text
//!   1  choose the lock: NO KEY UPDATE if the key columns keep their values, else UPDATE
//!   2  lock the group for row work, then the row (bridge::cold_lock)        ◄─────────┐
//!        held by another transaction ──> wait for its end, with a turn in the queue ──┤
//!   3  learn the row's standing                                                       │
//!        marked by a transaction in progress ──> unlock the row, wait for its end ────┘
//!        deleted, updated, or group merged away ──> unlock the row, return the next TID
//!   4  insert the new version, a hot row
//!   5  write the mark, and look for SIREAD locks on the row
//!   6  if the key is kept, give the holders of KEY SHARE locks a share in the new version
//!   7  unlock the row: from here on, the mark blocks other writers
//!   8  insert the index entries of the new version
//! ```
//!
//! A delete locks for UPDATE, and does 2, 3, 5 and 7. A row lock does 2 and 3, and the row stays
//! locked.
//!
//! Invariants
//! - What step 3 finds stays true, and no two marks of one row are in force: the group's lock is
//!   held to the end of the transaction, and the row is locked or marked until then.
//! - A caller that is told that the row was updated follows the TID it is given, as on heap. Of a
//!   row whose group was merged away, that TID is the row's place in the new group. The way may
//!   lead from cold to hot and back.
//! - A snapshot sees the old version unless it sees the mark's transaction as committed, and then
//!   the new version or none. Index entries of the old version stay until the row is dead.
//! - A row lock that was taken for the request is not held while the request waits: that could be a
//!   deadlock that heap does not have. Only the group's lock and the turn are.
//!
//! A crash loses a mark that is not committed, which is void anyway. A damaged mark raises XX001.
//!
//! Many rows: past some number of row locks in a group, a lock on the whole group is requested
//! without waiting; past a larger number in all groups, with waiting if the request waits. So the
//! server's lock table does not fill up. A command that changes many rows of a group that is locked
//! as a whole collects them instead of writing marks ([`crate::store::pending_marks`]).

mod blockers;
mod lock;
mod new_version;
mod row_lock;

use howdah_bridge::cold_lock::{Locks, RowLock};
use howdah_bridge::hot::share::add_key_share;
use howdah_bridge::predicate::check_change;
use howdah_bridge::row_request::{ChangeRequest, Purpose, Refusal, UpdateIndexes};
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{RowNumber, Tid};
use howdah_bridge::xid::CommandId;

pub use lock::lock;
pub(super) use row_lock::held_group;
use row_lock::{Located, There, hold_for_change, holds_locks};
pub use row_lock::{forget_locks, reset};

use super::{decoded, estimate, last_change};
use crate::errors::or_raise;
use crate::stop_point;
use crate::store::directory;
use crate::store::marks::{self, RowFate, moved_changes};
use crate::store::{pending_groups, pending_marks};

/// Rows of a group that one command marks one by one before it collects them.
const FEW_CHANGES: u32 = 32;

/// Hides a row that is locked: by a mark of its own, or in memory along with others of its group.
/// When a mark is written, conflicts with serializable transactions that have read the row are
/// checked.
fn hide(
    table: Table<'_>,
    there: &There<'_>,
    row: RowNumber,
    fate: RowFate,
    cid: CommandId,
    may_collect: bool,
) {
    let (store, mut placed) = (&there.store, there.placed);
    let oid = table.oid();
    estimate::forget(oid);
    moved_changes::note(oid, &placed.entry);
    let many = may_collect
        && Locks::of(table).holds_bulk(placed.entry.group(), RowLock::Update)
        && Located::recall(store, row, |l| l.count_change(cid) >= FEW_CHANGES).unwrap_or(false);
    let collected = many
        && or_raise(
            oid,
            pending_marks::start(store, oid, &mut placed, row, fate, cid),
        );
    if collected {
        Located::recall(store, row, Located::forget_hidden);
    } else {
        or_raise(oid, marks::write(store, &mut placed, row, fate, cid));
        last_change::note(table, row, cid);
        Located::note_marked(store, row);
        pending_marks::note_marked(oid, row);
        check_change(table, row, placed.entry.group());
    }
    pending_groups::note_marked(oid, &placed);
}

/// Deletes a cold row, as `table_tuple_delete` specifies. The table is locked for writing.
pub fn delete(
    table: Table<'_>,
    row: RowNumber,
    request: ChangeRequest<'_>,
    changing_partition: bool,
) -> Result<(), Refusal> {
    let cid = request.command;
    let fate = if changing_partition {
        RowFate::MovedAway
    } else {
        RowFate::Deleted
    };
    if request.crosscheck.is_none() && pending_marks::try_hide(table.oid(), row, fate, cid) {
        table.count_delete();
        return Ok(());
    }
    let there = hold_for_change(table, row, RowLock::Update, request, Purpose::Delete)?;
    stop_point!("delete_locked");
    let decoded = table.is_logically_logged();
    if decoded {
        let entry = there.placed.entry;
        decoded::delete(table, &there.store, entry, row, cid, changing_partition);
    } else {
        table.count_delete();
    }
    hide(table, &there, row, fate, cid, !decoded);
    stop_point!("delete_marked");
    there.let_go();
    Ok(())
}

/// Updates a cold row to the one in `slot`, which becomes a hot row, as `table_tuple_update`
/// specifies. Returns the lock that the update needs, also on failure. Otherwise as [`delete`].
pub fn update(
    table: Table<'_>,
    row: RowNumber,
    slot: Slot<'_>,
    request: ChangeRequest<'_>,
) -> (RowLock, Result<UpdateIndexes, Refusal>) {
    // A transaction that has locked the row FOR UPDATE keeps out those that share its key, as on
    // heap.
    let locked = holds_locks() && Locks::of(table).holds_row(row, RowLock::Update);
    let keeps_key = !locked && new_version::keeps_key(table, row, slot);
    let lock = match keeps_key {
        true => RowLock::NoKeyUpdate,
        false => RowLock::Update,
    };
    let updated = write_update(table, row, slot, request, keeps_key);
    (lock, updated)
}

/// The update itself, once it is known which lock the row needs.
fn write_update(
    table: Table<'_>,
    row: RowNumber,
    slot: Slot<'_>,
    request: ChangeRequest<'_>,
    keeps_key: bool,
) -> Result<UpdateIndexes, Refusal> {
    let cid = request.command;
    // The place of the new version, valid once it was inserted.
    let fate = || RowFate::Updated {
        to: slot.tid(),
        keeps_key,
    };
    if request.crosscheck.is_none() && pending_marks::may_hide(table.oid(), row, cid) {
        new_version::insert(table, slot, cid);
        if !pending_marks::try_hide(table.oid(), row, fate(), cid) {
            pgrx::error!("could not hide a row that was to be hidden");
        }
        return Ok(new_version::enter_indexes(table, row, slot));
    }
    let lock = match keeps_key {
        true => RowLock::NoKeyUpdate,
        false => RowLock::Update,
    };
    let there = hold_for_change(table, row, lock, request, Purpose::Update)?;
    stop_point!("update_locked");
    let decoded = table.is_logically_logged();
    if decoded {
        decoded::update(table, &there.store, there.placed.entry, row, slot, cid);
    } else {
        new_version::insert(table, slot, cid);
    }
    let next = slot.tid();
    stop_point!("update_inserted");
    hide(table, &there, row, fate(), cid, !decoded);
    stop_point!("update_marked");
    if keeps_key {
        // After the mark was written: a locker that comes later finds the mark, see `meet_updater`.
        let sharers = Locks::of(table).holders(row);
        if !sharers.is_empty() && add_key_share(table, next, &sharers).is_err() {
            pgrx::error!("could not hand row locks on to a new row version");
        }
    }
    there.let_go();
    Ok(new_version::enter_indexes(table, row, slot))
}

/// The place of the new version, if the snapshot sees the update.
pub fn version_after(table: Table<'_>, row: RowNumber, snapshot: Snapshot<'_>) -> Option<Tid> {
    let oid = table.oid();
    let store = ColdStore::open(table, LockMode::AccessShare)?;
    let in_force = Snapshot::in_force();
    let Some(placed) = or_raise(oid, directory::group_of(&store, row, in_force)) else {
        let group = directory::nearest_group(&store, row)?;
        let moved = or_raise(oid, marks::forwarded(&store, group, row));
        return moved.map(|(to, _)| to.tid());
    };
    if !or_raise(oid, marks::hides(&store, &placed.entry, row, snapshot)) {
        return None;
    }
    match or_raise(oid, marks::of_row(&store, &placed.entry, row))?.fate {
        RowFate::Updated { to, .. } => Some(to),
        RowFate::Deleted | RowFate::MovedAway => None,
    }
}
