//! What comes before the first move of a table.
//!
//! Plans use BRIN indexes, which cover the hot side only ([`crate::am::brin`]), as long as a table
//! never had cold rows. A statement that was planned before may take its snapshot after the first
//! move and would miss what was moved. So the table is marked as having cold rows (its high-water
//! mark is made). Then everybody is waited for who holds a lock on it, if there is a BRIN index:
//! who comes later plans anew. Whoever asked for the compaction waits; a background worker tries
//! for a moment, and comes again. A standby does the same when it replays an exclusive lock that is
//! logged for it: here nobody is kept out.
//!
//! A crash in between leaves a mark without rows: BRIN indexes are not used and the next first move
//! waits again, since there is no row group yet.

use std::time::Duration;

use howdah_bridge::indexes::{is_brin, oids_of, with_index};
use howdah_bridge::lockers::Lockers;
use howdah_bridge::recovery_conflict;
use howdah_bridge::relation::forget_plans;
use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::LockMode;
use howdah_bridge::transactions::Transactions;

use super::table::{Task, open};
use crate::errors::or_raise;
use crate::store::directory;

/// How long a background worker waits for others.
const WORKER_PATIENCE: Duration = Duration::from_secs(5);

/// Makes moves safe; `false` if none may be made now. Starts and ends at the beginning of a
/// transaction.
pub fn prepare(task: &Task, transactions: Transactions) -> bool {
    let Some(lockers) = mark(task) else {
        return true;
    };
    transactions.commit();
    match (lockers, task.patient) {
        (None, _) => true,
        (Some(lockers), true) => {
            lockers.wait();
            true
        }
        (Some(lockers), false) => lockers.wait_for(WORKER_PATIENCE),
    }
}

/// Marks the table as having cold rows: those that hold its lock, if they must be waited for.
/// `None` if the table cannot be opened or has no hot side.
fn mark(task: &Task) -> Option<Option<Lockers>> {
    let step = open(task.table, task.patient)?;
    let table = step.table();
    if table.main_fork_blocks() == 0 {
        return None;
    }
    let store = ColdStore::open(table, LockMode::RowExclusive)?;
    let any = &mut |_: ShownTuple<'_>| true;
    let has_groups = !or_raise(task.table, directory::groups_where(&store, any)).is_empty();
    or_raise(task.table, directory::ensure_high_water(&store));
    let has_brin = || {
        oids_of(table)
            .into_iter()
            .any(|index| with_index(index, is_brin))
    };
    if has_groups || !has_brin() {
        return Some(None);
    }
    forget_plans(table);
    recovery_conflict::lock_on_standbys(table);
    Some(Some(Lockers::of(table)))
}
