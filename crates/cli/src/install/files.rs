//! The files of the extension: which they are, and how they are installed and removed.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::Installation;

const LIBRARY: &str = "howdah.so";
const CONTROL: &str = "howdah.control";

/// The server's user must be able to read the files; only their owner writes them.
const MODE: u32 = 0o644;

/// The files in the checkout that a server needs of Howdah.
#[derive(Debug)]
pub(crate) struct ExtensionFiles {
    library: PathBuf,
    control: PathBuf,
    /// Scripts for `CREATE EXTENSION` and `ALTER EXTENSION … UPDATE`.
    scripts: Vec<PathBuf>,
}

/// A file and the place it is to have.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
}

/// What was done with a file at its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    New,
    Replaced,
    Unchanged,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "new",
            Self::Replaced => "replaced",
            Self::Unchanged => "unchanged",
        })
    }
}

impl ExtensionFiles {
    /// The files beside a library, which need not have been built yet.
    ///
    /// # Errors
    /// When the checkout lacks the control file or the scripts.
    pub(crate) fn of_checkout(root: &Path, library: &Path) -> anyhow::Result<Self> {
        let extension = root.join("crates/extension");
        let control = extension.join(CONTROL);
        let scripts = scripts_in(&extension.join("sql"))?;
        anyhow::ensure!(
            control.is_file() && !scripts.is_empty(),
            "this checkout lacks the extension's control file or scripts in {}",
            extension.display()
        );
        Ok(Self {
            library: library.into(),
            control,
            scripts,
        })
    }

    /// Scripts come before the control file that names them, and the library before both: at no
    /// time does `CREATE EXTENSION` find a file whose companions are missing.
    pub(crate) fn placements(&self, libraries: &Path, extensions: &Path) -> Vec<Placement> {
        let mut placements = vec![Placement {
            source: self.library.clone(),
            target: libraries.join(LIBRARY),
        }];
        for source in self.scripts.iter().chain([&self.control]) {
            let name = source.file_name().unwrap_or_default();
            placements.push(Placement {
                source: source.clone(),
                target: extensions.join(name),
            });
        }
        placements
    }
}

/// `howdah--*.sql`, in order.
fn scripts_in(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let reading = || format!("cannot read {}", directory.display());
    let mut scripts = Vec::new();
    for entry in fs::read_dir(directory).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("howdah--") && name.ends_with(".sql") {
            scripts.push(path);
        }
    }
    scripts.sort();
    Ok(scripts)
}

/// Copies every file beside its target first; when all are there, renames them. A file that is
/// the same already is left alone.
///
/// # Errors
/// When a file cannot be read, written or renamed. Targets that were not renamed stay as they were.
pub(super) fn place(placements: &[Placement]) -> anyhow::Result<Vec<Change>> {
    let staged = placements
        .iter()
        .map(stage)
        .collect::<anyhow::Result<Vec<_>>>();
    if staged.is_err() {
        for placement in placements {
            let _ = fs::remove_file(waiting(&placement.target));
        }
    }
    let changes = staged?;
    for (placement, change) in placements.iter().zip(&changes) {
        if *change != Change::Unchanged {
            let target = &placement.target;
            fs::rename(waiting(target), target)
                .with_context(|| format!("cannot replace {}", target.display()))?;
        }
    }
    Ok(changes)
}

/// Writes a copy of the file beside its target.
fn stage(placement: &Placement) -> anyhow::Result<Change> {
    let Placement { source, target } = placement;
    let content = fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
    let present = fs::read(target).ok();
    if present.as_ref() == Some(&content) {
        return Ok(Change::Unchanged);
    }
    let beside = waiting(target);
    write_whole(&beside, &content).with_context(|| format!("cannot write {}", beside.display()))?;
    Ok(match present {
        Some(_) => Change::Replaced,
        None => Change::New,
    })
}

fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    File::open(path)?.sync_all()
}

/// The name a new file has until it replaces the old one; in the same directory, so that the
/// renaming is one step.
fn waiting(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    target.with_file_name(name)
}

/// The extension's files that are installed, the control file first: without it
/// `CREATE EXTENSION` does not look for the others.
///
/// # Errors
/// When the directory cannot be read.
pub(super) fn installed_files(installation: &Installation) -> anyhow::Result<Vec<PathBuf>> {
    let extension = &installation.extension_directory;
    let mut present = vec![extension.join(CONTROL)];
    if extension.is_dir() {
        present.extend(scripts_in(extension)?);
    }
    present.push(installation.library_directory.join(LIBRARY));
    present.retain(|path| path.exists());
    Ok(present)
}

/// # Errors
/// When a file cannot be removed; those before it are.
pub(super) fn remove(files: &[PathBuf]) -> anyhow::Result<()> {
    for path in files {
        fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// The version that the installed control file names.
pub(super) fn installed_version(installation: &Installation) -> Option<String> {
    version_in(&fs::read_to_string(installation.extension_directory.join(CONTROL)).ok()?)
}

fn version_in(control: &str) -> Option<String> {
    let line = control
        .lines()
        .find(|line| line.starts_with("default_version"))?;
    let (_, value) = line.split_once('=')?;
    Some(value.trim().trim_matches('\'').to_owned())
}

/// The system's package that a file belongs to; `None` where there is no dpkg.
pub(super) fn owning_package(path: &Path) -> Option<String> {
    let output = Command::new("dpkg-query")
        .arg("--search")
        .arg(path)
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    package_in(&String::from_utf8_lossy(&output.stdout))
}

/// `postgresql-18-howdah: /usr/lib/…`, after the lines that dpkg prints about diversions.
fn package_in(found: &str) -> Option<String> {
    let mut lines = found.lines();
    let line = lines.find(|line| !line.starts_with("diversion by "))?;
    let (package, _) = line.split_once(": ")?;
    Some(package.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::installation::tests::{Directory, pretend};

    fn checkout() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn placements(installation: &Installation, files: &ExtensionFiles) -> Vec<Placement> {
        files.placements(
            &installation.library_directory,
            &installation.extension_directory,
        )
    }

    fn prepare(directory: &Directory) -> (Installation, ExtensionFiles) {
        let pg_config = pretend(&directory.0, "PostgreSQL 18.6");
        let installation = Installation::of(&pg_config).expect("an installation");
        let library = directory.0.join("libhowdah.so");
        fs::write(&library, "first").expect("a library");
        let files = ExtensionFiles::of_checkout(&checkout(), &library).expect("files");
        (installation, files)
    }

    #[test]
    fn files_are_placed_replaced_and_left_alone() {
        let directory = Directory::new("place");
        let (installation, files) = prepare(&directory);
        let placements = placements(&installation, &files);
        let first = place(&placements).expect("all in place");
        assert!(first.iter().all(|change| *change == Change::New));
        let library = directory.0.join("lib/howdah.so");
        let mode = fs::metadata(&library).expect("a library").permissions();
        assert_eq!(mode.mode() & 0o777, 0o644);
        let script = directory.0.join("share/extension/howdah--0.1.0.sql");
        assert!(script.exists());

        let held = File::open(&library).expect("a library");
        fs::write(directory.0.join("libhowdah.so"), "second").expect("a library");
        let second = place(&placements).expect("all in place");
        assert_eq!(second[0], Change::Replaced);
        assert!(
            second[1..]
                .iter()
                .all(|change| *change == Change::Unchanged)
        );
        assert_eq!(fs::read_to_string(&library).expect("a library"), "second");
        // A process that has the old library open keeps it.
        assert_eq!(io::read_to_string(held).expect("a library"), "first");
        assert_eq!(
            fs::read_dir(directory.0.join("lib"))
                .expect("files")
                .count(),
            1
        );
    }

    #[test]
    fn nothing_is_replaced_when_one_file_cannot_be_read() {
        let directory = Directory::new("partial");
        let (installation, files) = prepare(&directory);
        let mut placements = placements(&installation, &files);
        placements.push(Placement {
            source: directory.0.join("nowhere"),
            target: directory.0.join("share/extension/nowhere"),
        });
        place(&placements).expect_err("a failure");
        assert_eq!(
            installed_files(&installation).expect("a list"),
            Vec::<PathBuf>::new()
        );
        for place in ["lib", "share/extension"] {
            assert_eq!(
                fs::read_dir(directory.0.join(place))
                    .expect("files")
                    .count(),
                0
            );
        }
    }

    #[test]
    fn what_was_installed_is_removed_and_nothing_else() {
        let directory = Directory::new("remove");
        let (installation, files) = prepare(&directory);
        place(&placements(&installation, &files)).expect("all in place");
        let foreign = directory.0.join("share/extension/plpgsql.control");
        fs::write(&foreign, "").expect("a file");
        let present = installed_files(&installation).expect("a list");
        assert_eq!(present.len(), 3);
        remove(&present).expect("removed");
        assert_eq!(installed_files(&installation).expect("a list").len(), 0);
        assert!(foreign.exists());
    }

    #[test]
    fn a_packaged_file_names_its_package() {
        let found = "diversion by a from: /usr/bin/x\npostgresql-18-howdah: /usr/bin/x\n";
        assert_eq!(package_in(found).as_deref(), Some("postgresql-18-howdah"));
        assert_eq!(package_in(""), None);
        let directory = Directory::new("package");
        assert_eq!(owning_package(&directory.0), None);
    }

    #[test]
    fn the_control_file_names_the_version_of_this_release() {
        let directory = Directory::new("control");
        let (installation, files) = prepare(&directory);
        assert_eq!(installed_version(&installation), None);
        place(&placements(&installation, &files)).expect("all in place");
        let version = installed_version(&installation);
        assert_eq!(version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    }
}
