//! Which entries an index may delete to make room.
//!
//! Entries of hot rows are heap's to judge. A cold row whose mark everybody sees was reported as dead to all when
//! its entry was followed ([`super::fetch`]); such an entry may go. What an index then asks to be told, the
//! youngest transaction that a standby's snapshots must see, is answered by the horizon: the mark itself cannot be
//! looked at while the index page is locked, and it is older.

use howdah_bridge::tid::is_cold;
use pgrx::{pg_guard, pg_sys};

use super::heap;
use crate::store::marks;

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.index_delete_tuples = Some(index_delete_tuples);
}

/// The youngest transaction that every snapshot of this server sees the end of, or one before it.
unsafe fn last_removable(rel: pg_sys::Relation) -> pg_sys::TransactionId {
    // SAFETY: the relation is open; arithmetic on transaction ids as TransactionIdRetreat does it.
    unsafe {
        let mut xid = pg_sys::GetOldestNonRemovableTransactionId(rel);
        loop {
            xid = pg_sys::TransactionId::from(xid.into_inner().wrapping_sub(1));
            if pg_sys::TransactionIdIsNormal(xid) {
                return xid;
            }
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_delete_tuples(
    rel: pg_sys::Relation,
    delstate: *mut pg_sys::TM_IndexDeleteOp,
) -> pg_sys::TransactionId {
    // SAFETY: the arrays hold `ndeltids` entries; each names its status by `id`. Cold TIDs are taken out
    // before heap looks, which would read their blocks, and those that are known to be dead are put back
    // after: the caller finds them by their ids, and may count on none of them being left out. It holds its
    // page's lock, so that nothing may be waited for here.
    unsafe {
        let state = &mut *delstate;
        let all = std::slice::from_raw_parts_mut(state.deltids, state.ndeltids as usize);
        let is_dead = |entry: &pg_sys::TM_IndexDelete| {
            !state.bottomup && (*state.status.add(entry.id as usize)).knowndeletable
        };
        let mut dead_cold = Vec::new();
        let mut hot = 0;
        for i in 0..all.len() {
            if !is_cold(&all[i].tid) {
                all[hot] = all[i];
                hot += 1;
            } else if is_dead(&all[i]) {
                dead_cold.push(all[i]);
            }
        }
        state.ndeltids = hot as i32;
        let mut conflict = match hot {
            0 => pg_sys::InvalidTransactionId,
            _ => {
                let delete = heap().index_delete_tuples.unwrap_unchecked();
                pg_sys::ffi::pg_guard_ffi_boundary(|| delete(rel, delstate))
            }
        };
        let state = &mut *delstate;
        if !dead_cold.is_empty() {
            let first = state.deltids.add(state.ndeltids as usize);
            std::ptr::copy_nonoverlapping(dead_cold.as_ptr(), first, dead_cold.len());
            state.ndeltids += dead_cold.len() as i32;
            conflict = marks::younger(conflict, last_removable(rel));
        }
        conflict
    }
}
