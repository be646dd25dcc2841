//! The server's heap rewrite: row versions into a new main fork, with their transactions and
//! their update chains (`access/heap/rewriteheap.c`).

use pgrx::pg_sys;

use crate::ffi;
use crate::hot::share::header_at;
use crate::relation::main_fork_blocks;
use crate::tid::{block_of, tid_of};

/// A rewrite in progress.
pub struct HeapRewrite(ffi::RewriteState);

impl HeapRewrite {
    /// # Safety
    /// Both tables are open and exclusively locked; no other transaction sees the new one.
    pub unsafe fn begin(
        old_table: pg_sys::Relation,
        new_table: pg_sys::Relation,
        oldest_xmin: pg_sys::TransactionId,
        freeze_xid: pg_sys::TransactionId,
        cutoff_multi: pg_sys::MultiXactId,
    ) -> HeapRewrite {
        // SAFETY: as for this function.
        HeapRewrite(unsafe {
            ffi::begin_heap_rewrite(old_table, new_table, oldest_xmin, freeze_xid, cutoff_multi)
        })
    }

    /// Writes `new`, which holds the values of `old`, with the transactions of `old`.
    ///
    /// # Safety
    /// Both tuples are valid; `new` fits the new table.
    pub unsafe fn write(&mut self, old: pg_sys::HeapTuple, new: pg_sys::HeapTuple) {
        // SAFETY: as for this function.
        unsafe { ffi::rewrite_heap_tuple(self.0, old, new) }
    }

    /// Passes a dead version to the rewrite. Returns whether an earlier one turned out to be dead
    /// too.
    ///
    /// # Safety
    /// `old` is valid.
    pub unsafe fn note_dead(&mut self, old: pg_sys::HeapTuple) -> bool {
        // SAFETY: as for this function.
        unsafe { ffi::rewrite_heap_dead_tuple(self.0, old) }
    }

    /// Writes what is left.
    pub fn end(self) {
        // SAFETY: begun by `begin`, ended once.
        unsafe { ffi::end_heap_rewrite(self.0) }
    }
}

/// Prevents FOR KEY SHARE locks on a version in a rewritten table that was deleted, or whose
/// successor is not where the rewrite could find it. The rewrite loses the information which
/// updates changed the key; a transaction with an old snapshot could otherwise lock such a version,
/// and rely on its successor not being deleted.
///
/// # Safety
/// `table` is open, was rewritten by this transaction, and no other transaction sees it.
pub unsafe fn bar_key_sharers(table: pg_sys::Relation) {
    // SAFETY: pin and exclusive lock are held from ReadBuffer to UnlockReleaseBuffer; the page that
    // is changed is a private copy until GenericXLogFinish.
    unsafe {
        for block in 0..main_fork_blocks(table) {
            pgrx::check_for_interrupts!();
            let buffer = pg_sys::ReadBuffer(table, block);
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            let page = pg_sys::BufferGetPage(buffer);
            let led_nowhere: Vec<u16> = (1..=pg_sys::PageGetMaxOffsetNumber(page))
                .filter(|&offset| leads_nowhere(page, block, offset))
                .collect();
            if !led_nowhere.is_empty() {
                let state = pg_sys::GenericXLogStart(table);
                let image = pg_sys::GenericXLogRegisterBuffer(state, buffer, 0);
                for offset in led_nowhere {
                    if let Some(header) = header_at(image, &tid_of(block, offset)) {
                        (*header).t_infomask2 |= pg_sys::HEAP_KEYS_UPDATED as u16;
                    }
                }
                pg_sys::GenericXLogFinish(state);
            }
            pg_sys::UnlockReleaseBuffer(buffer);
        }
    }
}

/// Whether a version was deleted or updated, and names no successor.
///
/// # Safety
/// The page is one of a heap, pinned and locked.
unsafe fn leads_nowhere(page: pg_sys::Page, block: pg_sys::BlockNumber, offset: u16) -> bool {
    let tid = tid_of(block, offset);
    // SAFETY: the caller has locked the page.
    unsafe {
        header_at(page, &tid).is_some_and(|header| {
            let next = (*header).t_ctid;
            let void = pg_sys::HEAP_XMAX_INVALID | pg_sys::HEAP_XMAX_LOCK_ONLY;
            u32::from((*header).t_infomask) & void == 0
                && u32::from((*header).t_infomask2) & pg_sys::HEAP_KEYS_UPDATED == 0
                && (block_of(&next), next.ip_posid) == (block, offset)
        })
    }
}

/// What `pg_stat_progress_cluster` shows of the running command.
pub mod progress {
    use pgrx::pg_sys;

    fn report(parameter: u32, value: i64) {
        // SAFETY: writes to the backend's own status entry.
        unsafe { pg_sys::pgstat_progress_update_param(parameter as i32, value) }
    }

    fn enter(phase: u32) {
        report(pg_sys::PROGRESS_CLUSTER_PHASE, i64::from(phase));
    }

    pub fn scanning_along(index: pg_sys::Oid) {
        enter(pg_sys::PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP);
        let index = i64::from(index.to_u32());
        report(pg_sys::PROGRESS_CLUSTER_INDEX_RELID, index);
    }

    pub fn scanning() {
        enter(pg_sys::PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
    }

    pub fn blocks_to_scan(blocks: pg_sys::BlockNumber) {
        report(pg_sys::PROGRESS_CLUSTER_TOTAL_HEAP_BLKS, i64::from(blocks));
    }

    pub fn blocks_scanned(blocks: pg_sys::BlockNumber) {
        report(
            pg_sys::PROGRESS_CLUSTER_HEAP_BLKS_SCANNED,
            i64::from(blocks),
        );
    }

    pub fn rows_scanned(rows: u64) {
        report(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, rows as i64);
    }

    pub fn sorting() {
        enter(pg_sys::PROGRESS_CLUSTER_PHASE_SORT_TUPLES);
    }

    pub fn writing() {
        enter(pg_sys::PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP);
    }

    pub fn rows_written(rows: u64) {
        report(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, rows as i64);
    }
}
