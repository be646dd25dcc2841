//! Hot rows that may lead to cold ones.
//!
//! ```text
//!   page    copies of all-visible pages, taken without blocking writers
//!   obstacle  why a page is not all-visible
//!   stamp   stamps hot tuples as updated to cold TIDs          (the mover)
//!   lock    checks for such tuples before heap's row locks     (all others)
//!   share   hands key-share locks on from a cold row to its new version
//!   decoding_tuple  a cold row among the hot ones for one command, for logical decoding
//!   scan    heap's own scan of the hot rows
//!   sample  a random sample of the hot rows, for ANALYZE
//!   growth  how many pages are appended when there is no room
//! ```
//!
//! A hot tuple that was moved carries a cold TID in `t_ctid`. Heap functions that follow such links
//! would read a block that does not exist; the functions here follow them safely.
//!
//! Invariant: for a statement that locks rows, only the first link of a chain can be cold. The
//! mover stamps tuples of all-visible pages only. A version that is not visible to some snapshot
//! keeps its page from being all-visible as long as that snapshot lives. So a chain that starts at
//! a row which a live snapshot sees has no stamped version behind its first.

pub mod decoding_tuple;
pub mod growth;
pub mod lock;
pub mod obstacle;
pub mod page;
pub mod sample;
pub mod scan;
pub mod share;
pub mod stamp;

use pgrx::pg_sys;

use crate::tid::{RowNumber, block_of, is_cold};

/// The inserting transaction of a tuple, as `HeapTupleHeaderGetXmin` reports it.
///
/// # Safety
/// `header` points at a tuple header on a pinned page or in memory that the caller owns.
pub unsafe fn xmin_of(header: *const pg_sys::HeapTupleHeaderData) -> pg_sys::TransactionId {
    // SAFETY: the caller vouches for the header.
    unsafe {
        let frozen = pg_sys::HEAP_XMIN_FROZEN as u16;
        if (*header).t_infomask & frozen == frozen {
            pg_sys::FrozenTransactionId
        } else {
            (*header).t_choice.t_heap.t_xmin
        }
    }
}

/// Whether a tuple was updated to a heap-only tuple on the same page, as
/// `HeapTupleHeaderIsHotUpdated` says.
///
/// # Safety
/// As for [`xmin_of`].
pub unsafe fn is_hot_updated(header: *const pg_sys::HeapTupleHeaderData) -> bool {
    // SAFETY: the caller vouches for the header.
    unsafe {
        let mask = u32::from((*header).t_infomask);
        u32::from((*header).t_infomask2) & pg_sys::HEAP_HOT_UPDATED != 0
            && mask & pg_sys::HEAP_XMAX_INVALID == 0
            && mask & pg_sys::HEAP_XMIN_FROZEN != pg_sys::HEAP_XMIN_INVALID
    }
}

/// The cold row that a tuple was moved to, or is about to be, if the mover commits.
///
/// # Safety
/// As for [`xmin_of`]. The tuple may be stamped concurrently.
pub unsafe fn moved_to(header: *const pg_sys::HeapTupleHeaderData) -> Option<RowNumber> {
    // SAFETY: the caller vouches for the header.
    unsafe {
        let void = u32::from((*header).t_infomask) & pg_sys::HEAP_XMAX_INVALID != 0;
        RowNumber::from_tid(&(*header).t_ctid).filter(|_| !void)
    }
}

/// Whether a deleted or updated tuple was inserted by the (sub)transaction that deleted or updated
/// it: no other transaction has ever seen it. See [`decoding_tuple`].
///
/// # Safety
/// As for [`xmin_of`].
pub unsafe fn was_never_seen(header: *const pg_sys::HeapTupleHeaderData) -> bool {
    // SAFETY: the caller vouches for the header.
    unsafe {
        let void =
            pg_sys::HEAP_XMAX_INVALID | pg_sys::HEAP_XMAX_IS_MULTI | pg_sys::HEAP_XMAX_LOCK_ONLY;
        let fields = (*header).t_choice.t_heap;
        u32::from((*header).t_infomask) & void == 0 && fields.t_xmin == fields.t_xmax
    }
}

/// Whether a tuple that was inserted and deleted by this transaction was so by one command.
///
/// # Safety
/// As for [`xmin_of`]; both are of this transaction.
pub unsafe fn was_of_one_command(header: *const pg_sys::HeapTupleHeaderData) -> bool {
    // SAFETY: the caller vouches for the header.
    unsafe {
        let inserter = xmin_of(header);
        pg_sys::TransactionIdIsCurrentTransactionId(inserter)
            && pg_sys::HeapTupleHeaderGetCmin(header) == pg_sys::HeapTupleHeaderGetCmax(header)
    }
}

/// Follows a hot row's update chain to the latest version that the scan's snapshot sees. A chain
/// that ends in a committed cold link returns that; the cold row need not be visible. Mirrors
/// `heap_get_latest_tid`.
///
/// # Safety
/// `scan` is an open heap scan descriptor; `tid` holds a valid hot TID.
unsafe fn latest_tid(
    scan: pg_sys::TableScanDesc,
    tid: pg_sys::ItemPointer,
) -> Option<pg_sys::ItemPointerData> {
    // SAFETY: pin and share lock are held while a page is read; line pointers are checked.
    unsafe {
        let rel = (*scan).rs_rd;
        let snapshot = (*scan).rs_snapshot;
        let mut ctid = *tid;
        let mut prior_xmax = pg_sys::InvalidTransactionId;
        loop {
            let buffer = pg_sys::ReadBuffer(rel, block_of(&ctid));
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let page = pg_sys::BufferGetPage(buffer);
            let in_page =
                ctid.ip_posid >= 1 && ctid.ip_posid <= pg_sys::PageGetMaxOffsetNumber(page);
            let item = if in_page {
                pg_sys::PageGetItemId(page, ctid.ip_posid)
            } else {
                std::ptr::null_mut()
            };
            if item.is_null() || (*item).lp_flags() != pg_sys::LP_NORMAL {
                pg_sys::UnlockReleaseBuffer(buffer);
                return None;
            }
            let mut tuple = pg_sys::HeapTupleData {
                t_len: (*item).lp_len(),
                t_self: ctid,
                t_tableOid: (*rel).rd_id,
                t_data: pg_sys::PageGetItem(page, item).cast(),
            };
            let header = tuple.t_data;
            if prior_xmax != pg_sys::InvalidTransactionId && prior_xmax != xmin_of(header) {
                pg_sys::UnlockReleaseBuffer(buffer);
                return None;
            }
            let valid = pg_sys::HeapTupleSatisfiesVisibility(&mut tuple, snapshot, buffer);
            pg_sys::HeapCheckForSerializableConflictOut(valid, rel, &mut tuple, buffer, snapshot);
            if valid {
                *tid = ctid;
            }
            let next = (*header).t_ctid;
            let ends = u32::from((*header).t_infomask) & pg_sys::HEAP_XMAX_INVALID != 0
                || pg_sys::HeapTupleHeaderIsOnlyLocked(header)
                || pg_sys::HeapTupleHeaderIndicatesMovedPartitions(header)
                || (block_of(&next) == block_of(&ctid) && next.ip_posid == ctid.ip_posid);
            prior_xmax = pg_sys::HeapTupleHeaderGetUpdateXid(header);
            pg_sys::UnlockReleaseBuffer(buffer);
            if ends {
                return None;
            }
            if is_cold(&next) {
                return pg_sys::TransactionIdDidCommit(prior_xmax).then_some(next);
            }
            ctid = next;
        }
    }
}
