//! The steps `regress` and `isolation`: PostgreSQL's own suites with howdah as the default table
//! access method. A test passes when it prints what PostgreSQL expects, or differs exactly as a
//! reviewed file says ([`super::reviewed`]).
//!
//! In `regress-cold` and `isolation-cold` every inserted row is cold at once. What is reviewed
//! in `tests/postgres/SUITE` holds for these too; what differs only there is in
//! `tests/postgres/SUITE-cold`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::canonical;
use super::crash_log::count_crashes;
use super::pg_regress::{Results, Run, Selection, schedule_tests};
use super::plan::Options;
use super::reviewed::{self, Reviewed};
use super::tally::Tally;
use super::tap::Verdict;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::scratch::Scratch;

/// What pg_regress sets on a database that it makes itself; ours is made before, because the
/// extension must be in it.
pub(super) const DATABASE_SETTINGS: [&str; 6] = [
    "lc_messages TO 'C'",
    "lc_monetary TO 'C'",
    "lc_numeric TO 'C'",
    "lc_time TO 'C'",
    "bytea_output TO 'hex'",
    "timezone_abbreviations TO 'Default'",
];

const CANONICAL_DIFFS: &str = "canonical.diffs";

fn differences_file(rows: Rows) -> &'static str {
    match rows {
        Rows::Hot => "regression.diffs",
        Rows::Cold => CANONICAL_DIFFS,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suite {
    Regress,
    Isolation,
}

/// Where the rows are that a suite inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    Hot,
    Cold,
}

impl Rows {
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // The suites load more rows in one statement than stay hot.
            Self::Hot => &[("howdah.bulk_load", "off")],
            // What hangs is a difference, not the end of the run.
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
            Self::Regress => "regress",
            Self::Isolation => "isolation",
        }
    }

    fn title(self, rows: Rows) -> &'static str {
        match (self, rows) {
            (Self::Regress | Self::Isolation, Rows::Hot) => self.name(),
            (Self::Regress, Rows::Cold) => "regress-cold",
            (Self::Isolation, Rows::Cold) => "isolation-cold",
        }
    }

    /// The names that the suite's expected output contains.
    fn database(self) -> &'static str {
        match self {
            Self::Regress => "regression",
            Self::Isolation => "isolation_regression",
        }
    }

    fn schedule(self) -> &'static str {
        match self {
            Self::Regress => "parallel_schedule",
            Self::Isolation => "isolation_schedule",
        }
    }

    fn driver(self) -> &'static str {
        match self {
            Self::Regress => "pg_regress",
            Self::Isolation => "pg_isolation_regress",
        }
    }

    /// Tests on which all others of the suite stand.
    fn foundation(self) -> &'static [&'static str] {
        match self {
            Self::Regress => &["test_setup"],
            Self::Isolation => &[],
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
        progress.finish(
            "skipped: this PostgreSQL came without its sources, which hold the suite; \
             set HOWDAH_PG_SOURCE to a built source tree of the same version",
        );
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
    let mut scratch = Scratch::start(paths, title, &settings)?;
    make_database(&scratch, suite)?;
    progress.vanish();

    let output = scratch.directory.join("work");
    scratch.cluster.account.make_private_directory(&output)?;
    let whole = chosen.len() == all.len();
    let results = Run {
        title,
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
            Suite::Regress => {
                vec![
                    format!("--dlpath={}", input.display()),
                    "--max-concurrent-tests=20".into(),
                ]
            }
            Suite::Isolation => Vec::new(),
        },
    }
    .results();
    let (results, progress) = results.inspect_err(|_| scratch.keep())?;

    let differences = match rows {
        Rows::Hot => {
            let diffs = fs::read(output.join("regression.diffs")).unwrap_or_default();
            reviewed::by_test(&String::from_utf8_lossy(&diffs))
        }
        Rows::Cold => canonical_differences(&input, &output, &results)?,
    };
    let reviewed = paths.root.join("tests/postgres");
    let known = [reviewed.join(title), reviewed.join(suite.name())];
    let mut tally = Tally::default();
    let mut explained = 0_u64;
    for (name, verdict) in results {
        let difference = differences
            .get(&name)
            .map(String::as_str)
            .unwrap_or_default();
        match verdict {
            Verdict::Passed => tally.passed += 1,
            Verdict::Skipped => tally.skipped += 1,
            Verdict::Failed if rows == Rows::Cold && difference.is_empty() => tally.passed += 1,
            Verdict::Failed if is_explained(&known, &name, difference) => {
                tally.passed += 1;
                explained += 1;
            }
            Verdict::Failed => {
                if options.accept {
                    accept(&known[0], &name, difference)?;
                }
                tally.fail(format!("{title}: {name}"));
            }
        }
    }
    count_crashes(title, &scratch.cluster.log, &progress, &mut tally);
    if tally.failed > 0 || options.keep {
        scratch.keep();
    }
    let mut outcome = tally.to_string();
    if explained > 0 {
        outcome.push_str(&format!("; {explained} differ as tests/postgres explains"));
    }
    if tally.failed > 0 {
        outcome.push_str(&format!(
            "; differences in {}",
            output.join(differences_file(rows)).display()
        ));
    }
    progress.finish(&outcome);
    Ok(tally)
}

fn choose(suite: Suite, options: &Options, all: &[String]) -> Vec<String> {
    let wanted: Vec<&String> = all.iter().filter(|name| options.wants(name)).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let stands_on = |name: &&String| suite.foundation().contains(&name.as_str());
    all.iter()
        .filter(|name| stands_on(name) || wanted.contains(name))
        .cloned()
        .collect()
}

fn make_database(scratch: &Scratch, suite: Suite) -> anyhow::Result<()> {
    let database = suite.database();
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

/// Differences beyond plans and the order of rows, by test; all of them in one file, too.
fn canonical_differences(
    input: &Path,
    output: &Path,
    results: &Results,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut differences = BTreeMap::new();
    let mut all = String::new();
    for (name, verdict) in results {
        if *verdict == Verdict::Failed {
            let one =
                canonical::difference(&input.join("expected"), &output.join("results"), name)?;
            all.push_str(&one);
            differences.insert(name.clone(), one);
        }
    }
    fs::write(output.join(CANONICAL_DIFFS), all)?;
    Ok(differences)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filtered_regress_run_still_sets_up_first() {
        let all = ["test_setup", "boolean", "vacuum"].map(str::to_owned);
        let options = Options {
            filters: vec!["vac".into()],
            only: vec![],
            accept: false,
            keep: false,
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
}
