//! Requests of the executor to change or lock a row, and their results.
//!
//! These are the server's own types (`access/tableam.h`, `nodes/lockoptions.h`), one to one, as
//! values that need no pointer. Callbacks convert them once, at their edge.

use pgrx::pg_sys;

use crate::cold_lock::RowLock;
use crate::snapshot::Snapshot;
use crate::tid::Tid;
use crate::xid::{CommandId, INVALID_COMMAND, Xid};

/// The result of a request: `TM_Result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowResult {
    Ok,
    /// No version of it is visible to the command.
    Invisible,
    /// The current command, or one that it runs inside, has changed it.
    SelfModified,
    Updated,
    Deleted,
    /// A transaction in progress is changing it, and the request does not wait.
    BeingModified,
    /// Another transaction holds a lock on it, and the request does not wait.
    WouldBlock,
}

impl RowResult {
    pub fn from_raw(result: pg_sys::TM_Result::Type) -> RowResult {
        match result {
            pg_sys::TM_Result::TM_Ok => RowResult::Ok,
            pg_sys::TM_Result::TM_Invisible => RowResult::Invisible,
            pg_sys::TM_Result::TM_SelfModified => RowResult::SelfModified,
            pg_sys::TM_Result::TM_Updated => RowResult::Updated,
            pg_sys::TM_Result::TM_Deleted => RowResult::Deleted,
            pg_sys::TM_Result::TM_BeingModified => RowResult::BeingModified,
            _ => RowResult::WouldBlock,
        }
    }

    pub fn raw(self) -> pg_sys::TM_Result::Type {
        use pg_sys::TM_Result::*;
        match self {
            RowResult::Ok => TM_Ok,
            RowResult::Invisible => TM_Invisible,
            RowResult::SelfModified => TM_SelfModified,
            RowResult::Updated => TM_Updated,
            RowResult::Deleted => TM_Deleted,
            RowResult::BeingModified => TM_BeingModified,
            RowResult::WouldBlock => TM_WouldBlock,
        }
    }
}

/// Why a row cannot be changed or locked, and where to continue: `TM_FailureData`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFailure {
    /// The next version, or the row's own place.
    pub ctid: Tid,
    /// The transaction that changed it.
    pub xmax: Xid,
    /// The command that changed it, if it was our own.
    pub cmax: CommandId,
    /// Whether an update was followed.
    pub traversed: bool,
}

impl Default for RowFailure {
    /// An empty failure.
    fn default() -> RowFailure {
        RowFailure {
            ctid: Tid::default(),
            xmax: Xid::INVALID,
            cmax: 0,
            traversed: false,
        }
    }
}

impl RowFailure {
    /// A failure with a place and another transaction.
    pub fn at(ctid: Tid, xmax: Xid) -> RowFailure {
        RowFailure {
            ctid,
            xmax,
            cmax: INVALID_COMMAND,
            traversed: false,
        }
    }

    pub fn from_raw(failure: &pg_sys::TM_FailureData) -> RowFailure {
        RowFailure {
            ctid: Tid::from_raw(failure.ctid),
            xmax: Xid::from_raw(failure.xmax),
            cmax: failure.cmax,
            traversed: failure.traversed,
        }
    }

    pub fn raw(self) -> pg_sys::TM_FailureData {
        pg_sys::TM_FailureData {
            ctid: self.ctid.raw(),
            xmax: self.xmax.raw(),
            cmax: self.cmax,
            traversed: self.traversed,
        }
    }
}

/// A refused request: the row cannot be changed or locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Not [`RowResult::Ok`].
    pub result: RowResult,
    pub failure: RowFailure,
}

/// A request to change a row.
#[derive(Clone, Copy)]
pub struct ChangeRequest<'a> {
    /// The command that changes it.
    pub command: CommandId,
    /// The executor's snapshot, which is passed to heap.
    pub snapshot: Option<Snapshot<'a>>,
    /// A snapshot that must see the version to be changed, too.
    pub crosscheck: Option<Snapshot<'a>>,
    /// Whether to wait for transactions that are changing it.
    pub wait: bool,
}

impl<'a> ChangeRequest<'a> {
    /// From a callback's arguments.
    ///
    /// # Safety
    /// The snapshots are valid or NULL, as long as the result is used.
    pub(crate) unsafe fn from_raw(
        command: CommandId,
        snapshot: pg_sys::Snapshot,
        crosscheck: pg_sys::Snapshot,
        wait: bool,
    ) -> ChangeRequest<'a> {
        // SAFETY: as for this function.
        unsafe {
            ChangeRequest {
                command,
                snapshot: Snapshot::from_nullable(snapshot),
                crosscheck: Snapshot::from_nullable(crosscheck),
                wait,
            }
        }
    }
}

/// A request to lock a row.
#[derive(Clone, Copy)]
pub struct LockRequest<'a> {
    /// The command that requests it.
    pub command: CommandId,
    pub lock: RowLock,
    pub wait: WaitPolicy,
    pub flags: LockFlags,
    /// The executor's snapshot, which is passed to heap.
    pub snapshot: Option<Snapshot<'a>>,
}

/// The indexes into which the caller of an update must insert the new version: `TU_UpdateIndexes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateIndexes {
    None,
    All,
    Summarizing,
}

impl UpdateIndexes {
    pub fn from_raw(indexes: pg_sys::TU_UpdateIndexes::Type) -> UpdateIndexes {
        match indexes {
            pg_sys::TU_UpdateIndexes::TU_None => UpdateIndexes::None,
            pg_sys::TU_UpdateIndexes::TU_Summarizing => UpdateIndexes::Summarizing,
            _ => UpdateIndexes::All,
        }
    }

    pub fn raw(self) -> pg_sys::TU_UpdateIndexes::Type {
        use pg_sys::TU_UpdateIndexes::*;
        match self {
            UpdateIndexes::None => TU_None,
            UpdateIndexes::All => TU_All,
            UpdateIndexes::Summarizing => TU_Summarizing,
        }
    }
}

/// What to do if another transaction holds a conflicting lock: `LockWaitPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    Block,
    Skip,
    Error,
}

impl WaitPolicy {
    pub fn from_raw(policy: pg_sys::LockWaitPolicy::Type) -> WaitPolicy {
        match policy {
            pg_sys::LockWaitPolicy::LockWaitSkip => WaitPolicy::Skip,
            pg_sys::LockWaitPolicy::LockWaitError => WaitPolicy::Error,
            _ => WaitPolicy::Block,
        }
    }

    pub fn raw(self) -> pg_sys::LockWaitPolicy::Type {
        match self {
            WaitPolicy::Block => pg_sys::LockWaitPolicy::LockWaitBlock,
            WaitPolicy::Skip => pg_sys::LockWaitPolicy::LockWaitSkip,
            WaitPolicy::Error => pg_sys::LockWaitPolicy::LockWaitError,
        }
    }
}

/// Flags of a row lock: `TUPLE_LOCK_FLAG_…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockFlags(u8);

impl LockFlags {
    pub fn from_raw(flags: u8) -> LockFlags {
        LockFlags(flags)
    }

    pub fn raw(self) -> u8 {
        self.0
    }

    fn has(self, flag: u32) -> bool {
        u32::from(self.0) & flag != 0
    }

    /// Whether a version that is being updated may be locked along with the new one.
    pub fn lock_update_in_progress(self) -> bool {
        self.has(pg_sys::TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS)
    }

    /// Whether the last version of the row is to be locked.
    pub fn find_last_version(self) -> bool {
        self.has(pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION)
    }

    /// The same for the named version alone.
    pub fn of_this_version(self) -> LockFlags {
        LockFlags(self.0 & !(pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION as u8))
    }
}

/// The purpose of a wait, which an error message shows: `XLTW_Oper`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Delete,
    Update,
    Lock,
}

impl Purpose {
    pub fn raw(self) -> pg_sys::XLTW_Oper::Type {
        match self {
            Purpose::Delete => pg_sys::XLTW_Oper::XLTW_Delete,
            Purpose::Update => pg_sys::XLTW_Oper::XLTW_Update,
            Purpose::Lock => pg_sys::XLTW_Oper::XLTW_Lock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_one_version_keep_all_but_the_search_for_the_last_one() {
        let both = pg_sys::TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS
            | pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION;
        let flags = LockFlags::from_raw(both as u8);
        assert!(flags.lock_update_in_progress() && flags.find_last_version());
        let one = flags.of_this_version();
        assert!(one.lock_update_in_progress() && !one.find_last_version());
    }
}
