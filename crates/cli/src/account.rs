//! The account that runs the server. PostgreSQL refuses to run as root, so root's servers run as
//! the system user `howdah` (made by the launcher); all other callers run their servers themselves.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use thiserror::Error;

/// The system user that root's servers run as.
pub const SERVER_USER: &str = "howdah";

/// A system user that every distribution has.
const NOBODY: &str = "nobody";

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AccountError {
    #[error("cannot read /etc/passwd: {0}")]
    PasswordFile(#[source] io::Error),
    #[error(
        "there is no system user '{SERVER_USER}' for the server to run as; \
         './howdah up' makes it, or: useradd --system --no-create-home {SERVER_USER}"
    )]
    NoServerUser,
    #[error("there is no system user '{NOBODY}'")]
    NoNobody,
}

/// The account servers run under, as seen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// The caller runs its own servers.
    Caller,
    /// The caller is root and servers run under another account.
    Other { uid: u32, gid: u32 },
}

/// Whether this process runs as root.
pub fn caller_is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

impl Account {
    /// # Errors
    /// When the caller is root and the server's user does not exist.
    pub fn of_server() -> Result<Self, AccountError> {
        if !caller_is_root() {
            return Ok(Self::Caller);
        }
        let users = fs::read_to_string("/etc/passwd").map_err(AccountError::PasswordFile)?;
        find_user(&users, SERVER_USER).ok_or(AccountError::NoServerUser)
    }

    /// The account for tests that name superusers after themselves: the caller, or if that is root,
    /// a system user other than the server's, because a role named `howdah` finds schema `howdah`
    /// first on its search path.
    ///
    /// # Errors
    /// When the caller is root and the system user does not exist.
    pub fn of_perl_tests() -> Result<Self, AccountError> {
        if !caller_is_root() {
            return Ok(Self::Caller);
        }
        let users = fs::read_to_string("/etc/passwd").map_err(AccountError::PasswordFile)?;
        find_user(&users, NOBODY).ok_or(AccountError::NoNobody)
    }

    /// A command that will run under this account, away from the caller's directory, which the
    /// account may be unable to enter.
    pub fn command(self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir("/");
        if let Self::Other { uid, gid } = self {
            command
                .uid(uid)
                .gid(gid)
                .env("HOME", "/")
                .env_remove("XDG_CACHE_HOME");
        }
        command
    }

    /// Makes a directory that only this account (and root) can enter.
    ///
    /// # Errors
    /// When it cannot be made, or its owner cannot be changed.
    pub fn make_private_directory(self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)?;
        self.own(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
    }

    /// Gives one file or directory to this account.
    ///
    /// # Errors
    /// When the caller may not change its owner.
    pub fn own(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Caller => Ok(()),
            Self::Other { uid, gid } => chown(path, Some(uid), Some(gid)),
        }
    }

    /// Gives a directory and all within it to this account.
    ///
    /// # Errors
    /// When it cannot be walked, or the caller may not change its owner.
    pub fn own_tree(self, path: &Path) -> io::Result<()> {
        self.own(path)?;
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                self.own_tree(&entry?.path())?;
            }
        }
        Ok(())
    }
}

fn find_user(password_file: &str, name: &str) -> Option<Account> {
    password_file.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Account::Other { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str =
        "root:x:0:0:root:/root:/bin/bash\nhowdah:x:998:997::/var/lib/howdah:/usr/sbin/nologin\n";

    #[test]
    fn the_server_user_is_found_by_its_whole_name() {
        assert_eq!(
            find_user(USERS, "howdah"),
            Some(Account::Other { uid: 998, gid: 997 })
        );
        assert_eq!(find_user(USERS, "howda"), None);
    }
}
