//! The first rows by an order: a bounded heap of the best rows so far.
//!
//! ```text
//!   zone ─is_beaten?─▶ filter ─▶ first part of the order ─candidates─▶ keys ─▶ heap (limit)
//!                                                                              │ end of the morsel
//!                    other columns, only of rows that are still in it ◀────────┘
//! ```
//!
//! Columns that are only returned may be left out of a morsel: then its rows are kept by number,
//! and the caller reads their values when all morsels are done ([`late`]).
//!
//! The last row of a full heap is a [`Cut`]: no row after it is among the first, whichever thread
//! finds it. So the best cut of all threads is used by each of them, and by the caller to leave out
//! whole zones.
//!
//! Which of equal rows are kept is not said, as in PostgreSQL.

mod candidates;
pub(crate) mod groups;
mod late;
mod order;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

use howdah_columnar::{
    Column, ColumnStatistics, ColumnType, OwnedNumeric, OwnedValue, ZONE_ROWS, compare,
};

use super::scan::{OpenColumn, OpenMorsel, Picked, Zone};
use crate::error::{Declined, VectorError};
use crate::expr::{self, Input, take};
use crate::plan::{Expr, OrderBy};
use crate::runtime::{PART_ROWS, ResultColumn, ResultPart};
use crate::stop::{self, Stop};
use candidates::{Threshold, candidates, is_beaten, threshold_of};
pub use late::LateRows;
use order::Direction;

/// What to return and how to order, compiled.
pub(crate) struct FirstPlan {
    columns: Vec<expr::Compiled>,
    order: Vec<(expr::Compiled, Direction)>,
    limit: usize,
}

impl FirstPlan {
    pub(crate) fn compile(
        columns: &[Expr],
        order: &[OrderBy],
        limit: usize,
        types: &[ColumnType],
    ) -> Result<Self, Declined> {
        let compile = |expr: &Expr| expr::Compiled::compile(expr, types);
        let order = order.iter().map(|part| {
            let direction = Direction {
                descending: part.descending,
                nulls_first: part.nulls_first,
            };
            Ok((compile(&part.expr)?, direction))
        });
        Ok(Self {
            columns: columns.iter().map(compile).collect::<Result<_, _>>()?,
            order: order.collect::<Result<_, _>>()?,
            limit,
        })
    }

    /// Whether no row is to be returned.
    pub(crate) fn is_empty(&self) -> bool {
        self.limit == 0
    }

    /// The column by which rows are ordered first, and whether from the greatest down.
    pub(crate) fn leading(&self) -> Option<(usize, bool)> {
        let (expr, direction) = self.order.first()?;
        Some((expr.as_column()?, direction.descending))
    }

    /// The zones of a morsel, from the last one back where that one has the better rows: the sooner
    /// these are kept, the fewer others are read.
    pub(crate) fn zones(&self, morsel: &OpenMorsel) -> Vec<Range<usize>> {
        let mut zones: Vec<Range<usize>> = morsel.zones().collect();
        let (Some((column, descending)), Some(first), Some(last)) =
            (self.leading(), zones.first(), zones.last())
        else {
            return zones;
        };
        if let Some(OpenColumn::Chunk(_, meta)) = morsel.columns.get(column) {
            let best = |rows: &Range<usize>| {
                let zone = meta.zone(rows.start / ZONE_ROWS)?;
                if descending { zone.max } else { zone.min }
            };
            if let (Some(first), Some(last)) = (best(first), best(last)) {
                let order = compare(last.value.as_value(), first.value.as_value());
                let better = if descending {
                    Ordering::Greater
                } else {
                    Ordering::Less
                };
                if order == Some(better) {
                    zones.reverse();
                }
            }
        }
        zones
    }

    /// The columns that are read of every row.
    pub(crate) fn leading_columns(&self) -> impl Iterator<Item = usize> {
        let first = self.order.iter().take(1);
        first.flat_map(|(expr, _)| expr.columns().iter().copied())
    }

    /// The columns that the order reads.
    pub(crate) fn order_columns(&self) -> impl Iterator<Item = usize> {
        let order = self.order.iter().map(|(expr, _)| expr);
        order.flat_map(|compiled| compiled.columns().iter().copied())
    }

    /// The columns that are returned.
    pub(crate) fn returned_columns(&self) -> impl Iterator<Item = usize> {
        let columns = self.columns.iter();
        columns.flat_map(|compiled| compiled.columns().iter().copied())
    }

    /// The columns that are read.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        self.returned_columns().chain(self.order_columns())
    }

    /// Whether so few of so many rows are returned that their values are read one by one.
    pub(crate) fn returns_few_of(&self, row_count: u64) -> bool {
        let are_columns = || self.columns.iter().all(|expr| expr.as_column().is_some());
        self.limit <= MOST_LATE && (self.limit as u64) < row_count / ROWS_OF_A_LATE && are_columns()
    }

    /// Whether no row of a zone of these statistics can be before the cut.
    pub(crate) fn is_beyond(&self, cut: &Cut, leading: &ColumnStatistics, zone: usize) -> bool {
        self.order.first().is_some_and(|(_, direction)| {
            let verdict = |predicate: &_| leading.zone_verdict(zone, predicate);
            is_beaten(verdict, *direction, &cut.first, self.order.len() > 1)
        })
    }
}

/// At most so many rows are read one by one.
const MOST_LATE: usize = 1_000;
/// Reading a value by itself takes as long as decoding so many of them in a chunk.
const ROWS_OF_A_LATE: u64 = 32;

/// Rows that are kept, or merged, between two checks of the stop flag: where many are kept, each
/// costs some microseconds.
const ROW_STEP: usize = 512;

/// The last row of a full heap.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    key: Box<[u8]>,
    first: Threshold,
}

/// A row that is kept.
struct Entry {
    key: Box<[u8]>,
    first: Threshold,
    row: Row,
}

/// The columns to return, or where they are.
enum Row {
    /// A row of the morsel that is being read.
    Pending(u32),
    /// A row of a morsel, by its ordinal, that did not deliver all columns.
    Late(u64, u32),
    Read(Box<[Option<OwnedValue>]>),
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl Entry {
    fn memory_bytes(&self) -> usize {
        let row = match &self.row {
            Row::Pending(_) | Row::Late(..) => 0,
            Row::Read(values) => {
                size_of_val(&**values) + values.iter().map(heap_bytes).sum::<usize>()
            }
        };
        size_of::<Self>() + self.key.len() + heap_bytes(&self.first) + row
    }
}

fn heap_bytes(value: &Option<OwnedValue>) -> usize {
    match value {
        Some(OwnedValue::Text(text)) => text.capacity(),
        Some(OwnedValue::Bytes(bytes) | OwnedValue::Numeric(OwnedNumeric::Image(bytes))) => {
            bytes.capacity()
        }
        _ => 0,
    }
}

/// The first rows of one thread.
pub(crate) struct First {
    /// The last row is on top.
    heap: BinaryHeap<Entry>,
    has_pending: bool,
    held_bytes: usize,
    key: Vec<u8>,
    /// The best cut of other threads.
    cut: Option<Cut>,
}

impl First {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            has_pending: false,
            held_bytes: 0,
            key: Vec::new(),
            cut: None,
        }
    }

    /// The last row, if there may be no more.
    fn last(&self, plan: &FirstPlan) -> Option<&Entry> {
        match self.heap.len() < plan.limit {
            true => None,
            false => self.heap.peek(),
        }
    }

    /// The key, and its first part, before which a row must be.
    fn bound(&self, plan: &FirstPlan) -> Option<(&[u8], &Threshold)> {
        let own = self.last(plan).map(|last| (&*last.key, &last.first));
        let other = self.cut.as_ref().map(|cut| (&*cut.key, &cut.first));
        match (own, other) {
            (Some(own), Some(other)) => Some(if other.0 < own.0 { other } else { own }),
            (own, other) => own.or(other),
        }
    }

    /// The last row, if no row after it is needed, where it is better than `known`.
    pub(crate) fn cut(&self, plan: &FirstPlan, known: Option<&Cut>) -> Option<Cut> {
        let last = self.last(plan)?;
        let is_better = known.is_none_or(|known| last.key < known.key);
        is_better.then(|| Cut {
            key: last.key.clone(),
            first: last.first.clone(),
        })
    }

    /// Sets the best cut of all threads.
    pub(crate) fn set_cut(&mut self, cut: Option<Cut>) {
        self.cut = cut;
    }

    fn push(&mut self, plan: &FirstPlan, entry: Entry) {
        self.held_bytes += entry.memory_bytes();
        if self.heap.len() < plan.limit {
            self.heap.push(entry);
        } else if let Some(mut last) = self.heap.peek_mut() {
            self.held_bytes -= last.memory_bytes();
            *last = entry;
        }
    }

    /// Whether the rows kept so far beat all of a zone, by statistics.
    pub(crate) fn beats(&self, plan: &FirstPlan, morsel: &OpenMorsel, zone: usize) -> bool {
        let Some((_, first)) = self.bound(plan) else {
            return false;
        };
        let Some((expr, direction)) = plan.order.first() else {
            return true;
        };
        match expr.as_column().and_then(|at| morsel.columns.get(at)) {
            Some(OpenColumn::Chunk(_, meta)) => {
                let verdict = |predicate: &_| meta.zone_verdict(zone, predicate);
                is_beaten(verdict, *direction, first, plan.order.len() > 1)
            }
            _ => false,
        }
    }

    /// Looks at the selected rows of a zone.
    pub(crate) fn add(
        &mut self,
        plan: &FirstPlan,
        zone: &Zone<'_>,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        let row_count = zone.row_count();
        if row_count == 0 || plan.limit == 0 {
            return Ok(());
        }
        let Some((first, direction)) = plan.order.first() else {
            return self.add_any(plan, zone);
        };
        let leading = first.evaluate(zone)?;
        let numbers = zone.row_numbers();
        // Until there is a bound, every row is kept; it is there as soon as the heap is full.
        let mut start = 0;
        if self.bound(plan).is_none() {
            start = (plan.limit - self.heap.len()).min(row_count) as u32;
            let rows = (0..start).collect();
            self.add_rows(plan, zone, (&leading, &numbers), rows, stop)?;
        }
        if let Some((_, first)) = self.bound(plan) {
            let mut rows = candidates(&leading, *direction, first);
            rows.retain(|&row| row >= start);
            self.add_rows(plan, zone, (&leading, &numbers), rows, stop)?;
        }
        Ok(())
    }

    /// Adds those of some rows of a zone that are before the bound. Of all of its rows, the values
    /// of the first part of the order, and the numbers, are given.
    fn add_rows(
        &mut self,
        plan: &FirstPlan,
        zone: &Zone<'_>,
        (leading, numbers): (&Column, &[u32]),
        rows: Vec<u32>,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut columns = vec![take(leading, &rows)?];
        let picked = Picked::new(
            zone.morsel(),
            rows.iter().map(|&row| numbers[row as usize]).collect(),
        );
        for (expr, _) in &plan.order[1..] {
            columns.push(expr.evaluate(&picked)?);
        }
        for (at, &row) in picked.rows().iter().enumerate() {
            if at.is_multiple_of(ROW_STEP) {
                stop.check()?;
            }
            self.key.clear();
            for (column, (_, direction)) in columns.iter().zip(&plan.order) {
                order::put(column, at, *direction, &mut self.key)?;
            }
            if (self.bound(plan)).is_some_and(|(bound, _)| bound <= self.key.as_slice()) {
                continue;
            }
            let entry = Entry {
                key: self.key.as_slice().into(),
                first: threshold_of(columns[0].value(at)),
                row: Row::Pending(row),
            };
            self.has_pending = true;
            self.push(plan, entry);
        }
        Ok(())
    }

    /// Without an order any rows will do.
    fn add_any(&mut self, plan: &FirstPlan, zone: &Zone<'_>) -> Result<(), VectorError> {
        for row in zone.row_numbers() {
            if self.heap.len() == plan.limit {
                break;
            }
            self.has_pending = true;
            let entry = Entry {
                key: Box::default(),
                first: None,
                row: Row::Pending(row),
            };
            self.push(plan, entry);
        }
        Ok(())
    }

    /// Reads the columns to return, before the morsel is closed.
    pub(crate) fn end_morsel(
        &mut self,
        plan: &FirstPlan,
        morsel: &OpenMorsel,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        if !std::mem::take(&mut self.has_pending) {
            return Ok(());
        }
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        let is_late = |at| matches!(morsel.columns.get(at), Some(OpenColumn::Unread));
        if plan.returned_columns().any(is_late) {
            for entry in &mut entries {
                if let Some(row) = entry.pending() {
                    entry.row = Row::Late(morsel.ordinal, row);
                }
            }
            self.heap = BinaryHeap::from(entries);
            return Ok(());
        }
        let mut rows: Vec<u32> = entries.iter().filter_map(Entry::pending).collect();
        rows.sort_unstable();
        let picked = Picked::new(morsel, rows);
        let columns = (plan.columns.iter())
            .map(|expr| {
                stop.check()?;
                expr.evaluate(&picked)
            })
            .collect::<Result<Vec<Column>, _>>()?;
        for (at, entry) in entries.iter_mut().enumerate() {
            if at.is_multiple_of(ROW_STEP) {
                stop.check()?;
            }
            if let Some(row) = entry.pending()
                && let Ok(at) = picked.rows().binary_search(&row)
            {
                let values = columns.iter().map(|column| threshold_of(column.value(at)));
                let before = entry.memory_bytes();
                entry.row = Row::Read(values.collect());
                self.held_bytes += entry.memory_bytes() - before;
            }
        }
        self.heap = BinaryHeap::from(entries);
        Ok(())
    }

    /// Adds the rows of another thread.
    pub(crate) fn merge(
        &mut self,
        plan: &FirstPlan,
        other: Self,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        for (at, entry) in other.heap.into_iter().enumerate() {
            if at.is_multiple_of(ROW_STEP) {
                stop.check()?;
            }
            if self.last(plan).is_none_or(|last| entry < *last) {
                self.push(plan, entry);
            }
        }
        Ok(())
    }

    /// The rows in order.
    pub(crate) fn finish(
        self,
        plan: &FirstPlan,
        stop: &Stop<'_>,
    ) -> Result<Vec<ResultPart>, VectorError> {
        let entries = self.heap.into_vec();
        let is_read = |entry: &Entry| matches!(entry.row, Row::Read(_));
        if !entries.iter().all(is_read) {
            return Err(VectorError::Unsupported {
                what: "rows whose values were not delivered",
            });
        }
        let mut rows: Vec<u32> = (0..entries.len() as u32).collect();
        let order = |a: u32, b: u32| entries[a as usize].key.cmp(&entries[b as usize].key);
        stop::sort(&mut rows, order, stop)?;
        let part = |rows: &[u32]| -> Result<ResultPart, VectorError> {
            stop.check()?;
            let columns = plan.columns.iter().enumerate().map(|(at, expr)| {
                let values = rows.iter().map(|&row| match &entries[row as usize].row {
                    Row::Read(values) => values[at].as_ref().map(OwnedValue::as_value),
                    Row::Pending(_) | Row::Late(..) => None,
                });
                let column = Column::from_values(expr.column_type(), values)?;
                Ok(ResultColumn::Values(column))
            });
            Ok(ResultPart {
                row_count: rows.len(),
                columns: columns.collect::<Result<Vec<_>, VectorError>>()?,
            })
        };
        rows.chunks(PART_ROWS).map(part).collect()
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.held_bytes
    }
}

impl Entry {
    fn pending(&self) -> Option<u32> {
        match self.row {
            Row::Pending(row) => Some(row),
            Row::Late(..) | Row::Read(_) => None,
        }
    }
}
