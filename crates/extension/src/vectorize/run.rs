//! One run of the engine: from the executor's node to a result, or to the decision that PostgreSQL
//! computes it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use howdah_bridge::damage;
use howdah_bridge::spare_memory::{self, LEAST_BYTES};
use howdah_bridge::store::Loans;
use howdah_bridge::upper::{
    Left, Oid, ReturnMemory, Rows, Run, Stage, Waiting, hash_memory_bytes, statement_ends,
    with_signals_blocked,
};
use howdah_columnar::ColumnarError;
use howdah_vector::VectorError;
use howdah_vector::foreign::Exchange;
use howdah_vector::operators::{Compiled, Strain};
use howdah_vector::runtime::{self, Options, ResultSet, RunError};
use pgrx::PgSqlErrorCode;

use super::answer::Answer;
use super::counts::{Counts, Figures};
use super::feed::{Damaged, Fed};
use super::foreign::Evaluator;
use super::hot::HotBatch;
use super::source::Source;
use super::survey::{Bounds, Surveyed, best_first};
use super::translate::{Bound, Translated, translate};
use crate::columnar_scan::ROWS_OF_A_THREAD;
use crate::errors::{self, ColdError, or_raise, refuse};
use crate::scan_stats;
use crate::settings;
use crate::stop_point;
use crate::thread_budget::Lease;
use crate::types::{AttributeLayout, TableLayout};

/// So many pages of hot rows, some hundred thousand rows, are worth a thread.
const BLOCKS_FOR_A_THREAD: u32 = 1_024;
/// Row groups, for each thread, that are queued or processed at a time.
const WINDOW: usize = 3;

/// Runs the query, and adds to the figures of the run before.
///
/// # Errors
///
/// Why it is left to PostgreSQL's own plan.
pub fn run(run: &Run<'_>, before: Option<Box<dyn Rows>>) -> Result<Box<dyn Rows>, Left> {
    let before = Answer::figures_of(before);
    let layout = TableLayout::of(run.relation().descriptor());
    let is_timed = run.wants_times();
    let foreign = run.compile_foreign(&run.foreign);
    let (rti, number) = (run.shape.rti, foreign.run());
    let evaluator = Evaluator::new(number, &run.foreign, rti, &layout, is_timed);
    let evaluator = evaluator.ok_or(Left::Changed)?;
    let evaluator = Arc::new(evaluator);
    let exchange = Arc::new(Exchange::new(evaluator.clone()));
    let bound = Bound {
        operands: &run.operands,
        decisions: &run.decisions,
    };
    // SAFETY: the executor has evaluated the operands.
    let translated = unsafe { translate(&run.shape, &layout, Some(&bound), exchange) };
    let translated = translated.map_err(|_| Left::Changed)?;
    let are_same = translated.operands.len() == run.operands.len()
        && translated.decisions == run.decisions
        && translated.foreign.len() == run.foreign.len()
        && (translated.foreign.iter().zip(&run.foreign))
            .all(|(part, node)| part.node.equals(*node));
    if !are_same {
        return Err(Left::Changed);
    }
    spare_memory::set_aside(LEAST_BYTES);
    let compiled = Compiled::compile(&translated.query);
    let mut compiled = compiled.map_err(|_| Left::Changed)?;
    let mut bounds = Bounds::of_columns(translated.attributes.len());
    let opened = open_all(run, &translated, &mut compiled, &mut bounds);
    let (sources, mut groups) = opened.ok_or(Left::Changed)?;
    if let Some((_, descending)) = compiled.leading_order() {
        best_first(&mut groups, descending);
    }
    bounds.set(&mut compiled);
    compiled.set_strain(Strain {
        most_at_a_time: settings::step_rows().unwrap_or(usize::MAX),
        hash_bits: settings::hash_bits(),
    });
    if is_timed {
        compiled.measure_times();
    }
    let wanted = match run.may_use_threads() {
        true => worthwhile_threads(&sources, &groups),
        false => 0,
    };
    let lease = Lease::take(wanted);
    let threads = lease.count;
    share_groups(&mut groups, threads);
    let options = Options {
        threads,
        window: threads * WINDOW,
        memory_limit_bytes: hash_memory_bytes(),
        around_spawn: with_signals_blocked,
        on_thread_start: match stop_point::panics_at("vector-thread") {
            true => || panic!("as asked at vector-thread"),
            false => || {},
        },
        is_stopped: statement_ends,
    };
    let return_memory = ReturnMemory::default();
    let waiting = Cell::new(None);
    let fed: Vec<Fed> = sources.iter().map(|_| Fed::default()).collect();
    let fed = RefCell::new(fed);
    // Released at the latest here, when all threads have ended.
    let loans = Loans::new(run.foreign.is_empty());
    // The table that is being read, for messages.
    let at = Cell::new(run.relation().oid());
    let ran = runtime::run_late(
        &compiled,
        &options,
        |feeder| {
            let fed = &mut *fed.borrow_mut();
            let mut hot = HotBatch::new(&translated.query.columns, &compiled);
            let mut ordinal = 0;
            for (table, group) in groups {
                if feeder.failed() {
                    return Ok(());
                }
                at.set(sources[table].table.oid());
                let fed = &mut fed[table];
                sources[table].feed_group(group, &mut ordinal, fed, &loans, feeder)?;
            }
            for (source, fed) in sources.iter().zip(fed) {
                at.set(source.table.oid());
                source.feed_rows(&mut ordinal, fed, &mut hot, feeder)?;
            }
            hot.flush(&mut ordinal, feeder)?;
            // All is handed over, and only the threads are waited for.
            waiting.set(Some(Waiting::begin()));
            Ok(())
        },
        &mut || {
            drop(waiting.take());
            loans.release();
            howdah_bridge::check_for_interrupts!();
            waiting.set(Some(Waiting::begin()));
        },
        &mut |late| {
            drop(waiting.take());
            let fed = fed.borrow();
            let of_table = |(source, fed): (_, &Fed)| Some((source, fed.group_of(late.ordinal)?));
            let Some((source, entry)) = sources.iter().zip(&*fed).find_map(of_table) else {
                return Ok(Vec::new());
            };
            at.set(source.table.oid());
            source.read_late(entry, late)
        },
    );
    let (at, mut fed) = (at.get(), fed.into_inner());
    drop(waiting);
    drop(loans);
    drop(lease);
    let failure = fed.iter_mut().find_map(|fed| fed.failure.take());
    let ran = match failure {
        Some(error) => Err(RunError::Vector(error)),
        None => ran,
    };
    let result = match ran {
        Ok(result) => result,
        Err(RunError::Feed(ColdError::InvalidText)) => return Err(Left::Value),
        Err(RunError::Feed(error)) => or_raise(at, Err::<ResultSet, ColdError>(error)),
        Err(RunError::Vector(error)) => {
            // The reason why the run was stopped is an ERROR in its place.
            howdah_bridge::check_for_interrupts!();
            return Err(left_to_postgres(&error).unwrap_or_else(|| raise(at, error)));
        }
    };
    return_memory.keep_it();
    let mut total = Counts::default();
    for (source, fed) in sources.iter().zip(&fed) {
        source.table.count_rows_read(fed.counts.cold_rows);
        scan_stats::count(source.table.oid(), fed.counts.of_scan());
        total.add(&fed.counts);
    }
    let returned = match run.shape.stage {
        Stage::Group => [run.shape.keys.as_slice(), &run.shape.aggregates].concat(),
        Stage::First => run.shape.columns.clone(),
    };
    let layouts = (returned.iter())
        .map(|node| AttributeLayout::of_type(node.type_oid()))
        .collect();
    let mut figures = Figures {
        counts: total,
        run: result.statistics,
        threads,
        is_timed,
        evaluated: (!run.foreign.is_empty()).then(|| evaluator.evaluated()),
    };
    if let Some(before) = before {
        figures.add(&before);
    }
    Ok(Box::new(Answer::new(result, layouts, figures)))
}

/// Stored groups, each with the place of its table.
type Groups = Vec<(usize, Surveyed)>;

/// How many threads the rows that must be read are worth: none if only one could be busy, as the
/// main thread can do its work without waking any; but one beside many hot rows, which the main
/// thread must fetch itself.
fn worthwhile_threads(sources: &[Source<'_>], groups: &Groups) -> usize {
    if settings::force_vectorized() {
        let parts = groups.iter().map(|(_, group)| group.threads_worth());
        return settings::threads().min(parts.fold(0, usize::saturating_add));
    }
    let (mut to_read, mut row_count) = (0, 0);
    for (_, group) in groups.iter().filter(|(_, group)| group.rows_to_read() > 0) {
        let threads = group.threads_worth();
        to_read += threads;
        row_count += match threads {
            1 => group.rows_to_read(),
            _ => group.rows_to_read().max(threads * ROWS_OF_A_THREAD),
        };
    }
    let busy = to_read.min(row_count / ROWS_OF_A_THREAD);
    let blocks = sources.iter().map(|source| source.table.main_fork_blocks());
    let has_many_hot_rows = || blocks.fold(0, u32::saturating_add) >= BLOCKS_FOR_A_THREAD;
    match busy > 1 || has_many_hot_rows() {
        true => settings::threads().min(busy.max(1)),
        false => 0,
    }
}

/// Cuts groups, where there are fewer of them than threads, so that each thread gets a part.
fn share_groups(groups: &mut Groups, threads: usize) {
    let is_read = |(_, group): &&(usize, Surveyed)| group.rows_to_read() > 0;
    let to_read = groups.iter().filter(is_read).count();
    let most = threads.div_ceil(to_read.max(1));
    for (_, group) in groups.iter_mut() {
        group.parts = group.threads_worth().min(most).max(1);
    }
}

/// The tables of the run, and the groups that are to be read of them.
fn open_all<'a>(
    run: &'a Run<'_>,
    translated: &Translated<'_>,
    compiled: &mut Compiled,
    bounds: &mut Bounds,
) -> Option<(Vec<Source<'a>>, Groups)> {
    let columns = (
        translated.attributes.as_slice(),
        translated.query.columns.as_slice(),
    );
    let mut sources = Vec::new();
    for table in run.tables() {
        howdah_bridge::check_for_interrupts!();
        sources.push(Source::open(run, table, columns)?);
    }
    compiled.read_late(sources.iter().map(Source::stored_rows).sum());
    let mut groups = Groups::new();
    for (place, source) in sources.iter().enumerate() {
        howdah_bridge::check_for_interrupts!();
        let surveyed = or_raise(source.table.oid(), source.survey(compiled, bounds))?;
        groups.extend(surveyed.into_iter().map(|group| (place, group)));
    }
    Some((sources, groups))
}

/// Why PostgreSQL may be able to compute what the engine could not; `None` if it cannot either.
fn left_to_postgres(error: &VectorError) -> Option<Left> {
    match error {
        VectorError::Memory { limit_bytes } => Some(Left::Memory {
            limit_bytes: *limit_bytes,
        }),
        VectorError::Stopped => Some(Left::Signal),
        VectorError::Unsupported { .. }
        | VectorError::Columnar(
            ColumnarError::NotComparable | ColumnarError::TypeMismatch { .. },
        ) => Some(Left::Value),
        _ => None,
    }
}

fn raise(table: Oid, error: VectorError) -> ! {
    let code = match error {
        VectorError::Columnar(error) => errors::raise(table, &error.into()),
        VectorError::Check(error) => match error.downcast::<Damaged>() {
            Ok(damaged) => errors::raise(damaged.table, &damaged.error.into()),
            Err(other) => damage::raise(other.to_string()),
        },
        VectorError::OutOfRange { .. } => PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        VectorError::DatetimeOutOfRange { .. } => PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW,
        VectorError::DivisionByZero => PgSqlErrorCode::ERRCODE_DIVISION_BY_ZERO,
        _ => PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
    };
    refuse(code, error.to_string(), None)
}
