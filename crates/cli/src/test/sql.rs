//! This project's own tests that compare output: every `tests/sql/NAME.sql` and every
//! `tests/isolation/specs/NAME.spec` against `expected/NAME.out` beside it, in one database of a
//! fresh server, in the order of their names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::crash_log::count_crashes;
use super::pg_regress::{Run, Selection};
use super::plan::Options;
use super::tally::Tally;
use super::tap::Verdict;
use crate::account::Account;
use crate::paths::Paths;
use crate::progress::{Counting, Progress};
use crate::scratch::Scratch;

/// A kind of test, and where its files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// SQL files, run by pg_regress.
    Sql,
    /// Steps of several sessions, run by pg_isolation_regress.
    Specs,
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Self::Sql => "sql",
            Self::Specs => "specs",
        }
    }

    fn database(self) -> &'static str {
        match self {
            Self::Sql => "howdah_sql",
            Self::Specs => "howdah_isolation",
        }
    }

    /// The directory that has `expected` in it.
    fn directory(self, root: &Path) -> PathBuf {
        root.join(match self {
            Self::Sql => "tests/sql",
            Self::Specs => "tests/isolation",
        })
    }

    /// The directory of the tests themselves.
    fn inputs(self, root: &Path) -> PathBuf {
        match self {
            Self::Sql => self.directory(root),
            Self::Specs => self.directory(root).join(self.leaf()),
        }
    }

    /// Where the driver looks for inputs, under its input directory.
    fn leaf(self) -> &'static str {
        match self {
            Self::Sql => "sql",
            Self::Specs => "specs",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Sql => "sql",
            Self::Specs => "spec",
        }
    }

    fn driver(self) -> &'static str {
        match self {
            Self::Sql => "test/regress/pg_regress",
            Self::Specs => "test/isolation/pg_isolation_regress",
        }
    }
}

/// Rows move only when a test requests it, and no worker's snapshot prevents that.
const SETTINGS: &[(&str, &str)] = &[("howdah.compaction", "off"), ("autovacuum", "off")];

pub(super) fn run(paths: &Paths, options: &Options, kind: Kind) -> anyhow::Result<Tally> {
    let title = kind.title();
    let names: Vec<String> = test_names(&kind.inputs(&paths.root), kind)?
        .into_iter()
        .filter(|name| options.wants(name))
        .collect();
    let progress = Progress::open_ended(title);
    if names.is_empty() {
        progress.finish("no file matches");
        return Ok(Tally::default());
    }
    let mut scratch = Scratch::start(paths, title, SETTINGS)?;
    make_database(&scratch, kind)?;
    progress.vanish();

    let directory = scratch.directory.join("work");
    let account = scratch.cluster.account;
    copy_inputs(&paths.root, &directory, account, kind)
        .with_context(|| format!("cannot copy {}", kind.inputs(&paths.root).display()))?;
    let mut progress = Progress::of(title, names.len() as u64, Counting::Things);
    let results = Run {
        cluster: &scratch.cluster,
        program: scratch.cluster.postgres.pgxs.join(kind.driver()),
        database: kind.database(),
        input: &directory,
        expected: &directory,
        output: &directory,
        selection: Selection::Names(&names),
        more_arguments: Vec::new(),
    }
    .results(&mut progress)?;

    let mut tally = Tally::default();
    for (name, verdict) in &results {
        match verdict {
            Verdict::Passed => tally.passed += 1,
            Verdict::Skipped => tally.skipped += 1,
            Verdict::Failed
                if options.accept && accept(&directory, &kind.directory(&paths.root), name)? =>
            {
                tally.passed += 1;
            }
            Verdict::Failed => tally.fail(format!("{title}: {name}")),
        }
    }
    count_crashes(title, &scratch.cluster.log, &progress, &mut tally);
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

fn test_names(source: &Path, kind: Kind) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    if !source.is_dir() {
        return Ok(names);
    }
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == kind.extension())
        {
            names.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    names.sort();
    Ok(names)
}

fn make_database(scratch: &Scratch, kind: Kind) -> anyhow::Result<()> {
    let database = kind.database();
    let mut client = scratch.cluster.connect("postgres")?;
    client.batch_execute(&format!("CREATE DATABASE {database} TEMPLATE template0"))?;
    for setting in super::suite::DATABASE_SETTINGS {
        client.batch_execute(&format!("ALTER DATABASE {database} SET {setting}"))?;
    }
    scratch
        .cluster
        .connect(database)?
        .batch_execute("CREATE EXTENSION howdah")?;
    Ok(())
}

/// The checkout may lie where the server's account cannot read: the files are copied. A test
/// without expected output gets an empty one, so that it fails by showing all it prints.
fn copy_inputs(root: &Path, directory: &Path, account: Account, kind: Kind) -> std::io::Result<()> {
    let (source, leaf) = (kind.directory(root), kind.leaf());
    for leaf in [leaf, "expected", "data"] {
        fs::create_dir_all(directory.join(leaf))?;
    }
    let copies = [
        (kind.inputs(root), leaf),
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
    for entry in fs::read_dir(directory.join(leaf))? {
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

/// Takes over the results of a test; false if they have to be those of another one, to which its
/// expected file is a link.
fn accept(directory: &Path, source: &Path, name: &str) -> anyhow::Result<bool> {
    let target = source.join("expected");
    fs::create_dir_all(&target)?;
    let file = format!("{name}.out");
    if target.join(&file).is_symlink() {
        return Ok(false);
    }
    fs::copy(directory.join("results").join(&file), target.join(&file))
        .with_context(|| format!("cannot take over the results of {name}"))?;
    Ok(true)
}

fn head(text: &str, line_count: usize) -> String {
    text.lines().take(line_count).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_results_of_a_twin_are_not_taken_over_its_other_half() {
        let root = std::env::temp_dir().join(format!("howdah-accept-{}", std::process::id()));
        let (work, source) = (root.join("work"), root.join("source"));
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for name in ["one", "one_on_heap"] {
            write(&work.join("results").join(format!("{name}.out")), name);
        }
        let expected = source.join("expected");
        write(&expected.join("one.out"), "before");
        symlink("one.out", expected.join("one_on_heap.out")).unwrap();
        let text = || fs::read_to_string(expected.join("one_on_heap.out")).unwrap();
        assert!(!accept(&work, &source, "one_on_heap").unwrap());
        assert_eq!(text(), "before");
        assert!(accept(&work, &source, "one").unwrap());
        assert_eq!(text(), "one");
        fs::remove_dir_all(&root).unwrap();
    }
}
