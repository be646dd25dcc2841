//! Averages of floats: PostgreSQL's `float8_accum`, `float4_accum`, `float8_combine`, `float8_avg`.
//!
//! The transition function also keeps Sxx, the sum of squared deviations, for the variance, and
//! raises an overflow of it. That takes values beyond about 1e150; so only sums are kept until the
//! first value beyond 1e100, and the whole recurrence (Youngs and Cramer) is computed from then on.
//! Earlier values add too little to Sxx to matter.

use arrow_array::Float64Array;
use howdah_columnar::{ChunkStats, Column};

use super::kernel::{GroupIds, Rows, each_row, sum_each};
use super::sum::{OVERFLOW, any_harmful, checked_add, no_sum};
use super::{Accumulator, Finish, Pair, same, wrong_type};
use crate::error::VectorError;
use crate::runtime::ResultColumn;

/// Sums in 64 bits.
#[derive(Debug, Default)]
pub(super) struct FloatAverage {
    sums: Vec<f64>,
    /// Once the whole recurrence runs.
    deviations: Option<Deviations>,
}

/// The state of the recurrence besides the sum.
#[derive(Debug, Default)]
struct Deviations {
    /// N
    counts: Vec<f64>,
    /// Sxx
    squares: Vec<f64>,
}

impl FloatAverage {
    fn exact(&mut self, counts: &dyn Fn(usize) -> i64) -> &mut Deviations {
        let group_count = self.sums.len();
        self.deviations.get_or_insert_with(|| Deviations {
            counts: (0..group_count).map(|group| counts(group) as f64).collect(),
            squares: vec![0.0; group_count],
        })
    }

    /// One step of the recurrence.
    fn step(&mut self, group: usize, value: f64) -> Result<(), VectorError> {
        let Some(deviations) = &mut self.deviations else {
            return Ok(());
        };
        let before = deviations.counts[group];
        let sum_before = self.sums[group];
        let count = before + 1.0;
        let sum = sum_before + value;
        let mut squares = deviations.squares[group];
        if before > 0.0 {
            let deviation = value * count - sum;
            squares += deviation * deviation / (count * before);
            if sum.is_infinite() || squares.is_infinite() {
                if !sum_before.is_infinite() && !value.is_infinite() {
                    return Err(OVERFLOW);
                }
                squares = f64::NAN;
            }
        } else if !value.is_finite() {
            squares = f64::NAN;
        }
        deviations.counts[group] = count;
        deviations.squares[group] = squares;
        self.sums[group] = sum;
        Ok(())
    }

    /// Adds values without regard to deviations; those of such values are too small to make Sxx
    /// overflow.
    fn add<T: Copy + Into<f64>>(&mut self, groups: GroupIds<'_>, rows: Rows<'_>, values: &[T]) {
        let add = |sum: f64, value: T| sum + value.into();
        let sums = &mut self.sums;
        sum_each(sums, groups, rows, values, -0.0, add, |a, b| a + b);
    }
}

impl Accumulator for FloatAverage {
    fn resize(&mut self, group_count: usize) {
        self.sums.resize(group_count, 0.0);
        if let Some(deviations) = &mut self.deviations {
            deviations.counts.resize(group_count, 0.0);
            deviations.squares.resize(group_count, 0.0);
        }
    }

    fn update(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &Column,
        counts: &dyn Fn(usize) -> i64,
    ) -> Result<(), VectorError> {
        match values {
            // Squares of 32-bit floats do not overflow 64 bits.
            Column::Float32(values) => self.add(groups, rows, values.values()),
            Column::Float64(values) => {
                let values: &[f64] = values.values();
                if self.deviations.is_none() && !any_harmful(rows, values) {
                    self.add(groups, rows, values);
                    return Ok(());
                }
                self.exact(counts);
                each_row(groups, rows, |group, row| self.step(group, values[row]))?;
            }
            _ => return wrong_type(),
        }
        Ok(())
    }

    fn merge(&mut self, other: &dyn Accumulator, pairs: &[Pair]) -> Result<(), VectorError> {
        let other: &Self = same(other)?;
        if other.deviations.is_some() && self.deviations.is_none() {
            // Groups that are not merged into now have their values counted when they are.
            let group_count = self.sums.len();
            self.deviations = Some(Deviations {
                counts: vec![0.0; group_count],
                squares: vec![0.0; group_count],
            });
        }
        for pair in pairs {
            let (to, from) = (pair.to as usize, pair.from as usize);
            let (sum, other_sum) = (self.sums[to], other.sums[from]);
            let (count, other_count) = (pair.here as f64, pair.there as f64);
            let squares_of = |all: &Option<Deviations>, at: usize| {
                all.as_ref().map_or(0.0, |all| all.squares[at])
            };
            let (mine, others) = (
                squares_of(&self.deviations, to),
                squares_of(&other.deviations, from),
            );
            let (sum, squares) = if pair.here == 0 {
                (other_sum, others)
            } else if pair.there == 0 {
                (sum, mine)
            } else {
                let total = checked_add(sum, other_sum)?;
                let between = sum / count - other_sum / other_count;
                let squares =
                    mine + others + count * other_count * between * between / (count + other_count);
                if squares.is_infinite() && !mine.is_infinite() && !others.is_infinite() {
                    // An infinite sum has no deviations; PostgreSQL's own states hold NaN then.
                    if sum.is_finite() && other_sum.is_finite() {
                        return Err(OVERFLOW);
                    }
                    (total, f64::NAN)
                } else {
                    (total, squares)
                }
            };
            self.sums[to] = sum;
            if let Some(deviations) = &mut self.deviations {
                deviations.counts[to] = count + other_count;
                deviations.squares[to] = squares;
            }
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
        let averages = groups
            .iter()
            .zip(counts)
            .map(|(&group, &count)| (count > 0).then(|| self.sums[group as usize] / count as f64));
        Ok(ResultColumn::Values(Column::Float64(
            averages.collect::<Float64Array>(),
        )))
    }

    fn memory_bytes(&self) -> usize {
        let deviations = self.deviations.as_ref().map_or(0, |deviations| {
            deviations.counts.capacity() + deviations.squares.capacity()
        });
        (self.sums.capacity() + deviations) * size_of::<f64>()
    }
}
