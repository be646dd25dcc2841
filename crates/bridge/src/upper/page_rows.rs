//! The rows of a heap page that a scan in page mode has looked at, without a call for each of them.
//!
//! ```text
//!   heap_getnextslot ── next page: pin, lock, prune, visibility of all rows ─▶ rs_vistuples
//!   here             ── the other rows of the page, in the same order
//! ```
//!
//! Invariant: scan and slot are left as `heap_getnextslot` leaves them, so that it goes on where
//! this stopped. It starts from `rs_cindex`, the place of the row that was returned last
//! (`heapgettup_pagemode`). The rows that it has found visible stay valid as long as the page is
//! pinned, and it is pinned until the scan goes on to another page.

use pgrx::pg_sys;

use crate::table::Table;

/// The visible rows of the page that a scan is on.
pub(super) struct PageRows {
    /// NULL if the scan does not work in page mode.
    scan: *mut pg_sys::HeapScanDescData,
    /// Rows that were taken and are not counted yet.
    uncounted: u64,
}

impl PageRows {
    /// # Safety
    /// A heap scan without keys, which outlives the result.
    pub(super) unsafe fn of(scan: pg_sys::TableScanDesc) -> PageRows {
        // SAFETY: as for this function. Heap clears the flag of snapshots that are not MVCC.
        let by_page = unsafe { (*scan).rs_flags & pg_sys::ScanOptions::SO_ALLOW_PAGEMODE != 0 };
        PageRows {
            scan: match by_page {
                true => scan.cast(),
                false => std::ptr::null_mut(),
            },
            uncounted: 0,
        }
    }

    /// The rows of the page after the last one that was returned.
    ///
    /// # Safety
    /// The scan is open.
    unsafe fn left(&self) -> u32 {
        // SAFETY: as for this function. Before the first page, and after the last, `rs_inited` is
        // not set.
        unsafe {
            match self.scan.is_null() || !(*self.scan).rs_inited {
                true => 0,
                false => (*self.scan)
                    .rs_ntuples
                    .saturating_sub((*self.scan).rs_cindex + 1),
            }
        }
    }

    /// Passes over rows of the page, at most so many; returns how many. The slot still holds the
    /// row before them.
    ///
    /// # Safety
    /// The scan is open.
    pub(super) unsafe fn skip(&mut self, most: usize) -> usize {
        // SAFETY: as for this function; `rs_cindex` stays below `rs_ntuples`.
        unsafe {
            let row_count = self.left().min(u32::try_from(most).unwrap_or(u32::MAX));
            if row_count > 0 {
                (*self.scan).rs_cindex += row_count;
                self.uncounted += u64::from(row_count);
            }
            row_count as usize
        }
    }

    /// Stores the next row of the page in the slot; `false` if there is none. It owns nothing and
    /// raises no ERROR.
    ///
    /// # Safety
    /// The scan is open. The slot is the one that the scan stores its rows in, for buffer tuples,
    /// and holds a row of the page: so it has its own pin of it.
    #[inline]
    pub(super) unsafe fn next(&mut self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: as for this function. The page is pinned; its line pointers of visible rows are
        // normal, and stay so.
        unsafe {
            if self.left() == 0 {
                return false;
            }
            let scan = self.scan;
            let at = (*scan).rs_cindex + 1;
            let offset = *(&raw const (*scan).rs_vistuples)
                .cast::<pg_sys::OffsetNumber>()
                .add(at as usize);
            let page = pg_sys::BufferGetPage((*scan).rs_cbuf);
            // What PageGetItemId does, without a guard.
            let pointers = (&raw const (*page.cast::<pg_sys::PageHeaderData>()).pd_linp)
                .cast::<pg_sys::ItemIdData>();
            let item = pointers.add(usize::from(offset).wrapping_sub(1));
            let tuple = &raw mut (*scan).rs_ctup;
            (*tuple).t_data = page.add((*item).lp_off() as usize).cast();
            (*tuple).t_len = (*item).lp_len();
            (*tuple).t_self.ip_posid = offset;
            (*scan).rs_cindex = at;
            // As `tts_buffer_heap_store_tuple` for another row of the same page.
            let row = slot.cast::<pg_sys::BufferHeapTupleTableSlot>();
            (*row).base.tuple = tuple;
            (*row).base.off = 0;
            (*slot).tts_nvalid = 0;
            (*slot).tts_tid = (*tuple).t_self;
            self.uncounted += 1;
        }
        true
    }

    /// Counts the rows taken so far in the table's statistics, as the scan counts its own.
    pub(super) fn count_rows(&mut self, table: Table<'_>) {
        match std::mem::take(&mut self.uncounted) {
            0 => {}
            rows => table.count_rows_read(rows),
        }
    }
}
