//! A streaming standby reads the same rows of every table, hot and cold, as the primary; once
//! promoted, it continues to write where the primary stopped.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{
    can_compact, cold_row_count, digest, equals_twin, indexes_are_sound, row_numbers_are_unique,
};
use howdah_server_tests::cluster::{Primary, Standby, query};
use howdah_server_tests::differential::Dice;
use postgres::Client;

const MAKE: &str =
    "CREATE TABLE c (id int PRIMARY KEY, word text, amount numeric, list int[]) USING howdah;
     CREATE INDEX ON c (word);
     CREATE TABLE h (id int PRIMARY KEY, word text, amount numeric, list int[]) USING heap";

/// The same rows into both tables.
fn rows(first: u32, last: u32) -> String {
    let select = format!(
        "SELECT i, 'word ' || i % 371, i * 0.01, ARRAY[i, NULL] FROM generate_series({first}, {last}) i"
    );
    format!("INSERT INTO c {select}; INSERT INTO h {select};")
}

const GROUPS: &str = "SELECT first_row, row_count, footer_bytes, body_bytes, raw_bytes
    FROM howdah.row_groups WHERE relation = 'c'::regclass ORDER BY 1";

fn check_same(primary: &Primary, standby: &Standby, step: &str) -> anyhow::Result<()> {
    let compare = || -> anyhow::Result<()> {
        standby.wait_for(primary)?;
        let (mut here, mut there) = (primary.session()?, standby.session()?);
        equals_twin(&mut here, "c", "h")?;
        equals_twin(&mut there, "c", "h")?;
        ensure!(digest(&mut here, "c")? == digest(&mut there, "c")?);
        ensure!(query(&mut here, GROUPS)? == query(&mut there, GROUPS)?);
        let by_index = "SET enable_seqscan = off; SET enable_bitmapscan = off;
                        SELECT count(*), sum(id), min(word), max(amount) FROM c WHERE id > 0";
        ensure!(query(&mut here, by_index)? == query(&mut there, by_index)?);
        Ok(())
    };
    compare().with_context(|| format!("after {step}"))
}

/// Statements one by one, as some refuse to run in a transaction block.
fn run_all(client: &mut Client, statements: &[&str]) -> anyhow::Result<()> {
    for statement in statements {
        client
            .batch_execute(statement)
            .with_context(|| format!("in: {statement}"))?;
    }
    Ok(())
}

#[test]
fn a_standby_equals_its_primary_after_every_step_and_takes_over() -> anyhow::Result<()> {
    let primary = Primary::start(
        "standby-steps",
        &[
            ("howdah.load_threshold", "1000"),
            ("howdah.compaction", "off"),
            ("hot_standby_feedback", "on"),
        ],
    )?;
    let standby = primary.standby()?;
    let mut session = primary.session()?;
    let compact = can_compact(&mut session)?;
    session.batch_execute(MAKE)?;
    let (load, more, again) = (rows(1, 20_000), rows(30_001, 45_000), rows(50_001, 70_000));
    let aborted = format!("BEGIN; {} ROLLBACK", rows(20_001, 30_000));
    let half = format!(
        "BEGIN; SAVEPOINT s; {} ROLLBACK TO s; {} COMMIT",
        rows(20_001, 30_000),
        rows(20_001, 24_000)
    );
    let truncated = format!("BEGIN; TRUNCATE c, h; {} COMMIT", rows(1, 9000));
    let undone = format!("BEGIN; TRUNCATE c, h; {} ROLLBACK", rows(100_001, 109_000));
    let steps: [(&str, Vec<&str>); 10] = [
        ("a load", vec![&load]),
        ("an aborted load", vec![&aborted]),
        ("a load with an undone savepoint", vec![&half]),
        ("a load after aborts", vec![&more]),
        (
            "updates and deletes of hot rows",
            vec![
                "UPDATE c SET word = 'changed' WHERE id <= 500; UPDATE h SET word = 'changed' WHERE id <= 500",
                "DELETE FROM c WHERE id BETWEEN 100 AND 200; DELETE FROM h WHERE id BETWEEN 100 AND 200",
            ],
        ),
        ("VACUUM", vec!["VACUUM (FREEZE) c", "VACUUM h"]),
        ("an undone TRUNCATE", vec![&undone]),
        ("TRUNCATE and a load in one transaction", vec![&truncated]),
        (
            "ADD COLUMN and a load",
            vec![
                "ALTER TABLE c ADD COLUMN extra int DEFAULT 7; ALTER TABLE h ADD COLUMN extra int DEFAULT 7",
                &again,
            ],
        ),
        ("REINDEX", vec!["REINDEX TABLE c"]),
    ];
    for (step, statements) in &steps {
        run_all(&mut session, statements)?;
        check_same(&primary, &standby, step)?;
    }
    if compact {
        run_all(&mut session, &["CALL howdah.compact('c')"])?;
        check_same(&primary, &standby, "compaction")?;
        run_all(&mut session, &["VACUUM c"])?;
        check_same(&primary, &standby, "VACUUM after compaction")?;
    }
    ensure!(cold_row_count(&mut standby.session()?, "c")? > 20_000);
    // Of a table that has no rows here, the views tell nothing.
    session.batch_execute(
        "CREATE UNLOGGED TABLE unlogged (id int) USING howdah;
         INSERT INTO unlogged SELECT generate_series(1, 20000)",
    )?;
    ensure!(cold_row_count(&mut session, "unlogged")? > 0);
    standby.wait_for(&primary)?;
    for view in ["tables", "row_groups", "column_chunks"] {
        let text = format!("SELECT DISTINCT relation FROM howdah.{view} ORDER BY 1");
        let found = query(&mut standby.session()?, &text)?;
        ensure!(found == "c", "howdah.{view} on the standby: {found}");
    }

    let before = digest(&mut session, "c")?;
    standby.promote()?;
    let mut promoted = standby.session()?;
    ensure!(digest(&mut promoted, "c")? == before);
    promoted.batch_execute(&rows(200_001, 220_000))?;
    equals_twin(&mut promoted, "c", "h")?;
    indexes_are_sound(&mut promoted, "c", "id")?;
    row_numbers_are_unique(&mut promoted, "c")
}

#[test]
fn a_load_that_the_primary_never_committed_is_gone_after_promotion() -> anyhow::Result<()> {
    let primary = Primary::start("standby-cut", &[("howdah.load_threshold", "1000")])?;
    let standby = primary.standby()?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    session.batch_execute(&rows(1, 10_000))?;
    let mut open = primary.session()?;
    open.batch_execute(&format!("BEGIN; {}", rows(10_001, 25_000)))?;
    // A later WAL record, so that the open load has reached the standby.
    session.batch_execute("CREATE TABLE marker ()")?;
    standby.wait_for(&primary)?;
    primary.kill()?;
    standby.promote()?;
    let mut promoted = standby.session()?;
    equals_twin(&mut promoted, "c", "h")?;
    ensure!(query(&mut promoted, "SELECT count(*) FROM c")? == "10000");
    promoted.batch_execute(&rows(10_001, 30_000))?;
    equals_twin(&mut promoted, "c", "h")?;
    indexes_are_sound(&mut promoted, "c", "id")?;
    row_numbers_are_unique(&mut promoted, "c")
}

/// A snapshot on the standby continues to read while the primary changes many rows at once, merges,
/// folds and sweeps; with feedback nothing that the snapshot needs is removed. `TRUNCATE off`: the
/// lock that cuts an empty page off a file cancels readers on a standby, on heap as well.
#[test]
fn an_old_snapshot_on_a_standby_outlives_lists_of_new_versions() -> anyhow::Result<()> {
    let primary = Primary::start(
        "standby-snapshot",
        &[
            ("howdah.load_threshold", "1000"),
            ("howdah.compaction", "off"),
            ("autovacuum", "off"),
            ("hot_standby_feedback", "on"),
            ("wal_receiver_status_interval", "1s"),
            ("max_standby_streaming_delay", "60s"),
        ],
    )?;
    let mut client = primary.session()?;
    client.batch_execute(MAKE)?;
    run_all(&mut client, &[&rows(1, 20_000), "CALL howdah.compact('c')"])?;
    let standby = primary.standby()?;
    standby.wait_for(&primary)?;
    let mut old = standby.session()?;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    let before = digest(&mut old, "c")?;
    ensure!(before == digest(&mut old, "h")?);
    // Feedback reaches the primary before anything is changed.
    let horizon = "SELECT count(*) FROM pg_stat_replication WHERE backend_xmin IS NOT NULL";
    let deadline = Instant::now() + Duration::from_secs(60);
    while query(&mut client, horizon)? == "0" {
        ensure!(Instant::now() < deadline, "the standby sends no feedback");
        sleep(Duration::from_millis(100));
    }
    let steps = [
        "UPDATE @ SET amount = amount + 1 WHERE id <= 9000",
        "UPDATE @ SET id = id + 100000 WHERE id BETWEEN 8001 AND 12000",
        "VACUUM (INDEX_CLEANUP on, TRUNCATE off) @",
        "CALL howdah.compact('@')",
        "DELETE FROM @ WHERE id % 3 = 0",
        "UPDATE @ SET word = word || '!' WHERE id % 2 = 0",
        "CALL howdah.compact('@')",
        "VACUUM (INDEX_CLEANUP on, TRUNCATE off) @",
        "CALL howdah.compact('@')",
    ];
    for step in steps {
        client.batch_execute(&step.replace('@', "c"))?;
        if !step.starts_with("CALL") {
            client.batch_execute(&step.replace('@', "h"))?;
        }
        check_same(&primary, &standby, step)?;
        for table in ["c", "h"] {
            let now = digest(&mut old, table).with_context(|| format!("{table}, {step}"))?;
            ensure!(
                now == before,
                "{now} in {table} after {step}, {before} before"
            );
        }
        let by_index = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
                        SELECT count(*), sum(id), sum(amount) FROM @ WHERE id > 0";
        ensure!(
            query(&mut old, &by_index.replace('@', "c"))?
                == query(&mut old, &by_index.replace('@', "h"))?,
            "by index, after {step}"
        );
        old.batch_execute("RESET enable_seqscan; RESET enable_bitmapscan")?;
    }
    old.batch_execute("COMMIT")?;
    run_all(
        &mut client,
        &["VACUUM c", "CALL howdah.compact('c')", "VACUUM c"],
    )?;
    check_same(&primary, &standby, "the old snapshot has gone")?;
    drop((client, old));
    primary.crash_and_recover()?;
    check_same(&primary, &standby, "a crash")
}

/// What a session remembers of small tables (places of row groups, groups of which no row is left,
/// the size of files) must never be out of date: the same sessions of primary and standby read
/// after every step.
#[test]
fn sessions_that_remember_small_tables_see_every_change() -> anyhow::Result<()> {
    let primary = Primary::start(
        "standby-memory",
        &[
            ("howdah.load_threshold", "0"),
            ("howdah.compaction", "off"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut client = primary.session()?;
    client.batch_execute(MAKE)?;
    client.batch_execute(&rows(1, 200))?;
    let standby = primary.standby()?;
    standby.wait_for(&primary)?;
    let mut readers = [primary.session()?, standby.session()?];
    let steps = [
        "UPDATE @ SET amount = amount + 1",
        "UPDATE @ SET amount = amount + 1 WHERE id % 7 = 3",
        "UPDATE @ SET word = 'same'",
        "DELETE FROM @ WHERE id % 3 = 1",
        "DELETE FROM @",
        "INSERT INTO @ SELECT i, 'new ' || i, i, NULL FROM generate_series(1, 300) i ON CONFLICT (id) DO NOTHING",
        "INSERT INTO @ SELECT 1000 + max(id), 'one', 1, NULL FROM @ HAVING max(id) < 5000",
        "TRUNCATE @",
        "BEGIN; TRUNCATE @; INSERT INTO @ SELECT i, 'again', i, NULL FROM generate_series(1, 50) i; COMMIT",
        "BEGIN; DELETE FROM @ WHERE id % 2 = 0; SAVEPOINT s; UPDATE @ SET amount = 0; ROLLBACK TO s; COMMIT",
        "BEGIN; UPDATE @ SET amount = 0; ROLLBACK",
        "CLUSTER @ USING @_pkey",
        "VACUUM FULL @",
        "VACUUM @",
        "CALL howdah.compact('@')",
        "CALL howdah.compact('@')",
    ];
    let queries = [
        "SELECT count(*), sum(id), sum(amount), min(word) FROM @",
        "SET howdah.columnar_scan = off; SELECT count(*), sum(id), sum(amount), max(word) FROM @",
        "SET enable_seqscan = off; SELECT count(*), sum(id), sum(amount), max(word) FROM @ WHERE id > 0",
        "SET enable_seqscan = off; SET enable_indexscan = off; SELECT count(*), sum(amount) FROM @ WHERE id > 0",
    ];
    let mut dice = Dice::new(1);
    for round in 0..120 {
        let step = dice.pick::<&str>(&steps);
        client
            .batch_execute(&step.replace('@', "c"))
            .with_context(|| format!("round {round}, {step}"))?;
        if !step.starts_with("CALL") {
            client.batch_execute(&step.replace('@', "h"))?;
        }
        standby.wait_for(&primary)?;
        for (reader, whose) in readers.iter_mut().zip(["primary", "standby"]) {
            for ask in queries {
                let (cold, heap) = (
                    query(reader, &ask.replace('@', "c"))?,
                    query(reader, &ask.replace('@', "h"))?,
                );
                reader.batch_execute("RESET ALL")?;
                ensure!(
                    cold == heap,
                    "{cold} instead of {heap} on the {whose} in round {round}, after {step}: {ask}"
                );
            }
        }
    }
    equals_twin(&mut client, "c", "h")?;
    indexes_are_sound(&mut client, "c", "id")?;
    row_numbers_are_unique(&mut client, "c")
}
