//! Deleting, updating and locking cold rows.
//!
//! The path of one update, in the order in which the files are read:
//!
//! ```text
//!   located.rs      locate the row: table, store, covering group; used by all steps
//!   new_version.rs  choose the lock: NO KEY UPDATE if the key keeps its values, else UPDATE
//!   row_lock.rs     1  lock the group for row work, then the row          ◄─────────────┐
//!                        held by another transaction (blockers.rs) ──> wait in a queue ─┤
//!   standing.rs     2  learn the row's standing                                         │
//!                        marked by a transaction in progress ──> unlock, wait for it ───┘
//!                        deleted, updated, merged away ──> unlock, return the next TID
//!   new_version.rs  insert the new version, a hot row
//!   mark.rs         3  write the mark, and look for SIREAD locks on the row
//!   mod.rs          share the new version with holders of KEY SHARE; unlock; enter the indexes
//! ```
//!
//! A delete locks for UPDATE, and does the three steps. A row lock does steps 1 and 2, and the row
//! stays locked ([`lock`]). A row of a group that this transaction has locked as a whole is
//! fetched, or hidden along with others, without them ([`locked_groups`],
//! [`pending_marks`](crate::store::pending_marks)). The steps pass the located row on as one value;
//! what they remember of its group is found with it.
//!
//! Invariants
//! - What step 2 finds stays true, and no two marks of one row are in force: the group's lock is
//!   held to the end of the transaction, and the row is locked or marked until then.
//! - A caller that is told that the row was updated follows the TID it is given, as on heap. Of a
//!   row whose group was merged away, that TID is the row's place in the new group. The way may
//!   lead from cold to hot and back.
//! - A snapshot sees the old version unless it sees the mark's transaction as committed, and then
//!   the new version or none. Index entries of the old version stay until the row is dead.
//! - A row lock that was taken for the request is not held while the request waits: that could be a
//!   deadlock that heap does not have. Only the group's lock and the turn are.
//! - Once the row is unlocked after a change, its mark blocks other writers.
//!
//! A crash loses a mark that is not committed, which is void anyway. A damaged mark raises XX001.
//!
//! Many rows: past some number of row locks in a group ([`expected_changes`]), a lock on the whole
//! group is requested without waiting; past a larger number in all groups, with waiting if the
//! request waits. So the server's lock table does not fill up. A command that changes many rows of
//! a group that is locked as a whole collects them instead of writing marks. So does one that
//! deletes rows beside each other; their locks stay until they are written ([`collected_locks`]).

mod blockers;
mod collected_locks;
mod counted_rows;
mod expected_changes;
mod located;
mod lock;
mod locked_groups;
mod mark;
mod new_version;
mod recent_locks;
mod row_lock;
mod standing;

use howdah_bridge::cold_lock::RowLock;
use howdah_bridge::hot::share::add_key_share;
use howdah_bridge::row_request::{ChangeRequest, Purpose, Refusal, UpdateIndexes};
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{RowNumber, Tid};
use howdah_bridge::xid::Xid;

pub use expected_changes::expect as expect_changes;
pub use lock::{fetch_held, lock};
pub(super) use locked_groups::held_group;
pub use row_lock::{
    forget_locks, give_back_groups, reset, subtransaction_aborts, subtransaction_commits,
    write_all, write_command, write_subtransaction,
};
pub(super) use standing::moved_meanwhile;

use self::located::LocatedRow;
use self::row_lock::{hold_for_change, holds_locks, was_locked_last};
use super::decoded;
use crate::errors::or_raise;
use crate::stop_point;
use crate::store::directory;
use crate::store::marks::{self, RowFate};
use crate::store::pending_marks;
use crate::store::visibility::hides_row;

/// Deletes a cold row, as `table_tuple_delete` specifies. The table is locked for writing.
pub fn delete(
    table: Table<'_>,
    row: RowNumber,
    request: ChangeRequest<'_>,
    changing_partition: bool,
) -> Result<(), Refusal> {
    let cid = request.command;
    let fate = if changing_partition {
        RowFate::MovedPartitions
    } else {
        RowFate::Deleted
    };
    if request.crosscheck.is_none() && pending_marks::try_hide(table.oid(), row, cid, || fate) {
        table.count_delete();
        return Ok(());
    }
    let target = LocatedRow::new(table, row);
    let there = hold_for_change(&target, RowLock::Update, request, Purpose::Delete)?;
    stop_point!("delete_locked");
    let decoded = table.is_logically_logged();
    if decoded {
        let entry = there.placed.entry;
        decoded::delete(table, target.store(), entry, row, cid, changing_partition);
    } else {
        table.count_delete();
    }
    let is_written = there.mark(fate, cid, !decoded);
    stop_point!("delete_marked");
    match is_written {
        true => there.let_go(),
        false => there.let_go_once_written(cid),
    }
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
    let target = LocatedRow::new(table, row);
    // A transaction that has locked the row FOR UPDATE keeps out those that share its key, as on
    // heap.
    let locked = holds_locks() && target.locks.holds_row(row, RowLock::Update);
    let keeps_key = !locked && new_version::keeps_key(&target, slot);
    let lock = match keeps_key {
        true => RowLock::NoKeyUpdate,
        false => RowLock::Update,
    };
    (lock, write_update(&target, slot, request, lock))
}

/// The update itself, once it is known which lock the row needs.
fn write_update(
    target: &LocatedRow<'_>,
    slot: Slot<'_>,
    request: ChangeRequest<'_>,
    lock: RowLock,
) -> Result<UpdateIndexes, Refusal> {
    let (table, row, cid) = (target.table, target.row, request.command);
    let keeps_key = lock == RowLock::NoKeyUpdate;
    // The place of the new version, valid once it was inserted.
    let fate = || RowFate::Updated {
        to: slot.tid(),
        keeps_key,
    };
    let insert = || {
        new_version::insert(table, slot, cid);
        fate()
    };
    // As on heap, `xmax` of the new version tells that the row was locked before: RETURNING tells
    // an update from an insertion by it, where ON CONFLICT does either.
    let locker = was_locked_last(table, row).then(Xid::current);
    let show_locker = || {
        if let Some(xid) = locker {
            slot.show_locker(xid);
        }
    };
    if request.crosscheck.is_none() && pending_marks::try_hide(table.oid(), row, cid, insert) {
        show_locker();
        return Ok(new_version::enter_indexes(target, slot));
    }
    let there = hold_for_change(target, lock, request, Purpose::Update)?;
    stop_point!("update_locked");
    let decoded = table.is_logically_logged();
    if decoded {
        decoded::update(table, target.store(), there.placed.entry, row, slot, cid);
    } else {
        new_version::insert(table, slot, cid);
    }
    let next = slot.tid();
    show_locker();
    stop_point!("update_inserted");
    there.mark(fate(), cid, !decoded);
    stop_point!("update_marked");
    if keeps_key {
        // After the mark was written: a locker that comes later finds the mark, see `meet_updater`.
        let sharers = target.locks.holders(row, target.group());
        if !sharers.is_empty() && add_key_share(table, next, &sharers).is_err() {
            pgrx::error!("could not hand row locks on to a new row version");
        }
    }
    there.let_go();
    Ok(new_version::enter_indexes(target, slot))
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
    if !or_raise(oid, hides_row(&store, &placed.entry, row, snapshot)) {
        return None;
    }
    match or_raise(oid, marks::of_row(&store, &placed.entry, row))?.fate {
        RowFate::Updated { to, .. } => Some(to),
        RowFate::Deleted | RowFate::MovedPartitions => None,
    }
}
