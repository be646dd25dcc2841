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
use crate::runtime::{PART_ROWS, ResultColumn, ResultPart, join_parts};
use crate::stop::{self, Stop};

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
        stop: &Stop<'_>,
    ) -> Result<Vec<u32>, VectorError> {
        let mut chosen = Vec::new();
        let mut rest = groups;
        for &(place, direction) in &self.order {
            let limit = self.limit - chosen.len();
            if rest.len() <= limit {
                break;
            }
            let values = |groups: &[u32]| -> Result<Column, VectorError> {
                stop.check()?;
                match column(place, groups)? {
                    ResultColumn::Values(values) => Ok(values),
                    ResultColumn::Quotients { .. } => Err(NO_ORDER),
                }
            };
            let is_by_parts = limit <= MOST_KEPT && is_short(&values(&rest[..1])?);
            let Split { before, tied } = match is_by_parts {
                true => {
                    split_by_parts(&rest, limit, PART, |part| ranks(&values(part)?, direction))?
                }
                false => {
                    let all = rest.chunks(PART).map(&values);
                    split(&rest, &ranks_of_all(all, direction, stop)?, limit)
                }
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
        parts: Vec<ResultPart>,
        stop: &Stop<'_>,
    ) -> Result<Vec<ResultPart>, VectorError> {
        let ResultPart { row_count, columns } = join_parts(parts)?;
        let keys = self.order.iter().map(|&(place, direction)| {
            match columns.get(place) {
                // There are no columns where there is no row.
                None => Ok(Vec::new()),
                Some(ResultColumn::Values(values)) => {
                    ranks_of_all(std::iter::once(Ok(values.clone())), direction, stop)
                }
                Some(ResultColumn::Quotients { .. }) => Err(NO_ORDER),
            }
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let mut rows: Vec<u32> = (0..row_count as u32).collect();
        let order = |a: u32, b: u32| {
            let by = |keys: &Vec<u128>| keys[a as usize].cmp(&keys[b as usize]);
            let places = keys.iter().map(by);
            places.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        };
        stop::sort(&mut rows, order, stop)?;
        rows.truncate(self.limit);
        let part = |rows: &[u32]| -> Result<ResultPart, VectorError> {
            stop.check()?;
            let columns = columns.iter().map(|column| {
                Ok(match column {
                    ResultColumn::Values(values) => ResultColumn::Values(take(values, rows)?),
                    ResultColumn::Quotients {
                        sums,
                        scale,
                        counts,
                    } => ResultColumn::Quotients {
                        sums: rows.iter().map(|&row| sums[row as usize]).collect(),
                        scale: *scale,
                        counts: rows.iter().map(|&row| counts[row as usize]).collect(),
                    },
                })
            });
            Ok(ResultPart {
                row_count: rows.len(),
                columns: columns.collect::<Result<Vec<_>, VectorError>>()?,
            })
        };
        rows.chunks(PART_ROWS).map(part).collect()
    }
}

const NO_ORDER: VectorError = VectorError::Unsupported {
    what: "an order of averages",
};

/// Splits groups at the rank of the last group that is returned. `limit` is less than their number.
/// `ranks` returns ranks of groups that can be compared with those of other calls.
fn split_by_parts(
    groups: &[u32],
    limit: usize,
    part_len: usize,
    ranks: impl Fn(&[u32]) -> Result<Vec<u128>, VectorError>,
) -> Result<Split, VectorError> {
    // The least ranks, one more than groups are returned.
    let mut least: BinaryHeap<u128> = BinaryHeap::with_capacity(limit + 2);
    let mut worst = u128::MAX;
    let mut candidates: Vec<(u128, u32)> = Vec::new();
    for part in groups.chunks(part_len) {
        for (rank, &group) in ranks(part)?.into_iter().zip(part) {
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

/// Numbers that are ordered as all of the values are, of which some are given at a time; the same
/// for values that are equal.
fn ranks_of_all(
    parts: impl Iterator<Item = Result<Column, VectorError>>,
    direction: Direction,
    stop: &Stop<'_>,
) -> Result<Vec<u128>, VectorError> {
    let (mut all, mut keys) = (Vec::new(), Keys::default());
    for values in parts {
        let values = values?;
        match is_short(&values) {
            true => all.extend(ranks(&values, direction)?),
            false => keys.add(&values, direction, stop)?,
        }
    }
    match all.is_empty() {
        true => keys.ranks(stop),
        false => Ok(all),
    }
}

/// Numbers that are ordered as the values are, which are [short](is_short); the same for values
/// that are equal.
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
            return Err(NO_ORDER);
        }
    })
}

/// Values whose order needs more than 64 bits, as keys, one after the other.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    /// One past the last byte of each key.
    ends: Vec<usize>,
}

impl Keys {
    fn get(&self, key: u32) -> &[u8] {
        let at = key as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    fn add(
        &mut self,
        values: &Column,
        direction: Direction,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        for row in 0..values.len() {
            if row.is_multiple_of(PART) {
                stop.check()?;
            }
            order::put(values, row, direction, &mut self.bytes)?;
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    /// Their ranks.
    fn ranks(&self, stop: &Stop<'_>) -> Result<Vec<u128>, VectorError> {
        let mut sorted: Vec<u32> = (0..self.ends.len() as u32).collect();
        stop::sort(&mut sorted, |a, b| self.get(a).cmp(self.get(b)), stop)?;
        let mut ranks = vec![0; sorted.len()];
        let mut rank = 0;
        for (at, &key) in sorted.iter().enumerate() {
            if at > 0 && self.get(key) != self.get(sorted[at - 1]) {
                rank += 1;
            }
            ranks[key as usize] = rank;
        }
        Ok(ranks)
    }
}

#[cfg(test)]
mod tests {
    use howdah_columnar::{ColumnType, Value};

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
                    Ok(ranks.collect())
                };
                let whole = split(&groups, &of_group, limit);
                for part_len in [1, 7, 64, 299] {
                    let parts = split_by_parts(&groups, limit, part_len, ranks).expect("splits");
                    assert_eq!(parts.before, whole.before);
                    assert_eq!(parts.tied, whole.tied);
                }
            }
        }
    }

    #[test]
    fn texts_of_several_parts_have_the_ranks_of_all() -> Result<(), VectorError> {
        let flag = std::sync::atomic::AtomicBool::new(false);
        let stop = Stop::new(&flag, || false);
        let texts = ["b", "", "abc", "ab", "b", "z", "abd"];
        for descending in [false, true] {
            let direction = Direction {
                descending,
                nulls_first: false,
            };
            let column = |texts: &[&str]| {
                let values = texts.iter().map(|text| Some(Value::Text(text)));
                Ok(Column::from_values(ColumnType::Text, values)?)
            };
            let ranks = ranks_of_all(texts.chunks(3).map(column), direction, &stop)?;
            for (a, b) in [(0, 4), (1, 2), (2, 3), (3, 6), (5, 0), (6, 2)] {
                let order = texts[a].cmp(texts[b]);
                let order = if descending { order.reverse() } else { order };
                assert_eq!(ranks[a].cmp(&ranks[b]), order);
            }
        }
        Ok(())
    }
}
