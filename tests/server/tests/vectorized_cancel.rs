//! Vectorized plans of every shape that are cancelled, timed out or terminated at random moments,
//! while other sessions run such plans too: each is over at once, and nothing is left behind.
//!
//! Left would be: threads, locks, pins, open files, temporary files, memory of the session, a
//! thread less in the server's budget, a leak that the server's log reports. `HOWDAH_CANCEL_CASES`
//! and `HOWDAH_CANCEL_SEED` choose longer and other runs, `HOWDAH_CANCEL_LOAD` the number of other
//! sessions, `HOWDAH_CANCEL_LATE` how many of a hundred may be late; with `HOWDAH_CANCEL_ENGINE=0`
//! it is PostgreSQL's own plans that are stopped, for comparison.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use howdah_server_tests::checks::nothing_crashed;
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::process;
use howdah_server_tests::settings::number;
use postgres::Client;
use postgres::error::SqlState;

const SETTINGS: [(&str, &str); 5] = [
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("howdah.threads", "2"),
    ("howdah.max_threads", "6"),
    ("log_min_messages", "warning"),
];
/// How soon statements are over, although other sessions keep the processors busy. On an idle
/// machine that is all of them.
const GOAL: Duration = Duration::from_millis(50);
/// How many of a hundred may take longer, because the process that is told waits for a processor:
/// where Linux schedules sessions in groups of their own (`kernel.sched_autogroup_enabled`), one
/// that can run may get no processor for 80 ms. Without that, and with nothing else on the machine,
/// none takes longer: `HOWDAH_CANCEL_LATE=0`.
const MOST_LATE_PERCENT: u64 = 10;
/// How soon each of them is, whatever else the machine does.
const AT_LAST: Duration = Duration::from_millis(600);
/// What a session may grow by in each half of the cases: what the allocator cannot give back,
/// because it lies between what is in use.
const MOST_GROWTH_BYTES: u64 = 16 << 20;
/// Files that PostgreSQL may have opened for later use, such as further segments.
const MOST_FILES: usize = 8;
/// Repetitions that make a statement last long enough for any moment.
const REPEATED: usize = 60;

/// Grouping by few and many keys, by text, with exact sums; first rows, also of wide rows; first
/// groups; LIKE over text; wide and big texts; partitions; marked and hot rows; prepared, in
/// functions, in cursors, as the source of a change.
const STATEMENTS: [&str; 30] = [
    "SELECT k % 100000, count(*), sum(id) FROM t GROUP BY 1 OFFSET 10000000",
    "SELECT w, k, max(f) FROM t GROUP BY 1, 2 OFFSET 10000000",
    "SELECT id, w FROM t WHERE w LIKE '%a%b%c%' ORDER BY f DESC LIMIT 10",
    "SELECT sum(f * f), avg(k) FROM t WHERE w LIKE '%1%2%3%' OR k % 7 = 3",
    "SELECT DISTINCT w FROM t OFFSET 10000000",
    "SELECT k % 10, avg(n), sum(n), count(DISTINCT k % 3) FROM t GROUP BY 1 OFFSET 100",
    "SELECT k % 50000, avg(n) FROM t WHERE id % 3 > 0 GROUP BY 1 ORDER BY 2 DESC LIMIT 5",
    "SELECT w, id, f FROM t ORDER BY w, id LIMIT 20000 OFFSET 19990",
    "SELECT k % 100000, count(*), sum(id) FROM parts GROUP BY 1 OFFSET 10000000",
    "SELECT id, w FROM parts WHERE w LIKE '%a%b%c%' ORDER BY f DESC LIMIT 10",
    "SELECT w, count(*) FROM parts GROUP BY 1 HAVING count(*) > 5",
    "SELECT max(body), count(*) FILTER (WHERE body LIKE '%beef%') FROM wide",
    "SELECT body, count(*) FROM wide GROUP BY 1 OFFSET 10000000",
    "SELECT w, sum(id) FROM t GROUP BY 1 ORDER BY 1 DESC LIMIT 2000 OFFSET 1990",
    "SELECT id, body FROM wide ORDER BY body DESC LIMIT 900 OFFSET 890",
    "SELECT * FROM wide ORDER BY id DESC LIMIT 600 OFFSET 590",
    "SELECT max(body), count(*) FILTER (WHERE body LIKE '%beef%') FROM big",
    "SELECT max(body) FROM hotbig WHERE body LIKE '%feed%'",
    "SELECT count(*) FROM big WHERE md5(body) > '3'",
    "SELECT grouped_often()",
    "EXECUTE prepared",
    "DECLARE c NO SCROLL CURSOR FOR SELECT k % 90000, count(*) FROM t GROUP BY 1; FETCH 10 FROM c; CLOSE c",
    "DECLARE c SCROLL CURSOR FOR SELECT id, w FROM t ORDER BY w LIMIT 3000; FETCH LAST FROM c; FETCH FIRST FROM c; CLOSE c",
    "INSERT INTO sink SELECT k % 5000, count(*) FROM t GROUP BY 1; DELETE FROM sink",
    // Threads wait for values that PostgreSQL evaluates.
    "SELECT md5(w), count(*), sum(id) FROM t WHERE upper(w) > '3' GROUP BY 1 OFFSET 10000000",
    "SELECT sum(naps(id)) FROM t WHERE id % 50000 = 3",
    "SELECT sum(asks(id)) FROM t WHERE id % 50000 = 3",
    // Lists that make each row dear.
    "SELECT count(*) FROM t WHERE id < 9000 AND w LIKE ANY (ARRAY(SELECT '%x' || i || '%' FROM generate_series(1, 2000) i))",
    "SELECT count(*) FROM t WHERE id < 9000 AND w < ANY (ARRAY(SELECT '0' || i FROM generate_series(1, 2000) i))",
    "SELECT count(*) FROM docs WHERE j ?| ARRAY(SELECT 'b' || i FROM generate_series(1, 2000) i)",
];
/// Partitions of the table `parts`.
const PARTITIONS: usize = 30;
/// Half of the settings leave large groupings to PostgreSQL, whose own nodes spill.
const MEMORY: [&str; 4] = ["64kB", "1MB", "64MB", "256MB"];

/// A function that waits, and one that runs Vectorized plans itself.
const FUNCTIONS: &str = "
    CREATE FUNCTION naps(int) RETURNS int LANGUAGE plpgsql STABLE
        AS 'BEGIN PERFORM pg_sleep(0.01); RETURN $1; END';
    CREATE FUNCTION asks(int) RETURNS int8 LANGUAGE plpgsql STABLE
        AS 'BEGIN RETURN (SELECT sum(k) FROM parts WHERE id > $1); END'";

const PREPARE: &str = "SET howdah.debug_force_vectorized = on; SET client_min_messages = error;
    PREPARE prepared AS SELECT w, count(*), sum(k) FROM parts GROUP BY 1 OFFSET 10000000";

fn make_tables(session: &mut Client) -> anyhow::Result<()> {
    session.batch_execute(
        "CREATE TABLE t USING howdah AS SELECT i AS id, (i::int8 * 7919 % 1000003)::int AS k, (i % 1000) / 8.0::float8 AS f, md5(i::text) AS w,
             (i % 10000)::numeric(10,2) AS n
             FROM generate_series(1, 1000000) i;
         CREATE TABLE parts (LIKE t) PARTITION BY HASH (id);
         CREATE TABLE wide (id int, body text) USING howdah;
         INSERT INTO wide SELECT i, (SELECT string_agg(md5((i + g)::text), '') FROM generate_series(1, 30) g) FROM generate_series(1, 20000) i;
         CREATE TABLE big (id int, body text) USING howdah;
         INSERT INTO big SELECT i, (SELECT string_agg(md5((i + g)::text), '') FROM generate_series(1, 30000) g) FROM generate_series(1, 20) i;
         CREATE TABLE docs USING howdah AS SELECT jsonb_build_object('a', i) AS j FROM generate_series(1, 9000) i;
         CREATE TABLE hotbig (id int, body text) USING howdah;
         CREATE TABLE sink (k int, n int8) USING howdah;
         CREATE FUNCTION grouped_often() RETURNS int8 LANGUAGE plpgsql AS $$
         DECLARE total int8 := 0; one record;
         BEGIN
             FOR one IN SELECT k % 40000 AS k, count(*) AS n FROM t GROUP BY 1 LOOP total := total + one.n; END LOOP;
             RETURN total;
         END $$",
    )?;
    for at in 0..PARTITIONS {
        session.batch_execute(&format!(
            "CREATE TABLE parts_{at} PARTITION OF parts
                 FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {at}) USING howdah"
        ))?;
    }
    session.batch_execute(
        "INSERT INTO parts SELECT * FROM t WHERE id <= 500000;
         DELETE FROM t WHERE id % 17 = 0; UPDATE t SET k = -k WHERE id % 1009 = 0;
         DELETE FROM parts WHERE id % 5 = 0;
         SET howdah.bulk_load = off; INSERT INTO t SELECT * FROM t WHERE id < 60000;
         INSERT INTO hotbig SELECT * FROM big; RESET howdah.bulk_load",
    )?;
    session.batch_execute("VACUUM ANALYZE t, parts, wide, big, hotbig")?;
    session.batch_execute(FUNCTIONS)?;
    Ok(())
}

/// How a statement is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Cancel,
    Timeout,
    Terminate,
}

/// A session whose statements are stopped.
struct Victim {
    session: Client,
    pid: String,
}

impl Victim {
    fn start(primary: &Primary) -> anyhow::Result<Self> {
        let mut session = primary.session()?;
        if number("HOWDAH_CANCEL_ENGINE", 1) == 0 {
            session.batch_execute("SET howdah.vectorized = off")?;
        }
        session.batch_execute(PREPARE)?;
        let pid = query(&mut session, "SELECT pg_backend_pid()")?;
        Ok(Self { session, pid })
    }

    /// Changes settings. The timeout of the statement before holds for this message, too, and may
    /// end it on a busy machine: then nothing is changed yet.
    fn set(&mut self, settings: &str) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            match self.session.batch_execute(settings) {
                Err(error)
                    if error.code() == Some(&SqlState::QUERY_CANCELED)
                        && began.elapsed() < Duration::from_secs(10) => {}
                result => return Ok(result?),
            }
        }
    }

    /// What the session's process keeps after a run that is stopped, which leaves no memory for the
    /// next one as a run that succeeds does. The least of several: a statement may be stopped
    /// before its run begins.
    fn memory_at_rest(&mut self) -> anyhow::Result<u64> {
        let mut least = u64::MAX;
        for threads in [7, 2, 7, 2] {
            let stopped = self.session.batch_execute(&format!(
                "SET howdah.threads = {threads}; SET work_mem = '256MB'; SET statement_timeout = 20;
                 {}",
                STATEMENTS[1]
            ));
            ensure!(stopped.is_err(), "the statement ended by itself");
            self.set("SET statement_timeout = 0")?;
            least = least.min(process::own_memory_bytes(&self.pid)?);
        }
        Ok(least)
    }

    /// Runs the statement on a thread of its own, so often. Returns the victim, the result, and
    /// when it was over.
    fn run(
        mut self,
        statement: &str,
        times: usize,
    ) -> JoinHandle<(Self, Result<(), postgres::Error>, Instant)> {
        let statements = format!("{statement};").repeat(times);
        thread::spawn(move || {
            let result = self.session.batch_execute(&statements);
            (self, result, Instant::now())
        })
    }
}

/// Sessions that run statements until they are told to stop.
struct Load {
    is_over: Arc<AtomicBool>,
    sessions: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Load {
    fn start(primary: &Primary, count: u64) -> anyhow::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut sessions = Vec::new();
        for seed in 0..count {
            let (is_over, mut session) = (Arc::clone(&is_over), primary.session()?);
            session.batch_execute(PREPARE)?;
            sessions.push(thread::spawn(move || {
                let mut dice = Dice::new(seed);
                while !is_over.load(Ordering::Relaxed) {
                    let statement = dice.pick(&STATEMENTS);
                    session
                        .batch_execute(&format!(
                            "SET work_mem = '{}'; {statement}",
                            dice.pick(&MEMORY)
                        ))
                        .with_context(|| format!("nothing stops {statement}"))?;
                }
                Ok(())
            }));
        }
        Ok(Self { is_over, sessions })
    }

    fn end(self) -> anyhow::Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        for session in self.sessions {
            session
                .join()
                .map_err(|_| anyhow::anyhow!("a session's thread panicked"))??;
        }
        Ok(())
    }
}

/// What the last of many statements left.
fn is_clean(watcher: &mut Client, pid: &str) -> anyhow::Result<()> {
    ensure!(process::has_one_thread(pid)?, "threads are left");
    let locks =
        format!("SELECT count(*) FROM pg_locks WHERE pid = {pid} AND locktype <> 'virtualxid'");
    let locks = query(watcher, &locks)?;
    ensure!(locks == "0", "{locks} locks are left");
    Ok(())
}

/// Tries for a second: other processes of the server pin pages for moments.
fn nothing_is_pinned(watcher: &mut Client) -> anyhow::Result<()> {
    let pinned =
        "SELECT relfilenode, relblocknumber FROM pg_buffercache WHERE pinning_backends > 0";
    let mut left = String::new();
    for _ in 0..50 {
        left = query(watcher, pinned)?;
        if left.is_empty() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    bail!("pages are pinned: {left}")
}

fn print_distribution(what: &str, late: &mut [Duration]) {
    late.sort_unstable();
    let at = |percent: usize| late.get(late.len().saturating_sub(1) * percent / 100);
    let (Some(median), Some(tenth), Some(last), Some(most)) = (at(50), at(90), at(99), at(100))
    else {
        return;
    };
    println!(
        "{} {what}: over after {median:?} (median), {tenth:?} (90 %), {last:?} (99 %), {most:?} (all)",
        late.len(),
    );
    let later = late.iter().filter(|over| **over > GOAL).count();
    println!("{later} of them after more than {GOAL:?}");
}

#[test]
fn what_is_stopped_is_over_at_once_and_leaves_nothing() -> anyhow::Result<()> {
    let primary = Primary::start("vectorized-cancel", &SETTINGS)?;
    let mut watcher = primary.session()?;
    watcher.batch_execute("CREATE EXTENSION pg_buffercache")?;
    make_tables(&mut watcher)?;
    let mut dice = Dice::new(number("HOWDAH_CANCEL_SEED", 1));
    let case_count = number("HOWDAH_CANCEL_CASES", 70);
    let mut late: Vec<(Stop, Duration)> = Vec::new();

    // One session is stopped over and over; those that are terminated are sessions of their own.
    let mut lasting = Victim::start(&primary)?;
    // Its caches are filled before anything is measured.
    for statement in STATEMENTS {
        for memory in [MEMORY[0], MEMORY[3]] {
            (lasting.session).batch_execute(&format!("SET work_mem = '{memory}'; {statement}"))?;
        }
    }
    let kept = (
        lasting.memory_at_rest()?,
        process::open_file_count(&lasting.pid)?,
    );
    let mut lasting = Some(lasting);
    let load = Load::start(&primary, number("HOWDAH_CANCEL_LOAD", 2))?;
    let mut shapes: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    let mut worst: Vec<(Duration, String)> = Vec::new();
    // The session's memory when half of the cases are over.
    let mut half = 0;
    for case in 0..case_count {
        let statement = *dice.pick(&STATEMENTS);
        let memory = dice.pick(&MEMORY);
        let threads = dice.pick(&[0, 1, 2, 2, 7]);
        let stop = *dice.pick(&[
            Stop::Cancel,
            Stop::Cancel,
            Stop::Timeout,
            Stop::Timeout,
            Stop::Terminate,
        ]);
        // A timeout counts from the start of each statement in a message.
        let is_one = !statement.contains(';');
        let stop = match stop {
            Stop::Timeout if !is_one => Stop::Cancel,
            stop => stop,
        };
        let (longest, times) = match stop {
            Stop::Timeout => (60, 1),
            _ => (150, REPEATED),
        };
        let moment = Duration::from_millis(1 + dice.below(longest) as u64);
        let timeout = match stop {
            Stop::Timeout => moment.as_millis(),
            _ => 0,
        };
        let mut victim = match (stop, lasting.take()) {
            (Stop::Cancel | Stop::Timeout, Some(lasting)) => lasting,
            (_, kept) => {
                lasting = kept;
                Victim::start(&primary)?
            }
        };
        victim.set(&format!(
            "SET work_mem = '{memory}'; SET howdah.threads = {threads}; SET statement_timeout = {timeout}"
        ))?;
        let pid = victim.pid.clone();
        let began = Instant::now();
        let running = victim.run(statement, times);
        let signalled = match stop {
            Stop::Timeout => began + moment,
            Stop::Cancel | Stop::Terminate => {
                // An idle session ignores a cancel.
                let state = format!("SELECT state FROM pg_stat_activity WHERE pid = {pid}");
                while query(&mut watcher, &state)? != "active" && !running.is_finished() {}
                thread::sleep(moment);
                let function = match stop {
                    Stop::Cancel => "pg_cancel_backend",
                    _ => "pg_terminate_backend",
                };
                let at = Instant::now();
                let sent = query(&mut watcher, &format!("SELECT {function}({pid})"))?;
                ensure!(sent == "t", "case {case}: no signal was sent");
                at
            }
        };
        let (back, result, ended) = running
            .join()
            .map_err(|_| anyhow::anyhow!("the victim's thread panicked"))?;
        let say = || {
            format!(
                "case {case}, {stop:?} after {moment:?}, {threads} threads, work_mem {memory}: {statement}"
            )
        };
        let over = ended.saturating_duration_since(signalled);
        let Err(error) = result else {
            ensure!(stop == Stop::Timeout, "{}: it ended by itself", say());
            lasting = Some(back);
            continue;
        };
        let code = error.code().map_or("none", |code| code.code());
        ensure!(over < AT_LAST, "{}: it went on for {over:?}", say());
        late.push((stop, over));
        shapes.entry(statement).or_default().push(over);
        worst.push((over, say()));
        match stop {
            Stop::Terminate => {
                // The message of a terminated process may be lost with its connection.
                ensure!(["57P01", "none"].contains(&code), "{}: {error:?}", say());
                ensure!(process::is_gone(&pid), "{}: the process lives on", say());
            }
            Stop::Cancel | Stop::Timeout => {
                ensure!(code == "57014", "{}: {error:?}", say());
                let mut back = back;
                back.session.batch_execute("SET statement_timeout = 0")?;
                is_clean(&mut watcher, &pid).with_context(say)?;
                if half == 0 && case * 2 >= case_count {
                    half = back.memory_at_rest()?;
                }
                lasting = Some(back);
            }
        }
    }
    load.end()?;

    let mut lasting = lasting.context("the session is gone")?;
    let memory = lasting.memory_at_rest()?;
    is_clean(&mut watcher, &lasting.pid)?;
    let files = process::open_file_count(&lasting.pid)?;
    println!(
        "the session grew from {} to {} to {memory} bytes, from {} to {files} files",
        kept.0, half, kept.1
    );
    ensure!(
        files <= kept.1 + MOST_FILES,
        "{files} files are open, {} were",
        kept.1
    );
    ensure!(
        half <= kept.0 + MOST_GROWTH_BYTES && memory <= half + MOST_GROWTH_BYTES,
        "{memory} bytes are kept, {half} were, {} before",
        kept.0
    );
    nothing_is_pinned(&mut watcher)?;
    let files = query(&mut watcher, "SELECT count(*) FROM pg_ls_tmpdir()")?;
    ensure!(files == "0", "{files} temporary files are left");
    all_threads_were_returned(&mut watcher)?;
    let log = fs::read_to_string(&primary.log)?;
    for word in [
        "leak",
        "still referenced",
        "PANIC",
        "terminated by signal",
        "panicked",
    ] {
        ensure!(!log.contains(word), "the server's log speaks of {word:?}");
    }

    for (statement, over) in &shapes {
        let most = over.iter().max().copied().unwrap_or_default();
        println!("{most:?} at most, {} times: {statement}", over.len());
    }
    worst.sort_unstable_by_key(|(over, _)| std::cmp::Reverse(*over));
    for (over, case) in worst.iter().take(5) {
        println!("{over:?}: {case}");
    }
    ensure!(
        late.len() as u64 * 2 >= case_count,
        "{} statements were stopped only",
        late.len()
    );
    let too_late = late.iter().filter(|(_, over)| *over > GOAL).count();
    for kind in [Stop::Cancel, Stop::Timeout, Stop::Terminate] {
        let mut of_kind: Vec<Duration> = late
            .iter()
            .filter(|(stop, _)| *stop == kind)
            .map(|(_, over)| *over)
            .collect();
        print_distribution(&format!("{kind:?}"), &mut of_kind);
    }
    let most_late_percent = number("HOWDAH_CANCEL_LATE", MOST_LATE_PERCENT);
    ensure!(
        too_late as u64 * 100 <= late.len() as u64 * most_late_percent,
        "{too_late} of {} statements took longer than {GOAL:?} to end",
        late.len()
    );
    Ok(())
}

/// Threads that a plan gets.
fn threads_used(session: &mut Client) -> anyhow::Result<String> {
    let plan = session.query(
        "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF) SELECT k % 10, count(*) FROM parts GROUP BY 1",
        &[],
    )?;
    let lines = plan.iter().map(|row| row.get::<_, String>(0));
    lines
        .map(|line| line.trim().to_owned())
        .find(|line| line.starts_with("Threads:"))
        .context("the plan tells no threads")
}

/// A plan gets as many threads as the server has in all, and none if it may have none.
fn all_threads_were_returned(session: &mut Client) -> anyhow::Result<()> {
    session.batch_execute(
        "SET howdah.debug_force_vectorized = on; SET work_mem = '64MB'; SET howdah.threads = 7",
    )?;
    let used = threads_used(session)?;
    ensure!(used == "Threads: 6", "threads were not given back: {used}");
    session.batch_execute("SET howdah.threads = 0")?;
    ensure!(threads_used(session)? == "Threads: 0");
    Ok(())
}

#[test]
fn a_panic_of_a_thread_is_one_error_of_one_statement() -> anyhow::Result<()> {
    let primary = Primary::start("vectorized-panic", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE parts USING howdah AS SELECT i AS k FROM generate_series(1, 400000) i; ANALYZE parts;
         SET howdah.debug_force_vectorized = on; SET howdah.threads = 6",
    )?;
    let pid = query(&mut session, "SELECT pg_backend_pid()")?;
    let counting = "SELECT k % 10, count(*) FROM parts GROUP BY 1 ORDER BY 1 LIMIT 1";
    let used = threads_used(&mut session)?;
    ensure!(used != "Threads: 0");
    for _ in 0..20 {
        session.batch_execute("SET howdah.debug_panic_point = 'vector-thread'")?;
        let error = session.batch_execute(counting).expect_err("a panic");
        let error = error.as_db_error().context("an error of the server's")?;
        ensure!(error.code().code() == "XX000", "{error:?}");
        ensure!(
            error.message().contains("as asked at vector-thread"),
            "{error:?}"
        );
        ensure!(process::has_one_thread(&pid)?, "threads are left");
        session.batch_execute("RESET howdah.debug_panic_point")?;
        ensure!(query(&mut session, counting)? == "0|40000");
    }
    // In a block, the panic leaves what was done before it.
    session.batch_execute("CREATE TABLE kept (n int) USING howdah; BEGIN; INSERT INTO kept VALUES (1); SAVEPOINT s; SET LOCAL howdah.debug_panic_point = 'vector-thread'")?;
    ensure!(session.batch_execute(counting).is_err());
    session.batch_execute("ROLLBACK TO s; COMMIT")?;
    ensure!(query(&mut session, "SELECT count(*) FROM kept")? == "1");
    nothing_crashed(&primary.log)?;
    let lives = query(&mut session, "SELECT pg_backend_pid()")?;
    ensure!(lives == pid);
    ensure!(
        threads_used(&mut session)? == used,
        "threads were not given back"
    );
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
