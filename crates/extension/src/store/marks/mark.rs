//! A mark: what a transaction has done to a cold row.

use howdah_bridge::tid::Tid;
use howdah_bridge::xid::{CommandId, Xid};

/// The change that a mark records.
pub type RowFate = howdah_records::RowFate<Tid>;

/// A mark in force: of our own transaction, or of a committed one.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub fate: RowFate,
    pub xid: Xid,
    /// The command that wrote it, if that was a command of our own transaction.
    pub own: Option<CommandId>,
}
