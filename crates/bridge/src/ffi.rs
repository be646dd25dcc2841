//! Functions of PostgreSQL 18 that pgrx 0.18.1 does not bind, declared by hand.
//! Each line names the header it mirrors.

#![allow(non_snake_case)] // PostgreSQL's own names

use pgrx::pg_sys;

// The expansion of `pg_guard` on an extern block expects this name here.
pub(crate) use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;

/// The state of a heap rewrite, known to PostgreSQL alone.
#[repr(C)]
pub struct RewriteStateData {
    _private: [u8; 0],
}
/// `RewriteState` of `access/rewriteheap.h`
pub type RewriteState = *mut RewriteStateData;

/// The head of `struct pg_locale_struct` (`utils/pg_locale.h`).
#[repr(C)]
pub struct PgLocaleHead {
    pub provider: std::ffi::c_char,
    pub deterministic: bool,
    pub collate_is_c: bool,
    pub ctype_is_c: bool,
    pub is_default: bool,
    _collate: *const std::ffi::c_void,
    /// The first word of a union: libc's locale, where that is the provider.
    pub(crate) lt: libc::locale_t,
}

/// `MaxTIDsPerBTreePage` of `access/nbtree.h`, for pages of 8 kB.
pub const MOST_MATCHES: usize = (8_192 - 24 - 16) / 6;

/// `BTScanPosItem` of `access/nbtree.h`.
#[repr(C)]
pub struct BTScanPosItem {
    pub heapTid: pg_sys::ItemPointerData,
    _index_offset: u16,
    _tuple_offset: u16,
}

/// `BTScanPosData` of `access/nbtree.h`: the matches of one leaf.
#[repr(C)]
pub struct BTScanPosData {
    _buf: pg_sys::Buffer,
    pub currPage: pg_sys::BlockNumber,
    _prev_page: pg_sys::BlockNumber,
    _next_page: pg_sys::BlockNumber,
    _lsn: pg_sys::XLogRecPtr,
    _dir: i32,
    _next_tuple_offset: i32,
    _more: [u8; 2],
    pub firstItem: i32,
    pub lastItem: i32,
    pub itemIndex: i32,
    pub items: [BTScanPosItem; MOST_MATCHES],
}

/// `BTScanOpaqueData` of `access/nbtree.h`, up to the current position.
#[repr(C)]
pub struct BTScanOpaqueData {
    _qual_ok: u8,
    _number_of_keys: i32,
    _key_data: *const std::ffi::c_void,
    _num_array_keys: i32,
    _skip_scan_and_so_on: [u8; 4],
    _array_keys: *const std::ffi::c_void,
    _order_procs: *const std::ffi::c_void,
    _array_context: pg_sys::MemoryContext,
    _killed_items: *const i32,
    _num_killed: i32,
    _drop_pin: u8,
    _curr_tuples: *const std::ffi::c_char,
    _mark_tuples: *const std::ffi::c_char,
    _mark_item_index: i32,
    pub currPos: BTScanPosData,
}

/// `PQcommMethods` of `libpq/libpq.h`: how messages go to the client.
#[repr(C)]
pub struct PQcommMethods {
    pub comm_reset: unsafe extern "C-unwind" fn(),
    pub flush: unsafe extern "C-unwind" fn() -> i32,
    pub flush_if_writable: unsafe extern "C-unwind" fn() -> i32,
    pub is_send_pending: unsafe extern "C-unwind" fn() -> bool,
    pub putmessage: unsafe extern "C-unwind" fn(
        kind: std::ffi::c_char,
        data: *const std::ffi::c_char,
        len: usize,
    ) -> i32,
    pub putmessage_noblock: unsafe extern "C-unwind" fn(
        kind: std::ffi::c_char,
        data: *const std::ffi::c_char,
        len: usize,
    ),
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" {
    /// `utils/pg_locale.h`
    pub fn pg_newlocale_from_collation(collid: pg_sys::Oid) -> *const PgLocaleHead;
    /// `utils/datum.h`
    pub fn datum_image_eq(
        value1: pg_sys::Datum,
        value2: pg_sys::Datum,
        type_by_value: bool,
        type_len: i32,
    ) -> bool;
    /// `access/toast_internals.h`
    pub fn toast_get_valid_index(toastoid: pg_sys::Oid, lock: pg_sys::LOCKMODE) -> pg_sys::Oid;
    /// `storage/md.h`. The descriptor is valid until PostgreSQL opens another file.
    pub fn mdfd(
        file: pg_sys::SMgrRelation,
        fork: pg_sys::ForkNumber::Type,
        block: pg_sys::BlockNumber,
        offset: *mut u32,
    ) -> i32;
    /// `access/nbtree.h`
    pub fn _bt_getroot(
        index: pg_sys::Relation,
        table: pg_sys::Relation,
        access: i32,
    ) -> pg_sys::Buffer;
    /// `access/heaptoast.h`
    pub fn heap_toast_delete(
        rel: pg_sys::Relation,
        oldtup: pg_sys::HeapTuple,
        is_speculative: bool,
    );
    /// `catalog/toasting.h`
    pub fn AlterTableCreateToastTable(
        rel_oid: pg_sys::Oid,
        reloptions: pg_sys::Datum,
        lockmode: pg_sys::LOCKMODE,
    );
    /// `access/twophase.h`
    pub fn TwoPhaseGetXidByVirtualXID(
        vxid: pg_sys::VirtualTransactionId,
        have_more: *mut bool,
    ) -> pg_sys::TransactionId;
    /// `access/rewriteheap.h`
    pub fn begin_heap_rewrite(
        old_heap: pg_sys::Relation,
        new_heap: pg_sys::Relation,
        oldest_xmin: pg_sys::TransactionId,
        freeze_xid: pg_sys::TransactionId,
        cutoff_multi: pg_sys::MultiXactId,
    ) -> RewriteState;
    /// `access/rewriteheap.h`
    pub fn end_heap_rewrite(state: RewriteState);
    /// `access/rewriteheap.h`
    pub fn rewrite_heap_tuple(
        state: RewriteState,
        old_tuple: pg_sys::HeapTuple,
        new_tuple: pg_sys::HeapTuple,
    );
    /// `access/rewriteheap.h`
    pub fn rewrite_heap_dead_tuple(state: RewriteState, old_tuple: pg_sys::HeapTuple) -> bool;
    /// `catalog/partition.h`
    pub fn get_partition_ancestors(relation: pg_sys::Oid) -> *mut pg_sys::List;
    /// `access/twophase.h`
    pub static max_prepared_xacts: std::ffi::c_int;
    /// `catalog/pg_inherits.h`
    pub fn find_all_inheritors(
        parent: pg_sys::Oid,
        lock: pg_sys::LOCKMODE,
        parent_counts: *mut *mut pg_sys::List,
    ) -> *mut pg_sys::List;
    /// `storage/predicate.h`
    pub fn PredicateLockRelation(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot);
    /// `storage/predicate.h`
    pub fn PredicateLockPage(
        relation: pg_sys::Relation,
        blkno: pg_sys::BlockNumber,
        snapshot: pg_sys::Snapshot,
    );
    /// `storage/predicate.h`
    pub fn PageIsPredicateLocked(relation: pg_sys::Relation, blkno: pg_sys::BlockNumber) -> bool;
    /// `storage/predicate.h`
    pub fn PredicateLockPageSplit(
        relation: pg_sys::Relation,
        oldblkno: pg_sys::BlockNumber,
        newblkno: pg_sys::BlockNumber,
    );
    /// `storage/predicate.h`
    pub fn PredicateLockTID(
        relation: pg_sys::Relation,
        tid: pg_sys::ItemPointer,
        snapshot: pg_sys::Snapshot,
        tuple_xid: pg_sys::TransactionId,
    );
    /// `storage/predicate.h`
    pub fn CheckForSerializableConflictIn(
        relation: pg_sys::Relation,
        tid: pg_sys::ItemPointer,
        blkno: pg_sys::BlockNumber,
    );
    /// `executor/execPartition.h`
    pub fn ExecFindMatchingSubPlans(
        prunestate: *mut pg_sys::PartitionPruneState,
        initial_prune: bool,
        validsubplan_rtis: *mut *mut pg_sys::Bitmapset,
    ) -> *mut pg_sys::Bitmapset;
    /// `storage/predicate.h`
    pub fn ShareSerializableXact() -> *mut std::ffi::c_void;
    /// `storage/predicate.h`
    pub fn AttachSerializableXact(handle: *mut std::ffi::c_void);
}

/// Functions that run statements, users' code or checks of constraints. They carry no guard: an
/// ERROR jumps straight to PostgreSQL's handler and keeps its position, its context and the names
/// of table, column and constraint, which a guard would lose. No frame between PostgreSQL and the
/// call may own anything; what must be dropped lives in a memory context that drops it.
pub mod unguarded {
    use pgrx::pg_sys;

    unsafe extern "C-unwind" {
        /// `utils/elog.h`
        pub fn errcontext_msg(format: *const std::ffi::c_char, ...) -> i32;
        /// `tcop/utility.h`
        pub fn standard_ProcessUtility(
            statement: *mut pg_sys::PlannedStmt,
            query_string: *const std::ffi::c_char,
            read_only_tree: bool,
            context: pg_sys::ProcessUtilityContext::Type,
            params: pg_sys::ParamListInfo,
            query_env: *mut pg_sys::QueryEnvironment,
            dest: *mut pg_sys::DestReceiver,
            completion: *mut pg_sys::QueryCompletion,
        );
        /// `optimizer/planner.h`
        pub fn standard_planner(
            query: *mut pg_sys::Query,
            query_string: *const std::ffi::c_char,
            options: i32,
            params: pg_sys::ParamListInfo,
        ) -> *mut pg_sys::PlannedStmt;
        /// `executor/executor.h`
        pub fn standard_ExecutorStart(query: *mut pg_sys::QueryDesc, flags: i32);
        /// `executor/executor.h`
        pub fn standard_ExecutorFinish(query: *mut pg_sys::QueryDesc);
        /// `executor/executor.h`
        pub fn standard_ExecutorRun(
            query: *mut pg_sys::QueryDesc,
            direction: pg_sys::ScanDirection::Type,
            count: u64,
        );
        /// `libpq/libpq.h`
        pub static PqCommMethods: *const super::PQcommMethods;
        /// `fmgr.h`
        pub fn OutputFunctionCall(
            function: *mut pg_sys::FmgrInfo,
            value: pg_sys::Datum,
        ) -> *mut std::ffi::c_char;
        /// `fmgr.h`
        pub fn SendFunctionCall(
            function: *mut pg_sys::FmgrInfo,
            value: pg_sys::Datum,
        ) -> *mut pg_sys::varlena;
        /// `lib/stringinfo.h`
        pub fn enlargeStringInfo(text: *mut pg_sys::StringInfoData, needed: i32);
        /// `executor/tuptable.h`
        pub fn slot_getsomeattrs_int(slot: *mut pg_sys::TupleTableSlot, number: i32);
        /// `catalog/index.h`
        pub fn FormIndexDatum(
            info: *mut pg_sys::IndexInfo,
            slot: *mut pg_sys::TupleTableSlot,
            estate: *mut pg_sys::EState,
            values: *mut pg_sys::Datum,
            nulls: *mut bool,
        );
        /// `access/htup_details.h`
        pub fn heap_form_tuple(
            desc: pg_sys::TupleDesc,
            values: *const pg_sys::Datum,
            nulls: *const bool,
        ) -> pg_sys::HeapTuple;
        /// `access/heapam.h`
        pub fn heap_insert(
            rel: pg_sys::Relation,
            tuple: pg_sys::HeapTuple,
            cid: pg_sys::CommandId,
            options: i32,
            bulk: pg_sys::BulkInsertState,
        );
        /// `access/genam.h`
        pub fn index_insert(
            index: pg_sys::Relation,
            values: *mut pg_sys::Datum,
            nulls: *mut bool,
            tid: pg_sys::ItemPointer,
            table: pg_sys::Relation,
            check_unique: pg_sys::IndexUniqueCheck::Type,
            index_unchanged: bool,
            info: *mut pg_sys::IndexInfo,
        ) -> bool;
        /// `access/heapam.h`
        pub fn heap_getnextslot(
            scan: pg_sys::TableScanDesc,
            direction: pg_sys::ScanDirection::Type,
            slot: *mut pg_sys::TupleTableSlot,
        ) -> bool;
        /// `utils/elog.h`
        pub fn ThrowErrorData(error: *mut pg_sys::ErrorData);
        /// `utils/elog.h`
        pub fn CopyErrorData() -> *mut pg_sys::ErrorData;
        /// `utils/elog.h`
        pub fn FreeErrorData(error: *mut pg_sys::ErrorData);
        /// `utils/palloc.h`. Raises no ERROR for a context that is valid.
        pub fn MemoryContextReset(context: pg_sys::MemoryContext);
    }
}

/// Functions whose ERRORs pass over the frames of their callers as the server raised them: a guard
/// raises them again without their CONTEXT, and users read that. A caller holds nothing that only
/// `Drop` would give back.
pub mod passing {
    use std::ffi::{c_char, c_int};

    use pgrx::pg_sys;

    unsafe extern "C-unwind" {
        /// `optimizer/planner.h`
        pub fn standard_planner(
            query: *mut pg_sys::Query,
            text: *const c_char,
            options: c_int,
            parameters: pg_sys::ParamListInfo,
        ) -> *mut pg_sys::PlannedStmt;
        /// `utils/lsyscache.h`
        pub fn get_rel_relam(relation: pg_sys::Oid) -> pg_sys::Oid;
        /// `catalog/index.h`
        pub fn IndexGetRelation(index: pg_sys::Oid, missing_ok: bool) -> pg_sys::Oid;
    }
}

/// Functions that raise no ERROR for valid arguments and hence need no guard; for code that a
/// statement runs many times.
pub mod quiet {
    use pgrx::pg_sys;

    unsafe extern "C-unwind" {
        /// `access/xact.h`. With `used` false.
        pub fn GetCurrentCommandId(used: bool) -> pg_sys::CommandId;
        /// `access/xact.h`
        pub fn GetCurrentTransactionIdIfAny() -> pg_sys::TransactionId;
        /// `access/xact.h`
        pub fn IsInParallelMode() -> bool;
        /// `access/xact.h`
        pub fn TransactionIdIsCurrentTransactionId(xid: pg_sys::TransactionId) -> bool;
        /// `access/transam.h`
        pub fn TransactionIdPrecedes(a: pg_sys::TransactionId, b: pg_sys::TransactionId) -> bool;
        /// `access/xact.h`
        pub fn GetCurrentSubTransactionId() -> pg_sys::SubTransactionId;
        /// `access/xact.h`
        pub fn GetCurrentTransactionNestLevel() -> i32;
        /// `storage/lock.h`
        pub fn LockHeldByMe(
            tag: *const pg_sys::LOCKTAG,
            mode: pg_sys::LOCKMODE,
            or_stronger: bool,
        ) -> bool;
        /// `nodes/bitmapset.h`. Of a number that is not negative.
        pub fn bms_is_member(number: i32, set: *const pg_sys::Bitmapset) -> bool;
        /// `nodes/bitmapset.h`
        pub fn bms_next_member(set: *const pg_sys::Bitmapset, before: i32) -> i32;
        /// `utils/memutils.h`
        pub fn GetMemoryChunkContext(chunk: *mut std::ffi::c_void) -> pg_sys::MemoryContext;
        /// `mb/pg_wchar.h`
        pub fn GetDatabaseEncoding() -> i32;
        /// `mb/pg_wchar.h`
        pub fn pg_get_client_encoding() -> i32;
        /// `common/shortest_dec.h`. Into at least 16 bytes.
        pub fn float_to_shortest_decimal_buf(number: f32, result: *mut std::ffi::c_char) -> i32;
        /// `common/shortest_dec.h`. Into at least 25 bytes.
        pub fn double_to_shortest_decimal_buf(number: f64, result: *mut std::ffi::c_char) -> i32;
        /// `utils/backend_progress.h`
        pub fn pgstat_progress_update_param(index: i32, value: i64);
        /// `access/xlog.h`
        pub fn RecoveryInProgress() -> bool;
        /// `access/xact.h`
        pub fn GetCurrentStatementStartTimestamp() -> pg_sys::TimestampTz;
        /// `storage/buf_internals.h`
        pub fn BufTableHashCode(tag: *mut pg_sys::BufferTag) -> u32;
        /// `storage/buf_internals.h`. Under the lock of the tag's part of the table.
        pub fn BufTableLookup(tag: *mut pg_sys::BufferTag, hash: u32) -> i32;
        /// `storage/buf_internals.h`
        pub fn have_free_buffer() -> bool;
        /// `storage/bufmgr.h`. Where the resource owner and the table of pins have room for a pin.
        pub fn ReadRecentBuffer(
            locator: pg_sys::RelFileLocator,
            fork: pg_sys::ForkNumber::Type,
            block: pg_sys::BlockNumber,
            buffer: pg_sys::Buffer,
        ) -> bool;
        /// `storage/lwlock.h`. Of a lock that is not held; at most a few are.
        pub fn LWLockAcquire(lock: *mut pg_sys::LWLock, mode: pg_sys::LWLockMode::Type) -> bool;
        /// `storage/lwlock.h`. Of a lock that is held.
        pub fn LWLockRelease(lock: *mut pg_sys::LWLock);
        /// `pgstat.h`
        pub fn pgstat_count_io_op(
            object: pg_sys::IOObject::Type,
            context: pg_sys::IOContext::Type,
            operation: pg_sys::IOOp::Type,
            count: u32,
            bytes: u64,
        );
        /// `storage/bufmgr.h`
        pub fn LockBuffer(buffer: pg_sys::Buffer, mode: i32);
        /// `storage/bufmgr.h`
        pub fn ReleaseBuffer(buffer: pg_sys::Buffer);
        /// `storage/bufmgr.h`
        pub fn UnlockReleaseBuffer(buffer: pg_sys::Buffer);
        /// `utils/palloc.h`. Of a valid size, with `MCXT_ALLOC_NO_OOM`.
        pub fn MemoryContextAllocExtended(
            context: pg_sys::MemoryContext,
            size: usize,
            flags: i32,
        ) -> *mut std::ffi::c_void;
        /// `utils/palloc.h`
        pub fn pfree(pointer: *mut std::ffi::c_void);
        /// `nodes/pg_list.h`
        pub fn list_free(list: *mut pg_sys::List);
        /// `nodes/bitmapset.h`
        pub fn bms_free(set: *mut pg_sys::Bitmapset);
        /// `access/table.h`. With NoLock only: releases no lock.
        pub fn table_close(relation: pg_sys::Relation, mode: pg_sys::LOCKMODE);
        /// `access/genam.h`. With NoLock only: releases no lock.
        pub fn index_close(relation: pg_sys::Relation, mode: pg_sys::LOCKMODE);
        /// `storage/lock.h`. For a lock that is not held it raises a WARNING.
        pub fn LockRelease(
            tag: *const pg_sys::LOCKTAG,
            mode: pg_sys::LOCKMODE,
            of_session: bool,
        ) -> bool;
        /// `pgstat.h`. To be used only where this subtransaction has counted a change of the
        /// relation already.
        pub fn pgstat_count_heap_insert(rel: pg_sys::Relation, n: pg_sys::PgStat_Counter);
        /// `pgstat.h`. As for the function before.
        pub fn pgstat_count_heap_update(rel: pg_sys::Relation, hot: bool, new_page: bool);
        /// `access/detoast.h`. Of a value of a heap tuple.
        pub fn toast_raw_datum_size(value: pg_sys::Datum) -> usize;
        /// `executor/tuptable.h`. For a slot of heap's kind that holds a row, and an attribute that
        /// its descriptor has.
        pub fn slot_getsomeattrs_int(slot: *mut pg_sys::TupleTableSlot, number: i32);
    }
}

unsafe extern "C" {
    /// `signal.h`
    pub fn kill(pid: i32, signal: i32) -> i32;
}

// Signal handlers and what installs them: plain functions, not wrapped by pgrx, because a
// handler must be one that the kernel can call.
unsafe extern "C-unwind" {
    /// `port.h`
    pub fn pqsignal_be(signal: i32, handler: Option<unsafe extern "C-unwind" fn(i32)>);
    /// `tcop/tcopprot.h`
    pub fn die(signal: i32);
    /// `postmaster/interrupt.h`
    pub fn SignalHandlerForConfigReload(signal: i32);
}
