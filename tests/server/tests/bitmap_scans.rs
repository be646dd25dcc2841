//! Bitmap scans over many cold blocks: how much memory they use, which processes read the blocks,
//! and that the rows equal heap's.

use std::fs;

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

const SETTINGS: [(&str, &str); 3] = [
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("max_parallel_workers", "8"),
];
const ROW_COUNT: u64 = 3_000_000;
/// The size of a copy of the offsets of all cold blocks.
const OFFSETS_BYTES: u64 = ROW_COUNT * 2;
const ONLY_BITMAPS: &str =
    "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
     SET howdah.columnar_scan = off; SET work_mem = '64MB'; SET jit = off;";

/// A table of cold rows, and some hot ones at its end.
fn make_table(session: &mut Client, name: &str, method: &str, rows: u64) -> anyhow::Result<()> {
    Ok(session.batch_execute(&format!(
        "CREATE TABLE {name} (id int, k int) USING {method};
         INSERT INTO {name} SELECT i, i % 10 FROM generate_series(1, {rows}) i;
         INSERT INTO {name} SELECT i, i % 10 FROM generate_series({rows} + 1, {rows} + 100) i;
         CREATE INDEX ON {name} (id);
         CREATE INDEX ON {name} (k);
         ANALYZE {name}"
    ))?)
}

/// Anonymous memory of the session's process, in bytes.
fn own_memory(session: &mut Client) -> anyhow::Result<u64> {
    let pid = query(session, "SELECT pg_backend_pid()")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .context("the kernel does not tell RssAnon")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// How much a session's memory grows until it has returned some rows, the last of them cold.
fn growth_to_the_first_rows(primary: &Primary, condition: &str) -> anyhow::Result<u64> {
    let mut session = primary.session()?;
    session.batch_execute(ONLY_BITMAPS)?;
    session.batch_execute("SELECT count(*) FROM t WHERE id BETWEEN 1 AND 1000")?;
    let before = own_memory(&mut session)?;
    session.batch_execute(&format!(
        "BEGIN; DECLARE c CURSOR FOR SELECT * FROM t WHERE {condition}; FETCH 300 FROM c"
    ))?;
    Ok(own_memory(&mut session)?.saturating_sub(before))
}

#[test]
fn cold_blocks_of_a_bitmap_are_read_one_at_a_time() -> anyhow::Result<()> {
    let primary = Primary::start("bitmap-scans", &SETTINGS)?;
    let mut session = primary.session()?;
    make_table(&mut session, "t", "howdah", ROW_COUNT)?;
    let cold = query(&mut session, "SELECT sum(row_count) FROM howdah.row_groups")?;
    // The first rows of a load stay hot.
    ensure!(
        cold.parse::<u64>()? > ROW_COUNT - 20_000,
        "only {cold} rows are cold"
    );
    first_rows_take_the_bitmaps_memory_only(&primary)?;
    workers_share_cold_blocks(&mut session)
}

fn first_rows_take_the_bitmaps_memory_only(primary: &Primary) -> anyhow::Result<()> {
    // The first rows of the load are hot: the bitmap names one hot page, then cold blocks.
    let few = growth_to_the_first_rows(primary, "id BETWEEN 20001 AND 120000")?;
    let all = growth_to_the_first_rows(primary, "id > 20000")?;
    println!("{few} bytes for a bitmap of few blocks, {all} for one of all");
    // The bitmap itself has an entry of 64 bytes for each block of 256 rows, in a hash table, and a
    // pointer to it.
    let bitmap = ROW_COUNT / 256 * (64 * 2 + 8);
    ensure!(
        all.saturating_sub(few) < bitmap + OFFSETS_BYTES / 2,
        "{all} bytes before the first rows, {few} for few blocks; the bitmap takes about {bitmap}"
    );
    Ok(())
}

fn workers_share_cold_blocks(session: &mut Client) -> anyhow::Result<()> {
    session.batch_execute(ONLY_BITMAPS)?;
    session.batch_execute(
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
         SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 2;
         SET parallel_leader_participation = off",
    )?;
    workers_share_rows(
        session,
        "Parallel Bitmap Heap Scan",
        "SELECT count(*) FROM t WHERE id > 0 AND id + k > 0",
        ROW_COUNT,
    )?;
    session.batch_execute(
        "SET enable_bitmapscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = on",
    )?;
    // Of the last tenth of the rows all but a hundred are cold.
    let bound = ROW_COUNT / 10 * 9;
    workers_share_rows(
        session,
        "Parallel Index Scan",
        &format!("SELECT count(*) FROM t WHERE id > {bound} AND id + k > 0"),
        ROW_COUNT / 10,
    )?;
    workers_share_rows(
        session,
        "Parallel Index Only Scan",
        &format!("SELECT count(*) FROM t WHERE id > {bound}"),
        ROW_COUNT / 10,
    )
}

/// Each of two workers returns a twentieth at least of the rows that the scan returns, about
/// `row_count`.
fn workers_share_rows(
    session: &mut Client,
    node: &str,
    statement: &str,
    row_count: u64,
) -> anyhow::Result<()> {
    let explain = format!("EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) {statement}");
    let plan = query(session, &explain)?;
    let scan = plan
        .split_once(node)
        .with_context(|| format!("no {node} in\n{plan}"))?
        .1;
    let scan = scan
        .split_once("Bitmap Index Scan")
        .map_or(scan, |(scan, _)| scan);
    let rows: Vec<f64> = scan
        .lines()
        .filter(|line| line.trim_start().starts_with("Worker "))
        .filter_map(|line| {
            line.split_once("actual rows=")?
                .1
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .collect();
    println!("{node}: rows of each worker: {rows:?}");
    ensure!(
        rows.len() == 2 && rows.iter().all(|rows| *rows > row_count as f64 / 20.0),
        "workers share nothing:\n{plan}"
    );
    Ok(())
}

/// Queries whose bitmaps are exact, lossy, of hot and cold blocks, read again, and by several
/// workers.
const QUERIES: [&str; 6] = [
    "SELECT count(*), sum(id) FROM t WHERE id > 0",
    "SELECT count(*), sum(id) FROM t WHERE id BETWEEN 5000 AND 150000 AND k = 3",
    "SELECT count(*), sum(id) FROM t WHERE id < 700 OR id > 199950 OR k = 7",
    "SELECT count(*), sum(x) FROM generate_series(1, 40) g,
         LATERAL (SELECT id AS x FROM t WHERE k = g % 10 AND id BETWEEN g * 4000 AND g * 5000) s",
    "SELECT sum(x) FROM (SELECT id AS x FROM t WHERE k IN (1, 2) OR id > 199000 ORDER BY id DESC LIMIT 5000) s",
    "SELECT count(*) FROM t a WHERE id < 3000 AND EXISTS
         (SELECT FROM t b WHERE b.id = a.id + 100000 AND b.k = a.k OFFSET 0)",
];

#[test]
fn bitmap_scans_return_the_rows_of_heap() -> anyhow::Result<()> {
    let primary = Primary::start("bitmap-rows", &SETTINGS)?;
    let mut session = primary.session()?;
    for (schema, method) in [("heap", "heap"), ("cold", "howdah")] {
        session.batch_execute(&format!(
            "CREATE SCHEMA {schema}; SET search_path = {schema}"
        ))?;
        make_table(&mut session, "t", method, 200_000)?;
        session.batch_execute(
            "DELETE FROM t WHERE id % 1000 < 30; UPDATE t SET k = k + 1 WHERE id % 5000 = 77",
        )?;
    }
    session.batch_execute(ONLY_BITMAPS)?;
    let ways = [
        "SET max_parallel_workers_per_gather = 0; SET work_mem = '64MB'",
        "SET max_parallel_workers_per_gather = 0; SET work_mem = '64kB'",
        "SET max_parallel_workers_per_gather = 3; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
         SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET work_mem = '64MB'",
        "SET work_mem = '64kB'",
    ];
    for way in ways {
        session.batch_execute(way)?;
        for text in QUERIES {
            let mut answers = Vec::new();
            for schema in ["heap", "cold"] {
                session.batch_execute(&format!("SET search_path = {schema}"))?;
                let whole = format!("SELECT x::text FROM ({text}) x");
                answers.push(query(&mut session, &whole)?);
            }
            ensure!(answers[0] == answers[1], "{way}\n{text}\n{answers:?}");
        }
    }
    Ok(())
}
