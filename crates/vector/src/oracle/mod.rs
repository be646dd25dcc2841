//! Queries evaluated row by row: the plain version with which everything faster must agree.
//!
//! ```text
//!   rows ─▶ filter, conjunct by conjunct ─┬─▶ groups, searched one by one ─▶ aggregates
//!                                         └─▶ sort ─▶ first rows
//! ```
//!
//! It shares no code with the kernels: integers are computed in 128 bits, floats in 64, and ranges
//! are checked afterwards; functions are distinguished by their names. It does not use columns,
//! threads or memory accounts.
//!
//! A query that does not compile gives [`VectorError::Unsupported`] here.

mod aggregates;
mod expr;
mod functions;
pub mod json;
mod order;
mod zoned;

use std::cmp::Ordering;

use howdah_columnar::OwnedValue;

use crate::error::VectorError;
use crate::plan::{AggregateCall, Expr, GroupOrder, OrderBy, Output, Query};

pub use expr::evaluate;
pub use order::compare;

/// A value of a row; `None` is NULL.
pub type Datum = Option<OwnedValue>;

/// A value in a column of the result.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A value; `None` is NULL.
    Value(Datum),
    /// An average of integers or numerics: `sum * 10^-scale / count`. How many digits of it
    /// PostgreSQL shows is for the caller to know.
    Quotient {
        /// The sum, without the decimal point.
        sum: i128,
        /// The digits of the sum after the decimal point: the most that a value shows.
        scale: u16,
        /// The values that are not NULL.
        count: i64,
    },
}

/// The result of a query over these rows: groups in the order of their first rows, and rows that
/// are equal in an order as they come.
///
/// # Errors
///
/// PostgreSQL's errors, and [`VectorError::Unsupported`].
pub fn run(query: &Query, rows: &[Vec<Datum>]) -> Result<Vec<Vec<Cell>>, VectorError> {
    let mut passing = Vec::new();
    for row in rows {
        if passes(&query.filter, row)? {
            passing.push(row.as_slice());
        }
    }
    match &query.output {
        Output::Aggregate { keys, aggregates } => aggregate(keys, aggregates, &passing),
        Output::FirstGroups {
            keys,
            aggregates,
            order,
            limit,
        } => first_groups(aggregate(keys, aggregates, &passing)?, order, *limit),
        Output::First {
            columns,
            order,
            limit,
        } => first(columns, order, *limit, &passing),
    }
}

fn passes(filter: &[Expr], row: &[Datum]) -> Result<bool, VectorError> {
    for conjunct in filter {
        if !is_true(conjunct, row)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_true(expr: &Expr, row: &[Datum]) -> Result<bool, VectorError> {
    match evaluate(expr, row)? {
        Some(OwnedValue::Bool(value)) => Ok(value),
        None => Ok(false),
        Some(_) => Err(unsupported("a condition that is not boolean")),
    }
}

struct Group<'a> {
    keys: Vec<Datum>,
    rows: Vec<&'a [Datum]>,
}

fn aggregate(
    keys: &[Expr],
    aggregates: &[AggregateCall],
    rows: &[&[Datum]],
) -> Result<Vec<Vec<Cell>>, VectorError> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    if keys.is_empty() {
        groups.push(Group {
            keys: Vec::new(),
            rows: Vec::new(),
        });
    }
    for row in rows {
        let own: Vec<Datum> = keys
            .iter()
            .map(|key| evaluate(key, row))
            .collect::<Result<_, _>>()?;
        let mut found = None;
        for (at, group) in groups.iter().enumerate() {
            if is_same_key(&group.keys, &own)? {
                found = Some(at);
                break;
            }
        }
        let at = found.unwrap_or_else(|| {
            groups.push(Group {
                keys: own,
                rows: Vec::new(),
            });
            groups.len() - 1
        });
        groups[at].rows.push(row);
    }
    groups
        .into_iter()
        .map(|group| {
            let mut cells: Vec<Cell> = group.keys.iter().cloned().map(Cell::Value).collect();
            for call in aggregates {
                cells.push(aggregates::evaluate(call, &group.rows)?);
            }
            Ok(cells)
        })
        .collect()
}

fn is_same_key(a: &[Datum], b: &[Datum]) -> Result<bool, VectorError> {
    for (a, b) in a.iter().zip(b) {
        let is_same = match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => compare(a, b)? == Ordering::Equal,
            _ => false,
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The first groups, each of them computed before.
fn first_groups(
    groups: Vec<Vec<Cell>>,
    order: &[GroupOrder],
    limit: usize,
) -> Result<Vec<Vec<Cell>>, VectorError> {
    let mut sorted = Vec::new();
    for cells in groups {
        let keys = order.iter().map(|part| match cells.get(part.column) {
            Some(Cell::Value(value)) => Ok(value.clone()),
            _ => Err(unsupported("an order of averages")),
        });
        let keys = keys.collect::<Result<Vec<Datum>, _>>()?;
        for key in keys.iter().flatten() {
            compare(key, key)?;
        }
        sorted.push((keys, cells));
    }
    let order: Vec<OrderBy> = order
        .iter()
        .map(|part| OrderBy {
            expr: Expr::Column(part.column),
            descending: part.descending,
            nulls_first: part.nulls_first,
        })
        .collect();
    let mut error = None;
    sorted.sort_by(|(a, _), (b, _)| {
        place(&order, a, b).unwrap_or_else(|found| {
            error = Some(found);
            Ordering::Equal
        })
    });
    match error {
        Some(error) => Err(error),
        None => Ok(sorted
            .into_iter()
            .take(limit)
            .map(|(_, cells)| cells)
            .collect()),
    }
}

/// Evaluates the returned columns for every row that passes, also beyond the limit, as PostgreSQL
/// does below its sort.
fn first(
    columns: &[Expr],
    order: &[OrderBy],
    limit: usize,
    rows: &[&[Datum]],
) -> Result<Vec<Vec<Cell>>, VectorError> {
    let mut sorted: Vec<(Vec<Datum>, Vec<Cell>)> = Vec::new();
    for row in rows {
        let keys = order.iter().map(|by| evaluate(&by.expr, row));
        let keys: Vec<Datum> = keys.collect::<Result<_, _>>()?;
        // A value without an order is an error before sorting, which needs one.
        for key in keys.iter().flatten() {
            compare(key, key)?;
        }
        let cells = columns.iter().map(|column| evaluate(column, row));
        let cells = cells.map(|value| value.map(Cell::Value));
        sorted.push((keys, cells.collect::<Result<_, _>>()?));
    }
    let mut error = None;
    sorted.sort_by(|(a, _), (b, _)| {
        place(order, a, b).unwrap_or_else(|found| {
            error = Some(found);
            Ordering::Equal
        })
    });
    match error {
        Some(error) => Err(error),
        None => Ok(sorted
            .into_iter()
            .take(limit)
            .map(|(_, cells)| cells)
            .collect()),
    }
}

fn place(order: &[OrderBy], a: &[Datum], b: &[Datum]) -> Result<Ordering, VectorError> {
    for ((by, a), b) in order.iter().zip(a).zip(b) {
        let null_place = match by.nulls_first {
            true => Ordering::Less,
            false => Ordering::Greater,
        };
        let place = match (a, b) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => null_place,
            (Some(_), None) => null_place.reverse(),
            (Some(a), Some(b)) if by.descending => compare(b, a)?,
            (Some(a), Some(b)) => compare(a, b)?,
        };
        if place != Ordering::Equal {
            return Ok(place);
        }
    }
    Ok(Ordering::Equal)
}

fn unsupported(what: &'static str) -> VectorError {
    VectorError::Unsupported { what }
}

#[cfg(test)]
mod tests {
    use howdah_columnar::{ColumnType, OwnedNumeric};

    use super::*;

    fn int(value: i32) -> Datum {
        Some(OwnedValue::Int32(value))
    }

    fn count() -> AggregateCall {
        AggregateCall {
            name: "count()".to_owned(),
            argument: None,
            filter: None,
        }
    }

    /// The keys of groups of one column, and how many rows each has.
    fn groups(ty: ColumnType, values: Vec<Datum>) -> Vec<(Cell, Cell)> {
        let query = Query {
            columns: vec![ty],
            filter: Vec::new(),
            output: Output::Aggregate {
                keys: vec![Expr::Column(0)],
                aggregates: vec![count()],
            },
        };
        let rows: Vec<Vec<Datum>> = values.into_iter().map(|value| vec![value]).collect();
        let groups = run(&query, &rows).expect("groups");
        let pair = |group: Vec<Cell>| match <[Cell; 2]>::try_from(group) {
            Ok([key, count]) => (key, count),
            Err(group) => panic!("{group:?}"),
        };
        groups.into_iter().map(pair).collect()
    }

    #[test]
    fn keys_group_as_postgresql_groups_them() {
        let floats = [0.0, f64::NAN, -0.0, -f64::NAN, 1.0];
        let floats = floats.map(|value| Some(OwnedValue::Float64(value)));
        let found = groups(ColumnType::Float64, floats.to_vec());
        let counts: Vec<_> = found.into_iter().map(|(_, count)| count).collect();
        let expected = [2, 2, 1].map(|count| Cell::Value(Some(OwnedValue::Int64(count))));
        assert_eq!(counts, expected);
        let numeric = |unscaled, scale| {
            let small = OwnedNumeric::Small { unscaled, scale };
            Some(OwnedValue::Numeric(small))
        };
        let numerics = vec![numeric(10, 1), None, numeric(1, 0), None];
        assert_eq!(groups(ColumnType::Numeric, numerics).len(), 2);
        assert!(groups(ColumnType::Int32, Vec::new()).is_empty());
    }

    #[test]
    fn first_rows_are_ordered_with_nulls_where_they_belong() {
        let ordered = |descending, nulls_first| {
            let query = Query {
                columns: vec![ColumnType::Int32],
                filter: Vec::new(),
                output: Output::First {
                    columns: vec![Expr::Column(0)],
                    order: vec![OrderBy {
                        expr: Expr::Column(0),
                        descending,
                        nulls_first,
                    }],
                    limit: 3,
                },
            };
            let rows = [int(2), None, int(1), int(3)].map(|value| vec![value]);
            run(&query, &rows).expect("sorts").concat()
        };
        let cells = |values: [Datum; 3]| values.map(Cell::Value).to_vec();
        assert_eq!(ordered(false, false), cells([int(1), int(2), int(3)]));
        assert_eq!(ordered(true, true), cells([None, int(3), int(2)]));
        assert_eq!(ordered(true, false), cells([int(3), int(2), int(1)]));
    }

    #[test]
    fn conjuncts_after_one_that_is_not_true_are_not_evaluated() {
        let call = |function: &str, arguments: Vec<Expr>| Expr::Call {
            function: function.to_owned(),
            arguments,
        };
        let constant = |value| Expr::Constant(ColumnType::Int32, int(value));
        let quotient = call("int4div", vec![constant(6), Expr::Column(0)]);
        let query = |filter| Query {
            columns: vec![ColumnType::Int32],
            filter,
            output: Output::Aggregate {
                keys: Vec::new(),
                aggregates: vec![count()],
            },
        };
        let is_positive = call("int4gt", vec![Expr::Column(0), constant(0)]);
        let is_two = call("int4eq", vec![quotient, constant(2)]);
        let rows = [int(0), int(3), None].map(|value| vec![value]);
        let found = run(&query(vec![is_positive, is_two.clone()]), &rows);
        let one = vec![vec![Cell::Value(Some(OwnedValue::Int64(1)))]];
        assert_eq!(found.expect("guarded"), one);
        assert!(matches!(
            run(&query(vec![is_two]), &rows),
            Err(VectorError::DivisionByZero)
        ));
    }
}
