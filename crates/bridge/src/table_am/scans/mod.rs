//! Scans of tables that have hot and cold rows: `scan_…`, `parallelscan_…`.
//!
//! ```text
//!   scan_getnextslot  ── on the hot side, forwards ──▶ heap's next row, as it is
//!                     └─ else ──▶ TableScans::next
//!   scan_bitmap_…     ──▶ BitmapScans     scan_sample_…  ──▶ SampleScans
//!   scan_analyze_…    ──▶ AnalyzeScans
//! ```
//!
//! One type has all these traits, so that all callbacks agree on what an open scan remembers.

mod analyze;
mod bitmap;
mod descriptor;
mod parallel;
mod sample;

use std::ptr;

use pgrx::{pg_guard, pg_sys};

pub use analyze::AnalyzeScans;
pub use bitmap::BitmapScans;
pub use descriptor::{OpenScan, Side};
pub(crate) use descriptor::{inner_of, upcoming_rows};
pub(crate) use parallel::shared_counter;
pub use sample::{ChosenBlock, SampleMethod, SampleScans};

use descriptor::Descriptor;

use super::Routine;
use crate::ffi::unguarded;
use crate::heap_am;
use crate::hot::scan::Direction;
use crate::memory;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::tid::{RowNumber, Tid, is_cold};

/// How a scan finds its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanKind {
    /// One after the other, or a sample of them.
    Sequential,
    /// In a range of TIDs.
    TidRange,
    /// By TIDs, from a bitmap or from the query.
    ByTid,
}

impl ScanKind {
    fn of(flags: u32) -> ScanKind {
        use pg_sys::ScanOptions::{SO_TYPE_BITMAPSCAN, SO_TYPE_TIDRANGESCAN, SO_TYPE_TIDSCAN};
        if flags & SO_TYPE_TIDRANGESCAN != 0 {
            ScanKind::TidRange
        } else if flags & (SO_TYPE_BITMAPSCAN | SO_TYPE_TIDSCAN) != 0 {
            ScanKind::ByTid
        } else {
            ScanKind::Sequential
        }
    }
}

/// Scans of tables.
pub trait TableScans: Sized + 'static {
    /// What a scan remembers between callbacks. Dropped with the scan or with its memory.
    type State<'a>: Default;

    /// A scan of the table, which is locked, is about to begin.
    fn announce(table: Table<'_>, snapshot: Snapshot<'_>, kind: ScanKind);

    /// Whether hot rows that the snapshot sees may have to be passed over, so that heap's rows are
    /// not returned as they are.
    fn follows(snapshot: Snapshot<'_>) -> bool;

    /// The scan begins anew. `state` is what it had; from now on it has none.
    fn restart<'a>(scan: &mut OpenScan<'a, Self>, state: Option<Self::State<'a>>);

    /// There are no more hot rows: moves to the first cold row.
    fn leave_hot(scan: &mut OpenScan<'_, Self>);

    /// Stores the next row in the slot; `false` if there is none.
    fn next(scan: &mut OpenScan<'_, Self>, direction: Direction, slot: Slot<'_>) -> bool;

    /// The scan begins anew, for rows from `low` to `high`; heap's own scan has been told.
    fn set_range(scan: &mut OpenScan<'_, Self>, low: Tid, high: Tid);

    /// As [`TableScans::next`], in the range that was set last.
    fn next_in_range(scan: &mut OpenScan<'_, Self>, direction: Direction, slot: Slot<'_>) -> bool;

    /// The latest version of the row at `tid` that the scan's snapshot sees; `tid` if there is
    /// none.
    fn latest(scan: &mut OpenScan<'_, Self>, tid: Tid) -> Tid;

    /// A parallel scan of the table is about to begin.
    fn before_parallel(table: Table<'_>);
}

/// Has tables scanned by `A`.
pub fn set_scans<A: BitmapScans + SampleScans + AnalyzeScans>(routine: &mut Routine) {
    routine.scan_begin = Some(begin::<A>);
    routine.scan_end = Some(end::<A>);
    routine.scan_rescan = Some(rescan::<A>);
    routine.scan_getnextslot = Some(next_slot::<A>);
    routine.scan_set_tidrange = Some(set_range::<A>);
    routine.scan_getnextslot_tidrange = Some(next_slot_in_range::<A>);
    routine.tuple_tid_valid = Some(is_valid_tid);
    routine.tuple_get_latest_tid = Some(latest_tid::<A>);
    parallel::set::<A>(routine);
    bitmap::set::<A>(routine);
    sample::set::<A>(routine);
    analyze::set::<A>(routine);
}

#[pg_guard]
unsafe extern "C-unwind" fn begin<A: TableScans>(
    rel: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    key_count: i32,
    keys: *mut pg_sys::ScanKeyData,
    parallel: pg_sys::ParallelTableScanDesc,
    flags: u32,
) -> pg_sys::TableScanDesc {
    // SAFETY: the server holds relation, snapshot, keys and shared descriptor valid until the scan
    // is ended. Heap's callback gets them without the one flag that this access method handles
    // itself. The fresh memory is written whole before it is used.
    unsafe {
        // ANALYZE scans without one.
        let seen_by = Snapshot::from_nullable(snapshot);
        if let Some(seen_by) = seen_by {
            A::announce(Table::from_raw(rel), seen_by, ScanKind::of(flags));
        }
        let own = flags & !pg_sys::ScanOptions::SO_TEMP_SNAPSHOT;
        let begin = heap_am::callbacks().scan_begin;
        let heap = begin(rel, snapshot, key_count, keys, parallel, own);
        let scan = memory::allocate(size_of::<Descriptor>()).cast::<Descriptor>();
        scan.write(Descriptor {
            base: *heap,
            heap,
            side: None,
            nothing_cold: false,
            follows: seen_by.is_some_and(A::follows),
            kept: ptr::null_mut(),
        });
        (*scan).base.rs_flags = flags;
        scan.cast()
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end<A: TableScans>(scan: pg_sys::TableScanDesc) {
    // SAFETY: begun by `begin`, and ended once. The state's memory is freed with its context; what
    // it holds is released now.
    unsafe {
        let mut open = OpenScan::<A>::from_raw(scan);
        let heap = Descriptor::heap(open.raw());
        drop(open.start_anew());
        (heap_am::callbacks().scan_end)(heap);
        if open.base().rs_flags & pg_sys::ScanOptions::SO_TEMP_SNAPSHOT != 0 {
            pg_sys::UnregisterSnapshot(open.base().rs_snapshot);
        }
        memory::free(scan.cast());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan<A: TableScans>(
    scan: pg_sys::TableScanDesc,
    key: *mut pg_sys::ScanKeyData,
    set_params: bool,
    allow_strat: bool,
    allow_sync: bool,
    allow_pagemode: bool,
) {
    // SAFETY: begun by `begin` for `A`, and not ended; heap copies the keys.
    unsafe {
        let mut open = OpenScan::<A>::from_raw(scan);
        let heap = Descriptor::heap(open.raw());
        let rescan = heap_am::callbacks().scan_rescan;
        rescan(
            heap,
            key,
            set_params,
            allow_strat,
            allow_sync,
            allow_pagemode,
        );
        let state = open.start_anew();
        (*open.raw()).follows = A::follows(open.snapshot());
        A::restart(&mut open, state);
    }
}

/// Runs once per row of the hot side, hence without a guard: as long as heap returns rows it calls
/// nothing that can panic and holds nothing that has a destructor, so PostgreSQL's errors may jump
/// over it.
///
/// # Safety
/// Called by the executor: the scan was begun and not ended; the slot is one of its relation.
unsafe extern "C-unwind" fn next_slot<A: TableScans>(
    scan: pg_sys::TableScanDesc,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: as for this function.
    unsafe {
        let ours = scan.cast::<Descriptor>();
        let forward = direction == pg_sys::ScanDirection::ForwardScanDirection;
        if forward && (*ours).side.is_none() {
            (*ours).side = Some(Side::Hot);
        }
        if forward && (*ours).side == Some(Side::Hot) && !(*ours).follows {
            if unguarded::heap_getnextslot(Descriptor::heap(ours), direction, slot) {
                return true;
            }
            leave_hot::<A>(scan);
        }
        next_of_either_side::<A>(scan, direction, slot)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn leave_hot<A: TableScans>(scan: pg_sys::TableScanDesc) {
    // SAFETY: begun by `begin` for `A`, and not ended.
    A::leave_hot(&mut unsafe { OpenScan::from_raw(scan) });
}

#[pg_guard]
unsafe extern "C-unwind" fn next_of_either_side<A: TableScans>(
    scan: pg_sys::TableScanDesc,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: begun by `begin` for `A`, and not ended; the slot is one of the relation's.
    let (mut scan, slot) = unsafe { (OpenScan::from_raw(scan), Slot::from_raw(slot)) };
    A::next(&mut scan, Direction::from_raw(direction), slot)
}

#[pg_guard]
unsafe extern "C-unwind" fn set_range<A: TableScans>(
    scan: pg_sys::TableScanDesc,
    low: pg_sys::ItemPointer,
    high: pg_sys::ItemPointer,
) {
    // SAFETY: begun by `begin` for `A`, and not ended. Heap clips the range to its blocks and keeps
    // a copy of its own.
    unsafe {
        let mut open = OpenScan::<A>::from_raw(scan);
        (heap_am::callbacks().scan_set_tidrange)(Descriptor::heap(open.raw()), low, high);
        A::set_range(&mut open, Tid::from_raw(*low), Tid::from_raw(*high));
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn next_slot_in_range<A: TableScans>(
    scan: pg_sys::TableScanDesc,
    direction: pg_sys::ScanDirection::Type,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: begun by `begin` for `A`, and not ended; the slot is one of the relation's.
    let (mut scan, slot) = unsafe { (OpenScan::from_raw(scan), Slot::from_raw(slot)) };
    A::next_in_range(&mut scan, Direction::from_raw(direction), slot)
}

/// A cold TID is valid if it names a row number, whether or not the row exists.
#[pg_guard]
unsafe extern "C-unwind" fn is_valid_tid(
    scan: pg_sys::TableScanDesc,
    tid: pg_sys::ItemPointer,
) -> bool {
    // SAFETY: begun by `begin`, and not ended; the TID is a variable of the server's.
    unsafe {
        if is_cold(&*tid) {
            return RowNumber::from_tid(&*tid).is_some();
        }
        (heap_am::callbacks().tuple_tid_valid)(Descriptor::heap(scan.cast()), tid)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn latest_tid<A: TableScans>(
    scan: pg_sys::TableScanDesc,
    tid: pg_sys::ItemPointer,
) {
    // SAFETY: begun by `begin` for `A`, and not ended; the TID is a variable of the server's.
    unsafe {
        let mut open = OpenScan::<A>::from_raw(scan);
        *tid = A::latest(&mut open, Tid::from_raw(*tid)).raw();
    }
}
