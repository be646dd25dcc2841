//! Waiting for maintenance, which locks no rows.
//!
//! VACUUM and merges lock whole row groups for a short time, and a mover holds the rows that it has
//! stamped until it commits. None of these is a row lock of a user: `NOWAIT` must not fail there,
//! `SKIP LOCKED` must not skip the row, and `lock_timeout` must not count the wait.
//!
//! The lock manager cannot tell such a holder from a user's transaction that has locked a whole
//! group. So a transaction that maintains groups announces itself in shared memory, in one word per
//! backend, before it takes the lock:
//!
//! ```text
//!   maintenance   word := its local transaction id   lock the group
//!   other         lock refused   list the holders
//!                 does each holder's word name its own transaction?
//! ```
//!
//! The word is never cleared. It names a transaction whose group locks are released at its end at
//! the latest, and that locks no rows for a user; the same local id comes again after four billion
//! transactions of one backend.
//!
//! The wait is a series of naps, not a place in the lock's queue. In the queue `lock_timeout` would
//! count the wait, and the backend would also wait for a user's lock that is granted in between.
//! The naps cannot hide a deadlock, because maintenance waits for no transaction while it blocks
//! others: a group is locked without waiting, a page is stamped under a conditional cleanup lock,
//! and index entries, whose insertion may wait, are inserted before.
//!
//! A backend that may wait for any lock, and without a time limit, uses the queue: deadlocks are
//! detected there, and a compaction worker that blocks the backend for `deadlock_timeout` is
//! cancelled.
//!
//! A crash clears the words along with the locks. A standby takes no such locks.

use std::sync::atomic::{AtomicU32, Ordering};

use pgrx::pg_sys;

use super::holders::conflicts;
use super::{Wait, try_acquire};
use crate::memory;
use crate::shared_memory::{PerBackend, Shareable};

/// One per backend.
pub static MAINTAINERS: PerBackend<Maintainer> =
    PerBackend::new(c"howdah maintainers of row groups");

/// The local id of the last transaction of a backend that has maintained row groups.
pub struct Maintainer(AtomicU32);

// SAFETY: an atomic; zero is no transaction's id.
unsafe impl Shareable for Maintainer {}

/// How long a nap lasts. Maintenance blocks others only during the end of its transaction, or while
/// it works on one group.
const NAP_MS: std::ffi::c_long = 1;
/// The wait event class `Lock` of `wait_classes.h`, so that `pg_stat_activity` shows a nap as it
/// shows a place in the lock's queue.
const LOCK_WAITS: u32 = 0x0300_0000;

/// Announces that the running transaction maintains row groups. Must be called before it locks one.
pub(super) fn announce() {
    // SAFETY: plain reads of globals; a backend has a process entry.
    let (backend, transaction) = unsafe { (pg_sys::MyProcNumber, (*pg_sys::MyProc).vxid.lxid) };
    if let Some(maintainer) = MAINTAINERS.get(backend) {
        // Acquiring the lock makes the word visible to every backend that sees the lock.
        maintainer.0.store(transaction, Ordering::Release);
    }
}

fn is_maintenance(holder: &pg_sys::VirtualTransactionId) -> bool {
    MAINTAINERS
        .get(holder.procNumber)
        .is_some_and(|maintainer| maintainer.0.load(Ordering::Acquire) == holder.localTransactionId)
}

/// Whether `lock_timeout` is set; naps do not count towards it.
pub(crate) fn is_timed() -> bool {
    // SAFETY: plain read of a setting.
    unsafe { pg_sys::LockTimeout > 0 }
}

/// Sleeps for [`NAP_MS`]; shown as a wait for a lock of this kind.
pub(crate) fn nap(kind: pg_sys::LockTagType::Type) {
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: the process' own latch; its owner resets it before it checks for interrupts.
    unsafe {
        pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, NAP_MS, LOCK_WAITS | kind);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
    crate::check_for_interrupts!();
}

/// Takes a lock on a group and waits for maintenance in any case. Returns `false` if a user's
/// transaction holds the lock in a mode that conflicts and `wait` does not allow waiting for it.
pub(super) fn acquire_past(tag: &pg_sys::LOCKTAG, mode: u32, wait: Wait) -> bool {
    if wait == Wait::Not || is_timed() {
        while try_acquire(tag, mode, Wait::Not).is_none() {
            let holders = conflicts(tag, mode);
            // There are no holders if the lock was released meanwhile, if its holder has ended and
            // is about to release it, or if another backend's place in the queue conflicts.
            let is_refused = match holders.is_empty() {
                true => is_queued_for(tag, mode),
                false => hold_users(tag, mode, &holders),
            };
            if is_refused {
                return wait == Wait::Forever && try_acquire(tag, mode, wait).is_some();
            }
            nap(pg_sys::LockTagType::LOCKTAG_PAGE);
        }
        return true;
    }
    try_acquire(tag, mode, wait).is_some()
}

/// Whether users' transactions are among the holders of a lock. A holder whose word names another
/// transaction may be maintenance that has ended since the holders were listed, and whose backend
/// has announced its next transaction; only a backend that still holds the lock has had this word
/// throughout.
fn hold_users(tag: &pg_sys::LOCKTAG, mode: u32, holders: &[pg_sys::VirtualTransactionId]) -> bool {
    let id = |holder: &pg_sys::VirtualTransactionId| (holder.procNumber, holder.localTransactionId);
    let users = holders.iter().filter(|holder| !is_maintenance(holder));
    let users: Vec<_> = users.map(id).collect();
    !users.is_empty()
        && conflicts(tag, mode)
            .iter()
            .any(|holder| users.contains(&id(holder)))
}

/// Whether other backends' places in the lock's queue conflict, while no holder of the lock does.
/// Expensive: it copies the lock table.
fn is_queued_for(tag: &pg_sys::LOCKTAG, mode: u32) -> bool {
    let mode = mode as pg_sys::LOCKMODE;
    // SAFETY: a plain look-up in a table of modes.
    let conflicts = |other| unsafe { pg_sys::DoLockModesConflict(other, mode) };
    let modes = 1..=pg_sys::MaxLockMode as pg_sys::LOCKMODE;
    let holds = |lock: &pg_sys::LockInstanceData| {
        let mut held = modes
            .clone()
            .filter(|held| lock.holdMask & (1 << held) != 0);
        held.any(conflicts)
    };
    let waits = |lock: &pg_sys::LockInstanceData| {
        lock.waitLockMode != pg_sys::NoLock as pg_sys::LOCKMODE && conflicts(lock.waitLockMode)
    };
    // SAFETY: a copy of the lock table, in memory of the current context; its array has `nelements`
    // entries. Nothing unwinds before both are freed.
    unsafe {
        let table = pg_sys::GetLockStatusData();
        let locks = std::slice::from_raw_parts((*table).locks, (*table).nelements as usize);
        let own = pg_sys::MyProcPid;
        let of_others =
            |lock: &&pg_sys::LockInstanceData| is_same(&lock.locktag, tag) && lock.pid != own;
        let is_held = locks.iter().filter(of_others).any(holds);
        let is_queued = !is_held && locks.iter().filter(of_others).any(waits);
        memory::free((*table).locks.cast());
        memory::free(table.cast());
        is_queued
    }
}

fn is_same(one: &pg_sys::LOCKTAG, other: &pg_sys::LOCKTAG) -> bool {
    let fields = |tag: &pg_sys::LOCKTAG| {
        (
            [tag.locktag_field1, tag.locktag_field2, tag.locktag_field3],
            tag.locktag_field4,
            [tag.locktag_type, tag.locktag_lockmethodid],
        )
    };
    fields(one) == fields(other)
}
