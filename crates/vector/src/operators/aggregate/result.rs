//! Groups and their states as rows of a result.

use arrow_array::Int64Array;
use howdah_columnar::Column;

use super::plan::OutputPlan;
use super::{AggregatePlan, Aggregation};
use crate::error::VectorError;
use crate::runtime::{PART_ROWS, ResultColumn, ResultPart};
use crate::stop::Stop;

impl Aggregation {
    /// Keys and aggregates of all groups, or of those that are among the first.
    pub(crate) fn finish(
        &self,
        plan: &AggregatePlan,
        stop: &Stop<'_>,
    ) -> Result<Vec<ResultPart>, VectorError> {
        // Groups may have been entered before any of their rows.
        let mut groups: Vec<u32> = (0..self.group_count as u32)
            .filter(|&group| plan.keys.is_empty() || self.counts.rows(group as usize) > 0)
            .collect();
        if let Some(first) = &plan.first {
            let column = |place: usize, groups: &[u32]| -> Result<ResultColumn, VectorError> {
                match place.checked_sub(plan.keys.len()) {
                    Some(output) => self.output(plan, &plan.outputs[output], groups),
                    None => {
                        let mut keys = self.groups.columns(groups)?;
                        Ok(ResultColumn::Values(keys.swap_remove(place)))
                    }
                }
            };
            groups = first.choose(groups, column, stop)?;
        }
        let part = |groups: &[u32]| -> Result<ResultPart, VectorError> {
            stop.check()?;
            let mut columns = Vec::new();
            if !plan.keys.is_empty() {
                let keys = self.groups.columns(groups)?;
                columns.extend(keys.into_iter().map(ResultColumn::Values));
            }
            for output in &plan.outputs {
                columns.push(self.output(plan, output, groups)?);
            }
            Ok(ResultPart {
                row_count: groups.len(),
                columns,
            })
        };
        groups.chunks(PART_ROWS).map(part).collect()
    }

    /// One aggregate of some groups.
    fn output(
        &self,
        plan: &AggregatePlan,
        output: &OutputPlan,
        groups: &[u32],
    ) -> Result<ResultColumn, VectorError> {
        let counts_of = |input: usize| -> Vec<i64> {
            let count = |&group: &u32| {
                let group = group as usize;
                self.counts.rows(group) - self.missing[input].of(group)
            };
            groups.iter().map(count).collect()
        };
        match *output {
            OutputPlan::Count(input) => Ok(ResultColumn::Values(Column::Int64(Int64Array::from(
                counts_of(input),
            )))),
            OutputPlan::State(at, finish) => {
                let counts = counts_of(plan.states[at].0);
                self.accumulators[at].finish(groups, &counts, finish)
            }
        }
    }
}
