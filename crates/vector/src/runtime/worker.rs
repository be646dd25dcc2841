//! Threads: they take morsels from the queue until it is closed; the last one merges the states of
//! all.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Options;
use super::memory::{Memory, Share};
use super::result::ResultPart;
use crate::error::VectorError;
use crate::operators::{Compiled, Cut, RowCounts, Sink};
use crate::source::Delivery;
use crate::stop::{self, Stop};

/// The state that the threads of a run share.
pub(super) struct Shared<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) options: &'a Options,
    pub(super) memory: Arc<Memory>,
    pub(super) stop: Arc<AtomicBool>,
    /// Of first rows: the best last row of any thread that has all rows it may keep.
    cut: Mutex<Option<Cut>>,
    queue: Mutex<Queue>,
    /// There is a morsel, or there will be none.
    work: Condvar,
    /// There is room, a failure or a result.
    news: Condvar,
}

/// Morsels in work, and their results. Its lock is held for moments only.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) morsels: VecDeque<Delivery>,
    /// Morsels that are queued or in work.
    pub(super) in_flight: usize,
    /// Threads that wait for a morsel.
    pub(super) waiting: usize,
    /// Threads that were started and have not ended.
    pub(super) running: usize,
    /// No more morsels will come.
    pub(super) closed: bool,
    pub(super) error: Option<VectorError>,
    /// The states of the threads that have ended.
    done: Vec<Local>,
    pub(super) outcome: Option<Outcome>,
}

/// The result of all threads.
pub(super) struct Outcome {
    pub(super) parts: Vec<ResultPart>,
    /// First rows whose values are still to be read; then there are no parts yet.
    pub(super) unread: Option<Sink>,
    pub(super) counts: RowCounts,
    pub(super) busy: Duration,
}

/// The merged states of all threads.
enum Merged {
    /// The rows of the result.
    Read(Vec<ResultPart>),
    /// First rows, of some of which values are still to be read.
    Unread(Sink),
}

/// The state of one thread.
pub(super) struct Local {
    sink: Sink,
    share: Share,
    counts: RowCounts,
    busy: Duration,
}

impl Local {
    pub(super) fn new(shared: &Shared<'_>) -> Self {
        Self {
            sink: shared.compiled.sink(shared.lookup_bytes()),
            share: shared.memory.share(),
            counts: RowCounts::default(),
            busy: Duration::ZERO,
        }
    }

    /// Processes a morsel. A panic of the caller's own expressions passes on the caller's thread;
    /// any other is an error.
    pub(super) fn process(
        &mut self,
        shared: &Shared<'_>,
        delivery: Delivery,
    ) -> Result<(), VectorError> {
        let start = Instant::now();
        let _entered = stop::enter(&shared.stop, shared.options.is_stopped);
        let Delivery {
            mut morsel,
            preparation,
        } = delivery;
        self.sink.set_cut(shared.cut().clone());
        let work = || {
            if let Some(prepare) = preparation {
                prepare(&mut morsel)?;
            }
            self.sink.process(
                shared.compiled,
                morsel,
                &shared.stop_check(),
                &mut self.counts,
                |bytes| self.share.set(bytes),
            )
        };
        let done = match shared.compiled.exchange() {
            None => guarded(work),
            Some(_) => work(),
        };
        if done.is_ok() {
            let mut cut = shared.cut();
            if let Some(better) = self.sink.better_cut(shared.compiled, cut.as_ref()) {
                *cut = Some(better);
            }
        }
        self.busy += start.elapsed();
        done
    }

    /// Adds statistics of a row group in place of its rows.
    pub(super) fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }
}

/// A panic as an error.
fn guarded<T>(run: impl FnOnce() -> Result<T, VectorError>) -> Result<T, VectorError> {
    // Whatever was being changed is dropped with the run.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        Err(VectorError::Panicked {
            message: message_of(panic.as_ref()),
        })
    })
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

impl<'a> Shared<'a> {
    pub(super) fn new(compiled: &'a Compiled, options: &'a Options) -> Self {
        Self {
            compiled,
            options,
            memory: Arc::new(Memory::new(options.memory_limit_bytes)),
            stop: Arc::default(),
            cut: Mutex::default(),
            queue: Mutex::default(),
            work: Condvar::new(),
            news: Condvar::new(),
        }
    }

    /// What every thread asks whether to stop.
    pub(super) fn stop_check(&self) -> Stop<'_> {
        Stop::new(&self.stop, self.options.is_stopped)
    }

    /// The memory that a thread may use to look groups up without hashing: an eighth of all,
    /// divided among threads.
    fn lookup_bytes(&self) -> usize {
        self.options.memory_limit_bytes / 8 / (self.options.threads + 1)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        // A panic within the lock leaves a consistent state.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The best cut so far. Its lock is held for moments only, and never with the queue's.
    pub(super) fn cut(&self) -> MutexGuard<'_, Option<Cut>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room, a failure, a result, or until the time is over.
    pub(super) fn wait_for_news<'g>(
        &'g self,
        queue: MutexGuard<'g, Queue>,
        timeout: Duration,
    ) -> MutexGuard<'g, Queue> {
        if let Some(exchange) = self.compiled.exchange() {
            drop(queue);
            exchange.serve_or_wait(timeout);
            return self.lock();
        }
        let waited = self.news.wait_timeout(queue, timeout);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes the caller's thread where it waits for news.
    fn tell_news(&self) {
        self.news.notify_all();
        if let Some(exchange) = self.compiled.exchange() {
            exchange.tell_news();
        }
    }

    /// Ends the run as soon as threads notice it.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.lock());
        self.work.notify_all();
        self.tell_news();
        if let Some(exchange) = self.compiled.exchange() {
            exchange.stop();
        }
    }

    pub(super) fn fail(&self, error: VectorError) {
        self.lock().error.get_or_insert(error);
        self.stop();
    }

    /// Closes the queue: no more morsels will come.
    pub(super) fn close(&self, local: Option<Local>) {
        let mut queue = self.lock();
        queue.closed = true;
        queue.done.extend(local);
        drop(queue);
        self.work.notify_all();
    }

    pub(super) fn wake_one(&self) {
        self.work.notify_one();
    }

    fn next(&self) -> Option<Delivery> {
        let mut queue = self.lock();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(delivery) = queue.morsels.pop_front() {
                return Some(delivery);
            }
            if queue.closed {
                return None;
            }
            queue.waiting += 1;
            queue = self
                .work
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.waiting -= 1;
        }
    }

    /// The main function of a thread.
    pub(super) fn work(&self) {
        let local = guarded(|| {
            (self.options.on_thread_start)();
            let mut local = Local::new(self);
            while let Some(delivery) = self.next() {
                let worked = local.process(self, delivery);
                self.lock().in_flight -= 1;
                self.tell_news();
                worked?;
            }
            Ok(local)
        });
        let local = match local {
            Ok(local) => Some(local),
            Err(error) => {
                self.fail(error);
                None
            }
        };
        let is_last = {
            let mut queue = self.lock();
            queue.done.extend(local);
            queue.running -= 1;
            queue.running == 0
        };
        if is_last && !self.stop.load(Ordering::Relaxed) {
            self.finish();
        }
        self.tell_news();
    }

    /// Merges the states of all threads.
    pub(super) fn finish(&self) {
        let locals = std::mem::take(&mut self.lock().done);
        match guarded(|| self.merged(locals)) {
            Ok(outcome) => self.lock().outcome = Some(outcome),
            Err(error) => self.fail(error),
        }
    }

    fn merged(&self, locals: Vec<Local>) -> Result<Outcome, VectorError> {
        let stop = &self.stop_check();
        let start = Instant::now();
        let mut counts = RowCounts::default();
        let mut busy = Duration::ZERO;
        for local in &locals {
            counts.rows_in += local.counts.rows_in;
            counts.rows_passed += local.counts.rows_passed;
            counts.times.add(&local.counts.times);
            busy += local.busy;
        }
        let group_count: usize = locals.iter().map(|local| local.sink.group_count()).sum();
        let has_many = self.compiled.is_merged_by_threads(group_count);
        let merged = match has_many && locals.len() > 1 {
            true if locals.len() <= MOST_MERGED_IN_PLACE => {
                Merged::Read(self.merged_in_place(locals)?)
            }
            true => Merged::Read(self.merged_in_parts(locals)?),
            false => self.merged_alone(locals, stop)?,
        };
        let (parts, unread) = match merged {
            Merged::Read(parts) => (self.compiled.ordered(parts, stop)?, None),
            Merged::Unread(sink) => (Vec::new(), Some(sink)),
        };
        if self.compiled.is_timed() {
            counts.times.output += start.elapsed();
        }
        Ok(Outcome {
            parts,
            unread,
            counts,
            busy: busy + start.elapsed(),
        })
    }

    fn merged_alone(&self, mut locals: Vec<Local>, stop: &Stop<'_>) -> Result<Merged, VectorError> {
        // The others are merged into the largest one.
        locals.sort_by_key(|local| local.sink.memory_bytes());
        let mut all = locals.pop().unwrap_or_else(|| Local::new(self));
        while let Some(local) = locals.pop() {
            all.sink.merge(self.compiled, local.sink, stop)?;
            all.share.set(all.sink.memory_bytes())?;
        }
        if !all.sink.late(self.compiled).is_empty() {
            return Ok(Merged::Unread(all.sink));
        }
        all.sink.finish(self.compiled, stop).map(Merged::Read)
    }

    /// Many groups are merged by several threads, each of which takes those with its hashes.
    fn merged_in_parts(&self, locals: Vec<Local>) -> Result<Vec<ResultPart>, VectorError> {
        let part_count = self.options.threads.max(1);
        let sinks: Vec<&Sink> = locals.iter().map(|local| &local.sink).collect();
        let merge_part = |part: usize| {
            let mut share = self.memory.share();
            let sinks = sinks.iter().copied();
            Sink::merged_part(
                self.compiled,
                sinks,
                (part, part_count),
                self.lookup_bytes(),
                &self.stop_check(),
                |bytes| share.set(bytes),
            )
        };
        self.in_threads(part_count, &merge_part)
    }

    /// The states of few threads: groups that several of them have are merged into the largest one,
    /// then each thread finishes a state. No table is made, and integers that rise with the rows
    /// have hardly a group in several states.
    fn merged_in_place(&self, mut locals: Vec<Local>) -> Result<Vec<ResultPart>, VectorError> {
        let stop = self.stop_check();
        locals.sort_by_key(|local| Reverse(local.sink.group_count()));
        for at in 1..locals.len() {
            let (before, rest) = locals.split_at_mut(at);
            for larger in before {
                let sink = &mut rest[0].sink;
                sink.cede(self.compiled, &mut larger.sink, &stop)?;
                larger.share.set(larger.sink.memory_bytes())?;
            }
        }
        let sinks: Vec<&Sink> = locals.iter().map(|local| &local.sink).collect();
        self.in_threads(sinks.len(), &|part| {
            sinks[part].finish_part(self.compiled, &self.stop_check())
        })
    }

    /// Results of parts, each of which is computed by a thread, one after the other.
    fn in_threads(
        &self,
        part_count: usize,
        compute: &(dyn Fn(usize) -> Result<Vec<ResultPart>, VectorError> + Sync),
    ) -> Result<Vec<ResultPart>, VectorError> {
        let parts: Result<Vec<_>, VectorError> = std::thread::scope(|scope| {
            let start = |part: usize| {
                let builder = std::thread::Builder::new().name("howdah vector".to_owned());
                let started = builder.spawn_scoped(scope, move || {
                    guarded(|| {
                        (self.options.on_thread_start)();
                        compute(part)
                    })
                });
                (part, started)
            };
            let started: Vec<_> = (1..part_count).map(start).collect();
            let mut parts = vec![compute(0)];
            for (part, thread) in started {
                parts.push(match thread {
                    Ok(thread) => thread.join().unwrap_or(Err(VectorError::Stopped)),
                    // No more threads can be started.
                    Err(_) => compute(part),
                });
            }
            parts.into_iter().collect()
        });
        Ok(parts?.into_iter().flatten().collect())
    }
}

/// States of more threads are merged by several threads into new ones: looking up the groups of
/// each in all others would take longer.
const MOST_MERGED_IN_PLACE: usize = 3;
