//! The step `sql`: every `tests/sql/NAME.sql` against `tests/sql/expected/NAME.out`, in one
//! database of a fresh server, in the order of their names.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::crash_log::count_crashes;
use super::pg_regress::{Run, Selection};
use super::plan::Options;
use super::tally::Tally;
use super::tap::Verdict;
use crate::account::Account;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::scratch::Scratch;

const TITLE: &str = "sql";
const DATABASE: &str = "howdah_sql";

pub(super) fn run(paths: &Paths, options: &Options) -> anyhow::Result<Tally> {
    let source = paths.root.join("tests/sql");
    let names: Vec<String> = test_names(&source)?
        .into_iter()
        .filter(|name| options.wants(name))
        .collect();
    let progress = Progress::open_ended(TITLE);
    if names.is_empty() {
        progress.finish("no file in tests/sql matches");
        return Ok(Tally::default());
    }
    let mut scratch = Scratch::start(paths, TITLE, &[])?;
    make_database(&scratch)?;
    progress.vanish();

    let directory = scratch.directory.join("work");
    let account = scratch.cluster.account;
    copy_inputs(&source, &directory, account)
        .with_context(|| format!("cannot copy {}", source.display()))?;
    let (results, progress) = Run {
        title: TITLE,
        cluster: &scratch.cluster,
        program: scratch
            .cluster
            .postgres
            .pgxs
            .join("test/regress/pg_regress"),
        database: DATABASE,
        input: &directory,
        expected: &directory,
        output: &directory,
        selection: Selection::Names(&names),
        more_arguments: Vec::new(),
    }
    .results()?;

    let mut tally = Tally::default();
    for (name, verdict) in &results {
        match verdict {
            Verdict::Passed => tally.passed += 1,
            Verdict::Skipped => tally.skipped += 1,
            Verdict::Failed if options.accept => {
                accept(&directory, &source, name)?;
                tally.passed += 1;
            }
            Verdict::Failed => tally.fail(format!("{TITLE}: {name}")),
        }
    }
    count_crashes(TITLE, &scratch.cluster.log, &progress, &mut tally);
    if tally.failed > 0 {
        scratch.keep();
        let diffs = directory.join("regression.diffs");
        progress.line(&head(&fs::read_to_string(&diffs).unwrap_or_default(), 60));
        progress.finish(&format!("{tally}; differences in {}", diffs.display()));
    } else {
        if options.keep {
            scratch.keep();
        }
        progress.finish(&tally.to_string());
    }
    Ok(tally)
}

fn test_names(source: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    if !source.is_dir() {
        return Ok(names);
    }
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            names.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    names.sort();
    Ok(names)
}

fn make_database(scratch: &Scratch) -> anyhow::Result<()> {
    let mut client = scratch.cluster.connect("postgres")?;
    client.batch_execute(&format!("CREATE DATABASE {DATABASE} TEMPLATE template0"))?;
    for setting in super::suite::DATABASE_SETTINGS {
        client.batch_execute(&format!("ALTER DATABASE {DATABASE} SET {setting}"))?;
    }
    scratch
        .cluster
        .connect(DATABASE)?
        .batch_execute("CREATE EXTENSION howdah")?;
    Ok(())
}

/// The checkout may lie where the server's account cannot read: the files are copied. A test
/// without expected output gets an empty one, so that it fails by showing all it prints.
fn copy_inputs(source: &Path, directory: &Path, account: Account) -> std::io::Result<()> {
    for leaf in ["sql", "expected", "data"] {
        fs::create_dir_all(directory.join(leaf))?;
    }
    let copies = [
        (source.to_path_buf(), "sql"),
        (source.join("expected"), "expected"),
        (source.join("data"), "data"),
    ];
    for (from, to) in copies {
        if !from.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&from)? {
            let path = entry?.path();
            if let (true, Some(name)) = (path.is_file(), path.file_name()) {
                fs::copy(&path, directory.join(to).join(name))?;
            }
        }
    }
    for entry in fs::read_dir(directory.join("sql"))? {
        let path = entry?.path();
        let expected = directory
            .join("expected")
            .join(path.with_extension("out").file_name().unwrap_or_default());
        if !expected.exists() {
            fs::write(expected, "")?;
        }
    }
    account.own_tree(directory)
}

fn accept(directory: &Path, source: &Path, name: &str) -> anyhow::Result<()> {
    let target = source.join("expected");
    fs::create_dir_all(&target)?;
    let file = format!("{name}.out");
    fs::copy(directory.join("results").join(&file), target.join(&file))
        .with_context(|| format!("cannot take over the results of {name}"))?;
    Ok(())
}

fn head(text: &str, line_count: usize) -> String {
    text.lines().take(line_count).collect::<Vec<_>>().join("\n")
}
