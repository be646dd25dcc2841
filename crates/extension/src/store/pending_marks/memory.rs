//! The rows themselves, and what this backend's readers and writers ask of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use howdah_bridge::Oid;
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{CommandId, SubTransactionId, current_subtransaction};

use crate::store::directory::{GroupEntry, PlacedEntry};
use crate::store::marks::hidden_parts::HiddenParts;
use crate::store::marks::mark::RowFate;
use crate::store::row_set::RowSet;

pub(super) struct PendingMarks {
    pub table: Oid,
    /// The TOAST relation and its file, which identify the store.
    pub file: StoreId,
    pub placed: PlacedEntry,
    pub subtransaction: SubTransactionId,
    pub command: CommandId,
    /// Whether the whole group is locked, not each of the rows.
    pub is_whole: bool,
    pub rows: RowSet,
    /// Those of these rows that were not simply deleted.
    pub fates: BTreeMap<u32, RowFate>,
    /// Rows hidden before by any transaction, as far as that was asked for.
    pub before: HiddenParts,
}

impl PendingMarks {
    /// Whether they are rows of the group that covers the row.
    fn is_of(&self, table: Oid, row: RowNumber) -> bool {
        self.table == table && self.placed.entry.covers(row)
    }

    fn position_of(&self, row: RowNumber) -> u32 {
        (row.0 - self.placed.entry.first_row.0) as u32
    }

    pub fn hide(&mut self, row: RowNumber, fate: RowFate) {
        let position = self.position_of(row);
        self.rows.insert(position);
        if !matches!(fate, RowFate::Deleted) {
            self.fates.insert(position, fate);
        }
    }
}

thread_local! {
    pub(super) static PENDING: RefCell<Vec<PendingMarks>> = const { RefCell::new(Vec::new()) };
}

/// Whether anything is pending.
pub fn any() -> bool {
    PENDING.with_borrow(|pending| !pending.is_empty())
}

/// Whether a command before this one has hidden rows that are still pending.
pub fn any_before(command: CommandId) -> bool {
    PENDING.with_borrow(|pending| pending.iter().any(|p| p.command < command))
}

/// Hides a row if this command collects rows of its group and is known to be the first to hide the
/// row: `fate` is asked then, and may insert the row's new version. Returns how many rows of the
/// group were not simply deleted; `None` if the row is not hidden.
pub(super) fn hide(
    table: Oid,
    row: RowNumber,
    command: CommandId,
    fate: impl FnOnce() -> RowFate,
) -> Option<usize> {
    let at = PENDING.with_borrow(|pending| collecting(pending, table, row, command))?;
    let fate = fate();
    PENDING.with_borrow_mut(|pending| {
        let group = pending.get_mut(at);
        match group.filter(|group| group.is_of(table, row)) {
            Some(group) => {
                group.hide(row, fate);
                Some(group.fates.len())
            }
            None => pgrx::error!("could not hide a row that was to be hidden"),
        }
    })
}

/// Which rows this command collects, by their place, if this row is known not to be hidden yet and
/// may be added.
fn collecting(
    pending: &[PendingMarks],
    table: Oid,
    row: RowNumber,
    command: CommandId,
) -> Option<usize> {
    if pending.is_empty() {
        return None;
    }
    let subtransaction = current_subtransaction();
    let at = pending.iter().rposition(|p| {
        p.command == command && p.subtransaction == subtransaction && p.is_of(table, row)
    })?;
    let (found, position) = (&pending[at], pending[at].position_of(row));
    (position < found.placed.entry.row_count
        && found.before.is_hidden(position) == Some(false)
        && !found.rows.contains(position))
    .then_some(at)
}

/// Whether any command has hidden a row of the table in memory.
pub fn hides_now(table: Oid, row: RowNumber) -> bool {
    PENDING.with_borrow(|pending| {
        let mut newest_first = pending.iter().rev();
        newest_first.any(|p| p.is_of(table, row) && p.rows.contains(p.position_of(row)))
    })
}

/// Notes that a row has got a mark of its own.
pub fn note_marked(table: Oid, row: RowNumber) {
    PENDING.with_borrow_mut(|pending| {
        for p in pending.iter_mut() {
            if p.is_of(table, row) {
                let position = p.position_of(row);
                p.before.note(position);
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

/// Calls `show` for each row of a group that is hidden in memory among those at the positions, with
/// the command that hides it.
pub fn for_each_hidden(
    store: &ColdStore,
    entry: &GroupEntry,
    positions: Range<u32>,
    show: &mut dyn FnMut(u32, CommandId),
) {
    for_group(store, entry, |p| {
        for position in p.rows.iter_among(positions.clone()) {
            show(position, p.command);
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

/// Drops what a subtransaction that was rolled back has collected.
pub fn discard_subtransaction(subtransaction: SubTransactionId) {
    PENDING.with_borrow_mut(|pending| pending.retain(|p| p.subtransaction != subtransaction));
}

/// Drops what was collected for a file that is truncated in place.
pub(in crate::store) fn discard_file(file: StoreId) {
    PENDING.with_borrow_mut(|pending| pending.retain(|p| p.file != file));
}

/// Discards everything: the transaction is over.
pub fn reset() {
    PENDING.with_borrow_mut(Vec::clear);
}
