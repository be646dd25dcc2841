//! Visibility of a tuple that the store shows.

use howdah_bridge::store::Visited;
use howdah_bridge::xid::{CommandId, Xid};

/// Whether the tuple shown is in force now: of our own transaction, whatever the command, or
/// committed; and not replaced.
pub(in crate::store) fn in_force(shown: &Visited<'_>) -> bool {
    shown.tuple.is_in_force()
}

/// Transaction and, for our own, command that wrote the tuple shown.
pub(in crate::store) fn writer_of(shown: &Visited<'_>) -> (Xid, Option<CommandId>) {
    shown.tuple.writer()
}
