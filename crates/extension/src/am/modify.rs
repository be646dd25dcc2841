//! Inserts, updates, deletes and row locks.
//!
//! Inserts go hot by heap's code unless the running statement is a bulk load ([`crate::load`]).
//! Speculative inserts are always hot. Changes of hot rows are left to heap; changes of cold rows
//! and all row locks are done by [`super::cold_rows`]. A hot row that was moved meanwhile is
//! changed at its new place, and so on until it stays where it is.

use howdah_bridge::cold_lock::RowLock;
use howdah_bridge::heap_am::{self, InsertRequest, LockedRow};
use howdah_bridge::hot::lock::meet_if_timed;
use howdah_bridge::row_request::{ChangeRequest, LockRequest, Refusal, UpdateIndexes};
use howdah_bridge::slot::Slot;
use howdah_bridge::table::Table;
use howdah_bridge::table_am::{Routine, RowChanges, set_changes};
use howdah_bridge::tid::{RowNumber, Tid};

use super::cold_rows::{self, moved_meanwhile};
use super::held_store;
use crate::load;
use crate::written_databases;

pub(super) fn install(am: &mut Routine) {
    set_changes::<TwoSides>(am);
}

/// Changes on both sides of a table.
struct TwoSides;

impl RowChanges for TwoSides {
    fn before_entries(table: Table<'_>) {
        written_databases::note_write();
        held_store::hold(table);
    }

    fn insert(table: Table<'_>, slot: Slot<'_>, request: InsertRequest<'_>) {
        if !load::insert_slot(table, slot, request) {
            written_databases::note_write();
            heap_am::insert_as(table, slot, request);
        }
    }

    /// Rows that stay hot are passed to heap in runs, in their order.
    fn insert_many(table: Table<'_>, slots: &[Slot<'_>], request: InsertRequest<'_>) {
        if load::hold(table, slots, request) {
            return;
        }
        written_databases::note_write();
        let mut run_start = 0;
        for (i, &slot) in slots.iter().enumerate() {
            if load::insert_slot(table, slot, request) {
                heap_am::insert_run(table, slots, run_start..i, request);
                run_start = i + 1;
            }
        }
        heap_am::insert_run(table, slots, run_start..slots.len(), request);
    }

    fn finish_inserts(table: Table<'_>) {
        load::finish_inserts(table);
    }

    fn delete(
        table: Table<'_>,
        tid: Tid,
        request: ChangeRequest<'_>,
        moves: bool,
    ) -> Result<(), Refusal> {
        let mut row = match tid.row() {
            Some(row) => row,
            None => {
                let _met = meet_if_timed(table, tid);
                let deleted = heap_am::delete(table, tid, request, moves);
                match moved_from_hot(tid, deleted.err(), request) {
                    Some(row) => row,
                    None => return deleted,
                }
            }
        };
        loop {
            written_databases::note_write();
            let deleted = cold_rows::delete(table, row, request, moves);
            match moved_on(row.tid(), deleted.err()) {
                Some(next) => row = next,
                None => return deleted,
            }
        }
    }

    fn update(
        table: Table<'_>,
        tid: Tid,
        slot: Slot<'_>,
        request: ChangeRequest<'_>,
    ) -> (RowLock, Result<UpdateIndexes, Refusal>) {
        written_databases::note_write();
        let mut row = match tid.row() {
            Some(row) => row,
            None => {
                let _met = meet_if_timed(table, tid);
                let (lock, updated) = heap_am::update(table, tid, slot, request);
                match moved_from_hot(tid, updated.err(), request) {
                    Some(row) => row,
                    None => return (lock, updated),
                }
            }
        };
        loop {
            let (lock, updated) = cold_rows::update(table, row, slot, request);
            match moved_on(row.tid(), updated.err()) {
                Some(next) => row = next,
                None => return (lock, updated),
            }
        }
    }

    fn lock(table: Table<'_>, tid: Tid, slot: Slot<'_>, request: LockRequest<'_>) -> LockedRow {
        cold_rows::lock(table, tid, slot, request)
    }
}

/// The new place of a row whose change was refused because it was moved, and not changed otherwise.
fn moved_on(tid: Tid, refused: Option<Refusal>) -> Option<RowNumber> {
    let Refusal { result, failure } = refused?;
    moved_meanwhile(tid, result, &failure)
}

/// The same of a hot row. A row that fails a check against another snapshot (`crosscheck`) may
/// carry the link of a mover that aborted, which is void.
fn moved_from_hot(
    tid: Tid,
    refused: Option<Refusal>,
    request: ChangeRequest<'_>,
) -> Option<RowNumber> {
    moved_on(tid, refused).filter(|_| request.crosscheck.is_none())
}
