//! Rows that a running command has hidden along with others, before records of them are written.
//!
//! ```text
//!   group locked ─┬─> rows collected ─┬─ (sub)transaction, command ends ─> vectors, lists
//!   rows locked ──┘                   │                                    block deletions
//!                                     └─ subtransaction is rolled back ──> dropped
//! ```
//!
//! A command that has locked a whole group and deletes or updates many of its rows collects them
//! here. It writes deletion vectors, and lists of the new versions, at its end. One that deletes
//! rows beside each other, whose locks it holds one by one, collects these, too, and writes
//! [block deletions](super::marks::block_deletions). Until then only this backend's own readers see
//! the changes, from memory, by the rule of heap's cmax: MVCC snapshots taken by a later command,
//! and dirty and self snapshots. Reading never writes them, as with pending loads
//! ([`crate::load`]).
//!
//! They are written when their command ends and before a commit; no query has workers before. They
//! are dropped when their subtransaction is rolled back, which releases the locks as well. A crash
//! loses them with their transaction. Locks of rows are given back once the rows are written.
//!
//! [`memory`] holds them, and lies below [`marks`]; here they are collected and written.

use std::cell::Cell;
use std::collections::BTreeMap;

use howdah_bridge::Oid;
use howdah_bridge::predicate::{check_change, is_serializable};
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::LockMode;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{CommandId, SubTransactionId, current_subtransaction};

use self::memory::{PENDING, PendingMarks};
use super::directory::PlacedEntry;
use super::marks::{self, HiddenParts, RowFate};
use super::pending_groups;
use super::row_set::RowSet;
use crate::errors::{ColdError, or_raise};

pub(in crate::store) mod memory;

pub(in crate::store) use memory::discard_file;
pub use memory::{any, discard_subtransaction, note_marked};

/// Groups that are kept in memory; past that many, all are written. Each takes 32 kB at most.
const MOST_GROUPS: usize = 1_024;
/// New versions that are kept in memory; past that many, all are written. Each takes about 30
/// bytes.
const MOST_FATES: usize = 1 << 20;

thread_local! {
    static HAS_WRITTEN: Cell<bool> = const { Cell::new(false) };
}

/// Hides a row if this command collects rows of its group and no transaction has hidden it before;
/// `false` otherwise. `fate` is asked only if the row is hidden, and may insert its new version.
pub fn try_hide(
    table: Oid,
    row: RowNumber,
    command: CommandId,
    fate: impl FnOnce() -> RowFate,
) -> bool {
    let Some(fates) = memory::hide(table, row, command, fate) else {
        return false;
    };
    if fates >= MOST_FATES / 16
        && PENDING.with_borrow(|p| p.iter().map(|p| p.fates.len()).sum::<usize>()) > MOST_FATES
    {
        write_here();
    }
    true
}

/// Starts to collect rows of a group that is locked as a whole, to be hidden by [`try_hide`], or
/// learns of one more of them whether it is hidden. `false` if an outer subtransaction already
/// collects rows of the group.
pub fn start(
    store: &ColdStore,
    table: Oid,
    placed: &mut PlacedEntry,
    row: RowNumber,
    command: CommandId,
) -> Result<bool, ColdError> {
    let Some(mut collected) = take_up(store, table, placed, command) else {
        return Ok(false);
    };
    marks::announce_deletion_vectors(store, placed)?;
    collected.placed = *placed;
    collected.is_whole = true;
    let position = (row.0 - placed.entry.first_row.0) as u32;
    marks::learn_hidden(&mut collected.before, store, &placed.entry, position)?;
    PENDING.with_borrow_mut(|pending| pending.push(collected));
    Ok(true)
}

/// Collects a row that is to be deleted, that no mark hides, and whose lock is held until it is
/// written. `false` if an outer subtransaction already collects rows of the group.
pub fn delete_held(
    store: &ColdStore,
    table: Oid,
    placed: &mut PlacedEntry,
    row: RowNumber,
    command: CommandId,
) -> Result<bool, ColdError> {
    let Some(mut collected) = take_up(store, table, placed, command) else {
        return Ok(false);
    };
    marks::announce_block_deletions(store, placed)?;
    collected.placed = *placed;
    collected.hide(row, RowFate::Deleted);
    PENDING.with_borrow_mut(|pending| pending.push(collected));
    Ok(true)
}

/// What the command has collected of the group, or nothing yet, taken from the list while its
/// records are read: an ERROR ends the subtransaction it belongs to. `None` if an outer
/// subtransaction already collects rows of the group.
fn take_up(
    store: &ColdStore,
    table: Oid,
    placed: &mut PlacedEntry,
    command: CommandId,
) -> Option<PendingMarks> {
    let subtransaction = current_subtransaction();
    let group = placed.entry.group();
    let is_of_group = |p: &PendingMarks| p.table == table && p.placed.entry.group() == group;
    let of_outer = PENDING.with_borrow(|pending| {
        (pending.iter()).any(|p| is_of_group(p) && p.subtransaction != subtransaction)
    });
    if of_outer {
        return None;
    }
    let is_continued =
        |p: &PendingMarks| is_of_group(p) && p.command == command && p.file == store.id();
    let continued = PENDING.with_borrow_mut(|pending| {
        let at = pending.iter().position(is_continued)?;
        Some(pending.remove(at))
    });
    if let Some(continued) = continued {
        let announced = continued.placed.entry.flags;
        placed.entry.flags = placed.entry.flags.union(announced);
        return Some(continued);
    }
    write_where(is_of_group);
    if PENDING.with_borrow(Vec::len) >= MOST_GROUPS {
        write_here();
    }
    Some(PendingMarks {
        table,
        file: store.id(),
        placed: *placed,
        subtransaction,
        command,
        is_whole: false,
        rows: RowSet::with_bound(placed.entry.capacity_rows),
        fates: BTreeMap::new(),
        before: HiddenParts::of(&placed.entry),
    })
}

/// Writes what the current subtransaction has collected. It may collect more afterwards.
pub fn write_here() {
    if any() {
        let subtransaction = current_subtransaction();
        write_where(|p| p.subtransaction == subtransaction);
    }
}

/// Writes what a command has collected in the current subtransaction.
pub fn write_command(command: CommandId) {
    if any() {
        let subtransaction = current_subtransaction();
        write_where(|p| p.command == command && p.subtransaction == subtransaction);
    }
}

/// Writes what a subtransaction that is about to commit has collected.
pub fn write_subtransaction(subtransaction: SubTransactionId) {
    write_where(|p| p.subtransaction == subtransaction);
}

/// Writes everything; the transaction is about to commit.
pub fn write_all() {
    write_where(|_| true);
}

fn write_where(wanted: impl Fn(&PendingMarks) -> bool) {
    loop {
        // Removed from the list before it is written: an ERROR ends the (sub)transaction it belongs
        // to.
        let next = PENDING.with_borrow_mut(|pending| {
            let at = pending.iter().position(&wanted)?;
            Some(pending.remove(at))
        });
        let Some(next) = next else {
            return;
        };
        write(&next);
    }
}

/// Whether this transaction has hidden rows in bulk: only the lock on their group keeps others from
/// them, since a deletion vector counts from the commit on.
pub fn has_written() -> bool {
    HAS_WRITTEN.get()
}

/// Discards everything: the transaction is over.
pub fn reset() {
    HAS_WRITTEN.set(false);
    memory::reset();
}

fn write(pending: &PendingMarks) {
    if pending.is_whole {
        HAS_WRITTEN.set(true);
    }
    let Some(relation) = OpenRelation::try_open_locked(pending.table) else {
        // This transaction itself has dropped the table.
        return;
    };
    // The lock of the deleting statement is held to the end of the transaction.
    let table = relation.table();
    let Some(store) = ColdStore::open(table, LockMode::RowExclusive) else {
        return;
    };
    if store.id() != pending.file {
        // This transaction itself has truncated or rewritten the table.
        return;
    }
    let mut placed = pending.placed;
    let (rows, fates) = (&pending.rows, &pending.fates);
    let hidden = match pending.is_whole {
        true => marks::hide_in_bulk(&store, &mut placed, rows, fates, pending.command),
        false => {
            let positions: Vec<u32> = rows.iter().collect();
            marks::delete_by_block(&store, &mut placed, &positions, pending.command)
        }
    };
    or_raise(pending.table, hidden);
    if is_serializable() {
        let entry = &placed.entry;
        for position in rows.iter() {
            let row = RowNumber(entry.first_row.0 + u64::from(position));
            check_change(table, row, entry.group());
        }
    }
    pending_groups::note_marked(pending.table, &placed);
}
