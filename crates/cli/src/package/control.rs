//! The package's control file: what it is called, and what it needs.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::said_by;

/// The name follows Debian's rule for packages of PostgreSQL's extensions.
pub(super) const NAME: &str = "postgresql-18-howdah";

/// The fields that differ from one build to the next.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) version: String,
    pub(super) architecture: String,
    /// The packages of the shared libraries that ours is linked with.
    pub(super) library_packages: String,
    pub(super) size_bytes: u64,
}

impl Control {
    pub(super) fn file_name(&self) -> String {
        format!("{NAME}_{}_{}.deb", self.version, self.architecture)
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Package: {NAME}")?;
        writeln!(f, "Version: {}", self.version)?;
        writeln!(f, "Architecture: {}", self.architecture)?;
        writeln!(f, "Maintainer: Howdah developers")?;
        writeln!(f, "Installed-Size: {}", self.size_bytes.div_ceil(1024))?;
        writeln!(f, "Depends: postgresql-18, {}", self.library_packages)?;
        writeln!(f, "Section: database")?;
        writeln!(f, "Priority: optional")?;
        writeln!(
            f,
            "Description: PostgreSQL tables with a columnar cold side"
        )?;
        writeln!(
            f,
            " A table USING howdah is an ordinary heap whose rows, once they are loaded in"
        )?;
        writeln!(
            f,
            " bulk or have been left alone, live in compressed row groups, stored by column."
        )?;
        writeln!(f, " .")?;
        writeln!(
            f,
            " The server must load the library: shared_preload_libraries = 'howdah'."
        )
    }
}

/// Runs `dpkg-shlibdeps`, which knows the packages of this machine and the versions of the symbols
/// that the library uses. PostgreSQL's own symbols come from the server that loads it.
pub(super) fn library_packages(work: &Path, library: &Path) -> anyhow::Result<String> {
    let debian = work.join("debian");
    let source = format!("Source: howdah\n\nPackage: {NAME}\nArchitecture: any\n");
    fs::create_dir_all(&debian)
        .and_then(|()| fs::write(debian.join("control"), source))
        .with_context(|| format!("cannot write under {}", debian.display()))?;
    let said = said_by(
        Command::new("dpkg-shlibdeps")
            .current_dir(work)
            .args(["-O", "--warnings=0"])
            .arg(library),
    )
    .context("dpkg-shlibdeps, of the package dpkg-dev, does not tell what the library needs")?;
    parse_substitution(&said).with_context(|| format!("dpkg-shlibdeps names no packages: {said:?}"))
}

/// `shlibs:Depends=libc6 (>= 2.34), libgcc-s1 (>= 4.2)`
fn parse_substitution(text: &str) -> Option<String> {
    let packages = text
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="))?;
    (!packages.trim().is_empty()).then(|| packages.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_packages_are_read_from_the_substitution() {
        let said = "shlibs:Depends=libc6 (>= 2.34), libgcc-s1 (>= 4.2)";
        let packages = parse_substitution(said);
        assert_eq!(
            packages.as_deref(),
            Some("libc6 (>= 2.34), libgcc-s1 (>= 4.2)")
        );
        assert_eq!(parse_substitution("shlibs:Depends="), None);
        assert_eq!(parse_substitution(""), None);
    }

    #[test]
    fn the_control_file_names_what_dpkg_asks_for() {
        let control = Control {
            version: "0.1.0".into(),
            architecture: "arm64".into(),
            library_packages: "libc6 (>= 2.34)".into(),
            size_bytes: 2049,
        };
        assert_eq!(control.file_name(), "postgresql-18-howdah_0.1.0_arm64.deb");
        let text = control.to_string();
        assert!(text.contains("\nDepends: postgresql-18, libc6 (>= 2.34)\n"));
        assert!(text.contains("\nInstalled-Size: 3\n"));
        // A blank line would end the paragraph.
        assert!(text.ends_with('\n') && !text.contains("\n\n"));
    }
}
