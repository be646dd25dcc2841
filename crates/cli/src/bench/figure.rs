//! One line of the result: what each engine needed, and what howdah must reach.

use serde::Serialize;

/// The results of one engine's runs, in the figure's unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Measured(Vec<f64>),
    /// Refused with 0A000: this version does not support it.
    Refused,
    /// Not measured on this engine, or not there in this build.
    Absent,
}

impl Outcome {
    pub fn one(value: f64) -> Self {
        Self::Measured(vec![value])
    }

    pub fn median(&self) -> Option<f64> {
        let Self::Measured(samples) = self else {
            return None;
        };
        let mut sorted = samples.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let middle = sorted.len().checked_sub(1)? / 2;
        Some(if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle], sorted[middle + 1])
        })
    }

    /// Adds one run; a refusal stays a refusal.
    pub fn add(&mut self, sample: Option<f64>) {
        match (self, sample) {
            (Self::Measured(samples), Some(sample)) => samples.push(sample),
            (outcome, _) => *outcome = Self::Refused,
        }
    }

    pub fn nothing_yet() -> Self {
        Self::Measured(Vec::new())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
    Microseconds,
    Bytes,
    PerSecond,
    /// A multiple of another figure of the same engine.
    Times,
}

/// What howdah must reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Goal {
    /// howdah / heap is at most this.
    RatioAtMost(f64),
    /// howdah / heap is at least this.
    RatioAtLeast(f64),
    /// howdah alone, in the figure's unit.
    AtMost(f64),
    AtLeast(f64),
    /// howdah − heap is at most this, in the figure's unit.
    MoreByAtMost(f64),
    /// howdah is at most so many times DuckDB's value, and so much more in the figure's unit.
    DuckDbAtMost {
        times: f64,
        plus: f64,
    },
    /// howdah / DuckDB is at least this.
    DuckDbAtLeast(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Miss,
    /// No goal, or no figure to compare with it.
    Open,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Figure {
    pub title: String,
    pub unit: Unit,
    pub heap: Outcome,
    pub howdah: Outcome,
    pub duckdb: Outcome,
    pub goal: Option<Goal>,
    /// The first difference between two engines' answers.
    pub difference: Option<String>,
}

impl Figure {
    pub fn new(title: &str, unit: Unit) -> Self {
        Self {
            title: title.to_owned(),
            unit,
            heap: Outcome::nothing_yet(),
            howdah: Outcome::nothing_yet(),
            duckdb: Outcome::Absent,
            goal: None,
            difference: None,
        }
    }

    pub fn with_goal(mut self, goal: Option<Goal>) -> Self {
        self.goal = goal;
        self
    }

    pub fn side(&mut self, side: super::Side) -> &mut Outcome {
        match side {
            super::Side::Heap => &mut self.heap,
            super::Side::Howdah => &mut self.howdah,
        }
    }

    /// howdah / heap. Runs that were taken side by side are compared with each other, and the
    /// median of their ratios counts: a machine that slows down meanwhile slows both.
    pub fn ratio(&self) -> Option<f64> {
        if let (Outcome::Measured(heap), Outcome::Measured(howdah)) = (&self.heap, &self.howdah)
            && heap.len() == howdah.len()
            && heap.iter().all(|heap| *heap > 0.0)
        {
            let pairs = howdah.iter().zip(heap).map(|(howdah, heap)| howdah / heap);
            return Outcome::Measured(pairs.collect()).median();
        }
        let heap = self.heap.median().filter(|heap| *heap > 0.0)?;
        Some(self.howdah.median()? / heap)
    }

    /// howdah / DuckDB, of their medians: they do not take turns.
    pub fn ratio_to_duckdb(&self) -> Option<f64> {
        let duckdb = self.duckdb.median().filter(|duckdb| *duckdb > 0.0)?;
        Some(self.howdah.median()? / duckdb)
    }

    pub fn verdict(&self) -> Verdict {
        let Some(goal) = self.goal else {
            return Verdict::Open;
        };
        if self.howdah == Outcome::Refused {
            return Verdict::Miss;
        }
        let reached = match goal {
            Goal::RatioAtMost(limit) => self.ratio().map(|ratio| ratio <= limit),
            Goal::RatioAtLeast(limit) => self.ratio().map(|ratio| ratio >= limit),
            Goal::AtMost(limit) => self.howdah.median().map(|value| value <= limit),
            Goal::AtLeast(limit) => self.howdah.median().map(|value| value >= limit),
            Goal::MoreByAtMost(limit) => {
                let medians = self.howdah.median().zip(self.heap.median());
                medians.map(|(howdah, heap)| howdah - heap <= limit)
            }
            Goal::DuckDbAtMost { times, plus } => {
                let limit = self.duckdb.median().map(|duckdb| duckdb * times + plus);
                let medians = self.howdah.median().zip(limit);
                medians.map(|(howdah, limit)| howdah <= limit)
            }
            Goal::DuckDbAtLeast(limit) => self.ratio_to_duckdb().map(|ratio| ratio >= limit),
        };
        match reached {
            Some(true) => Verdict::Ok,
            Some(false) => Verdict::Miss,
            None => Verdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(heap: f64, howdah: f64, goal: Goal) -> Figure {
        Figure {
            heap: Outcome::one(heap),
            howdah: Outcome::one(howdah),
            ..Figure::new("a figure", Unit::Milliseconds).with_goal(Some(goal))
        }
    }

    #[test]
    fn the_median_of_an_even_number_of_runs_lies_between_the_middle_two() {
        assert_eq!(Outcome::Measured(vec![9.0, 1.0, 5.0]).median(), Some(5.0));
        assert_eq!(Outcome::Measured(vec![1.0, 2.0]).median(), Some(1.5));
        assert_eq!(Outcome::nothing_yet().median(), None);
    }

    #[test]
    fn goals_hold_the_ratio_or_the_value_against_the_limit() {
        assert_eq!(
            figure(10.0, 13.0, Goal::RatioAtMost(1.3)).verdict(),
            Verdict::Ok
        );
        assert_eq!(
            figure(10.0, 13.1, Goal::RatioAtMost(1.3)).verdict(),
            Verdict::Miss
        );
        assert_eq!(
            figure(100.0, 94.0, Goal::RatioAtLeast(0.95)).verdict(),
            Verdict::Miss
        );
        assert_eq!(figure(1.0, 1e6, Goal::AtLeast(1e6)).verdict(), Verdict::Ok);
        let more = Goal::MoreByAtMost(8.0);
        assert_eq!(figure(4.0, 12.0, more).verdict(), Verdict::Ok);
        assert_eq!(figure(4.0, 12.5, more).verdict(), Verdict::Miss);
    }

    #[test]
    fn a_goal_beside_duckdb_is_open_without_it() {
        let goal = Goal::DuckDbAtMost {
            times: 2.0,
            plus: 0.5,
        };
        let mut one = figure(100.0, 10.5, goal);
        assert_eq!(one.verdict(), Verdict::Open);
        one.duckdb = Outcome::one(5.0);
        assert_eq!(one.verdict(), Verdict::Ok);
        one.duckdb = Outcome::one(4.9);
        assert_eq!(one.verdict(), Verdict::Miss);
    }

    #[test]
    fn runs_taken_side_by_side_are_compared_with_each_other() {
        let mut slowing = figure(1.0, 2.0, Goal::RatioAtMost(2.0));
        slowing.heap = Outcome::Measured(vec![1.0, 10.0, 100.0]);
        slowing.howdah = Outcome::Measured(vec![2.0, 20.0, 50.0]);
        assert_eq!(slowing.ratio(), Some(2.0));
        slowing.howdah = Outcome::Measured(vec![20.0]);
        assert_eq!(slowing.ratio(), Some(2.0));
    }

    #[test]
    fn a_refusal_misses_its_goal_and_what_was_not_measured_stays_open() {
        let mut refused = figure(1.0, 1.0, Goal::RatioAtMost(3.0));
        refused.howdah.add(None);
        assert_eq!(refused.verdict(), Verdict::Miss);
        let mut absent = figure(1.0, 1.0, Goal::AtLeast(1.0));
        absent.howdah = Outcome::Absent;
        assert_eq!(absent.verdict(), Verdict::Open);
    }
}
