//! Rows in slots that are put together when something reads them.
//!
//! A plan by index passes over rows that it has fetched: OFFSET skips them, a condition drops them.
//! Heap has not touched their columns then, because a slot takes its tuple apart only as far as it
//! is asked to. A cold row is no tuple; in a slot of these it is no more than a number, until a
//! column is asked for. Then columns up to that one are read; and the tuple is formed if anything
//! wants one.
//!
//! ```text
//!   heap's kind of slot ──store──▶ late ──read, in part──▶ late
//!          ▲                        │
//!          └── clear, or complete ──┘   (materialize, copy, a system column, …)
//! ```
//!
//! A slot keeps its memory, and changes its callbacks only: `tts_ops` points to our table of them
//! while its row is late. So whatever asks a slot for its kind finds another one, and goes through
//! the callbacks. The number by which the row is known to the caller lies in the slot's `off`.
//!
//! Invariants
//! - A late slot holds no pin. It may own the memory of a tuple, which the next one uses again.
//! - Heap's functions never get a late slot: [`make_ready`] comes before them.
//! - Compiled (JIT) code takes tuples apart without the callbacks: no slot is late in a query that
//!   may have such code, nor where another one reads the row's tuple: see `needed_columns`.

use std::ffi::c_int;
use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

use crate::rows_after::rows_after;
use crate::slot::Slot;
use crate::table::Table;
use crate::tid::{RowNumber, Tid};
use crate::wants::Wants;

/// A scan whose slot may be late: its query keeps the table open as long as it has the slot.
#[derive(Clone, Copy)]
pub struct LateScan {
    slot: usize,
    node: *mut pg_sys::ScanState,
    wants: Wants,
}

impl LateScan {
    /// # Safety
    /// There is such a scan with a slot at this address, and lives as long as the slot does.
    pub(crate) unsafe fn of(slot: usize, node: *mut pg_sys::ScanState, wants: Wants) -> LateScan {
        LateScan { slot, node, wants }
    }

    /// Shows the rows to which the scan leads after the one at `tid`, which is in its slot, one
    /// after the other until `show` returns false; hot ones as `None`. Returns how many are surely
    /// asked for, that one among them; `None` if nothing is known of them.
    pub fn rows_after(
        &self,
        _slot: Slot<'_>,
        tid: Tid,
        show: &mut dyn FnMut(Option<RowNumber>) -> bool,
    ) -> Option<u32> {
        // SAFETY: by the contract of `of`, since the slot is there.
        unsafe { rows_after(self.node, tid, show).then(|| self.wants.rows()) }
    }
}

/// What the holder of the rows does.
pub struct LateRows {
    /// Writes the values of the attributes `from..to` of a row of the table into the slot's arrays.
    pub fill: fn(number: u32, slot: Slot<'_>, table: Table<'_>, from: usize, to: usize),
    /// Forms the tuple of a row, calls [`make_ready`], and stores it.
    pub complete: fn(number: u32, slot: Slot<'_>, table: Table<'_>),
    /// The slot is emptied, and the row not read any more. Must raise no ERROR.
    pub empty: fn(number: u32),
    /// The slot is freed, or may hold another row now and then. Must raise no ERROR.
    pub forget: fn(slot: usize),
}

static ROWS: OnceLock<LateRows> = OnceLock::new();
static CALLBACKS: OnceLock<pg_sys::TupleTableSlotOps> = OnceLock::new();

/// Sets the holder of the rows. Does nothing the second time.
pub fn install(rows: LateRows) {
    if ROWS.set(rows).is_err() {
        return;
    }
    // SAFETY: a table of the server's.
    let heap = unsafe { pg_sys::TTSOpsBufferHeapTuple };
    let _ = CALLBACKS.set(pg_sys::TupleTableSlotOps {
        clear: Some(clear),
        getsomeattrs: Some(get_some_attributes),
        getsysattr: Some(get_system_attribute),
        is_current_xact_tuple: Some(is_of_current_transaction),
        materialize: Some(materialize),
        copyslot: Some(copy_slot),
        get_heap_tuple: Some(get_heap_tuple),
        copy_heap_tuple: Some(copy_heap_tuple),
        copy_minimal_tuple: Some(copy_minimal_tuple),
        ..heap
    });
}

fn heap() -> *const pg_sys::TupleTableSlotOps {
    &raw const pg_sys::TTSOpsBufferHeapTuple
}

/// The holder of the rows, and our callbacks.
fn installed() -> Option<(&'static LateRows, &'static pg_sys::TupleTableSlotOps)> {
    Some((ROWS.get()?, CALLBACKS.get()?))
}

#[inline]
fn is_late(slot: Slot<'_>) -> bool {
    // SAFETY: a valid slot.
    CALLBACKS
        .get()
        .is_some_and(|ours| unsafe { std::ptr::eq((*slot.raw()).tts_ops, ours) })
}

/// Makes a late slot one of heap's kind again: an empty one, or one that holds the tuple whose
/// memory the next one may use.
#[inline]
pub fn make_ready(slot: Slot<'_>) {
    if is_late(slot) {
        // SAFETY: the slot is valid, and was of heap's kind before.
        unsafe { give_back(slot.raw()) }
    }
}

/// The same of a slot that is used for hot rows next: what was read of the late row is given up.
#[inline]
pub fn make_empty(slot: Slot<'_>) {
    if is_late(slot) {
        // SAFETY: the slot is valid, and was of heap's kind before.
        unsafe {
            empty(slot.raw());
            give_back(slot.raw());
        }
    }
}

/// Tells that the row is not read any more.
///
/// # Safety
/// A valid late slot.
unsafe fn empty(slot: *mut pg_sys::TupleTableSlot) {
    if let Some((rows, _)) = installed() {
        // SAFETY: as for this function.
        (rows.empty)(unsafe { row_of(slot) }.0);
    }
}

/// # Safety
/// A valid late slot.
unsafe fn give_back(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: as for this function; a tuple that the slot is to free is its own.
    unsafe {
        (*slot).tts_ops = heap();
        (*slot).tts_nvalid = 0;
        (*slot.cast::<pg_sys::BufferHeapTupleTableSlot>()).base.off = 0;
        if u32::from((*slot).tts_flags) & pg_sys::TTS_FLAG_SHOULDFREE == 0 {
            (*slot).tts_flags |= pg_sys::TTS_FLAG_EMPTY as u16;
        }
    }
}

/// Puts the row of the table with this number into the slot, which is of heap's kind or late.
/// Returns whether that is possible.
pub fn store(scan: LateScan, slot: Slot<'_>, number: u32, tid: Tid, table: Table<'_>) -> bool {
    let Some((_, ours)) = installed().filter(|_| scan.slot == slot.address()) else {
        return false;
    };
    make_ready(slot);
    let raw = slot.raw();
    // SAFETY: a valid slot of heap's kind. A pin is given up first; memory that it owns stays.
    unsafe {
        if !std::ptr::eq((*raw).tts_ops, heap()) {
            return false;
        }
        let buffer_slot = raw.cast::<pg_sys::BufferHeapTupleTableSlot>();
        if u32::from((*raw).tts_flags) & pg_sys::TTS_FLAG_SHOULDFREE == 0 {
            slot.clear();
        }
        (*raw).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
        (*raw).tts_nvalid = 0;
        (*raw).tts_tid = tid.raw();
        (*raw).tts_tableOid = table.oid();
        (*buffer_slot).base.off = number;
        // No tuple lies on a page now that this head would be of.
        (*buffer_slot).base.tupdata.t_data = table.raw().cast();
        (*raw).tts_ops = ours;
    }
    true
}

/// Puts another row of the same table under the same number into the slot, whose row is no longer
/// read; `false` if the slot is not late.
#[inline]
pub fn go_on(slot: Slot<'_>, tid: Tid) -> bool {
    if !is_late(slot) {
        return false;
    }
    let raw = slot.raw();
    // SAFETY: a valid late slot: [`store`] has set all else.
    unsafe {
        (*raw).tts_nvalid = 0;
        (*raw).tts_tid = tid.raw();
    }
    true
}

/// The slot is freed, or not used by its scan any more.
pub(crate) fn forget(slot: usize) {
    if let Some(rows) = ROWS.get() {
        (rows.forget)(slot);
    }
}

/// The number of the row, and its table.
///
/// # Safety
/// A valid late slot.
unsafe fn row_of<'a>(slot: *mut pg_sys::TupleTableSlot) -> (u32, Table<'a>) {
    // SAFETY: as for this function; it was of heap's kind, and [`store`] has set both.
    unsafe {
        let row = &(*slot.cast::<pg_sys::BufferHeapTupleTableSlot>()).base;
        (row.off, Table::from_raw(row.tupdata.t_data.cast()))
    }
}

/// Has the tuple of the row formed. The slot is of heap's kind afterwards.
///
/// # Safety
/// A valid late slot.
unsafe fn complete(slot: *mut pg_sys::TupleTableSlot) {
    if let Some((rows, _)) = installed() {
        // SAFETY: as for this function.
        unsafe {
            let (number, table) = row_of(slot);
            (rows.complete)(number, Slot::from_raw(slot), table);
        }
    }
}

/// Raises no ERROR.
///
/// # Safety
/// Called by the server with a late slot, as all below.
unsafe extern "C-unwind" fn clear(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: a valid slot, which was of heap's kind; a late one when the server calls this.
    unsafe {
        empty(slot);
        give_back(slot);
        crate::slot::clear(slot);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn get_some_attributes(slot: *mut pg_sys::TupleTableSlot, count: c_int) {
    // SAFETY: the server asks for attributes that the slot's descriptor has.
    unsafe {
        if let Some((rows, _)) = installed() {
            let (number, table) = row_of(slot);
            let from = (*slot).tts_nvalid as usize;
            (rows.fill)(number, Slot::from_raw(slot), table, from, count as usize);
        }
        (*slot).tts_nvalid = count as pg_sys::AttrNumber;
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn get_system_attribute(
    slot: *mut pg_sys::TupleTableSlot,
    number: c_int,
    is_null: *mut bool,
) -> pg_sys::Datum {
    // SAFETY: the server passes a late slot, which is of heap's kind once it is complete.
    unsafe {
        complete(slot);
        match (*heap()).getsysattr {
            Some(of_heap) => pg_sys::ffi::pg_guard_ffi_boundary(|| of_heap(slot, number, is_null)),
            None => pg_sys::Datum::from(0),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn is_of_current_transaction(slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: a late slot, of heap's kind once it is complete; heap's own callback is called on its
    // terms.
    unsafe {
        complete(slot);
        match (*heap()).is_current_xact_tuple {
            Some(of_heap) => pg_sys::ffi::pg_guard_ffi_boundary(|| of_heap(slot)),
            None => false,
        }
    }
}

/// A complete row has a tuple of its own.
#[pg_guard]
unsafe extern "C-unwind" fn materialize(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: a late slot, whose row gets a tuple.
    unsafe { complete(slot) }
}

#[pg_guard]
unsafe extern "C-unwind" fn copy_slot(
    to: *mut pg_sys::TupleTableSlot,
    from: *mut pg_sys::TupleTableSlot,
) {
    // SAFETY: the target is of heap's kind once it is empty; the source is any slot with a row.
    unsafe {
        clear(to);
        if let Some(of_heap) = (*heap()).copyslot {
            pg_sys::ffi::pg_guard_ffi_boundary(|| of_heap(to, from));
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn get_heap_tuple(slot: *mut pg_sys::TupleTableSlot) -> pg_sys::HeapTuple {
    // SAFETY: a late slot, which holds a tuple once it is complete.
    unsafe {
        complete(slot);
        (*slot.cast::<pg_sys::BufferHeapTupleTableSlot>())
            .base
            .tuple
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn copy_heap_tuple(
    slot: *mut pg_sys::TupleTableSlot,
) -> pg_sys::HeapTuple {
    // SAFETY: a late slot, complete before heap's callback copies its tuple.
    unsafe {
        complete(slot);
        match (*heap()).copy_heap_tuple {
            Some(of_heap) => pg_sys::ffi::pg_guard_ffi_boundary(|| of_heap(slot)),
            None => std::ptr::null_mut(),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn copy_minimal_tuple(
    slot: *mut pg_sys::TupleTableSlot,
    extra: pg_sys::Size,
) -> pg_sys::MinimalTuple {
    // SAFETY: a late slot, complete before heap's callback forms a copy of its tuple.
    unsafe {
        complete(slot);
        match (*heap()).copy_minimal_tuple {
            Some(of_heap) => pg_sys::ffi::pg_guard_ffi_boundary(|| of_heap(slot, extra)),
            None => std::ptr::null_mut(),
        }
    }
}
