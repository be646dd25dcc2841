//! Entry points of background workers.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::{ffi, io_cost, proc_flags};

/// Defines the function by which the server starts a background worker: it calls `$main` with the
/// worker's argument.
#[macro_export]
macro_rules! background_worker_main {
    ($name:ident, $main:path) => {
        #[pgrx::pg_guard]
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name(argument: $crate::Datum) {
            $main(argument)
        }
    };
}

/// What the configuration, the database or the role may set, and does not hold for maintenance that
/// goes on by itself: the same as in autovacuum's workers.
const SETTINGS: [(&CStr, &str); 7] = [
    (c"zero_damaged_pages", "false"),
    (c"statement_timeout", "0"),
    (c"transaction_timeout", "0"),
    (c"lock_timeout", "0"),
    (c"idle_in_transaction_session_timeout", "0"),
    (c"default_transaction_isolation", "read committed"),
    (c"stats_fetch_consistency", "none"),
];

/// Begins a background worker of one database that counts as an autovacuum worker, and runs as the
/// bootstrap superuser. SIGTERM ends it where it next checks for interrupts.
pub fn begin_maintenance_worker(database: pg_sys::Oid) {
    // SAFETY: the start of a background worker's life, in the order that bgworker.h asks for.
    unsafe {
        ffi::pqsignal_be(pg_sys::SIGTERM as i32, Some(ffi::die));
        let reload = ffi::SignalHandlerForConfigReload;
        ffi::pqsignal_be(pg_sys::SIGHUP as i32, Some(reload));
        pg_sys::BackgroundWorkerUnblockSignals();
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
        for (name, value) in SETTINGS {
            io_cost::set(name, value);
        }
        proc_flags::count_as_autovacuum();
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, c"compaction".as_ptr());
    }
}
