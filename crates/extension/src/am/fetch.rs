//! Fetches by TID: index scans, TID scans, visibility of a row in a slot.
//!
//! Hot rows are fetched by heap, and followed to their new place where necessary ([`moved`]); cold
//! rows are read by a [`PointReader`]. A row with a mark that is visible to all is reported as dead
//! to all, so that indexes skip its entry from then on, and delete the entry when they need the
//! space ([`super::index_delete`]). Rows whose whole group was deleted are not reported; VACUUM and
//! compaction delete their entries.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use howdah_bridge::memory::{self, allocate_zeroed};
use howdah_bridge::predicate::is_serializable;
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::{Snapshot, SnapshotKind};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{RowNumber, Tid, is_cold};
use pgrx::{pg_guard, pg_sys};

use super::point_reader::PointReader;
use super::serializable::announce;
use super::{cold_rows, heap, last_row, scan};
use crate::store::pending_groups;
use crate::store::visibility::{is_surely_hidden, moved, sees_row, sees_row_somewhere};

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.index_fetch_begin = Some(index_fetch_begin);
    am.index_fetch_reset = Some(index_fetch_reset);
    am.index_fetch_end = Some(index_fetch_end);
    am.index_fetch_tuple = Some(index_fetch_tuple);
    am.tuple_fetch_row_version = Some(tuple_fetch_row_version);
    am.tuple_tid_valid = Some(tuple_tid_valid);
    am.tuple_get_latest_tid = Some(tuple_get_latest_tid);
    am.tuple_satisfies_snapshot = Some(tuple_satisfies_snapshot);
}

#[repr(C)]
struct HowdahFetch {
    base: pg_sys::IndexFetchTableData,
    heap: *mut pg_sys::IndexFetchTableData,
    /// Names the reader in [`READERS`], made for the first row under an MVCC snapshot; 0 before
    /// that.
    reader: u64,
    /// Whether [`announce`] was called for this scan.
    announced: bool,
    shown: RowsShown,
}

/// Row groups of which a scan that only learns whether rows are visible remembers that they hide
/// no row.
const GROUPS_SHOWN: usize = 16;

/// Cold rows that an index-only scan knows to be visible: those of some row groups that hide none.
/// What the scan asks is answered from here as long as it asks for the same slot under the same
/// snapshot. All zeros: none are known.
#[repr(C)]
struct RowsShown {
    slot: usize,
    seen_by: (usize, u32),
    /// The first row of each group, and one past its last one.
    groups: [(u64, u64); GROUPS_SHOWN],
    /// The place of the next group.
    next: usize,
}

impl RowsShown {
    #[inline]
    fn has(&self, row: RowNumber, slot: Slot<'_>, snapshot: Snapshot<'_>) -> bool {
        let is_in = |&(first, end): &(u64, u64)| (first..end).contains(&row.0);
        self.slot == slot.address()
            && self.groups.iter().any(is_in)
            && self.seen_by == snapshot.name()
            && !pending_groups::any()
            && !moved::is_wanted(snapshot)
    }

    /// Adds the rows of a group; those of the oldest one give their place.
    fn add(&mut self, rows: Range<u64>, slot: Slot<'_>, snapshot: Snapshot<'_>) {
        if (self.slot, self.seen_by) != (slot.address(), snapshot.name()) {
            self.groups = [(0, 0); GROUPS_SHOWN];
            (self.slot, self.seen_by) = (slot.address(), snapshot.name());
        }
        self.groups[self.next % GROUPS_SHOWN] = (rows.start, rows.end);
        self.next = (self.next + 1) % GROUPS_SHOWN;
    }
}

thread_local! {
    /// The readers of open index scans, except the one that is reading now. Here they are dropped
    /// with the transaction if an ERROR leaves them behind, at less cost than by a callback of a
    /// memory context.
    static READERS: RefCell<Vec<(u64, Box<PointReader>)>> = const { RefCell::new(Vec::new()) };
    static LAST_READER: Cell<u64> = const { Cell::new(0) };
}

fn next_reader() -> u64 {
    LAST_READER.set(LAST_READER.get() + 1);
    LAST_READER.get()
}

/// Takes a reader out of [`READERS`], unless it was dropped after an error.
fn take_reader(name: u64) -> Option<Box<PointReader>> {
    READERS.with_borrow_mut(|readers| {
        let at = readers.iter().rposition(|(other, _)| *other == name)?;
        Some(readers.swap_remove(at).1)
    })
}

/// Drops all readers: the transaction has ended, or a subtransaction was rolled back, whose scans
/// do not end their readers. Scans that continue make new ones.
pub fn reset() {
    READERS.with_borrow_mut(Vec::clear);
}

#[pg_guard]
unsafe extern "C-unwind" fn index_fetch_begin(
    rel: pg_sys::Relation,
) -> *mut pg_sys::IndexFetchTableData {
    // SAFETY: plain allocation; heap's descriptor is kept whole behind ours.
    unsafe {
        let fetch = allocate_zeroed(size_of::<HowdahFetch>()).cast::<HowdahFetch>();
        (*fetch).base.rel = rel;
        (*fetch).heap = (heap().index_fetch_begin.unwrap_unchecked())(rel);
        &mut (*fetch).base
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_fetch_reset(data: *mut pg_sys::IndexFetchTableData) {
    // SAFETY: made by index_fetch_begin. Index scans are reset before they start, with their
    // snapshot active: the only point at which an index-only scan, which may never fetch a row, can
    // be noticed. Checks of uniqueness read no rows for their transaction and do not call this
    // function.
    unsafe {
        let fetch = &mut *data.cast::<HowdahFetch>();
        if is_serializable() && !fetch.announced && pg_sys::ActiveSnapshotSet() {
            let snapshot = Snapshot::from_raw(pg_sys::GetActiveSnapshot());
            announce(Table::from_raw(fetch.base.rel), snapshot);
            fetch.announced = true;
        }
        (heap().index_fetch_reset.unwrap_unchecked())(fetch.heap);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_fetch_end(data: *mut pg_sys::IndexFetchTableData) {
    // SAFETY: made by index_fetch_begin.
    unsafe {
        let fetch = data.cast::<HowdahFetch>();
        (heap().index_fetch_end.unwrap_unchecked())((*fetch).heap);
        if (*fetch).reader != 0 {
            drop(take_reader((*fetch).reader));
        }
        memory::free(data.cast());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_fetch_tuple(
    data: *mut pg_sys::IndexFetchTableData,
    tid: pg_sys::ItemPointer,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
    call_again: *mut bool,
    all_dead: *mut bool,
) -> bool {
    // SAFETY: made by index_fetch_begin; the other arguments come from the index AM.
    unsafe {
        let fetch = &mut *data.cast::<HowdahFetch>();
        let table = Table::from_raw(fetch.base.rel);
        let (snapshot_at, slot_at) = (snapshot, slot);
        let (snapshot, slot) = (Snapshot::from_raw(snapshot), Slot::from_raw(slot));
        let Some(row) = RowNumber::from_tid(&*tid) else {
            let found = (heap().index_fetch_tuple.unwrap_unchecked())(
                fetch.heap,
                tid,
                snapshot_at,
                slot_at,
                call_again,
                all_dead,
            );
            return found && !moved::hides_hot(table, slot, snapshot);
        };
        *call_again = false;
        if !all_dead.is_null() {
            *all_dead = false;
        }
        if is_surely_hidden(table, row, snapshot) {
            slot.clear();
            if snapshot.is_dirty() {
                snapshot.reset_dirty();
            }
            return false;
        }
        if !snapshot.is_mvcc() {
            slot.clear();
            let mut reader = PointReader::new();
            let found = reader.fetch(table, row, snapshot, slot);
            if !found && !all_dead.is_null() {
                *all_dead = reader.is_dead_to_all(table);
            }
            return found;
        }
        if fetch.shown.has(row, slot, snapshot) {
            slot.clear();
            return true;
        }
        let reader = match fetch.reader {
            0 => {
                fetch.reader = next_reader();
                None
            }
            name => take_reader(name),
        };
        // A scan uses one slot for its rows; another slot may belong to another plan.
        let mut reader = match reader {
            Some(reader) if reader.serves(slot) => reader,
            _ => Box::new(PointReader::for_slot(slot)),
        };
        // The row before it stays in the slot until then, because its memory serves the next one.
        let found = reader.fetch(table, row, snapshot, slot);
        if !found || reader.leaves_slot() {
            slot.clear();
        }
        if found {
            if reader.reads_whole_rows() {
                last_row::remember(slot);
            }
            if let Some(rows) = reader.rows_shown(snapshot) {
                fetch.shown.add(rows, slot, snapshot);
            }
        } else if !all_dead.is_null() {
            *all_dead = reader.is_dead_to_all(table);
        }
        READERS.with_borrow_mut(|readers| readers.push((fetch.reader, reader)));
        found
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn tuple_fetch_row_version(
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: arguments come from the executor.
    unsafe {
        let (snapshot_at, slot_at) = (snapshot, slot);
        let (table, slot) = (Table::from_raw(rel), Slot::from_raw(slot));
        let snapshot = Snapshot::from_raw(snapshot);
        let any = snapshot.kind() == SnapshotKind::Any;
        let row = match RowNumber::from_tid(&*tid) {
            Some(row) if any => moved::changed_cold(table, row).unwrap_or(row),
            Some(row) => row,
            None => {
                let fetch = heap().tuple_fetch_row_version.unwrap_unchecked();
                if !fetch(rel, tid, snapshot_at, slot_at) {
                    return false;
                }
                match moved::changed_hot(table, slot) {
                    Some(row) if any => row,
                    _ => return !moved::hides_hot(table, slot, snapshot),
                }
            }
        };
        slot.clear();
        any && (last_row::recall(table, row, slot) || cold_rows::fetch_held(table, row, slot))
            || PointReader::new().fetch(table, row, snapshot, slot)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn tuple_tid_valid(
    scan_desc: pg_sys::TableScanDesc,
    tid: pg_sys::ItemPointer,
) -> bool {
    // SAFETY: the scan is ours.
    unsafe {
        if is_cold(&*tid) {
            return RowNumber::from_tid(&*tid).is_some();
        }
        (heap().tuple_tid_valid.unwrap_unchecked())(scan::ours(scan_desc).heap(), tid)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn tuple_get_latest_tid(
    scan_desc: pg_sys::TableScanDesc,
    tid: pg_sys::ItemPointer,
) {
    // SAFETY: the scan is ours. A hot row's chain is followed one step at a time, so that heap's
    // loop never leaves the hot side; from there it may lead to a cold row and back.
    unsafe {
        let scan = scan::ours(scan_desc);
        let table = Table::from_raw(scan.base.rs_rd);
        let snapshot = Snapshot::from_raw(scan.base.rs_snapshot);
        let mut from = *tid;
        loop {
            let next = match RowNumber::from_tid(&from) {
                None => {
                    let link = howdah_bridge::hot::latest_tid(scan.heap(), &mut from);
                    *tid = from;
                    link
                }
                Some(row) => {
                    // A row may have been moved here after the snapshot was taken.
                    if ColdStore::open(table, LockMode::AccessShare)
                        .is_some_and(|store| sees_row(&store, table, row, snapshot))
                    {
                        *tid = from;
                    }
                    cold_rows::version_after(table, row, snapshot).map(Tid::raw)
                }
            };
            match next {
                Some(next) => from = next,
                None => return,
            }
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn tuple_satisfies_snapshot(
    rel: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
) -> bool {
    // SAFETY: the slot holds a row of `rel`; a cold row has no buffer.
    unsafe {
        let Some(row) = RowNumber::from_tid(&(*slot).tts_tid) else {
            return (heap().tuple_satisfies_snapshot.unwrap_unchecked())(rel, slot, snapshot);
        };
        let (table, snapshot) = (Table::from_raw(rel), Snapshot::from_raw(snapshot));
        ColdStore::open(table, LockMode::AccessShare)
            .is_some_and(|store| sees_row_somewhere(&store, table, row, snapshot))
    }
}
