//! Identifies a command of a transaction: what is remembered for one command is not valid for
//! another.

use howdah_bridge::xid::{CommandId, LocalXid, current_command};

/// The running command and its transaction.
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
