//! The worker of one database: visits its howdah tables once and ends.
//!
//! ```text
//!   table ─ too few rows ────────────────────────────────> settled
//!         ─ not quiet for long enough, or locked ────────> waiting
//!         ─ quiet: vacuum if pages are not all-visible ─> compact ─> vacuum
//!         ─ in any case: freeze what is new in the cold store
//! ```
//!
//! Of a large table it examines a part at each visit ([`super::survey`]); its I/O is limited
//! ([`super::throttle`]). Tables that belong to other extensions are left alone, because it is not
//! known what those extensions rely on.
//!
//! It counts as an autovacuum worker (`PROC_IS_AUTOVACUUM`): a lock request that it blocks cancels
//! it after `deadlock_timeout` unless it has yielded before, and DROP DATABASE and similar commands
//! terminate it instead of failing.
//!
//! An error on one table (in an index expression, for instance) is logged, and the next table is
//! visited. The failed table is left alone for a minute, and after each further failure for twice
//! as long, up to an hour, or until `CALL howdah.compact()` has succeeded. Yielding is no failure.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;

use howdah_bridge::background::begin_maintenance_worker;
use howdah_bridge::catalog::tables_of;
use howdah_bridge::process::now_ms;
use howdah_bridge::transactions::{self, Transactions, in_transaction};
use howdah_bridge::vacuum::visible_pages;
use howdah_bridge::{CaughtError, Datum, Oid, background_worker_main};
use pgrx::{PgSqlErrorCode, PgTryBuilder};

use super::policy::{self, Policy};
use super::progress::Progress;
use super::shared;
use super::survey::{Survey, survey};
use super::table::compact;
use super::task::{Task, open};
use super::throttle;
use super::vacuum::{freeze_cold_store, vacuum};
use crate::written_databases::{self, VisitEnd};

const TX: Transactions = Transactions::Worker;
/// `MaxHeapTuplesPerPage`.
const MOST_ROWS_PER_PAGE: u64 = 291;
/// Vacuum first if more than one in this many quiet pages is not all-visible.
const INVISIBLE_SHARE: u32 = 20;
/// Of a table that is examined in parts, VACUUM reads all pages that are not all-visible. It is
/// called if at least one in this many of them gains by it.
const GAINING_SHARE: u32 = 8;

background_worker_main!(howdah_compaction_worker, work);

fn work(database: Datum) {
    let oid = Oid::from(database.value() as u32);
    begin_maintenance_worker(oid);
    let Some(slot) = written_databases::database(oid.to_u32()) else {
        return;
    };
    slot.written.store(false, Ordering::Relaxed);
    let mut end = VisitEnd::Settled;
    for table in in_transaction(|| tables_of(c"howdah")) {
        if !policy::compaction() {
            break;
        }
        let visited = visit_catching(table);
        if visited as u32 > end as u32 {
            end = visited;
        }
    }
    slot.set_end(end);
}

/// Visits a table; an error is logged and ends the visit.
fn visit_catching(table: Oid) -> VisitEnd {
    if shared::is_left_alone(table, now_ms()) {
        return VisitEnd::Waiting;
    }
    PgTryBuilder::new(AssertUnwindSafe(|| {
        let end = in_transaction(|| visit(table));
        if end != VisitEnd::Waiting {
            shared::forget_failure(table);
        }
        end
    }))
    .catch_others(|error| {
        let report = match &error {
            CaughtError::PostgresError(report)
            | CaughtError::ErrorReport(report)
            | CaughtError::RustPanic {
                ereport: report, ..
            } => report,
        };
        let pause_s = if is_yielding(report.sql_error_code()) {
            0
        } else {
            shared::note_failure(table, now_ms()) / 1000
        };
        let report = report.message().to_owned();
        // The failed transaction is aborted before anything else is done.
        transactions::abort();
        pgrx::log!(
            "compaction of the table with OID {} was given up, to be tried again after {pause_s} s: {report}",
            table.to_u32()
        );
        VisitEnd::Waiting
    })
    .execute()
}

/// Whether the error is how a worker yields to another backend.
fn is_yielding(code: PgSqlErrorCode) -> bool {
    use PgSqlErrorCode::*;
    matches!(
        code,
        ERRCODE_QUERY_CANCELED
            | ERRCODE_LOCK_NOT_AVAILABLE
            | ERRCODE_T_R_DEADLOCK_DETECTED
            | ERRCODE_ADMIN_SHUTDOWN
    )
}

fn visit(table: Oid) -> VisitEnd {
    throttle::refresh();
    let policy = policy::of(table);
    if !policy.enabled {
        return VisitEnd::Settled;
    }
    let end = visit_hot_side(table, policy);
    TX.commit();
    match (end, freeze_cold_store(table, false)) {
        (VisitEnd::Settled, false) => VisitEnd::Waiting,
        (end, _) => end,
    }
}

fn visit_hot_side(table: Oid, policy: Policy) -> VisitEnd {
    let found = match look(table, &policy) {
        Look::TooFew => return VisitEnd::Settled,
        Look::Locked => return VisitEnd::Waiting,
        Look::Found(found) => found,
    };
    TX.commit();
    if found
        .rows
        .is_some_and(|rows| rows < u64::from(policy.min_rows))
    {
        return VisitEnd::Settled;
    }
    if found.quiet_rows < u64::from(policy.min_rows) {
        return VisitEnd::Waiting;
    }
    let progress = Progress::start(table);
    if found.invisible > found.quiet.len() / INVISIBLE_SHARE {
        if found.is_partial && found.invisible < found.all_invisible / GAINING_SHARE {
            return VisitEnd::Waiting;
        }
        vacuum(table, false);
        TX.commit();
    }
    let is_partial = found.is_partial;
    let task = Task {
        table,
        policy,
        quiet: Some(found.quiet),
        patient: false,
    };
    let tally = compact(&task, TX, &progress);
    if tally.moved_rows == 0 {
        return VisitEnd::Waiting;
    }
    if !is_partial || is_vacuum_worthwhile(table, tally.moved_rows) {
        TX.commit();
        vacuum(table, false);
    }
    TX.commit();
    VisitEnd::Moved
}

/// Whether a sufficient share of what VACUUM would read was moved. Otherwise the dead versions are
/// left to autovacuum, which has counted them.
fn is_vacuum_worthwhile(table: Oid, moved_rows: u64) -> bool {
    let Some(step) = open(table, false) else {
        return false;
    };
    let table = step.table();
    let invisible = (table.main_fork_blocks()).saturating_sub(visible_pages(table).all_visible);
    gains_enough(invisible, moved_rows)
}

/// Whether enough rows were moved for a VACUUM that reads so many pages. Pages are taken to be a
/// quarter as full as they can be.
fn gains_enough(read_pages: u32, moved_rows: u64) -> bool {
    moved_rows >= u64::from(read_pages / GAINING_SHARE) * MOST_ROWS_PER_PAGE / 4
}

enum Look {
    Found(Survey),
    /// The table is small, was dropped, or is not a howdah table.
    TooFew,
    Locked,
}

fn look(table: Oid, policy: &Policy) -> Look {
    let Some(step) = open(table, false) else {
        return Look::Locked;
    };
    let most_rows = u64::from(step.table().main_fork_blocks()) * MOST_ROWS_PER_PAGE;
    if most_rows < u64::from(policy.min_rows) {
        return Look::TooFew;
    }
    match shared::lsn_before(now_ms() - policy.compact_after_ms) {
        Some(lsn) => {
            let place = shared::place(table);
            Look::Found(survey(step.table(), lsn, place, policy.min_rows))
        }
        None => Look::Locked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vacuum_is_worth_an_eighth_of_the_pages_that_it_reads() {
        assert!(gains_enough(0, 0), "it reads nothing");
        assert!(gains_enough(800, 7_275));
        assert!(!gains_enough(800, 7_274));
        assert!(!gains_enough(u32::MAX, 1 << 32), "no overflow");
    }
}
