//! Step 3 of a request: the mark of a row that is held, of its own or in memory along with others.

use howdah_bridge::cold_lock::{RowLock, Wait};
use howdah_bridge::predicate::check_change;
use howdah_bridge::row_request::{ChangeRequest, Purpose, Refusal, RowFailure, RowResult};
use howdah_bridge::xid::{CommandId, Xid};

use super::located::LocatedRow;
use super::row_lock::{Locked, Request, hold};
use crate::am::estimate;
use crate::store::directory::PlacedEntry;
use crate::store::marks::{self, RowFate};
use crate::store::visibility::{last_change, moved_changes, sees_row_somewhere};
use crate::store::{pending_groups, pending_marks};

/// Rows of a group that one command marks one by one before it collects them.
const FEW_CHANGES: u32 = 32;

/// A row that is there and held for a change.
pub(super) struct There<'t, 'a> {
    pub target: &'t LocatedRow<'a>,
    pub placed: PlacedEntry,
    /// The lock, if it was taken for the change. Once the row is marked, the mark replaces it.
    locked: Option<Locked>,
}

/// Steps 1 and 2 for a change: holds the row; on failure, returns the executor's answer.
pub(super) fn hold_for_change<'t, 'a>(
    target: &'t LocatedRow<'a>,
    lock: RowLock,
    request: ChangeRequest<'_>,
    purpose: Purpose,
) -> Result<There<'t, 'a>, Refusal> {
    let command = request.command;
    let wait = match request.wait {
        true => Wait::Forever,
        false => Wait::Not,
    };
    let wanted = Request {
        lock,
        wait,
        command,
        purpose,
    };
    let tid = target.row.tid();
    let Some(held) = hold(target, wanted) else {
        return Err(Refusal {
            result: RowResult::BeingModified,
            failure: RowFailure {
                ctid: tid,
                ..RowFailure::default()
            },
        });
    };
    let placed = match held.standing.report(tid, command) {
        Ok(placed) => placed,
        Err(refusal) => {
            held.let_go();
            return Err(refusal);
        }
    };
    if let Some(snapshot) = request.crosscheck
        && !sees_row_somewhere(target.store(), target.table, target.row, snapshot)
    {
        return Err(Refusal {
            result: RowResult::Updated,
            failure: RowFailure::at(tid, Xid::INVALID),
        });
    }
    if let Some(locked) = &held.locked {
        locked.keep();
    }
    Ok(There {
        target,
        placed,
        locked: held.locked,
    })
}

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
            target.with_group(|known| known.note_marked(row));
            pending_marks::note_marked(oid, row);
            check_change(table, row, placed.entry.group());
        }
        pending_groups::note_marked(oid, &placed);
    }

    /// Hides the row in memory, if the command changes many rows of a group that is locked as a
    /// whole.
    fn collects(&self, placed: &mut PlacedEntry, fate: RowFate, command: CommandId) -> bool {
        let target = self.target;
        let is_many = target
            .locks
            .holds_bulk(placed.entry.group(), RowLock::Update)
            && target
                .with_group(|known| known.count_change(command) >= FEW_CHANGES)
                .unwrap_or(false);
        if !is_many {
            return false;
        }
        let (store, oid) = (target.store(), target.table.oid());
        let started = pending_marks::start(store, oid, placed, target.row, fate, command);
        let is_collected = target.or_raise(started);
        if is_collected {
            target.with_group(|known| known.forget_hidden());
        }
        is_collected
    }

    /// Releases the row's lock after the row was marked: a transaction that comes later finds the
    /// mark and waits for our transaction. So changes do not fill the server's lock table.
    pub fn let_go(self) {
        if let Some(locked) = self.locked {
            locked.give_back();
        }
    }
}
