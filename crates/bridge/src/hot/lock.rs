//! Meeting a moved row before heap's row locks do.
//!
//! `heap_lock_tuple` follows `t_ctid` after it has waited for the updater, even if that
//! aborted, and would read a cold block. So a row lock looks first. Three cases:
//!
//! ```text
//!   no cold link, or its mover is void   -> heap's own code, under our pin
//!   mover still running                  -> wait, skip or fail here, then look again
//!   mover committed                      -> the row is cold: TM_Updated with the cold TID
//! ```
//!
//! The pin that is kept over heap's call is what makes the look binding: the mover stamps only
//! under a cleanup lock, which it cannot get while the pin is held.

use pgrx::pg_sys;

use crate::tid::{block_of, is_cold};

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
    /// Heap's to handle, as long as the pin is held.
    Hot(PagePin),
    /// The row was moved by `xmax`, which has committed.
    Moved {
        ctid: pg_sys::ItemPointerData,
        xmax: pg_sys::TransactionId,
    },
    /// The row is being moved and the caller does not want to wait.
    WouldBlock,
}

/// Looks at the row at `tid`, waiting for a running mover as `wait_policy` says. Under
/// `LockWaitError` a running mover raises the ERROR that heap raises for a locked row.
///
/// # Safety
/// `rel` is an open heap relation; `tid` is a hot TID inside it.
pub unsafe fn meet(
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointerData,
    wait_policy: pg_sys::LockWaitPolicy::Type,
) -> Meeting {
    loop {
        // SAFETY: as for this function.
        let (pin, link) = unsafe { look(rel, &tid) };
        let Some((ctid, xmax)) = link else {
            return Meeting::Hot(pin);
        };
        // SAFETY: lookups of transaction status; the order is that of heap's visibility rules.
        unsafe {
            if pg_sys::TransactionIdIsCurrentTransactionId(xmax) {
                return Meeting::Hot(pin);
            }
            if !pg_sys::TransactionIdIsInProgress(xmax) {
                if pg_sys::TransactionIdDidCommit(xmax) {
                    return Meeting::Moved { ctid, xmax };
                }
                return Meeting::Hot(pin);
            }
        }
        drop(pin);
        // SAFETY: no page lock is held while waiting.
        if !unsafe { wait_for(rel, tid, xmax, wait_policy) } {
            return Meeting::WouldBlock;
        }
    }
}

/// Pins the row's page and returns the cold link of the tuple, if it has one with an xmax.
unsafe fn look(
    rel: pg_sys::Relation,
    tid: &pg_sys::ItemPointerData,
) -> (
    PagePin,
    Option<(pg_sys::ItemPointerData, pg_sys::TransactionId)>,
) {
    // SAFETY: pin and share lock are held while the page is looked at; the line pointer is
    // checked first.
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

/// Waits for the mover; `false` if the policy is to skip. Mirrors `heap_lock_tuple`.
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
