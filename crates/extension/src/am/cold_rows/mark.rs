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
    /// read the row are checked.
    pub fn mark(&self, fate: RowFate, command: CommandId, may_collect: bool) {
        let target = self.target;
        let (store, table, row) = (target.store(), target.table, target.row);
        let (oid, mut placed) = (table.oid(), self.placed);
        estimate::hide_row(oid);
        moved_changes::note(oid, &placed.entry);
        if !(may_collect && self.collects(&mut placed, fate, command)) {
            target.or_raise(marks::write(store, &mut placed, row, fate, command));
            last_change::note(table, row, command);
            if let Some(mut known) = target.known() {
                known.note_marked(row);
            }
            pending_marks::note_marked(oid, row);
            check_change(table, row, placed.entry.group());
        }
        pending_groups::note_marked(oid, &placed);
    }

    /// Hides the row in memory, if the command changes many rows of a group that is locked as a
    /// whole.
    fn collects(&self, placed: &mut PlacedEntry, fate: RowFate, command: CommandId) -> bool {
        let target = self.target;
        let in_bulk = target
            .locks
            .holds_bulk(placed.entry.group(), RowLock::Update);
        let is_many = in_bulk
            && target
                .known()
                .is_some_and(|mut known| known.count_change(command) >= FEW_CHANGES);
        if !is_many {
            return false;
        }
        let (store, oid) = (target.store(), target.table.oid());
        let row = target.row;
        let started = pending_marks::start(store, oid, placed, row, command);
        if !target.or_raise(started) || !pending_marks::try_hide(oid, row, command, || fate) {
            return false;
        }
        if let Some(mut known) = target.known() {
            known.forget_hidden();
        }
        true
    }
}
