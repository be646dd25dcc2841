//! Sums of small integers and of floats.

use std::ops::Add;

use arrow_array::{Float32Array, Float64Array, Int64Array};
use howdah_columnar::{ChunkStats, Column};

use super::kernel::{GroupIds, Rows, each_row, fold, sum_each};
use super::{Accumulator, Finish, Pair, same, wrong_type};
use crate::error::VectorError;
use crate::runtime::ResultColumn;

/// The sum of 16-bit or 32-bit integers in 64 bits, which PostgreSQL does not check either.
#[derive(Debug, Default)]
pub(super) struct IntegerSum {
    sums: Vec<i64>,
}

impl IntegerSum {
    fn add<T: Copy + Into<i64>>(&mut self, groups: GroupIds<'_>, rows: Rows<'_>, values: &[T]) {
        let add = |sum: i64, value: T| sum.wrapping_add(value.into());
        let sums = &mut self.sums;
        sum_each(sums, groups, rows, values, 0, add, i64::wrapping_add);
    }
}

impl Accumulator for IntegerSum {
    fn resize(&mut self, group_count: usize) {
        self.sums.resize(group_count, 0);
    }

    fn update(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &Column,
        _counts: &dyn Fn(usize) -> i64,
    ) -> Result<(), VectorError> {
        match values {
            Column::Int16(values) => self.add(groups, rows, values.values()),
            Column::Int32(values) => self.add(groups, rows, values.values()),
            _ => return wrong_type(),
        }
        Ok(())
    }

    fn merge(&mut self, other: &dyn Accumulator, pairs: &[Pair]) -> Result<(), VectorError> {
        let other: &Self = same(other)?;
        for pair in pairs {
            let sum = &mut self.sums[pair.to as usize];
            *sum = sum.wrapping_add(other.sums[pair.from as usize]);
        }
        Ok(())
    }

    fn add_statistics(&mut self, group: usize, stats: &ChunkStats) -> Result<(), VectorError> {
        let sum = stats.sum.unwrap_or(0) as i64;
        self.sums[group] = self.sums[group].wrapping_add(sum);
        Ok(())
    }

    fn finish(
        &self,
        groups: &[u32],
        counts: &[i64],
        finish: Finish,
    ) -> Result<ResultColumn, VectorError> {
        let sums = groups.iter().map(|&group| self.sums[group as usize]);
        Ok(match finish {
            Finish::Quotient => ResultColumn::Quotients {
                sums: sums.map(i128::from).collect(),
                scale: 0,
                counts: counts.to_vec(),
            },
            _ => ResultColumn::Values(Column::Int64(
                sums.zip(counts)
                    .map(|(sum, &count)| (count > 0).then_some(sum))
                    .collect::<Int64Array>(),
            )),
        })
    }

    fn memory_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<i64>()
    }
}

/// A float, and what sums of it need.
pub(super) trait Float:
    Copy + Add<Output = Self> + PartialOrd + Send + Sync + 'static
{
    /// Adding it changes nothing, not even a zero's sign.
    const IDENTITY: Self;

    /// No sum of as many values as there can be overflows if none of them is greater.
    const HARMLESS: Self;

    /// Greater than every finite value.
    const INFINITY: Self;

    /// Its magnitude.
    fn abs(self) -> Self;

    /// The rows of a column.
    fn values(column: &Column) -> Option<&[Self]>;

    /// A column.
    fn column(values: impl Iterator<Item = Option<Self>>) -> Column;
}

macro_rules! impl_float {
    ($ty:ty, $harmless:literal, $variant:ident, $array:ty) => {
        impl Float for $ty {
            const IDENTITY: Self = -0.0;
            const HARMLESS: Self = $harmless;
            const INFINITY: Self = <$ty>::INFINITY;

            #[inline(always)]
            fn abs(self) -> Self {
                <$ty>::abs(self)
            }

            fn values(column: &Column) -> Option<&[Self]> {
                match column {
                    Column::$variant(values) => Some(values.values()),
                    _ => None,
                }
            }

            fn column(values: impl Iterator<Item = Option<Self>>) -> Column {
                Column::$variant(values.collect::<$array>())
            }
        }
    };
}

impl_float!(f32, 1e25, Float32, Float32Array);
impl_float!(f64, 1e100, Float64, Float64Array);

/// Whether a finite value is so great that sums may overflow.
pub(super) fn any_harmful<T: Float>(rows: Rows<'_>, values: &[T]) -> bool {
    // The greatest magnitude tells for most batches. A NaN is not greater than anything.
    let greater = |most: T, magnitude: T| if magnitude > most { magnitude } else { most };
    let zero = T::IDENTITY.abs();
    let add = |most: T, value: T| greater(most, value.abs());
    if fold(rows, values, zero, add, greater) <= T::HARMLESS {
        return false;
    }
    let is_harmful = |any: bool, value: T| {
        let magnitude = value.abs();
        any | ((magnitude > T::HARMLESS) & (magnitude < T::INFINITY))
    };
    fold(rows, values, false, is_harmful, |a, b| a | b)
}

pub(super) const OVERFLOW: VectorError = VectorError::OutOfRange {
    message: "value out of range: overflow",
};

/// PostgreSQL's `float8_pl`: an overflow is an error unless an operand is infinite.
pub(super) fn checked_add<T: Float>(a: T, b: T) -> Result<T, VectorError> {
    let sum = a + b;
    match sum.abs() == T::INFINITY && a.abs() != T::INFINITY && b.abs() != T::INFINITY {
        true => Err(OVERFLOW),
        false => Ok(sum),
    }
}

/// The sum of floats in their own width.
#[derive(Debug)]
pub(super) struct FloatSum<T> {
    sums: Vec<T>,
    /// A great value occurred: each addition is checked from then on.
    checked: bool,
}

impl<T> Default for FloatSum<T> {
    fn default() -> Self {
        Self {
            sums: Vec::new(),
            checked: false,
        }
    }
}

impl<T: Float> Accumulator for FloatSum<T> {
    fn resize(&mut self, group_count: usize) {
        self.sums.resize(group_count, T::IDENTITY);
    }

    fn update(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &Column,
        _counts: &dyn Fn(usize) -> i64,
    ) -> Result<(), VectorError> {
        let Some(values) = T::values(values) else {
            return wrong_type();
        };
        self.checked |= any_harmful(rows, values);
        if self.checked {
            return each_row(groups, rows, |group, row| {
                self.sums[group] = checked_add(self.sums[group], values[row])?;
                Ok(())
            });
        }
        let add = |a, b| a + b;
        let sums = &mut self.sums;
        sum_each(sums, groups, rows, values, T::IDENTITY, add, add);
        Ok(())
    }

    fn merge(&mut self, other: &dyn Accumulator, pairs: &[Pair]) -> Result<(), VectorError> {
        let other: &Self = same(other)?;
        self.checked |= other.checked;
        for pair in pairs {
            let (here, there) = (self.sums[pair.to as usize], other.sums[pair.from as usize]);
            self.sums[pair.to as usize] = checked_add(here, there)?;
        }
        Ok(())
    }

    fn add_statistics(&mut self, _group: usize, stats: &ChunkStats) -> Result<(), VectorError> {
        no_sum(stats)
    }

    fn finish(
        &self,
        groups: &[u32],
        counts: &[i64],
        _finish: Finish,
    ) -> Result<ResultColumn, VectorError> {
        let sums = groups.iter().zip(counts);
        let sums = sums.map(|(&group, &count)| (count > 0).then_some(self.sums[group as usize]));
        Ok(ResultColumn::Values(T::column(sums)))
    }

    fn memory_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<T>()
    }
}

/// Statistics hold no sum of floats; a chunk of nothing but nulls needs none.
pub(super) fn no_sum(stats: &ChunkStats) -> Result<(), VectorError> {
    match stats.null_count == stats.row_count {
        true => Ok(()),
        false => Err(VectorError::Unsupported {
            what: "a sum of floats from statistics",
        }),
    }
}
