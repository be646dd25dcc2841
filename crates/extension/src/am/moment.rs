//! A command of a transaction: what is remembered for one is not good for another.

use howdah_bridge::ffi::quiet;
use pgrx::pg_sys;

/// Which command of which transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    transaction: pg_sys::LocalTransactionId,
    command: pg_sys::CommandId,
}

impl Moment {
    pub fn now() -> Moment {
        // SAFETY: plain reads of this backend's state.
        unsafe {
            Moment {
                transaction: (*pg_sys::MyProc).vxid.lxid,
                command: quiet::GetCurrentCommandId(false),
            }
        }
    }
}
