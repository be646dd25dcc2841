//! The first move of a table with BRIN indexes.
//!
//! A BRIN index covers the hot side only, and the planner is not shown it once the table has ever
//! had cold rows ([`crate::am::brin`]). A statement that was planned before that may take its
//! snapshot after the first move and would miss what was moved. So before the first move the
//! table is marked as having cold rows, and everybody is waited for who holds a lock on it: who
//! comes later plans anew.
//!
//! A crash in between leaves a mark without rows: the index is not used and the next first move
//! waits again, since there is no row group yet.

use howdah_bridge::store::ColdStore;
use pgrx::pg_sys;

use super::table::{StepTable, Task};
use super::transactions::Transactions;
use crate::am::index_entry::is_hot_only;
use crate::errors::or_raise;
use crate::store::directory;

/// Makes the first move safe; `false` if it must not be made now. Starts and ends at the
/// beginning of a transaction.
pub fn prepare_first_move(task: &Task, transactions: Transactions) -> bool {
    let Some(tag) = mark(task) else { return true };
    transactions.commit();
    let mode = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: no lock on the table is held; the conditional lock is released at once.
    unsafe {
        if task.patient {
            pg_sys::WaitForLockers(tag, mode, false);
            return true;
        }
        // That nobody else holds a lock at this moment is as good.
        let alone = pg_sys::ConditionalLockRelationOid(task.table, mode);
        if alone {
            pg_sys::UnlockRelationOid(task.table, mode);
        }
        alone
    }
}

/// Marks the table as having cold rows if it is about to make its first move and has a BRIN index;
/// then returns the tag of its lock.
fn mark(task: &Task) -> Option<pg_sys::LOCKTAG> {
    let table = StepTable::open(task.table, task.patient)?;
    // SAFETY: the table is open and locked.
    unsafe {
        let store = ColdStore::open(table.raw(), pg_sys::RowExclusiveLock)?;
        let has_groups = !or_raise(
            task.table,
            directory::groups_where(&store, &mut |_, _| true),
        )
        .is_empty();
        if has_groups || !has_hot_only_index(table.raw()) {
            return None;
        }
        or_raise(task.table, directory::ensure_high_water(&store));
        pg_sys::CacheInvalidateRelcache(table.raw());
        let id = (*table.raw()).rd_lockInfo.lockRelId;
        Some(pg_sys::LOCKTAG {
            locktag_field1: id.dbId.to_u32(),
            locktag_field2: id.relId.to_u32(),
            locktag_field3: 0,
            locktag_field4: 0,
            // LOCKTAG_RELATION, DEFAULT_LOCKMETHOD
            locktag_type: 0,
            locktag_lockmethodid: 1,
        })
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
