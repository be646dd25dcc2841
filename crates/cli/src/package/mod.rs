//! `./howdah package`: the extension as a `.deb` that goes beside `postgresql-18`.
//!
//! ```text
//!   pg_config ──► release build ──► tree ──► dpkg-deb ──► postgresql-18-howdah_VERSION_ARCH.deb
//!                                    ▲
//!                     control: name, version, what it depends on
//! ```
//!
//! The library works with every minor release of PostgreSQL 18 that was built with the same
//! limits and block size. A server compares the limits when it loads a library (`PG_MODULE_MAGIC`),
//! and not the block size.
//!
//! Invariants:
//! - The same library, sources and `SOURCE_DATE_EPOCH` give the same package, byte for byte.
//! - Root rights are not needed: every file in the package belongs to root nevertheless.

mod control;
mod tree;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::UNIX_EPOCH;

use anyhow::{Context as _, bail};

use crate::install::{ExtensionFiles, Installation, NEXT_STEPS};
use crate::paths::Paths;
use crate::{release, units};
use control::{Control, NAME};

/// The options of `package`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The directory to write the package to [default: package/ in cargo's target directory]
    #[arg(long, value_name = "DIRECTORY")]
    pub output: Option<PathBuf>,
}

/// Builds the package.
///
/// # Errors
/// When Debian's tools are missing, the build fails, or the package cannot be written.
pub fn run(paths: &Paths, options: &Options) -> anyhow::Result<ExitCode> {
    let architecture = said_by(Command::new("dpkg").arg("--print-architecture")).context(
        "packages are made by Debian's and Ubuntu's own tools, and dpkg does not answer",
    )?;
    let installation = Installation::of(&paths.postgres()?.pg_config)?;
    installation.check_headers()?;
    let library = release::library(paths);
    let files = ExtensionFiles::of_checkout(&paths.root, &library)?;
    let output = options
        .output
        .clone()
        .unwrap_or_else(|| paths.target.join("package"));
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
    release::build_library(paths, &installation.pg_config)?;

    let work = paths.target.join("package-tree");
    let tree = tree::lay_out(&work, &files, &paths.root.join("LICENSE"))?;
    let control = Control {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        architecture,
        library_packages: control::library_packages(&work, &tree::library_in(&tree))?,
        size_bytes: tree::size_bytes(&tree)?,
    };
    tree::write_control(&tree, &control.to_string())?;
    let package = output.join(control.file_name());
    build(&tree, &package, source_date(&paths.root)?)?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;

    let size = fs::metadata(&package).map_or(0, |metadata| metadata.len());
    println!(
        "{NAME} {} for {}, built against {} ({})",
        control.version,
        control.architecture,
        installation.version,
        units::bytes(size)
    );
    println!("  sudo dpkg -i {}", package.display());
    print!("{NEXT_STEPS}");
    Ok(ExitCode::SUCCESS)
}

/// Packs the tree. Times later than the source's are set to it, owners to root; one thread, because
/// the compressed bytes depend on the number of threads.
fn build(tree: &Path, package: &Path, source_date: u64) -> anyhow::Result<()> {
    said_by(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .args([tree, package])
            .env("SOURCE_DATE_EPOCH", source_date.to_string())
            .env("DPKG_DEB_THREADS_MAX", "1"),
    )
    .map(drop)
}

/// The time of the sources in seconds since 1970: the caller's, else that of the last commit, else
/// that of the workspace's manifest.
fn source_date(root: &Path) -> anyhow::Result<u64> {
    if let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") {
        return parse_source_date(&text);
    }
    let log = ["log", "-1", "--format=%ct"];
    let committed = said_by(Command::new("git").arg("-C").arg(root).args(log));
    if let Some(seconds) = committed.ok().and_then(|text| text.parse().ok()) {
        return Ok(seconds);
    }
    let changed = fs::metadata(root.join("Cargo.toml")).and_then(|metadata| metadata.modified());
    let changed = changed.context("cannot tell how old the sources are")?;
    Ok(changed
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| age.as_secs()))
}

fn parse_source_date(text: &OsStr) -> anyhow::Result<u64> {
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    seconds.with_context(|| format!("SOURCE_DATE_EPOCH is {text:?}, which is no number of seconds"))
}

/// A program's standard output, without the last newline.
fn said_by(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{program} failed: {}", errors.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_the_sources_is_a_number_of_seconds() {
        assert_eq!(
            parse_source_date(OsStr::new("1700000000")).ok(),
            Some(1_700_000_000)
        );
        let error = parse_source_date(OsStr::new("yesterday")).expect_err("a refusal");
        assert!(error.to_string().contains("yesterday"));
    }

    #[test]
    fn a_program_that_fails_is_named_with_what_it_said() {
        let error = said_by(Command::new("sh").args(["-c", "echo no room >&2; exit 3"]));
        assert_eq!(
            error.expect_err("a failure").to_string(),
            "sh failed: no room"
        );
        let error = said_by(&mut Command::new("/nowhere/dpkg")).expect_err("a failure");
        assert!(error.to_string().contains("/nowhere/dpkg"));
    }
}
