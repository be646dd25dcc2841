//! A compiled query: what statistics of a row group tell of it, and what must be read.

use std::ops::Range;
use std::sync::Arc;

use howdah_columnar::{ColumnStatistics, ColumnType, ZONE_ROWS};

use super::aggregate::{AggregatePlan, Aggregation};
use super::by_zone;
use super::filter::{Decision, Filter};
use super::first::{Cut, First, FirstPlan};
use super::sink::Sink;
use crate::error::{Declined, VectorError};
use crate::foreign::Exchange;
use crate::plan::{Output, Query};
use crate::runtime::ResultPart;
use crate::stop::Stop;

/// A compiled query.
pub struct Compiled {
    pub(super) types: Vec<ColumnType>,
    pub(super) filter: Filter,
    pub(super) output: OutputPlan,
    pub(super) needed: Vec<usize>,
    pub(super) is_timed: bool,
    /// Rows or groups that are worked on at a time, at most.
    pub(super) most_at_a_time: usize,
    /// Columns that are only returned are not delivered, but read of the first rows at the end.
    reads_late: bool,
    /// By which unknown expressions are evaluated, if there are any.
    exchange: Option<Arc<Exchange>>,
}

pub(super) enum OutputPlan {
    Aggregate(AggregatePlan),
    First(FirstPlan),
}

/// More groups of all threads together are merged by several threads.
const MOST_MERGED_ALONE: usize = 50_000;

/// What makes rare paths common, for tests. The default changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Strain {
    /// The most rows that are worked on between two stop checks, and the most groups of all threads
    /// that are merged by one of them; at least 1.
    pub most_at_a_time: usize,
    /// How many bits of the hashes of keys are used, so that few lets keys collide. Then
    /// integers that lie close together are hashed as well.
    pub hash_bits: u32,
}

impl Default for Strain {
    fn default() -> Self {
        Self {
            most_at_a_time: usize::MAX,
            hash_bits: u64::BITS,
        }
    }
}

/// What to do with a row group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// No row passes the filter.
    Skip,
    /// Its statistics are sufficient: pass them to
    /// [`Feeder::add_statistics`](crate::runtime::Feeder::add_statistics).
    Statistics,
    /// Read it.
    Read {
        /// The zones in which rows may pass.
        rows: Vec<Range<usize>>,
        /// All rows of these zones pass.
        filter_decided: bool,
    },
}

impl Compiled {
    /// Compiles a query.
    ///
    /// # Errors
    ///
    /// What cannot be computed exactly is declined.
    pub fn compile(query: &Query) -> Result<Self, Declined> {
        let types = &query.columns;
        let mut filter = Filter::compile(&query.filter, types)?;
        let output = match &query.output {
            Output::Aggregate { keys, aggregates } => {
                OutputPlan::Aggregate(AggregatePlan::compile(keys, aggregates, types)?)
            }
            Output::FirstGroups {
                keys,
                aggregates,
                order,
                limit,
            } => {
                let mut plan = AggregatePlan::compile(keys, aggregates, types)?;
                plan.set_first(order, *limit)?;
                OutputPlan::Aggregate(plan)
            }
            Output::First {
                columns,
                order,
                limit,
            } => OutputPlan::First(FirstPlan::compile(columns, order, *limit, types)?),
        };
        let mut needed: Vec<usize> = match &output {
            OutputPlan::Aggregate(plan) => plan.columns(),
            // The others are read of few rows.
            OutputPlan::First(plan) => plan.leading_columns().collect(),
        };
        filter.set_read(&needed, types);
        if let OutputPlan::First(plan) = &output {
            needed.extend(plan.columns());
        }
        needed.extend(filter.columns());
        needed.sort_unstable();
        needed.dedup();
        Ok(Self {
            types: types.clone(),
            filter,
            output,
            needed,
            is_timed: false,
            most_at_a_time: usize::MAX,
            reads_late: false,
            exchange: query.exchange(),
        })
    }

    /// Sets the range of all integers of a column, in the whole source. It only makes the run
    /// faster: values outside of it are handled correctly.
    pub fn set_bounds(&mut self, column: usize, min: i64, max: i64) {
        if let OutputPlan::Aggregate(plan) = &mut self.output
            && min <= max
        {
            plan.set_bounds(column, min, max);
        }
    }

    /// Enables the measurement of each operator's time.
    pub fn measure_times(&mut self) {
        self.is_timed = true;
    }

    /// Leaves columns that are only returned out of what must be delivered of row groups, if so few
    /// of so many rows are returned that their values are better read one by one, at the end:
    /// [`run_late`] asks for them then.
    ///
    /// [`run_late`]: crate::runtime::run_late
    pub fn read_late(&mut self, row_count: u64) {
        if let OutputPlan::First(plan) = &self.output {
            let known: Vec<usize> = plan.order_columns().chain(self.filter.columns()).collect();
            let is_late = |column: usize| !known.contains(&column);
            self.reads_late =
                plan.returns_few_of(row_count) && plan.returned_columns().any(is_late);
        }
    }

    pub(crate) fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_deref()
    }

    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Whether so many groups of all threads are merged by several threads.
    pub(crate) fn is_merged_by_threads(&self, group_count: usize) -> bool {
        let has_keys = match &self.output {
            OutputPlan::Aggregate(plan) => plan.has_keys(),
            OutputPlan::First(_) => false,
        };
        has_keys && group_count > MOST_MERGED_ALONE.min(self.most_at_a_time)
    }

    /// Makes rare paths common, for tests.
    pub fn set_strain(&mut self, strain: Strain) {
        self.most_at_a_time = strain.most_at_a_time.max(1);
        if let OutputPlan::Aggregate(plan) = &mut self.output {
            plan.hash_bits = strain.hash_bits.min(u64::BITS);
        }
    }

    /// What to do with a row group of these statistics, one for each column of the query; `None` is
    /// unknown. `has_hidden`: some of its rows do not exist for the query.
    pub fn ask(
        &self,
        statistics: &[Option<&ColumnStatistics>],
        row_count: usize,
        has_hidden: bool,
    ) -> Look {
        let decision = self.filter.decide_group(statistics);
        if decision == Decision::Skip || row_count == 0 {
            return Look::Skip;
        }
        if decision == Decision::All {
            if let OutputPlan::Aggregate(plan) = &self.output
                && !has_hidden
                && plan.answered_by(statistics)
            {
                return Look::Statistics;
            }
            return Look::Read {
                rows: std::iter::once(0..row_count).collect(),
                filter_decided: true,
            };
        }
        let mut rows: Vec<Range<usize>> = Vec::new();
        let mut filter_decided = true;
        for zone in 0..row_count.div_ceil(ZONE_ROWS) {
            let decision = self.filter.decide_zone(statistics, zone);
            if decision == Decision::Skip {
                continue;
            }
            filter_decided &= decision == Decision::All;
            let (start, end) = (zone * ZONE_ROWS, ((zone + 1) * ZONE_ROWS).min(row_count));
            match rows.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => rows.push(start..end),
            }
        }
        match rows.is_empty() {
            true => Look::Skip,
            false => Look::Read {
                rows,
                filter_decided,
            },
        }
    }

    /// Of first rows, the column by which they are ordered first, and whether descending. The
    /// sooner a source delivers the best rows, the fewer others are read.
    pub fn leading_order(&self) -> Option<(usize, bool)> {
        match &self.output {
            OutputPlan::First(plan) => plan.leading(),
            OutputPlan::Aggregate(_) => None,
        }
    }

    /// Of the rows of a group or morsel to read, those that a run's best rows so far leave: whole
    /// zones are taken out. `leading` are the statistics of the column of
    /// [`leading_order`](Self::leading_order).
    pub(crate) fn before(
        &self,
        cut: &Cut,
        leading: &ColumnStatistics,
        rows: Vec<Range<usize>>,
    ) -> Vec<Range<usize>> {
        let OutputPlan::First(plan) = &self.output else {
            return rows;
        };
        if self.filter.can_fail() || plan.leading().is_none() {
            return rows;
        }
        let mut left: Vec<Range<usize>> = Vec::with_capacity(rows.len());
        for zone in rows.iter().flat_map(by_zone) {
            if plan.is_beyond(cut, leading, zone.start / ZONE_ROWS) {
                continue;
            }
            match left.last_mut() {
                Some(last) if last.end == zone.start => last.end = zone.end,
                _ => left.push(zone),
            }
        }
        left
    }

    /// The columns whose statistics are of use, ascending.
    pub fn asked(&self) -> Vec<usize> {
        let mut asked: Vec<usize> = match &self.output {
            OutputPlan::First(plan) => {
                let leading = plan.leading().map(|(column, _)| column);
                leading.into_iter().chain(self.filter.columns()).collect()
            }
            OutputPlan::Aggregate(_) => self.needed.clone(),
        };
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    /// The columns that are read at all, ascending.
    pub fn needed(&self) -> &[usize] {
        &self.needed
    }

    /// The columns that must be delivered of a row group of these statistics. All
    /// others may be [`Unread`](crate::source::MorselColumn::Unread): columns that only the filter
    /// reads, if it is decided, and columns that are only counted and have no nulls.
    pub fn needed_for(
        &self,
        statistics: &[Option<&ColumnStatistics>],
        filter_decided: bool,
    ) -> Vec<usize> {
        let has_no_nulls = |column: usize| {
            let known = statistics.get(column).copied().flatten();
            known.is_some_and(|known| known.chunk.null_count == 0)
        };
        let mut needed: Vec<usize> = match filter_decided {
            true => Vec::new(),
            false => self.filter.columns().collect(),
        };
        match &self.output {
            OutputPlan::Aggregate(plan) => needed.extend(plan.columns_besides(&has_no_nulls)),
            OutputPlan::First(plan) if self.reads_late => needed.extend(plan.order_columns()),
            OutputPlan::First(plan) => needed.extend(plan.columns()),
        }
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// Whether the values of a column are read; otherwise they are only counted, and any that are
    /// not NULL will do.
    pub fn reads_values_of(&self, column: usize) -> bool {
        let is_in_filter = || self.filter.columns().any(|read| read == column);
        match &self.output {
            OutputPlan::Aggregate(plan) => {
                plan.columns_besides(&|_| true).contains(&column) || is_in_filter()
            }
            OutputPlan::First(_) => true,
        }
    }

    /// The rows of all threads as they are returned.
    pub(crate) fn ordered(
        &self,
        parts: Vec<ResultPart>,
        stop: &Stop<'_>,
    ) -> Result<Vec<ResultPart>, VectorError> {
        match &self.output {
            OutputPlan::Aggregate(plan) => plan.ordered(parts, stop),
            OutputPlan::First(_) => Ok(parts),
        }
    }

    /// `lookup_bytes`: the most memory for groups that are looked up without hashing.
    pub(crate) fn sink(&self, lookup_bytes: usize) -> Sink {
        match &self.output {
            OutputPlan::Aggregate(plan) => {
                Sink::Aggregate(Box::new(Aggregation::new(plan, lookup_bytes)))
            }
            OutputPlan::First(_) => Sink::First(First::new()),
        }
    }
}
