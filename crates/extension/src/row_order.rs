//! The order of rows inside a row group: the table's option `sort_key`, else the columns of the
//! index that the table was last clustered on, else the order of the pages.

use std::cmp::Ordering;

use howdah_bridge::indexes::clustered_key;
use howdah_bridge::table::Table;
use howdah_columnar::{Numeric, RowGroupBuilder, Value, compare};

use crate::options;

/// As [`key_of`], with the option that the table has now.
pub fn key_of_table(table: Table<'_>) -> Vec<i16> {
    key_of(table, &options::of(table.oid()).sort_key)
}

/// Attribute numbers to sort by; empty keeps the order. Of a clustered index these are the key
/// columns up to the first expression, in ascending order whatever their direction, which makes no
/// difference to zone maps.
pub fn key_of(table: Table<'_>, option: &[i16]) -> Vec<i16> {
    match option {
        [] => clustered_key(table).unwrap_or_default(),
        key => key.to_vec(),
    }
}

/// The rows in the order of the sort key, NULLs last; `None` if they stay as they are. Ties keep
/// the order of the rows.
pub fn order_by(rows: &RowGroupBuilder, sort_key: &[i16]) -> Option<Vec<u32>> {
    let columns = columns_of(rows, sort_key);
    if columns.is_empty() {
        return None;
    }
    let mut order: Vec<u32> = (0..rows.row_count() as u32).collect();
    order.sort_by(|&a, &b| compare_by(rows, &columns, a as usize, b as usize).then(a.cmp(&b)));
    let sorted_already = order.is_sorted();
    (!sorted_already).then_some(order)
}

/// Rows that are looked at to learn whether all are in order.
const SAMPLED_ROWS: usize = 256;

/// Whether the rows are in the order of a key by and large: of a sample, three in four of all pairs
/// are. Of rows in no order, or in order again and again, half of them are.
pub fn is_mostly_in_order(rows: &RowGroupBuilder, key: &[i16]) -> bool {
    let columns = columns_of(rows, key);
    let sample = sample_of(rows.row_count());
    let is_in_order = |a, b| compare_by(rows, &columns, a, b).is_lt();
    let later = |at: usize| sample.iter().skip(at + 1);
    let in_order: usize = sample
        .iter()
        .enumerate()
        .map(|(at, &a)| later(at).filter(|&&b| is_in_order(a, b)).count())
        .sum();
    let pairs = sample.len() * sample.len().saturating_sub(1) / 2;
    pairs > 0 && 4 * in_order >= 3 * pairs
}

/// One row of each of so many equal parts, anywhere within its part: rows that take turns by their
/// keys would be in order at equal distances.
fn sample_of(row_count: usize) -> Vec<usize> {
    let mut parts: Vec<usize> = (0..=SAMPLED_ROWS)
        .map(|part| part * row_count / SAMPLED_ROWS)
        .collect();
    parts.dedup();
    let anywhere = |(nth, part): (usize, &[usize])| {
        let turn = (nth as u32).wrapping_mul(0x9E37_79B9) >> 16;
        part[0] + turn as usize % (part[1] - part[0])
    };
    parts.windows(2).enumerate().map(anywhere).collect()
}

/// The columns of a key that the rows have.
fn columns_of(rows: &RowGroupBuilder, key: &[i16]) -> Vec<usize> {
    key.iter()
        .filter_map(|&attno| usize::try_from(attno - 1).ok())
        .filter(|&column| column < rows.types().len())
        .collect()
}

fn compare_by(rows: &RowGroupBuilder, columns: &[usize], a: usize, b: usize) -> Ordering {
    columns
        .iter()
        .map(|&column| compare_rows(rows, column, a, b))
        .find(|&ordering| ordering != Ordering::Equal)
        .unwrap_or(Ordering::Equal)
}

fn compare_rows(rows: &RowGroupBuilder, column: usize, a: usize, b: usize) -> Ordering {
    match (rows.value(column, a), rows.value(column, b)) {
        (Some(a), Some(b)) => compare(a, b).unwrap_or_else(|| images_last(a, b)),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}

/// The order of numerics that are no decimals (images), which have none: they follow the decimals,
/// in the order of their bytes, since a sort needs one order of all.
fn images_last(a: Value<'_>, b: Value<'_>) -> Ordering {
    let image = |value| match value {
        Value::Numeric(Numeric::Image(image)) => Some(image),
        _ => None,
    };
    image(a).cmp(&image(b))
}

/// The new position of each row: the inverse of `order`.
pub fn positions(order: &[u32]) -> Vec<u32> {
    let mut positions = vec![0; order.len()];
    for (position, &row) in order.iter().enumerate() {
        positions[row as usize] = position as u32;
    }
    positions
}

#[cfg(test)]
mod tests {
    use howdah_columnar::ColumnType;

    use super::*;

    fn rows(values: &[(Option<i32>, &str)]) -> RowGroupBuilder {
        let mut rows = RowGroupBuilder::new(&[ColumnType::Int32, ColumnType::Text]);
        for &(number, text) in values {
            rows.column_mut(0).push(number.map(Value::Int32));
            rows.column_mut(1).push(Some(Value::Text(text)));
            rows.finish_row();
        }
        rows
    }

    #[test]
    fn rows_are_ordered_by_the_key_with_nulls_last_and_ties_as_they_came() {
        let rows = rows(&[
            (Some(2), "b"),
            (None, "a"),
            (Some(1), "z"),
            (Some(2), "a"),
            (Some(1), "z"),
        ]);
        assert_eq!(order_by(&rows, &[1]), Some(vec![2, 4, 0, 3, 1]));
        assert_eq!(order_by(&rows, &[1, 2]), Some(vec![2, 4, 3, 0, 1]));
        assert_eq!(order_by(&rows, &[2]), Some(vec![1, 3, 0, 2, 4]));
    }

    #[test]
    fn numerics_without_an_order_follow_those_with_one() {
        let mut rows = RowGroupBuilder::new(&[ColumnType::Numeric]);
        let images: Vec<[u8; 2]> = (0..40u8).map(|nth| [0xC0, nth % 3]).collect();
        for (nth, image) in images.iter().enumerate() {
            let unscaled = (nth * 7 % 40) as i128;
            rows.column_mut(0).push(Some(Value::Numeric(match nth % 4 {
                1 => Numeric::Image(image),
                _ => Numeric::Small { unscaled, scale: 0 },
            })));
            rows.finish_row();
        }
        let order = order_by(&rows, &[1]).expect("not in order");
        let sorted: Vec<_> = order
            .iter()
            .map(|&row| rows.value(0, row as usize))
            .collect();
        let is_image =
            |value: &Option<Value<'_>>| matches!(value, Some(Value::Numeric(Numeric::Image(_))));
        assert!(
            sorted[..30]
                .is_sorted_by(|a, b| compare(a.unwrap(), b.unwrap()) != Some(Ordering::Greater))
        );
        assert!(sorted[30..].iter().all(is_image));
    }

    #[test]
    fn rows_that_are_in_order_stay() {
        let rows = rows(&[(Some(1), "a"), (Some(1), "b"), (None, "a")]);
        assert_eq!(order_by(&rows, &[1]), None);
        assert_eq!(order_by(&rows, &[]), None, "no key");
        assert_eq!(order_by(&rows, &[0, 9]), None, "no such columns");
    }

    #[test]
    fn positions_invert_the_order() {
        let order = [3, 0, 4, 1, 2];
        let positions = positions(&order);
        let back: Vec<u32> = order.iter().map(|&row| positions[row as usize]).collect();
        assert_eq!(back, [0, 1, 2, 3, 4]);
    }
}
