//! A scan of the hot rows of a table, page by page.
//!
//! It is heap's own scan, without the cold side. Its current row stays valid, and the row's page
//! pinned, until the next one is requested. After an ERROR the resource owner releases the pin.

use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::heap_am::callbacks;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::tid::{BlockNumber, Tid};

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

impl Direction {
    /// From the server's own type. No scan is asked for a row without a direction.
    #[inline]
    pub(crate) fn from_raw(direction: pg_sys::ScanDirection::Type) -> Direction {
        match direction {
            pg_sys::ScanDirection::BackwardScanDirection => Direction::Backward,
            _ => Direction::Forward,
        }
    }

    #[inline]
    fn raw(self) -> pg_sys::ScanDirection::Type {
        match self {
            Direction::Forward => pg_sys::ScanDirection::ForwardScanDirection,
            Direction::Backward => pg_sys::ScanDirection::BackwardScanDirection,
        }
    }
}

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
        // SAFETY: table and snapshot outlive the scan.
        unsafe {
            let begin = callbacks().scan_begin;
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

    /// As [`HotScan::next`], in a direction, and without a guard of its own: see
    /// [`crate::heap_am`].
    #[inline]
    pub fn step(&mut self, direction: Direction, slot: Slot<'_>) -> bool {
        // SAFETY: the scan is open; the slot is valid.
        unsafe { (callbacks().scan_getnextslot)(self.raw.cast(), direction.raw(), slot.raw()) }
    }

    /// As [`HotScan::step`], in the range of TIDs that was set for the scan.
    #[inline]
    pub fn step_in_range(&mut self, direction: Direction, slot: Slot<'_>) -> bool {
        let next = callbacks().scan_getnextslot_tidrange;
        // SAFETY: the scan is open; the slot is valid.
        unsafe { next(self.raw.cast(), direction.raw(), slot.raw()) }
    }

    /// Follows the update chain of the row at a hot TID as long as it stays hot: the latest version
    /// that the scan's snapshot sees, `tid` if there is none, and the cold TID to which the chain
    /// leads on.
    pub fn latest(&self, tid: Tid) -> (Tid, Option<Tid>) {
        let mut latest = tid.raw();
        // SAFETY: the scan is open.
        let link = unsafe { super::latest_tid(self.raw.cast(), &mut latest) };
        (Tid::from_raw(latest), link.map(Tid::from_raw))
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
        // SAFETY: begun by `begin`, and ended once.
        unsafe {
            let end = callbacks().scan_end;
            pg_sys::ffi::pg_guard_ffi_boundary(|| end(self.raw.cast()));
        }
    }
}
