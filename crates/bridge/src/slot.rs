//! Cold rows as heap tuples in buffer slots.
//!
//! Heap functions require `TTSOpsBufferHeapTuple` slots. A cold row becomes a heap tuple in memory
//! of its own (xmin of its row group, no xmax, cold `t_self`), placed in such a slot without a
//! buffer, exactly as `ExecForceStoreHeapTuple` leaves it, but without its second copy.

use std::marker::PhantomData;
use std::ptr::NonNull;

use pgrx::pg_sys;

use crate::ffi::{self, quiet};
use crate::table::Descriptor;
use crate::tid::{RowNumber, Tid};
use crate::tuple::TupleForm;
use crate::xid::{CommandId, FIRST_COMMAND, Xid};

/// The transaction, and its command, that inserted a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub xid: Xid,
    /// Known only for the current transaction.
    pub cid: CommandId,
    /// What the row shows as its `xmin`. As on heap that is the inserter, even if the row is
    /// frozen: clients take it for the number of a version.
    shown: Xid,
}

impl Origin {
    /// The origin of a frozen row, whose inserter every snapshot sees as finished.
    pub const FROZEN: Origin = Origin {
        xid: Xid::FROZEN,
        cid: FIRST_COMMAND,
        shown: Xid::FROZEN,
    };

    /// That of a row which this transaction's command, or another transaction, has inserted.
    pub fn of_insert(xid: Xid, cid: CommandId) -> Origin {
        let shown = xid;
        Origin { xid, cid, shown }
    }

    /// The origin of a tuple.
    ///
    /// # Safety
    /// `header` points at a tuple on a pinned page, or in memory that the caller owns.
    pub unsafe fn of(header: pg_sys::HeapTupleHeader) -> Origin {
        // SAFETY: as for this function.
        unsafe {
            let xid = Xid::from_raw(crate::hot::xmin_of(header));
            let cid = if xid.is_own() {
                pg_sys::HeapTupleHeaderGetCmin(header)
            } else {
                Origin::FROZEN.cid
            };
            let shown = Xid::from_raw((*header).t_choice.t_heap.t_xmin);
            Origin { xid, cid, shown }
        }
    }

    /// The origin of a row that the current command inserts.
    pub fn here(cid: CommandId) -> Origin {
        Origin::of_insert(Xid::current(), cid)
    }
}

/// The value of attribute `number` of the row in a slot; `None` is NULL.
///
/// # Safety
/// The slot holds a row that has such an attribute.
pub unsafe fn attribute_of(
    slot: *mut pg_sys::TupleTableSlot,
    number: i32,
) -> Option<pg_sys::Datum> {
    // SAFETY: as for this function; the first `tts_nvalid` values are there already.
    unsafe {
        if number > i32::from((*slot).tts_nvalid) {
            pg_sys::slot_getsomeattrs_int(slot, number);
        }
        let at = number as usize - 1;
        (!*(*slot).tts_isnull.add(at)).then(|| *(*slot).tts_values.add(at))
    }
}

/// `datum_image_eq`, which is called only where there are bytes to compare.
///
/// # Safety
/// Both are values of this attribute.
pub unsafe fn is_same_image(
    a: pg_sys::Datum,
    b: pg_sys::Datum,
    attribute: &pg_sys::FormData_pg_attribute,
) -> bool {
    if attribute.attbyval {
        // Bits beyond the type's length have no meaning.
        let beyond = 64 - 8 * u32::from(attribute.attlen.unsigned_abs());
        return (a.value() as u64) << beyond == (b.value() as u64) << beyond;
    }
    // SAFETY: as for this function.
    unsafe { ffi::datum_image_eq(a, b, false, i32::from(attribute.attlen)) }
}

/// `ExecClearTuple` of `executor/tuptable.h`, which is inline there too; raises no ERROR.
///
/// # Safety
/// `slot` is valid.
#[inline]
pub unsafe fn clear(slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: `MakeTupleTableSlot` took the callbacks from one of the server's four tables of them,
    // or from an access method's copy of one; `ExecClearTuple` calls this one without a check, too.
    unsafe { ((*(*slot).tts_ops).clear.unwrap_unchecked())(slot) }
}

/// Has the first `count` attributes of the row in a slot taken from its tuple, as far as that has
/// them. May raise an ERROR, unless the slot is of heap's kind.
///
/// # Safety
/// `slot` is valid and holds a row.
#[inline]
pub unsafe fn take_attributes(slot: *mut pg_sys::TupleTableSlot, count: i32) {
    // SAFETY: as for `clear`; `slot_getsomeattrs_int` calls this one without a check, too.
    unsafe { ((*(*slot).tts_ops).getsomeattrs.unwrap_unchecked())(slot, count) }
}

/// Passes a tuple in the slot's own memory to the slot, which is empty, or held a tuple in this
/// memory.
///
/// # Safety
/// A slot that takes heap tuples and has no buffer, and a tuple in its memory with its descriptor.
pub(crate) unsafe fn put(slot: *mut pg_sys::TupleTableSlot, tuple: pg_sys::HeapTuple) {
    // SAFETY: the caller vouches for both.
    unsafe {
        let buffer_slot = slot.cast::<pg_sys::BufferHeapTupleTableSlot>();
        (*slot).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
        (*slot).tts_flags |= pg_sys::TTS_FLAG_SHOULDFREE as u16;
        (*slot).tts_nvalid = 0;
        (*slot).tts_tid = (*tuple).t_self;
        (*slot).tts_tableOid = (*tuple).t_tableOid;
        (*buffer_slot).base.tuple = tuple;
        (*buffer_slot).base.off = 0;
        (*buffer_slot).buffer = pg_sys::InvalidBuffer as pg_sys::Buffer;
    }
}

/// The TID of the row in a slot that was copied from another one. PostgreSQL copies it with the
/// tuple, but into the slot's own field only where the tuple lies in a buffer, which a cold row
/// never does.
///
/// # Safety
/// `slot` is valid.
pub unsafe fn tid_of_copy(slot: *mut pg_sys::TupleTableSlot) -> Option<pg_sys::ItemPointerData> {
    // SAFETY: the kind of slot is checked first; a tuple of a slot that is not empty is valid.
    unsafe {
        if (*slot).tts_ops != &raw const pg_sys::TTSOpsBufferHeapTuple
            || u32::from((*slot).tts_flags) & pg_sys::TTS_FLAG_EMPTY != 0
        {
            return None;
        }
        let tuple = (*slot.cast::<pg_sys::BufferHeapTupleTableSlot>())
            .base
            .tuple;
        (!tuple.is_null()).then(|| (*tuple).t_self)
    }
}

/// Gives a formed tuple the header of a live row at `tid` whose inserter is known to have
/// committed, or is the current transaction.
///
/// # Safety
/// `tuple` points at a freshly formed heap tuple.
unsafe fn set_header(
    tuple: pg_sys::HeapTuple,
    tid: pg_sys::ItemPointerData,
    table: pg_sys::Oid,
    origin: Origin,
) {
    let xmin = if origin.xid == Xid::FROZEN {
        pg_sys::HEAP_XMIN_FROZEN
    } else if origin.xid.is_own() {
        0
    } else {
        pg_sys::HEAP_XMIN_COMMITTED
    };
    // SAFETY: as for this function.
    unsafe { set_header_and_bits(tuple, tid, table, origin, xmin) };
}

/// The same, where the status bits of the inserter are known: `HEAP_XMIN_FROZEN`,
/// `HEAP_XMIN_COMMITTED`, or 0 for the current transaction.
///
/// # Safety
/// `tuple` points at a freshly formed heap tuple.
#[inline]
unsafe fn set_header_and_bits(
    tuple: pg_sys::HeapTuple,
    tid: pg_sys::ItemPointerData,
    table: pg_sys::Oid,
    origin: Origin,
    xmin: u32,
) {
    // SAFETY: the caller owns the tuple; only its header is written.
    unsafe {
        let header = (*tuple).t_data;
        (*tuple).t_self = tid;
        (*tuple).t_tableOid = table;
        (*header).t_ctid = tid;
        (*header).t_choice.t_heap.t_xmin = origin.shown.raw();
        (*header).t_choice.t_heap.t_xmax = pg_sys::InvalidTransactionId;
        (*header).t_choice.t_heap.t_field3.t_cid = origin.cid;
        (*header).t_infomask |= (xmin | pg_sys::HEAP_XMAX_INVALID) as u16;
    }
}

/// A slot of the executor's. An array of them is one of the server's pointers.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Slot<'a> {
    raw: NonNull<pg_sys::TupleTableSlot>,
    valid: PhantomData<&'a pg_sys::TupleTableSlot>,
}

impl<'a> Slot<'a> {
    /// Borrows a slot.
    ///
    /// # Safety
    /// `slot` is valid as long as the result and its copies are used, its descriptor is that of the
    /// table it is used with, and it is of heap's kind for that table (`TTSOpsBufferHeapTuple`)
    /// where a row is put into it.
    #[inline]
    pub unsafe fn from_raw(slot: *mut pg_sys::TupleTableSlot) -> Slot<'a> {
        debug_assert!(!slot.is_null());
        Slot {
            // SAFETY: a valid slot is not NULL.
            raw: unsafe { NonNull::new_unchecked(slot) },
            valid: PhantomData,
        }
    }

    /// The server's pointer, valid for `'a`.
    #[inline]
    pub fn raw(self) -> *mut pg_sys::TupleTableSlot {
        self.raw.as_ptr()
    }

    /// Borrows an array of slots.
    ///
    /// # Safety
    /// `slots` holds `count` slots, each as for [`Slot::from_raw`]; the array is not written as
    /// long as the result is used.
    pub(crate) unsafe fn array(
        slots: *mut *mut pg_sys::TupleTableSlot,
        count: usize,
    ) -> &'a [Slot<'a>] {
        // SAFETY: as for this function; a slot is nothing but its pointer, which is not NULL.
        unsafe { std::slice::from_raw_parts(slots.cast(), count) }
    }

    /// The server's array of these slots, which must not be written.
    pub(crate) fn raw_array(slots: &[Slot<'_>]) -> *mut *mut pg_sys::TupleTableSlot {
        slots.as_ptr().cast_mut().cast()
    }

    #[inline]
    fn data(&self) -> &pg_sys::TupleTableSlot {
        // SAFETY: valid by the contract of `from_raw`. Fields are copied out at once.
        unsafe { self.raw.as_ref() }
    }

    /// Identifies the slot among those in use.
    #[inline]
    pub fn address(self) -> usize {
        self.raw() as usize
    }

    /// Names a transaction as the row's locker in the slot's own tuple, which the table's is a copy
    /// of: what RETURNING shows as `xmax`.
    pub fn show_locker(self, xid: Xid) {
        let mut is_copy = false;
        // SAFETY: the slot holds a tuple, which it keeps unless a copy was made, to be freed here.
        unsafe {
            let tuple = pg_sys::ExecFetchSlotHeapTuple(self.raw(), true, &mut is_copy);
            if is_copy {
                pg_sys::pfree(tuple.cast());
                return;
            }
            let header = &mut *(*tuple).t_data;
            header.t_infomask &= !(pg_sys::HEAP_XMAX_BITS as u16);
            header.t_infomask |=
                (pg_sys::HEAP_XMAX_LOCK_ONLY | pg_sys::HEAP_XMAX_KEYSHR_LOCK) as u16;
            header.t_choice.t_heap.t_xmax = xid.raw();
        }
    }

    /// The TID of the row in it.
    #[inline]
    pub fn tid(self) -> Tid {
        Tid::from_raw(self.data().tts_tid)
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        u32::from(self.data().tts_flags) & pg_sys::TTS_FLAG_EMPTY != 0
    }

    /// The tuple in it, if it is of heap's kind and holds one; valid until it gets another row.
    #[inline]
    pub(crate) fn heap_tuple(self) -> Option<NonNull<pg_sys::HeapTupleData>> {
        if !self.is_of_heap() {
            return None;
        }
        // SAFETY: the kind of slot was looked at. An empty one has no tuple.
        NonNull::new(unsafe {
            (*self.raw().cast::<pg_sys::BufferHeapTupleTableSlot>())
                .base
                .tuple
        })
    }

    /// Forms a heap tuple from the values, and stores it as the row of `origin` at a cold TID; the
    /// slot owns it.
    ///
    /// # Safety
    /// The slot is of heap's kind for the table, with the descriptor of `form`; `values` and
    /// `nulls` hold one entry per attribute of it, valid in the current memory.
    pub unsafe fn store_cold_row(
        self,
        form: &mut TupleForm,
        (values, nulls): (&mut [pg_sys::Datum], &mut [bool]),
        tid: Tid,
        table: pg_sys::Oid,
        origin: Origin,
    ) {
        let slot = self.raw();
        // SAFETY: the caller vouches for slot and values; the tuple is formed in the slot's own
        // memory context, so that the slot may free it (TTS_FLAG_SHOULDFREE). What the slot held
        // before was released, or is the memory of the tuple; nothing raises an ERROR before the
        // fields are set.
        unsafe {
            let tuple = form.form(slot, values, nulls);
            set_header(tuple, tid.raw(), table, origin);
            let valid = (*slot).tts_nvalid;
            put(slot, tuple);
            (*slot).tts_nvalid = valid;
        }
    }

    /// The place to which the hot row in it was moved, or is being moved, and the transaction that
    /// moves it; `None` if the row was not moved, or is a cold row.
    pub fn moved_to(self) -> Option<(RowNumber, Xid)> {
        if self.tid().is_cold() {
            return None;
        }
        let tuple = self.heap_tuple()?;
        // SAFETY: a tuple in a slot lies on a page that the slot has pinned, or in memory of the
        // slot's own.
        unsafe {
            let header = tuple.as_ref().t_data;
            let row = crate::hot::moved_to(header)?;
            Some((row, Xid::from_raw((*header).t_choice.t_heap.t_xmax)))
        }
    }

    /// The values of all attributes of the row in it, and whether each is NULL. They are valid
    /// until the slot gets another row.
    ///
    /// # Panics
    /// If the slot is empty.
    #[inline]
    pub fn row(self) -> (&'a [pg_sys::Datum], &'a [bool]) {
        assert!(!self.is_empty());
        let count = self.descriptor().attribute_count();
        // SAFETY: a slot that holds a row has room for a value and a flag of every attribute. Those
        // after `tts_nvalid` are taken from the tuple, which raises no ERROR in heap's kind of
        // slot; other kinds are asked behind a guard.
        unsafe {
            if (self.data().tts_nvalid as usize) < count {
                match self.is_of_heap() {
                    true => quiet::slot_getsomeattrs_int(self.raw(), count as i32),
                    false => pg_sys::slot_getsomeattrs_int(self.raw(), count as i32),
                }
            }
            (
                std::slice::from_raw_parts(self.data().tts_values, count),
                std::slice::from_raw_parts(self.data().tts_isnull, count),
            )
        }
    }

    /// How many of its values are there.
    #[inline]
    pub fn valid_count(self) -> usize {
        self.data().tts_nvalid as usize
    }

    /// Sets the values of some of its attributes, from this one on.
    ///
    /// # Panics
    /// If it has not so many attributes.
    #[inline]
    pub fn set_values(self, from: usize, values: &[pg_sys::Datum], nulls: &[bool]) {
        assert!(from + values.len() <= self.descriptor().attribute_count());
        assert!(values.len() == nulls.len());
        // SAFETY: the slot has room for a value and a flag of every attribute.
        unsafe {
            let slot = self.raw();
            let (to, flags) = ((*slot).tts_values.add(from), (*slot).tts_isnull.add(from));
            to.copy_from_nonoverlapping(values.as_ptr(), values.len());
            flags.copy_from_nonoverlapping(nulls.as_ptr(), nulls.len());
        }
    }

    /// Records where the row in it was stored by the current transaction: its TID, its table and,
    /// where the slot holds a tuple, the header that RETURNING reads `xmin` from. Does what
    /// `heap_insert` does to the tuple that it inserts.
    #[inline]
    pub fn note_place(self, tid: Tid, table: pg_sys::Oid, origin: Origin) {
        let slot = self.raw();
        // SAFETY: the slot is valid. A tuple without a buffer belongs to the slot; one on a page is
        // a stored row, which must not be changed.
        unsafe {
            (*slot).tts_tid = tid.raw();
            (*slot).tts_tableOid = table;
            if !self.is_of_heap() {
                return;
            }
            let owned = (*slot).tts_flags & pg_sys::TTS_FLAG_SHOULDFREE as u16 != 0;
            let tuple = (*slot.cast::<pg_sys::BufferHeapTupleTableSlot>())
                .base
                .tuple;
            if owned && !tuple.is_null() {
                let header = (*tuple).t_data;
                (*header).t_infomask &= !(pg_sys::HEAP_XACT_MASK as u16);
                (*header).t_infomask2 &= !(pg_sys::HEAP2_XACT_MASK as u16);
                set_header_and_bits(tuple, tid.raw(), table, origin, 0);
            }
        }
    }

    /// Whether it stores tuples as heap's slots do.
    #[inline]
    fn is_of_heap(self) -> bool {
        std::ptr::eq(
            self.data().tts_ops,
            &raw const pg_sys::TTSOpsBufferHeapTuple,
        )
    }

    /// Its descriptor.
    #[inline]
    pub fn descriptor(self) -> Descriptor<'a> {
        // SAFETY: a slot has a descriptor as long as it is valid.
        unsafe { Descriptor::from_raw(self.data().tts_tupleDescriptor) }
    }

    /// Empties it.
    #[inline]
    pub fn clear(self) {
        // SAFETY: valid by the contract of `from_raw`.
        unsafe { clear(self.raw()) }
    }

    /// A value of the row in it, which has the number `number`; `None` is NULL.
    ///
    /// # Panics
    /// If the slot is empty or there is no such attribute.
    #[inline]
    pub fn attribute(self, number: i32) -> Option<pg_sys::Datum> {
        let count = self.descriptor().attribute_count() as i32;
        assert!(!self.is_empty() && (1..=count).contains(&number));
        // SAFETY: the slot holds a row, which has this attribute.
        unsafe { attribute_of(self.raw(), number) }
    }
}
