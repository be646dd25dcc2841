//! The wait event under which the main thread waits for the engine's threads.

use std::sync::OnceLock;

use pgrx::pg_sys;

/// Shows the wait event in `pg_stat_activity`, with type `Extension`, until it is dropped.
pub struct Waiting(());

impl Waiting {
    /// Begins the wait. The name is registered at first use, which takes a lock and may raise an
    /// ERROR.
    pub fn begin() -> Waiting {
        static EVENT: OnceLock<u32> = OnceLock::new();
        let event = *EVENT.get_or_init(|| {
            // SAFETY: called by the main thread; an ERROR unwinds and leaves the cell empty.
            unsafe { pg_sys::WaitEventExtensionNew(c"HowdahVectorized".as_ptr()) }
        });
        report(event);
        Waiting(())
    }
}

impl Waiting {
    /// Ends the wait that is shown, if any, because the main thread has work.
    pub fn interrupt() {
        report(0);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        report(0);
    }
}

/// `pgstat_report_wait_start`, and `_end` with 0: they are inline in PostgreSQL, too.
fn report(event: u32) {
    // SAFETY: points to a word of this process in shared memory, or to one of its own, ever since
    // the process started. Others read it at any time.
    unsafe { std::ptr::write_volatile(pg_sys::my_wait_event_info, event) };
}
