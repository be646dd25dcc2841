//! Transaction ids and what the server knows about them.
//!
//! ```text
//!   Xid          a transaction or subtransaction; 2 is frozen, 0 is none
//!   CommandId    a command of the current transaction
//!   LocalXid     the current transaction's number in this backend
//! ```
//!
//! Ids wrap around: they have an order by age ([`Xid::precedes`]), which is no total order, hence
//! no `Ord`. A look-up of a transaction's status may read pages of the commit log and raise an
//! ERROR; it takes no lock that outlives the call.

use std::fmt;

use pgrx::pg_sys;

use crate::ffi::quiet;

/// A command of a transaction, counted from zero.
pub type CommandId = pg_sys::CommandId;
/// A subtransaction of the current transaction, counted from one.
pub type SubTransactionId = pg_sys::SubTransactionId;

/// The first command of a transaction.
pub const FIRST_COMMAND: CommandId = 0;
/// `InvalidCommandId`: no command.
pub const INVALID_COMMAND: CommandId = CommandId::MAX;

/// The id of a transaction or a subtransaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Xid(pg_sys::TransactionId);

impl Xid {
    /// No transaction.
    pub const INVALID: Xid = Xid(pg_sys::InvalidTransactionId);
    /// The frozen transaction id: every snapshot sees it as finished.
    pub const FROZEN: Xid = Xid(pg_sys::FrozenTransactionId);

    /// The current (sub)transaction, which is assigned an id if it has none. An ERROR in a parallel
    /// worker.
    #[inline]
    pub fn current() -> Xid {
        // SAFETY: a transaction is running; assigning an id may raise an ERROR, with nothing of
        // ours to undo.
        unsafe {
            let known = Xid(quiet::GetCurrentTransactionIdIfAny());
            match known.is_normal() {
                true => known,
                false => Xid(pg_sys::GetCurrentTransactionId()),
            }
        }
    }

    /// The current top-level transaction, if it has an id.
    pub fn top_if_any() -> Option<Xid> {
        // SAFETY: plain read of this backend's state.
        let xid = Xid(unsafe { pg_sys::GetTopTransactionIdIfAny() });
        (xid != Xid::INVALID).then_some(xid)
    }

    /// From the server's own type.
    #[inline]
    pub const fn from_raw(xid: pg_sys::TransactionId) -> Xid {
        Xid(xid)
    }

    /// The server's own type.
    #[inline]
    pub const fn raw(self) -> pg_sys::TransactionId {
        self.0
    }

    /// The id as it is stored, and as ids are sorted regardless of age.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0.into_inner()
    }

    /// The id with this number.
    #[inline]
    pub const fn from_number(number: u32) -> Xid {
        Xid(pg_sys::TransactionId::from_inner(number))
    }

    /// Whether it is a normal transaction id: neither invalid, nor one that every snapshot sees as
    /// finished.
    #[inline]
    pub const fn is_normal(self) -> bool {
        self.number() >= pg_sys::FirstNormalTransactionId.into_inner()
    }

    /// `TransactionIdPrecedes`: whether it is older. Ids that are not normal precede all normal
    /// ones.
    #[inline]
    pub const fn precedes(self, other: Xid) -> bool {
        if self.is_normal() && other.is_normal() {
            (self.number().wrapping_sub(other.number()) as i32) < 0
        } else {
            self.number() < other.number()
        }
    }

    /// The later one of two.
    #[inline]
    pub const fn younger(self, other: Xid) -> Xid {
        if self.precedes(other) { other } else { self }
    }

    /// Whether the transaction is in progress, be it our own or another one.
    pub fn is_in_progress(self) -> bool {
        // SAFETY: a look among the running transactions.
        unsafe { pg_sys::TransactionIdIsInProgress(self.0) }
    }

    /// Whether the transaction has committed. Call it for a transaction that was found not to be in
    /// progress any more.
    pub fn did_commit(self) -> bool {
        // SAFETY: a look into the commit log, which reaches back to every id that is not frozen.
        unsafe { pg_sys::TransactionIdDidCommit(self.0) }
    }

    /// Whether it is the current transaction, or one of its subtransactions that was not rolled
    /// back.
    #[inline]
    pub fn is_own(self) -> bool {
        // SAFETY: a look at this backend's own transaction state.
        self.may_be_own() && unsafe { quiet::TransactionIdIsCurrentTransactionId(self.0) }
    }

    /// `false` for transactions that ended before the current transaction took its first snapshot:
    /// our own ids are not older than the xmin of any of our snapshots. This test is cheaper than a
    /// search among our own ids.
    #[inline]
    fn may_be_own(self) -> bool {
        // SAFETY: plain read of this backend's state; none where there is no snapshot.
        let oldest = Xid(unsafe { pg_sys::TransactionXmin });
        !(self.is_normal() && oldest.is_normal() && self.precedes(oldest))
    }
}

impl fmt::Debug for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Xid({})", self.number())
    }
}

impl From<pg_sys::TransactionId> for Xid {
    #[inline]
    fn from(xid: pg_sys::TransactionId) -> Xid {
        Xid(xid)
    }
}

impl From<Xid> for pg_sys::TransactionId {
    #[inline]
    fn from(xid: Xid) -> pg_sys::TransactionId {
        xid.0
    }
}

/// The number of the current transaction in this backend. Each transaction has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalXid(pg_sys::LocalTransactionId);

impl LocalXid {
    /// The number of the current transaction.
    #[inline]
    pub fn current() -> LocalXid {
        // SAFETY: plain read of this backend's entry in shared memory, which is ours alone to
        // write.
        LocalXid(unsafe { (*pg_sys::MyProc).vxid.lxid })
    }
}

/// Whether this transaction has an id, or can be given one: near wraparound the server refuses.
pub fn may_be_assigned() -> bool {
    // SAFETY: plain reads of this backend's state and of words in shared memory.
    unsafe {
        if pg_sys::GetTopTransactionIdIfAny() != pg_sys::InvalidTransactionId {
            return true;
        }
        let limits = pg_sys::TransamVariables;
        let (next, stop) = ((*limits).nextXid.value as u32, (*limits).xidStopLimit);
        Xid::from_raw(next.into()).precedes(Xid::from_raw(stop))
    }
}

/// The oldest transaction that some snapshot of this backend may not see as finished, as this
/// backend advertises it in shared memory.
#[inline]
pub fn announced_xmin() -> Xid {
    // SAFETY: as for [`LocalXid::current`].
    Xid(unsafe { (*pg_sys::MyProc).xmin })
}

/// The current subtransaction.
#[inline]
pub fn current_subtransaction() -> SubTransactionId {
    // SAFETY: plain read of transaction state.
    unsafe { quiet::GetCurrentSubTransactionId() }
}

/// Whether parallel workers run, or this is one: nothing may be changed.
#[inline]
pub fn is_in_parallel_mode() -> bool {
    // SAFETY: plain read of transaction state.
    unsafe { quiet::IsInParallelMode() }
}

/// The current command, without marking it as one that writes.
#[inline]
pub fn current_command() -> CommandId {
    // SAFETY: plain read of transaction state.
    unsafe { quiet::GetCurrentCommandId(false) }
}

/// `IsolationUsesXactSnapshot`: whether all commands of the transaction share one snapshot.
#[inline]
pub fn keeps_snapshot() -> bool {
    // SAFETY: plain read of a global.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Whether this process is a worker of a parallel query.
#[inline]
pub fn in_parallel_worker() -> bool {
    // SAFETY: plain read of a global.
    unsafe { pg_sys::ParallelWorkerNumber >= 0 }
}

/// When the current statement began, in microseconds.
#[inline]
pub fn statement_start() -> i64 {
    // SAFETY: plain read of this backend's state.
    unsafe { quiet::GetCurrentStatementStartTimestamp() }
}

/// Whether this server replays WAL and accepts no writes.
#[inline]
pub fn in_recovery() -> bool {
    // SAFETY: reads the state of this process.
    unsafe { quiet::RecoveryInProgress() }
}

/// The database of this backend.
#[inline]
pub fn current_database() -> pg_sys::Oid {
    // SAFETY: plain read of a global.
    unsafe { pg_sys::MyDatabaseId }
}

#[cfg(test)]
mod tests {
    use super::Xid;

    fn xid(number: u32) -> Xid {
        Xid::from_number(number)
    }

    #[test]
    fn ids_wrap_around_but_special_ones_precede_all() {
        assert!(xid(3).precedes(xid(4)) && !xid(4).precedes(xid(3)));
        assert!(xid(u32::MAX).precedes(xid(3)) && !xid(3).precedes(xid(u32::MAX)));
        assert!(Xid::FROZEN.precedes(xid(u32::MAX)) && !xid(u32::MAX).precedes(Xid::FROZEN));
        assert!(Xid::INVALID.precedes(Xid::FROZEN) && !Xid::FROZEN.precedes(Xid::FROZEN));
    }

    #[test]
    fn the_younger_one_is_the_one_that_the_other_precedes() {
        assert_eq!(xid(u32::MAX).younger(xid(7)), xid(7));
        assert_eq!(xid(9).younger(Xid::INVALID), xid(9));
        assert_eq!(Xid::INVALID.younger(xid(9)), xid(9));
    }
}
