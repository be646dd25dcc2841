//! Rows that a running command has hidden in bulk, before they are written to deletion vectors.
//!
//! ```text
//!   group locked ──> rows collected ──┬── command or subtransaction ends ──> deletion vectors, versions
//!                                     └── subtransaction is rolled back ──> dropped
//! ```
//!
//! A command that has locked a whole group and deletes or updates many of its rows collects them
//! here. It writes deletion vectors, and lists of the new versions, at its end. Until then only
//! this backend's own readers see the changes, from memory, by the rule of heap's cmax: MVCC
//! snapshots taken by a later command, and dirty and self snapshots. Reading never writes them, as
//! with pending loads ([`crate::load`]).
//!
//! They are written when their command ends, before the next query starts in the same
//! subtransaction, and before a commit. They are dropped when their subtransaction is rolled back,
//! which releases the lock on the group as well. A crash loses them with their transaction.

use std::cell::RefCell;
use std::collections::BTreeMap;

use howdah_bridge::Oid;
use howdah_bridge::predicate::{check_change, is_serializable};
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::table::LockMode;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{CommandId, SubTransactionId, current_subtransaction};

use super::directory::{GroupEntry, PlacedEntry};
use super::marks::{self, RowFate};
use super::pending_groups;
use super::row_set::RowSet;
use crate::errors::{ColdError, or_raise};

/// Groups that are kept in memory; past that many, all are written. Each takes 32 kB at most.
const MOST_GROUPS: usize = 1_024;
/// New versions that are kept in memory; past that many, all are written. Each takes about 30
/// bytes.
const MOST_FATES: usize = 1 << 20;

struct PendingMarks {
    table: Oid,
    /// The TOAST relation and its file, which identify the store.
    file: StoreId,
    placed: PlacedEntry,
    subtransaction: SubTransactionId,
    command: CommandId,
    rows: RowSet,
    /// Those of these rows that were not simply deleted.
    fates: BTreeMap<u32, RowFate>,
    /// Rows hidden before by any transaction: they are known, because the whole group is locked.
    known: RowSet,
}

impl PendingMarks {
    fn position_of(&self, row: RowNumber) -> u32 {
        (row.0 - self.placed.entry.first_row.0) as u32
    }

    fn hide(&mut self, row: RowNumber, fate: RowFate) {
        let position = self.position_of(row);
        self.rows.insert(position);
        if !matches!(fate, RowFate::Deleted) {
            self.fates.insert(position, fate);
        }
    }
}

thread_local! {
    static PENDING: RefCell<Vec<PendingMarks>> = const { RefCell::new(Vec::new()) };
}

/// Whether anything is pending.
pub fn any() -> bool {
    PENDING.with_borrow(|pending| !pending.is_empty())
}

/// Whether this command collects rows of the row's group, and no transaction has hidden the row
/// before. If so, [`try_hide`] will hide it.
pub fn may_hide(table: Oid, row: RowNumber, command: CommandId) -> bool {
    PENDING.with_borrow_mut(|pending| collecting(pending, table, row, command).is_some())
}

/// Hides a row if this command collects rows of its group and no transaction has hidden it before;
/// `false` otherwise.
pub fn try_hide(table: Oid, row: RowNumber, fate: RowFate, command: CommandId) -> bool {
    let (done, full) = PENDING.with_borrow_mut(|pending| {
        let Some(found) = collecting(pending, table, row, command) else {
            return (false, false);
        };
        found.hide(row, fate);
        (true, found.fates.len() >= MOST_FATES / 16)
    });
    if full && PENDING.with_borrow(|p| p.iter().map(|p| p.fates.len()).sum::<usize>()) > MOST_FATES
    {
        write_here();
    }
    done
}

/// The rows that this command collects, if this row is not hidden yet and may be added.
fn collecting(
    pending: &mut [PendingMarks],
    table: Oid,
    row: RowNumber,
    command: CommandId,
) -> Option<&mut PendingMarks> {
    if pending.is_empty() {
        return None;
    }
    let subtransaction = current_subtransaction();
    let found = pending.iter_mut().rev().find(|p| {
        p.table == table
            && p.command == command
            && p.subtransaction == subtransaction
            && p.placed.entry.covers(row)
    })?;
    let position = found.position_of(row);
    (position < found.placed.entry.row_count
        && !found.known.contains(position)
        && !found.rows.contains(position))
    .then_some(found)
}

/// Whether any command has hidden a row of the table in memory.
pub fn hides_now(table: Oid, row: RowNumber) -> bool {
    PENDING.with_borrow(|pending| {
        let mut newest_first = pending.iter().rev();
        newest_first.any(|p| {
            p.table == table && p.placed.entry.covers(row) && p.rows.contains(p.position_of(row))
        })
    })
}

/// Starts to collect rows of a group that is locked as a whole, and hides this row, which is not
/// hidden yet. `false` if an outer subtransaction already collects rows of the group.
pub fn start(
    store: &ColdStore,
    table: Oid,
    placed: &mut PlacedEntry,
    row: RowNumber,
    fate: RowFate,
    command: CommandId,
) -> Result<bool, ColdError> {
    let subtransaction = current_subtransaction();
    let group = placed.entry.group();
    let of_outer = PENDING.with_borrow(|pending| {
        pending.iter().any(|p| {
            p.table == table
                && p.placed.entry.group() == group
                && p.subtransaction != subtransaction
        })
    });
    if of_outer {
        return Ok(false);
    }
    write_where(|p| p.table == table && p.placed.entry.group() == group);
    if PENDING.with_borrow(Vec::len) >= MOST_GROUPS {
        write_here();
    }
    marks::announce_deletion_vectors(store, placed)?;
    let known = marks::hidden_now(store, &placed.entry)?;
    let mut found = PendingMarks {
        table,
        file: store.id(),
        placed: *placed,
        subtransaction,
        command,
        rows: RowSet::with_bound(placed.entry.capacity_rows),
        fates: BTreeMap::new(),
        known: known.unwrap_or_default(),
    };
    found.hide(row, fate);
    PENDING.with_borrow_mut(|pending| pending.push(found));
    Ok(true)
}

/// Notes that a row has got a mark of its own.
pub fn note_marked(table: Oid, row: RowNumber) {
    PENDING.with_borrow_mut(|pending| {
        for p in pending.iter_mut() {
            if p.table == table && p.placed.entry.covers(row) {
                let position = p.position_of(row);
                if p.known.is_empty() {
                    p.known = RowSet::with_bound(p.placed.entry.capacity_rows);
                }
                p.known.insert(position);
            }
        }
    });
}

/// How a row that is hidden in memory was changed, and by which command.
pub fn fate_of(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Option<(CommandId, RowFate)> {
    let mut found = None;
    for_group(store, entry, |p| {
        let position = p.position_of(row);
        if p.rows.contains(position) {
            let fate = p.fates.get(&position).copied();
            found = Some((p.command, fate.unwrap_or(RowFate::Deleted)));
        }
    });
    found
}

/// The command that hides a row in memory.
pub fn command_hiding(store: &ColdStore, entry: &GroupEntry, row: RowNumber) -> Option<CommandId> {
    fate_of(store, entry, row).map(|(command, _)| command)
}

/// Adds the rows of a group that are hidden in memory by commands for which `sees` holds.
pub fn add_to(
    store: &ColdStore,
    entry: &GroupEntry,
    rows: &mut RowSet,
    sees: impl Fn(CommandId) -> bool,
) {
    for_group(store, entry, |p| {
        if sees(p.command) {
            p.rows.iter().for_each(|position| {
                rows.insert(position);
            });
        }
    });
}

fn for_group(store: &ColdStore, entry: &GroupEntry, mut f: impl FnMut(&PendingMarks)) {
    PENDING.with_borrow(|pending| {
        if pending.is_empty() {
            return;
        }
        let file = store.id();
        for p in pending {
            if p.file == file && p.placed.entry.group() == entry.group() {
                f(p);
            }
        }
    });
}

/// Writes what the current subtransaction has collected. It may collect more afterwards.
pub fn write_here() {
    if any() {
        let subtransaction = current_subtransaction();
        write_where(|p| p.subtransaction == subtransaction);
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

/// Drops what a subtransaction that was rolled back has collected.
pub fn discard_subtransaction(subtransaction: SubTransactionId) {
    PENDING.with_borrow_mut(|pending| pending.retain(|p| p.subtransaction != subtransaction));
}

/// Drops what was collected for a file that is truncated in place.
pub(super) fn discard_file(file: StoreId) {
    PENDING.with_borrow_mut(|pending| pending.retain(|p| p.file != file));
}

/// Discards everything: the transaction is over.
pub fn reset() {
    PENDING.with_borrow_mut(Vec::clear);
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

fn write(pending: &PendingMarks) {
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
    let hidden = marks::hide_in_bulk(&store, &mut placed, rows, fates, pending.command);
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
