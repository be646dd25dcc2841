//! `docs/settings.md` agrees with the server.

use std::collections::BTreeMap;

use howdah_server_tests::cluster::{Primary, query};
use postgres::error::SqlState;

#[test]
fn the_settings_page_lists_every_setting_with_its_default_and_context() -> anyhow::Result<()> {
    let primary = Primary::start("settings", &[])?;
    let answer = query(
        &mut primary.session()?,
        "SELECT name, coalesce(nullif(current_setting(name), ''), 'empty'), context FROM pg_settings
         WHERE name LIKE 'howdah.%' ORDER BY name",
    )?;
    let served: BTreeMap<String, String> = answer
        .lines()
        .filter_map(|line| line.split_once('|'))
        .map(|(name, rest)| (name.to_owned(), rest.to_owned()))
        .collect();
    assert_eq!(documented()?, served);
    Ok(())
}

#[test]
fn a_setting_that_does_not_exist_is_refused() -> anyhow::Result<()> {
    // A misspelt line of the configuration does not keep the server from starting.
    let primary = Primary::start("misspelt", &[("howdah.cache_sise", "8MB")])?;
    let mut session = primary.session()?;
    for name in ["howdah.cache_sise", "howdah.vectorised"] {
        let refused = session.batch_execute(&format!("SET {name} = 1"));
        let code = refused.err().and_then(|error| error.code().cloned());
        assert_eq!(code, Some(SqlState::INVALID_NAME), "{name}");
    }
    session.batch_execute("SET howdah.vectorized = off")?;
    let shown = "SELECT current_setting('howdah.cache_sise', true) IS NULL,
                        current_setting('howdah.vectorized')";
    assert_eq!(query(&mut session, shown)?, "t|off");
    Ok(())
}

/// Rows such as ``| `howdah.name` | `default` | context | … |``.
fn documented() -> anyhow::Result<BTreeMap<String, String>> {
    // Relative to the crate, where tests run: a build may be shared by several checkouts.
    let text = std::fs::read_to_string("../../docs/settings.md")?;
    Ok(text
        .lines()
        .filter(|line| line.starts_with("| `howdah."))
        .map(|line| {
            let cells: Vec<&str> = line
                .split('|')
                .map(|cell| cell.trim().trim_matches('`'))
                .collect();
            (cells[1].to_owned(), format!("{}|{}", cells[2], cells[3]))
        })
        .collect())
}
