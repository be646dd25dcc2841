//! Heap's own table access method, for hot rows.
//!
//! ```text
//!   GetHeapamTableAmRoutine() ── once ──▶ Callbacks ──▶ functions over borrowed values
//! ```
//!
//! Heap's routine is read once for each process, and each callback that is called here is found to
//! be there; from then on a call is a call through a pointer. Scans have functions of their own
//! ([`crate::hot::scan`]).
//!
//! Its callbacks are called without a guard: an ERROR passes over the frames up to the next guard.
//! So a caller must not hold anything that only `Drop` releases.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::OnceLock;

use pgrx::pg_sys::{
    self, BlockNumber, BufferAccessStrategy, BulkInsertStateData, CommandId, ForkNumber,
    IndexFetchTableData, ItemPointer, LockTupleMode, LockWaitPolicy, ParallelTableScanDesc,
    ReadStream, Relation, SampleScanState, ScanDirection, ScanKeyData, Size,
    Snapshot as RawSnapshot, TM_FailureData, TM_IndexDeleteOp, TM_Result, TU_UpdateIndexes,
    TableAmRoutine, TableScanDesc, TransactionId, TupleTableSlot, VacuumParams,
};

use crate::cold_lock::RowLock;
use crate::hot::growth::Growth;
use crate::row_request::{
    ChangeRequest, LockRequest, Refusal, RowFailure, RowResult, UpdateIndexes,
};
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::tid::Tid;

/// Declares the callbacks of heap's that are called, by their names in `TableAmRoutine`.
macro_rules! callbacks {
    ($($name:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// Heap's callbacks, all of which are there.
        pub(crate) struct Callbacks {
            $(pub $name: unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?,)*
        }

        impl Callbacks {
            fn of(routine: &TableAmRoutine) -> Callbacks {
                Callbacks { $($name: found(routine.$name, stringify!($name)),)* }
            }
        }
    };
}

callbacks! {
    scan_begin(Relation, RawSnapshot, i32, *mut ScanKeyData, ParallelTableScanDesc, u32)
        -> TableScanDesc;
    scan_end(TableScanDesc);
    scan_rescan(TableScanDesc, *mut ScanKeyData, bool, bool, bool, bool);
    scan_getnextslot(TableScanDesc, ScanDirection::Type, *mut TupleTableSlot) -> bool;
    scan_set_tidrange(TableScanDesc, ItemPointer, ItemPointer);
    scan_getnextslot_tidrange(TableScanDesc, ScanDirection::Type, *mut TupleTableSlot) -> bool;
    scan_sample_next_block(TableScanDesc, *mut SampleScanState) -> bool;
    scan_sample_next_tuple(TableScanDesc, *mut SampleScanState, *mut TupleTableSlot) -> bool;
    scan_analyze_next_block(TableScanDesc, *mut ReadStream) -> bool;
    scan_analyze_next_tuple(
        TableScanDesc, TransactionId, *mut f64, *mut f64, *mut TupleTableSlot,
    ) -> bool;
    parallelscan_estimate(Relation) -> Size;
    parallelscan_initialize(Relation, ParallelTableScanDesc) -> Size;
    parallelscan_reinitialize(Relation, ParallelTableScanDesc);
    index_fetch_begin(Relation) -> *mut IndexFetchTableData;
    index_fetch_reset(*mut IndexFetchTableData);
    index_fetch_end(*mut IndexFetchTableData);
    index_fetch_tuple(
        *mut IndexFetchTableData, ItemPointer, RawSnapshot, *mut TupleTableSlot, *mut bool,
        *mut bool,
    ) -> bool;
    index_delete_tuples(Relation, *mut TM_IndexDeleteOp) -> TransactionId;
    tuple_fetch_row_version(Relation, ItemPointer, RawSnapshot, *mut TupleTableSlot) -> bool;
    tuple_tid_valid(TableScanDesc, ItemPointer) -> bool;
    tuple_satisfies_snapshot(Relation, *mut TupleTableSlot, RawSnapshot) -> bool;
    tuple_insert(Relation, *mut TupleTableSlot, CommandId, i32, *mut BulkInsertStateData);
    tuple_insert_speculative(
        Relation, *mut TupleTableSlot, CommandId, i32, *mut BulkInsertStateData, u32,
    );
    multi_insert(
        Relation, *mut *mut TupleTableSlot, i32, CommandId, i32, *mut BulkInsertStateData,
    );
    tuple_delete(
        Relation, ItemPointer, CommandId, RawSnapshot, RawSnapshot, bool, *mut TM_FailureData,
        bool,
    ) -> TM_Result::Type;
    tuple_update(
        Relation, ItemPointer, *mut TupleTableSlot, CommandId, RawSnapshot, RawSnapshot, bool,
        *mut TM_FailureData, *mut LockTupleMode::Type, *mut TU_UpdateIndexes::Type,
    ) -> TM_Result::Type;
    tuple_lock(
        Relation, ItemPointer, RawSnapshot, *mut TupleTableSlot, CommandId, LockTupleMode::Type,
        LockWaitPolicy::Type, u8, *mut TM_FailureData,
    ) -> TM_Result::Type;
    relation_vacuum(Relation, *mut VacuumParams, BufferAccessStrategy);
    relation_nontransactional_truncate(Relation);
    relation_size(Relation, ForkNumber::Type) -> u64;
    relation_estimate_size(Relation, *mut i32, *mut BlockNumber, *mut f64, *mut f64);
}

/// A callback that `GetTableAmRoutine` requires of every access method.
fn found<F>(callback: Option<F>, name: &str) -> F {
    callback.unwrap_or_else(|| panic!("heap has no callback {name}"))
}

/// Heap's callbacks.
#[inline]
pub(crate) fn callbacks() -> &'static Callbacks {
    static CALLBACKS: OnceLock<Callbacks> = OnceLock::new();
    CALLBACKS.get_or_init(|| Callbacks::of(routine()))
}

/// Heap's routine.
pub(crate) fn routine() -> &'static TableAmRoutine {
    // SAFETY: the server returns a pointer to a static of its own that is never written.
    unsafe { &*pg_sys::GetHeapamTableAmRoutine() }
}

/// The command that inserts rows, and how: the options and the bulk-insert state of the server's
/// call.
#[derive(Clone, Copy)]
pub struct InsertRequest<'a> {
    pub command: CommandId,
    /// `TABLE_INSERT_…`
    options: i32,
    bulk: *mut BulkInsertStateData,
    lives: PhantomData<&'a BulkInsertStateData>,
}

/// The options of an insertion: `TABLE_INSERT_…`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsertOptions(i32);

impl InsertRequest<'static> {
    /// An insertion that was put off, with the options of the server's call.
    pub fn put_off(command: CommandId, options: InsertOptions) -> Self {
        InsertRequest {
            command,
            options: options.0,
            bulk: std::ptr::null_mut(),
            lives: PhantomData,
        }
    }
}

impl InsertRequest<'_> {
    /// How the rows are inserted.
    #[inline]
    pub fn options(&self) -> InsertOptions {
        InsertOptions(self.options)
    }

    /// Whether free space is not looked for: a statement fills a table that it has made.
    #[inline]
    pub fn skips_free_space(&self) -> bool {
        self.options & pg_sys::TABLE_INSERT_SKIP_FSM as i32 != 0
    }

    /// # Safety
    /// The state is NULL, or valid as long as the result is used.
    #[inline]
    pub(crate) unsafe fn from_raw(
        command: CommandId,
        options: i32,
        bulk: *mut BulkInsertStateData,
    ) -> Self {
        InsertRequest {
            command,
            options,
            bulk,
            lives: PhantomData,
        }
    }
}

/// Inserts the row in the slot, and stores its TID there, as the server's call requests it. The
/// table is locked for writing.
#[inline]
pub fn insert_as(table: Table<'_>, slot: Slot<'_>, request: InsertRequest<'_>) {
    let InsertRequest {
        command,
        options,
        bulk,
        ..
    } = request;
    // SAFETY: table, slot and bulk-insert state are valid, and the slot holds a row of the table.
    unsafe { (callbacks().tuple_insert)(table.raw(), slot.raw(), command, options, bulk) }
}

/// Inserts a run of rows, and stores their TIDs in their slots; none if the run is empty.
pub fn insert_run(
    table: Table<'_>,
    slots: &[Slot<'_>],
    run: Range<usize>,
    request: InsertRequest<'_>,
) {
    let slots = &slots[run];
    if slots.is_empty() {
        return;
    }
    let InsertRequest {
        command,
        options,
        bulk,
        ..
    } = request;
    let (count, slots) = (slots.len() as i32, Slot::raw_array(slots));
    // SAFETY: table, slots and bulk-insert state are valid, and the slots hold rows of the table.
    // Heap reads the array only.
    unsafe { (callbacks().multi_insert)(table.raw(), slots, count, command, options, bulk) }
}

/// Ends a series of insertions. Heap has no such callback today, but may get one.
pub fn finish_bulk_insert(table: Table<'_>, options: i32) {
    if let Some(finish) = routine().finish_bulk_insert {
        // SAFETY: the table is open.
        unsafe { finish(table.raw(), options) }
    }
}

/// Inserts the row in the slot, and stores its TID there. The table is locked for writing.
pub fn insert(table: Table<'_>, slot: Slot<'_>, command: CommandId) {
    let mut growth = Growth::of(table);
    // SAFETY: table and slot are valid, and the slot holds a row of the table.
    unsafe {
        (callbacks().tuple_insert)(table.raw(), slot.raw(), command, 0, growth.state());
    }
    growth.end();
}

/// Deletes the row at a hot TID; `moves` tells that its new version goes to another partition.
#[inline]
pub fn delete(
    table: Table<'_>,
    tid: Tid,
    request: ChangeRequest<'_>,
    moves: bool,
) -> Result<(), Refusal> {
    let (mut at, mut failure) = (tid.raw(), TM_FailureData::default());
    // SAFETY: table and snapshots are valid.
    let result = unsafe {
        (callbacks().tuple_delete)(
            table.raw(),
            &mut at,
            request.command,
            Snapshot::raw_or_null(request.snapshot),
            Snapshot::raw_or_null(request.crosscheck),
            request.wait,
            &mut failure,
            moves,
        )
    };
    refused(result, &failure)
}

/// Updates the row at a hot TID to the one in the slot, and stores its new TID there. Returns the
/// lock that was taken as well.
#[inline]
pub fn update(
    table: Table<'_>,
    tid: Tid,
    slot: Slot<'_>,
    request: ChangeRequest<'_>,
) -> (RowLock, Result<UpdateIndexes, Refusal>) {
    let (mut at, mut failure) = (tid.raw(), TM_FailureData::default());
    let mut lock = LockTupleMode::LockTupleKeyShare;
    let mut indexes = TU_UpdateIndexes::TU_None;
    // SAFETY: table, slot and snapshots are valid, and the slot holds a row of the table.
    let result = unsafe {
        (callbacks().tuple_update)(
            table.raw(),
            &mut at,
            slot.raw(),
            request.command,
            Snapshot::raw_or_null(request.snapshot),
            Snapshot::raw_or_null(request.crosscheck),
            request.wait,
            &mut failure,
            &mut lock,
            &mut indexes,
        )
    };
    let updated = refused(result, &failure).map(|()| UpdateIndexes::from_raw(indexes));
    (RowLock::of(lock), updated)
}

#[inline]
fn refused(result: TM_Result::Type, failure: &TM_FailureData) -> Result<(), Refusal> {
    match RowResult::from_raw(result) {
        RowResult::Ok => Ok(()),
        result => Err(Refusal {
            result,
            failure: RowFailure::from_raw(failure),
        }),
    }
}

/// The result of a row lock, with the place of the row that was locked.
pub struct LockedRow {
    pub result: RowResult,
    pub failure: RowFailure,
    pub at: Tid,
}

/// Locks the row at a hot TID, and stores it in the slot.
pub fn lock(table: Table<'_>, tid: Tid, slot: Slot<'_>, request: LockRequest<'_>) -> LockedRow {
    let (mut at, mut failure) = (tid.raw(), TM_FailureData::default());
    // SAFETY: table, snapshot and slot are valid.
    let result = unsafe {
        (callbacks().tuple_lock)(
            table.raw(),
            &mut at,
            Snapshot::raw_or_null(request.snapshot),
            slot.raw(),
            request.command,
            request.lock.raw(),
            request.wait.raw(),
            request.flags.raw(),
            &mut failure,
        )
    };
    LockedRow {
        result: RowResult::from_raw(result),
        failure: RowFailure::from_raw(&failure),
        at: Tid::from_raw(at),
    }
}

/// Stores the version of a row at a hot TID in the slot, if the snapshot sees it.
#[inline]
pub fn fetch_version(table: Table<'_>, tid: Tid, snapshot: Snapshot<'_>, slot: Slot<'_>) -> bool {
    let mut at = tid.raw();
    // SAFETY: table, snapshot and slot are valid.
    unsafe {
        (callbacks().tuple_fetch_row_version)(table.raw(), &mut at, snapshot.raw(), slot.raw())
    }
}

/// Whether the snapshot sees the hot row in the slot.
pub fn satisfies(table: Table<'_>, slot: Slot<'_>, snapshot: Snapshot<'_>) -> bool {
    // SAFETY: table, snapshot and slot are valid; a hot row in a slot of the table has a buffer.
    unsafe { (callbacks().tuple_satisfies_snapshot)(table.raw(), slot.raw(), snapshot.raw()) }
}
