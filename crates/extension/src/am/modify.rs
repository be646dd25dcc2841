//! Inserts, updates, deletes and row locks.
//!
//! Inserts go hot by heap's code unless the running statement is a bulk load ([`crate::load`]).
//! Speculative inserts are always hot. Changes of hot rows are left to heap; changes of cold rows
//! and all row locks are done by [`super::cold_rows`].

use howdah_bridge::hot::lock::meet_if_timed;
use howdah_bridge::slot::tid_of_copy;
use howdah_bridge::tid::RowNumber;
use pgrx::{pg_guard, pg_sys};

use super::{cold_rows, heap};
use crate::load;

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
        crate::compact::note_write();
        if !load::insert_slot(rel, slot, cid) {
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
        crate::compact::note_write();
        let mut run_start = 0;
        for i in 0..nslots as usize {
            if load::insert_slot(rel, *slots.add(i), cid) {
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

/// The new place of the row that was to be changed or locked at `tid`, if the row was moved and not
/// changed otherwise: the caller continues there, as it would on heap, where the row stays in
/// place. For a row that the caller must not change, because its snapshot does not see it, `tmfd`
/// holds the row's own TID, and the result is `None`.
pub(super) fn moved_meanwhile(
    tid: pg_sys::ItemPointerData,
    result: pg_sys::TM_Result::Type,
    tmfd: &pg_sys::TM_FailureData,
) -> Option<RowNumber> {
    if result != pg_sys::TM_Result::TM_Updated {
        return None;
    }
    RowNumber::from_tid(&tmfd.ctid).filter(|&to| RowNumber::from_tid(&tid) != Some(to))
}

/// The same for a hot row. A row that fails a check against another snapshot (`crosscheck`) may
/// carry the link of a mover that aborted, which is void.
fn moved_from_hot(
    tid: pg_sys::ItemPointerData,
    result: pg_sys::TM_Result::Type,
    tmfd: &pg_sys::TM_FailureData,
    crosscheck: pg_sys::Snapshot,
) -> Option<RowNumber> {
    let moved = moved_meanwhile(tid, result, tmfd);
    moved.filter(|_| crosscheck.is_null())
}

#[pg_guard]
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
        let mut result = pg_sys::TM_Result::TM_Ok;
        let mut row = RowNumber::from_tid(&*tid);
        if row.is_none() {
            let _met = meet_if_timed(rel, *tid);
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
            row = moved_from_hot(*tid, result, &*tmfd, crosscheck);
        }
        while let Some(cold) = row {
            crate::compact::note_write();
            let tmfd = &mut *tmfd;
            let moving = changing_partition;
            result = cold_rows::delete(rel, cold, cid, crosscheck, wait, tmfd, moving);
            row = moved_meanwhile(cold.tid(), result, tmfd);
        }
        result
    }
}

#[pg_guard]
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
        crate::compact::note_write();
        let mut result = pg_sys::TM_Result::TM_Ok;
        let mut row = RowNumber::from_tid(&*otid);
        if row.is_none() {
            let _met = meet_if_timed(rel, *otid);
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
            row = moved_from_hot(*otid, result, &*tmfd, crosscheck);
        }
        while let Some(cold) = row {
            let (tmfd, mode, indexes) = (&mut *tmfd, &mut *lockmode, &mut *update_indexes);
            result = cold_rows::update(rel, cold, slot, cid, crosscheck, wait, tmfd, mode, indexes);
            row = moved_meanwhile(cold.tid(), result, tmfd);
        }
        result
    }
}

#[pg_guard]
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
        cold_rows::lock(
            rel,
            tid,
            snapshot,
            slot,
            cid,
            mode,
            wait_policy,
            flags,
            tmfd,
        )
    }
}
