//! `bool_and` and `bool_or`.

use arrow_array::BooleanArray;
use howdah_columnar::{ChunkStats, Column, OwnedValue};

use super::kernel::{GroupIds, Rows, each_row};
use super::{Accumulator, Finish, Pair, same, wrong_type};
use crate::error::VectorError;
use crate::runtime::ResultColumn;

/// Whether all values are true, or any is.
#[derive(Debug)]
pub(super) struct Logic {
    states: Vec<bool>,
    /// Whether all must be true: the initial state is true, and a false value decides. Otherwise
    /// the reverse.
    all: bool,
}

impl Logic {
    pub(super) fn new(all: bool) -> Self {
        Self {
            states: Vec::new(),
            all,
        }
    }
}

impl Accumulator for Logic {
    fn resize(&mut self, group_count: usize) {
        self.states.resize(group_count, self.all);
    }

    fn update(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &Column,
        _counts: &dyn Fn(usize) -> i64,
    ) -> Result<(), VectorError> {
        let Column::Bool(values) = values else {
            return wrong_type();
        };
        each_row(groups, rows, |group, row| {
            if values.value(row) != self.all {
                self.states[group] = !self.all;
            }
            Ok(())
        })
    }

    fn merge(&mut self, other: &dyn Accumulator, pairs: &[Pair]) -> Result<(), VectorError> {
        let other: &Self = same(other)?;
        for pair in pairs {
            if other.states[pair.from as usize] != self.all {
                self.states[pair.to as usize] = !self.all;
            }
        }
        Ok(())
    }

    fn add_statistics(&mut self, group: usize, stats: &ChunkStats) -> Result<(), VectorError> {
        if stats.null_count == stats.row_count {
            return Ok(());
        }
        let deciding = if self.all { &stats.min } else { &stats.max };
        match deciding {
            Some(OwnedValue::Bool(value)) if *value == self.all => Ok(()),
            Some(OwnedValue::Bool(_)) => {
                self.states[group] = !self.all;
                Ok(())
            }
            _ => wrong_type(),
        }
    }

    fn finish(
        &self,
        groups: &[u32],
        counts: &[i64],
        _finish: Finish,
    ) -> Result<ResultColumn, VectorError> {
        let states = groups.iter().zip(counts);
        let states =
            states.map(|(&group, &count)| (count > 0).then_some(self.states[group as usize]));
        Ok(ResultColumn::Values(Column::Bool(
            states.collect::<BooleanArray>(),
        )))
    }

    fn memory_bytes(&self) -> usize {
        self.states.capacity()
    }
}
