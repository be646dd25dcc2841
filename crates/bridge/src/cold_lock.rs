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
//! The group's lock comes first, so that whoever locks a whole group meets everybody at work on
//! its rows. All of them are held to the end of the transaction, survive PREPARE, and go with the
//! subtransaction that took them. Deadlocks, timeouts and cancels are PostgreSQL's business.

use pgrx::pg_sys;

use crate::tid::{FIRST_COLD_BLOCK, RowNumber};

/// What is done with a row, from weak to strong.
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

    /// `tupleLockExtraInfo` of heap.
    fn on_row(self) -> u32 {
        match self {
            RowLock::KeyShare => pg_sys::AccessShareLock,
            RowLock::Share => pg_sys::RowShareLock,
            RowLock::NoKeyUpdate => pg_sys::ExclusiveLock,
            RowLock::Update => pg_sys::AccessExclusiveLock,
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

/// What to do about somebody else's lock.
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
    /// # Safety
    /// `rel` is an open relation.
    pub unsafe fn of(rel: pg_sys::Relation) -> Locks {
        // SAFETY: the caller holds the relation open.
        unsafe {
            Locks {
                database: (*rel).rd_lockInfo.lockRelId.dbId.to_u32(),
                relation: (*rel).rd_lockInfo.lockRelId.relId.to_u32(),
            }
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

    fn group(self, group: u32) -> pg_sys::LOCKTAG {
        let kind = pg_sys::LockTagType::LOCKTAG_PAGE;
        self.tag(kind, FIRST_COLD_BLOCK + group, 0)
    }

    fn row(self, row: RowNumber) -> pg_sys::LOCKTAG {
        let tid = row.tid();
        let block = crate::tid::block_of(&tid);
        self.tag(pg_sys::LockTagType::LOCKTAG_TUPLE, block, tid.ip_posid)
    }

    /// Whether this transaction may work on rows of the group in this way without asking again.
    pub fn holds_group(self, group: u32, lock: RowLock) -> bool {
        let tag = self.group(group);
        held(&tag, lock.on_group())
            || (lock.is_shared() && held(&tag, pg_sys::RowExclusiveLock))
            || self.holds_bulk(group, lock)
    }

    /// Whether this transaction has locked all rows of the group in this way.
    pub fn holds_bulk(self, group: u32, lock: RowLock) -> bool {
        let tag = self.group(group);
        held(&tag, pg_sys::ExclusiveLock) || (lock.is_shared() && held(&tag, pg_sys::ShareLock))
    }

    /// Announces work on rows of the group; `false` if it would have to wait and may not.
    pub fn lock_group(self, group: u32, lock: RowLock, wait: Wait) -> bool {
        self.holds_group(group, lock)
            || acquire(&self.group(group), lock.on_group(), wait).is_some()
    }

    /// Locks all rows of the group; `false` if it would have to wait and may not.
    pub fn lock_in_bulk(self, group: u32, lock: RowLock, wait: Wait) -> bool {
        self.holds_bulk(group, lock) || acquire(&self.group(group), lock.in_bulk(), wait).is_some()
    }

    /// Gives back one [`Locks::lock_in_bulk`] before the transaction ends.
    pub fn unlock_bulk(self, group: u32, lock: RowLock) {
        // SAFETY: the tag lives during the call; held by this transaction.
        unsafe {
            pg_sys::LockRelease(
                &self.group(group),
                lock.in_bulk() as pg_sys::LOCKMODE,
                false,
            );
        }
    }

    /// Locks a row whose group is locked for it; `None` if it would have to wait and may not.
    /// The answer is whether it was not locked so before.
    pub fn lock_row(self, row: RowNumber, lock: RowLock, wait: Wait) -> Option<bool> {
        acquire(&self.row(row), lock.on_row(), wait)
    }

    /// The transactions of others that hold FOR KEY SHARE locks on the row itself. They all have
    /// ids: see [`announce`].
    pub fn key_sharers(self, row: RowNumber) -> Vec<pg_sys::TransactionId> {
        let tag = self.row(row);
        let mode = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;
        let mut count = 0;
        let mut xids = Vec::new();
        // SAFETY: the array has `count` entries. A backend's fields may change under our eyes: its
        // id counts only if it runs the same transaction before and after the look.
        unsafe {
            let holders = pg_sys::GetLockConflicts(&tag, mode, &mut count);
            for i in 0..count as usize {
                let holder = &*holders.add(i);
                if holder.procNumber < 0 {
                    // A prepared transaction: its id stands for it.
                    xids.push(pg_sys::TransactionId::from(holder.localTransactionId));
                    continue;
                }
                let process = pg_sys::ProcNumberGetProc(holder.procNumber);
                if process.is_null() {
                    continue;
                }
                let same = || {
                    (&raw const (*process).vxid.lxid).read_volatile() == holder.localTransactionId
                };
                let before = same();
                let xid = (&raw const (*process).xid).read_volatile();
                if before && same() && xid != pg_sys::InvalidTransactionId {
                    xids.push(xid);
                }
            }
            pg_sys::pfree(holders.cast());
        }
        xids
    }

    /// Gives back a lock that [`Locks::lock_row`] has newly taken.
    pub fn unlock_row(self, row: RowNumber, lock: RowLock) {
        // SAFETY: the tag lives during the call; held by this transaction.
        unsafe {
            pg_sys::LockRelease(&self.row(row), lock.on_row() as pg_sys::LOCKMODE, false);
        }
    }
}

/// Gives the running transaction an id that others can name as a locker of a row.
pub fn announce() -> pg_sys::TransactionId {
    // SAFETY: a transaction is running and may write.
    unsafe {
        pg_sys::MultiXactIdSetOldestMember();
        pg_sys::GetCurrentTransactionId()
    }
}

fn held(tag: &pg_sys::LOCKTAG, mode: u32) -> bool {
    // SAFETY: a lookup in this backend's own table of locks.
    unsafe { pg_sys::LockHeldByMe(tag, mode as pg_sys::LOCKMODE, false) }
}

fn acquire(tag: &pg_sys::LOCKTAG, mode: u32, wait: Wait) -> Option<bool> {
    use pg_sys::LockAcquireResult::{LOCKACQUIRE_NOT_AVAIL, LOCKACQUIRE_OK};
    // SAFETY: the tag is copied. May wait, and raise an ERROR for a deadlock or a timeout; nothing
    // of ours needs undoing then.
    match unsafe { pg_sys::LockAcquire(tag, mode as pg_sys::LOCKMODE, false, wait == Wait::Not) } {
        LOCKACQUIRE_NOT_AVAIL => None,
        result => Some(result == LOCKACQUIRE_OK),
    }
}
