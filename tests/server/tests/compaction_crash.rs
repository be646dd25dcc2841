//! Compaction under load, and killed at every step: no row is lost or doubled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::query;
use howdah_server_tests::compaction::{outcome, same_as_twin, start, start_with_table};
use howdah_server_tests::settings::number;

/// For a while, writers change hot rows, readers add up, and the mover moves rows; the sum never
/// changes.
#[test]
fn nothing_is_lost_or_doubled_under_load() -> anyhow::Result<()> {
    let primary = start("load")?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, account int, amount bigint) USING howdah;
         CREATE INDEX ON t (account);
         SET howdah.bulk_load = off;
         INSERT INTO t SELECT i, i % 50, 100 FROM generate_series(1, 20000) i",
    )?;
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for writer in 0..2_i64 {
        let (mut client, stop) = (primary.session()?, stop.clone());
        threads.push(thread::spawn(move || -> anyhow::Result<u64> {
            let mut next = 1_000_000 * (writer + 1);
            let mut slowest = Duration::ZERO;
            let (mut done, mut met_cold) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                // Half of the rows are not changed, so that they can be moved.
                let from = next * 7919 % 10_000 + 1;
                // Moves an amount between rows of one account: into a new row.
                let sql = format!(
                    "BEGIN; UPDATE t SET amount = amount - 1 WHERE id = {from};
                     INSERT INTO t SELECT {next}, account, 1 FROM t WHERE id = {from}; COMMIT"
                );
                let began = Instant::now();
                match client.batch_execute(&sql) {
                    Ok(()) => done += 1,
                    Err(error) => {
                        let code = error.code().map_or("none", |c| c.code()).to_owned();
                        ensure!(code == "0A000" || code == "40P01", "writer: {error:?}");
                        met_cold += u64::from(code == "0A000");
                        client.batch_execute("ROLLBACK")?;
                    }
                }
                slowest = slowest.max(began.elapsed());
                next += 1;
            }
            eprintln!(
                "writer {writer}: {done} done, {met_cold} met cold rows, slowest {slowest:?}"
            );
            Ok(done)
        }));
    }
    let (mut reader, reader_stop) = (primary.session()?, stop.clone());
    threads.push(thread::spawn(move || -> anyhow::Result<u64> {
        let mut reads = 0;
        while !reader_stop.load(Ordering::Relaxed) {
            let plan = if reads % 2 == 0 { "on" } else { "off" };
            reader.batch_execute(&format!("SET enable_seqscan = {plan}"))?;
            let sum = query(&mut reader, "SELECT sum(amount) FROM t")?;
            ensure!(sum == "2000000", "the sum became {sum}");
            let doubled = query(
                &mut reader,
                "SELECT count(*) FROM (SELECT id FROM t GROUP BY id HAVING count(*) > 1) d",
            )?;
            ensure!(doubled == "0", "{doubled} rows doubled");
            reads += 1;
        }
        Ok(reads)
    }));
    let deadline = Instant::now() + Duration::from_secs(15);
    while Instant::now() < deadline {
        session.batch_execute("CALL howdah.compact('t')")?;
        ensure!(threads.iter().all(|t| !t.is_finished()), "a thread gave up");
    }
    stop.store(true, Ordering::Relaxed);
    let mut work = Vec::new();
    for handle in threads {
        work.push(handle.join().map_err(|_| anyhow::anyhow!("panicked"))??);
    }
    ensure!(
        work.iter().all(|&w| w > 0),
        "some thread did nothing: {work:?}"
    );
    let cold = query(&mut session, "SELECT sum(cold_rows) FROM howdah.tables")?;
    eprintln!("{cold} cold rows");
    ensure!(cold.parse::<u64>()? > 5_000, "nothing was moved");
    session.batch_execute("CREATE EXTENSION amcheck")?;
    session.batch_execute(
        "SELECT bt_index_check(indexrelid, false) FROM pg_index WHERE indrelid = 't'::regclass",
    )?;
    session.batch_execute("SET enable_indexscan = off; SET enable_bitmapscan = off")?;
    assert_eq!(query(&mut session, "SELECT sum(amount) FROM t")?, "2000000");
    Ok(())
}

/// SIGKILL at every named step, several rounds each (`HOWDAH_CRASH_ROUNDS` in all).
#[test]
fn a_crash_at_any_step_loses_and_doubles_nothing() -> anyhow::Result<()> {
    const POINTS: [&str; 6] = [
        "reserve",
        "index_insert",
        "stamp",
        "directory",
        "commit",
        "committed",
    ];
    let rounds = number("HOWDAH_CRASH_ROUNDS", 12) as usize;
    let (primary, mut session) = start_with_table("crash-compaction")?;
    session.batch_execute(
        "CREATE EXTENSION amcheck; CREATE TABLE h (LIKE t INCLUDING ALL) USING heap;
         INSERT INTO h SELECT * FROM t; CHECKPOINT",
    )?;
    for round in 0..rounds {
        let point = POINTS[round % POINTS.len()];
        let first = 1_000_000 * (round + 1);
        let mut session = primary.session()?;
        session.batch_execute(&format!(
            "SET howdah.bulk_load = off;
             INSERT INTO t SELECT i, i % 100, 'word ' || i FROM generate_series({first}, {first} + 999) i;
             INSERT INTO h SELECT * FROM t WHERE id >= {first};
             SET howdah.debug_crash_point = '{point}'"
        ))?;
        let end = outcome(&mut session, "CALL howdah.compact('t')");
        ensure!(end != "0 rows", "round {round} survived {point}");
        primary.crash_and_recover()?;
        let mut session = primary.session()?;
        same_as_twin(&mut session).with_context(|| format!("round {round}, after {point}"))?;
        if round % 3 == 2 {
            session.batch_execute("CALL howdah.compact('t')")?;
            same_as_twin(&mut session)
                .with_context(|| format!("round {round}, compacted after {point}"))?;
        }
    }
    Ok(())
}
