//! Who is in the way of a row lock.

use howdah_bridge::cold_lock::{Locks, RowLock};
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use pgrx::pg_sys;

use crate::errors::{ColdError, or_raise};
use crate::store::directory;
use crate::store::marks::{self, Mark, RowFate};

/// Whose end to wait for before the row can be locked: those who have locked it, and who has changed it, in the
/// order of their transactions as on heap. `None` if they may be out of the way at once.
///
/// # Safety
/// `rel` is open and locked for writing or row locks.
pub(super) unsafe fn in_the_way(
    rel: pg_sys::Relation,
    row: RowNumber,
    lock: RowLock,
) -> Result<Option<Vec<pg_sys::TransactionId>>, ColdError> {
    // SAFETY: as for this function.
    unsafe {
        let Some(mut ids) = Locks::of(rel).in_the_way(row, lock) else {
            return Ok(None);
        };
        if !ids.is_empty()
            && let Some(changer) = changer_in_the_way(rel, row, lock)?
            && !ids.contains(&changer)
        {
            ids.push(changer);
            ids.sort_unstable_by_key(|id| id.into_inner());
        }
        Ok(Some(ids))
    }
}

/// Tells the server's log who is in the way of a lock that is not waited for, if `log_lock_failures` asks for
/// it: the transaction that was met, or else the first that is still running.
///
/// # Safety
/// As for [`in_the_way`]; no lock on the row is held.
pub(super) unsafe fn log_failure(
    rel: pg_sys::Relation,
    row: RowNumber,
    lock: RowLock,
    met: Option<pg_sys::TransactionId>,
) {
    // SAFETY: as for this function. The lock is asked for once more, because it is the server that names
    // its holders when it is refused.
    unsafe {
        if !pg_sys::log_lock_failures {
            return;
        }
        let oid = (*rel).rd_id;
        let mut ids = match met {
            Some(met) => vec![met],
            None => or_raise(oid, in_the_way(rel, row, lock)).unwrap_or_default(),
        };
        if ids.is_empty() {
            ids.extend(or_raise(oid, changer_in_the_way(rel, row, lock)));
        }
        for id in ids {
            if !pg_sys::ConditionalXactLockTableWait(id, true) {
                return;
            }
        }
    }
}

/// The running transaction that has changed the row in a way that the lock forbids.
unsafe fn changer_in_the_way(
    rel: pg_sys::Relation,
    row: RowNumber,
    lock: RowLock,
) -> Result<Option<pg_sys::TransactionId>, ColdError> {
    // SAFETY: as for [`in_the_way`].
    unsafe {
        let Some(store) = ColdStore::open(rel, pg_sys::RowExclusiveLock) else {
            return Ok(None);
        };
        let in_force = &raw mut pg_sys::SnapshotSelfData;
        let Some(placed) = directory::group_of(&store, row, in_force)? else {
            return Ok(None);
        };
        let mark = marks::arriving(&store, &placed.entry, row)?;
        Ok(mark.filter(|mark| lock.forbids(mark)).map(|mark| mark.xid))
    }
}

/// What a lock makes of somebody else's change of the row.
pub(super) trait Forbids {
    fn forbids(self, mark: &Mark) -> bool;
}

impl Forbids for RowLock {
    fn forbids(self, mark: &Mark) -> bool {
        let keeps_key = matches!(
            mark.fate,
            RowFate::Updated {
                keeps_key: true,
                ..
            }
        );
        self != RowLock::KeyShare || !keeps_key
    }
}
