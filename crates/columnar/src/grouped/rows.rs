//! Rows of columns that are to be grouped, put together.

use super::fields::{Fields, Form, MOST_DIGITS};
use std::borrow::Cow;

use super::number::Numbers;
use super::numerics;
use crate::builder::{BytesBuilder, ColumnBuilder};

/// What a column brings into a group.
pub(crate) enum NewField<'r> {
    Strings(Cow<'r, BytesBuilder>),
    Numbers(Numbers<'r>),
}

impl<'r> NewField<'r> {
    /// `None`: it is better encoded by itself.
    pub(crate) fn of(column: &'r ColumnBuilder) -> Option<Self> {
        match column {
            ColumnBuilder::Text(rows)
            | ColumnBuilder::Bytes(rows)
            | ColumnBuilder::Fixed(_, rows) => {
                (!are_the_same(rows)).then_some(Self::Strings(Cow::Borrowed(rows)))
            }
            ColumnBuilder::Numeric(rows) if !Numbers::has_room(rows) => {
                Some(Self::Strings(Cow::Owned(numerics::strings_of(rows))))
            }
            numbers => Numbers::of(numbers).map(Self::Numbers),
        }
    }

    /// The most bytes that its rows take.
    pub(crate) fn most_bytes(&self) -> usize {
        match self {
            Self::Strings(rows) => rows.data.len() + rows.ends.len() * MOST_DIGITS,
            Self::Numbers(numbers) => numbers.row_count() * numbers.number.bytes(),
        }
    }

    fn row_count(&self) -> usize {
        match self {
            Self::Strings(rows) => rows.ends.len(),
            Self::Numbers(numbers) => numbers.row_count(),
        }
    }

    fn form(&self) -> Form {
        match self {
            Self::Strings(rows) => form_of(rows),
            Self::Numbers(numbers) => Form::Number(numbers.number),
        }
    }

    fn is_text(&self) -> bool {
        match self {
            Self::Strings(rows) => is_text(rows),
            Self::Numbers(_) => true,
        }
    }
}

/// The rows of these columns as strings of one column. Columns have equally many rows.
pub(crate) fn rows_of(columns: &[NewField<'_>]) -> (Fields, BytesBuilder) {
    let forms: Box<[Form]> = columns.iter().map(NewField::form).collect();
    let row_count = columns.first().map_or(0, NewField::row_count);
    // Each row begins with digits and ends with a string: all is text if each string is.
    let fields = Fields::new(forms, columns.iter().all(NewField::is_text));
    let mut rows = BytesBuilder::default();
    rows.data
        .reserve(columns.iter().map(NewField::most_bytes).sum());
    for row in 0..row_count {
        for (column, form) in columns.iter().zip(&fields.forms) {
            match (column, form) {
                (NewField::Strings(strings), Form::Digits(count)) => {
                    let mut number = strings.value(row).map_or(0, |string| string.len() + 1);
                    for _ in 0..*count {
                        rows.data.push(number as u8 & 0x7F);
                        number >>= 7;
                    }
                }
                (NewField::Numbers(numbers), _) => numbers.put(row, &mut rows.data),
                (NewField::Strings(_), _) => {}
            }
        }
        for column in columns {
            if let NewField::Strings(strings) = column {
                let string = strings.value(row).unwrap_or_default();
                rows.data.extend_from_slice(string);
            }
        }
        rows.ends.push(rows.data.len());
        rows.validity.push_valid();
    }
    (fields, rows)
}

/// Whether all strings are the same, or NULL: they need no bytes by themselves.
fn are_the_same(strings: &BytesBuilder) -> bool {
    let mut rows = (0..strings.ends.len()).map(|row| strings.value(row));
    let first = rows.next().flatten();
    rows.all(|row| row == first)
}

fn is_text(strings: &BytesBuilder) -> bool {
    let starts = std::iter::once(0).chain(strings.ends.iter().copied());
    match std::str::from_utf8(&strings.data) {
        // Strings of bytes may divide what is text only end to end.
        Ok(text) => starts
            .take(strings.ends.len())
            .all(|start| text.is_char_boundary(start)),
        Err(_) => false,
    }
}

fn form_of(strings: &BytesBuilder) -> Form {
    let len_at = |row: usize| strings.value(row).map(<[u8]>::len);
    let row_count = strings.ends.len();
    let lens = (0..row_count).map(len_at);
    let longest = lens.clone().flatten().max().unwrap_or(0);
    match u32::try_from(longest) {
        Ok(len) if lens.clone().all(|other| other == Some(longest)) => Form::Fixed(len),
        _ => {
            let bits = usize::BITS - (longest + 1).leading_zeros();
            Form::Digits(bits.div_ceil(7) as u8)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::grouped::Field;
    use crate::layout::wire::Reader;
    use crate::types::ColumnType;
    use crate::value::Value;

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
        let (fields, rows) = rows_of(
            &builders
                .each_ref()
                .map(|rows| NewField::Strings(Cow::Borrowed(rows))),
        );
        assert!(fields.is_text);
        assert_eq!(
            *fields.forms,
            [
                Form::Fixed(3),
                Form::Digits(1),
                Form::Digits(3),
                Form::Digits(1),
                Form::Fixed(0)
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
                let found = field.string(stored).expect("is right");
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
            let (fields, _) = rows_of(&[NewField::Strings(Cow::Owned(column(strings)))]);
            assert_eq!(fields.is_text, is_text, "{strings:?}");
        }
    }

    #[test]
    fn rows_that_are_too_short_or_too_long_are_damage() {
        let builders = [
            column(&[Some(b"one"), None]),
            column(&[Some(b"two"), Some(b"six")]),
        ];
        let (fields, rows) = rows_of(
            &builders
                .each_ref()
                .map(|rows| NewField::Strings(Cow::Borrowed(rows))),
        );
        let row = rows.value(0).expect("no row is null");
        assert_eq!(row, b"\x04onetwo");
        let fields = Arc::new(fields);
        let place_in = |row: &[u8], index| {
            let field = Field::new(Arc::clone(&fields), index).expect("is there");
            field.string_place(row)
        };
        assert_eq!(place_in(row, 1).expect("is right"), Some(4..7));
        for damaged in [
            &b""[..],
            b"\x04onetw",
            b"\x04onetwos",
            b"\x05onetwo",
            b"\x7F",
            b"\x84onetwo",
        ] {
            for field in 0..2 {
                assert!(place_in(damaged, field).is_err(), "{damaged:?}");
            }
        }
        for damaged in [
            &[2, 1, 0, 3][..],
            &[0, 0],
            &[0, 1, 6],
            &[5, 1, 0, 3],
            &[0, 1],
            &[0, 1, 7],
        ] {
            assert!(
                Fields::parse(&mut Reader::new(damaged)).is_err(),
                "{damaged:?}"
            );
        }
    }

    #[test]
    fn numbers_lie_before_the_strings() {
        let mut counts = ColumnBuilder::new(ColumnType::Int32);
        [Some(5), None, Some(200)]
            .into_iter()
            .for_each(|count| counts.push(count.map(Value::Int32)));
        let names = ColumnBuilder::Text(column(&[Some(b"Ann"), Some(b""), None]));
        let columns = [&names, &counts].map(|column| NewField::of(column).expect("is grouped"));
        let (fields, rows) = rows_of(&columns);
        assert!(fields.is_text);
        let stored = [0, 1, 2].map(|row| rows.value(row).expect("no row is null"));
        assert_eq!(
            stored,
            [&b"\x04\x01\x00Ann"[..], b"\x01\x00\x00", b"\x00\x44\x01"]
        );
        let fields = Arc::new(fields);
        for (index, column) in [&names, &counts].into_iter().enumerate() {
            let field = Field::new(Arc::clone(&fields), index).expect("is there");
            assert!(field.fits(column.column_type()));
            assert!(!field.fits([ColumnType::Int16, ColumnType::Text][index]));
            for (row, stored) in stored.iter().enumerate() {
                let text = std::str::from_utf8(stored).expect("is text");
                for stored in [Value::Text(text), Value::Bytes(stored)] {
                    let value = field.value(column.column_type(), stored).expect("is right");
                    assert_eq!(format!("{value:?}"), format!("{:?}", column.value(row)));
                }
            }
        }
    }
}
