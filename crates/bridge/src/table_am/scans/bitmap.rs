//! Bitmap heap scans over both sides: `scan_bitmap_next_tuple`.
//!
//! A bitmap returns its blocks in order, and cold blocks are numbered above all hot ones. So one
//! read stream over the hot blocks keeps heap's prefetching and ends at the first cold block; from
//! then on cold blocks are taken from the bitmap one at a time, and the access method is asked for
//! each of their rows.
//!
//! ```text
//!   bitmap ──> next_block (stream callback) ──> read stream ──> visible rows of the page
//!      │                 └─ the first cold block ends the stream ─┐
//!      └────────────────── further cold blocks ───────────────────┴──> BitmapScans::fetch_cold
//! ```
//!
//! A scan therefore holds one page of the bitmap at a time, on both sides. Participants of a
//! parallel scan take blocks from one shared iterator, which gives each block to one of them; a
//! participant whose stream has met a cold block keeps that block and reads it after its hot pages.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;

use pgrx::{pg_guard, pg_sys};

use super::{OpenScan, TableScans};
use crate::ffi::{self, quiet};
use crate::hot::xmin_of;
use crate::late_slot;
use crate::predicate::is_serializable;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::table_am::Routine;
use crate::tid::{BlockNumber, FIRST_COLD_BLOCK, INVALID_BLOCK, ROWS_PER_COLD_BLOCK, Tid, tid_of};

/// Bitmap scans of tables.
pub trait BitmapScans: TableScans {
    /// Whether the hot row in the slot, which the scan's snapshot sees, is to be passed over.
    fn hides_hot(scan: &OpenScan<'_, Self>, slot: Slot<'_>) -> bool;

    /// Stores the row at a cold TID in the slot, if there is one and the scan's snapshot sees it.
    /// `is_rechecked` tells whether the bitmap's conditions are checked again on it.
    fn fetch_cold(
        scan: &mut OpenScan<'_, Self>,
        tid: Tid,
        slot: Slot<'_>,
        is_rechecked: bool,
    ) -> bool;
}

pub(super) fn set<A: BitmapScans>(routine: &mut Routine) {
    routine.scan_bitmap_next_tuple = Some(next_tuple::<A>);
}

/// `MaxHeapTuplesPerPage` for 8 kB pages.
const MAX_OFFSETS: usize = 291;
/// Cold blocks that are taken from the bitmap at a time.
const BLOCKS_AHEAD: usize = 16;
/// The same of a bitmap that the participants of a parallel scan share.
const SHARED_BLOCKS_AHEAD: usize = 4;
const NO_BUFFER: pg_sys::Buffer = pg_sys::InvalidBuffer as pg_sys::Buffer;

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

/// The state of a bitmap scan between rows.
///
/// Invariant: `stream` is NULL or open, and `buffer` is none or pinned, both by this scan, until
/// [`BitmapState::release`].
pub(super) struct BitmapState {
    phase: Phase,
    stream: *mut pg_sys::ReadStream,
    /// Pinned page of the current hot block.
    buffer: pg_sys::Buffer,
    /// The current block, and which of its rows are still to be returned: visible rows of a hot
    /// page, or rows of a cold block that still have to be looked up.
    block: BlockNumber,
    recheck: bool,
    offsets: Vec<u16>,
    next_offset: usize,
    /// The cold block that ended the stream, until it is read.
    first_cold: Option<pg_sys::TBMIterateResult>,
    /// Cold blocks that come next, taken from the bitmap ahead of time: the reader of a row may
    /// learn the rows after it.
    ahead: VecDeque<BlockAhead>,
}

/// A block of the bitmap.
struct BlockAhead {
    block: BlockNumber,
    recheck: bool,
    loaded: Loaded,
    offsets: Vec<u16>,
}

impl Default for BitmapState {
    fn default() -> Self {
        BitmapState {
            phase: Phase::Hot,
            stream: ptr::null_mut(),
            buffer: NO_BUFFER,
            block: 0,
            recheck: false,
            offsets: Vec::new(),
            next_offset: 0,
            first_cold: None,
            ahead: VecDeque::new(),
        }
    }
}

impl BlockAhead {
    /// Every row of the block is meant if the bitmap does not name them.
    ///
    /// # Safety
    /// As [`BitmapState::begin_block`], of a cold block.
    unsafe fn of(result: *mut pg_sys::TBMIterateResult) -> BlockAhead {
        let mut offsets = Vec::new();
        // SAFETY: as for this function.
        unsafe {
            let loaded = extract(result, &mut offsets);
            if loaded == Loaded::Lossy {
                offsets.extend(1..=ROWS_PER_COLD_BLOCK as u16);
            }
            BlockAhead {
                block: (*result).blockno,
                recheck: (*result).recheck,
                loaded,
                offsets,
            }
        }
    }
}

/// The offsets that the bitmap names of a block.
///
/// # Safety
/// As [`BitmapState::begin_block`].
unsafe fn extract(result: *mut pg_sys::TBMIterateResult, offsets: &mut Vec<u16>) -> Loaded {
    offsets.clear();
    offsets.reserve(MAX_OFFSETS);
    // SAFETY: as for this function; the array has space for as many offsets as a page can have, and
    // so many are set.
    unsafe {
        if (*result).lossy {
            return Loaded::Lossy;
        }
        let named = offsets.as_mut_ptr();
        let count = pg_sys::tbm_extract_page_tuple(result, named, MAX_OFFSETS as u32);
        offsets.set_len((count.max(0) as usize).min(MAX_OFFSETS));
    }
    Loaded::Exact
}

impl BitmapState {
    fn next_offset(&mut self) -> Option<u16> {
        let offset = self.offsets.get(self.next_offset).copied();
        self.next_offset += usize::from(offset.is_some());
        offset
    }

    /// The rows of cold blocks that come next.
    pub(super) fn upcoming(&self) -> impl Iterator<Item = Tid> {
        let rest = self.offsets.get(self.next_offset..).unwrap_or_default();
        let rest = rest.iter().map(|&offset| Tid::new(self.block, offset));
        let ahead = self.ahead.iter().flat_map(|ahead| {
            let offsets = ahead.offsets.iter();
            offsets.map(|&offset| Tid::new(ahead.block, offset))
        });
        rest.chain(ahead)
    }

    /// Moves to a block of the bitmap, with the offsets that the bitmap names.
    ///
    /// # Safety
    /// `result` comes from the scan's bitmap, which has not been freed.
    unsafe fn begin_block(&mut self, result: *mut pg_sys::TBMIterateResult) -> Loaded {
        self.next_offset = 0;
        // SAFETY: as for this function.
        unsafe {
            self.block = (*result).blockno;
            self.recheck = (*result).recheck;
            extract(result, &mut self.offsets)
        }
    }

    fn unpin(&mut self) {
        if self.buffer != NO_BUFFER {
            // SAFETY: pinned by this scan, by the invariant of the type, and released once.
            unsafe { quiet::ReleaseBuffer(self.buffer) }
            self.buffer = NO_BUFFER;
        }
    }

    /// Releases the pins of a scan that is ended or restarted.
    pub(super) fn release(&mut self) {
        self.unpin();
        if !self.stream.is_null() {
            // SAFETY: begun by this scan, by the invariant of the type, and ended once.
            unsafe { pg_sys::read_stream_end(self.stream) }
            self.stream = ptr::null_mut();
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn next_tuple<A: BitmapScans>(
    scan: pg_sys::TableScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    recheck: *mut bool,
    lossy_pages: *mut u64,
    exact_pages: *mut u64,
) -> bool {
    // SAFETY: the scan was begun for `A`, and not ended; its bitmap was set by the node, which
    // passes a slot of the relation's and variables of its own.
    unsafe {
        let (mut scan, slot) = (OpenScan::<A>::from_raw(scan), Slot::from_raw(slot));
        late_slot::make_ready(slot);
        loop {
            let phase = scan.bitmap().phase;
            let loaded = match phase {
                Phase::Hot if next_hot(&mut scan, slot) => {
                    if A::hides_hot(&scan, slot) {
                        continue;
                    }
                    break;
                }
                Phase::Hot => load_next_page(&mut scan),
                Phase::Cold if next_cold(&mut scan, slot) => break,
                Phase::Cold => load_next_cold_block(&mut scan),
                Phase::Done => return false,
            };
            match loaded {
                Some(Loaded::Exact) => *exact_pages += 1,
                Some(Loaded::Lossy) => *lossy_pages += 1,
                None => {}
            }
        }
        *recheck = scan.bitmap().recheck;
        scan.table().count_rows_fetched(1);
        true
    }
}

/// Read-stream callback: the next hot block of the bitmap. Runs ahead of the rows that are
/// returned.
#[pg_guard]
unsafe extern "C-unwind" fn next_block<A: BitmapScans>(
    _stream: *mut pg_sys::ReadStream,
    scan: *mut c_void,
    per_buffer: *mut c_void,
) -> BlockNumber {
    // SAFETY: `scan` is the scan that has begun the stream, which borrows no state of it while it
    // asks for a page; `per_buffer` has space for one result.
    unsafe {
        let mut scan = OpenScan::<A>::from_raw(scan.cast());
        let result = per_buffer.cast::<pg_sys::TBMIterateResult>();
        loop {
            crate::check_for_interrupts!();
            if !pg_sys::tbm_iterate(&mut (*scan.raw()).base.st.rs_tbmiterator, result) {
                return INVALID_BLOCK;
            }
            let block = (*result).blockno;
            if block >= FIRST_COLD_BLOCK {
                // The result points into the bitmap, which the node keeps until the scan is ended
                // or restarted.
                scan.bitmap().first_cold = Some(*result);
                return INVALID_BLOCK;
            }
            // As in heap: pages that were added after the scan began cannot hold visible rows, but
            // a serializable transaction must notice the transactions that wrote them.
            let known = (*(*scan.raw()).heap.cast::<pg_sys::HeapScanDescData>()).rs_nblocks;
            if block >= known && !is_serializable() {
                continue;
            }
            return block;
        }
    }
}

/// The next visible row of the current hot page.
fn next_hot<A: BitmapScans>(scan: &mut OpenScan<'_, A>, slot: Slot<'_>) -> bool {
    let table = scan.table();
    let state = scan.bitmap();
    let Some(offset) = state.next_offset() else {
        return false;
    };
    let slot = slot.raw();
    // SAFETY: the page is pinned, so the line pointers of visible rows stay normal; the slot, which
    // is of heap's kind, takes a pin of its own.
    unsafe {
        let page = pg_sys::BufferGetPage(state.buffer);
        let new = tuple_at(table, page, state.block, offset);
        let buffer_slot = slot.cast::<pg_sys::BufferHeapTupleTableSlot>();
        let tuple = &mut (*buffer_slot).base.tupdata;
        pg_sys::ExecClearTuple(slot);
        *tuple = new;
        pg_sys::ExecStoreBufferHeapTuple(tuple, slot, state.buffer);
    }
    true
}

/// The tuple at a line pointer.
///
/// # Safety
/// `page` is that of the block, and pinned; the line pointer is normal.
unsafe fn tuple_at(
    table: Table<'_>,
    page: pg_sys::Page,
    block: BlockNumber,
    offset: u16,
) -> pg_sys::HeapTupleData {
    // SAFETY: as for this function.
    unsafe {
        let item = pg_sys::PageGetItemId(page, offset);
        pg_sys::HeapTupleData {
            t_len: (*item).lp_len(),
            t_self: tid_of(block, offset),
            t_tableOid: table.oid(),
            t_data: pg_sys::PageGetItem(page, item).cast(),
        }
    }
}

/// Reads the next hot page of the bitmap and finds its visible rows. After the end of the stream
/// come the cold blocks.
fn load_next_page<A: BitmapScans>(scan: &mut OpenScan<'_, A>) -> Option<Loaded> {
    let (table, snapshot) = (scan.table(), scan.snapshot());
    if scan.bitmap().stream.is_null() {
        scan.bitmap().stream = scan.in_memory(|| begin_stream(scan));
    }
    scan.bitmap().unpin();
    let stream = scan.bitmap().stream;
    let mut result = ptr::null_mut();
    // SAFETY: the stream is open. Its callback borrows the state anew; nothing borrows it here.
    let buffer = unsafe { pg_sys::read_stream_next_buffer(stream, &mut result) };
    let state = scan.bitmap();
    if buffer == NO_BUFFER {
        state.phase = match state.first_cold {
            Some(_) => Phase::Cold,
            None => Phase::Done,
        };
        return None;
    }
    state.buffer = buffer;
    // SAFETY: the stream returns the result with its page, which it has pinned for us. The share
    // lock is held while the page is examined.
    unsafe {
        let loaded = state.begin_block(result.cast());
        pg_sys::heap_page_prune_opt(table.raw(), buffer);
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        match loaded {
            Loaded::Exact => keep_visible(table, snapshot, state),
            Loaded::Lossy => visible_on_page(table, snapshot, state),
        }
        quiet::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
        Some(loaded)
    }
}

/// Begins the read stream of a bitmap scan, in the current memory context.
fn begin_stream<A: BitmapScans>(scan: &OpenScan<'_, A>) -> *mut pg_sys::ReadStream {
    let (table, scan) = (scan.table(), scan.raw());
    // SAFETY: relation and scan are open until the stream is ended, which is before the scan is.
    unsafe {
        let heap = (*scan).heap.cast::<pg_sys::HeapScanDescData>();
        pg_sys::read_stream_begin_relation(
            pg_sys::READ_STREAM_DEFAULT as i32,
            (*heap).rs_strategy,
            table.raw(),
            pg_sys::ForkNumber::MAIN_FORKNUM,
            Some(next_block::<A>),
            scan.cast(),
            size_of::<pg_sys::TBMIterateResult>(),
        )
    }
}

/// Keeps the offsets that lead to a visible row, whose own offset takes their place.
///
/// # Safety
/// The state's page is pinned and share-locked.
unsafe fn keep_visible(table: Table<'_>, snapshot: Snapshot<'_>, state: &mut BitmapState) {
    let (block, buffer) = (state.block, state.buffer);
    state.offsets.retain_mut(|offset| {
        let mut tid = tid_of(block, *offset);
        let mut tuple = pg_sys::HeapTupleData::default();
        // SAFETY: as for this function; table and snapshot are valid.
        let is_visible = unsafe {
            pg_sys::heap_hot_search_buffer(
                &mut tid,
                table.raw(),
                buffer,
                snapshot.raw(),
                &mut tuple,
                ptr::null_mut(),
                true,
            )
        };
        *offset = tid.ip_posid;
        is_visible
    });
}

/// Finds every visible row of a page. HOT chains are not followed: the visibility of each version
/// is checked by itself.
///
/// # Safety
/// The state's page is pinned and share-locked.
unsafe fn visible_on_page(table: Table<'_>, snapshot: Snapshot<'_>, state: &mut BitmapState) {
    let (rel, snapshot, buffer) = (table.raw(), snapshot.raw(), state.buffer);
    // SAFETY: as for this function; table and snapshot are valid.
    unsafe {
        let page = pg_sys::BufferGetPage(buffer);
        for offset in 1..=pg_sys::PageGetMaxOffsetNumber(page) {
            let item = pg_sys::PageGetItemId(page, offset);
            if (*item).lp_flags() != pg_sys::LP_NORMAL {
                continue;
            }
            let mut tuple = tuple_at(table, page, state.block, offset);
            let valid = pg_sys::HeapTupleSatisfiesVisibility(&mut tuple, snapshot, buffer);
            if valid {
                state.offsets.push(offset);
                let xmin = xmin_of(tuple.t_data);
                ffi::PredicateLockTID(rel, &mut tuple.t_self, snapshot, xmin);
            }
            pg_sys::HeapCheckForSerializableConflictOut(valid, rel, &mut tuple, buffer, snapshot);
        }
    }
}

/// The next visible row of the current cold block.
fn next_cold<A: BitmapScans>(scan: &mut OpenScan<'_, A>, slot: Slot<'_>) -> bool {
    loop {
        let state = scan.bitmap();
        let Some(offset) = state.next_offset() else {
            return false;
        };
        let (tid, is_rechecked) = (Tid::new(state.block, offset), state.recheck);
        crate::check_for_interrupts!();
        if A::fetch_cold(scan, tid, slot, is_rechecked) {
            return true;
        }
    }
}

/// Takes the next cold block from the bitmap, and some after it.
fn load_next_cold_block<A: BitmapScans>(scan: &mut OpenScan<'_, A>) -> Option<Loaded> {
    if scan.bitmap().ahead.is_empty() {
        let mut first = scan.bitmap().first_cold.take();
        // SAFETY: the bitmap lives until the scan is ended or restarted.
        unsafe {
            let bitmap = &raw mut (*scan.raw()).base.st.rs_tbmiterator;
            let most = match (*bitmap).shared {
                true => SHARED_BLOCKS_AHEAD,
                false => BLOCKS_AHEAD,
            };
            for _ in 0..most {
                let mut result = pg_sys::TBMIterateResult::default();
                match first.take() {
                    Some(first) => result = first,
                    None if !pg_sys::tbm_iterate(bitmap, &mut result) => break,
                    None => {}
                }
                scan.bitmap().ahead.push_back(BlockAhead::of(&mut result));
            }
        }
    }
    let state = scan.bitmap();
    let Some(next) = state.ahead.pop_front() else {
        state.phase = Phase::Done;
        return None;
    };
    (state.block, state.recheck) = (next.block, next.recheck);
    (state.offsets, state.next_offset) = (next.offsets, 0);
    Some(next.loaded)
}
