//! FOR KEY SHARE locks put on a hot row on behalf of the transactions that hold them on its cold
//! ancestor.
//!
//! A cold row may be updated without changing its key while other transactions hold FOR KEY SHARE
//! locks on it. The new version is hot, and a transaction that deletes it must wait for those
//! lockers. So the lockers are added to its xmax, as `heap_update` hands lockers on to the next
//! version.
//!
//! Lock: the page's content lock, exclusively, from the check to the change. WAL: generic, one
//! record. The multixact, if one is needed, is logged before by its own code. After a crash a row
//! with only these lockers is live, like any row whose lockers have ended.

use pgrx::pg_sys;
use pgrx::pg_sys::MultiXactStatus as Status;

use crate::memory;
use crate::table::Table;
use crate::tid::{Tid, block_of, is_cold};
use crate::xid::Xid;

/// Why a version cannot be shared: another transaction has deleted it, changed its key or locked it
/// more strongly.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// The transaction, or subtransaction, to wait for, where it is known.
    pub by: Option<Xid>,
}

/// Adds `lockers` to the lockers of the row at `tid`, and of the versions that it was updated to
/// since without a change of its key. If this is refused, some versions may have got the lockers
/// already, which does no harm.
///
/// `tid` is the TID of a row that VACUUM has not removed. All lockers have announced themselves by
/// `MultiXactIdSetOldestMember`.
pub fn add_key_share(table: Table<'_>, tid: Tid, lockers: &[Xid]) -> Result<(), Refused> {
    let mut at = tid.raw();
    // SAFETY: the table is open, and line pointers are checked.
    while let Some(next) = unsafe { add_to_version(table.raw(), &at, lockers)? } {
        at = next;
    }
    Ok(())
}

/// Adds the lockers to one version; returns the next version.
///
/// # Safety
/// The relation is open and locked for writing; no page of it is locked.
unsafe fn add_to_version(
    rel: pg_sys::Relation,
    tid: &pg_sys::ItemPointerData,
    lockers: &[Xid],
) -> Result<Option<pg_sys::ItemPointerData>, Refused> {
    if is_cold(tid) {
        return Err(Refused { by: None });
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
        let xmax = match found {
            Some(header) => new_xmax(&*header, lockers),
            None => Err(Refused { by: None }),
        };
        let mut next = None;
        if let (Some(header), Ok(xmax)) = (found, &xmax) {
            next = xmax.is_updated.then(|| (*header).t_ctid);
            let state = pg_sys::GenericXLogStart(rel);
            let image = pg_sys::GenericXLogRegisterBuffer(state, buffer, 0);
            if let Some(header) = header_at(image, tid) {
                (*header).t_infomask &= !((pg_sys::HEAP_XMAX_BITS | pg_sys::HEAP_MOVED) as u16);
                (*header).t_infomask |= xmax.bits as u16;
                (*header).t_infomask2 &= !(pg_sys::HEAP_KEYS_UPDATED as u16);
                (*header).t_choice.t_heap.t_xmax = xmax.id;
                if !xmax.is_updated {
                    // As heap does: the link to a version that was rolled back is void.
                    (*header).t_infomask2 &= !(pg_sys::HEAP_HOT_UPDATED as u16);
                    (*header).t_ctid = *tid;
                }
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

/// An xmax that names all lockers.
struct NewXmax {
    id: pg_sys::TransactionId,
    /// Of the infomask.
    bits: u32,
    /// Whether one of its members has updated the row.
    is_updated: bool,
}

/// Builds the xmax that names all lockers.
///
/// # Safety
/// The header is that of a heap tuple on a page that is pinned and exclusively locked.
unsafe fn new_xmax(
    header: &pg_sys::HeapTupleHeaderData,
    lockers: &[Xid],
) -> Result<NewXmax, Refused> {
    // SAFETY: as the functions called require.
    unsafe {
        let Present {
            members,
            is_updated,
        } = present(header)?;
        let mut bits = u32::from(header.t_infomask) & pg_sys::HEAP_XMAX_BITS;
        if matches!(members, Members::Nobody) {
            bits = pg_sys::HEAP_XMAX_LOCK_ONLY | pg_sys::HEAP_XMAX_KEYSHR_LOCK;
        }
        let (id, bits) = match joined(members, lockers) {
            Members::Nobody => return Err(Refused { by: None }),
            Members::One(id, _) => (id, bits),
            Members::Many(id) => (id, bits_of(&members_of(id, false))),
        };
        Ok(NewXmax {
            id,
            bits,
            is_updated,
        })
    }
}

/// The transactions that have locked or changed a row and still count.
struct Present {
    members: Members,
    /// Whether one of them has updated the row.
    is_updated: bool,
}

const NOBODY_PRESENT: Present = Present {
    members: Members::Nobody,
    is_updated: false,
};

/// The transactions named in a row's xmax; refused if one of them owns the row's key.
///
/// # Safety
/// The header is that of a heap tuple on a page that is pinned and locked.
unsafe fn present(header: &pg_sys::HeapTupleHeaderData) -> Result<Present, Refused> {
    let infomask = u32::from(header.t_infomask);
    if infomask & pg_sys::HEAP_XMAX_INVALID != 0 {
        return Ok(NOBODY_PRESENT);
    }
    // SAFETY: a tuple on a heap page uses the `t_heap` side of the union.
    unsafe {
        let xmax = header.t_choice.t_heap.t_xmax;
        let lock_only = infomask & pg_sys::HEAP_XMAX_LOCK_ONLY != 0;
        if infomask & pg_sys::HEAP_XMAX_IS_MULTI != 0 {
            present_in(xmax, lock_only)
        } else {
            let owns_key = u32::from(header.t_infomask2) & pg_sys::HEAP_KEYS_UPDATED != 0;
            present_alone(pg_sys::MultiXactMember {
                xid: xmax,
                status: status_told(infomask, owns_key),
            })
        }
    }
}

/// The members of a multixact.
///
/// # Safety
/// The multixact is the xmax of a tuple; `lock_only` is told by the same tuple.
unsafe fn present_in(multixact: pg_sys::MultiXactId, lock_only: bool) -> Result<Present, Refused> {
    // SAFETY: members are looked up by the server's own code.
    let listed = unsafe { members_of(multixact, lock_only) };
    let mut alive = listed.iter().filter(|member| is_alive(member));
    if let Some(owner) = alive.clone().find(|m| OWNERS.contains(&m.status)) {
        let by = Some(Xid::from_raw(owner.xid));
        return Err(Refused { by });
    }
    Ok(Present {
        members: Members::Many(multixact),
        is_updated: alive.any(|member| member.status == NO_KEY_UPDATE),
    })
}

/// A single locker or updater.
fn present_alone(member: pg_sys::MultiXactMember) -> Result<Present, Refused> {
    if !is_alive(&member) {
        return Ok(NOBODY_PRESENT);
    }
    if OWNERS.contains(&member.status) {
        let by = Some(Xid::from_raw(member.xid));
        return Err(Refused { by });
    }
    Ok(Present {
        members: Members::One(member.xid, member.status),
        is_updated: member.status == NO_KEY_UPDATE,
    })
}

/// The status of the only transaction in an xmax. FOR UPDATE counts as a change of the key, too.
fn status_told(infomask: u32, owns_key: bool) -> Status::Type {
    let lock_only = infomask & pg_sys::HEAP_XMAX_LOCK_ONLY != 0;
    let strength = infomask & (pg_sys::HEAP_XMAX_EXCL_LOCK | pg_sys::HEAP_XMAX_KEYSHR_LOCK);
    match (lock_only, strength) {
        (true, _) if owns_key => Status::MultiXactStatusForUpdate,
        (false, _) if owns_key => UPDATE,
        (false, _) => NO_KEY_UPDATE,
        (_, pg_sys::HEAP_XMAX_KEYSHR_LOCK) => KEY_SHARE,
        (_, pg_sys::HEAP_XMAX_EXCL_LOCK) => Status::MultiXactStatusForNoKeyUpdate,
        _ => Status::MultiXactStatusForShare,
    }
}

/// The members after the lockers were added.
///
/// # Safety
/// Within a transaction that may create a multixact.
unsafe fn joined(mut members: Members, lockers: &[Xid]) -> Members {
    for locker in lockers.iter().map(|locker| locker.raw()) {
        // SAFETY: multixacts are made by the server's own code.
        members = unsafe {
            match members {
                Members::Nobody => Members::One(locker, KEY_SHARE),
                Members::One(first, status) if first == locker => Members::One(first, status),
                Members::One(first, status) => {
                    Members::Many(pg_sys::MultiXactIdCreate(first, status, locker, KEY_SHARE))
                }
                Members::Many(many) => {
                    Members::Many(pg_sys::MultiXactIdExpand(many, locker, KEY_SHARE))
                }
            }
        };
    }
    members
}

const KEY_SHARE: Status::Type = Status::MultiXactStatusForKeyShare;
const NO_KEY_UPDATE: Status::Type = Status::MultiXactStatusNoKeyUpdate;
const UPDATE: Status::Type = Status::MultiXactStatusUpdate;
/// Statuses that conflict with FOR KEY SHARE.
const OWNERS: [Status::Type; 2] = [Status::MultiXactStatusForUpdate, UPDATE];

/// The transactions named in an xmax.
enum Members {
    Nobody,
    One(pg_sys::TransactionId, Status::Type),
    Many(pg_sys::MultiXactId),
}

/// Whether the lock is still held, or the change not rolled back.
fn is_alive(member: &pg_sys::MultiXactMember) -> bool {
    let is_change = matches!(member.status, NO_KEY_UPDATE | UPDATE);
    // SAFETY: looks the transaction's state up.
    unsafe {
        pg_sys::TransactionIdIsInProgress(member.xid)
            || is_change && pg_sys::TransactionIdDidCommit(member.xid)
    }
}

/// The members of a multixact; none where it is too old to have running ones.
///
/// # Safety
/// The multixact is the xmax of a tuple; `lock_only` is told by the same tuple.
unsafe fn members_of(
    multixact: pg_sys::MultiXactId,
    lock_only: bool,
) -> Vec<pg_sys::MultiXactMember> {
    // SAFETY: the list is a fresh allocation and has `count` entries, -1 if there is none.
    unsafe {
        let mut listed = std::ptr::null_mut();
        let count = pg_sys::GetMultiXactIdMembers(multixact, &mut listed, false, lock_only);
        if count <= 0 {
            return Vec::new();
        }
        let members = std::slice::from_raw_parts(listed, count as usize).to_vec();
        memory::free(listed.cast());
        members
    }
}

/// `GetMultiXactIdHintBits` for members of which none owns the row's key.
fn bits_of(members: &[pg_sys::MultiXactMember]) -> u32 {
    let has = |status| members.iter().any(|member| member.status == status);
    let strength =
        if has(Status::MultiXactStatusNoKeyUpdate) || has(Status::MultiXactStatusForNoKeyUpdate) {
            pg_sys::HEAP_XMAX_EXCL_LOCK
        } else if has(Status::MultiXactStatusForShare) {
            pg_sys::HEAP_XMAX_SHR_LOCK
        } else {
            pg_sys::HEAP_XMAX_KEYSHR_LOCK
        };
    let lock_only = match has(Status::MultiXactStatusNoKeyUpdate) {
        true => 0,
        false => pg_sys::HEAP_XMAX_LOCK_ONLY,
    };
    pg_sys::HEAP_XMAX_IS_MULTI | strength | lock_only
}
