//! The I/O that the buffer manager counts for this process, and the limits that VACUUM's code obeys
//! (`vacuum_cost_delay` and related settings).

use std::ffi::CStr;

use pgrx::pg_sys;

/// Makes each page that is read from disk or made dirty count one, and lets `vacuum_delay_point`
/// sleep for `delay_ms` after each `pages`; no limit if the delay is 0. For background workers: the
/// settings are those of the process.
pub fn limit(pages: i32, delay_ms: f64) {
    set(c"vacuum_cost_page_hit", "0");
    set(c"vacuum_cost_page_miss", "1");
    set(c"vacuum_cost_page_dirty", "1");
    set(c"vacuum_cost_limit", &pages.to_string());
    set(c"vacuum_cost_delay", &delay_ms.to_string());
    // SAFETY: copies the settings; no VACUUM is running in this process.
    unsafe { pg_sys::VacuumUpdateCosts() }
}

/// Overrides a setting for this process' life.
pub(crate) fn set(name: &CStr, value: &str) {
    let value = std::ffi::CString::new(value).unwrap_or_default();
    // SAFETY: both strings are copied.
    unsafe {
        pg_sys::SetConfigOption(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        );
    }
}

/// The time to sleep for the I/O counted since the last sleep, in milliseconds. The count is then
/// reset.
pub fn take_delay_ms() -> f64 {
    // SAFETY: plain reads and writes of this process' own counters.
    unsafe {
        let (balance, limit) = (pg_sys::VacuumCostBalance, pg_sys::vacuum_cost_limit.max(1));
        if !pg_sys::VacuumCostActive || balance < limit {
            return 0.0;
        }
        pg_sys::VacuumCostBalance = 0;
        delay_of(balance, limit, pg_sys::vacuum_cost_delay)
    }
}

/// The time that a balance of I/O takes at a limit for each delay, in milliseconds.
fn delay_of(balance: i32, limit: i32, delay_ms: f64) -> f64 {
    delay_ms * f64::from(balance) / f64::from(limit)
}

/// Sleeps, for ANALYZE, if the I/O counted so far exceeds the limit; serves interrupts.
pub fn analyze_delay_point() {
    // SAFETY: a call of the server's own, which sleeps or raises an ERROR.
    unsafe { pg_sys::vacuum_delay_point(true) }
}

/// Sleeps as VACUUM does, or until the latch is set.
pub fn sleep_ms(ms: f64) {
    let wakes = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: waits for this process' own latch.
    unsafe {
        pg_sys::WaitLatch(
            pg_sys::MyLatch,
            wakes as i32,
            ms.ceil() as std::ffi::c_long,
            pg_sys::WaitEventTimeout::WAIT_EVENT_VACUUM_DELAY,
        );
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_exceeds_the_limit_is_slept_for() {
        assert_eq!(delay_of(200, 200, 10.0), 10.0);
        assert_eq!(delay_of(2_100, 200, 10.0), 105.0, "nothing is forgiven");
        assert_eq!(delay_of(i32::MAX, 1, 0.0), 0.0, "no limit");
    }
}
