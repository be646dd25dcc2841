//! Compaction beside readers and writers, and killed at every step. Sessions are synchronized by
//! stop points (`howdah.debug_stop_point`), held by the advisory lock 7468; no test depends on a
//! sleep for correctness.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use postgres::{Client, SimpleQueryMessage};

const DIGEST: &str =
    "SELECT count(*), sum(id), sum(k), md5(string_agg(id || ':' || k || word, ',' ORDER BY id))";

/// A table with indexes of several kinds, all rows hot and all-visible.
const MAKE: &str = "
    CREATE TABLE t (id int PRIMARY KEY, k int, word text) USING howdah;
    CREATE INDEX ON t (k);
    CREATE INDEX ON t USING hash (word);
    CREATE INDEX ON t (lower(word)) WHERE k < 10;
    SET howdah.bulk_load = off;
    INSERT INTO t SELECT i, i % 100, 'word ' || i FROM generate_series(1, 20000) i;";

fn start(name: &str) -> anyhow::Result<Primary> {
    Primary::start(name, &[("howdah.compaction", "off"), ("autovacuum", "off")])
}

/// The SQLSTATE of a failed statement, or what it returned.
fn outcome(client: &mut Client, sql: &str) -> String {
    match client.simple_query(sql) {
        Ok(messages) => messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("∅").to_owned()),
                SimpleQueryMessage::CommandComplete(rows) => Some(format!("{rows} rows")),
                _ => None,
            })
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => error
            .code()
            .map_or_else(|| error.to_string(), |code| code.code().to_owned()),
    }
}

fn in_background(mut client: Client, sql: String) -> JoinHandle<String> {
    thread::spawn(move || outcome(&mut client, &sql))
}

fn joined(handle: JoinHandle<String>) -> String {
    handle.join().unwrap_or_else(|_| "panicked".to_owned())
}

/// Waits until the condition, a query that returns t, holds.
fn wait_until(client: &mut Client, condition: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while query(client, condition)? != "t" {
        ensure!(Instant::now() < deadline, "never came true: {condition}");
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A mover that waits at a stop point until it is released.
struct Stopped {
    keeper: Client,
    mover: JoinHandle<String>,
    mover_pid: String,
}

impl Stopped {
    fn at(primary: &Primary, point: &str) -> anyhow::Result<Stopped> {
        let mut keeper = primary.session()?;
        keeper.batch_execute("SELECT pg_advisory_lock(7468)")?;
        let mut mover = primary.session()?;
        mover.batch_execute(&format!("SET howdah.debug_stop_point = '{point}'"))?;
        let mover_pid = query(&mut mover, "SELECT pg_backend_pid()")?;
        let mover = in_background(mover, "CALL howdah.compact('t')".to_owned());
        wait_until(
            &mut keeper,
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)",
        )?;
        Ok(Stopped {
            keeper,
            mover,
            mover_pid,
        })
    }

    /// Waits until `count` sessions wait for the mover's transaction.
    fn wait_for_waiters(&mut self, count: u32) -> anyhow::Result<()> {
        wait_until(
            &mut self.keeper,
            &format!(
                "SELECT count(*) = {count} FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"
            ),
        )
    }

    fn let_go(mut self) -> anyhow::Result<()> {
        self.keeper
            .batch_execute("SELECT pg_advisory_unlock(7468)")?;
        let end = joined(self.mover);
        ensure!(end == "0 rows", "the mover ended with {end}");
        Ok(())
    }

    fn cancel(mut self) -> anyhow::Result<()> {
        query(
            &mut self.keeper,
            &format!("SELECT pg_cancel_backend({})", self.mover_pid),
        )?;
        let end = joined(self.mover);
        ensure!(end == "57014", "the mover ended with {end}");
        Ok(())
    }
}

#[test]
fn whoever_waits_for_a_moved_row_goes_on_with_the_cold_one() -> anyhow::Result<()> {
    let primary = start("moved")?;
    primary.session()?.batch_execute(MAKE)?;
    let mut stopped = Stopped::at(&primary, "commit")?;
    let waiting = [
        "UPDATE t SET k = -1 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "SELECT id FROM t WHERE id = 3 FOR UPDATE",
        "SELECT id FROM t WHERE id = 4 FOR KEY SHARE",
        "INSERT INTO t VALUES (5, 0, 'x') ON CONFLICT (id) DO UPDATE SET k = -1",
    ]
    .map(|sql| Ok::<_, anyhow::Error>(in_background(primary.session()?, sql.to_owned())));
    let mut repeatable = primary.session()?;
    repeatable.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t")?;
    let kept = in_background(repeatable, "UPDATE t SET k = -1 WHERE id = 6".to_owned());
    // The mover has locked no row for a user, so these wait for it as well.
    let unlocked = [
        "SELECT id FROM t WHERE id = 7 FOR UPDATE NOWAIT",
        "SELECT id FROM t WHERE id = 8 FOR UPDATE SKIP LOCKED",
    ]
    .map(|sql| Ok::<_, anyhow::Error>(in_background(primary.session()?, sql.to_owned())));
    let mut session = primary.session()?;
    stopped.wait_for_waiters(8)?;
    stopped.let_go()?;
    let answers = ["1 rows", "1 rows", "3 1 rows", "4 1 rows", "1 rows"];
    for (handle, answer) in waiting.into_iter().zip(answers) {
        assert_eq!(joined(handle?), answer);
    }
    for (handle, answer) in unlocked.into_iter().zip(["7 1 rows", "8 1 rows"]) {
        assert_eq!(joined(handle?), answer);
    }
    assert_eq!(joined(kept), "1 rows");
    assert_eq!(
        query(
            &mut session,
            "SELECT count(*), count(*) FILTER (WHERE k < 0) FROM t"
        )?,
        "19999|2"
    );
    Ok(())
}

#[test]
fn an_aborted_move_is_as_if_it_had_not_been() -> anyhow::Result<()> {
    let primary = start("aborted")?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    let before = query(&mut session, &format!("{DIGEST} FROM t"))?;
    let mut stopped = Stopped::at(&primary, "commit")?;
    let waiting = [
        "UPDATE t SET k = k WHERE id = 1",
        "SELECT id FROM t WHERE id = 3 FOR UPDATE",
        "SELECT id FROM t WHERE id = 4 FOR SHARE",
    ]
    .map(|sql| Ok::<_, anyhow::Error>(in_background(primary.session()?, sql.to_owned())));
    stopped.wait_for_waiters(3)?;
    stopped.cancel()?;
    for handle in waiting {
        let end = joined(handle?);
        assert!(end.ends_with("1 rows"), "{end}");
    }
    assert_eq!(query(&mut session, &format!("{DIGEST} FROM t"))?, before);
    // Rows that carry a void link to the cold side can be locked, changed and moved again.
    assert_eq!(
        outcome(&mut session, "UPDATE t SET k = k WHERE id % 2 = 0"),
        "10000 rows"
    );
    session.batch_execute("CALL howdah.compact('t')")?;
    assert_eq!(query(&mut session, &format!("{DIGEST} FROM t"))?, before);
    assert_eq!(
        query(&mut session, "SELECT sum(cold_rows) FROM howdah.tables")?,
        "20000"
    );
    Ok(())
}

#[test]
fn every_snapshot_sees_each_row_once() -> anyhow::Result<()> {
    let primary = start("snapshots")?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    let whole = format!("{DIGEST} FROM t");
    let by_index = format!("{DIGEST} FROM t WHERE k = 7");
    let expected = query(&mut session, &whole)?;
    let expected_by_index = query(&mut session, &by_index)?;
    let mut old = primary.session()?;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t LIMIT 1")?;
    let check = |client: &mut Client| -> anyhow::Result<()> {
        for plan in ["enable_seqscan", "enable_indexscan", "enable_bitmapscan"] {
            client.batch_execute(&format!("SET {plan} = off"))?;
            ensure!(
                query(client, &whole)? == expected,
                "whole table, {plan} off"
            );
            ensure!(
                query(client, &by_index)? == expected_by_index,
                "index, {plan} off"
            );
            client.batch_execute(&format!("RESET {plan}"))?;
        }
        Ok(())
    };
    for point in ["reserve", "index_insert", "stamp", "directory", "commit"] {
        session.batch_execute("VACUUM t")?;
        let stopped = Stopped::at(&primary, point)?;
        check(&mut session).with_context(|| format!("new snapshot, mover at {point}"))?;
        check(&mut old).with_context(|| format!("old snapshot, mover at {point}"))?;
        if point == "commit" {
            stopped.let_go()?;
        } else {
            stopped.cancel()?;
        }
        check(&mut session).with_context(|| format!("new snapshot, after {point}"))?;
        check(&mut old).with_context(|| format!("old snapshot, after {point}"))?;
    }
    Ok(())
}

#[test]
fn a_key_is_unique_while_its_row_moves() -> anyhow::Result<()> {
    let primary = start("unique")?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    for point in ["index_insert", "stamp", "directory", "commit"] {
        session.batch_execute("VACUUM t")?;
        let stopped = Stopped::at(&primary, point)?;
        let insert = in_background(
            primary.session()?,
            "SET lock_timeout = '60s'; INSERT INTO t VALUES (77, 0, 'x')".to_owned(),
        );
        let skip = in_background(
            primary.session()?,
            "INSERT INTO t VALUES (78, 0, 'x') ON CONFLICT DO NOTHING".to_owned(),
        );
        // Both statements end now or when the mover has ended, with the same result in either case.
        sleep(Duration::from_millis(100));
        if point == "commit" {
            stopped.let_go()?;
        } else {
            stopped.cancel()?;
        }
        assert_eq!(joined(insert), "23505", "mover at {point}");
        assert_eq!(joined(skip), "0 rows", "mover at {point}");
    }
    Ok(())
}

/// Serializable transactions lock hot rows by TID, which must hold when the rows are moved.
#[test]
fn serializable_readers_of_single_rows_do_not_hold_up_a_move() -> anyhow::Result<()> {
    let primary = start("readers-first")?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    session.batch_execute("VACUUM t")?;
    let cold = "SELECT sum(cold_rows) FROM howdah.tables";
    for read in [
        "SET LOCAL enable_bitmapscan = off; SELECT word FROM t WHERE id = 7",
        "SET LOCAL enable_bitmapscan = off; SELECT id FROM t WHERE id = 7",
        "SET LOCAL enable_indexscan = off; SELECT word FROM t WHERE id = 7",
        "SELECT word FROM t WHERE ctid = '(0,7)'",
    ] {
        let mut reader = primary.session()?;
        reader
            .batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL enable_seqscan = off")?;
        let before = query(&mut reader, read)?;
        session.batch_execute("CALL howdah.compact('t')")?;
        ensure!(query(&mut session, cold)? == "20000", "after {read}");
        ensure!(query(&mut reader, read)? == before, "{read}");
        // Single rows of either side are locked, and pages, but never the whole table.
        let locks = "SELECT string_agg(DISTINCT locktype, ' ') FROM pg_locks
             WHERE mode = 'SIReadLock' AND relation = 't'::regclass";
        ensure!(query(&mut reader, locks)? == "page tuple", "{read}");
        reader.batch_execute("COMMIT")?;
        session.batch_execute(&format!("DROP TABLE t; {MAKE}"))?;
        session.batch_execute("VACUUM t")?;
    }
    Ok(())
}

#[test]
fn a_table_that_somebody_wants_is_given_up_at_once() -> anyhow::Result<()> {
    let primary = start("yield")?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    let stopped = Stopped::at(&primary, "index_insert")?;
    let ddl = in_background(
        primary.session()?,
        "ALTER TABLE t ADD COLUMN later int DEFAULT 5".to_owned(),
    );
    wait_until(
        &mut session,
        "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted)",
    )?;
    stopped.let_go()?;
    assert_eq!(joined(ddl), "0 rows");
    assert_eq!(
        query(&mut session, "SELECT count(*), sum(later) FROM t")?,
        "20000|100000"
    );
    assert_eq!(
        query(&mut session, "SELECT sum(cold_rows) FROM howdah.tables")?,
        "20000"
    );
    Ok(())
}

#[test]
fn a_merge_that_gives_way_half_way_doubles_no_row() -> anyhow::Result<()> {
    let primary = start("yield-merge")?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    session.batch_execute("RESET howdah.bulk_load; SET howdah.load_threshold = 0")?;
    for first in [100_001, 200_001] {
        session.batch_execute(&format!(
            "INSERT INTO t SELECT i, i % 100, 'word ' || i FROM generate_series({first}, {first} + 4999) i"
        ))?;
    }
    let before = query(&mut session, &format!("{DIGEST} FROM t"))?;
    let stopped = Stopped::at(&primary, "merge_index_insert")?;
    let ddl = in_background(
        primary.session()?,
        "ALTER TABLE t ADD COLUMN later int DEFAULT 5".to_owned(),
    );
    wait_until(
        &mut session,
        "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted)",
    )?;
    stopped.let_go()?;
    assert_eq!(joined(ddl), "0 rows");
    assert_eq!(query(&mut session, &format!("{DIGEST} FROM t"))?, before);
    session.batch_execute("CALL howdah.compact('t')")?;
    assert_eq!(query(&mut session, &format!("{DIGEST} FROM t"))?, before);
    Ok(())
}

#[test]
fn a_group_ends_where_a_page_is_pinned_at_the_last_moment() -> anyhow::Result<()> {
    let primary = start("pinned")?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    session.batch_execute("CREATE EXTENSION amcheck; CREATE TABLE h AS SELECT * FROM t")?;
    let stopped = Stopped::at(&primary, "checked")?;
    let mut reader = primary.session()?;
    reader.batch_execute(
        "BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; MOVE 5000 IN c; FETCH 1 FROM c",
    )?;
    // The mover skips the pinned page and moves the rest.
    stopped.let_go()?;
    same_as_twin(&mut session)?;
    let cold_rows = query(&mut session, "SELECT sum(cold_rows) FROM howdah.tables")?;
    ensure!(
        (19_500..20_000).contains(&cold_rows.parse::<i32>()?),
        "{cold_rows}"
    );
    reader.batch_execute("ROLLBACK")?;
    session.batch_execute("CALL howdah.compact('t')")?;
    same_as_twin(&mut session)?;
    assert_eq!(
        query(&mut session, "SELECT sum(cold_rows) FROM howdah.tables")?,
        "20000"
    );
    Ok(())
}

#[test]
fn workers_compact_what_is_quiet_and_stay_out_of_the_way() -> anyhow::Result<()> {
    let primary = Primary::start(
        "worker",
        &[
            ("howdah.compact_naptime", "200ms"),
            ("howdah.compact_after", "500ms"),
            ("howdah.compact_min_rows", "10000"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    session.batch_execute(
        "CREATE TABLE small (id int) USING howdah; INSERT INTO small VALUES (1);
         CREATE TABLE off (id int) USING howdah; SELECT howdah.set_options('off', compaction => false);
         INSERT INTO off SELECT generate_series(1, 20000);
         CREATE EXTENSION amcheck; CREATE TABLE h AS SELECT * FROM t",
    )?;
    let cold = "SELECT cold_rows FROM howdah.tables WHERE table_name";
    wait_until(&mut session, &format!("SELECT ({cold} = 't') >= 10000"))?;
    same_as_twin(&mut session)?;
    assert_eq!(query(&mut session, &format!("{cold} = 'off'"))?, "0");
    assert_eq!(query(&mut session, &format!("{cold} = 'small'"))?, "0");
    // No worker blocks commands that need exclusive use of the database.
    session.batch_execute("CREATE DATABASE other")?;
    let mut other = primary.connect("other")?;
    other.batch_execute(
        "CREATE EXTENSION howdah; SET howdah.bulk_load = off;
         CREATE TABLE t (id int) USING howdah; INSERT INTO t SELECT generate_series(1, 300000)",
    )?;
    drop(other);
    for statement in [
        "CREATE DATABASE copy TEMPLATE other",
        "DROP DATABASE other",
        "DROP DATABASE copy",
    ] {
        session.batch_execute(statement)?;
    }
    Ok(())
}

#[test]
fn a_table_that_cannot_be_compacted_is_left_alone_for_a_while() -> anyhow::Result<()> {
    let primary = Primary::start(
        "failing",
        &[
            ("howdah.compact_naptime", "100ms"),
            ("howdah.compact_after", "0"),
            ("howdah.compact_min_rows", "1000"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut session = primary.session()?;
    // The index's expression fails as soon as its divisor is zero; the sequence counts the workers
    // that reached it.
    session.batch_execute(
        "CREATE TABLE divisor (n int) USING heap; INSERT INTO divisor VALUES (1);
         CREATE SEQUENCE attempts;
         CREATE FUNCTION expression(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
         DECLARE d int := (SELECT n FROM public.divisor);
         BEGIN
             IF d = 0 THEN PERFORM nextval('public.attempts'); END IF;
             RETURN i / d;
         END $$;
         CREATE TABLE failing (id int) USING howdah; SELECT howdah.set_options('failing', compaction => false);
         CREATE INDEX ON failing (expression(id));
         CREATE TABLE sound (id int) USING howdah;
         SET howdah.bulk_load = off;
         INSERT INTO failing SELECT generate_series(1, 5000);
         UPDATE divisor SET n = 0;
         SELECT howdah.set_options('failing', compaction => true)",
    )?;
    let attempts = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM attempts";
    wait_until(&mut session, &format!("SELECT ({attempts}) = 1"))?;
    // Workers continue to compact the other table, in every round.
    for round in 1..=4 {
        session.batch_execute("INSERT INTO sound SELECT generate_series(1, 3000)")?;
        let moved = format!(
            "SELECT cold_rows >= {} FROM howdah.table_sizes('sound')",
            round * 2000
        );
        wait_until(&mut session, &moved)?;
    }
    assert_eq!(query(&mut session, attempts)?, "1");
    assert_eq!(query(&mut session, "SELECT count(*) FROM failing")?, "5000");
    session.batch_execute("UPDATE divisor SET n = 1")?;
    session.batch_execute("CALL howdah.compact('failing')")?;
    let moved = "SELECT cold_rows = 5000 FROM howdah.table_sizes('failing')";
    assert_eq!(query(&mut session, moved)?, "t");
    Ok(())
}

#[test]
fn what_was_loaded_is_frozen_soon_and_then_there_is_peace() -> anyhow::Result<()> {
    let primary = Primary::start(
        "peace",
        &[
            ("howdah.compact_after", "200ms"),
            ("howdah.compact_naptime", "100ms"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int, word text) USING howdah;
         INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 200000) i",
    )?;
    wait_until(
        &mut session,
        "SELECT s.relallfrozen > 100 AND s.relallfrozen > s.relpages * 0.8
         FROM pg_class c JOIN pg_class s ON s.oid = c.reltoastrelid WHERE c.relname = 't'",
    )?;
    // A few hot rows are not enough for a row group: no worker starts any more, and no WAL is
    // written.
    let workers =
        "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'howdah%worker'";
    sleep(Duration::from_millis(500));
    wait_until(&mut session, workers)?;
    let state = format!("SELECT pg_current_wal_insert_lsn(), ({workers})");
    // The background writer and the checkpointer write a record each after the last change, at a
    // time of their own.
    for _ in 0..3 {
        let before = query(&mut session, &state)?;
        sleep(Duration::from_secs(2));
        if before.ends_with("|t") && query(&mut session, &state)? == before {
            return Ok(());
        }
    }
    anyhow::bail!("something goes on")
}

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
    let rounds = std::env::var("HOWDAH_CRASH_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20);
    let primary = start("crash-compaction")?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
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

fn same_as_twin(client: &mut Client) -> anyhow::Result<()> {
    for setting in ["enable_indexscan", "enable_seqscan"] {
        client.batch_execute(&format!("SET {setting} = off"))?;
        let howdah = query(client, &format!("{DIGEST} FROM t WHERE id > 0"))?;
        let heap = query(client, &format!("{DIGEST} FROM h WHERE id > 0"))?;
        ensure!(howdah == heap, "{setting} off: {howdah} instead of {heap}");
        client.batch_execute(&format!("RESET {setting}"))?;
    }
    client.batch_execute(
        "SELECT bt_index_check(indexrelid, false) FROM pg_index JOIN pg_class i ON i.oid = indexrelid
             WHERE indrelid = 't'::regclass AND relam = (SELECT oid FROM pg_am WHERE amname = 'btree')",
    )?;
    Ok(())
}
