//! Fetches by TID: index scans, TID scans, visibility of a row in a slot.
//!
//! A cold TID is looked up in this order: the rows of this backend's running loads, then the
//! directory entry that covers the row, judged by the snapshot at hand. Within one index scan
//! under one MVCC snapshot the last group found is remembered.
//!
//! A row whose mark everybody sees is reported as dead to all, so that indexes pass over its entry from then on,
//! and delete it when they need the place. What an index then asks to be told, the youngest transaction that a
//! standby's snapshots must see, is answered by the horizon: the mark itself cannot be looked at while the index
//! page is locked, and it is older. Rows that are gone with their group are not reported; VACUUM and
//! compaction delete their entries.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use howdah_bridge::predicate::{is_serializable, lock_row};
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::{RowNumber, is_cold};
use pgrx::{pg_guard, pg_sys};

use super::serializable::{announce, follow, follow_hot};
use super::{cold_rows, heap, last_change, last_row, scan};
use crate::errors::{ColdError, or_raise};
use crate::load;
use crate::slot_writer::write_single;
use crate::store::directory::{self, GroupEntry, GroupState};
use crate::store::marks::{self, Hidden};
use crate::store::open_group::{self, OpenGroup};
use crate::store::pending_marks;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, GroupRows, Wanted, fill_point, fill_whole};

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
    /// Names the reader in [`READERS`], made for the first row under an MVCC snapshot; 0 before that.
    reader: u64,
    /// Whether [`announce`] was called for this scan.
    announced: bool,
}

/// Reads single cold rows of one relation.
#[derive(Default)]
pub struct PointReader {
    last: Option<LastGroup>,
    /// By whom the row that was asked for last is hidden.
    hidden: Option<Hidden>,
}

thread_local! {
    /// The readers of index scans that are open, but for the one that is reading: here they are dropped with the
    /// transaction if an error leaves them behind, and cost less than one that its memory context drops.
    static READERS: RefCell<Vec<(u64, PointReader)>> = const { RefCell::new(Vec::new()) };
    static LAST_READER: Cell<u64> = const { Cell::new(0) };
}

fn next_reader() -> u64 {
    LAST_READER.set(LAST_READER.get() + 1);
    LAST_READER.get()
}

/// Takes a reader out, if an error has not left it behind.
fn take_reader(name: u64) -> Option<PointReader> {
    READERS.with_borrow_mut(|readers| {
        let at = readers.iter().rposition(|(other, _)| *other == name)?;
        Some(readers.swap_remove(at).1)
    })
}

/// Drops readers: the transaction is over, or a subtransaction was rolled back, whose scans do not end theirs. Scans
/// that go on make new ones.
pub fn reset() {
    READERS.with_borrow_mut(Vec::clear);
}

/// The group that was found last.
struct LastGroup {
    entry: GroupEntry,
    /// The MVCC snapshot that saw it: address and curcid.
    seen_by: (usize, pg_sys::CommandId),
    open: Option<Rc<OpenGroup>>,
    /// Rows of the group asked about, and what is hidden of it once they are many.
    asked: u32,
    hidden: Option<(RowSet, Hidden)>,
}

impl LastGroup {
    /// Whether a row of the group is hidden, if that is known.
    fn hides(&self, position: u32) -> Option<Hidden> {
        match &self.hidden {
            _ if self.entry.flags.are_clear() => Some(Hidden::No),
            Some((rows, by)) if rows.contains(position) => Some(*by),
            Some(_) => Some(Hidden::No),
            None => None,
        }
    }
}

/// Rows of a group that are asked about one by one before all its marks are read.
const FEW_ROWS: u32 = 32;

enum Found {
    Stored(GroupEntry, u32),
    Pending(ColdGroup, u32),
}

impl Found {
    fn entry(&self) -> &GroupEntry {
        match self {
            Found::Stored(entry, _) => entry,
            Found::Pending(group, _) => group.entry(),
        }
    }
}

/// As HeapTupleSatisfiesDirty does first: the caller waits for whoever it finds here, and a row of our
/// own running load is nobody to wait for.
unsafe fn name_nobody(snapshot: pg_sys::Snapshot) {
    // SAFETY: the caller's snapshot is valid, and a dirty one.
    unsafe {
        (*snapshot).xmin = pg_sys::InvalidTransactionId;
        (*snapshot).xmax = pg_sys::InvalidTransactionId;
        (*snapshot).speculativeToken = 0;
    }
}

unsafe fn is_mvcc(snapshot: pg_sys::Snapshot) -> bool {
    // SAFETY: the caller's snapshot is valid.
    unsafe { (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC }
}

impl PointReader {
    pub fn new() -> PointReader {
        PointReader::default()
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
                name_nobody(snapshot);
            }
            if let Some(pending) = load::pending_row(table, row, snapshot) {
                return pending.map(|(group, position)| Found::Pending(group, position));
            }
            let seen_by = (snapshot as usize, (*snapshot).curcid);
            if is_mvcc(snapshot)
                && let Some(last) = &self.last
                && last.seen_by == seen_by
                && let Some(position) = last.entry.position_of(row)
            {
                return Some(Found::Stored(last.entry, position));
            }
            let placed = or_raise((*table).rd_id, directory::group_of(store, row, snapshot))?;
            if placed.entry.state == GroupState::Loading {
                // Another backend's running load, seen by a dirty snapshot: the row is there,
                // its values are not to be had. The caller waits for that transaction.
                return Some(Found::Stored(placed.entry, 0));
            }
            if is_mvcc(snapshot) {
                self.last = Some(LastGroup {
                    entry: placed.entry,
                    seen_by,
                    open: None,
                    asked: 0,
                    hidden: None,
                });
            }
            placed
                .entry
                .position_of(row)
                .map(|position| Found::Stored(placed.entry, position))
        }
    }

    /// Whether a row that was found is hidden from the snapshot.
    unsafe fn hides(
        &mut self,
        store: &ColdStore,
        found: &Found,
        row: RowNumber,
        snapshot: pg_sys::Snapshot,
    ) -> Result<bool, ColdError> {
        let entry = found.entry();
        // SAFETY: as for `fetch`.
        unsafe {
            if entry.flags.are_clear() {
                return Ok(false);
            }
            let asked = &mut self.hidden;
            let mut ask = || {
                let hidden = marks::hidden_by(store, entry, row, snapshot)?;
                *asked = Some(hidden);
                Ok(hidden != Hidden::No)
            };
            let last = match (found, &mut self.last) {
                (Found::Stored(entry, _), Some(last))
                    if is_mvcc(snapshot) && last.entry.group() == entry.group() =>
                {
                    last
                }
                _ => return ask(),
            };
            last.asked += 1;
            if last.asked <= FEW_ROWS {
                return ask();
            }
            if last.hidden.is_none() {
                let (rows, by) = marks::hidden_rows(store, entry, snapshot)?;
                last.hidden = Some((rows.unwrap_or_default(), by));
            }
            let position = entry.position_of(row);
            self.hidden = position.and_then(|at| last.hides(at));
            Ok(self.hidden.is_some_and(|hidden| hidden != Hidden::No))
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
        self.hidden = None;
        // SAFETY: as for this function.
        unsafe {
            if !is_serializable()
                && let Some(found) = self.fetch_from_memory(table, row, snapshot, slot)
            {
                return found;
            }
            ColdStore::open(table, pg_sys::AccessShareLock)
                .is_some_and(|store| self.fetch_from(&store, table, row, snapshot, slot))
        }
    }

    /// Whether the row that [`PointReader::fetch`] was asked for, and did not find, is known to be hidden from everybody.
    ///
    /// # Safety
    /// `table` is open.
    unsafe fn is_dead_to_all(&self, table: pg_sys::Relation) -> bool {
        let Some(Hidden::By(hider)) = self.hidden else {
            return false;
        };
        // SAFETY: as for this function.
        unsafe {
            let horizon = pg_sys::GlobalVisTestFor(table);
            !pg_sys::TransactionIdIsNormal(hider)
                || pg_sys::GlobalVisTestIsRemovableXid(horizon, hider)
        }
    }

    /// Does what [`PointReader::fetch`] does where the group is decoded and what is hidden of it known.
    unsafe fn fetch_from_memory(
        &mut self,
        table: pg_sys::Relation,
        row: RowNumber,
        snapshot: pg_sys::Snapshot,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> Option<bool> {
        // SAFETY: as for `fetch`.
        unsafe {
            let last = self.last.as_ref()?;
            if !is_mvcc(snapshot)
                || last.seen_by != (snapshot as usize, (*snapshot).curcid)
                || load::has_pending()
            {
                return None;
            }
            let position = last.entry.position_of(row)?;
            let columns = last.open.as_ref()?.whole()?;
            let hidden = last.hides(position)?;
            if hidden != Hidden::No {
                self.hidden = Some(hidden);
                return Some(false);
            }
            let (tid, oid, origin) = (row.tid(), (*table).rd_id, last.entry.origin);
            write_single(slot, tid, oid, origin, |layout, desc, datums| {
                fill_whole(columns, position, layout, desc, datums);
            });
            Some(true)
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
            let watched = is_serializable() && is_mvcc(snapshot);
            if !watched {
                return self.read(store, table, row, snapshot, slot);
            }
            // Locked before it is looked at, and looked at anew: see `super::serializable`.
            lock_row(table, row, snapshot);
            self.last = None;
            let found = self.read(store, table, row, snapshot, slot);
            if found {
                or_raise((*table).rd_id, follow(store, table, row, snapshot));
            }
            found
        }
    }

    unsafe fn read(
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
            if or_raise(oid, self.hides(store, &found, row, snapshot)) {
                return false;
            }
            let (tid, origin) = (row.tid(), found.entry().origin);
            match &found {
                Found::Stored(entry, _) if entry.state == GroupState::Loading => {
                    write_single(slot, tid, oid, origin, |_, _, datums| {
                        (0..datums.values.len()).for_each(|i| datums.set_null(i));
                    });
                }
                Found::Stored(entry, position) => {
                    let group = or_raise(oid, self.open_group(store, *entry));
                    write_single(slot, tid, oid, origin, |layout, desc, datums| {
                        let filled = fill_point(&group, store, *position, layout, desc, datums);
                        or_raise(oid, filled);
                    });
                }
                Found::Pending(group, position) => {
                    let rows = or_raise(oid, GroupRows::load(store, group, &Wanted::All));
                    write_single(slot, tid, oid, origin, |layout, desc, datums| {
                        rows.fill(*position, layout, desc, &Wanted::All, datums);
                    });
                }
            }
            true
        }
    }

    fn open_group(
        &mut self,
        store: &ColdStore,
        entry: GroupEntry,
    ) -> Result<Rc<OpenGroup>, ColdError> {
        match &mut self.last {
            Some(last) if last.entry.group() == entry.group() => match &last.open {
                Some(group) => Ok(Rc::clone(group)),
                None => {
                    let group = open_group::cached(store, entry)?;
                    last.open = Some(Rc::clone(&group));
                    Ok(group)
                }
            },
            _ => open_group::cached(store, entry),
        }
    }
}

/// Puts a row that is known to be in a stored group into the slot.
///
/// # Safety
/// As for [`PointReader::fetch`]; `store` is that of `table`, `entry` is in force.
pub unsafe fn fetch_placed(
    store: &ColdStore,
    table: pg_sys::Relation,
    row: RowNumber,
    entry: GroupEntry,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    let Some(position) = entry.position_of(row) else {
        return false;
    };
    // SAFETY: as for this function.
    unsafe {
        let oid = (*table).rd_id;
        let group = or_raise(oid, open_group::cached(store, entry));
        write_single(
            slot,
            row.tid(),
            oid,
            entry.origin,
            |layout, desc, datums| {
                or_raise(
                    oid,
                    fill_point(&group, store, position, layout, desc, datums),
                );
            },
        );
    }
    true
}

/// Puts a row into the slot whose group this transaction has locked.
unsafe fn fetch_held(
    rel: pg_sys::Relation,
    row: RowNumber,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the relation is open, the slot one for its rows.
    unsafe {
        let found = cold_rows::held_group(rel, row).is_some_and(|entry| {
            ColdStore::open(rel, pg_sys::AccessShareLock)
                .is_some_and(|store| fetch_placed(&store, rel, row, entry, slot))
        });
        if found {
            last_row::remember(slot);
        }
        found
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
            announce(fetch.base.rel, pg_sys::GetActiveSnapshot());
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
            let found = (heap().index_fetch_tuple.unwrap_unchecked())(
                fetch.heap, tid, snapshot, slot, call_again, all_dead,
            );
            if found {
                follow_hot(fetch.base.rel, slot, snapshot);
            }
            return found;
        };
        *call_again = false;
        if !all_dead.is_null() {
            *all_dead = false;
        }
        howdah_bridge::slot::clear(slot);
        if !is_mvcc(snapshot) {
            // Checks of constraints ask for one row at a time, mostly for those that they replace.
            let dirty = (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_DIRTY;
            if dirty
                && (last_change::hides(fetch.base.rel, row, snapshot)
                    || pending_marks::hides_now((*fetch.base.rel).rd_id, row))
            {
                name_nobody(snapshot);
                return false;
            }
            let mut reader = PointReader::new();
            let found = reader.fetch(fetch.base.rel, row, snapshot, slot);
            if !found && !all_dead.is_null() {
                *all_dead = reader.is_dead_to_all(fetch.base.rel);
            }
            return found;
        }
        if last_change::hides(fetch.base.rel, row, snapshot) {
            return false;
        }
        let mut reader = match fetch.reader {
            0 => {
                fetch.reader = next_reader();
                PointReader::new()
            }
            name => take_reader(name).unwrap_or_default(),
        };
        let found = reader.fetch(fetch.base.rel, row, snapshot, slot);
        if found {
            last_row::remember(slot);
        } else if !all_dead.is_null() {
            *all_dead = reader.is_dead_to_all(fetch.base.rel);
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
        let Some(row) = RowNumber::from_tid(&*tid) else {
            let fetch = heap().tuple_fetch_row_version.unwrap_unchecked();
            let found = fetch(rel, tid, snapshot, slot);
            if found {
                follow_hot(rel, slot, snapshot);
            }
            return found;
        };
        howdah_bridge::slot::clear(slot);
        let any = (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_ANY;
        any && (last_row::recall(rel, row, slot) || fetch_held(rel, row, slot))
            || PointReader::new().fetch(rel, row, snapshot, slot)
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
        let (rel, snapshot) = (scan.base.rs_rd, scan.base.rs_snapshot);
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
                    if ColdStore::open(rel, pg_sys::AccessShareLock)
                        .is_some_and(|store| sees_row(&store, rel, row, snapshot))
                    {
                        *tid = from;
                    }
                    cold_rows::version_after(rel, row, snapshot)
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
        ColdStore::open(rel, pg_sys::AccessShareLock)
            .is_some_and(|store| sees_row(&store, rel, row, snapshot))
    }
}

/// Whether the snapshot sees a cold row.
///
/// # Safety
/// `rel` is open, `store` is its cold store, `snapshot` valid.
pub unsafe fn sees_row(
    store: &ColdStore,
    rel: pg_sys::Relation,
    row: RowNumber,
    snapshot: pg_sys::Snapshot,
) -> bool {
    // SAFETY: as for this function.
    unsafe {
        let found = PointReader::new().find(rel, store, row, snapshot);
        found.is_some_and(|found| {
            !or_raise(
                (*rel).rd_id,
                marks::hides(store, found.entry(), row, snapshot),
            )
        })
    }
}

/// The youngest transaction that every snapshot of this server sees the end of, or one before it.
unsafe fn last_removable(rel: pg_sys::Relation) -> pg_sys::TransactionId {
    // SAFETY: the relation is open; arithmetic on transaction ids as TransactionIdRetreat does it.
    unsafe {
        let mut xid = pg_sys::GetOldestNonRemovableTransactionId(rel);
        loop {
            xid = pg_sys::TransactionId::from(xid.into_inner().wrapping_sub(1));
            if pg_sys::TransactionIdIsNormal(xid) {
                return xid;
            }
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_delete_tuples(
    rel: pg_sys::Relation,
    delstate: *mut pg_sys::TM_IndexDeleteOp,
) -> pg_sys::TransactionId {
    // SAFETY: the arrays hold `ndeltids` entries; each names its status by `id`. Cold TIDs are taken out
    // before heap looks, which would read their blocks, and those that are known to be dead are put back
    // after: the caller finds them by their ids, and may count on none of them being left out. It holds its
    // page's lock, so that nothing may be waited for here.
    unsafe {
        let state = &mut *delstate;
        let all = std::slice::from_raw_parts_mut(state.deltids, state.ndeltids as usize);
        let is_dead = |entry: &pg_sys::TM_IndexDelete| {
            !state.bottomup && (*state.status.add(entry.id as usize)).knowndeletable
        };
        let mut dead_cold = Vec::new();
        let mut hot = 0;
        for i in 0..all.len() {
            if !is_cold(&all[i].tid) {
                all[hot] = all[i];
                hot += 1;
            } else if is_dead(&all[i]) {
                dead_cold.push(all[i]);
            }
        }
        state.ndeltids = hot as i32;
        let mut conflict = match hot {
            0 => pg_sys::InvalidTransactionId,
            _ => {
                let delete = heap().index_delete_tuples.unwrap_unchecked();
                pg_sys::ffi::pg_guard_ffi_boundary(|| delete(rel, delstate))
            }
        };
        let state = &mut *delstate;
        if !dead_cold.is_empty() {
            let first = state.deltids.add(state.ndeltids as usize);
            std::ptr::copy_nonoverlapping(dead_cold.as_ptr(), first, dead_cold.len());
            state.ndeltids += dead_cold.len() as i32;
            conflict = marks::younger(conflict, last_removable(rel));
        }
        conflict
    }
}
