//! What a row of grouped columns is made of, and where it has what of each column.

use std::cmp::Ordering;
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
    /// The lengths among them.
    lengths: Box<[Length]>,
    /// The bytes of all strings that have none.
    fixed_bytes: usize,
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
        let (mut header_bytes, mut fixed_bytes) = (0, 0);
        let mut lengths = Vec::new();
        for form in &forms {
            match *form {
                Form::Fixed(len) => fixed_bytes += len as usize,
                Form::Digits(digits) => lengths.push(Length {
                    at: header_bytes as u32,
                    digits,
                }),
                Form::Number(_) => {}
            }
            header_bytes += form.header_bytes();
        }
        Self {
            header_bytes,
            lengths: lengths.into(),
            fixed_bytes,
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

    /// Where a row has a string that lies behind others; `None` if it is null.
    #[inline]
    fn string(&self, row: &[u8], behind: Behind) -> Result<Option<Range<usize>>, ColumnarError> {
        let header = row.split_at_checked(self.header_bytes);
        let (header, strings) = header.ok_or_else(row_is_wrong)?;
        // Lengths are so short that no sum of so many overflows.
        let mut end = self.fixed_bytes;
        let (mut start, mut own) = (self.header_bytes + behind.fixed_bytes, 0);
        for (at, length) in self.lengths.iter().enumerate() {
            let stored = length.stored(header)?;
            let len = stored.saturating_sub(1);
            end += len;
            match at.cmp(&behind.lengths) {
                Ordering::Less => start += len,
                Ordering::Equal => own = stored,
                Ordering::Greater => {}
            }
        }
        if end != strings.len() {
            return Err(row_is_wrong());
        }
        Ok(match behind.fixed_len {
            Some(len) => Some(start..start + len as usize),
            None => (own.checked_sub(1)).map(|len| start..start + len),
        })
    }

    /// How long each row is, if all are of one length.
    fn row_len(&self) -> Option<usize> {
        (self.lengths.is_empty()).then_some(self.header_bytes + self.fixed_bytes)
    }
}

/// Where a row has the length of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Length {
    at: u32,
    digits: u8,
}

impl Length {
    /// The length plus one, which the digits in the row's header tell, the lowest first.
    #[inline]
    fn stored(self, header: &[u8]) -> Result<usize, ColumnarError> {
        let at = self.at as usize;
        let digits = &header[at..at + usize::from(self.digits)];
        let number = match *digits {
            [digit] => digit.into(),
            [low, high] => usize::from(low) + (usize::from(high) << 7),
            _ => {
                let digits = digits.iter().rev();
                digits.fold(0, |number, &digit| (number << 7) + usize::from(digit))
            }
        };
        // Of seven bits each.
        match digits.is_ascii() {
            true => Ok(number),
            false => Err(row_is_wrong()),
        }
    }
}

/// What lies before a string among the strings of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Behind {
    /// So many strings with lengths of their own, and so many bytes of others.
    lengths: usize,
    fixed_bytes: usize,
    /// How long the string itself is, if that is the same in all rows.
    fixed_len: Option<u32>,
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
    /// A string behind others, of which some differ in length from row to row.
    Varying(Behind),
}

impl Field {
    /// `None` if there is no such field.
    pub(crate) fn new(fields: Arc<Fields>, index: usize) -> Option<Self> {
        let (before, from) = fields.forms.split_at_checked(index)?;
        let header_bytes = before.iter().map(Form::header_bytes).sum();
        let (mut lengths, mut fixed_bytes) = (0, 0);
        for form in before {
            match *form {
                Form::Fixed(len) => fixed_bytes += len as usize,
                Form::Digits(_) => lengths += 1,
                Form::Number(_) => {}
            }
        }
        let start = fields.header_bytes + fixed_bytes;
        let behind = |fixed_len| Behind {
            lengths,
            fixed_bytes,
            fixed_len,
        };
        let place = match (*from.first()?, fields.row_len()) {
            (Form::Number(number), _) => Place::Number(number, header_bytes),
            (Form::Fixed(len), Some(row_len)) => Place::Fixed(start..start + len as usize, row_len),
            (Form::Fixed(len), None) => Place::Varying(behind(Some(len))),
            (Form::Digits(_), _) => Place::Varying(behind(None)),
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
            Place::Fixed(..) | Place::Varying(_) => ty.is_of_strings() || ty == ColumnType::Numeric,
        }
    }

    /// The numbers of the column, and where their digits begin; `None`: it has strings.
    pub(super) fn number(&self) -> Option<(Number, usize)> {
        match self.place {
            Place::Number(number, start) => Some((number, start)),
            Place::Fixed(..) | Place::Varying(_) => None,
        }
    }

    /// Where each row has what it has of the column, and how long a row is, if all rows have one
    /// length.
    pub(super) fn constant_place(&self) -> Option<(Range<usize>, usize)> {
        let row_len = self.fields.row_len()?;
        match &self.place {
            Place::Number(number, start) => Some((*start..start + number.bytes(), row_len)),
            Place::Fixed(place, _) => Some((place.clone(), row_len)),
            Place::Varying(_) => None,
        }
    }

    /// What rows are made of.
    pub(crate) fn fields(&self) -> &Arc<Fields> {
        &self.fields
    }

    /// The column's number in its group.
    pub(crate) fn index(&self) -> usize {
        self.index
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
    pub(super) fn string_place(&self, row: &[u8]) -> Result<Option<Range<usize>>, ColumnarError> {
        match &self.place {
            Place::Fixed(place, len) if row.len() == *len => Ok(Some(place.clone())),
            Place::Varying(behind) => self.fields.string(row, *behind),
            Place::Fixed(..) | Place::Number(..) => Err(row_is_wrong()),
        }
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
