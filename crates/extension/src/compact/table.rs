//! One table, open for one step of compaction, and the loop over its row groups.

use std::collections::HashSet;
use std::rc::Rc;

use howdah_bridge::proc_flags;
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::table_counts;
use pgrx::pg_sys;

use super::first_move;
use super::merge::{self, Merge};
use super::mover::{self, Step};
use super::policy::{self, Policy};
use super::progress::{Phase, Progress};
use super::survey::BlockSet;
use super::sweep;
use super::throttle;
use super::transactions::Transactions;
use crate::am;

const LOCK: u32 = pg_sys::ShareUpdateExclusiveLock;
/// How long a compaction that was asked for lets others go first, in microseconds.
const YIELD_US: i64 = 5_000;

/// A table locked against DDL, VACUUM and other movers, with a snapshot, acting as its owner in
/// a security-restricted operation (index expressions are code of users). Belongs to one
/// transaction; drop it before the transaction ends.
pub struct StepTable {
    rel: OpenRelation,
    user: pg_sys::Oid,
    security_context: i32,
    guc_level: i32,
}

impl StepTable {
    /// `None` if the table is gone, is not ours to compact, or (unless `wait`) is locked.
    /// To be called at the start of a transaction.
    pub fn open(table: pg_sys::Oid, wait: bool) -> Option<StepTable> {
        StepTable::open_for(table, wait, || ())
    }

    /// As [`open`](Self::open), for a transaction that does nothing but vacuum.
    pub fn open_for_vacuum(table: pg_sys::Oid, wait: bool) -> Option<StepTable> {
        // SAFETY: runs before the snapshot is taken; VACUUM writes nothing transactional.
        StepTable::open_for(table, wait, || unsafe { proc_flags::count_as_vacuum() })
    }

    fn open_for(
        table: pg_sys::Oid,
        wait: bool,
        before_snapshot: impl FnOnce(),
    ) -> Option<StepTable> {
        // SAFETY: a transaction has just begun, so its isolation level may be chosen. Moves
        // change nothing that a serializable transaction could notice.
        unsafe {
            pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
            commit_locally();
            if !wait && !pg_sys::ConditionalLockRelationOid(table, LOCK as pg_sys::LOCKMODE) {
                return None;
            }
        }
        // SAFETY: no snapshot is active. Whoever holds the lock may be waiting for old snapshots to
        // go, as CREATE INDEX CONCURRENTLY does: what catalog lookups have left is given up first.
        unsafe { pg_sys::InvalidateCatalogSnapshot() };
        before_snapshot();
        let rel = OpenRelation::try_open(table, LOCK)?;
        // SAFETY: the relation is open.
        unsafe {
            let form = &*(*rel.raw()).rd_rel;
            let foreign_temp = form.relpersistence == pg_sys::RELPERSISTENCE_TEMP as i8
                && !(*rel.raw()).rd_islocaltemp;
            if !am::is_howdah(rel.raw()) || foreign_temp || form.reltoastrelid == pg_sys::InvalidOid
            {
                return None;
            }
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let (mut user, mut security_context) = (pg_sys::InvalidOid, 0);
            pg_sys::GetUserIdAndSecContext(&mut user, &mut security_context);
            let restricted = pg_sys::SECURITY_RESTRICTED_OPERATION as i32;
            pg_sys::SetUserIdAndSecContext(form.relowner, security_context | restricted);
            let guc_level = pg_sys::NewGUCNestLevel();
            pg_sys::RestrictSearchPath();
            Some(StepTable {
                rel,
                user,
                security_context,
                guc_level,
            })
        }
    }

    pub fn raw(&self) -> pg_sys::Relation {
        self.rel.raw()
    }

    /// Whether somebody wants a lock that conflicts with ours.
    pub fn has_waiters(&self) -> bool {
        // SAFETY: the relation is open and locked by us in this mode.
        unsafe { pg_sys::LockHasWaitersRelation(self.raw(), LOCK as pg_sys::LOCKMODE) }
    }
}

impl Drop for StepTable {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The aborting transaction restores user and settings and drops the snapshot.
            return;
        }
        // SAFETY: undoes what `open` did, in reverse order.
        unsafe {
            pg_sys::AtEOXact_GUC(false, self.guc_level);
            pg_sys::SetUserIdAndSecContext(self.user, self.security_context);
            pg_sys::PopActiveSnapshot();
        }
    }
}

/// Has the running transaction wait for no standby when it commits. It holds rows of users until then, and changes
/// nothing that they could miss on a standby: rows are the same, here or there.
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

/// What a compaction is to do.
#[derive(Clone, Debug)]
pub struct Task {
    pub table: pg_sys::Oid,
    pub policy: Policy,
    /// Pages that may be moved; `None`: every page.
    pub quiet: Option<Rc<BlockSet>>,
    /// Whether to wait for the table's lock, and to go on after letting others go first.
    pub patient: bool,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub moved_rows: u64,
    pub moved_groups: u64,
    pub merged_groups: u64,
}

/// Moves and merges until there is nothing left to do, one transaction per row group. Starts at
/// the beginning of a transaction and ends likewise.
pub fn compact(task: &Task, transactions: Transactions, progress: &Progress) -> Tally {
    let mut tally = Tally::default();
    let mut refused = HashSet::new();
    if !first_move::prepare(task, transactions) {
        return tally;
    }
    let mut from = Some(0);
    while let Some(block) = from {
        pgrx::check_for_interrupts!();
        if !task.patient && switched_off() {
            return tally;
        }
        match mover::move_group(task, block, &refused, progress) {
            Step::Moved { rows, next_block } => {
                transactions.commit();
                // The stamped versions are VACUUM's business now. Not before the commit, and not by way of
                // pending counts, which could outlast VACUUM's report of the same versions.
                table_counts::add(task.table, 0, i64::from(rows));
                crate::stop_point!("committed");
                tally.moved_rows += u64::from(rows);
                tally.moved_groups += 1;
                progress.moved(rows);
                from = next_block;
            }
            Step::Refused(blocks) => {
                transactions.rollback();
                refused.extend(blocks);
            }
            Step::Yielded if task.patient => {
                transactions.rollback();
                // SAFETY: plain sleep; nothing is held.
                unsafe { pg_sys::pg_usleep(YIELD_US) };
            }
            Step::Yielded => {
                transactions.rollback();
                return tally;
            }
            Step::Finished => {
                transactions.commit();
                from = None;
            }
        }
    }
    progress.phase(Phase::Merging);
    let mut at_work = HashSet::new();
    loop {
        match merge::merge_groups(task, &at_work) {
            Merge::Refused(groups) => {
                transactions.rollback();
                at_work.extend(groups);
            }
            Merge::Merged(groups) => {
                transactions.commit();
                progress.merged(groups);
                tally.merged_groups += u64::from(groups);
            }
            // It may have written its group and deleted none.
            Merge::Yielded => {
                transactions.rollback();
                if !task.patient {
                    return tally;
                }
                // SAFETY: plain sleep; nothing is held.
                unsafe { pg_sys::pg_usleep(YIELD_US) };
            }
            Merge::Nothing => {
                transactions.commit();
                break;
            }
        }
    }
    while sweep::sweep(task) {
        transactions.commit();
    }
    transactions.commit();
    tally
}

/// Whether a background worker is told to stop by a changed configuration.
fn switched_off() -> bool {
    // SAFETY: outside of any statement of a user; between two row groups.
    unsafe {
        if pg_sys::ConfigReloadPending != 0 {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
    throttle::refresh();
    !policy::compaction()
}
