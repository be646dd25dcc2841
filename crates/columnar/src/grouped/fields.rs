//! What a row of grouped columns is made of, and where it has what of each column.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::number::Number;
use super::numerics;
use crate::error::ColumnarError;
use crate::layout::wire::{Reader, ensure, put_varint};
use crate::types::ColumnType;
use crate::value::Value;

/// The most columns of a group: those of a row group.
const MOST_FIELDS: u32 = 4_096;
/// Digits of seven bits that every length fits.
pub(crate) const MOST_DIGITS: usize = 5;
/// How a number is told from the digits of a length.
const NUMBER: u8 = 6;

/// What a row of a group is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(super) forms: Box<[Form]>,
    /// The bytes of all digits.
    pub(super) header_bytes: usize,
    /// Whether rows are text.
    pub(super) is_text: bool,
}

/// What a row has of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Strings of one length, none of which is null.
    Fixed(u32),
    /// Strings the length of which each row tells, in so many digits.
    Digits(u8),
    /// Numbers.
    Number(Number),
}

impl Form {
    /// The bytes before the strings.
    fn header_bytes(&self) -> usize {
        match *self {
            Self::Fixed(_) => 0,
            Self::Digits(digits) => digits.into(),
            Self::Number(number) => number.bytes(),
        }
    }

    /// Appends what a reader needs to know.
    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Fixed(len) => {
                out.push(0);
                put_varint(out, len.into());
            }
            Self::Digits(digits) => out.push(digits),
            Self::Number(number) => {
                out.push(NUMBER);
                number.write(out);
            }
        }
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ColumnarError> {
        Ok(match reader.u8()? {
            0 => Self::Fixed(reader.count()?),
            NUMBER => Self::Number(Number::parse(reader)?),
            digits if usize::from(digits) <= MOST_DIGITS => Self::Digits(digits),
            form => return Err(ColumnarError::newer("form of grouped columns", form.into())),
        })
    }
}

pub(super) fn row_is_wrong() -> ColumnarError {
    ColumnarError::corrupt("a row of grouped columns is wrong")
}

impl Fields {
    pub(super) fn new(forms: Box<[Form]>, is_text: bool) -> Self {
        Self {
            header_bytes: forms.iter().map(Form::header_bytes).sum(),
            forms,
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
        put_varint(out, self.forms.len() as u64);
        self.forms.iter().for_each(|form| form.write(out));
    }

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, ColumnarError> {
        let is_text = reader.u8()?;
        let count = reader.count()?;
        ensure(
            is_text <= 1 && (1..=MOST_FIELDS).contains(&count),
            "a group of columns is wrong",
        )?;
        let forms = (0..count).map(|_| Form::parse(reader));
        Ok(Self::new(forms.collect::<Result<_, _>>()?, is_text == 1))
    }

    /// Where a row has the string of a column; `None` if that is null.
    pub(super) fn string(
        &self,
        row: &[u8],
        field: usize,
    ) -> Result<Option<Range<usize>>, ColumnarError> {
        let header = row.split_at_checked(self.header_bytes);
        let (mut digits, strings) = header.ok_or_else(row_is_wrong)?;
        // Of seven bits each.
        if !digits.is_ascii() {
            return Err(row_is_wrong());
        }
        let (mut end, mut own) = (0, 0..0);
        let mut is_valid = false;
        for (at, form) in self.forms.iter().enumerate() {
            let (number, rest) = digits.split_at(form.header_bytes());
            digits = rest;
            // So long that no sum of so many overflows.
            let stored = match *form {
                Form::Fixed(len) => len as usize + 1,
                Form::Digits(_) => length_of(number),
                Form::Number(_) => continue,
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
            false => Err(row_is_wrong()),
        }
    }

    /// How long each row is, if all are of one length.
    fn row_len(&self) -> Option<usize> {
        let lens = self.forms.iter().map(|form| match *form {
            Form::Fixed(len) => Some(len as usize),
            Form::Digits(_) => None,
            Form::Number(_) => Some(0),
        });
        lens.sum::<Option<usize>>()?.checked_add(self.header_bytes)
    }
}

/// The length plus one that some digits tell, the lowest first.
#[inline]
fn length_of(digits: &[u8]) -> usize {
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
    pub(super) index: usize,
    place: Place,
}

/// Where rows have what they have of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Digits from here on.
    Number(Number, usize),
    /// A string here, in rows that are so long.
    Fixed(Range<usize>, usize),
    /// Each row tells it.
    Varying,
}

impl Field {
    /// `None` if there is no such field.
    pub(crate) fn new(fields: Arc<Fields>, index: usize) -> Option<Self> {
        let (before, from) = fields.forms.split_at_checked(index)?;
        let header_bytes = before.iter().map(Form::header_bytes).sum();
        let place = match (from.first()?, fields.row_len()) {
            (Form::Number(number), _) => Place::Number(*number, header_bytes),
            (Form::Fixed(len), Some(row_len)) => {
                // No longer than the row.
                let strings = before.iter().map(|form| match *form {
                    Form::Fixed(len) => len as usize,
                    Form::Digits(_) | Form::Number(_) => 0,
                });
                let start = fields.header_bytes + strings.sum::<usize>();
                Place::Fixed(start..start + *len as usize, row_len)
            }
            (Form::Fixed(_) | Form::Digits(_), _) => Place::Varying,
        };
        Some(Self {
            fields,
            index,
            place,
        })
    }

    /// The type of the rows.
    pub(crate) fn row_type(&self) -> ColumnType {
        match self.fields.is_text {
            true => ColumnType::Text,
            false => ColumnType::Bytes,
        }
    }

    /// Whether it may be a column of this type.
    pub(crate) fn fits(&self, ty: ColumnType) -> bool {
        match &self.place {
            Place::Number(number, _) => number.fits(ty),
            Place::Fixed(..) | Place::Varying => ty.is_of_strings() || ty == ColumnType::Numeric,
        }
    }

    /// The numbers of the column, and where their digits begin; `None`: it has strings.
    pub(super) fn number(&self) -> Option<(Number, usize)> {
        match self.place {
            Place::Number(number, start) => Some((number, start)),
            Place::Fixed(..) | Place::Varying => None,
        }
    }

    /// Where each row has what it has of the column, and how long a row is, if all rows have one
    /// length.
    pub(super) fn constant_place(&self) -> Option<(Range<usize>, usize)> {
        let row_len = self.fields.row_len()?;
        match &self.place {
            Place::Number(number, start) => Some((*start..start + number.bytes(), row_len)),
            Place::Fixed(place, _) => Some((place.clone(), row_len)),
            Place::Varying => None,
        }
    }

    /// What rows are made of.
    pub(crate) fn fields(&self) -> &Arc<Fields> {
        &self.fields
    }

    /// Uses these fields, which another column of the group has, too, if they are the same.
    pub(crate) fn share(&mut self, fields: &Arc<Fields>) {
        if *self.fields == **fields {
            self.fields = Arc::clone(fields);
        }
    }

    /// Memory held: what columns share is the first one's.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self.index {
            0 => size_of_val(&*self.fields.forms),
            _ => 0,
        }
    }

    /// Whether it is a column of one of these numbers in a group of so many.
    pub(crate) fn is_among(
        &self,
        index: RangeInclusive<usize>,
        count: RangeInclusive<usize>,
    ) -> bool {
        index.contains(&self.index) && count.contains(&self.fields.forms.len())
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
        field.ok_or_else(super::is_none_of_its_group)
    }

    /// Where a row has the string that it has of the column; `None` is NULL.
    #[inline]
    fn string_place(&self, row: &[u8]) -> Result<Option<Range<usize>>, ColumnarError> {
        if let Place::Fixed(place, len) = &self.place
            && row.len() == *len
        {
            return Ok(Some(place.clone()));
        }
        self.fields.string(row, self.index)
    }

    /// The string that a row has of the column; `None` is NULL.
    #[inline]
    pub(super) fn string<'r>(&self, row: &'r [u8]) -> Result<Option<&'r [u8]>, ColumnarError> {
        let place = self.string_place(row)?;
        Ok(place.map(|place| &row[place]))
    }

    /// The value that a row has of the column, which is of type `ty`; `None` is NULL.
    #[inline]
    pub(crate) fn value<'r>(
        &self,
        ty: ColumnType,
        row: Value<'r>,
    ) -> Result<Option<Value<'r>>, ColumnarError> {
        let bytes = match row {
            Value::Text(row) => row.as_bytes(),
            Value::Bytes(row) => row,
            _ => return Err(ColumnarError::corrupt("a row of a group is no string")),
        };
        if let Place::Number(number, start) = self.place {
            return number.value(ty, bytes, start);
        }
        let Some(place) = self.string_place(bytes)? else {
            return Ok(None);
        };
        match row {
            // Of text, each part is text that ends where characters do.
            Value::Text(row) if ty == ColumnType::Text => match row.get(place) {
                Some(text) => Ok(Some(Value::Text(text))),
                None => Err(ColumnarError::corrupt("text is not UTF-8")),
            },
            _ if ty == ColumnType::Numeric => {
                let numeric = numerics::numeric_of(&bytes[place])?;
                Ok(Some(Value::Numeric(numeric)))
            }
            _ => Value::of_string(ty, &bytes[place]).map(Some),
        }
    }
}
