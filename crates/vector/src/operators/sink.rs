//! The destination of a thread's rows: morsels go in zone by zone, and states of several threads
//! become one.

use std::ops::Range;

use howdah_columnar::{ColumnStatistics, OwnedValue, ZONE_ROWS};

use super::aggregate::Aggregation;
use super::compiled::{Compiled, OutputPlan};
use super::cut;
use super::first::{Cut, First, LateRows};
use super::scan::{OpenColumn, OpenMorsel};
use super::times::{Clock, OperatorTimes};
use crate::error::VectorError;
use crate::expr::Input;
use crate::runtime::ResultPart;
use crate::source::Morsel;
use crate::stop::Stop;

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

/// The most rows of a step whose groups are looked up in a table that no cache holds.
const HASHED_STEP_ROWS: usize = 2_048;

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
        let mut step_rows = step_rows(&morsel).min(compiled.most_at_a_time);
        if let Self::Aggregate(sink) = self {
            sink.begin_morsel();
            if sink.hashes_many() {
                step_rows = step_rows.min(HASHED_STEP_ROWS);
            }
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
                (Self::First(sink), OutputPlan::First(plan)) => sink.add(plan, &zone, stop)?,
                _ => return Err(MIXED),
            }
            clock.lap(&mut counts.times.output);
            account(self.memory_bytes())?;
        }
        if let (Self::First(sink), OutputPlan::First(plan)) = (self, &compiled.output) {
            sink.end_morsel(plan, &morsel, stop)?;
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
