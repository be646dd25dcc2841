//! A query that is ready to run: the tests of statistics, and the work of a thread on a morsel.
//!
//! ```text
//!   ask(statistics) ─▶ Skip · Statistics · Read
//!   Read ─▶ Morsel ─▶ zones ─filter─▶ sink: Aggregation | First
//! ```
//!
//! A sink belongs to one thread; sinks are merged at the end.

mod aggregate;
mod filter;
mod first;
pub(crate) mod groups;
pub(crate) mod scan;
mod times;
pub(crate) mod words;

use std::ops::Range;
use std::sync::Arc;

use howdah_columnar::{ColumnStatistics, ColumnType, OwnedValue, ZONE_ROWS};

use crate::error::{Declined, VectorError};
use crate::expr::Input;
use crate::foreign::Exchange;
use crate::plan::{Output, Query};
use crate::runtime::ResultPart;
use crate::runtime::stop::Stop;
use crate::source::Morsel;
use aggregate::{AggregatePlan, Aggregation};
use filter::{Decision, Filter};
pub(crate) use first::Cut;
pub use first::LateRows;
use first::{First, FirstPlan};
use scan::{OpenColumn, OpenMorsel};
use times::Clock;
pub use times::OperatorTimes;

/// A compiled query.
pub struct Compiled {
    types: Vec<ColumnType>,
    filter: Filter,
    output: OutputPlan,
    needed: Vec<usize>,
    is_timed: bool,
    /// Groups are merged as many are, however few they are.
    is_merged_by_threads: bool,
    /// Columns that are only returned are not delivered, but read of the first rows at the end.
    reads_late: bool,
    /// By which unknown expressions are evaluated, if there are any.
    exchange: Option<Arc<Exchange>>,
}

enum OutputPlan {
    Aggregate(AggregatePlan),
    First(FirstPlan),
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
            is_merged_by_threads: false,
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

    /// Makes every key collide with every other, for tests.
    #[doc(hidden)]
    pub fn collide(&mut self) {
        if let OutputPlan::Aggregate(plan) = &mut self.output {
            plan.collide = true;
        }
    }

    /// Merges the groups of threads as if they were many, for tests.
    #[doc(hidden)]
    pub fn merge_by_threads(&mut self) {
        self.is_merged_by_threads = match &self.output {
            OutputPlan::Aggregate(plan) => plan.has_keys(),
            OutputPlan::First(_) => false,
        };
    }

    pub(crate) fn is_merged_by_threads(&self) -> bool {
        self.is_merged_by_threads
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

/// A range of rows, cut at the bounds of zones.
fn by_zone(rows: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    cut(rows, ZONE_ROWS)
}

/// The rows of a morsel that are worked on between two checks of the stop flag: those of a zone, or
/// fewer where they are wide.
fn step_rows(morsel: &OpenMorsel) -> usize {
    let width = |column: &OpenColumn| match column {
        OpenColumn::Chunk(_, meta) => meta.byte_range.end - meta.byte_range.start,
        OpenColumn::Whole(_) | OpenColumn::One(_) | OpenColumn::Unread => 0,
    };
    let bytes: u64 = morsel.columns.iter().map(width).sum();
    let row_count = morsel.row_count() as u64;
    let mut rows = ZONE_ROWS;
    while rows > LEAST_STEP_ROWS && bytes * rows as u64 > MOST_STEP_BYTES * row_count {
        rows /= 2;
    }
    rows
}

/// Encoded bytes that are decoded between two checks, at most, if the rows are not fewer than
/// [`LEAST_STEP_ROWS`], the size of a block of packed numbers.
const MOST_STEP_BYTES: u64 = 1 << 20;
const LEAST_STEP_ROWS: usize = 1_024;

/// A range of rows, cut at multiples of a number.
fn cut(rows: &Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let (mut start, last) = (rows.start, rows.end);
    std::iter::from_fn(move || {
        let end = ((start / step + 1) * step).min(last);
        let zone = start..end;
        start = end;
        (!zone.is_empty()).then_some(zone)
    })
}

/// The destination of a thread's rows.
pub(crate) enum Sink {
    Aggregate(Box<Aggregation>),
    First(First),
}

/// Rows that were read, and those that passed the filter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowCounts {
    pub(crate) rows_in: u64,
    pub(crate) rows_passed: u64,
    pub(crate) times: OperatorTimes,
}

impl Sink {
    /// Processes a morsel. `account` is given the memory held after each zone.
    pub(crate) fn process(
        &mut self,
        compiled: &Compiled,
        morsel: Morsel,
        stop: &Stop<'_>,
        counts: &mut RowCounts,
        mut account: impl FnMut(usize) -> Result<(), VectorError>,
    ) -> Result<(), VectorError> {
        let mut clock = Clock::start(compiled.is_timed);
        let morsel = OpenMorsel::open(morsel, &compiled.types, &compiled.needed)?;
        if let Self::Aggregate(sink) = self {
            sink.begin_morsel();
        }
        let zones = match &compiled.output {
            OutputPlan::First(plan) => plan.zones(&morsel),
            OutputPlan::Aggregate(plan) => {
                let mut zones: Vec<Range<usize>> = morsel.zones().collect();
                if morsel.filter_decided || !compiled.filter.can_fail() {
                    plan.order_zones(&mut zones);
                }
                zones
            }
        };
        let step_rows = step_rows(&morsel);
        for rows in zones.iter().flat_map(|rows| cut(rows, step_rows)) {
            stop.check()?;
            if let (Self::First(sink), OutputPlan::First(plan)) = (&*self, &compiled.output)
                && (plan.is_empty()
                    || !compiled.filter.can_fail()
                        && sink.beats(plan, &morsel, rows.start / ZONE_ROWS))
            {
                continue;
            }
            let mut zone = morsel.zone(rows);
            counts.rows_in += zone.row_count() as u64;
            clock.lap(&mut counts.times.scan);
            compiled.filter.apply(&mut zone)?;
            clock.lap(&mut counts.times.filter);
            counts.rows_passed += zone.row_count() as u64;
            match (&mut *self, &compiled.output) {
                (Self::Aggregate(sink), OutputPlan::Aggregate(plan)) => sink.add(plan, &zone)?,
                (Self::First(sink), OutputPlan::First(plan)) => sink.add(plan, &zone)?,
                _ => return Err(MIXED),
            }
            clock.lap(&mut counts.times.output);
            account(self.memory_bytes())?;
        }
        if let (Self::First(sink), OutputPlan::First(plan)) = (self, &compiled.output) {
            sink.end_morsel(plan, &morsel)?;
            clock.lap(&mut counts.times.output);
        }
        Ok(())
    }

    /// Sets the best cut of all threads, for the next morsels.
    pub(crate) fn set_cut(&mut self, cut: Option<Cut>) {
        if let Self::First(sink) = self {
            sink.set_cut(cut);
        }
    }

    /// A cut that is better than the best one of all threads.
    pub(crate) fn better_cut(&self, compiled: &Compiled, known: Option<&Cut>) -> Option<Cut> {
        match (self, &compiled.output) {
            (Self::First(sink), OutputPlan::First(plan)) => sink.cut(plan, known),
            _ => None,
        }
    }

    /// First rows whose values are to be read at the end.
    pub(crate) fn late(&self, compiled: &Compiled) -> Vec<LateRows> {
        match (self, &compiled.output) {
            (Self::First(sink), OutputPlan::First(plan)) => sink.late(plan),
            _ => Vec::new(),
        }
    }

    /// Sets the values of such rows.
    pub(crate) fn supply(
        &mut self,
        late: &LateRows,
        values: Vec<Vec<Option<OwnedValue>>>,
    ) -> Result<(), VectorError> {
        match self {
            Self::First(sink) => sink.supply(late, values),
            Self::Aggregate(_) => Err(MIXED),
        }
    }

    /// Takes a row group's statistics for all of its rows.
    pub(crate) fn add_statistics(
        &mut self,
        compiled: &Compiled,
        statistics: &[Option<&ColumnStatistics>],
        row_count: usize,
    ) -> Result<(), VectorError> {
        match (self, &compiled.output) {
            (Self::Aggregate(sink), OutputPlan::Aggregate(plan)) => {
                sink.add_statistics(plan, statistics, row_count)
            }
            _ => Err(VectorError::Unsupported {
                what: "statistics that do not answer",
            }),
        }
    }

    /// Adds the state of another thread.
    pub(crate) fn merge(
        &mut self,
        compiled: &Compiled,
        other: Self,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        match (self, other, &compiled.output) {
            (Self::Aggregate(sink), Self::Aggregate(other), OutputPlan::Aggregate(plan)) => {
                sink.merge(plan, &other, None, stop)
            }
            (Self::First(sink), Self::First(other), OutputPlan::First(plan)) => {
                sink.merge(plan, other, stop)
            }
            _ => Err(MIXED),
        }
    }

    /// Groups so far, if there are keys.
    pub(crate) fn group_count(&self) -> usize {
        match self {
            Self::Aggregate(sink) => sink.group_count(),
            Self::First(_) => 0,
        }
    }

    /// Merges the groups that another state has, too, into that state: see
    /// [`finish_part`](Self::finish_part).
    pub(crate) fn cede(
        &mut self,
        compiled: &Compiled,
        to: &mut Self,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        match (self, to, &compiled.output) {
            (Self::Aggregate(sink), Self::Aggregate(to), OutputPlan::Aggregate(plan)) => {
                sink.cede(plan, to, stop)
            }
            _ => Err(MIXED),
        }
    }

    /// The rows of the result from this state, if each group is in one state only.
    pub(crate) fn finish_part(
        &self,
        compiled: &Compiled,
        stop: &Stop<'_>,
    ) -> Result<Vec<ResultPart>, VectorError> {
        match (self, &compiled.output) {
            (Self::Aggregate(sink), OutputPlan::Aggregate(plan)) => sink.finish(plan, stop),
            _ => Err(MIXED),
        }
    }

    /// Merges one of several parts of the states of all threads: groups whose keys hash to it.
    pub(crate) fn merged_part<'a>(
        compiled: &Compiled,
        all: impl Iterator<Item = &'a Self>,
        part: (usize, usize),
        lookup_bytes: usize,
        stop: &Stop<'_>,
        mut account: impl FnMut(usize) -> Result<(), VectorError>,
    ) -> Result<Vec<ResultPart>, VectorError> {
        let OutputPlan::Aggregate(plan) = &compiled.output else {
            return Err(MIXED);
        };
        let mut merged = Aggregation::new(plan, lookup_bytes);
        for sink in all {
            let Self::Aggregate(sink) = sink else {
                return Err(MIXED);
            };
            merged.merge(plan, sink, Some(part), stop)?;
            account(merged.memory_bytes())?;
        }
        merged.finish(plan, stop)
    }

    /// The rows of the result.
    pub(crate) fn finish(
        self,
        compiled: &Compiled,
        stop: &Stop<'_>,
    ) -> Result<Vec<ResultPart>, VectorError> {
        match (self, &compiled.output) {
            (Self::Aggregate(sink), OutputPlan::Aggregate(plan)) => sink.finish(plan, stop),
            (Self::First(sink), OutputPlan::First(plan)) => sink.finish(plan, stop),
            _ => Err(MIXED),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Aggregate(sink) => sink.memory_bytes(),
            Self::First(sink) => sink.memory_bytes(),
        }
    }
}

const MIXED: VectorError = VectorError::Unsupported {
    what: "a sink of another query",
};
