//! What is known of the command that inserts into a table: how many rows it has inserted, and
//! whether they go cold.

use std::cell::RefCell;

use howdah_bridge::access_method::create_toast_relation;
use howdah_bridge::heap_am::InsertRequest;
use howdah_bridge::table::Table;
use howdah_bridge::xid::{
    CommandId, SubTransactionId, current_subtransaction, is_in_parallel_mode,
};
use rustc_hash::FxHashMap;

use super::expected::{self, Expected};
use super::hot_only;
use crate::settings;

/// How many rows the running command has inserted into a relation.
struct CommandCount {
    subtransaction: SubTransactionId,
    command: CommandId,
    rows: u64,
    /// Whether its plan expects a load, found when its first row comes.
    expected: Option<Expected>,
    /// Whether rows of it have gone to a group.
    has_group: bool,
    /// Whether an index of the relation keeps its loads hot; determined when the first row is to go
    /// cold.
    stays_hot: Option<bool>,
}

thread_local! {
    /// The running command of each table.
    static COUNTS: RefCell<FxHashMap<u32, CommandCount>> = RefCell::default();
}

/// Counts the row; returns whether it is to go cold: it is past the threshold, or a load is
/// expected.
pub(super) fn begins_cold(table: Table<'_>, request: InsertRequest<'_>) -> bool {
    let of_command = |count: &mut CommandCount| {
        count.rows += 1;
        count.expected.is_some() || count.rows > settings::load_threshold()
    };
    let is_load = with_count(table, request, of_command) || settings::force_cold();
    is_load && may_go_cold(table) && !stays_hot(table)
}

/// The rows of a command that were inserted one by one, or held.
fn with_count<R>(
    table: Table<'_>,
    request: InsertRequest<'_>,
    look: impl FnOnce(&mut CommandCount) -> R,
) -> R {
    let (command, subtransaction) = (request.command, current_subtransaction());
    COUNTS.with_borrow_mut(|counts| {
        let begun = || CommandCount {
            subtransaction,
            command,
            rows: 0,
            expected: expected::of(table, request),
            has_group: false,
            stays_hot: None,
        };
        let oid = table.oid().to_u32();
        let count = counts.entry(oid).or_insert_with(begun);
        if count.command != command || count.subtransaction != subtransaction {
            *count = begun();
        }
        look(count)
    })
}

/// Whether the first rows of the running command may be held: none has come yet, and a load of the
/// table would go cold.
pub(super) fn may_begin_later(table: Table<'_>, request: InsertRequest<'_>) -> bool {
    let is_first = with_count(table, request, |count| {
        count.rows == 0 && count.expected.is_none()
    });
    is_first && !settings::force_cold() && may_go_cold(table) && !stays_hot(table)
}

/// Counts rows of the running command that are held.
pub(super) fn count_held(table: Table<'_>, request: InsertRequest<'_>, rows: usize) {
    with_count(table, request, |count| {
        count.rows += rows as u64;
    });
}

/// Notes that rows of the running command, which were counted, go to a group. Returns whether
/// the group may become hot: it is the first one of an expected load, and nothing learns the TIDs
/// of its rows.
pub(super) fn note_group(table: Table<'_>) -> bool {
    COUNTS.with_borrow_mut(|counts| {
        let Some(count) = counts.get_mut(&table.oid().to_u32()) else {
            return false;
        };
        let is_first = !std::mem::replace(&mut count.has_group, true);
        let is_early = count.rows <= settings::load_threshold() && !settings::force_cold();
        is_first && is_early && count.expected.is_some_and(|it| !it.shows_places)
    })
}

/// Whether an index keeps this relation's loads hot. Determined once per command and relation,
/// whose rows of this command were counted.
fn stays_hot(table: Table<'_>) -> bool {
    let oid = table.oid().to_u32();
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
    !table.is_logically_logged()
        && !is_in_parallel_mode()
        && settings::bulk_load()
        && has_store(table)
}

/// Whether there is a TOAST relation for cold rows. The table that `ALTER TABLE … SET ACCESS
/// METHOD` fills got none if the one before needed none: it gets one now. Nothing else knows that
/// table yet, and its TOAST relation takes the place of the one before, as its file does.
fn has_store(table: Table<'_>) -> bool {
    if table.toast_oid().is_none() && table.storage_subtransaction() == current_subtransaction() {
        create_toast_relation(table.oid());
    }
    table.toast_oid().is_some()
}

/// Forgets all commands: the transaction has ended.
pub(super) fn reset() {
    COUNTS.with_borrow_mut(FxHashMap::clear);
}
