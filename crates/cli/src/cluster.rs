//! One private PostgreSQL server: a data directory, a socket directory, a log.
//!
//! ```text
//!   create ──► start ──► connect …  ──► stop ──► start
//!                │                        ▲
//!                └──► kill (SIGKILL to the postmaster and its children) ──► start = recovery
//! ```
//!
//! The server is started by `pg_ctl`, so it outlives this process; code that needs a server for a
//! short time uses [`crate::scratch`], which stops it again.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use postgres::{Client, Config, NoTls};
use thiserror::Error;

use crate::account::Account;
use crate::paths::Postgres;

/// The file of settings that [`Cluster::write_settings`] owns.
const SETTINGS_FILE: &str = "howdah.conf";

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClusterError {
    #[error("cannot {what} {}: {source}", .path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot run {}: {source}", .program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("{program} failed:\n{output}")]
    Failed { program: String, output: String },
    #[error("the server did not start; the end of {}:\n{tail}", .log.display())]
    NoStart { log: PathBuf, tail: String },
    #[error("the server under {} is not running", .0.display())]
    NotRunning(PathBuf),
    #[error("processes of the killed server are still there: {0:?}")]
    StillAlive(Vec<u32>),
    #[error("cannot connect to the server: {0}")]
    Connect(#[source] postgres::Error),
}

type Result<T> = std::result::Result<T, ClusterError>;

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Sessions end, a checkpoint is written.
    Fast,
    /// Nothing is written; the next start recovers.
    Immediate,
}

/// The contents of `postmaster.pid` of a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    pub pid: u32,
    /// Seconds since 1970.
    pub started_at_seconds: u64,
    pub port: u16,
}

/// One server, running or not.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub postgres: Postgres,
    pub account: Account,
    pub data: PathBuf,
    pub socket: PathBuf,
    pub log: PathBuf,
    pub port: u16,
    pub superuser: String,
}

impl Cluster {
    pub fn exists(&self) -> bool {
        self.data.join("PG_VERSION").exists()
    }

    /// Runs initdb, with checksums, UTF-8 and bytewise text order. `password_file` is needed only
    /// by servers that listen on TCP; over the socket every user that may enter its directory is
    /// trusted.
    ///
    /// # Errors
    /// When the directories cannot be made or initdb fails.
    pub fn create(&self, locale: &str, password_file: Option<&Path>) -> Result<()> {
        self.make_directories()?;
        let mut initdb = self.command("initdb");
        initdb
            .args(["--encoding=UTF8", "--data-checksums", "--auth-local=trust"])
            .arg(format!("--locale={locale}"))
            .args(["--username", &self.superuser])
            .arg("--pgdata")
            .arg(&self.data);
        match password_file {
            Some(file) => initdb
                .arg("--auth-host=scram-sha-256")
                .arg("--pwfile")
                .arg(file),
            None => initdb.arg("--auth-host=reject").arg("--no-sync"),
        };
        run(&mut initdb)?;
        self.include_settings()
    }

    /// Makes the data and socket directories, accessible to the server's user only.
    ///
    /// # Errors
    /// When the caller lacks the permission.
    pub fn make_directories(&self) -> Result<()> {
        for directory in [&self.data, &self.socket] {
            self.account
                .make_private_directory(directory)
                .map_err(|source| file_error("make the directory", directory, source))?;
        }
        Ok(())
    }

    fn include_settings(&self) -> Result<()> {
        let path = self.data.join("postgresql.conf");
        let mut file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(|source| file_error("open", &path, source))?;
        writeln!(file, "\ninclude_if_exists '{SETTINGS_FILE}'")
            .map_err(|source| file_error("write", &path, source))
    }

    /// Writes the settings this server starts with; returns whether they changed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_settings(&self, settings: &[(String, String)]) -> Result<bool> {
        let path = self.data.join(SETTINGS_FILE);
        let mut text = String::from(
            "# Written anew at each start. Your own settings: ALTER SYSTEM, which wins over these.\n",
        );
        let socket = self.socket.display().to_string();
        let own = [
            ("port".to_owned(), self.port.to_string()),
            ("unix_socket_directories".to_owned(), socket),
        ];
        for (name, value) in own.iter().chain(settings) {
            text.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
        }
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(false);
        }
        fs::write(&path, text).map_err(|source| file_error("write", &path, source))?;
        self.account
            .own(&path)
            .map_err(|source| file_error("give away", &path, source))?;
        Ok(true)
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// When it does not start; the error shows the end of its log.
    pub fn start(&self) -> Result<()> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(|source| file_error("open", &self.log, source))?;
        drop(log);
        self.account
            .own(&self.log)
            .map_err(|source| file_error("give away", &self.log, source))?;
        let mut pg_ctl = self.command("pg_ctl");
        pg_ctl
            .args(["start", "--silent", "--wait", "--timeout=120", "--pgdata"])
            .arg(&self.data);
        pg_ctl.arg("--log").arg(&self.log);
        // A pipe would stay open in the server, so pg_ctl's output is discarded.
        pg_ctl.stdin(std::process::Stdio::null());
        pg_ctl
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let status = pg_ctl
            .status()
            .map_err(|source| run_error(&pg_ctl, source))?;
        if status.success() {
            return Ok(());
        }
        Err(ClusterError::NoStart {
            log: self.log.clone(),
            tail: tail(&self.log, 15),
        })
    }

    /// # Errors
    /// When pg_ctl fails, or the server is still there after two minutes.
    pub fn stop(&self, mode: StopMode) -> Result<()> {
        let mode = match mode {
            StopMode::Fast => "--mode=fast",
            StopMode::Immediate => "--mode=immediate",
        };
        let mut pg_ctl = self.command("pg_ctl");
        pg_ctl.args([
            "stop",
            "--silent",
            "--wait",
            "--timeout=120",
            mode,
            "--pgdata",
        ]);
        run(pg_ctl.arg(&self.data))
    }

    /// The contents of `postmaster.pid`, if its process exists and is a server.
    pub fn running(&self) -> Option<Running> {
        let text = fs::read_to_string(self.data.join("postmaster.pid")).ok()?;
        let running = parse_postmaster_pid(&text)?;
        let name = fs::read_to_string(format!("/proc/{}/comm", running.pid)).ok()?;
        (name.trim() == "postgres").then_some(running)
    }

    /// Kills every process of the server with SIGKILL, as a crash of the machine's memory would.
    /// The postmaster is stopped (SIGSTOP) first, so that it cannot clean up after its children,
    /// nor they after it.
    ///
    /// # Errors
    /// When the server does not run, or a process survives.
    pub fn kill(&self) -> Result<()> {
        let running = self
            .running()
            .ok_or_else(|| ClusterError::NotRunning(self.data.clone()))?;
        signal("STOP", &[running.pid])?;
        let mut victims = children(running.pid);
        victims.push(running.pid);
        signal("KILL", &victims)?;
        wait_for_end(&victims)?;
        // Where no process collects orphans, the dead postmaster still answers signal 0, and the
        // next one would consider it alive.
        if process_state(running.pid).is_some() {
            let lock = self.data.join("postmaster.pid");
            fs::remove_file(&lock).map_err(|source| file_error("remove", &lock, source))?;
        }
        Ok(())
    }

    /// How a client reaches this server over its socket.
    pub fn config(&self, database: &str) -> Config {
        let mut config = Config::new();
        config
            .host_path(&self.socket)
            .port(self.port)
            .user(&self.superuser)
            .dbname(database);
        config
            .application_name("howdah")
            .connect_timeout(Duration::from_secs(10));
        config
    }

    /// # Errors
    /// When the server does not answer.
    pub fn connect(&self, database: &str) -> Result<Client> {
        self.config(database)
            .connect(NoTls)
            .map_err(ClusterError::Connect)
    }

    /// A program of this PostgreSQL, to be run under the server's account, that will find this
    /// server by libpq's environment.
    pub fn command(&self, program: &str) -> Command {
        self.external(&self.postgres.program(program))
    }

    /// As [`Cluster::command`], for a program anywhere.
    pub fn external(&self, program: &Path) -> Command {
        let mut command = self.account.command(program);
        command
            .env("PGHOST", &self.socket)
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", &self.superuser)
            .env("LC_MESSAGES", "C");
        for leak in [
            "PGDATABASE",
            "PGPASSWORD",
            "PGSERVICE",
            "PGOPTIONS",
            "PGDATA",
            "PGAPPNAME",
            // It would append a backtrace to the detail of every error of the extension.
            "RUST_BACKTRACE",
            "RUST_LIB_BACKTRACE",
        ] {
            command.env_remove(leak);
        }
        command
    }
}

/// Runs a program to its end; its output is shown only when it failed.
///
/// # Errors
/// When it cannot be run, or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .map_err(|source| run_error(command, source))?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let program = Path::new(command.get_program());
    Err(ClusterError::Failed {
        program: program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        output: text.trim_end().to_owned(),
    })
}

fn run_error(command: &Command, source: io::Error) -> ClusterError {
    ClusterError::Run {
        program: command.get_program().into(),
        source,
    }
}

fn file_error(what: &'static str, path: &Path, source: io::Error) -> ClusterError {
    ClusterError::File {
        what,
        path: path.into(),
        source,
    }
}

/// The last lines of a file, for a person to read.
pub fn tail(path: &Path, line_count: usize) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(line_count)..].join("\n")
}

/// The layout is PostgreSQL's `utils/pidfile.h`: pid, data directory, start time, port, …
fn parse_postmaster_pid(text: &str) -> Option<Running> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    Some(Running {
        pid: lines.first()?.parse().ok()?,
        started_at_seconds: lines.get(2)?.parse().ok()?,
        port: lines.get(3)?.parse().ok()?,
    })
}

fn signal(name: &str, processes: &[u32]) -> Result<()> {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(r#"signal=$1; shift; kill -s "$signal" "$@""#)
        .arg("sh")
        .arg(name);
    run(shell.args(processes.iter().map(u32::to_string)))
}

/// All descendants of a process. PostgreSQL's own processes are children of the postmaster; archive
/// commands are deeper.
fn children(parent: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        if let Some((_, parent_pid)) = process_state(pid) {
            parents.push((pid, parent_pid));
        }
    }
    let mut found = vec![parent];
    let mut next = 0;
    while next < found.len() {
        let current = found[next];
        found.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == current)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    found.split_off(1)
}

/// Waits until the processes are gone; zombies may stay when they are not collected soon.
fn wait_for_end(victims: &[u32]) -> Result<()> {
    let started = Instant::now();
    loop {
        let there: Vec<u32> = victims
            .iter()
            .copied()
            .filter(|pid| process_state(*pid).is_some())
            .collect();
        let alive: Vec<u32> = there.iter().copied().filter(|pid| is_alive(*pid)).collect();
        let waited = started.elapsed();
        if there.is_empty() || (alive.is_empty() && waited > Duration::from_secs(2)) {
            return Ok(());
        }
        if waited > Duration::from_secs(10) {
            return Err(ClusterError::StillAlive(alive));
        }
        sleep(Duration::from_millis(5));
    }
}

fn is_alive(pid: u32) -> bool {
    process_state(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// State and parent from `/proc/PID/stat`; the name in parentheses may contain anything.
fn process_state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_postmaster_pid_file_names_process_start_and_port() {
        let text = "4711\n/data\n1700000000\n54418\n/run\nlocalhost\n  1  2\nready   \n";
        let expected = Running {
            pid: 4711,
            started_at_seconds: 1_700_000_000,
            port: 54418,
        };
        assert_eq!(parse_postmaster_pid(text), Some(expected));
    }

    #[test]
    fn a_truncated_postmaster_pid_file_is_no_server() {
        assert_eq!(parse_postmaster_pid("4711\n/data\n"), None);
        assert_eq!(parse_postmaster_pid(""), None);
    }

    #[test]
    fn this_process_is_alive_and_has_a_parent() {
        let (_, parent) = process_state(std::process::id()).expect("own entry in /proc");
        assert!(is_alive(std::process::id()));
        assert!(children(parent).contains(&std::process::id()));
    }
}
