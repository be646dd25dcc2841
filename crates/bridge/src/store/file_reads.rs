//! Whether pages that are not in shared buffers are worth requesting before they are read.
//!
//! A request for a page is a system call. Where a read has to wait for a disk, ten requests at once
//! save nine waits. Where the operating system has the file in memory, a request costs about as
//! much as the read and saves nothing. Which of the two holds is told by how long reads take:
//!
//! ```text
//!   slowness   0 ────────────── 8 ─────────── 16 (at first)
//!              nothing is       pages are
//!              requested        requested
//!   a slow read: + 4;  a quick one: − 1, unless an earlier request may have made it quick
//! ```
//!
//! A read that was requested just now has to wait for nearly all of the disk's time, so the first
//! read after requests tells as much as one without. A single slow read, as when the process loses
//! its processor, changes nothing.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::page::blocks_read;

/// Between what the operating system's memory takes, a few microseconds, and what a fast disk does.
const SLOW: Duration = Duration::from_micros(30);
const MOST_SLOWNESS: u32 = 16;
const WORTH_REQUESTING: u32 = 8;
const FOR_A_SLOW_READ: u32 = 4;

/// What the reads of a session tell.
#[derive(Clone, Copy)]
struct Slowness {
    value: u32,
    /// Requests were made, and nothing was read since.
    was_just_requested: bool,
}

impl Slowness {
    const AT_FIRST: Slowness = Slowness {
        value: MOST_SLOWNESS,
        was_just_requested: false,
    };

    fn are_requests_worth_it(self) -> bool {
        self.value >= WORTH_REQUESTING
    }

    fn after(self, took: Duration) -> Slowness {
        let tells = self.was_just_requested || !self.are_requests_worth_it();
        let value = match took > SLOW {
            true => (self.value + FOR_A_SLOW_READ).min(MOST_SLOWNESS),
            false => self.value.saturating_sub(u32::from(tells)),
        };
        Slowness {
            value,
            was_just_requested: false,
        }
    }
}

thread_local! {
    static SLOWNESS: Cell<Slowness> = const { Cell::new(Slowness::AT_FIRST) };
}

/// Whether reads of this session have lately waited for a disk.
pub fn are_slow() -> bool {
    SLOWNESS.get().are_requests_worth_it()
}

/// Notes that pages were requested.
pub(super) fn requested() {
    let was_just_requested = true;
    SLOWNESS.set(Slowness {
        was_just_requested,
        ..SLOWNESS.get()
    });
}

/// Notes that a page was read from the operating system's memory.
pub(super) fn was_in_memory() {
    took(Duration::ZERO);
}

/// Notes how long it took to read a page that is in no shared buffer.
pub(super) fn took(duration: Duration) {
    SLOWNESS.set(SLOWNESS.get().after(duration));
}

/// Reads a page, and notes how long that took if it was not in shared buffers.
pub(super) fn timed<R>(read: impl FnOnce() -> R) -> R {
    let (before, started) = (blocks_read(), Instant::now());
    let result = read();
    if blocks_read() != before {
        took(started.elapsed());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(4);
    const DISK: Duration = Duration::from_micros(90);

    fn after_request(slowness: Slowness, took: Duration) -> Slowness {
        let was_just_requested = true;
        Slowness {
            was_just_requested,
            ..slowness
        }
        .after(took)
    }

    #[test]
    fn requests_end_where_even_the_first_read_after_them_is_quick() {
        let mut slowness = Slowness::AT_FIRST;
        let mut rows = 0;
        while slowness.are_requests_worth_it() {
            slowness = after_request(slowness, QUICK);
            // Those that follow may be quick for the requests.
            slowness = (0..9).fold(slowness, |slowness, _| slowness.after(QUICK));
            rows += 1;
        }
        assert_eq!(rows, MOST_SLOWNESS - WORTH_REQUESTING + 1);
    }

    #[test]
    fn requests_go_on_where_the_first_read_waits_and_the_others_are_quick() {
        let mut slowness = Slowness::AT_FIRST;
        for _ in 0..1_000 {
            slowness = after_request(slowness, DISK);
            slowness = (0..9).fold(slowness, |slowness, _| slowness.after(QUICK));
            assert!(slowness.are_requests_worth_it());
        }
    }

    #[test]
    fn two_slow_reads_bring_requests_back_and_one_does_not() {
        let quick = Slowness {
            value: 0,
            was_just_requested: false,
        };
        assert!(!quick.after(DISK).are_requests_worth_it());
        assert!(quick.after(DISK).after(DISK).are_requests_worth_it());
        let lost_its_processor =
            (0..4).fold(quick.after(DISK), |slowness, _| slowness.after(QUICK));
        assert!(!lost_its_processor.after(DISK).are_requests_worth_it());
    }
}
