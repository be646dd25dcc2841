//! Deleting, updating and locking cold rows.
//!
//! ```text
//!   1  lock the group for row work, then the row      (bridge::cold_lock)
//!   2  what has become of the row by now?
//!        its group was merged away ──> updated, to its place in the new group: the caller goes on there
//!        a mark is in force        ──> deleted, updated, or changed by ourselves
//!        a running transaction has marked it ──> give the row back, wait for that, from 1 on
//!   3  nothing: write the mark      (an update inserts the new version, hot, before)
//!   4  give the row's lock back     (a lock that was asked for by itself is kept)
//! ```
//!
//! The group's lock is held to the end of the transaction, and a row is marked or locked until then: so what step
//! 2 finds stays true, and two marks for one row cannot be in force. Whoever is told that the row was updated
//! follows the TID it is given, as on heap; the way may lead from cold to hot and back.
//!
//! A reader sees the old version until the mark's transaction commits, and no version or the new
//! one after; index entries of the old version stay until everybody sees that. A crash loses an uncommitted mark,
//! which is void anyway. A damaged mark raises XX001.
//!
//! Many rows: past some locks in a group the whole group is asked for, without waiting; past many in
//! all, with waiting. So the server's lock table does not fill up. A command that changes many rows of
//! a group that is locked as a whole collects them ([`crate::store::pending_marks`]).

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

use super::{decoded, last_change};
use crate::errors::or_raise;
use crate::stop_point;
use crate::store::directory;
use crate::store::marks::{self, RowFate, moved_changes};
use crate::store::{pending_groups, pending_marks};

/// Rows of a group that one command changes one by one before it collects them.
const FEW_CHANGES: u32 = 32;

/// Hides a row that is locked: by a mark of its own, or along with others of its group. Its serializable
/// readers are noticed when the mark is written.
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

/// Deletes a cold row, as `table_tuple_delete` says. The table is locked for writing.
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

/// Updates a cold row to the one in `slot`, which becomes a hot row, as `table_tuple_update` says;
/// the lock that the update takes, whatever comes of it. As for [`delete`].
pub fn update(
    table: Table<'_>,
    row: RowNumber,
    slot: Slot<'_>,
    request: ChangeRequest<'_>,
) -> (RowLock, Result<UpdateIndexes, Refusal>) {
    // A transaction that has locked the row FOR UPDATE takes it from those that share its key, as
    // on heap.
    let locked = holds_locks() && Locks::of(table).holds_row(row, RowLock::Update);
    let keeps_key = !locked && new_version::keeps_key(table, row, slot);
    let lock = match keeps_key {
        true => RowLock::NoKeyUpdate,
        false => RowLock::Update,
    };
    let updated = write_update(table, row, slot, request, keeps_key);
    (lock, updated)
}

/// What [`update`] does once it is known which lock the row needs.
fn write_update(
    table: Table<'_>,
    row: RowNumber,
    slot: Slot<'_>,
    request: ChangeRequest<'_>,
    keeps_key: bool,
) -> Result<UpdateIndexes, Refusal> {
    let cid = request.command;
    // Where the new version is, once it was inserted.
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
        // After the mark was written: a locker that comes later finds it, see `meet_updater`.
        let sharers = Locks::of(table).holders(row);
        if !sharers.is_empty() && add_key_share(table, next, &sharers).is_err() {
            pgrx::error!("could not hand row locks on to a new row version");
        }
    }
    there.let_go();
    Ok(new_version::enter_indexes(table, row, slot))
}

/// Where an update has put the new version, if the snapshot sees that update.
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
