//! Sequential and TID-range scans.
//!
//! ```text
//!   HowdahScan { base, heap ──> heap's own scan descriptor, state ──> ColdCursor, … }
//!
//!            forwards                        backwards
//!   Hot ── heap exhausted ──> Cold    Hot <── before first cold row ── Cold
//! ```
//!
//! Heap's descriptor is never copied or moved (its read stream points at it); the core sees the
//! outer one. A heap scan that has passed an end starts over at that end when the direction
//! changes, which is exactly what the hand-over between the sides needs.
//!
//! A serializable scan takes a relation-level predicate lock: heap does so for its sequential
//! scans, and the same lock covers the cold side; [`super::serializable`] describes the other kinds
//! of reads.

use std::mem::size_of;
use std::sync::atomic::{AtomicU32, Ordering};

use howdah_bridge::ffi::{quiet, unguarded};
use howdah_bridge::hot::scan::HotScan;
use howdah_bridge::index_build::OuterScan;
use howdah_bridge::memory::{self, allocate_zeroed};
use howdah_bridge::predicate::lock_relation;
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::Table;
use howdah_bridge::tid::{RowNumber, is_cold};
use pgrx::{PgMemoryContexts, pg_guard, pg_sys};

use super::heap;
use super::serializable::announce;
use crate::cursor::{ColdCursor, SharedNext};
use crate::store::pending_groups;
use crate::store::view::{ColdView, Wanted};
use crate::store::visibility::{moved, moved_changes};

/// Which side a scan is reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Hot,
    Cold,
    /// Behind the last hot row, if no cold row follows.
    End,
}

/// The scan descriptor; the core knows `base` only.
#[repr(C)]
pub struct HowdahScan {
    pub base: pg_sys::TableScanDescData,
    pub heap: pg_sys::TableScanDesc,
    side: Option<Side>,
    /// Whether the scan is known to see no cold row.
    nothing_cold: bool,
    /// Whether hot rows that the snapshot sees must be followed; see [`moved`].
    follows: bool,
    /// Made when it is first needed: a scan of hot rows alone needs none.
    state: *mut ScanState,
}

/// The part of a scan's state that lives in Rust memory; dropped with the scan or with its memory
/// context.
#[derive(Default)]
pub struct ScanState {
    /// Its snapshot is the scan's, which outlives it.
    cursor: Option<ColdCursor<'static>>,
    tid_range: Option<(pg_sys::ItemPointerData, pg_sys::ItemPointerData)>,
    pub bitmap: super::bitmap::BitmapState,
    pub sample: super::sample::SampleState,
    pub analyze: super::analyze::AnalyzeState,
}

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.scan_begin = Some(scan_begin);
    am.scan_end = Some(scan_end);
    am.scan_rescan = Some(scan_rescan);
    am.scan_getnextslot = Some(scan_getnextslot);
    am.scan_set_tidrange = Some(scan_set_tidrange);
    am.scan_getnextslot_tidrange = Some(scan_getnextslot_tidrange);
    am.parallelscan_estimate = Some(parallelscan_estimate);
    am.parallelscan_initialize = Some(parallelscan_initialize);
    am.parallelscan_reinitialize = Some(parallelscan_reinitialize);
}

/// Casts a descriptor that `scan_begin` made.
///
/// # Safety
/// `scan` was made by [`scan_begin`] and not ended.
pub unsafe fn ours<'a>(scan: pg_sys::TableScanDesc) -> &'a mut HowdahScan {
    // SAFETY: `base` is the first field of a HowdahScan.
    unsafe { &mut *scan.cast::<HowdahScan>() }
}

impl HowdahScan {
    pub fn state(&mut self) -> &mut ScanState {
        // SAFETY: lives as long as the scan's memory context; the core never runs two callbacks of
        // one scan at a time.
        unsafe {
            if self.state.is_null() {
                let scan = std::ptr::from_mut(self).cast();
                let mut memory = PgMemoryContexts::For(quiet::GetMemoryChunkContext(scan));
                self.state = memory.leak_and_drop_on_delete(ScanState::default());
            }
            &mut *self.state
        }
    }

    /// Drops what was made for the scan so far, except the cursor, which is returned.
    fn start_anew(&mut self) -> Option<ColdCursor<'static>> {
        self.side = None;
        if self.state.is_null() {
            return None;
        }
        let state = self.state();
        // SAFETY: the scan is open.
        unsafe { state.bitmap.release() };
        std::mem::take(state).cursor
    }

    /// Heap's descriptor, with the current snapshot: the core may have exchanged it.
    pub fn heap(&mut self) -> pg_sys::TableScanDesc {
        // SAFETY: heap's descriptor lives as long as ours.
        unsafe { (*self.heap).rs_snapshot = self.base.rs_snapshot };
        self.heap
    }

    /// Moves to the first row of the cold side.
    ///
    /// # Safety
    /// The scan is open.
    unsafe fn cross_over(&mut self) {
        // SAFETY: as for this function.
        unsafe {
            if self.state.is_null() && !self.nothing_cold {
                let view = self.view();
                self.nothing_cold = view.is_empty();
                if !self.nothing_cold {
                    self.make_cursor(view);
                }
            }
            if self.nothing_cold {
                self.side = Some(Side::End);
                return;
            }
            self.cursor().rewind();
            self.side = Some(Side::Cold);
        }
    }

    /// Runs `make` in the memory that lives as long as the scan.
    fn in_its_memory<R>(&mut self, make: impl FnOnce(&mut HowdahScan) -> R) -> R {
        // SAFETY: the scan was allocated there.
        unsafe {
            let context = quiet::GetMemoryChunkContext(std::ptr::from_mut(self).cast());
            let old = pg_sys::MemoryContextSwitchTo(context);
            let made = make(self);
            pg_sys::MemoryContextSwitchTo(old);
            made
        }
    }

    /// Whether this transaction has changed the hot row in the slot where it is now; see [`moved`].
    ///
    /// # Safety
    /// The scan is open, with a snapshot; the slot holds a row that it has just read.
    pub(super) unsafe fn hides_hot(&self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: relation and snapshot are valid while the scan is open.
        unsafe {
            let snapshot = Snapshot::from_raw(self.base.rs_snapshot);
            moved::hides_hot(
                Table::from_raw(self.base.rs_rd),
                Slot::from_raw(slot),
                snapshot,
            )
        }
    }

    /// What the scan sees of the cold side.
    ///
    /// # Safety
    /// The scan is open.
    unsafe fn view(&mut self) -> ColdView<'static> {
        // SAFETY: relation and snapshot are valid while the scan is open, and so long the view is
        // used.
        self.in_its_memory(|scan| unsafe {
            let snapshot = Snapshot::from_raw(scan.base.rs_snapshot);
            ColdView::of(Table::from_raw(scan.base.rs_rd), snapshot)
        })
    }

    fn make_cursor(&mut self, view: ColdView<'static>) {
        let parallel = self.base.rs_parallel;
        // SAFETY: the shared descriptor outlives the scan.
        let shared =
            (!parallel.is_null()).then(|| unsafe { SharedNext::new(shared_counter(parallel)) });
        let cursor = self.in_its_memory(|_| ColdCursor::new(view, Wanted::All, shared));
        self.state().cursor = Some(cursor);
    }

    /// The cursor over the cold side, made on first use.
    ///
    /// # Safety
    /// The scan is open.
    unsafe fn cursor(&mut self) -> &mut ColdCursor<'static> {
        if self.state().cursor.is_none() {
            // SAFETY: as for this function.
            let view = unsafe { self.view() };
            self.make_cursor(view);
        }
        let Some(cursor) = &mut self.state().cursor else {
            unreachable!("it has just been made")
        };
        cursor
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_begin(
    rel: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    nkeys: i32,
    key: *mut pg_sys::ScanKeyData,
    pscan: pg_sys::ParallelTableScanDesc,
    flags: u32,
) -> pg_sys::TableScanDesc {
    // SAFETY: arguments come from the core; heap's callback gets them without the one flag that
    // this callback handles itself.
    unsafe {
        // ANALYZE scans without one.
        let seen_by = Snapshot::from_nullable(snapshot);
        let reads_by_tid =
            pg_sys::ScanOptions::SO_TYPE_BITMAPSCAN | pg_sys::ScanOptions::SO_TYPE_TIDSCAN;
        if let Some(snapshot) = seen_by {
            let table = Table::from_raw(rel);
            if flags & pg_sys::ScanOptions::SO_TYPE_TIDRANGESCAN != 0 {
                lock_relation(table, snapshot);
            } else if flags & reads_by_tid != 0 {
                announce(table, snapshot);
            }
        }
        let inner = (heap().scan_begin.unwrap_unchecked())(
            rel,
            snapshot,
            nkeys,
            key,
            pscan,
            flags & !pg_sys::ScanOptions::SO_TEMP_SNAPSHOT,
        );
        let scan = allocate_zeroed(size_of::<HowdahScan>()).cast::<HowdahScan>();
        (*scan).base = *inner;
        (*scan).base.rs_flags = flags;
        (*scan).heap = inner;
        (*scan).side = None;
        (*scan).nothing_cold = false;
        (*scan).follows = seen_by.is_some_and(moved_changes::may_hide);
        &mut (*scan).base
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_end(scan: pg_sys::TableScanDesc) {
    // SAFETY: made by scan_begin. The state's memory is freed with its context; what it holds is
    // released now.
    unsafe {
        let ours = ours(scan);
        let inner = ours.heap();
        drop(ours.start_anew());
        (heap().scan_end.unwrap_unchecked())(inner);
        if ours.base.rs_flags & pg_sys::ScanOptions::SO_TEMP_SNAPSHOT != 0 {
            pg_sys::UnregisterSnapshot(ours.base.rs_snapshot);
        }
        memory::free(scan.cast());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_rescan(
    scan: pg_sys::TableScanDesc,
    key: *mut pg_sys::ScanKeyData,
    set_params: bool,
    allow_strat: bool,
    allow_sync: bool,
    allow_pagemode: bool,
) {
    // SAFETY: made by scan_begin.
    unsafe {
        let ours = ours(scan);
        let inner = ours.heap();
        (heap().scan_rescan.unwrap_unchecked())(
            inner,
            key,
            set_params,
            allow_strat,
            allow_sync,
            allow_pagemode,
        );
        let keep = ours.start_anew();
        // The snapshot stays the same over a rescan, unless it is not an MVCC one.
        let seen_by = Snapshot::from_nullable(ours.base.rs_snapshot);
        let mvcc = seen_by.is_some_and(Snapshot::is_mvcc);
        let is_same_view = mvcc && !pending_groups::any();
        ours.nothing_cold &= is_same_view;
        ours.follows = seen_by.is_some_and(moved_changes::may_hide);
        if is_same_view && let Some(mut cursor) = keep {
            cursor.rewind();
            ours.state().cursor = Some(cursor);
        }
    }
}

/// Runs once per row of the hot side, hence without a guard: as long as heap returns rows it calls
/// nothing that can panic and holds nothing that has a destructor, so PostgreSQL's errors may jump
/// over it.
///
/// # Safety
/// Called by the executor: the scan was begun and not ended; the slot is one of its relation.
unsafe extern "C-unwind" fn scan_getnextslot(
    scan: pg_sys::TableScanDesc,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: made by scan_begin; `slot` fits the relation.
    unsafe {
        let ours = scan.cast::<HowdahScan>();
        let forward = direction == pg_sys::ScanDirection::ForwardScanDirection;
        if forward && (*ours).side.is_none() {
            (*ours).side = Some(Side::Hot);
        }
        if forward && (*ours).side == Some(Side::Hot) && !(*ours).follows {
            (*(*ours).heap).rs_snapshot = (*ours).base.rs_snapshot;
            if unguarded::heap_getnextslot((*ours).heap, direction, slot) {
                return true;
            }
            cross_over(scan);
        }
        next_of_either_side(scan, direction, slot)
    }
}

/// Heap has no more rows: moves to the cold side.
#[pg_guard]
unsafe extern "C-unwind" fn cross_over(scan: pg_sys::TableScanDesc) {
    // SAFETY: made by scan_begin.
    unsafe { ours(scan).cross_over() }
}

#[pg_guard]
unsafe extern "C-unwind" fn next_of_either_side(
    scan: pg_sys::TableScanDesc,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: made by scan_begin; `slot` fits the relation.
    unsafe {
        let next_hot = heap().scan_getnextslot.unwrap_unchecked();
        next_slot(scan, direction, slot, next_hot, None)
    }
}

type NextHot = unsafe extern "C-unwind" fn(
    pg_sys::TableScanDesc,
    pg_sys::ScanDirection::Type,
    *mut pg_sys::TupleTableSlot,
) -> bool;

type TidRange = (pg_sys::ItemPointerData, pg_sys::ItemPointerData);

/// Both kinds of scan: hot rows by `next_hot`, cold rows within `range`.
///
/// # Safety
/// The scan was begun and not ended; the slot is one of its relation.
unsafe fn next_slot(
    scan: pg_sys::TableScanDesc,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
    next_hot: NextHot,
    range: Option<TidRange>,
) -> bool {
    // SAFETY: as for the callers.
    unsafe {
        let ours = ours(scan);
        let forward = direction != pg_sys::ScanDirection::BackwardScanDirection;
        let first = if forward { Side::Hot } else { Side::Cold };
        let mut side = *ours.side.get_or_insert(first);
        if side == Side::End && !forward {
            side = Side::Cold;
            ours.side = Some(side);
        }
        if side == Side::Cold && !forward && ours.state().cursor.is_none() {
            ours.cursor().move_to_end();
        }
        if side == Side::Hot {
            if next_seen(ours, direction, slot, next_hot) {
                return true;
            }
            if !forward {
                return false;
            }
            ours.cross_over();
        }
        if ours.side == Some(Side::End) {
            howdah_bridge::slot::clear(slot);
            return false;
        }
        let table = Table::from_raw(ours.base.rs_rd);
        loop {
            let cursor = ours.cursor();
            let row = if forward {
                cursor.next(table)
            } else {
                cursor.previous(table)
            };
            let Some(row) = row else { break };
            if range.is_some_and(|range| !inside(row, range)) {
                continue;
            }
            if !cursor.ask_dirty_snapshot(table) {
                continue;
            }
            cursor.store(table, Slot::from_raw(slot));
            table.count_rows_read(1);
            if ours.base.rs_nkeys > 0 && !satisfies_keys(&ours.base, slot) {
                continue;
            }
            return true;
        }
        if forward {
            howdah_bridge::slot::clear(slot);
            return false;
        }
        ours.side = Some(Side::Hot);
        next_seen(ours, direction, slot, next_hot)
    }
}

/// The next hot row that this transaction has not changed at its current place.
///
/// # Safety
/// The scan was begun and not ended; the slot is one of its relation.
unsafe fn next_seen(
    scan: &mut HowdahScan,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
    next_hot: NextHot,
) -> bool {
    // SAFETY: as for the callers.
    unsafe {
        while next_hot(scan.heap(), direction, slot) {
            if !scan.follows || !scan.hides_hot(slot) {
                return true;
            }
        }
        false
    }
}

/// # Safety
/// The scan was begun and not ended; the slot holds a row of its relation.
unsafe fn satisfies_keys(
    base: &pg_sys::TableScanDescData,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the core passed `rs_nkeys` keys that live as long as the scan.
    unsafe {
        pg_sys::slot_getallattrs(slot);
        (0..base.rs_nkeys as usize).all(|i| {
            let key = &mut *base.rs_key.add(i);
            let at = key.sk_attno as usize - 1;
            if key.sk_flags & pg_sys::SK_ISNULL as i32 != 0 || *(*slot).tts_isnull.add(at) {
                return false;
            }
            let value = *(*slot).tts_values.add(at);
            pg_sys::FunctionCall2Coll(&mut key.sk_func, key.sk_collation, value, key.sk_argument)
                .value()
                != 0
        })
    }
}

fn inside(row: RowNumber, (low, high): TidRange) -> bool {
    let mut tid = row.tid().raw();
    let (mut low, mut high) = (low, high);
    // SAFETY: three valid pointers.
    unsafe {
        pg_sys::ItemPointerCompare(&mut tid, &mut low) >= 0
            && pg_sys::ItemPointerCompare(&mut tid, &mut high) <= 0
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_set_tidrange(
    scan: pg_sys::TableScanDesc,
    mintid: pg_sys::ItemPointer,
    maxtid: pg_sys::ItemPointer,
) {
    // SAFETY: made by scan_begin; heap clips the range to its blocks and keeps its own copy.
    unsafe {
        let ours = ours(scan);
        (heap().scan_set_tidrange.unwrap_unchecked())(ours.heap(), mintid, maxtid);
        let state = ours.state();
        state.tid_range = Some((*mintid, *maxtid));
        state.cursor = None;
        ours.side = None;
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_getnextslot_tidrange(
    scan: pg_sys::TableScanDesc,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: made by scan_begin; the range was set before.
    unsafe {
        let next_hot = heap().scan_getnextslot_tidrange.unwrap_unchecked();
        let ours_scan = ours(scan);
        let range = ours_scan.state().tid_range;
        match range {
            // Nothing cold lies in a range that ends on the hot side.
            Some((_, high))
                if !is_cold(&high)
                    && howdah_bridge::tid::block_of(&high) != pg_sys::InvalidBlockNumber =>
            {
                next_seen(ours_scan, direction, slot, next_hot)
            }
            _ => next_slot(scan, direction, slot, next_hot, range),
        }
    }
}

const SHARED_OFFSET: usize =
    size_of::<pg_sys::ParallelBlockTableScanDescData>().next_multiple_of(8);
const SHARED_BYTES: usize = SHARED_OFFSET + 8;

/// # Safety
/// The descriptor has the size that `parallelscan_estimate` has requested.
unsafe fn shared_counter(pscan: pg_sys::ParallelTableScanDesc) -> *const AtomicU32 {
    // SAFETY: parallelscan_estimate requested SHARED_BYTES.
    unsafe { pscan.cast::<u8>().add(SHARED_OFFSET).cast::<AtomicU32>() }
}

/// The counter that hands out cold groups to the participants of a parallel scan.
pub fn shared_groups(scan: OuterScan<'_>) -> Option<SharedNext> {
    // SAFETY: the scan is one of ours and open; the shared descriptor outlives it.
    unsafe {
        let parallel = (*scan.raw()).rs_parallel;
        (!parallel.is_null()).then(|| SharedNext::new(shared_counter(parallel)))
    }
}

/// Heap's scan inside one of ours.
pub fn inner_of(scan: OuterScan<'_>) -> HotScan<'_> {
    // SAFETY: the scan is one of ours and open; heap's descriptor lives as long.
    unsafe { HotScan::from_raw(ours(scan.raw()).heap()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn parallelscan_estimate(_rel: pg_sys::Relation) -> pg_sys::Size {
    SHARED_BYTES
}

#[pg_guard]
unsafe extern "C-unwind" fn parallelscan_initialize(
    rel: pg_sys::Relation,
    pscan: pg_sys::ParallelTableScanDesc,
) -> pg_sys::Size {
    // SAFETY: `pscan` has SHARED_BYTES.
    unsafe {
        crate::load::flush_relation((*rel).rd_id);
        (heap().parallelscan_initialize.unwrap_unchecked())(rel, pscan);
        (*shared_counter(pscan)).store(0, Ordering::Relaxed);
        SHARED_BYTES
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn parallelscan_reinitialize(
    rel: pg_sys::Relation,
    pscan: pg_sys::ParallelTableScanDesc,
) {
    // SAFETY: `pscan` has SHARED_BYTES; no worker runs meanwhile.
    unsafe {
        (heap().parallelscan_reinitialize.unwrap_unchecked())(rel, pscan);
        (*shared_counter(pscan)).store(0, Ordering::Relaxed);
    }
}
