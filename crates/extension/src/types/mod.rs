//! Between PostgreSQL's datums and the storage types of row groups.
//!
//! A column's storage type follows from its type's identity where that pays (numbers, text,
//! dates), otherwise from its physical form. Reading goes by the stored value and the
//! attribute's physical form alone, so a column whose type was changed to a
//! binary-compatible one without a rewrite still reads.

pub mod arena;
pub mod numeric;

use howdah_bridge::ffi::quiet;
use howdah_bridge::memory::{self, allocate_zeroed, varlena_of};
use howdah_bridge::table::Descriptor;
use howdah_columnar::{ColumnBuilder, ColumnType, OwnedValue, RowGroupBuilder, Value};
use pgrx::pg_sys;

use arena::Arena;

/// The physical form of one attribute, and how it is stored.
#[derive(Clone, Copy, Debug)]
pub struct AttributeLayout {
    pub type_oid: pg_sys::Oid,
    pub column_type: ColumnType,
    pub len: i16,
    pub by_value: bool,
    pub dropped: bool,
    pub not_null: bool,
}

/// The layout of a relation's attributes, in attribute order.
#[derive(Clone, Debug)]
pub struct TableLayout {
    pub attributes: Vec<AttributeLayout>,
}

/// Values longer than this keep their row hot, in bytes.
pub const LARGEST_COLD_VALUE_BYTES: usize = 8 << 20;

impl TableLayout {
    /// That of a descriptor.
    pub fn of(desc: Descriptor<'_>) -> TableLayout {
        let attributes = desc.attributes().iter().map(AttributeLayout::of);
        TableLayout {
            attributes: attributes.collect(),
        }
    }

    /// The storage types, in attribute order.
    pub fn column_types(&self) -> Vec<ColumnType> {
        self.attributes.iter().map(|a| a.column_type).collect()
    }
}

impl AttributeLayout {
    /// How the values of an attribute are stored.
    pub fn of(att: &pg_sys::FormData_pg_attribute) -> AttributeLayout {
        let base = if att.attisdropped {
            pg_sys::InvalidOid
        } else if att.atttypid.to_u32() < pg_sys::FirstGenbkiObjectId {
            // No domain has an OID assigned by hand.
            att.atttypid
        } else {
            // SAFETY: plain catalog lookup of a type that exists.
            unsafe { pg_sys::getBaseType(att.atttypid) }
        };
        AttributeLayout {
            type_oid: base,
            column_type: column_type(base, att.attlen, att.attbyval),
            len: att.attlen,
            by_value: att.attbyval,
            dropped: att.attisdropped,
            not_null: att.attnotnull,
        }
    }
}

impl AttributeLayout {
    /// How values of a type would be stored.
    pub fn of_type(type_oid: pg_sys::Oid) -> AttributeLayout {
        let (mut len, mut by_value) = (0, false);
        // SAFETY: catalog lookups of a type that exists.
        let base = unsafe {
            let base = pg_sys::getBaseType(type_oid);
            pg_sys::get_typlenbyval(base, &mut len, &mut by_value);
            base
        };
        AttributeLayout {
            type_oid: base,
            column_type: column_type(base, len, by_value),
            len,
            by_value,
            dropped: false,
            not_null: false,
        }
    }
}

/// A datum as a value of its own.
///
/// # Safety
/// `datum` is a valid datum of the type that `layout` describes.
pub unsafe fn owned_value(datum: pg_sys::Datum, layout: &AttributeLayout) -> OwnedValue {
    let mut rows = RowGroupBuilder::new(&[layout.column_type]);
    // SAFETY: as for this function.
    unsafe { push_datum(rows.column_mut(0), layout, datum, false) };
    rows.finish_row();
    match rows.value(0, 0) {
        Some(value) => OwnedValue::from(value),
        None => unreachable!("a value was pushed"),
    }
}

/// The values of an array's elements, NULLs among them; `None` when elements are not of the physical form that `layout`
/// describes.
///
/// # Safety
/// `array` is a valid array.
pub unsafe fn array_values(
    array: pg_sys::Datum,
    layout: &AttributeLayout,
) -> Option<Vec<Option<OwnedValue>>> {
    // SAFETY: as for this function; the arrays that deconstruct_array makes hold `count` entries.
    unsafe {
        let array: *mut pg_sys::ArrayType = pg_sys::pg_detoast_datum(array.cast_mut_ptr()).cast();
        let (mut len, mut by_value, mut align) = (0, false, 0);
        pg_sys::get_typlenbyvalalign((*array).elemtype, &mut len, &mut by_value, &mut align);
        if len != layout.len || by_value != layout.by_value {
            return None;
        }
        let (mut datums, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
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
        let values = (0..count as usize)
            .map(|i| (!*nulls.add(i)).then(|| owned_value(*datums.add(i), layout)));
        Some(values.collect())
    }
}

fn utf8_database() -> bool {
    // SAFETY: plain read of the database's encoding.
    unsafe { quiet::GetDatabaseEncoding() == pg_sys::pg_enc::PG_UTF8 as i32 }
}

fn column_type(base: pg_sys::Oid, len: i16, by_value: bool) -> ColumnType {
    match base {
        pg_sys::BOOLOID => return ColumnType::Bool,
        pg_sys::FLOAT4OID => return ColumnType::Float32,
        pg_sys::FLOAT8OID => return ColumnType::Float64,
        pg_sys::NUMERICOID => return ColumnType::Numeric,
        pg_sys::TEXTOID | pg_sys::VARCHAROID | pg_sys::BPCHAROID | pg_sys::JSONOID
            if utf8_database() =>
        {
            return ColumnType::Text;
        }
        _ => {}
    }
    match (by_value, len) {
        (true, 1 | 2) => ColumnType::Int16,
        (true, 4) => ColumnType::Int32,
        (true, 8) => ColumnType::Int64,
        (false, len) if len > 0 => ColumnType::Fixed { len: len as u16 },
        _ => ColumnType::Bytes,
    }
}

/// Whether a varlena is neither compressed nor out of line: most are, and need no call into
/// the server, which is guarded and costs more than the value is worth.
///
/// # Safety
/// `varlena` is a valid varlena.
unsafe fn is_plain(varlena: *const pg_sys::varlena) -> bool {
    // SAFETY: as for this function; looks at the header only.
    unsafe {
        pgrx::varatt_is_4b_u(varlena)
            || (pgrx::varatt_is_1b(varlena) && !pgrx::varatt_is_1b_e(varlena))
    }
}

/// A datum's bytes, detoasted; frees what detoasting allocated.
struct Detoasted {
    original: *mut pg_sys::varlena,
    plain: *mut pg_sys::varlena,
}

impl Detoasted {
    /// # Safety
    /// `datum` is a valid varlena datum.
    unsafe fn of(datum: pg_sys::Datum) -> Detoasted {
        let original = datum.cast_mut_ptr::<pg_sys::varlena>();
        // SAFETY: the caller vouches; may raise an ERROR when out-of-line data is missing.
        let plain = unsafe {
            match is_plain(original) {
                true => original,
                false => pg_sys::pg_detoast_datum_packed(original),
            }
        };
        Detoasted { original, plain }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `plain` is an uncompressed inline varlena.
        unsafe {
            std::slice::from_raw_parts(
                pgrx::vardata_any(self.plain).cast::<u8>(),
                pgrx::varsize_any_exhdr(self.plain),
            )
        }
    }
}

impl Drop for Detoasted {
    fn drop(&mut self) {
        if self.plain != self.original && !std::thread::panicking() {
            // SAFETY: pg_detoast_datum_packed palloc'd a copy that nobody else holds.
            unsafe { memory::free(self.plain.cast()) }
        }
    }
}

/// Whether the row holds a value that the cold side does not take: too long, or text that is none.
///
/// # Safety
/// `values` and `nulls` hold one valid entry per attribute.
pub unsafe fn must_stay_hot(
    layout: &TableLayout,
    values: *const pg_sys::Datum,
    nulls: *const bool,
) -> bool {
    layout.attributes.iter().enumerate().any(|(i, a)| {
        // SAFETY: the caller vouches for the arrays.
        unsafe {
            a.len == -1
                && !a.dropped
                && !*nulls.add(i)
                && (raw_size(*values.add(i)) > LARGEST_COLD_VALUE_BYTES
                    || a.column_type == ColumnType::Text
                        // Text that is no text can get into a table by functions that do not check;
                        // heap takes it.
                        && std::str::from_utf8(Detoasted::of(*values.add(i)).bytes()).is_err())
        }
    })
}

/// `toast_raw_datum_size`: the size that the varlena has when detoasted, header included.
unsafe fn raw_size(datum: pg_sys::Datum) -> usize {
    let varlena = datum.cast_mut_ptr::<pg_sys::varlena>();
    // SAFETY: the caller vouches for the datum.
    unsafe {
        match is_plain(varlena) {
            true => pgrx::varsize_any_exhdr(varlena) + pg_sys::VARHDRSZ,
            false => pg_sys::toast_raw_datum_size(datum),
        }
    }
}

/// Appends one datum to a column.
///
/// # Safety
/// `datum` is valid for the attribute unless `is_null`.
#[inline]
pub unsafe fn push_datum(
    column: &mut ColumnBuilder,
    attribute: &AttributeLayout,
    datum: pg_sys::Datum,
    is_null: bool,
) {
    if is_null || attribute.dropped {
        column.push_null();
        return;
    }
    let raw = datum.value();
    match attribute.column_type {
        ColumnType::Bool => column.push_bool(raw as u8 != 0),
        ColumnType::Int16 if attribute.len == 1 => column.push_i16(i16::from(raw as i8)),
        ColumnType::Int16 => column.push_i16(raw as i16),
        ColumnType::Int32 => column.push_i32(raw as i32),
        ColumnType::Int64 => column.push_i64(raw as i64),
        ColumnType::Float32 => column.push_f32(f32::from_bits(raw as u32)),
        ColumnType::Float64 => column.push_f64(f64::from_bits(raw as u64)),
        ColumnType::Numeric => {
            // SAFETY: a numeric is a varlena.
            let value = unsafe { Detoasted::of(datum) };
            column.push_numeric(numeric::decode(value.bytes()));
        }
        ColumnType::Text => {
            // SAFETY: text types are varlenas.
            let value = unsafe { Detoasted::of(datum) };
            match std::str::from_utf8(value.bytes()) {
                Ok(text) => column.push_text(text),
                Err(_) => pgrx::ereport!(
                    pgrx::PgLogLevel::ERROR,
                    pgrx::PgSqlErrorCode::ERRCODE_CHARACTER_NOT_IN_REPERTOIRE,
                    "invalid byte sequence for encoding \"UTF8\" in a value to be stored by column"
                ),
            }
        }
        ColumnType::Bytes if attribute.len == -2 => {
            // SAFETY: a cstring is NUL-terminated.
            let text = unsafe { std::ffi::CStr::from_ptr(datum.cast_mut_ptr()) };
            column.push_bytes(text.to_bytes());
        }
        ColumnType::Bytes => {
            // SAFETY: what is neither fixed nor a cstring is a varlena.
            let value = unsafe { Detoasted::of(datum) };
            column.push_bytes(value.bytes());
        }
        ColumnType::Fixed { len } => {
            // SAFETY: a fixed-length pass-by-reference datum points at `len` bytes.
            let bytes =
                unsafe { std::slice::from_raw_parts(datum.cast_mut_ptr::<u8>(), usize::from(len)) };
            column.push_bytes(bytes);
        }
    }
}

/// The datum of a stored value, allocated in the current memory context where it is not
/// passed by value: the context outlives the datum's use.
#[inline]
pub fn datum_of(value: Value<'_>, attribute: &AttributeLayout) -> pg_sys::Datum {
    datum_by(value, attribute, |bytes, type_len| match type_len {
        -1 => pg_sys::Datum::from(varlena_of(bytes)),
        type_len => {
            // A cstring ends with a zero byte.
            let terminator = usize::from(type_len == -2);
            let copy = allocate_zeroed(bytes.len() + terminator);
            // SAFETY: fresh memory of the right size.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
            pg_sys::Datum::from(copy)
        }
    })
}

/// A value as a datum; what is not passed by value lies in the arena.
pub fn datum_in(arena: &mut Arena, value: Value<'_>, attribute: &AttributeLayout) -> pg_sys::Datum {
    datum_by(value, attribute, |bytes, type_len| {
        pg_sys::Datum::from(arena.value(bytes, type_len))
    })
}

/// A value as a datum. `put` makes a value of these bytes, of a type of this length as `pg_type.typlen` tells it.
#[inline(always)]
fn datum_by(
    value: Value<'_>,
    attribute: &AttributeLayout,
    put: impl FnOnce(&[u8], i16) -> pg_sys::Datum,
) -> pg_sys::Datum {
    match value {
        Value::Bool(v) => pg_sys::Datum::from(v),
        Value::Int16(v) if attribute.len == 1 => pg_sys::Datum::from(v as i8),
        Value::Int16(v) => pg_sys::Datum::from(v),
        Value::Int32(v) => pg_sys::Datum::from(v),
        Value::Int64(v) => pg_sys::Datum::from(v),
        Value::Float32(v) => pg_sys::Datum::from(v.to_bits()),
        Value::Float64(v) => pg_sys::Datum::from(v.to_bits()),
        Value::Text(v) => put(v.as_bytes(), attribute.len),
        Value::Bytes(v) => put(v, attribute.len),
        Value::Numeric(v) => numeric::with_image(v, |image| put(image, -1)),
    }
}
