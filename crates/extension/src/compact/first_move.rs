//! What comes before the first move of a table.
//!
//! Plans use BRIN indexes, which cover the hot side only ([`crate::am::brin`]), as long as a table never had cold
//! rows. A statement that was planned before may take its snapshot after the first move and would miss
//! what was moved. So the table is marked as having cold rows (its high-water mark is made). Then everybody
//! is waited for who holds a lock on it, if there is a BRIN index: who comes later plans anew. Whoever asked
//! for the compaction waits; a background worker tries for a moment, and comes again. A standby does the same when it replays an
//! exclusive lock that is logged for it: here nobody is kept out.
//!
//! A crash in between leaves a mark without rows: BRIN indexes are not used and the next first move
//! waits again, since there is no row group yet.

use std::time::{Duration, Instant};

use howdah_bridge::recovery_conflict;
use howdah_bridge::relation::main_fork_blocks;
use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use pgrx::pg_sys;

use super::table::{StepTable, Task};
use super::transactions::Transactions;
use crate::am::index_entry::is_hot_only;
use crate::errors::or_raise;
use crate::store::directory;

/// How long a background worker waits for others.
const WORKER_PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two looks at those who are waited for, in microseconds.
const LOOK_AGAIN_US: i64 = 10_000;
const ACCESS_EXCLUSIVE: pg_sys::LOCKMODE = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;

/// Makes moves safe; `false` if none may be made now. Starts and ends at the beginning of a
/// transaction.
pub fn prepare(task: &Task, transactions: Transactions) -> bool {
    let Some(lockers) = mark(task) else {
        return true;
    };
    transactions.commit();
    let patience = (!task.patient).then_some(WORKER_PATIENCE);
    lockers.is_none_or(|tag| wait_for_lockers(tag, patience))
}

/// Marks the table as having cold rows: its lock, if the holders must be waited for. `None` if the table
/// cannot be opened or has no hot side.
fn mark(task: &Task) -> Option<Option<pg_sys::LOCKTAG>> {
    let table = StepTable::open(task.table, task.patient)?;
    // SAFETY: the table is open and locked.
    unsafe {
        if main_fork_blocks(table.raw()) == 0 {
            return None;
        }
        let store = ColdStore::open(Table::from_raw(table.raw()), LockMode::RowExclusive)?;
        let any = &mut |_: ShownTuple<'_>| true;
        let has_groups = !or_raise(task.table, directory::groups_where(&store, any)).is_empty();
        or_raise(task.table, directory::ensure_high_water(&store));
        let first_with_brin = !has_groups && has_hot_only_index(table.raw());
        if first_with_brin {
            pg_sys::CacheInvalidateRelcache(table.raw());
            recovery_conflict::lock_on_standbys(table.raw());
        }
        let id = (*table.raw()).rd_lockInfo.lockRelId;
        Some(first_with_brin.then_some(pg_sys::LOCKTAG {
            locktag_field1: id.dbId.to_u32(),
            locktag_field2: id.relId.to_u32(),
            locktag_field3: 0,
            locktag_field4: 0,
            // LOCKTAG_RELATION, DEFAULT_LOCKMETHOD
            locktag_type: 0,
            locktag_lockmethodid: 1,
        }))
    }
}

/// Waits for everybody who holds a lock on the table now; nobody waits for us.
fn wait_for_lockers(tag: pg_sys::LOCKTAG, patience: Option<Duration>) -> bool {
    // SAFETY: no lock on the table is held. The array ends with an invalid id; the function that
    // tells whether a transaction is over does not wait.
    unsafe {
        let Some(_) = patience else {
            pg_sys::WaitForLockers(tag, ACCESS_EXCLUSIVE, false);
            return true;
        };
        let mut count = 0;
        let holders = pg_sys::GetLockConflicts(&tag, ACCESS_EXCLUSIVE, &mut count);
        let holders = std::slice::from_raw_parts(holders, count as usize);
        wait_until(patience, || {
            holders.iter().all(|&id| pg_sys::VirtualXactLock(id, false))
        })
    }
}

/// Looks again and again until `done` or, if there is a bound, for so long.
fn wait_until(patience: Option<Duration>, mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if done() {
            return true;
        }
        if patience.is_some_and(|bound| began.elapsed() > bound) {
            return false;
        }
        pgrx::check_for_interrupts!();
        // SAFETY: plain sleep; no lock is held.
        unsafe { pg_sys::pg_usleep(LOOK_AGAIN_US) };
    }
}

unsafe fn has_hot_only_index(table: pg_sys::Relation) -> bool {
    let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: the table is open; each index is closed again.
    unsafe {
        let list = pg_sys::RelationGetIndexList(table);
        let found = (0..pg_sys::list_length(list)).any(|i| {
            let index = pg_sys::index_open(pg_sys::list_nth_oid(list, i), lock);
            let hot_only = is_hot_only(index);
            pg_sys::index_close(index, lock);
            hot_only
        });
        pg_sys::list_free(list);
        found
    }
}
