//! Locks on cold rows and on the row groups that hold them.
//!
//! ```text
//!   row    LOCKTAG_TUPLE (cold block, offset)      in the mode that heap pairs with the row lock
//!   group  LOCKTAG_PAGE  (first cold block)        row share, row exclusive; share, exclusive
//!   keys   LOCKTAG_TUPLE (first cold block, 0)     row exclusive; share
//! ```
//!
//! | row lock          | on the row       | on its group  | on its keys   | instead, on all   |
//! |-------------------|------------------|---------------|---------------|-------------------|
//! | FOR KEY SHARE     | access share     | row share     |               | keys: share       |
//! | FOR SHARE         | row share        | row share     |               | group: share      |
//! | FOR NO KEY UPDATE | exclusive        | row exclusive |               | group: exclusive  |
//! | FOR UPDATE        | access exclusive | row exclusive | row exclusive | group: exclusive  |
//!
//! The keys of a group have a lock of their own, so that a transaction that shares all of them, as
//! after many inserts with foreign keys to the group, and changes of rows that leave their keys do
//! not wait for each other. Such a change hands the shared keys on to its new version, as those of
//! the row itself ([`Locks::holders`]).
//!
//! The group's lock is taken first, so that a transaction that locks a whole group conflicts with
//! every transaction that works on its rows. All of these locks are held to the end of the
//! transaction, survive PREPARE, and are released with the subtransaction that took them, whatever
//! cursor it took them for: work that comes later rests on a lock that is held already. The
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

mod holders;
pub mod lock_table;
pub mod locker;
pub(crate) mod maintenance;
mod queue;

use pgrx::pg_sys;

use crate::ffi::quiet;
use crate::table::Table;
use crate::tid::{FIRST_COLD_BLOCK, GroupId, RowNumber};
use crate::xid::{Xid, current_database};
use locker::RowName;
pub use maintenance::MAINTAINERS;
pub use queue::{Queue, log_failure, nap, wait_for};

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

    /// `None`: not on the group, but on its keys.
    fn in_bulk(self) -> Option<u32> {
        match self {
            RowLock::KeyShare => None,
            RowLock::Share => Some(pg_sys::ShareLock),
            RowLock::NoKeyUpdate | RowLock::Update => Some(pg_sys::ExclusiveLock),
        }
    }
}

/// The modes of the lock on a group's keys: of transactions that change some of them, and of those
/// that share all.
const KEYS_CHANGED: u32 = pg_sys::RowExclusiveLock;
const KEYS_SHARED: u32 = pg_sys::ShareLock;

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

    /// Those of a table of this database, by its OID.
    pub fn of_table(table: pg_sys::Oid) -> Locks {
        Locks {
            database: current_database().to_u32(),
            relation: table.to_u32(),
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

    fn keys(self, group: GroupId) -> pg_sys::LOCKTAG {
        // No row has this offset.
        let kind = pg_sys::LockTagType::LOCKTAG_TUPLE;
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
        let may_work = held(&tag, lock.on_group())
            || (lock.is_shared() && held(&tag, pg_sys::RowExclusiveLock));
        (may_work && (lock != RowLock::Update || held(&self.keys(group), KEYS_CHANGED)))
            || self.holds_bulk(group, lock)
    }

    /// Whether this transaction needs no lock on the row itself.
    pub fn covers(self, group: GroupId, lock: RowLock) -> bool {
        self.holds_bulk(group, lock)
            || (lock == RowLock::KeyShare && held(&self.keys(group), KEYS_SHARED))
    }

    /// Whether this transaction has locked all rows of the group in this way, so that no other one
    /// changes any.
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
        if !is_first && self.holds_group(group, lock) {
            return true;
        }
        maintenance::acquire_past(&self.group(group), lock.on_group(), wait)
            && (lock != RowLock::Update
                || try_acquire(&self.keys(group), KEYS_CHANGED, wait).is_some())
    }

    /// Locks all rows of the group, which is locked for work on its rows; `false` if that would
    /// have to wait and `wait` does not allow it.
    pub fn lock_in_bulk(self, group: GroupId, lock: RowLock, wait: Wait) -> bool {
        let (tag, mode) = match lock.in_bulk() {
            Some(mode) => (self.group(group), mode),
            None => (self.keys(group), KEYS_SHARED),
        };
        self.covers(group, lock) || try_acquire(&tag, mode, wait).is_some()
    }

    /// Locks all rows of the group for a short time, without taking a row lock of a user; `false`
    /// if a transaction works on them. Other backends wait for this lock even where they wait for
    /// no other. Therefore its holder must not wait for them, nor lock rows for a user in the same
    /// transaction.
    pub fn lock_for_maintenance(self, group: GroupId) -> bool {
        maintenance::announce();
        self.lock_in_bulk(group, RowLock::Update, Wait::Not)
    }

    /// Gives the lock on all rows of the group back, before the transaction ends, but not the one
    /// for work on its rows.
    pub fn give_back_bulk(self, group: GroupId) {
        let tag = self.group(group);
        while held(&tag, pg_sys::ExclusiveLock) {
            release(&tag, pg_sys::ExclusiveLock);
        }
    }

    /// Releases one [`Locks::lock_for_maintenance`] before the transaction ends.
    pub fn unlock_for_maintenance(self, group: GroupId) {
        release(&self.group(group), pg_sys::ExclusiveLock);
    }

    /// Locks a row whose group is locked for it, unless a conflicting lock is held. Returns whether
    /// the row was not locked so before. Other backends do not wait for a new lock until
    /// [`locker::decided`] or [`Locks::keep_row`] says that it is kept. The transaction must have
    /// an id.
    pub fn try_row(self, row: RowNumber, lock: RowLock) -> Option<bool> {
        let tag = self.row(row, 0);
        locker::look_at(RowName::of(&tag));
        let taken = try_acquire(&tag, lock.on_row(), Wait::Not);
        match taken {
            Some(true) => {}
            Some(false) => self.keep_row(row, lock),
            None => locker::decided(),
        }
        taken
    }

    /// Tells other backends that a lock which [`Locks::try_row`] has taken is held to the end of
    /// the transaction, or of its subtransaction.
    pub fn keep_row(self, row: RowNumber, lock: RowLock) {
        locker::keep(RowName::of(&self.row(row, 0)), lock);
    }

    /// Tells other backends that a row whose lock is kept is deleted, although it has no mark yet.
    pub fn delete_row(self, row: RowNumber) {
        locker::deletes(RowName::of(&self.row(row, 0)));
    }

    /// Releases a lock that [`Locks::try_row`] has newly taken.
    pub fn unlock_row(self, row: RowNumber, lock: RowLock) {
        release(&self.row(row, 0), lock.on_row());
        locker::decided();
    }
}

/// Tells other backends which rows are deleted that have no marks yet: those of these tables.
pub fn deleting(rows: &mut dyn Iterator<Item = (Locks, RowNumber)>) {
    locker::deleting(&mut rows.map(|(locks, row)| RowName::of(&locks.row(row, 0))));
}

/// Assigns the running transaction an id, by which others can wait for it as a locker of a row.
pub fn announce() -> Xid {
    // SAFETY: a transaction is running and may write.
    unsafe { pg_sys::MultiXactIdSetOldestMember() };
    Xid::current()
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

fn release(tag: &pg_sys::LOCKTAG, mode: u32) {
    // SAFETY: the tag lives during the call; held by this subtransaction.
    of_subtransaction(|| unsafe { quiet::LockRelease(tag, mode as pg_sys::LOCKMODE, false) });
}

/// Takes or releases a lock for the running subtransaction. The owner of what is acquired otherwise
/// is mostly a portal, and that of a cursor which fails is released with the subtransaction in
/// which it fails, also what it acquired before.
fn of_subtransaction<R>(change: impl FnOnce() -> R) -> R {
    // SAFETY: a transaction is running. After an ERROR its abort, or the code that catches it, sets
    // the owner.
    unsafe {
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::CurrentResourceOwner = pg_sys::CurTransactionResourceOwner;
        let result = change();
        pg_sys::CurrentResourceOwner = owner;
        result
    }
}

/// Whether the lock was newly taken; `None` if it was refused.
fn try_acquire(tag: &pg_sys::LOCKTAG, mode: u32, wait: Wait) -> Option<bool> {
    use pg_sys::LockAcquireResult::{LOCKACQUIRE_NOT_AVAIL, LOCKACQUIRE_OK};
    let (mode, dont_wait) = (mode as pg_sys::LOCKMODE, wait == Wait::Not);
    // SAFETY: the tag is copied. May wait, and raise an ERROR for a deadlock or a timeout; nothing
    // needs undoing here then.
    match of_subtransaction(|| unsafe { pg_sys::LockAcquire(tag, mode, false, dont_wait) }) {
        LOCKACQUIRE_NOT_AVAIL => None,
        result => Some(result == LOCKACQUIRE_OK),
    }
}
