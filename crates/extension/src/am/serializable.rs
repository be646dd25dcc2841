//! Predicate locks of serializable transactions.
//!
//! Heap locks what a serializable transaction reads as finely as it can: the rows that an index
//! led to, the pages of an index-only scan. Such a lock names a hot TID, and does not follow a row that
//! is moved; a writer that meets the row on the cold side would not find it. So:
//!
//! - Every read of cold rows locks the relation.
//! - So does every read of hot rows of a table that has ever had cold rows, which the high-water
//!   mark tells, whatever the snapshot.
//! - Reads of other tables stay as fine as heap's. Before its first row is read, the
//!   transaction leaves a predicate lock on a page that no table has ([`READERS_BLOCK`]), and only
//!   then looks for the mark. Compaction makes the mark and only then looks for that
//!   lock ([`has_fine_locks`]): whichever comes second sees the other, and the mover lets
//!   the readers go first. The lock stays as long as PostgreSQL needs the reader's other locks, also
//!   beyond its commit.
//!
//! A reader that ended before the move is of no interest to a writer that sees the moved row: the two were
//! never concurrent. A writer whose snapshot is from before the move meets the stamped hot row
//! and fails with 40001.
//!
//! TID range scans lock the relation too; heap locks nothing there.

use howdah_bridge::ffi;
use pgrx::pg_sys;

use super::brin::ever_cold;

/// The page that stands for "rows of this table are locked one by one".
const READERS_BLOCK: pg_sys::BlockNumber = pg_sys::InvalidBlockNumber - 1;

/// Whether the running transaction is serializable.
pub fn is_serializable() -> bool {
    // SAFETY: plain read of a global.
    unsafe { pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32 }
}

/// To be called before rows of either side are read by any other way than a whole scan.
///
/// # Safety
/// `rel` is open and locked, `snapshot` is valid; the calls ignore snapshots that are not MVCC.
#[inline]
pub unsafe fn before_reading(rel: pg_sys::Relation, snapshot: pg_sys::Snapshot) {
    if is_serializable() {
        // SAFETY: as for this function.
        unsafe {
            ffi::PredicateLockPage(rel, READERS_BLOCK, snapshot);
            if ever_cold(rel) {
                ffi::PredicateLockRelation(rel, snapshot);
            }
        }
    }
}

/// To be called before cold rows are read, or a range of TIDs.
///
/// # Safety
/// As for [`before_reading`].
#[inline]
pub unsafe fn lock_relation(rel: pg_sys::Relation, snapshot: pg_sys::Snapshot) {
    if is_serializable() {
        // SAFETY: as for this function.
        unsafe { ffi::PredicateLockRelation(rel, snapshot) };
    }
}

/// Whether predicate locks of single rows or pages may exist. Once the table has its
/// high-water mark, none are added.
///
/// # Safety
/// `rel` is open.
pub unsafe fn has_fine_locks(rel: pg_sys::Relation) -> bool {
    // SAFETY: looks a lock up in shared memory.
    unsafe { ffi::PageIsPredicateLocked(rel, READERS_BLOCK) }
}
