//! Row locks on cold rows: which transactions wait for them, and for how long.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;
use postgres::error::SqlState;

const SETTINGS: [(&str, &str); 2] = [("howdah.compaction", "off"), ("autovacuum", "off")];
const LONG: Duration = Duration::from_secs(60);

fn make_table(session: &mut Client) -> anyhow::Result<()> {
    session.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, word text) USING howdah;
         INSERT INTO t SELECT i, 'word ' || i FROM generate_series(1, 2000) i",
    )?;
    Ok(session.batch_execute("CALL howdah.compact('t')")?)
}

/// Waits until the query returns a row.
fn wait_for(session: &mut Client, sql: &str) -> anyhow::Result<String> {
    let deadline = Instant::now() + LONG;
    loop {
        let answer = query(session, sql)?;
        if !answer.is_empty() {
            return Ok(answer);
        }
        ensure!(Instant::now() < deadline, "nothing came of {sql}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Opens a transaction with a cursor that will lock the row, under the current snapshot.
fn about_to_lock(primary: &Primary, row: u32, locking: &str) -> anyhow::Result<Client> {
    let mut session = primary.session()?;
    session.batch_execute(&format!(
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off;
         BEGIN; SELECT id FROM t WHERE id = 1500 FOR KEY SHARE;
         DECLARE c CURSOR FOR SELECT id FROM t WHERE id = {row} {locking}"
    ))?;
    Ok(session)
}

type Fetched = JoinHandle<anyhow::Result<(String, Client)>>;

fn fetch(mut session: Client) -> Fetched {
    thread::spawn(move || {
        let rows = query(&mut session, "FETCH c")?;
        Ok((rows, session))
    })
}

fn fetched(what: &str, fetching: Fetched) -> anyhow::Result<(String, Client)> {
    let deadline = Instant::now() + LONG;
    while !fetching.is_finished() {
        ensure!(Instant::now() < deadline, "{what} is kept waiting");
        thread::sleep(Duration::from_millis(5));
    }
    match fetching.join() {
        Ok(result) => result.context(what.to_owned()),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// A transaction has locked a row, to check it, that was deleted since its snapshot was taken. It
/// will release the lock, and continue: no other transaction may wait for it, nor find the row
/// locked.
#[test]
fn a_row_that_is_only_looked_at_keeps_no_transaction_waiting() -> anyhow::Result<()> {
    let primary = Primary::start("looked-at", &SETTINGS)?;
    let mut session = primary.session()?;
    make_table(&mut session)?;
    let lockings = [
        "FOR UPDATE",
        "FOR NO KEY UPDATE NOWAIT",
        "FOR UPDATE SKIP LOCKED",
    ];
    for (row, locking) in (7..).zip(lockings) {
        let mut looker = about_to_lock(&primary, row, "FOR UPDATE")?;
        let mut other = about_to_lock(&primary, row, locking)?;
        let other_pid = query(&mut other, "SELECT pg_backend_pid()")?;
        session.batch_execute(&format!("DELETE FROM t WHERE id = {row}"))?;
        session.batch_execute("SELECT pg_advisory_lock(7468)")?;
        looker.batch_execute("SET howdah.debug_stop_point = 'group_recalled'")?;
        let looking = fetch(looker);
        wait_for(
            &mut session,
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
        )?;
        let waiting = fetch(other);
        thread::sleep(Duration::from_millis(100));
        ensure!(
            !waiting.is_finished(),
            "{locking} went on with a locked row"
        );
        let waits_for = query(
            &mut session,
            &format!("SELECT count(*) FROM pg_locks WHERE pid = {other_pid} AND NOT granted"),
        )?;
        assert_eq!(
            waits_for, "0",
            "{locking} waits for a lock that will be given back"
        );
        session.batch_execute("SELECT pg_advisory_unlock_all()")?;
        let (rows, mut looker) = fetched("the looker", looking)?;
        assert_eq!(rows, "");
        let (rows, _) = fetched(locking, waiting)?;
        assert_eq!(rows, "", "{locking}");
        // Only now does that transaction end.
        looker.batch_execute("COMMIT")?;
    }
    Ok(())
}

const LOCKERS: u64 = 6;
const ROUNDS: u64 = 250;

/// The statements of a session in one round: they use a few rows in ascending order, in and out of
/// subtransactions, so there is no deadlock and no reason to wait for long.
fn round(number: u64) -> String {
    let strength = ["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"];
    let mut dice = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut pick = |limit: u64| {
        dice ^= dice >> 29;
        dice = dice.wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (dice >> 33) % limit
    };
    let mut text = "BEGIN;".to_owned();
    for row in 1..=3 {
        if pick(3) == 0 {
            continue;
        }
        let inner = strength[pick(4) as usize];
        let lock = match pick(4) {
            0 => format!("UPDATE t SET word = 'changed' WHERE id = {row};"),
            1 => format!("DELETE FROM t WHERE id = {row};"),
            _ => format!("SELECT id FROM t WHERE id = {row} FOR {inner};"),
        };
        // Changes are always rolled back: the rows stay cold.
        text += &format!("SAVEPOINT a; {lock}");
        if pick(3) == 0 {
            text += &format!(
                "SAVEPOINT b; SELECT id FROM t WHERE id = {row} FOR SHARE; ROLLBACK TO b;"
            );
        }
        text += "ROLLBACK TO a;";
        if pick(2) == 0 {
            let outer = strength[pick(4) as usize];
            text += &format!("SELECT id FROM t WHERE id = {row} FOR {outer};");
        }
    }
    text + if pick(2) == 0 { "COMMIT" } else { "ROLLBACK" }
}

#[test]
fn sessions_that_lock_the_same_rows_all_get_on() -> anyhow::Result<()> {
    let primary = Primary::start("get-on", &SETTINGS)?;
    let mut session = primary.session()?;
    make_table(&mut session)?;
    thread::scope(|scope| -> anyhow::Result<()> {
        let lockers: Vec<_> = (0..LOCKERS)
            .map(|locker| {
                let primary = &primary;
                scope.spawn(move || -> anyhow::Result<()> {
                    let mut session = primary.session()?;
                    session.batch_execute("SET lock_timeout = '20s'")?;
                    for round_number in 0..ROUNDS {
                        let text = round(locker * ROUNDS + round_number);
                        session.batch_execute(&text).with_context(|| text.clone())?;
                    }
                    Ok(())
                })
            })
            .collect();
        for locker in lockers {
            match locker.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })?;
    let left = query(
        &mut session,
        "SELECT count(*) FROM pg_locks WHERE locktype IN ('tuple', 'page')",
    )?;
    assert_eq!(left, "0", "locks were left behind");
    let cold = query(
        &mut session,
        "SELECT count(*) FROM t WHERE word LIKE 'word %'",
    )?;
    assert_eq!(cold, "2000");
    Ok(())
}

#[test]
fn the_transactions_that_block_a_lock_without_waiting_are_in_the_log() -> anyhow::Result<()> {
    let primary = Primary::start("lock_failures", &SETTINGS)?;
    let mut session = primary.session()?;
    make_table(&mut session)?;
    let mut holder = primary.session()?;
    for (holding, locking) in [
        ("SELECT FROM t WHERE id = 5 FOR UPDATE", "FOR KEY SHARE"),
        ("SELECT FROM t WHERE id = 5 FOR SHARE", "FOR UPDATE"),
        ("UPDATE t SET word = 'mine' WHERE id = 5", "FOR SHARE"),
        ("DELETE FROM t WHERE id = 5", "FOR KEY SHARE"),
    ] {
        holder.batch_execute("BEGIN")?;
        holder.batch_execute(holding)?;
        let holds = query(&mut holder, "SELECT pg_current_xact_id()")?;
        let line = format!("could not obtain ShareLock on transaction {holds}");
        for (logging, policy, is_logged) in [
            ("off", "NOWAIT", false),
            ("on", "SKIP LOCKED", false),
            ("on", "NOWAIT", true),
        ] {
            session.batch_execute(&format!("SET log_lock_failures = {logging}"))?;
            let lock =
                session.simple_query(&format!("SELECT FROM t WHERE id = 5 {locking} {policy}"));
            let refused = lock.err().and_then(|error| error.code().cloned());
            let expected = (policy == "NOWAIT").then_some(SqlState::LOCK_NOT_AVAILABLE);
            ensure!(
                refused == expected,
                "{holding}, {locking} {policy}: {refused:?}"
            );
            let log = std::fs::read_to_string(&primary.log)?;
            ensure!(
                log.contains(&line) == is_logged,
                "{holding}, {locking} {policy}, {logging}: logged or not"
            );
        }
        holder.batch_execute("ROLLBACK")?;
    }
    Ok(())
}

/// A group that is locked as a whole blocks other sessions from rows that were not changed; with
/// the setting off, it does not.
#[test]
fn many_changed_rows_lock_their_group_unless_told_not_to() -> anyhow::Result<()> {
    let primary = Primary::start("group-locks", &SETTINGS)?;
    let mut session = primary.session()?;
    make_table(&mut session)?;
    let mut holder = primary.session()?;
    for (setting, group_locks, is_refused) in [("on", "1", true), ("off", "0", false)] {
        holder.batch_execute(&format!("SET howdah.debug_group_locks = {setting}; BEGIN"))?;
        holder.batch_execute("UPDATE t SET word = 'mine' WHERE id BETWEEN 101 AND 700")?;
        let held = query(
            &mut session,
            "SELECT count(*) FROM pg_locks WHERE locktype = 'page' AND mode = 'ExclusiveLock'",
        )?;
        ensure!(held == group_locks, "{setting}: {held} group locks");
        let other = session.batch_execute("SELECT FROM t WHERE id = 5 FOR UPDATE NOWAIT");
        let code = other.err().and_then(|error| error.code().cloned());
        let expected = is_refused.then_some(SqlState::LOCK_NOT_AVAILABLE);
        ensure!(code == expected, "{setting}: {code:?}");
        holder.batch_execute("ROLLBACK")?;
    }
    Ok(())
}

/// Of an error that ends a wait, the context names the row, as on heap.
#[test]
fn an_error_while_waiting_names_the_row() -> anyhow::Result<()> {
    let primary = Primary::start("wait-context", &SETTINGS)?;
    let mut first = primary.session()?;
    make_table(&mut first)?;
    let ctid = query(&mut first, "SELECT ctid FROM t WHERE id = 700")?;
    first.batch_execute("BEGIN; UPDATE t SET id = -id WHERE id = 700")?;
    let mut second = primary.session()?;
    second.batch_execute("SET lock_timeout = '50ms'")?;
    for (statement, doing) in [
        ("UPDATE t SET word = 'x' WHERE id = 700", "updating"),
        ("DELETE FROM t WHERE id = 700", "deleting"),
        ("SELECT id FROM t WHERE id = 700 FOR UPDATE", "locking"),
    ] {
        let error = second.batch_execute(statement).err().context("no wait")?;
        let error = error.as_db_error().context("no answer")?;
        let told = error.where_().unwrap_or_default();
        let expected = format!("while {doing} tuple {ctid} in relation \"t\"");
        ensure!(told == expected, "{statement}: {told:?}");
    }
    // Another error has no such line.
    let error = second.batch_execute("UPDATE t SET id = 1 / (id - 701) WHERE id = 701");
    let error = error.err().context("no error")?;
    let error = error.as_db_error().context("no answer")?;
    ensure!(error.where_().is_none(), "{error:?}");
    Ok(())
}

/// Where locks of rows fill the server's lock table, whole groups are locked instead: as many rows
/// can be locked as on heap, which keeps its locks in the rows.
#[test]
fn a_small_lock_table_is_enough_for_many_rows() -> anyhow::Result<()> {
    let small = [
        ("max_connections", "10"),
        ("max_locks_per_transaction", "10"),
        ("max_worker_processes", "0"),
        ("howdah.load_threshold", "500"),
    ];
    let primary = Primary::start("small-lock-table", &[&SETTINGS[..], &small].concat())?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE parents (id int PRIMARY KEY, word text) USING howdah;
         CREATE TABLE children (parent int REFERENCES parents, n int) USING howdah",
    )?;
    for first in (0..10_000).step_by(2_000) {
        session.batch_execute(&format!(
            "INSERT INTO parents SELECT i, 'word' FROM generate_series({first}, {first} + 1999) i"
        ))?;
    }
    let all = (0..3).map(|nth| {
        let mut session = primary.session()?;
        Ok(thread::spawn(move || -> anyhow::Result<()> {
            session.batch_execute(&format!(
                "BEGIN;
                 INSERT INTO children SELECT i % 5 * 2000 + i / 5 % 2000, {nth} FROM generate_series(1, 4000) i;
                 SELECT pg_sleep(1); COMMIT"
            ))?;
            Ok(())
        }))
    });
    for loading in all.collect::<anyhow::Result<Vec<_>>>()? {
        let loaded = loading.join();
        loaded.map_err(|_| anyhow::anyhow!("a session panicked"))??;
    }
    // Sessions that end within a transaction leave nothing behind: one row stays free while
    // another session has locked many of its group.
    for _ in 0..3 {
        let mut leaving = primary.session()?;
        leaving.batch_execute("BEGIN; SELECT 1 FROM parents WHERE id % 4 = 0 FOR UPDATE")?;
    }
    let mut holding = primary.session()?;
    wait_for(
        &mut session,
        "SELECT count(*) = 2 FROM pg_stat_activity WHERE datname = current_database()",
    )?;
    holding.batch_execute("BEGIN; UPDATE parents SET word = word WHERE id = 300")?;
    session.batch_execute(
        "BEGIN; SET LOCAL lock_timeout = '5s'; SELECT 1 FROM parents WHERE id < 100 FOR UPDATE; ROLLBACK",
    )?;
    holding.batch_execute("ROLLBACK")?;
    session.batch_execute("BEGIN")?;
    let locked = "SELECT count(*) FROM (SELECT 1 FROM parents WHERE id % 3 = 0 FOR UPDATE) s";
    ensure!(query(&mut session, locked)? == "3334");
    session.batch_execute("UPDATE parents SET word = 'changed' WHERE id % 7 = 0; COMMIT")?;
    let counts = "SELECT (SELECT count(*) FROM children),
        (SELECT count(*) FROM parents WHERE word <> 'word')";
    ensure!(query(&mut session, counts)? == "12000|1429");
    Ok(())
}
