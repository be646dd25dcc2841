//! A disk that is full: loads, changes, compaction and rewrites fail, nothing is lost or half done,
//! and all of them work again once there is space.
//!
//! The disk of a session is full where its files may not become larger: a limit of the operating
//! system for its process makes every extension of a file fail, as `ENOSPC` does.

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{
    cold_row_count, digest, indexes_are_sound, row_numbers_are_unique,
};
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

/// Segments of WAL must fit.
const LEAST_LIMIT_BYTES: u64 = 17 << 20;
const PAGE_BYTES: u64 = 8192;

/// Rows that no encoding makes smaller, so that the cold store becomes larger than a segment.
const MAKE: &str = "CREATE TABLE t (id int PRIMARY KEY, n int, b bytea) USING howdah;
    CREATE INDEX ON t (n);
    INSERT INTO t SELECT i, i % 1000, sha512(i::text::bytea) FROM generate_series(1, 320000) i";

const HOT_ROWS: &str = "SET howdah.bulk_load = off;
    INSERT INTO t SELECT i, i % 1000, sha512(i::text::bytea) FROM generate_series(400001, 403000) i";

/// Statements that need more space than there is. The last two write files of their own.
const FAILING: [(&str, Room); 7] = [
    (
        "INSERT INTO t SELECT i, 1, sha512(i::text::bytea) FROM generate_series(500001, 600000) i",
        Room::Little,
    ),
    (
        "BEGIN; DELETE FROM t WHERE id <= 100;
         INSERT INTO t SELECT i, 1, sha512(i::text::bytea) FROM generate_series(500001, 600000) i; COMMIT",
        Room::Little,
    ),
    (
        "DO $$ BEGIN
             FOR i IN 1..4000 LOOP UPDATE t SET n = -1 WHERE id = i * 70; END LOOP;
         END $$",
        Room::Little,
    ),
    ("CALL howdah.compact('t')", Room::Little),
    (
        "BEGIN; SAVEPOINT s; INSERT INTO t SELECT i, 1, sha512(i::text::bytea) FROM generate_series(500001, 520000) i;
         RELEASE s; COMMIT",
        Room::Little,
    ),
    ("VACUUM FULL t", Room::ForLessThanTheTable),
    ("CLUSTER t USING t_pkey", Room::ForLessThanTheTable),
];

/// How large a session's files may become.
#[derive(Clone, Copy)]
enum Room {
    /// A few pages more than the cold store has.
    Little,
    ForLessThanTheTable,
}

/// A session with such a disk.
fn session_with(room: Room, primary: &Primary) -> anyhow::Result<Client> {
    let mut session = primary.session()?;
    session.batch_execute("CHECKPOINT")?;
    let size = "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 't'::regclass";
    let size: u64 = query(&mut session, size)?.parse()?;
    ensure!(
        size > LEAST_LIMIT_BYTES,
        "the cold store has {size} bytes only"
    );
    let limit = match room {
        Room::Little => size + 4 * PAGE_BYTES,
        Room::ForLessThanTheTable => LEAST_LIMIT_BYTES,
    };
    // A program that a backend starts is its child, and of the same user.
    session.batch_execute(&format!(
        "COPY (SELECT 1) TO PROGRAM 'prlimit --pid $PPID --fsize={limit}:'"
    ))?;
    Ok(session)
}

/// What the table contains, by all ways to read it.
fn contents(primary: &Primary) -> anyhow::Result<String> {
    let mut session = primary.session()?;
    let whole = digest(&mut session, "t")?;
    let sums = "SELECT count(*), sum(id), sum(n) FROM t WHERE id > 0";
    let by_engine = query(&mut session, sums)?;
    session.batch_execute(
        "SET howdah.vectorized = off; SET howdah.columnar_scan = off; SET enable_seqscan = off;
         SET enable_bitmapscan = off",
    )?;
    let by_index = query(&mut session, sums)?;
    ensure!(by_engine == by_index, "{by_engine} but by index {by_index}");
    Ok(format!("{whole} {by_engine}"))
}

#[test]
fn a_full_disk_loses_nothing() -> anyhow::Result<()> {
    let primary = Primary::start(
        "full-disk",
        &[("howdah.compaction", "off"), ("autovacuum", "off")],
    )?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    session.batch_execute(HOT_ROWS)?;
    session.batch_execute("ANALYZE t")?;
    ensure!(cold_row_count(&mut session, "t")? > 300_000, "t stayed hot");
    let before = contents(&primary)?;
    for (statement, room) in FAILING {
        let mut limited = session_with(room, &primary)?;
        let error = match limited.batch_execute(statement) {
            Ok(()) => anyhow::bail!("there was space enough for: {statement}"),
            Err(error) => error,
        };
        let message = error.as_db_error().context("the session died")?.message();
        ensure!(message.contains("File too large"), "{message}: {statement}");
        // The session goes on, and so do others.
        limited.batch_execute("ROLLBACK; SELECT count(*) FROM t")?;
        ensure!(contents(&primary)? == before, "changed by: {statement}");
    }
    // The same after a crash, and with space for what failed.
    primary.crash_and_recover()?;
    ensure!(contents(&primary)? == before, "changed by the crash");
    let mut session = primary.session()?;
    session.batch_execute("VACUUM t")?;
    ensure!(contents(&primary)? == before, "changed by VACUUM");
    session.batch_execute("CALL howdah.compact('t')")?;
    session.batch_execute("CLUSTER t USING t_pkey")?;
    ensure!(contents(&primary)? == before, "changed by the rewrite");
    session.batch_execute(FAILING[0].0)?;
    let count = query(&mut session, "SELECT count(*) FROM t")?;
    ensure!(count == "423000", "{count} rows");
    row_numbers_are_unique(&mut session, "t")?;
    indexes_are_sound(&mut session, "t", "id")
}
