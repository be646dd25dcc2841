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
use crate::table::{Attribute, Descriptor};

/// `offsetof(HeapTupleHeaderData, t_bits)`
const HEADER_BYTES: usize = 23;
/// `VARATT_SHORT_MAX`
const LONGEST_SHORT_BYTES: usize = 0x7f;

/// The form of one attribute.
#[derive(Clone, Copy)]
struct Form {
    /// As `pg_type.typlen`.
    len: i16,
    by_value: bool,
    /// In bytes.
    alignment: u8,
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
    places: Vec<Place>,
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
            alignment: match attribute.attalign as u8 {
                b'd' => 8,
                b'i' => 4,
                b's' => 2,
                _ => 1,
            },
            is_packable: attribute.attstorage as u8 != b'p',
        };
        TupleForm {
            attributes: desc.attributes().iter().map(form).collect(),
            places: Vec::new(),
        }
    }

    /// Where every value goes; `None` if some value is not plain.
    ///
    /// # Safety
    /// One value and null flag for each attribute, all valid.
    unsafe fn place(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Option<Extent> {
        self.places.clear();
        let mut extent = Extent {
            data_bytes: 0,
            has_nulls: false,
            has_variable: false,
        };
        let mut end = 0usize;
        for ((form, value), &null) in self.attributes.iter().zip(values).zip(nulls) {
            if null {
                extent.has_nulls = true;
                self.places.push(Place::default());
                continue;
            }
            let aligned = end.next_multiple_of(usize::from(form.alignment));
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
            self.places.push(Place {
                start: start as u32,
                len: len as u32,
                is_shortened,
            });
            end = start + len;
        }
        extent.data_bytes = end;
        Some(extent)
    }

    /// Forms a tuple in the slot's memory, and stores the positions of its values in the slot's
    /// arrays; setting the slot's tuple is left to the caller. The header lacks the fields for
    /// transactions and TID.
    ///
    /// # Safety
    /// `slot` has the descriptor that this was made of; one value and null flag for each attribute,
    /// all valid.
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
                    let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                    (*slot).tts_nvalid = 0;
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
        let head = size_of::<pg_sys::HeapTupleData>().next_multiple_of(8);
        // SAFETY: the memory is as long as head, header and data; values lie within the data, and
        // their headers tell their lengths; the slot's arrays have an entry for each attribute.
        unsafe {
            let memory = allocate_in((*slot).tts_mcxt, head + len);
            memory.write_bytes(0, head + len);
            let tuple = memory.cast::<pg_sys::HeapTupleData>();
            let header = memory.add(head).cast::<pg_sys::HeapTupleHeaderData>();
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
            for (i, (form, place)) in self.attributes.iter().zip(&self.places).enumerate() {
                *out_nulls.add(i) = nulls[i];
                if nulls[i] {
                    *out.add(i) = pg_sys::Datum::from(0);
                    continue;
                }
                if extent.has_nulls {
                    *bitmap.add(i / 8) |= 1 << (i % 8);
                }
                let (value, len) = (values[i], place.len as usize);
                let target = data.add(place.start as usize);
                if form.by_value {
                    // The lowest bytes come first.
                    let bytes = (value.value() as u64).to_le_bytes();
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, len);
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

#[cfg(target_endian = "big")]
compile_error!("headers of values are read, and numbers written, with their lowest byte first");
