//! Logical slots on a standby that sends no feedback: changes of cold rows are decoded there as
//! those of heap, maintenance does not invalidate the slot, and a slot that would miss rows of a
//! table which decoding reads is invalidated.

use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use howdah_server_tests::checks::{cold_row_count, equals_twin};
use howdah_server_tests::cluster::{Primary, Standby, query};
use howdah_server_tests::replay::{Replay, come_to_rest};
use postgres::Client;

const SETTINGS: [(&str, &str); 5] = [
    ("wal_level", "logical"),
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("hot_standby_feedback", "off"),
    ("max_standby_streaming_delay", "0"),
];

/// Makes a slot on the standby, which waits for a record of running transactions.
fn make_slot(primary: &Primary, standby: &Standby, name: &str) -> anyhow::Result<()> {
    let mut there = standby.session()?;
    let sql = format!("SELECT pg_create_logical_replication_slot('{name}', 'test_decoding')");
    let maker = spawn(move || there.batch_execute(&sql));
    let mut here = primary.session()?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while !maker.is_finished() {
        ensure!(Instant::now() < deadline, "the slot is not made");
        here.batch_execute("SELECT pg_log_standby_snapshot()")?;
        sleep(Duration::from_millis(100));
    }
    match maker.join() {
        Ok(made) => Ok(made?),
        Err(_) => bail!("the maker of the slot panicked"),
    }
}

fn slot_state(session: &mut Client, name: &str) -> anyhow::Result<String> {
    let sql = "SELECT coalesce(invalidation_reason, 'valid') FROM pg_replication_slots";
    query(session, &format!("{sql} WHERE slot_name = '{name}'"))
}

/// The changes of one table as decoded on the standby, with the table renamed to `t`, sorted.
fn decoded(session: &mut Client, table: &str) -> anyhow::Result<Vec<String>> {
    let sql = format!(
        "SELECT replace(data, 'public.{table}:', 'public.t:') FROM pg_logical_slot_peek_changes(
            'slot', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')
         WHERE data LIKE 'table public.{table}:%'"
    );
    let mut changes: Vec<String> = query(session, &sql)?.lines().map(str::to_owned).collect();
    // Rows lie in another order in each table.
    changes.sort();
    Ok(changes)
}

#[test]
fn a_standby_decodes_cold_rows_as_heap_and_keeps_its_slot() -> anyhow::Result<()> {
    let primary = Primary::start("standby-slots", &SETTINGS)?;
    let mut client = primary.session()?;
    client.batch_execute(
        "CREATE TABLE c (id int PRIMARY KEY, word text) USING howdah;
         CREATE TABLE h (id int PRIMARY KEY, word text) USING heap;
         INSERT INTO c SELECT i, 'word ' || i FROM generate_series(1, 3000) i;
         INSERT INTO h SELECT * FROM c",
    )?;
    client.batch_execute("VACUUM (FREEZE) c")?;
    client.batch_execute("CALL howdah.compact('c')")?;
    ensure!(cold_row_count(&mut client, "c")? == 3000);
    let standby = primary.standby()?;
    make_slot(&primary, &standby, "slot")?;
    let steps = [
        "DELETE FROM @ WHERE id <= 100",
        "VACUUM (INDEX_CLEANUP on) @",
        "UPDATE @ SET word = 'new' WHERE id BETWEEN 500 AND 560",
        "BEGIN; UPDATE @ SET id = -id WHERE id % 50 = 7; SAVEPOINT s; DELETE FROM @; ROLLBACK TO s; COMMIT",
        "VACUUM (INDEX_CLEANUP on) @",
        "CALL howdah.compact('@')",
        "INSERT INTO @ SELECT i, 'more' FROM generate_series(4001, 4100) i",
        "CALL howdah.compact('@')",
        "DELETE FROM @ WHERE id % 3 = 0",
        "VACUUM (INDEX_CLEANUP on, FREEZE) @",
        "CALL howdah.compact('@')",
    ];
    for step in steps {
        client.batch_execute(&step.replace('@', "c"))?;
        if !step.starts_with("CALL") {
            client.batch_execute(&step.replace('@', "h"))?;
        }
    }
    ensure!(come_to_rest(&primary, &standby)? == Replay::Done);
    let mut there = standby.session()?;
    ensure!(slot_state(&mut there, "slot")? == "valid");
    let (ours, heaps) = (decoded(&mut there, "c")?, decoded(&mut there, "h")?);
    ensure!(
        !ours.is_empty() && ours == heaps,
        "{} changes, of heap {}",
        ours.len(),
        heaps.len()
    );
    equals_twin(&mut there, "c", "h")
}

#[test]
fn a_slot_that_would_miss_rows_of_a_table_that_decoding_reads_is_invalidated() -> anyhow::Result<()>
{
    for method in ["heap", "howdah"] {
        let primary = Primary::start("standby-catalog", &SETTINGS)?;
        let mut client = primary.session()?;
        client.batch_execute(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, word text) USING {method} WITH (user_catalog_table = true);
             INSERT INTO t SELECT i, 'word ' || i FROM generate_series(1, 1000) i"
        ))?;
        client.batch_execute("VACUUM (FREEZE) t")?;
        if method == "howdah" {
            client.batch_execute("CALL howdah.compact('t')")?;
            client.batch_execute("VACUUM t")?;
            ensure!(cold_row_count(&mut client, "t")? == 1000);
        }
        let standby = primary.standby()?;
        make_slot(&primary, &standby, "slot")?;
        ensure!(come_to_rest(&primary, &standby)? == Replay::Done);
        let mut there = standby.session()?;
        ensure!(
            slot_state(&mut there, "slot")? == "valid",
            "{method}, at first"
        );
        client.batch_execute("DELETE FROM t WHERE id <= 100")?;
        client.batch_execute("VACUUM (INDEX_CLEANUP on) t")?;
        ensure!(come_to_rest(&primary, &standby)? == Replay::Done);
        let state = slot_state(&mut there, "slot")?;
        ensure!(state == "rows_removed", "{method}: {state}");
    }
    Ok(())
}
