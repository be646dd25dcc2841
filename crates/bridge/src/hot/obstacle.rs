//! Why a page is not all-visible.

use pgrx::pg_sys;

use super::page::HotReader;
use super::xmin_of;
use crate::tid::tid_of;
use crate::xid::Xid;

/// What keeps a page from being all-visible, the first that is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A transaction that has inserted, updated or deleted a row there is still running.
    Unfinished,
    /// Some snapshot, or whatever else holds back the horizon, is older than the last change.
    OldSnapshot,
    /// Nothing on the page itself: VACUUM has skipped it, for example because a cursor had pinned
    /// it.
    InUse,
}

impl HotReader<'_> {
    /// Finds the obstacle on a page; `oldest_xmin` is the table's horizon: a tuple deleted before
    /// it is dead.
    pub fn obstacle(&mut self, block: pg_sys::BlockNumber, oldest_xmin: Xid) -> Obstacle {
        let oldest_xmin = oldest_xmin.raw();
        let mut found = Obstacle::InUse;
        // SAFETY: pin and share lock are held while the page is read; a tuple is read if its line
        // pointer is normal.
        unsafe {
            let buffer = self.lock(block);
            let page = pg_sys::BufferGetPage(buffer);
            for offset in 1..=pg_sys::PageGetMaxOffsetNumber(page.cast()) {
                let item = pg_sys::PageGetItemId(page, offset);
                if (*item).lp_flags() != pg_sys::LP_NORMAL {
                    continue;
                }
                let mut tuple = pg_sys::HeapTupleData {
                    t_len: (*item).lp_len(),
                    t_self: tid_of(block, offset),
                    t_tableOid: self.table(),
                    t_data: page.cast::<u8>().add((*item).lp_off() as usize).cast(),
                };
                match obstacle_of(&mut tuple, buffer, oldest_xmin) {
                    Some(Obstacle::Unfinished) => {
                        found = Obstacle::Unfinished;
                        break;
                    }
                    Some(other) => found = other,
                    None => {}
                }
            }
            pg_sys::UnlockReleaseBuffer(buffer);
        }
        found
    }
}

/// # Safety
/// The tuple lies in the buffer, which is pinned and share-locked.
unsafe fn obstacle_of(
    tuple: &mut pg_sys::HeapTupleData,
    buffer: pg_sys::Buffer,
    oldest_xmin: pg_sys::TransactionId,
) -> Option<Obstacle> {
    use pg_sys::HTSV_Result::*;
    // SAFETY: as for this function; a comparison of two transaction ids.
    unsafe {
        match pg_sys::HeapTupleSatisfiesVacuum(tuple, oldest_xmin, buffer) {
            HEAPTUPLE_INSERT_IN_PROGRESS | HEAPTUPLE_DELETE_IN_PROGRESS => {
                Some(Obstacle::Unfinished)
            }
            HEAPTUPLE_RECENTLY_DEAD => Some(Obstacle::OldSnapshot),
            HEAPTUPLE_LIVE => (!pg_sys::TransactionIdPrecedes(xmin_of(tuple.t_data), oldest_xmin))
                .then_some(Obstacle::OldSnapshot),
            _ => None,
        }
    }
}
