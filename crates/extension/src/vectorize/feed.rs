//! The table's rows as morsels.
//!
//! ```text
//!   survey   each group that the snapshot sees: statistics of the query's columns ─▶ skip · answered by them · read
//!   feed     groups: chunks as they are stored, copied from pinned pages
//!            rows of this backend's own loads, and hot rows: columns of up to 8,192 rows
//! ```
//!
//! Between groups no pin and no lock is held. A group's statistics and chunks are read from the same immutable value.

use std::sync::Arc;
use std::time::Duration;

use arrow_buffer::BooleanBuffer;
use howdah_bridge::relation::missing_value;
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Table;
use howdah_bridge::upper::{HotRows, Run};
use howdah_columnar::{Column, ColumnStatistics, OwnedValue, RowGroupBuilder};
use howdah_vector::operators::{Compiled, Look};
use howdah_vector::runtime::Feeder;
use howdah_vector::source::{Morsel, MorselColumn};

use super::run::Counts;
use crate::am::moved;
use crate::errors::ColdError;
use crate::store::column_reader::ColumnReader;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, ColdView};
use crate::types::{TableLayout, owned_value, push_datum};

/// Rows of a morsel that is made of rows.
const BATCH_ROWS: usize = 8_192;
/// How long the main thread waits for room before it asks for interrupts.
const WAIT: Duration = Duration::from_millis(2);

/// What feeds a run.
pub struct Source<'a> {
    pub run: &'a Run<'a>,
    pub layout: &'a TableLayout,
    /// The attribute that each column of the query is.
    pub attributes: &'a [usize],
    pub view: ColdView<'a>,
    /// `None` if no group that the snapshot sees is stored.
    pub store: Option<ColdStore<'a>>,
}

/// A stored group after the survey: what little must be remembered of each before the first is read.
pub struct Surveyed {
    reader: ColumnReader,
    look: Look,
    /// Which of the query's columns are read.
    needed: Vec<usize>,
    /// Of the query's columns, where they answer for the group.
    statistics: Vec<Option<ColumnStatistics>>,
    hidden: Option<RowSet>,
}

impl Surveyed {
    pub fn row_count(&self) -> usize {
        self.reader.entry.row_count as usize
    }
}

/// The least and greatest integers of each column of the query, in all groups.
#[derive(Default)]
pub struct Bounds {
    /// `None` where no group has told yet, or some group cannot tell.
    columns: Vec<Option<(i64, i64)>>,
    unknown: Vec<bool>,
}

impl Bounds {
    fn of_columns(count: usize) -> Bounds {
        Bounds {
            columns: vec![None; count],
            unknown: vec![false; count],
        }
    }

    fn add(&mut self, column: usize, statistics: Option<&ColumnStatistics>) {
        let integer = |value: &Option<OwnedValue>| match value {
            Some(OwnedValue::Int16(v)) => Some(i64::from(*v)),
            Some(OwnedValue::Int32(v)) => Some(i64::from(*v)),
            Some(OwnedValue::Int64(v)) => Some(*v),
            _ => None,
        };
        let Some(chunk) = statistics.map(|statistics| &statistics.chunk) else {
            self.unknown[column] = true;
            return;
        };
        match (integer(&chunk.min), integer(&chunk.max)) {
            _ if chunk.null_count == chunk.row_count => {}
            (Some(min), Some(max)) => {
                let (least, most) = self.columns[column].unwrap_or((min, max));
                self.columns[column] = Some((least.min(min), most.max(max)));
            }
            _ => self.unknown[column] = true,
        }
    }

    /// Tells the query.
    pub fn set(&self, compiled: &mut Compiled) {
        for (column, bounds) in self.columns.iter().enumerate() {
            if let Some((min, max)) = bounds
                && !self.unknown[column]
            {
                compiled.set_bounds(column, *min, *max);
            }
        }
    }
}

impl Source<'_> {
    /// Asks the statistics of every stored group that the snapshot sees a row of. `None` if some column is stored as another
    /// type than the table's: its type was changed without a rewrite.
    pub fn survey(
        &self,
        compiled: &Compiled,
    ) -> Result<Option<(Vec<Surveyed>, Bounds)>, ColdError> {
        let mut surveyed = Vec::new();
        let mut bounds = Bounds::of_columns(self.attributes.len());
        let Some(store) = &self.store else {
            return Ok(Some((surveyed, bounds)));
        };
        for group in &self.view.groups {
            let ColdGroup::Stored(entry) = group else {
                continue;
            };
            pgrx::check_for_interrupts!();
            if self.view.has_vanished(store, group) {
                continue;
            }
            let hidden = self.view.hidden(store, group)?;
            if hidden
                .as_ref()
                .is_some_and(|rows| rows.len() >= entry.row_count)
            {
                continue;
            }
            let reader = ColumnReader::open(store, *entry)?;
            let mut statistics = Vec::new();
            statistics.resize_with(self.attributes.len(), || None);
            for &place in compiled.needed() {
                let attribute = self.attributes[place];
                match reader.column_type(attribute) {
                    None => {}
                    Some(ty) if ty == self.layout.attributes[attribute].column_type => {
                        statistics[place] = Some(reader.statistics(store, attribute)?);
                    }
                    Some(_) => return Ok(None),
                }
            }
            let known: Vec<_> = statistics.iter().map(Option::as_ref).collect();
            for &place in compiled.needed() {
                bounds.add(place, known[place]);
            }
            let hidden = hidden.filter(|rows| !rows.is_empty());
            let look = compiled.ask(&known, entry.row_count as usize, hidden.is_some());
            let needed = match &look {
                Look::Read { filter_decided, .. } => compiled.needed_for(&known, *filter_decided),
                _ => Vec::new(),
            };
            if look != Look::Statistics {
                statistics.clear();
            }
            surveyed.push(Surveyed {
                reader,
                look,
                needed,
                statistics,
                hidden,
            });
        }
        Ok(Some((surveyed, bounds)))
    }

    /// Feeds everything.
    pub fn feed(
        &self,
        groups: Vec<Surveyed>,
        counts: &mut Counts,
        feeder: &Feeder<'_>,
    ) -> Result<(), ColdError> {
        let mut ordinal = 0;
        if let Some(store) = &self.store {
            for group in groups {
                if feeder.failed() {
                    return Ok(());
                }
                self.feed_group(store, group, &mut ordinal, counts, feeder)?;
            }
        }
        self.feed_pending(&mut ordinal, feeder)?;
        self.feed_hot(&mut ordinal, counts, feeder)
    }

    fn feed_group(
        &self,
        store: &ColdStore,
        group: Surveyed,
        ordinal: &mut u64,
        counts: &mut Counts,
        feeder: &Feeder<'_>,
    ) -> Result<(), ColdError> {
        let row_count = group.row_count();
        counts.groups += 1;
        let (rows, filter_decided) = match group.look {
            Look::Skip => {
                counts.groups_skipped += 1;
                return Ok(());
            }
            Look::Statistics => {
                counts.groups_answered += 1;
                counts.rows_answered += row_count as u64;
                let known: Vec<_> = group.statistics.iter().map(Option::as_ref).collect();
                counts.failed(feeder.add_statistics(&known, row_count));
                return Ok(());
            }
            Look::Read {
                rows,
                filter_decided,
            } => (rows, filter_decided),
        };
        counts.note_zones(row_count, &rows);
        let mut columns = Vec::with_capacity(self.attributes.len());
        for (place, &attribute) in self.attributes.iter().enumerate() {
            pgrx::check_for_interrupts!();
            columns.push(match group.reader.column_type(attribute) {
                _ if !group.needed.contains(&place) => MorselColumn::Unread,
                None => self.missing(attribute),
                Some(_) => {
                    let (meta, bytes) = group.reader.chunk(store, attribute)?;
                    MorselColumn::Encoded {
                        meta: Arc::new(meta),
                        bytes,
                    }
                }
            });
        }
        let hidden = group
            .hidden
            .map(|rows| BooleanBuffer::collect_bool(row_count, |row| rows.contains(row as u32)));
        let morsel = Morsel {
            row_count,
            columns,
            hidden,
            rows,
            filter_decided,
            ordinal: next(ordinal),
        };
        push(feeder, morsel);
        Ok(())
    }

    /// The column of a group that was stored before its attribute was added.
    fn missing(&self, attribute: usize) -> MorselColumn {
        let layout = &self.layout.attributes[attribute];
        // SAFETY: the executor holds the table open; the attribute is one of its own.
        let value = unsafe {
            missing_value(self.run.table(), attribute).map(|datum| owned_value(datum, layout))
        };
        MorselColumn::Constant(layout.column_type, value)
    }

    /// The rows of this backend's own loads that are not written yet.
    fn feed_pending(&self, ordinal: &mut u64, feeder: &Feeder<'_>) -> Result<(), ColdError> {
        for group in self.view.groups.iter().filter(|group| group.is_pending()) {
            let ColdGroup::Pending {
                load, row_count, ..
            } = group
            else {
                continue;
            };
            let hidden = match &self.store {
                Some(store) if !group.entry().flags.are_clear() => {
                    self.view.hidden(store, group)?
                }
                _ => None,
            };
            let load = load.borrow();
            let mut at = 0;
            while at < *row_count {
                pgrx::check_for_interrupts!();
                let end = (at + BATCH_ROWS as u32).min(*row_count);
                let rows = at..end;
                let columns = (self.attributes.iter())
                    .map(|&attribute| {
                        let ty = self.layout.attributes[attribute].column_type;
                        let values = rows.clone().map(|row| load.value(attribute, row));
                        Ok(MorselColumn::Decoded(Column::from_values(ty, values)?))
                    })
                    .collect::<Result<Vec<_>, ColdError>>()?;
                let is_hidden = |row: usize| {
                    let row = at + row as u32;
                    hidden.as_ref().is_some_and(|rows| rows.contains(row))
                };
                let hidden = hidden
                    .is_some()
                    .then(|| BooleanBuffer::collect_bool(rows.len(), is_hidden));
                push(feeder, of_rows(columns, rows.len(), hidden, next(ordinal)));
                at = end;
            }
        }
        Ok(())
    }

    fn feed_hot(
        &self,
        ordinal: &mut u64,
        counts: &mut Counts,
        feeder: &Feeder<'_>,
    ) -> Result<(), ColdError> {
        let types: Vec<_> = (self.attributes.iter())
            .map(|&attribute| self.layout.attributes[attribute].column_type)
            .collect();
        let mut rows = RowGroupBuilder::new(&types);
        let read = self.attributes.iter().max().map_or(0, |&last| last + 1);
        let (table, snapshot) = (self.run.table(), self.run.snapshot());
        // SAFETY: the executor holds the table open and locked, and its snapshot valid.
        let mut hot = unsafe { HotRows::begin(table, snapshot, read) };
        loop {
            let found = hot.advance();
            if found {
                // SAFETY: the slot holds a row that is pinned.
                let hides = unsafe {
                    let slot = Slot::from_raw(hot.slot());
                    moved::hides_hot(Table::from_raw(table), slot, Snapshot::from_raw(snapshot))
                };
                if hides {
                    continue;
                }
                for (place, &attribute) in self.attributes.iter().enumerate() {
                    let layout = &self.layout.attributes[attribute];
                    let column = rows.column_mut(place);
                    match hot.value(attribute) {
                        None => column.push_null(),
                        // SAFETY: a value of this attribute.
                        Some(datum) => unsafe { push_datum(column, layout, datum, false) },
                    }
                }
                rows.finish_row();
                counts.hot_rows += 1;
            }
            if rows.row_count() == BATCH_ROWS || !found && rows.row_count() > 0 {
                pgrx::check_for_interrupts!();
                let row_count = rows.row_count();
                let columns = (types.iter().enumerate())
                    .map(|(place, &ty)| {
                        let values = (0..row_count).map(|row| rows.value(place, row));
                        Ok(MorselColumn::Decoded(Column::from_values(ty, values)?))
                    })
                    .collect::<Result<Vec<_>, ColdError>>()?;
                push(feeder, of_rows(columns, row_count, None, next(ordinal)));
                rows.clear();
            }
            if !found || feeder.failed() {
                return Ok(());
            }
        }
    }
}

fn next(ordinal: &mut u64) -> u64 {
    let this = *ordinal;
    *ordinal += 1;
    this
}

fn of_rows(
    columns: Vec<MorselColumn>,
    row_count: usize,
    hidden: Option<BooleanBuffer>,
    ordinal: u64,
) -> Morsel {
    Morsel {
        row_count,
        columns,
        hidden,
        rows: std::iter::once(0..row_count).collect(),
        filter_decided: false,
        ordinal,
    }
}

/// Hands a morsel over, as soon as there is room for it.
fn push(feeder: &Feeder<'_>, morsel: Morsel) {
    let mut morsel = Some(morsel);
    while let Some(one) = morsel.take() {
        if let Err(back) = feeder.try_push(one) {
            feeder.wait(WAIT);
            pgrx::check_for_interrupts!();
            morsel = Some(back);
        }
    }
}
