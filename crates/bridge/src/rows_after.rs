//! The rows to which a scan by index leads next.
//!
//! ```text
//!   btree   the matches that nbtree took from the current leaf, behind or before the current one
//!   bitmap  the other rows of the current block, and of some blocks after it
//! ```
//!
//! So a reader knows how many neighbours of a row it is worth reading along. What is found is a
//! hint: rows may be hidden from the snapshot, and more may follow on the next leaf. nbtree keeps
//! its matches in a structure of its own, which `access/nbtree.h` tells; it is believed only if the
//! match that it names as the current one is the row that the scan has returned.

use pgrx::pg_sys;

use crate::ffi::{BTScanOpaqueData, BTScanPosItem, MOST_MATCHES};
use crate::table_am::scans::upcoming_rows;
use crate::tid::{RowNumber, Tid};

/// Shows the rows to which the scan leads after the one at `tid`, which it has returned last, one
/// after the other until `show` returns false; hot ones as `None`. Whether anything is known.
///
/// # Safety
/// A started scan of a table of this access method, which lives.
pub(crate) unsafe fn rows_after(
    scan: *mut pg_sys::ScanState,
    tid: Tid,
    show: &mut dyn FnMut(Option<RowNumber>) -> bool,
) -> bool {
    // SAFETY: as for this function; a node's tag tells its type, and the descriptor of a bitmap
    // scan is ours.
    unsafe {
        match (*scan).ps.type_ {
            pg_sys::NodeTag::T_IndexScanState => of_btree(scan.cast(), tid, show).is_some(),
            pg_sys::NodeTag::T_BitmapHeapScanState => {
                let rows = upcoming_rows((*scan).ss_currentScanDesc);
                let is_known = rows.is_some();
                let _ = (rows.into_iter().flatten()).all(|tid| show(tid.row()));
                is_known
            }
            _ => false,
        }
    }
}

/// # Safety
/// A started index scan.
unsafe fn of_btree(
    state: *mut pg_sys::IndexScanState,
    tid: Tid,
    show: &mut dyn FnMut(Option<RowNumber>) -> bool,
) -> Option<()> {
    // SAFETY: the index is open as long as the scan is; nbtree's scans have this structure, whose
    // items from the first to the last one are set.
    unsafe {
        let (index, scan) = ((*state).iss_RelationDesc, (*state).iss_ScanDesc);
        if index.is_null() || scan.is_null() || (*(*index).rd_rel).relam != pg_sys::BTREE_AM_OID {
            return None;
        }
        let opaque = (*scan).opaque.cast::<BTScanOpaqueData>();
        if opaque.is_null() || (*opaque).currPos.currPage == pg_sys::InvalidBlockNumber {
            return None;
        }
        let pos = &raw const (*opaque).currPos;
        let places = [(*pos).firstItem, (*pos).itemIndex, (*pos).lastItem];
        let [first, at, last] = places.map(|place| usize::try_from(place).unwrap_or(usize::MAX));
        if !(first <= at && at <= last && last < MOST_MATCHES) {
            return None;
        }
        let items = (&raw const (*pos).items).cast::<BTScanPosItem>();
        let tid_of = |at: usize| Tid::from_raw((*items.add(at)).heapTid);
        if tid_of(at) != tid {
            return None;
        }
        let plan = (*state).ss.ps.plan.cast::<pg_sys::IndexScan>();
        let direction = (*(*state).ss.ps.state).es_direction * (*plan).indexorderdir;
        let _ = match direction > 0 {
            true => (at + 1..=last).all(|at| show(tid_of(at).row())),
            false => (first..at).rev().all(|at| show(tid_of(at).row())),
        };
        Some(())
    }
}
