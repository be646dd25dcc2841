//! What to run: the steps in their order, chosen by `--only`, narrowed by filters.

use clap::{Args, ValueEnum};

/// One part of the whole test run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// rustfmt
    Format,
    /// clippy, with warnings denied
    Lint,
    /// cargo test of the crates that need no server
    Crates,
    /// tests/sql, against expected output
    Sql,
    /// PostgreSQL's regression suite with howdah as the default access method
    Regress,
    /// tests/isolation, then PostgreSQL's isolation suite, likewise
    Isolation,
    /// PostgreSQL's regression suite with every inserted row cold at once
    RegressCold,
    /// PostgreSQL's isolation suite, likewise
    IsolationCold,
    /// The first of these with queries in parallel workers: a sample, unless it is chosen
    RegressParallel,
    /// Likewise, with every query by the vectorized engine that may be
    RegressVectorized,
    /// PostgreSQL's isolation suite with cold rows, likewise
    IsolationVectorized,
    /// The suites of contrib and PL/pgSQL, with cold rows
    ContribCold,
    /// Likewise, with every query by the vectorized engine that may be; only if it is chosen
    ContribVectorized,
    /// A sample of PostgreSQL's subscription and recovery tests; filters choose among all
    Tap,
    /// Tests of whole servers: crash, standby, dump and restore
    Server,
}

impl Step {
    pub fn title(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Lint => "lint",
            Self::Crates => "crates",
            Self::Sql => "sql",
            Self::Regress => "regress",
            Self::Isolation => "isolation",
            Self::RegressCold => "regress-cold",
            Self::IsolationCold => "isolation-cold",
            Self::RegressParallel => "regress-parallel",
            Self::RegressVectorized => "regress-vectorized",
            Self::IsolationVectorized => "isolation-vectorized",
            Self::ContribCold => "contrib-cold",
            Self::ContribVectorized => "contrib-vectorized",
            Self::Tap => "tap",
            Self::Server => "server",
        }
    }

    /// Steps that `soak` runs whole, and that have no sample, run only if they are chosen.
    fn needs_choice(self) -> bool {
        self == Self::ContribVectorized
    }

    /// Steps without tests of their own have no names that a filter could match.
    fn has_named_tests(self) -> bool {
        !matches!(self, Self::Format | Self::Lint)
    }
}

#[derive(Default, Debug, Clone, Args)]
pub struct Options {
    /// Run only tests whose name contains one of these, or whose file in a `tests` folder has one
    /// of them as its name
    pub filters: Vec<String>,
    /// Run only this step; may be given more than once
    #[arg(long, value_name = "STEP")]
    pub only: Vec<Step>,
    /// Take what the SQL files print, or how PostgreSQL's suites differ, as the new expectation;
    /// look at it with git diff, and give every new difference a reason
    #[arg(long)]
    pub accept: bool,
    /// Keep the directories of the servers that were started
    #[arg(long)]
    pub keep: bool,
    /// Let the servers load a release, as `install` and `package` build it; the first build takes
    /// as long as that of a new machine
    #[arg(long)]
    pub release: bool,
}

impl Options {
    pub(super) fn steps(&self) -> Vec<Step> {
        let chosen = |step: &Step| {
            if self.only.is_empty() {
                !step.needs_choice() && (self.filters.is_empty() || step.has_named_tests())
            } else {
                self.only.contains(step)
            }
        };
        Step::value_variants()
            .iter()
            .copied()
            .filter(chosen)
            .collect()
    }

    /// Whether all steps run, as they do without arguments.
    pub(super) fn choose_nothing(&self) -> bool {
        self.filters.is_empty() && self.only.is_empty()
    }

    pub(super) fn wants(&self, test: &str) -> bool {
        self.filters.is_empty()
            || self
                .filters
                .iter()
                .any(|filter| test.contains(filter.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(filters: &[&str], only: &[Step]) -> Options {
        Options {
            filters: filters.iter().map(|text| (*text).to_owned()).collect(),
            only: only.to_vec(),
            ..Options::default()
        }
    }

    #[test]
    fn every_step_but_one_runs_when_nothing_is_chosen() {
        let mut all = Step::value_variants().to_vec();
        all.retain(|step| *step != Step::ContribVectorized);
        assert_eq!(options(&[], &[]).steps(), all);
        for step in Step::value_variants() {
            assert_eq!(options(&[], &[*step]).steps(), [*step]);
        }
    }

    #[test]
    fn a_filter_leaves_out_steps_without_named_tests() {
        let steps = options(&["vacuum"], &[]).steps();
        assert!(!steps.contains(&Step::Format) && steps.contains(&Step::Sql));
    }

    #[test]
    fn chosen_steps_keep_their_order() {
        let steps = options(&[], &[Step::Server, Step::Sql]).steps();
        assert_eq!(steps, [Step::Sql, Step::Server]);
    }
}
