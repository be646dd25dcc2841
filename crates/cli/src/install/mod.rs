//! `./howdah install` and `./howdah uninstall`: the extension in a PostgreSQL of the user's own.
//!
//! ```text
//!   pg_config ──► installation   what is installed there, and may files be put there?
//!                      │
//!   checkout ──► release build ──► files   placed by renaming, or removed
//! ```
//!
//! Invariants:
//! - No server is started, stopped or queried; the private server and its PostgreSQL are not
//!   needed, but for tests of a release ([`lend_release`]).
//! - Every check that can fail runs before the build, which takes long.
//! - A file is replaced as a whole. A running server keeps the library that it has loaded.
//! - Files that belong to a system package are left to the package manager.

mod files;
mod installation;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use files::ExtensionFiles;
pub(crate) use installation::Installation;

use crate::paths::Paths;
use crate::release;

/// The options of `install`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The pg_config of the PostgreSQL 18 to install into
    #[arg(long, value_name = "PATH")]
    pub pg_config: PathBuf,
    /// Check everything and show what would be done; build and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// The options of `uninstall`.
#[derive(Debug, clap::Args)]
pub struct UninstallOptions {
    /// The pg_config of the PostgreSQL 18 to remove Howdah from
    #[arg(long, value_name = "PATH")]
    pub pg_config: PathBuf,
}

/// Builds a release library against the PostgreSQL and copies the extension's files there.
///
/// # Errors
/// When the PostgreSQL is not one that Howdah can be installed into, the build fails, or a file
/// cannot be written.
pub fn run(paths: &Paths, options: &Options) -> anyhow::Result<ExitCode> {
    let installation = Installation::of(&options.pg_config)?;
    installation.check_headers()?;
    installation.check_writable()?;
    let library = release::library(paths);
    let files = ExtensionFiles::of_checkout(&paths.root, &library)?;
    let placements = files.placements(
        &installation.library_directory,
        &installation.extension_directory,
    );
    refuse_packaged(placements.iter().map(|placement| &*placement.target))?;

    let version = env!("CARGO_PKG_VERSION");
    println!("howdah {version} for {}", installation.version);
    if let Some(present) = files::installed_version(&installation) {
        println!("  howdah {present} is there already");
    }
    if options.dry_run {
        for placement in &placements {
            println!("  {}", placement.target.display());
        }
        println!("nothing was built or copied");
        return Ok(ExitCode::SUCCESS);
    }
    release::build_library(paths, &installation.pg_config)?;
    for (placement, change) in placements.iter().zip(files::place(&placements)?) {
        println!("  {:<9} {}", change.to_string(), placement.target.display());
    }
    print!("{NEXT_STEPS}");
    Ok(ExitCode::SUCCESS)
}

/// Builds a release and places it where this machine's own servers look for the extension. The next
/// command places the development build there again.
///
/// # Errors
/// When the build fails, or a file cannot be written.
pub(crate) fn lend_release(paths: &Paths) -> anyhow::Result<()> {
    release::build_library(paths, &paths.postgres()?.pg_config)?;
    let files = ExtensionFiles::of_checkout(&paths.root, &release::library(paths))?;
    let [library, control] = [paths.extension_library(), paths.extension_control()];
    let directory = |file: &Path| file.parent().map(Path::to_path_buf).unwrap_or_default();
    files::place(&files.placements(&directory(&library), &directory(&control)))?;
    Ok(())
}

/// Removes the extension's files from the PostgreSQL.
///
/// # Errors
/// When the `pg_config` does not answer, or a file cannot be removed.
pub fn uninstall(options: &UninstallOptions) -> anyhow::Result<ExitCode> {
    let installation = Installation::of(&options.pg_config)?;
    let present = files::installed_files(&installation)?;
    if present.is_empty() {
        println!("howdah is not installed in {}", installation.version);
        return Ok(ExitCode::SUCCESS);
    }
    installation.check_writable()?;
    refuse_packaged(present.iter().map(|path| &**path))?;
    files::remove(&present)?;
    for path in &present {
        println!("  removed   {}", path.display());
    }
    print!("{AFTER_REMOVAL}");
    Ok(ExitCode::SUCCESS)
}

fn refuse_packaged<'a>(paths: impl Iterator<Item = &'a Path>) -> anyhow::Result<()> {
    for path in paths {
        if let Some(package) = files::owning_package(path) {
            anyhow::bail!(
                "{} belongs to the package {package}; remove that first: apt-get remove {package}",
                path.display()
            );
        }
    }
    Ok(())
}

/// What remains to be done by the server's administrator, for packages as for installed files.
pub(crate) const NEXT_STEPS: &str = "
In postgresql.conf, beside what may stand there already; then restart the server:

  shared_preload_libraries = 'howdah'

In each database that is to have howdah tables:

  CREATE EXTENSION howdah;
  CREATE TABLE events (id bigint, at timestamptz, what text) USING howdah;
";

const AFTER_REMOVAL: &str = "
Take howdah out of shared_preload_libraries before the server restarts: it does not start
otherwise. Tables USING howdah cannot be read until howdah is installed again.
";

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::command::{Arguments, Command};
    use clap::Parser as _;

    pub(crate) use super::installation::tests::Directory;

    #[test]
    fn install_asks_for_a_pg_config() {
        assert!(Arguments::try_parse_from(["howdah", "install"]).is_err());
        assert!(Arguments::try_parse_from(["howdah", "uninstall"]).is_err());
        let parsed = Arguments::try_parse_from(["howdah", "install", "--pg-config", "p/pg_config"]);
        let Ok(Command::Install(options)) = parsed.map(|arguments| arguments.command) else {
            panic!("install was not understood");
        };
        assert_eq!(options.pg_config, Path::new("p/pg_config"));
        assert!(!options.dry_run);
    }

    #[test]
    fn the_next_steps_are_those_that_the_server_asks_for() {
        // `_PG_init` refuses any other way of loading.
        assert!(NEXT_STEPS.contains("shared_preload_libraries = 'howdah'"));
        assert!(NEXT_STEPS.contains("CREATE EXTENSION howdah;"));
    }
}
