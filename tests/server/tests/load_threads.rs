//! Loads whose row groups are encoded by a thread, ended while it runs: by a panic of the thread,
//! by a cancel at any moment, by an error in a savepoint or in a function's block, by a
//! termination. Nothing of the load is left: no row, no thread, no place in the server's budget, no
//! memory.
//!
//! `HOWDAH_LOAD_CANCELS` and `HOWDAH_LOAD_SEED` choose longer and other runs.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{equals_twin, nothing_crashed};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::process;
use howdah_server_tests::settings::number;
use postgres::Client;

/// Row groups of half a megabyte or so, so that a load has many; one thread for the whole server,
/// so that one that is not given back is missed.
const SETTINGS: [(&str, &str); 5] = [
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("howdah.load_threshold", "100"),
    ("howdah.row_group_bytes", "1MB"),
    ("howdah.max_threads", "1"),
];
/// How soon a load is over, whatever else the machine does.
const AT_LAST: Duration = Duration::from_secs(5);
/// What a session may keep of a load that was ten times as large.
const MOST_KEPT_BYTES: u64 = 24 << 20;
const LOAD: &str =
    "INSERT INTO t SELECT i, i % 100, md5(i::text) FROM generate_series(1, 120000) i";
/// Fails when most row groups are full.
const FAILING: &str =
    "INSERT INTO t SELECT i, 1 / (i - 119000), md5(i::text) FROM generate_series(1, 120000) i";
/// Threads run only where the server's budget has one left.
const GETS_A_THREAD: &str = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF) SELECT k % 10, count(*) FROM kept GROUP BY 1";

fn begin(primary: &Primary) -> anyhow::Result<Client> {
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int, k int, w text) USING howdah; CREATE INDEX ON t (id);
         CREATE TABLE kept USING howdah AS SELECT i AS id, i % 100 AS k, md5(i::text) AS w
             FROM generate_series(1, 40000) i;
         INSERT INTO t SELECT * FROM kept;
         CREATE TABLE h USING heap AS SELECT * FROM kept; CREATE INDEX ON h (id);
         ANALYZE kept; SET howdah.debug_force_vectorized = on; SET client_min_messages = error",
    )?;
    Ok(session)
}

/// No thread of the session's is left, the budget is whole, and the table is as it was.
fn is_as_before(session: &mut Client) -> anyhow::Result<()> {
    let pid = query(session, "SELECT pg_backend_pid()")?;
    ensure!(process::has_one_thread(&pid)?, "threads are left");
    let plan = session.query(GETS_A_THREAD, &[])?;
    let has_thread = |row: &postgres::Row| row.get::<_, &str>(0).trim() == "Threads: 1";
    ensure!(
        plan.iter().any(has_thread),
        "no thread can be had: {plan:?}"
    );
    equals_twin(session, "t", "h")
}

/// The SQLSTATE of a statement that must fail, and its message.
fn failure(session: &mut Client, statement: &str) -> anyhow::Result<(String, String)> {
    let error = session.batch_execute(statement).err();
    let error = error.with_context(|| format!("no error: {statement}"))?;
    let db = error.as_db_error().with_context(|| format!("{error:?}"))?;
    Ok((db.code().code().to_owned(), db.message().to_owned()))
}

/// A timeout interrupts the session's whole process group. COPY's program is in it, and when it
/// ends before the session asks for interrupts, PostgreSQL reports that instead, for a heap too.
fn is_stop(error: &postgres::Error) -> bool {
    let Some(error) = error.as_db_error() else {
        return false;
    };
    let detail = error.detail().unwrap_or_default();
    match error.code().code() {
        "57014" => true,
        "38000" => detail.contains("terminated by signal 2"),
        _ => false,
    }
}

#[test]
fn a_panic_of_an_encoding_thread_is_one_error_of_one_statement() -> anyhow::Result<()> {
    let primary = Primary::start("load-panic", &SETTINGS)?;
    let mut session = begin(&primary)?;
    let pid = query(&mut session, "SELECT pg_backend_pid()")?;
    for _ in 0..5 {
        session.batch_execute("SET howdah.debug_panic_point = 'encode-thread'")?;
        let (_, message) = failure(&mut session, LOAD)?;
        ensure!(message.contains("panicked"), "{message}");
        session.batch_execute("RESET howdah.debug_panic_point")?;
        is_as_before(&mut session)?;
    }
    // A savepoint keeps what was done before it; so does the block of a function.
    session.batch_execute(&format!(
        "CREATE FUNCTION load_caught() RETURNS text LANGUAGE plpgsql AS $f$
         BEGIN
             BEGIN {LOAD}; EXCEPTION WHEN OTHERS THEN RETURN SQLERRM; END;
             RETURN 'loaded';
         END $f$"
    ))?;
    session.batch_execute(
        "BEGIN; INSERT INTO t SELECT id + 1000000, k, w FROM kept; SAVEPOINT s;
         SET LOCAL howdah.debug_panic_point = 'encode-thread'",
    )?;
    failure(&mut session, LOAD)?;
    session.batch_execute("ROLLBACK TO s; SET LOCAL howdah.debug_panic_point = 'encode-thread'")?;
    let caught = query(&mut session, "SELECT load_caught()")?;
    ensure!(caught.contains("panicked"), "{caught}");
    session.batch_execute("COMMIT; INSERT INTO h SELECT id + 1000000, k, w FROM kept")?;
    is_as_before(&mut session)?;
    ensure!(query(&mut session, "SELECT pg_backend_pid()")? == pid);
    nothing_crashed(&primary.log)
}

#[test]
fn an_error_in_a_savepoint_ends_the_load_and_nothing_else() -> anyhow::Result<()> {
    let primary = Primary::start("load-savepoint", &SETTINGS)?;
    let mut session = begin(&primary)?;
    session.batch_execute(
        "CREATE FUNCTION fails(int) RETURNS int LANGUAGE plpgsql AS $f$
         BEGIN
             -- A load within a load, in a subtransaction that aborts, while a thread encodes rows of
             -- the outer one.
             BEGIN
                 INSERT INTO t SELECT -i, 1 / (i - 3000), md5(i::text) FROM generate_series(1, 3000) i;
             EXCEPTION WHEN division_by_zero THEN RETURN $1;
             END;
         END $f$;
         CREATE FUNCTION nested(int) RETURNS int LANGUAGE plpgsql AS $f$
         BEGIN
             -- And one that commits.
             BEGIN
                 INSERT INTO t SELECT -i, i % 100, md5(i::text) FROM generate_series(1, 3000) i;
             EXCEPTION WHEN division_by_zero THEN NULL;
             END;
             RETURN $1;
         END $f$"
    )?;
    session.batch_execute(&format!("BEGIN; {LOAD}; SAVEPOINT s"))?;
    let (code, _) = failure(&mut session, FAILING)?;
    ensure!(code == "22012", "{code}");
    let rows = "SELECT count(*), sum(id), max(w) FROM t";
    session.batch_execute("ROLLBACK TO s")?;
    let before = query(&mut session, rows)?;
    for _ in 0..3 {
        let (code, _) = failure(&mut session, FAILING)?;
        ensure!(code == "22012", "{code}");
        session.batch_execute("ROLLBACK TO s")?;
        ensure!(query(&mut session, rows)? == before);
    }
    session.batch_execute("ROLLBACK")?;
    is_as_before(&mut session)?;
    let calls = |function: &str| {
        format!(
            "INSERT INTO t SELECT CASE WHEN i % 30000 = 0 THEN {function}(i) ELSE i END, i % 100, md5(i::text)
             FROM generate_series(50001, 150000) i"
        )
    };
    session.batch_execute(&calls("fails"))?;
    session.batch_execute(
        "INSERT INTO h SELECT i, i % 100, md5(i::text) FROM generate_series(50001, 150000) i",
    )?;
    is_as_before(&mut session)?;
    session.batch_execute(&calls("nested"))?;
    session.batch_execute(
        "INSERT INTO h SELECT i, i % 100, md5(i::text) FROM generate_series(50001, 150000) i;
         INSERT INTO h SELECT -i, i % 100, md5(i::text) FROM generate_series(1, 3000) i, generate_series(1, 4)",
    )?;
    is_as_before(&mut session)
}

#[test]
fn a_load_is_stopped_at_any_moment_and_leaves_nothing() -> anyhow::Result<()> {
    let primary = Primary::start("load-cancel", &SETTINGS)?;
    let mut session = begin(&primary)?;
    let mut dice = Dice::new(number("HOWDAH_LOAD_SEED", 1));
    let pid = query(&mut session, "SELECT pg_backend_pid()")?;
    // The whole load's time, so that moments lie within it.
    let began = Instant::now();
    session.batch_execute(&format!("BEGIN; {LOAD}; ROLLBACK"))?;
    let whole_ms = began.elapsed().as_millis() as usize;
    is_as_before(&mut session)?;
    let before = process::own_memory_bytes(&pid)?;
    let (mut canceled, cases) = (0, number("HOWDAH_LOAD_CANCELS", 15));
    for case in 0..cases {
        let timeout_ms = dice.below(whole_ms.max(2)) + 1;
        let load = *dice.pick(&[
            LOAD,
            "COPY t FROM PROGRAM 'seq 1 120000 | awk ''{print $1 \",\" $1 % 100 \",w\" $1}''' (FORMAT csv)",
            "WITH n AS (INSERT INTO t SELECT i, i % 100, md5(i::text) FROM generate_series(1, 80000) i RETURNING id)
                 SELECT count(*) FROM n",
        ]);
        let in_savepoint = dice.below(2) == 0;
        session.batch_execute(match in_savepoint {
            true => "BEGIN; INSERT INTO t SELECT * FROM kept; SAVEPOINT s",
            false => "BEGIN",
        })?;
        session.batch_execute(&format!("SET LOCAL statement_timeout = {timeout_ms}"))?;
        let began = Instant::now();
        let result = session.batch_execute(load);
        let took = began.elapsed();
        if let Err(error) = result {
            ensure!(is_stop(&error), "{load}: {error:?}");
            canceled += 1;
            let allowed = Duration::from_millis(timeout_ms as u64) + AT_LAST;
            ensure!(took < allowed, "case {case}: {load} went on for {took:?}");
        }
        if in_savepoint {
            session.batch_execute("ROLLBACK TO s")?;
            let added = query(
                &mut session,
                "SELECT count(*), sum(id), count(DISTINCT w) FROM t",
            )?;
            let expected = query(
                &mut session,
                "SELECT count(*) * 2, sum(id) * 2, count(DISTINCT w) FROM kept",
            )?;
            ensure!(added == expected, "case {case}: {added}, not {expected}");
        }
        session.batch_execute("ROLLBACK")?;
        ensure!(
            process::has_one_thread(&pid)?,
            "case {case}: threads are left"
        );
    }
    println!("{canceled} of {cases} loads were stopped");
    ensure!(canceled * 5 >= cases, "{canceled} of {cases} were stopped");
    is_as_before(&mut session)?;
    let grown = process::own_memory_bytes(&pid)?.saturating_sub(before);
    println!("{grown} bytes more than after one load");
    ensure!(grown <= MOST_KEPT_BYTES, "{grown} bytes are kept");
    // A session that is terminated gives its thread back, too, and the server goes on.
    for _ in 0..3 {
        let mut other = primary.session()?;
        let pid = query(&mut other, "SELECT pg_backend_pid()")?;
        let loading = thread::spawn(move || other.batch_execute(LOAD).is_err());
        while !loading.is_finished() && process::thread_count(&pid)? == 1 {
            thread::sleep(Duration::from_millis(1));
        }
        session.batch_execute(&format!("SELECT pg_terminate_backend({pid})"))?;
        let was_stopped = loading
            .join()
            .map_err(|_| anyhow::anyhow!("the loading thread panicked"))?;
        ensure!(was_stopped, "the load went on");
        ensure!(process::is_gone(&pid), "the session goes on");
        is_as_before(&mut session)?;
    }
    Ok(())
}

#[test]
fn an_idle_session_keeps_little_of_a_load() -> anyhow::Result<()> {
    // Row groups of their usual size: several are in memory at a time.
    let settings = [("howdah.compaction", "off"), ("autovacuum", "off")];
    let primary = Primary::start("load-memory", &settings)?;
    let mut session = primary.session()?;
    session.batch_execute("CREATE TABLE t (id int, w text, v text) USING howdah")?;
    let pid = query(&mut session, "SELECT pg_backend_pid()")?;
    let before = process::own_memory_bytes(&pid)?;
    for (rows, end) in [
        (400_000, "COMMIT"),
        (400_000, "ROLLBACK"),
        (200_000, "COMMIT"),
    ] {
        session.batch_execute(&format!(
            "BEGIN; INSERT INTO t SELECT i, md5(i::text), repeat(md5((i / 7)::text), 3)
             FROM generate_series(1, {rows}) i; {end}"
        ))?;
        ensure!(process::has_one_thread(&pid)?, "threads are left");
        let kept = process::own_memory_bytes(&pid)?.saturating_sub(before);
        println!("{kept} bytes kept after a load of {rows} rows, {end}");
        ensure!(kept <= MOST_KEPT_BYTES, "{kept} bytes are kept after {end}");
    }
    let rows = query(&mut session, "SELECT count(*), count(DISTINCT id) FROM t")?;
    ensure!(rows == "600000|400000", "{rows}");
    Ok(())
}
