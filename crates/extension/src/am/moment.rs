//! Identifies a command of a transaction: what is remembered for one command is not valid for
//! another.

use howdah_bridge::ffi::quiet;
use pgrx::pg_sys;

/// The running command and its transaction.
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
