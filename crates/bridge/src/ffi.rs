//! Functions of PostgreSQL 18 that pgrx 0.18.1 does not bind, declared by hand.
//! Each line names the header it mirrors.

#![allow(non_snake_case)] // PostgreSQL's own names

use pgrx::pg_sys;

// What `pg_guard` on an extern block expands to looks for this name here.
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;

#[pgrx::pg_guard]
unsafe extern "C-unwind" {
    /// `access/toast_internals.h`
    pub fn toast_get_valid_index(toastoid: pg_sys::Oid, lock: pg_sys::LOCKMODE) -> pg_sys::Oid;
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
    /// `storage/predicate.h`
    pub fn PredicateLockRelation(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot);
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
