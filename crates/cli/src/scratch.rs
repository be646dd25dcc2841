//! Servers that live for one test or one check: own directory, no TCP, gone when dropped.
//!
//! A run that was interrupted leaves its server behind; the next run finds it by the process id in
//! the directory's name and stops it ([`sweep`]).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::account::{Account, AccountError};
use crate::cluster::{Cluster, ClusterError, StopMode};
use crate::paths::{DEFAULT_PORT, Paths, PathsError};

/// A socket's path may have 107 bytes; the name within the directory takes some.
const SOCKET_DIRECTORY_LIMIT: usize = 85;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScratchError {
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error(transparent)]
    Paths(#[from] PathsError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("cannot make {}: {source}", .path.display())]
    Directory {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// A directory for one short-lived server and its files.
#[derive(Debug)]
pub struct Scratch {
    pub directory: PathBuf,
    pub cluster: Cluster,
    keep: bool,
    /// Sockets live elsewhere when the directory's path is too long for them.
    far_socket: Option<PathBuf>,
}

impl Scratch {
    /// A new directory with no server in it yet.
    ///
    /// # Errors
    /// When there is no PostgreSQL, or the directory cannot be written.
    pub fn empty(paths: &Paths, name: &str) -> Result<Self, ScratchError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let account = Account::of_server()?;
        let postgres = paths.postgres()?;
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let leaf = format!("{name}-{}-{serial}", std::process::id());
        let directory = paths.scratch().join(&leaf);
        make(account, &paths.scratch(), false)?;
        make(account, &directory, true)?;
        let near = directory.join("run");
        let far_socket = (near.as_os_str().len() > SOCKET_DIRECTORY_LIMIT)
            .then(|| std::env::temp_dir().join(format!("howdah-{leaf}")));
        let cluster = Cluster {
            postgres,
            account,
            data: directory.join("data"),
            socket: far_socket.clone().unwrap_or(near),
            log: directory.join("server.log"),
            port: DEFAULT_PORT,
            superuser: "postgres".into(),
        };
        Ok(Self {
            directory,
            cluster,
            keep: false,
            far_socket,
        })
    }

    /// A running server with the extension preloaded; `settings` are added to, and override, the
    /// usual ones.
    ///
    /// # Errors
    /// When it cannot be made or does not start.
    pub fn start(
        paths: &Paths,
        name: &str,
        settings: &[(&str, &str)],
    ) -> Result<Self, ScratchError> {
        let scratch = Self::empty(paths, name)?;
        scratch.cluster.create("C", None)?;
        let mut all = scratch_settings(paths);
        all.extend(
            settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        scratch.cluster.write_settings(&all)?;
        scratch.cluster.start()?;
        Ok(scratch)
    }

    /// Keeps directory and log for a person to inspect; the server is stopped nevertheless.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Errors cannot be reported here; the next run sweeps what is left behind.
        if self.cluster.running().is_some() {
            let _ = self.cluster.stop(StopMode::Immediate);
        }
        if !self.keep {
            let _ = fs::remove_dir_all(&self.directory);
        }
        if let Some(socket) = &self.far_socket {
            let _ = fs::remove_dir_all(socket);
        }
    }
}

/// The settings of every short-lived server. Nothing is flushed: tests kill servers, not machines,
/// and what a killed process has written is in the kernel's cache.
/// WAL is kept for a standby that a crash cuts off: the checkpoint after recovery would remove it.
pub fn scratch_settings(paths: &Paths) -> Vec<(String, String)> {
    let mut settings = paths.extension_settings();
    let fixed = [
        ("listen_addresses", ""),
        ("fsync", "off"),
        ("shared_buffers", "256MB"),
        ("wal_keep_size", "512MB"),
        ("max_connections", "60"),
        ("max_prepared_transactions", "10"),
        ("log_line_prefix", "%m %b[%p] %q%a "),
        ("log_min_messages", "warning"),
    ];
    settings.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    settings
}

/// Stops servers and deletes directories of runs whose process has ended.
pub fn sweep(paths: &Paths) {
    let (Ok(account), Ok(postgres)) = (Account::of_server(), paths.postgres()) else {
        return;
    };
    for entry in fs::read_dir(paths.scratch())
        .into_iter()
        .flatten()
        .flatten()
    {
        let directory = entry.path();
        if !owner_is_gone(&directory) {
            continue;
        }
        let cluster = Cluster {
            postgres: postgres.clone(),
            account,
            data: directory.join("data"),
            socket: directory.join("run"),
            log: directory.join("server.log"),
            port: DEFAULT_PORT,
            superuser: "postgres".into(),
        };
        for data in data_directories(&directory) {
            let server = Cluster {
                data,
                ..cluster.clone()
            };
            if server.running().is_some() {
                let _ = server.stop(StopMode::Immediate);
            }
        }
        let _ = fs::remove_dir_all(&directory);
    }
}

/// Every data directory directly within a scratch directory: a test may keep a standby beside
/// its primary.
fn data_directories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.join("PG_VERSION").exists())
        .collect()
}

/// `regress-4711-0` belongs to process 4711.
fn owner_is_gone(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let owner = name
        .rsplit('-')
        .nth(1)
        .and_then(|pid| pid.parse::<u32>().ok());
    owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

fn make(account: Account, path: &Path, private: bool) -> Result<(), ScratchError> {
    let made = if private {
        account.make_private_directory(path)
    } else {
        fs::create_dir_all(path)
    };
    made.map_err(|source| ScratchError::Directory {
        path: path.into(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_dead_processes_are_swept() {
        let own = format!("/scratch/sql-{}-0", std::process::id());
        assert!(!owner_is_gone(Path::new(&own)));
        assert!(owner_is_gone(Path::new("/scratch/sql-4194999-0")));
        assert!(!owner_is_gone(Path::new("/scratch/something-else")));
    }
}
