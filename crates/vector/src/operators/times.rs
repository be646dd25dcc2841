//! The time of a run by operator, if it is measured.

use std::time::{Duration, Instant};

/// Time of all threads together, by operator. Columns are decoded where they are first needed:
/// those of the filter by the filter, the others by what follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorTimes {
    /// Checking and opening chunks.
    pub scan: Duration,
    /// Filtering.
    pub filter: Duration,
    /// Aggregating, or keeping the first rows, and merging the states of threads.
    pub output: Duration,
}

impl OperatorTimes {
    pub(crate) fn add(&mut self, other: &Self) {
        self.scan += other.scan;
        self.filter += other.filter;
        self.output += other.output;
    }
}

/// Measures one step after the other; does nothing if times are not measured.
pub(crate) struct Clock(Option<Instant>);

impl Clock {
    pub(crate) fn start(is_wanted: bool) -> Self {
        Self(is_wanted.then(Instant::now))
    }

    /// Adds the time since the last step.
    pub(crate) fn lap(&mut self, to: &mut Duration) {
        if let Some(last) = &mut self.0 {
            let now = Instant::now();
            *to += now.duration_since(*last);
            *last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_measured_only_where_wanted() {
        let mut time = Duration::ZERO;
        let mut clock = Clock::start(false);
        std::thread::sleep(Duration::from_millis(1));
        clock.lap(&mut time);
        assert_eq!(time, Duration::ZERO);
        let mut clock = Clock::start(true);
        std::thread::sleep(Duration::from_millis(1));
        clock.lap(&mut time);
        assert!(time >= Duration::from_millis(1));
    }
}
