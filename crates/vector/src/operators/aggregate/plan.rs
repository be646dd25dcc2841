//! Keys and aggregates of a query, compiled: which states are kept, what is read, and whether
//! statistics answer instead.

use std::fmt::Debug;

use howdah_columnar::{ColumnStatistics, ColumnType};

use crate::aggregates::{self, Finish, State};
use crate::domain::{Domain, KeyColumn};
use crate::error::{Declined, VectorError};
use crate::expr;
use crate::operators::first::groups::FirstGroups;
use crate::operators::groups::KeyLayout;
use crate::operators::scan::Zone;
use crate::plan::{AggregateCall, Expr, GroupOrder};
use crate::runtime::ResultPart;
use crate::stop::Stop;

/// Keys and aggregates, compiled.
pub(crate) struct AggregatePlan {
    pub(super) keys: Vec<expr::Compiled>,
    pub(super) layout: KeyLayout,
    pub(super) inputs: Vec<InputPlan>,
    /// The states that are kept: the input, the kind and the type of each.
    pub(super) states: Vec<(usize, State, ColumnType)>,
    pub(super) outputs: Vec<OutputPlan>,
    /// Which groups are returned, if not all.
    pub(super) first: Option<FirstGroups>,
    /// How many bits of hashes are used.
    pub(crate) hash_bits: u32,
    /// The range of each integer key, if known.
    bounds: Vec<Option<(i64, i64)>>,
}

pub(super) struct InputPlan {
    pub(super) argument: Option<expr::Compiled>,
    pub(super) filter: Option<expr::Compiled>,
}

/// What is returned: the number of values of an input, or a state.
pub(super) enum OutputPlan {
    Count(usize),
    State(usize, Finish),
}

/// Whether two inputs have the same values; constants of `0` and `-0` are equal, and not the same.
fn are_same<T: PartialEq + Debug>(a: &T, b: &T) -> bool {
    a == b && format!("{a:?}") == format!("{b:?}")
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
            let input = place_of(&mut sources, |known| are_same(known, &source), || source);
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
            hash_bits: u64::BITS,
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
    pub(super) fn domain(&self, most_entries: usize) -> Domain {
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
    pub(super) fn can_fail(&self) -> bool {
        let arguments = self.inputs.iter().flat_map(|input| &input.argument);
        let filters = self.inputs.iter().flat_map(|input| &input.filter);
        let mut all = self.keys.iter().chain(arguments).chain(filters);
        all.any(expr::Compiled::can_fail)
    }

    /// Whether an input has more than its values counted.
    pub(super) fn is_kept(&self, at: usize) -> bool {
        self.states.iter().any(|&(input, ..)| input == at)
    }

    /// Whether nothing but rows is counted in a zone.
    pub(super) fn only_counts(&self, zone: &Zone<'_>) -> bool {
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
