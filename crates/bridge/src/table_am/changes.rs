//! Changes of single rows: `tuple_insert`, `multi_insert`, `tuple_delete`, `tuple_update`,
//! `tuple_lock`, `finish_bulk_insert`.
//!
//! Speculative insertions are left to heap. After each insertion the server enters the row into the
//! indexes. A check of uniqueness reads rows with the same key while it holds the lock of an index
//! page, where it must wait for no other lock: what it may need is prepared before.

use pgrx::{pg_guard, pg_sys};

use super::Routine;
use crate::cold_lock::RowLock;
use crate::heap_am::{self, InsertRequest, LockedRow};
use crate::row_request::{
    ChangeRequest, LockFlags, LockRequest, Refusal, UpdateIndexes, WaitPolicy,
};
use crate::slot::{Slot, tid_of_copy};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::tid::Tid;
use crate::wait_context::told;

/// Changes of single rows. Tables are locked for writing.
pub trait RowChanges {
    /// A row that is inserted is going to be entered into the indexes.
    fn before_entries(table: Table<'_>);

    /// Inserts the row in the slot.
    fn insert(table: Table<'_>, slot: Slot<'_>, request: InsertRequest<'_>);

    /// Inserts the rows in the slots, in their order.
    fn insert_many(table: Table<'_>, slots: &[Slot<'_>], request: InsertRequest<'_>);

    /// A series of insertions is done.
    fn finish_inserts(table: Table<'_>);

    /// Deletes the row at a TID; `moves` tells that its new version goes to another partition.
    fn delete(
        table: Table<'_>,
        tid: Tid,
        request: ChangeRequest<'_>,
        moves: bool,
    ) -> Result<(), Refusal>;

    /// Updates the row at a TID to the one in the slot. Returns the lock that was taken as well.
    fn update(
        table: Table<'_>,
        tid: Tid,
        slot: Slot<'_>,
        request: ChangeRequest<'_>,
    ) -> (RowLock, Result<UpdateIndexes, Refusal>);

    /// Locks the row at a TID, and stores it in the slot.
    fn lock(table: Table<'_>, tid: Tid, slot: Slot<'_>, request: LockRequest<'_>) -> LockedRow;
}

/// Has single rows changed by `C`.
pub fn set_changes<C: RowChanges>(routine: &mut Routine) {
    routine.tuple_insert = Some(tuple_insert::<C>);
    routine.tuple_insert_speculative = Some(tuple_insert_speculative::<C>);
    routine.multi_insert = Some(multi_insert::<C>);
    routine.finish_bulk_insert = Some(finish_bulk_insert::<C>);
    routine.tuple_delete = Some(tuple_delete::<C>);
    routine.tuple_update = Some(tuple_update::<C>);
    routine.tuple_lock = Some(tuple_lock::<C>);
}

#[pg_guard]
unsafe extern "C-unwind" fn tuple_insert<C: RowChanges>(
    rel: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
    options: i32,
    bistate: *mut pg_sys::BulkInsertStateData,
) {
    // SAFETY: the server holds the relation open, and the state valid or NULL; the slot holds a row
    // of the relation.
    unsafe {
        let request = InsertRequest::from_raw(cid, options, bistate);
        let table = Table::from_raw(rel);
        C::insert(table, Slot::from_raw(slot), request);
        C::before_entries(table);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn tuple_insert_speculative<C: RowChanges>(
    rel: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
    options: i32,
    bistate: *mut pg_sys::BulkInsertStateData,
    token: u32,
) {
    // SAFETY: as for `tuple_insert`; an ERROR is caught at the boundary.
    unsafe {
        C::before_entries(Table::from_raw(rel));
        let insert = heap_am::callbacks().tuple_insert_speculative;
        pg_sys::ffi::pg_guard_ffi_boundary(|| insert(rel, slot, cid, options, bistate, token));
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn multi_insert<C: RowChanges>(
    rel: pg_sys::Relation,
    slots: *mut *mut pg_sys::TupleTableSlot,
    nslots: i32,
    cid: pg_sys::CommandId,
    options: i32,
    bistate: *mut pg_sys::BulkInsertStateData,
) {
    // SAFETY: as for `tuple_insert`; there are `nslots` slots, whose array is not written.
    unsafe {
        let request = InsertRequest::from_raw(cid, options, bistate);
        let slots = Slot::array(slots, nslots as usize);
        let table = Table::from_raw(rel);
        C::insert_many(table, slots, request);
        C::before_entries(table);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn finish_bulk_insert<C: RowChanges>(rel: pg_sys::Relation, options: i32) {
    // SAFETY: the server holds the relation open.
    let table = unsafe { Table::from_raw(rel) };
    C::finish_inserts(table);
    heap_am::finish_bulk_insert(table, options);
}

/// An ERROR that ends a wait gets its context line here.
///
/// # Safety
/// Called by the server, as the access method's callback.
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn tuple_delete<C: RowChanges>(
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    cid: pg_sys::CommandId,
    snapshot: pg_sys::Snapshot,
    crosscheck: pg_sys::Snapshot,
    wait: bool,
    tmfd: *mut pg_sys::TM_FailureData,
    changing_partition: bool,
) -> pg_sys::TM_Result::Type {
    // SAFETY: the arguments are passed on; the closure owns nothing.
    unsafe {
        told(|| {
            guarded_tuple_delete::<C>(
                rel,
                tid,
                cid,
                snapshot,
                crosscheck,
                wait,
                tmfd,
                changing_partition,
            )
        })
    }
}

#[pg_guard]
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn guarded_tuple_delete<C: RowChanges>(
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    cid: pg_sys::CommandId,
    snapshot: pg_sys::Snapshot,
    crosscheck: pg_sys::Snapshot,
    wait: bool,
    tmfd: *mut pg_sys::TM_FailureData,
    changing_partition: bool,
) -> pg_sys::TM_Result::Type {
    // SAFETY: the server holds the relation open and snapshots, where there are any, valid; the
    // other pointers are to variables of its own.
    unsafe {
        let request = ChangeRequest::from_raw(cid, snapshot, crosscheck, wait);
        let (table, tid) = (Table::from_raw(rel), Tid::from_raw(*tid));
        let deleted = C::delete(table, tid, request, changing_partition);
        answer(deleted, &mut *tmfd)
    }
}

/// An ERROR that ends a wait gets its context line here.
///
/// # Safety
/// Called by the server, as the access method's callback.
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn tuple_update<C: RowChanges>(
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
    // SAFETY: the arguments are passed on; the closure owns nothing.
    unsafe {
        told(|| {
            guarded_tuple_update::<C>(
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
            )
        })
    }
}

#[pg_guard]
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn guarded_tuple_update<C: RowChanges>(
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
    // SAFETY: as for `tuple_delete`; the slot holds a row of the relation.
    unsafe {
        let request = ChangeRequest::from_raw(cid, snapshot, crosscheck, wait);
        let (table, tid) = (Table::from_raw(rel), Tid::from_raw(*otid));
        let (lock, updated) = C::update(table, tid, Slot::from_raw(slot), request);
        *lockmode = lock.raw();
        let entries = updated.unwrap_or(UpdateIndexes::None);
        if entries != UpdateIndexes::None {
            C::before_entries(table);
        }
        *update_indexes = entries.raw();
        answer(updated.map(|_| ()), &mut *tmfd)
    }
}

/// Tells the executor why a change was refused.
fn answer(
    result: Result<(), Refusal>,
    tmfd: &mut pg_sys::TM_FailureData,
) -> pg_sys::TM_Result::Type {
    match result {
        Ok(()) => pg_sys::TM_Result::TM_Ok,
        Err(Refusal { result, failure }) => {
            *tmfd = failure.raw();
            result.raw()
        }
    }
}

/// An ERROR that ends a wait gets its context line here.
///
/// # Safety
/// Called by the server, as the access method's callback.
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn tuple_lock<C: RowChanges>(
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
    // SAFETY: the arguments are passed on; the closure owns nothing.
    unsafe {
        told(|| {
            guarded_tuple_lock::<C>(
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
        })
    }
}

#[pg_guard]
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn guarded_tuple_lock<C: RowChanges>(
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
    // SAFETY: as for `tuple_delete`; the slot is one of the relation's. Replication identifies the
    // row by a copied slot.
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
        let locked = C::lock(table, Tid::from_raw(*tid), slot, request);
        *tid = locked.at.raw();
        *tmfd = locked.failure.raw();
        locked.result.raw()
    }
}
