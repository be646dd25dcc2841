//! The step `tap`, and a part of `soak`: PostgreSQL's subscription and recovery tests, which are
//! Perl programs that start servers of their own and print TAP. Tables there use howdah unless a
//! test names another access method.
//!
//! ```text
//!   surroundings: template directory, settings, initdb ─┐
//!                                                       ├─► perl NAME.pl, several at a time
//!   src/test/{subscription,recovery}/t/NAME.pl ─────────┘         └─► verdict
//! ```
//!
//! `test` runs a sample of quick ones, `soak` all of them. A program that passes here prints `ok`
//! for each of its checks; [`LEFT_OUT`] and [`LEFT_OUT_COLD`] list the programs that cannot pass,
//! and why, [`EXPLAINED_COLD`] the single checks.

mod surroundings;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;

use anyhow::Context as _;

use self::surroundings::Surroundings;
use super::plan::Options;
use super::suite::{self, Rows};
use super::tally::Tally;
use super::tap::{self, Verdict};
use crate::paths::Paths;
use crate::progress::{Counting, Progress};

const TITLE: &str = "tap";
const SUITES: [&str; 2] = ["subscription", "recovery"];

/// The programs that `test` runs: each takes seconds and covers another part of replication or
/// recovery.
const SAMPLE: [&str; 8] = [
    "subscription/001_rep_changes",
    "subscription/010_truncate",
    "subscription/013_partition",
    "subscription/032_subscribe_use_index",
    "recovery/001_stream_rep",
    "recovery/009_twophase",
    "recovery/018_wal_optimize",
    "recovery/032_relfilenode_reuse",
];

/// Programs that do not run, and why.
const LEFT_OUT: [(&str, &str); 2] = [
    (
        "recovery/027_stream_regress",
        "runs the regression suite, whose differences are reviewed by the steps regress and regress-cold",
    ),
    (
        "recovery/029_stats_restart",
        "expects that nobody has visited a database after a crash; compaction's launcher has",
    ),
];

/// Programs that do not run with cold rows, and why.
const LEFT_OUT_COLD: [(&str, &str); 2] = [
    (
        "recovery/031_recovery_conflict",
        "waits for a cursor's pin on a heap page to be in replay's way; cursors hold no pins on pages of cold rows",
    ),
    (
        "recovery/048_vacuum_horizon_floor",
        "waits for a cursor's pin on a heap page to be in VACUUM's way; cursors hold no pins on pages of cold rows",
    ),
];

/// Checks that fail with cold rows: program, check, and why.
const EXPLAINED_COLD: [(&str, &str, &str); 1] = [(
    "subscription/011_generated",
    "2 - generated columns replicated",
    "asks for rows without ORDER BY, and an updated one lies elsewhere: the same rows in another order",
)];

/// Whether a program passed, except for checks that are explained.
fn is_explained(program: &Program, rows: Rows, outcome: &Outcome) -> bool {
    let explained = |failure: &String| {
        EXPLAINED_COLD
            .iter()
            .any(|(name, check, _)| program.name == *name && failure == check)
    };
    matches!(rows, Rows::Cold)
        && outcome.ran_to_its_end
        && !outcome.failures.is_empty()
        && outcome.failures.iter().all(explained)
}

/// Which programs run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Selection<'a> {
    /// The sample, or whatever the filters name.
    Test(&'a Options),
    All,
}

impl Selection<'_> {
    fn contains(self, program: &Program, rows: Rows) -> bool {
        match self {
            Self::All => true,
            Self::Test(options) if options.filters.is_empty() => {
                SAMPLE.contains(&program.name.as_str())
            }
            Self::Test(options) => options.wants(&program.title(rows)),
        }
    }
}

/// One Perl program of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    /// `SUITE/NAME`.
    name: String,
    /// The suite's directory, from which programs run.
    directory: PathBuf,
    file: PathBuf,
}

impl Program {
    /// Its name in lists and for filters.
    fn title(&self, rows: Rows) -> String {
        let rows = match rows {
            Rows::Hot => "hot",
            Rows::Cold => "cold",
        };
        format!("{rows}/{}", self.name)
    }
}

/// The step: the sample, rows hot and cold.
pub(super) fn run(paths: &Paths, options: &Options) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    for rows in [Rows::Hot, Rows::Cold] {
        tally.add(run_with(
            paths,
            Selection::Test(options),
            rows,
            options.keep,
        )?);
    }
    Ok(tally)
}

/// Runs every program of both suites.
///
/// # Errors
/// When the servers' template cannot be made.
pub(super) fn run_all(paths: &Paths, rows: Rows) -> anyhow::Result<Tally> {
    run_with(paths, Selection::All, rows, false)
}

fn run_with(
    paths: &Paths,
    selection: Selection<'_>,
    rows: Rows,
    keep: bool,
) -> anyhow::Result<Tally> {
    let title = match rows {
        Rows::Hot => TITLE,
        Rows::Cold => "tap, cold rows",
    };
    let progress = Progress::open_ended(title);
    let Some(source) = &paths.postgres_source else {
        progress.finish(suite::NO_SOURCES);
        return Ok(Tally::skip(1));
    };
    let mut programs = programs_of(source)?;
    programs.retain(|program| selection.contains(program, rows));
    let cold = match rows {
        Rows::Hot => &[][..],
        Rows::Cold => &LEFT_OUT_COLD[..],
    };
    let left_out = |program: &Program| {
        let mut all = LEFT_OUT.iter().chain(cold);
        all.any(|(name, _)| program.name == *name)
    };
    let (skipped, programs): (VecDeque<_>, VecDeque<_>) = programs.into_iter().partition(left_out);
    if programs.is_empty() {
        progress.finish("no test matches");
        return Ok(Tally::skip(skipped.len() as u64));
    }
    if let Some(reason) = surroundings::what_is_missing() {
        progress.finish(&format!("skipped: {reason}"));
        return Ok(Tally::skip((programs.len() + skipped.len()) as u64));
    }
    let mut surroundings = Surroundings::make(paths, source, rows)?;
    progress.vanish();

    let mut progress = Progress::of(title, programs.len() as u64, Counting::Things);
    let mut tally = Tally::skip(skipped.len() as u64);
    run_side_by_side(programs, &surroundings, |program, outcome| {
        progress.advance(1, &program.name);
        let outcome = outcome.unwrap_or_else(|error| Outcome::broken(&error));
        match outcome.verdict {
            Verdict::Passed => tally.passed += 1,
            Verdict::Skipped => tally.skipped += 1,
            Verdict::Failed if is_explained(program, rows, &outcome) => tally.passed += 1,
            Verdict::Failed => {
                let name = program.title(rows);
                for failure in &outcome.failures {
                    progress.line(&format!("  {name}: {failure}"));
                }
                tally.fail(format!("{TITLE}: {name}"));
            }
        }
    });
    if tally.failed > 0 || keep {
        surroundings.keep();
        progress.finish(&format!("{tally}; logs in {}", surroundings.work.display()));
    } else {
        progress.finish(&tally.to_string());
    }
    Ok(tally)
}

fn programs_of(source: &Path) -> anyhow::Result<Vec<Program>> {
    let mut programs = Vec::new();
    for suite in SUITES {
        let directory = source.join("src/test").join(suite);
        let tests = directory.join("t");
        let entries =
            fs::read_dir(&tests).with_context(|| format!("cannot read {}", tests.display()))?;
        for entry in entries {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "pl") {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy();
                programs.push(Program {
                    name: format!("{suite}/{stem}"),
                    directory: directory.clone(),
                    file,
                });
            }
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Runs programs on as many threads as the machine has processors, and reports each outcome as it
/// comes.
fn run_side_by_side(
    programs: VecDeque<Program>,
    surroundings: &Surroundings,
    mut tell: impl FnMut(&Program, anyhow::Result<Outcome>),
) {
    let thread_count = thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(programs);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..thread_count {
            let sender = sender.clone();
            let next = || queue.lock().ok()?.pop_front();
            scope.spawn(move || {
                while let Some(program) = next() {
                    let outcome = run_program(&program, surroundings);
                    if sender.send((program, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (program, outcome) in receiver {
            tell(&program, outcome);
        }
    });
}

/// How one program ended.
struct Outcome {
    verdict: Verdict,
    /// Its checks that failed.
    failures: Vec<String>,
    /// Whether all checks were made: it exits with the number of those that failed.
    ran_to_its_end: bool,
}

impl Outcome {
    fn broken(error: &anyhow::Error) -> Self {
        Self {
            verdict: Verdict::Failed,
            failures: vec![format!("{error:#}")],
            ran_to_its_end: false,
        }
    }
}

fn run_program(program: &Program, surroundings: &Surroundings) -> anyhow::Result<Outcome> {
    let directory = surroundings.directory_of(&program.name)?;
    let log = directory.join("output.log");
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command: Command = surroundings.perl(&directory, &program.directory);
    let status = command
        .arg(&program.file)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .context("cannot run perl")?;
    let text = fs::read(&log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let failures: Vec<String> = text
        .lines()
        .filter_map(tap::failed_check)
        .map(str::to_owned)
        .collect();
    let verdict = if !status.success() || !failures.is_empty() {
        Verdict::Failed
    } else if text.lines().any(tap::skips_all) {
        Verdict::Skipped
    } else {
        Verdict::Passed
    };
    if verdict != Verdict::Failed {
        // Data directories of a hundred servers would fill the disk.
        let _ = fs::remove_dir_all(&directory);
    }
    let ran_to_its_end = status.code() == i32::try_from(failures.len()).ok();
    Ok(Outcome {
        verdict,
        failures,
        ran_to_its_end,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_explained_checks_of_programs_that_ran_to_their_end_may_fail() {
        let program = Program {
            name: "subscription/011_generated".to_owned(),
            directory: PathBuf::new(),
            file: PathBuf::new(),
        };
        let outcome = |failures: &[&str], ran_to_its_end| Outcome {
            verdict: Verdict::Failed,
            failures: failures.iter().map(|&failure| failure.to_owned()).collect(),
            ran_to_its_end,
        };
        let known = EXPLAINED_COLD[0].1;
        assert!(is_explained(&program, Rows::Cold, &outcome(&[known], true)));
        assert!(!is_explained(&program, Rows::Hot, &outcome(&[known], true)));
        assert!(!is_explained(
            &program,
            Rows::Cold,
            &outcome(&[known], false)
        ));
        assert!(!is_explained(
            &program,
            Rows::Cold,
            &outcome(&[known, "3 - more"], true)
        ));
        assert!(!is_explained(&program, Rows::Cold, &outcome(&[], true)));
    }
}
