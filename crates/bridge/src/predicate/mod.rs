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
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::tid::{FIRST_COLD_BLOCK, GroupId, RowNumber};

/// The page whose lock means "rows of this table are locked one by one".
pub const READERS_BLOCK: pg_sys::BlockNumber = pg_sys::InvalidBlockNumber - 1;

/// Whether the running transaction is serializable.
#[inline]
pub fn is_serializable() -> bool {
    // SAFETY: plain read of a global.
    unsafe { pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32 }
}

/// Announces that the running transaction will lock rows one by one.
/// Snapshots that are not MVCC are ignored. The table is locked.
#[inline]
pub fn announce_reader(table: Table<'_>, snapshot: Snapshot<'_>) {
    if is_serializable() {
        // SAFETY: the table is open, the snapshot valid.
        unsafe { ffi::PredicateLockPage(table.raw(), READERS_BLOCK, snapshot.raw()) };
    }
}

/// Locks the relation, which covers all of its rows wherever they are.
/// As for [`announce_reader`].
#[inline]
pub fn lock_relation(table: Table<'_>, snapshot: Snapshot<'_>) {
    if is_serializable() {
        // SAFETY: the table is open, the snapshot valid.
        unsafe { ffi::PredicateLockRelation(table.raw(), snapshot.raw()) };
    }
}

/// Locks a cold row that is about to be read; as for [`announce_reader`].
pub fn lock_row(table: Table<'_>, row: RowNumber, snapshot: Snapshot<'_>) {
    let (mut tid, none) = (row.tid().raw(), pg_sys::InvalidTransactionId);
    // SAFETY: the table is open, the snapshot valid. It does not matter whether this transaction
    // inserted the row.
    unsafe { ffi::PredicateLockTID(table.raw(), &mut tid, snapshot.raw(), none) };
}

/// Must be called after a cold row of a group was changed: checks for a conflict with its readers.
pub fn check_change(table: Table<'_>, row: RowNumber, group: GroupId) {
    if is_serializable() {
        let rel = table.raw();
        // SAFETY: the table is open.
        unsafe {
            let mut tid = row.tid().raw();
            let (block, of_group) = (row.tid().block(), FIRST_COLD_BLOCK + group.first_block());
            ffi::CheckForSerializableConflictIn(rel, &mut tid, block);
            if of_group != block {
                ffi::CheckForSerializableConflictIn(rel, std::ptr::null_mut(), of_group);
            }
        }
    }
}

/// Must be called after rows were added to the cold side: checks for a conflict with transactions
/// that have locked the relation.
pub fn check_insert(table: Table<'_>) {
    if is_serializable() {
        let (none, no_block) = (std::ptr::null_mut(), pg_sys::InvalidBlockNumber);
        // SAFETY: the table is open.
        unsafe { ffi::CheckForSerializableConflictIn(table.raw(), none, no_block) };
    }
}

/// Must be called after rows were moved into a group: every transaction that has locked rows one by
/// one gets a lock on the group, since a row that it has read may be there now. Every tuple that
/// leads to the rows' old places was changed before.
pub fn transfer_locks(table: Table<'_>, group: GroupId) {
    let rel = table.raw();
    // SAFETY: the table is open. If there is no space for more locks, the relation is locked
    // instead.
    unsafe {
        if ffi::PageIsPredicateLocked(rel, READERS_BLOCK) {
            ffi::PredicateLockPageSplit(rel, READERS_BLOCK, FIRST_COLD_BLOCK + group.first_block());
        }
    }
}
