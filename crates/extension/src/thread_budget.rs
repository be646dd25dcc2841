//! The server's budget of threads.
//!
//! A plan takes as many as it wants and as are left, and returns them when its run is over, or when
//! the process exits during the run; a bulk load takes one to encode a row group. A crash
//! initializes the area anew.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use howdah_bridge::shared_memory::{Area, Shareable, before_exit};

use crate::settings;

/// The number in use.
#[repr(transparent)]
pub struct InUse(AtomicUsize);

// SAFETY: zero is a count.
unsafe impl Shareable for InUse {}

pub static THREADS: Area<InUse> = Area::new(c"howdah threads");

thread_local! {
    /// What this backend has taken.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// An exiting process has given everything back before it leaves shared memory; values that are
/// dropped later, as those of its thread-locals are, hold nothing any more.
fn give_back(count: usize) {
    let count = count.min(HELD.get());
    if count == 0 {
        return;
    }
    HELD.set(HELD.get() - count);
    if let Some(InUse(in_use)) = THREADS.get() {
        in_use.fetch_sub(count, Ordering::Relaxed);
    }
}

/// Threads that may be started.
pub struct Lease {
    pub count: usize,
}

impl Lease {
    /// Takes up to `wanted` threads.
    pub fn take(wanted: usize) -> Lease {
        let Some(InUse(in_use)) = THREADS.get() else {
            return Lease { count: 0 };
        };
        let count = take_from(in_use, wanted, settings::max_threads());
        if count > 0 {
            HELD.set(HELD.get() + count);
            before_exit(|| give_back(HELD.get()));
        }
        Lease { count }
    }
}

/// Adds up to `wanted` to the number in use, which does not exceed `most` by that. Returns how
/// many.
fn take_from(in_use: &AtomicUsize, wanted: usize, most: usize) -> usize {
    let mut now = in_use.load(Ordering::Relaxed);
    loop {
        let count = wanted.min(most.saturating_sub(now));
        if count == 0 {
            return 0;
        }
        match in_use.compare_exchange_weak(now, now + count, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return count,
            Err(other) => now = other,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.count > 0 {
            give_back(self.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_threads_are_taken_than_are_left() {
        let in_use = AtomicUsize::new(3);
        assert_eq!(take_from(&in_use, 4, 8), 4);
        assert_eq!(take_from(&in_use, 4, 8), 1, "one is left");
        assert_eq!(take_from(&in_use, 4, 8), 0);
        assert_eq!(take_from(&in_use, 4, 2), 0, "the setting was lowered");
        assert_eq!(in_use.into_inner(), 8);
    }

    #[test]
    fn takers_at_the_same_time_never_exceed_the_budget() {
        let in_use = AtomicUsize::new(0);
        let taken: usize = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..50).map(|_| take_from(&in_use, 3, 100)).sum::<usize>()))
                .collect();
            takers
                .into_iter()
                .map(|taker| taker.join().unwrap_or(0))
                .sum()
        });
        assert_eq!(taken, 100);
        assert_eq!(in_use.into_inner(), 100);
    }
}
