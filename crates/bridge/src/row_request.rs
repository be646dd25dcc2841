//! What the executor asks of a row that it changes or locks, and what it is told.
//!
//! These are the server's own types (`access/tableam.h`, `nodes/lockoptions.h`), one to one, as
//! values that need no pointer. Callbacks convert them once, at their edge.

use pgrx::pg_sys;

use crate::cold_lock::RowLock;
use crate::snapshot::Snapshot;
use crate::tid::Tid;
use crate::xid::{CommandId, INVALID_COMMAND, Xid};

/// What came of it: `TM_Result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowResult {
    Ok,
    /// No version of it is visible to the command.
    Invisible,
    /// The running command, or one that it runs in, has changed it.
    SelfModified,
    Updated,
    Deleted,
    /// A running transaction is changing it, which is not to be waited for.
    BeingModified,
    /// A lock on it is not to be waited for.
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

/// Why a row cannot be changed or locked, and where to go on: `TM_FailureData`.
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
    /// Says nothing.
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
    /// Names a place and a transaction of others.
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

/// A row that cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Not [`RowResult::Ok`].
    pub result: RowResult,
    pub failure: RowFailure,
}

/// How a row is to be changed.
#[derive(Clone, Copy)]
pub struct ChangeRequest<'a> {
    /// The command that changes it.
    pub command: CommandId,
    /// A snapshot that must see the version to be changed, too.
    pub crosscheck: Option<Snapshot<'a>>,
    /// Whether to wait for transactions that are changing it.
    pub wait: bool,
}

/// A row lock that is asked for.
#[derive(Clone, Copy)]
pub struct LockRequest<'a> {
    /// The command that asks.
    pub command: CommandId,
    pub lock: RowLock,
    pub wait: WaitPolicy,
    pub flags: LockFlags,
    /// The snapshot that the executor hands on to heap.
    pub snapshot: Option<Snapshot<'a>>,
}

/// Which indexes the caller of an update has to enter the new version into: `TU_UpdateIndexes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateIndexes {
    None,
    All,
    Summarizing,
}

impl UpdateIndexes {
    pub fn raw(self) -> pg_sys::TU_UpdateIndexes::Type {
        use pg_sys::TU_UpdateIndexes::*;
        match self {
            UpdateIndexes::None => TU_None,
            UpdateIndexes::All => TU_All,
            UpdateIndexes::Summarizing => TU_Summarizing,
        }
    }
}

/// What to do about a lock of others: `LockWaitPolicy`.
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

    /// Whether the last version of the row is asked for.
    pub fn find_last_version(self) -> bool {
        self.has(pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION)
    }

    /// The same for the named version alone.
    pub fn of_this_version(self) -> LockFlags {
        LockFlags(self.0 & !(pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION as u8))
    }
}

/// What a transaction is waited for to do, as an error message tells it: `XLTW_Oper`.
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
