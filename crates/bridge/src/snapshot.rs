//! Snapshots as borrowed values.
//!
//! A snapshot belongs to the server (on the stack of active snapshots, or registered with a
//! resource owner), or is a variable of the caller (dirty ones). The lifetime tells how long it
//! stays valid; only [`Snapshot::from_raw`] can claim one. A dirty snapshot is written to when a
//! tuple is judged by it: it receives the transaction for which a caller has to wait.

use std::marker::PhantomData;
use std::ptr::NonNull;

use pgrx::pg_sys;

use crate::xid::{CommandId, Xid};

/// The rule by which a snapshot judges tuples: `SnapshotType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
    /// Transactions that had committed when it was taken, and earlier commands of our own
    /// transaction.
    Mvcc,
    /// Committed transactions, and all of our own.
    SelfVisible,
    /// Every tuple.
    Any,
    /// A value stored out of line, whose owner was judged before.
    Toast,
    /// Committed transactions, our own, and those in progress, which the snapshot receives.
    Dirty,
    /// Catalogs as logical decoding sees them.
    HistoricMvcc,
    /// Tuples that VACUUM may not remove.
    NonVacuumable,
}

/// A valid snapshot.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    raw: NonNull<pg_sys::SnapshotData>,
    valid: PhantomData<&'a pg_sys::SnapshotData>,
}

impl<'a> Snapshot<'a> {
    /// `SnapshotSelf`: what is in force now, including our own changes.
    #[inline]
    pub fn in_force() -> Snapshot<'static> {
        // SAFETY: a variable of the server, which lasts as long as the process.
        unsafe { Snapshot::from_raw(&raw mut pg_sys::SnapshotSelfData) }
    }

    /// `SnapshotAny`: every tuple.
    #[inline]
    pub fn any() -> Snapshot<'static> {
        // SAFETY: a variable of the server, which lasts as long as the process.
        unsafe { Snapshot::from_raw(&raw mut pg_sys::SnapshotAnyData) }
    }

    /// Borrows a snapshot of the server's.
    ///
    /// # Safety
    /// `raw` is valid for as long as the result and its copies are used: it is on the stack of
    /// active snapshots, registered, or a variable that outlives them.
    #[inline]
    pub unsafe fn from_raw(raw: pg_sys::Snapshot) -> Snapshot<'a> {
        debug_assert!(!raw.is_null());
        Snapshot {
            // SAFETY: a valid snapshot is not NULL.
            raw: unsafe { NonNull::new_unchecked(raw) },
            valid: PhantomData,
        }
    }

    /// As [`Snapshot::from_raw`]; NULL is none.
    ///
    /// # Safety
    /// `raw` is NULL, or as for [`Snapshot::from_raw`].
    #[inline]
    pub unsafe fn from_nullable(raw: pg_sys::Snapshot) -> Option<Snapshot<'a>> {
        let valid = PhantomData;
        NonNull::new(raw).map(|raw| Snapshot { raw, valid })
    }

    /// The server's pointer, valid for `'a`.
    #[inline]
    pub fn raw(self) -> pg_sys::Snapshot {
        self.raw.as_ptr()
    }

    /// The server's pointer; NULL for none.
    #[inline]
    pub(crate) fn raw_or_null(snapshot: Option<Snapshot<'_>>) -> pg_sys::Snapshot {
        snapshot.map_or(std::ptr::null_mut(), Snapshot::raw)
    }

    #[inline]
    fn data(&self) -> &pg_sys::SnapshotData {
        // SAFETY: valid by the contract of `from_raw`. Fields are copied out at once, so that no
        // reference is alive when the server writes to a dirty snapshot.
        unsafe { self.raw.as_ref() }
    }

    /// The rule by which it judges tuples.
    #[inline]
    pub fn kind(self) -> SnapshotKind {
        use pg_sys::SnapshotType::*;
        match self.data().snapshot_type {
            SNAPSHOT_MVCC => SnapshotKind::Mvcc,
            SNAPSHOT_SELF => SnapshotKind::SelfVisible,
            SNAPSHOT_ANY => SnapshotKind::Any,
            SNAPSHOT_TOAST => SnapshotKind::Toast,
            SNAPSHOT_DIRTY => SnapshotKind::Dirty,
            SNAPSHOT_HISTORIC_MVCC => SnapshotKind::HistoricMvcc,
            _ => SnapshotKind::NonVacuumable,
        }
    }

    #[inline]
    pub fn is_mvcc(self) -> bool {
        self.data().snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC
    }

    #[inline]
    pub fn is_dirty(self) -> bool {
        self.data().snapshot_type == pg_sys::SnapshotType::SNAPSHOT_DIRTY
    }

    /// Of an MVCC snapshot: the oldest transaction that it may see as in progress. It sees
    /// transactions that precede this one as finished. Of a dirty snapshot: the inserter in
    /// progress of the tuple that was judged last, if any.
    #[inline]
    pub fn xmin(self) -> Xid {
        Xid::from_raw(self.data().xmin)
    }

    /// Of a dirty snapshot: the deleter in progress of the tuple that was judged last, if any.
    #[inline]
    pub fn xmax(self) -> Xid {
        Xid::from_raw(self.data().xmax)
    }

    /// Of an MVCC snapshot: it sees changes by earlier commands of our own transaction than this
    /// one.
    #[inline]
    pub fn command(self) -> CommandId {
        self.data().curcid
    }

    /// Identifies an MVCC snapshot among those in use: its address and its command.
    #[inline]
    pub fn name(self) -> (usize, CommandId) {
        (self.raw() as usize, self.command())
    }

    /// Whether an MVCC snapshot sees the transaction as in progress, even if that has committed
    /// meanwhile. Not to be called for our own transaction.
    pub fn sees_as_running(self, xid: Xid) -> bool {
        // SAFETY: the snapshot is valid; a look at its lists.
        unsafe { pg_sys::XidInMVCCSnapshot(xid.raw(), self.raw()) }
    }

    /// Resets the transactions in a dirty snapshot, as judging a tuple does first.
    pub fn reset_dirty(self) {
        // SAFETY: valid by the contract of `from_raw`; the server's own judges write these fields
        // through the same pointer, and no reference is held.
        unsafe {
            let data = self.raw.as_ptr();
            (*data).xmin = pg_sys::InvalidTransactionId;
            (*data).xmax = pg_sys::InvalidTransactionId;
            (*data).speculativeToken = 0;
        }
    }

    /// Sets the deleter in a dirty snapshot: a transaction in progress that is about to hide the
    /// row.
    pub fn name_deleter(self, xid: Xid) {
        // SAFETY: as for `reset_dirty`.
        unsafe { (*self.raw.as_ptr()).xmax = xid.raw() }
    }

    /// Sets the inserter in a dirty snapshot: a transaction in progress that has inserted the row.
    pub fn name_inserter(self, xid: Xid) {
        // SAFETY: as for `reset_dirty`.
        unsafe { (*self.raw.as_ptr()).xmin = xid.raw() }
    }
}

/// Passes the snapshot of the current statement, which is active, to `look`. Raises an ERROR if
/// there is none.
pub fn with_active<R>(look: impl FnOnce(Snapshot<'_>) -> R) -> R {
    // SAFETY: the statement keeps its snapshot active while it runs.
    match unsafe { Snapshot::from_nullable(pg_sys::GetActiveSnapshot()) } {
        Some(snapshot) => look(snapshot),
        None => pgrx::error!("no snapshot is active"),
    }
}

/// Passes the active snapshot to `look`; `None` if there is none.
pub fn try_with_active<R>(look: impl FnOnce(Snapshot<'_>) -> R) -> Option<R> {
    // SAFETY: what is active stays so while `look` runs: it returns before the server goes on.
    unsafe {
        match pg_sys::ActiveSnapshotSet() {
            true => Snapshot::from_nullable(pg_sys::GetActiveSnapshot()).map(look),
            false => None,
        }
    }
}

/// Passes the latest snapshot to `look`, where one may be taken. None may be taken during a
/// parallel operation (a function that queries tables, in a worker or in its leader); then it is
/// the snapshot with which the planner evaluates functions, which exists in every planning in
/// parallel mode. The snapshot stays registered meanwhile; after an ERROR the resource owner
/// releases it.
pub fn with_latest<R>(look: impl FnOnce(Snapshot<'_>) -> R) -> R {
    // SAFETY: a snapshot of this backend's, which is registered before anything else is done.
    let registered = unsafe {
        let latest = if !pg_sys::IsInParallelMode() {
            pg_sys::GetLatestSnapshot()
        } else if pg_sys::ActiveSnapshotSet() {
            pg_sys::GetActiveSnapshot()
        } else {
            pg_sys::GetTransactionSnapshot()
        };
        pg_sys::RegisterSnapshot(latest)
    };
    // SAFETY: registered until `look` has returned.
    let result = look(unsafe { Snapshot::from_raw(registered) });
    // SAFETY: registered above, and unregistered once.
    unsafe { pg_sys::UnregisterSnapshot(registered) };
    result
}

/// Whether the snapshot of a transaction that keeps one snapshot for all of its commands sees
/// another transaction as in progress.
pub fn kept_sees_as_running(xid: Xid) -> bool {
    debug_assert!(crate::xid::keeps_snapshot());
    // SAFETY: a transaction that keeps its snapshot keeps it to its end, and hands it out again.
    unsafe { Snapshot::from_raw(pg_sys::GetTransactionSnapshot()) }.sees_as_running(xid)
}
