//! Handling of moved rows before heap's row locks reach them.
//!
//! `heap_lock_tuple` follows `t_ctid` after it has waited for the updater, even if the updater
//! aborted, and would then read a cold block. So a row lock checks the tuple first. There are three
//! cases:
//!
//! ```text
//!   no cold link, or its mover is void   -> heap's own code, under our pin
//!   mover in progress                    -> wait here, then check again
//!   mover committed                      -> the row is cold: TM_Updated with the cold TID
//! ```
//!
//! The mover is waited for under NOWAIT and SKIP LOCKED as well, and `lock_timeout` does not count
//! the wait, because the mover has locked no row (see [`maintenance`]).
//!
//! The pin is kept over heap's call, so the result of the check stays true: the mover stamps only
//! under a cleanup lock, which it cannot get while the pin is held.

use pgrx::pg_sys;

use crate::cold_lock::maintenance;
use crate::row_request::WaitPolicy;
use crate::table::Table;
use crate::tid::{Tid, block_of, is_cold};
use crate::xid::{CommandId, Xid};

/// A pin on the page of a hot row.
pub struct PagePin(pg_sys::Buffer);

impl Drop for PagePin {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: pinned once by `meet`.
            unsafe { pg_sys::ReleaseBuffer(self.0) }
        }
    }
}

/// What a row lock finds at a hot TID.
pub enum Meeting {
    /// Heap's code can handle the tuple, as long as the pin is held.
    Hot(PagePin),
    /// The row was moved by `xmax`, which has committed.
    Moved { ctid: Tid, xmax: Xid },
}

/// Checks the row at a hot TID, after waiting for any mover that is at work on it.
pub fn meet(table: Table<'_>, tid: Tid) -> Meeting {
    let (rel, tid) = (table.raw(), tid.raw());
    loop {
        // SAFETY: the table is open; a block that it does not have is an ERROR.
        let (pin, link) = unsafe { look(rel, &tid) };
        let Some((ctid, xmax)) = link else {
            return Meeting::Hot(pin);
        };
        let (ctid, xmax) = (Tid::from_raw(ctid), Xid::from_raw(xmax));
        // The order is that of heap's visibility rules.
        if xmax.is_own() {
            return Meeting::Hot(pin);
        }
        if !xmax.is_in_progress() {
            if xmax.did_commit() {
                return Meeting::Moved { ctid, xmax };
            }
            return Meeting::Hot(pin);
        }
        drop(pin);
        // SAFETY: no page lock is held while waiting.
        unsafe { wait_for_mover(rel, tid, xmax.raw()) };
    }
}

/// As [`meet`], before a call of heap's code that would itself wait for a mover, if `lock_timeout`
/// would count that wait. A row that was found hot is not stamped as long as the result lives.
pub fn meet_if_timed(table: Table<'_>, tid: Tid) -> Option<Meeting> {
    maintenance::is_timed().then(|| meet(table, tid))
}

/// What an update's link leads to.
pub enum Version {
    /// A row that can be locked; a cold one, if the link is cold.
    Live(Tid),
    /// The row is dead: it was deleted.
    Gone,
    /// The row is now in another partition.
    MovedPartitions,
    /// The running command itself made this version.
    OfThisCommand { xid: Xid, cmin: CommandId },
    /// Another transaction is changing the row and the caller does not want to wait.
    WouldBlock,
}

/// Follows a row's versions from `tid`, which `prior_xmax` has written, to the live one. Mirrors
/// the loop of `heapam_tuple_lock`, and stops where a link is cold. Under [`WaitPolicy::Error`] a
/// transaction that has locked or is changing the row raises the same ERROR as in heap. A snapshot
/// is held that needs the version before `tid`.
pub fn follow(
    table: Table<'_>,
    tid: Tid,
    prior_xmax: Xid,
    cid: CommandId,
    wait_policy: WaitPolicy,
) -> Version {
    let rel = table.raw();
    let (mut tid, mut prior_xmax) = (tid.raw(), prior_xmax.raw());
    // SAFETY: the table is open. heap_fetch leaves the page pinned where it says so; the pin is
    // given back before anything is waited for. The inserter of a tuple is read without a lock, as
    // heap does.
    unsafe {
        loop {
            if block_of(&tid) == pg_sys::InvalidBlockNumber
                && u32::from(tid.ip_posid) == pg_sys::MovedPartitionsOffsetNumber
            {
                return Version::MovedPartitions;
            }
            if is_cold(&tid) {
                return Version::Live(Tid::from_raw(tid));
            }
            let mut dirty = pg_sys::SnapshotData {
                snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY,
                ..Default::default()
            };
            let mut tuple = pg_sys::HeapTupleData {
                t_self: tid,
                ..Default::default()
            };
            let mut buffer = 0;
            let seen = pg_sys::heap_fetch(rel, &mut dirty, &mut tuple, &mut buffer, true);
            if tuple.t_data.is_null() {
                return Version::Gone;
            }
            let pin = PagePin(buffer);
            let header = tuple.t_data;
            if super::xmin_of(header) != prior_xmax {
                return Version::Gone;
            }
            if !seen {
                let next = (*header).t_ctid;
                if block_of(&next) == block_of(&tid) && next.ip_posid == tid.ip_posid {
                    return Version::Gone;
                }
                prior_xmax = pg_sys::HeapTupleHeaderGetUpdateXid(header);
                tid = next;
                continue;
            }
            if dirty.xmax != pg_sys::InvalidTransactionId {
                drop(pin);
                if !wait_for(rel, tid, dirty.xmax, wait_policy.raw()) {
                    return Version::WouldBlock;
                }
                continue;
            }
            let xid = Xid::from_raw(prior_xmax);
            if xid.is_own() {
                let cmin = pg_sys::HeapTupleHeaderGetCmin(header);
                if cmin >= cid {
                    return Version::OfThisCommand { xid, cmin };
                }
            }
            return Version::Live(Tid::from_raw(tid));
        }
    }
}

/// Pins the row's page and returns the cold link of the tuple, if it has one with an xmax.
///
/// # Safety
/// The relation is open; no page of it is locked.
unsafe fn look(
    rel: pg_sys::Relation,
    tid: &pg_sys::ItemPointerData,
) -> (
    PagePin,
    Option<(pg_sys::ItemPointerData, pg_sys::TransactionId)>,
) {
    // SAFETY: pin and share lock are held while the page is read; the line pointer is checked
    // first.
    unsafe {
        let buffer = pg_sys::ReadBuffer(rel, block_of(tid));
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        let page = pg_sys::BufferGetPage(buffer);
        let mut link = None;
        if (1..=pg_sys::PageGetMaxOffsetNumber(page.cast())).contains(&tid.ip_posid) {
            let item = pg_sys::PageGetItemId(page, tid.ip_posid);
            if (*item).lp_flags() == pg_sys::LP_NORMAL {
                let header =
                    pg_sys::PageGetItem(page.cast(), item).cast::<pg_sys::HeapTupleHeaderData>();
                let void = pg_sys::HEAP_XMAX_INVALID
                    | pg_sys::HEAP_XMAX_IS_MULTI
                    | pg_sys::HEAP_XMAX_LOCK_ONLY;
                if is_cold(&(*header).t_ctid) && u32::from((*header).t_infomask) & void == 0 {
                    link = Some(((*header).t_ctid, (*header).t_choice.t_heap.t_xmax));
                }
            }
        }
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
        (PagePin(buffer), link)
    }
}

/// Waits for the end of the mover's transaction. A mover waits for no lock once it has stamped a
/// row, so naps hide no deadlock.
///
/// # Safety
/// The relation is open; no page is locked.
unsafe fn wait_for_mover(
    rel: pg_sys::Relation,
    mut tid: pg_sys::ItemPointerData,
    xmax: pg_sys::TransactionId,
) {
    // SAFETY: the relation is open; no page lock is held.
    unsafe {
        if !maintenance::is_timed() {
            pg_sys::XactLockTableWait(xmax, rel, &mut tid, pg_sys::XLTW_Oper::XLTW_Lock);
            return;
        }
        while pg_sys::TransactionIdIsInProgress(xmax) {
            maintenance::nap(pg_sys::LockTagType::LOCKTAG_TRANSACTION);
        }
    }
}

/// Waits for another transaction; `false` if the policy is to skip. Mirrors `heap_lock_tuple`.
///
/// # Safety
/// The relation is open; no page is locked.
unsafe fn wait_for(
    rel: pg_sys::Relation,
    mut tid: pg_sys::ItemPointerData,
    xmax: pg_sys::TransactionId,
    wait_policy: pg_sys::LockWaitPolicy::Type,
) -> bool {
    // SAFETY: the relation is open; no page lock is held.
    unsafe {
        match wait_policy {
            pg_sys::LockWaitPolicy::LockWaitSkip => {
                pg_sys::ConditionalXactLockTableWait(xmax, false)
            }
            pg_sys::LockWaitPolicy::LockWaitError => {
                if !pg_sys::ConditionalXactLockTableWait(xmax, pg_sys::log_lock_failures) {
                    let name = crate::relation::name_of(rel);
                    pgrx::ereport!(
                        pgrx::PgLogLevel::ERROR,
                        pgrx::PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
                        format!("could not obtain lock on row in relation \"{name}\"")
                    );
                }
                true
            }
            _ => {
                pg_sys::XactLockTableWait(xmax, rel, &mut tid, pg_sys::XLTW_Oper::XLTW_Lock);
                true
            }
        }
    }
}
