//! A timeout soon ends any statement on cold rows, and leaves the table as it was.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::equals_twin;
use howdah_server_tests::cluster::{Primary, query};

const ROWS: u32 = 400_000;
/// Generous, because other tests may be running.
const SOON: Duration = Duration::from_secs(10);
/// Each of them takes longer than the longest timeout.
const STATEMENTS: [&str; 13] = [
    "INSERT INTO t SELECT id + 1000000, k, word, list FROM h",
    "CREATE TABLE other USING howdah AS SELECT a.* FROM h a JOIN h b USING (id) ORDER BY a.word",
    "SELECT sum(hashtext(a.word || b.word)) FROM t a JOIN t b USING (word)",
    "SELECT count(*) FROM t WHERE id >= 0 AND pg_sleep(0.00001) IS NOT NULL",
    "CREATE INDEX ON t (word)",
    "CREATE INDEX CONCURRENTLY ON t (word)",
    "REINDEX INDEX t_list",
    "VACUUM FULL t",
    "CLUSTER t USING t_pkey",
    "ALTER TABLE t ALTER COLUMN k TYPE bigint",
    "UPDATE t SET k = k + 1",
    "DELETE FROM t WHERE id % 3 > 0 AND pg_sleep(0.00001) IS NOT NULL",
    "REFRESH MATERIALIZED VIEW v",
];

#[test]
fn a_timeout_ends_every_long_step_soon_and_leaves_no_trace() -> anyhow::Result<()> {
    let settings = [("howdah.compaction", "off"), ("autovacuum", "off")];
    let primary = Primary::start("cancel", &settings)?;
    let mut session = primary.session()?;
    session.batch_execute(&format!(
        "CREATE TABLE h AS SELECT i AS id, i % 1000 AS k, md5(i::text) AS word, ARRAY[i % 100, i] AS list
             FROM generate_series(1, {ROWS}) i;
         CREATE TABLE t (id int PRIMARY KEY, k int, word text, list int[]) USING howdah;
         INSERT INTO t SELECT * FROM h;
         CREATE INDEX t_list ON t USING gin (list);
         CREATE MATERIALIZED VIEW v USING howdah AS SELECT a.id, b.word FROM t a JOIN t b USING (id) WITH NO DATA"
    ))?;
    let mut canceled = 0;
    for timeout_ms in [20, 80] {
        for statement in STATEMENTS {
            session.batch_execute(&format!("SET statement_timeout = {timeout_ms}"))?;
            let began = Instant::now();
            let result = session.batch_execute(statement);
            let took = began.elapsed();
            session.batch_execute("SET statement_timeout = 0")?;
            match result {
                Ok(()) => ensure!(timeout_ms > 20, "{statement} took {took:?} only"),
                Err(error) => {
                    let code = error.code().map_or("none", |code| code.code());
                    ensure!(code == "57014", "{statement}: {error:?}");
                    canceled += 1;
                }
            }
            ensure!(took < SOON, "{statement} went on for {took:?}");
        }
    }
    ensure!(
        canceled >= STATEMENTS.len(),
        "{canceled} statements were canceled"
    );
    equals_twin(&mut session, "t", "h")?;
    // Rows that compaction moved before it was stopped stay moved; the others stay hot.
    session.batch_execute(
        "SET howdah.bulk_load = off; CREATE TABLE hot USING howdah AS TABLE h; CREATE INDEX ON hot (id)",
    )?;
    session.batch_execute("VACUUM hot")?;
    for timeout_ms in [20, 100, 500] {
        session.batch_execute(&format!("SET statement_timeout = {timeout_ms}"))?;
        let began = Instant::now();
        let result = session.batch_execute("CALL howdah.compact('hot')");
        let took = began.elapsed();
        session.batch_execute("SET statement_timeout = 0")?;
        ensure!(
            result.is_err() || timeout_ms > 20,
            "compaction took {took:?} only"
        );
        ensure!(took < SOON, "compaction went on for {took:?}");
        equals_twin(&mut session, "hot", "h")?;
    }
    session.batch_execute("CALL howdah.compact('hot')")?;
    equals_twin(&mut session, "hot", "h")?;
    let running = "SELECT count(*) FROM howdah.stat_progress_compact";
    assert_eq!(query(&mut session, running)?, "0");
    Ok(())
}

/// Conditions with parts that the engine does not know, each another one.
const PARTS: [&str; 3] = [
    "w ILIKE '%x{}'",
    "id = {} AND upper(w) = 'X{}'",
    "same(id) = {}",
];
const PART_COUNT: u32 = 16_000;

#[test]
fn a_condition_of_many_parts_is_planned_soon() -> anyhow::Result<()> {
    let primary = Primary::start("many-parts", &[("howdah.compaction", "off")])?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int, w text) USING howdah;
         INSERT INTO t SELECT i, 's' || i FROM generate_series(1, 100000) i; ANALYZE t;
         CREATE FUNCTION same(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'",
    )?;
    for part in PARTS {
        let parts: Vec<String> = (0..PART_COUNT)
            .map(|number| format!("({})", part.replace("{}", &number.to_string())))
            .collect();
        let statement = format!(
            "EXPLAIN SELECT count(*) FROM t WHERE {}",
            parts.join(" OR ")
        );
        let began = Instant::now();
        query(&mut session, &statement)?;
        let took = began.elapsed();
        println!("{took:?} for {part}");
        ensure!(took < SOON, "{PART_COUNT} times {part} took {took:?}");
    }
    Ok(())
}

#[test]
fn a_pattern_that_takes_long_for_each_row_is_stopped_soon() -> anyhow::Result<()> {
    let primary = Primary::start("long-patterns", &[("howdah.compaction", "off")])?;
    let mut session = primary.session()?;
    session.batch_execute(
        "SET howdah.load_threshold = 10; CREATE TABLE t (id int, w text) USING howdah;
         INSERT INTO t SELECT i, repeat('a', 8000) || i FROM generate_series(1, 2500) i; ANALYZE t;
         SET statement_timeout = '300ms'; SET max_parallel_workers_per_gather = 0",
    )?;
    for vectorized in ["on", "off"] {
        session.batch_execute(&format!(
            "SET howdah.vectorized = {vectorized}; SET howdah.debug_force_vectorized = {vectorized}"
        ))?;
        let began = Instant::now();
        let statement = "SELECT count(*) FROM t WHERE w LIKE '%' || repeat('a', 1000) || '_b%c'";
        let result = session.batch_execute(statement);
        let took = began.elapsed();
        let error = result.err().context("it ended in time")?;
        ensure!(error.code().is_some_and(|code| code.code() == "57014"));
        ensure!(
            took < SOON,
            "vectorized {vectorized}: it went on for {took:?}"
        );
    }
    Ok(())
}
