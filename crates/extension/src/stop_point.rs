//! Named steps at which tests stop or kill a backend.
//!
//! `stop_point!("name")` does nothing unless a setting names it. `howdah.debug_stop_point` makes
//! the backend take and release the advisory lock [`STOP_LOCK_KEY`], so a test that holds
//! `pg_advisory_lock(7468)` decides when it goes on. `howdah.debug_crash_point` makes the backend
//! kill itself with SIGKILL, which takes the server through crash recovery.

use std::ffi::CString;

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;

/// Key of the advisory lock that holds a stopped backend.
const STOP_LOCK_KEY: u32 = 7468;
/// `LOCKTAG_ADVISORY` and `USER_LOCKMETHOD`.
const ADVISORY: (u8, u8) = (10, 2);

static STOP_POINT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static CRASH_POINT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);

/// Defines the two settings. Call once, from `_PG_init`.
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
}

fn names(setting: &GucSetting<Option<CString>>, point: &str) -> bool {
    setting
        .get()
        .is_some_and(|name| name.as_bytes() == point.as_bytes())
}

/// What `stop_point!` calls.
pub fn pass(point: &str) {
    if names(&CRASH_POINT, point) {
        // SAFETY: kills this process, at once and without cleaning up, which is the purpose.
        unsafe { howdah_bridge::ffi::kill(pg_sys::MyProcPid, 9) };
    }
    if names(&STOP_POINT, point) {
        let tag = pg_sys::LOCKTAG {
            // SAFETY: plain read of a global.
            locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
            locktag_field2: 0,
            locktag_field3: STOP_LOCK_KEY,
            locktag_field4: 1,
            locktag_type: ADVISORY.0,
            locktag_lockmethodid: ADVISORY.1,
        };
        let mode = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
        // SAFETY: an advisory lock of the session, released at once; waiting for it can be
        // cancelled as usual.
        unsafe {
            pg_sys::LockAcquire(&tag, mode, true, false);
            pg_sys::LockRelease(&tag, mode, true);
        }
    }
}

/// A step that tests can stop or kill a backend at.
#[macro_export]
macro_rules! stop_point {
    ($name:literal) => {
        $crate::stop_point::pass($name)
    };
}
