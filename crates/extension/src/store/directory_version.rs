//! Counts of changes to the directories of row groups, in shared memory. They tell whether what a
//! backend remembers of a directory is still valid.
//!
//! ```text
//!   writer    changes an entry ──> counts ──> …commits, or writes what the change announces
//!   cache     reads the count ──> reads entries, none with a change in progress ──> keeps both
//!   look-up   the count is the remembered one: no entry has changed
//! ```
//!
//! A change is counted after it is made. So an entry that was read before it was changed is
//! remembered with a lower count than the one that follows the change. An entry is changed by being
//! inserted, deleted, completed or flagged.
//!
//! Counts are shared by tables at random, which costs a look in vain. On a standby entries change
//! by WAL, and nothing is counted: [`current`] knows nothing there.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use howdah_bridge::Oid;
use howdah_bridge::shared_memory::{Area, Shareable};
use howdah_bridge::xid;

const COUNTS: usize = 4_096;

#[repr(C)]
pub struct Counts {
    counts: [AtomicU32; COUNTS],
}

// SAFETY: consists of atomics.
unsafe impl Shareable for Counts {}

pub static DIRECTORY_VERSIONS: Area<Counts> = Area::new(c"howdah directory changes");

fn count_of(toast: Oid) -> Option<&'static AtomicU32> {
    let database = xid::current_database().to_u32();
    let mixed = (toast.to_u32() ^ database.rotate_left(16)).wrapping_mul(0x9E37_79B9);
    let counts = DIRECTORY_VERSIONS.get()?;
    Some(&counts.counts[mixed as usize >> 16 & (COUNTS - 1)])
}

thread_local! {
    /// TOAST relations whose directories this transaction has changed.
    static CHANGED: RefCell<Vec<Oid>> = const { RefCell::new(Vec::new()) };
}

/// Counts a change of the directory in this TOAST relation.
pub(super) fn note(toast: Oid) {
    CHANGED.with_borrow_mut(|changed| {
        if !changed.contains(&toast) {
            changed.push(toast);
        }
    });
    add(toast);
}

fn add(toast: Oid) {
    fence(Ordering::SeqCst);
    if let Some(count) = count_of(toast) {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// Called at the end of a transaction: its changes are valid or void now.
pub fn transaction_ends() {
    for toast in CHANGED.take() {
        add(toast);
    }
}

/// Called after a subtransaction was rolled back; it may have changed directories.
pub fn subtransaction_aborts() {
    CHANGED.with_borrow(|changed| changed.iter().for_each(|&toast| add(toast)));
}

/// The number of changes so far; `None` where changes are not counted.
pub fn current(toast: Oid) -> Option<u32> {
    if xid::in_recovery() {
        return None;
    }
    fence(Ordering::SeqCst);
    let count = count_of(toast)?.load(Ordering::SeqCst);
    fence(Ordering::SeqCst);
    Some(count)
}
