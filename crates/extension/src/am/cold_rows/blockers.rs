//! The transactions that block a row lock.

use howdah_bridge::cold_lock::{self, Locks, RowLock};
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::Xid;

use crate::errors::{ColdError, or_raise};
use crate::store::directory;
use crate::store::marks::{self, Mark, RowFate};

/// The transactions whose end must be waited for before the row can be locked: those that have
/// locked it, and the one that has changed it, in the order of their ids as on heap. `None` if they
/// may give way at once. The table is locked for writing or row locks.
pub(super) fn blockers(
    table: Table<'_>,
    row: RowNumber,
    lock: RowLock,
) -> Result<Option<Vec<Xid>>, ColdError> {
    let Some(mut ids) = Locks::of(table).in_the_way(row, lock) else {
        return Ok(None);
    };
    if !ids.is_empty()
        && let Some(changer) = blocking_changer(table, row, lock)?
        && !ids.contains(&changer)
    {
        ids.push(changer);
        ids.sort_unstable_by_key(|id| id.number());
    }
    Ok(Some(ids))
}

/// Reports in the server's log which transactions block a lock that is not waited for, if
/// `log_lock_failures` is on: the one that was met, otherwise the first that is still in progress.
/// No lock on the row is held.
pub(super) fn log_failure(table: Table<'_>, row: RowNumber, lock: RowLock, met: Option<Xid>) {
    let oid = table.oid();
    cold_lock::log_failure(|| {
        let mut ids = match met {
            Some(met) => vec![met],
            None => or_raise(oid, blockers(table, row, lock)).unwrap_or_default(),
        };
        if ids.is_empty() {
            ids.extend(or_raise(oid, blocking_changer(table, row, lock)));
        }
        ids
    });
}

/// The transaction in progress that has changed the row in a way that conflicts with the lock.
fn blocking_changer(
    table: Table<'_>,
    row: RowNumber,
    lock: RowLock,
) -> Result<Option<Xid>, ColdError> {
    let Some(store) = ColdStore::open(table, LockMode::RowExclusive) else {
        return Ok(None);
    };
    let Some(placed) = directory::group_of(&store, row, Snapshot::in_force())? else {
        return Ok(None);
    };
    let mark = marks::arriving(&store, &placed.entry, row)?;
    Ok(mark.filter(|mark| lock.forbids(mark)).map(|mark| mark.xid))
}

/// Whether a lock conflicts with a change of the row by another transaction.
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
