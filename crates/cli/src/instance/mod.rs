//! The private server that a person works with: `up`, `down`, `status`, `psql`.
//!
//! ```text
//!   up:  nothing ──initdb──► stopped ──start──► running ──► database + extension
//!                               ▲                  │
//!                               └── newer library or changed settings: restart
//! ```
//!
//! A step that is done already is skipped, so `up` may be run at any time. [`superuser`] decides
//! the name of the superuser.

mod settings;
mod status;
pub mod superuser;

use std::convert::Infallible;
use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, bail};

use crate::account::Account;
use crate::cluster::{Cluster, StopMode};
use crate::paths::{DEFAULT_PORT, Paths};

pub use status::status;

/// The database that `up` makes.
pub const DATABASE: &str = "howdah";
/// How many ports after a taken one are tried.
const PORT_TRIES: u16 = 50;

/// The instance's server, running or not; its port is the running server's, if there is one.
///
/// # Errors
/// When there is no PostgreSQL, or no account to run it.
pub fn cluster(paths: &Paths) -> anyhow::Result<Cluster> {
    let mut cluster = Cluster {
        postgres: paths.postgres()?,
        account: Account::of_server()?,
        data: paths.data(),
        socket: paths.socket(),
        log: paths.server_log(),
        port: paths.port.unwrap_or(DEFAULT_PORT),
        superuser: superuser::SUPERUSER.into(),
    };
    if cluster.exists() {
        cluster.superuser = superuser::of(&paths.password());
    }
    if let Some(running) = cluster.running() {
        cluster.port = running.port;
    }
    Ok(cluster)
}

/// Starts the server, and makes what is missing first.
///
/// # Errors
/// Whatever kept it from running.
pub fn up(paths: &Paths) -> anyhow::Result<()> {
    let cluster = bring_up(paths)?;
    println!(
        "running: {}, port {}",
        cluster.postgres.version, cluster.port
    );
    println!("connect: ./howdah psql");
    println!(
        "     or: PGPASSFILE={} psql -h 127.0.0.1 -p {} -U {} {DATABASE}",
        paths.password().display(),
        cluster.port,
        cluster.superuser
    );
    Ok(())
}

/// As [`up`], for commands that need a running server and print their own output.
///
/// # Errors
/// Whatever kept it from running.
pub fn bring_up(paths: &Paths) -> anyhow::Result<Cluster> {
    let mut cluster = cluster(paths)?;
    require_extension_files(paths)?;
    if !cluster.exists() {
        eprintln!(
            "howdah: making a data directory in {}",
            cluster.data.display()
        );
        create(paths, &cluster)?;
    }
    let running = cluster.running();
    if running.is_none() {
        cluster.port = free_port(cluster.port)?;
    }
    write_password_file(paths, &cluster)?;
    let changed = cluster.write_settings(&settings::for_this_machine(paths))?;
    match running {
        Some(running) if changed || library_is_newer(paths, running.started_at_seconds) => {
            eprintln!("howdah: restarting the server with what is new");
            cluster.stop(StopMode::Fast)?;
            cluster.start()?;
        }
        Some(_) => {}
        None => cluster.start()?,
    }
    superuser::settle(&cluster)?;
    make_database(&cluster)?;
    Ok(cluster)
}

fn require_extension_files(paths: &Paths) -> anyhow::Result<()> {
    for file in [paths.extension_library(), paths.extension_control()] {
        if !file.exists() {
            bail!(
                "the extension is not installed ({} is missing): run ./howdah up",
                file.display()
            );
        }
    }
    Ok(())
}

fn create(paths: &Paths, cluster: &Cluster) -> anyhow::Result<()> {
    cluster.make_directories()?;
    let password = new_password().context("cannot read random bytes for a password")?;
    let for_initdb = paths.socket().join("initdb-password");
    write_secret(cluster.account, &for_initdb, &password)?;
    let created = cluster.create("C.UTF-8", Some(&for_initdb));
    fs::remove_file(&for_initdb)
        .with_context(|| format!("cannot remove {}", for_initdb.display()))?;
    created?;
    // The caller's clients read this file; the port in it follows the server's.
    let line = passfile_line(cluster, &password);
    write_secret(Account::Caller, &paths.password(), &line)
}

fn write_secret(owner: Account, path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        fs::write(path, "")?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        fs::write(path, text)?;
        owner.own(path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn passfile_line(cluster: &Cluster, password: &str) -> String {
    format!(
        "127.0.0.1:{}:*:{}:{password}\n",
        cluster.port, cluster.superuser
    )
}

/// Keeps the port in the password file that of the server.
fn write_password_file(paths: &Paths, cluster: &Cluster) -> anyhow::Result<()> {
    let path = paths.password();
    let Ok(old) = fs::read_to_string(&path) else {
        return Ok(());
    };
    let Some(password) = old.trim_end().rsplit(':').next() else {
        return Ok(());
    };
    let line = passfile_line(cluster, password);
    if line == old {
        Ok(())
    } else {
        write_secret(Account::Caller, &path, &line)
    }
}

fn new_password() -> std::io::Result<String> {
    let mut random = [0_u8; 18];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The wanted port, or the next one that no process listens on.
fn free_port(wanted: u16) -> anyhow::Result<u16> {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let last = wanted.saturating_add(PORT_TRIES);
    let Some(port) = (wanted..=last).find(is_free) else {
        bail!("every port from {wanted} to {last} is taken; set HOWDAH_PORT to a free one");
    };
    if port != wanted {
        eprintln!("howdah: port {wanted} is taken by something else; using {port}");
    }
    Ok(port)
}

/// Whether the library on disk was put there after the server loaded it.
fn library_is_newer(paths: &Paths, started_at_seconds: u64) -> bool {
    let modified = fs::metadata(paths.extension_library()).and_then(|meta| meta.modified());
    let age = modified
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    age.is_some_and(|age| age.as_secs() >= started_at_seconds)
}

fn make_database(cluster: &Cluster) -> anyhow::Result<()> {
    let mut client = cluster.connect("postgres")?;
    let known = client.query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&DATABASE])?;
    if known.is_none() {
        client.batch_execute(&format!("CREATE DATABASE {DATABASE}"))?;
    }
    let mut client = cluster.connect(DATABASE)?;
    client
        .batch_execute("SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS howdah")
        .context("the server runs, but CREATE EXTENSION howdah failed")
}

/// Stops the server, if it runs.
///
/// # Errors
/// When it does not stop.
pub fn down(paths: &Paths) -> anyhow::Result<()> {
    let cluster = cluster(paths)?;
    if cluster.running().is_none() {
        println!("not running");
        return Ok(());
    }
    cluster.stop(StopMode::Fast)?;
    println!("stopped; the data stay in {}", cluster.data.display());
    Ok(())
}

/// Replaces this process by psql, as the caller, on the instance's database.
///
/// # Errors
/// When the server does not run or psql cannot be run; it does not return otherwise.
pub fn psql(paths: &Paths, arguments: &[String]) -> anyhow::Result<Infallible> {
    let cluster = cluster(paths)?;
    if cluster.running().is_none() {
        bail!("the server is not running; start it with ./howdah up");
    }
    let program = cluster.postgres.program("psql");
    let mut command = Command::new(&program);
    command
        .env("PGHOST", &cluster.socket)
        .env("PGPORT", cluster.port.to_string())
        .env("PGUSER", &cluster.superuser)
        .env("PGDATABASE", DATABASE)
        .args(arguments);
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_stepped_over() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("any port");
        let port = taken.local_addr().expect("bound").port();
        assert!(free_port(port).expect("another port") > port);
    }

    #[test]
    fn passwords_are_long_and_never_repeat() {
        let (one, other) = (
            new_password().expect("random"),
            new_password().expect("random"),
        );
        assert_eq!(one.len(), 36);
        assert_ne!(one, other);
    }
}
