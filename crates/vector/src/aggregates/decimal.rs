//! Sums of 64-bit integers and of numerics: integers of 128 bits, all of one scale.
//!
//! A numeric sum is displayed with the greatest scale of the group's values; states keep the scale
//! of each group only once values of different scales occur.

use arrow_buffer::NullBuffer;
use howdah_columnar::{
    ChunkStats, Column, ColumnType, Numeric, NumericColumn, NumericDigits, NumericScales,
};

use super::kernel::{GroupIds, Rows, each, each_row, fold};
use super::{Accumulator, Finish, Pair, same, wrong_type};
use crate::error::VectorError;
use crate::runtime::ResultColumn;

const TOO_GREAT: VectorError = VectorError::Unsupported {
    what: "a sum of more than 38 digits",
};
const IMAGE: VectorError = VectorError::Unsupported {
    what: "a numeric of more than 38 digits, NaN or infinite",
};

/// Sums at one scale.
#[derive(Debug)]
pub(super) struct DecimalSum {
    sums: Vec<i128>,
    /// The scale of all sums; unknown before the first value.
    scale: Option<u16>,
    /// The greatest scale of each group's values, if not all values have the same.
    scales: Option<Vec<u16>>,
    is_numeric: bool,
}

fn power(digits: u16) -> Result<i128, VectorError> {
    10i128.checked_pow(digits.into()).ok_or(TOO_GREAT)
}

/// The sum of 64-bit integers, in halves that do not overflow for any batch.
fn sum_of(rows: Rows<'_>, values: &[i64]) -> i128 {
    let add = |(low, high): (u64, i64), value: i64| {
        (
            low.wrapping_add(u64::from(value as u32)),
            high.wrapping_add(value >> 32),
        )
    };
    let join = |(low, high): (u64, i64), (other_low, other_high): (u64, i64)| {
        (low.wrapping_add(other_low), high.wrapping_add(other_high))
    };
    let (low, high) = fold(rows, values, (0, 0), add, join);
    (i128::from(high) << 32) + i128::from(low)
}

impl DecimalSum {
    pub(super) fn new(ty: ColumnType) -> Self {
        let is_numeric = ty == ColumnType::Numeric;
        Self {
            sums: Vec::new(),
            scale: (!is_numeric).then_some(0),
            scales: None,
            is_numeric,
        }
    }

    /// Adds integers of the common scale.
    fn add(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &[i64],
    ) -> Result<(), VectorError> {
        if let GroupIds::One(group) = groups {
            let state = &mut self.sums[group as usize];
            *state = state.checked_add(sum_of(rows, values)).ok_or(TOO_GREAT)?;
            return Ok(());
        }
        let mut overflowed = false;
        each(&mut self.sums, groups, rows, values, |sum, value| {
            let (total, overflow) = sum.overflowing_add(value.into());
            *sum = total;
            overflowed |= overflow;
        });
        if overflowed { Err(TOO_GREAT) } else { Ok(()) }
    }

    /// Keeps the scale of each group from now on.
    fn keep_scales(&mut self, counts: &dyn Fn(usize) -> i64) {
        let (group_count, common) = (self.sums.len(), self.scale.unwrap_or(0));
        let of_group = |group| if counts(group) > 0 { common } else { 0 };
        self.scales
            .get_or_insert_with(|| (0..group_count).map(of_group).collect());
    }

    /// Prepares for values of a scale: keeps scales by group if it is another one, and widens
    /// the common scale if it is greater.
    fn meet(&mut self, scale: u16, counts: &dyn Fn(usize) -> i64) -> Result<(), VectorError> {
        let Some(common) = self.scale else {
            self.scale = Some(scale);
            return Ok(());
        };
        if scale != common {
            self.keep_scales(counts);
        }
        if scale > common {
            let factor = power(scale - common)?;
            for sum in self.sums.iter_mut().filter(|sum| **sum != 0) {
                *sum = sum.checked_mul(factor).ok_or(TOO_GREAT)?;
            }
            self.scale = Some(scale);
        }
        Ok(())
    }

    /// Adds a value of a scale that was [met](Self::meet) or is less than the common one.
    fn add_one(&mut self, group: usize, unscaled: i128, scale: u16) -> Result<(), VectorError> {
        let common = self.scale.unwrap_or(scale);
        let value = match common - scale {
            0 => unscaled,
            digits if unscaled != 0 => unscaled.checked_mul(power(digits)?).ok_or(TOO_GREAT)?,
            _ => 0,
        };
        self.sums[group] = self.sums[group].checked_add(value).ok_or(TOO_GREAT)?;
        if let Some(scales) = &mut self.scales {
            scales[group] = scales[group].max(scale);
        }
        Ok(())
    }

    fn add_numerics(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &NumericColumn,
        counts: &dyn Fn(usize) -> i64,
    ) -> Result<(), VectorError> {
        match values.scales() {
            NumericScales::Constant(scale) => self.meet(*scale, counts)?,
            NumericScales::PerRow(_) => self.keep_scales(counts),
        }
        if let Some((digits, _)) = values.as_narrow()
            && self.scales.is_none()
        {
            return self.add(groups, rows, digits);
        }
        each_row(groups, rows, |group, row| match values.value(row) {
            Some(Numeric::Small { unscaled, scale }) => {
                self.meet(scale, counts)?;
                self.add_one(group, unscaled, scale)
            }
            Some(Numeric::Image(_)) => Err(IMAGE),
            None => Ok(()),
        })
    }

    /// The scale of a group's sum.
    fn scale_of(&self, group: usize) -> u16 {
        match &self.scales {
            Some(scales) => scales[group],
            None => self.scale.unwrap_or(0),
        }
    }

    /// The sum of a group at its own scale, which loses nothing.
    fn sum_of(&self, group: usize) -> Result<i128, VectorError> {
        let digits = self.scale.unwrap_or(0) - self.scale_of(group);
        match digits {
            0 => Ok(self.sums[group]),
            digits => Ok(self.sums[group] / power(digits)?),
        }
    }
}

impl Accumulator for DecimalSum {
    fn resize(&mut self, group_count: usize) {
        self.sums.resize(group_count, 0);
        if let Some(scales) = &mut self.scales {
            scales.resize(group_count, 0);
        }
    }

    fn update(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &Column,
        counts: &dyn Fn(usize) -> i64,
    ) -> Result<(), VectorError> {
        if rows.len() == 0 {
            return Ok(());
        }
        match values {
            Column::Int64(values) if !self.is_numeric => self.add(groups, rows, values.values()),
            Column::Numeric(values) if self.is_numeric => {
                self.add_numerics(groups, rows, values, counts)
            }
            _ => wrong_type(),
        }
    }

    fn merge(&mut self, other: &dyn Accumulator, pairs: &[Pair]) -> Result<(), VectorError> {
        let other: &Self = same(other)?;
        if other.scale.is_none() {
            return Ok(());
        }
        let uniform = self.scales.is_none()
            && other.scales.is_none()
            && self.scale.is_none_or(|scale| Some(scale) == other.scale);
        if !uniform {
            self.keep_scales(&|_| 1);
        }
        for pair in pairs.iter().filter(|pair| pair.there > 0) {
            let (to, from) = (pair.to as usize, pair.from as usize);
            if let Some(scales) = &mut self.scales
                && pair.here == 0
            {
                scales[to] = 0;
            }
            let scale = other.scale_of(from);
            self.meet(scale, &|_| 1)?;
            self.add_one(to, other.sum_of(from)?, scale)?;
        }
        Ok(())
    }

    fn add_statistics(&mut self, group: usize, stats: &ChunkStats) -> Result<(), VectorError> {
        if stats.null_count == stats.row_count {
            return Ok(());
        }
        let sum = stats.sum.ok_or(TOO_GREAT)?;
        // A scale is known: then the group has values, for it is the only one.
        self.meet(stats.sum_scale, &|_| 1)?;
        self.add_one(group, sum, stats.sum_scale)
    }

    fn finish(
        &self,
        groups: &[u32],
        counts: &[i64],
        finish: Finish,
    ) -> Result<ResultColumn, VectorError> {
        let sums = groups
            .iter()
            .zip(counts)
            .map(|(&group, &count)| match count {
                0 => Ok(0),
                _ => self.sum_of(group as usize),
            })
            .collect::<Result<Vec<i128>, _>>()?;
        let scales = groups.iter().map(|&group| self.scale_of(group as usize));
        let mut valued = scales.clone().zip(counts).filter(|(_, count)| **count > 0);
        let first = valued.next().map(|(scale, _)| scale);
        let one = valued.all(|(scale, _)| Some(scale) == first);
        let scale = first.unwrap_or(0);
        if finish == Finish::Quotient {
            return match one {
                true => Ok(ResultColumn::Quotients {
                    sums,
                    scale,
                    counts: counts.to_vec(),
                }),
                false => Err(VectorError::Unsupported {
                    what: "averages of different scales",
                }),
            };
        }
        let scales = match one {
            true => NumericScales::Constant(scale),
            false => NumericScales::PerRow(scales.collect::<Vec<u16>>().into()),
        };
        let nulls = counts
            .contains(&0)
            .then(|| NullBuffer::from_iter(counts.iter().map(|&count| count > 0)));
        let digits = match sums.iter().map(|&sum| i64::try_from(sum)).collect() {
            Ok(narrow) => NumericDigits::Narrow(Vec::<i64>::into(narrow)),
            Err(_) => NumericDigits::Wide(sums.into()),
        };
        let column = NumericColumn::new(digits, scales, Vec::new(), None, nulls)?;
        Ok(ResultColumn::Values(Column::Numeric(column)))
    }

    fn memory_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<i128>()
            + self.scales.as_ref().map_or(0, Vec::capacity) * size_of::<u16>()
    }
}
