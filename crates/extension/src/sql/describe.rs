//! The functions behind the views `howdah.tables`, `row_groups`, `column_chunks` and `stat_scans`.
//!
//! [`super::visible`] decides which parts of a table a user may see.

use howdah_bridge::relation::{OpenRelation, hot_bytes};
use howdah_bridge::snapshot::{self, Snapshot};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::table_counts::live_rows;
use howdah_bridge::{Oid, datum};
use howdah_columnar::{ColumnType, OwnedValue};
use pgrx::iter::TableIterator;
use pgrx::{name, pg_extern};

use super::open_howdah;
use super::visible::{Visible, readable_columns};
use crate::am;
use crate::errors::{ColdError, or_raise};
use crate::scan_stats;
use crate::store::directory::{self, GroupEntry, GroupState};
use crate::store::open_group::OpenGroup;
use crate::store::visibility::rows_not_seen;
use crate::types::sql_types::{Comparison, comparison};
use crate::types::{AttributeLayout, TableLayout, datum_of};

/// Opens the stored groups that the current statement sees, one after the other.
fn for_each_group(
    rel: &OpenRelation,
    mut see: impl FnMut(&ColdStore<'_>, Snapshot<'_>, &GroupEntry, &OpenGroup),
) {
    let oid = rel.table().oid();
    let Some(store) = ColdStore::open(rel.table(), LockMode::AccessShare) else {
        return;
    };
    snapshot::with_active(|snapshot| {
        for placed in or_raise(oid, directory::groups(&store, snapshot)) {
            howdah_bridge::check_for_interrupts!();
            if placed.entry.state == GroupState::Stored {
                let open = or_raise(oid, OpenGroup::open(&store, placed.entry));
                see(&store, snapshot, &placed.entry, &open);
            }
        }
    });
    // As that of the table itself: to look at a table holds no other session up.
    store.release();
}

/// What was read of a column; `None` if only a newer version can read it.
fn if_known<T>(relation: Oid, read: Result<T, ColdError>) -> Option<T> {
    match read {
        Err(error) if error.is_of_newer_version() => None,
        read => Some(or_raise(relation, read)),
    }
}

/// Bytes of all values before encoding; `None` if that is not known of some column.
fn raw_bytes(relation: Oid, store: &ColdStore<'_>, group: &OpenGroup) -> Option<u64> {
    (0..group.column_count())
        .map(|column| {
            Some(
                if_known(relation, group.column(store, column))?
                    .stats
                    .raw_bytes,
            )
        })
        .sum()
}

/// One row: sizes of a howdah table, as far as the user may see them; no row for any other
/// relation.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn table_sizes(
    relation: Oid,
) -> TableIterator<
    'static,
    (
        name!(hot_rows_estimate, Option<i64>),
        name!(cold_rows, Option<i64>),
        name!(row_groups, Option<i64>),
        name!(hot_bytes, i64),
        name!(cold_bytes, Option<i64>),
        name!(cold_raw_bytes, Option<i64>),
    ),
> {
    let Some(rel) = open_howdah(relation) else {
        return TableIterator::empty();
    };
    let hot_bytes = hot_bytes(rel.table()) as i64;
    let visible = Visible::of(relation);
    if !visible.counts {
        return TableIterator::once((None, None, None, hot_bytes, None, None));
    }
    let (mut rows, mut groups, mut stored, mut raw) = (0, 0, 0, Some(0));
    for_each_group(&rel, |store, snapshot, entry, open| {
        rows += u64::from(entry.row_count) - hidden_rows(relation, store, snapshot, entry);
        groups += 1;
        stored += entry.body_bytes + u64::from(entry.footer_bytes);
        raw = raw
            .zip(raw_bytes(relation, store, open))
            .map(|(a, b)| a + b);
    });
    let hot_rows = hot_rows_estimate(rel.table(), rows);
    let size = |bytes: u64| visible.value_sizes.then_some(bytes as i64);
    TableIterator::once((
        Some(hot_rows),
        Some(rows as i64),
        Some(groups),
        hot_bytes,
        size(stored),
        raw.and_then(size),
    ))
}

/// Rows of a group that the snapshot does not see, because they were deleted or updated, there or
/// at the place to which they were moved.
fn hidden_rows(
    relation: Oid,
    store: &ColdStore<'_>,
    snapshot: Snapshot<'_>,
    entry: &GroupEntry,
) -> u64 {
    let hidden = rows_not_seen(store, entry, snapshot);
    or_raise(relation, hidden).map_or(0, |rows| u64::from(rows.len()))
}

/// Live rows as the cumulative statistics count them, less the cold ones; what the planner thinks
/// the heap holds where there are no statistics (on a standby, after a crash).
fn hot_rows_estimate(table: Table<'_>, cold_rows: u64) -> i64 {
    if table.main_fork_blocks() == 0 {
        return 0;
    }
    match live_rows(table) {
        Some(live) if live > cold_rows as i64 => live - cold_rows as i64,
        _ => am::estimate::guessed_hot_rows(table, cold_rows) as i64,
    }
}

/// The row groups of a howdah table whose rows the user may count.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn table_row_groups(
    relation: Oid,
) -> TableIterator<
    'static,
    (
        name!(row_group, i64),
        name!(first_row, i64),
        name!(row_count, i32),
        name!(column_count, i32),
        name!(footer_bytes, Option<i64>),
        name!(body_bytes, Option<i64>),
        name!(raw_bytes, Option<i64>),
    ),
> {
    let mut out = Vec::new();
    let rel = open_howdah(relation);
    let visible = rel.as_ref().map(|_| Visible::of(relation));
    if let (Some(rel), Some(visible)) = (rel, visible)
        && visible.counts
    {
        let size = |bytes: u64| visible.value_sizes.then_some(bytes as i64);
        for_each_group(&rel, |store, _, entry, open| {
            out.push((
                i64::from(entry.group().first_block()),
                entry.first_row.0 as i64,
                entry.row_count as i32,
                open.column_count() as i32,
                size(u64::from(entry.footer_bytes)),
                size(entry.body_bytes),
                raw_bytes(relation, store, open).and_then(size),
            ));
        });
    }
    TableIterator::new(out)
}

/// The column chunks of a howdah table, of columns that the user may select.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn table_column_chunks(
    relation: Oid,
) -> TableIterator<
    'static,
    (
        name!(row_group, i64),
        name!(attnum, i16),
        name!(encoding, Option<String>),
        name!(bytes, Option<i64>),
        name!(raw_bytes, Option<i64>),
        name!(null_count, Option<i64>),
        name!(distinct_estimate, Option<i64>),
        name!(min, Option<String>),
        name!(max, Option<String>),
    ),
> {
    let mut out = Vec::new();
    if let Some(rel) = open_howdah(relation) {
        let layout = TableLayout::of(rel.table().descriptor());
        let readable = readable_columns(relation, &layout);
        if !readable.contains(&true) {
            return TableIterator::new(out);
        }
        for_each_group(&rel, |store, _, entry, open| {
            for (i, attribute) in layout.attributes.iter().enumerate() {
                if !readable[i] || i >= open.column_count() {
                    continue;
                }
                let (group, attnum) = (i64::from(entry.group().first_block()), i as i16 + 1);
                let Some(column) = if_known(relation, open.column(store, i)) else {
                    out.push((group, attnum, None, None, None, None, None, None, None));
                    continue;
                };
                let stats = &column.stats;
                let extreme =
                    |value: &Option<OwnedValue>| value_text(value.as_ref()?, column.ty, attribute);
                out.push((
                    group,
                    attnum,
                    Some(column.encoding.clone()),
                    if_known(relation, bytes_of(store, open, i)).map(|bytes| bytes as i64),
                    Some(stats.raw_bytes as i64),
                    Some(stats.null_count as i64),
                    stats.distinct_estimate.map(|n| n as i64),
                    extreme(&stats.min),
                    extreme(&stats.max),
                ));
            }
        });
    }
    TableIterator::new(out)
}

/// The bytes of a column's chunk: of one that several columns share, this one's part, by the size
/// of its values.
fn bytes_of(store: &ColdStore<'_>, open: &OpenGroup, column: usize) -> Result<u64, ColdError> {
    let meta = open.column(store, column)?;
    let bytes = meta.byte_range.end - meta.byte_range.start;
    let Some(first) = open.first_of_group(column) else {
        return Ok(bytes);
    };
    let mut raw_bytes = 0;
    for other in (0..open.column_count()).filter(|&it| open.first_of_group(it) == Some(first)) {
        raw_bytes += open.column(store, other)?.stats.raw_bytes;
    }
    let share = meta.stats.raw_bytes as f64 / (raw_bytes as f64).max(1.0);
    Ok((bytes as f64 * share) as u64)
}

/// What scans of a howdah table did so far; no row where nothing was counted.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn table_scans(
    relation: Oid,
) -> TableIterator<
    'static,
    (
        name!(columnar_scans, i64),
        name!(row_groups_read, i64),
        name!(row_groups_skipped, i64),
        name!(zones_read, i64),
        name!(zones_skipped, i64),
        name!(row_groups_read_by_row, i64),
    ),
> {
    TableIterator::new(scan_stats::of(relation).map(|s| {
        (
            s.columnar_scans,
            s.groups_read,
            s.groups_skipped,
            s.zones_read,
            s.zones_skipped,
            s.groups_read_by_row,
        )
    }))
}

/// A minimum or maximum as its type prints it; `None` for types whose stored order is not the
/// order that SQL gives them. Text is ordered by its bytes.
fn value_text(
    value: &OwnedValue,
    stored: ColumnType,
    attribute: &AttributeLayout,
) -> Option<String> {
    let ordered = match comparison(attribute.type_oid) {
        Comparison::AsStored | Comparison::ByCollation | Comparison::Shown => true,
        Comparison::EqualAsStored | Comparison::Unknown => false,
    };
    if !ordered || stored != attribute.column_type {
        return None;
    }
    let datum = datum_of(value.as_value(), attribute);
    // SAFETY: the value has the attribute's storage type, so its datum is valid for the type; it
    // lives in the running function's memory.
    Some(unsafe { datum::output(datum, attribute.type_oid) })
}
