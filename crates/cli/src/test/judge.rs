//! Whether a suite of PostgreSQL's own passed: its output compared with what PostgreSQL expects,
//! less the reviewed differences ([`super::reviewed`]); with cold rows in canonical form
//! ([`super::canonical`]).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::canonical;
use super::pg_regress::Results;
use super::reviewed::{self, Reviewed};
use super::suite::Rows;
use super::tally::Tally;
use super::tap::Verdict;

const CANONICAL_DIFFS: &str = "canonical.diffs";

/// The file below a suite's output that shows how it differs.
pub(super) fn differences_file(rows: Rows) -> &'static str {
    match rows {
        Rows::Hot => "regression.diffs",
        Rows::Cold => CANONICAL_DIFFS,
    }
}

/// One suite's results, and what they are compared with.
pub(super) struct Judge<'a> {
    /// The beginning of each failure's name.
    pub title: &'a str,
    pub rows: Rows,
    /// What PostgreSQL expects, by test.
    pub expected: &'a Path,
    /// Holds `results/` and `regression.diffs`.
    pub output: &'a Path,
    /// Where reviewed differences are; new ones go to the first.
    pub known: &'a [PathBuf],
    /// Whether a difference is written down as one to be reviewed.
    pub accept: bool,
}

#[derive(Default)]
pub(super) struct Judgement {
    pub tally: Tally,
    /// How many of the passed tests differ as described in a reviewed file.
    pub explained: u64,
}

impl Judge<'_> {
    pub fn judge(&self, results: Results) -> anyhow::Result<Judgement> {
        let differences = match self.rows {
            Rows::Hot => {
                let diffs = fs::read(self.output.join("regression.diffs")).unwrap_or_default();
                reviewed::by_test(&String::from_utf8_lossy(&diffs))
            }
            Rows::Cold => self.canonical_differences(&results)?,
        };
        let mut judgement = Judgement::default();
        let tally = &mut judgement.tally;
        for (name, verdict) in results {
            let difference = differences
                .get(&name)
                .map(String::as_str)
                .unwrap_or_default();
            match verdict {
                Verdict::Passed => tally.passed += 1,
                Verdict::Skipped => tally.skipped += 1,
                Verdict::Failed if self.rows == Rows::Cold && difference.is_empty() => {
                    tally.passed += 1;
                }
                Verdict::Failed if is_explained(self.known, &name, difference) => {
                    tally.passed += 1;
                    judgement.explained += 1;
                }
                Verdict::Failed => {
                    if let (true, Some(known)) = (self.accept, self.known.first()) {
                        accept(known, &name, difference)?;
                    }
                    tally.fail(format!("{}: {name}", self.title));
                }
            }
        }
        Ok(judgement)
    }

    /// Differences beyond plans and the order of rows, by test; all of them are also written to one
    /// file.
    fn canonical_differences(&self, results: &Results) -> anyhow::Result<BTreeMap<String, String>> {
        let mut differences = BTreeMap::new();
        let mut all = String::new();
        for (name, verdict) in results {
            if *verdict == Verdict::Failed {
                let one = canonical::difference(self.expected, &self.output.join("results"), name)?;
                all.push_str(&one);
                differences.insert(name.clone(), one);
            }
        }
        fs::write(self.output.join(CANONICAL_DIFFS), all)?;
        Ok(differences)
    }
}

impl Judgement {
    pub fn add(&mut self, other: Self) {
        self.tally.add(other.tally);
        self.explained += other.explained;
    }

    /// The lasting line of a step; `differences` is the file that shows how tests failed.
    pub fn outcome(&self, differences: Option<&Path>) -> String {
        let mut outcome = self.tally.to_string();
        if self.explained > 0 {
            let explained = self.explained;
            outcome.push_str(&format!("; {explained} differ as tests/postgres explains"));
        }
        if let (true, Some(differences)) = (self.tally.failed > 0, differences) {
            outcome.push_str(&format!("; differences in {}", differences.display()));
        }
        outcome
    }
}

fn is_explained(known: &[PathBuf], name: &str, difference: &str) -> bool {
    !difference.is_empty()
        && known.iter().any(|directory| {
            ["", "_1"].iter().any(|variant| {
                fs::read_to_string(directory.join(format!("{name}{variant}.diff")))
                    .is_ok_and(|text| Reviewed::parse(&text).explains(difference))
            })
        })
}

fn accept(known: &Path, name: &str, difference: &str) -> anyhow::Result<()> {
    fs::create_dir_all(known)?;
    let file = known.join(format!("{name}.diff"));
    fs::write(&file, reviewed::unreviewed_file(difference))
        .with_context(|| format!("cannot write {}", file.display()))
}
