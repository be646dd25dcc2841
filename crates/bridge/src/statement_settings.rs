//! A setting that is changed while one utility statement runs.

use std::ffi::{CStr, c_int};

use pgrx::pg_sys;

/// Changes a setting until [`restore`]; an abort restores it as well.
///
/// # Safety
/// In a transaction, of a setting that each user may change and a valid value.
pub(crate) unsafe fn change(setting: &CStr, value: &CStr) -> c_int {
    // SAFETY: as for this function.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        pg_sys::set_config_option(
            setting.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
        level
    }
}

/// Restores what was changed at this level.
///
/// # Safety
/// The statement has ended without an ERROR; `level` is what [`change`] returned.
#[pgrx::pg_guard]
pub(crate) unsafe extern "C-unwind" fn restore(level: c_int) {
    // SAFETY: as for this function.
    unsafe { pg_sys::AtEOXact_GUC(true, level) }
}
