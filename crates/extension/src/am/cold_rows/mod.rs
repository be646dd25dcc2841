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

mod grip;
mod in_the_way;
mod lock;
mod new_version;

use howdah_bridge::cold_lock::{Locks, RowLock};
use howdah_bridge::hot::share::add_key_share;
use howdah_bridge::predicate::check_change;
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use pgrx::pg_sys;

pub(super) use grip::held_group;
use grip::{Located, There, grip_for_change, holds_locks};
pub use grip::{forget_locks, reset};
pub use lock::lock;

use super::{decoded, last_change};
use crate::errors::or_raise;
use crate::load;
use crate::stop_point;
use crate::store::directory;
use crate::store::marks::{self, RowFate, elsewhere};
use crate::store::pending_marks;

/// Rows of a group that one command changes one by one before it collects them.
const FEW_CHANGES: u32 = 32;

/// Hides a row that is locked: by a mark of its own, or along with others of its group. Its serializable
/// readers are noticed when the mark is written.
unsafe fn hide(
    rel: pg_sys::Relation,
    there: &There,
    row: RowNumber,
    fate: RowFate,
    cid: pg_sys::CommandId,
    may_collect: bool,
) {
    let (store, mut placed) = (&there.store, there.placed);
    // SAFETY: the relation is open.
    unsafe {
        let oid = (*rel).rd_id;
        elsewhere::note(oid, &placed.entry);
        let many = may_collect
            && Locks::of(rel).holds_bulk(placed.entry.group(), RowLock::Update)
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
            last_change::note(rel, row, cid);
            Located::note_marked(store, row);
            pending_marks::note_marked(oid, row);
            check_change(rel, row, placed.entry.group());
        }
        load::note_marked(oid, &placed);
    }
}

/// Deletes a cold row, as `table_tuple_delete` says.
///
/// # Safety
/// `rel` is open and locked for writing; the snapshot is valid or NULL.
pub unsafe fn delete(
    rel: pg_sys::Relation,
    row: RowNumber,
    cid: pg_sys::CommandId,
    crosscheck: pg_sys::Snapshot,
    wait: bool,
    tmfd: &mut pg_sys::TM_FailureData,
    changing_partition: bool,
) -> pg_sys::TM_Result::Type {
    let fate = if changing_partition {
        RowFate::MovedAway
    } else {
        RowFate::Deleted
    };
    // SAFETY: as for this function.
    unsafe {
        if crosscheck.is_null() && pending_marks::try_hide((*rel).rd_id, row, fate, cid) {
            pg_sys::pgstat_count_heap_delete(rel);
            return pg_sys::TM_Result::TM_Ok;
        }
        let (lock, purpose) = (RowLock::Update, pg_sys::XLTW_Oper::XLTW_Delete);
        let there = match grip_for_change(rel, row, lock, cid, crosscheck, wait, purpose, tmfd) {
            Ok(there) => there,
            Err(result) => return result,
        };
        stop_point!("delete_locked");
        let decoded = decoded::is_decoded(rel);
        if decoded {
            let entry = there.placed.entry;
            decoded::delete(rel, &there.store, entry, row, cid, changing_partition);
        } else {
            pg_sys::pgstat_count_heap_delete(rel);
        }
        hide(rel, &there, row, fate, cid, !decoded);
        stop_point!("delete_marked");
        there.let_go();
        pg_sys::TM_Result::TM_Ok
    }
}

/// Updates a cold row to the one in `slot`, which becomes a hot row, as `table_tuple_update` says.
///
/// # Safety
/// As for [`delete`]; `slot` holds a row of the table.
pub unsafe fn update(
    rel: pg_sys::Relation,
    row: RowNumber,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
    crosscheck: pg_sys::Snapshot,
    wait: bool,
    tmfd: &mut pg_sys::TM_FailureData,
    lockmode: &mut pg_sys::LockTupleMode::Type,
    update_indexes: &mut pg_sys::TU_UpdateIndexes::Type,
) -> pg_sys::TM_Result::Type {
    // SAFETY: as for this function.
    unsafe {
        // Who has locked the row FOR UPDATE takes it from those who share its key, as on heap.
        let locked = holds_locks() && Locks::of(rel).holds_row(row, RowLock::Update);
        let keeps_key = !locked && new_version::keeps_key(rel, row, slot);
        let lock = if keeps_key {
            *lockmode = pg_sys::LockTupleMode::LockTupleNoKeyExclusive;
            RowLock::NoKeyUpdate
        } else {
            *lockmode = pg_sys::LockTupleMode::LockTupleExclusive;
            RowLock::Update
        };
        *update_indexes = pg_sys::TU_UpdateIndexes::TU_None;
        let fate = || RowFate::Updated {
            to: (*slot).tts_tid,
            keeps_key,
        };
        if crosscheck.is_null() && pending_marks::may_hide((*rel).rd_id, row, cid) {
            new_version::insert(rel, slot, cid);
            if !pending_marks::try_hide((*rel).rd_id, row, fate(), cid) {
                pgrx::error!("could not hide a row that was to be hidden");
            }
            *update_indexes = new_version::enter_indexes(rel, row, slot);
            return pg_sys::TM_Result::TM_Ok;
        }
        let purpose = pg_sys::XLTW_Oper::XLTW_Update;
        let there = match grip_for_change(rel, row, lock, cid, crosscheck, wait, purpose, tmfd) {
            Ok(there) => there,
            Err(result) => return result,
        };
        stop_point!("update_locked");
        let decoded = decoded::is_decoded(rel);
        if decoded {
            decoded::update(rel, &there.store, there.placed.entry, row, slot, cid);
        } else {
            new_version::insert(rel, slot, cid);
        }
        let next = (*slot).tts_tid;
        stop_point!("update_inserted");
        hide(rel, &there, row, fate(), cid, !decoded);
        stop_point!("update_marked");
        if keeps_key {
            // After the mark was written: whoever comes later finds it, see `meet_updater`.
            let sharers = Locks::of(rel).holders(row);
            if !sharers.is_empty() && add_key_share(rel, &next, &sharers).is_err() {
                pgrx::error!("could not hand row locks on to a new row version");
            }
        }
        there.let_go();
        *update_indexes = new_version::enter_indexes(rel, row, slot);
        pg_sys::TM_Result::TM_Ok
    }
}

/// Where an update has put the new version, if the snapshot sees that update.
///
/// # Safety
/// `rel` is open, the snapshot valid.
pub unsafe fn version_after(
    rel: pg_sys::Relation,
    row: RowNumber,
    snapshot: pg_sys::Snapshot,
) -> Option<pg_sys::ItemPointerData> {
    // SAFETY: as for this function.
    unsafe {
        let oid = (*rel).rd_id;
        let store = ColdStore::open(rel, pg_sys::AccessShareLock)?;
        let in_force = &raw mut pg_sys::SnapshotSelfData;
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
}
