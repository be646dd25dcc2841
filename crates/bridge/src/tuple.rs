//! Heap tuples formed as `heap_form_tuple` does, for many rows of one descriptor.
//!
//! ```text
//!   header, null bitmap │ values: aligned as their types require; short ones of variable length
//!                       │ with a header of one byte, not aligned
//!                       │ (access/common/heaptuple.c, fill_val)
//! ```
//!
//! The facts about the attributes are gathered once, and the positions of the values are stored in
//! the slot, so that no reader has to deform the tuple. Values that are toasted or compressed are
//! left to PostgreSQL.

use pgrx::pg_sys;

use crate::memory::allocate_in;
use crate::slot::clear;
use crate::table::{Attribute, Descriptor};

/// `offsetof(HeapTupleHeaderData, t_bits)`
const HEADER_BYTES: usize = 23;
/// `HEAPTUPLESIZE`
const HEAD_BYTES: usize = size_of::<pg_sys::HeapTupleData>().next_multiple_of(8);
/// Head and header of a tuple without NULLs, in words.
const HEAD_WORDS: usize = (HEAD_BYTES + HEADER_BYTES.next_multiple_of(8)) / 8;
/// `VARATT_SHORT_MAX`
const LONGEST_SHORT_BYTES: usize = 0x7f;

/// The form of one attribute.
#[derive(Clone, Copy)]
struct Form {
    /// As `pg_type.typlen`.
    len: i16,
    by_value: bool,
    /// In bytes, less one.
    alignment_mask: u8,
    /// Whether short values get a short header.
    is_packable: bool,
}

/// Where a value goes, in the tuple's data.
#[derive(Clone, Copy, Default)]
struct Place {
    start: u32,
    len: u32,
    /// Whether its header becomes a short one.
    is_shortened: bool,
}

/// The form of the tuples of a descriptor.
pub struct TupleForm {
    attributes: Box<[Form]>,
    /// Those of the row that is formed, one for each attribute.
    places: Box<[Place]>,
}

/// The size of a tuple.
struct Extent {
    data_bytes: usize,
    has_nulls: bool,
    has_variable: bool,
}

impl TupleForm {
    /// The form for the rows of a descriptor.
    pub fn of(desc: Descriptor<'_>) -> TupleForm {
        let form = |attribute: &Attribute| Form {
            len: attribute.attlen,
            by_value: attribute.attbyval,
            alignment_mask: match attribute.attalign as u8 {
                b'd' => 7,
                b'i' => 3,
                b's' => 1,
                _ => 0,
            },
            is_packable: attribute.attstorage as u8 != b'p',
        };
        let attributes: Box<[Form]> = desc.attributes().iter().map(form).collect();
        TupleForm {
            places: vec![Place::default(); attributes.len()].into_boxed_slice(),
            attributes,
        }
    }

    /// Where every value goes; `None` if some value is not plain.
    ///
    /// # Safety
    /// One value and null flag for each attribute, all valid.
    unsafe fn place(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Option<Extent> {
        let mut extent = Extent {
            data_bytes: 0,
            has_nulls: false,
            has_variable: false,
        };
        let mut end = 0usize;
        // By number: iterators of so many slices are not compiled well.
        for i in 0..self.attributes.len() {
            // SAFETY: there are as many places, values and flags as attributes.
            let (form, value, null) = unsafe {
                let form = *self.attributes.get_unchecked(i);
                (form, *values.get_unchecked(i), *nulls.get_unchecked(i))
            };
            if null {
                extent.has_nulls = true;
                continue;
            }
            let mask = usize::from(form.alignment_mask);
            let aligned = (end + mask) & !mask;
            let (start, len, is_shortened) = match form.len {
                -1 => {
                    extent.has_variable = true;
                    // SAFETY: a varlena is at least its header long, which tells its length.
                    let (first, word) = unsafe {
                        let bytes = value.cast_mut_ptr::<u8>();
                        let first = *bytes;
                        let is_short = first & 1 == 1;
                        let word = match is_short {
                            true => 0,
                            false => bytes.cast::<u32>().read_unaligned(),
                        };
                        (first, word)
                    };
                    match (first & 1, word & 3) {
                        (1, _) if first == 1 => return None,
                        (1, _) => (end, usize::from(first >> 1), false),
                        (_, 0) => {
                            let len = (word >> 2) as usize;
                            match form.is_packable && len - 3 <= LONGEST_SHORT_BYTES {
                                true => (end, len - 3, true),
                                false => (aligned, len, false),
                            }
                        }
                        _ => return None,
                    }
                }
                -2 => {
                    extent.has_variable = true;
                    // SAFETY: a valid C string.
                    let text = unsafe { std::ffi::CStr::from_ptr(value.cast_mut_ptr()) };
                    (end, text.count_bytes() + 1, false)
                }
                len => (aligned, len as usize, false),
            };
            let place = Place {
                start: start as u32,
                len: len as u32,
                is_shortened,
            };
            // SAFETY: there is a place for each attribute.
            unsafe { *self.places.get_unchecked_mut(i) = place };
            end = start + len;
        }
        extent.data_bytes = end;
        Some(extent)
    }

    /// Forms a tuple in the slot's memory, in place of what the slot holds, and stores the
    /// positions of its values in the slot's arrays; setting the slot's tuple is left to the
    /// caller. The header lacks the fields for transactions and TID.
    ///
    /// # Safety
    /// `slot` is a buffer slot that has the descriptor that this was made of; one value and null
    /// flag for each attribute, all valid, none of them in the slot.
    pub unsafe fn form(
        &mut self,
        slot: *mut pg_sys::TupleTableSlot,
        values: &mut [pg_sys::Datum],
        nulls: &mut [bool],
    ) -> pg_sys::HeapTuple {
        // SAFETY: as for this function.
        unsafe {
            match self.place(values, nulls) {
                Some(extent) => self.write(slot, values, nulls, &extent),
                None => {
                    clear(slot);
                    let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                    let old = pg_sys::MemoryContextSwitchTo((*slot).tts_mcxt);
                    let tuple = pg_sys::heap_form_tuple((*slot).tts_tupleDescriptor, values, nulls);
                    pg_sys::MemoryContextSwitchTo(old);
                    tuple
                }
            }
        }
    }

    /// # Safety
    /// As for [`TupleForm::form`]; the values were placed.
    unsafe fn write(
        &self,
        slot: *mut pg_sys::TupleTableSlot,
        values: &[pg_sys::Datum],
        nulls: &[bool],
        extent: &Extent,
    ) -> pg_sys::HeapTuple {
        let attribute_count = self.attributes.len();
        let bitmap_bytes = match extent.has_nulls {
            true => attribute_count.div_ceil(8),
            false => 0,
        };
        let data_start = (HEADER_BYTES + bitmap_bytes).next_multiple_of(8);
        let len = data_start + extent.data_bytes;
        // SAFETY: the memory is as long as head, header and data; values lie within the data, and
        // their headers tell their lengths; the slot's arrays have an entry for each attribute.
        unsafe {
            let memory = memory_in(slot, len);
            // The values are written later, and what lies between them.
            memory.cast::<[u64; HEAD_WORDS]>().write([0; HEAD_WORDS]);
            for word in HEAD_WORDS..(HEAD_BYTES + data_start) / 8 {
                memory.cast::<u64>().add(word).write(0);
            }
            let tuple = memory.cast::<pg_sys::HeapTupleData>();
            let header = memory.add(HEAD_BYTES).cast::<pg_sys::HeapTupleHeaderData>();
            (*tuple).t_len = len as u32;
            (*tuple).t_data = header;
            (*header).t_infomask2 = attribute_count as u16;
            (*header).t_hoff = data_start as u8;
            if extent.has_nulls {
                (*header).t_infomask |= pg_sys::HEAP_HASNULL as u16;
            }
            if extent.has_variable {
                (*header).t_infomask |= pg_sys::HEAP_HASVARWIDTH as u16;
            }
            let bitmap = header.cast::<u8>().add(HEADER_BYTES);
            let data = header.cast::<u8>().add(data_start);
            let (out, out_nulls) = ((*slot).tts_values, (*slot).tts_isnull);
            let mut end = 0;
            for i in 0..attribute_count {
                let form = *self.attributes.get_unchecked(i);
                let place = *self.places.get_unchecked(i);
                let (value, null) = (*values.get_unchecked(i), *nulls.get_unchecked(i));
                *out_nulls.add(i) = null;
                if null {
                    *out.add(i) = pg_sys::Datum::from(0);
                    continue;
                }
                if extent.has_nulls {
                    *bitmap.add(i / 8) |= 1 << (i % 8);
                }
                let (start, len) = (place.start as usize, place.len as usize);
                let target = data.add(start);
                if start > end {
                    pad(data.add(end), start - end);
                }
                end = start + len;
                if form.by_value {
                    // The lowest bytes come first.
                    let number = value.value() as u64;
                    match len {
                        8 => target.cast::<u64>().write_unaligned(number),
                        4 => target.cast::<u32>().write_unaligned(number as u32),
                        2 => target.cast::<u16>().write_unaligned(number as u16),
                        _ => {
                            let bytes = number.to_le_bytes();
                            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, len);
                        }
                    }
                    *out.add(i) = value;
                    continue;
                }
                let source = value.cast_mut_ptr::<u8>();
                if place.is_shortened {
                    *target = (len << 1 | 1) as u8;
                    std::ptr::copy_nonoverlapping(source.add(4), target.add(1), len - 1);
                } else {
                    std::ptr::copy_nonoverlapping(source, target, len);
                }
                *out.add(i) = pg_sys::Datum::from(target);
            }
            (*slot).tts_nvalid = attribute_count as i16;
            tuple
        }
    }
}

/// Writes at most seven zero bytes, without a call.
///
/// # Safety
/// `start` points at memory for them.
#[inline(always)]
unsafe fn pad(start: *mut u8, bytes: usize) {
    // SAFETY: as for this function.
    unsafe {
        let mut at = start;
        if bytes & 1 != 0 {
            at.write(0);
            at = at.add(1);
        }
        if bytes & 2 != 0 {
            at.cast::<u16>().write_unaligned(0);
            at = at.add(2);
        }
        if bytes & 4 != 0 {
            at.cast::<u32>().write_unaligned(0);
        }
    }
}

/// Memory for a tuple of so many bytes and its head in front: that of the slot's own tuple, if it
/// is long enough, otherwise fresh memory of an empty slot. What the slot's fields tell of its
/// tuple is true again when the new tuple is stored.
///
/// # Safety
/// `slot` is a valid buffer slot.
unsafe fn memory_in(slot: *mut pg_sys::TupleTableSlot, bytes: usize) -> *mut u8 {
    // SAFETY: the slot is valid. A tuple that the slot is to free lies in the slot's memory; where
    // its data follow its head, both were allocated together, at least as long as they are.
    unsafe {
        let buffer_slot = slot.cast::<pg_sys::BufferHeapTupleTableSlot>();
        let tuple = (*buffer_slot).base.tuple;
        if u32::from((*slot).tts_flags) & pg_sys::TTS_FLAG_SHOULDFREE != 0
            && !tuple.is_null()
            && (*tuple).t_data.cast::<u8>() == tuple.cast::<u8>().add(HEAD_BYTES)
            && (*tuple).t_len as usize >= bytes
        {
            return tuple.cast();
        }
        clear(slot);
        allocate_in((*slot).tts_mcxt, HEAD_BYTES + bytes)
    }
}

#[cfg(target_endian = "big")]
compile_error!("headers of values are read, and numbers written, with their lowest byte first");
