//! The first groups by an order of their keys and aggregates.
//!
//! ```text
//!   all groups of a thread ─leading part of the order─▶ certainly among the first
//!                                                       tied ─next part─▶ …
//!   the first groups of all threads ─sort─▶ the result
//! ```
//!
//! The returned values of a group are computed for the first groups only.

use howdah_columnar::Column;

use super::order::{self, Direction};
use crate::error::{Declined, VectorError};
use crate::expr::take;
use crate::plan::GroupOrder;
use crate::runtime::ResultColumn;

/// The order of groups, the most significant part first, and how many are returned.
pub(crate) struct FirstGroups {
    /// Positions among the returned values.
    order: Vec<(usize, Direction)>,
    limit: usize,
}

/// Splits positions at a limit.
struct Split {
    /// Positions that are among the first by this part of the order.
    before: Vec<u32>,
    /// Positions of which only some are.
    tied: Vec<u32>,
}

impl FirstGroups {
    /// `has_order` tells whether the returned value at a position can be ordered by.
    pub(crate) fn compile(
        order: &[GroupOrder],
        limit: usize,
        has_order: impl Fn(usize) -> bool,
    ) -> Result<Self, Declined> {
        let order = order.iter().map(|part| {
            let direction = Direction {
                descending: part.descending,
                nulls_first: part.nulls_first,
            };
            match has_order(part.column) {
                true => Ok((part.column, direction)),
                false => Err(Declined::Types {
                    name: "an order of groups".to_owned(),
                }),
            }
        });
        Ok(Self {
            order: order.collect::<Result<_, _>>()?,
            limit,
        })
    }

    /// The positions of the first groups, in any order. `column` computes the returned values at a
    /// position.
    pub(crate) fn choose(
        &self,
        groups: Vec<u32>,
        column: impl Fn(usize, &[u32]) -> Result<ResultColumn, VectorError>,
    ) -> Result<Vec<u32>, VectorError> {
        let mut chosen = Vec::new();
        let mut rest = groups;
        for &(place, direction) in &self.order {
            let limit = self.limit - chosen.len();
            if rest.len() <= limit {
                break;
            }
            let ResultColumn::Values(values) = column(place, &rest)? else {
                return Err(NO_ORDER);
            };
            let Split { before, tied } = split(&ranks(&values, direction)?, limit);
            chosen.extend(before.iter().map(|&at| rest[at as usize]));
            rest = tied.iter().map(|&at| rest[at as usize]).collect();
        }
        // Among groups that are equal by the whole order, any may be returned.
        rest.truncate(self.limit - chosen.len());
        chosen.extend(rest);
        Ok(chosen)
    }

    /// The rows of all threads in order.
    pub(crate) fn sorted(
        &self,
        row_count: usize,
        columns: Vec<ResultColumn>,
    ) -> Result<(usize, Vec<ResultColumn>), VectorError> {
        let keys = self
            .order
            .iter()
            .map(|&(place, direction)| match &columns[place] {
                ResultColumn::Values(values) => ranks(values, direction),
                ResultColumn::Quotients { .. } => Err(NO_ORDER),
            });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let mut rows: Vec<u32> = (0..row_count as u32).collect();
        rows.sort_by(|&a, &b| {
            let by = |keys: &Vec<u128>| keys[a as usize].cmp(&keys[b as usize]);
            let places = keys.iter().map(by);
            places.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        });
        rows.truncate(self.limit);
        let columns = columns.into_iter().map(|column| {
            Ok(match column {
                ResultColumn::Values(values) => ResultColumn::Values(take(&values, &rows)?),
                ResultColumn::Quotients {
                    sums,
                    scale,
                    counts,
                } => ResultColumn::Quotients {
                    sums: rows.iter().map(|&row| sums[row as usize]).collect(),
                    scale,
                    counts: rows.iter().map(|&row| counts[row as usize]).collect(),
                },
            })
        });
        let columns = columns.collect::<Result<Vec<_>, VectorError>>()?;
        Ok((rows.len(), columns))
    }
}

const NO_ORDER: VectorError = VectorError::Unsupported {
    what: "an order of averages",
};

/// Splits ranks at the rank of the last group that is returned. `limit` is less than their number.
fn split(ranks: &[u128], limit: usize) -> Split {
    let mut sorted = ranks.to_vec();
    let (_, &mut last, _) = sorted.select_nth_unstable(limit);
    let positions = |keep: &dyn Fn(u128) -> bool| -> Vec<u32> {
        (0u32..)
            .zip(ranks)
            .filter(|&(_, &rank)| keep(rank))
            .map(|(at, _)| at)
            .collect()
    };
    Split {
        before: positions(&|rank| rank < last),
        tied: positions(&|rank| rank == last),
    }
}

/// Numbers that are ordered as the values are; the same for values that are equal.
fn ranks(values: &Column, direction: Direction) -> Result<Vec<u128>, VectorError> {
    const SIGN: u64 = 1 << 63;
    let null = match direction.nulls_first {
        true => 0,
        false => 2u128 << 64,
    };
    // Of a value: 1 above the 64 bits of its place.
    let rank = |bits: u64| {
        let bits = if direction.descending { !bits } else { bits };
        1 << 64 | u128::from(bits)
    };
    let of_bits = |bits: &dyn Fn(usize) -> u64| -> Vec<u128> {
        let nulls = values.nulls();
        (0..values.len())
            .map(|row| match nulls.is_some_and(|nulls| nulls.is_null(row)) {
                true => null,
                false => rank(bits(row)),
            })
            .collect()
    };
    Ok(match values {
        Column::Bool(array) => of_bits(&|row| array.value(row).into()),
        Column::Int16(array) => of_bits(&|row| i64::from(array.value(row)) as u64 ^ SIGN),
        Column::Int32(array) => of_bits(&|row| i64::from(array.value(row)) as u64 ^ SIGN),
        Column::Int64(array) => of_bits(&|row| array.value(row) as u64 ^ SIGN),
        Column::Float32(array) => of_bits(&|row| order::ordered_bits(array.value(row).into())),
        Column::Float64(array) => of_bits(&|row| order::ordered_bits(array.value(row))),
        Column::Text(_) | Column::Bytes(_) | Column::Fixed(_) | Column::Numeric(_) => {
            ranks_of_keys(values, direction)?
        }
    })
}

/// The ranks of values whose order needs more than 64 bits.
fn ranks_of_keys(values: &Column, direction: Direction) -> Result<Vec<u128>, VectorError> {
    let mut keys = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        let mut key = Vec::new();
        order::put(values, row, direction, &mut key)?;
        keys.push(key);
    }
    let mut rows: Vec<usize> = (0..keys.len()).collect();
    rows.sort_unstable_by(|&a, &b| keys[a].cmp(&keys[b]));
    let mut ranks = vec![0; keys.len()];
    let mut rank = 0;
    for (at, &row) in rows.iter().enumerate() {
        if at > 0 && keys[row] != keys[rows[at - 1]] {
            rank += 1;
        }
        ranks[row] = rank;
    }
    Ok(ranks)
}
