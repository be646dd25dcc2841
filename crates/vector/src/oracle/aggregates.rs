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
            values.contains(&OwnedValue::Bool(true)),
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

/// PostgreSQL's `float8_accum` and `float8_avg`. The sum of squares is no part of the average, but
/// its overflow is an error.
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

/// The value that is ordered so to all others; of equal ones the last, as `float8smaller` and
/// similar functions choose.
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

#[cfg(test)]
mod tests {
    use howdah_columnar::ColumnType;

    use super::super::run;
    use super::*;
    use crate::plan::{Expr, Output, Query};

    /// The aggregate of one column. The expected values below are results of PostgreSQL 18.
    fn of(name: &str, values: Vec<OwnedValue>) -> Result<Cell, VectorError> {
        let argument = Some(Expr::Column(0));
        let call = AggregateCall {
            name: name.to_owned(),
            argument,
            filter: None,
        };
        let query = Query {
            columns: vec![ColumnType::Float64],
            filter: Vec::new(),
            output: Output::Aggregate {
                keys: Vec::new(),
                aggregates: vec![call],
            },
        };
        let rows: Vec<Vec<Datum>> = values.into_iter().map(|value| vec![Some(value)]).collect();
        let mut groups = run(&query, &rows)?;
        assert_eq!(groups.len(), 1, "one group without keys");
        Ok(groups.remove(0).remove(0))
    }

    fn floats(values: &[f64]) -> Vec<OwnedValue> {
        values.iter().copied().map(OwnedValue::Float64).collect()
    }

    fn numeric(unscaled: i128, scale: u16) -> OwnedValue {
        OwnedValue::Numeric(OwnedNumeric::Small { unscaled, scale })
    }

    #[test]
    fn averages_of_floats_overflow_with_their_squares() {
        assert!(matches!(
            of("avg(float8)", floats(&[1e200, -1e200])),
            Err(VectorError::OutOfRange { .. })
        ));
        let average = of("avg(float8)", floats(&[1e308, f64::INFINITY])).expect("infinite");
        assert_eq!(average, value(OwnedValue::Float64(f64::INFINITY)));
    }

    #[test]
    fn sums_of_floats_have_their_width() {
        let values: Vec<OwnedValue> = [16_777_216.0, 1.0, 1.0].map(OwnedValue::Float32).into();
        let sum = of("sum(float4)", values.clone()).expect("fits");
        assert_eq!(sum, value(OwnedValue::Float32(16_777_216.0)));
        let average = of("avg(float4)", values).expect("fits");
        assert_eq!(average, value(OwnedValue::Float64(5_592_406.0)));
        assert!(of("sum(float8)", floats(&[1e308, 1e308, -1e308])).is_err());
    }

    #[test]
    fn sums_show_the_most_digits() {
        let values = vec![numeric(110, 2), numeric(22, 1), numeric(-5, 3)];
        let sum = of("sum(numeric)", values.clone()).expect("fits");
        assert_eq!(sum, value(numeric(3_295, 3)));
        let expected = Cell::Quotient {
            sum: 3_295,
            scale: 3,
            count: 3,
        };
        assert_eq!(of("avg(numeric)", values).expect("fits"), expected);
        let bigints = vec![OwnedValue::Int64(i64::MAX); 2];
        let sum = of("sum(int8)", bigints).expect("fits");
        assert_eq!(sum, value(numeric(18_446_744_073_709_551_614, 0)));
    }

    #[test]
    fn extremes_are_the_last_of_equal_values() {
        let least = of("min(numeric)", vec![numeric(10, 1), numeric(100, 2)]);
        assert_eq!(least.expect("compares"), value(numeric(100, 2)));
        let greatest = of("max(float8)", floats(&[f64::INFINITY, f64::NAN, 1.0]));
        let Cell::Value(Some(OwnedValue::Float64(greatest))) = greatest.expect("compares") else {
            panic!("a float");
        };
        assert!(greatest.is_nan());
    }

    #[test]
    fn there_is_a_group_of_no_rows() {
        assert_eq!(
            of("count(any)", Vec::new()).expect("counts"),
            value(OwnedValue::Int64(0))
        );
        assert_eq!(
            of("sum(float8)", Vec::new()).expect("sums"),
            Cell::Value(None)
        );
    }
}
