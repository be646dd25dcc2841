//! A random sample of the hot rows in the blocks that ANALYZE has chosen.
//!
//! ```text
//!   HotBlocks (a read stream) ──▶ heap's callbacks ──▶ reservoir of row copies ──▶ slots
//! ```
//!
//! The copies lie in the memory context in which the sample was drawn: that of ANALYZE, which
//! frees what an ERROR leaves there.

use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::heap_am::callbacks;
use crate::hot::scan::HotScan;
use crate::io_cost;
use crate::slot::Slot;
use crate::tid::{BlockNumber, Tid};

/// The hot blocks that ANALYZE has chosen, one after the other.
#[derive(Clone, Copy)]
pub struct HotBlocks<'a> {
    stream: *mut pg_sys::ReadStream,
    lives: PhantomData<&'a pg_sys::ReadStream>,
}

impl HotBlocks<'_> {
    /// # Safety
    /// The stream is that of ANALYZE, over blocks of heap's, and lasts as long as the result and
    /// its copies are used.
    pub(crate) unsafe fn from_raw(stream: *mut pg_sys::ReadStream) -> Self {
        HotBlocks {
            stream,
            lives: PhantomData,
        }
    }
}

/// The counts of ANALYZE.
pub struct SampleCounts<'a> {
    /// Rows that were deleted before it are dead.
    pub(crate) oldest_xmin: pg_sys::TransactionId,
    /// Live rows in the blocks read so far. ANALYZE scales them to all blocks of the table.
    pub live_rows: &'a mut f64,
    pub(crate) dead_rows: &'a mut f64,
}

/// Moves heap's scan to the next block; `false` if there is none.
pub fn next_block(scan: &mut HotScan<'_>, blocks: HotBlocks<'_>) -> bool {
    // SAFETY: scan and stream are open, and of one ANALYZE.
    unsafe { (callbacks().scan_analyze_next_block)(scan.raw().cast(), blocks.stream) }
}

/// Stores the next live row of the block in the slot, and counts; `false` if there is none.
pub fn next_row(scan: &mut HotScan<'_>, counts: &mut SampleCounts<'_>, slot: Slot<'_>) -> bool {
    // SAFETY: the scan is open, and on a block; the slot is one of the table's.
    unsafe {
        (callbacks().scan_analyze_next_tuple)(
            scan.raw().cast(),
            counts.oldest_xmin,
            counts.live_rows,
            counts.dead_rows,
            slot.raw(),
        )
    }
}

/// A number in `0..bound`, by the server's generator.
///
/// # Panics
/// If `bound` is 0.
pub fn random_below(bound: u64) -> u64 {
    assert!(bound > 0, "no number is below 0");
    // SAFETY: the server's own generator, used by the main thread only.
    unsafe { pg_sys::pg_prng_uint64_range(&raw mut pg_sys::pg_global_prng_state, 0, bound - 1) }
}

/// A copy of a row in the current memory context.
struct RowCopy(pg_sys::HeapTuple);

impl RowCopy {
    fn of(slot: Slot<'_>) -> RowCopy {
        // SAFETY: the slot is valid, and holds a row that was just put into it.
        RowCopy(unsafe { pg_sys::ExecCopySlotHeapTuple(slot.raw()) })
    }

    fn tid(&self) -> Tid {
        // SAFETY: made by `of`, and not freed yet.
        Tid::from_raw(unsafe { (*self.0).t_self })
    }

    fn free(self) {
        // SAFETY: made by `of`; freed once, because the copy is given away.
        unsafe { pg_sys::heap_freetuple(self.0) }
    }

    /// Gives the copy to the slot.
    fn store(self, slot: Slot<'_>) {
        // SAFETY: made by `of` from a slot of this table; the slot frees it from now on.
        unsafe { pg_sys::ExecForceStoreHeapTuple(self.0, slot.raw(), true) }
    }
}

/// A random sample of the live rows in the sampled blocks.
pub struct HotSample {
    rows: Vec<RowCopy>,
    /// Live rows in the sampled blocks.
    live_rows: f64,
    pub sampled_blocks: u32,
    pub all_blocks: BlockNumber,
}

impl HotSample {
    /// Draws up to `wanted` rows of all blocks. Uses the slot, which is one of the table's.
    pub fn draw(
        scan: &mut HotScan<'_>,
        blocks: HotBlocks<'_>,
        wanted: usize,
        counts: &mut SampleCounts<'_>,
        slot: Slot<'_>,
    ) -> HotSample {
        let mut rows: Vec<RowCopy> = Vec::new();
        let (mut seen, mut sampled_blocks) = (0, 0);
        while next_block(scan, blocks) {
            sampled_blocks += 1;
            io_cost::analyze_delay_point();
            while next_row(scan, counts, slot) {
                seen += 1;
                if rows.len() < wanted {
                    rows.push(RowCopy::of(slot));
                    continue;
                }
                let place = random_below(seen) as usize;
                if let Some(row) = rows.get_mut(place) {
                    std::mem::replace(row, RowCopy::of(slot)).free();
                }
            }
            note_blocks_done(sampled_blocks);
        }
        HotSample {
            rows,
            live_rows: *counts.live_rows,
            sampled_blocks,
            all_blocks: scan.block_count(),
        }
    }

    /// The rows that were drawn.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Hot rows in the whole table, estimated.
    pub fn table_rows(&self) -> f64 {
        match self.sampled_blocks {
            0 => 0.0,
            sampled => self.live_rows / f64::from(sampled) * f64::from(self.all_blocks),
        }
    }

    /// Keeps so many of the rows, or all if there are fewer, and has them follow one another by
    /// their places.
    pub fn into_rows(mut self, count: usize) -> SampledRows {
        let count = count.min(self.rows.len());
        for i in 0..count {
            let other = i + random_below((self.rows.len() - i) as u64) as usize;
            self.rows.swap(i, other);
        }
        self.rows.drain(count..).for_each(RowCopy::free);
        self.rows.sort_by_key(RowCopy::tid);
        SampledRows(self.rows.into_iter())
    }
}

/// Sampled rows, in the order of their TIDs.
pub struct SampledRows(std::vec::IntoIter<RowCopy>);

impl SampledRows {
    /// Stores the next row in the slot, which is one of the table's; `false` if there is none.
    pub fn next_into(&mut self, slot: Slot<'_>) -> bool {
        self.0.next().map(|row| row.store(slot)).is_some()
    }
}

fn note_blocks_done(blocks: u32) {
    let parameter = pg_sys::PROGRESS_ANALYZE_BLOCKS_DONE as i32;
    // SAFETY: writes a field of this backend's own entry.
    unsafe { pg_sys::pgstat_progress_update_param(parameter, i64::from(blocks)) }
}
