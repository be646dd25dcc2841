//! Vectorized plans that are cancelled, timed out or terminated at any moment: they end at once,
//! and nothing is left behind.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::settings::number;
use postgres::Client;

const SETTINGS: [(&str, &str); 4] = [
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("howdah.threads", "2"),
    // As many as one plan uses, so that the next plan would lack a thread that is not returned.
    ("howdah.max_threads", "2"),
];
/// Other tests may be running; alone the tests need a tenth of it.
const SOON: Duration = Duration::from_millis(500);
const STATEMENTS: [&str; 9] = [
    "SELECT k % 100000, count(*), sum(id) FROM t GROUP BY 1 OFFSET 10000000",
    "SELECT w, k, max(f) FROM t GROUP BY 1, 2 OFFSET 10000000",
    "SELECT id, w FROM t WHERE w LIKE '%a%b%c%' ORDER BY f DESC LIMIT 10",
    "SELECT sum(f * f), avg(k) FROM t WHERE w LIKE '%1%2%3%' OR k % 7 = 3",
    "SELECT k % 100000, count(*), sum(id) FROM parts GROUP BY 1 OFFSET 10000000",
    "SELECT id, w FROM parts WHERE w LIKE '%a%b%c%' ORDER BY f DESC LIMIT 10",
    // Threads wait for values that PostgreSQL evaluates.
    "SELECT md5(w), count(*), sum(id) FROM t WHERE upper(w) > '3' GROUP BY 1 OFFSET 10000000",
    SLOW,
    "SELECT sum(asks(id)) FROM t WHERE id % 50 = 3",
];
const SLOW: &str = "SELECT sum(naps(id)) FROM t WHERE id % 50 = 3";
/// A function that waits, and one that runs Vectorized plans itself.
const FUNCTIONS: &str = "
    CREATE FUNCTION naps(int) RETURNS int LANGUAGE plpgsql STABLE
        AS 'BEGIN PERFORM pg_sleep(0.01); RETURN $1; END';
    CREATE FUNCTION asks(int) RETURNS int8 LANGUAGE plpgsql STABLE
        AS 'BEGIN RETURN (SELECT sum(k) FROM parts WHERE id > $1); END'";
/// Partitions of the table `parts`.
const PARTITIONS: usize = 50;

/// Whether the process has one thread. A thread that has done its work still exists for a moment.
fn is_alone(pid: &str) -> anyhow::Result<bool> {
    for _ in 0..100 {
        if fs::read_dir(format!("/proc/{pid}/task"))?.count() == 1 {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(false)
}

/// Threads that a plan gets.
fn threads_used(session: &mut Client) -> anyhow::Result<String> {
    let plan = session.query(
        "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF) SELECT k % 10, count(*) FROM t GROUP BY 1",
        &[],
    )?;
    let lines = plan.iter().map(|row| row.get::<_, String>(0));
    lines
        .map(|line| line.trim().to_owned())
        .find(|line| line.starts_with("Threads:"))
        .context("the plan tells no threads")
}

#[test]
fn what_is_stopped_is_over_at_once_and_leaves_nothing() -> anyhow::Result<()> {
    let primary = Primary::start("vectorized-cancel", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t USING howdah AS SELECT i AS id, (i::int8 * 7919 % 1000003)::int AS k, (i % 1000) / 8.0::float8 AS f, md5(i::text) AS w
             FROM generate_series(1, 1500000) i;
         ANALYZE t; SET work_mem = '256MB'; SET howdah.debug_force_vectorized = on",
    )?;
    session.batch_execute("CREATE TABLE parts (LIKE t) PARTITION BY HASH (id)")?;
    for at in 0..PARTITIONS {
        session.batch_execute(&format!(
            "CREATE TABLE parts_{at} PARTITION OF parts
                 FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {at}) USING howdah"
        ))?;
    }
    session.batch_execute("INSERT INTO parts SELECT * FROM t WHERE id <= 700000; ANALYZE parts")?;
    session.batch_execute(FUNCTIONS)?;
    let pid = query(&mut session, "SELECT pg_backend_pid()")?;
    ensure!(threads_used(&mut session)? == "Threads: 2");
    let mut dice = Dice::new(number("HOWDAH_CANCEL_SEED", 1));
    let (mut cancelled, mut late) = (0, Duration::ZERO);
    for _ in 0..number("HOWDAH_CANCEL_CASES", 60) {
        let statement = *dice.pick(&STATEMENTS);
        let timeout = Duration::from_millis(1 + dice.below(150) as u64);
        session.batch_execute(&format!("SET statement_timeout = {}", timeout.as_millis()))?;
        let began = Instant::now();
        let result = session.batch_execute(statement);
        let over = began.elapsed().saturating_sub(timeout);
        if let Err(error) = result {
            let code = error.code().map_or("none", |code| code.code());
            ensure!(code == "57014", "{statement}: {error:?}");
            cancelled += 1;
            late = late.max(over);
            ensure!(over < SOON, "{statement} went on for {over:?}");
        }
        session.batch_execute("SET statement_timeout = 0")?;
        ensure!(is_alone(&pid)?, "threads are left");
    }
    println!("{cancelled} statements were cancelled, the last of them {late:?} late");
    ensure!(cancelled > 20, "{cancelled} statements were cancelled only");
    ensure!(
        threads_used(&mut session)? == "Threads: 2",
        "threads were not given back"
    );

    // A process that is terminated in the middle of a run returns its threads as well.
    for (after, stopped) in [(5, STATEMENTS[1]), (30, STATEMENTS[1]), (80, SLOW)] {
        let mut victim = primary.session()?;
        let victim_pid = query(&mut victim, "SELECT pg_backend_pid()")?;
        victim.batch_execute("SET work_mem = '256MB'; SET howdah.debug_force_vectorized = on")?;
        let statement = thread::spawn(move || {
            loop {
                if victim.batch_execute(stopped).is_err() {
                    return;
                }
            }
        });
        thread::sleep(Duration::from_millis(after));
        query(
            &mut session,
            &format!("SELECT pg_terminate_backend({victim_pid}, 10000)"),
        )?;
        statement
            .join()
            .map_err(|_| anyhow::anyhow!("the session's thread panicked"))?;
        ensure!(
            threads_used(&mut session)? == "Threads: 2",
            "threads were not given back"
        );
    }
    // A plan that starts while all threads are in use gets none: it does its work itself.
    session.batch_execute("SET howdah.threads = 0")?;
    ensure!(threads_used(&mut session)? == "Threads: 0");
    Ok(())
}

#[test]
fn what_a_session_waits_for_is_shown() -> anyhow::Result<()> {
    let primary = Primary::start("vectorized-wait", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t USING howdah AS SELECT i AS id, md5(i::text) AS w FROM generate_series(1, 600000) i;
         ANALYZE t; SET work_mem = '256MB'; SET howdah.debug_force_vectorized = on",
    )?;
    let pid = query(&mut session, "SELECT pg_backend_pid()")?;
    let worker = thread::spawn(move || -> anyhow::Result<Client> {
        for _ in 0..5 {
            session.batch_execute("SELECT w, count(*) FROM t GROUP BY 1 OFFSET 10000000")?;
        }
        Ok(session)
    });
    let mut watcher = primary.session()?;
    let waits = format!(
        "SELECT coalesce(wait_event_type || ' ' || wait_event, '') FROM pg_stat_activity WHERE pid = {pid}"
    );
    let mut was_seen = false;
    while !worker.is_finished() && !was_seen {
        was_seen = query(&mut watcher, &waits)? == "Extension HowdahVectorized";
    }
    let session = worker
        .join()
        .map_err(|_| anyhow::anyhow!("the session's thread panicked"))??;
    ensure!(was_seen, "the wait event was never shown");
    ensure!(
        query(&mut watcher, &waits)? != "Extension HowdahVectorized",
        "the wait event stays"
    );
    drop(session);
    Ok(())
}
