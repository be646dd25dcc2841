//! Locking cold rows, and learning their standing under the lock.

use std::cell::RefCell;

use howdah_bridge::Oid;
use howdah_bridge::cold_lock::{self, Locks, RowLock, Wait, locker};
use howdah_bridge::row_request::{ChangeRequest, Purpose, Refusal, RowFailure, RowResult};
use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{RowNumber, Tid};
use howdah_bridge::xid::{CommandId, INVALID_COMMAND, Xid};
use pgrx::PgSqlErrorCode;
use rustc_hash::FxHashMap;

use super::blockers::{Forbids, blockers};
use crate::am::last_change;
use crate::am::moment::Moment;
use crate::errors::{ColdError, or_raise, refuse};
use crate::settings;
use crate::stop_point;
use crate::store::directory::{self, GroupEntry, GroupFlags, GroupState, PlacedEntry};
use crate::store::marks::{self, Mark, RowFate, RowState};
use crate::store::pending_marks;
use crate::store::row_set::RowSet;
use crate::store::visibility::sees_row_somewhere;

/// Rows changed in one group before the whole group is requested: then they may be collected.
const CHANGES_PER_GROUP: u32 = 256;
/// Rows locked in one group before the whole group is requested.
const LOCKS_PER_GROUP: u32 = 1_024;
/// Between two attempts to lock a row that another backend holds for a moment.
const NAP_MICROSECONDS: i64 = 100;
/// Row locks that a transaction holds before whole groups are requested at once, with waiting.
const ROWS_IN_ALL: u32 = 4_096;

thread_local! {
    /// Row locks of this transaction. The count is too high after a subtransaction was rolled back,
    /// which does no harm.
    static LOCKED_ROWS: RefCell<LockedRows> = RefCell::default();
    /// The groups of the last rows. Discarded when a subtransaction is rolled back, because that
    /// may have released the locks on them.
    static LOCATED: RefCell<Vec<Located>> = const { RefCell::new(Vec::new()) };
}

#[derive(Default)]
struct LockedRows {
    /// Rows for which a lock was requested, whether or not they are still locked.
    by_group: FxHashMap<(u32, u32), u32>,
    /// Locks that are held.
    in_all: u32,
}

/// Discards what depends on marks and locks that a rolled-back subtransaction may have made, or on
/// a file that was truncated in place.
pub fn forget_locks() {
    last_change::forget();
    LOCATED.with_borrow_mut(Vec::clear);
}

/// Discards everything: the transaction is over.
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
pub(super) struct HeldRow<'a> {
    pub store: ColdStore<'a>,
    pub row: RowNumber,
    pub standing: Standing,
}

/// The standing of a row whose lock is held.
pub(super) enum Standing {
    /// The row is in this group, and no mark hides it.
    There(PlacedEntry),
    /// The same, but another transaction in progress has marked it.
    Leaving(PlacedEntry, Mark),
    Marked(Mark),
    /// Loaded by this command, or by one that this command runs inside.
    Unborn,
    /// The group was merged into another one.
    Moved {
        to: RowNumber,
        by: Xid,
    },
    /// The group is gone, with all of its rows.
    Gone,
}

/// Locks the row and learns its standing, once no other transaction holds a conflicting lock and no
/// transaction in progress is changing the row in a way that conflicts; `None` if that needs
/// waiting and `wait` forbids it. `purpose` tells what the wait is for. The table is locked for
/// writing or row locks. Nothing but locks is held while waiting.
pub(super) fn hold<'a>(
    table: Table<'a>,
    row: RowNumber,
    lock: RowLock,
    wait: Wait,
    cid: CommandId,
    purpose: Purpose,
) -> Option<(HeldRow<'a>, Option<Locked>)> {
    // Other transactions wait for this one by its id, so it needs one.
    Xid::current();
    let mut turn = None;
    loop {
        pgrx::check_for_interrupts!();
        let blockers = match take_hold(table, row, lock, wait, cid, purpose) {
            Ok((mut held, locked)) => match held.standing {
                Standing::Leaving(_, mark) if lock.forbids(&mark) => {
                    if let Some(locked) = locked {
                        locked.give_back();
                    }
                    vec![mark.xid]
                }
                Standing::Leaving(placed, _) => {
                    held.standing = Standing::There(placed);
                    return Some((held, locked));
                }
                _ => return Some((held, locked)),
            },
            Err(Obstacle::Group) => return None,
            Err(Obstacle::Row) => match or_raise(table.oid(), blockers(table, row, lock)) {
                Some(ids) => ids,
                None => {
                    // Another backend holds the lock only while it looks at the row.
                    cold_lock::nap(NAP_MICROSECONDS);
                    continue;
                }
            },
        };
        if wait == Wait::Not && !blockers.is_empty() {
            return None;
        }
        if turn.is_none() && !blockers.is_empty() {
            turn = Locks::of(table).take_turn(row, lock);
        }
        for id in blockers {
            cold_lock::wait_for(id, table, row, purpose);
        }
    }
}

/// The lock that keeps a row from being locked.
enum Obstacle {
    /// A lock on its whole group, which may not be waited for.
    Group,
    /// Locks on the row itself.
    Row,
}

/// Locks the row if that is possible now, and learns its standing. Waits for its group if `wait`
/// allows it.
fn take_hold<'a>(
    table: Table<'a>,
    row: RowNumber,
    lock: RowLock,
    wait: Wait,
    cid: CommandId,
    purpose: Purpose,
) -> Result<(HeldRow<'a>, Option<Locked>), Obstacle> {
    let oid = table.oid();
    let Some(store) = ColdStore::open(table, LockMode::RowExclusive) else {
        refuse(
            PgSqlErrorCode::ERRCODE_DATA_CORRUPTED,
            format!("table with OID {} has no cold store", oid.to_u32()),
            None,
        )
    };
    let (standing, locked) =
        if let Some(group) = Located::recall(&store, row, |l| l.placed.entry.group()) {
            let locks = Locks::of(table);
            let locked = lock_row(table, group, row, lock, wait, purpose)?;
            let in_bulk = locks.holds_bulk(group, lock);
            let standing = Located::recall(&store, row, |l| {
                if in_bulk {
                    l.bulk = l.bulk.max(Some(lock));
                }
                l.standing_of(&store, row, cid, in_bulk)
            });
            let standing = standing.unwrap_or(Ok(Standing::Gone));
            (or_raise(oid, standing), locked)
        } else if let Some(group) = directory::nearest_group(&store, row) {
            let locked = lock_row(table, group, row, lock, wait, purpose)?;
            let standing = standing_of(oid, &store, group, row, cid);
            (or_raise(oid, standing), locked)
        } else {
            (Standing::Gone, None)
        };
    let held = HeldRow {
        store,
        row,
        standing,
    };
    Ok((held, locked))
}

/// A group that this transaction has locked for row work: it is not merged away meanwhile.
pub(super) struct Located {
    table: Oid,
    file: StoreId,
    /// When the table was last seen to have this file.
    seen: Moment,
    placed: PlacedEntry,
    /// The command that loaded it, if that was our transaction.
    own: Option<CommandId>,
    /// The strongest lock held on the whole group.
    bulk: Option<RowLock>,
    /// Rows looked up while the whole group was locked.
    asked: u32,
    /// Rows that a command has changed.
    changed: (CommandId, u32),
    /// The hidden rows, once many were looked up; then only this transaction can hide more.
    hidden: Option<RowSet>,
}

/// Groups that are remembered; each takes 16 kB at most.
const MOST_LOCATED: usize = 64;
/// Rows of a wholly locked group that are looked up one by one before all its marks are read.
const FEW_ROWS: u32 = 32;

impl Located {
    /// Calls `ask` with the group of a row, if it is remembered.
    pub fn recall<R>(
        store: &ColdStore,
        row: RowNumber,
        ask: impl FnOnce(&mut Located) -> R,
    ) -> Option<R> {
        let file = store.id();
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

    /// Counts a row that the command changes; returns how many it has changed before.
    pub fn count_change(&mut self, command: CommandId) -> u32 {
        if self.changed.0 != command {
            self.changed = (command, 0);
        }
        self.changed.1 += 1;
        self.changed.1 - 1
    }

    /// Whether a row of a wholly locked group is known to have no mark.
    fn is_unmarked(&mut self, store: &ColdStore, row: RowNumber) -> Result<bool, ColdError> {
        if pending_marks::any() {
            // Marks may be written, and be pending no more, without notice here.
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
        cid: CommandId,
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

    /// The standing of a row by its marks. The entry of its group was read after the row was
    /// locked.
    fn stored_standing_of(&self, store: &ColdStore, row: RowNumber) -> Result<Standing, ColdError> {
        let placed = self.placed;
        Ok(match marks::state_of_row(store, &placed.entry, row)? {
            RowState::Marked(mark) => Standing::Marked(mark),
            RowState::Arriving(mark) => Standing::Leaving(placed, mark),
            RowState::Unmarked => Standing::There(placed),
        })
    }
}

impl HeldRow<'_> {
    /// Learns the standing of a row again that was there.
    pub fn look_again(&mut self, cid: CommandId, table: Table<'_>) {
        if let Standing::There(placed) | Standing::Leaving(placed, _) = &self.standing {
            let group = placed.entry.group();
            let standing = standing_of(table.oid(), &self.store, group, self.row, cid);
            self.standing = or_raise(table.oid(), standing);
        }
    }
}

/// The group of a row that is known to be there without a look at the store, because the whole
/// group is locked and its hidden rows are known.
pub(super) fn known_there(
    table: Table<'_>,
    row: RowNumber,
    lock: RowLock,
    cid: CommandId,
) -> Option<GroupEntry> {
    if pending_marks::any() {
        return None;
    }
    let oid = table.oid();
    LOCATED.with_borrow(|located| {
        let found = located
            .iter()
            .rev()
            .find(|l| l.table == oid && l.placed.entry.covers(row))?;
        let position = found.placed.entry.position_of(row)?;
        let is_there = found.bulk >= Some(lock)
            && found.hidden.as_ref().is_some_and(|h| !h.contains(position))
            && found.own.is_none_or(|command| command < cid)
            && found.placed.entry.state == GroupState::Stored
            && found.seen == Moment::now();
        is_there.then_some(found.placed.entry)
    })
}

/// The stored group of a row, if this transaction has locked the group for row work: then the group
/// is not merged away, and the row keeps its place, whatever its marks tell.
pub(in crate::am) fn held_group(table: Table<'_>, row: RowNumber) -> Option<GroupEntry> {
    let oid = table.oid();
    LOCATED.with_borrow(|located| {
        let mut newest_first = located.iter().rev();
        let found = newest_first.find(|l| l.table == oid && l.placed.entry.covers(row))?;
        let entry = found.placed.entry;
        (entry.state == GroupState::Stored && found.seen == Moment::now()).then_some(entry)
    })
}

/// A row lock that was newly taken. Other transactions wait for it once it is kept. Dropping it
/// keeps it.
#[must_use]
pub(super) struct Locked {
    locks: Locks,
    row: RowNumber,
    lock: RowLock,
}

impl Locked {
    /// Keeps the lock, for now at least.
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

/// Locks the group for row work, and the row; `None` if there is no row lock to release later. Past
/// some number of rows the whole group is requested.
fn lock_row(
    table: Table<'_>,
    group: u32,
    row: RowNumber,
    lock: RowLock,
    wait: Wait,
    purpose: Purpose,
) -> Result<Option<Locked>, Obstacle> {
    let most = match purpose {
        Purpose::Lock => LOCKS_PER_GROUP,
        Purpose::Delete | Purpose::Update => CHANGES_PER_GROUP,
    };
    let (locks, table) = (Locks::of(table), table.oid().to_u32());
    // Then this transaction cannot have locked anything of the group yet.
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
    // A request has its price: it is not made for every row while another transaction blocks it.
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
    table: Oid,
    store: &ColdStore,
    group: u32,
    row: RowNumber,
    cid: CommandId,
) -> Result<Standing, ColdError> {
    let mut own = None;
    let mut in_force = |tuple: ShownTuple<'_>| {
        let in_force = tuple.is_in_force();
        if in_force && let (_, Some(command)) = tuple.writer() {
            own = Some(command);
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
        // What a committed transaction has hidden may still be visible to our snapshot.
        let mark = marks::of_dropped_row(store, group, row)?;
        return Ok(mark.map_or(Standing::Gone, Standing::Marked));
    };
    let located = Located {
        table,
        file: store.id(),
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
    // A group that is still being loaded gives back the end of its range, which the next group
    // gets.
    if placed.entry.state == GroupState::Stored {
        located.remember();
    }
    standing
}

impl Standing {
    /// The answer to the executor if the row is not there.
    pub fn report(&self, tid: Tid, cid: CommandId) -> Result<(), Refusal> {
        use RowResult::{Deleted, Invisible, SelfModified, Updated};
        let nobody = Xid::INVALID;
        let (result, ctid, xmax, cmax) = match self {
            Standing::There(_) | Standing::Leaving(..) => return Ok(()),
            Standing::Unborn => (Invisible, tid, nobody, None),
            Standing::Gone => (Deleted, tid, nobody, None),
            Standing::Moved { to, by } => (Updated, to.tid(), *by, None),
            Standing::Marked(mark) => {
                let (result, ctid) = match mark.fate {
                    RowFate::Deleted => (Deleted, tid),
                    RowFate::Updated { to, .. } => (Updated, to),
                    RowFate::MovedAway => (Updated, Tid::moved_to_another_partition()),
                };
                match mark.own {
                    Some(command) if command >= cid => {
                        (SelfModified, ctid, mark.xid, Some(command))
                    }
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

/// A row that is there and is locked.
pub(super) struct There<'a> {
    pub store: ColdStore<'a>,
    pub placed: PlacedEntry,
    /// The lock, if it was taken for the change. Once the row is marked, the mark replaces it.
    pub locked: Option<Locked>,
}

impl There<'_> {
    /// Releases the row's lock after the row was marked: a transaction that comes later finds the
    /// mark and waits for our transaction. So changes do not fill the server's lock table.
    pub fn let_go(self) {
        if let Some(locked) = self.locked {
            locked.give_back();
        }
    }
}

/// Locks the row for a change; on failure, returns the executor's answer. The table is locked for
/// writing.
pub(super) fn hold_for_change<'a>(
    table: Table<'a>,
    row: RowNumber,
    lock: RowLock,
    request: ChangeRequest<'_>,
    purpose: Purpose,
) -> Result<There<'a>, Refusal> {
    let cid = request.command;
    let wait = match request.wait {
        true => Wait::Forever,
        false => Wait::Not,
    };
    let Some((held, locked)) = hold(table, row, lock, wait, cid, purpose) else {
        let failure = RowFailure {
            ctid: row.tid(),
            ..RowFailure::default()
        };
        return Err(Refusal {
            result: RowResult::BeingModified,
            failure,
        });
    };
    let report = held.standing.report(row.tid(), cid);
    let placed = match (held.standing, report) {
        (Standing::There(placed), Ok(())) => placed,
        (_, report) => {
            if let Some(locked) = locked {
                locked.give_back();
            }
            return Err(report.err().unwrap_or(Refusal {
                result: RowResult::Ok,
                failure: RowFailure::default(),
            }));
        }
    };
    if let Some(snapshot) = request.crosscheck
        && !sees_row_somewhere(&held.store, table, held.row, snapshot)
    {
        return Err(Refusal {
            result: RowResult::Updated,
            failure: RowFailure::at(row.tid(), Xid::INVALID),
        });
    }
    if let Some(locked) = &locked {
        locked.keep();
    }
    Ok(There {
        store: held.store,
        placed,
        locked,
    })
}
