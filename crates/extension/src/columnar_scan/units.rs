//! What the participants of a parallel scan share.
//!
//! ```text
//!   words: next unit │ zones per unit │ counts
//! ```
//!
//! The leader writes its own loads before workers start. So only those of outer subtransactions can
//! be left in memory, and the leader returns their rows itself. All participants have the same
//! snapshot, hence the same list of stored groups.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use howdah_bridge::scan::SharedWords;
use howdah_columnar::{MAX_ROWS, ZONE_ROWS};

use super::counts::Counts;

/// Zones in the largest row group.
pub const GROUP_ZONES: usize = MAX_ROWS / ZONE_ROWS;
/// Zones of a unit where whole groups would be too coarse.
const FINE_UNIT_ZONES: usize = 4;
/// With fewer groups than this for each participant, units are fine.
const GROUPS_PER_PARTICIPANT: usize = 16;

const NEXT_UNIT: usize = 0;
const UNIT_ZONES: usize = 1;
const COUNTS: Range<usize> = 2..2 + Counts::LEN;
const _: () = assert!(COUNTS.end <= SharedWords::LEN);

/// Hands out units, and adds counts.
#[derive(Clone, Copy)]
pub struct SharedUnits<'a>(&'a SharedWords);

impl<'a> SharedUnits<'a> {
    /// Of words that [`SharedUnits::make`] made.
    pub fn of(words: &'a SharedWords) -> SharedUnits<'a> {
        SharedUnits(words)
    }

    /// Creates the words of a scan of this many stored groups; `counts` are continued.
    pub fn make(stored_groups: usize, participants: usize, counts: Counts) -> SharedWords {
        let unit_zones = match stored_groups >= participants * GROUPS_PER_PARTICIPANT {
            true => GROUP_ZONES,
            false => FINE_UNIT_ZONES,
        };
        let words = SharedWords::default();
        words.words[UNIT_ZONES].store(unit_zones as u64, Ordering::Relaxed);
        for (word, count) in words.words[COUNTS].iter().zip(counts.as_array()) {
            word.store(count, Ordering::Relaxed);
        }
        words
    }

    /// Starts again at the first unit; counts are kept.
    pub fn rewind(self) {
        self.0.words[NEXT_UNIT].store(0, Ordering::Relaxed);
    }

    /// Takes the next unit: the ordinal of a stored group, and some of its zones.
    pub fn take(self) -> (usize, Range<usize>) {
        let unit = self.0.words[NEXT_UNIT].fetch_add(1, Ordering::Relaxed) as usize;
        let zones = self.0.words[UNIT_ZONES].load(Ordering::Relaxed) as usize;
        let zones = zones.clamp(1, GROUP_ZONES);
        let per_group = GROUP_ZONES / zones;
        let start = unit % per_group * zones;
        (unit / per_group, start..start + zones)
    }

    fn counters(self) -> &'a [AtomicU64] {
        &self.0.words[COUNTS]
    }

    /// Adds what a participant counted beyond what it had published.
    pub fn publish(self, counts: Counts, published: Counts) {
        let pairs = counts.as_array().into_iter().zip(published.as_array());
        for (counter, (now, before)) in self.counters().iter().zip(pairs) {
            if now > before {
                counter.fetch_add(now - before, Ordering::Relaxed);
            }
        }
    }

    /// The counts of all participants.
    pub fn totals(self) -> Counts {
        let mut counts = [0; Counts::LEN];
        for (count, counter) in counts.iter_mut().zip(self.counters()) {
            *count = counter.load(Ordering::Relaxed);
        }
        Counts::from_array(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_cover_each_group_once() {
        for (groups, participants) in [(1, 3), (48, 3)] {
            let words = SharedUnits::make(groups, participants, Counts::default());
            let units = SharedUnits::of(&words);
            let mut covered = vec![0; groups * GROUP_ZONES];
            loop {
                let (group, zones) = units.take();
                if group >= groups {
                    break;
                }
                zones.for_each(|zone| covered[group * GROUP_ZONES + zone] += 1);
            }
            assert!(covered.iter().all(|&times| times == 1));
        }
    }

    #[test]
    fn counts_are_published_once() {
        let counts = |groups| Counts {
            groups,
            ..Counts::default()
        };
        let words = SharedUnits::make(1, 1, counts(2));
        let units = SharedUnits::of(&words);
        units.publish(counts(3), Counts::default());
        units.publish(counts(5), counts(3));
        assert_eq!(units.totals().groups, 7);
    }
}
