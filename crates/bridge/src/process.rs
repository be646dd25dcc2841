//! This process, and what it knows of others.

use std::time::Duration;

use pgrx::pg_sys;

/// The process id.
pub fn own_pid() -> i32 {
    // SAFETY: plain read of a global.
    unsafe { pg_sys::MyProcPid }
}

/// The time now, in milliseconds since 2000.
pub fn now_ms() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() / 1000 }
}

/// Sleeps, or until a signal comes: `pg_usleep`. No lock may be held that others wait for.
pub fn sleep(time: Duration) {
    // SAFETY: a plain sleep.
    unsafe { pg_sys::pg_usleep(time.as_micros() as std::ffi::c_long) }
}

/// The role of a running backend; `None` if there is no such process.
pub fn role_of(pid: i32) -> Option<pg_sys::Oid> {
    // SAFETY: looks a process up in shared memory, which its entry never leaves.
    unsafe {
        let process = pg_sys::BackendPidGetProc(pid);
        (!process.is_null()).then(|| (*process).roleId)
    }
}

/// Whether the running user may see what a process of that role is doing: it has the role's rights, or those of
/// `pg_read_all_stats`.
pub fn may_see_activity_of(role: pg_sys::Oid) -> bool {
    // SAFETY: catalog lookups.
    unsafe {
        let user = pg_sys::GetUserId();
        let monitors = pg_sys::Oid::from(pg_sys::ROLE_PG_READ_ALL_STATS);
        pg_sys::has_privs_of_role(user, monitors) || pg_sys::has_privs_of_role(user, role)
    }
}

/// Reads the configuration files again, in a background worker, if that was asked for. To be called outside of any
/// user's statement.
pub fn reload_settings_if_asked() {
    // SAFETY: as this function asks.
    unsafe {
        if pg_sys::ConfigReloadPending != 0 {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
}

/// Reads the configuration files again. To be called outside of a transaction.
pub fn reload_settings() {
    // SAFETY: as this function asks.
    unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) }
}
