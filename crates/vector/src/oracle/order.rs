//! PostgreSQL's order of values.

use std::cmp::Ordering;

use howdah_columnar::{OwnedNumeric, OwnedValue};

use super::unsupported;
use crate::error::VectorError;

/// PostgreSQL's order of two values that are not NULL.
///
/// # Errors
///
/// [`VectorError::Unsupported`] for a numeric image, and for values of different kinds.
pub fn compare(a: &OwnedValue, b: &OwnedValue) -> Result<Ordering, VectorError> {
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return Ok(a.cmp(&b));
    }
    if let (Some(a), Some(b)) = (float(a), float(b)) {
        return Ok(match (a.is_nan(), b.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if a < b => Ordering::Less,
            (false, false) if a > b => Ordering::Greater,
            (false, false) => Ordering::Equal,
        });
    }
    Ok(match (a, b) {
        (OwnedValue::Bool(a), OwnedValue::Bool(b)) => u8::from(*a).cmp(&u8::from(*b)),
        (OwnedValue::Text(a), OwnedValue::Text(b)) => bytes(a.as_bytes(), b.as_bytes()),
        (OwnedValue::Bytes(a), OwnedValue::Bytes(b)) => bytes(a, b),
        (OwnedValue::Numeric(a), OwnedValue::Numeric(b)) => numerics(a, b)?,
        _ => return Err(unsupported("values of different kinds")),
    })
}

/// An integer of any width.
pub(super) fn integer(value: &OwnedValue) -> Option<i128> {
    match value {
        OwnedValue::Int16(value) => Some((*value).into()),
        OwnedValue::Int32(value) => Some((*value).into()),
        OwnedValue::Int64(value) => Some((*value).into()),
        _ => None,
    }
}

/// A float of either width.
pub(super) fn float(value: &OwnedValue) -> Option<f64> {
    match value {
        OwnedValue::Float32(value) => Some((*value).into()),
        OwnedValue::Float64(value) => Some(*value),
        _ => None,
    }
}

fn bytes(a: &[u8], b: &[u8]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        if a != b {
            return a.cmp(b);
        }
    }
    a.len().cmp(&b.len())
}

/// Compares digits as they are written, with as many after the point on both sides.
fn numerics(a: &OwnedNumeric, b: &OwnedNumeric) -> Result<Ordering, VectorError> {
    let (
        OwnedNumeric::Small {
            unscaled: a,
            scale: a_scale,
        },
        OwnedNumeric::Small {
            unscaled: b,
            scale: b_scale,
        },
    ) = (a, b)
    else {
        return Err(unsupported("a numeric image"));
    };
    let scale = (*a_scale).max(*b_scale);
    let written = |unscaled: i128, own: u16| {
        let zeros = "0".repeat(usize::from(scale - own));
        let digits = format!("{}{zeros}", unscaled.unsigned_abs());
        let digits = digits.trim_start_matches('0').to_owned();
        (digits.len(), digits)
    };
    let magnitudes = written(*a, *a_scale).cmp(&written(*b, *b_scale));
    Ok(match (a.signum(), b.signum()) {
        (1, 1) => magnitudes,
        (-1, -1) => magnitudes.reverse(),
        (a, b) => a.cmp(&b),
    })
}
