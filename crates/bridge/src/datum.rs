//! Datums together with the physical form of their type.
//!
//! A bare [`Datum`] is a word that says nothing of itself. A [`TypedDatum`] is made where the type
//! is known, by the one unsafe function here; from then on its bytes are read without further
//! duties.
//!
//! Invariant: a `TypedDatum` is a valid datum, not NULL, of a type of its length, and what it
//! points at lives as long as `'a`.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ops::Deref;

use pgrx::pg_sys;

use crate::memory;
use crate::names;

pub use pgrx::pg_sys::Datum;

/// A value that is not NULL.
#[derive(Clone, Copy)]
pub struct TypedDatum<'a> {
    datum: Datum,
    /// `pg_type.typlen`
    len: i16,
    /// `pg_type.typbyval`
    by_value: bool,
    memory: PhantomData<&'a ()>,
}

impl<'a> TypedDatum<'a> {
    /// # Safety
    /// `datum` is a valid datum of a type of this length, and lives as long as the result.
    #[inline]
    pub unsafe fn of(datum: Datum, len: i16, by_value: bool) -> TypedDatum<'a> {
        TypedDatum {
            datum,
            len,
            by_value,
            memory: PhantomData,
        }
    }

    /// Whether its type has this length, and is passed in this way.
    pub fn has_form(self, len: i16, by_value: bool) -> bool {
        self.len == len && self.by_value == by_value
    }

    /// The word itself.
    #[inline]
    pub fn word(self) -> usize {
        self.datum.value()
    }

    /// The bytes of a value that is not passed by value, without a header, detoasted.
    ///
    /// # Panics
    ///
    /// Panics when the value is passed by value.
    #[inline]
    pub fn bytes(self) -> Bytes<'a> {
        assert!(!self.by_value, "a value that has bytes");
        // SAFETY: the invariant of the type; detoasting may raise an ERROR where out-of-line data
        // is missing.
        unsafe {
            let mut copy = std::ptr::null_mut();
            let bytes = match self.len {
                -1 => {
                    let original = self.datum.cast_mut_ptr::<pg_sys::varlena>();
                    let plain = detoasted(original);
                    if plain != original {
                        copy = plain;
                    }
                    std::slice::from_raw_parts(
                        pgrx::vardata_any(plain).cast::<u8>(),
                        pgrx::varsize_any_exhdr(plain),
                    )
                }
                -2 => CStr::from_ptr(self.datum.cast_mut_ptr()).to_bytes(),
                len => std::slice::from_raw_parts(self.datum.cast_mut_ptr::<u8>(), len as usize),
            };
            Bytes { bytes, copy }
        }
    }

    /// `toast_raw_datum_size`: the size that a value of variable length has when it is detoasted,
    /// header included.
    ///
    /// # Panics
    ///
    /// Panics when the type has a fixed length.
    #[inline]
    pub fn detoasted_size(self) -> usize {
        assert!(self.len == -1, "a value of variable length");
        let varlena = self.datum.cast_mut_ptr::<pg_sys::varlena>();
        // SAFETY: the invariant of the type.
        unsafe {
            match is_plain(varlena) {
                true => pgrx::varsize_any_exhdr(varlena) + pg_sys::VARHDRSZ,
                false => pg_sys::toast_raw_datum_size(self.datum),
            }
        }
    }
}

/// An array.
#[derive(Clone, Copy)]
pub struct ArrayDatum<'a> {
    datum: Datum,
    memory: PhantomData<&'a ()>,
}

impl<'a> ArrayDatum<'a> {
    /// # Safety
    /// `datum` is an array, and lives as long as the result.
    pub unsafe fn of(datum: Datum) -> ArrayDatum<'a> {
        ArrayDatum {
            datum,
            memory: PhantomData,
        }
    }

    /// The elements, `None` for NULL. A detoasted copy of the array stays in the current memory
    /// context.
    pub fn elements(self) -> Vec<Option<TypedDatum<'a>>> {
        // SAFETY: an array, whose header names the elements' type; what deconstruct_array makes
        // holds `count` entries.
        unsafe {
            let array = pg_sys::pg_detoast_datum(self.datum.cast_mut_ptr());
            let array = array.cast::<pg_sys::ArrayType>();
            let (mut len, mut by_value, mut align) = (0, false, 0);
            pg_sys::get_typlenbyvalalign((*array).elemtype, &mut len, &mut by_value, &mut align);
            let (mut datums, mut nulls, mut count) =
                (std::ptr::null_mut(), std::ptr::null_mut(), 0);
            pg_sys::deconstruct_array(
                array,
                (*array).elemtype,
                len.into(),
                by_value,
                align,
                &mut datums,
                &mut nulls,
                &mut count,
            );
            (0..count as usize)
                .map(|i| (!*nulls.add(i)).then(|| TypedDatum::of(*datums.add(i), len, by_value)))
                .collect()
        }
    }
}

/// The length of a type, and whether it is passed by value.
pub fn form_of_type(type_oid: pg_sys::Oid) -> (i16, bool) {
    let (mut len, mut by_value) = (0, false);
    // SAFETY: a catalog lookup; raises an ERROR for a type that does not exist.
    unsafe { pg_sys::get_typlenbyval(type_oid, &mut len, &mut by_value) };
    (len, by_value)
}

/// A value as its type prints it.
///
/// # Safety
/// `datum` is a valid datum of the type.
pub unsafe fn output(datum: Datum, type_oid: pg_sys::Oid) -> String {
    // SAFETY: as for this function; the output function returns a copy.
    unsafe {
        let (mut function, mut is_varlena) = (pg_sys::InvalidOid, false);
        pg_sys::getTypeOutputInfo(type_oid, &mut function, &mut is_varlena);
        names::shown(pg_sys::OidOutputFunctionCall(function, datum))
    }
}

/// The bytes of a value. A detoasted copy is freed together with it.
pub struct Bytes<'a> {
    bytes: &'a [u8],
    /// What detoasting allocated, if it did.
    copy: *mut pg_sys::varlena,
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl Drop for Bytes<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.copy.is_null() && !std::thread::panicking() {
            // SAFETY: a copy of our own, which this value alone refers to.
            unsafe { memory::free(self.copy.cast()) }
        }
    }
}

/// # Safety
/// `varlena` is a valid varlena.
#[inline]
unsafe fn detoasted(varlena: *mut pg_sys::varlena) -> *mut pg_sys::varlena {
    // SAFETY: as for this function.
    unsafe {
        match is_plain(varlena) {
            true => varlena,
            false => pg_sys::pg_detoast_datum_packed(varlena),
        }
    }
}

/// Whether a varlena is neither compressed nor out of line: most are, and need no call into the
/// server, which is guarded and costs more than the value is worth.
///
/// # Safety
/// `varlena` is a valid varlena.
#[inline]
unsafe fn is_plain(varlena: *const pg_sys::varlena) -> bool {
    // SAFETY: as for this function; looks at the header only.
    unsafe {
        pgrx::varatt_is_4b_u(varlena)
            || (pgrx::varatt_is_1b(varlena) && !pgrx::varatt_is_1b_e(varlena))
    }
}
