//! Texts as values of other types: `(doc->>'n')::int`, which PostgreSQL computes by the type's
//! input function.
//!
//! Spellings that are rare (`0x1F`, `1_000`, `1e5` of a numeric, `yes`), or no value at all, are
//! left to PostgreSQL, whose errors show the text.

use arrow_array::{Array, BooleanArray, PrimitiveArray, StringViewArray};
use howdah_columnar::ColumnType::{
    Bool, Float32, Float64, Int16, Int32, Int64, Numeric as NumericType, Text,
};
use howdah_columnar::{Column, ColumnType, Numeric, Value};

use super::Function;
use super::kernel::{Kernel, Native, mismatch};
use crate::error::VectorError;

const PLAIN: &str = "where all texts are plain decimal numbers within the type's range";

const UNUSUAL: VectorError = VectorError::Unsupported {
    what: "a text that is no plain value of the type",
};

const fn input(
    prosrc: &'static str,
    result: ColumnType,
    kernel: fn(&Column) -> Result<Column, VectorError>,
) -> Function {
    Function::new(prosrc, &[Text], result, Kernel::Unary(kernel))
        .failing()
        .exact_where(PLAIN)
}

pub(super) static FUNCTIONS: &[&[Function]] = &[&[
    input("int2in", Int16, |texts| natives(texts, integer::<i16>)),
    input("int4in", Int32, |texts| natives(texts, integer::<i32>)),
    input("int8in", Int64, |texts| natives(texts, integer::<i64>)),
    input("float4in", Float32, |texts| natives(texts, float32)),
    input("float8in", Float64, |texts| natives(texts, float64)),
    input("numeric_in", NumericType, decimals),
    input("boolin", Bool, booleans).exact_where("where all texts are t, f, true or false"),
]];

/// What each text that is not null is read as.
fn each<'a, T>(
    argument: &'a Column,
    mut read: impl FnMut(&'a [u8]) -> Result<T, VectorError>,
) -> Result<Vec<Option<T>>, VectorError> {
    let texts: &StringViewArray = match argument {
        Column::Text(texts) => texts,
        _ => return Err(mismatch()),
    };
    let rows = (0..texts.len()).map(|row| match texts.is_null(row) {
        true => Ok(None),
        false => read(texts.value(row).as_bytes()).map(Some),
    });
    rows.collect()
}

fn natives<T: Native>(
    argument: &Column,
    read: impl Fn(&[u8]) -> Result<T, VectorError>,
) -> Result<Column, VectorError> {
    let values = each(argument, read)?;
    let array: PrimitiveArray<T::Arrow> = values.into_iter().collect();
    let array = match array.null_count() {
        0 => PrimitiveArray::new(array.values().clone(), None),
        _ => array,
    };
    Ok(T::column(array))
}

fn booleans(argument: &Column) -> Result<Column, VectorError> {
    let values = each(argument, |text| match trimmed(text) {
        b"t" | b"true" => Ok(true),
        b"f" | b"false" => Ok(false),
        _ => Err(UNUSUAL),
    })?;
    Ok(Column::Bool(BooleanArray::from(values)))
}

fn decimals(argument: &Column) -> Result<Column, VectorError> {
    let values = each(argument, |text| {
        let (unscaled, scale) = decimal(trimmed(text)).ok_or(UNUSUAL)?;
        Ok(Value::Numeric(Numeric::Small { unscaled, scale }))
    })?;
    Ok(Column::from_values(NumericType, values.into_iter())?)
}

/// Without the spaces that input functions skip.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(is_space).count()..];
    &text[..text.len() - text.iter().rev().take_while(is_space).count()]
}

/// The sign, and what follows it.
fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    }
}

fn integer<T: TryFrom<i64>>(text: &[u8]) -> Result<T, VectorError> {
    let (is_negative, digits) = signed(trimmed(text));
    if digits.is_empty() {
        return Err(UNUSUAL);
    }
    let mut value = 0_i64;
    for digit in digits {
        let digit = match digit {
            b'0'..=b'9' => i64::from(digit - b'0'),
            _ => return Err(UNUSUAL),
        };
        // The least value has no positive counterpart.
        let shifted = value.checked_mul(10);
        let next = match is_negative {
            true => shifted.and_then(|shifted| shifted.checked_sub(digit)),
            false => shifted.and_then(|shifted| shifted.checked_add(digit)),
        };
        value = next.ok_or(UNUSUAL)?;
    }
    T::try_from(value).map_err(|_| UNUSUAL)
}

/// Digits without the point, and how many follow it.
fn decimal(text: &[u8]) -> Option<(i128, u16)> {
    const MOST_DIGITS: usize = 38;
    let (is_negative, text) = signed(text);
    let point = text.iter().position(|&byte| byte == b'.');
    let (whole, fraction) = match point {
        None => (text, &[][..]),
        Some(at) => (&text[..at], &text[at + 1..]),
    };
    let digits = whole.iter().chain(fraction);
    let count = whole.len() + fraction.len();
    if count == 0 || count > MOST_DIGITS || !digits.clone().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits.fold(0_i128, |value, digit| value * 10 + i128::from(digit - b'0'));
    let unscaled = if is_negative { -magnitude } else { magnitude };
    Some((unscaled, fraction.len() as u16))
}

/// A number as it is spelled with a point and an exponent; both libraries round correctly.
fn plain_float(text: &[u8]) -> Result<&str, VectorError> {
    let text = trimmed(text);
    let (_, digits) = signed(text);
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    match digits {
        [b'0'..=b'9' | b'.', rest @ ..] if rest.iter().all(is_part) => {
            std::str::from_utf8(text).map_err(|_| UNUSUAL)
        }
        _ => Err(UNUSUAL),
    }
}

/// Whether a number that became zero is not: PostgreSQL reports an underflow.
fn is_underflow(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// What `float8in` reads.
pub(super) fn float64(text: &[u8]) -> Result<f64, VectorError> {
    let text = plain_float(text)?;
    match text.parse::<f64>() {
        Ok(value) if value.is_infinite() || value == 0.0 && is_underflow(text) => Err(UNUSUAL),
        Ok(value) => Ok(value),
        Err(_) => Err(UNUSUAL),
    }
}

/// What `float4in` reads.
pub(super) fn float32(text: &[u8]) -> Result<f32, VectorError> {
    let text = plain_float(text)?;
    match text.parse::<f32>() {
        Ok(value) if value.is_infinite() || value == 0.0 && is_underflow(text) => Err(UNUSUAL),
        Ok(value) => Ok(value),
        Err(_) => Err(UNUSUAL),
    }
}
