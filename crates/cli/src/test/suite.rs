//! The steps `regress` and `isolation`: PostgreSQL's own suites with howdah as the default table
//! access method. A test passes when it prints what PostgreSQL expects, or differs exactly as a
//! reviewed file describes ([`super::reviewed`]).
//!
//! In `regress-cold` and `isolation-cold` every inserted row is cold at once. Reviewed differences
//! in `tests/postgres/SUITE` apply to these steps too; differences of these steps only are in
//! `tests/postgres/SUITE-cold`. In `regress-parallel` rows are cold, and every query that may run
//! in a parallel worker does so (`debug_parallel_query`). In `regress-vectorized` every query that
//! may be vectorized is (`howdah.debug_force_vectorized`). Reviewed differences of `regress-cold`
//! apply to both. `isolation-vectorized` does the same with the tests of `isolation-cold`. Unless
//! they are chosen by name, these three run a sample of their suite.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::crash_log::count_crashes;
use super::judge::{Judge, differences_file};
use super::pg_regress::{Run, Selection, schedule_tests};
use super::plan::Options;
use super::tally::Tally;
use crate::paths::Paths;
use crate::progress::{Counting, Progress};
use crate::scratch::Scratch;

/// The settings that pg_regress makes on a database that it creates itself; here the database is
/// created before, because the extension must be in it.
pub(super) const DATABASE_SETTINGS: [&str; 6] = [
    "lc_messages TO 'C'",
    "lc_monetary TO 'C'",
    "lc_numeric TO 'C'",
    "lc_time TO 'C'",
    "bytea_output TO 'hex'",
    "timezone_abbreviations TO 'Default'",
];

/// Why a step with PostgreSQL's suites does not run.
pub(super) const NO_SOURCES: &str = "skipped: this PostgreSQL came without its sources, which hold the suite; \
     set HOWDAH_PG_SOURCE to a built source tree of the same version";

/// Tests whose queries, functions and cursors would violate the rules of parallel mode, after the
/// two that create the objects that they use besides the [`Suite::foundation`].
const PARALLEL_SAMPLE: [&str; 14] = [
    "create_misc",
    "create_aggregate",
    "aggregates",
    "join",
    "limit",
    "plancache",
    "plpgsql",
    "portals",
    "rangefuncs",
    "select_distinct",
    "subselect",
    "transactions",
    "union",
    "with",
];

/// Tests that group, aggregate, or return first rows, after the tests that create what they use.
const VECTORIZED_SAMPLE: [&str; 20] = [
    "create_misc",
    "create_aggregate",
    "create_index",
    "aggregates",
    "groupingsets",
    "limit",
    "matview",
    "partition_aggregate",
    "plancache",
    "plpgsql",
    "portals",
    "rangefuncs",
    "rowsecurity",
    "select",
    "select_distinct",
    "subselect",
    "transactions",
    "union",
    "window",
    "with",
];

/// Tests whose steps aggregate, group, or return first rows, and which end soon.
const ISOLATION_SAMPLE: [&str; 15] = [
    "receipt-report",
    "project-manager",
    "classroom-scheduling",
    "total-cash",
    "matview-write-skew",
    "predicate-hash",
    "predicate-gist",
    "predicate-gin",
    "index-only-scan",
    "vacuum-no-cleanup-lock",
    "truncate-conflict",
    "alter-table-1",
    "skip-locked",
    "temporal-range-integrity",
    "deadlock-parallel",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suite {
    Regress,
    /// The same, with its queries in parallel workers.
    RegressParallel,
    /// The same, with its queries by the vectorized engine.
    RegressVectorized,
    Isolation,
    /// The same, with its queries by the vectorized engine.
    IsolationVectorized,
}

/// Queries by the vectorized engine, also those that other plans would run at less cost.
pub(super) const VECTORIZED: [(&str, &str); 2] = [
    ("howdah.debug_force_vectorized", "on"),
    ("howdah.threads", "2"),
];

/// Whether the rows that a suite inserts are hot or cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    Hot,
    Cold,
}

impl Rows {
    pub(super) fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // The suites load more rows in one statement than stay hot.
            Self::Hot => &[("howdah.bulk_load", "off")],
            // A statement that hangs is a difference, and does not end the run.
            Self::Cold => &[
                ("howdah.bulk_load", "on"),
                ("howdah.debug_force_cold", "on"),
                ("transaction_timeout", "2min"),
            ],
        }
    }
}

impl Suite {
    fn name(self) -> &'static str {
        match self {
            Self::Regress | Self::RegressParallel | Self::RegressVectorized => "regress",
            Self::Isolation | Self::IsolationVectorized => "isolation",
        }
    }

    fn title(self, rows: Rows) -> &'static str {
        match (self, rows) {
            (Self::RegressParallel, _) => "regress-parallel",
            (Self::RegressVectorized, _) => "regress-vectorized",
            (Self::IsolationVectorized, _) => "isolation-vectorized",
            (Self::Regress | Self::Isolation, Rows::Hot) => self.name(),
            (Self::Regress, Rows::Cold) => "regress-cold",
            (Self::Isolation, Rows::Cold) => "isolation-cold",
        }
    }

    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // More workers than 20 tests at a time have by default: if none is left, the leader
            // runs the query. Starting them takes time.
            Self::RegressParallel => &[
                ("debug_parallel_query", "regress"),
                ("max_worker_processes", "32"),
                ("max_parallel_workers", "24"),
                ("transaction_timeout", "10min"),
            ],
            Self::RegressVectorized | Self::IsolationVectorized => &VECTORIZED,
            Self::Regress | Self::Isolation => &[],
        }
    }

    /// The directories of `tests/postgres` with the suite's reviewed differences.
    fn reviewed(self, rows: Rows) -> Vec<&'static str> {
        match self {
            Self::RegressParallel => vec!["regress-parallel", "regress-cold", "regress"],
            Self::RegressVectorized => vec!["regress-vectorized", "regress-cold", "regress"],
            Self::IsolationVectorized => vec!["isolation-cold", "isolation"],
            Self::Regress | Self::Isolation => vec![self.title(rows), self.name()],
        }
    }

    /// The names that the suite's expected output contains.
    fn database(self) -> &'static str {
        match self {
            Self::Regress | Self::RegressParallel | Self::RegressVectorized => "regression",
            Self::Isolation | Self::IsolationVectorized => "isolation_regression",
        }
    }

    fn schedule(self) -> &'static str {
        match self {
            Self::Regress | Self::RegressParallel | Self::RegressVectorized => "parallel_schedule",
            Self::Isolation | Self::IsolationVectorized => "isolation_schedule",
        }
    }

    fn driver(self) -> &'static str {
        match self {
            Self::Regress | Self::RegressParallel | Self::RegressVectorized => "pg_regress",
            Self::Isolation | Self::IsolationVectorized => "pg_isolation_regress",
        }
    }

    /// The tests that are run unless the suite is chosen by name; `None` means all.
    fn sample(self) -> Option<&'static [&'static str]> {
        match self {
            Self::RegressParallel => Some(&PARALLEL_SAMPLE),
            Self::RegressVectorized => Some(&VECTORIZED_SAMPLE),
            Self::IsolationVectorized => Some(&ISOLATION_SAMPLE),
            Self::Regress | Self::Isolation => None,
        }
    }

    /// Tests on which all others of the suite depend.
    fn foundation(self) -> &'static [&'static str] {
        match self {
            Self::Regress | Self::RegressParallel | Self::RegressVectorized => &["test_setup"],
            Self::Isolation | Self::IsolationVectorized => &[],
        }
    }

    fn directory(self, source: &Path) -> PathBuf {
        source.join("src/test").join(self.name())
    }
}

pub(super) fn run(
    paths: &Paths,
    options: &Options,
    suite: Suite,
    rows: Rows,
) -> anyhow::Result<Tally> {
    let title = suite.title(rows);
    let progress = Progress::open_ended(title);
    let Some(source) = &paths.postgres_source else {
        progress.finish(NO_SOURCES);
        return Ok(Tally::skip(1));
    };
    let input = suite.directory(source);
    let schedule = input.join(suite.schedule());
    let schedule_text = fs::read_to_string(&schedule)
        .with_context(|| format!("cannot read {}", schedule.display()))?;
    let all = schedule_tests(&schedule_text);
    let chosen = choose(suite, options, &all);
    if chosen.is_empty() {
        progress.finish("no test matches");
        return Ok(Tally::default());
    }
    // Plain sizes, as `make check` uses them: some plans in the expected output depend on them.
    let mut settings = vec![
        ("shared_buffers", "128MB"),
        ("max_connections", "100"),
        ("max_prepared_transactions", "2"),
    ];
    settings.extend(rows.settings());
    settings.extend(suite.settings());
    let mut scratch = Scratch::start(paths, title, &settings)?;
    make_database(&scratch, suite.database())?;
    progress.vanish();

    let output = scratch.directory.join("work");
    scratch.cluster.account.make_private_directory(&output)?;
    let whole = chosen.len() == all.len();
    let mut progress = Progress::of(title, chosen.len() as u64, Counting::Things);
    let results = Run {
        cluster: &scratch.cluster,
        program: scratch
            .cluster
            .postgres
            .pgxs
            .join("test")
            .join(suite.name())
            .join(suite.driver()),
        database: suite.database(),
        input: &input,
        expected: &input,
        output: &output,
        selection: if whole {
            Selection::Schedule {
                file: &schedule,
                test_count: all.len() as u64,
            }
        } else {
            Selection::Names(&chosen)
        },
        more_arguments: match suite {
            Suite::Regress | Suite::RegressParallel | Suite::RegressVectorized => {
                vec![
                    format!("--dlpath={}", input.display()),
                    "--max-concurrent-tests=20".into(),
                ]
            }
            Suite::Isolation | Suite::IsolationVectorized => Vec::new(),
        },
    }
    .results(&mut progress)
    .inspect_err(|_| scratch.keep())?;

    let reviewed = paths.root.join("tests/postgres");
    let known: Vec<PathBuf> = suite
        .reviewed(rows)
        .into_iter()
        .map(|directory| reviewed.join(directory))
        .collect();
    let mut judgement = Judge {
        title,
        rows,
        expected: &input.join("expected"),
        output: &output,
        known: &known,
        accept: options.accept,
    }
    .judge(results)?;
    count_crashes(title, &scratch.cluster.log, &progress, &mut judgement.tally);
    if judgement.tally.failed > 0 || options.keep {
        scratch.keep();
    }
    progress.finish(&judgement.outcome(Some(&output.join(differences_file(rows)))));
    Ok(judgement.tally)
}

fn choose(suite: Suite, options: &Options, all: &[String]) -> Vec<String> {
    let sample = suite.sample().filter(|_| options.choose_nothing());
    let is_wanted = |name: &&String| {
        options.wants(name) && sample.is_none_or(|sample| sample.contains(&name.as_str()))
    };
    let wanted: Vec<&String> = all.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let stands_on = |name: &&String| suite.foundation().contains(&name.as_str());
    all.iter()
        .filter(|name| stands_on(name) || wanted.contains(name))
        .cloned()
        .collect()
}

/// A database with the extension in it, where tables use howdah unless they name another access
/// method.
pub(super) fn make_database(scratch: &Scratch, database: &str) -> anyhow::Result<()> {
    let mut client = scratch.cluster.connect("postgres")?;
    client.batch_execute(&format!("CREATE DATABASE {database} TEMPLATE template0"))?;
    for setting in DATABASE_SETTINGS {
        client.batch_execute(&format!("ALTER DATABASE {database} SET {setting}"))?;
    }
    scratch
        .cluster
        .connect(database)?
        .batch_execute("CREATE EXTENSION howdah")?;
    client.batch_execute(&format!(
        "ALTER DATABASE {database} SET default_table_access_method TO 'howdah'"
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::plan::Step;

    #[test]
    fn a_filtered_regress_run_still_sets_up_first() {
        let all = ["test_setup", "boolean", "vacuum"].map(str::to_owned);
        let options = Options {
            filters: vec!["vac".into()],
            ..Options::default()
        };
        assert_eq!(
            choose(Suite::Regress, &options, &all),
            ["test_setup", "vacuum"]
        );
        let options = Options {
            filters: vec!["nothing".into()],
            ..options
        };
        assert!(choose(Suite::Regress, &options, &all).is_empty());
    }

    #[test]
    fn a_sample_is_run_in_workers_unless_more_is_asked_for() {
        let all = ["test_setup", "boolean", "join"].map(str::to_owned);
        let mut options = Options::default();
        let chosen = |options: &Options| choose(Suite::RegressParallel, options, &all);
        assert_eq!(chosen(&options), ["test_setup", "join"]);
        options.only = vec![Step::RegressParallel];
        assert_eq!(chosen(&options), all);
    }
}
