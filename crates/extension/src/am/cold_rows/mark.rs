//! Step 3 of a request: the mark of a row that is held, of its own or in memory along with others.

use howdah_bridge::cold_lock::RowLock;
use howdah_bridge::predicate::check_change;
use howdah_bridge::xid::CommandId;

use super::row_lock::There;
use crate::am::estimate;
use crate::store::directory::PlacedEntry;
use crate::store::marks::{self, RowFate};
use crate::store::visibility::{last_change, moved_changes};
use crate::store::{pending_groups, pending_marks};

/// Rows of a group that one command marks one by one before it collects them.
const FEW_CHANGES: u32 = 32;

impl There<'_, '_> {
    /// Hides the row: by a mark of its own, or in memory along with others of its group if it may
    /// be collected. When a mark is written, conflicts with serializable transactions that have
    /// read the row are checked. Returns `false` if the row's own lock must be held until the rows
    /// that the command has collected are written.
    pub fn mark(&self, fate: RowFate, command: CommandId, may_collect: bool) -> bool {
        let target = self.target;
        let (store, table, row) = (target.store(), target.table, target.row);
        let (oid, mut placed) = (table.oid(), self.placed);
        estimate::hide_row(oid);
        moved_changes::note(oid, &placed.entry);
        let collected = match may_collect {
            true => self.collects(&mut placed, fate, command),
            false => Collected::No,
        };
        if collected == Collected::No {
            target.or_raise(marks::write(store, &mut placed, row, fate, command));
            last_change::note(table, row, command);
            if let Some(mut known) = target.known() {
                known.note_marked(row);
            }
            pending_marks::note_marked(oid, row);
            check_change(table, row, placed.entry.group());
        }
        pending_groups::note_marked(oid, &placed);
        collected != Collected::RowHeld
    }

    /// Hides the row in memory, if the command changes many rows of a group that is locked as a
    /// whole, or deletes this row after one of the same block.
    fn collects(&self, placed: &mut PlacedEntry, fate: RowFate, command: CommandId) -> Collected {
        let target = self.target;
        let (store, oid, row) = (target.store(), target.table.oid(), target.row);
        let Some(before) = (target.known()).map(|mut known| known.count_change(command, row))
        else {
            return Collected::No;
        };
        let locks = target.locks;
        let collected = if locks.holds_bulk(placed.entry.group(), RowLock::Update) {
            let is_many = before.count >= FEW_CHANGES;
            let mut starts = || {
                let started = pending_marks::start(store, oid, placed, row, command);
                target.or_raise(started)
            };
            match is_many && starts() && pending_marks::try_hide(oid, row, command, || fate) {
                true => Collected::GroupHeld,
                false => Collected::No,
            }
        } else if before.is_beside && matches!(fate, RowFate::Deleted) {
            let deleted = pending_marks::delete_held(store, oid, placed, row, command);
            match target.or_raise(deleted) {
                true => Collected::RowHeld,
                false => Collected::No,
            }
        } else {
            Collected::No
        };
        if collected != Collected::No
            && let Some(mut known) = target.known()
        {
            known.forget_hidden();
        }
        collected
    }
}

/// Whether a row was collected, and by which lock it is held until it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Collected {
    No,
    GroupHeld,
    RowHeld,
}
