//! Snapshot conflicts: what a standby must resolve before it replays a change that old snapshots
//! could not read past.
//!
//! ```text
//!   primary   horizon record ──> changes outside of MVCC: index entries go, bits are set in place
//!   standby   replays the record: waits for, or cancels, each snapshot with xmin <= horizon
//!             ──> replays the changes
//! ```
//!
//! A snapshot on a standby conflicts with a change that removes for good what the snapshot might
//! still see. The *horizon* is the latest transaction whose effects the change presumes: a snapshot
//! with a later xmin sees that transaction as finished, and loses nothing
//! (`snapshotConflictHorizon` in PostgreSQL's sources). Heap includes the horizon in the records
//! that prune and freeze. VACUUM's changes of cold rows are logged by generic WAL and by the index
//! access methods, and neither has a place for it.
//!
//! The record is `XLOG_BTREE_REUSE_PAGE`. Its redo resolves the conflict and does nothing else: it
//! reads no page, so it needs neither a buffer nor a lock here, and no full-page image. A heap
//! record (`XLOG_HEAP2_PRUNE_VACUUM_SCAN` without items) would do the same, but would also change a
//! page's LSN. A custom resource manager would have to be loaded wherever WAL is replayed, also for
//! PITR of a plain server. pg_waldump shows the record as the reuse of a page of the table; of its
//! locator replay reads the database alone.
//!
//! Order: WAL order. The caller logs the horizon before it inserts the first record of the change.
//! No flush is needed, because neither can a page of the change reach disk, nor its record a
//! standby, before an earlier record does. A crash in between leaves a conflict without a change.
//!
//! Logical slots on a standby: a slot's catalog_xmin conflicts only with changes of tables that
//! decoding reads (`user_catalog_table`), which the record tells as heap's own records do.

use pgrx::pg_sys;

use crate::table::Table;
use crate::xid::Xid;

/// `XLOG_BTREE_REUSE_PAGE` of `access/nbtxlog.h`
const REUSE_PAGE: u8 = 0xD0;

/// `xl_btree_reuse_page` of `access/nbtxlog.h`
#[repr(C)]
struct ReusePage {
    locator: pg_sys::RelFileLocator,
    block: pg_sys::BlockNumber,
    /// A `FullTransactionId`.
    horizon: u64,
    is_catalog_rel: bool,
}

/// `SizeOfBtreeReusePage`
const REUSE_PAGE_BYTES: u32 = std::mem::offset_of!(ReusePage, is_catalog_rel) as u32 + 1;

/// Logs that the changes which follow in WAL remove data that is needed by snapshots which do not
/// see `horizon` as finished. Nothing is logged if `horizon` is not a normal transaction id (no
/// snapshot is affected), or where WAL does not reach standbys.
///
/// # Safety
/// `table` is open and locked; this is not a standby; no buffer is locked.
pub unsafe fn log(table: pg_sys::Relation, horizon: pg_sys::TransactionId) {
    // SAFETY: the relation is open. The record is copied by XLogInsert, which may raise an ERROR
    // only before it inserts anything.
    unsafe {
        if !pg_sys::TransactionIdIsNormal(horizon) || !reaches_standbys(table) {
            return;
        }
        let record = ReusePage {
            locator: (*table).rd_locator,
            block: 0,
            horizon: with_epoch(pg_sys::ReadNextFullTransactionId().value, horizon),
            is_catalog_rel: is_read_by_decoding(table),
        };
        pg_sys::XLogBeginInsert();
        pg_sys::XLogRegisterData((&raw const record).cast(), REUSE_PAGE_BYTES);
        pg_sys::XLogInsert(pg_sys::RmgrIds::RM_BTREE_ID as pg_sys::RmgrId, REUSE_PAGE);
    }
}

/// Logs an exclusive lock on the table that the current transaction does not take here: a standby
/// waits for, or cancels, the transactions there that hold any lock on the table, and blocks others
/// until this one has ended. The table is locked; this is not a standby.
pub fn lock_on_standbys(table: Table<'_>) {
    let table = table.raw();
    // SAFETY: the relation is open. The transaction gets an id, so that its end is logged.
    unsafe {
        if reaches_standbys(table) {
            let id = (*table).rd_lockInfo.lockRelId;
            pg_sys::LogAccessExclusiveLock(id.dbId, id.relId);
        }
    }
}

/// # Safety
/// The relation is open.
unsafe fn reaches_standbys(table: pg_sys::Relation) -> bool {
    // SAFETY: the relation is open.
    unsafe {
        (*(*table).rd_rel).relpersistence == pg_sys::RELPERSISTENCE_PERMANENT as i8
            && pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32
    }
}

/// `FullTransactionIdFromAllowableAt`: the full id of a transaction not after `next`.
fn with_epoch(next: u64, xid: pg_sys::TransactionId) -> u64 {
    let age = (next as u32).wrapping_sub(xid.into_inner());
    next - u64::from(age)
}

/// `RelationIsAccessibleInLogicalDecoding`, for tables of users.
///
/// # Safety
/// The relation is open.
unsafe fn is_read_by_decoding(table: pg_sys::Relation) -> bool {
    // SAFETY: the relation is open; options of a table are StdRdOptions.
    unsafe {
        let options = (*table).rd_options.cast::<pg_sys::StdRdOptions>();
        pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_LOGICAL as i32
            && !options.is_null()
            && (*options).user_catalog_table
    }
}

/// `TransactionIdRetreat`: the last transaction before another one.
pub fn before(xid: pg_sys::TransactionId) -> pg_sys::TransactionId {
    let previous = |xid: pg_sys::TransactionId| xid.into_inner().wrapping_sub(1);
    let mut xid = pg_sys::TransactionId::from_inner(previous(xid));
    while !pg_sys::TransactionIdIsNormal(xid) {
        xid = pg_sys::TransactionId::from_inner(previous(xid));
    }
    xid
}

/// Logs that snapshots which see a transaction before `horizon` as running need what is about to be
/// removed. The table is locked; this is not a standby.
pub fn log_before(table: Table<'_>, horizon: Xid) {
    // SAFETY: the table is open and locked.
    unsafe { log(table.raw(), before(horizon.raw())) }
}

/// The latest transaction that was assigned: no snapshot in use is later than this horizon.
pub fn latest() -> pg_sys::TransactionId {
    // SAFETY: reads a counter in shared memory.
    let next = unsafe { pg_sys::ReadNextFullTransactionId() }.value;
    before(pg_sys::TransactionId::from_inner(next as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xid(value: u32) -> pg_sys::TransactionId {
        pg_sys::TransactionId::from_inner(value)
    }

    #[test]
    fn the_record_has_the_layout_of_postgresql_s() {
        assert_eq!(std::mem::offset_of!(ReusePage, block), 12);
        assert_eq!(std::mem::offset_of!(ReusePage, horizon), 16);
        assert_eq!(REUSE_PAGE_BYTES, 25);
    }

    #[test]
    fn transactions_get_the_epoch_they_are_of() {
        assert_eq!(with_epoch(1_000, xid(999)), 999);
        assert_eq!(with_epoch((7 << 32) + 5, xid(4)), (7 << 32) + 4);
        assert_eq!(with_epoch((7 << 32) + 5, xid(u32::MAX)), (7 << 32) - 1);
    }

    #[test]
    fn special_ids_are_skipped_backwards() {
        assert_eq!(before(xid(4)), xid(3));
        assert_eq!(before(xid(3)), xid(u32::MAX));
        assert_eq!(before(xid(0)), xid(u32::MAX));
    }
}
