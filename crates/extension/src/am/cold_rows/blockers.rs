//! The transactions that block a row lock.

use howdah_bridge::cold_lock::{self, RowLock};
use howdah_bridge::xid::Xid;

use super::located::LocatedRow;
use super::standing;
use crate::errors::ColdError;
use crate::store::marks::{Mark, RowFate};

/// The transactions whose end must be waited for before the row can be locked: those that have
/// locked it, and the one that has changed it, in the order of their ids as on heap. `None` if they
/// may give way at once. The table is locked for writing or row locks.
pub(super) fn blockers(
    target: &LocatedRow<'_>,
    lock: RowLock,
) -> Result<Option<Vec<Xid>>, ColdError> {
    let Some(mut ids) = target.locks.blockers(target.row, lock) else {
        return Ok(None);
    };
    if !ids.is_empty()
        && let Some(changer) = blocking_changer(target, lock)?
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
pub(super) fn log_failure(target: &LocatedRow<'_>, lock: RowLock, met: Option<Xid>) {
    cold_lock::log_failure(|| {
        let mut ids = match met {
            Some(met) => vec![met],
            None => target.or_raise(blockers(target, lock)).unwrap_or_default(),
        };
        if ids.is_empty() {
            ids.extend(target.or_raise(blocking_changer(target, lock)));
        }
        ids
    });
}

/// The transaction in progress that has changed the row in a way that conflicts with the lock.
fn blocking_changer(target: &LocatedRow<'_>, lock: RowLock) -> Result<Option<Xid>, ColdError> {
    let mark = standing::arriving(target)?;
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
