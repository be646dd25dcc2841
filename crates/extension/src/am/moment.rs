//! A command of a transaction: what is remembered for one is not good for another.

use howdah_bridge::xid::{CommandId, LocalXid, current_command};

/// Which command of which transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    transaction: LocalXid,
    command: CommandId,
}

impl Moment {
    pub fn now() -> Moment {
        Moment {
            transaction: LocalXid::current(),
            command: current_command(),
        }
    }
}
