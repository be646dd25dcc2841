//! The steps that cargo runs: format, lint, and the tests of the crates.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::tally::Tally;
use super::tap::{self, Verdict};
use crate::cluster;
use crate::paths::Paths;
use crate::progress::Progress;

/// The crate of tests that start servers; it is a step of its own.
const SERVER_TESTS: &str = "howdah-server-tests";

pub(super) fn format(paths: &Paths) -> anyhow::Result<Tally> {
    single_check(paths, "format", "rustfmt", &["fmt", "--all", "--check"])
}

pub(super) fn lint(paths: &Paths) -> anyhow::Result<Tally> {
    let arguments = [
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ];
    single_check(paths, "lint", "clippy", &arguments)
}

/// A check that is good or bad as a whole; skipped where the tool is not installed.
fn single_check(
    paths: &Paths,
    title: &str,
    tool: &str,
    arguments: &[&str],
) -> anyhow::Result<Tally> {
    let progress = Progress::open_ended(title);
    if !is_installed(arguments[0])? {
        progress.finish(&format!(
            "skipped: {tool} is not installed (rustup component add {tool})"
        ));
        return Ok(Tally::skip(1));
    }
    let log = log_path(paths, title)?;
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let status = cargo(paths)
        .args(arguments)
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .context("cannot run cargo")?;
    if status.success() {
        progress.finish("good");
        return Ok(Tally::one_pass());
    }
    progress.line(&cluster::tail(&log, 30));
    progress.finish(&format!("failed; all of it in {}", log.display()));
    Ok(Tally::one_failure(format!("{title}: {tool}")))
}

fn is_installed(subcommand: &str) -> anyhow::Result<bool> {
    let output = Command::new("cargo")
        .args([subcommand, "--version"])
        .output()
        .context("cannot run cargo")?;
    Ok(output.status.success())
}

pub(super) fn crates(paths: &Paths, filters: &[String]) -> anyhow::Result<Tally> {
    // The extension is a library for a server to load: its tests are the suites below.
    let arguments = [
        "--workspace",
        "--exclude",
        SERVER_TESTS,
        "--exclude",
        "howdah-extension",
    ];
    cargo_test(paths, "crates", &arguments, filters)
}

pub(super) fn server(paths: &Paths, filters: &[String]) -> anyhow::Result<Tally> {
    cargo_test(paths, "server", &["--package", SERVER_TESTS], filters)
}

fn cargo_test(
    paths: &Paths,
    title: &str,
    selection: &[&str],
    filters: &[String],
) -> anyhow::Result<Tally> {
    let log = log_path(paths, title)?;
    // One pipe for both streams, so that the log reads in the order of what happened.
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let mut command = cargo(paths);
    command
        .args(["test", "--locked", "--no-fail-fast"])
        .args(selection)
        .arg("--")
        .args(filters);
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command.spawn().context("cannot run cargo")?;
    drop(command);

    let mut log_file =
        File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut progress = Progress::open_ended(title);
    let mut tally = Tally::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read what cargo prints")?;
        let line = String::from_utf8_lossy(&line);
        writeln!(log_file, "{line}")?;
        if let Some((name, verdict)) = tap::cargo_test_line(&line) {
            progress.advance(1, name);
            if verdict == Verdict::Failed {
                tally.failures.push(format!("{title}: {name}"));
            }
        } else if let Some(counts) = tap::cargo_summary_line(&line) {
            tally.add(counts);
        } else {
            progress.advance(0, line.trim());
        }
    }
    let status = child.wait().context("cannot wait for cargo")?;
    if !status.success() && tally.failed == 0 {
        // It did not compile, or a test program died.
        tally.fail(format!("{title}: cargo test ended with {status}"));
    }
    if tally.failed > 0 {
        progress.line(&cluster::tail(&log, 40));
        progress.finish(&format!("{tally}; all of it in {}", log.display()));
    } else {
        progress.finish(&tally.to_string());
    }
    Ok(tally)
}

fn cargo(paths: &Paths) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(&paths.root)
        .env("HOWDAH_ROOT", &paths.root)
        .env("HOWDAH_HOME", &paths.home)
        .env("CARGO_TARGET_DIR", &paths.target)
        .env("CARGO_TERM_COLOR", "never");
    if let Ok(postgres) = paths.postgres() {
        command.env("PGRX_PG_CONFIG_PATH", postgres.pg_config);
    }
    command
}

fn log_path(paths: &Paths, title: &str) -> anyhow::Result<PathBuf> {
    let directory = paths.cache.join("logs");
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory.join(format!("test-{title}.log")))
}
