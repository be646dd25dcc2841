//! A number in a row of grouped columns: digits of seven bits, so that a row of texts stays text.
//!
//! ```text
//!   stored   value − least + 1, the lowest digit first        0: null
//!   digits   as many as the greatest value of the column needs, 1 to 10; in all rows
//! ```

use super::fields::row_is_wrong;
use crate::builder::{ColumnBuilder, Digits, NumericBuilder, Scales};
use crate::error::ColumnarError;
use crate::layout::wire::{Reader, ensure, put_signed, put_varint};
use crate::types::ColumnType;
use crate::value::{Numeric, Value};

/// Digits that every number of 64 bits fits, and one that says null.
const MOST_DIGITS: u8 = 10;
/// Those that are read at once.
const WORD_DIGITS: usize = size_of::<u64>();

/// How the numbers of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    digits: u8,
    /// The bits of the least value: of an integer with its sign, of a float those of the float.
    least: u64,
    /// Of the values of a numeric column.
    scale: u16,
}

impl Number {
    /// The bytes that each row has of the column.
    pub(super) fn bytes(&self) -> usize {
        self.digits.into()
    }

    pub(super) fn scale(&self) -> u16 {
        self.scale
    }

    /// Whether it may be a column of this type.
    pub(super) fn fits(&self, ty: ColumnType) -> bool {
        !ty.is_of_strings() && (ty == ColumnType::Numeric || self.scale == 0)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.digits);
        put_signed(out, (self.least as i64).into());
        put_varint(out, self.scale.into());
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ColumnarError> {
        let digits = reader.u8()?;
        let least = i64::try_from(reader.signed()?);
        let scale = u16::try_from(reader.count()?);
        ensure(
            (1..=MOST_DIGITS).contains(&digits) && least.is_ok() && scale.is_ok(),
            "numbers of a group of columns are wrong",
        )?;
        Ok(Self {
            digits,
            least: least.unwrap_or_default() as u64,
            scale: scale.unwrap_or_default(),
        })
    }

    /// The bits of the number whose digits begin at `start` of a row; `None` is NULL.
    #[inline]
    pub(super) fn bits(&self, row: &[u8], start: usize) -> Result<Option<u64>, ColumnarError> {
        let count = self.bytes();
        let stored = match row.get(start..start + WORD_DIGITS) {
            Some(word) if count <= WORD_DIGITS => {
                let word = u64::from_le_bytes(word.try_into().map_err(|_| row_is_wrong())?);
                number_of_word(word & (u64::MAX >> (64 - 8 * count)))?.into()
            }
            _ => {
                let digits = row.get(start..start + count).ok_or_else(row_is_wrong)?;
                let (low, high) = digits.split_at(count.min(WORD_DIGITS));
                let word_of = |digits: &[u8]| {
                    let mut word = [0; WORD_DIGITS];
                    word[..digits.len()].copy_from_slice(digits);
                    number_of_word(u64::from_le_bytes(word))
                };
                u128::from(word_of(low)?) | u128::from(word_of(high)?) << (7 * WORD_DIGITS)
            }
        };
        let Some(above) = stored.checked_sub(1) else {
            return Ok(None);
        };
        let above = u64::try_from(above).map_err(|_| row_is_wrong())?;
        Ok(Some(self.least.wrapping_add(above)))
    }

    /// The same as a value of type `ty`.
    #[inline]
    pub(super) fn value(
        &self,
        ty: ColumnType,
        row: &[u8],
        start: usize,
    ) -> Result<Option<Value<'static>>, ColumnarError> {
        let bits = self.bits(row, start)?;
        Ok(bits.map(|bits| match ty {
            ColumnType::Numeric => Value::Numeric(Numeric::Small {
                unscaled: (bits as i64).into(),
                scale: self.scale,
            }),
            ty => Value::of_bits(ty, bits),
        }))
    }

    /// Appends the digits of a number, or of NULL.
    fn put(&self, bits: Option<u64>, out: &mut Vec<u8>) {
        let above = bits.map(|bits| bits.wrapping_sub(self.least));
        let mut stored = above.map_or(0, |above| u128::from(above) + 1);
        for _ in 0..self.digits {
            out.push(stored as u8 & 0x7F);
            stored >>= 7;
        }
    }
}

/// The number of eight digits of seven bits.
#[inline]
fn number_of_word(word: u64) -> Result<u64, ColumnarError> {
    if word & 0x8080_8080_8080_8080 != 0 {
        return Err(row_is_wrong());
    }
    let pairs = word & 0x007F_007F_007F_007F | word >> 1 & 0x3F80_3F80_3F80_3F80;
    let fours = pairs & 0x0000_3FFF_0000_3FFF | pairs >> 2 & 0x0FFF_C000_0FFF_C000;
    Ok(fours & 0x0FFF_FFFF | fours >> 4 & 0x00FF_FFFF_F000_0000)
}

/// The numbers of a column that is to be grouped.
pub(crate) struct Numbers<'r> {
    rows: &'r ColumnBuilder,
    pub(super) number: Number,
}

impl<'r> Numbers<'r> {
    /// Whether it has room for these: numerics of at most 64 bits, and one scale.
    pub(super) fn has_room(rows: &NumericBuilder) -> bool {
        matches!(rows.digits, Digits::Narrow(_))
            && matches!(rows.scales, Scales::Constant(_))
            && rows.image_rows.is_empty()
    }

    /// `None` if they are all the same, which needs no bytes by itself, or are not
    /// [of numbers](Self::has_room).
    pub(super) fn of(rows: &'r ColumnBuilder) -> Option<Self> {
        let scale = match rows {
            ColumnBuilder::Numeric(rows) => match rows.scales {
                Scales::Constant(scale) if Self::has_room(rows) => scale.unwrap_or(0),
                _ => return None,
            },
            _ => 0,
        };
        let is_float = matches!(rows, ColumnBuilder::Float32(_) | ColumnBuilder::Float64(_));
        // In the order of the values, as unsigned numbers.
        let sign = u64::from(!is_float) << 63;
        let numbers = (0..rows.len()).map(|row| bits_at(rows, row));
        let (mut least, mut greatest, mut has_null) = (u64::MAX, 0, false);
        for bits in numbers {
            match bits {
                Some(bits) => {
                    least = least.min(bits ^ sign);
                    greatest = greatest.max(bits ^ sign);
                }
                None => has_null = true,
            }
        }
        let range = greatest.checked_sub(least)?;
        let bits = u128::BITS - (u128::from(range) + 1).leading_zeros();
        let number = Number {
            digits: bits.div_ceil(7) as u8,
            least: least ^ sign,
            scale,
        };
        (range > 0 || has_null).then_some(Self { rows, number })
    }

    /// Appends the digits of a row.
    pub(super) fn put(&self, row: usize, out: &mut Vec<u8>) {
        self.number.put(bits_at(self.rows, row), out);
    }

    pub(super) fn row_count(&self) -> usize {
        self.rows.len()
    }
}

/// The bits of a row's number; `None` is NULL.
fn bits_at(rows: &ColumnBuilder, row: usize) -> Option<u64> {
    Some(match rows {
        ColumnBuilder::Bool(rows) => rows.value(row)?.into(),
        ColumnBuilder::Int16(rows) => i64::from(rows.value(row)?) as u64,
        ColumnBuilder::Int32(rows) => i64::from(rows.value(row)?) as u64,
        ColumnBuilder::Int64(rows) => rows.value(row)? as u64,
        ColumnBuilder::Float32(rows) => rows.value(row)?.to_bits().into(),
        ColumnBuilder::Float64(rows) => rows.value(row)?.to_bits(),
        ColumnBuilder::Numeric(rows) => match rows.value(row)? {
            Numeric::Small { unscaled, .. } => unscaled as u64,
            Numeric::Image(_) => return None,
        },
        ColumnBuilder::Text(_) | ColumnBuilder::Bytes(_) | ColumnBuilder::Fixed(..) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(ty: ColumnType, values: &[Option<Value<'_>>]) -> ColumnBuilder {
        let mut column = ColumnBuilder::new(ty);
        values.iter().for_each(|&value| column.push(value));
        column
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let small = |unscaled| Some(Value::Numeric(Numeric::Small { unscaled, scale: 2 }));
        let columns = [
            (
                ColumnType::Bool,
                vec![Some(Value::Bool(true)), None, Some(Value::Bool(false))],
                1,
            ),
            (
                ColumnType::Int16,
                vec![Some(Value::Int16(i16::MIN)), Some(Value::Int16(i16::MAX))],
                3,
            ),
            (
                ColumnType::Int32,
                vec![Some(Value::Int32(1_000)), Some(Value::Int32(1_126))],
                1,
            ),
            (
                ColumnType::Int32,
                vec![Some(Value::Int32(1_000)), Some(Value::Int32(1_127))],
                2,
            ),
            (
                ColumnType::Int64,
                vec![
                    Some(Value::Int64(i64::MIN)),
                    Some(Value::Int64(i64::MAX)),
                    None,
                ],
                10,
            ),
            (
                ColumnType::Int64,
                vec![Some(Value::Int64(-5)), Some(Value::Int64(1 << 55))],
                8,
            ),
            (
                ColumnType::Int64,
                vec![Some(Value::Int64(0)), Some(Value::Int64(1 << 56))],
                9,
            ),
            (
                ColumnType::Float32,
                vec![Some(Value::Float32(-0.0)), Some(Value::Float32(0.0))],
                5,
            ),
            (
                ColumnType::Float64,
                vec![
                    Some(Value::Float64(f64::INFINITY)),
                    Some(Value::Float64(1.5)),
                ],
                9,
            ),
            (
                ColumnType::Numeric,
                vec![small(-7), None, small(1 << 60)],
                9,
            ),
        ];
        for (ty, values, digits) in columns {
            let column = column(ty, &values);
            let numbers = Numbers::of(&column).expect("is grouped");
            let number = numbers.number;
            assert_eq!(number.digits, digits, "{values:?}");
            assert!(number.fits(ty));
            let mut written = Vec::new();
            number.write(&mut written);
            let parsed = Number::parse(&mut Reader::new(&written)).expect("parses");
            assert_eq!(parsed, number);
            for (row, value) in values.iter().enumerate() {
                // With bytes behind it and without.
                for behind in [0, 9] {
                    let mut stored = vec![b'x'; 3];
                    numbers.put(row, &mut stored);
                    stored.resize(stored.len() + behind, 0xFF);
                    let read = number.value(ty, &stored, 3).expect("is right");
                    // With their signs, also of zeros.
                    assert_eq!(
                        format!("{read:?}"),
                        format!("{value:?}"),
                        "row {row} of {ty:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn numbers_that_need_no_bytes_or_too_many_are_left_out() {
        let numeric = |unscaled, scale| Some(Value::Numeric(Numeric::Small { unscaled, scale }));
        for (ty, values) in [
            (
                ColumnType::Int32,
                vec![Some(Value::Int32(3)), Some(Value::Int32(3))],
            ),
            (ColumnType::Int32, vec![None, None]),
            (ColumnType::Numeric, vec![numeric(1, 0), numeric(1, 1)]),
            (
                ColumnType::Numeric,
                vec![numeric(1, 0), numeric(1 << 64, 0)],
            ),
            (
                ColumnType::Numeric,
                vec![numeric(1, 0), Some(Value::Numeric(Numeric::Image(b"NaN")))],
            ),
            (
                ColumnType::Text,
                vec![Some(Value::Text("a")), Some(Value::Text("b"))],
            ),
        ] {
            assert!(Numbers::of(&column(ty, &values)).is_none(), "{values:?}");
        }
    }

    #[test]
    fn digits_that_are_wrong_are_damage() {
        let number = Number {
            digits: 10,
            least: 0,
            scale: 0,
        };
        let mut row = [0x7F; 10];
        assert!(number.bits(&row, 0).is_err(), "more than 64 bits");
        row = [0; 10];
        assert!(matches!(number.bits(&row, 0), Ok(None)));
        row[9] = 0x80;
        assert!(number.bits(&row, 0).is_err(), "more than seven bits");
        assert!(number.bits(&row, 1).is_err(), "too short");
        for damaged in [&[0, 0, 0][..], &[11, 0, 0], &[1], &[1, 0, 0x80, 0x80, 0x04]] {
            assert!(
                Number::parse(&mut Reader::new(damaged)).is_err(),
                "{damaged:?}"
            );
        }
    }
}
