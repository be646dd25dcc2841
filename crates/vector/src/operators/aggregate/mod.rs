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
mod runs;

use arrow_array::Int64Array;
use arrow_buffer::BooleanBuffer;
use howdah_columnar::{Column, ColumnStatistics, ColumnType};

use super::first::groups::FirstGroups;
use super::groups::{Groups, KeyLayout};
use super::scan::{Masked, Zone};
use super::words;
use crate::aggregates::counts::{Counts, Missing};
use crate::aggregates::kernel::{GroupIds, Rows};
use crate::aggregates::{self, Accumulator, Finish, Pair, State};
use crate::domain::{Domain, Found, KeyColumn};
use crate::error::{Declined, VectorError};
use crate::expr::{self, Input};
use crate::plan::{AggregateCall, Expr, GroupOrder};
use crate::runtime::stop::Stop;
use crate::runtime::{PART_ROWS, ResultColumn, ResultPart};
use runs::runs_of;

/// Groups that are merged between two checks of the stop flag.
const MERGE_STEP: usize = 8_192;

/// Keys and aggregates, compiled.
pub(crate) struct AggregatePlan {
    keys: Vec<expr::Compiled>,
    layout: KeyLayout,
    inputs: Vec<InputPlan>,
    /// The states that are kept: the input, the kind and the type of each.
    states: Vec<(usize, State, ColumnType)>,
    outputs: Vec<OutputPlan>,
    /// Which groups are returned, if not all.
    first: Option<FirstGroups>,
    pub(crate) collide: bool,
    /// The range of each integer key, if known.
    bounds: Vec<Option<(i64, i64)>>,
}

struct InputPlan {
    argument: Option<expr::Compiled>,
    filter: Option<expr::Compiled>,
}

/// What is returned: the number of values of an input, or a state.
enum OutputPlan {
    Count(usize),
    State(usize, Finish),
}

/// The position of an element, which is added if there is none.
fn place_of<T>(all: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    all.iter().position(is_it).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    })
}

impl AggregatePlan {
    pub(crate) fn compile(
        keys: &[Expr],
        calls: &[AggregateCall],
        types: &[ColumnType],
    ) -> Result<Self, Declined> {
        let compile = |expr: &Expr| expr::Compiled::compile(expr, types);
        let keys = keys.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
        let key_types: Vec<ColumnType> = keys.iter().map(expr::Compiled::column_type).collect();
        let mut sources: Vec<(&Option<Expr>, &Option<Expr>)> = Vec::new();
        let mut inputs = Vec::new();
        let mut states: Vec<(usize, State, ColumnType)> = Vec::new();
        let mut outputs = Vec::new();
        for call in calls {
            let entry = aggregates::find(&call.name).ok_or_else(|| Declined::Aggregate {
                name: call.name.clone(),
            })?;
            let wrong = || Declined::Types {
                name: call.name.clone(),
            };
            let argument = call.argument.as_ref().map(compile).transpose()?;
            let filter = call.filter.as_ref().map(compile).transpose()?;
            let ty = argument.as_ref().map(expr::Compiled::column_type);
            let filter_type = filter.as_ref().map(expr::Compiled::column_type);
            if !entry.argument.accepts(ty) || filter_type.is_some_and(|ty| ty != ColumnType::Bool) {
                return Err(wrong());
            }
            let source = (&call.argument, &call.filter);
            let input = place_of(&mut sources, |known| *known == source, || source);
            if input == inputs.len() {
                inputs.push(InputPlan { argument, filter });
            }
            outputs.push(match (entry.state, ty) {
                (State::Count, _) => OutputPlan::Count(input),
                (state, Some(ty)) => {
                    aggregates::accumulator(state, ty).ok_or_else(wrong)?;
                    let kept = (input, state, ty);
                    let at = place_of(&mut states, |known| *known == kept, || kept);
                    OutputPlan::State(at, entry.finish)
                }
                (_, None) => return Err(wrong()),
            });
        }
        Ok(Self {
            layout: KeyLayout::new(&key_types),
            bounds: vec![None; keys.len()],
            keys,
            inputs,
            states,
            outputs,
            first: None,
            collide: false,
        })
    }

    /// Whether rows are grouped at all.
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Restricts the result to the first groups.
    pub(crate) fn set_first(&mut self, order: &[GroupOrder], limit: usize) -> Result<(), Declined> {
        let has_order = |place: usize| match place.checked_sub(self.keys.len()) {
            None => true,
            Some(place) => self
                .outputs
                .get(place)
                .is_some_and(|output| !matches!(output, OutputPlan::State(_, Finish::Quotient))),
        };
        self.first = Some(FirstGroups::compile(order, limit, has_order)?);
        Ok(())
    }

    /// The rows of all threads as they are returned.
    pub(crate) fn ordered(
        &self,
        parts: Vec<ResultPart>,
        stop: &Stop<'_>,
    ) -> Result<Vec<ResultPart>, VectorError> {
        match &self.first {
            None => Ok(parts),
            Some(first) => first.sorted(parts, stop),
        }
    }

    /// Sets the range of a column's integers.
    pub(crate) fn set_bounds(&mut self, column: usize, min: i64, max: i64) {
        for (key, bounds) in self.keys.iter().zip(&mut self.bounds) {
            if key.as_column() == Some(column) {
                *bounds = Some((min, max));
            }
        }
    }

    /// The domains of the keys, of use only if all are columns.
    fn domain(&self, most_entries: usize) -> Domain {
        let keys = self
            .keys
            .iter()
            .zip(&self.bounds)
            .map(|(key, &bounds)| Some((key.as_column()?, key.column_type(), bounds)));
        let keys: Option<Vec<KeyColumn>> = keys.collect();
        Domain::new(&keys.unwrap_or_default(), most_entries)
    }

    /// The columns that are read.
    pub(crate) fn columns(&self) -> Vec<usize> {
        self.columns_besides(&|_| false)
    }

    /// The columns that are read, without those that are only counted and have no nulls.
    pub(crate) fn columns_besides(&self, has_no_nulls: &dyn Fn(usize) -> bool) -> Vec<usize> {
        let mut columns: Vec<usize> = Vec::new();
        let mut read = |compiled: &expr::Compiled| columns.extend(compiled.columns());
        self.keys.iter().for_each(&mut read);
        for (at, input) in self.inputs.iter().enumerate() {
            input.filter.iter().for_each(&mut read);
            let is_counted = input.filter.is_none() && !self.is_kept(at);
            if let Some(argument) = &input.argument
                && !(is_counted && argument.as_column().is_some_and(has_no_nulls))
            {
                read(argument);
            }
        }
        columns
    }

    /// Whether a key, an argument or a filter of an aggregate may raise an error.
    fn can_fail(&self) -> bool {
        let arguments = self.inputs.iter().flat_map(|input| &input.argument);
        let filters = self.inputs.iter().flat_map(|input| &input.filter);
        let mut all = self.keys.iter().chain(arguments).chain(filters);
        all.any(expr::Compiled::can_fail)
    }

    /// Whether an input has more than its values counted.
    fn is_kept(&self, at: usize) -> bool {
        self.states.iter().any(|&(input, ..)| input == at)
    }

    /// Whether nothing but rows is counted in a zone.
    fn only_counts(&self, zone: &Zone<'_>) -> bool {
        self.states.is_empty()
            && self.inputs.iter().all(|input| {
                let has_no_nulls = |argument: &expr::Compiled| {
                    let column = argument.as_column();
                    column.is_some_and(|column| zone.has_no_nulls(column))
                };
                input.filter.is_none() && input.argument.as_ref().is_none_or(has_no_nulls)
            })
    }

    /// Whether statistics answer for all rows of a row group.
    pub(crate) fn answered_by(&self, statistics: &[Option<&ColumnStatistics>]) -> bool {
        let known = |column: Option<usize>| statistics.get(column?).copied().flatten();
        self.keys.is_empty()
            && self.inputs.iter().all(|input| {
                input.filter.is_none()
                    && input
                        .argument
                        .as_ref()
                        .is_none_or(|argument| known(argument.as_column()).is_some())
            })
            && self.states.iter().all(|&(input, state, ty)| {
                let argument = self.inputs[input].argument.as_ref();
                let Some(known) = known(argument.and_then(expr::Compiled::as_column)) else {
                    return false;
                };
                let stats = &known.chunk;
                stats.null_count == stats.row_count
                    || match state {
                        State::Count => true,
                        State::Sum => {
                            !matches!(ty, ColumnType::Float32 | ColumnType::Float64)
                                && stats.sum.is_some()
                        }
                        State::FloatAverage => false,
                        State::Min | State::Max | State::And | State::Or => {
                            stats.min.is_some() && stats.max.is_some()
                        }
                    }
            })
    }
}

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
            groups: Groups::new(&plan.layout, plan.collide, lookup_bytes),
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

    /// Adds the groups of another thread, or those of one of several parts.
    pub(crate) fn merge(
        &mut self,
        plan: &AggregatePlan,
        other: &Self,
        part: Option<(usize, usize)>,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        let mut groups = Vec::with_capacity(MERGE_STEP);
        for start in (0..other.group_count).step_by(MERGE_STEP) {
            stop.check()?;
            let end = (start + MERGE_STEP).min(other.group_count);
            groups.clear();
            groups.extend((start as u32..end as u32).filter(|&group| {
                part.is_none_or(|(part, count)| other.groups.part_of(group, count) == part)
            }));
            self.merge_groups(plan, other, &groups)?;
        }
        Ok(())
    }

    fn merge_groups(
        &mut self,
        plan: &AggregatePlan,
        other: &Self,
        groups: &[u32],
    ) -> Result<(), VectorError> {
        let mut ids = Vec::with_capacity(groups.len());
        match plan.keys.is_empty() {
            true => ids.push(0),
            false => {
                self.groups.absorb(&other.groups, groups, &mut ids);
                self.resize(self.groups.len());
            }
        }
        self.merge_states(plan, other, &ids, groups)
    }

    /// Merges the states that groups have in another table into those of groups here.
    fn merge_states(
        &mut self,
        plan: &AggregatePlan,
        other: &Self,
        ids: &[u32],
        groups: &[u32],
    ) -> Result<(), VectorError> {
        let mut pairs: Vec<Pair> = ids
            .iter()
            .zip(groups)
            .map(|(&to, &from)| Pair {
                to,
                from,
                here: 0,
                there: 0,
            })
            .collect();
        for (accumulator, (kept, &(input, ..))) in other
            .accumulators
            .iter()
            .zip(self.accumulators.iter_mut().zip(&plan.states))
        {
            for pair in &mut pairs {
                let (to, from) = (pair.to as usize, pair.from as usize);
                pair.here = self.counts.rows(to) - self.missing[input].of(to);
                pair.there = other.counts.rows(from) - other.missing[input].of(from);
            }
            kept.merge(accumulator.as_ref(), &pairs)?;
        }
        for pair in &pairs {
            let (to, from) = (pair.to as usize, pair.from as usize);
            self.counts.add_to(to, other.counts.rows(from));
            for (here, there) in self.missing.iter_mut().zip(&other.missing) {
                here.add_to(self.group_count, to, there.of(from));
            }
        }
        Ok(())
    }

    /// Merges the groups that another thread has, too, into that thread's. They have no rows here
    /// afterwards, and are not returned.
    pub(crate) fn cede(
        &mut self,
        plan: &AggregatePlan,
        to: &mut Self,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        let (mut ids, mut groups) = (Vec::new(), Vec::new());
        for start in (0..self.group_count).step_by(MERGE_STEP) {
            stop.check()?;
            let end = (start + MERGE_STEP).min(self.group_count);
            groups.clear();
            groups
                .extend((start as u32..end as u32).filter(|&at| self.counts.rows(at as usize) > 0));
            ids.clear();
            to.groups.find(&self.groups, &groups, &mut ids);
            // Groups may be known there before any of their rows.
            let is_there = |&(&id, _): &(&u32, &u32)| (id as usize) < to.group_count;
            let (ids, groups): (Vec<u32>, Vec<u32>) =
                ids.iter().zip(&groups).filter(is_there).unzip();
            to.groups.merge_scales(&self.groups, &ids, &groups);
            to.merge_states(plan, self, &ids, &groups)?;
            groups
                .iter()
                .for_each(|&group| self.counts.clear(group as usize));
        }
        Ok(())
    }

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
