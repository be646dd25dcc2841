//! The server's heap rewrite: row versions into a new main fork, with their transactions and
//! their update chains (`access/heap/rewriteheap.c`).

mod old_rows;

use pgrx::pg_sys;

pub use old_rows::{OldRow, OldRows, OldVersion};

use crate::ffi;
use crate::hot::share::header_at;
use crate::table::Table;
use crate::tid::{block_of, tid_of};
use crate::tuple_sort::SortedTuples;
use crate::xid::Xid;

/// A rewrite in progress.
pub struct HeapRewrite<'a> {
    state: ffi::RewriteState,
    old_table: Table<'a>,
    new_table: Table<'a>,
    /// Of the row that is being copied, one entry per attribute.
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

impl<'a> HeapRewrite<'a> {
    /// Both tables are locked exclusively, and no other transaction sees the new one. Deleted rows
    /// are dead before `oldest_xmin`; what is older than the other two is frozen.
    pub fn begin(
        old_table: Table<'a>,
        new_table: Table<'a>,
        oldest_xmin: Xid,
        freeze_xid: Xid,
        cutoff_multi: pg_sys::MultiXactId,
    ) -> HeapRewrite<'a> {
        let (old_desc, new_desc) = (old_table.descriptor(), new_table.descriptor());
        let count = old_desc.attribute_count().max(new_desc.attribute_count());
        HeapRewrite {
            // SAFETY: both tables outlive the rewrite.
            state: unsafe {
                ffi::begin_heap_rewrite(
                    old_table.raw(),
                    new_table.raw(),
                    oldest_xmin.raw(),
                    freeze_xid.raw(),
                    cutoff_multi,
                )
            },
            old_table,
            new_table,
            values: vec![pg_sys::Datum::from(0); count],
            nulls: vec![true; count],
        }
    }

    /// Writes a version of the old table, with its transactions; dropped columns become NULL.
    pub fn copy(&mut self, old: OldRow<'_>) {
        // SAFETY: the version is a valid tuple of the old table while it is borrowed.
        unsafe { self.copy_tuple(old.tuple()) }
    }

    /// Writes the next of some sorted versions of the old table, as [`copy`](Self::copy) does;
    /// `false` at the end.
    pub fn copy_next(&mut self, sorted: &mut SortedTuples<'_>) -> bool {
        let Some(tuple) = sorted.next_tuple() else {
            return false;
        };
        // SAFETY: the tuple is one of the old table, valid until the next one is requested.
        unsafe { self.copy_tuple(tuple) };
        true
    }

    /// Mirrors `reform_and_rewrite_tuple`.
    ///
    /// # Safety
    /// `old` is a valid tuple of the old table.
    unsafe fn copy_tuple(&mut self, old: pg_sys::HeapTuple) {
        let new_desc = self.new_table.descriptor();
        // SAFETY: as for this function; the arrays have an entry per attribute of both tables. The
        // copy is freed once the rewrite has copied it.
        unsafe {
            let (values, nulls) = (self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            pg_sys::heap_deform_tuple(old, self.old_table.descriptor().raw(), values, nulls);
            for i in 0..new_desc.attribute_count() {
                if new_desc.attribute(i).attisdropped {
                    self.nulls[i] = true;
                }
            }
            let nulls = self.nulls.as_mut_ptr();
            let new = pg_sys::heap_form_tuple(new_desc.raw(), values, nulls);
            ffi::rewrite_heap_tuple(self.state, old, new);
            pg_sys::heap_freetuple(new);
        }
    }

    /// Passes a dead version to the rewrite. Returns whether an earlier one turned out to be dead
    /// too.
    pub fn note_dead(&mut self, old: OldRow<'_>) -> bool {
        // SAFETY: the version is a valid tuple of the old table while it is borrowed.
        unsafe { ffi::rewrite_heap_dead_tuple(self.state, old.tuple()) }
    }

    /// Writes what is left.
    pub fn end(self) {
        // SAFETY: begun by `begin`, ended once.
        unsafe { ffi::end_heap_rewrite(self.state) }
    }
}

/// Prevents FOR KEY SHARE locks on a version in a rewritten table that was deleted, or whose
/// successor is not where the rewrite could find it. The rewrite loses the information which
/// updates changed the key; a transaction with an old snapshot could otherwise lock such a version,
/// and rely on its successor not being deleted.
///
/// The table was rewritten by this transaction, and no other transaction sees it.
pub fn forbid_key_share(table: Table<'_>) {
    let blocks = table.main_fork_blocks();
    let table = table.raw();
    // SAFETY: pin and exclusive lock are held from ReadBuffer to UnlockReleaseBuffer; the page that
    // is changed is a private copy until GenericXLogFinish.
    unsafe {
        for block in 0..blocks {
            crate::check_for_interrupts!();
            let buffer = pg_sys::ReadBuffer(table, block);
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            let page = pg_sys::BufferGetPage(buffer);
            let led_nowhere: Vec<u16> = (1..=pg_sys::PageGetMaxOffsetNumber(page))
                .filter(|&offset| lacks_successor(page, block, offset))
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
unsafe fn lacks_successor(page: pg_sys::Page, block: pg_sys::BlockNumber, offset: u16) -> bool {
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
