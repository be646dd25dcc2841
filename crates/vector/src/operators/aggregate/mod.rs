//! Grouping and aggregating: batches in, states of groups, one row for each group out.
//!
//! ```text
//!   keys ─▶ Groups: a number for each row
//!   inputs (argument, FILTER) ─▶ rows that have a value ─▶ missing counts, accumulators
//! ```
//!
//! Aggregates of the same argument and filter share an input, and its sums: `sum(x), avg(x)` is
//! one.

mod extremes;
mod merge;
mod plan;
mod result;
mod runs;

use arrow_buffer::BooleanBuffer;
use howdah_columnar::{Column, ColumnStatistics};

use super::groups::Groups;
use super::scan::{Masked, Zone};
use super::words;
use crate::aggregates::counts::{Counts, Missing};
use crate::aggregates::kernel::{GroupIds, Rows};
use crate::aggregates::{self, Accumulator};
use crate::domain::{Domain, Found};
use crate::error::VectorError;
use crate::expr::{self, Input};
pub(crate) use plan::AggregatePlan;
use runs::runs_of;

/// The groups and states of one thread, or of all at the end.
pub(crate) struct Aggregation {
    groups: Groups,
    domain: Domain,
    counts: Counts,
    missing: Vec<Missing>,
    accumulators: Vec<Box<dyn Accumulator>>,
    group_count: usize,
    /// Room for the groups of a batch's rows.
    ids: Vec<u32>,
}

impl Aggregation {
    /// `lookup_bytes`: the most memory for groups that are looked up without hashing.
    pub(crate) fn new(plan: &AggregatePlan, lookup_bytes: usize) -> Self {
        let mut new = Self {
            groups: Groups::new(&plan.layout, plan.hash_bits, lookup_bytes),
            domain: plan.domain(lookup_bytes / size_of::<u32>()),
            counts: Counts::default(),
            missing: plan.inputs.iter().map(|_| Missing::default()).collect(),
            accumulators: plan
                .states
                .iter()
                .filter_map(|&(_, state, ty)| aggregates::accumulator(state, ty))
                .collect(),
            group_count: 0,
            ids: Vec::new(),
        };
        if plan.keys.is_empty() {
            new.resize(1);
        }
        new
    }

    fn resize(&mut self, group_count: usize) {
        if group_count == self.group_count {
            return;
        }
        self.group_count = group_count;
        self.counts.resize(group_count);
        for accumulator in &mut self.accumulators {
            accumulator.resize(group_count);
        }
    }

    /// Called at the beginning of another morsel.
    pub(crate) fn begin_morsel(&mut self) {
        self.domain.begin_morsel();
    }

    /// Adds the selected rows of a zone.
    pub(crate) fn add(&mut self, plan: &AggregatePlan, zone: &Zone<'_>) -> Result<(), VectorError> {
        let row_count = zone.row_count();
        if row_count == 0 {
            return Ok(());
        }
        if !plan.keys.is_empty() && plan.only_counts(zone) && self.count(zone)? {
            return Ok(());
        }
        let mut ids = std::mem::take(&mut self.ids);
        let mut ends = Vec::new();
        let groups = match plan.keys.as_slice() {
            [] => GroupIds::One(0),
            keys => match self.domain.ids_of(zone, &mut self.groups, &mut ids)? {
                Found::One(group) => GroupIds::One(group),
                Found::Each => GroupIds::Each(&ids),
                Found::Not => {
                    let keys = keys
                        .iter()
                        .map(|key| words::evaluate(zone, key))
                        .collect::<Result<Vec<_>, _>>()?;
                    match runs_of(&keys, &mut ends) {
                        Some(keys) => {
                            self.groups.ids_of(&[keys], ends.len(), &mut ids)?;
                            GroupIds::Runs {
                                ids: &ids,
                                ends: &ends,
                            }
                        }
                        None => {
                            self.groups.ids_of(&keys, row_count, &mut ids)?;
                            GroupIds::Each(&ids)
                        }
                    }
                }
            },
        };
        if !plan.keys.is_empty() {
            self.resize(self.groups.len());
        }
        for (at, input) in plan.inputs.iter().enumerate() {
            match &input.filter {
                None => self.add_input(plan, at, zone, groups)?,
                Some(filter) => {
                    let passed = filter.select(zone)?;
                    self.add_filtered(plan, at, zone, groups, &passed)?;
                }
            }
        }
        let counts = &mut self.counts;
        let add = |group: u32, rows: u32| counts.add_to(group as usize, rows.into());
        if !matches!(groups, GroupIds::Each(_))
            || !self.domain.counted(zone, &mut self.groups, add)?
        {
            self.counts.add(groups, row_count);
        }
        self.ids = ids;
        Ok(())
    }

    /// Counts all rows of a zone, without a look at each; `false` if that cannot be done.
    fn count(&mut self, zone: &Zone<'_>) -> Result<bool, VectorError> {
        let mut counted: Vec<(u32, u32)> = Vec::new();
        let add = |group, row_count| counted.push((group, row_count));
        if !self.domain.count(zone, &mut self.groups, add)? {
            return Ok(false);
        }
        self.resize(self.groups.len());
        for (group, row_count) in counted {
            self.counts.add_to(group as usize, row_count.into());
        }
        Ok(true)
    }

    /// Adds the values of an input without a filter.
    fn add_input(
        &mut self,
        plan: &AggregatePlan,
        at: usize,
        zone: &Zone<'_>,
        groups: GroupIds<'_>,
    ) -> Result<(), VectorError> {
        let Some(argument) = &plan.inputs[at].argument else {
            return Ok(());
        };
        let row_count = zone.row_count();
        let is_kept = plan.is_kept(at);
        let (values, nulls) = match argument.as_column() {
            Some(column) if !is_kept => (None, zone.validity(column)?),
            Some(column) if self.is_settled(plan, at, column, zone) => return Ok(()),
            Some(column) if self.add_words(plan, at, column, zone, groups)? => return Ok(()),
            Some(column) if self.add_rising(plan, at, column, zone, groups)? => return Ok(()),
            _ => {
                let values = words::evaluate(zone, argument)?;
                let nulls = values.nulls().cloned();
                (Some(values), nulls)
            }
        };
        let valid: Option<Vec<u32>> = nulls
            .filter(|nulls| nulls.null_count() > 0)
            .map(|nulls| nulls.valid_indices().map(|row| row as u32).collect());
        let rows = match &valid {
            None => Rows::All(row_count),
            Some(valid) => Rows::Some(valid),
        };
        if let Some(values) = &values {
            self.update(plan, at, groups, rows, values)?;
        }
        if let Some(valid) = &valid {
            self.missing[at].add(self.group_count, groups, row_count, valid);
        }
        Ok(())
    }

    /// Adds the values of an input whose filter left some rows: the argument is evaluated for those
    /// only.
    fn add_filtered(
        &mut self,
        plan: &AggregatePlan,
        at: usize,
        zone: &Zone<'_>,
        groups: GroupIds<'_>,
        passed: &BooleanBuffer,
    ) -> Result<(), VectorError> {
        let mut of_rows = Vec::new();
        let groups = groups.without_runs(&mut of_rows);
        let mut valid: Vec<u32> = passed.set_indices().map(|row| row as u32).collect();
        if let Some(argument) = &plan.inputs[at].argument
            && !valid.is_empty()
        {
            let values = argument.evaluate(&Masked {
                input: zone,
                rows: passed,
            })?;
            let passed_ids: Vec<u32>;
            let passed_groups = match groups {
                GroupIds::One(_) | GroupIds::Runs { .. } => groups,
                GroupIds::Each(ids) => {
                    passed_ids = valid.iter().map(|&row| ids[row as usize]).collect();
                    GroupIds::Each(&passed_ids)
                }
            };
            match values.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => {
                    let rows = Rows::All(valid.len());
                    self.update(plan, at, passed_groups, rows, &values)?;
                }
                Some(nulls) => {
                    let rows: Vec<u32> = nulls.valid_indices().map(|row| row as u32).collect();
                    self.update(plan, at, passed_groups, Rows::Some(&rows), &values)?;
                    valid = rows.iter().map(|&row| valid[row as usize]).collect();
                }
            }
        }
        self.missing[at].add(self.group_count, groups, zone.row_count(), &valid);
        Ok(())
    }

    fn update(
        &mut self,
        plan: &AggregatePlan,
        input: usize,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &Column,
    ) -> Result<(), VectorError> {
        let (counts, missing) = (&self.counts, &self.missing[input]);
        let count = |group: usize| counts.rows(group) - missing.of(group);
        for (accumulator, &(of, ..)) in self.accumulators.iter_mut().zip(&plan.states) {
            if of == input {
                accumulator.update(groups, rows, values, &count)?;
            }
        }
        Ok(())
    }

    /// Adds all rows of a row group from its statistics.
    pub(crate) fn add_statistics(
        &mut self,
        plan: &AggregatePlan,
        statistics: &[Option<&ColumnStatistics>],
        row_count: usize,
    ) -> Result<(), VectorError> {
        if !plan.answered_by(statistics) {
            return Err(VectorError::Unsupported {
                what: "statistics that do not answer",
            });
        }
        let known = |input: usize| {
            let argument = plan.inputs[input].argument.as_ref();
            let column = argument.and_then(expr::Compiled::as_column)?;
            statistics[column]
        };
        for (accumulator, &(input, ..)) in self.accumulators.iter_mut().zip(&plan.states) {
            if let Some(known) = known(input) {
                accumulator.add_statistics(0, &known.chunk)?;
            }
        }
        for input in 0..plan.inputs.len() {
            if let Some(known) = known(input) {
                self.missing[input].add_to(1, 0, known.chunk.null_count as i64);
            }
        }
        self.counts.add_to(0, row_count as i64);
        Ok(())
    }

    /// Groups so far.
    pub(crate) fn group_count(&self) -> usize {
        self.group_count
    }

    /// Whether looking up the groups of rows takes long.
    pub(crate) fn hashes_many(&self) -> bool {
        self.groups.hashes_many()
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        let accumulators = self.accumulators.iter().map(|one| one.memory_bytes());
        let missing = self.missing.iter().map(Missing::memory_bytes);
        self.groups.memory_bytes()
            + self.domain.memory_bytes()
            + self.counts.memory_bytes()
            + missing.sum::<usize>()
            + accumulators.sum::<usize>()
    }
}
