//! Locks on cold rows and on the row groups that hold them.
//!
//! ```text
//!   row    LOCKTAG_TUPLE (cold block, offset)      in the mode that heap pairs with the row lock
//!   group  LOCKTAG_PAGE  (first cold block)        row share, row exclusive; share, exclusive
//! ```
//!
//! | row lock          | on the row          | on its group  | in bulk, on the group alone |
//! |-------------------|---------------------|---------------|-----------------------------|
//! | FOR KEY SHARE     | access share        | row share     | share                       |
//! | FOR SHARE         | row share           | row share     | share                       |
//! | FOR NO KEY UPDATE | exclusive           | row exclusive | exclusive                   |
//! | FOR UPDATE        | access exclusive    | row exclusive | exclusive                   |
//!
//! The group's lock is taken first, so that a transaction that locks a whole group conflicts with
//! every transaction that works on its rows. All of these locks are held to the end of the
//! transaction, survive PREPARE, and are released with the subtransaction that took them. The
//! exception is a row's lock that was taken for a change: it is released once the row is marked,
//! because the mark of an in-progress transaction blocks other writers as well. Deadlocks, timeouts
//! and cancels are left to PostgreSQL.
//!
//! No backend waits for a row's own lock. As on heap, a backend that cannot get the lock waits for
//! the transactions that block it, one after the other in the order of their ids
//! ([`Locks::blockers`]), and holds the row's turn lock meanwhile, so that there is one queue. A
//! transaction that holds the row in another mode already does not take the turn lock, because the
//! queue may be waiting for that very transaction. So a transaction that can share a row with its
//! holders passes the backends that wait for it, and a deadlock is found between the same
//! transactions as on heap. No backend waits for a lock that is released right after the row was
//! checked, and a backend waits for a lock of a subtransaction no longer than the subtransaction
//! lasts: see [`locker`]. Maintenance, which locks whole groups for a short time, is waited for
//! under NOWAIT and SKIP LOCKED as well: see [`maintenance`].
//!
//! ```text
//!   turn   LOCKTAG_TUPLE (cold block, offset | 0x8000)       while waiting
//! ```

pub mod locker;
pub(crate) mod maintenance;

use pgrx::pg_sys;

use crate::ffi::{self, quiet};
use crate::memory;
use crate::row_request::Purpose;
use crate::table::Table;
use crate::tid::{FIRST_COLD_BLOCK, GroupId, RowNumber, TURN_BITS};
use crate::xid::Xid;
use locker::RowName;
pub use maintenance::MAINTAINERS;

/// The strengths of a row lock, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowLock {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

impl RowLock {
    /// From the executor's name for it.
    pub fn of(mode: pg_sys::LockTupleMode::Type) -> RowLock {
        match mode {
            pg_sys::LockTupleMode::LockTupleKeyShare => RowLock::KeyShare,
            pg_sys::LockTupleMode::LockTupleShare => RowLock::Share,
            pg_sys::LockTupleMode::LockTupleNoKeyExclusive => RowLock::NoKeyUpdate,
            _ => RowLock::Update,
        }
    }

    /// The executor's name for it.
    pub fn raw(self) -> pg_sys::LockTupleMode::Type {
        match self {
            RowLock::KeyShare => pg_sys::LockTupleMode::LockTupleKeyShare,
            RowLock::Share => pg_sys::LockTupleMode::LockTupleShare,
            RowLock::NoKeyUpdate => pg_sys::LockTupleMode::LockTupleNoKeyExclusive,
            RowLock::Update => pg_sys::LockTupleMode::LockTupleExclusive,
        }
    }

    /// `tupleLockExtraInfo` of heap.
    fn on_row(self) -> u32 {
        match self {
            RowLock::KeyShare => pg_sys::AccessShareLock,
            RowLock::Share => pg_sys::RowShareLock,
            RowLock::NoKeyUpdate => pg_sys::ExclusiveLock,
            RowLock::Update => pg_sys::AccessExclusiveLock,
        }
    }

    const ALL: [RowLock; 4] = [
        RowLock::KeyShare,
        RowLock::Share,
        RowLock::NoKeyUpdate,
        RowLock::Update,
    ];

    /// Conflicts as between heap's row locks: `FOR UPDATE` conflicts with all, the two kinds of
    /// sharing do not conflict with each other.
    fn conflicts_with(self, other: RowLock) -> bool {
        let (weak, strong) = (self.min(other), self.max(other));
        match strong {
            RowLock::Update => true,
            RowLock::NoKeyUpdate => weak >= RowLock::Share,
            RowLock::KeyShare | RowLock::Share => false,
        }
    }

    fn is_shared(self) -> bool {
        self <= RowLock::Share
    }

    fn on_group(self) -> u32 {
        if self.is_shared() {
            pg_sys::RowShareLock
        } else {
            pg_sys::RowExclusiveLock
        }
    }

    fn in_bulk(self) -> u32 {
        if self.is_shared() {
            pg_sys::ShareLock
        } else {
            pg_sys::ExclusiveLock
        }
    }
}

/// What to do if another transaction holds a conflicting lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Forever,
    Not,
}

/// A relation's lock tags.
#[derive(Clone, Copy)]
pub struct Locks {
    database: u32,
    relation: u32,
}

impl Locks {
    /// Those of an open relation.
    #[inline]
    pub fn of(table: Table<'_>) -> Locks {
        let name = table.lock_name();
        Locks {
            database: name.dbId.to_u32(),
            relation: name.relId.to_u32(),
        }
    }

    fn tag(self, kind: u32, block: u32, offset: u16) -> pg_sys::LOCKTAG {
        pg_sys::LOCKTAG {
            locktag_field1: self.database,
            locktag_field2: self.relation,
            locktag_field3: block,
            locktag_field4: offset,
            locktag_type: kind as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        }
    }

    fn group(self, group: GroupId) -> pg_sys::LOCKTAG {
        let kind = pg_sys::LockTagType::LOCKTAG_PAGE;
        self.tag(kind, FIRST_COLD_BLOCK + group.first_block(), 0)
    }

    fn row(self, row: RowNumber, bits: u16) -> pg_sys::LOCKTAG {
        let tid = row.tid();
        let kind = pg_sys::LockTagType::LOCKTAG_TUPLE;
        self.tag(kind, tid.block(), tid.offset() | bits)
    }

    /// Whether this transaction already holds a lock on the group that allows such work on its
    /// rows.
    pub fn holds_group(self, group: GroupId, lock: RowLock) -> bool {
        let tag = self.group(group);
        held(&tag, lock.on_group())
            || (lock.is_shared() && held(&tag, pg_sys::RowExclusiveLock))
            || self.holds_bulk(group, lock)
    }

    /// Whether this transaction has locked all rows of the group in this way.
    pub fn holds_bulk(self, group: GroupId, lock: RowLock) -> bool {
        let tag = self.group(group);
        held(&tag, pg_sys::ExclusiveLock) || (lock.is_shared() && held(&tag, pg_sys::ShareLock))
    }

    /// Whether this transaction has locked the row itself in this very mode.
    pub fn holds_row(self, row: RowNumber, lock: RowLock) -> bool {
        held(&self.row(row, 0), lock.on_row())
    }

    /// Announces work on rows of the group; `false` if that would have to wait for another
    /// transaction's work and `wait` does not allow it. `is_first` tells that this transaction has
    /// not locked anything of the group yet.
    pub fn lock_group(self, group: GroupId, lock: RowLock, wait: Wait, is_first: bool) -> bool {
        (!is_first && self.holds_group(group, lock))
            || maintenance::acquire_past(&self.group(group), lock.on_group(), wait)
    }

    /// Locks all rows of the group; `false` if that would have to wait and `wait` does not allow
    /// it.
    pub fn lock_in_bulk(self, group: GroupId, lock: RowLock, wait: Wait) -> bool {
        self.holds_bulk(group, lock)
            || try_acquire(&self.group(group), lock.in_bulk(), wait).is_some()
    }

    /// Locks all rows of the group for a short time, without taking a row lock of a user; `false`
    /// if a transaction works on them. Other backends wait for this lock even where they wait for
    /// no other. Therefore its holder must not wait for them, nor lock rows for a user in the same
    /// transaction.
    pub fn lock_for_maintenance(self, group: GroupId) -> bool {
        maintenance::announce();
        self.lock_in_bulk(group, RowLock::Update, Wait::Not)
    }

    /// Releases one [`Locks::lock_for_maintenance`] before the transaction ends.
    pub fn unlock_for_maintenance(self, group: GroupId) {
        release(&self.group(group), RowLock::Update.in_bulk());
    }

    /// Locks a row whose group is locked for it, unless a conflicting lock is held. Returns whether
    /// the row was not locked so before. Other backends do not wait for a new lock until
    /// [`locker::decided`] says that it is kept. The transaction must have an id.
    pub fn try_row(self, row: RowNumber, lock: RowLock) -> Option<bool> {
        let tag = self.row(row, 0);
        locker::look_at(RowName::of(&tag), lock);
        let taken = try_acquire(&tag, lock.on_row(), Wait::Not);
        if taken != Some(true) {
            locker::decided();
        }
        taken
    }

    /// Releases a lock that [`Locks::try_row`] has newly taken.
    pub fn unlock_row(self, row: RowNumber, lock: RowLock) {
        release(&self.row(row, 0), lock.on_row());
        locker::decided();
    }

    /// Waits for a place at the head of the row's queue. Returns `None` if the transaction holds
    /// the row in another mode already.
    pub fn take_turn(self, row: RowNumber, lock: RowLock) -> Option<Turn> {
        let (turn, mode) = (self.row(row, TURN_BITS), lock.on_row());
        if held_at_all(&self.row(row, 0)) {
            return None;
        }
        try_acquire(&turn, mode, Wait::Forever);
        Some(Turn { turn, mode })
    }

    /// The other transactions that hold the row's own lock and mean to keep it. Beside an update
    /// that keeps the key these are FOR KEY SHARE locks. For a lock that was certainly taken in a
    /// subtransaction, the id is that of the subtransaction.
    pub fn holders(self, row: RowNumber) -> Vec<Xid> {
        let (tag, strongest) = (self.row(row, 0), pg_sys::AccessExclusiveLock);
        let name = RowName::of(&tag);
        let id_of = |holder: &pg_sys::VirtualTransactionId| {
            locker::subtransaction_of(holder, name, RowLock::KeyShare)
                .or_else(|| transaction_of(holder))
        };
        conflicts(&tag, strongest)
            .iter()
            .filter_map(id_of)
            .map(Xid::from_raw)
            .collect()
    }

    /// The transactions whose end must be waited for before the row can be locked: the ids of all
    /// others that hold a conflicting lock on it and will keep it, in ascending order. `None` if
    /// every holder of such a lock may release it at once.
    pub fn blockers(self, row: RowNumber, lock: RowLock) -> Option<Vec<Xid>> {
        let (tag, mode) = (self.row(row, 0), lock.on_row());
        let name = RowName::of(&tag);
        let before: Vec<_> = conflicts(&tag, mode)
            .iter()
            .map(|holder| (holder.procNumber, locker::seen(holder.procNumber)))
            .collect();
        let holders = conflicts(&tag, mode);
        let mut ids: Vec<_> = holders
            .iter()
            .filter_map(|holder| {
                let seen = locker::seen(holder.procNumber);
                if seen.looks_at(name) || !before.contains(&(holder.procNumber, seen)) {
                    return None;
                }
                let of_subtransaction = seen
                    .newest(holder.localTransactionId)
                    .filter(|_| !locker::may_be_top(holder.procNumber, name, lock));
                let id = of_subtransaction.or_else(|| transaction_of(holder))?;
                Some(Xid::from_raw(id))
            })
            .collect();
        ids.sort_unstable_by_key(|id| id.number());
        (holders.is_empty() || !ids.is_empty()).then_some(ids)
    }
}

/// The place at the head of a row's queue; released when it is dropped.
pub struct Turn {
    turn: pg_sys::LOCKTAG,
    mode: u32,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            release(&self.turn, self.mode);
        }
    }
}

/// The id of the transaction that holds a lock.
fn transaction_of(holder: &pg_sys::VirtualTransactionId) -> Option<pg_sys::TransactionId> {
    if holder.procNumber < 0 {
        // A transaction that was prepared before a restart: its xid takes the place of the local
        // id.
        return Some(pg_sys::TransactionId::from(holder.localTransactionId));
    }
    // SAFETY: a backend's fields may change while they are read: its id counts only if the backend
    // runs the same transaction before and after the read.
    let id = unsafe {
        match running_xid(holder) {
            pg_sys::InvalidTransactionId => {
                // The transaction was prepared since: it keeps the virtual id, but not the backend.
                // The same virtual id comes again after four billion transactions of one backend.
                let mut have_more = false;
                ffi::TwoPhaseGetXidByVirtualXID(*holder, &mut have_more)
            }
            id => id,
        }
    };
    (id != pg_sys::InvalidTransactionId).then_some(id)
}

/// The id of the transaction that a backend runs, if it is the given one and has an id.
///
/// # Safety
/// The process number is that of a backend, which may have exited since.
unsafe fn running_xid(holder: &pg_sys::VirtualTransactionId) -> pg_sys::TransactionId {
    // SAFETY: the entries of processes in shared memory are never freed.
    unsafe {
        let process = pg_sys::ProcNumberGetProc(holder.procNumber);
        if process.is_null() {
            return pg_sys::InvalidTransactionId;
        }
        let same =
            || (&raw const (*process).vxid.lxid).read_volatile() == holder.localTransactionId;
        let before = same();
        let xid = (&raw const (*process).xid).read_volatile();
        if before && same() {
            xid
        } else {
            pg_sys::InvalidTransactionId
        }
    }
}

/// Assigns the running transaction an id, by which others can wait for it as a locker of a row.
pub fn announce() -> Xid {
    // SAFETY: a transaction is running and may write.
    unsafe { pg_sys::MultiXactIdSetOldestMember() };
    Xid::current()
}

/// Waits for the end of a transaction that is in the way of work on a row.
pub fn wait_for(id: Xid, table: Table<'_>, row: RowNumber, purpose: Purpose) {
    let mut tid = row.tid().raw();
    // SAFETY: the table is open; may raise an ERROR, with nothing of ours to undo.
    unsafe { pg_sys::XactLockTableWait(id.raw(), table.raw(), &mut tid, purpose.raw()) };
}

/// Has the server's log name the transactions that are in the way of a lock that is not waited for,
/// if `log_lock_failures` asks for it, up to the first that is still running. `ids` is asked only
/// then.
pub fn log_failure(ids: impl FnOnce() -> Vec<Xid>) {
    // SAFETY: plain read of a setting.
    if !unsafe { pg_sys::log_lock_failures } {
        return;
    }
    // The lock is asked for once more, because it is the server that names its holders when it is
    // refused.
    for id in ids() {
        // SAFETY: a transaction's own lock is asked for, and given back at once.
        if !unsafe { pg_sys::ConditionalXactLockTableWait(id.raw(), true) } {
            return;
        }
    }
}

/// Sleeps for as long as another transaction looks at a row.
pub fn nap(microseconds: i64) {
    // SAFETY: sleeps.
    unsafe { pg_sys::pg_usleep(microseconds) };
}

fn held(tag: &pg_sys::LOCKTAG, mode: u32) -> bool {
    // SAFETY: a lookup in this backend's own table of locks.
    unsafe { quiet::LockHeldByMe(tag, mode as pg_sys::LOCKMODE, false) }
}

/// Whether this transaction holds the lock in any mode.
fn held_at_all(tag: &pg_sys::LOCKTAG) -> bool {
    let weakest = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: a lookup in this backend's own table of locks.
    unsafe { quiet::LockHeldByMe(tag, weakest, true) }
}

/// The virtual ids of the other transactions that hold the lock in a conflicting mode.
fn conflicts(tag: &pg_sys::LOCKTAG, mode: u32) -> Vec<pg_sys::VirtualTransactionId> {
    let mut count = 0;
    // SAFETY: the tag lives during the call; the list is a fresh allocation and has `count`
    // entries.
    unsafe {
        let listed = pg_sys::GetLockConflicts(tag, mode as pg_sys::LOCKMODE, &mut count);
        let holders = std::slice::from_raw_parts(listed, count as usize).to_vec();
        memory::free(listed.cast());
        holders
    }
}

fn release(tag: &pg_sys::LOCKTAG, mode: u32) {
    // SAFETY: the tag lives during the call; held by this transaction.
    unsafe { quiet::LockRelease(tag, mode as pg_sys::LOCKMODE, false) };
}

/// Whether the lock was newly taken; `None` if it was refused.
fn try_acquire(tag: &pg_sys::LOCKTAG, mode: u32, wait: Wait) -> Option<bool> {
    use pg_sys::LockAcquireResult::{LOCKACQUIRE_NOT_AVAIL, LOCKACQUIRE_OK};
    // SAFETY: the tag is copied. May wait, and raise an ERROR for a deadlock or a timeout; nothing
    // needs undoing here then.
    match unsafe { pg_sys::LockAcquire(tag, mode as pg_sys::LOCKMODE, false, wait == Wait::Not) } {
        LOCKACQUIRE_NOT_AVAIL => None,
        result => Some(result == LOCKACQUIRE_OK),
    }
}
