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
//! subtransaction that took them; but a row's lock that was taken for a change is given back once the row is
//! marked, because the mark of a running transaction keeps others away as well. Deadlocks, timeouts and cancels are PostgreSQL's business.
//!
//! On heap, who may share a row with its holders passes those who wait for it; the server's lock
//! manager makes him queue behind them. So a row has two sides, and is locked by whoever holds a lock on
//! one of them while nobody else holds a conflicting one on the other:
//!
//! ```text
//!   main   taken if it is free of conflicts with holders and waiters
//!   late   taken by who conflicts with waiters on the main side only
//!   turn   held while waiting for either, or for a transaction that has marked the row, so that there is
//!          one queue; not by who holds the row in another mode already, whom the queue may be waiting for
//! ```
//!
//! Whoever has taken one side looks at the other, and gives his side back if it is held: of two who
//! come at once, at least one sees the other.

use pgrx::pg_sys;

use crate::ffi;
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

/// The lock of a row that was taken; see the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Main,
    Late,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Main => Side::Late,
            Side::Late => Side::Main,
        }
    }

    /// Told apart by bits above every offset of a cold TID.
    fn offset_bits(self) -> u16 {
        match self {
            Side::Main => 0,
            Side::Late => 0x4000,
        }
    }
}

const TURN_BITS: u16 = 0x8000;

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

    fn row(self, row: RowNumber, bits: u16) -> pg_sys::LOCKTAG {
        let tid = row.tid();
        let (kind, block) = (
            pg_sys::LockTagType::LOCKTAG_TUPLE,
            crate::tid::block_of(&tid),
        );
        self.tag(kind, block, tid.ip_posid | bits)
    }

    fn side(self, row: RowNumber, side: Side) -> pg_sys::LOCKTAG {
        self.row(row, side.offset_bits())
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

    /// Whether this transaction has locked the row itself in this very mode.
    pub fn holds_row(self, row: RowNumber, lock: RowLock) -> bool {
        let mode = lock.on_row();
        [Side::Main, Side::Late]
            .iter()
            .any(|&side| held(&self.side(row, side), mode))
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
        release(&self.group(group), lock.in_bulk());
    }

    /// Locks a row whose group is locked for it; `None` if it would have to wait and may not.
    /// The answer is what was newly taken, if it was not locked so before.
    pub fn lock_row(self, row: RowNumber, lock: RowLock, wait: Wait) -> Option<Option<Side>> {
        let mode = lock.on_row();
        if let Some(new) = self.try_side(row, Side::Main, mode) {
            return Some(new.then_some(Side::Main));
        }
        let only_waiters = !has_conflict(&self.side(row, Side::Main), mode);
        if only_waiters && let Some(new) = self.try_side(row, Side::Late, mode) {
            return Some(new.then_some(Side::Late));
        }
        (wait == Wait::Forever).then(|| self.queue_for(row, mode))
    }

    /// Takes one side if nobody is in the way on either.
    fn try_side(self, row: RowNumber, side: Side, mode: u32) -> Option<bool> {
        let new = acquire(&self.side(row, side), mode, Wait::Not)?;
        self.keep_side(row, side, mode).then_some(new)
    }

    /// Gives a side back if somebody is in the way on the other.
    fn keep_side(self, row: RowNumber, side: Side, mode: u32) -> bool {
        let alone = !has_conflict(&self.side(row, side.other()), mode);
        if !alone {
            release(&self.side(row, side), mode);
        }
        alone
    }

    /// Waits for a place at the head of those who wait for the row, and keeps it; `None` for who holds
    /// the row in another mode already.
    fn take_turn(self, row: RowNumber, mode: u32) -> Option<pg_sys::LOCKTAG> {
        let is_mine = |side| held_at_all(&self.side(row, side));
        let turn = self.row(row, TURN_BITS);
        let takes_turn = !is_mine(Side::Main) && !is_mine(Side::Late);
        takes_turn.then(|| {
            acquire(&turn, mode, Wait::Forever);
            turn
        })
    }

    /// Runs `wait` at the head of those who wait for the row, which is not locked for it.
    pub fn in_turn<R>(self, row: RowNumber, lock: RowLock, wait: impl FnOnce() -> R) -> R {
        let mode = lock.on_row();
        let turn = self.take_turn(row, mode);
        let result = wait();
        if let Some(turn) = turn {
            release(&turn, mode);
        }
        result
    }

    fn queue_for(self, row: RowNumber, mode: u32) -> Option<Side> {
        let turn = self.take_turn(row, mode);
        let mut side = Side::Main;
        let new = loop {
            let new = acquire(&self.side(row, side), mode, Wait::Forever) == Some(true);
            if self.keep_side(row, side, mode) {
                break new;
            }
            side = side.other();
        };
        if let Some(turn) = turn {
            release(&turn, mode);
        }
        new.then_some(side)
    }

    /// The transactions of others that hold locks on the row itself; beside an update that keeps the key these are
    /// FOR KEY SHARE locks. They all have ids: see [`announce`].
    pub fn holders(self, row: RowNumber) -> Vec<pg_sys::TransactionId> {
        let mut xids = Vec::new();
        for side in [Side::Main, Side::Late] {
            add_holders(&self.side(row, side), &mut xids);
        }
        xids
    }

    /// Gives back a lock that [`Locks::lock_row`] has newly taken.
    pub fn unlock_row(self, row: RowNumber, side: Side, lock: RowLock) {
        release(&self.side(row, side), lock.on_row());
    }
}

/// Adds the ids of the transactions of others that hold the lock in any mode.
fn add_holders(tag: &pg_sys::LOCKTAG, xids: &mut Vec<pg_sys::TransactionId>) {
    let mode = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;
    let mut count = 0;
    // SAFETY: the array has `count` entries. A backend's fields may change under our eyes: its
    // id counts only if it runs the same transaction before and after the look.
    unsafe {
        let holders = pg_sys::GetLockConflicts(tag, mode, &mut count);
        for i in 0..count as usize {
            let holder = &*holders.add(i);
            if holder.procNumber < 0 {
                // A prepared transaction from before a restart: its id stands for it.
                xids.push(pg_sys::TransactionId::from(holder.localTransactionId));
                continue;
            }
            let xid = match running_xid(holder) {
                pg_sys::InvalidTransactionId => {
                    // Prepared since: it keeps the virtual id, but not the backend. The same one
                    // comes again after four billion transactions of one backend.
                    let mut have_more = false;
                    ffi::TwoPhaseGetXidByVirtualXID(*holder, &mut have_more)
                }
                xid => xid,
            };
            if xid != pg_sys::InvalidTransactionId {
                xids.push(xid);
            }
        }
        pg_sys::pfree(holders.cast());
    }
}

/// The id of the transaction that a backend runs, if it is this one and has an id.
///
/// # Safety
/// The process number is that of a backend, which may be gone by now.
unsafe fn running_xid(holder: &pg_sys::VirtualTransactionId) -> pg_sys::TransactionId {
    // SAFETY: processes' entries in shared memory are never given back.
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

/// Whether this transaction holds the lock in any mode.
fn held_at_all(tag: &pg_sys::LOCKTAG) -> bool {
    let weakest = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: as above.
    unsafe { pg_sys::LockHeldByMe(tag, weakest, true) }
}

/// Whether somebody else holds the lock in a mode that conflicts.
fn has_conflict(tag: &pg_sys::LOCKTAG, mode: u32) -> bool {
    let mut count = 0;
    // SAFETY: the tag lives during the call; the list is allocated for us.
    unsafe {
        let holders = pg_sys::GetLockConflicts(tag, mode as pg_sys::LOCKMODE, &mut count);
        pg_sys::pfree(holders.cast());
    }
    count > 0
}

fn release(tag: &pg_sys::LOCKTAG, mode: u32) {
    // SAFETY: the tag lives during the call; held by this transaction.
    unsafe { pg_sys::LockRelease(tag, mode as pg_sys::LOCKMODE, false) };
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
