//! The sample of ANALYZE: `scan_analyze_next_block`, `scan_analyze_next_tuple`.

use pgrx::{pg_guard, pg_sys};

use super::{OpenScan, TableScans};
use crate::hot::sample::{HotBlocks, SampleCounts};
use crate::slot::Slot;
use crate::table_am::Routine;

/// Sampling of tables for ANALYZE.
pub trait AnalyzeScans: TableScans {
    /// Moves to the next of the hot blocks that the server has chosen; `false` if there is none.
    fn next_sample_block<'a>(scan: &mut OpenScan<'a, Self>, blocks: HotBlocks<'a>) -> bool;

    /// Stores the next row of the block in the slot, and counts live and dead rows; `false` if
    /// there is none.
    fn next_sample_row(
        scan: &mut OpenScan<'_, Self>,
        counts: &mut SampleCounts<'_>,
        slot: Slot<'_>,
    ) -> bool;
}

pub(super) fn set<A: AnalyzeScans>(routine: &mut Routine) {
    routine.scan_analyze_next_block = Some(next_block::<A>);
    routine.scan_analyze_next_tuple = Some(next_tuple::<A>);
}

#[pg_guard]
unsafe extern "C-unwind" fn next_block<A: AnalyzeScans>(
    scan: pg_sys::TableScanDesc,
    stream: *mut pg_sys::ReadStream,
) -> bool {
    // SAFETY: the scan was begun for `A`, and not ended; the stream lasts as long as the sampling.
    let (mut scan, blocks) = unsafe { (OpenScan::from_raw(scan), HotBlocks::from_raw(stream)) };
    A::next_sample_block(&mut scan, blocks)
}

#[pg_guard]
unsafe extern "C-unwind" fn next_tuple<A: AnalyzeScans>(
    scan: pg_sys::TableScanDesc,
    oldest_xmin: pg_sys::TransactionId,
    live_rows: *mut f64,
    dead_rows: *mut f64,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the scan was begun for `A`, and not ended; the counts are variables of the server's,
    // and the slot is one of the relation's.
    unsafe {
        let mut scan = OpenScan::from_raw(scan);
        let mut counts = SampleCounts {
            oldest_xmin,
            live_rows: &mut *live_rows,
            dead_rows: &mut *dead_rows,
        };
        A::next_sample_row(&mut scan, &mut counts, Slot::from_raw(slot))
    }
}
