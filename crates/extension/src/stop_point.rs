//! Named steps at which tests stop or kill a backend.
//!
//! `stop_point!("name")` does nothing unless a setting names it. `howdah.debug_stop_point` makes
//! the backend take and release the advisory lock [`STOP_LOCK_KEY`], so a test that holds
//! `pg_advisory_lock(7468)` decides when it goes on. `howdah.debug_crash_point` makes the backend
//! kill itself with SIGKILL, which takes the server through crash recovery.
//! `howdah.debug_panic_point` makes a thread panic.

use std::ffi::CString;

use howdah_bridge::{advisory_lock, process};
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

/// Key of the advisory lock that holds a stopped backend.
const STOP_LOCK_KEY: u32 = 7468;

static STOP_POINT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static CRASH_POINT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static PANIC_POINT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);

/// Defines the settings. Call once, from `_PG_init`.
pub fn register() {
    GucRegistry::define_string_guc(
        c"howdah.debug_stop_point",
        c"Step at which a backend waits for the advisory lock 7468.",
        c"For tests only.",
        &STOP_POINT,
        GucContext::Suset,
        GucFlags::NO_SHOW_ALL,
    );
    GucRegistry::define_string_guc(
        c"howdah.debug_crash_point",
        c"Step at which a backend kills itself.",
        c"For tests only: the server goes through crash recovery.",
        &CRASH_POINT,
        GucContext::Suset,
        GucFlags::NO_SHOW_ALL,
    );
    GucRegistry::define_string_guc(
        c"howdah.debug_panic_point",
        c"Step at which a thread panics.",
        c"For tests only: the statement ends with an error.",
        &PANIC_POINT,
        GucContext::Suset,
        GucFlags::NO_SHOW_ALL,
    );
}

fn names(setting: &GucSetting<Option<CString>>, point: &str) -> bool {
    setting
        .get()
        .is_some_and(|name| name.as_bytes() == point.as_bytes())
}

/// Whether a thread is to panic at this step. Asked on the main thread, because threads read no
/// settings.
pub fn panics_at(point: &str) -> bool {
    names(&PANIC_POINT, point)
}

/// What `stop_point!` calls.
pub fn pass(point: &str) {
    if names(&CRASH_POINT, point) {
        process::crash();
    }
    if names(&STOP_POINT, point) {
        advisory_lock::wait_for(STOP_LOCK_KEY);
    }
}

/// A step that tests can stop or kill a backend at.
#[macro_export]
macro_rules! stop_point {
    ($name:literal) => {
        $crate::stop_point::pass($name)
    };
}
