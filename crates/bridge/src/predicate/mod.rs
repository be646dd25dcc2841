//! Predicate locks of serializable transactions on rows that may move.
//!
//! ```text
//!   row      (cold block, offset) of a cold TID     what a read of one row locks, as heap does
//!   page     a cold block                           rows of it, once they are many
//!   group    the first cold block of a row group    taken over when rows move into the group
//!   readers  a page that no table has               "rows of this table are locked one by one"
//! ```
//!
//! PostgreSQL stores these locks by the target that they name, and a writer checks the target that
//! it writes; they never block. They must guarantee one thing: of a concurrent reader and writer,
//! at least one notices the other. It holds because the reader locks and then reads, and the writer
//! writes and then checks.

mod unnoticed;

use pgrx::pg_sys;

pub use unnoticed::unnoticed;

use crate::ffi;
use crate::tid::{FIRST_COLD_BLOCK, RowNumber, block_of};

/// The page whose lock means "rows of this table are locked one by one".
const READERS_BLOCK: pg_sys::BlockNumber = pg_sys::InvalidBlockNumber - 1;

/// Whether the running transaction is serializable.
#[inline]
pub fn is_serializable() -> bool {
    // SAFETY: plain read of a global.
    unsafe { pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32 }
}

/// Announces that the running transaction will lock rows one by one.
///
/// # Safety
/// `rel` is open and locked, `snapshot` is valid; snapshots that are not MVCC are ignored.
#[inline]
pub unsafe fn announce_reader(rel: pg_sys::Relation, snapshot: pg_sys::Snapshot) {
    if is_serializable() {
        // SAFETY: as for this function.
        unsafe { ffi::PredicateLockPage(rel, READERS_BLOCK, snapshot) };
    }
}

/// Locks the relation, which covers all of its rows wherever they are.
///
/// # Safety
/// As for [`announce_reader`].
#[inline]
pub unsafe fn lock_relation(rel: pg_sys::Relation, snapshot: pg_sys::Snapshot) {
    if is_serializable() {
        // SAFETY: as for this function.
        unsafe { ffi::PredicateLockRelation(rel, snapshot) };
    }
}

/// Locks a cold row that is about to be read.
///
/// # Safety
/// As for [`announce_reader`].
pub unsafe fn lock_row(rel: pg_sys::Relation, row: RowNumber, snapshot: pg_sys::Snapshot) {
    // SAFETY: as for this function. It does not matter whether this transaction inserted the row.
    unsafe {
        let nobody = pg_sys::InvalidTransactionId;
        ffi::PredicateLockTID(rel, &mut row.tid(), snapshot, nobody);
    }
}

/// Must be called after a cold row was changed: checks for a conflict with its readers.
///
/// # Safety
/// `rel` is open and locked for writing; `group` is the group of the row.
pub unsafe fn check_change(rel: pg_sys::Relation, row: RowNumber, group: u32) {
    if is_serializable() {
        // SAFETY: as for this function.
        unsafe {
            let mut tid = row.tid();
            let (block, of_group) = (block_of(&tid), FIRST_COLD_BLOCK + group);
            ffi::CheckForSerializableConflictIn(rel, &mut tid, block);
            if of_group != block {
                ffi::CheckForSerializableConflictIn(rel, std::ptr::null_mut(), of_group);
            }
        }
    }
}

/// Must be called after rows were added to the cold side: checks for a conflict with transactions
/// that have locked the relation.
///
/// # Safety
/// `rel` is open and locked for writing.
pub unsafe fn check_insert(rel: pg_sys::Relation) {
    if is_serializable() {
        let none = std::ptr::null_mut();
        // SAFETY: as for this function.
        unsafe { ffi::CheckForSerializableConflictIn(rel, none, pg_sys::InvalidBlockNumber) };
    }
}

/// Must be called after rows were moved into a group: every transaction that has locked rows one by
/// one gets a lock on the group, since a row that it has read may be there now.
///
/// # Safety
/// `rel` is open; every tuple that leads to the rows' old places was changed before.
pub unsafe fn hand_over(rel: pg_sys::Relation, group: u32) {
    // SAFETY: as for this function. If there is no space for more locks, the relation is locked
    // instead.
    unsafe {
        if ffi::PageIsPredicateLocked(rel, READERS_BLOCK) {
            ffi::PredicateLockPageSplit(rel, READERS_BLOCK, FIRST_COLD_BLOCK + group);
        }
    }
}
