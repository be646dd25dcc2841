//! Fetches by TID: index scans, TID scans, visibility of a row in a slot.
//!
//! A cold TID is looked up in this order: the rows of this backend's running loads, then the
//! directory entry that covers the row, judged by the snapshot at hand. Within one index scan
//! under one MVCC snapshot the last group found is remembered.
//!
//! `all_dead` is never reported for a cold row: the horizon that an index AM would need to
//! delete its entry is known to VACUUM only.

use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::{RowNumber, is_cold};
use pgrx::{PgMemoryContexts, pg_guard, pg_sys};

use super::serializable::{before_reading, is_serializable, lock_relation};
use super::{heap, scan};
use crate::errors::or_raise;
use crate::load;
use crate::slot_writer::SlotWriter;
use crate::store::directory::{self, GroupEntry, GroupState};
use crate::store::view::{ColdGroup, GroupRows, Wanted, fill_point};

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.index_fetch_begin = Some(index_fetch_begin);
    am.index_fetch_reset = Some(index_fetch_reset);
    am.index_fetch_end = Some(index_fetch_end);
    am.index_fetch_tuple = Some(index_fetch_tuple);
    am.tuple_fetch_row_version = Some(tuple_fetch_row_version);
    am.tuple_tid_valid = Some(tuple_tid_valid);
    am.tuple_get_latest_tid = Some(tuple_get_latest_tid);
    am.tuple_satisfies_snapshot = Some(tuple_satisfies_snapshot);
    am.index_delete_tuples = Some(index_delete_tuples);
}

#[repr(C)]
struct HowdahFetch {
    base: pg_sys::IndexFetchTableData,
    heap: *mut pg_sys::IndexFetchTableData,
    reader: *mut Option<PointReader>,
    /// Whether [`before_reading`] was called for this scan.
    announced: bool,
}

/// Reads single cold rows of one relation.
pub struct PointReader {
    writer: SlotWriter,
    /// The last group found, and the snapshot (address and curcid) that saw it.
    last: Option<(GroupEntry, usize, pg_sys::CommandId)>,
}

enum Found {
    Stored(GroupEntry, u32),
    Pending(ColdGroup, u32),
}

impl PointReader {
    /// The current memory context outlives the reader.
    pub fn new() -> PointReader {
        PointReader {
            writer: SlotWriter::new(),
            last: None,
        }
    }

    unsafe fn find(
        &mut self,
        table: pg_sys::Relation,
        store: &ColdStore,
        row: RowNumber,
        snapshot: pg_sys::Snapshot,
    ) -> Option<Found> {
        // SAFETY: as for `fetch`.
        unsafe {
            if (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_DIRTY {
                // As HeapTupleSatisfiesDirty does first: the caller waits for whoever it finds
                // here, and a row of our own running load is nobody to wait for.
                (*snapshot).xmin = pg_sys::InvalidTransactionId;
                (*snapshot).xmax = pg_sys::InvalidTransactionId;
                (*snapshot).speculativeToken = 0;
            }
            if let Some(pending) = load::pending_row(table, row, snapshot) {
                return pending.map(|(group, position)| Found::Pending(group, position));
            }
            let mvcc = (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC;
            let key = (snapshot as usize, (*snapshot).curcid);
            if mvcc
                && let Some((entry, address, curcid)) = &self.last
                && (*address, *curcid) == key
                && let Some(position) = entry.position_of(row)
            {
                return Some(Found::Stored(*entry, position));
            }
            let placed = or_raise((*table).rd_id, directory::group_of(store, row, snapshot))?;
            if placed.entry.state == GroupState::Loading {
                // Another backend's running load, seen by a dirty snapshot: the row is there,
                // its values are not to be had. The caller waits for that transaction.
                return Some(Found::Stored(placed.entry, 0));
            }
            if mvcc {
                self.last = Some((placed.entry, key.0, key.1));
            }
            placed
                .entry
                .position_of(row)
                .map(|position| Found::Stored(placed.entry, position))
        }
    }

    /// Puts the row into the slot if the snapshot sees it.
    ///
    /// # Safety
    /// `table` is open, `snapshot` valid, `slot` a buffer slot of the table.
    pub unsafe fn fetch(
        &mut self,
        table: pg_sys::Relation,
        row: RowNumber,
        snapshot: pg_sys::Snapshot,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> bool {
        // SAFETY: as for this function.
        unsafe {
            ColdStore::open(table, pg_sys::AccessShareLock)
                .is_some_and(|store| self.fetch_from(&store, table, row, snapshot, slot))
        }
    }

    /// As [`PointReader::fetch`], with the cold store already open.
    ///
    /// # Safety
    /// As for [`PointReader::fetch`]; `store` is that of `table`.
    pub unsafe fn fetch_from(
        &mut self,
        store: &ColdStore,
        table: pg_sys::Relation,
        row: RowNumber,
        snapshot: pg_sys::Snapshot,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> bool {
        // SAFETY: as for `fetch`.
        unsafe {
            let oid = (*table).rd_id;
            let Some(found) = self.find(table, store, row, snapshot) else {
                return false;
            };
            self.writer
                .write(slot, row.tid(), oid, |layout, desc, datums| match &found {
                    Found::Stored(entry, _) if entry.state == GroupState::Loading => {
                        (0..datums.values.len()).for_each(|i| datums.set_null(i));
                    }
                    Found::Stored(entry, position) => or_raise(
                        oid,
                        fill_point(store, *entry, *position, layout, desc, datums),
                    ),
                    Found::Pending(group, position) => {
                        let rows = or_raise(oid, GroupRows::load(store, group, &Wanted::All));
                        rows.fill(*position, layout, desc, &Wanted::All, datums);
                    }
                });
            true
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_fetch_begin(
    rel: pg_sys::Relation,
) -> *mut pg_sys::IndexFetchTableData {
    // SAFETY: plain allocation; heap's descriptor is kept whole behind ours.
    unsafe {
        let fetch = pg_sys::palloc0(std::mem::size_of::<HowdahFetch>()).cast::<HowdahFetch>();
        (*fetch).base.rel = rel;
        (*fetch).heap = (heap().index_fetch_begin.unwrap_unchecked())(rel);
        &mut (*fetch).base
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_fetch_reset(data: *mut pg_sys::IndexFetchTableData) {
    // SAFETY: made by index_fetch_begin. Index scans are reset before they start, with their
    // snapshot active: the one moment at which an index-only scan, which may never fetch a row,
    // can be noticed. Checks of uniqueness read no rows for their transaction and do not come here.
    unsafe {
        let fetch = &mut *data.cast::<HowdahFetch>();
        if is_serializable() && !fetch.announced && pg_sys::ActiveSnapshotSet() {
            before_reading(fetch.base.rel, pg_sys::GetActiveSnapshot());
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
        if !(*fetch).reader.is_null() {
            *(*fetch).reader = None;
        }
        pg_sys::pfree(data.cast());
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
        let Some(row) = RowNumber::from_tid(&*tid) else {
            return (heap().index_fetch_tuple.unwrap_unchecked())(
                fetch.heap, tid, snapshot, slot, call_again, all_dead,
            );
        };
        *call_again = false;
        if !all_dead.is_null() {
            *all_dead = false;
        }
        lock_relation(fetch.base.rel, snapshot);
        if fetch.reader.is_null() {
            let context = pg_sys::GetMemoryChunkContext(data.cast());
            let old = pg_sys::MemoryContextSwitchTo(context);
            let reader = PointReader::new();
            fetch.reader =
                PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(Some(reader));
            pg_sys::MemoryContextSwitchTo(old);
        }
        pg_sys::ExecClearTuple(slot);
        match &mut *fetch.reader {
            Some(reader) => reader.fetch(fetch.base.rel, row, snapshot, slot),
            None => false,
        }
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
        let Some(row) = RowNumber::from_tid(&*tid) else {
            return (heap().tuple_fetch_row_version.unwrap_unchecked())(rel, tid, snapshot, slot);
        };
        lock_relation(rel, snapshot);
        pg_sys::ExecClearTuple(slot);
        let mut reader = PointReader::new();
        let found = reader.fetch(rel, row, snapshot, slot);
        reader.writer.delete();
        found
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
    // SAFETY: the scan is ours. A cold row is its own latest version as long as cold rows are
    // never changed. A hot row's chain is followed one step at a time, so that heap's loop
    // never leaves the hot side.
    unsafe {
        if !is_cold(&*tid) {
            howdah_bridge::hot::latest_tid(scan::ours(scan_desc).heap(), tid);
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
        if let Some(pending) = load::pending_row(rel, row, snapshot) {
            return pending.is_some();
        }
        ColdStore::open(rel, pg_sys::AccessShareLock).is_some_and(|store| {
            or_raise((*rel).rd_id, directory::group_of(&store, row, snapshot))
                .is_some_and(|placed| placed.entry.position_of(row).is_some())
        })
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_delete_tuples(
    rel: pg_sys::Relation,
    delstate: *mut pg_sys::TM_IndexDeleteOp,
) -> pg_sys::TransactionId {
    // SAFETY: the arrays hold `ndeltids` entries. Cold TIDs are taken out before heap looks: it
    // would read their blocks. Entries keep their ids, so dropping some is allowed; a simple
    // deletion always keeps one, because we never let an entry of a cold row be marked dead.
    unsafe {
        let state = &mut *delstate;
        let all = std::slice::from_raw_parts_mut(state.deltids, state.ndeltids as usize);
        let mut kept = 0;
        for i in 0..all.len() {
            if !is_cold(&all[i].tid) {
                all[kept] = all[i];
                kept += 1;
            }
        }
        state.ndeltids = kept as i32;
        if kept == 0 {
            return pg_sys::InvalidTransactionId;
        }
        (heap().index_delete_tuples.unwrap_unchecked())(rel, delstate)
    }
}
