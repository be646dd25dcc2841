//! Conversion between PostgreSQL's datums and the storage types of row groups.
//!
//! A column's storage type follows from the identity of its type where that pays (numbers, text,
//! dates; the list is [`sql_types`]), otherwise from its physical form. Reading depends on the
//! stored value and the attribute's physical form alone. So a column can still be read after its
//! type was changed to a binary-compatible one without a rewrite.

pub mod arena;
pub mod fixed;
pub mod numeric;
pub mod padded;
pub mod sql_types;

use howdah_bridge::Oid;
use howdah_bridge::builtin::types;
use howdah_bridge::datum::{ArrayDatum, Datum, TypedDatum, form_of_type};
use howdah_bridge::memory;
use howdah_bridge::table::{Attribute, Descriptor};
use howdah_columnar::{ColumnBuilder, ColumnType, OwnedValue, RowGroupBuilder, Value};
use pgrx::PgSqlErrorCode;

use arena::Arena;

use crate::errors::refuse;

/// The physical form of one attribute, and how it is stored.
#[derive(Clone, Copy, Debug)]
pub struct AttributeLayout {
    pub type_oid: Oid,
    pub column_type: ColumnType,
    pub len: i16,
    pub by_value: bool,
    pub dropped: bool,
    pub not_null: bool,
    /// The alignment of values in a tuple, in bytes.
    pub align: u8,
    /// Whether values may be stored out of line, and with short headers.
    pub is_toastable: bool,
    /// Of `char(n)`: the characters that each value has.
    pub padded_to: Option<u32>,
}

/// The layout of a relation's attributes, in attribute order.
#[derive(Clone, Debug)]
pub struct TableLayout {
    pub attributes: Vec<AttributeLayout>,
    /// Whether the values of an attribute differ in length.
    pub has_variable_width: bool,
    /// Whether there are so many attributes that a row may not fit a page of heap, even with its
    /// values stored out of line.
    pub may_be_too_wide: bool,
}

/// Values longer than this keep their row hot, in bytes.
pub const LARGEST_COLD_VALUE_BYTES: usize = 8 << 20;
/// Values longer than this together keep their row hot, in bytes: a cold row is returned as one
/// tuple with all of its values, which must be far below PostgreSQL's limit of 1 GB.
pub const LARGEST_COLD_ROW_BYTES: usize = 32 << 20;

impl TableLayout {
    /// The layout of a descriptor.
    pub fn of(desc: Descriptor<'_>) -> TableLayout {
        let attributes = desc.attributes().iter().map(AttributeLayout::of);
        let attributes: Vec<_> = attributes.collect();
        let widest: usize = attributes
            .iter()
            .map(AttributeLayout::most_inline_bytes)
            .sum();
        TableLayout {
            has_variable_width: attributes.iter().any(|a| a.len < 0),
            may_be_too_wide: header_bytes(attributes.len()) + widest > MOST_TUPLE_BYTES,
            attributes,
        }
    }

    /// The storage types, in attribute order.
    pub fn column_types(&self) -> Vec<ColumnType> {
        self.attributes.iter().map(|a| a.column_type).collect()
    }
}

impl AttributeLayout {
    /// How the values of an attribute are stored.
    pub fn of(att: &Attribute) -> AttributeLayout {
        let base = match att.attisdropped {
            true => Oid::INVALID,
            false => types::base(att.atttypid),
        };
        AttributeLayout {
            type_oid: base,
            column_type: column_type(base, att.attlen, att.attbyval),
            len: att.attlen,
            by_value: att.attbyval,
            dropped: att.attisdropped,
            not_null: att.attnotnull,
            align: match att.attalign as u8 {
                b'd' => 8,
                b'i' => 4,
                b's' => 2,
                _ => 1,
            },
            is_toastable: att.attlen == -1 && att.attstorage as u8 != b'p',
            padded_to: padded::characters(att, base),
        }
    }

    /// The most bytes that a value takes in a tuple, once long ones are stored out of line.
    fn most_inline_bytes(&self) -> usize {
        match self.len {
            _ if self.dropped => 0,
            len @ 1.. => len as usize + usize::from(self.align) - 1,
            -1 if self.is_toastable => LONGEST_INLINE_BYTES,
            _ => MOST_TUPLE_BYTES,
        }
    }

    /// Whether values are stored as the bytes of their images, which are compressed.
    pub fn is_image(&self) -> bool {
        self.column_type == ColumnType::Bytes
    }

    /// How values of a type would be stored.
    pub fn of_type(type_oid: Oid) -> AttributeLayout {
        let base = types::base(type_oid);
        let (len, by_value) = form_of_type(base);
        AttributeLayout {
            type_oid: base,
            column_type: column_type(base, len, by_value),
            len,
            by_value,
            dropped: false,
            not_null: false,
            align: 1,
            is_toastable: len == -1,
            padded_to: None,
        }
    }
}

/// The value of rows that were stored before an attribute was added, which is not dropped; `None`
/// is NULL.
pub fn missing_value(desc: Descriptor<'_>, attribute: usize) -> Option<OwnedValue> {
    let layout = AttributeLayout::of_type(desc.attribute(attribute).atttypid);
    // SAFETY: a value of the attribute's type.
    desc.missing_value(attribute)
        .map(|datum| unsafe { owned_value(datum, &layout) }.unwrap_or_else(|| refuse_text()))
}

/// Converts a datum to an owned value; `None` for text that is not valid.
///
/// # Safety
/// `datum` is a valid datum of the type that `layout` describes.
pub unsafe fn owned_value(datum: Datum, layout: &AttributeLayout) -> Option<OwnedValue> {
    // SAFETY: as for this function.
    typed_value(
        unsafe { TypedDatum::of(datum, layout.len, layout.by_value) },
        layout,
    )
}

/// Converts a datum that has the layout's form to an owned value; `None` for text that is not
/// valid.
pub fn typed_value(datum: TypedDatum<'_>, layout: &AttributeLayout) -> Option<OwnedValue> {
    let mut rows = RowGroupBuilder::new(&[layout.column_type]);
    if !try_push(rows.column_mut(0), layout, datum) {
        return None;
    }
    rows.finish_row();
    rows.value(0, 0).map(OwnedValue::from)
}

/// The values of an array's elements, NULLs among them; `None` when elements are not of the
/// physical form that `layout` describes, or are text that is not valid.
///
/// # Safety
/// `array` is a valid array.
pub unsafe fn array_values(
    array: Datum,
    layout: &AttributeLayout,
) -> Option<Vec<Option<OwnedValue>>> {
    // SAFETY: as for this function.
    let elements = unsafe { ArrayDatum::of(array) }.elements();
    let value = |element: TypedDatum<'_>| {
        let has_form = element.has_form(layout.len, layout.by_value);
        has_form.then(|| typed_value(element, layout)).flatten()
    };
    let value = |element: Option<TypedDatum<'_>>| match element {
        None => Some(None),
        Some(element) => Some(Some(value(element)?)),
    };
    elements.into_iter().map(value).collect()
}

fn column_type(base: Oid, len: i16, by_value: bool) -> ColumnType {
    if let Some(stored) = sql_types::stored(base) {
        return stored;
    }
    match (by_value, len) {
        (true, 1 | 2) => ColumnType::Int16,
        (true, 4) => ColumnType::Int32,
        (true, 8) => ColumnType::Int64,
        (false, len) if len > 0 => ColumnType::Fixed { len: len as u16 },
        _ => ColumnType::Bytes,
    }
}

/// Whether the row cannot be stored on the cold side: it holds a value that is too long, or invalid
/// text, its values are too long together, or heap would refuse it.
///
/// # Safety
/// There are a value and a flag for each attribute, valid where the flag does not say NULL.
#[inline]
pub unsafe fn must_stay_hot(layout: &TableLayout, values: &[Datum], nulls: &[bool]) -> bool {
    let value = |i: usize| {
        let attribute = &layout.attributes[i];
        // SAFETY: as for this function.
        unsafe { TypedDatum::of(values[i], attribute.len, attribute.by_value) }
    };
    layout.has_variable_width && has_hot_value(layout, nulls, value)
        || layout.may_be_too_wide && is_too_wide(layout, nulls, value)
}

/// `value` returns that of an attribute which is not NULL.
fn has_hot_value<'v>(
    layout: &TableLayout,
    nulls: &[bool],
    value: impl Fn(usize) -> TypedDatum<'v>,
) -> bool {
    let mut row_bytes = 0;
    layout.attributes.iter().enumerate().any(|(i, a)| {
        if a.len != -1 || a.dropped || nulls[i] {
            return false;
        }
        let value = value(i);
        let value_bytes = value.detoasted_size();
        row_bytes += value_bytes;
        value_bytes > LARGEST_COLD_VALUE_BYTES
            || row_bytes > LARGEST_COLD_ROW_BYTES
            || a.column_type == ColumnType::Text
                // Functions that do not check encodings can put invalid text into a table, and heap
                // stores it.
                && std::str::from_utf8(&value.bytes()).is_err()
    })
}

/// The longest tuple of heap, and the longest value that it does not store out of line, where it
/// leaves so many bytes (`MaxHeapTupleSize`, `TOAST_POINTER_SIZE`, the latter aligned).
const MOST_TUPLE_BYTES: usize = 8_160;
const LONGEST_INLINE_BYTES: usize = 24;
const POINTER_BYTES: usize = 18;

/// The header of a tuple with so many attributes, NULLs among them.
fn header_bytes(attribute_count: usize) -> usize {
    (23 + attribute_count.div_ceil(8)).next_multiple_of(8)
}

/// Whether heap refuses the row, even with its long values stored out of line. On the cold side it
/// could not be changed, nor become hot again. `value` as for [`has_hot_value`].
fn is_too_wide<'v>(
    layout: &TableLayout,
    nulls: &[bool],
    value: impl Fn(usize) -> TypedDatum<'v>,
) -> bool {
    let mut bytes = header_bytes(layout.attributes.len());
    for (i, a) in layout.attributes.iter().enumerate() {
        if a.dropped || nulls[i] {
            continue;
        }
        if a.len > 0 {
            bytes = bytes.next_multiple_of(usize::from(a.align)) + a.len as usize;
        } else if a.len == -1 {
            // With a header of four bytes; in the tuple a short one has one.
            let size = value(i).detoasted_size();
            bytes = match a.is_toastable {
                true if size - 3 > LONGEST_INLINE_BYTES => bytes + POINTER_BYTES,
                true => bytes + size - 3,
                false => bytes.next_multiple_of(usize::from(a.align)) + size,
            };
        }
    }
    bytes > MOST_TUPLE_BYTES
}

/// Appends one datum to a column.
///
/// # Safety
/// `datum` is valid for the attribute unless `is_null`.
#[inline]
pub unsafe fn push_datum(
    column: &mut ColumnBuilder,
    attribute: &AttributeLayout,
    datum: Datum,
    is_null: bool,
) {
    if is_null || attribute.dropped {
        column.push_null();
        return;
    }
    // SAFETY: as for this function.
    let datum = unsafe { TypedDatum::of(datum, attribute.len, attribute.by_value) };
    push(column, attribute, datum);
}

/// Appends the values of a row; the caller finishes the row.
///
/// # Safety
/// There are a value and a flag for each attribute, valid where the flag does not say NULL.
pub unsafe fn push_datums(
    rows: &mut RowGroupBuilder,
    layout: &TableLayout,
    values: &[Datum],
    nulls: &[bool],
) {
    for (i, attribute) in layout.attributes.iter().enumerate() {
        // SAFETY: as for this function.
        unsafe { push_datum(rows.column_mut(i), attribute, values[i], nulls[i]) };
    }
}

/// Appends a datum that has the attribute's form. Text that is not valid is an ERROR.
#[inline]
pub fn push(column: &mut ColumnBuilder, attribute: &AttributeLayout, datum: TypedDatum<'_>) {
    if !try_push(column, attribute, datum) {
        refuse_text();
    }
}

/// Raises an ERROR: text that is not valid was to be stored by column.
#[cold]
fn refuse_text() -> ! {
    refuse(
        PgSqlErrorCode::ERRCODE_CHARACTER_NOT_IN_REPERTOIRE,
        "invalid byte sequence for encoding \"UTF8\" in a value to be stored by column".into(),
        Some("Replace the value by text that is valid in the database's encoding.".into()),
    )
}

/// The same; `false` for text that is not valid, which is not appended.
#[inline]
pub fn try_push(
    column: &mut ColumnBuilder,
    attribute: &AttributeLayout,
    datum: TypedDatum<'_>,
) -> bool {
    let raw = datum.word();
    match attribute.column_type {
        ColumnType::Bool => column.push_bool(raw as u8 != 0),
        ColumnType::Int16 if attribute.len == 1 => column.push_i16(i16::from(raw as i8)),
        ColumnType::Int16 => column.push_i16(raw as i16),
        ColumnType::Int32 => column.push_i32(raw as i32),
        ColumnType::Int64 => column.push_i64(raw as i64),
        ColumnType::Float32 => column.push_f32(f32::from_bits(raw as u32)),
        ColumnType::Float64 => column.push_f64(f64::from_bits(raw as u64)),
        ColumnType::Numeric => column.push_numeric(numeric::decode(&datum.bytes())),
        ColumnType::Text => match std::str::from_utf8(&datum.bytes()) {
            Ok(text) => column.push_text(text),
            Err(_) => return false,
        },
        ColumnType::Bytes | ColumnType::Fixed { .. } => column.push_bytes(&datum.bytes()),
    }
    true
}

/// The datum of a stored value, allocated in the current memory context where it is not
/// passed by value.
#[inline]
pub fn datum_of(value: Value<'_>, attribute: &AttributeLayout) -> Datum {
    datum_by(value, attribute, memory::datum_of_bytes)
}

/// Converts a value to a datum; a value that is not passed by value is stored in the arena.
pub fn datum_in(arena: &mut Arena, value: Value<'_>, attribute: &AttributeLayout) -> Datum {
    datum_by(value, attribute, |bytes, type_len| {
        Datum::from(arena.value(bytes, type_len))
    })
}

/// The same as it lies in a tuple, where short values have short headers.
pub fn packed_datum_in(arena: &mut Arena, value: Value<'_>, attribute: &AttributeLayout) -> Datum {
    datum_by(value, attribute, |bytes, type_len| {
        Datum::from(match type_len == -1 && attribute.is_toastable {
            true => arena.packed_varlena(bytes),
            false => arena.value(bytes, type_len),
        })
    })
}

/// Converts a value to a datum. `put` stores a value of these bytes, of a type of this length as
/// `pg_type.typlen` has it.
#[inline(always)]
fn datum_by(
    value: Value<'_>,
    attribute: &AttributeLayout,
    put: impl FnOnce(&[u8], i16) -> Datum,
) -> Datum {
    match value {
        Value::Bool(v) => Datum::from(v),
        Value::Int16(v) if attribute.len == 1 => Datum::from(v as i8),
        Value::Int16(v) => Datum::from(v),
        Value::Int32(v) => Datum::from(v),
        Value::Int64(v) => Datum::from(v),
        Value::Float32(v) => Datum::from(v.to_bits() as i32),
        Value::Float64(v) => Datum::from(v.to_bits()),
        Value::Text(v) => put(v.as_bytes(), attribute.len),
        Value::Bytes(v) => put(v, attribute.len),
        Value::Numeric(v) => numeric::with_image(v, |image| put(image, -1)),
    }
}
