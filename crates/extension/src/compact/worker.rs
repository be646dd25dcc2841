//! The worker of one database: visits its howdah tables once and ends.
//!
//! ```text
//!   table ─ too few rows ────────────────────────────────> settled
//!         ─ not quiet for long enough, or locked ────────> waiting
//!         ─ quiet: vacuum if pages are not all-visible ─> compact ─> vacuum
//!         ─ in any case: freeze what is new in the cold store
//! ```
//!
//! Of a large table it looks at a part at each visit ([`super::survey`]); its I/O is limited ([`super::throttle`]). Tables
//! that belong to other extensions are left alone: what these may rely on is not known here.
//!
//! It counts as an autovacuum worker (`PROC_IS_AUTOVACUUM`), which is what it is to others: a
//! lock request that it blocks cancels it after `deadlock_timeout` if it has not yielded before,
//! and DROP DATABASE and the like terminate it instead of failing.
//!
//! An error on one table (an index expression that fails for a row, say) is logged, and the next table
//! is visited. The table is then left alone for a minute, after each further failure for twice as long,
//! up to an hour, or until `CALL howdah.compact()` has succeeded. Yielding to others is no failure.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;

use howdah_bridge::catalog::for_each_row;
use howdah_bridge::ffi;
use howdah_bridge::proc_flags;
use howdah_bridge::relation::main_fork_blocks;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgSqlErrorCode, PgTryBuilder, pg_guard, pg_sys};

use super::policy::{self, Policy};
use super::progress::Progress;
use super::shared::{self, VisitEnd};
use super::survey::{Survey, survey};
use super::table::{StepTable, Task, compact};
use super::throttle;
use super::transactions::Transactions;
use super::vacuum::{freeze_cold_store, vacuum};

const TX: Transactions = Transactions::Worker;
/// `MaxHeapTuplesPerPage`.
const MOST_ROWS_PER_PAGE: u64 = 291;
/// Vacuum first if more than one in so many quiet pages is not all-visible.
const INVISIBLE_SHARE: u32 = 20;
/// Of a table that is looked at in parts, VACUUM reads all pages that are not all-visible. At least one in so many of them is
/// to gain by it.
const GAINING_SHARE: u32 = 8;

#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn howdah_compaction_worker(database: pg_sys::Datum) {
    let oid = pg_sys::Oid::from(database.value() as u32);
    // SAFETY: the start of a background worker's life, in the order that bgworker.h asks for.
    unsafe {
        ffi::pqsignal_be(pg_sys::SIGTERM as i32, Some(ffi::die));
        let reload = ffi::SignalHandlerForConfigReload;
        ffi::pqsignal_be(pg_sys::SIGHUP as i32, Some(reload));
        pg_sys::BackgroundWorkerUnblockSignals();
        pg_sys::BackgroundWorkerInitializeConnectionByOid(oid, pg_sys::InvalidOid, 0);
        proc_flags::count_as_autovacuum();
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, c"compaction".as_ptr());
    }
    let Some(slot) = shared::database(oid.to_u32()) else {
        return;
    };
    slot.written.store(false, Ordering::Relaxed);
    let mut end = VisitEnd::Settled;
    for table in howdah_tables() {
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

/// Runs `work` between the start and the end of a transaction that it may end and start anew.
fn in_transaction<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: no transaction is running.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
    }
    let result = work();
    // SAFETY: `work` leaves a transaction running and no snapshot active.
    unsafe { pg_sys::CommitTransactionCommand() };
    result
}

/// Tables and materialized views of our access method, except temporary ones and those of extensions.
fn howdah_tables() -> Vec<pg_sys::Oid> {
    in_transaction(|| {
        // SAFETY: a lookup by name.
        let method = unsafe { pg_sys::get_am_oid(c"howdah".as_ptr(), true) };
        let mut tables = Vec::new();
        if method == pg_sys::InvalidOid {
            return tables;
        }
        // SAFETY: a transaction is running; this is the row type of pg_class.
        unsafe {
            for_each_row(
                pg_sys::RelationRelationId,
                |form: &pg_sys::FormData_pg_class| {
                    let kind = form.relkind as u8;
                    if form.relam == method
                        && (kind == pg_sys::RELKIND_RELATION || kind == pg_sys::RELKIND_MATVIEW)
                        && form.relpersistence as u8 != pg_sys::RELPERSISTENCE_TEMP
                    {
                        tables.push(form.oid);
                    }
                },
            );
            tables.retain(|&table| {
                let owner = pg_sys::getExtensionOfObject(pg_sys::RelationRelationId, table);
                owner == pg_sys::InvalidOid
            });
        }
        tables
    })
}

/// Visits a table; an error is logged and ends the visit.
fn visit_catching(table: pg_sys::Oid) -> VisitEnd {
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
        // SAFETY: the failed transaction is cleaned up before anything else is done.
        unsafe { pg_sys::AbortCurrentTransaction() };
        pgrx::log!(
            "compaction of the table with OID {} was given up, to be tried again after {pause_s} s: {report}",
            table.to_u32()
        );
        VisitEnd::Waiting
    })
    .execute()
}

/// Whether the error is how a worker gives way to others.
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

fn now_ms() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() / 1000 }
}

fn visit(table: pg_sys::Oid) -> VisitEnd {
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

fn visit_hot_side(table: pg_sys::Oid, policy: Policy) -> VisitEnd {
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

/// Whether as large a part of what VACUUM would read was moved. Else the dead versions are left to autovacuum, which knows of them.
fn is_vacuum_worthwhile(table: pg_sys::Oid, moved_rows: u64) -> bool {
    let Some(step) = StepTable::open(table, false) else {
        return false;
    };
    // SAFETY: the table is open and locked.
    unsafe {
        let mut visible = 0;
        pg_sys::visibilitymap_count(step.raw(), &mut visible, std::ptr::null_mut());
        let invisible = main_fork_blocks(step.raw()).saturating_sub(visible);
        moved_rows >= u64::from(invisible / GAINING_SHARE) * MOST_ROWS_PER_PAGE / 4
    }
}

enum Look {
    Found(Survey),
    /// The table is small, gone or not ours.
    TooFew,
    Locked,
}

fn look(table: pg_sys::Oid, policy: &Policy) -> Look {
    let Some(step) = StepTable::open(table, false) else {
        return Look::Locked;
    };
    // SAFETY: the table is open and locked.
    unsafe {
        let most_rows = u64::from(main_fork_blocks(step.raw())) * MOST_ROWS_PER_PAGE;
        if most_rows < u64::from(policy.min_rows) {
            return Look::TooFew;
        }
        match shared::lsn_before(now_ms() - policy.compact_after_ms) {
            Some(lsn) => {
                let place = shared::place(table);
                Look::Found(survey(step.raw(), lsn, place, policy.min_rows))
            }
            None => Look::Locked,
        }
    }
}
