//! Bitmap heap scans.
//!
//! The bitmap may name cold blocks, which heap's own loop would read from disk. A bitmap returns
//! its blocks in ascending order, and cold blocks are numbered above all hot ones. So one read
//! stream over the hot blocks keeps heap's prefetching and ends at the first cold block; from then
//! on cold blocks are taken from the bitmap one at a time, and their rows are read from row groups.
//!
//! ```text
//!   bitmap ──> next_block (stream callback) ──> read stream ──> visible rows of the page
//!      │                 └─ the first cold block ends the stream ─┐
//!      └────────────────── further cold blocks ───────────────────┴──> rows the snapshot sees
//! ```
//!
//! A scan therefore holds one page of the bitmap at a time, on both sides. Participants of a
//! parallel scan take blocks from one shared iterator, which gives each block to one of them; a
//! participant whose stream has met a cold block keeps that block and reads it after its hot pages.
//! Blocks are small compared with row groups, so all participants work on the same few groups; each
//! decodes them for itself.

use howdah_bridge::ffi;
use howdah_bridge::predicate::is_serializable;
use howdah_bridge::relation::count_rows_fetched;
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::Table;
use howdah_bridge::tid::{FIRST_COLD_BLOCK, RowNumber, tid_of};
use pgrx::{pg_guard, pg_sys};

use super::last_row;
use super::point_reader::PointReader;
use super::scan::{HowdahScan, ours};

/// `MaxHeapTuplesPerPage` for 8 kB pages.
const MAX_OFFSETS: usize = 291;

/// The offsets of a cold block's TIDs end here.
const ROWS_OF_COLD_BLOCK: u16 = 256;

/// The position of the scan in the bitmap.
#[derive(Clone, Copy)]
enum Phase {
    /// The stream of hot pages has not ended.
    Hot,
    /// Only cold blocks are left.
    Cold,
    Done,
}

/// Whether the bitmap names single rows of a block, or only the block (lossy).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loaded {
    Exact,
    Lossy,
}

/// The state of a bitmap scan between tuples.
pub struct BitmapState {
    phase: Phase,
    stream: *mut pg_sys::ReadStream,
    /// Pinned page of the current hot block.
    buffer: pg_sys::Buffer,
    /// The current block, and which of its rows are still to be returned: visible rows of a hot
    /// page, or rows of a cold block that still have to be looked up.
    block: pg_sys::BlockNumber,
    recheck: bool,
    offsets: Vec<u16>,
    next_offset: usize,
    /// The cold block that ended the stream, until it is read.
    first_cold: Option<pg_sys::TBMIterateResult>,
    reader: PointReader,
}

impl Default for BitmapState {
    fn default() -> Self {
        BitmapState {
            phase: Phase::Hot,
            stream: std::ptr::null_mut(),
            buffer: 0,
            block: 0,
            recheck: false,
            offsets: Vec::new(),
            next_offset: 0,
            first_cold: None,
            reader: PointReader::new(),
        }
    }
}

impl BitmapState {
    fn next_offset(&mut self) -> Option<u16> {
        let offset = self.offsets.get(self.next_offset).copied();
        self.next_offset += usize::from(offset.is_some());
        offset
    }

    /// Moves to a block of the bitmap, with the offsets that the bitmap names.
    ///
    /// # Safety
    /// `result` comes from the scan's bitmap, which has not been freed.
    unsafe fn begin_block(&mut self, result: *mut pg_sys::TBMIterateResult) -> Loaded {
        self.next_offset = 0;
        self.offsets.clear();
        // SAFETY: as for this function; the array has space for as many offsets as a page can have.
        unsafe {
            self.block = (*result).blockno;
            self.recheck = (*result).recheck;
            if (*result).lossy {
                return Loaded::Lossy;
            }
            self.offsets.resize(MAX_OFFSETS, 0);
            let offsets = self.offsets.as_mut_ptr();
            let count = pg_sys::tbm_extract_page_tuple(result, offsets, MAX_OFFSETS as u32);
            self.offsets.truncate(count as usize);
        }
        Loaded::Exact
    }

    /// Releases the pins of a scan that is ended or restarted.
    ///
    /// # Safety
    /// The scan's transaction is not aborting.
    pub unsafe fn release(&mut self) {
        // SAFETY: buffer and stream were made by this scan and are released once.
        unsafe {
            if self.buffer != 0 {
                pg_sys::ReleaseBuffer(self.buffer);
                self.buffer = 0;
            }
            if !self.stream.is_null() {
                pg_sys::read_stream_end(self.stream);
                self.stream = std::ptr::null_mut();
            }
        }
    }
}

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.scan_bitmap_next_tuple = Some(scan_bitmap_next_tuple);
}

/// Read-stream callback: the next hot block of the bitmap. Runs ahead of the rows that are
/// returned.
#[pg_guard]
unsafe extern "C-unwind" fn next_block(
    _stream: *mut pg_sys::ReadStream,
    private: *mut std::ffi::c_void,
    per_buffer: *mut std::ffi::c_void,
) -> pg_sys::BlockNumber {
    // SAFETY: `private` is the scan, `per_buffer` has space for one TBMIterateResult.
    unsafe {
        let scan = &mut *private.cast::<HowdahScan>();
        let result = per_buffer.cast::<pg_sys::TBMIterateResult>();
        loop {
            pgrx::check_for_interrupts!();
            if !pg_sys::tbm_iterate(&mut scan.base.st.rs_tbmiterator, result) {
                return pg_sys::InvalidBlockNumber;
            }
            let block = (*result).blockno;
            if block >= FIRST_COLD_BLOCK {
                // The result points into the bitmap, which the node keeps until the scan is ended
                // or restarted.
                scan.state().bitmap.first_cold = Some(*result);
                return pg_sys::InvalidBlockNumber;
            }
            // As in heap: pages that were added after the scan began cannot hold visible rows, but
            // a serializable transaction must notice the transactions that wrote them.
            let known = (*scan.heap.cast::<pg_sys::HeapScanDescData>()).rs_nblocks;
            if block >= known && !is_serializable() {
                continue;
            }
            return block;
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_bitmap_next_tuple(
    scan: pg_sys::TableScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    recheck: *mut bool,
    lossy_pages: *mut u64,
    exact_pages: *mut u64,
) -> bool {
    // SAFETY: the scan is ours; the bitmap was set by the node, which passes valid pointers.
    unsafe {
        let scan = ours(scan);
        loop {
            let phase = scan.state().bitmap.phase;
            let loaded = match phase {
                Phase::Hot if next_hot(scan, slot) => {
                    if scan.hides_hot(slot) {
                        continue;
                    }
                    break;
                }
                Phase::Hot => load_next_page(scan),
                Phase::Cold if next_cold(scan, slot) => break,
                Phase::Cold => load_next_cold_block(scan),
                Phase::Done => return false,
            };
            match loaded {
                Some(Loaded::Exact) => *exact_pages += 1,
                Some(Loaded::Lossy) => *lossy_pages += 1,
                None => {}
            }
        }
        *recheck = scan.state().bitmap.recheck;
        count_rows_fetched(scan.base.rs_rd, 1);
        true
    }
}

/// The next visible row of the current hot page.
///
/// # Safety
/// `scan` is an open bitmap scan, `slot` one of its relation's.
unsafe fn next_hot(scan: &mut HowdahScan, slot: *mut pg_sys::TupleTableSlot) -> bool {
    let rel = scan.base.rs_rd;
    let state = &mut scan.state().bitmap;
    let Some(offset) = state.next_offset() else {
        return false;
    };
    // SAFETY: the page is pinned, so the line pointers of visible rows stay normal; the slot
    // takes a pin of its own.
    unsafe {
        let page = pg_sys::BufferGetPage(state.buffer);
        let item = pg_sys::PageGetItemId(page, offset);
        let buffer_slot = slot.cast::<pg_sys::BufferHeapTupleTableSlot>();
        let tuple = &mut (*buffer_slot).base.tupdata;
        let new = pg_sys::HeapTupleData {
            t_len: (*item).lp_len(),
            t_self: tid_of(state.block, offset),
            t_tableOid: (*rel).rd_id,
            t_data: pg_sys::PageGetItem(page, item).cast(),
        };
        pg_sys::ExecClearTuple(slot);
        *tuple = new;
        pg_sys::ExecStoreBufferHeapTuple(tuple, slot, state.buffer);
    }
    true
}

/// Reads the next hot page of the bitmap and finds its visible rows. After the end of the stream
/// come the cold blocks.
///
/// # Safety
/// `scan` is an open bitmap scan.
unsafe fn load_next_page(scan: &mut HowdahScan) -> Option<Loaded> {
    let rel = scan.base.rs_rd;
    let snapshot = scan.base.rs_snapshot;
    let private = std::ptr::from_mut(scan);
    // SAFETY: relation, snapshot and scan live while the scan is open; pin and share lock are
    // held while the page is examined.
    unsafe {
        let context = pg_sys::GetMemoryChunkContext(private.cast());
        let state = &mut (*private).state().bitmap;
        if state.stream.is_null() {
            let old = pg_sys::MemoryContextSwitchTo(context);
            let heap_scan = (*private).heap.cast::<pg_sys::HeapScanDescData>();
            state.stream = pg_sys::read_stream_begin_relation(
                pg_sys::READ_STREAM_DEFAULT as i32,
                (*heap_scan).rs_strategy,
                rel,
                pg_sys::ForkNumber::MAIN_FORKNUM,
                Some(next_block),
                private.cast(),
                std::mem::size_of::<pg_sys::TBMIterateResult>(),
            );
            pg_sys::MemoryContextSwitchTo(old);
        }
        if state.buffer != 0 {
            pg_sys::ReleaseBuffer(state.buffer);
            state.buffer = 0;
        }
        let mut per_buffer = std::ptr::null_mut();
        // The callback borrows the state anew.
        let stream = state.stream;
        let buffer = pg_sys::read_stream_next_buffer(stream, &mut per_buffer);
        let state = &mut (*private).state().bitmap;
        if buffer == 0 {
            state.phase = match state.first_cold {
                Some(_) => Phase::Cold,
                None => Phase::Done,
            };
            return None;
        }
        let result = per_buffer.cast::<pg_sys::TBMIterateResult>();
        state.buffer = buffer;
        let loaded = state.begin_block(result);
        pg_sys::heap_page_prune_opt(rel, buffer);
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        match loaded {
            Loaded::Exact => {
                let block = state.block;
                state.offsets.retain_mut(|offset| {
                    let mut tid = tid_of(block, *offset);
                    let mut tuple = pg_sys::HeapTupleData::default();
                    let is_visible = pg_sys::heap_hot_search_buffer(
                        &mut tid,
                        rel,
                        buffer,
                        snapshot,
                        &mut tuple,
                        std::ptr::null_mut(),
                        true,
                    );
                    *offset = tid.ip_posid;
                    is_visible
                });
            }
            Loaded::Lossy => visible_on_page(rel, snapshot, buffer, state),
        }
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
        Some(loaded)
    }
}

/// Every visible row of a share-locked page. HOT chains are not followed: the visibility of each
/// version is checked by itself.
///
/// # Safety
/// `buffer` is a page of `rel` that is pinned and share-locked.
unsafe fn visible_on_page(
    rel: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    buffer: pg_sys::Buffer,
    state: &mut BitmapState,
) {
    // SAFETY: as for the caller.
    unsafe {
        let page = pg_sys::BufferGetPage(buffer);
        for offset in 1..=pg_sys::PageGetMaxOffsetNumber(page) {
            let item = pg_sys::PageGetItemId(page, offset);
            if (*item).lp_flags() != pg_sys::LP_NORMAL {
                continue;
            }
            let mut tuple = pg_sys::HeapTupleData {
                t_len: (*item).lp_len(),
                t_self: tid_of(state.block, offset),
                t_tableOid: (*rel).rd_id,
                t_data: pg_sys::PageGetItem(page, item).cast(),
            };
            let valid = pg_sys::HeapTupleSatisfiesVisibility(&mut tuple, snapshot, buffer);
            if valid {
                state.offsets.push(offset);
                ffi::PredicateLockTID(
                    rel,
                    &mut tuple.t_self,
                    snapshot,
                    howdah_bridge::hot::xmin_of(tuple.t_data),
                );
            }
            pg_sys::HeapCheckForSerializableConflictOut(valid, rel, &mut tuple, buffer, snapshot);
        }
    }
}

/// The next visible row of the current cold block.
///
/// # Safety
/// `scan` is an open bitmap scan, `slot` one of its relation's.
unsafe fn next_cold(scan: &mut HowdahScan, slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: relation and snapshot are valid while the scan is open; the slot is one of the
    // relation's.
    let (table, snapshot, slot) = unsafe {
        let snapshot = Snapshot::from_raw(scan.base.rs_snapshot);
        (
            Table::from_raw(scan.base.rs_rd),
            snapshot,
            Slot::from_raw(slot),
        )
    };
    let state = &mut scan.state().bitmap;
    while let Some(offset) = state.next_offset() {
        pgrx::check_for_interrupts!();
        let Some(row) = RowNumber::from_tid(&tid_of(state.block, offset)) else {
            continue;
        };
        if !state.reader.serves(slot) {
            state.reader = PointReader::for_slot(slot);
        }
        if state.reader.fetch(table, row, snapshot, slot) {
            if state.reader.reads_whole_rows() {
                // SAFETY: the slot has just been given the row.
                unsafe { last_row::remember(slot) };
            }
            return true;
        }
    }
    false
}

/// Takes the next cold block from the bitmap.
///
/// # Safety
/// `scan` is an open bitmap scan.
unsafe fn load_next_cold_block(scan: &mut HowdahScan) -> Option<Loaded> {
    let first = scan.state().bitmap.first_cold.take();
    // SAFETY: the bitmap lives until the scan is ended or restarted.
    unsafe {
        let mut result = first.unwrap_or_default();
        if first.is_none() && !pg_sys::tbm_iterate(&mut scan.base.st.rs_tbmiterator, &mut result) {
            scan.state().bitmap.phase = Phase::Done;
            return None;
        }
        let state = &mut scan.state().bitmap;
        let loaded = state.begin_block(&mut result);
        if loaded == Loaded::Lossy {
            state.offsets.extend(1..=ROWS_OF_COLD_BLOCK);
        }
        Some(loaded)
    }
}
