//! `status`: is it running, where, since when, how large.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use comfy_table::{CellAlignment, Table, presets};

use super::{DATABASE, cluster};
use crate::paths::Paths;
use crate::units;

/// Exit code 0 when the server runs, 3 when it does not (as for `pg_ctl status`).
///
/// # Errors
/// When there is no PostgreSQL at all, or the running server does not answer.
pub fn status(paths: &Paths) -> anyhow::Result<ExitCode> {
    let cluster = cluster(paths)?;
    println!(
        "PostgreSQL  {} ({})",
        cluster.postgres.version,
        cluster.postgres.bin.display()
    );
    println!("instance    {}", paths.home.display());
    let Some(running) = cluster.running() else {
        let state = if cluster.exists() {
            "stopped"
        } else {
            "not made yet"
        };
        println!("server      {state}; ./howdah up starts it");
        return Ok(ExitCode::from(3));
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let uptime = now.saturating_sub(Duration::from_secs(running.started_at_seconds));
    println!(
        "server      running for {}, process {}, port {}",
        units::duration(uptime),
        running.pid,
        running.port
    );
    let mut client = cluster.connect(DATABASE)?;
    let version = client
        .query_opt(
            "SELECT extversion FROM pg_extension WHERE extname = 'howdah'",
            &[],
        )?
        .map_or_else(|| "not created".to_owned(), |row| row.get::<_, String>(0));
    println!("extension   howdah {version}");
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_BORDERS_ONLY)
        .set_header(["database", "size", "howdah tables"]);
    let databases = client.query(
        "SELECT datname::text, pg_database_size(oid) FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1",
        &[],
    )?;
    for row in databases {
        let (name, size): (String, i64) = (row.get(0), row.get(1));
        let tables = howdah_table_count(&cluster, &name).map_or("?".to_owned(), units::count);
        table.add_row([name, units::bytes(size.unsigned_abs()), tables]);
    }
    for column in [1, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}

fn howdah_table_count(cluster: &crate::cluster::Cluster, database: &str) -> Option<u64> {
    let mut client = cluster.connect(database).ok()?;
    let row = client
        .query_one(
            "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'howdah'",
            &[],
        )
        .ok()?;
    Some(row.get::<_, i64>(0).unsigned_abs())
}
