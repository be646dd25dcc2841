//! The steps that cargo runs: format, lint, and the tests of the crates.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, anyhow, bail};

use super::tally::Tally;
use super::tap::{self, Verdict};
use crate::cluster;
use crate::paths::Paths;
use crate::progress::{Counting, Progress};

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

/// The tests of every crate that needs no server, those in documentation included.
pub(super) fn crates(paths: &Paths, filters: &[String]) -> anyhow::Result<Tally> {
    let needs_no_server = |program: &TestProgram| !program.needs_server(paths);
    let mut tally = run_programs(paths, "crates", needs_no_server, filters, Order::OneByOne)?;
    if filters.is_empty() {
        tally.add(documentation(paths)?);
    }
    Ok(tally)
}

/// The tests in `tests/server`.
pub(super) fn server(paths: &Paths, filters: &[String]) -> anyhow::Result<Tally> {
    run_programs(
        paths,
        "server",
        |program| program.needs_server(paths),
        filters,
        Order::SideBySide,
    )
}

/// How programs of tests are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Each runs as many of its tests at a time as there are processors.
    OneByOne,
    /// As many as there are processors, each with one test at a time: for programs of few long
    /// tests, which would leave processors idle.
    SideBySide,
}

/// One program of tests, as cargo built it.
#[derive(Debug, PartialEq, Eq)]
struct TestProgram {
    executable: PathBuf,
    /// The directory of its crate, where its tests expect to run.
    directory: PathBuf,
}

impl TestProgram {
    fn needs_server(&self, paths: &Paths) -> bool {
        self.directory == paths.root.join("tests/server")
    }

    /// The file's name without the hash that cargo adds.
    fn name(&self) -> &str {
        let stem = self.executable.file_stem().unwrap_or_default();
        let stem = stem.to_str().unwrap_or_default();
        stem.rsplit_once('-').map_or(stem, |(name, _)| name)
    }

    fn command(&self, paths: &Paths) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .env("HOWDAH_ROOT", &paths.root)
            .env("HOWDAH_HOME", &paths.home)
            .env("CARGO_TARGET_DIR", &paths.target)
            .stdin(Stdio::null());
        command
    }

    /// What its tests are chosen by: all of them if a filter is the program's own name.
    fn filters<'f>(&self, filters: &'f [String]) -> &'f [String] {
        match filters.iter().any(|filter| filter == self.name()) {
            true => &[],
            false => filters,
        }
    }

    fn count(&self, paths: &Paths, filters: &[String]) -> anyhow::Result<u64> {
        let listing = ["--list", "--format", "terse"];
        let mut command = self.command(paths);
        let output = command.args(listing).args(self.filters(filters)).output();
        let output = output.with_context(|| format!("cannot run {}", self.executable.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter(|line| line.ends_with(": test")).count() as u64)
    }
}

/// Builds every test of the workspace at once: another selection of crates would choose other
/// features of their dependencies, and build those all over again.
fn build_programs(paths: &Paths, title: &str) -> anyhow::Result<Result<Vec<TestProgram>, PathBuf>> {
    let log = log_path(paths, title)?;
    let errors = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let progress = Progress::open_ended(&format!("{title}: building"));
    let output = cargo(paths)
        .args(["test", "--locked", "--workspace", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(errors)
        .output()
        .context("cannot run cargo")?;
    progress.vanish();
    if !output.status.success() {
        return Ok(Err(log));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(Ok(text.lines().filter_map(test_program).collect()))
}

/// The test program in one of cargo's JSON messages, if it describes one.
fn test_program(message: &str) -> Option<TestProgram> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let manifest = Path::new(message["manifest_path"].as_str()?);
    Some(TestProgram {
        executable: PathBuf::from(message["executable"].as_str()?),
        directory: manifest.parent()?.to_path_buf(),
    })
}

fn run_programs(
    paths: &Paths,
    title: &str,
    is_wanted: impl Fn(&TestProgram) -> bool,
    filters: &[String],
    order: Order,
) -> anyhow::Result<Tally> {
    let programs = match build_programs(paths, title)? {
        Ok(programs) => programs,
        Err(log) => {
            eprintln!("{}", cluster::tail(&log, 40));
            eprintln!(
                "  {title}: the tests do not build; all of it in {}",
                log.display()
            );
            return Ok(Tally::one_failure(format!("{title}: cargo test --no-run")));
        }
    };
    let (mut wanted, mut total) = (Vec::new(), 0);
    for program in programs.into_iter().filter(is_wanted) {
        let count = program.count(paths, filters)?;
        total += count;
        if count > 0 {
            wanted.push(program);
        }
    }
    if wanted.is_empty() {
        Progress::open_ended(title).finish("no test matches");
        return Ok(Tally::default());
    }
    let programs = wanted;
    let progress = Mutex::new(Progress::of(title, total, Counting::Things));
    let (tally, log) = match order {
        Order::OneByOne => {
            let log = empty_log(paths, title)?;
            let mut tally = Tally::default();
            for program in &programs {
                let mut command = program.command(paths);
                command.args(program.filters(filters));
                tally.add(run_logged(title, &mut command, &log, &progress)?);
            }
            (tally, log)
        }
        Order::SideBySide => {
            let run = |program: &TestProgram| {
                let log = empty_log(paths, &format!("{title}-{}", program.name()))?;
                let mut command = program.command(paths);
                command
                    .args(program.filters(filters))
                    .arg("--test-threads=1");
                run_logged(title, &mut command, &log, &progress)
            };
            (
                side_by_side(&programs, run)?,
                log_path(paths, &format!("{title}-*"))?,
            )
        }
    };
    conclude(into_inner(progress), &tally, &log);
    Ok(tally)
}

/// Runs all programs, as many at a time as there are processors.
fn side_by_side(
    programs: &[TestProgram],
    run: impl Fn(&TestProgram) -> anyhow::Result<Tally> + Sync,
) -> anyhow::Result<Tally> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut tally = Tally::default();
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            tally.add(run(program)?);
        }
        anyhow::Ok(tally)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let mut all = Tally::default();
        for worker in workers {
            let tally = worker
                .join()
                .map_err(|_| anyhow!("a thread has panicked"))?;
            all.add(tally?);
        }
        Ok(all)
    })
}

fn into_inner<T>(of: Mutex<T>) -> T {
    of.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The programs of tests that [`crate::soak`] runs by name.
pub struct SoakPrograms<'p> {
    paths: &'p Paths,
    programs: Vec<TestProgram>,
}

impl<'p> SoakPrograms<'p> {
    /// # Errors
    /// When the tests do not build.
    pub fn build(paths: &'p Paths) -> anyhow::Result<Self> {
        match build_programs(paths, "soak")? {
            Ok(programs) => Ok(Self { paths, programs }),
            Err(log) => bail!("the tests do not build:\n{}", cluster::tail(&log, 40)),
        }
    }

    /// Runs one program with settings in its environment; what it prints goes to a log.
    ///
    /// # Errors
    /// When there is no such program, or it cannot be run.
    pub fn run(&self, name: &str, settings: &[(&str, u64)]) -> anyhow::Result<Tally> {
        // Two crates may have programs of one name.
        let program = self
            .programs
            .iter()
            .filter(|program| program.name() == name)
            .max_by_key(|program| program.needs_server(self.paths))
            .with_context(|| format!("there are no tests named {name}"))?;
        let log = empty_log(self.paths, &format!("soak-{name}"))?;
        let count = program.count(self.paths, &[])?;
        let progress = Mutex::new(Progress::of(name, count, Counting::Things));
        let mut command = program.command(self.paths);
        for (setting, value) in settings {
            command.env(setting, value.to_string());
        }
        let tally = run_logged(name, &mut command, &log, &progress)?;
        conclude(into_inner(progress), &tally, &log);
        Ok(tally)
    }
}

/// The examples in the documentation, which cargo hands to rustdoc.
fn documentation(paths: &Paths) -> anyhow::Result<Tally> {
    let title = "documentation";
    let log = empty_log(paths, title)?;
    let progress = Mutex::new(Progress::open_ended(title));
    let mut command = cargo(paths);
    command.args(["test", "--locked", "--workspace", "--doc", "--no-fail-fast"]);
    let tally = run_logged(title, &mut command, &log, &progress)?;
    conclude(into_inner(progress), &tally, &log);
    Ok(tally)
}

/// As many lines of the report of each failed test are shown; the log has all.
const REPORT_LINES: usize = 30;

/// Runs a program that reports as libtest does, and counts what it reports.
fn run_logged(
    title: &str,
    command: &mut Command,
    log: &Path,
    progress: &Mutex<Progress>,
) -> anyhow::Result<Tally> {
    let mut log_file = File::options().append(true).open(log)?;
    // One pipe for both streams, so that the log has the output in the order of events.
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    // The command holds the writing end; this releases it, so that the pipe ends when the child
    // closes its end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut tally = Tally::default();
    let mut shown = 0;
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read what the tests print")?;
        let line = String::from_utf8_lossy(&line);
        writeln!(log_file, "{line}")?;
        if let Some((name, verdict)) = tap::cargo_test_line(&line) {
            lock(progress).advance(1, name);
            if verdict == Verdict::Failed {
                tally.failures.push(format!("{title}: {name}"));
            }
        } else if let Some(counts) = tap::cargo_summary_line(&line) {
            tally.add(counts);
        }
        if tap::is_report_of_failure(&line) {
            shown = REPORT_LINES;
        } else if line == "failures:" {
            shown = 0;
        }
        if shown > 0 {
            lock(progress).line(&line);
            shown -= 1;
        }
    }
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for {program}"))?;
    if !status.success() && tally.failed == 0 {
        lock(progress).line(&cluster::tail(log, REPORT_LINES));
        tally.fail(format!("{title}: {program} ended with {status}"));
    }
    Ok(tally)
}

fn conclude(progress: Progress, tally: &Tally, log: &Path) {
    if tally.failed > 0 {
        progress.finish(&format!("{tally}; all of it in {}", log.display()));
    } else {
        progress.finish(&tally.to_string());
    }
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

fn empty_log(paths: &Paths, title: &str) -> anyhow::Result<PathBuf> {
    let log = log_path(paths, title)?;
    File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    Ok(log)
}

fn log_path(paths: &Paths, title: &str) -> anyhow::Result<PathBuf> {
    let directory = paths.cache.join("logs");
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory.join(format!("test-{title}.log")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_tests_are_run() {
        let test = r#"{"reason":"compiler-artifact","manifest_path":"/p/crates/a/Cargo.toml",
            "profile":{"test":true},"executable":"/t/a-1"}"#;
        let program = test_program(test).expect("a program");
        assert_eq!(program.executable, Path::new("/t/a-1"));
        assert_eq!(program.directory, Path::new("/p/crates/a"));
        assert_eq!(program.name(), "a");
        assert_eq!(test_program(&test.replace("true", "false")), None);
        assert_eq!(test_program(&test.replace(r#""/t/a-1""#, "null")), None);
        assert_eq!(test_program("Compiling"), None);
    }

    #[test]
    fn a_program_s_own_name_stands_for_all_of_its_tests() {
        let program = TestProgram {
            executable: PathBuf::from("/t/row_locks-12ab"),
            directory: PathBuf::from("/p/tests/server"),
        };
        let passed_on = |filters: &[&str]| {
            let filters: Vec<String> = filters.iter().map(|&filter| filter.to_owned()).collect();
            program.filters(&filters).len()
        };
        assert_eq!(passed_on(&["row", "locks"]), 2);
        assert_eq!(passed_on(&["waits", "row_locks"]), 0);
    }
}
