//! One PostgreSQL as its `pg_config` describes it, and whether Howdah can be installed there.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::paths::{self, PathsError};

/// The one major version that Howdah is written for.
pub(crate) const MAJOR: u32 = 18;

/// Why Howdah cannot be built for a PostgreSQL, or installed into it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum InstallationError {
    #[error(
        "{cause}; give the path of a PostgreSQL {MAJOR}'s pg_config, on Debian and Ubuntu \
         /usr/lib/postgresql/{MAJOR}/bin/pg_config"
    )]
    NoAnswer { cause: PathsError },
    #[error("{} belongs to {version}, and Howdah is for PostgreSQL {MAJOR}", .pg_config.display())]
    OtherVersion { pg_config: PathBuf, version: String },
    #[error(
        "the server headers of {version} are missing ({} is not there); \
         they come with postgresql-server-dev-{MAJOR} on Debian and Ubuntu, \
         postgresql{MAJOR}-devel elsewhere", .header.display()
    )]
    NoHeaders { version: String, header: PathBuf },
    #[error("{} is no directory; is the server of this PostgreSQL installed?", .directory.display())]
    NoDirectory { directory: PathBuf },
    #[error(
        "cannot write in {}: {cause}; run this as the owner of that directory (root, for a \
         system's PostgreSQL), or on Debian and Ubuntu build a package by './howdah package' and \
         let dpkg install it", .directory.display()
    )]
    NotWritable {
        directory: PathBuf,
        cause: io::Error,
    },
}

/// The places of one PostgreSQL 18 that matter to an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installation {
    pub(crate) pg_config: PathBuf,
    /// As `pg_config --version` prints it.
    pub(crate) version: String,
    /// Where the server looks for `$libdir`.
    pub(crate) library_directory: PathBuf,
    /// Where the server looks for control files and scripts.
    pub(crate) extension_directory: PathBuf,
    header: PathBuf,
}

impl Installation {
    /// Reads the places from a `pg_config`.
    ///
    /// # Errors
    /// When it does not answer, or is another major version's.
    pub(crate) fn of(pg_config: &Path) -> Result<Self, InstallationError> {
        // Cargo and the build run in other directories than the caller.
        let pg_config = std::path::absolute(pg_config).unwrap_or_else(|_| pg_config.into());
        let ask = |question| {
            paths::ask(&pg_config, question).map_err(|cause| InstallationError::NoAnswer { cause })
        };
        let version = ask("--version")?;
        if major_of(&version) != Some(MAJOR) {
            return Err(InstallationError::OtherVersion { pg_config, version });
        }
        Ok(Self {
            library_directory: PathBuf::from(ask("--pkglibdir")?),
            extension_directory: Path::new(&ask("--sharedir")?).join("extension"),
            header: Path::new(&ask("--includedir-server")?).join("postgres.h"),
            version,
            pg_config,
        })
    }

    /// # Errors
    /// When the server's headers are not installed, without which nothing can be built.
    pub(crate) fn check_headers(&self) -> Result<(), InstallationError> {
        if self.header.is_file() {
            return Ok(());
        }
        Err(InstallationError::NoHeaders {
            version: self.version.clone(),
            header: self.header.clone(),
        })
    }

    /// Tries to write in both directories, and leaves nothing there.
    ///
    /// # Errors
    /// When one of them is missing, or may not be written in.
    pub(crate) fn check_writable(&self) -> Result<(), InstallationError> {
        for directory in [&self.library_directory, &self.extension_directory] {
            if !directory.is_dir() {
                return Err(InstallationError::NoDirectory {
                    directory: directory.clone(),
                });
            }
            let probe = directory.join(format!(".howdah-{}", std::process::id()));
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&probe)
                .and_then(|_| fs::remove_file(&probe))
                .map_err(|cause| InstallationError::NotWritable {
                    directory: directory.clone(),
                    cause,
                })?;
        }
        Ok(())
    }
}

/// `PostgreSQL 18.1 (Debian 18.1-1)` and `PostgreSQL 18beta2` are of major version 18.
fn major_of(version: &str) -> Option<u32> {
    let number = version.strip_prefix("PostgreSQL ")?;
    let end = number
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(number.len());
    number[..end].parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::process::Command;

    /// A directory of one test, gone when dropped.
    pub(crate) struct Directory(pub(crate) PathBuf);

    impl Directory {
        pub(crate) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("howdah-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("a directory for the test");
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A PostgreSQL without programs: its directories, a header, and a `pg_config` that names them.
    pub(crate) fn pretend(root: &Path, version: &str) -> PathBuf {
        for directory in ["lib", "share/extension", "include"] {
            fs::create_dir_all(root.join(directory)).expect("a directory");
        }
        fs::write(root.join("include/postgres.h"), "/* */").expect("a header");
        let pg_config = root.join("pg_config");
        let place = root.display();
        let script = format!(
            "#!/bin/sh\ncase $1 in\n--version) echo '{version}' ;;\n\
             --pkglibdir) echo '{place}/lib' ;;\n--sharedir) echo '{place}/share' ;;\n\
             --includedir-server) echo '{place}/include' ;;\n*) exit 1 ;;\nesac\n"
        );
        // Written by another process: while a thread of ours had the file open for writing, a
        // child forked by another thread would too, and the kernel refuses to run such a file.
        let text = root.join("pg_config.text");
        fs::write(&text, script).expect("a script");
        let status = Command::new("install")
            .args(["-m", "755"])
            .args([&text, &pg_config])
            .status();
        assert!(status.is_ok_and(|status| status.success()), "a pg_config");
        pg_config
    }

    #[test]
    fn the_major_version_is_read_from_every_form() {
        assert_eq!(major_of("PostgreSQL 18.6 (Debian 18.6-3)"), Some(18));
        assert_eq!(major_of("PostgreSQL 18beta2"), Some(18));
        assert_eq!(major_of("PostgreSQL 18"), Some(18));
        assert_eq!(major_of("PostgreSQL 180.1"), Some(180));
        assert_eq!(major_of("PostgreSQL devel"), None);
        assert_eq!(major_of("18.1"), None);
    }

    #[test]
    fn places_are_those_that_pg_config_names() {
        let directory = Directory::new("places");
        let found = Installation::of(&pretend(&directory.0, "PostgreSQL 18.6"));
        let installation = found.expect("an installation");
        assert_eq!(installation.version, "PostgreSQL 18.6");
        assert_eq!(installation.library_directory, directory.0.join("lib"));
        let extension = directory.0.join("share/extension");
        assert_eq!(installation.extension_directory, extension);
        installation.check_headers().expect("headers");
        installation.check_writable().expect("writable directories");
        assert_eq!(fs::read_dir(&extension).expect("entries").count(), 0);
    }

    #[test]
    fn another_major_version_is_refused() {
        let directory = Directory::new("version");
        let error = Installation::of(&pretend(&directory.0, "PostgreSQL 17.10"));
        let text = error.expect_err("a refusal").to_string();
        assert!(text.contains("PostgreSQL 17.10") && text.contains("for PostgreSQL 18"));
    }

    #[test]
    fn a_pg_config_that_does_not_answer_is_told_apart() {
        let directory = Directory::new("absent");
        let error = Installation::of(&directory.0.join("pg_config")).expect_err("a refusal");
        assert!(matches!(error, InstallationError::NoAnswer { .. }));
        assert!(
            error
                .to_string()
                .contains("/usr/lib/postgresql/18/bin/pg_config")
        );
    }

    #[test]
    fn missing_headers_name_the_package_that_has_them() {
        let directory = Directory::new("headers");
        let found = Installation::of(&pretend(&directory.0, "PostgreSQL 18.6"));
        fs::remove_file(directory.0.join("include/postgres.h")).expect("the header");
        let error = found.expect("an installation").check_headers();
        let text = error.expect_err("a refusal").to_string();
        assert!(text.contains("postgresql-server-dev-18") && text.contains("postgres.h"));
    }

    #[test]
    fn a_directory_that_cannot_be_written_in_comes_with_a_hint() {
        let directory = Directory::new("rights");
        let found = Installation::of(&pretend(&directory.0, "PostgreSQL 18.6"));
        let mut installation = found.expect("an installation");
        // Root may write anywhere but in a file system of the kernel's own.
        installation.library_directory = PathBuf::from("/proc");
        let error = installation.check_writable().expect_err("a refusal");
        let text = error.to_string();
        assert!(text.contains("cannot write in /proc") && text.contains("./howdah package"));
        installation.library_directory = directory.0.join("nowhere");
        let error = installation.check_writable().expect_err("a refusal");
        assert!(matches!(error, InstallationError::NoDirectory { .. }));
    }
}
