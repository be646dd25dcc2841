//! The launcher: one process that starts a worker for each database with work.
//!
//! It is connected to no database. Backends note in shared memory that they wrote to a howdah table
//! of their database; after a start of the server every database is visited once. A database is
//! visited again when it was written, or when rows there are waiting to cool. While nothing can be
//! moved, the visits become less frequent, because each examines every hot page; but if a visit
//! costs little, they are at most `howdah.compact_after` apart.
//!
//! It starts only after recovery, so a standby compacts nothing until it is promoted. SIGTERM ends
//! it; after a crash the postmaster restarts it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use howdah_bridge::catalog::connectable_databases;
use howdah_bridge::{Datum, Oid, background_worker_main, process, wal};
use pgrx::IntoDatum;
use pgrx::bgworkers::{
    BackgroundWorker, BackgroundWorkerBuilder, BgWorkerStartTime, DynamicBackgroundWorker,
    SignalWakeFlags,
};

use super::policy;
use super::shared;
use crate::written_databases::{self, Database, VisitEnd};

/// Bound of the longest pause between two visits to a database with rows that are waiting. Within
/// it, the longest pause is the time for which rows cool, or a multiple of the duration of a visit
/// if that is longer.
const LONGEST_PAUSE_MS: i64 = 300_000;
const PAUSE_PER_VISIT: i64 = 20;
/// Pause after a worker has failed.
const FAILURE_PAUSE_MS: i64 = 60_000;

/// Registers the launcher. Call once, from `_PG_init`.
///
/// `pg_upgrade` reads the next transaction id of the old server before it starts it once more, and
/// gives it to the new one: what is moved in between would belong to transactions yet to come.
pub fn register() {
    if process::is_for_upgrade() {
        return;
    }
    BackgroundWorkerBuilder::new("howdah compaction launcher")
        .set_library("howdah")
        .set_function("howdah_compaction_launcher")
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(Some(Duration::from_secs(5)))
        .load();
}

/// What the launcher knows about one database.
struct Visits {
    worker: Option<DynamicBackgroundWorker>,
    began_ms: i64,
    due_ms: i64,
    pause_ms: i64,
}

background_worker_main!(howdah_compaction_launcher, launch);

fn launch(_argument: Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM);
    BackgroundWorker::connect_worker_to_spi(None, None);
    let mut visits: HashMap<u32, Visits> = HashMap::new();
    for database in connectable_databases() {
        if let Some(slot) = written_databases::database(database) {
            slot.written.store(true, Ordering::Relaxed);
        }
    }
    loop {
        let now_ms = process::now_ms();
        shared::add_sample(now_ms, wal::end());
        if policy::compaction() {
            start_workers(&mut visits, now_ms);
        }
        let nap = Duration::from_millis(policy::naptime_ms() as u64);
        if !BackgroundWorker::wait_latch(Some(nap)) {
            process::end_to_be_restarted();
        }
        howdah_bridge::check_for_interrupts!();
        if BackgroundWorker::sighup_received() {
            let before_ms = policy::naptime_ms();
            process::reload_settings();
            for visit in visits.values_mut() {
                visit.shorten(before_ms, policy::naptime_ms(), process::now_ms());
            }
        }
    }
}

impl Visits {
    /// A pause of one nap is no longer than the nap that is set now.
    fn shorten(&mut self, before_ms: i64, naptime_ms: i64, now_ms: i64) {
        if self.pause_ms <= before_ms {
            self.pause_ms = self.pause_ms.min(naptime_ms);
            self.due_ms = self.due_ms.min(now_ms + naptime_ms);
        }
    }
}

fn start_workers(visits: &mut HashMap<u32, Visits>, now_ms: i64) {
    for (oid, visit) in visits.iter_mut() {
        note_end(*oid, visit, now_ms);
    }
    publish_worker_count(visits);
    let is_due = |slot: &Database, visits: &HashMap<u32, Visits>| {
        let waiting = slot.written.load(Ordering::Relaxed) || slot.end() != VisitEnd::Settled;
        slot.oid() != 0
            && waiting
            && visits
                .get(&slot.oid())
                .is_none_or(|visit| visit.worker.is_none() && visit.due_ms <= now_ms)
    };
    let due: Vec<_> = written_databases::databases()
        .iter()
        .filter(|slot| is_due(slot, visits))
        .collect();
    if due.is_empty() {
        return;
    }
    let connectable = connectable_databases();
    for slot in due {
        let oid = slot.oid();
        if !connectable.contains(&oid) {
            slot.forget();
            visits.remove(&oid);
            continue;
        }
        if running(visits) >= policy::max_workers() {
            return;
        }
        slot.set_end(VisitEnd::Unknown);
        let worker = start_worker(oid);
        let visit = visits.entry(oid).or_insert(Visits {
            worker: None,
            began_ms: 0,
            due_ms: 0,
            pause_ms: policy::naptime_ms(),
        });
        visit.worker = worker;
        visit.began_ms = now_ms;
        visit.due_ms = now_ms + policy::naptime_ms();
        publish_worker_count(visits);
    }
}

fn running(visits: &HashMap<u32, Visits>) -> usize {
    visits.values().filter(|v| v.worker.is_some()).count()
}

/// Tells the workers how many of them share the budget of I/O.
fn publish_worker_count(visits: &HashMap<u32, Visits>) {
    shared::set_worker_count(running(visits));
}

/// `None` if no worker slot is free.
fn start_worker(database: u32) -> Option<DynamicBackgroundWorker> {
    BackgroundWorkerBuilder::new("howdah compaction worker")
        .set_library("howdah")
        .set_function("howdah_compaction_worker")
        .enable_spi_access()
        .set_argument(Oid::from(database).into_datum())
        .set_notify_pid(process::own_pid())
        .load_dynamic()
        .ok()
}

/// Sets the time of the next visit when a worker has ended.
fn note_end(oid: u32, visit: &mut Visits, now_ms: i64) {
    let Some(worker) = &visit.worker else { return };
    match worker.pid() {
        Err(pgrx::bgworkers::BackgroundWorkerStatus::Stopped) => {}
        _ => return,
    }
    visit.worker = None;
    let end = written_databases::databases()
        .iter()
        .find(|slot| slot.oid() == oid)
        .map_or(VisitEnd::Settled, Database::end);
    visit.pause_ms = pause_after(
        end,
        visit.pause_ms,
        now_ms - visit.began_ms,
        policy::naptime_ms(),
        policy::compact_after_ms(),
    );
    visit.due_ms = now_ms + visit.pause_ms;
}

/// The pause after a visit that ended so, and was noticed as ended after `took_ms`; `before_ms` was
/// the pause before it.
fn pause_after(
    end: VisitEnd,
    before_ms: i64,
    took_ms: i64,
    naptime_ms: i64,
    compact_after_ms: i64,
) -> i64 {
    match end {
        VisitEnd::Settled | VisitEnd::Moved => naptime_ms,
        VisitEnd::Waiting => {
            let spent_ms = (took_ms - naptime_ms).max(0);
            let longest_ms = (spent_ms * PAUSE_PER_VISIT)
                .max(compact_after_ms)
                .min(LONGEST_PAUSE_MS);
            (before_ms * 2).min(longest_ms).max(naptime_ms)
        }
        VisitEnd::Unknown => FAILURE_PAUSE_MS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_while_rows_wait_and_stay_within_their_bounds() {
        let waiting =
            |before_ms, took_ms| pause_after(VisitEnd::Waiting, before_ms, took_ms, 1_000, 60_000);
        assert_eq!(waiting(1_000, 0), 2_000);
        assert_eq!(waiting(40_000, 0), 60_000, "as long as rows cool");
        assert_eq!(waiting(100_000, 6_000), 100_000, "twenty times the visit");
        assert_eq!(waiting(400_000, 90_000), LONGEST_PAUSE_MS);
        assert_eq!(waiting(100, 0), 1_000, "no shorter than the launcher's nap");
    }

    #[test]
    fn a_shorter_nap_ends_pauses_of_one_nap() {
        let visit = |pause_ms| Visits {
            worker: None,
            began_ms: 0,
            due_ms: 900_000,
            pause_ms,
        };
        let mut visits = [visit(600_000), visit(FAILURE_PAUSE_MS), visit(700_000)];
        for visit in &mut visits {
            visit.shorten(600_000, 1_000, 5_000);
        }
        assert_eq!(visits.map(|visit| visit.due_ms), [6_000, 6_000, 900_000]);
        let mut visit = visit(1_000);
        visit.due_ms = 6_000;
        visit.shorten(1_000, 600_000, 5_500);
        assert_eq!(
            visit.due_ms, 6_000,
            "a longer nap comes after the next visit"
        );
    }

    #[test]
    fn a_visit_that_moved_rows_is_followed_soon_and_a_failed_one_later() {
        let after = |end| pause_after(end, 50_000, 5_000, 1_000, 60_000);
        assert_eq!(after(VisitEnd::Moved), 1_000);
        assert_eq!(after(VisitEnd::Settled), 1_000);
        assert_eq!(after(VisitEnd::Unknown), FAILURE_PAUSE_MS);
    }
}
