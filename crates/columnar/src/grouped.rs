//! Strings of several columns side by side: what one row has of them is one string, so that it
//! lies in one place.
//!
//! ```text
//!   columns    a "Ann"  b NULL  c "Oslo"          a row: lengths + 1, then the strings
//!   row        4 0 5 │ Ann │ Oslo                 (0: null; of strings of one length: nothing)
//!              ╰ a chunk like one of a column of strings, which all these columns share
//! ```
//!
//! A reader of one of the columns reads what the row has of all of them: cheap for rows that are
//! wanted whole, dear for scans of one column. So columns are grouped only where the caller asks
//! for it, and of these only strings that hardly repeat: a dictionary does better by the rest.
//!
//! Lengths are written in digits of seven bits, as many as the longest string of the column needs.
//! So a row of texts is a text, and is encoded as one.

use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{Array, BinaryViewArray};
use arrow_buffer::NullBuffer;
use vortex_array::dtype::Nullability;
use vortex_buffer::ByteBuffer;

use crate::builder::BytesBuilder;
use crate::byte_views::{built, view_of};
use crate::chunk::Chunk;
use crate::column::Column;
use crate::error::ColumnarError;
use crate::layout::ColumnMeta;
use crate::layout::wire::{Reader, ensure, put_varint};
use crate::parts::Form;
use crate::stats::ValueFlags;
use crate::types::ColumnType;
use crate::value::Value;

/// The most columns of a group: those of a row group.
const MOST_FIELDS: u32 = 4_096;
/// Digits of seven bits that every length fits.
pub(crate) const MOST_DIGITS: usize = 5;
/// Rows that are decoded at a time: mostly, they fit the processor's cache.
const ROWS_AT_A_TIME: usize = 128;

const MISSING: &str = "a row of grouped columns is missing";

/// What a row of a group is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    fields: Box<[Length]>,
    /// The bytes of all digits.
    header_bytes: usize,
    /// Whether rows are text.
    is_text: bool,
}

/// How long the strings of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// Of one length, and none is null.
    Fixed(u32),
    /// Each row tells it, in so many digits.
    Digits(u8),
}

impl Fields {
    fn new(fields: Box<[Length]>, is_text: bool) -> Self {
        let digits = |length: &Length| match *length {
            Length::Fixed(_) => 0,
            Length::Digits(digits) => digits.into(),
        };
        Self {
            header_bytes: fields.iter().map(digits).sum(),
            fields,
            is_text,
        }
    }

    /// Whether rows are text.
    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }

    /// Appends what a reader needs to know.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.is_text.into());
        put_varint(out, self.fields.len() as u64);
        for field in &self.fields {
            match *field {
                Length::Fixed(len) => {
                    out.push(0);
                    put_varint(out, len.into());
                }
                Length::Digits(digits) => out.push(digits),
            }
        }
    }

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, ColumnarError> {
        let is_text = reader.u8()?;
        let count = reader.count()?;
        ensure(
            is_text <= 1 && (1..=MOST_FIELDS).contains(&count),
            "a group of columns is wrong",
        )?;
        let mut fields = Vec::new();
        for _ in 0..count {
            let digits = reader.u8()?;
            ensure(
                usize::from(digits) <= MOST_DIGITS,
                "a length has too many digits",
            )?;
            fields.push(match digits {
                0 => Length::Fixed(reader.count()?),
                digits => Length::Digits(digits),
            });
        }
        Ok(Self::new(fields.into(), is_text == 1))
    }

    /// Where a row has the string of a column; `None` if that is null.
    fn place(&self, row: &[u8], field: usize) -> Result<Option<Range<usize>>, ColumnarError> {
        let wrong = || ColumnarError::corrupt("a row of grouped columns is wrong");
        let (mut digits, strings) = row.split_at_checked(self.header_bytes).ok_or_else(wrong)?;
        // Of seven bits each.
        if !digits.is_ascii() {
            return Err(wrong());
        }
        let (mut end, mut own) = (0, 0..0);
        let mut is_valid = false;
        for (at, length) in self.fields.iter().enumerate() {
            // So long that no sum of so many overflows.
            let stored = match *length {
                Length::Fixed(len) => len as usize + 1,
                Length::Digits(count) => {
                    let (number, rest) = digits.split_at(count.into());
                    digits = rest;
                    number_of(number)
                }
            };
            let start = end;
            end += stored.saturating_sub(1);
            if at == field {
                (own, is_valid) = (start..end, stored > 0);
            }
        }
        let place = self.header_bytes + own.start..self.header_bytes + own.end;
        match end == strings.len() {
            true => Ok(is_valid.then_some(place)),
            false => Err(wrong()),
        }
    }
}

/// The number of some digits, the lowest first.
#[inline]
fn number_of(digits: &[u8]) -> usize {
    match *digits {
        [digit] => digit.into(),
        [low, high] => usize::from(low) + (usize::from(high) << 7),
        _ => {
            let digits = digits.iter().rev();
            digits.fold(0, |number, &digit| (number << 7) + usize::from(digit))
        }
    }
}

/// The place of one column among those of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    fields: Arc<Fields>,
    index: usize,
    /// Where each row has its string, and the length of a row, if all of them have one length.
    fixed: Option<(Range<usize>, usize)>,
}

impl Field {
    /// `None` if there is no such field.
    pub(crate) fn new(fields: Arc<Fields>, index: usize) -> Option<Self> {
        let mut fixed = (index < fields.fields.len()).then_some((0..0, 0_usize))?;
        let mut all_fixed = true;
        for (at, length) in fields.fields.iter().enumerate() {
            let (own, end) = &mut fixed;
            match *length {
                Length::Fixed(len) => {
                    let start = *end;
                    *end = start.saturating_add(len as usize);
                    if at == index {
                        *own = start..*end;
                    }
                }
                Length::Digits(_) => all_fixed = false,
            }
        }
        Some(Self {
            fields,
            index,
            fixed: all_fixed.then_some(fixed),
        })
    }

    /// The type of the rows.
    pub(crate) fn row_type(&self) -> ColumnType {
        match self.fields.is_text {
            true => ColumnType::Text,
            false => ColumnType::Bytes,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.fields.fields)
    }

    /// Whether it is a column of one of these numbers in a group of so many.
    pub(crate) fn is_among(
        &self,
        index: RangeInclusive<usize>,
        count: RangeInclusive<usize>,
    ) -> bool {
        index.contains(&self.index) && count.contains(&self.fields.fields.len())
    }

    /// Appends what a reader needs to know.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.index as u64);
        self.fields.write(out);
    }

    pub(crate) fn parse(mut reader: Reader<'_>) -> Result<Self, ColumnarError> {
        let index = reader.count()? as usize;
        let fields = Arc::new(Fields::parse(&mut reader)?);
        reader.finish()?;
        let field = Self::new(fields, index);
        field.ok_or_else(|| ColumnarError::corrupt("a column is none of its group"))
    }

    /// Where a row has what it has of the column; `None` is NULL.
    #[inline]
    fn place(&self, row: &[u8]) -> Result<Option<Range<usize>>, ColumnarError> {
        if let Some((place, len)) = &self.fixed
            && row.len() == *len
        {
            return Ok(Some(place.clone()));
        }
        self.fields.place(row, self.index)
    }

    /// What a row has of the column; `None` is NULL.
    #[inline]
    fn of<'r>(&self, row: &'r [u8]) -> Result<Option<&'r [u8]>, ColumnarError> {
        let place = self.place(row)?;
        Ok(place.map(|place| &row[place]))
    }

    /// The value that a row has of the column, which is of type `ty`; `None` is NULL.
    #[inline]
    pub(crate) fn value<'r>(
        &self,
        ty: ColumnType,
        row: Value<'r>,
    ) -> Result<Option<Value<'r>>, ColumnarError> {
        let string = match row {
            // Of text, each part is text that ends where characters do.
            Value::Text(row) if ty == ColumnType::Text => {
                let Some(place) = self.place(row.as_bytes())? else {
                    return Ok(None);
                };
                return match row.get(place) {
                    Some(text) => Ok(Some(Value::Text(text))),
                    None => Err(ColumnarError::corrupt("text is not UTF-8")),
                };
            }
            Value::Text(row) => self.of(row.as_bytes())?,
            Value::Bytes(row) => self.of(row)?,
            _ => return Err(ColumnarError::corrupt("a row of a group is no string")),
        };
        string
            .map(|string| Value::of_string(ty, string))
            .transpose()
    }
}

/// The rows of these columns as strings of one column. Columns have equally many rows.
pub(crate) fn rows_of(columns: &[&BytesBuilder]) -> (Fields, BytesBuilder) {
    let fields: Box<[Length]> = columns.iter().map(|column| length_of(column)).collect();
    let row_count = columns.first().map_or(0, |column| column.ends.len());
    let data_bytes: usize = columns.iter().map(|column| column.data.len()).sum();
    let mut fields = Fields::new(fields, true);
    let mut rows = BytesBuilder::default();
    rows.data
        .reserve(data_bytes + row_count * fields.header_bytes);
    for row in 0..row_count {
        for (column, length) in columns.iter().zip(&fields.fields) {
            if let Length::Digits(count) = *length {
                let mut number = column.value(row).map_or(0, |string| string.len() + 1);
                for _ in 0..count {
                    rows.data.push(number as u8 & 0x7F);
                    number >>= 7;
                }
            }
        }
        for column in columns {
            rows.data
                .extend_from_slice(column.value(row).unwrap_or_default());
        }
        rows.ends.push(rows.data.len());
        rows.validity.push_valid();
    }
    // Each row begins with digits and ends with a string: all is text if each row is.
    fields.is_text = columns_are_text(columns);
    (fields, rows)
}

fn columns_are_text(columns: &[&BytesBuilder]) -> bool {
    columns.iter().all(|column| {
        let starts = std::iter::once(0).chain(column.ends.iter().copied());
        match std::str::from_utf8(&column.data) {
            // Strings of bytes may divide what is text only end to end.
            Ok(text) => starts
                .take(column.ends.len())
                .all(|start| text.is_char_boundary(start)),
            Err(_) => false,
        }
    })
}

fn length_of(column: &BytesBuilder) -> Length {
    let len_at = |row: usize| column.value(row).map(<[u8]>::len);
    let row_count = column.ends.len();
    let lens = (0..row_count).map(len_at);
    let longest = lens.clone().flatten().max().unwrap_or(0);
    match u32::try_from(longest) {
        Ok(len) if lens.clone().all(|other| other == Some(longest)) => Length::Fixed(len),
        _ => {
            let bits = usize::BITS - (longest + 1).leading_zeros();
            Length::Digits(bits.div_ceil(7) as u8)
        }
    }
}

/// A column of a group, opened for reading.
#[derive(Debug)]
pub(crate) struct Grouped {
    rows: Arc<Rows>,
    column: GroupedColumn,
}

#[derive(Clone, Debug)]
struct GroupedColumn {
    field: Field,
    ty: ColumnType,
    may_be_null: bool,
}

/// The rows of a group, which its columns share.
#[derive(Debug)]
struct Rows {
    chunk: Chunk,
    /// Where the chunk lies in the stored value.
    range: Range<u64>,
    /// See [`NodeTable::group_hash`](crate::nodes::NodeTable::group_hash).
    hash: u64,
    shared: Mutex<Shared>,
}

/// What columns decode for each other: a reader that asks for range after range, of column after
/// column, has the rows decoded once.
#[derive(Debug)]
struct Shared {
    /// The columns that are open.
    columns: Vec<GroupedColumn>,
    /// The range that was decoded last, and the strings of those of its columns that were not asked
    /// for since.
    range: Range<usize>,
    decoded: Vec<(usize, Column)>,
    /// Whether the next range is to be decoded for all columns: of the last one, all asked for it.
    together: bool,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            range: 0..0,
            decoded: Vec::new(),
            together: true,
        }
    }
}

impl Shared {
    fn add(&mut self, column: &GroupedColumn) {
        let is_same = |known: &GroupedColumn| known.field.index == column.field.index;
        if !self.columns.iter().any(is_same) {
            self.columns.push(column.clone());
        }
    }

    /// The strings of a column in a range, if another column has decoded them.
    fn take(&mut self, range: &Range<usize>, index: usize) -> Option<Column> {
        if self.range != *range {
            return None;
        }
        let at = self.decoded.iter().position(|(known, _)| *known == index);
        // One that is asked for and not there would have been welcome.
        self.together |= at.is_none();
        at.map(|at| self.decoded.swap_remove(at).1)
    }

    /// The columns that the next range is decoded for, beside the one that asks for it.
    fn others(&mut self, range: &Range<usize>, index: usize) -> Vec<GroupedColumn> {
        if self.range == *range {
            return Vec::new();
        }
        self.together &= self.decoded.is_empty();
        self.range = range.clone();
        self.decoded.clear();
        let others = self.columns.iter().filter(|it| it.field.index != index);
        others.filter(|_| self.together).cloned().collect()
    }
}

impl Grouped {
    pub(crate) fn open(
        meta: &ColumnMeta,
        row_count: usize,
        bytes: &ByteBuffer,
    ) -> Result<Self, ColumnarError> {
        let field = field_of(meta)?;
        let ty = field.row_type();
        let rows = Form::open_array(&meta.nodes, ty, Nullability::NonNullable, row_count, bytes)?;
        let rows = Rows {
            // Each string is checked to be text, not the row.
            chunk: Chunk::of(ColumnType::Bytes, row_count, ValueFlags::default(), rows),
            range: meta.byte_range.clone(),
            hash: meta.nodes.group_hash(),
            shared: Mutex::default(),
        };
        Ok(Self::of(Arc::new(rows), field, meta))
    }

    fn of(rows: Arc<Rows>, field: &Field, meta: &ColumnMeta) -> Self {
        let column = GroupedColumn {
            field: field.clone(),
            ty: meta.ty,
            may_be_null: meta.stats.null_count > 0,
        };
        rows.shared().add(&column);
        Self { rows, column }
    }

    /// Another column of the group.
    pub(crate) fn other(&self, meta: &ColumnMeta) -> Option<Self> {
        let field = meta.nodes.field()?;
        let is_of_group =
            self.rows.range == meta.byte_range && self.rows.hash == meta.nodes.group_hash();
        is_of_group.then(|| Self::of(Arc::clone(&self.rows), field, meta))
    }

    /// Decodes a range of rows.
    pub(crate) fn decode(&self, rows: Range<usize>) -> Result<Column, ColumnarError> {
        let index = self.column.field.index;
        let others = {
            let mut shared = self.rows.shared();
            if let Some(column) = shared.take(&rows, index) {
                return Ok(column);
            }
            shared.others(&rows, index)
        };
        if others.is_empty()
            && let Some(column) = self.decode_alone(&rows)
        {
            return column;
        }
        let mut own = Strings::default();
        let mut of_others: Vec<Strings> = others.iter().map(|_| Strings::default()).collect();
        for start in rows.clone().step_by(ROWS_AT_A_TIME) {
            let end = (start + ROWS_AT_A_TIME).min(rows.end);
            let some = bytes_of(self.rows.chunk.decode_range(start..end)?)?;
            own.add(&self.column.field, &some)?;
            for (strings, other) in of_others.iter_mut().zip(&others) {
                strings.add(&other.field, &some)?;
            }
        }
        let own = own.finish(&self.column)?;
        let mut decoded = Vec::with_capacity(others.len());
        for (strings, other) in of_others.into_iter().zip(&others) {
            decoded.push((other.field.index, strings.finish(other)?));
        }
        let mut shared = self.rows.shared();
        if shared.range == rows {
            shared.decoded.append(&mut decoded);
        }
        Ok(own)
    }

    /// Decodes a range of rows without what they have of other columns, if each row has this
    /// column's string in the same place and the rows are letters.
    fn decode_alone(&self, rows: &Range<usize>) -> Option<Result<Column, ColumnarError>> {
        let (place, len) = self.column.field.fixed.as_ref()?;
        let Form::Letters(letters) = self.rows.chunk.form() else {
            return None;
        };
        if letters.string_len() != *len || place.is_empty() {
            return None;
        }
        let strings = letters.decode_characters(rows.clone(), place.clone());
        Some(strings.and_then(|strings| {
            ensure(strings.null_count() == 0, MISSING)?;
            Column::from_bytes(self.column.ty, strings)
        }))
    }

    /// Decodes the rows with these ascending indexes.
    pub(crate) fn take(&self, rows: &[u32]) -> Result<Column, ColumnarError> {
        let mut strings = Strings::default();
        for some in rows.chunks(ROWS_AT_A_TIME) {
            let some = bytes_of(self.rows.chunk.decode_selection(some)?)?;
            strings.add(&self.column.field, &some)?;
        }
        strings.finish(&self.column)
    }
}

impl Rows {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn field_of(meta: &ColumnMeta) -> Result<&Field, ColumnarError> {
    let field = meta.nodes.field();
    field.ok_or_else(|| ColumnarError::corrupt("a column is none of its group"))
}

/// The rows of a group.
fn bytes_of(rows: Column) -> Result<BinaryViewArray, ColumnarError> {
    match rows {
        Column::Bytes(rows) => Ok(rows),
        _ => Err(ColumnarError::corrupt("rows of a group are no strings")),
    }
}

/// Strings of a column, end to end.
#[derive(Default)]
struct Strings {
    bytes: Vec<u8>,
    views: Vec<u128>,
    valid: Vec<bool>,
}

impl Strings {
    fn add(&mut self, field: &Field, rows: &BinaryViewArray) -> Result<(), ColumnarError> {
        ensure(rows.null_count() == 0, MISSING)?;
        self.views.reserve(rows.len());
        self.valid.reserve(rows.len());
        for row in 0..rows.len() {
            let string = field.of(rows.value(row))?;
            let start = self.bytes.len();
            ensure(start <= i32::MAX as usize, "a chunk is too long")?;
            let bytes = string.unwrap_or_default();
            self.bytes.extend_from_slice(bytes);
            self.views.push(view_of(bytes, start as u32));
            self.valid.push(string.is_some());
        }
        Ok(())
    }

    fn finish(self, column: &GroupedColumn) -> Result<Column, ColumnarError> {
        let nulls = NullBuffer::from(self.valid);
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        ensure(
            column.may_be_null || nulls.is_none(),
            "a column without nulls has one",
        )?;
        Column::from_bytes(column.ty, built(self.views, self.bytes, nulls)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(strings: &[Option<&[u8]>]) -> BytesBuilder {
        let mut column = BytesBuilder::default();
        for string in strings {
            column.data.extend_from_slice(string.unwrap_or_default());
            column.ends.push(column.data.len());
            match string {
                Some(_) => column.validity.push_valid(),
                None => column.validity.push_null(),
            }
        }
        column
    }

    #[test]
    fn each_column_is_found_in_its_rows_again() {
        let long = vec![b'x'; 20_000];
        let columns: [&[Option<&[u8]>]; 5] = [
            &[Some(b"Ann"), Some(b"Bob"), Some(b"Eve")],
            &[None, Some(b""), Some("Åse".as_bytes())],
            &[Some(b"12345"), None, Some(&long)],
            &[None, None, None],
            &[Some(b""), Some(b""), Some(b"")],
        ];
        let builders = columns.map(column);
        let (fields, rows) = rows_of(&builders.each_ref());
        assert!(fields.is_text);
        assert_eq!(
            *fields.fields,
            [
                Length::Fixed(3),
                Length::Digits(1),
                Length::Digits(3),
                Length::Digits(1),
                Length::Fixed(0)
            ]
        );
        let fields = Arc::new(fields);
        for (index, strings) in columns.iter().enumerate() {
            let field = Field::new(Arc::clone(&fields), index).expect("is there");
            let mut written = Vec::new();
            field.write(&mut written);
            let parsed = Field::parse(Reader::new(&written)).expect("parses");
            assert_eq!(parsed, field);
            for (row, string) in strings.iter().enumerate() {
                let stored = rows.value(row).expect("no row is null");
                let found = field.of(stored).expect("is right");
                assert_eq!(found, *string, "row {row} of {index}");
                assert!(std::str::from_utf8(stored).is_ok());
            }
        }
    }

    #[test]
    fn rows_of_other_bytes_are_no_text() {
        for (strings, is_text) in [
            (&[Some(&b"\xC3\xA5"[..]), Some(b"a")][..], true),
            (&[Some(b"\xC3"), Some(b"\xA5")], false),
            (&[Some(b"\xFF")], false),
        ] {
            let (fields, _) = rows_of(&[&column(strings)]);
            assert_eq!(fields.is_text, is_text, "{strings:?}");
        }
    }

    #[test]
    fn rows_that_are_too_short_or_too_long_are_damage() {
        let builders = [
            column(&[Some(b"one"), None]),
            column(&[Some(b"two"), Some(b"six")]),
        ];
        let (fields, rows) = rows_of(&builders.each_ref());
        let row = rows.value(0).expect("no row is null");
        assert_eq!(row, b"\x04onetwo");
        assert_eq!(fields.place(row, 1).expect("is right"), Some(4..7));
        for damaged in [
            &b""[..],
            b"\x04onetw",
            b"\x04onetwos",
            b"\x05onetwo",
            b"\x7F",
            b"\x84onetwo",
        ] {
            for field in 0..2 {
                assert!(fields.place(damaged, field).is_err(), "{damaged:?}");
            }
        }
        for damaged in [
            &[2, 1, 0, 3][..],
            &[0, 0],
            &[0, 1, 6],
            &[5, 1, 0, 3],
            &[0, 1],
        ] {
            assert!(
                Fields::parse(&mut Reader::new(damaged)).is_err(),
                "{damaged:?}"
            );
        }
    }
}
