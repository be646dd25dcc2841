//! What keeps a table's loads hot: its indexes, or the state of its cold store.
//!
//! A table with a BRIN index that never had a cold row loads hot, so that its index stays complete:
//! a BRIN index covers the hot side only. The planner's part of this is `am/brin.rs`. It loads hot
//! while its first move waits, too: the move waits for plans that use the index
//! (`compact/first_move.rs`).
//!
//! So does one of which this transaction has dropped a BRIN index: a rollback would bring the index
//! back, and plans that use it were not waited for, while the numbers that the load was given stay
//! given, so that loads of other transactions would go cold.
//!
//! A table with an exclusion constraint loads hot for another reason. A conflict may be found by a
//! lossy index (GiST), which must recheck it on the row itself; the rows of a load in progress are
//! in the memory of the loading backend only. Hot rows can be read while their transaction is in
//! progress. (Compaction may move such rows: they are committed.)
//!
//! So does a table with a unique index on an expression that might fail on NULLs. ON CONFLICT
//! evaluates the expression on a row that has the same key before it waits for that row's
//! transaction. For a row in another backend's memory the values are not known, and NULLs are used
//! instead (`am/point_reader.rs`). Moved and merged rows can be read before an index leads to
//! them.
//!
//! So does the first load of a transaction that has rebuilt the cold store's index: the high-water
//! mark would be in the new index only, and a rollback would restore the old index, after which row
//! numbers would be assigned a second time.
//!
//! So does any load into a store that is newer than an index of its table, as in a transaction that
//! has clustered the TOAST relation: a rollback would take the store away, or bring an older one
//! back, and leave entries in the index. They would lead nowhere, or to rows that are given the
//! same numbers later. And so does a load into a table that the transaction has adopted, if it has
//! an older index: after a rollback it is a heap table, to which no such entry means anything.

use std::cell::RefCell;

use howdah_bridge::Oid;
use howdah_bridge::indexes::{is_brin, is_exclusion, may_fail_on_nulls, oids_of, with_index};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::xid::{SubTransactionId, current_subtransaction};

use crate::errors::or_raise;
use crate::store::directory::{ever_gave_numbers, ever_had_cold_rows};

/// Whether an index of the table, or the state of its cold store, requires that a load stays hot.
/// The table is locked for writing, by a statement that holds a lock on its indexes as well.
pub(super) fn loads_stay_hot(table: Table<'_>) -> bool {
    let store = ColdStore::open(table, LockMode::AccessShare);
    let (mut has_brin, mut needs_values, mut is_older) = (false, false, false);
    for index in oids_of(table) {
        with_index(index, |index| {
            has_brin |= is_brin(index);
            needs_values |= is_exclusion(index) || may_fail_on_nulls(index);
            is_older |= was_adopted_since(table, index)
                || store.as_ref().is_some_and(|it| it.rollback_leaves(index));
        });
    }
    let ever_gave_numbers = |store| or_raise(table.oid(), ever_gave_numbers(store));
    needs_values
        || is_older
        || ((has_brin || has_dropped_brin(table)) && !store.as_ref().is_some_and(ever_gave_numbers))
        || store.is_some_and(|store| rollback_may_lose_mark(&store))
}

thread_local! {
    /// Tables of which the transaction has dropped a BRIN index, rolled back or not.
    static DROPPED_BRIN: RefCell<Vec<Oid>> = const { RefCell::new(Vec::new()) };
    /// Tables that the transaction has adopted, rolled back or not, and in which subtransaction.
    static ADOPTED: RefCell<Vec<(Oid, SubTransactionId)>> = const { RefCell::new(Vec::new()) };
}

/// The transaction has made a heap table a howdah table as it is.
pub(super) fn note_adopted(table: Oid) {
    ADOPTED.with_borrow_mut(|tables| tables.push((table, current_subtransaction())));
}

/// Whether the table was adopted in a subtransaction that began after the index got its storage:
/// its rollback leaves the index.
fn was_adopted_since(table: Table<'_>, index: Table<'_>) -> bool {
    ADOPTED.with_borrow(|tables| {
        let of_table = tables.iter().filter(|(adopted, _)| *adopted == table.oid());
        let mut subtransactions = of_table.map(|(_, subtransaction)| *subtransaction);
        subtransactions.any(|subtransaction| index.storage_subtransaction() < subtransaction)
    })
}

/// A BRIN index of the table is dropped.
pub(super) fn note_dropped_brin(table: Oid) {
    DROPPED_BRIN.with_borrow_mut(|tables| tables.push(table));
}

fn has_dropped_brin(table: Table<'_>) -> bool {
    DROPPED_BRIN.with_borrow(|tables| tables.contains(&table.oid()))
}

/// Forgets them: the transaction is over.
pub(super) fn reset() {
    DROPPED_BRIN.take();
    ADOPTED.take();
}

/// Whether a high-water mark made now could be lost by a rollback.
fn rollback_may_lose_mark(store: &ColdStore<'_>) -> bool {
    store.rollback_restores_old_index() && !ever_had_cold_rows(store)
}
