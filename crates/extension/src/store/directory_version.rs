//! How often the directories of row groups have changed: counts in shared memory that tell whether what a
//! backend remembers of a directory may still be relied on.
//!
//! ```text
//!   who changes     changes an entry ──> counts ──> …commits, or writes what the change announces
//!   who remembers   reads the count ──> reads entries, without a change under way ──> remembers both
//!   who asks        same count as remembered: no entry has changed
//! ```
//!
//! An entry that was read before it was changed was read before the change was counted, hence with a lower
//! count. Entries are changed by being inserted, deleted, completed or flagged. Insertions and deletions
//! count before their transaction ends: who remembers must not take one that is under way for settled. They count again
//! when their transaction has ended, or a subtransaction was rolled back: who remembers what a snapshot saw, and not entries,
//! need not care. (COMMIT PREPARED and ROLLBACK PREPARED do not count.)
//!
//! Counts are shared by tables at random, which costs a look in vain. On a standby entries change by WAL, and
//! nothing is counted: [`current`] knows nothing there.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use howdah_bridge::shared_memory::{Area, Shareable};
use howdah_bridge::xid;

const COUNTS: usize = 4_096;

#[repr(C)]
pub struct Counts {
    counts: [AtomicU32; COUNTS],
}

// SAFETY: made of atomics.
unsafe impl Shareable for Counts {}

pub static DIRECTORY_VERSIONS: Area<Counts> = Area::new(c"howdah directory changes");

fn count_of(toast: u32) -> Option<&'static AtomicU32> {
    let database = xid::current_database().to_u32();
    let mixed = (toast ^ database.rotate_left(16)).wrapping_mul(0x9E37_79B9);
    let counts = DIRECTORY_VERSIONS.get()?;
    Some(&counts.counts[mixed as usize >> 16 & (COUNTS - 1)])
}

thread_local! {
    /// TOAST relations of which this transaction has changed the directory.
    static CHANGED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Counts a change of the directory in this TOAST relation.
pub(super) fn note(toast: u32) {
    CHANGED.with_borrow_mut(|changed| {
        if !changed.contains(&toast) {
            changed.push(toast);
        }
    });
    add(toast);
}

fn add(toast: u32) {
    fence(Ordering::SeqCst);
    if let Some(count) = count_of(toast) {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// A transaction has ended, and its changes have come true or gone.
pub fn transaction_ends() {
    for toast in CHANGED.take() {
        add(toast);
    }
}

/// A subtransaction was rolled back, perhaps with changes.
pub fn subtransaction_aborts() {
    CHANGED.with_borrow(|changed| changed.iter().for_each(|&toast| add(toast)));
}

/// How many changes there were; `None` where they are not counted.
pub fn current(toast: u32) -> Option<u32> {
    if xid::in_recovery() {
        return None;
    }
    fence(Ordering::SeqCst);
    let count = count_of(toast)?.load(Ordering::SeqCst);
    fence(Ordering::SeqCst);
    Some(count)
}
