//! The cold store: a table's TOAST relation as a transactional key–value store.
//!
//! ```text
//!   key   = (chunk_id oid, chunk_seq int4)      the TOAST relation's unique index
//!   value = chunk_data, up to VALUE_BYTES       one tuple; a full one fills its page
//! ```
//!
//! Long values are split: piece `k` of value `id` is the tuple `(id, k)` and holds the bytes
//! `[k * PIECE_BYTES, …)` and checks of them ([`piece`]). Pieces are written one after the other,
//! so that a reader that knows the block of one computes the block of any other, compares
//! `(id, seq)` there and searches the index only where they differ ([`value`]). No byte of a piece
//! is interpreted that was not verified.
//!
//! Visibility. Entries are ordinary MVCC tuples, whose visibility is decided by the code that scans
//! them. The pieces of a long value carry no visibility of their own: their id is known only from
//! an entry that the reader could see, ids are never in use twice, and VACUUM removes pieces only
//! when no snapshot can see that entry any more (entry and pieces are deleted by one transaction).
//!
//! In-place change. [`ColdStore::overwrite`] replaces the payload of one tuple by another of the
//! same length: exclusive content lock, generic WAL. It is used where MVCC is not wanted (the
//! high-water mark) or not needed (an entry that the running transaction itself inserted). A crash
//! leaves the old or the new payload, never a mixture, as WAL replays whole deltas.
//!
//! Locks: content locks are held for one page at a time, never across a call into another page;
//! `ColdStore::with_allocation_lock` is a heavyweight page lock on block 0 of the TOAST relation,
//! which no other code takes.

mod copy;
pub mod file_copy;
mod file_map;
pub mod file_reads;
mod guarded_copy;
mod hash;
mod lent;
mod lookup;
pub mod mapped;
mod page;
mod piece;
mod piece_map;
mod read;
mod recent;
mod stream;
mod unverified;
mod value;
pub mod verified_notes;
mod write;

use std::cell::OnceCell;
use std::cmp::Ordering;

use pgrx::pg_sys;

use crate::ffi::quiet;
use crate::lock_span;
use crate::predicate::is_serializable;
use crate::shown_tuple::ShownTuple;
use crate::snapshot::Snapshot;
use crate::table::{LockMode, Table};

pub use copy::{CopiedAs, TupleStamp};
pub use lent::{LentRun, Loans};
pub use page::blocks_read;
pub use piece::PIECE_BYTES;
pub use piece_map::PieceMap;
pub use read::{Entry, EntryAt, Judge, Visited};
pub use unverified::Unverified;
pub use value::ValueReader;
pub use write::{Birth, BulkWrite, WrittenValue};

/// Bytes of one tuple: with its header and keys it fills a page.
pub const VALUE_BYTES: usize = 8_100;

/// Bytes in front of the payload inside a TOAST tuple's data: id, seq, varlena header.
const PAYLOAD_OFFSET: usize = 12;

/// Names the contents of a store; other contents, as after a rewrite, come with another file. In
/// the order of TOAST relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreId {
    /// The TOAST relation.
    pub toast: pg_sys::Oid,
    /// Number of its file.
    pub file: u32,
}

impl StoreId {
    fn order(self) -> (u32, u32) {
        (self.toast.to_u32(), self.file)
    }
}

impl PartialOrd for StoreId {
    fn partial_cmp(&self, other: &StoreId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StoreId {
    fn cmp(&self, other: &StoreId) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// An open cold store. Closing keeps the locks to the end of the transaction.
pub struct ColdStore<'a> {
    /// The table itself where the store was opened through it.
    table: Option<Table<'a>>,
    toast: pg_sys::Relation,
    lockmode: pg_sys::LOCKMODE,
    /// Opened when they are first needed.
    indexes: OnceCell<Indexes>,
}

/// The indexes of the TOAST relation.
struct Indexes {
    /// All indexes that must be maintained.
    all: Vec<pg_sys::Relation>,
    /// Position of the index that can be searched.
    valid: usize,
}

impl Indexes {
    /// # Safety
    /// `toast` is open and locked in this mode.
    unsafe fn open(toast: pg_sys::Relation, mode: pg_sys::LOCKMODE) -> Indexes {
        // SAFETY: as for this function; an ERROR leaves nothing to undo here.
        unsafe {
            let oids = index_oids(toast);
            let mut all = Vec::with_capacity(oids.len());
            let mut valid = None;
            for (i, &oid) in oids.iter().enumerate() {
                let index = pg_sys::index_open(oid, mode);
                if valid.is_none() && (*(*index).rd_index).indisvalid {
                    valid = Some(i);
                }
                all.push(index);
            }
            let Some(valid) = valid else {
                pgrx::error!(
                    "no valid index found for toast relation with Oid {}",
                    (*toast).rd_id.to_u32()
                );
            };
            Indexes { all, valid }
        }
    }
}

/// Why stored bytes could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A piece that an entry refers to does not exist.
    #[error("piece {seq} of cold value {id} is missing in TOAST relation {toast}")]
    MissingPiece {
        toast: pg_sys::Oid,
        id: u32,
        seq: i32,
    },
    /// A check of a piece does not match its bytes.
    #[error("piece {seq} of cold value {id} in TOAST relation {toast} does not match its checksum")]
    DamagedPiece {
        toast: pg_sys::Oid,
        id: u32,
        seq: i32,
    },
    /// A piece is shorter than it must be at its position.
    #[error(
        "piece {seq} of cold value {id} in TOAST relation {toast} has {actual_bytes} bytes instead of {expected_bytes}"
    )]
    ShortPiece {
        toast: pg_sys::Oid,
        id: u32,
        seq: i32,
        actual_bytes: usize,
        expected_bytes: usize,
    },
}

impl<'a> ColdStore<'a> {
    /// Opens the TOAST relation of `table`, which is locked at least as strongly as `mode`; `None`
    /// if the table has none.
    pub fn open(table: Table<'a>, mode: LockMode) -> Option<ColdStore<'a>> {
        let mut store = ColdStore::open_toast(table.toast_oid()?, mode);
        store.table = Some(table);
        Some(store)
    }

    /// As [`ColdStore::open`], but `None` also if nothing was ever stored: the common case of a
    /// table that is all hot, which is detected without opening any index.
    pub fn open_used(table: Table<'a>, mode: LockMode) -> Option<ColdStore<'a>> {
        let store = ColdStore::open(table, mode)?;
        // The TOAST relation is locked while its size is read. The lock on an empty one is
        // released.
        if store.toast().has_block(0) {
            return Some(store);
        }
        let toast = store.toast().oid();
        drop(store);
        // SAFETY: the lock that `open` has taken is given back once.
        unsafe { pg_sys::UnlockRelationOid(toast, mode.raw()) };
        None
    }

    /// As [`ColdStore::open`], for writing, but `None` also if this transaction does not hold the
    /// locks on the TOAST relation and its indexes already: it never waits.
    pub fn open_held(table: Table<'a>) -> Option<ColdStore<'a>> {
        let mode = LockMode::RowExclusive;
        // SAFETY: reads this backend's own table of locks.
        let is_held = |oid| unsafe { pg_sys::CheckRelationOidLockedByMe(oid, mode.raw(), true) };
        if !is_held(table.toast_oid()?) {
            return None;
        }
        let store = ColdStore::open(table, mode)?;
        store.index_oids().into_iter().all(is_held).then_some(store)
    }

    /// As [`ColdStore::open`], for reading, but `None` also if the TOAST relation or its indexes
    /// cannot be locked at once: it never waits.
    pub fn open_at_once(table: Table<'a>) -> Option<ColdStore<'a>> {
        let mode = LockMode::AccessShare;
        // SAFETY: a lock that is got is kept to the end of the transaction, as all are.
        let lock = |oid| unsafe {
            pg_sys::CheckRelationOidLockedByMe(oid, mode.raw(), true)
                || pg_sys::ConditionalLockRelationOid(oid, mode.raw())
        };
        if !lock(table.toast_oid()?) {
            return None;
        }
        let store = ColdStore::open(table, mode)?;
        store.index_oids().into_iter().all(lock).then_some(store)
    }

    /// Locks its indexes as they are when it is searched.
    pub fn lock_indexes(&self) {
        for oid in self.index_oids() {
            // SAFETY: a lock that is got is kept to the end of the transaction, as all are.
            unsafe { pg_sys::LockRelationOid(oid, self.lockmode) };
        }
    }

    /// Closes it, and gives the locks back that were taken when it and its indexes were opened.
    pub fn release(self) {
        let mode = self.lockmode;
        let indexes = self.indexes.get().map(|indexes| &indexes.all);
        let relations = indexes.into_iter().flatten().copied();
        let relations = relations.chain(std::iter::once(self.toast));
        // SAFETY: all are open.
        let oids: Vec<_> = relations.map(|rel| unsafe { (*rel).rd_id }).collect();
        drop(self);
        for oid in oids {
            // SAFETY: a lock that was taken for this store is given back once.
            unsafe { pg_sys::UnlockRelationOid(oid, mode) };
        }
        lock_span::locks_given_up();
    }

    /// Opens a TOAST relation.
    fn open_toast(toast_oid: pg_sys::Oid, mode: LockMode) -> ColdStore<'a> {
        let lockmode = mode.raw();
        ColdStore {
            table: None,
            // SAFETY: raises an ERROR for what is no relation; nothing of ours needs undoing then.
            toast: unsafe { pg_sys::table_open(toast_oid, lockmode) },
            lockmode,
            indexes: OnceCell::new(),
        }
    }

    /// The TOAST relation.
    #[inline]
    pub fn toast(&self) -> Table<'_> {
        // SAFETY: open as long as this store.
        unsafe { Table::from_raw(self.toast) }
    }

    /// How a message begins that tells of damage. No catalog is read for it: a page may be locked.
    fn could_not_read(&self) -> String {
        let table = self.table.unwrap_or_else(|| self.toast());
        format!("could not read cold rows of table \"{}\"", table.name())
    }

    /// What names its contents.
    #[inline]
    pub fn id(&self) -> StoreId {
        let toast = self.toast();
        StoreId {
            toast: toast.oid(),
            file: toast.file_number(),
        }
    }

    fn index_oids(&self) -> Vec<pg_sys::Oid> {
        // SAFETY: `toast` is open.
        unsafe { index_oids(self.toast) }
    }

    /// Whether `snapshot` sees the entry. Reports an entry that the snapshot does not see yet to
    /// the serializable machinery, as a heap scan does for a row. Must be called from a [`Judge`].
    #[inline]
    pub fn visible(&self, tuple: ShownTuple<'_>, snapshot: Snapshot<'_>) -> bool {
        let valid = tuple.satisfies(snapshot);
        if let Some(table) = self.table
            && is_serializable()
        {
            let (rel, buffer) = (table.raw(), tuple.buffer());
            // SAFETY: the table is open as long as the store, the tuple's page pinned and locked,
            // the snapshot valid.
            unsafe {
                pg_sys::HeapCheckForSerializableConflictOut(
                    valid,
                    rel,
                    tuple.raw(),
                    buffer,
                    snapshot.raw(),
                );
            }
        }
        valid
    }

    fn indexes(&self) -> &Indexes {
        // SAFETY: `toast` is open, and locked in this mode.
        self.indexes
            .get_or_init(|| unsafe { Indexes::open(self.toast, self.lockmode) })
    }

    /// Whether the index was rebuilt by a (sub)transaction that did not also create the relation's
    /// storage (REINDEX). A rollback restores the old index, which has no entries for tuples
    /// inserted since: frozen ones could not be found by it.
    pub fn rollback_restores_old_index(&self) -> bool {
        // SAFETY: the index is open.
        let index = unsafe { Table::from_raw(self.valid_index()) };
        index.storage_subtransaction() != self.toast().storage_subtransaction()
    }

    /// Whether a rollback may take the relation's storage away and leave that of an index of the
    /// table: then the index would keep entries of rows that the storage knew of. A subtransaction
    /// that was begun later is rolled back along with any that was begun before it and goes on.
    pub fn rollback_leaves(&self, index: Table<'_>) -> bool {
        index.storage_subtransaction() < self.toast().storage_subtransaction()
    }

    fn valid_index(&self) -> pg_sys::Relation {
        let indexes = self.indexes();
        indexes.all[indexes.valid]
    }

    /// Runs `f` under the allocation lock: no other backend runs one for this store meanwhile.
    pub fn with_allocation_lock<R>(&self, f: impl FnOnce() -> R) -> R {
        let mode = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
        // SAFETY: `toast` is open; the lock is released below, or by the abort of the
        // transaction when `f` raises an ERROR.
        unsafe { pg_sys::LockPage(self.toast, 0, mode) };
        let result = f();
        // SAFETY: `toast` is open; the lock was taken before `f` ran, and is released once.
        unsafe { pg_sys::UnlockPage(self.toast, 0, mode) };
        result
    }
}

/// # Safety
/// `toast` is open.
unsafe fn index_oids(toast: pg_sys::Relation) -> Vec<pg_sys::Oid> {
    // SAFETY: as for this function; the list is a copy that is ours.
    unsafe {
        let list = pg_sys::RelationGetIndexList(toast);
        let count = if list.is_null() { 0 } else { (*list).length };
        let oids = (0..count as usize).map(|i| (*(*list).elements.add(i)).oid_value);
        let oids = oids.collect();
        quiet::list_free(list);
        oids
    }
}

impl Drop for ColdStore<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let keep = pg_sys::NoLock as pg_sys::LOCKMODE;
        // SAFETY: opened by us, closed once; locks stay with the transaction.
        unsafe {
            for &index in self.indexes.get().iter().flat_map(|indexes| &indexes.all) {
                quiet::index_close(index, keep);
            }
            quiet::table_close(self.toast, keep);
        }
    }
}
