//! A scan of the hot rows of a table, page by page.
//!
//! It is heap's own scan, without the cold side. Its current row stays valid, and the row's page
//! pinned, until the next one is requested. After an ERROR the resource owner releases the pin.

use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::heap_am;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::tid::BlockNumber;

/// A scan of heap's, which was begun and not ended.
pub struct HotScan<'a> {
    raw: pg_sys::HeapScanDesc,
    lives: PhantomData<&'a ()>,
}

impl<'a> HotScan<'a> {
    /// Begins a scan of all hot rows of a table that the snapshot sees. One that may be
    /// synchronized starts where another scan of the table is reading.
    pub fn begin(table: Table<'a>, snapshot: Snapshot<'a>, may_synchronize: bool) -> HotScan<'a> {
        let mut flags = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
            | pg_sys::ScanOptions::SO_ALLOW_PAGEMODE
            | pg_sys::ScanOptions::SO_ALLOW_STRAT;
        if may_synchronize {
            flags |= pg_sys::ScanOptions::SO_ALLOW_SYNC;
        }
        // SAFETY: heap has this callback; table and snapshot outlive the scan.
        unsafe {
            let begin = heap_am::routine().scan_begin.unwrap_unchecked();
            let scan = pg_sys::ffi::pg_guard_ffi_boundary(|| {
                let (no_keys, alone) = (std::ptr::null_mut(), std::ptr::null_mut());
                begin(table.raw(), snapshot.raw(), 0, no_keys, alone, flags)
            });
            HotScan::from_raw(scan)
        }
    }

    /// Borrows a scan that another one owns.
    ///
    /// # Safety
    /// `scan` is a scan of heap's, which is open for `'a`.
    pub unsafe fn from_raw(scan: pg_sys::TableScanDesc) -> HotScan<'a> {
        HotScan {
            raw: scan.cast(),
            lives: PhantomData,
        }
    }

    /// The server's descriptor, valid for `'a`.
    pub(crate) fn raw(&self) -> pg_sys::HeapScanDesc {
        self.raw
    }

    /// Stores the next row in the slot, which is a buffer slot of the table; `false` at the end.
    pub fn next(&mut self, slot: Slot<'_>) -> bool {
        let forward = pg_sys::ScanDirection::ForwardScanDirection;
        // SAFETY: the scan is open.
        unsafe { pg_sys::heap_getnextslot(self.raw.cast(), forward, slot.raw()) }
    }

    /// The blocks of the table when the scan began.
    pub fn block_count(&self) -> BlockNumber {
        // SAFETY: the scan is open.
        unsafe { (*self.raw).rs_nblocks }
    }

    /// The block of the current row.
    pub fn block(&self) -> BlockNumber {
        // SAFETY: the scan is open.
        unsafe { (*self.raw).rs_cblock }
    }

    /// The block at which the scan began.
    pub fn first_block(&self) -> BlockNumber {
        // SAFETY: the scan is open.
        unsafe { (*self.raw).rs_startblock }
    }

    /// Ends a scan that [`HotScan::begin`] has begun.
    pub fn end(self) {
        // SAFETY: heap has this callback; begun by `begin`, and ended once.
        unsafe {
            let end = heap_am::routine().scan_end.unwrap_unchecked();
            pg_sys::ffi::pg_guard_ffi_boundary(|| end(self.raw.cast()));
        }
    }
}
