//! A backend killed while it changes, locks, cleans up or rewrites cold rows leaves nothing behind:
//! the table equals its heap twin, its indexes are sound, its standby has the same, and the
//! interrupted command can be run again. Prepared transactions keep their marks and locks through a
//! crash.

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{
    cold_row_count, digest, equals_twin, indexes_are_sound, row_numbers_are_unique,
};
use howdah_server_tests::cluster::{Primary, Standby, query};
use howdah_server_tests::death::recovered_from_death_at;
use postgres::Client;

const SETTINGS: [(&str, &str); 6] = [
    ("howdah.load_threshold", "100"),
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("max_prepared_transactions", "5"),
    ("wal_retrieve_retry_interval", "100ms"),
    ("hot_standby_feedback", "off"),
];
const ROWS: u64 = 20_000;

/// All rows of `c` are cold.
fn make_tables(client: &mut Client) -> anyhow::Result<()> {
    for (table, method) in [("c", "howdah"), ("h", "heap")] {
        client.batch_execute(&format!(
            "DROP TABLE IF EXISTS {table};
             CREATE TABLE {table} (id bigint PRIMARY KEY, word text, n int) USING {method};
             CREATE INDEX ON {table} (word);
             INSERT INTO {table} SELECT i, 'word ' || i % 97, 0 FROM generate_series(1, {ROWS}) i"
        ))?;
    }
    client.batch_execute("CALL howdah.compact('c')")?;
    client.batch_execute("VACUUM c")?;
    ensure!(cold_row_count(client, "c")? == ROWS, "some rows stay hot");
    Ok(())
}

/// The statements before, and the one that is interrupted at a step; `@` stands for the table.
struct Case {
    step: &'static str,
    before: &'static [&'static str],
    statement: &'static str,
}

const FEW: &str = "DELETE FROM @ WHERE id % 40 = 1";
/// Its first rows are written while it goes on.
const RANGE: &str = "DELETE FROM @ WHERE id BETWEEN 3000 AND 3100";
const HALF: &str = "DELETE FROM @ WHERE id % 2 = 0";
const UPDATE: &str = "UPDATE @ SET n = n + 1, word = word || '!' WHERE id % 30 < 2";
const KEYS: &str = "UPDATE @ SET id = id + 1000000 WHERE id % 30 = 2";
const LOCK: &str = "SELECT count(*) FROM (SELECT id FROM @ WHERE id % 50 = 0 FOR NO KEY UPDATE) x";
const VACUUM: &str = "VACUUM (INDEX_CLEANUP on) @";
const COMPACT: &str = "CALL howdah.compact('@')";
const CLUSTER: &str = "CLUSTER @ USING @_pkey";

const fn case(
    step: &'static str,
    before: &'static [&'static str],
    statement: &'static str,
) -> Case {
    Case {
        step,
        before,
        statement,
    }
}

const CASES: [Case; 27] = [
    case("group_flagged", &[], FEW),
    case("delete_locked", &[], FEW),
    case("delete_marked", &[UPDATE], FEW),
    case("block_deleted", &[], FEW),
    case("block_deleted", &[FEW, VACUUM], RANGE),
    case("sweep_delete", &[RANGE, VACUUM], COMPACT),
    case("update_locked", &[], UPDATE),
    case("update_inserted", &[FEW], UPDATE),
    case("update_marked", &[], UPDATE),
    case("update_marked", &[UPDATE], KEYS),
    case("lock_taken", &[UPDATE], LOCK),
    case("versions_written", &[], UPDATE),
    case("versions_written", &[FEW, UPDATE, VACUUM, COMPACT], KEYS),
    case("bitmap_written", &[UPDATE, COMPACT], UPDATE),
    case("bitmap_written", &[], HALF),
    case("bitmap_written", &[FEW, UPDATE, VACUUM], HALF),
    case("vacuum_surveyed", &[FEW, UPDATE], VACUUM),
    case("vacuum_cleaned", &[FEW, UPDATE], VACUUM),
    case("vacuum_fold", &[FEW, KEYS], VACUUM),
    case("vacuum_folded", &[FEW, UPDATE], VACUUM),
    case("sweep_delete", &[FEW, VACUUM], COMPACT),
    case("sweep_commit", &[FEW, VACUUM], COMPACT),
    case("merge_index_insert", &[HALF, UPDATE, KEYS], COMPACT),
    case("merge_delete", &[HALF, UPDATE], COMPACT),
    case("merge_commit", &[HALF, VACUUM, UPDATE], COMPACT),
    case("cluster_carried", &[FEW, UPDATE, KEYS], CLUSTER),
    case("cluster_written", &[HALF, KEYS], CLUSTER),
];

/// Maintenance runs on `c` only.
fn run_on_both(client: &mut Client, statement: &str) -> anyhow::Result<()> {
    client
        .batch_execute(&statement.replace('@', "c"))
        .with_context(|| format!("in: {statement}"))?;
    if statement != VACUUM && statement != COMPACT {
        client.batch_execute(&statement.replace('@', "h"))?;
    }
    Ok(())
}

fn check(primary: &Primary, standby: &Standby, client: &mut Client) -> anyhow::Result<()> {
    equals_twin(client, "c", "h")?;
    indexes_are_sound(client, "c", "id")?;
    row_numbers_are_unique(client, "c")?;
    client.batch_execute("SET enable_seqscan = off")?;
    let by_word = "SELECT count(*), sum(id), sum(n) FROM @ WHERE word >= 'word 3'";
    let (ours, heaps) = (
        query(client, &by_word.replace('@', "c"))?,
        query(client, &by_word.replace('@', "h"))?,
    );
    client.batch_execute("RESET enable_seqscan")?;
    ensure!(
        ours == heaps,
        "by word: {ours} in c, {heaps} in its heap twin"
    );
    standby.wait_for(primary)?;
    let there = digest(&mut standby.session()?, "c")?;
    let here = digest(client, "c")?;
    ensure!(here == there, "{here} here, {there} on the standby");
    Ok(())
}

fn total_size(client: &mut Client) -> anyhow::Result<u64> {
    Ok(query(client, "SELECT pg_total_relation_size('c')")?.parse()?)
}

#[test]
fn a_backend_killed_at_any_step_of_changing_cold_rows_leaves_no_trace() -> anyhow::Result<()> {
    let primary = Primary::start("crash-marks", &SETTINGS)?;
    let standby = primary.standby()?;
    for Case {
        step,
        before,
        statement,
    } in &CASES
    {
        let mut client = primary.session()?;
        make_tables(&mut client)?;
        let fresh = total_size(&mut client)?;
        for statement in *before {
            run_on_both(&mut client, statement)?;
        }
        let doomed = statement.replace('@', "c");
        let mut client = recovered_from_death_at(&primary, step, &doomed)?;
        check(&primary, &standby, &mut client)
            .with_context(|| format!("killed at {step} of {statement}"))?;
        for again in [statement, VACUUM, UPDATE, COMPACT, VACUUM, COMPACT, VACUUM] {
            run_on_both(&mut client, again)?;
            check(&primary, &standby, &mut client)
                .with_context(|| format!("{again} after {step} of {statement}"))?;
        }
        let size = total_size(&mut client)?;
        ensure!(
            size < 4 * fresh,
            "{size} bytes after {step} of {statement}, {fresh} at first"
        );
    }
    Ok(())
}

const CHANGES: [&str; 4] = [
    "DELETE FROM @ WHERE id % 3 = 0",
    "UPDATE @ SET n = 1 WHERE id % 100 = 1",
    "UPDATE @ SET id = id + 1000000 WHERE id % 100 = 2",
    "DELETE FROM @ WHERE id % 100 = 4",
];

#[test]
fn a_prepared_transaction_keeps_marks_and_locks_through_crashes() -> anyhow::Result<()> {
    let primary = Primary::start("crash-prepared", &SETTINGS)?;
    let standby = primary.standby()?;
    for decision in ["COMMIT", "ROLLBACK"] {
        make_tables(&mut primary.session()?)?;
        let work = CHANGES.join("; ").replace('@', "c");
        let prepare = format!(
            "BEGIN; {work}; SELECT id FROM c WHERE id = 7 FOR UPDATE; PREPARE TRANSACTION 'p'"
        );
        let mut client = recovered_from_death_at(&primary, "prepare", &prepare)?;
        ensure!(query(&mut client, "SELECT count(*) FROM pg_prepared_xacts")? == "0");
        check(&primary, &standby, &mut client).context("killed before PREPARE")?;

        client.batch_execute(&prepare)?;
        for round in 0..2 {
            primary.crash_and_recover()?;
            client = primary.session()?;
            check(&primary, &standby, &mut client).with_context(|| format!("round {round}"))?;
            for id in [3, 7, 101, 102, 104] {
                let lock = format!("SELECT id FROM c WHERE id = {id} FOR NO KEY UPDATE NOWAIT");
                let Err(refusal) = client.batch_execute(&lock) else {
                    anyhow::bail!("row {id} is free although a prepared transaction has it");
                };
                let code = refusal.code().map(|code| code.code().to_owned());
                ensure!(code.as_deref() == Some("55P03"), "row {id}: {refusal:?}");
            }
            // Maintenance must skip the prepared transaction's rows.
            for statement in ["VACUUM c", "CALL howdah.compact('c')", "CHECKPOINT"] {
                client.batch_execute(statement)?;
                check(&primary, &standby, &mut client)
                    .with_context(|| format!("{statement}, round {round}"))?;
            }
        }
        client.batch_execute(&format!("{decision} PREPARED 'p'"))?;
        if decision == "COMMIT" {
            client.batch_execute(&CHANGES.join("; ").replace('@', "h"))?;
        }
        check(&primary, &standby, &mut client).context(decision)?;
        primary.crash_and_recover()?;
        client = primary.session()?;
        check(&primary, &standby, &mut client).context("recovered once more")?;
        for again in [VACUUM, UPDATE, COMPACT, VACUUM] {
            run_on_both(&mut client, again)?;
            check(&primary, &standby, &mut client).context(again)?;
        }
    }
    Ok(())
}
