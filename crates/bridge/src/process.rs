//! This process, and other processes of the server.

use std::ffi::CStr;
use std::time::Duration;

use pgrx::pg_sys;

use crate::ffi;

/// The process id.
pub fn own_pid() -> i32 {
    // SAFETY: plain read of a global.
    unsafe { pg_sys::MyProcPid }
}

/// Whether this is a worker, of autovacuum or of an extension, and no session of a user.
pub fn is_worker() -> bool {
    // SAFETY: plain read of a global.
    unsafe { pg_sys::MyBackendType != pg_sys::BackendType::B_BACKEND }
}

/// Whether the postmaster is loading `shared_preload_libraries`.
pub fn is_preloading() -> bool {
    // SAFETY: plain read of a global.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Ends this background worker; unless the server stops, it starts it again. One that ends without
/// a complaint would be gone for good.
pub fn end_to_be_restarted() -> ! {
    // SAFETY: ends the process in order, as the server's own launchers do.
    unsafe { pg_sys::proc_exit(1) };
    unreachable!("the process has ended")
}

/// Whether the server runs for `pg_upgrade`, under which nothing may take transaction ids on its
/// own.
pub fn is_for_upgrade() -> bool {
    // SAFETY: plain read of a global, set before libraries are loaded.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Refuses settings of this prefix that were not defined so far, in the configuration and by `SET`,
/// as `MarkGUCPrefixReserved` does. Call once, while the postmaster loads libraries.
pub fn refuse_other_settings(prefix: &CStr) {
    // SAFETY: copies the name, which is NUL-terminated.
    unsafe { pg_sys::MarkGUCPrefixReserved(prefix.as_ptr()) }
}

/// Raises an ERROR in a transaction that must not write; `command` is named in it.
pub fn prevent_if_read_only(command: &CStr) {
    // SAFETY: raises an ERROR or does nothing; the name is NUL-terminated.
    unsafe { pg_sys::PreventCommandIfReadOnly(command.as_ptr()) }
}

/// Raises an ERROR during a parallel operation; `command` is named in it.
pub fn prevent_if_parallel(command: &CStr) {
    // SAFETY: as for `prevent_if_read_only`.
    unsafe { pg_sys::PreventCommandIfParallelMode(command.as_ptr()) }
}

/// Ends this process with SIGKILL, so that the server performs crash recovery. For tests.
pub fn crash() {
    // SAFETY: kills this process, at once and without cleaning up, which is the purpose.
    unsafe { ffi::kill(own_pid(), 9) };
}

/// The time now, in milliseconds since 2000.
pub fn now_ms() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() / 1000 }
}

/// Sleeps until the time is over or a signal arrives: `pg_usleep`. No lock may be held for which
/// other backends wait.
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

/// Whether the current user may see what a process of that role is doing: it has the rights of the
/// role, or of `pg_read_all_stats`.
pub fn may_see_activity_of(role: pg_sys::Oid) -> bool {
    // SAFETY: catalog lookups.
    unsafe {
        let user = pg_sys::GetUserId();
        let monitors = pg_sys::Oid::from(pg_sys::ROLE_PG_READ_ALL_STATS);
        pg_sys::has_privs_of_role(user, monitors) || pg_sys::has_privs_of_role(user, role)
    }
}

/// Reads the configuration files again, in a background worker, if a reload was requested. To be
/// called outside of any user's statement.
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

/// Whether this process applies the changes of a subscription.
pub fn applies_changes() -> bool {
    // SAFETY: plain read of this backend's state.
    unsafe { pg_sys::IsLogicalWorker() }
}

/// Whether interrupts are held off, as while a lock on a page is held: to wait for another session
/// now could not be ended, and its deadlock would not be noticed.
pub fn is_uninterruptible() -> bool {
    // SAFETY: plain read of this backend's state.
    unsafe { pg_sys::InterruptHoldoffCount > 0 }
}
