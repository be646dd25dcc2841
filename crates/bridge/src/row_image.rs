//! A copy of a cold row's tuple that outlives its slot.

use pgrx::pg_sys;

use crate::memory::allocate_in;
use crate::slot::{Slot, clear, put};

/// Longer tuples are not copied, because the copy may never be used; in bytes.
const LARGEST_IMAGE_BYTES: u32 = 2_048;

/// A copy of a cold row's tuple, to be put into another slot of the same descriptor.
pub struct RowImage {
    /// The tuple's header and data, aligned; empty if there is none.
    words: Vec<u64>,
    tuple: pg_sys::HeapTupleData,
    desc: pg_sys::TupleDesc,
}

impl Default for RowImage {
    fn default() -> RowImage {
        RowImage {
            words: Vec::new(),
            tuple: pg_sys::HeapTupleData::default(),
            desc: std::ptr::null_mut(),
        }
    }
}

impl RowImage {
    /// Copies the tuple in a slot, unless there is none, or it is long.
    pub fn take(&mut self, slot: Slot<'_>) {
        let Some(tuple) = slot.heap_tuple() else {
            self.words.clear();
            return;
        };
        // SAFETY: the data of a tuple are `t_len` bytes at `t_data`; the slot is valid.
        unsafe {
            let tuple = tuple.as_ref();
            if tuple.t_len > LARGEST_IMAGE_BYTES {
                self.words.clear();
                return;
            }
            self.words.resize((tuple.t_len as usize).div_ceil(8), 0);
            let target = self.words.as_mut_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(tuple.t_data.cast::<u8>(), target, tuple.t_len as usize);
            self.tuple = *tuple;
            self.tuple.t_data = target.cast();
            self.desc = (*slot.raw()).tts_tupleDescriptor;
        }
    }

    /// Whether the row at `tid` of `table` was copied.
    pub fn is_of(&self, table: pg_sys::Oid, tid: &pg_sys::ItemPointerData) -> bool {
        let own = &self.tuple.t_self;
        !self.words.is_empty()
            && own.ip_posid == tid.ip_posid
            && crate::tid::block_of(own) == crate::tid::block_of(tid)
            && self.tuple.t_tableOid == table
    }

    /// Whether the row was copied from a slot with this descriptor.
    pub fn has_descriptor(&self, desc: pg_sys::TupleDesc) -> bool {
        self.desc == desc
    }

    /// Stores the row in a slot, if that has the descriptor of the slot from which it was copied.
    ///
    /// # Safety
    /// There is a row, and its descriptor is still in use. `slot` is a buffer-heap-tuple slot.
    pub unsafe fn store(&self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: as for this function. A tuple and its data are one piece of memory, the data
        // aligned, as `heap_form_tuple` makes them.
        unsafe {
            if (*slot).tts_tupleDescriptor != self.desc {
                return false;
            }
            clear(slot);
            let head = size_of::<pg_sys::HeapTupleData>().next_multiple_of(8);
            let bytes = self.tuple.t_len as usize;
            let memory = allocate_in((*slot).tts_mcxt, head + bytes);
            let tuple = memory.cast::<pg_sys::HeapTupleData>();
            *tuple = self.tuple;
            (*tuple).t_data = memory.add(head).cast();
            std::ptr::copy_nonoverlapping(self.words.as_ptr().cast(), memory.add(head), bytes);
            put(slot, tuple);
            true
        }
    }

    /// The value of attribute `number` of the row; `None` is NULL. It lies inside the image.
    ///
    /// # Safety
    /// There is a row, and its descriptor is still in use.
    pub unsafe fn attribute(&self, number: i32) -> Option<pg_sys::Datum> {
        let mut tuple = self.tuple;
        let mut null = false;
        // SAFETY: as for this function.
        let value = unsafe { pg_sys::heap_getattr(&mut tuple, number, self.desc, &mut null) };
        (!null).then_some(value)
    }
}
