//! The package's files, laid out as dpkg will install them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::control::NAME;
use super::said_by;
use crate::install::ExtensionFiles;

/// Where Debian's postgresql-18 looks for libraries and for extensions.
const LIBRARIES: &str = "usr/lib/postgresql/18/lib";
const EXTENSIONS: &str = "usr/share/postgresql/18/extension";

/// Lays out a new tree in `work`, without its control file.
pub(super) fn lay_out(
    work: &Path,
    files: &ExtensionFiles,
    license: &Path,
) -> anyhow::Result<PathBuf> {
    let tree = work.join(NAME);
    if work.exists() {
        fs::remove_dir_all(work).with_context(|| format!("cannot remove {}", work.display()))?;
    }
    let placements = files.placements(&tree.join(LIBRARIES), &tree.join(EXTENSIONS));
    for placement in placements {
        copy(&placement.source, &placement.target)?;
    }
    let library = library_in(&tree);
    said_by(Command::new("strip").arg("--strip-debug").arg(&library))?;
    let documents = tree.join("usr/share/doc").join(NAME);
    copy(license, &documents.join("LICENSE"))?;
    write(&documents.join("copyright"), COPYRIGHT.as_bytes())?;
    set_modes(&tree)?;
    Ok(tree)
}

/// The library of a tree.
pub(super) fn library_in(tree: &Path) -> PathBuf {
    tree.join(LIBRARIES).join("howdah.so")
}

/// Adds the control file and the list of checksums that `dpkg --verify` compares.
pub(super) fn write_control(tree: &Path, control: &str) -> anyhow::Result<()> {
    let mut files = files_under(tree)?;
    files.sort();
    let mut sums = String::new();
    if !files.is_empty() {
        let relative = files.iter().filter_map(|path| path.strip_prefix(tree).ok());
        sums = said_by(Command::new("md5sum").current_dir(tree).args(relative))?;
        sums.push('\n');
    }
    write(&tree.join("DEBIAN/control"), control.as_bytes())?;
    write(&tree.join("DEBIAN/md5sums"), sums.as_bytes())?;
    set_modes(tree)
}

/// The size of the files, without directories.
pub(super) fn size_bytes(tree: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for path in files_under(tree)? {
        let metadata = fs::metadata(&path);
        sum += metadata
            .with_context(|| format!("cannot read {}", path.display()))?
            .len();
    }
    Ok(sum)
}

fn copy(source: &Path, target: &Path) -> anyhow::Result<()> {
    let content = fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
    write(target, &content)
}

fn write(target: &Path, content: &[u8]) -> anyhow::Result<()> {
    let directory = target.parent().unwrap_or(target);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(target, content))
        .with_context(|| format!("cannot write {}", target.display()))
}

/// Makes installed files readable by all users, whatever the caller's umask is.
fn set_modes(path: &Path) -> anyhow::Result<()> {
    let changing = || format!("cannot set the mode of {}", path.display());
    let is_directory = path.is_dir();
    let mode = if is_directory { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).with_context(changing)?;
    if is_directory {
        for entry in fs::read_dir(path).with_context(changing)? {
            set_modes(&entry.with_context(changing)?.path())?;
        }
    }
    Ok(())
}

fn files_under(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let reading = || format!("cannot read {}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        if path.is_dir() {
            files.extend(files_under(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// In the form that Debian's policy requires.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: howdah

Files: *
Copyright: Howdah developers
License: Apache-2.0

License: Apache-2.0
 The whole text is in LICENSE beside this file, and in /usr/share/common-licenses/Apache-2.0.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::tests::Directory;

    #[test]
    fn every_file_is_listed_with_its_checksum_and_may_be_read() {
        let directory = Directory::new("tree");
        let tree = directory.0.join("tree");
        write(&tree.join("usr/b"), b"b\n").expect("a file");
        write(&tree.join("usr/a"), b"").expect("a file");
        fs::set_permissions(tree.join("usr"), fs::Permissions::from_mode(0o700)).expect("a mode");
        assert_eq!(size_bytes(&tree).expect("a size"), 2);
        write_control(&tree, "Package: a\n").expect("a control file");
        let sums = fs::read_to_string(tree.join("DEBIAN/md5sums")).expect("checksums");
        let expected = "d41d8cd98f00b204e9800998ecf8427e  usr/a\n\
                        3b5d5c3712955042212316173ccf37be  usr/b\n";
        assert_eq!(sums, expected);
        let mode = fs::metadata(tree.join("usr"))
            .expect("a directory")
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o755);
    }
}
