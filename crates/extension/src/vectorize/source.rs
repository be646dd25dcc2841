//! A table that feeds a run, and morsels of rows that are read already.

use std::time::Duration;

use arrow_buffer::BooleanBuffer;
use howdah_bridge::predicate::lock_relation;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Table;
use howdah_bridge::upper::{OpenTable, Run, Waiting};
use howdah_columnar::ColumnType;
use howdah_vector::runtime::Feeder;
use howdah_vector::source::{Delivery, Morsel, MorselColumn};

use crate::am::is_ours;
use crate::errors::or_raise;
use crate::settings;
use crate::store::view::{ColdGroup, ColdView, store_of};
use crate::types::TableLayout;

/// Rows of a morsel that is made of rows, at most.
const MOST_BATCH_ROWS: usize = 8_192;
/// How long the main thread waits for room before it checks for interrupts.
const WAIT: Duration = Duration::from_millis(2);

/// A table that feeds a run.
pub struct Source<'a> {
    pub table: Table<'a>,
    pub snapshot: Snapshot<'a>,
    pub is_howdah: bool,
    pub layout: TableLayout,
    /// The attribute that each column of the query corresponds to.
    pub attributes: Vec<usize>,
    pub view: ColdView<'a>,
    /// `None` if no group that the snapshot sees is stored.
    pub store: Option<ColdStore<'a>>,
}

impl<'a> Source<'a> {
    /// Reads the table's directory. `columns` are those of the query: attributes of the relation in
    /// the query, and their types. `None` if one of them has another form in the table.
    pub fn open(
        run: &'a Run<'_>,
        open: &'a OpenTable,
        columns: (&[usize], &[ColumnType]),
    ) -> Option<Source<'a>> {
        let (table, snapshot) = (open.table(), run.snapshot());
        let layout = TableLayout::of(table.descriptor());
        let attributes: Option<Vec<usize>> = (columns.0.iter())
            .map(|&attribute| open.attributes.of(attribute))
            .collect();
        let attributes = attributes?;
        let has_form = |(&attribute, &ty): (&usize, &ColumnType)| {
            let known = layout.attributes.get(attribute);
            known.is_some_and(|known| !known.dropped && known.column_type == ty)
        };
        if !attributes.iter().zip(columns.1).all(has_form) {
            return None;
        }
        let is_howdah = is_ours(table);
        // Before anything is read: rows of the cold side are read before the scan of the hot side
        // begins, which locks the relation as well.
        lock_relation(table, snapshot);
        let view = match is_howdah {
            true => ColdView::of(table, snapshot),
            false => ColdView::default(),
        };
        let is_needed = |group: &ColdGroup| !group.is_pending() || !group.entry().flags.are_clear();
        let store = match view.groups.iter().any(is_needed) {
            true => Some(or_raise(table.oid(), store_of(table))),
            false => None,
        };
        Some(Source {
            table,
            snapshot,
            is_howdah,
            layout,
            attributes,
            view,
            store,
        })
    }

    /// The rows of all groups in the view, hidden or not.
    pub fn stored_rows(&self) -> u64 {
        let rows = self.view.groups.iter().map(|group| match group {
            ColdGroup::Stored(entry) => u64::from(entry.row_count),
            ColdGroup::Pending { .. } => 0,
        });
        rows.sum()
    }
}

/// Rows of a morsel that is made of rows.
pub fn batch_rows() -> usize {
    settings::step_rows().map_or(MOST_BATCH_ROWS, |rows| rows.min(MOST_BATCH_ROWS))
}

/// The next ordinal of a morsel.
pub fn next(ordinal: &mut u64) -> u64 {
    let this = *ordinal;
    *ordinal += 1;
    this
}

/// A morsel of rows that are read already.
pub fn of_rows(
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

/// Hands a morsel over as soon as there is room for it.
pub fn push(feeder: &Feeder<'_>, morsel: impl Into<Delivery>) {
    let mut morsel = Some(morsel.into());
    while let Some(one) = morsel.take() {
        if let Err(back) = feeder.try_deliver(one) {
            let waiting = Waiting::begin();
            feeder.wait(WAIT);
            drop(waiting);
            howdah_bridge::check_for_interrupts!();
            morsel = Some(back);
        }
    }
}
