//! Comparisons with integers that rise or fall evenly: the rows of which one is true are found by
//! searching, and none is decoded.
//!
//! ```text
//!   rows:  value less ─┬─ equal ─┬─ greater      (falling: the other way round)
//!                      └ searched┘
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use howdah_columnar::{CompareOp, OwnedValue, Value, compare};

use super::scan::{Rise, Zone};
use crate::error::VectorError;

/// The rows of a zone, selected or not, whose value compares so; `None` if the column is not stored
/// as such integers, or they cannot be compared with the value.
pub(super) fn rows_of(
    zone: &Zone<'_>,
    column: usize,
    op: CompareOp,
    value: &OwnedValue,
) -> Result<Option<BooleanBuffer>, VectorError> {
    let rise = zone.rise(column)?;
    Ok(rise.and_then(|rise| matching(&rise, &zone.rows(), op, value.as_value())))
}

fn matching(
    rise: &Rise,
    rows: &Range<usize>,
    op: CompareOp,
    value: Value<'_>,
) -> Option<BooleanBuffer> {
    let order = |row: usize| compare(Value::Int64(rise.value(row)), value);
    order(rows.start)?;
    let (first, last) = match rise.step >= 0 {
        true => (Ordering::Less, Ordering::Greater),
        false => (Ordering::Greater, Ordering::Less),
    };
    let equal = search(rows, |row| order(row) == Some(first));
    let after = search(rows, |row| order(row) != Some(last));
    let mut bits = BooleanBufferBuilder::new(rows.len());
    bits.append_n(equal - rows.start, op.holds(first));
    bits.append_n(after - equal, op.holds(Ordering::Equal));
    bits.append_n(rows.end - after, op.holds(last));
    Some(bits.finish())
}

/// The first row of which a condition is false that no row after it has.
fn search(rows: &Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use howdah_columnar::ColumnType;

    use super::*;

    #[test]
    fn the_rows_are_those_of_one_comparison_after_the_other() {
        let operators = [
            CompareOp::Eq,
            CompareOp::Ne,
            CompareOp::Lt,
            CompareOp::Le,
            CompareOp::Gt,
            CompareOp::Ge,
        ];
        for (base, step) in [(0, 1), (-500, 7), (500, -3), (5, 0), (i64::MIN, 1 << 40)] {
            let rise = Rise::new(ColumnType::Int64, base, step);
            for rows in [0..100, 37..99, 8..9, 4..4] {
                let value = |row: usize| base + row as i64 * step;
                let near = rows.clone().step_by(13).map(value);
                let values = near.flat_map(|v| [v.saturating_sub(1), v, v.saturating_add(1)]);
                for value_there in values.chain([i64::MIN, i64::MAX, 0]) {
                    for op in operators {
                        let expected: BooleanBuffer = (rows.clone())
                            .map(|row| op.holds(value(row).cmp(&value_there)))
                            .collect();
                        let found = matching(&rise, &rows, op, Value::Int64(value_there));
                        assert_eq!(found, Some(expected), "{base} {step} {op:?} {value_there}");
                    }
                }
            }
        }
        let rise = Rise::new(ColumnType::Int64, 0, 1);
        let text = matching(&rise, &(0..9), CompareOp::Lt, Value::Text("9"));
        assert_eq!(text, None);
    }
}
