//! A tuple whose visibility may be judged: its page is pinned and share-locked.
//!
//! `HeapTupleSatisfies…` reads the tuple's header, looks up the transactions in it, and sets hint
//! bits. For that the buffer must be pinned and locked; the lifetime is that of the guard which
//! holds both. Nothing here releases the lock or accesses another page of the relation.

use std::marker::PhantomData;
use std::ptr::NonNull;

use pgrx::pg_sys;

use crate::hot::xmin_of;
use crate::snapshot::Snapshot;
use crate::store::TupleStamp;
use crate::tid::Tid;
use crate::xid::{CommandId, Xid};

/// The status of a tuple, judged for maintenance: `HTSV_Result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TupleStatus {
    Live,
    /// No snapshot can see it any more.
    Dead,
    /// Deleted, but an old snapshot may still see it.
    RecentlyDead,
    InsertInProgress,
    DeleteInProgress,
}

/// A tuple in a pinned and share-locked buffer.
#[derive(Clone, Copy)]
pub struct ShownTuple<'a> {
    tuple: NonNull<pg_sys::HeapTupleData>,
    buffer: pg_sys::Buffer,
    locked: PhantomData<&'a pg_sys::HeapTupleData>,
}

impl<'a> ShownTuple<'a> {
    /// # Safety
    /// `tuple` is valid for `'a`; it lies in `buffer`, which is pinned and share-locked so long.
    #[inline]
    pub unsafe fn new(tuple: pg_sys::HeapTuple, buffer: pg_sys::Buffer) -> ShownTuple<'a> {
        ShownTuple {
            // SAFETY: a valid pointer is not NULL.
            tuple: unsafe { NonNull::new_unchecked(tuple) },
            buffer,
            locked: PhantomData,
        }
    }

    /// The server's pointer, valid for `'a`.
    #[inline]
    pub fn raw(self) -> pg_sys::HeapTuple {
        self.tuple.as_ptr()
    }

    /// The buffer that the tuple lies in.
    #[inline]
    pub fn buffer(self) -> pg_sys::Buffer {
        self.buffer
    }

    #[inline]
    fn header(self) -> pg_sys::HeapTupleHeader {
        // SAFETY: valid by the contract of `new`.
        unsafe { self.tuple.as_ref().t_data }
    }

    /// Where it is.
    #[inline]
    pub fn tid(self) -> Tid {
        // SAFETY: valid by the contract of `new`.
        Tid::from_raw(unsafe { self.tuple.as_ref().t_self })
    }

    /// The transaction that inserted it.
    #[inline]
    pub fn xmin(self) -> Xid {
        // SAFETY: the page is pinned and locked by the contract of `new`.
        Xid::from_raw(unsafe { xmin_of(self.header()) })
    }

    /// The transaction that inserted it and, if that is our own, the command.
    pub fn writer(self) -> (Xid, Option<CommandId>) {
        let xmin = self.xmin();
        (xmin, xmin.is_own().then(|| self.own_cmin()))
    }

    /// The command that inserted it; the inserter is our own transaction.
    fn own_cmin(self) -> CommandId {
        // SAFETY: the page is pinned and locked. The command id is that of an insert, or stands for
        // one in our own transaction's table of combined ids.
        unsafe { pg_sys::HeapTupleHeaderGetCmin(self.header()) }
    }

    /// The transaction that deleted or updated it and, if that is our own, the command.
    pub fn deleter(self) -> (Xid, Option<CommandId>) {
        // SAFETY: the page is pinned and locked; members of a multixact are looked up.
        let xid = Xid::from_raw(unsafe { pg_sys::HeapTupleHeaderGetUpdateXid(self.header()) });
        // SAFETY: the page is pinned and locked; the deleter is our own, so that its command id
        // is known.
        let command = || unsafe { pg_sys::HeapTupleHeaderGetCmax(self.header()) };
        (xid, xid.is_own().then(command))
    }

    /// Whether the snapshot sees it. Does not check for serialization conflicts.
    #[inline]
    pub fn satisfies(self, snapshot: Snapshot<'_>) -> bool {
        // SAFETY: pin and lock by the contract of `new`; the snapshot is valid.
        unsafe { pg_sys::HeapTupleSatisfiesVisibility(self.raw(), snapshot.raw(), self.buffer) }
    }

    /// Whether it is in force now: of our own transaction, whatever the command, or committed; and
    /// not deleted.
    #[inline]
    pub fn is_in_force(self) -> bool {
        self.satisfies(Snapshot::in_force())
    }

    /// As [`ShownTuple::satisfies`] for a dirty snapshot, which is left as it is; the inserter if
    /// it is in progress.
    pub fn satisfies_dirty(self, snapshot: Snapshot<'_>) -> (bool, Option<Xid>) {
        // SAFETY: the snapshot is valid; its copy lives during the call, which writes to it.
        unsafe {
            let mut own = *snapshot.raw();
            let visible = pg_sys::HeapTupleSatisfiesVisibility(self.raw(), &mut own, self.buffer);
            let inserter = Xid::from_raw(own.xmin);
            (visible, (inserter != Xid::INVALID).then_some(inserter))
        }
    }

    /// Its status; `horizon` is the oldest transaction that a snapshot may need.
    pub fn status(self, horizon: Xid) -> TupleStatus {
        use pg_sys::HTSV_Result::*;
        // SAFETY: pin and lock by the contract of `new`.
        let status =
            unsafe { pg_sys::HeapTupleSatisfiesVacuum(self.raw(), horizon.raw(), self.buffer) };
        match status {
            HEAPTUPLE_DEAD => TupleStatus::Dead,
            HEAPTUPLE_RECENTLY_DEAD => TupleStatus::RecentlyDead,
            HEAPTUPLE_INSERT_IN_PROGRESS => TupleStatus::InsertInProgress,
            HEAPTUPLE_DELETE_IN_PROGRESS => TupleStatus::DeleteInProgress,
            _ => TupleStatus::Live,
        }
    }

    /// Of a dead tuple: the later one of `horizon` and the transaction that made it dead, as heap
    /// computes it for snapshot conflicts.
    pub fn later_conflict(self, horizon: Xid) -> Xid {
        let mut later = horizon.raw();
        // SAFETY: the page is pinned and locked.
        unsafe { pg_sys::HeapTupleHeaderAdvanceConflictHorizon(self.header(), &mut later) };
        Xid::from_raw(later)
    }

    /// The inserter, if hint bits tell that it has committed and that no transaction deletes the
    /// tuple.
    pub fn settled_inserter(self) -> Option<Xid> {
        // SAFETY: the page is pinned and locked.
        let bits = u32::from(unsafe { (*self.header()).t_infomask });
        let is_kept = bits & pg_sys::HEAP_XMAX_INVALID != 0;
        let is_born = bits & pg_sys::HEAP_XMIN_COMMITTED != 0;
        (is_kept && is_born).then(|| self.xmin())
    }

    /// The last transaction that matters to it, if hint bits tell that it is dead to all that come
    /// after that one: the deleter, which has committed; none if the inserter has aborted.
    pub fn settled_end(self) -> Option<Xid> {
        // SAFETY: the page is pinned and locked.
        let bits = u32::from(unsafe { (*self.header()).t_infomask });
        if bits & pg_sys::HEAP_XMIN_FROZEN == pg_sys::HEAP_XMIN_INVALID {
            return Some(Xid::FROZEN);
        }
        let is_born = bits & pg_sys::HEAP_XMIN_COMMITTED != 0;
        let is_deleted = bits & pg_sys::HEAP_XMAX_COMMITTED != 0
            && bits & (pg_sys::HEAP_XMAX_IS_MULTI | pg_sys::HEAP_XMAX_LOCK_ONLY) == 0;
        (is_born && is_deleted).then(|| self.deleter().0)
    }

    /// Its transaction fields.
    pub fn stamp(self) -> TupleStamp {
        // SAFETY: the page is pinned and locked.
        unsafe { TupleStamp::of(self.raw()) }
    }
}
