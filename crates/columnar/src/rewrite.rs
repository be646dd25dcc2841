//! Rewrites a comparison for one chunk: a constant of exactly the type that the chunk stores, or an
//! answer that needs no comparison at all.

use std::cmp::Ordering;

use vortex_array::dtype::Nullability::NonNullable;
use vortex_array::scalar::Scalar;

use crate::chunk::Chunk;
use crate::error::ColumnarError;
use crate::parts::{Form, NumericParts};
use crate::predicate::CompareOp;
use crate::types::ColumnType;
use crate::value::{Numeric, Value, as_integer, scale_up};

/// A comparison in a chunk's own terms.
pub(crate) enum Rewritten {
    /// True of no row.
    Nothing,
    /// True of every row that is not null.
    NotNull,
    /// A comparison of the stored array with a constant, in Vortex's order.
    Compare(CompareOp, Scalar),
    /// There is no exact rewrite: compare decoded values.
    Decode,
}

/// Rewrites `column op value` for one chunk.
pub(crate) fn rewrite(
    chunk: &Chunk,
    op: CompareOp,
    value: Value<'_>,
) -> Result<Rewritten, ColumnarError> {
    let ty = chunk.column_type();
    let mismatch = Err(ColumnarError::TypeMismatch { ty });
    Ok(match (ty, value) {
        (ColumnType::Bool, Value::Bool(v)) => Rewritten::Compare(op, Scalar::bool(v, NonNullable)),
        (ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64, value) => {
            match as_integer(value) {
                Some(v) => integer(ty, op, v),
                None => return mismatch,
            }
        }
        (ColumnType::Float32 | ColumnType::Float64, Value::Float32(v)) => {
            float(chunk, op, v.into())
        }
        (ColumnType::Float32 | ColumnType::Float64, Value::Float64(v)) => float(chunk, op, v),
        (ColumnType::Numeric, Value::Numeric(v)) => numeric(chunk, op, v),
        (ColumnType::Text, Value::Text(v)) => Rewritten::Compare(op, Scalar::utf8(v, NonNullable)),
        (ColumnType::Bytes | ColumnType::Fixed { .. }, Value::Bytes(v)) => {
            Rewritten::Compare(op, Scalar::binary(v.to_vec(), NonNullable))
        }
        _ => return mismatch,
    })
}

/// The answer when every value of the chunk is ordered so to the constant.
fn constantly(op: CompareOp, order: Ordering) -> Rewritten {
    match op.holds(order) {
        true => Rewritten::NotNull,
        false => Rewritten::Nothing,
    }
}

/// The answer for a constant beyond the column's range.
fn beyond(op: CompareOp, constant_is_negative: bool) -> Rewritten {
    constantly(
        op,
        match constant_is_negative {
            true => Ordering::Greater,
            false => Ordering::Less,
        },
    )
}

fn integer(ty: ColumnType, op: CompareOp, value: i64) -> Rewritten {
    let scalar = match ty {
        ColumnType::Int16 => i16::try_from(value).map(|v| Scalar::primitive(v, NonNullable)),
        ColumnType::Int32 => i32::try_from(value).map(|v| Scalar::primitive(v, NonNullable)),
        _ => Ok(Scalar::primitive(value, NonNullable)),
    };
    match scalar {
        Ok(scalar) => Rewritten::Compare(op, scalar),
        Err(_) => beyond(op, value < 0),
    }
}

fn float(chunk: &Chunk, op: CompareOp, value: f64) -> Rewritten {
    let flags = chunk.flags();
    if flags.has_nan || value == 0.0 && flags.has_negative_zero {
        return Rewritten::Decode;
    }
    if value.is_nan() {
        return constantly(op, Ordering::Less);
    }
    let value = if value == 0.0 { 0.0 } else { value };
    match chunk.column_type() {
        ColumnType::Float64 => Rewritten::Compare(op, Scalar::primitive(value, NonNullable)),
        _ => {
            let narrow = value as f32;
            match f64::from(narrow) == value {
                true => Rewritten::Compare(op, Scalar::primitive(narrow, NonNullable)),
                false => Rewritten::Decode,
            }
        }
    }
}

fn numeric(chunk: &Chunk, op: CompareOp, value: Numeric<'_>) -> Rewritten {
    let (Form::Numeric(parts), Numeric::Small { unscaled, scale }) = (chunk.form(), value) else {
        return Rewritten::Decode;
    };
    let NumericParts {
        high: None,
        scales: None,
        images: None,
        ..
    } = parts
    else {
        return Rewritten::Decode;
    };
    // Compare `row * 10^-parts.scale` with `unscaled * 10^-scale`: bring the constant to the
    // scale of the rows, rounding down, and correct the operator for what was cut off.
    let (floor, exact) = if parts.scale >= scale {
        match scale_up(unscaled, parts.scale - scale) {
            Some(scaled) => (scaled, true),
            None => return beyond(op, unscaled < 0),
        }
    } else {
        match 10i128.checked_pow(u32::from(scale - parts.scale)) {
            Some(factor) => (
                unscaled.div_euclid(factor),
                unscaled.rem_euclid(factor) == 0,
            ),
            // The constant lies strictly between -1 and 1 units of the rows.
            None if unscaled == 0 => (0, true),
            None => (if unscaled < 0 { -1 } else { 0 }, false),
        }
    };
    let op = match (op, exact) {
        (op, true) => op,
        (CompareOp::Eq, false) => return Rewritten::Nothing,
        (CompareOp::Ne, false) => return Rewritten::NotNull,
        // floor < constant < floor + 1
        (CompareOp::Lt | CompareOp::Le, false) => CompareOp::Le,
        (CompareOp::Gt | CompareOp::Ge, false) => CompareOp::Gt,
    };
    match i64::try_from(floor) {
        Ok(floor) => Rewritten::Compare(op, Scalar::primitive(floor, NonNullable)),
        Err(_) => beyond(op, floor < 0),
    }
}
