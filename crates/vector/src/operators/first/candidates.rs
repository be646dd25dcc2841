//! Rows that may be among the first: those that are not after the last row kept by the first part
//! of the order.

use std::cmp::Ordering;

use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use howdah_columnar::{Column, CompareOp, OwnedValue, Predicate, Value, Verdict, compare};

use super::order::Direction;

/// The value after which a row must not be, by the first part of the order. `None` is NULL.
pub(super) type Threshold = Option<OwnedValue>;

/// The rows of a column that are not after the threshold.
pub(super) fn candidates(column: &Column, direction: Direction, threshold: &Threshold) -> Vec<u32> {
    let Some(threshold) = threshold else {
        // The last row kept is NULL: values are before it, or after it.
        let is_null = |row| column.nulls().is_some_and(|nulls| nulls.is_null(row));
        return select(column, |row| !direction.nulls_first || is_null(row));
    };
    match (column, threshold) {
        (Column::Int16(array), OwnedValue::Int16(last)) => of_numbers(array, direction, *last),
        (Column::Int32(array), OwnedValue::Int32(last)) => of_numbers(array, direction, *last),
        (Column::Int64(array), OwnedValue::Int64(last)) => of_numbers(array, direction, *last),
        // NaN is neither less nor greater: floats that are not behind, plainly, or NaN.
        (Column::Float32(array), OwnedValue::Float32(last)) if !last.is_nan() => {
            of_floats(array, direction, *last, |v| v.is_nan())
        }
        (Column::Float64(array), OwnedValue::Float64(last)) if !last.is_nan() => {
            of_floats(array, direction, *last, |v| v.is_nan())
        }
        _ => {
            let behind = match direction.descending {
                true => Ordering::Less,
                false => Ordering::Greater,
            };
            select(column, |row| match column.value(row) {
                None => direction.nulls_first,
                // A value without an order is an error when its key is made.
                Some(value) => compare(value, threshold.as_value()) != Some(behind),
            })
        }
    }
}

fn select(column: &Column, is_candidate: impl Fn(usize) -> bool) -> Vec<u32> {
    (0..column.len())
        .filter(|&row| is_candidate(row))
        .map(|row| row as u32)
        .collect()
}

fn of_numbers<A: ArrowPrimitiveType>(
    array: &PrimitiveArray<A>,
    direction: Direction,
    last: A::Native,
) -> Vec<u32> {
    of_floats(array, direction, last, |_| false)
}

fn of_floats<A: ArrowPrimitiveType>(
    array: &PrimitiveArray<A>,
    direction: Direction,
    last: A::Native,
    is_greatest: impl Fn(A::Native) -> bool,
) -> Vec<u32> {
    let mut rows = Vec::new();
    let mut keep = |is_candidate: &dyn Fn(A::Native) -> bool, row: usize, value: A::Native| {
        let is_null = array.is_null(row);
        if is_null && direction.nulls_first || !is_null && is_candidate(value) {
            rows.push(row as u32);
        }
    };
    // Slots of nulls hold anything, so whole blocks are passed over only if no slot may be a
    // candidate.
    let has_nulls = array.null_count() > 0 && direction.nulls_first;
    for (block, values) in array.values().chunks(64).enumerate() {
        let any = match direction.descending {
            true => values
                .iter()
                .fold(false, |any, &v| any | (v >= last) | is_greatest(v)),
            false => values.iter().fold(false, |any, &v| any | (v <= last)),
        };
        if !any && !has_nulls {
            continue;
        }
        for (at, &value) in values.iter().enumerate() {
            let row = block * 64 + at;
            match direction.descending {
                true => keep(&|v| v >= last || is_greatest(v), row, value),
                false => keep(&|v| v <= last, row, value),
            }
        }
    }
    rows
}

/// Whether no row of a zone of the first column can be before the threshold. `ties`: rows that are
/// equal to it may be before it by other parts of the order.
/// `verdict` tells what statistics say of a predicate.
pub(super) fn is_beaten(
    verdict: impl Fn(&Predicate) -> Verdict,
    direction: Direction,
    threshold: &Threshold,
    ties: bool,
) -> bool {
    let no_nulls = verdict(&Predicate::IsNull) == Verdict::None;
    let Some(threshold) = threshold else {
        // Behind it is nothing, or values only.
        return direction.nulls_first && no_nulls;
    };
    let op = match (direction.descending, ties) {
        (false, false) => CompareOp::Lt,
        (false, true) => CompareOp::Le,
        (true, false) => CompareOp::Gt,
        (true, true) => CompareOp::Ge,
    };
    let predicate = Predicate::Compare {
        op,
        value: threshold.clone(),
    };
    (no_nulls || !direction.nulls_first) && verdict(&predicate) == Verdict::None
}

/// The value that a threshold holds.
pub(super) fn threshold_of(value: Option<Value<'_>>) -> Threshold {
    value.map(OwnedValue::from)
}
