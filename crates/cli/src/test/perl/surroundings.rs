//! The environment of PostgreSQL's Perl tests: a data directory to copy for each server
//! (`INITDB_TEMPLATE`), settings for each (`TEMP_CONFIG`), and an `initdb` for the tests that need
//! another locale or segment size. In all of them the databases `template1` and `postgres` have the
//! extension.
//!
//! The superuser is named after the account that runs the tests, and must not be `howdah`: that
//! role would create its tables in the extension's schema.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::account::Account;
use crate::cluster;
use crate::paths::Paths;
use crate::scratch::Scratch;
use crate::test::suite::Rows;

/// Directories and the environment of one run; deleted when dropped, unless kept.
pub(super) struct Surroundings {
    /// Owns the directory; no server is started in it.
    scratch: Scratch,
    account: Account,
    source: PathBuf,
    /// Holds a directory for each program.
    pub work: PathBuf,
}

/// Why Perl tests cannot run on this machine, if they cannot.
pub(super) fn what_is_missing() -> Option<String> {
    for (module, package) in [("Test::More", "perl"), ("IPC::Run", "libipc-run-perl")] {
        let status = Command::new("perl")
            .args([&format!("-M{module}"), "-e", "1"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return Some(format!(
                "Perl's {module} is not installed (apt-get install {package})"
            ));
        }
    }
    None
}

impl Surroundings {
    pub fn make(paths: &Paths, source: &Path, rows: Rows) -> anyhow::Result<Self> {
        let account = Account::of_perl_tests()?;
        let scratch = Scratch::empty(paths, "tap")?;
        // The account of the tests must be able to enter the directory.
        fs::set_permissions(&scratch.directory, fs::Permissions::from_mode(0o755))?;
        let work = scratch.directory.join("work");
        account.make_private_directory(&work)?;
        let surroundings = Self {
            scratch,
            account,
            source: source.into(),
            work,
        };
        let programs = surroundings.programs();
        fs::create_dir_all(&programs)?;
        let initdb = programs.join("initdb");
        fs::write(&initdb, surroundings.initdb(paths))?;
        fs::set_permissions(&initdb, fs::Permissions::from_mode(0o755))?;
        fs::write(surroundings.settings(), settings(paths, rows))?;
        let mut template = surroundings.account.command(&initdb);
        template
            .args(["--auth=trust", "--no-sync", "--no-instructions"])
            .args(["--lc-messages=C", "--pgdata"])
            .arg(surroundings.template());
        template.env("LANG", "C.UTF-8").env_remove("LC_ALL");
        cluster::run(&mut template).context("cannot make the servers' template")?;
        Ok(surroundings)
    }

    pub fn keep(&mut self) {
        self.scratch.keep();
    }

    fn programs(&self) -> PathBuf {
        self.scratch.directory.join("bin")
    }

    fn settings(&self) -> PathBuf {
        self.scratch.directory.join("tap.conf")
    }

    fn template(&self) -> PathBuf {
        self.work.join("template")
    }

    /// Comes before PostgreSQL's own initdb in PATH. A single-user server creates the extension.
    fn initdb(&self, paths: &Paths) -> String {
        let bin = &self.scratch.cluster.postgres.bin;
        let settings: String = paths
            .extension_settings()
            .iter()
            .map(|(name, value)| format!(" -c {}", quoted(&format!("{name}={value}"))))
            .collect();
        format!(
            "#!/bin/sh\n\
             # initdb, then the extension in the databases that tests use.\n\
             {initdb} \"$@\" || exit\n\
             for word in \"$@\"; do\n\
             \x20   if [ \"$before\" = --pgdata ]; then data=$word; fi\n\
             \x20   before=$word\n\
             done\n\
             for database in template1 postgres; do\n\
             \x20   echo 'CREATE EXTENSION howdah;' | {postgres} --single -F -D \"$data\" \\\n\
             \x20       -c exit_on_error=on{settings} $database >/dev/null || exit\n\
             done\n",
            initdb = quoted(&bin.join("initdb").display().to_string()),
            postgres = quoted(&bin.join("postgres").display().to_string()),
        )
    }

    /// A new directory for a program's servers and logs.
    pub fn directory_of(&self, program: &str) -> anyhow::Result<PathBuf> {
        let directory = self.work.join(program.replace('/', "-"));
        self.account
            .make_private_directory(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(directory)
    }

    /// A Perl that finds PostgreSQL's modules, programs and this run's template.
    pub fn perl(&self, directory: &Path, suite: &Path) -> Command {
        let postgres = &self.scratch.cluster.postgres;
        let regress = self.source.join("src/test/regress");
        let mut path = OsString::from(self.programs());
        for place in [
            Some(postgres.bin.clone().into_os_string()),
            env::var_os("PATH"),
        ] {
            path.push(":");
            path.push(place.unwrap_or_default());
        }
        let mut perl = self.account.command("perl");
        perl.current_dir(suite)
            .arg("-I")
            .arg(self.source.join("src/test/perl"))
            .arg("-I")
            .arg(suite);
        perl.env("PATH", path)
            .env("LANG", "C.UTF-8")
            .env("HOME", directory)
            .env("TESTDATADIR", directory)
            .env("TESTLOGDIR", directory.join("log"))
            .env("PG_TEST_PORT_DIR", self.work.join("ports"))
            .env("PG_REGRESS", postgres.pgxs.join("test/regress/pg_regress"))
            .env("REGRESS_SHLIB", regress.join("regress.so"))
            .env("top_builddir", &self.source)
            .env("INITDB_TEMPLATE", self.template())
            .env("TEMP_CONFIG", self.settings())
            .env("with_icu", "yes")
            // The launcher builds PostgreSQL without them.
            .env("enable_injection_points", "no");
        for leak in [
            "PG_TEST_EXTRA",
            "PG_TEST_INITDB_EXTRA_OPTS",
            "RUST_BACKTRACE",
        ] {
            perl.env_remove(leak);
        }
        perl
    }
}

/// The settings of every server that a test starts.
fn settings(paths: &Paths, rows: Rows) -> String {
    let mut settings = paths.extension_settings();
    settings.push(("default_table_access_method".into(), "howdah".into()));
    settings.extend(
        rows.settings()
            .iter()
            // Some tests keep transactions open until their own timeout.
            .filter(|(name, _)| *name != "transaction_timeout")
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    settings
        .iter()
        .map(|(name, value)| format!("{name} = {}\n", quoted_setting(value)))
        .collect()
}

fn quoted_setting(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// One word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_quoted_words_as_they_are() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted_setting("it's"), "'it''s'");
    }
}
