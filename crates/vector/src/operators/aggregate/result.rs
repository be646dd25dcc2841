//! Groups and their states as rows of a result.

use arrow_array::Int64Array;
use howdah_columnar::Column;

use super::plan::OutputPlan;
use super::{AggregatePlan, Aggregation};
use crate::error::VectorError;
use crate::runtime::ResultColumn;

impl Aggregation {
    /// Keys and aggregates of all groups, or of those that are among the first, and how many these
    /// are.
    pub(crate) fn finish(
        &self,
        plan: &AggregatePlan,
    ) -> Result<(usize, Vec<ResultColumn>), VectorError> {
        // Groups may have been entered before any of their rows.
        let mut groups: Vec<u32> = (0..self.group_count as u32)
            .filter(|&group| plan.keys.is_empty() || self.counts.rows(group as usize) > 0)
            .collect();
        if let Some(first) = &plan.first {
            groups = first.choose(groups, |place, groups| {
                match place.checked_sub(plan.keys.len()) {
                    Some(output) => self.output(plan, &plan.outputs[output], groups),
                    None => {
                        let mut keys = self.groups.columns(groups)?;
                        Ok(ResultColumn::Values(keys.swap_remove(place)))
                    }
                }
            })?;
        }
        let mut columns = Vec::new();
        if !plan.keys.is_empty() {
            let keys = self.groups.columns(&groups)?;
            columns.extend(keys.into_iter().map(ResultColumn::Values));
        }
        for output in &plan.outputs {
            columns.push(self.output(plan, output, &groups)?);
        }
        Ok((groups.len(), columns))
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
