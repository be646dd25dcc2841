//! Time zones, as tables of the changes of their offsets from UTC.
//!
//! Timestamps count microseconds since 2000-01-01 00:00, those with time zone in UTC, local ones on
//! the zone's clocks. The rules are PostgreSQL's: local times that there are twice, or not at all,
//! mean what `DetermineTimeZoneOffset` in its `utils/adt/datetime.c` says.
//!
//! Invariant: beyond [`end`](Zone::end) nothing is known, and nothing is computed.

const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// When the offset changes, ascending.
    changes: Vec<i64>,
    /// The offsets before the first change, and after each of them, in microseconds east of UTC.
    offsets: Vec<i64>,
    end: i64,
}

/// A time in which the offset does not change.
#[derive(Clone, Copy)]
struct Stretch {
    from: i64,
    /// Not included.
    until: i64,
    offset: i64,
}

impl Zone {
    /// A zone of this offset before the first change, and of the given one from each change on, in
    /// microseconds. Changes are in UTC, whole seconds, and ascend; they are known before `end`.
    pub fn new(first_offset: i64, changes: &[(i64, i64)], end: i64) -> Self {
        let offsets = changes.iter().map(|&(_, offset)| offset);
        Self {
            changes: changes.iter().map(|&(at, _)| at).collect(),
            offsets: std::iter::once(first_offset).chain(offsets).collect(),
            end,
        }
    }

    /// A zone without an offset.
    pub fn utc() -> Self {
        Self::new(0, &[], i64::MAX)
    }

    /// The first moment of which nothing is known, in UTC.
    pub fn end(&self) -> i64 {
        self.end
    }

    /// The offset before the first change.
    pub(crate) fn first_offset(&self) -> i64 {
        self.offsets[0]
    }

    /// The changes, and the offsets after them.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (i64, i64)> {
        let after = self.offsets[1..].iter().copied();
        self.changes.iter().copied().zip(after)
    }

    fn stretch(&self, at: i64) -> Stretch {
        let next = self.changes.partition_point(|&change| change <= at);
        let from = next.checked_sub(1).map_or(i64::MIN, |i| self.changes[i]);
        Stretch {
            from,
            until: self.changes.get(next).copied().unwrap_or(i64::MAX),
            offset: self.offsets[next],
        }
    }

    /// Local times of moments before [`end`](Self::end). Neighbours mostly lie in one stretch.
    pub(crate) fn local_times(&self) -> impl FnMut(i64) -> i64 {
        let mut stretch = self.stretch(0);
        move |at| {
            if at < stretch.from || at >= stretch.until {
                stretch = self.stretch(at);
            }
            at.wrapping_add(stretch.offset)
        }
    }

    /// Moments of local times, all known if they are before [`end`](Self::end).
    pub(crate) fn moments(&self) -> impl FnMut(i64) -> i64 {
        // PostgreSQL looks at the first change from a day before the local time on. So the offset
        // is the stretch's from a day after its begin, and at least until two days before its end.
        let inner = |stretch: Stretch| Stretch {
            from: stretch.from.saturating_add(MICROSECONDS_PER_DAY),
            until: stretch.until.saturating_sub(2 * MICROSECONDS_PER_DAY),
            offset: stretch.offset,
        };
        let mut stretch = inner(self.stretch(0));
        move |local| {
            if local < stretch.from || local >= stretch.until {
                let yesterday = self.stretch(local.saturating_sub(MICROSECONDS_PER_DAY));
                stretch = inner(yesterday);
                return local.wrapping_sub(self.offset_near(yesterday, local));
            }
            local.wrapping_sub(stretch.offset)
        }
    }

    /// The offset of a local time, given the stretch of the moment a day before it.
    fn offset_near(&self, before: Stretch, local: i64) -> i64 {
        let Ok(next) = self.changes.binary_search(&before.until) else {
            return before.offset;
        };
        let after = self.offsets[next + 1];
        // Only whole seconds are compared.
        let seconds = local.div_euclid(MICROSECONDS_PER_SECOND) * MICROSECONDS_PER_SECOND;
        let (with_before, with_after) = (seconds - before.offset, seconds - after);
        if with_before < before.until && with_after < before.until {
            before.offset
        } else if with_before > before.until && with_after >= before.until {
            after
        } else if with_before > with_after {
            // Clocks were put forward.
            before.offset
        } else {
            after
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    /// Clocks are put forward by an hour at moment 100 hours, and back at 1,000 hours.
    fn zone() -> Zone {
        Zone::new(
            HOUR,
            &[(100 * HOUR, 2 * HOUR), (1_000 * HOUR, HOUR)],
            i64::MAX,
        )
    }

    #[test]
    fn clocks_show_the_offset_of_the_moment() {
        let zone = zone();
        let mut local = zone.local_times();
        for (at, expected) in [
            (-5 * HOUR, -4 * HOUR),
            (100 * HOUR - 1, 101 * HOUR - 1),
            (100 * HOUR, 102 * HOUR),
            (1_000 * HOUR - 1, 1_002 * HOUR - 1),
            (1_000 * HOUR, 1_001 * HOUR),
            (0, HOUR),
        ] {
            assert_eq!(local(at), expected, "{at}");
        }
    }

    #[test]
    fn times_that_there_are_not_or_twice_mean_what_they_mean_to_postgres() {
        let zone = zone();
        let mut moment = zone.moments();
        for (local, expected) in [
            (101 * HOUR - 1, 100 * HOUR - 1),
            // Between 101 and 102 hours there is none: the offset before is taken.
            (101 * HOUR + 7, 100 * HOUR + 7),
            (102 * HOUR, 100 * HOUR),
            // Between 1,001 and 1,002 hours there are two: the offset after is taken.
            (1_001 * HOUR - 1, 999 * HOUR - 1),
            (1_001 * HOUR + 7, 1_000 * HOUR + 7),
            (1_002 * HOUR, 1_001 * HOUR),
            (0, -HOUR),
            (500 * HOUR, 498 * HOUR),
        ] {
            assert_eq!(moment(local), expected, "{local}");
        }
    }

    #[test]
    fn a_zone_without_changes_has_one_offset() {
        let zone = Zone::utc();
        assert_eq!(zone.local_times()(7), 7);
        assert_eq!(zone.moments()(-7), -7);
    }
}
