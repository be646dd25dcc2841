//! Aggregates over the rows of one group, in the order of the rows.

use std::cmp::Ordering;

use howdah_columnar::{OwnedNumeric, OwnedValue};

use super::functions::{added, at_scale, small};
use super::order::{compare, float, integer};
use super::{Cell, Datum, evaluate as evaluate_expr, is_true, unsupported};
use crate::error::VectorError;
use crate::plan::AggregateCall;

/// The result of an aggregate over these rows.
pub(super) fn evaluate(call: &AggregateCall, rows: &[&[Datum]]) -> Result<Cell, VectorError> {
    let mut row_count = 0;
    let mut values = Vec::new();
    for row in rows {
        if let Some(filter) = &call.filter
            && !is_true(filter, row)?
        {
            continue;
        }
        row_count += 1;
        if let Some(argument) = &call.argument {
            values.extend(evaluate_expr(argument, row)?);
        }
    }
    let count = |count: usize| Cell::Value(Some(OwnedValue::Int64(count as i64)));
    match call.name.as_str() {
        "count()" => return Ok(count(row_count)),
        "count(any)" => return Ok(count(values.len())),
        _ => {}
    }
    if values.is_empty() {
        return Ok(Cell::Value(None));
    }
    let function = call.name.split('(').next().unwrap_or_default();
    let argument = call.name[function.len()..].trim_matches(['(', ')']);
    match (function, argument) {
        ("sum", "int2" | "int4") => {
            let sum = i64::try_from(sum_of_integers(&values)?);
            let sum = sum.map_err(|_| unsupported("a sum that wraps"))?;
            Ok(value(OwnedValue::Int64(sum)))
        }
        ("sum", "int8") => Ok(value(small(Some(sum_of_integers(&values)?), 0)?)),
        ("avg", "int2" | "int4" | "int8") => Ok(Cell::Quotient {
            sum: sum_of_integers(&values)?,
            scale: 0,
            count: values.len() as i64,
        }),
        ("sum", "numeric") => {
            let (sum, scale) = sum_of_numerics(&values)?;
            Ok(value(small(Some(sum), scale)?))
        }
        ("avg", "numeric") => {
            let (sum, scale) = sum_of_numerics(&values)?;
            let count = values.len() as i64;
            Ok(Cell::Quotient { sum, scale, count })
        }
        ("sum", "float4") => sum_of_floats(&values, |sum| f64::from(sum as f32))
            .map(|sum| value(OwnedValue::Float32(sum as f32))),
        ("sum", "float8") => {
            sum_of_floats(&values, |sum| sum).map(|sum| value(OwnedValue::Float64(sum)))
        }
        ("avg", "float4" | "float8") => {
            average_of_floats(&values).map(|average| value(OwnedValue::Float64(average)))
        }
        ("min", _) => extreme(values, Ordering::Less).map(value),
        ("max", _) => extreme(values, Ordering::Greater).map(value),
        ("bool_and" | "every", "bool") => Ok(value(OwnedValue::Bool(
            values.iter().all(|value| *value == OwnedValue::Bool(true)),
        ))),
        ("bool_or", "bool") => Ok(value(OwnedValue::Bool(
            values.iter().any(|value| *value == OwnedValue::Bool(true)),
        ))),
        _ => Err(unsupported("an aggregate")),
    }
}

fn value(value: OwnedValue) -> Cell {
    Cell::Value(Some(value))
}

fn sum_of_integers(values: &[OwnedValue]) -> Result<i128, VectorError> {
    let integers = values.iter().map(integer);
    integers
        .sum::<Option<i128>>()
        .ok_or_else(|| unsupported("a sum of other values than integers"))
}

/// The sum, at the greatest scale of all values.
fn sum_of_numerics(values: &[OwnedValue]) -> Result<(i128, u16), VectorError> {
    let mut small = Vec::new();
    for value in values {
        match value {
            OwnedValue::Numeric(OwnedNumeric::Small { unscaled, scale }) => {
                small.push((*unscaled, *scale));
            }
            _ => return Err(unsupported("a sum of numeric images")),
        }
    }
    let scale = small.iter().map(|&(_, scale)| scale).max().unwrap_or(0);
    let sum = small.iter().try_fold(0_i128, |sum, &(unscaled, own)| {
        sum.checked_add(at_scale(unscaled, own, scale)?)
    });
    let sum = sum.ok_or_else(|| unsupported("a sum beyond 128 bits"))?;
    Ok((sum, scale))
}

fn floats(values: &[OwnedValue]) -> Result<Vec<f64>, VectorError> {
    let floats = values.iter().map(float);
    floats
        .collect::<Option<_>>()
        .ok_or_else(|| unsupported("an aggregate of other values than floats"))
}

fn sum_of_floats(values: &[OwnedValue], fitted: fn(f64) -> f64) -> Result<f64, VectorError> {
    let floats = floats(values)?;
    let mut sum = floats[0];
    for &value in &floats[1..] {
        sum = added(sum, value, fitted(sum + value))?;
    }
    Ok(sum)
}

/// PostgreSQL's `float8_accum` and `float8_avg`. The sum of squares is no part of the average, but its
/// overflow is an error.
fn average_of_floats(values: &[OwnedValue]) -> Result<f64, VectorError> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in floats(values)? {
        let (last_count, last_sum) = (count, sum);
        count += 1.0;
        sum += value;
        if last_count > 0.0 {
            let deviation = value * count - sum;
            squares += deviation * deviation / (count * last_count);
            if sum.is_infinite() || f64::is_infinite(squares) {
                added(last_sum, value, f64::INFINITY)?;
                squares = f64::NAN;
            }
        } else if !value.is_finite() {
            squares = f64::NAN;
        }
    }
    Ok(sum / count)
}

/// The value that is ordered so to all others; of equal ones the last, as `float8smaller` and its like
/// choose.
fn extreme(values: Vec<OwnedValue>, wanted: Ordering) -> Result<OwnedValue, VectorError> {
    let mut values = values.into_iter();
    let mut best = values.next().ok_or_else(|| unsupported("no value"))?;
    for value in values {
        if compare(&best, &value)? != wanted {
            best = value;
        }
    }
    Ok(best)
}
