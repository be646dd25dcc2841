//! Packages of the Python package index, fetched by its own client: each into a directory of its
//! own below the cache, from which it is used again.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::paths::Paths;
use crate::progress::Progress;

/// Written last, so that an interrupted installation is recognized.
const COMPLETE: &str = "complete";

/// The directory of an installed package, which belongs in `PYTHONPATH`; programs of the package
/// are in `bin` there. What it depends on is not installed.
///
/// # Errors
/// When the package is not there and cannot be installed.
pub(super) fn installed(paths: &Paths, package: &str) -> anyhow::Result<PathBuf> {
    let directory = paths.cache.join(package);
    let target = directory.join("python");
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    if !target.join(COMPLETE).exists() {
        let progress = Progress::open_ended(&format!("fetching {package}"));
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install"])
            .args(["--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--only-binary=:all:", "--timeout=20"])
            .arg("--target")
            .arg(&target)
            .arg(package);
        let output = run(&mut pip).map(drop);
        progress.vanish();
        output.with_context(|| format!("the Python package {package} cannot be had"))?;
        fs::write(target.join(COMPLETE), "")?;
    }
    Ok(target)
}

/// The output of a program, if it succeeds.
///
/// # Errors
/// When it cannot be started, or fails; the last line that it wrote to standard error.
pub(super) fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        match text.trim().lines().last() {
            Some(line) => bail!("{line}"),
            None => bail!("{name} failed"),
        }
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_tells_its_last_line() {
        let shell = |script: &str| run(Command::new("sh").args(["-c", script]));
        assert_eq!(shell("echo one").expect("it succeeds"), b"one\n");
        let error = shell("echo early >&2; echo last >&2; exit 3").expect_err("it fails");
        assert_eq!(error.to_string(), "last");
        let error = shell("exit 3").expect_err("it fails");
        assert_eq!(error.to_string(), "sh failed");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("/nowhere/program")).expect_err("it is not there");
        assert_eq!(error.to_string(), "cannot run /nowhere/program");
    }
}
