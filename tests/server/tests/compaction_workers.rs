//! Background compaction: which tables its workers visit, and when they are idle.

use std::thread::sleep;
use std::time::Duration;

use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::compaction::{MAKE, same_as_twin, wait_until};

#[test]
fn workers_compact_what_is_quiet_and_stay_out_of_the_way() -> anyhow::Result<()> {
    let primary = Primary::start(
        "worker",
        &[
            ("howdah.compact_naptime", "200ms"),
            ("howdah.compact_after", "500ms"),
            ("howdah.compact_min_rows", "10000"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    session.batch_execute(
        "CREATE TABLE small (id int) USING howdah; INSERT INTO small VALUES (1);
         CREATE TABLE off (id int) USING howdah; SELECT howdah.set_options('off', compaction => false);
         INSERT INTO off SELECT generate_series(1, 20000);
         CREATE EXTENSION amcheck; CREATE TABLE h AS SELECT * FROM t",
    )?;
    let cold = "SELECT cold_rows FROM howdah.tables WHERE table_name";
    wait_until(&mut session, &format!("SELECT ({cold} = 't') >= 10000"))?;
    same_as_twin(&mut session)?;
    assert_eq!(query(&mut session, &format!("{cold} = 'off'"))?, "0");
    assert_eq!(query(&mut session, &format!("{cold} = 'small'"))?, "0");
    // No worker blocks commands that need exclusive use of the database.
    session.batch_execute("CREATE DATABASE other")?;
    let mut other = primary.connect("other")?;
    other.batch_execute(
        "CREATE EXTENSION howdah; SET howdah.bulk_load = off;
         CREATE TABLE t (id int) USING howdah; INSERT INTO t SELECT generate_series(1, 300000)",
    )?;
    drop(other);
    for statement in [
        "CREATE DATABASE copy TEMPLATE other",
        "DROP DATABASE other",
        "DROP DATABASE copy",
    ] {
        session.batch_execute(statement)?;
    }
    Ok(())
}

#[test]
fn a_table_that_cannot_be_compacted_is_left_alone_for_a_while() -> anyhow::Result<()> {
    let primary = Primary::start(
        "failing",
        &[
            ("howdah.compact_naptime", "100ms"),
            ("howdah.compact_after", "0"),
            ("howdah.compact_min_rows", "1000"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut session = primary.session()?;
    // The index's expression fails as soon as its divisor is zero; the sequence counts the workers
    // that reached it.
    session.batch_execute(
        "CREATE TABLE divisor (n int) USING heap; INSERT INTO divisor VALUES (1);
         CREATE SEQUENCE attempts;
         CREATE FUNCTION expression(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
         DECLARE d int := (SELECT n FROM public.divisor);
         BEGIN
             IF d = 0 THEN PERFORM nextval('public.attempts'); END IF;
             RETURN i / d;
         END $$;
         CREATE TABLE failing (id int) USING howdah; SELECT howdah.set_options('failing', compaction => false);
         CREATE INDEX ON failing (expression(id));
         CREATE TABLE sound (id int) USING howdah;
         SET howdah.bulk_load = off;
         INSERT INTO failing SELECT generate_series(1, 5000);
         UPDATE divisor SET n = 0;
         SELECT howdah.set_options('failing', compaction => true)",
    )?;
    let attempts = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM attempts";
    wait_until(&mut session, &format!("SELECT ({attempts}) = 1"))?;
    // Workers continue to compact the other table, in every round.
    for round in 1..=4 {
        session.batch_execute("INSERT INTO sound SELECT generate_series(1, 3000)")?;
        let moved = format!(
            "SELECT cold_rows >= {} FROM howdah.table_sizes('sound')",
            round * 2000
        );
        wait_until(&mut session, &moved)?;
    }
    assert_eq!(query(&mut session, attempts)?, "1");
    assert_eq!(query(&mut session, "SELECT count(*) FROM failing")?, "5000");
    session.batch_execute("UPDATE divisor SET n = 1")?;
    session.batch_execute("CALL howdah.compact('failing')")?;
    let moved = "SELECT cold_rows = 5000 FROM howdah.table_sizes('failing')";
    assert_eq!(query(&mut session, moved)?, "t");
    Ok(())
}

#[test]
fn loaded_rows_are_frozen_and_then_no_worker_starts_any_more() -> anyhow::Result<()> {
    let primary = Primary::start(
        "peace",
        &[
            ("howdah.compact_after", "200ms"),
            ("howdah.compact_naptime", "100ms"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int, word text) USING howdah;
         INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 200000) i",
    )?;
    wait_until(
        &mut session,
        "SELECT s.relallfrozen > 100 AND s.relallfrozen > s.relpages * 0.8
         FROM pg_class c JOIN pg_class s ON s.oid = c.reltoastrelid WHERE c.relname = 't'",
    )?;
    // A few hot rows are not enough for a row group: no worker starts any more, and no WAL is
    // written.
    let workers =
        "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'howdah%worker'";
    sleep(Duration::from_millis(500));
    wait_until(&mut session, workers)?;
    let state = format!("SELECT pg_current_wal_insert_lsn(), ({workers})");
    // The background writer and the checkpointer write a record each after the last change, at a
    // time of their own.
    for _ in 0..3 {
        let before = query(&mut session, &state)?;
        sleep(Duration::from_secs(2));
        if before.ends_with("|t") && query(&mut session, &state)? == before {
            return Ok(());
        }
    }
    anyhow::bail!("something goes on")
}

/// Neither a database's timeouts, which are meant for statements, nor rows so long that a full
/// group has few of them keep a table from being compacted.
#[test]
fn rows_of_any_length_become_cold_whatever_the_timeouts() -> anyhow::Result<()> {
    let primary = Primary::start(
        "worker-limits",
        &[
            ("howdah.compact_naptime", "100ms"),
            ("howdah.compact_after", "0"),
            ("howdah.compact_min_rows", "5000"),
            ("howdah.row_group_bytes", "1MB"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut session = primary.session()?;
    session.batch_execute("CREATE DATABASE limits")?;
    let mut other = primary.connect("limits")?;
    session.batch_execute(
        "ALTER DATABASE limits SET transaction_timeout = '40ms';
         ALTER DATABASE limits SET lock_timeout = '1ms';
         ALTER DATABASE limits SET statement_timeout = '1ms'",
    )?;
    other.batch_execute(
        "CREATE EXTENSION howdah; SET howdah.bulk_load = off;
         CREATE TABLE long (id int PRIMARY KEY, a text, b text) USING howdah;
         CREATE INDEX ON long (a); CREATE INDEX ON long (b);
         INSERT INTO long SELECT i, md5(i::text), repeat(md5((i * 7)::text), 40) FROM generate_series(1, 20000) i",
    )?;
    let cold = "SELECT cold_rows > 19000 FROM howdah.tables WHERE table_name = 'long'";
    wait_until(&mut other, cold)?;
    let rows = "SELECT count(*), sum(id), count(DISTINCT b) FROM long";
    assert_eq!(query(&mut other, rows)?, "20000|200010000|20000");
    Ok(())
}

/// As the server's own launchers: an end without a complaint would be for good.
#[test]
fn the_launcher_comes_back_when_it_is_terminated() -> anyhow::Result<()> {
    let primary = Primary::start("launcher", &[("howdah.compact_naptime", "100ms")])?;
    let mut session = primary.session()?;
    let pid = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'howdah compaction launcher'";
    let is_there =
        |before: &str| format!("SELECT count(*) > 0 FROM ({pid}) p WHERE pid <> {before}");
    wait_until(&mut session, &is_there("0"))?;
    let before = query(&mut session, pid)?;
    session.batch_execute(&format!("SELECT pg_terminate_backend({before})"))?;
    wait_until(&mut session, &is_there(&before))
}
