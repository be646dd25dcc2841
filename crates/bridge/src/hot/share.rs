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

use crate::tid::{block_of, is_cold};

/// Adds `lockers` to the lockers of the row at `tid` and of the versions that it was updated to
/// since without changing its key. `false` if somebody has deleted it, changed its key or locked it
/// more strongly; some versions may have got the lockers by then, which does no harm.
///
/// # Safety
/// `rel` is an open heap relation, `tid` the place of a row in it that is not vacuumed away. All
/// lockers have announced themselves by `MultiXactIdSetOldestMember`.
pub unsafe fn add_key_share(
    rel: pg_sys::Relation,
    tid: &pg_sys::ItemPointerData,
    lockers: &[pg_sys::TransactionId],
) -> bool {
    let mut at = *tid;
    loop {
        // SAFETY: as for this function.
        match unsafe { add_to_version(rel, &at, lockers) } {
            None => return false,
            Some(None) => return true,
            Some(Some(next)) => at = next,
        }
    }
}

/// One version; the answer is the next one, and `None` if the lock is in conflict.
unsafe fn add_to_version(
    rel: pg_sys::Relation,
    tid: &pg_sys::ItemPointerData,
    lockers: &[pg_sys::TransactionId],
) -> Option<Option<pg_sys::ItemPointerData>> {
    if is_cold(tid) {
        return None;
    }
    // SAFETY: pin and exclusive lock are held from LockBuffer to UnlockReleaseBuffer; the image is
    // a private copy of the page; the line pointer is checked. An ERROR in between (out of
    // multixacts) leaves the page as it is, and buffer and lock to the resource owner.
    unsafe {
        pg_sys::MultiXactIdSetOldestMember();
        let buffer = pg_sys::ReadBuffer(rel, block_of(tid));
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
        let page = pg_sys::BufferGetPage(buffer);
        let found = header_at(page, tid);
        let xmax = found.and_then(|header| new_xmax(&*header, lockers));
        let mut next = None;
        if let (Some(header), Some(xmax)) = (found, &xmax) {
            next = xmax.is_updated.then(|| (*header).t_ctid);
            let state = pg_sys::GenericXLogStart(rel);
            let image = pg_sys::GenericXLogRegisterBuffer(state, buffer, 0);
            if let Some(header) = header_at(image, tid) {
                (*header).t_infomask &= !((pg_sys::HEAP_XMAX_BITS | pg_sys::HEAP_MOVED) as u16);
                (*header).t_infomask |= xmax.bits as u16;
                (*header).t_infomask2 &= !(pg_sys::HEAP_KEYS_UPDATED as u16);
                (*header).t_choice.t_heap.t_xmax = xmax.id;
            }
            pg_sys::GenericXLogFinish(state);
        }
        pg_sys::UnlockReleaseBuffer(buffer);
        xmax.map(|_| next)
    }
}

/// The header of the tuple at `tid`, if there is one.
///
/// # Safety
/// The page is that of `tid`, exclusively locked or a private copy.
pub(crate) unsafe fn header_at(
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

/// An xmax with all lockers.
struct NewXmax {
    id: pg_sys::TransactionId,
    /// Of the infomask.
    bits: u32,
    /// Whether one of its members has updated the row.
    is_updated: bool,
}

/// The xmax with all lockers; `None` if they are in conflict with what is there.
unsafe fn new_xmax(
    header: &pg_sys::HeapTupleHeaderData,
    lockers: &[pg_sys::TransactionId],
) -> Option<NewXmax> {
    const KEY_SHARE: pg_sys::MultiXactStatus::Type =
        pg_sys::MultiXactStatus::MultiXactStatusForKeyShare;
    const ONLY_KEY_SHARE: u32 = pg_sys::HEAP_XMAX_LOCK_ONLY | pg_sys::HEAP_XMAX_KEYSHR_LOCK;
    let infomask = u32::from(header.t_infomask);
    // SAFETY: a tuple on a heap page uses the `t_heap` side of the union; transaction status is
    // looked up, and multixacts are made, by the server's own code.
    unsafe {
        let known = header.t_choice.t_heap.t_xmax;
        let is_multi = infomask & pg_sys::HEAP_XMAX_IS_MULTI != 0;
        let lock_only = infomask & pg_sys::HEAP_XMAX_LOCK_ONLY != 0;
        let void = infomask & pg_sys::HEAP_XMAX_INVALID != 0
            || !is_multi
                && !pg_sys::TransactionIdIsInProgress(known)
                && !pg_sys::TransactionIdDidCommit(known);
        let (mut members, mut bits, mut is_updated) = (Members::Nobody, ONLY_KEY_SHARE, false);
        if !void {
            let key_changed = u32::from(header.t_infomask2) & pg_sys::HEAP_KEYS_UPDATED != 0;
            is_updated = !lock_only;
            // FOR UPDATE counts as a change of the key, too.
            if key_changed {
                return None;
            }
            let strength = infomask & (pg_sys::HEAP_XMAX_EXCL_LOCK | pg_sys::HEAP_XMAX_KEYSHR_LOCK);
            let status = match (lock_only, strength) {
                (false, _) => pg_sys::MultiXactStatus::MultiXactStatusNoKeyUpdate,
                (_, pg_sys::HEAP_XMAX_KEYSHR_LOCK) => KEY_SHARE,
                (_, pg_sys::HEAP_XMAX_EXCL_LOCK) => {
                    pg_sys::MultiXactStatus::MultiXactStatusForNoKeyUpdate
                }
                _ => pg_sys::MultiXactStatus::MultiXactStatusForShare,
            };
            members = if is_multi {
                Members::Many(known)
            } else {
                Members::One(known, status)
            };
            bits = match (is_updated, is_multi) {
                (true, false) => pg_sys::HEAP_XMAX_EXCL_LOCK,
                (true, true) => strength,
                (false, _) => strength | pg_sys::HEAP_XMAX_LOCK_ONLY,
            };
        }
        for &locker in lockers {
            members = match members {
                Members::Nobody => Members::One(locker, KEY_SHARE),
                Members::One(first, status) if first == locker => Members::One(first, status),
                Members::One(first, status) => {
                    Members::Many(pg_sys::MultiXactIdCreate(first, status, locker, KEY_SHARE))
                }
                Members::Many(many) => {
                    Members::Many(pg_sys::MultiXactIdExpand(many, locker, KEY_SHARE))
                }
            };
        }
        match members {
            Members::Many(id) => Some(NewXmax {
                id,
                bits: bits | pg_sys::HEAP_XMAX_IS_MULTI,
                is_updated,
            }),
            Members::One(id, _) if !is_updated => Some(NewXmax {
                id,
                bits,
                is_updated,
            }),
            // Nobody to add to an updater, or the updater itself.
            Members::One(id, _) => Some(NewXmax {
                id,
                bits: infomask & pg_sys::HEAP_XMAX_BITS,
                is_updated,
            }),
            Members::Nobody => None,
        }
    }
}

/// Who is named in an xmax.
enum Members {
    Nobody,
    One(pg_sys::TransactionId, pg_sys::MultiXactStatus::Type),
    Many(pg_sys::MultiXactId),
}
