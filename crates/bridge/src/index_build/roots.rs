//! The roots of HOT chains, under whose TIDs an index has their members.

use pgrx::pg_sys;

use crate::hot::scan::HotScan;
use crate::tid::{block_of, tid_of};

/// `MaxHeapTuplesPerPage`.
const LINE_POINTERS: usize = 291;

/// The roots of the HOT chains of the page that a scan stands on.
pub(super) struct ChainRoots {
    block: pg_sys::BlockNumber,
    offsets: [pg_sys::OffsetNumber; LINE_POINTERS],
}

impl ChainRoots {
    pub fn new() -> ChainRoots {
        ChainRoots {
            block: pg_sys::InvalidBlockNumber,
            offsets: [0; LINE_POINTERS],
        }
    }

    /// Reads the roots if the scan, which stands on a row, has entered a new page; returns whether
    /// it has. Nothing is pruned under the scan's pin.
    pub fn enter_page(&mut self, scan: &HotScan<'_>) -> bool {
        if scan.block() == self.block {
            return false;
        }
        self.read(scan);
        self.block = scan.block();
        true
    }

    fn read(&mut self, scan: &HotScan<'_>) {
        // SAFETY: the scan is open and stands on a page, which it has pinned; the page is locked
        // meanwhile.
        unsafe {
            let buffer = (*scan.raw()).rs_cbuf;
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            pg_sys::heap_get_root_tuples(pg_sys::BufferGetPage(buffer), self.offsets.as_mut_ptr());
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
        }
    }

    /// The TID under which an index has the scan's current row: that of its chain's root.
    /// [`ChainRoots::enter_page`] was called for the row.
    pub fn root_of(&mut self, scan: &HotScan<'_>) -> pg_sys::ItemPointerData {
        // SAFETY: the scan's current tuple lies on a page that the scan has pinned.
        let (tid, is_heap_only) = unsafe {
            let tuple = &(*scan.raw()).rs_ctup;
            let heap_only = pg_sys::HEAP_ONLY_TUPLE as u16;
            (tuple.t_self, (*tuple.t_data).t_infomask2 & heap_only != 0)
        };
        if !is_heap_only {
            return tid;
        }
        let at = usize::from(tid.ip_posid) - 1;
        if self.offsets[at] == 0 {
            // A chain that grew after the page was entered.
            self.read(scan);
        }
        let block = block_of(&tid);
        if self.offsets[at] == 0 {
            // SAFETY: the scan holds the relation open.
            let table = unsafe { crate::relation::name_of((*scan.raw()).rs_base.rs_rd) };
            crate::damage::raise(format!(
                "failed to find parent tuple for heap-only tuple at ({block},{}) in table \"{table}\"",
                tid.ip_posid
            ));
        }
        tid_of(block, self.offsets[at])
    }
}
