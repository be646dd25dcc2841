//! The checks of the machine and the tools, which need no server.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

use super::Finding;
use crate::account::Account;
use crate::instance::{self, superuser};
use crate::paths::{DEFAULT_PORT, Paths, Postgres};
use crate::{machine, units};

/// A check returns its findings; it returns none where it does not apply.
pub(super) type Check = fn(&Paths) -> Vec<Finding>;

pub(super) const ALL: [Check; 10] = [
    disk, memory, rights, account, rust, compiler, python, postgres, port, role,
];

/// Disk space that a build, a demo and a test run need together.
const WANTED_DISK_BYTES: u64 = 10 << 30;
const NEEDED_DISK_BYTES: u64 = 2 << 30;
const WANTED_MEMORY_BYTES: u64 = 4 << 30;

/// As `rust-version` in the workspace's Cargo.toml.
const NEEDED_RUST: (u32, u32) = (1, 95);

fn disk(paths: &Paths) -> Vec<Finding> {
    let places = [
        ("disk: instance", &paths.home),
        ("disk: build", &paths.target),
    ];
    places
        .into_iter()
        .map(|(subject, path)| disk_finding(subject, path))
        .collect()
}

fn disk_finding(subject: &'static str, path: &Path) -> Finding {
    let cure = "free some space, or set HOWDAH_HOME and CARGO_TARGET_DIR to a larger disk";
    let Some(free) = machine::free_disk_bytes(path) else {
        return Finding::warn(
            subject,
            format!("df tells nothing of {}", path.display()),
            cure,
        );
    };
    let detail = format!("{} free under {}", units::bytes(free), path.display());
    match free {
        free if free < NEEDED_DISK_BYTES => Finding::fail(subject, detail, cure),
        free if free < WANTED_DISK_BYTES => Finding::warn(subject, detail, cure),
        _ => Finding::ok(subject, detail),
    }
}

fn memory(_: &Paths) -> Vec<Finding> {
    let Some(memory) = machine::memory_bytes() else {
        return Vec::new();
    };
    let detail = format!("{} of memory", units::bytes(memory));
    vec![if memory < WANTED_MEMORY_BYTES {
        let cure = "build with CARGO_BUILD_JOBS=1; the server itself is content with less";
        Finding::warn("memory", detail, cure)
    } else {
        Finding::ok("memory", detail)
    }]
}

fn rights(paths: &Paths) -> Vec<Finding> {
    let probe = paths.home.join(format!(".doctor-{}", std::process::id()));
    let written = fs::create_dir_all(&paths.home).and_then(|()| fs::write(&probe, "probe"));
    let _ = fs::remove_file(&probe);
    vec![match written {
        Ok(()) => Finding::ok(
            "rights",
            format!("may write under {}", paths.home.display()),
        ),
        Err(error) => Finding::fail(
            "rights",
            format!("cannot write under {}: {error}", paths.home.display()),
            "set HOWDAH_HOME to a directory of yours, or run as its owner",
        ),
    }]
}

fn account(_: &Paths) -> Vec<Finding> {
    vec![match Account::of_server() {
        Ok(Account::Caller) => Finding::ok("account", "servers run as you"),
        Ok(Account::Other { uid, .. }) => Finding::ok(
            "account",
            format!("servers run as the system user 'howdah' ({uid})"),
        ),
        Err(error) => Finding::fail(
            "account",
            error.to_string(),
            "useradd --system --no-create-home howdah",
        ),
    }]
}

fn rust(_: &Paths) -> Vec<Finding> {
    let (major, minor) = NEEDED_RUST;
    let cure = format!("rustup toolchain install {major}.{minor}.0, or ./howdah up");
    let Some(text) = first_line("rustc", &["--version"]) else {
        return vec![Finding::fail("rust", "rustc was not found", cure)];
    };
    let new_enough = parse_rust_version(&text).is_some_and(|version| version >= NEEDED_RUST);
    let mut findings = vec![if new_enough {
        Finding::ok("rust", text)
    } else {
        Finding::fail("rust", format!("{text}; {major}.{minor} is needed"), cure)
    }];
    for (component, program) in [("rustfmt", "cargo-fmt"), ("clippy", "cargo-clippy")] {
        if first_line(program, &["--version"]).is_none() {
            let detail = format!("{component} was not found; that step of the tests is skipped");
            findings.push(Finding::warn(
                "rust",
                detail,
                format!("rustup component add {component}"),
            ));
        }
    }
    findings
}

fn compiler(_: &Paths) -> Vec<Finding> {
    let tools = [
        ("cc", "gcc"),
        ("clang", "clang libclang-dev"),
        ("make", "make"),
    ];
    let missing: Vec<&str> = tools
        .into_iter()
        .filter(|(program, _)| first_line(program, &["--version"]).is_none())
        .map(|(_, package)| package)
        .collect();
    vec![if missing.is_empty() {
        Finding::ok("compiler", "cc, clang and make are there")
    } else {
        let packages = missing.join(" ");
        let detail = format!("missing packages: {packages}");
        Finding::fail(
            "compiler",
            detail,
            format!("apt-get install {packages}, or ./howdah up"),
        )
    }]
}

fn python(_: &Paths) -> Vec<Finding> {
    vec![match first_line("python3", &["-m", "pip", "--version"]) {
        Some(_) => Finding::ok("python", "python3 with pip is there, for the demo's data"),
        None => Finding::warn(
            "python",
            "python3 with pip was not found; the demo cannot fetch its data",
            "apt-get install python3 python3-pip",
        ),
    }]
}

fn postgres(paths: &Paths) -> Vec<Finding> {
    let postgres = match paths.postgres() {
        Ok(postgres) => postgres,
        Err(error) => return vec![Finding::fail("postgres", error.to_string(), "./howdah up")],
    };
    let mut findings = Vec::new();
    let place = postgres.bin.display();
    if postgres.version.starts_with("PostgreSQL 18") && postgres.program("postgres").exists() {
        findings.push(Finding::ok(
            "postgres",
            format!("{} in {place}", postgres.version),
        ));
    } else {
        let detail = format!("{} in {place} is no PostgreSQL 18 server", postgres.version);
        findings.push(Finding::fail(
            "postgres",
            detail,
            "set HOWDAH_PG_CONFIG to another pg_config",
        ));
    }
    findings.push(test_driver(&postgres));
    findings.push(suite_sources(paths));
    findings
}

fn test_driver(postgres: &Postgres) -> Finding {
    let driver = postgres.pgxs.join("test/regress/pg_regress");
    if driver.exists() {
        Finding::ok("pg_regress", driver.display().to_string())
    } else {
        let detail = format!("{} is missing; no SQL test can run", driver.display());
        Finding::warn(
            "pg_regress",
            detail,
            "install the server's development package",
        )
    }
}

fn suite_sources(paths: &Paths) -> Finding {
    match &paths.postgres_source {
        Some(source) => Finding::ok(
            "suites",
            format!("PostgreSQL's own are in {}", source.display()),
        ),
        None => Finding::warn(
            "suites",
            "this PostgreSQL has no sources beside it; its own suites are skipped by the tests",
            "set HOWDAH_PG_SOURCE to a built source tree of the same version",
        ),
    }
}

fn port(paths: &Paths) -> Vec<Finding> {
    let running = instance::cluster(paths)
        .ok()
        .and_then(|cluster| cluster.running());
    if let Some(running) = running {
        return vec![Finding::ok(
            "port",
            format!("{}, held by our server", running.port),
        )];
    }
    let port = paths.port.unwrap_or(DEFAULT_PORT);
    vec![match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Finding::ok("port", format!("{port} is free")),
        Err(error) => Finding::warn(
            "port",
            format!("{port}: {error}; ./howdah up takes the next free one"),
            "set HOWDAH_PORT to a free one",
        ),
    }]
}

/// Whether the running server has a role whose unqualified tables would be created in the
/// extension's schema.
fn role(paths: &Paths) -> Vec<Finding> {
    let running = instance::cluster(paths)
        .ok()
        .filter(|cluster| cluster.running().is_some());
    let Some(mut client) = running.and_then(|cluster| cluster.connect("postgres").ok()) else {
        return Vec::new();
    };
    let name = superuser::ILL_NAMED;
    match superuser::lacks_search_path(&mut client) {
        Ok(false) => Vec::new(),
        Ok(true) => vec![Finding::warn(
            "role",
            format!("\"$user\" in the search path of role '{name}' is the extension's schema"),
            format!("ALTER ROLE {name} SET search_path = public, or another name for it"),
        )],
        Err(error) => vec![Finding::fail("role", error.to_string(), "./howdah up")],
    }
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output
        .status
        .success()
        .then(|| text.lines().next().unwrap_or_default().to_owned())
}

/// `rustc 1.95.0 (…)` becomes `(1, 95)`.
fn parse_rust_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split_whitespace().nth(1)?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_versions_compare_as_numbers() {
        assert_eq!(
            parse_rust_version("rustc 1.95.0 (f2d3ce0bd 2026-03-21)"),
            Some((1, 95))
        );
        assert!(parse_rust_version("rustc 1.100.0-nightly").is_some_and(|own| own >= NEEDED_RUST));
        assert_eq!(parse_rust_version("command not found"), None);
    }
}
