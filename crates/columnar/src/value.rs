//! Single values, borrowed and owned, and PostgreSQL's order among them.
//!
//! Floats: every NaN equals every NaN and is greater than all else; -0.0 equals 0.0.
//! Text, bytes and fixed compare bytewise. Numerics compare by value, whatever their
//! scale; a numeric *image* compares with nothing. Integers of different widths, and
//! floats of different widths, compare by value.

use std::cmp::Ordering;

use crate::error::ColumnarError;
use crate::types::ColumnType;

/// A decimal number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numeric<'a> {
    /// `unscaled * 10^-scale`, shown with `scale` fractional digits.
    Small {
        /// The digits, without the decimal point.
        unscaled: i128,
        /// The number of digits shown after the decimal point.
        scale: u16,
    },
    /// Any other decimal (NaN, infinities, over 38 digits) as its owner's binary image.
    Image(&'a [u8]),
}

/// One non-null value.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A boolean.
    Bool(bool),
    /// A 16-bit integer.
    Int16(i16),
    /// A 32-bit integer.
    Int32(i32),
    /// A 64-bit integer.
    Int64(i64),
    /// A 32-bit float.
    Float32(f32),
    /// A 64-bit float.
    Float64(f64),
    /// A decimal.
    Numeric(Numeric<'a>),
    /// Text.
    Text(&'a str),
    /// Bytes, of `Bytes` and `Fixed` columns.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The value of a stored string of a column of this type; those of other types have none.
    pub(crate) fn of_string(ty: ColumnType, bytes: &'a [u8]) -> Result<Self, ColumnarError> {
        match ty {
            ColumnType::Text => std::str::from_utf8(bytes)
                .map(Value::Text)
                .map_err(|_| ColumnarError::corrupt("text is not UTF-8")),
            ColumnType::Fixed { len } if bytes.len() != usize::from(len) => {
                Err(ColumnarError::corrupt("a fixed value has another length"))
            }
            _ => Ok(Value::Bytes(bytes)),
        }
    }

    /// The value of stored bits of a column of this type, which is none of strings: of an integer
    /// with its sign, of a float as it has them, of a numeric its digits.
    pub(crate) fn of_bits(ty: ColumnType, bits: u64) -> Value<'static> {
        match ty {
            ColumnType::Bool => Value::Bool(bits != 0),
            ColumnType::Int16 => Value::Int16(bits as i16),
            ColumnType::Int32 => Value::Int32(bits as i32),
            ColumnType::Float32 => Value::Float32(f32::from_bits(bits as u32)),
            ColumnType::Float64 => Value::Float64(f64::from_bits(bits)),
            ColumnType::Int64
            | ColumnType::Numeric
            | ColumnType::Text
            | ColumnType::Bytes
            | ColumnType::Fixed { .. } => Value::Int64(bits as i64),
        }
    }
}

/// A [`Numeric`] that owns its image.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedNumeric {
    /// See [`Numeric::Small`].
    Small {
        /// The digits, without the decimal point.
        unscaled: i128,
        /// The number of digits shown after the decimal point.
        scale: u16,
    },
    /// See [`Numeric::Image`].
    Image(Vec<u8>),
}

/// A [`Value`] that owns its bytes. Equality is that of the representation
/// (1.10 differs from 1.1, NaN from NaN); use [`compare`] for SQL's.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedValue {
    /// A boolean.
    Bool(bool),
    /// A 16-bit integer.
    Int16(i16),
    /// A 32-bit integer.
    Int32(i32),
    /// A 64-bit integer.
    Int64(i64),
    /// A 32-bit float.
    Float32(f32),
    /// A 64-bit float.
    Float64(f64),
    /// A decimal.
    Numeric(OwnedNumeric),
    /// Text.
    Text(String),
    /// Bytes, of `Bytes` and `Fixed` columns.
    Bytes(Vec<u8>),
}

impl OwnedValue {
    /// Borrows the value.
    pub fn as_value(&self) -> Value<'_> {
        match self {
            Self::Bool(v) => Value::Bool(*v),
            Self::Int16(v) => Value::Int16(*v),
            Self::Int32(v) => Value::Int32(*v),
            Self::Int64(v) => Value::Int64(*v),
            Self::Float32(v) => Value::Float32(*v),
            Self::Float64(v) => Value::Float64(*v),
            Self::Numeric(OwnedNumeric::Small { unscaled, scale }) => {
                Value::Numeric(Numeric::Small {
                    unscaled: *unscaled,
                    scale: *scale,
                })
            }
            Self::Numeric(OwnedNumeric::Image(image)) => Value::Numeric(Numeric::Image(image)),
            Self::Text(v) => Value::Text(v),
            Self::Bytes(v) => Value::Bytes(v),
        }
    }

    /// Heap memory held beyond the value itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(v) => v.capacity(),
            Self::Bytes(v) | Self::Numeric(OwnedNumeric::Image(v)) => v.capacity(),
            _ => 0,
        }
    }
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Bool(v) => Self::Bool(v),
            Value::Int16(v) => Self::Int16(v),
            Value::Int32(v) => Self::Int32(v),
            Value::Int64(v) => Self::Int64(v),
            Value::Float32(v) => Self::Float32(v),
            Value::Float64(v) => Self::Float64(v),
            Value::Numeric(Numeric::Small { unscaled, scale }) => {
                Self::Numeric(OwnedNumeric::Small { unscaled, scale })
            }
            Value::Numeric(Numeric::Image(image)) => {
                Self::Numeric(OwnedNumeric::Image(image.to_vec()))
            }
            Value::Text(v) => Self::Text(v.to_owned()),
            Value::Bytes(v) => Self::Bytes(v.to_vec()),
        }
    }
}

/// PostgreSQL's order of two values; `None` where there is none (different kinds of
/// types, or a numeric image).
pub fn compare(a: Value<'_>, b: Value<'_>) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (as_integer(a), as_integer(b)) {
        return Some(a.cmp(&b));
    }
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(&b)),
        (Value::Float32(a), Value::Float32(b)) => Some(compare_floats(a.into(), b.into())),
        (Value::Float32(a), Value::Float64(b)) => Some(compare_floats(a.into(), b)),
        (Value::Float64(a), Value::Float32(b)) => Some(compare_floats(a, b.into())),
        (Value::Float64(a), Value::Float64(b)) => Some(compare_floats(a, b)),
        (Value::Text(a), Value::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (
            Value::Numeric(Numeric::Small {
                unscaled: a,
                scale: a_scale,
            }),
            Value::Numeric(Numeric::Small {
                unscaled: b,
                scale: b_scale,
            }),
        ) => Some(compare_decimals(a, a_scale, b, b_scale)),
        _ => None,
    }
}

/// An integer of any width as the widest.
pub(crate) fn as_integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int16(v) => Some(v.into()),
        Value::Int32(v) => Some(v.into()),
        Value::Int64(v) => Some(v),
        _ => None,
    }
}

/// PostgreSQL's float order (`float8_cmp_internal`): NaNs are equal and the greatest.
#[inline]
pub(crate) fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The order of `a * 10^-a_scale` and `b * 10^-b_scale`.
#[inline]
pub(crate) fn compare_decimals(a: i128, a_scale: u16, b: i128, b_scale: u16) -> Ordering {
    match a_scale.cmp(&b_scale) {
        Ordering::Equal => a.cmp(&b),
        Ordering::Less => match scale_up(a, b_scale - a_scale) {
            Some(a) => a.cmp(&b),
            None => a.cmp(&0),
        },
        Ordering::Greater => match scale_up(b, a_scale - b_scale) {
            Some(b) => a.cmp(&b),
            None => 0.cmp(&b),
        },
    }
}

/// `value * 10^digits`, or `None` when that lies beyond every `i128`.
pub(crate) fn scale_up(value: i128, digits: u16) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    10i128
        .checked_pow(digits.into())
        .and_then(|factor| value.checked_mul(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(unscaled: i128, scale: u16) -> Value<'static> {
        Value::Numeric(Numeric::Small { unscaled, scale })
    }

    #[test]
    fn numerics_compare_by_value_whatever_their_scale() {
        assert_eq!(compare(small(110, 2), small(11, 1)), Some(Ordering::Equal));
        assert_eq!(compare(small(-1, 0), small(1, 9)), Some(Ordering::Less));
        assert_eq!(
            compare(small(i128::MAX, 0), small(i128::MAX, 1)),
            Some(Ordering::Greater)
        );
        assert_eq!(
            compare(small(i128::MIN, 0), small(i128::MIN, 60_000)),
            Some(Ordering::Less)
        );
        assert_eq!(
            compare(small(0, 0), small(0, u16::MAX)),
            Some(Ordering::Equal)
        );
        assert_eq!(
            compare(small(0, 0), small(-5, u16::MAX)),
            Some(Ordering::Greater)
        );
    }

    #[test]
    fn nan_is_equal_to_nan_and_greater_than_infinity() {
        let nan = Value::Float64(f64::from_bits(0xfff8_0000_0000_1234));
        assert_eq!(
            compare(nan, Value::Float32(f32::NAN)),
            Some(Ordering::Equal)
        );
        assert_eq!(
            compare(nan, Value::Float64(f64::INFINITY)),
            Some(Ordering::Greater)
        );
        assert_eq!(
            compare(Value::Float64(-0.0), Value::Float64(0.0)),
            Some(Ordering::Equal)
        );
    }

    #[test]
    fn images_compare_with_nothing() {
        let image = Value::Numeric(Numeric::Image(b"NaN"));
        assert_eq!(compare(image, image), None);
        assert_eq!(compare(image, small(1, 0)), None);
    }
}
