//! The first groups by an order of their keys and aggregates.
//!
//! ```text
//!   all groups of a thread ─leading part of the order─▶ certainly among the first
//!                                                       tied ─next part─▶ …
//!   the first groups of all threads ─sort─▶ the result
//! ```
//!
//! The returned values of a group are computed for the first groups only.

use std::collections::BinaryHeap;

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

/// Groups split at a limit.
struct Split {
    /// Groups that are among the first by this part of the order.
    before: Vec<u32>,
    /// Groups of which only some are.
    tied: Vec<u32>,
}

/// Groups whose ranks are computed at a time, so that ranks of many groups need no memory.
const PART: usize = 8_192;

/// The most ranks that are kept in order while parts of the groups are looked at.
const MOST_KEPT: usize = 1_024;

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
            let ranks = |groups: &[u32]| match column(place, groups)? {
                ResultColumn::Values(values) => Ok((ranks(&values, direction)?, is_short(&values))),
                ResultColumn::Quotients { .. } => Err(NO_ORDER),
            };
            let Split { before, tied } = match limit <= MOST_KEPT {
                true => split_by_parts(&rest, limit, PART, &ranks)?,
                false => split_by_parts(&rest, limit, rest.len(), &ranks)?,
            };
            chosen.extend(before);
            rest = tied;
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

/// Splits groups at the rank of the last group that is returned. `limit` is less than their number.
/// `ranks` returns ranks of groups, and whether ranks of several calls can be compared.
fn split_by_parts(
    groups: &[u32],
    limit: usize,
    part_len: usize,
    ranks: &impl Fn(&[u32]) -> Result<(Vec<u128>, bool), VectorError>,
) -> Result<Split, VectorError> {
    if part_len >= groups.len() {
        return Ok(split(groups, &ranks(groups)?.0, limit));
    }
    // The least ranks, one more than groups are returned.
    let mut least: BinaryHeap<u128> = BinaryHeap::with_capacity(limit + 2);
    let mut worst = u128::MAX;
    let mut candidates: Vec<(u128, u32)> = Vec::new();
    for part in groups.chunks(part_len) {
        let (ranks_of_part, are_comparable) = ranks(part)?;
        if !are_comparable {
            return split_by_parts(groups, limit, groups.len(), ranks);
        }
        for (&rank, &group) in ranks_of_part.iter().zip(part) {
            if rank > worst {
                continue;
            }
            candidates.push((rank, group));
            if rank == worst {
                continue;
            }
            least.push(rank);
            if least.len() > limit + 1 {
                least.pop();
            }
            if least.len() == limit + 1 {
                worst = least.peek().copied().unwrap_or(worst);
            }
        }
    }
    let all = |keep: &dyn Fn(u128) -> bool| {
        let kept = candidates.iter().filter(|&&(rank, _)| keep(rank));
        kept.map(|&(_, group)| group).collect()
    };
    Ok(Split {
        before: all(&|rank| rank < worst),
        tied: all(&|rank| rank == worst),
    })
}

/// Splits groups by their ranks.
fn split(groups: &[u32], ranks: &[u128], limit: usize) -> Split {
    let mut sorted = ranks.to_vec();
    let (_, &mut last, _) = sorted.select_nth_unstable(limit);
    let all = |keep: &dyn Fn(u128) -> bool| -> Vec<u32> {
        let kept = groups.iter().zip(ranks).filter(|&(_, &rank)| keep(rank));
        kept.map(|(&group, _)| group).collect()
    };
    Split {
        before: all(&|rank| rank < last),
        tied: all(&|rank| rank == last),
    }
}

/// Whether the rank of a value tells all of it, so that ranks of several columns can be compared.
fn is_short(values: &Column) -> bool {
    !matches!(
        values,
        Column::Text(_) | Column::Bytes(_) | Column::Fixed(_) | Column::Numeric(_)
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_split_by_parts_are_those_split_at_once() {
        let mut random = 3u64;
        let mut next = move || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            random >> 40
        };
        for most in [2, 10, 1_000, 1 << 20] {
            for limit in [0, 1, 10, 99] {
                let groups: Vec<u32> = (0..300).map(|at| at * 3).collect();
                let of_group: Vec<u128> = groups.iter().map(|_| (next() % most).into()).collect();
                let ranks = |groups: &[u32]| {
                    let ranks = groups.iter().map(|&group| of_group[group as usize / 3]);
                    Ok((ranks.collect(), true))
                };
                let whole = split(&groups, &of_group, limit);
                for part_len in [1, 7, 64, 299] {
                    let parts = split_by_parts(&groups, limit, part_len, &ranks).expect("splits");
                    assert_eq!(parts.before, whole.before);
                    assert_eq!(parts.tied, whole.tied);
                }
            }
        }
    }
}
