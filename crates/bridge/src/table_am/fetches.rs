//! Fetches of single rows: `index_fetch_…`, `tuple_fetch_row_version`, `tuple_satisfies_snapshot`.
//!
//! ```text
//!   index_fetch_tuple ──┬── hot TID  ──▶ heap's fetch, RowFetches::keeps_hot or keeps_unseen
//!                       └── cold TID ──▶ RowFetches::go_on, else RowFetches::fetch
//! ```

use pgrx::{pg_guard, pg_sys};

use super::Routine;
use crate::heap_am::{self, callbacks};
use crate::late_slot;
use crate::memory;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::tid::{RowNumber, Tid};

/// Fetches of single rows.
pub trait RowFetches: Sized + 'static {
    /// What the fetches of one index scan remember. It is not dropped if an ERROR ends the scan.
    type State: Copy + Default;

    /// The index scan is about to start, or starts anew.
    fn start(state: &mut Self::State, table: Table<'_>);

    /// The index scan is ended.
    fn end(state: &mut Self::State);

    /// Whether a hot row that was fetched for an index is to be returned.
    fn keeps_hot(table: Table<'_>, slot: Slot<'_>, snapshot: Snapshot<'_>) -> bool;

    /// Whether hot versions that the snapshot does not see are shown to
    /// [`RowFetches::keeps_unseen`].
    fn shows_unseen(snapshot: Snapshot<'_>) -> bool;

    /// Whether a hot version that the snapshot does not see is to be returned nevertheless.
    fn keeps_unseen(slot: Slot<'_>, snapshot: Snapshot<'_>) -> bool;

    /// Puts a cold row that the snapshot sees into the slot, which still stands for a row of the
    /// same group; `false` if it must be [fetched](RowFetches::fetch).
    fn go_on(
        state: &mut Self::State,
        row: RowNumber,
        snapshot: Snapshot<'_>,
        slot: Slot<'_>,
    ) -> bool;

    /// Stores a cold row in the slot, if the snapshot sees it. Otherwise `all_dead`, where it is
    /// wanted, is set if the row is dead to all; it is `false` before.
    fn fetch(
        state: &mut Self::State,
        table: Table<'_>,
        row: RowNumber,
        snapshot: Snapshot<'_>,
        slot: Slot<'_>,
        all_dead: Option<&mut bool>,
    ) -> bool;

    /// Stores the row at a TID in the slot, if the snapshot sees it.
    fn fetch_version(table: Table<'_>, tid: Tid, snapshot: Snapshot<'_>, slot: Slot<'_>) -> bool;

    /// Whether the snapshot sees a cold row, or a version of it at another place.
    fn sees_cold(table: Table<'_>, row: RowNumber, snapshot: Snapshot<'_>) -> bool;
}

/// Has single rows fetched by `F`.
pub fn set_fetches<F: RowFetches>(routine: &mut Routine) {
    routine.index_fetch_begin = Some(index_fetch_begin::<F>);
    routine.index_fetch_reset = Some(index_fetch_reset::<F>);
    routine.index_fetch_end = Some(index_fetch_end::<F>);
    routine.index_fetch_tuple = Some(index_fetch_tuple::<F>);
    routine.tuple_fetch_row_version = Some(tuple_fetch_row_version::<F>);
    routine.tuple_satisfies_snapshot = Some(tuple_satisfies_snapshot::<F>);
}

/// The descriptor of the fetches of one index scan; the server knows `base` only. Heap's own
/// descriptor is kept behind it.
#[repr(C)]
struct IndexFetch<S> {
    base: pg_sys::IndexFetchTableData,
    heap: *mut pg_sys::IndexFetchTableData,
    state: S,
}

#[pg_guard]
unsafe extern "C-unwind" fn index_fetch_begin<F: RowFetches>(
    rel: pg_sys::Relation,
) -> *mut pg_sys::IndexFetchTableData {
    // SAFETY: the server holds the relation open; the fresh memory is written whole.
    unsafe {
        let bytes = size_of::<IndexFetch<F::State>>();
        let fetch = memory::allocate(bytes).cast::<IndexFetch<F::State>>();
        fetch.write(IndexFetch {
            base: pg_sys::IndexFetchTableData { rel },
            heap: (callbacks().index_fetch_begin)(rel),
            state: F::State::default(),
        });
        fetch.cast()
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_fetch_reset<F: RowFetches>(
    fetch: *mut pg_sys::IndexFetchTableData,
) {
    // SAFETY: made by `index_fetch_begin` for `F`, whose relation is open.
    unsafe {
        let fetch = &mut *fetch.cast::<IndexFetch<F::State>>();
        F::start(&mut fetch.state, Table::from_raw(fetch.base.rel));
        (callbacks().index_fetch_reset)(fetch.heap);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_fetch_end<F: RowFetches>(
    fetch: *mut pg_sys::IndexFetchTableData,
) {
    // SAFETY: made by `index_fetch_begin` for `F`, and ended once.
    unsafe {
        let ours = fetch.cast::<IndexFetch<F::State>>();
        (callbacks().index_fetch_end)((*ours).heap);
        F::end(&mut (*ours).state);
        memory::free(fetch.cast());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_fetch_tuple<F: RowFetches>(
    fetch: *mut pg_sys::IndexFetchTableData,
    tid: pg_sys::ItemPointer,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
    call_again: *mut bool,
    all_dead: *mut bool,
) -> bool {
    // SAFETY: made by `index_fetch_begin` for `F`, whose relation is open; the other arguments come
    // from the index AM, which waits for this call. `all_dead` may be NULL.
    unsafe {
        let fetch = &mut *fetch.cast::<IndexFetch<F::State>>();
        let table = Table::from_raw(fetch.base.rel);
        let Some(row) = RowNumber::from_tid(&*tid) else {
            late_slot::make_empty(Slot::from_raw(slot));
            let fetch_hot = callbacks().index_fetch_tuple;
            let found = fetch_hot(fetch.heap, tid, snapshot, slot, call_again, all_dead);
            let (seen_by, slot) = (Snapshot::from_raw(snapshot), Slot::from_raw(slot));
            if found {
                return F::keeps_hot(table, slot, seen_by);
            }
            let kept =
                F::shows_unseen(seen_by) && keep_unseen::<F>(fetch.heap, *tid, seen_by, slot);
            if let (true, Some(all_dead)) = (kept, all_dead.as_mut()) {
                *all_dead = false;
            }
            return kept;
        };
        *call_again = false;
        let mut all_dead = all_dead.as_mut();
        if let Some(all_dead) = &mut all_dead {
            **all_dead = false;
        }
        let (snapshot, slot) = (Snapshot::from_raw(snapshot), Slot::from_raw(slot));
        if F::go_on(&mut fetch.state, row, snapshot, slot) {
            return true;
        }
        late_slot::make_ready(slot);
        F::fetch(&mut fetch.state, table, row, snapshot, slot, all_dead)
    }
}

/// Stores the first version at a hot TID in the slot that is to be returned although the snapshot
/// sees none of them.
///
/// # Safety
/// `heap` is heap's descriptor of an index scan, and the slot is one of its table's. An ERROR
/// passes over this frame.
unsafe fn keep_unseen<F: RowFetches>(
    heap: *mut pg_sys::IndexFetchTableData,
    mut tid: pg_sys::ItemPointerData,
    snapshot: Snapshot<'_>,
    slot: Slot<'_>,
) -> bool {
    let (fetch_hot, any) = (callbacks().index_fetch_tuple, Snapshot::any().raw());
    let (mut is_next, all_dead) = (false, std::ptr::null_mut());
    // SAFETY: by the contract of this function; heap goes on from one version to the next.
    while unsafe { fetch_hot(heap, &mut tid, any, slot.raw(), &mut is_next, all_dead) } {
        if F::keeps_unseen(slot, snapshot) {
            return true;
        }
    }
    slot.clear();
    false
}

#[pg_guard]
unsafe extern "C-unwind" fn tuple_fetch_row_version<F: RowFetches>(
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the server holds the relation open and the snapshot valid; the slot is one of the
    // relation's.
    unsafe {
        let (table, tid) = (Table::from_raw(rel), Tid::from_raw(*tid));
        F::fetch_version(
            table,
            tid,
            Snapshot::from_raw(snapshot),
            Slot::from_raw(slot),
        )
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn tuple_satisfies_snapshot<F: RowFetches>(
    rel: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
) -> bool {
    // SAFETY: the server holds the relation open and the snapshot valid; the slot holds a row of
    // the relation.
    let (table, slot, snapshot) = unsafe {
        let snapshot = Snapshot::from_raw(snapshot);
        (Table::from_raw(rel), Slot::from_raw(slot), snapshot)
    };
    match slot.tid().row() {
        Some(row) => F::sees_cold(table, row, snapshot),
        None => heap_am::satisfies(table, slot, snapshot),
    }
}
