//! Bitmap heap scans.
//!
//! The bitmap may name cold blocks, which heap's own loop would read from disk. Here one read
//! stream over the hot blocks keeps heap's prefetching; cold blocks met on the way are put
//! aside and answered afterwards, row by row, from row groups.
//!
//! ```text
//!   bitmap ──> next_block (stream callback) ──hot──> read stream ──> visible rows of the page
//!                                           └─cold─> put aside   ──> rows the snapshot sees
//! ```

use std::collections::VecDeque;

use howdah_bridge::ffi;
use howdah_bridge::relation::count_rows_fetched;
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::{FIRST_COLD_BLOCK, RowNumber, tid_of};
use pgrx::{pg_guard, pg_sys};

use super::point_reader::PointReader;
use super::scan::{HowdahScan, ours};
use super::{last_row, moved};

/// `MaxHeapTuplesPerPage` for 8 kB pages.
const MAX_OFFSETS: usize = 291;

/// A cold block of the bitmap; no offsets means every row (lossy).
struct ColdBlock {
    block: pg_sys::BlockNumber,
    offsets: Option<Vec<u16>>,
    recheck: bool,
}

/// What a bitmap scan keeps between tuples.
pub struct BitmapState {
    stream: *mut pg_sys::ReadStream,
    /// Pinned page of the current hot block.
    buffer: pg_sys::Buffer,
    block: pg_sys::BlockNumber,
    recheck: bool,
    visible: Vec<u16>,
    next_visible: usize,
    hot_done: bool,
    cold: VecDeque<ColdBlock>,
    cold_rows: VecDeque<RowNumber>,
    reader: PointReader,
}

impl Default for BitmapState {
    fn default() -> Self {
        BitmapState {
            stream: std::ptr::null_mut(),
            buffer: 0,
            block: 0,
            recheck: false,
            visible: Vec::new(),
            next_visible: 0,
            hot_done: false,
            cold: VecDeque::new(),
            cold_rows: VecDeque::new(),
            reader: PointReader::new(),
        }
    }
}

impl BitmapState {
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

/// Read-stream callback: the next hot block of the bitmap.
#[pg_guard]
unsafe extern "C-unwind" fn next_block(
    _stream: *mut pg_sys::ReadStream,
    private: *mut std::ffi::c_void,
    per_buffer: *mut std::ffi::c_void,
) -> pg_sys::BlockNumber {
    // SAFETY: `private` is the scan, `per_buffer` room for one TBMIterateResult.
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
                let cold = ColdBlock {
                    block,
                    offsets: (!(*result).lossy).then(|| offsets_of(result)),
                    recheck: (*result).recheck,
                };
                scan.state().bitmap.cold.push_back(cold);
                continue;
            }
            // As in heap: pages that appeared after the scan began cannot hold visible rows.
            if block >= (*scan.heap.cast::<pg_sys::HeapScanDescData>()).rs_nblocks {
                continue;
            }
            return block;
        }
    }
}

unsafe fn offsets_of(result: *mut pg_sys::TBMIterateResult) -> Vec<u16> {
    let mut offsets = [0_u16; MAX_OFFSETS];
    // SAFETY: room for as many offsets as a page can have.
    let count =
        unsafe { pg_sys::tbm_extract_page_tuple(result, offsets.as_mut_ptr(), MAX_OFFSETS as u32) };
    offsets[..count as usize].to_vec()
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_bitmap_next_tuple(
    scan: pg_sys::TableScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    recheck: *mut bool,
    lossy_pages: *mut u64,
    exact_pages: *mut u64,
) -> bool {
    // SAFETY: the scan is ours; the bitmap was set by the node.
    unsafe {
        let scan = ours(scan);
        loop {
            if next_hot(scan, slot) {
                if moved::hides_hot(scan.base.rs_rd, slot, scan.base.rs_snapshot) {
                    continue;
                }
                *recheck = scan.state().bitmap.recheck;
                count_rows_fetched(scan.base.rs_rd, 1);
                return true;
            }
            if !scan.state().bitmap.hot_done {
                load_next_page(scan, lossy_pages, exact_pages);
                continue;
            }
            let found = next_cold(scan, slot, recheck, lossy_pages, exact_pages);
            if found {
                count_rows_fetched(scan.base.rs_rd, 1);
            }
            return found;
        }
    }
}

/// The next visible row of the current hot page.
unsafe fn next_hot(scan: &mut HowdahScan, slot: *mut pg_sys::TupleTableSlot) -> bool {
    let rel = scan.base.rs_rd;
    let state = &mut scan.state().bitmap;
    let Some(&offset) = state.visible.get(state.next_visible) else {
        return false;
    };
    state.next_visible += 1;
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

/// Reads the next hot page of the bitmap and finds its visible rows.
unsafe fn load_next_page(scan: &mut HowdahScan, lossy_pages: *mut u64, exact_pages: *mut u64) {
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
        state.visible.clear();
        state.next_visible = 0;
        let mut per_buffer = std::ptr::null_mut();
        // The callback borrows the state anew.
        let stream = state.stream;
        let buffer = pg_sys::read_stream_next_buffer(stream, &mut per_buffer);
        let state = &mut (*private).state().bitmap;
        if buffer == 0 {
            state.hot_done = true;
            return;
        }
        let result = per_buffer.cast::<pg_sys::TBMIterateResult>();
        state.buffer = buffer;
        state.block = (*result).blockno;
        state.recheck = (*result).recheck;
        pg_sys::heap_page_prune_opt(rel, buffer);
        let offsets = (!(*result).lossy).then(|| offsets_of(result));
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        match offsets {
            Some(offsets) => {
                *exact_pages += 1;
                for offset in offsets {
                    let mut tid = tid_of(state.block, offset);
                    let mut tuple = pg_sys::HeapTupleData::default();
                    if pg_sys::heap_hot_search_buffer(
                        &mut tid,
                        rel,
                        buffer,
                        snapshot,
                        &mut tuple,
                        std::ptr::null_mut(),
                        true,
                    ) {
                        state.visible.push(tid.ip_posid);
                    }
                }
            }
            None => {
                *lossy_pages += 1;
                visible_on_page(rel, snapshot, buffer, state);
            }
        }
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
    }
}

/// Every visible row of a share-locked page; HOT chains need no following, each version is
/// judged by itself.
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
                state.visible.push(offset);
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

/// The next visible row of the cold blocks put aside.
unsafe fn next_cold(
    scan: &mut HowdahScan,
    slot: *mut pg_sys::TupleTableSlot,
    recheck: *mut bool,
    lossy_pages: *mut u64,
    exact_pages: *mut u64,
) -> bool {
    let rel = scan.base.rs_rd;
    let snapshot = scan.base.rs_snapshot;
    let state = &mut scan.state().bitmap;
    if state.cold.is_empty() && state.cold_rows.is_empty() {
        return false;
    }
    // SAFETY: relation and snapshot are valid while the scan is open.
    unsafe {
        let Some(store) = ColdStore::open(rel, pg_sys::AccessShareLock) else {
            return false;
        };
        loop {
            while let Some(row) = state.cold_rows.pop_front() {
                pgrx::check_for_interrupts!();
                if state.reader.fetch_from(&store, rel, row, snapshot, slot) {
                    last_row::remember(slot);
                    *recheck = state.recheck;
                    return true;
                }
            }
            let Some(block) = state.cold.pop_front() else {
                return false;
            };
            state.recheck = block.recheck;
            let offsets = match block.offsets {
                Some(offsets) => {
                    *exact_pages += 1;
                    offsets
                }
                None => {
                    *lossy_pages += 1;
                    (1..=256).collect()
                }
            };
            state.cold_rows.extend(
                offsets
                    .into_iter()
                    .filter_map(|o| RowNumber::from_tid(&tid_of(block.block, o))),
            );
        }
    }
}
