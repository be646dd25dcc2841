//! What a compaction is to do, and the table opened for one step of it.

use std::rc::Rc;

use howdah_bridge::Oid;
use howdah_bridge::maintained::{MaintainedTable, Purpose};

use super::policy::Policy;
use super::survey::BlockSet;
use crate::am;

/// Opens a table for a step. `None` if it was dropped, is not ours to compact, or (unless `wait`)
/// is locked. To be called at the start of a transaction.
pub fn open(table: Oid, wait: bool) -> Option<MaintainedTable> {
    open_for(table, wait, Purpose::Any)
}

/// As [`open`], for a purpose.
pub fn open_for(table: Oid, wait: bool, purpose: Purpose) -> Option<MaintainedTable> {
    MaintainedTable::open(table, wait, purpose, am::is_ours)
}

/// What a compaction is to do.
#[derive(Clone, Debug)]
pub struct Task {
    pub table: Oid,
    pub policy: Policy,
    /// Pages that may be moved; `None`: every page.
    pub quiet: Option<Rc<BlockSet>>,
    /// Whether to wait for the table's lock, and to continue after other backends had it.
    pub patient: bool,
}
