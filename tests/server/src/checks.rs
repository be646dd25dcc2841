//! Invariants of a howdah table at any time: it equals its heap twin, its indexes are sound, and no
//! two of its rows have the same TID.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use postgres::Client;

use crate::cluster::query;

/// Count and order-free fingerprint of a table's rows.
///
/// # Errors
/// When the table cannot be read.
pub fn digest(client: &mut Client, table: &str) -> anyhow::Result<String> {
    let sql = format!(
        "SELECT count(*), coalesce(sum(hashtextextended(r::text, 0)::numeric), 0) FROM {table} r"
    );
    query(client, &sql)
}

/// # Errors
/// When the tables hold different rows.
pub fn equals_twin(client: &mut Client, table: &str, twin: &str) -> anyhow::Result<()> {
    let (ours, heaps) = (digest(client, table)?, digest(client, twin)?);
    ensure!(
        ours == heaps,
        "{table} holds {ours}, its twin {twin} {heaps}"
    );
    Ok(())
}

/// Checks every btree index of a table and of its TOAST relation by amcheck, and that `column`,
/// which has a btree index, is found through it as often as without it.
///
/// # Errors
/// What is wrong.
pub fn indexes_are_sound(client: &mut Client, table: &str, column: &str) -> anyhow::Result<()> {
    client.batch_execute(
        "SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS amcheck;
         RESET client_min_messages",
    )?;
    let all = format!(
        "SELECT bt_index_check(i.indexrelid::regclass, heapallindexed => false)
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
         WHERE a.amname = 'btree' AND i.indisvalid
           AND (i.indrelid = '{table}'::regclass OR i.indrelid =
                (SELECT reltoastrelid FROM pg_class WHERE oid = '{table}'::regclass))"
    );
    query(client, &all).with_context(|| format!("amcheck of {table}"))?;
    let sums = format!("SELECT count({column}), sum({column}) FROM {table}");
    let without = query(client, &sums)?;
    client.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off")?;
    let through = query(client, &format!("{sums} WHERE {column} > -1"))?;
    client.batch_execute("RESET enable_seqscan; RESET enable_bitmapscan")?;
    ensure!(
        without == through,
        "{table}.{column} adds up to {without}, through its index to {through}"
    );
    Ok(())
}

/// # Errors
/// When two rows have one TID, or the ranges of two row groups overlap.
pub fn row_numbers_are_unique(client: &mut Client, table: &str) -> anyhow::Result<()> {
    let shared = format!("SELECT count(*) - count(DISTINCT ctid) FROM {table}");
    ensure!(
        query(client, &shared)? == "0",
        "two rows of {table} share a TID"
    );
    let overlapping = format!(
        "SELECT count(*) FROM
           (SELECT first_row, lag(first_row + row_count) OVER (ORDER BY first_row) AS previous_end
            FROM howdah.row_groups WHERE relation = '{table}'::regclass) g
         WHERE first_row < previous_end"
    );
    ensure!(
        query(client, &overlapping)? == "0",
        "two row groups of {table} overlap"
    );
    Ok(())
}

/// Rows of a table that are cold.
///
/// # Errors
/// When the table cannot be described.
pub fn cold_row_count(client: &mut Client, table: &str) -> anyhow::Result<u64> {
    let sql = format!("SELECT cold_rows FROM howdah.table_sizes('{table}')");
    query(client, &sql)?
        .parse()
        .context("cold_rows is no number")
}

/// Whether this build can compact.
///
/// # Errors
/// When the server does not answer.
pub fn can_compact(client: &mut Client) -> anyhow::Result<bool> {
    let sql = "SELECT to_regprocedure('howdah.compact(regclass)') IS NOT NULL";
    Ok(query(client, sql)? == "t")
}

/// # Errors
/// When the server's log tells that one of its processes crashed.
pub fn nothing_crashed(log: &Path) -> anyhow::Result<()> {
    let log = fs::read_to_string(log)?;
    ensure!(
        !log.contains("terminated by signal") && !log.contains("PANIC"),
        "a backend crashed; see the log"
    );
    Ok(())
}
