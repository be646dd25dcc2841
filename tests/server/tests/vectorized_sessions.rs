//! Many sessions that run vectorized plans at once: they share the server's few threads, a table
//! that shared buffers cannot hold, and pages that are evicted under them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::process::{has_one_thread, own_memory_bytes, thread_count};
use postgres::Client;

const SESSIONS: usize = 200;
const MAX_THREADS: usize = 4;
/// A look at all processes that takes no longer shows one moment.
const QUICK_LOOK: Duration = Duration::from_millis(20);

fn joined<T>(threads: Vec<JoinHandle<anyhow::Result<T>>>) -> anyhow::Result<Vec<T>> {
    let results = threads.into_iter().map(|thread| {
        let result = thread.join();
        result.map_err(|_| anyhow::anyhow!("a session's thread panicked"))?
    });
    results.collect()
}

#[test]
fn two_hundred_sessions_start_few_threads() -> anyhow::Result<()> {
    let primary = Primary::start(
        "vectorized-sessions",
        &[
            ("howdah.compaction", "off"),
            ("autovacuum", "off"),
            ("max_connections", "220"),
            ("howdah.threads", "8"),
            ("howdah.max_threads", "4"),
        ],
    )?;
    let mut watcher = primary.session()?;
    watcher.batch_execute(
        "CREATE TABLE t USING howdah AS SELECT i AS id, i % 1000 AS k, md5(i::text) AS w FROM generate_series(1, 300000) i;
         ANALYZE t",
    )?;
    let text = "SELECT k % 7, count(*), sum(id), max(w) FROM t GROUP BY 1 ORDER BY 1";
    let answer = query(&mut watcher, text)?;
    let (mut pids, mut sessions) = (Vec::new(), Vec::new());
    for _ in 0..SESSIONS {
        let mut session = primary.session()?;
        session.batch_execute("SET howdah.debug_force_vectorized = on; SET work_mem = '32MB'")?;
        pids.push(query(&mut session, "SELECT pg_backend_pid()")?);
        sessions.push(session);
    }
    let running: Vec<_> = sessions
        .into_iter()
        .map(|mut session| {
            let answer = answer.clone();
            thread::spawn(move || -> anyhow::Result<Client> {
                for _ in 0..2 {
                    let got = query(&mut session, text)?;
                    ensure!(got == answer, "{got}");
                }
                Ok(session)
            })
        })
        .collect();
    let (mut most, mut looks) = (0, 0);
    while running.iter().any(|one| !one.is_finished()) {
        let began = Instant::now();
        let more = pids
            .iter()
            .map(|pid| Ok(thread_count(pid)?.saturating_sub(1)))
            .sum::<anyhow::Result<usize>>()?;
        // The processes are looked at one after the other, while threads end and others start: a
        // look that was interrupted counts threads of several moments.
        if more <= 3 * MAX_THREADS || began.elapsed() < QUICK_LOOK {
            most = most.max(more);
        }
        looks += 1;
        thread::sleep(Duration::from_millis(5));
    }
    let sessions = joined(running)?;
    println!("{SESSIONS} sessions had {most} threads at most, as seen {looks} times");
    ensure!(most > 0 && most <= 3 * MAX_THREADS, "{most} threads");
    for pid in &pids {
        ensure!(has_one_thread(pid)?, "threads are left");
    }
    drop(sessions);
    Ok(())
}

/// Texts that are wide, few, many; the order of their result is total.
const QUERIES: [&str; 6] = [
    "SELECT count(*), min(wide), max(wide) FROM t",
    "SELECT k, count(*), max(wide) FROM t GROUP BY k ORDER BY k LIMIT 40",
    "SELECT id, wide FROM t WHERE wide LIKE '%abc%def%' ORDER BY wide, id LIMIT 5",
    "SELECT id, k FROM t WHERE id % 1000 = 7 ORDER BY k DESC, id LIMIT 30",
    "SELECT few, count(*), sum(id) FROM t GROUP BY few ORDER BY few",
    "SELECT count(DISTINCT wide), count(wide) FROM t WHERE k < 20",
];

#[test]
fn fifty_sessions_read_a_table_beyond_shared_buffers() -> anyhow::Result<()> {
    let primary = Primary::start(
        "vectorized-beyond",
        &[
            ("howdah.compaction", "off"),
            ("autovacuum", "off"),
            ("shared_buffers", "16MB"),
            ("max_connections", "70"),
            ("howdah.threads", "2"),
            ("howdah.max_threads", "8"),
        ],
    )?;
    let mut watcher = primary.session()?;
    watcher.batch_execute(
        "CREATE EXTENSION pg_buffercache;
         CREATE TABLE t (id int, k int, few text, wide text COLLATE \"C\") USING howdah;
         INSERT INTO t SELECT i, i % 100, 'w' || i % 9, (SELECT string_agg(md5((i * 31 + g)::text), '') FROM generate_series(1, 40) g)
             FROM generate_series(1, 40000) i;
         DELETE FROM t WHERE id % 11 = 3; ANALYZE t; CHECKPOINT",
    )?;
    let megabytes: u64 = query(&mut watcher, "SELECT pg_table_size('t') >> 20")?.parse()?;
    ensure!(megabytes > 20, "the table has {megabytes} MB only");
    watcher.batch_execute("SET howdah.vectorized = off; SET jit = off")?;
    let answers = QUERIES.map(|text| query(&mut watcher, text));
    let answers = Arc::new(answers.into_iter().collect::<Result<Vec<_>, _>>()?);
    let is_over = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicUsize::new(0));
    let mut readers = Vec::new();
    for seed in 0..50 {
        let (mut session, answers) = (primary.session()?, Arc::clone(&answers));
        let (is_over, asked) = (Arc::clone(&is_over), Arc::clone(&asked));
        readers.push(thread::spawn(move || -> anyhow::Result<()> {
            session.batch_execute("SET howdah.debug_force_vectorized = on; SET jit = off")?;
            let mut dice = Dice::new(seed);
            while !is_over.load(Ordering::Relaxed) {
                let at = dice.below(QUERIES.len());
                session.batch_execute(&format!(
                    "SET work_mem = '{}'",
                    dice.pick(&["64kB", "4MB", "64MB"])
                ))?;
                let got = query(&mut session, QUERIES[at])?;
                ensure!(got == answers[at], "{}: {got:.500}", QUERIES[at]);
                asked.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }));
    }
    // As long as it takes on a busy machine.
    let began = Instant::now();
    let mut evicted = 0;
    let is_enough = |evicted: u64| asked.load(Ordering::Relaxed) >= 50 && evicted > 1000;
    let has_time = |evicted: u64| match is_enough(evicted) {
        true => began.elapsed() < Duration::from_secs(6),
        false => began.elapsed() < Duration::from_secs(90),
    };
    while has_time(evicted) && readers.iter().all(|reader| !reader.is_finished()) {
        evicted += query(
            &mut watcher,
            "SELECT buffers_evicted FROM pg_buffercache_evict_all()",
        )?
        .parse::<u64>()?;
        thread::sleep(Duration::from_millis(50));
    }
    is_over.store(true, Ordering::Relaxed);
    joined(readers)?;
    let is_enough = is_enough(evicted);
    let asked = asked.load(Ordering::Relaxed);
    println!("{asked} queries of {megabytes} MB, {evicted} pages evicted under them");
    ensure!(is_enough, "{asked} queries, {evicted} pages evicted");
    Ok(())
}

/// What the engine may add to the memory of a session: the code's own data, and what the allocator
/// keeps of a run that is over.
const MOST_MORE_BYTES: u64 = 1 << 20;
/// What the first query of a session may take longer.
const MOST_MORE_TIME: Duration = Duration::from_millis(3);

#[test]
fn a_session_keeps_little_after_its_first_queries() -> anyhow::Result<()> {
    let primary = Primary::start(
        "vectorized-first",
        &[("howdah.compaction", "off"), ("autovacuum", "off")],
    )?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t USING howdah AS SELECT i AS id, i % 1000 AS k FROM generate_series(1, 300000) i;
         ANALYZE t",
    )?;
    let grown = |settings: &str| -> anyhow::Result<(u64, Duration)> {
        let mut session = primary.session()?;
        session.batch_execute(&format!(
            "{settings}; SET jit = off; SET max_parallel_workers_per_gather = 0"
        ))?;
        let pid = query(&mut session, "SELECT pg_backend_pid()")?;
        let before = own_memory_bytes(&pid)?;
        let began = Instant::now();
        query(
            &mut session,
            "SELECT k, count(*) FROM t WHERE id < 1000 GROUP BY k ORDER BY 1 LIMIT 3",
        )?;
        let took = began.elapsed();
        query(
            &mut session,
            "SELECT k, count(*), sum(id) FROM t GROUP BY k ORDER BY 1 LIMIT 3",
        )?;
        Ok((own_memory_bytes(&pid)?.saturating_sub(before), took))
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        theirs.push(grown("SET howdah.vectorized = off")?);
        ours.push(grown(
            "SET howdah.debug_force_vectorized = on; SET howdah.threads = 2",
        )?);
    }
    // Other tests run beside this one and can only make a run slower: the fastest counts.
    let usual = |all: &[(u64, Duration)]| -> anyhow::Result<(u64, Duration)> {
        let mut bytes: Vec<u64> = all.iter().map(|one| one.0).collect();
        bytes.sort_unstable();
        Ok((
            *bytes.get(all.len() / 2).context("no run")?,
            all.iter().map(|one| one.1).min().context("no run")?,
        ))
    };
    let (ours, theirs) = (usual(&ours)?, usual(&theirs)?);
    println!(
        "bytes kept, and time of the first query: {ours:?} by the engine, {theirs:?} by PostgreSQL's nodes"
    );
    ensure!(
        ours.0 <= theirs.0 + MOST_MORE_BYTES,
        "{} bytes more",
        ours.0.saturating_sub(theirs.0)
    );
    ensure!(
        ours.1 <= theirs.1 + MOST_MORE_TIME,
        "the first query takes {:?} longer",
        ours.1.saturating_sub(theirs.1)
    );
    Ok(())
}

/// The JIT flags of the plan of a query, by the server's log.
fn compilation_asked_for(
    primary: &Primary,
    session: &mut Client,
    sql: &str,
) -> anyhow::Result<u32> {
    query(session, sql)?;
    let log = std::fs::read_to_string(&primary.log)?;
    let (_, after) = log
        .rsplit_once(":jitFlags ")
        .context("no plan in the log")?;
    let digits = after.split_whitespace().next().unwrap_or_default();
    Ok(digits.parse()?)
}

#[test]
fn no_compilation_is_asked_for_what_the_engine_computes() -> anyhow::Result<()> {
    let primary = Primary::start("vectorized-jit", &[])?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t USING howdah AS SELECT i AS id, i % 1000 AS k FROM generate_series(1, 100000) i;
         ANALYZE t; SET jit = on; SET jit_above_cost = 200; SET debug_print_plan = on;
         SET howdah.debug_force_vectorized = on",
    )?;
    let by_engine = "SELECT k, count(*) FROM t GROUP BY k";
    let dear = "SELECT count(*) FROM generate_series(1, 1000) a, generate_series(1, 100) b";
    let both = format!("SELECT count(*) FROM ({by_engine}) x UNION ALL {dear}");
    let mut flags = |sql: &str| compilation_asked_for(&primary, &mut session, sql);
    assert_eq!(flags(by_engine)?, 0);
    ensure!(flags(&both)? > 0, "the rest is dear by itself");
    session.batch_execute("SET howdah.vectorized = off")?;
    let by_postgres = compilation_asked_for(&primary, &mut session, by_engine)?;
    ensure!(by_postgres > 0, "without the engine it is all PostgreSQL's");
    Ok(())
}

/// Proves nothing on a server without a JIT compiler.
#[test]
fn plans_that_are_run_again_compile_nothing_again() -> anyhow::Result<()> {
    let primary = Primary::start("vectorized-jit-again", &[])?;
    let mut session = primary.session()?;
    if session.query_one("SELECT pg_jit_available()", &[])?.get(0) {
        session.batch_execute(
            "SET howdah.load_threshold = 0;
             CREATE TABLE t USING howdah AS SELECT i AS id, i % 10 AS k, 'w' || i AS w FROM generate_series(1, 1000) i;
             ANALYZE t; SET jit = on; SET jit_above_cost = 0; SET howdah.debug_force_vectorized = on",
        )?;
        let plan = session.query(
            "EXPLAIN ANALYZE SELECT (SELECT max(upper(w)) FROM t WHERE k <> i) FROM generate_series(1, 100) i",
            &[],
        )?;
        let lines: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        ensure!(
            lines
                .iter()
                .any(|line| line.contains("Evaluated by PostgreSQL")),
            "{lines:#?}"
        );
        let functions = (lines.iter())
            .find_map(|line| line.trim().strip_prefix("Functions: "))
            .context("no JIT")?;
        ensure!(functions.parse::<usize>()? < 100, "{functions} functions");
    } else {
        println!("skipped: no JIT compiler");
    }
    Ok(())
}
