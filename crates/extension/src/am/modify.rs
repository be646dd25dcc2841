//! Inserts, updates, deletes and row locks.
//!
//! Inserts go hot by heap's code unless the running statement is a bulk load ([`crate::load`]).
//! Speculative inserts are always hot. Changes of hot rows are left to heap; changes of cold rows
//! and all row locks are done by [`super::cold_rows`].

use howdah_bridge::cold_lock::RowLock;
use howdah_bridge::hot::lock::meet_if_timed;
use howdah_bridge::row_request::{
    ChangeRequest, LockFlags, LockRequest, Refusal, RowFailure, RowResult, UpdateIndexes,
    WaitPolicy,
};
use howdah_bridge::slot::{Slot, tid_of_copy};
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::Table;
use howdah_bridge::tid::{RowNumber, Tid};
use pgrx::{pg_guard, pg_sys};

use super::cold_rows::{self, moved_meanwhile};
use super::heap;
use crate::load;
use crate::written_databases;

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.tuple_insert = Some(tuple_insert);
    am.multi_insert = Some(multi_insert);
    am.finish_bulk_insert = Some(finish_bulk_insert);
    am.tuple_delete = Some(tuple_delete);
    am.tuple_update = Some(tuple_update);
    am.tuple_lock = Some(tuple_lock);
}

#[pg_guard]
unsafe extern "C-unwind" fn tuple_insert(
    rel: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
    options: i32,
    bistate: *mut pg_sys::BulkInsertStateData,
) {
    // SAFETY: arguments come from the executor.
    unsafe {
        let (table, row) = (Table::from_raw(rel), Slot::from_raw(slot));
        if !load::insert_slot(table, row, cid) {
            written_databases::note_write();
            (heap().tuple_insert.unwrap_unchecked())(rel, slot, cid, options, bistate);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn multi_insert(
    rel: pg_sys::Relation,
    slots: *mut *mut pg_sys::TupleTableSlot,
    nslots: i32,
    cid: pg_sys::CommandId,
    options: i32,
    bistate: *mut pg_sys::BulkInsertStateData,
) {
    // SAFETY: `slots` holds `nslots` slots. Rows that stay hot are passed to heap in runs, in their
    // order.
    unsafe {
        written_databases::note_write();
        let mut run_start = 0;
        for i in 0..nslots as usize {
            if load::insert_slot(Table::from_raw(rel), Slot::from_raw(*slots.add(i)), cid) {
                insert_hot_run(rel, slots, run_start..i, cid, options, bistate);
                run_start = i + 1;
            }
        }
        insert_hot_run(
            rel,
            slots,
            run_start..nslots as usize,
            cid,
            options,
            bistate,
        );
    }
}

/// # Safety
/// The relation is open and locked for writing; `slots` points to at least as many slots of it as
/// the run's end.
unsafe fn insert_hot_run(
    rel: pg_sys::Relation,
    slots: *mut *mut pg_sys::TupleTableSlot,
    run: std::ops::Range<usize>,
    cid: pg_sys::CommandId,
    options: i32,
    bistate: *mut pg_sys::BulkInsertStateData,
) {
    if run.is_empty() {
        return;
    }
    // SAFETY: the run lies inside the caller's array.
    unsafe {
        (heap().multi_insert.unwrap_unchecked())(
            rel,
            slots.add(run.start),
            run.len() as i32,
            cid,
            options,
            bistate,
        );
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn finish_bulk_insert(rel: pg_sys::Relation, options: i32) {
    // SAFETY: the relation is open; heap has no such callback today but may get one.
    unsafe {
        load::flush_relation((*rel).rd_id);
        if let Some(finish) = heap().finish_bulk_insert {
            finish(rel, options);
        }
    }
}

/// The new place of a hot row that was moved and not changed otherwise. A row that fails a check
/// against another snapshot (`crosscheck`) may carry the link of a mover that aborted, which is
/// void.
fn moved_from_hot(
    tid: Tid,
    result: pg_sys::TM_Result::Type,
    tmfd: &pg_sys::TM_FailureData,
    crosscheck: Option<Snapshot<'_>>,
) -> Option<RowNumber> {
    let (result, failure) = (RowResult::from_raw(result), RowFailure::from_raw(tmfd));
    let moved = moved_meanwhile(tid, result, &failure);
    moved.filter(|_| crosscheck.is_none())
}

/// Tells the executor what came of a change of a cold row; where to go on if the row was moved
/// meanwhile.
fn answer(
    row: RowNumber,
    refused: Result<(), Refusal>,
    tmfd: &mut pg_sys::TM_FailureData,
) -> (pg_sys::TM_Result::Type, Option<RowNumber>) {
    match refused {
        Ok(()) => (pg_sys::TM_Result::TM_Ok, None),
        Err(Refusal { result, failure }) => {
            *tmfd = failure.raw();
            (result.raw(), moved_meanwhile(row.tid(), result, &failure))
        }
    }
}

#[pg_guard]
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn tuple_delete(
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    cid: pg_sys::CommandId,
    snapshot: pg_sys::Snapshot,
    crosscheck: pg_sys::Snapshot,
    wait: bool,
    tmfd: *mut pg_sys::TM_FailureData,
    changing_partition: bool,
) -> pg_sys::TM_Result::Type {
    // SAFETY: arguments come from the executor.
    unsafe {
        let (table, at) = (Table::from_raw(rel), Tid::from_raw(*tid));
        let request = ChangeRequest {
            command: cid,
            crosscheck: Snapshot::from_nullable(crosscheck),
            wait,
        };
        let mut result = pg_sys::TM_Result::TM_Ok;
        let mut row = at.row();
        if row.is_none() {
            let _met = meet_if_timed(table, at);
            result = (heap().tuple_delete.unwrap_unchecked())(
                rel,
                tid,
                cid,
                snapshot,
                crosscheck,
                wait,
                tmfd,
                changing_partition,
            );
            row = moved_from_hot(at, result, &*tmfd, request.crosscheck);
        }
        while let Some(cold) = row {
            written_databases::note_write();
            let deleted = cold_rows::delete(table, cold, request, changing_partition);
            (result, row) = answer(cold, deleted, &mut *tmfd);
        }
        result
    }
}

#[pg_guard]
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn tuple_update(
    rel: pg_sys::Relation,
    otid: pg_sys::ItemPointer,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
    snapshot: pg_sys::Snapshot,
    crosscheck: pg_sys::Snapshot,
    wait: bool,
    tmfd: *mut pg_sys::TM_FailureData,
    lockmode: *mut pg_sys::LockTupleMode::Type,
    update_indexes: *mut pg_sys::TU_UpdateIndexes::Type,
) -> pg_sys::TM_Result::Type {
    // SAFETY: arguments come from the executor.
    unsafe {
        written_databases::note_write();
        let (table, at) = (Table::from_raw(rel), Tid::from_raw(*otid));
        let request = ChangeRequest {
            command: cid,
            crosscheck: Snapshot::from_nullable(crosscheck),
            wait,
        };
        let mut result = pg_sys::TM_Result::TM_Ok;
        let mut row = at.row();
        if row.is_none() {
            let _met = meet_if_timed(table, at);
            result = (heap().tuple_update.unwrap_unchecked())(
                rel,
                otid,
                slot,
                cid,
                snapshot,
                crosscheck,
                wait,
                tmfd,
                lockmode,
                update_indexes,
            );
            row = moved_from_hot(at, result, &*tmfd, request.crosscheck);
        }
        while let Some(cold) = row {
            let (lock, updated) = cold_rows::update(table, cold, Slot::from_raw(slot), request);
            *lockmode = lock.raw();
            *update_indexes = updated.unwrap_or(UpdateIndexes::None).raw();
            (result, row) = answer(cold, updated.map(|_| ()), &mut *tmfd);
        }
        result
    }
}

#[pg_guard]
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn tuple_lock(
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
    mode: pg_sys::LockTupleMode::Type,
    wait_policy: pg_sys::LockWaitPolicy::Type,
    flags: u8,
    tmfd: *mut pg_sys::TM_FailureData,
) -> pg_sys::TM_Result::Type {
    // SAFETY: arguments come from the executor. Replication identifies the row by a copied slot.
    unsafe {
        if (*tid).ip_posid == 0
            && let Some(copied) = tid_of_copy(slot)
        {
            *tid = copied;
        }
        let request = LockRequest {
            command: cid,
            lock: RowLock::of(mode),
            wait: WaitPolicy::from_raw(wait_policy),
            flags: LockFlags::from_raw(flags),
            snapshot: Snapshot::from_nullable(snapshot),
        };
        let (table, slot) = (Table::from_raw(rel), Slot::from_raw(slot));
        let locked = cold_rows::lock(table, Tid::from_raw(*tid), slot, request);
        *tid = locked.at.raw();
        *tmfd = locked.failure.raw();
        locked.result.raw()
    }
}
