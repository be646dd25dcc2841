//! The rows to which a scan by index leads next, as far as they lie beside each other.
//!
//! ```text
//!   btree   the matches that nbtree took from the current leaf, behind or before the current one
//!   bitmap  the other rows of the current block
//! ```
//!
//! So a reader knows how many neighbours of a row it is worth reading along. What is found is a
//! hint: rows may be hidden from the snapshot, and more may follow on the next leaf. nbtree keeps
//! its matches in a structure of its own, which `access/nbtree.h` tells; it is believed only if the
//! match that it names as the current one is the row that the scan has returned.

use std::ops::Range;

use pgrx::pg_sys;

use crate::ffi::{BTScanOpaqueData, BTScanPosItem, MOST_MATCHES};
use crate::table_am::scans::rest_of_block;
use crate::tid::{RowNumber, Tid};

/// Rows that are looked at, at most.
const MOST_ROWS: u64 = 64;

/// The rows to which the scan leads from the one at `tid`, which it has returned last, that one
/// among them: it is the first or the last one. `None` if nothing is known.
///
/// # Safety
/// A started scan of a table of this access method, which lives.
pub(crate) unsafe fn rows_beside(scan: *mut pg_sys::ScanState, tid: Tid) -> Option<Range<u64>> {
    let row = tid.row()?;
    // SAFETY: as for this function; a node's tag tells its type.
    unsafe {
        match (*scan).ps.type_ {
            pg_sys::NodeTag::T_IndexScanState => of_btree(scan.cast(), tid, row),
            pg_sys::NodeTag::T_BitmapHeapScanState => of_bitmap(scan, tid, row),
            _ => None,
        }
    }
}

/// # Safety
/// A started index scan.
unsafe fn of_btree(
    state: *mut pg_sys::IndexScanState,
    tid: Tid,
    row: RowNumber,
) -> Option<Range<u64>> {
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
        let tid_of = |at: usize| {
            let item = (first..=last).contains(&at).then(|| items.add(at))?;
            Some(Tid::from_raw((*item).heapTid))
        };
        if tid_of(at)? != tid {
            return None;
        }
        let plan = (*state).ss.ps.plan.cast::<pg_sys::IndexScan>();
        let direction = (*(*state).ss.ps.state).es_direction * (*plan).indexorderdir;
        let next = |steps: usize| match direction > 0 {
            true => tid_of(at + steps),
            false => tid_of(at.checked_sub(steps)?),
        };
        Some(beside(row, |steps| next(steps)?.row()))
    }
}

/// # Safety
/// A started bitmap scan of a table of this access method.
unsafe fn of_bitmap(scan: *mut pg_sys::ScanState, tid: Tid, row: RowNumber) -> Option<Range<u64>> {
    // SAFETY: as for this function: its descriptor is ours.
    let (block, rest) = unsafe { rest_of_block((*scan).ss_currentScanDesc)? };
    (block == tid.block()).then(|| {
        beside(row, |steps| {
            let offset = *rest.get(steps - 1)?;
            Tid::new(block, offset).row()
        })
    })
}

/// The rows beside `row` to which a scan leads, by the rows that are so many steps away.
fn beside(row: RowNumber, next: impl Fn(usize) -> Option<RowNumber>) -> Range<u64> {
    let row = row.0;
    let (is_up, is_down) = match next(1) {
        Some(RowNumber(other)) => (other == row + 1, other + 1 == row),
        None => (false, false),
    };
    let mut count = 1;
    while (is_up || is_down) && count < MOST_ROWS {
        let expected = match is_up {
            true => Some(row + count),
            false => row.checked_sub(count),
        };
        let found = next(count as usize).map(|other| other.0);
        if found.is_none() || found != expected {
            break;
        }
        count += 1;
    }
    match is_down {
        true => row + 1 - count..row + 1,
        false => row..row + count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_as_far_as_they_lie_beside_each_other() {
        let from = |rows: &[u64]| {
            beside(RowNumber(rows[0]), |steps| {
                rows.get(steps).copied().map(RowNumber)
            })
        };
        assert_eq!(from(&[7]), 7..8);
        assert_eq!(from(&[7, 9]), 7..8);
        assert_eq!(from(&[7, 8, 9, 11, 12]), 7..10);
        assert_eq!(from(&[7, 6, 5, 4, 2]), 4..8);
        assert_eq!(from(&[2, 1, 0]), 0..3);
        assert_eq!(from(&[7, 8, 7]), 7..9);
        let long: Vec<u64> = (100..1_000).collect();
        assert_eq!(from(&long), 100..164);
        assert_eq!(from(&[0, 5]), 0..1);
    }
}
