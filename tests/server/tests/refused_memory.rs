//! Where the operating system refuses memory, a statement ends with 53200, and nothing else does.

use std::fs;

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

const MAKE: &str = "CREATE TABLE t (id int PRIMARY KEY, g int, s text, at timestamptz) USING howdah;
    INSERT INTO t SELECT i, i % 1000, repeat(md5(i::text), 1 + i % 7), now() FROM generate_series(1, 150000) i;
    CREATE TABLE nothing (line text)";
const STATEMENTS: [&str; 9] = [
    "SELECT sum(g), max(s) FROM t",
    "SELECT count(*) FROM (SELECT s, count(*) FROM t GROUP BY s OFFSET 0) x",
    "SELECT count(*) FROM t WHERE s LIKE '%abc%'",
    "SELECT count(*) FROM (SELECT * FROM t ORDER BY s, id LIMIT 1000) x",
    "SET howdah.vectorized = off; SELECT sum(length(s)), max(at) FROM t",
    "SET howdah.columnar_scan = off; SET howdah.vectorized = off; SELECT sum(length(s)) FROM t",
    "CREATE TEMP TABLE c USING howdah AS SELECT * FROM t",
    "BEGIN; UPDATE t SET g = g + 1 WHERE id < 3000; ROLLBACK",
    "VACUUM FULL t",
];
/// Memory that the session may take beyond what it has, in megabytes.
const SPARE_MB: [u64; 9] = [1, 2, 4, 8, 16, 33, 40, 56, 90];

/// Sets how much address space the session's process may have. It runs the command itself, as the
/// user that it belongs to.
fn limit(session: &mut Client, most: &str) -> anyhow::Result<()> {
    Ok(session.batch_execute(&format!(
        "COPY nothing FROM PROGRAM 'prlimit --pid $PPID --as={most}:'"
    ))?)
}

/// Whether the statement succeeds while the session may take so much memory; otherwise it fails as
/// it should.
fn succeeds_with(session: &mut Client, sql: &str, spare_mb: u64) -> anyhow::Result<bool> {
    let pid = query(session, "SELECT pg_backend_pid()")?;
    let statm = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages = statm.split(' ').next().context("no size")?;
    let bytes = pages.parse::<u64>()? * 4096 + (spare_mb << 20);
    limit(session, &bytes.to_string())?;
    let outcome = session.batch_execute(sql);
    let Err(error) = outcome else {
        limit(session, "unlimited")?;
        return Ok(true);
    };
    let ended = || format!("with {spare_mb} MB the session ended in {sql}: {error}");
    let code = error.code().with_context(ended)?;
    session.batch_execute("ROLLBACK")?;
    limit(session, "unlimited")?;
    ensure!(code.code() == "53200", "with {spare_mb} MB, {sql}: {error}");
    // What failed has left nothing behind.
    session.batch_execute("RESET ALL; DROP TABLE IF EXISTS pg_temp.c")?;
    Ok(false)
}

#[test]
fn refused_memory_ends_the_statement_only() -> anyhow::Result<()> {
    let primary = Primary::start(
        "refused-memory",
        &[
            ("autovacuum", "off"),
            ("howdah.compaction", "off"),
            ("max_parallel_workers", "0"),
        ],
    )?;
    let mut watching = primary.session()?;
    watching.batch_execute(MAKE)?;
    watching.batch_execute("VACUUM ANALYZE t")?;
    let contents = "SELECT count(*), sum(g), sum(length(s)) FROM t";
    let whole = query(&mut watching, contents)?;
    for sql in STATEMENTS {
        let mut done = 0;
        for spare_mb in SPARE_MB {
            let mut session = primary.session()?;
            // Its caches and libraries are there before.
            query(&mut session, "SELECT count(*) FROM t WHERE id = 7")?;
            done += usize::from(succeeds_with(&mut session, sql, spare_mb)?);
            ensure!(query(&mut session, contents)? == whole, "after {sql}");
        }
        eprintln!("{done} of {} succeeded: {sql}", SPARE_MB.len());
    }
    ensure!(query(&mut watching, contents)? == whole);
    Ok(())
}
