//! Locking cold rows, and finding out what has become of them.

use std::cell::RefCell;

use howdah_bridge::cold_lock::{Locks, RowLock, Wait, locker};
use howdah_bridge::hot::xmin_of;
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use pgrx::{PgSqlErrorCode, pg_sys};
use rustc_hash::FxHashMap;

use super::in_the_way::{Forbids, in_the_way};
use crate::am::last_change;
use crate::am::moment::Moment;
use crate::am::point_reader::sees_row_somewhere;
use crate::errors::{ColdError, or_raise, refuse};
use crate::settings;
use crate::stop_point;
use crate::store::directory::{self, GroupEntry, GroupFlags, GroupState, PlacedEntry};
use crate::store::marks::{self, Mark, RowFate, RowState};
use crate::store::pending_marks;
use crate::store::row_set::RowSet;

/// Rows changed in one group before the whole group is asked for: then they may be collected.
const CHANGES_PER_GROUP: u32 = 256;
/// Rows locked in one group before the whole group is asked for.
const LOCKS_PER_GROUP: u32 = 1_024;
/// Between two looks at a row that somebody else is looking at.
const NAP_MICROSECONDS: i64 = 100;
/// Row locks that a transaction holds before groups are asked for at once, and waited for.
const ROWS_IN_ALL: u32 = 4_096;

thread_local! {
    /// Row locks of this transaction. Too many after a subtransaction was
    /// rolled back, which does no harm.
    static LOCKED_ROWS: RefCell<LockedRows> = RefCell::default();
    /// The groups of the last rows. Forgotten when a subtransaction is rolled back, because that may
    /// have given up the locks on them.
    static LOCATED: RefCell<Vec<Located>> = const { RefCell::new(Vec::new()) };
}

#[derive(Default)]
struct LockedRows {
    /// Rows that were asked for, locked still or not.
    by_group: FxHashMap<(u32, u32), u32>,
    /// Locks that are held.
    in_all: u32,
}

/// Forgets what depends on marks and locks that a rolled back subtransaction may have made, or on a
/// file that was emptied in place.
pub fn forget_locks() {
    last_change::forget();
    LOCATED.with_borrow_mut(Vec::clear);
}

/// Forgets everything: the transaction is over.
pub fn reset() {
    forget_locks();
    LOCKED_ROWS.with_borrow_mut(|rows| {
        rows.in_all = 0;
        if rows.by_group.len() > MOST_LOCATED {
            rows.by_group = FxHashMap::default();
        } else {
            rows.by_group.clear();
        }
    });
}

/// Whether the transaction may hold locks of single rows.
pub(super) fn holds_locks() -> bool {
    LOCKED_ROWS.with_borrow(|rows| rows.in_all > 0)
}

/// A cold row whose lock is held.
pub(super) struct Grip {
    pub store: ColdStore,
    pub row: RowNumber,
    pub standing: Standing,
}

/// What has become of a row whose lock is held.
pub(super) enum Standing {
    /// It is there, in this group.
    There(PlacedEntry),
    /// It is there, and another, running transaction has marked it.
    Leaving(PlacedEntry, Mark),
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

/// Locks the row and looks at it, once nobody is in the way and nobody is about to change it in a way that the
/// lock forbids; `None` if it would have to wait and may not. `purpose` is told to those who wonder what we wait
/// for.
///
/// # Safety
/// `rel` is open and locked for writing or row locks.
pub(super) unsafe fn grip(
    rel: pg_sys::Relation,
    row: RowNumber,
    lock: RowLock,
    wait: Wait,
    cid: pg_sys::CommandId,
    purpose: pg_sys::XLTW_Oper::Type,
) -> Option<(Grip, Option<Locked>)> {
    // SAFETY: as for this function; nothing but locks is held while waiting.
    unsafe {
        // Others wait for it.
        pg_sys::GetCurrentTransactionId();
        let mut turn = None;
        loop {
            pgrx::check_for_interrupts!();
            let in_the_way = match take_hold(rel, row, lock, wait, cid, purpose) {
                Ok((mut grip, locked)) => match grip.standing {
                    Standing::Leaving(_, mark) if lock.forbids(&mark) => {
                        if let Some(locked) = locked {
                            locked.give_back();
                        }
                        vec![mark.xid]
                    }
                    Standing::Leaving(placed, _) => {
                        grip.standing = Standing::There(placed);
                        return Some((grip, locked));
                    }
                    _ => return Some((grip, locked)),
                },
                Err(Obstacle::Group) => return None,
                Err(Obstacle::Row) => match or_raise((*rel).rd_id, in_the_way(rel, row, lock)) {
                    Some(ids) => ids,
                    None => {
                        // For as long as somebody looks at the row.
                        pg_sys::pg_usleep(NAP_MICROSECONDS);
                        continue;
                    }
                },
            };
            if wait == Wait::Not && !in_the_way.is_empty() {
                return None;
            }
            if turn.is_none() && !in_the_way.is_empty() {
                turn = Locks::of(rel).take_turn(row, lock);
            }
            for id in in_the_way {
                pg_sys::XactLockTableWait(id, rel, &mut row.tid(), purpose);
            }
        }
    }
}

/// What keeps a row from being locked.
enum Obstacle {
    /// A lock on its whole group, which may not be waited for.
    Group,
    /// Locks on the row itself.
    Row,
}

/// Locks the row, if nobody is in the way, and looks at it. Waits for its group if it may.
unsafe fn take_hold(
    rel: pg_sys::Relation,
    row: RowNumber,
    lock: RowLock,
    wait: Wait,
    cid: pg_sys::CommandId,
    purpose: pg_sys::XLTW_Oper::Type,
) -> Result<(Grip, Option<Locked>), Obstacle> {
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
            let locked = lock_row(rel, group, row, lock, wait, purpose)?;
            let in_bulk = locks.holds_bulk(group, lock);
            let standing = Located::recall(&store, row, |l| {
                if in_bulk {
                    l.bulk = l.bulk.max(Some(lock));
                }
                l.standing_of(&store, row, cid, in_bulk)
            });
            let standing = or_raise(oid, standing.unwrap_or(Ok(Standing::Gone)));
            return Ok((
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
            return Ok((
                Grip {
                    store,
                    row,
                    standing,
                },
                None,
            ));
        };
        let locked = lock_row(rel, group, row, lock, wait, purpose)?;
        let standing = or_raise(oid, standing_of(oid, &store, group, row, cid));
        Ok((
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
pub(super) struct Located {
    table: pg_sys::Oid,
    file: (u32, u32),
    /// When the table was last seen to have this file.
    seen: Moment,
    placed: PlacedEntry,
    /// The command that loaded it, if that was our transaction.
    own: Option<pg_sys::CommandId>,
    /// The strongest lock on all of the group that is held.
    bulk: Option<RowLock>,
    /// Rows asked about while all of the group was locked.
    asked: u32,
    /// Rows that a command has changed.
    changed: (pg_sys::CommandId, u32),
    /// What is hidden of it, once they are many; then only we can hide more.
    hidden: Option<RowSet>,
}

/// Groups that are remembered; each takes 16 kB at most.
const MOST_LOCATED: usize = 64;
/// Rows of a wholly locked group that are asked about one by one before all its marks are read.
const FEW_ROWS: u32 = 32;

impl Located {
    /// Asks about the group of a row, if it is remembered.
    pub fn recall<R>(
        store: &ColdStore,
        row: RowNumber,
        ask: impl FnOnce(&mut Located) -> R,
    ) -> Option<R> {
        let file = store.identity();
        LOCATED.with_borrow_mut(|located| {
            let mut newest_first = located.iter_mut().rev();
            newest_first
                .find(|l| l.placed.entry.covers(row) && l.file == file)
                .map(|l| {
                    l.seen = Moment::now();
                    ask(l)
                })
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

    pub fn note_marked(store: &ColdStore, row: RowNumber) {
        Located::recall(store, row, |located| {
            let entry = &mut located.placed.entry;
            entry.flags = entry.flags.union(GroupFlags::ROW_MARKS);
            let first = entry.first_row.0;
            if let Some(hidden) = &mut located.hidden {
                hidden.insert((row.0 - first) as u32);
            }
        });
    }

    pub fn entry(&self) -> GroupEntry {
        self.placed.entry
    }

    /// Counts a row that the command changes; how many it has changed before.
    pub fn count_change(&mut self, command: pg_sys::CommandId) -> u32 {
        if self.changed.0 != command {
            self.changed = (command, 0);
        }
        self.changed.1 += 1;
        self.changed.1 - 1
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

    pub fn forget_hidden(&mut self) {
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
        stop_point!("group_recalled");
        // The entry was read under the group's lock: only its flags may have changed.
        self.placed = directory::refresh(store, &self.placed)?;
        self.stored_standing_of(store, row)
    }

    /// What the marks say of a row whose group's entry was read after the row was locked.
    fn stored_standing_of(&self, store: &ColdStore, row: RowNumber) -> Result<Standing, ColdError> {
        let placed = self.placed;
        Ok(match marks::state_of_row(store, &placed.entry, row)? {
            RowState::Marked(mark) => Standing::Marked(mark),
            RowState::Arriving(mark) => Standing::Leaving(placed, mark),
            RowState::Unmarked => Standing::There(placed),
        })
    }
}

impl Grip {
    pub fn look_again(&mut self, cid: pg_sys::CommandId, rel: pg_sys::Relation) {
        if let Standing::There(placed) | Standing::Leaving(placed, _) = &self.standing {
            let group = placed.entry.group();
            // SAFETY: the relation is open as long as its store.
            let table = unsafe { (*rel).rd_id };
            let standing = standing_of(table, &self.store, group, self.row, cid);
            self.standing = or_raise(table, standing);
        }
    }
}

/// The file and the group of a row that is known to be there, because all of its group is locked and what is
/// hidden of it is known: nothing needs to be asked.
///
/// # Safety
/// `rel` is open.
pub(super) unsafe fn known_there(
    rel: pg_sys::Relation,
    row: RowNumber,
    lock: RowLock,
    cid: pg_sys::CommandId,
) -> Option<GroupEntry> {
    if pending_marks::any() {
        return None;
    }
    // SAFETY: as for this function.
    let table = unsafe { (*rel).rd_id };
    LOCATED.with_borrow(|located| {
        let found = located
            .iter()
            .rev()
            .find(|l| l.table == table && l.placed.entry.covers(row))?;
        let position = found.placed.entry.position_of(row)?;
        let is_there = found.bulk >= Some(lock)
            && found.hidden.as_ref().is_some_and(|h| !h.contains(position))
            && found.own.is_none_or(|command| command < cid)
            && found.placed.entry.state == GroupState::Stored
            && found.seen == Moment::now();
        is_there.then_some(found.placed.entry)
    })
}

/// The stored group of a row, if this transaction has locked the group for work on its rows: then it stays
/// where it is, and so does the row, whatever its marks say.
///
/// # Safety
/// `rel` is open.
pub(in crate::am) unsafe fn held_group(
    rel: pg_sys::Relation,
    row: RowNumber,
) -> Option<GroupEntry> {
    // SAFETY: as for this function.
    let table = unsafe { (*rel).rd_id };
    LOCATED.with_borrow(|located| {
        let mut newest_first = located.iter().rev();
        let found = newest_first.find(|l| l.table == table && l.placed.entry.covers(row))?;
        let entry = found.placed.entry;
        (entry.state == GroupState::Stored && found.seen == Moment::now()).then_some(entry)
    })
}

/// A row lock that was newly taken. Others wait for it once it is kept, or dropped, which keeps it too.
#[must_use]
pub(super) struct Locked {
    locks: Locks,
    row: RowNumber,
    lock: RowLock,
}

impl Locked {
    /// The lock stays, for now at least.
    pub fn keep(&self) {
        locker::decided();
    }

    pub fn give_back(self) {
        LOCKED_ROWS.with_borrow_mut(|rows| rows.in_all = rows.in_all.saturating_sub(1));
        self.locks.unlock_row(self.row, self.lock);
        std::mem::forget(self);
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.keep();
    }
}

/// `None` if there is nothing to give back. Past some rows the whole group is asked for.
unsafe fn lock_row(
    rel: pg_sys::Relation,
    group: u32,
    row: RowNumber,
    lock: RowLock,
    wait: Wait,
    purpose: pg_sys::XLTW_Oper::Type,
) -> Result<Option<Locked>, Obstacle> {
    let most = match purpose {
        pg_sys::XLTW_Oper::XLTW_Lock => LOCKS_PER_GROUP,
        _ => CHANGES_PER_GROUP,
    };
    // SAFETY: the relation is open.
    let (locks, table) = unsafe { (Locks::of(rel), (*rel).rd_id.to_u32()) };
    // Then nothing of the group can be locked yet.
    let is_first = LOCKED_ROWS.with_borrow(|rows| !rows.by_group.contains_key(&(table, group)));
    if !is_first && locks.holds_bulk(group, lock) {
        return Ok(None);
    }
    if !locks.lock_group(group, lock, wait, is_first) {
        return Err(Obstacle::Group);
    }
    let (in_group, in_all) = LOCKED_ROWS.with_borrow_mut(|rows| {
        let in_group = rows.by_group.entry((table, group)).or_default();
        *in_group += 1;
        (*in_group, rows.in_all)
    });
    // Asking is not free: not for every row while somebody is in the way.
    let many_here = in_group >= most && in_group.is_multiple_of(CHANGES_PER_GROUP / 8);
    if (many_here || in_all > ROWS_IN_ALL) && settings::group_locks() {
        let policy = if in_all > ROWS_IN_ALL {
            wait
        } else {
            Wait::Not
        };
        if locks.lock_in_bulk(group, lock, policy) {
            return Ok(None);
        }
    }
    let is_new = locks.try_row(row, lock).ok_or(Obstacle::Row)?;
    if is_new {
        LOCKED_ROWS.with_borrow_mut(|rows| rows.in_all += 1);
    }
    Ok(is_new.then_some(Locked { locks, row, lock }))
}

fn standing_of(
    table: pg_sys::Oid,
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
    let known = directory::settled(store, row).filter(|p| p.entry.group() == group);
    let found = match known {
        Some(placed) => Some(placed),
        None => directory::entry_covering(store, group, row, &mut in_force)?,
    };
    let Some(placed) = found else {
        if let Some((to, by)) = marks::forwarded(store, group, row)? {
            return Ok(Standing::Moved { to, by });
        }
        // What was hidden from everybody else may still be seen by our snapshot.
        let mark = marks::of_dropped_row(store, group, row)?;
        return Ok(mark.map_or(Standing::Gone, Standing::Marked));
    };
    let located = Located {
        table,
        file: store.identity(),
        seen: Moment::now(),
        placed,
        own,
        bulk: None,
        asked: 0,
        changed: (cid, 0),
        hidden: None,
    };
    let standing = match own.is_some_and(|command| command >= cid) {
        true => Ok(Standing::Unborn),
        false => located.stored_standing_of(store, row),
    };
    // A group that is still being loaded gives back the end of its range, which the next one gets.
    if placed.entry.state == GroupState::Stored {
        located.remember();
    }
    standing
}

impl Standing {
    /// What the executor is told, `TM_Ok` if the row is there.
    pub fn report(
        &self,
        tid: pg_sys::ItemPointerData,
        cid: pg_sys::CommandId,
        tmfd: &mut pg_sys::TM_FailureData,
    ) -> pg_sys::TM_Result::Type {
        use pg_sys::TM_Result::*;
        let nobody = pg_sys::InvalidTransactionId;
        let (result, ctid, xmax, cmax) = match self {
            Standing::There(_) | Standing::Leaving(..) => return TM_Ok,
            Standing::Unborn => (TM_Invisible, tid, nobody, None),
            Standing::Gone => (TM_Deleted, tid, nobody, None),
            Standing::Moved { to, by } => (TM_Updated, to.tid(), *by, None),
            Standing::Marked(mark) => {
                let (result, ctid) = match mark.fate {
                    RowFate::Deleted => (TM_Deleted, tid),
                    RowFate::Updated { to, .. } => (TM_Updated, to),
                    RowFate::MovedAway => (TM_Updated, marks::moved_to_another_partition()),
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

/// A row that is there, and locked.
pub(super) struct There {
    pub store: ColdStore,
    pub placed: PlacedEntry,
    /// The lock, if it was taken for the change. Once the row is marked the mark does as well.
    pub locked: Option<Locked>,
}

impl There {
    /// Gives the row's lock back after the row was marked: who comes now finds the mark, and waits for our
    /// transaction. So changes do not fill the server's lock table.
    pub fn let_go(self) {
        if let Some(locked) = self.locked {
            locked.give_back();
        }
    }
}

/// Grips the row for a change; the executor's answer where it cannot be changed.
///
/// # Safety
/// As for [`super::delete`].
pub(super) unsafe fn grip_for_change(
    rel: pg_sys::Relation,
    row: RowNumber,
    lock: RowLock,
    cid: pg_sys::CommandId,
    crosscheck: pg_sys::Snapshot,
    wait: bool,
    purpose: pg_sys::XLTW_Oper::Type,
    tmfd: &mut pg_sys::TM_FailureData,
) -> Result<There, pg_sys::TM_Result::Type> {
    // SAFETY: as for the callers.
    unsafe {
        let patience = if wait { Wait::Forever } else { Wait::Not };
        let Some((grip, locked)) = grip(rel, row, lock, patience, cid, purpose) else {
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
        if !crosscheck.is_null() && !sees_row_somewhere(&grip.store, rel, grip.row, crosscheck) {
            *tmfd = pg_sys::TM_FailureData {
                ctid: row.tid(),
                cmax: pg_sys::InvalidCommandId,
                ..Default::default()
            };
            return Err(pg_sys::TM_Result::TM_Updated);
        }
        if let Some(locked) = &locked {
            locked.keep();
        }
        Ok(There {
            store: grip.store,
            placed,
            locked,
        })
    }
}
