//! Step 1 of a request: the lock on a row; and the loop of steps 1 and 2 that waits for other
//! transactions.
//!
//! The group is locked before the row, and both before the row is looked at. A row lock that was
//! taken for the request is not held while the request waits.

use std::cell::{Cell, RefCell};

use howdah_bridge::Oid;
use howdah_bridge::cold_lock::{self, Locks, Queue, RowLock, Wait, lock_table, locker};
use howdah_bridge::process::applies_changes;
use howdah_bridge::row_request::{ChangeRequest, Purpose, Refusal, RowFailure, RowResult};
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{CommandId, SubTransactionId, Xid, current_subtransaction};

use super::blockers::{Forbids, blockers};
use super::collected_locks::{self, RowLocks};
use super::counted_rows::{CountedRows, Group};
use super::expected_changes::{self, changes_per_group};
use super::located::LocatedRow;
use super::locked_groups;
use super::recent_locks::{self, Recent};
use super::standing::{Standing, learn, learn_again};
use crate::settings;
use crate::store::directory::PlacedEntry;
use crate::store::pending_marks;
use crate::store::visibility::{last_change, sees_row_somewhere};

/// Rows locked in one group before the whole group is requested.
const LOCKS_PER_GROUP: u32 = 1_024;
/// After so many more rows it is requested again.
const ROWS_BETWEEN_REQUESTS: u32 = 32;
/// Between two attempts to lock a row that another backend holds for a moment.
const NAP_MICROSECONDS: i64 = 100;
/// Row locks that a transaction holds before whole groups are requested at once, with waiting.
const ROWS_IN_ALL: u32 = 4_096;
/// The same where half of the server's lock table is full; and after how many more it is asked
/// again whether it is.
const ROWS_IF_CROWDED: u32 = 64;

thread_local! {
    /// Row locks of this transaction.
    static LOCKED_ROWS: RefCell<CountedRows> = RefCell::default();
    /// Whether the lock table was half full when that was asked last.
    static IS_CROWDED: Cell<bool> = const { Cell::new(false) };
    /// The row that this transaction has locked last by a request for nothing else, and in which
    /// subtransaction.
    static LAST_LOCKED: Cell<Option<(Oid, RowNumber, SubTransactionId)>> = const { Cell::new(None) };
}

/// A row was locked, as requested.
pub(super) fn note_locked(table: Table<'_>, row: RowNumber) {
    LAST_LOCKED.set(Some((table.oid(), row, current_subtransaction())));
}

/// Whether the row is the last one that was locked, as ON CONFLICT locks the row that it updates
/// next.
pub(super) fn was_locked_last(table: Table<'_>, row: RowNumber) -> bool {
    (LAST_LOCKED.get()).is_some_and(|(of, last, _)| (of, last) == (table.oid(), row))
}

/// Releases the locks of a row that was locked, and then marked, by the same subtransaction: the
/// mark, of the strength `lock`, replaces them.
fn give_back_replaced(target: &LocatedRow<'_>, lock: RowLock) {
    give_back(recent_locks::take(target.table.oid(), target.row, lock));
}

fn give_back(locks: Vec<Recent>) {
    for recent in locks {
        let of_table = Locks::of_table(recent.place.0);
        for _ in 0..recent.requests {
            of_table.unlock_row(recent.row, recent.lock);
        }
        LOCKED_ROWS.with_borrow_mut(|rows| rows.give_back(recent.place));
    }
}

/// Writes the rows that a command has collected, and gives their locks back.
pub fn write_command(command: CommandId) {
    pending_marks::write_command(command);
    give_back(collected_locks::take_command(command));
}

/// The same with all rows that the transaction has collected, which is about to commit.
pub fn write_all() {
    pending_marks::write_all();
    give_back(collected_locks::take_subtransaction(
        current_subtransaction(),
    ));
}

/// The same with all rows that a subtransaction has collected, which is about to commit.
pub fn write_subtransaction(subtransaction: SubTransactionId) {
    pending_marks::write_subtransaction(subtransaction);
    give_back(collected_locks::take_subtransaction(subtransaction));
}

/// What a subtransaction has locked is its parent's.
pub fn subtransaction_commits(child: SubTransactionId, parent: SubTransactionId) {
    LOCKED_ROWS.with_borrow_mut(|rows| rows.subtransaction_commits(child, parent));
}

/// What a subtransaction has locked is not locked any more.
pub fn subtransaction_aborts(subtransaction: SubTransactionId) {
    LOCKED_ROWS.with_borrow_mut(|rows| rows.subtransaction_aborts(subtransaction));
    collected_locks::forget_subtransaction(subtransaction);
    forget_locks();
}

/// Discards what depends on marks and locks that a rolled-back subtransaction may have made, or on
/// a file that was truncated in place.
pub fn forget_locks() {
    LAST_LOCKED.set(None);
    recent_locks::forget();
    last_change::forget();
    locked_groups::forget();
}

/// Gives the locks on whole groups back in which this transaction has changed rows; those that are
/// marked one by one stay locked by their marks. Rows that it has locked without a change are not.
pub fn give_back_groups() {
    LOCKED_ROWS.with_borrow(|rows| {
        for (table, group) in rows.groups() {
            Locks::of_table(table).give_back_bulk(group);
        }
    });
}

/// Discards everything: the transaction is over.
pub fn reset() {
    forget_locks();
    collected_locks::reset();
    expected_changes::reset();
    LOCKED_ROWS.with_borrow_mut(|rows| rows.clear(locked_groups::MOST_GROUPS));
    IS_CROWDED.set(false);
}

/// Whether a transaction that holds so many row locks must do with fewer.
fn holds_too_many(in_all: u32) -> bool {
    if in_all > ROWS_IF_CROWDED && in_all % ROWS_IF_CROWDED == 1 {
        IS_CROWDED.set(lock_table::is_half_full());
    }
    in_all > ROWS_IN_ALL || in_all > ROWS_IF_CROWDED && IS_CROWDED.get()
}

/// Whether the transaction may hold locks of single rows.
pub(super) fn holds_locks() -> bool {
    LOCKED_ROWS.with_borrow(CountedRows::holds_locks)
}

/// What is requested of a row.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub lock: RowLock,
    pub wait: Wait,
    pub command: CommandId,
    /// What a wait is for.
    pub purpose: Purpose,
}

/// A cold row whose lock is held.
pub(super) struct HeldRow<'t, 'a> {
    pub target: &'t LocatedRow<'a>,
    pub standing: Standing,
    /// The lock, if it was taken for this request.
    pub locked: Option<Locked>,
}

impl HeldRow<'_, '_> {
    /// Learns the standing of a row again that was there.
    pub fn look_again(&mut self, command: CommandId) {
        if let Standing::There(_) | Standing::BeingModified(..) = &self.standing {
            let standing = learn_again(self.target, command);
            self.standing = self.target.or_raise(standing);
        }
    }

    /// Releases the lock if it was taken for this request.
    pub fn unlock(&mut self) {
        if let Some(locked) = self.locked.take() {
            locked.give_back();
        }
    }

    pub fn let_go(mut self) {
        self.unlock();
    }
}

/// Locks the row and learns its standing, once no other transaction holds a conflicting lock and no
/// transaction in progress is changing the row in a way that conflicts; `None` if that needs
/// waiting and the request forbids it. Nothing but locks is held while waiting.
pub(super) fn hold<'t, 'a>(
    target: &'t LocatedRow<'a>,
    request: Request,
) -> Option<HeldRow<'t, 'a>> {
    let Request { lock, command, .. } = request;
    // Other transactions wait for this one by its id, so it needs one.
    Xid::current();
    let mut queue = Queue::default();
    loop {
        howdah_bridge::check_for_interrupts!();
        let blockers = match take(target, request) {
            Ok(locked) => {
                let standing = target.or_raise(learn(target, lock, command));
                let held = |standing, locked| HeldRow {
                    target,
                    standing,
                    locked,
                };
                match standing {
                    Standing::BeingModified(_, mark) if lock.forbids(&mark) => {
                        held(standing, locked).let_go();
                        vec![mark.xid]
                    }
                    Standing::BeingModified(placed, _) => {
                        return Some(held(Standing::There(placed), locked));
                    }
                    standing => return Some(held(standing, locked)),
                }
            }
            Err(Obstacle::Group) => return None,
            Err(Obstacle::Row) => match target.or_raise(blockers(target, lock)) {
                Some(ids) => ids,
                None => {
                    // Another backend holds the lock only while it looks at the row.
                    cold_lock::nap(NAP_MICROSECONDS);
                    continue;
                }
            },
        };
        if request.wait == Wait::Not && !blockers.is_empty() {
            return None;
        }
        let asked = (target.locks, lock);
        let place = (target.table, target.row);
        queue.wait_for(asked, place, request.purpose, &blockers);
    }
}

/// A row that is there and held for a change.
pub(super) struct There<'t, 'a> {
    pub target: &'t LocatedRow<'a>,
    pub placed: PlacedEntry,
    lock: RowLock,
    /// The lock, if it was taken for the change. Once the row is marked, the mark replaces it.
    locked: Option<Locked>,
}

/// Steps 1 and 2 for a change: holds the row; on failure, returns the executor's answer.
pub(super) fn hold_for_change<'t, 'a>(
    target: &'t LocatedRow<'a>,
    lock: RowLock,
    request: ChangeRequest<'_>,
    purpose: Purpose,
) -> Result<There<'t, 'a>, Refusal> {
    let command = request.command;
    let wait = match request.wait {
        true => Wait::Forever,
        false => Wait::Not,
    };
    let wanted = Request {
        lock,
        wait,
        command,
        purpose,
    };
    let tid = target.row.tid();
    let Some(held) = hold(target, wanted) else {
        return Err(Refusal {
            result: RowResult::BeingModified,
            failure: RowFailure {
                ctid: tid,
                ..RowFailure::default()
            },
        });
    };
    let placed = match held.standing.report(tid, command) {
        Ok(placed) => placed,
        Err(refusal) => {
            held.let_go();
            return Err(refusal);
        }
    };
    if let Some(snapshot) = request.crosscheck
        && !sees_row_somewhere(target.store(), target.table, target.row, snapshot)
    {
        return Err(Refusal {
            result: RowResult::Updated,
            failure: RowFailure::at(tid, Xid::INVALID),
        });
    }
    if let Some(locked) = &held.locked {
        locked.keep_for_change();
    }
    Ok(There {
        target,
        placed,
        lock,
        locked: held.locked,
    })
}

impl There<'_, '_> {
    /// Releases the row's lock after the row was marked: a transaction that comes later finds the
    /// mark and waits for our transaction. So changes do not fill the server's lock table.
    pub fn let_go(self) {
        if let Some(locked) = self.locked {
            locked.give_back();
        }
        give_back_replaced(self.target, self.lock);
    }

    /// Keeps the row's locks until the rows are written that its command has collected, this one
    /// among them. Many of them are written at once.
    pub fn let_go_once_written(self, command: CommandId) {
        let (table, row) = (self.target.table.oid(), self.target.row);
        let locks = RowLocks {
            before: recent_locks::take(table, row, self.lock),
            taken: self.locked.map(Locked::keep),
        };
        if collected_locks::hold(table, row, locks, command) >= collected_locks::MOST {
            write_command(command);
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

/// Locks the group for work on its rows, and the row if that is possible now; `None` if there is no
/// row lock to release later. Waits for the group if the request waits. Past some number of rows
/// the whole group is requested.
fn take(target: &LocatedRow<'_>, request: Request) -> Result<Option<Locked>, Obstacle> {
    let Request {
        lock,
        wait,
        command,
        ..
    } = request;
    let Some(group) = target.group() else {
        return Ok(None);
    };
    let most = match request.purpose {
        Purpose::Lock => LOCKS_PER_GROUP,
        Purpose::Delete | Purpose::Update => changes_per_group(command),
    };
    let (locks, row, table) = (target.locks, target.row, target.table.oid());
    // Then this transaction cannot have locked anything of the group yet.
    let place = (table, group);
    let is_first = LOCKED_ROWS.with_borrow(|rows| !rows.knows(place));
    if !is_first && locks.covers(group, lock) {
        return Ok(None);
    }
    if !locks.lock_group(group, lock, wait, is_first) {
        return Err(Obstacle::Group);
    }
    let (in_group, in_all) = LOCKED_ROWS.with_borrow_mut(|rows| rows.next(place));
    // A request has its price: it is not made for every row while another transaction blocks it.
    let many_here = in_group >= most && in_group.is_multiple_of(ROWS_BETWEEN_REQUESTS);
    let too_many = holds_too_many(in_all);
    if (many_here || too_many) && settings::group_locks() {
        // A worker of a subscription may be the one to end the transaction that it would wait for.
        let policy = match too_many && !applies_changes() {
            true => wait,
            false => Wait::Not,
        };
        if locks.lock_in_bulk(group, lock, policy) {
            return Ok(None);
        }
    }
    let is_new = locks.try_row(row, lock).ok_or(Obstacle::Row)?;
    match is_new {
        true => LOCKED_ROWS.with_borrow_mut(|rows| rows.add(place, current_subtransaction())),
        false => recent_locks::note_again(table, row, lock),
    }
    Ok(is_new.then(|| Locked {
        place,
        locks,
        row,
        lock,
    }))
}

/// A row lock that was newly taken. Other transactions wait for it once it is kept. Dropping it
/// keeps it to the end of the transaction.
#[must_use]
pub(super) struct Locked {
    place: Group,
    locks: Locks,
    row: RowNumber,
    lock: RowLock,
}

impl Locked {
    /// Keeps the lock until the row is marked.
    fn keep_for_change(&self) {
        locker::decided();
    }

    pub fn give_back(self) {
        LOCKED_ROWS.with_borrow_mut(|rows| rows.give_back(self.place));
        self.locks.unlock_row(self.row, self.lock);
        std::mem::forget(self);
    }

    /// Keeps the lock until it is given back by the name that is returned, at the end of its
    /// command: it is no lock that lasts as long as the transaction.
    fn keep(self) -> Recent {
        let kept = self.named();
        std::mem::forget(self);
        kept
    }

    fn named(&self) -> Recent {
        Recent::taken(self.place, self.row, self.lock)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.locks.keep_row(self.row, self.lock);
        recent_locks::note(self.named());
    }
}
