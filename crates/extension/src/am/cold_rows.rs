//! Deleting, updating and locking cold rows.
//!
//! ```text
//!   1  lock the group for row work, then the row      (bridge::cold_lock)
//!   2  what has become of the row by now?
//!        its group was merged away ──> updated, to its place in the new group
//!        a mark is in force        ──> deleted, updated, or changed by ourselves
//!   3  nothing: write the mark      (an update inserts the new version, hot, before)
//! ```
//!
//! Locks are held to the end of the transaction, so what step 2 finds stays true, and two marks for
//! one row cannot be in force. Whoever is told that the row was updated follows the TID it is given,
//! as on heap; the way may lead from cold to hot and back.
//!
//! A reader sees the old version until the mark's transaction commits, and no version or the new
//! one after; index entries of the old version stay until VACUUM. A crash loses an uncommitted mark,
//! which is void anyway. A damaged mark raises XX001.
//!
//! Many rows: past [`ROWS_PER_GROUP`] locks in a group the whole group is asked for, without
//! waiting; past [`ROWS_IN_ALL`] in all, with waiting. So the server's lock table does not fill up.

use std::cell::RefCell;
use std::collections::HashMap;

use howdah_bridge::cold_lock::{Locks, RowLock, Wait, announce};
use howdah_bridge::ffi;
use howdah_bridge::hot::lock::{Meeting, Version, follow, meet};
use howdah_bridge::hot::share::add_key_share;
use howdah_bridge::hot::xmin_of;
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::{RowNumber, is_cold};
use pgrx::{PgSqlErrorCode, pg_sys};

use super::decoded;
use super::fetch::{PointReader, sees_row};
use super::heap;
use crate::errors::{ColdError, or_raise, refuse};
use crate::load;
use crate::stop_point;
use crate::store::directory::{self, GroupFlags, GroupState, PlacedEntry};
use crate::store::marks::{self, Mark, RowFate};
use crate::store::pending_marks::{self, Hidden};
use crate::store::row_set::RowSet;
use crate::store::view::point_value;

/// Row locks in one group before the whole group is asked for.
const ROWS_PER_GROUP: u32 = 512;
/// Row locks of a transaction before groups are asked for at once, and waited for.
const ROWS_IN_ALL: u32 = 4_096;

thread_local! {
    /// Row locks of this transaction, by table and group. Too many after a subtransaction was
    /// rolled back, which does no harm.
    static LOCKED_ROWS: RefCell<LockedRows> = RefCell::default();
    /// The groups of the last rows. Forgotten when a subtransaction is rolled back, because that may
    /// have given up the locks on them.
    static LOCATED: RefCell<Vec<Located>> = const { RefCell::new(Vec::new()) };
}

#[derive(Default)]
struct LockedRows {
    by_group: HashMap<(u32, u32), u32>,
    in_all: u32,
}

/// Forgets what depends on locks that a rolled back subtransaction may have held.
pub fn forget_locks() {
    LOCATED.with_borrow_mut(Vec::clear);
}

/// Forgets everything: the transaction is over.
pub fn reset() {
    forget_locks();
    LOCKED_ROWS.with_borrow_mut(|rows| {
        if rows.in_all > 0 {
            *rows = LockedRows::default();
        }
    });
}

/// A cold row whose lock is held.
struct Grip {
    store: ColdStore,
    row: RowNumber,
    standing: Standing,
}

/// What has become of a row whose lock is held.
enum Standing {
    /// It is there, in this group.
    There(PlacedEntry),
    Marked(Mark),
    /// Loaded by this very command, or one that runs outside of it.
    Unborn,
    /// Its group was merged into another one.
    Moved {
        to: RowNumber,
        by: pg_sys::TransactionId,
    },
    /// Its group is gone, with everything in it.
    Gone,
}

/// Locks the row and looks at it; `None` if it would have to wait and may not.
///
/// # Safety
/// `rel` is open and locked for writing or row locks.
unsafe fn grip(
    rel: pg_sys::Relation,
    row: RowNumber,
    lock: RowLock,
    wait: Wait,
    cid: pg_sys::CommandId,
) -> Option<(Grip, Option<Locked>)> {
    // SAFETY: as for this function.
    unsafe {
        let oid = (*rel).rd_id;
        let Some(store) = ColdStore::open(rel, pg_sys::RowExclusiveLock) else {
            refuse(
                PgSqlErrorCode::ERRCODE_DATA_CORRUPTED,
                format!("table with OID {} has no cold store", oid.to_u32()),
                None,
            )
        };
        if let Some(group) = Located::recall(&store, row, |l| l.placed.entry.group()) {
            let locks = Locks::of(rel);
            let locked = lock_row(locks, oid.to_u32(), group, row, lock, wait)?;
            let in_bulk = locks.holds_bulk(group, lock);
            let standing =
                Located::recall(&store, row, |l| l.standing_of(&store, row, cid, in_bulk));
            let standing = or_raise(oid, standing.unwrap_or(Ok(Standing::Gone)));
            return Some((
                Grip {
                    store,
                    row,
                    standing,
                },
                locked,
            ));
        }
        let Some(group) = directory::nearest_group(&store, row) else {
            let standing = Standing::Gone;
            return Some((
                Grip {
                    store,
                    row,
                    standing,
                },
                None,
            ));
        };
        let locked = lock_row(Locks::of(rel), oid.to_u32(), group, row, lock, wait)?;
        let standing = or_raise(oid, standing_of(&store, group, row, cid));
        Some((
            Grip {
                store,
                row,
                standing,
            },
            locked,
        ))
    }
}

/// A group that this transaction has locked for work on its rows: it stays where it is.
struct Located {
    file: (u32, u32),
    placed: PlacedEntry,
    /// The command that loaded it, if that was our transaction.
    own: Option<pg_sys::CommandId>,
    /// Rows asked about while all of the group was locked.
    asked: u32,
    /// What is hidden of it, once they are many; then only we can hide more.
    hidden: Option<RowSet>,
}

/// Groups that are remembered; each takes 16 kB at most.
const MOST_LOCATED: usize = 64;
/// Rows of a wholly locked group that are asked about one by one before all its marks are read.
const FEW_ROWS: u32 = 32;

impl Located {
    /// Asks about the group of a row, if it is remembered.
    fn recall<R>(
        store: &ColdStore,
        row: RowNumber,
        ask: impl FnOnce(&mut Located) -> R,
    ) -> Option<R> {
        let file = store.identity();
        LOCATED.with_borrow_mut(|located| {
            let mut newest_first = located.iter_mut().rev();
            newest_first
                .find(|l| l.placed.entry.covers(row) && l.file == file)
                .map(ask)
        })
    }

    fn remember(self) {
        LOCATED.with_borrow_mut(|located| {
            if located.len() >= MOST_LOCATED {
                located.remove(0);
            }
            located.push(self);
        });
    }

    fn note_marked(store: &ColdStore, row: RowNumber) {
        Located::recall(store, row, |located| {
            let entry = &mut located.placed.entry;
            entry.flags = entry.flags.union(GroupFlags::ROW_MARKS);
            let first = entry.first_row.0;
            if let Some(hidden) = &mut located.hidden {
                hidden.insert((row.0 - first) as u32);
            }
        });
    }

    /// Whether a row of a wholly locked group is known to have no mark.
    fn is_unmarked(&mut self, store: &ColdStore, row: RowNumber) -> Result<bool, ColdError> {
        if pending_marks::any() {
            // They may be written, and be pending no more, without our notice.
            return Ok(false);
        }
        self.asked += 1;
        if self.asked <= FEW_ROWS {
            return Ok(false);
        }
        let hidden = match &self.hidden {
            Some(hidden) => hidden,
            None => {
                self.placed = directory::refresh(store, &self.placed)?;
                let entry = &self.placed.entry;
                let none = || RowSet::with_bound(entry.capacity_rows);
                let hidden = marks::hidden_now(store, entry)?;
                self.hidden.insert(hidden.unwrap_or_else(none))
            }
        };
        let position = self.placed.entry.position_of(row);
        Ok(position.is_some_and(|p| !hidden.contains(p)))
    }

    fn forget_hidden(&mut self) {
        self.asked = 0;
        self.hidden = None;
    }

    fn standing_of(
        &mut self,
        store: &ColdStore,
        row: RowNumber,
        cid: pg_sys::CommandId,
        in_bulk: bool,
    ) -> Result<Standing, ColdError> {
        if self.own.is_some_and(|command| command >= cid) {
            return Ok(Standing::Unborn);
        }
        if in_bulk && self.is_unmarked(store, row)? {
            return Ok(Standing::There(self.placed));
        }
        // The entry was read under the group's lock: only its flags may have changed.
        let placed = directory::refresh(store, &self.placed)?;
        self.placed = placed;
        Ok(match marks::of_row(store, &placed.entry, row)? {
            Some(mark) => Standing::Marked(mark),
            None => Standing::There(placed),
        })
    }
}

impl Grip {
    fn look_again(&mut self, cid: pg_sys::CommandId, rel: pg_sys::Relation) {
        if let Standing::There(placed) = &self.standing {
            let group = placed.entry.group();
            let standing = standing_of(&self.store, group, self.row, cid);
            // SAFETY: the relation is open as long as its store.
            self.standing = or_raise(unsafe { (*rel).rd_id }, standing);
        }
    }
}

/// A row lock that was newly taken and may be given back.
struct Locked {
    locks: Locks,
    row: RowNumber,
    lock: RowLock,
}

impl Locked {
    fn give_back(self) {
        self.locks.unlock_row(self.row, self.lock);
    }
}

/// `None` if it would have to wait and may not; `Some(None)` if there is nothing to give back.
fn lock_row(
    locks: Locks,
    table: u32,
    group: u32,
    row: RowNumber,
    lock: RowLock,
    wait: Wait,
) -> Option<Option<Locked>> {
    if locks.holds_bulk(group, lock) {
        return Some(None);
    }
    if !locks.lock_group(group, lock, wait) {
        return None;
    }
    let (in_group, in_all) = LOCKED_ROWS.with_borrow_mut(|rows| {
        rows.in_all += 1;
        let in_group = rows.by_group.entry((table, group)).or_default();
        *in_group += 1;
        (*in_group, rows.in_all)
    });
    // Asking is not free: not for every row while somebody is in the way.
    if in_group >= ROWS_PER_GROUP
        && in_group.is_multiple_of(ROWS_PER_GROUP / 8)
        && locks.lock_in_bulk(group, lock, Wait::Not)
        || in_all > ROWS_IN_ALL && locks.lock_in_bulk(group, lock, wait)
    {
        return Some(None);
    }
    let new = locks.lock_row(row, lock, wait)?;
    Some(new.then_some(Locked { locks, row, lock }))
}

fn standing_of(
    store: &ColdStore,
    group: u32,
    row: RowNumber,
    cid: pg_sys::CommandId,
) -> Result<Standing, ColdError> {
    let mut own = None;
    // SAFETY: judges are called with the page pinned and share-locked.
    let mut in_force = |tuple: pg_sys::HeapTuple, buffer: pg_sys::Buffer| unsafe {
        let header = (*tuple).t_data;
        let snapshot = &raw mut pg_sys::SnapshotSelfData;
        let in_force = pg_sys::HeapTupleSatisfiesVisibility(tuple, snapshot, buffer);
        if in_force && pg_sys::TransactionIdIsCurrentTransactionId(xmin_of(header)) {
            own = Some(pg_sys::HeapTupleHeaderGetCmin(header));
        }
        in_force
    };
    let Some(placed) = directory::entry_covering(store, group, row, &mut in_force)? else {
        return Ok(match marks::forwarded(store, group, row)? {
            Some((to, by)) => Standing::Moved { to, by },
            None => Standing::Gone,
        });
    };
    let file = store.identity();
    let mut located = Located {
        file,
        placed,
        own,
        asked: 0,
        hidden: None,
    };
    let standing = located.standing_of(store, row, cid, false);
    located.remember();
    standing
}

impl Standing {
    /// What the executor is told, `TM_Ok` if the row is there.
    fn report(
        &self,
        tid: pg_sys::ItemPointerData,
        cid: pg_sys::CommandId,
        tmfd: &mut pg_sys::TM_FailureData,
    ) -> pg_sys::TM_Result::Type {
        use pg_sys::TM_Result::*;
        let nobody = pg_sys::InvalidTransactionId;
        let (result, ctid, xmax, cmax) = match self {
            Standing::There(_) => return TM_Ok,
            Standing::Unborn => (TM_Invisible, tid, nobody, None),
            Standing::Gone => (TM_Deleted, tid, nobody, None),
            Standing::Moved { to, by } => (TM_Updated, to.tid(), *by, None),
            Standing::Marked(mark) => {
                let (result, ctid) = match mark.fate {
                    RowFate::Deleted => (TM_Deleted, tid),
                    RowFate::Updated { to, .. } => (TM_Updated, to),
                    RowFate::MovedAway => (TM_Updated, moved_to_another_partition()),
                };
                match mark.own {
                    Some(command) if command >= cid => {
                        (TM_SelfModified, ctid, mark.xid, Some(command))
                    }
                    Some(_) => (TM_Invisible, ctid, mark.xid, None),
                    None => (result, ctid, mark.xid, None),
                }
            }
        };
        *tmfd = pg_sys::TM_FailureData {
            ctid,
            xmax,
            cmax: cmax.unwrap_or(pg_sys::InvalidCommandId),
            traversed: false,
        };
        result
    }
}

/// `ItemPointerSetMovedPartitions`
fn moved_to_another_partition() -> pg_sys::ItemPointerData {
    howdah_bridge::tid::tid_of(
        pg_sys::InvalidBlockNumber,
        pg_sys::MovedPartitionsOffsetNumber as u16,
    )
}

/// Grips the row for a change; the executor's answer where it cannot be changed.
unsafe fn grip_for_change(
    rel: pg_sys::Relation,
    row: RowNumber,
    lock: RowLock,
    cid: pg_sys::CommandId,
    crosscheck: pg_sys::Snapshot,
    wait: bool,
    tmfd: &mut pg_sys::TM_FailureData,
) -> Result<(ColdStore, PlacedEntry), pg_sys::TM_Result::Type> {
    // SAFETY: as for the callers.
    unsafe {
        let patience = if wait { Wait::Forever } else { Wait::Not };
        let Some((grip, locked)) = grip(rel, row, lock, patience, cid) else {
            *tmfd = pg_sys::TM_FailureData {
                ctid: row.tid(),
                ..Default::default()
            };
            return Err(pg_sys::TM_Result::TM_BeingModified);
        };
        let result = grip.standing.report(row.tid(), cid, tmfd);
        let Standing::There(placed) = grip.standing else {
            if let Some(locked) = locked {
                locked.give_back();
            }
            return Err(result);
        };
        if !crosscheck.is_null() && !sees_row(&grip.store, rel, grip.row, crosscheck) {
            *tmfd = pg_sys::TM_FailureData {
                ctid: row.tid(),
                cmax: pg_sys::InvalidCommandId,
                ..Default::default()
            };
            return Err(pg_sys::TM_Result::TM_Updated);
        }
        check_for_serializable_conflict(rel);
        Ok((grip.store, placed))
    }
}

/// Readers of cold rows lock the relation for predicate purposes: they must notice a change.
unsafe fn check_for_serializable_conflict(rel: pg_sys::Relation) {
    // SAFETY: the relation is open.
    unsafe {
        if pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32 {
            let none = std::ptr::null_mut();
            ffi::CheckForSerializableConflictIn(rel, none, pg_sys::InvalidBlockNumber);
        }
    }
}

unsafe fn mark(
    rel: pg_sys::Relation,
    store: &ColdStore,
    mut placed: PlacedEntry,
    row: RowNumber,
    fate: RowFate,
    cid: pg_sys::CommandId,
) {
    // SAFETY: the relation is open.
    unsafe {
        let oid = (*rel).rd_id;
        or_raise(oid, marks::write(store, &mut placed, row, fate, cid));
        Located::note_marked(store, row);
        load::note_marked(oid, &placed);
        pending_marks::note_marked(oid, row);
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
    // SAFETY: as for this function.
    unsafe {
        if crosscheck.is_null() && pending_marks::try_hide((*rel).rd_id, row, cid) == Hidden::Now {
            check_for_serializable_conflict(rel);
            pg_sys::pgstat_count_heap_delete(rel);
            return pg_sys::TM_Result::TM_Ok;
        }
        let lock = RowLock::Update;
        let (store, mut placed) = match grip_for_change(rel, row, lock, cid, crosscheck, wait, tmfd)
        {
            Ok(there) => there,
            Err(result) => return result,
        };
        stop_point!("delete_locked");
        let fate = if changing_partition {
            RowFate::MovedAway
        } else {
            RowFate::Deleted
        };
        let oid = (*rel).rd_id;
        if decoded::is_decoded(rel) {
            decoded::delete(rel, &store, placed.entry, row, cid, changing_partition);
            mark(rel, &store, placed, row, fate, cid);
            stop_point!("delete_marked");
            return pg_sys::TM_Result::TM_Ok;
        }
        let in_bulk = !changing_partition
            && Locks::of(rel).holds_bulk(placed.entry.group(), lock)
            && or_raise(
                oid,
                pending_marks::start(&store, oid, &mut placed, row, cid),
            );
        if in_bulk {
            Located::recall(&store, row, Located::forget_hidden);
            load::note_marked(oid, &placed);
        } else {
            mark(rel, &store, placed, row, fate, cid);
            stop_point!("delete_marked");
        }
        pg_sys::pgstat_count_heap_delete(rel);
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
        let lock = if keeps_key(rel, row, slot) {
            *lockmode = pg_sys::LockTupleMode::LockTupleNoKeyExclusive;
            RowLock::NoKeyUpdate
        } else {
            *lockmode = pg_sys::LockTupleMode::LockTupleExclusive;
            RowLock::Update
        };
        *update_indexes = pg_sys::TU_UpdateIndexes::TU_None;
        let (store, placed) = match grip_for_change(rel, row, lock, cid, crosscheck, wait, tmfd) {
            Ok(there) => there,
            Err(result) => return result,
        };
        stop_point!("update_locked");
        if decoded::is_decoded(rel) {
            decoded::update(rel, &store, placed.entry, row, slot, cid);
        } else {
            (heap().tuple_insert.unwrap_unchecked())(rel, slot, cid, 0, std::ptr::null_mut());
            // Heap has counted an insert.
            pg_sys::pgstat_count_heap_insert(rel, -1);
            pg_sys::pgstat_count_heap_update(rel, false, false);
        }
        let next = (*slot).tts_tid;
        let fate = RowFate::Updated {
            to: next,
            keeps_key: lock == RowLock::NoKeyUpdate,
        };
        stop_point!("update_inserted");
        mark(rel, &store, placed, row, fate, cid);
        stop_point!("update_marked");
        if lock == RowLock::NoKeyUpdate {
            // After the mark was written: whoever comes later finds it, see `meet_updater`.
            let sharers = Locks::of(rel).key_sharers(row);
            if !sharers.is_empty() && !add_key_share(rel, &next, &sharers) {
                pgrx::error!("could not hand row locks on to a new row version");
            }
        }
        *update_indexes = pg_sys::TU_UpdateIndexes::TU_All;
        pg_sys::TM_Result::TM_Ok
    }
}

/// Whether the new row has the old one's values in every column that a foreign key may refer to.
unsafe fn keeps_key(
    rel: pg_sys::Relation,
    row: RowNumber,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the relation is open; the slot holds a row of it. The old row never changes, so it
    // may be read before it is locked.
    unsafe {
        let keys = pg_sys::RelationGetIndexAttrBitmap(
            rel,
            pg_sys::IndexAttrBitmapKind::INDEX_ATTR_BITMAP_KEY,
        );
        let mut attributes = Vec::new();
        let mut member = pg_sys::bms_next_member(keys, -1);
        while member >= 0 {
            attributes.push(member + pg_sys::FirstLowInvalidHeapAttributeNumber);
            member = pg_sys::bms_next_member(keys, member);
        }
        pg_sys::bms_free(keys);
        if attributes.is_empty() {
            return true;
        }
        let oid = (*rel).rd_id;
        let Some(store) = ColdStore::open(rel, pg_sys::AccessShareLock) else {
            return false;
        };
        let in_force = &raw mut pg_sys::SnapshotSelfData;
        let entry = match Located::recall(&store, row, |l| l.placed.entry) {
            Some(entry) => Some(entry),
            None => or_raise(oid, directory::group_of(&store, row, in_force)).map(|p| p.entry),
        };
        let Some((entry, position)) = entry.and_then(|e| Some((e, e.position_of(row)?))) else {
            return false;
        };
        entry.state == GroupState::Stored
            && attributes.iter().all(|&number| {
                let desc = (*rel).rd_att;
                let attribute = &*pg_sys::TupleDescAttr(desc, number - 1);
                let old = point_value(&store, entry, position, desc, number as usize - 1);
                let mut null = false;
                let new = pg_sys::slot_getattr(slot, number, &mut null);
                match or_raise(oid, old) {
                    None => null,
                    Some(_) if null => false,
                    Some(old) => ffi::datum_image_eq(
                        old,
                        new,
                        attribute.attbyval,
                        i32::from(attribute.attlen),
                    ),
                }
            })
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
        let placed = or_raise(
            oid,
            directory::group_of(&store, row, &raw mut pg_sys::SnapshotSelfData),
        )?;
        if !or_raise(oid, marks::hides(&store, &placed.entry, row, snapshot)) {
            return None;
        }
        match or_raise(oid, marks::of_row(&store, &placed.entry, row))?.fate {
            RowFate::Updated { to, .. } => Some(to),
            RowFate::Deleted | RowFate::MovedAway => None,
        }
    }
}

/// Locks a row, hot or cold, as `table_tuple_lock` says.
///
/// # Safety
/// Arguments are those of the executor's call.
pub unsafe fn lock(
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
    mode: pg_sys::LockTupleMode::Type,
    wait_policy: pg_sys::LockWaitPolicy::Type,
    flags: u8,
    tmfd: *mut pg_sys::TM_FailureData,
) -> pg_sys::TM_Result::Type {
    use pg_sys::TM_Result::*;
    let to_the_last = u32::from(flags) & pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION != 0;
    let mut traversed = false;
    // SAFETY: as for this function.
    unsafe {
        loop {
            let (result, failure) = match RowNumber::from_tid(&*tid) {
                Some(row) => {
                    let mut failure = pg_sys::TM_FailureData::default();
                    let result =
                        lock_cold(rel, row, slot, cid, mode, wait_policy, flags, &mut failure);
                    (result, failure)
                }
                None => match meet(rel, *tid, wait_policy) {
                    Meeting::Hot(_pin) => {
                        let result = (heap().tuple_lock.unwrap_unchecked())(
                            rel,
                            tid,
                            snapshot,
                            slot,
                            cid,
                            mode,
                            wait_policy,
                            flags,
                            tmfd,
                        );
                        (*tmfd).traversed |= traversed;
                        return result;
                    }
                    Meeting::WouldBlock => return TM_WouldBlock,
                    Meeting::Moved { ctid, xmax } => (
                        TM_Updated,
                        pg_sys::TM_FailureData {
                            ctid,
                            xmax,
                            cmax: pg_sys::InvalidCommandId,
                            traversed: false,
                        },
                    ),
                },
            };
            *tmfd = pg_sys::TM_FailureData {
                traversed,
                ..failure
            };
            if result != TM_Updated || !to_the_last {
                return result;
            }
            traversed = true;
            (*tmfd).traversed = true;
            match follow(rel, failure.ctid, failure.xmax, cid, wait_policy) {
                Version::Live(next) => *tid = next,
                Version::Gone => return TM_Deleted,
                Version::WouldBlock => return TM_WouldBlock,
                Version::MovedAway => refuse(
                    PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                    "tuple to be locked was already moved to another partition due to concurrent update"
                        .into(),
                    None,
                ),
                Version::OfThisCommand { xid, cmin } => {
                    (*tmfd).xmax = xid;
                    (*tmfd).cmax = cmin;
                    return TM_SelfModified;
                }
            }
        }
    }
}

/// Whoever shares the key of a row that is being updated shares that of the new version as well.
/// Where that cannot be arranged the updater is to be waited for.
unsafe fn meet_updater(
    rel: pg_sys::Relation,
    grip: &Grip,
    lock: RowLock,
    own_xid: pg_sys::TransactionId,
) -> Option<pg_sys::TransactionId> {
    let Standing::There(placed) = &grip.standing else {
        return None;
    };
    if lock != RowLock::KeyShare {
        return None;
    }
    // SAFETY: the relation is open. A new version of a running transaction is not vacuumed away.
    unsafe {
        let oid = (*rel).rd_id;
        let mark = or_raise(oid, marks::arriving(&grip.store, &placed.entry, grip.row))?;
        let arranged = match mark.fate {
            RowFate::Updated { to, .. } if !is_cold(&to) => add_key_share(rel, &to, &[own_xid]),
            _ => false,
        };
        (!arranged).then_some(mark.xid)
    }
}

unsafe fn lock_cold(
    rel: pg_sys::Relation,
    row: RowNumber,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
    mode: pg_sys::LockTupleMode::Type,
    wait_policy: pg_sys::LockWaitPolicy::Type,
    flags: u8,
    failure: &mut pg_sys::TM_FailureData,
) -> pg_sys::TM_Result::Type {
    use pg_sys::LockWaitPolicy::{LockWaitBlock, LockWaitError};
    // SAFETY: as for `lock`.
    unsafe {
        let wait = if wait_policy == LockWaitBlock {
            Wait::Forever
        } else {
            Wait::Not
        };
        let own_xid = announce();
        let (grip, locked) = loop {
            let gripped = grip(rel, row, RowLock::of(mode), wait, cid);
            let met = match &gripped {
                Some((grip, _)) => meet_updater(rel, grip, RowLock::of(mode), own_xid),
                None => None,
            };
            match (gripped, met) {
                (Some((mut grip, locked)), None) => {
                    if mode == pg_sys::LockTupleMode::LockTupleKeyShare {
                        // The updater that was not met may have committed since the row was looked at.
                        grip.look_again(cid, rel);
                    }
                    break (grip, locked);
                }
                (Some((_, locked)), Some(updater)) if wait_policy == LockWaitBlock => {
                    // Waiting with the lock held could be a deadlock that heap does not know.
                    if let Some(locked) = locked {
                        locked.give_back();
                    }
                    let oper = pg_sys::XLTW_Oper::XLTW_Lock;
                    pg_sys::XactLockTableWait(updater, rel, &mut row.tid(), oper);
                }
                (gripped, _) => {
                    if let Some((_, Some(locked))) = gripped {
                        locked.give_back();
                    }
                    if wait_policy == LockWaitError {
                        let name = howdah_bridge::relation::name_of(rel);
                        refuse(
                            PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
                            format!("could not obtain lock on row in relation \"{name}\""),
                            None,
                        );
                    }
                    return pg_sys::TM_Result::TM_WouldBlock;
                }
            }
        };
        stop_point!("lock_taken");
        let mut result = grip.standing.report(row.tid(), cid, failure);
        if mode == pg_sys::LockTupleMode::LockTupleKeyShare
            && u32::from(flags) & pg_sys::TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS != 0
            && let Standing::Marked(mark) = &grip.standing
            && let (
                RowFate::Updated {
                    mut to,
                    keeps_key: true,
                },
                None,
            ) = (mark.fate, mark.own)
        {
            // As on heap: the old version may be had if the new ones can be locked along with it.
            let alone = flags & !(pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION as u8);
            let snapshot = std::ptr::null_mut();
            result = lock(
                rel,
                &mut to,
                snapshot,
                slot,
                cid,
                mode,
                wait_policy,
                alone,
                failure,
            );
        }
        if result != pg_sys::TM_Result::TM_Ok {
            if let Some(locked) = locked {
                locked.give_back();
            }
            return result;
        }
        pg_sys::ExecClearTuple(slot);
        let mut reader = PointReader::new();
        let found = match &grip.standing {
            Standing::There(placed) if placed.entry.state == GroupState::Stored => {
                reader.fetch_placed(&grip.store, rel, row, placed.entry, slot)
            }
            _ => {
                let any = &raw mut pg_sys::SnapshotAnyData;
                reader.fetch_from(&grip.store, rel, row, any, slot)
            }
        };
        reader.end();
        if found {
            result
        } else {
            pg_sys::TM_Result::TM_Deleted
        }
    }
}
