//! Where WAL ended at some times in the past, in shared memory: tells how old a page's last change
//! is, from its LSN.
//!
//! ```text
//!   (time, end of WAL), ascending; when there is no room, every second one is dropped
//! ```
//!
//! The launcher alone adds samples. A reader that sees a part of an update acts a little early or
//! late.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

const SAMPLES: usize = 512;

#[repr(C)]
struct Sample {
    at_ms: AtomicI64,
    lsn: AtomicU64,
}

/// Samples, of which zeros are none.
#[repr(C)]
pub(super) struct WalSamples {
    count: AtomicU32,
    all: [Sample; SAMPLES],
}

impl WalSamples {
    /// Remembers the end of WAL at a time, which is not before that of the last sample.
    pub fn add(&self, at_ms: i64, lsn: u64) {
        let mut count = self.count.load(Ordering::Acquire) as usize;
        if count > 0 && self.all[count - 1].lsn.load(Ordering::Relaxed) == lsn {
            return;
        }
        if count == SAMPLES {
            // The past is kept, but more coarsely.
            for i in 0..SAMPLES / 2 {
                let from = &self.all[2 * i + 1];
                let to = &self.all[i];
                to.lsn
                    .store(from.lsn.load(Ordering::Relaxed), Ordering::Relaxed);
                to.at_ms
                    .store(from.at_ms.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            count = SAMPLES / 2;
        }
        self.all[count].at_ms.store(at_ms, Ordering::Relaxed);
        self.all[count].lsn.store(lsn, Ordering::Relaxed);
        self.count.store(count as u32 + 1, Ordering::Release);
    }

    /// The end of WAL at some time not after `before_ms`; `None` if none is remembered.
    pub fn lsn_before(&self, before_ms: i64) -> Option<u64> {
        let count = self.count.load(Ordering::Acquire) as usize;
        self.all[..count.min(SAMPLES)]
            .iter()
            .rev()
            .find(|sample| sample.at_ms.load(Ordering::Relaxed) <= before_ms)
            .map(|sample| sample.lsn.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Box<WalSamples> {
        Box::new(WalSamples {
            count: AtomicU32::new(0),
            all: [const {
                Sample {
                    at_ms: AtomicI64::new(0),
                    lsn: AtomicU64::new(0),
                }
            }; SAMPLES],
        })
    }

    #[test]
    fn the_latest_sample_not_after_a_time_is_found() {
        let samples = empty();
        assert_eq!(samples.lsn_before(i64::MAX), None);
        samples.add(10, 100);
        samples.add(20, 200);
        // WAL has not grown: a change since 20 would have moved its end.
        samples.add(30, 200);
        for (before_ms, lsn) in [(9, None), (10, Some(100)), (19, Some(100)), (99, Some(200))] {
            assert_eq!(samples.lsn_before(before_ms), lsn, "at {before_ms}");
        }
    }

    #[test]
    fn a_full_list_forgets_every_second_sample_and_never_tells_of_a_later_end() {
        let samples = empty();
        let last = 3 * SAMPLES as i64;
        for at in 1..=last {
            samples.add(at, at as u64 * 10);
        }
        let count = samples.count.load(Ordering::Relaxed) as usize;
        assert!((SAMPLES / 2..=SAMPLES).contains(&count), "{count} samples");
        assert_eq!(samples.lsn_before(last), Some(last as u64 * 10));
        for before in 1..=last {
            let lsn = samples.lsn_before(before);
            assert!(
                lsn.is_none_or(|lsn| lsn <= before as u64 * 10),
                "at {before}: {lsn:?}"
            );
        }
        assert!(samples.lsn_before(64).is_some(), "the past is kept");
    }
}
