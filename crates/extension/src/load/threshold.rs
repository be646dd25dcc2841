//! When a statement's rows begin to go cold.
//!
//! Rows are counted for each command and relation. Those past `howdah.load_threshold` are a bulk
//! load's, unless the table has none (no TOAST relation, logical decoding, a parallel worker) or
//! one of its indexes keeps its loads hot, which is found out once for each command and relation.

use std::cell::RefCell;

use howdah_bridge::Oid;
use howdah_bridge::table::Table;
use howdah_bridge::xid::{CommandId, SubTransactionId, is_in_parallel_mode};
use rustc_hash::FxHashMap;

use super::hot_only;
use crate::settings;

/// How many rows the running command has inserted into a relation.
struct CommandCount {
    subtransaction: SubTransactionId,
    command: CommandId,
    rows: u64,
    /// Whether an index of the relation keeps its loads hot; determined when the first row is past
    /// the threshold.
    stays_hot: Option<bool>,
}

thread_local! {
    static COUNTS: RefCell<FxHashMap<Oid, CommandCount>> = RefCell::default();
}

/// Counts a row that the command inserts; returns whether it may go cold.
pub(super) fn count_row(
    table: Table<'_>,
    subtransaction: SubTransactionId,
    command: CommandId,
) -> bool {
    past_threshold(table, subtransaction, command) && may_go_cold(table) && !stays_hot(table)
}

/// Drops what was counted: the transaction has ended.
pub(super) fn reset() {
    COUNTS.with_borrow_mut(FxHashMap::clear);
}

/// Counts the row; returns whether the statement is a bulk load.
fn past_threshold(table: Table<'_>, subtransaction: SubTransactionId, command: CommandId) -> bool {
    let oid = table.oid();
    let rows = COUNTS.with_borrow_mut(|counts| {
        let count = counts.entry(oid).or_insert(CommandCount {
            subtransaction,
            command,
            rows: 0,
            stays_hot: None,
        });
        if count.command != command || count.subtransaction != subtransaction {
            *count = CommandCount {
                subtransaction,
                command,
                rows: 0,
                stays_hot: None,
            };
        }
        count.rows += 1;
        count.rows
    });
    settings::force_cold() || rows > settings::load_threshold()
}

/// Whether an index keeps this relation's loads hot. Determined once per command and relation,
/// whose rows of this command were counted.
fn stays_hot(table: Table<'_>) -> bool {
    let oid = table.oid();
    let known = COUNTS.with_borrow(|counts| counts.get(&oid).and_then(|count| count.stays_hot));
    known.unwrap_or_else(|| {
        let answer = hot_only::loads_stay_hot(table);
        COUNTS.with_borrow_mut(|counts| {
            if let Some(count) = counts.get_mut(&oid) {
                count.stays_hot = Some(answer);
            }
        });
        answer
    })
}

/// Whether rows of this table may be written cold at all.
fn may_go_cold(table: Table<'_>) -> bool {
    // Logical decoding must see every row as a heap insert.
    table.toast_oid().is_some()
        && !table.is_logically_logged()
        && !is_in_parallel_mode()
        && settings::bulk_load()
}
