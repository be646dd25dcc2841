//! One run of the engine: from the executor's node to a result, or to the decision that PostgreSQL computes it.

use howdah_bridge::relation::count_rows_read;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::Table;
use howdah_bridge::upper::{
    Explanation, Oid, Rows, Run, Stage, hash_memory_bytes, with_signals_blocked,
};
use howdah_columnar::{ColumnarError, MAX_ROWS, ZONE_ROWS};
use howdah_vector::VectorError;
use howdah_vector::operators::Compiled;
use howdah_vector::runtime::{self, Options, ResultSet, RunError, RunStatistics};
use pgrx::PgSqlErrorCode;

use super::answer::Answer;
use super::feed::Source;
use super::threads::Lease;
use super::translate::translate;
use crate::errors::{self, ColdError, or_raise, refuse};
use crate::scan_stats::{self, ScanCounts};
use crate::settings;
use crate::store::view::{ColdGroup, ColdView, store_of};
use crate::types::{AttributeLayout, TableLayout};

/// Fewer stored rows than this are not worth a thread.
const ROWS_FOR_THREADS: usize = MAX_ROWS / 2;
/// Row groups, for each thread, that are queued or worked on at a time.
const WINDOW: usize = 3;

/// What a run looked at, for EXPLAIN and statistics.
#[derive(Default)]
pub struct Counts {
    pub groups: u64,
    pub groups_skipped: u64,
    /// Groups whose statistics were all that was needed.
    pub groups_answered: u64,
    /// Rows of these groups.
    pub rows_answered: u64,
    pub zones: u64,
    pub zones_skipped: u64,
    pub hot_rows: u64,
    threads: usize,
    failure: Option<VectorError>,
}

impl Counts {
    /// Of a group that is read, these rows are looked at.
    pub fn note_zones(&mut self, row_count: usize, rows: &[std::ops::Range<usize>]) {
        let zones = row_count.div_ceil(ZONE_ROWS);
        let read: usize = rows.iter().map(|rows| rows.len().div_ceil(ZONE_ROWS)).sum();
        self.zones += zones as u64;
        self.zones_skipped += zones.saturating_sub(read) as u64;
    }

    /// Keeps the first failure outside of a thread.
    pub fn failed(&mut self, result: Result<(), VectorError>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    pub fn explain(&self, run: &RunStatistics, to: &mut Explanation) {
        let integers = [
            ("Row Groups", self.groups),
            ("Row Groups Skipped", self.groups_skipped),
            ("Row Groups Answered by Statistics", self.groups_answered),
            ("Zones", self.zones),
            ("Zones Skipped", self.zones_skipped),
        ];
        if to.is_text() {
            let mut groups = format!("total={} skipped={}", self.groups, self.groups_skipped);
            if self.groups_answered > 0 {
                groups += &format!(" answered by statistics={}", self.groups_answered);
            }
            to.text("Row Groups", &groups);
            let zones = format!("total={} skipped={}", self.zones, self.zones_skipped);
            to.text("Zones", &zones);
        } else {
            for (label, count) in integers {
                to.integer(label, None, count as i64);
            }
        }
        to.integer("Rows Read", None, run.rows_in as i64);
        to.integer("Rows Passed", None, run.rows_passed as i64);
        to.integer("Hot Rows", None, self.hot_rows as i64);
        to.integer("Threads", None, self.threads as i64);
        let kilobytes = run.memory_peak_bytes.div_ceil(1024);
        to.integer("Peak Memory", Some("kB"), kilobytes as i64);
    }
}

/// Runs the query; `None` leaves it to PostgreSQL's own plan.
pub fn run(run: &Run<'_>) -> Option<Box<dyn Rows>> {
    let table = run.table();
    // SAFETY: the executor holds the table open and locked, and its snapshot valid; operands are of the types that
    // the planner found in the same shape.
    let (layout, translated, view, store, oid) = unsafe {
        let table = Table::from_raw(table);
        let layout = TableLayout::of(table.descriptor());
        let translated = translate(&run.shape, &layout, Some(&run.operands))?;
        let view = ColdView::of(table, Snapshot::from_raw(run.snapshot()));
        let oid = table.oid();
        let is_needed = |group: &ColdGroup| !group.is_pending() || !group.entry().flags.are_clear();
        let store = match view.groups.iter().any(is_needed) {
            true => Some(or_raise(oid, store_of(table))),
            false => None,
        };
        (layout, translated, view, store, oid)
    };
    let mut compiled = Compiled::compile(&translated.query).ok()?;
    let source = Source {
        run,
        layout: &layout,
        attributes: &translated.attributes,
        view,
        store,
    };
    let (groups, bounds) = or_raise(oid, source.survey(&compiled))?;
    bounds.set(&mut compiled);
    let stored_rows: usize = groups.iter().map(|group| group.row_count()).sum();
    let is_worth_it = stored_rows >= ROWS_FOR_THREADS || settings::force_vectorized();
    let wanted = match run.may_use_threads() && is_worth_it {
        true => settings::threads().min(groups.len()),
        false => 0,
    };
    let lease = Lease::take(wanted);
    let mut counts = Counts {
        threads: lease.count,
        ..Counts::default()
    };
    let options = Options {
        threads: lease.count,
        window: lease.count * WINDOW,
        memory_limit_bytes: hash_memory_bytes(),
        around_spawn: with_signals_blocked,
        on_thread_start: || {},
    };
    let ran = runtime::run(
        &compiled,
        &options,
        |feeder| source.feed(groups, &mut counts, feeder),
        &mut || {
            pgrx::check_for_interrupts!();
        },
    );
    drop(lease);
    let ran = match counts.failure.take() {
        Some(error) => Err(RunError::Vector(error)),
        None => ran,
    };
    let result = match ran {
        Ok(result) => result,
        Err(RunError::Feed(error)) => or_raise(oid, Err::<ResultSet, ColdError>(error)),
        Err(RunError::Vector(error)) => {
            if left_to_postgres(&error) {
                return None;
            }
            raise(oid, error)
        }
    };
    // SAFETY: the executor holds the table open.
    unsafe { count_rows_read(table, result.statistics.rows_in + counts.rows_answered) };
    scan_stats::count(
        oid,
        ScanCounts {
            columnar_scans: i64::from(counts.groups > 0),
            groups_read: (counts.groups - counts.groups_skipped) as i64,
            groups_skipped: counts.groups_skipped as i64,
            zones_read: (counts.zones - counts.zones_skipped) as i64,
            zones_skipped: counts.zones_skipped as i64,
            groups_read_by_row: 0,
        },
    );
    let returned = match run.shape.stage {
        Stage::Group => [run.shape.keys.as_slice(), &run.shape.aggregates].concat(),
        Stage::First => run.shape.columns.clone(),
    };
    let layouts = (returned.iter())
        .map(|node| AttributeLayout::of_type(node.type_oid()))
        .collect();
    Some(Box::new(Answer::new(result, layouts, counts)))
}

/// Whether PostgreSQL may still compute what the engine could not.
fn left_to_postgres(error: &VectorError) -> bool {
    matches!(
        error,
        VectorError::Memory { .. }
            | VectorError::Unsupported { .. }
            | VectorError::Columnar(
                ColumnarError::NotComparable | ColumnarError::TypeMismatch { .. }
            )
    )
}

fn raise(table: Oid, error: VectorError) -> ! {
    let code = match error {
        VectorError::Columnar(error) => errors::raise(table, &error.into()),
        VectorError::OutOfRange { .. } => PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        VectorError::DatetimeOutOfRange { .. } => PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW,
        VectorError::DivisionByZero => PgSqlErrorCode::ERRCODE_DIVISION_BY_ZERO,
        _ => PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
    };
    refuse(code, error.to_string(), None)
}
