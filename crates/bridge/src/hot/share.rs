//! Key-share locks put on a hot row on behalf of whoever holds them on its cold ancestor.
//!
//! A cold row may be updated without changing its key while others hold FOR KEY SHARE locks on it.
//! The new version is hot, and whoever wants to delete it must wait for those others: so they go
//! into its xmax, as `heap_update` hands lockers on to the next version.
//!
//! Lock: the page's content lock, exclusively, for the look and the change. WAL: generic, one
//! record. The multixact, if one is needed, is logged by its own code before. A row with these
//! lockers only lives on after a crash, like any row whose lockers are gone.

use pgrx::pg_sys;

use crate::tid::block_of;

/// Adds `lockers` to the lockers of the row at `tid`. `false`, and nothing done, if somebody has
/// deleted, updated or locked it more strongly.
///
/// # Safety
/// `rel` is an open heap relation, `tid` the place of a row in it that is not vacuumed away. All
/// lockers have announced themselves by `MultiXactIdSetOldestMember`.
pub unsafe fn add_key_share(
    rel: pg_sys::Relation,
    tid: &pg_sys::ItemPointerData,
    lockers: &[pg_sys::TransactionId],
) -> bool {
    // SAFETY: pin and exclusive lock are held from LockBuffer to UnlockReleaseBuffer; the image is
    // a private copy of the page; the line pointer is checked. An ERROR in between (out of
    // multixacts) leaves the page as it is, and buffer and lock to the resource owner.
    unsafe {
        pg_sys::MultiXactIdSetOldestMember();
        let buffer = pg_sys::ReadBuffer(rel, block_of(tid));
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
        let page = pg_sys::BufferGetPage(buffer);
        let xmax = header_at(page, tid).and_then(|header| new_xmax(&*header, lockers));
        let changed = xmax.is_some();
        if let Some((xmax, bits)) = xmax {
            let state = pg_sys::GenericXLogStart(rel);
            let image = pg_sys::GenericXLogRegisterBuffer(state, buffer, 0);
            if let Some(header) = header_at(image, tid) {
                (*header).t_infomask &= !((pg_sys::HEAP_XMAX_BITS | pg_sys::HEAP_MOVED) as u16);
                (*header).t_infomask |= bits as u16;
                (*header).t_infomask2 &= !(pg_sys::HEAP_KEYS_UPDATED as u16);
                (*header).t_choice.t_heap.t_xmax = xmax;
            }
            pg_sys::GenericXLogFinish(state);
        }
        pg_sys::UnlockReleaseBuffer(buffer);
        changed
    }
}

/// The header of the tuple at `tid`, if there is one.
///
/// # Safety
/// The page is that of `tid`, exclusively locked or a private copy.
pub(super) unsafe fn header_at(
    page: pg_sys::Page,
    tid: &pg_sys::ItemPointerData,
) -> Option<*mut pg_sys::HeapTupleHeaderData> {
    // SAFETY: the caller's page is locked, or a private copy.
    unsafe {
        if !(1..=pg_sys::PageGetMaxOffsetNumber(page)).contains(&tid.ip_posid) {
            return None;
        }
        let item = pg_sys::PageGetItemId(page, tid.ip_posid);
        ((*item).lp_flags() == pg_sys::LP_NORMAL)
            .then(|| page.cast::<u8>().add((*item).lp_off() as usize).cast())
    }
}

/// The xmax with all lockers, and its infomask bits.
unsafe fn new_xmax(
    header: &pg_sys::HeapTupleHeaderData,
    lockers: &[pg_sys::TransactionId],
) -> Option<(pg_sys::TransactionId, u32)> {
    const KEY_SHARE: pg_sys::MultiXactStatus::Type =
        pg_sys::MultiXactStatus::MultiXactStatusForKeyShare;
    const ONLY_KEY_SHARE: u32 = pg_sys::HEAP_XMAX_LOCK_ONLY | pg_sys::HEAP_XMAX_KEYSHR_LOCK;
    let infomask = u32::from(header.t_infomask);
    // SAFETY: a tuple on a heap page uses the `t_heap` side of the union; multixacts are made by
    // the server's own code.
    unsafe {
        let known = header.t_choice.t_heap.t_xmax;
        let mut single = None;
        let mut multi = None;
        if infomask & pg_sys::HEAP_XMAX_INVALID == 0 {
            let strength = ONLY_KEY_SHARE | pg_sys::HEAP_XMAX_EXCL_LOCK;
            if infomask & strength != ONLY_KEY_SHARE {
                return None;
            }
            match infomask & pg_sys::HEAP_XMAX_IS_MULTI {
                0 => single = Some(known),
                _ => multi = Some(known),
            }
        }
        for &locker in lockers {
            (single, multi) = match (single, multi) {
                (None, None) => (Some(locker), None),
                (Some(first), None) if first == locker => (single, None),
                (Some(first), None) => {
                    let both = pg_sys::MultiXactIdCreate(first, KEY_SHARE, locker, KEY_SHARE);
                    (None, Some(both))
                }
                (_, Some(many)) => (
                    None,
                    Some(pg_sys::MultiXactIdExpand(many, locker, KEY_SHARE)),
                ),
            };
        }
        match (single, multi) {
            (_, Some(many)) => Some((many, ONLY_KEY_SHARE | pg_sys::HEAP_XMAX_IS_MULTI)),
            (Some(one), None) => Some((one, ONLY_KEY_SHARE)),
            (None, None) => None,
        }
    }
}
