//! Runs a compiled query: the caller, which alone knows their origin, feeds morsels; a result is
//! returned.
//!
//! ```text
//!   caller:  feed ─try_push─▶ queue (window) ─▶ threads: a Sink each ─▶ the last one merges
//!              └─ add_statistics ─▶ a Sink of the caller ───────────────┘       └─▶ ResultSet
//!   first rows: Feeder::narrowed ◀── the best last row of all threads
//!               late ◀── rows of the result whose other columns were not delivered
//! ```
//!
//! Threads are started when there is work for them, and end with the run. Without threads the
//! caller's own thread does the work, so that a small query wakes up no thread. Expressions that
//! only the caller can evaluate are evaluated wherever it would wait
//! ([`foreign`](crate::foreign)).
//!
//! Invariants
//! - When [`run`] returns or unwinds, no thread is left.
//! - The stop flag is set before any wait for threads to end. Between two checks of it, by
//!   [`Stop`](crate::stop::Stop), a thread works on one zone at most, or merges, sorts or returns a
//!   few thousand groups or rows. Each of them also asks what the caller knows: the caller's thread
//!   may get a processor only when others have stopped.

mod memory;
mod result;
mod worker;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use howdah_columnar::{ColumnStatistics, OwnedValue};

use crate::error::VectorError;
use crate::operators::{Compiled, LateRows};
use crate::source::{Delivery, Morsel};
pub(crate) use result::{PART_ROWS, join_parts};
pub use result::{ResultColumn, ResultPart, ResultSet, RunError, RunStatistics};
use worker::{Local, Shared};

/// How often `idle` is called while threads end.
const IDLE: Duration = Duration::from_millis(2);

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads besides the caller's; if 0, the caller's thread does the work.
    pub threads: usize,
    /// Morsels that are queued or in work at a time, at least 1.
    pub window: usize,
    /// The maximal memory for states of groups and rows.
    pub memory_limit_bytes: usize,
    /// Called to start a thread, which its argument does. Attributes that threads inherit can be
    /// set around the call.
    pub around_spawn: fn(&mut dyn FnMut()),
    /// Called first on each thread.
    pub on_thread_start: fn(),
    /// Called on every thread between the steps of its work: whether to stop.
    pub is_stopped: fn() -> bool,
}

/// Takes morsels from the source, on the caller's thread.
pub struct Feeder<'a> {
    shared: &'a Shared<'a>,
    /// Starts a thread; `false` if none can be started.
    start: &'a dyn Fn() -> bool,
    started: Cell<usize>,
    /// The state of the caller's thread.
    local: RefCell<Option<Local>>,
}

impl Feeder<'_> {
    /// As [`try_deliver`](Self::try_deliver), for a morsel that needs no preparation.
    ///
    /// # Errors
    ///
    /// Returns the morsel when the window is full.
    // The morsel is returned so that it can be pushed again.
    #[allow(clippy::result_large_err)]
    pub fn try_push(&self, morsel: Morsel) -> Result<(), Morsel> {
        let tried = self.try_deliver(morsel.into());
        tried.map_err(|delivery| delivery.morsel)
    }

    /// Passes a morsel to a thread; without threads, works on it at once. After a failure morsels
    /// are dropped.
    ///
    /// # Errors
    ///
    /// Returns the morsel when the window is full.
    // It is returned so that it can be delivered again.
    #[allow(clippy::result_large_err)]
    pub fn try_deliver(&self, delivery: Delivery) -> Result<(), Delivery> {
        if self.failed() {
            return Ok(());
        }
        let options = self.shared.options;
        if options.threads == 0 {
            self.work_here(delivery);
            return Ok(());
        }
        // Threads that wait for values go first.
        if let Some(exchange) = self.shared.compiled.exchange() {
            exchange.serve();
        }
        let mut queue = self.shared.lock();
        if queue.in_flight >= options.window.max(1) {
            return Err(delivery);
        }
        let may_start =
            queue.waiting <= queue.morsels.len() && self.started.get() < options.threads;
        if may_start {
            queue.running += 1;
        }
        queue.in_flight += 1;
        queue.morsels.push_back(delivery);
        drop(queue);
        if !may_start {
            self.shared.wake_one();
            return Ok(());
        }
        if (self.start)() {
            self.started.set(self.started.get() + 1);
            return Ok(());
        }
        self.shared.lock().running -= 1;
        if self.started.get() == 0 {
            // There is no thread to take it.
            let delivery = self.shared.lock().morsels.pop_back();
            self.shared.lock().in_flight -= 1;
            if let Some(delivery) = delivery {
                self.work_here(delivery);
            }
        }
        Ok(())
    }

    fn work_here(&self, delivery: Delivery) {
        let worked = self.with_local(|local| local.process(self.shared, delivery));
        if let Err(error) = worked {
            self.shared.fail(error);
        }
    }

    fn with_local<T>(&self, work: impl FnOnce(&mut Local) -> T) -> T {
        let mut local = self.local.borrow_mut();
        work(local.get_or_insert_with(|| Local::new(self.shared)))
    }

    /// Waits until there is room in the window, the run failed, or the time is over.
    pub fn wait(&self, timeout: Duration) {
        let queue = self.shared.lock();
        let is_full = queue.in_flight >= self.shared.options.window.max(1);
        if is_full && !self.failed() {
            drop(self.shared.wait_for_news(queue, timeout));
        }
    }

    /// Whether the run failed: no more morsels are wanted.
    pub fn failed(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Of the rows of a group that are to be read, those that may still be among the first rows: as
    /// far as whole zones cannot be, by what threads have found so far. `leading` are the
    /// statistics of the column of [`Compiled::leading_order`].
    pub fn narrowed(
        &self,
        leading: &ColumnStatistics,
        rows: Vec<Range<usize>>,
    ) -> Vec<Range<usize>> {
        match &*self.shared.cut() {
            Some(cut) => self.shared.compiled.before(cut, leading, rows),
            None => rows,
        }
    }

    /// Adds all rows of a row group for which [`Compiled::ask`] returned
    /// [`Look::Statistics`](crate::operators::Look::Statistics).
    ///
    /// # Errors
    ///
    /// [`VectorError::Unsupported`] if statistics are not sufficient, and errors of aggregates.
    pub fn add_statistics(
        &self,
        statistics: &[Option<&ColumnStatistics>],
        row_count: usize,
    ) -> Result<(), VectorError> {
        self.with_local(|local| {
            let sink = local.sink();
            sink.add_statistics(self.shared.compiled, statistics, row_count)
        })
    }
}

/// Stops the threads when the caller's thread leaves, also by a panic.
struct StopOnLeave<'a>(&'a Shared<'a>);

impl Drop for StopOnLeave<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs a query over what `feed` pushes. `idle` is called every few milliseconds while the caller's
/// thread waits for the others at the end. If [`Options::is_stopped`] stops the run, its error is
/// [`VectorError::Stopped`].
///
/// # Errors
///
/// Errors of `feed`, and those of the run.
///
/// # Panics
///
/// Resumes a panic of `feed` or `idle`, when all threads have ended.
pub fn run<E>(
    compiled: &Compiled,
    options: &Options,
    feed: impl FnOnce(&Feeder<'_>) -> Result<(), E>,
    idle: &mut dyn FnMut(),
) -> Result<ResultSet, RunError<E>> {
    run_late(compiled, options, feed, idle, &mut |_| Ok(Vec::new()))
}

/// The values of rows: of each column, those of all rows; `None` is NULL.
pub type LateValues = Vec<Vec<Option<OwnedValue>>>;

/// As [`run`]. `late` reads values that were not delivered, where
/// [`Compiled::read_late`] allows that: it is called on the caller's thread when all others have
/// nothing left to do.
///
/// # Errors
///
/// Errors of `feed` and `late`, and those of the run.
///
/// # Panics
///
/// Resumes a panic of `feed`, `idle` or `late`, when all threads have ended.
pub fn run_late<E>(
    compiled: &Compiled,
    options: &Options,
    feed: impl FnOnce(&Feeder<'_>) -> Result<(), E>,
    idle: &mut dyn FnMut(),
    late: &mut dyn FnMut(&LateRows) -> Result<LateValues, E>,
) -> Result<ResultSet, RunError<E>> {
    let shared = Shared::new(compiled, options);
    let shared = &shared;
    std::thread::scope(|scope| {
        let _stop = StopOnLeave(shared);
        let start = || {
            let mut has_started = false;
            (options.around_spawn)(&mut || {
                let builder = std::thread::Builder::new().name("howdah vector".to_owned());
                has_started = builder.spawn_scoped(scope, || shared.work()).is_ok();
            });
            has_started
        };
        let feeder = Feeder {
            shared,
            start: &start,
            started: Cell::new(0),
            local: RefCell::new(None),
        };
        feed(&feeder).map_err(RunError::Feed)?;
        let has_threads = feeder.started.get() > 0;
        shared.close(feeder.local.take());
        if !has_threads && !shared.stop.load(Ordering::Relaxed) {
            shared.finish();
        }
        let mut queue = shared.lock();
        loop {
            if let Some(error) = queue.error.take() {
                return Err(RunError::Vector(error));
            }
            if let Some(mut outcome) = queue.outcome.take() {
                drop(queue);
                if let Some(mut sink) = outcome.unread.take() {
                    for rows in sink.late(compiled) {
                        let values = late(&rows).map_err(RunError::Feed)?;
                        sink.supply(&rows, values).map_err(RunError::Vector)?;
                    }
                    let finished = sink.finish(compiled, &shared.stop_check());
                    outcome.parts = finished.map_err(RunError::Vector)?;
                }
                let row_count = outcome.parts.iter().map(|part| part.row_count).sum();
                return Ok(ResultSet {
                    row_count,
                    parts: outcome.parts,
                    statistics: RunStatistics {
                        rows_in: outcome.counts.rows_in,
                        rows_passed: outcome.counts.rows_passed,
                        groups: row_count as u64,
                        memory_peak_bytes: shared.memory.peak_bytes(),
                        busy: outcome.busy,
                        times: outcome.counts.times,
                    },
                });
            }
            queue = shared.wait_for_news(queue, IDLE);
            drop(queue);
            idle();
            queue = shared.lock();
        }
    })
}
