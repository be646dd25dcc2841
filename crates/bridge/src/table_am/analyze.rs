//! The sample of ANALYZE: `scan_analyze_next_block` and `scan_analyze_next_tuple`.
//!
//! ```text
//!   analyze.c ──▶ SampleRows ──┬── heap_next_block, heap_next_row   as heap does it
//!                              └── HotSample::draw ─▶ SampledRows   hot rows beside others
//! ```

use pgrx::{pg_guard, pg_sys};

use super::Routine;
use crate::heap_am;
use crate::hot::scan::HotScan;
use crate::index_build::OuterScan;
use crate::slot::Slot;
use crate::table::Table;
use crate::tid::block_of;
use crate::xid::Xid;

/// Rows of a statistics target's unit, as `std_typanalyze` requests them.
const ROWS_PER_TARGET: usize = 300;

/// Returns the rows of which ANALYZE draws its sample.
pub trait SampleRows {
    /// Moves to the next block of the stream; `false` if there is none.
    fn next_block(scan: OuterScan<'_>, stream: SampleStream) -> bool;

    /// Stores the next row of the current block in the slot, and counts rows; `false` if there is
    /// none.
    fn next_row(scan: OuterScan<'_>, request: &mut SampleRequest<'_>) -> bool;
}

/// Has ANALYZE draw its samples from `S`.
pub fn set_sample_rows<S: SampleRows>(routine: &mut Routine) {
    routine.scan_analyze_next_block = Some(next_block::<S>);
    routine.scan_analyze_next_tuple = Some(next_tuple::<S>);
}

/// The blocks that ANALYZE has drawn. They belong to the scan, which alone may keep this.
#[derive(Clone, Copy)]
pub struct SampleStream(*mut pg_sys::ReadStream);

/// What ANALYZE requests of the current block.
pub struct SampleRequest<'a> {
    oldest_xmin: Xid,
    /// Rows that count as live, added to those of other blocks.
    pub live_rows: &'a mut f64,
    dead_rows: &'a mut f64,
    /// A buffer slot of the table.
    pub slot: Slot<'a>,
}

#[pg_guard]
unsafe extern "C-unwind" fn next_block<S: SampleRows>(
    scan: pg_sys::TableScanDesc,
    stream: *mut pg_sys::ReadStream,
) -> bool {
    // SAFETY: ANALYZE has begun the scan by the access method, and ends it after the stream.
    let scan = unsafe { OuterScan::from_raw(scan) };
    S::next_block(scan, SampleStream(stream))
}

#[pg_guard]
unsafe extern "C-unwind" fn next_tuple<S: SampleRows>(
    scan: pg_sys::TableScanDesc,
    oldest_xmin: pg_sys::TransactionId,
    live_rows: *mut f64,
    dead_rows: *mut f64,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the scan is open; the counts are variables of ANALYZE's, and the slot is its own.
    unsafe {
        let mut request = SampleRequest {
            oldest_xmin: Xid::from_raw(oldest_xmin),
            live_rows: &mut *live_rows,
            dead_rows: &mut *dead_rows,
            slot: Slot::from_raw(slot),
        };
        S::next_row(OuterScan::from_raw(scan), &mut request)
    }
}

/// Heap's own [`SampleRows::next_block`].
pub fn heap_next_block(scan: &HotScan<'_>, stream: SampleStream) -> bool {
    // SAFETY: heap has this callback; the scan is open, and the stream its own.
    unsafe {
        let next_block = heap_am::routine()
            .scan_analyze_next_block
            .unwrap_unchecked();
        pg_sys::ffi::pg_guard_ffi_boundary(|| next_block(scan.raw().cast(), stream.0))
    }
}

/// Heap's own [`SampleRows::next_row`].
pub fn heap_next_row(scan: &HotScan<'_>, request: &mut SampleRequest<'_>) -> bool {
    // SAFETY: heap has this callback; the scan is open and stands on a block.
    unsafe {
        let next_tuple = heap_am::routine()
            .scan_analyze_next_tuple
            .unwrap_unchecked();
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            next_tuple(
                scan.raw().cast(),
                request.oldest_xmin.raw(),
                &mut *request.live_rows,
                &mut *request.dead_rows,
                request.slot.raw(),
            )
        })
    }
}

/// The number of rows that ANALYZE will request of a table.
pub fn sample_size(table: Table<'_>) -> usize {
    // SAFETY: plain read of a setting.
    let mut target = unsafe { pg_sys::default_statistics_target };
    for attno in 1..=table.descriptor().attribute_count() as i16 {
        let cache = pg_sys::SysCacheIdentifier::ATTNUM as i32;
        let (relid, attno) = (table.oid().into(), pg_sys::Datum::from(attno));
        // SAFETY: a catalog lookup; the tuple is released after use.
        unsafe {
            let tuple = pg_sys::SearchSysCache2(cache, relid, attno);
            if tuple.is_null() {
                continue;
            }
            let mut is_null = false;
            let number = pg_sys::Anum_pg_attribute_attstattarget as i16;
            let own = pg_sys::SysCacheGetAttr(cache, tuple, number, &mut is_null);
            if !is_null {
                target = target.max(i32::from(own.value() as i16));
            }
            pg_sys::ReleaseSysCache(tuple);
        }
    }
    ROWS_PER_TARGET * target.max(1) as usize
}

/// A number in `0..bound`, which is not empty.
pub fn random_below(bound: u64) -> u64 {
    // SAFETY: the server's own generator, used by the main thread only.
    unsafe { pg_sys::pg_prng_uint64_range(&raw mut pg_sys::pg_global_prng_state, 0, bound - 1) }
}

/// A random sample of the live rows in the blocks of a stream. The rows are copies in the current
/// memory context.
pub struct HotSample {
    rows: Vec<pg_sys::HeapTuple>,
    /// Live rows in the sampled blocks.
    live_rows: f64,
    sampled_blocks: u32,
    all_blocks: u32,
}

impl HotSample {
    /// Reads all blocks of the stream and draws at most so many rows (Vitter's algorithm R).
    pub fn draw(
        scan: &HotScan<'_>,
        stream: SampleStream,
        request: &mut SampleRequest<'_>,
        wanted: usize,
    ) -> HotSample {
        let mut rows: Vec<pg_sys::HeapTuple> = Vec::new();
        let (mut seen, mut sampled_blocks) = (0, 0);
        while heap_next_block(scan, stream) {
            sampled_blocks += 1;
            delay_point();
            while heap_next_row(scan, request) {
                seen += 1;
                let place = match rows.len() < wanted {
                    true => rows.len(),
                    false => random_below(seen) as usize,
                };
                // SAFETY: the slot holds the row that was just read; a row that is replaced was
                // copied here, and is freed once.
                unsafe {
                    if place == rows.len() {
                        rows.push(pg_sys::ExecCopySlotHeapTuple(request.slot.raw()));
                    } else if let Some(row) = rows.get_mut(place) {
                        pg_sys::heap_freetuple(*row);
                        *row = pg_sys::ExecCopySlotHeapTuple(request.slot.raw());
                    }
                }
            }
            let done = i64::from(sampled_blocks);
            // SAFETY: writes to the backend's own status entry.
            unsafe {
                let parameter = pg_sys::PROGRESS_ANALYZE_BLOCKS_DONE as i32;
                pg_sys::pgstat_progress_update_param(parameter, done);
            }
        }
        HotSample {
            rows,
            live_rows: *request.live_rows,
            sampled_blocks,
            all_blocks: scan.block_count(),
        }
    }

    /// The rows that were drawn.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no row was drawn.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Hot rows in the whole table, estimated.
    pub fn table_rows(&self) -> f64 {
        self.in_table(self.live_rows)
    }

    /// What a count over the sampled blocks is in the whole table.
    fn in_table(&self, sampled: f64) -> f64 {
        match self.sampled_blocks {
            0 => 0.0,
            blocks => sampled / f64::from(blocks) * f64::from(self.all_blocks),
        }
    }

    /// What a count over the whole table is in the sampled blocks; 0 if the table has no blocks.
    pub fn in_sample(&self, counted: f64) -> f64 {
        match self.all_blocks {
            0 => 0.0,
            blocks => counted * f64::from(self.sampled_blocks) / f64::from(blocks),
        }
    }

    /// Draws so many of the rows, in the order of their TIDs; the others are freed.
    pub fn take(mut self, count: usize) -> SampledRows {
        let count = count.min(self.rows.len());
        for i in 0..count {
            let other = i + random_below((self.rows.len() - i) as u64) as usize;
            self.rows.swap(i, other);
        }
        for row in self.rows.drain(count..) {
            // SAFETY: a copy of ours, freed once.
            unsafe { pg_sys::heap_freetuple(row) };
        }
        self.rows.sort_by_key(|&row| {
            // SAFETY: a copy of ours, which is not freed yet.
            let tid = unsafe { &(*row).t_self };
            (block_of(tid), tid.ip_posid)
        });
        SampledRows(self.rows.into_iter())
    }
}

/// Rows of a sample, one after the other.
pub struct SampledRows(std::vec::IntoIter<pg_sys::HeapTuple>);

impl SampledRows {
    /// Stores the next row in the slot; `false` at the end.
    pub fn store_next(&mut self, slot: Slot<'_>) -> bool {
        let Some(row) = self.0.next() else {
            return false;
        };
        // SAFETY: a copy of ours, which is passed on to the slot.
        unsafe { pg_sys::ExecForceStoreHeapTuple(row, slot.raw(), true) };
        true
    }
}

/// Waits as `vacuum_cost_delay` demands, and handles interrupts.
pub fn delay_point() {
    // SAFETY: called by ANALYZE, which holds no page locked between rows.
    unsafe { pg_sys::vacuum_delay_point(true) }
}

#[cfg(test)]
mod tests {
    use super::HotSample;

    fn sample(live_rows: f64, sampled_blocks: u32, all_blocks: u32) -> HotSample {
        HotSample {
            rows: Vec::new(),
            live_rows,
            sampled_blocks,
            all_blocks,
        }
    }

    #[test]
    fn counts_of_sampled_blocks_and_of_the_table_are_in_proportion() {
        let some = sample(3_000.0, 30, 90);
        assert_eq!(some.table_rows(), 9_000.0);
        assert_eq!(some.in_sample(600.0), 200.0);
        assert_eq!(some.in_sample(some.table_rows()), 3_000.0);
        let empty = sample(0.0, 0, 0);
        assert_eq!((empty.table_rows(), empty.in_sample(5.0)), (0.0, 0.0));
    }
}
