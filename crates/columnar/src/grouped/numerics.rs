//! Numerics that are no numbers of 64 bits and one scale, as strings in a row of grouped columns.
//!
//! ```text
//!   decimal   0 · scale, 3 digits · unscaled value, zigzag, as few digits as it needs
//!   image     1 · the image
//! ```
//!
//! Digits have seven bits, the lowest comes first: strings of decimals are text.

use arrow_array::{Array, BinaryViewArray};

use super::fields::row_is_wrong;
use crate::builder::{BytesBuilder, NumericBuilder};
use crate::error::ColumnarError;
use crate::numeric::{NumericColumn, NumericDigits, NumericScales};
use crate::value::Numeric;

const DECIMAL: u8 = 0;
const IMAGE: u8 = 1;
const SCALE_DIGITS: u32 = 3;

/// The strings of a column.
pub(super) fn strings_of(rows: &NumericBuilder) -> BytesBuilder {
    let mut strings = BytesBuilder::default();
    for row in 0..rows.validity.len() {
        match rows.value(row) {
            Some(value) => {
                put(value, &mut strings.data);
                strings.validity.push_valid();
            }
            None => strings.validity.push_null(),
        }
        strings.ends.push(strings.data.len());
    }
    strings
}

fn put(value: Numeric<'_>, out: &mut Vec<u8>) {
    match value {
        Numeric::Small { unscaled, scale } => {
            out.push(DECIMAL);
            let digit_of = |number: u128, place: u32| (number >> (7 * place)) as u8 & 0x7F;
            out.extend((0..SCALE_DIGITS).map(|place| digit_of(scale.into(), place)));
            let zigzag = ((unscaled << 1) ^ (unscaled >> 127)) as u128;
            let digits = (u128::BITS - zigzag.leading_zeros()).div_ceil(7);
            out.extend((0..digits).map(|place| digit_of(zigzag, place)));
        }
        Numeric::Image(image) => {
            out.push(IMAGE);
            out.extend_from_slice(image);
        }
    }
}

/// The numeric of a string.
pub(super) fn numeric_of(string: &[u8]) -> Result<Numeric<'_>, ColumnarError> {
    match *string {
        [DECIMAL, low, middle, high, ref digits @ ..] => {
            let scale = number_of(&[low, middle, high])?;
            let zigzag = number_of(digits)?;
            Ok(Numeric::Small {
                unscaled: (zigzag >> 1) as i128 ^ -((zigzag & 1) as i128),
                scale: u16::try_from(scale).map_err(|_| row_is_wrong())?,
            })
        }
        [IMAGE, ref image @ ..] => Ok(Numeric::Image(image)),
        _ => Err(row_is_wrong()),
    }
}

fn number_of(digits: &[u8]) -> Result<u128, ColumnarError> {
    let mut number = 0u128;
    for &digit in digits.iter().rev() {
        if digit >= 0x80 || number >> 121 != 0 {
            return Err(row_is_wrong());
        }
        number = number << 7 | u128::from(digit);
    }
    Ok(number)
}

/// The column of these strings.
pub(super) fn column_of(strings: &BinaryViewArray) -> Result<NumericColumn, ColumnarError> {
    let row_count = strings.len();
    let (mut digits, mut scales) = (Vec::with_capacity(row_count), Vec::with_capacity(row_count));
    let (mut image_rows, mut images) = (Vec::new(), Vec::new());
    for row in 0..row_count {
        let value = match strings.is_valid(row) {
            true => Some(numeric_of(strings.value(row))?),
            false => None,
        };
        let (unscaled, scale) = match value {
            Some(Numeric::Small { unscaled, scale }) => (unscaled, scale),
            Some(Numeric::Image(image)) => {
                image_rows.push(row as u32);
                images.push(image);
                (0, 0)
            }
            None => (0, 0),
        };
        digits.push(unscaled);
        scales.push(scale);
    }
    let images = (!images.is_empty()).then(|| BinaryViewArray::from_iter_values(images));
    NumericColumn::new(
        NumericDigits::Wide(digits.into()),
        NumericScales::PerRow(scales.into()),
        image_rows,
        images,
        strings.nulls().cloned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_are_read_as_they_were_written() {
        let small = |unscaled, scale| Some(Numeric::Small { unscaled, scale });
        let values = [
            small(0, 0),
            small(-1, 2),
            None,
            small(i128::MAX, u16::MAX),
            small(i128::MIN, 16_383),
            Some(Numeric::Image(b"NaN")),
            Some(Numeric::Image(b"")),
            small(150, 1),
        ];
        let mut rows = NumericBuilder::default();
        for value in values {
            match value {
                Some(value) => rows.push(value),
                None => rows.push_null(),
            }
        }
        let strings = strings_of(&rows);
        let found: Vec<_> = (0..values.len()).map(|row| strings.value(row)).collect();
        for (string, value) in found.iter().zip(values) {
            let read = string.map(|string| numeric_of(string).expect("is right"));
            assert_eq!(read, value);
            let decimal = matches!(value, Some(Numeric::Small { .. }));
            assert!(!decimal || string.is_some_and(<[u8]>::is_ascii));
        }
        let column = column_of(&BinaryViewArray::from_iter(found)).expect("is right");
        for (row, value) in values.into_iter().enumerate() {
            assert_eq!(column.value(row), value, "row {row}");
        }
    }

    #[test]
    fn strings_that_are_no_numerics_are_damage() {
        let long = [&[0, 0, 0, 0][..], &[0x7F; 19]].concat();
        for string in [
            &b""[..],
            &[0, 0, 0],
            &[2, 0, 0, 0],
            &[0, 0, 0, 4],
            &[0, 0, 0, 0, 0x80],
            &long,
        ] {
            assert!(numeric_of(string).is_err(), "{string:?}");
        }
    }
}
