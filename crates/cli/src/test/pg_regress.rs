//! Runs PostgreSQL's own test drivers (`pg_regress`, `pg_isolation_regress`) against a running
//! server, and reads their results as they come.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail};

use super::tap::{self, Verdict};
use crate::cluster::Cluster;
use crate::progress::Progress;

/// One run of a driver.
pub(super) struct Run<'a> {
    pub cluster: &'a Cluster,
    pub program: PathBuf,
    pub database: &'a str,
    /// Holds `sql/` or `specs/`.
    pub input: &'a Path,
    /// Holds `expected/`.
    pub expected: &'a Path,
    /// Gets `results/` and `regression.diffs`; the server's account must be able to write there.
    pub output: &'a Path,
    pub selection: Selection<'a>,
    pub more_arguments: Vec<String>,
}

/// Which tests of the suite run.
pub(super) enum Selection<'a> {
    Schedule { file: &'a Path, test_count: u64 },
    Names(&'a [String]),
}

/// The result of each test of a run, in order.
pub(super) type Results = Vec<(String, Verdict)>;

impl Run<'_> {
    /// Runs the tests and advances the caller's bar. Failed tests are results, not errors.
    pub fn results(&self, progress: &mut Progress) -> anyhow::Result<Results> {
        if !self.program.exists() {
            bail!("{} is not installed", self.program.display());
        }
        let mut command = self.cluster.external(&self.program);
        command.current_dir(self.output);
        // The isolation tester cancels a step that hangs for twice as many seconds.
        command.env("PG_TEST_TIMEOUT_DEFAULT", "30");
        command
            .arg("--use-existing")
            .arg(format!("--dbname={}", self.database))
            .arg(argument("--bindir", &self.cluster.postgres.bin))
            .arg(argument("--inputdir", self.input))
            .arg(argument("--expecteddir", self.expected))
            .arg(argument("--outputdir", self.output))
            .arg(argument("--host", &self.cluster.socket))
            .arg(format!("--port={}", self.cluster.port))
            .arg(format!("--user={}", self.cluster.superuser))
            .args(&self.more_arguments);
        let test_count = match &self.selection {
            Selection::Schedule { file, test_count } => {
                command.arg(argument("--schedule", file));
                *test_count
            }
            Selection::Names(names) => {
                command.args(*names);
                names.len() as u64
            }
        };
        let errors = fs::File::create(self.output.join("driver.log"))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let output = child.stdout.take().context("the driver has no output")?;
        let mut results = Results::new();
        let mut words = String::new();
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            match tap::pg_regress_line(&line) {
                Some((name, verdict)) => {
                    progress.advance(1, name);
                    results.push((name.to_owned(), verdict));
                }
                None => {
                    words.push_str(&line);
                    words.push('\n');
                }
            }
        }
        let status = child.wait()?;
        // The driver's exit code is 1 for failed tests and 2 for its own errors.
        let finished = results.len() as u64 == test_count;
        if finished && matches!(status.code(), Some(0 | 1)) {
            return Ok(results);
        }
        let errors = fs::read_to_string(self.output.join("driver.log")).unwrap_or_default();
        bail!(
            "the driver stopped after {} of {test_count} tests ({status}):\n{}{}",
            results.len(),
            words,
            errors
        )
    }
}

fn argument(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// The names of the tests in a schedule: the words after `test:`.
pub(super) fn schedule_tests(schedule: &str) -> Vec<String> {
    let lines = schedule
        .lines()
        .filter_map(|line| line.trim().strip_prefix("test:"));
    lines
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_names_its_tests_in_order() {
        let schedule = "# comment\ntest: test_setup\n\ntest: boolean char name\n";
        assert_eq!(
            schedule_tests(schedule),
            ["test_setup", "boolean", "char", "name"]
        );
    }
}
