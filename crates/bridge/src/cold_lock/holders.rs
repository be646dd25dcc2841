//! Which transactions hold the lock on a row.

use pgrx::pg_sys;

use super::locker::{self, RowName, Seen};
use super::{KEYS_CHANGED, Locks, RowLock};
use crate::ffi;
use crate::memory;
use crate::tid::{GroupId, RowNumber};
use crate::xid::Xid;

impl Locks {
    /// The other transactions that hold the row's own lock and mean to keep it, or share all keys
    /// of its group. Beside an update that keeps the key these are FOR KEY SHARE locks. For a lock
    /// that was certainly taken in a subtransaction, the id is that of the subtransaction.
    pub fn holders(self, row: RowNumber, group: Option<GroupId>) -> Vec<Xid> {
        let (tag, strongest) = (self.row(row, 0), pg_sys::AccessExclusiveLock);
        let name = RowName::of(&tag);
        let id_of = |holder: &pg_sys::VirtualTransactionId| {
            locker::subtransaction_of(holder, name, RowLock::KeyShare)
                .or_else(|| transaction_of(holder))
        };
        let of_row = conflicts(&tag, strongest);
        let of_keys = group.map(|group| conflicts(&self.keys(group), KEYS_CHANGED));
        let mut ids: Vec<_> = of_row.iter().filter_map(id_of).collect();
        for id in of_keys.iter().flatten().filter_map(transaction_of) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids.into_iter().map(Xid::from_raw).collect()
    }

    /// The transactions whose end must be waited for before the row can be locked: the ids of all
    /// others that hold a conflicting lock on it and will keep it, in ascending order. `None` if
    /// every holder of such a lock may release it at once.
    pub fn blockers(self, row: RowNumber, lock: RowLock) -> Option<Vec<Xid>> {
        let (tag, mode) = (self.row(row, 0), lock.on_row());
        let name = RowName::of(&tag);
        let before: Vec<_> = conflicts(&tag, mode)
            .iter()
            .map(|holder| (holder.procNumber, locker::seen(holder.procNumber)))
            .collect();
        let holders = conflicts(&tag, mode);
        let mut ids: Vec<_> = holders
            .iter()
            .filter_map(|holder| {
                let seen = locker::seen(holder.procNumber);
                if seen.looks_at(name) || !before.contains(&(holder.procNumber, seen)) {
                    return None;
                }
                id_to_wait_for(holder, seen, name, lock)
            })
            .collect();
        ids.sort_unstable_by_key(|id| id.number());
        (holders.is_empty() || !ids.is_empty()).then_some(ids)
    }

    /// Another transaction that is deleting the row and has not marked it yet. Must be asked before
    /// its mark is looked for. Waits for nothing.
    pub fn deleter(self, row: RowNumber) -> Option<Xid> {
        let (tag, lock) = (self.row(row, 0), RowLock::KeyShare);
        let name = RowName::of(&tag);
        let holders = conflicts(&tag, lock.on_row());
        let mut deleters = holders
            .iter()
            .filter(|holder| locker::may_delete(holder.procNumber, name));
        deleters
            .find_map(|holder| id_to_wait_for(holder, locker::seen(holder.procNumber), name, lock))
    }
}

/// The transaction or subtransaction with whose end the lock of this kind is released.
fn id_to_wait_for(
    holder: &pg_sys::VirtualTransactionId,
    seen: Seen,
    row: RowName,
    lock: RowLock,
) -> Option<Xid> {
    let of_subtransaction = seen
        .newest(holder.localTransactionId)
        .filter(|_| !locker::may_be_top(holder.procNumber, row, lock));
    let id = of_subtransaction.or_else(|| transaction_of(holder))?;
    Some(Xid::from_raw(id))
}

/// The id of the transaction that holds a lock.
fn transaction_of(holder: &pg_sys::VirtualTransactionId) -> Option<pg_sys::TransactionId> {
    if holder.procNumber < 0 {
        // A transaction that was prepared before a restart: its xid takes the place of the local
        // id.
        return Some(pg_sys::TransactionId::from(holder.localTransactionId));
    }
    // SAFETY: a backend's fields may change while they are read: its id counts only if the backend
    // runs the same transaction before and after the read.
    let id = unsafe {
        match running_xid(holder) {
            pg_sys::InvalidTransactionId => {
                // The transaction was prepared since: it keeps the virtual id, but not the backend.
                // The same virtual id comes again after four billion transactions of one backend.
                let mut have_more = false;
                ffi::TwoPhaseGetXidByVirtualXID(*holder, &mut have_more)
            }
            id => id,
        }
    };
    (id != pg_sys::InvalidTransactionId).then_some(id)
}

/// The id of the transaction that a backend runs, if it is the given one and has an id.
///
/// # Safety
/// The process number is that of a backend, which may have exited since.
unsafe fn running_xid(holder: &pg_sys::VirtualTransactionId) -> pg_sys::TransactionId {
    // SAFETY: the entries of processes in shared memory are never freed.
    unsafe {
        let process = pg_sys::ProcNumberGetProc(holder.procNumber);
        if process.is_null() {
            return pg_sys::InvalidTransactionId;
        }
        let same =
            || (&raw const (*process).vxid.lxid).read_volatile() == holder.localTransactionId;
        let before = same();
        let xid = (&raw const (*process).xid).read_volatile();
        if before && same() {
            xid
        } else {
            pg_sys::InvalidTransactionId
        }
    }
}

/// The virtual ids of the other transactions that hold the lock in a conflicting mode.
pub(super) fn conflicts(tag: &pg_sys::LOCKTAG, mode: u32) -> Vec<pg_sys::VirtualTransactionId> {
    let mut count = 0;
    // SAFETY: the tag lives during the call; the list is a fresh allocation and has `count`
    // entries.
    unsafe {
        let listed = pg_sys::GetLockConflicts(tag, mode as pg_sys::LOCKMODE, &mut count);
        let holders = std::slice::from_raw_parts(listed, count as usize).to_vec();
        memory::free(listed.cast());
        holders
    }
}
