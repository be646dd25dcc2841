//! Preparation of the first move of a table.
//!
//! As long as a table never had cold rows, plans use its BRIN indexes, which cover the hot side
//! only ([`crate::am::brin`]). A statement that was planned before the first move may take its
//! snapshot afterwards, and would miss the moved rows. So the table is first recorded as having
//! cold rows, by creating its high-water mark; statements that come later are planned without BRIN
//! indexes. If there is a BRIN index, the move then waits for all transactions that hold a lock on
//! the table. A compaction that a user has requested waits for them as long as it takes; a
//! background worker waits for a moment, and tries again at a later visit. A standby does the same
//! when it replays an exclusive lock on the table: that lock is logged for this purpose only, and
//! is not taken on the primary.
//!
//! The mark is 0 until the first row number is given out, which is after the wait: loads stay hot
//! until then (`load/hot_only.rs`), and a move that gave up, was cancelled, or ended by a crash has
//! the next one wait again.

use std::time::Duration;

use howdah_bridge::indexes::{is_brin, oids_of, with_index};
use howdah_bridge::lockers::Lockers;
use howdah_bridge::recovery_conflict;
use howdah_bridge::relation::forget_plans;
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::table::LockMode;
use howdah_bridge::transactions::Transactions;

use super::task::{Task, open};
use crate::errors::{ColdError, or_raise};
use crate::store::directory;

/// How long a background worker waits for other transactions.
const WORKER_PATIENCE: Duration = Duration::from_secs(5);

/// The cold store that moves were prepared for: a TRUNCATE between two moves leaves another one,
/// without a mark.
#[derive(Clone, Copy, Debug)]
pub struct Prepared(Option<StoreId>);

impl Prepared {
    /// Whether a move into this store may be made. The table is locked.
    pub fn allows(self, store: &ColdStore) -> Result<bool, ColdError> {
        Ok(self.0 == Some(store.id()) || directory::ever_gave_numbers(store)?)
    }
}

/// Makes moves safe; `None` if none may be made now. Called at the beginning of a transaction, and
/// returns at the beginning of one.
pub fn prepare(task: &Task, transactions: Transactions) -> Option<Prepared> {
    let Some((store, lockers)) = mark(task) else {
        return Some(Prepared(None));
    };
    transactions.commit();
    let may_move = match (lockers, task.patient) {
        (None, _) => true,
        (Some(lockers), true) => {
            lockers.wait();
            true
        }
        (Some(lockers), false) => lockers.wait_for(WORKER_PATIENCE),
    };
    may_move.then_some(Prepared(Some(store)))
}

/// Records that the table has cold rows. Returns its cold store, and the holders of locks on the
/// table, if they must be waited for; `None` if the table cannot be opened or has no hot side.
fn mark(task: &Task) -> Option<(StoreId, Option<Lockers>)> {
    let step = open(task.table, task.patient)?;
    let table = step.table();
    if table.main_fork_blocks() == 0 {
        return None;
    }
    let store = ColdStore::open(table, LockMode::RowExclusive)?;
    let has_numbers = or_raise(task.table, directory::ever_gave_numbers(&store));
    or_raise(task.table, directory::ensure_high_water(&store));
    let has_brin = || {
        oids_of(table)
            .into_iter()
            .any(|index| with_index(index, is_brin))
    };
    if has_numbers || !has_brin() {
        return Some((store.id(), None));
    }
    forget_plans(table);
    recovery_conflict::lock_on_standbys(table);
    Some((store.id(), Some(Lockers::of(table))))
}
