//! Order of rows as bytes: keys of rows compare as the rows do.
//!
//! ```text
//!   key = of each expression: class (NULLs before or after), value; descending values inverted
//! ```

use howdah_columnar::{Column, Numeric, Value};

use crate::error::VectorError;

/// One part of an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction {
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

const NULL_BEFORE: u8 = 0;
const VALUE: u8 = 1;
const NULL_AFTER: u8 = 2;

/// Appends the bytes of a row's value.
pub(super) fn put(
    column: &Column,
    row: usize,
    direction: Direction,
    out: &mut Vec<u8>,
) -> Result<(), VectorError> {
    let Some(value) = column.value(row) else {
        out.push(if direction.nulls_first {
            NULL_BEFORE
        } else {
            NULL_AFTER
        });
        return Ok(());
    };
    out.push(VALUE);
    let start = out.len();
    match value {
        Value::Bool(v) => out.push(v.into()),
        Value::Int16(v) => out.extend_from_slice(&(v ^ i16::MIN).to_be_bytes()),
        Value::Int32(v) => out.extend_from_slice(&(v ^ i32::MIN).to_be_bytes()),
        Value::Int64(v) => out.extend_from_slice(&(v ^ i64::MIN).to_be_bytes()),
        Value::Float32(v) => put_float(v.into(), out),
        Value::Float64(v) => put_float(v, out),
        Value::Text(text) => put_string(text.as_bytes(), out),
        Value::Bytes(bytes) => put_string(bytes, out),
        Value::Numeric(Numeric::Small { unscaled, scale }) => put_decimal(unscaled, scale, out),
        Value::Numeric(Numeric::Image(_)) => {
            return Err(VectorError::Unsupported {
                what: "the order of a numeric of more than 38 digits, NaN or infinite",
            });
        }
    }
    if direction.descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}

/// Bits that are ordered as floats are: NaN is the greatest, and there is one zero.
pub(super) fn ordered_bits(value: f64) -> u64 {
    let bits = match value.is_nan() {
        true => f64::NAN.to_bits(),
        false => (value + 0.0).to_bits(),
    };
    match bits >> 63 {
        0 => bits ^ (1 << 63),
        _ => !bits,
    }
}

fn put_float(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&ordered_bits(value).to_be_bytes());
}

/// A zero byte is followed by 255, and the end is two zero bytes: less than any byte.
fn put_string(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        out.push(byte);
        if byte == 0 {
            out.push(255);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// The sign, then the exponent of `0.ddd * 10^exponent`, then the digits; inverted if negative.
fn put_decimal(unscaled: i128, scale: u16, out: &mut Vec<u8>) {
    const NEGATIVE: u8 = 0;
    const ZERO: u8 = 1;
    const POSITIVE: u8 = 2;
    if unscaled == 0 {
        out.push(ZERO);
        return;
    }
    out.push(if unscaled < 0 { NEGATIVE } else { POSITIVE });
    let start = out.len();
    let digits = unscaled.unsigned_abs().to_string();
    let exponent = digits.len() as i32 - i32::from(scale);
    out.extend_from_slice(&(exponent ^ i32::MIN).to_be_bytes());
    out.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    out.push(0);
    if unscaled < 0 {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

#[cfg(test)]
mod tests {
    use howdah_columnar::{ColumnType, OwnedNumeric, OwnedValue, compare};

    use super::*;

    fn check(ty: ColumnType, values: &[OwnedValue]) {
        let rows = values.iter().map(|value| Some(value.as_value()));
        let column = Column::from_values(ty, rows).expect("values of the type");
        for descending in [false, true] {
            let direction = Direction {
                descending,
                nulls_first: false,
            };
            let key = |row| {
                let mut key = Vec::new();
                put(&column, row, direction, &mut key).expect("has an order");
                key
            };
            for a in 0..values.len() {
                for b in 0..values.len() {
                    let order = compare(values[a].as_value(), values[b].as_value());
                    let order = order.map(|order| if descending { order.reverse() } else { order });
                    assert_eq!(
                        Some(key(a).cmp(&key(b))),
                        order,
                        "{:?} {:?}",
                        values[a],
                        values[b]
                    );
                }
            }
        }
    }

    #[test]
    fn keys_are_ordered_as_values_are() {
        let numeric =
            |unscaled, scale| OwnedValue::Numeric(OwnedNumeric::Small { unscaled, scale });
        let numerics = [
            (0, 0),
            (0, 5),
            (1, 0),
            (10, 1),
            (100, 2),
            (99, 2),
            (-1, 0),
            (-10, 1),
            (-99, 2),
            (-101, 2),
            (i128::MAX, 0),
            (i128::MIN, 0),
            (i128::MAX, 60_000),
            (12, 1),
            (123, 2),
            (-12, 1),
            (-123, 2),
        ];
        check(
            ColumnType::Numeric,
            &numerics.map(|(unscaled, scale)| numeric(unscaled, scale)),
        );
        check(
            ColumnType::Float64,
            &[
                0.0,
                -0.0,
                1.5,
                -1.5,
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                -f64::NAN,
                1e-310,
            ]
            .map(OwnedValue::Float64),
        );
        check(
            ColumnType::Bytes,
            &[
                &b""[..],
                b"\0",
                b"\0\0",
                b"\0\xff",
                b"a",
                b"a\0",
                b"a\0b",
                b"ab",
                b"\xff",
            ]
            .map(|bytes| OwnedValue::Bytes(bytes.to_vec())),
        );
        check(
            ColumnType::Int16,
            &[i16::MIN, -1, 0, 1, i16::MAX].map(OwnedValue::Int16),
        );
    }
}
