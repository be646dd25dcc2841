//! The release library: what `install` copies and `package` packs, built against one PostgreSQL.
//!
//! It is built by itself, not with the workspace: it shares no artifacts with what `demo` and
//! `test` build, so that another selection of crates costs nothing there
//! (docs/decisions/0005-one-cargo-selection.md).

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::cluster;
use crate::paths::Paths;
use crate::progress::Progress;

/// Where the release library is once it is built.
pub(crate) fn library(paths: &Paths) -> PathBuf {
    paths.target.join("release/libhowdah.so")
}

/// Builds the library for a `pg_config`'s PostgreSQL; quick where nothing has changed.
///
/// # Errors
/// When cargo cannot be run, or fails.
pub(crate) fn build_library(paths: &Paths, pg_config: &Path) -> anyhow::Result<()> {
    let logs = paths.cache.join("logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let log = logs.join("release-build.log");
    let writing = || format!("cannot write {}", log.display());
    let mut file = File::create(&log).with_context(writing)?;
    let mut progress = Progress::open_ended("building a release");
    let mut cargo = Command::new("cargo")
        .current_dir(&paths.root)
        .args([
            "build",
            "--locked",
            "--release",
            "--package",
            "howdah-extension",
        ])
        .env("CARGO_TARGET_DIR", &paths.target)
        .env("CARGO_TERM_COLOR", "never")
        .env("PGRX_PG_CONFIG_PATH", pg_config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    if let Some(errors) = cargo.stderr.take() {
        for line in BufReader::new(errors).lines() {
            let line = line.context("cannot read what cargo says")?;
            writeln!(file, "{line}").with_context(writing)?;
            if let Some(package) = line.trim_start().strip_prefix("Compiling ") {
                progress.advance(1, package);
            }
        }
    }
    let status = cargo.wait().context("cannot wait for cargo")?;
    if !status.success() {
        progress.line(&cluster::tail(&log, 30));
        progress.vanish();
        bail!(
            "the library could not be built; the whole log is {}",
            log.display()
        );
    }
    progress.finish("done");
    Ok(())
}
