//! What background compaction costs: large tables are scanned in parts, I/O stays within its limit,
//! and tables of other extensions are not touched.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::ensure;
use howdah_server_tests::checks::cold_row_count;
use howdah_server_tests::cluster::{Primary, query};

/// Otherwise every visit would read the whole table.
#[test]
fn a_large_table_is_looked_at_in_parts() -> anyhow::Result<()> {
    let primary = Primary::start(
        "parts",
        &[
            ("howdah.compact_naptime", "100ms"),
            ("howdah.compact_after", "0"),
            // Windows of 128 pages.
            ("howdah.compact_io_limit", "1MB"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE wide (id int PRIMARY KEY, pad text) USING howdah;
         ALTER TABLE wide ALTER pad SET STORAGE PLAIN;
         SELECT howdah.set_options('wide', compaction => false);
         SET howdah.bulk_load = off;
         INSERT INTO wide SELECT i, repeat('x', 2500) FROM generate_series(1, 9000) i",
    )?;
    let pages: i64 = query(&mut session, "SELECT pg_relation_size('wide') / 8192")?.parse()?;
    ensure!(pages >= 3000, "{pages} pages");
    let touched =
        "SELECT heap_blks_read + heap_blks_hit FROM pg_statio_all_tables WHERE relname = 'wide'";
    let blocks = |session: &mut postgres::Client| -> anyhow::Result<i64> {
        query(session, "SELECT pg_stat_force_next_flush()")?;
        Ok(query(session, touched)?.parse()?)
    };
    let before = blocks(&mut session)?;
    session.batch_execute("SELECT howdah.set_options('wide', compaction => true)")?;
    // On a busy machine it takes more rounds until a worker has come.
    let (mut rounds, mut read) = (0, 0);
    while rounds < 15 || read <= 128 && rounds < 240 {
        rounds += 1;
        session.batch_execute(&format!("UPDATE wide SET pad = pad WHERE id = {rounds}"))?;
        sleep(Duration::from_millis(250));
        read = blocks(&mut session)? - before;
    }
    ensure!(read > 128, "no worker came: {read} pages");
    ensure!(
        read < 5 * pages * rounds / 15,
        "{read} pages of {pages} in {rounds} rounds"
    );
    Ok(())
}

#[test]
fn a_large_table_becomes_cold_in_parts_and_within_the_limit() -> anyhow::Result<()> {
    let primary = Primary::start(
        "limit",
        &[
            ("howdah.compact_naptime", "100ms"),
            ("howdah.compact_after", "200ms"),
            ("howdah.compact_min_rows", "50000"),
            // Windows of 512 pages.
            ("howdah.compact_io_limit", "4MB"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut session = primary.session()?;
    session.batch_execute(
        "SET howdah.bulk_load = off;
         CREATE TABLE member (id int) USING howdah; ALTER EXTENSION plpgsql ADD TABLE member;
         INSERT INTO member SELECT generate_series(1, 60000);
         CREATE TABLE t (id int) USING howdah; SELECT howdah.set_options('t', compaction => false);
         INSERT INTO t SELECT generate_series(1, 300000)",
    )?;
    // Pages that are dirty already cost nothing.
    session.batch_execute("CHECKPOINT")?;
    // By then nothing is left to do; only the option makes a worker come back.
    sleep(Duration::from_secs(2));
    session.batch_execute("SELECT howdah.set_options('t', compaction => true)")?;
    let mut was_delayed = false;
    let deadline = Instant::now() + Duration::from_secs(120);
    while cold_row_count(&mut session, "t")? < 250_000 {
        ensure!(
            Instant::now() < deadline,
            "{} rows are cold",
            cold_row_count(&mut session, "t")?
        );
        was_delayed |= query(
            &mut session,
            "SELECT EXISTS (SELECT FROM pg_stat_activity
             WHERE backend_type = 'howdah compaction worker' AND wait_event = 'VacuumDelay')",
        )? == "t";
        sleep(Duration::from_millis(5));
    }
    ensure!(was_delayed, "no worker was slowed down");
    ensure!(query(&mut session, "SELECT count(*), sum(id) FROM t")? == "300000|45000150000");
    ensure!(cold_row_count(&mut session, "member")? == 0);
    session.batch_execute("CALL howdah.compact('member')")?;
    ensure!(cold_row_count(&mut session, "member")? == 60_000);
    Ok(())
}
