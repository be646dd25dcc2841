//! A table that is open for maintenance.
//!
//! It is locked with ShareUpdateExclusiveLock, which excludes DDL, VACUUM and other maintenance,
//! but neither readers nor writers. Code runs as the table's owner in a security-restricted
//! operation, because index expressions contain code of users.

use pgrx::pg_sys;

use crate::proc_flags;
use crate::relation::OpenRelation;
use crate::role::Role;
use crate::snapshot::Snapshot;
use crate::table::{LockMode, Table};

const LOCK: LockMode = LockMode::ShareUpdateExclusive;

/// A table, open and locked, with an active snapshot. It belongs to one transaction, and must be
/// dropped before that transaction ends.
pub struct MaintainedTable {
    rel: OpenRelation,
    snapshot: pg_sys::Snapshot,
    /// Of the session.
    role: Role,
    guc_level: i32,
}

/// The purpose of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It may write.
    Any,
    /// It does nothing but vacuum.
    Vacuum,
}

impl MaintainedTable {
    /// `None` if the table was dropped, is not to be opened, belongs to another session or has no
    /// TOAST relation, or (unless `wait`) is locked. To be called at the start of a transaction.
    pub fn open(
        table: pg_sys::Oid,
        wait: bool,
        purpose: Purpose,
        is_wanted: fn(Table<'_>) -> bool,
    ) -> Option<MaintainedTable> {
        // SAFETY: a transaction has just begun, so its isolation level may be chosen. Maintenance
        // changes nothing that a serializable transaction could notice.
        unsafe {
            pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
            commit_locally();
            if !wait && !pg_sys::ConditionalLockRelationOid(table, LOCK.raw()) {
                return None;
            }
            // No snapshot is active. The holder of a conflicting lock may be waiting for old
            // snapshots to end, as CREATE INDEX CONCURRENTLY does; so the snapshot that catalog
            // look-ups have left is released first.
            pg_sys::InvalidateCatalogSnapshot();
            if purpose == Purpose::Vacuum {
                // No snapshot is taken yet; VACUUM writes nothing transactional.
                proc_flags::count_as_vacuum();
            }
        }
        let rel = OpenRelation::try_open(table, LOCK as u32)?;
        // SAFETY: the relation is open; what is changed is changed back by `drop`, or by the
        // transaction's abort.
        unsafe {
            let table = rel.table();
            if !is_wanted(table) || table.is_temporary_of_others() || table.toast_oid().is_none() {
                return None;
            }
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let role = Role::current();
            role.restricted_to((*(*table.raw()).rd_rel).relowner)
                .assume();
            let guc_level = pg_sys::NewGUCNestLevel();
            pg_sys::RestrictSearchPath();
            Some(MaintainedTable {
                snapshot: pg_sys::GetActiveSnapshot(),
                rel,
                role,
                guc_level,
            })
        }
    }

    pub fn table(&self) -> Table<'_> {
        self.rel.table()
    }

    /// The snapshot that is active.
    pub fn snapshot(&self) -> Snapshot<'_> {
        // SAFETY: it is active until this is dropped.
        unsafe { Snapshot::from_raw(self.snapshot) }
    }
}

/// Whether another backend waits for a lock on a maintained table that conflicts with its own.
pub fn has_waiters(table: Table<'_>) -> bool {
    // SAFETY: the relation is open; asks for the lock's own entry.
    unsafe { pg_sys::LockHasWaitersRelation(table.raw(), LOCK.raw()) }
}

/// Locks a relation as maintenance does; `false` if another transaction holds a conflicting lock.
pub fn try_lock(relation: pg_sys::Oid) -> bool {
    // SAFETY: a lock on what is no relation any more does no harm.
    unsafe { pg_sys::ConditionalLockRelationOid(relation, LOCK.raw()) }
}

impl Drop for MaintainedTable {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The aborting transaction restores user and settings and drops the snapshot.
            return;
        }
        // SAFETY: undoes what `open` did, in reverse order.
        unsafe {
            pg_sys::AtEOXact_GUC(false, self.guc_level);
            self.role.assume();
            pg_sys::PopActiveSnapshot();
        }
    }
}

/// The commit of the current transaction will wait for no standby: it blocks writers of the moved
/// rows until then. Its changes are not lost to users of a standby, where the rows are the same,
/// hot or cold.
///
/// # Safety
/// The transaction has just begun.
unsafe fn commit_locally() {
    let local = pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_LOCAL_FLUSH;
    // SAFETY: plain read of a setting; changed until the transaction ends.
    unsafe {
        if pg_sys::synchronous_commit > local as i32 {
            pg_sys::set_config_option(
                c"synchronous_commit".as_ptr(),
                c"local".as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_LOCAL,
                true,
                0,
                false,
            );
        }
    }
}
