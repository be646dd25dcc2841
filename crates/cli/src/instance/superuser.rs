//! The instance's superuser.
//!
//! Its name must not be that of a schema that the extension owns: `"$user"` comes first in the
//! default search path, so unqualified tables of a role `howdah` are created in schema `howdah`.
//! Older instances have such a superuser, and clients that use its name; there it keeps the name
//! and gets a search path instead.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::cluster::Cluster;

/// The superuser of new instances.
pub(super) const SUPERUSER: &str = "postgres";

/// A role of this name finds itself in the extension's schema.
pub const ILL_NAMED: &str = "howdah";

/// Its search path: tables are created in `public`, and those that are in `howdah` already are
/// still found.
const SEARCH_PATH: &str = "public, howdah";

/// The superuser of the instance with this password file, the only place that has the name while
/// the server is down.
pub(super) fn of(password_file: &Path) -> String {
    fs::read_to_string(password_file)
        .ok()
        .and_then(|line| Some(line.split(':').nth(3)?.to_owned()))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| SUPERUSER.to_owned())
}

/// Gives an ill-named superuser a search path of its own, unless it has one. New sessions use it.
///
/// # Errors
/// When the server does not answer or refuses.
pub(super) fn settle(cluster: &Cluster) -> anyhow::Result<()> {
    if cluster.superuser != ILL_NAMED {
        return Ok(());
    }
    let mut client = cluster.connect("postgres")?;
    if lacks_search_path(&mut client)? {
        client
            .batch_execute(&format!(
                "ALTER ROLE {ILL_NAMED} SET search_path = {SEARCH_PATH}"
            ))
            .context("the superuser's search path could not be set")?;
    }
    Ok(())
}

/// Whether there is a role of that name without a search path of its own.
///
/// # Errors
/// When the server does not answer.
pub fn lacks_search_path(client: &mut postgres::Client) -> Result<bool, postgres::Error> {
    let row = client.query_one(
        "SELECT EXISTS (SELECT FROM pg_roles r WHERE rolname = $1 AND NOT EXISTS (
             SELECT FROM pg_db_role_setting s, unnest(s.setconfig) setting
             WHERE s.setrole = r.oid AND s.setdatabase = 0 AND starts_with(setting, 'search_path=')))",
        &[&ILL_NAMED],
    )?;
    Ok(row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_file_names_the_superuser() {
        let file = std::env::temp_dir().join(format!("superuser-{}", std::process::id()));
        fs::write(&file, "127.0.0.1:54418:*:howdah:secret\n").expect("a file");
        assert_eq!(of(&file), "howdah");
        fs::write(&file, "").expect("a file");
        assert_eq!(of(&file), SUPERUSER);
        fs::remove_file(&file).expect("a file");
        assert_eq!(of(&file), SUPERUSER);
    }
}
