//! The directories of the project. The launcher decides them and passes them on in the environment;
//! a binary or a test that was started without the launcher finds the same places by the same
//! rules.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

use crate::account;

/// The default port of the private server.
pub const DEFAULT_PORT: u16 = 54418;

/// Errors in the given directories.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PathsError {
    #[error("HOWDAH_PORT is {0:?}, which is no port number between 1024 and 65535")]
    BadPort(String),
    #[error(
        "PostgreSQL 18 was not found; run './howdah up', which installs it, or set HOWDAH_PG_CONFIG"
    )]
    NoPostgres,
    #[error("{program} could not be asked where PostgreSQL lives: {detail}")]
    PgConfigFailed { program: PathBuf, detail: String },
}

/// The project, the instance, the caches.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The checkout of the project.
    pub root: PathBuf,
    /// The instance: data, socket, logs, extension files, scratch servers.
    pub home: PathBuf,
    /// Downloads and logs that may be deleted at any time.
    pub cache: PathBuf,
    /// Cargo's target directory.
    pub target: PathBuf,
    /// `None` where no PostgreSQL 18 is known; see [`Paths::postgres`].
    pg_config: Option<PathBuf>,
    /// PostgreSQL's sources, with its test suites built.
    pub postgres_source: Option<PathBuf>,
    /// The port that `HOWDAH_PORT` requests.
    pub port: Option<u16>,
}

/// One PostgreSQL installation.
#[derive(Debug, Clone)]
pub struct Postgres {
    pub bin: PathBuf,
    pub pg_config: PathBuf,
    /// Where `pg_regress` and related programs were installed.
    pub pgxs: PathBuf,
    /// As `pg_config --version` prints it.
    pub version: String,
}

impl Paths {
    /// # Errors
    /// When `HOWDAH_PORT` is not a port.
    pub fn from_environment() -> Result<Self, PathsError> {
        let base = base_home();
        let cache = path_variable("HOWDAH_CACHE").unwrap_or_else(|| {
            path_variable("XDG_CACHE_HOME")
                .unwrap_or_else(|| user_home().join(".cache"))
                .join("howdah")
        });
        let pg_config = path_variable("HOWDAH_PG_CONFIG")
            .or_else(|| Some(base.join("pg18/bin/pg_config")).filter(|path| path.exists()));
        let postgres_source = path_variable("HOWDAH_PG_SOURCE")
            .or_else(|| source_beside(pg_config.as_deref()?))
            .filter(|path| path.join("src/test/regress").is_dir());
        Ok(Self {
            root: path_variable("HOWDAH_ROOT").unwrap_or_else(checkout),
            home: path_variable("HOWDAH_HOME").unwrap_or(base),
            target: path_variable("CARGO_TARGET_DIR").unwrap_or_else(|| cache.join("target")),
            cache,
            pg_config,
            postgres_source,
            port: port_variable()?,
        })
    }

    /// The PostgreSQL this instance runs on.
    ///
    /// # Errors
    /// When there is none, or its `pg_config` does not answer.
    pub fn postgres(&self) -> Result<Postgres, PathsError> {
        let program = self.pg_config.as_ref().ok_or(PathsError::NoPostgres)?;
        Ok(Postgres {
            bin: PathBuf::from(ask(program, "--bindir")?),
            version: ask(program, "--version")?,
            pgxs: PathBuf::from(ask(program, "--pgxs")?)
                .parent()
                .and_then(Path::parent)
                .map(Path::to_path_buf)
                .unwrap_or_default(),
            pg_config: program.clone(),
        })
    }

    pub fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// The socket directory; the server's user alone may enter it.
    pub fn socket(&self) -> PathBuf {
        self.home.join("run")
    }

    pub fn server_log(&self) -> PathBuf {
        self.home.join("server.log")
    }

    /// The password for connections over TCP; connections over the socket need none.
    pub fn password(&self) -> PathBuf {
        self.home.join("password")
    }

    /// Where servers that live for one test run are kept.
    pub fn scratch(&self) -> PathBuf {
        self.home.join("scratch")
    }

    pub fn extension_library(&self) -> PathBuf {
        self.home.join("ext/lib/howdah.so")
    }

    pub fn extension_control(&self) -> PathBuf {
        self.home.join("ext/share/extension/howdah.control")
    }

    /// The settings with which a server finds the extension in this instance's files.
    pub fn extension_settings(&self) -> Vec<(String, String)> {
        let ext = self.home.join("ext");
        vec![
            ("shared_preload_libraries".into(), "howdah".into()),
            (
                "dynamic_library_path".into(),
                format!("{}:$libdir", ext.join("lib").display()),
            ),
            (
                "extension_control_path".into(),
                format!("{}:$system", ext.join("share").display()),
            ),
        ]
    }
}

impl Postgres {
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

fn path_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn port_variable() -> Result<Option<u16>, PathsError> {
    match env::var("HOWDAH_PORT") {
        Ok(text) if !text.is_empty() => match text.parse::<u16>() {
            Ok(port) if port >= 1024 => Ok(Some(port)),
            _ => Err(PathsError::BadPort(text)),
        },
        _ => Ok(None),
    }
}

fn user_home() -> PathBuf {
    path_variable("HOME").unwrap_or_else(|| PathBuf::from("/"))
}

fn base_home() -> PathBuf {
    if account::caller_is_root() {
        PathBuf::from("/var/lib/howdah")
    } else {
        path_variable("XDG_DATA_HOME")
            .unwrap_or_else(|| user_home().join(".local/share"))
            .join("howdah")
    }
}

/// The checkout this binary was built from.
fn checkout() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .ancestors()
        .nth(2)
        .unwrap_or(manifest)
        .to_path_buf()
}

fn source_beside(pg_config: &Path) -> Option<PathBuf> {
    Some(pg_config.parent()?.parent()?.join("src"))
}

/// The answer of a `pg_config` to one option.
pub(crate) fn ask(program: &Path, question: &str) -> Result<String, PathsError> {
    let failed = |detail: String| PathsError::PgConfigFailed {
        program: program.into(),
        detail,
    };
    let output = Command::new(program)
        .arg(question)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
