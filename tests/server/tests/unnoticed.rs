//! Index insertions without a check for serialization conflicts: the transaction keeps its locks
//! while it is detached for them.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;
use postgres::error::SqlState;

const SETTINGS: [(&str, &str); 2] = [("howdah.compaction", "off"), ("autovacuum", "off")];
const LONG: Duration = Duration::from_secs(60);

/// A hash of numbers that can be made to fail, or to wait, in the middle of an insertion. Nothing
/// is locked there.
const HASH: &str = "
    CREATE FUNCTION odd_hash(number int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN
        CASE current_setting('test.hash', true)
            WHEN 'fails' THEN RAISE EXCEPTION 'hashed';
            WHEN 'waits' THEN PERFORM pg_advisory_lock(1), pg_advisory_unlock(1);
            ELSE NULL;
        END CASE;
        RETURN hashint4(number);
    END $$;
    CREATE OPERATOR CLASS odd_ops FOR TYPE int USING hash AS
        OPERATOR 1 =, FUNCTION 1 odd_hash(int)";

fn make_table(session: &mut Client) -> anyhow::Result<()> {
    session.batch_execute(HASH)?;
    session.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, key int, amount int) USING howdah;
         INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 3000) i",
    )?;
    session.batch_execute("CALL howdah.compact('t')")?;
    Ok(session.batch_execute("CREATE INDEX ON t USING hash (key odd_ops)")?)
}

fn serializable(primary: &Primary) -> anyhow::Result<Client> {
    let mut session = primary.session()?;
    session.batch_execute(
        "SET default_transaction_isolation = serializable; SET enable_seqscan = off;
         SET enable_bitmapscan = off; SET howdah.columnar_scan = off",
    )?;
    Ok(session)
}

fn wait_for(session: &mut Client, sql: &str, wanted: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + LONG;
    loop {
        let answer = query(session, sql)?;
        if answer == wanted {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{sql} answers {answer}");
        thread::sleep(Duration::from_millis(5));
    }
}

const OWN_LOCKS: &str =
    "SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock' AND pid = pg_backend_pid()";

/// Reads and changes rows by turns; returns how many predicate locks are left.
fn locks_after_changes(session: &mut Client, updates: bool) -> anyhow::Result<u32> {
    let update = if updates {
        "UPDATE t SET amount = amount + 1 WHERE id = 8 * i"
    } else {
        "NULL"
    };
    session.batch_execute(&format!(
        "BEGIN;
         DO $$ DECLARE found int; BEGIN
             FOR i IN 1..300 LOOP
                 SELECT amount INTO found FROM t WHERE id = 8 * i + 1;
                 {update};
             END LOOP;
         END $$"
    ))?;
    let locks = query(session, OWN_LOCKS)?.parse()?;
    let lists = query(
        session,
        "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'Local predicate lock'",
    )?;
    assert_eq!(lists, "1", "lists of locks in this process");
    session.batch_execute("ROLLBACK")?;
    Ok(locks)
}

/// The list of locks that are already held survives: single locks are still replaced by coarser
/// ones.
#[test]
fn locks_are_made_coarser_between_updates_as_without_them() -> anyhow::Result<()> {
    let primary = Primary::start("unnoticed-locks", &SETTINGS)?;
    make_table(&mut primary.session()?)?;
    let mut session = serializable(&primary)?;
    let reading = locks_after_changes(&mut session, false)?;
    let writing = locks_after_changes(&mut session, true)?;
    println!("{reading} locks after reads, {writing} after reads and updates");
    ensure!(
        writing <= reading + 32,
        "{writing} predicate locks where reads alone leave {reading}"
    );
    Ok(())
}

/// Two transactions that each read what the other changes, one of which has caught an error
/// meanwhile.
#[test]
fn an_error_in_an_index_leaves_the_transaction_serializable() -> anyhow::Result<()> {
    let primary = Primary::start("unnoticed-error", &SETTINGS)?;
    make_table(&mut primary.session()?)?;
    let mut first = serializable(&primary)?;
    let mut second = serializable(&primary)?;
    first.batch_execute("BEGIN; SELECT amount FROM t WHERE id = 10; SAVEPOINT a")?;
    second.batch_execute("BEGIN; SELECT amount FROM t WHERE id = 20")?;
    first.batch_execute("SET LOCAL test.hash = 'fails'")?;
    let error = first.batch_execute("UPDATE t SET amount = 1 WHERE id = 20");
    let code = error.err().and_then(|error| error.code().cloned());
    assert_eq!(code, Some(SqlState::RAISE_EXCEPTION));
    first.batch_execute("ROLLBACK TO a; UPDATE t SET amount = 1 WHERE id = 20")?;
    let refused = second
        .batch_execute("UPDATE t SET amount = 1 WHERE id = 10; COMMIT")
        .and_then(|()| first.batch_execute("COMMIT"));
    let code = refused.err().and_then(|error| error.code().cloned());
    assert_eq!(code, Some(SqlState::T_R_SERIALIZATION_FAILURE));
    Ok(())
}

/// A session that is terminated while its transaction is detached ends only after the transaction
/// is attached again, and leaves no locks.
#[test]
fn a_session_that_ends_in_an_index_leaves_no_locks() -> anyhow::Result<()> {
    let primary = Primary::start("unnoticed-end", &SETTINGS)?;
    let mut session = primary.session()?;
    make_table(&mut session)?;
    let mut writer = serializable(&primary)?;
    let pid = query(&mut writer, "SELECT pg_backend_pid()")?;
    writer.batch_execute("BEGIN; SELECT amount FROM t WHERE id = 10")?;
    writer.batch_execute("SET LOCAL test.hash = 'waits'")?;
    session.batch_execute("SELECT pg_advisory_lock(1)")?;
    let writing =
        thread::spawn(move || writer.batch_execute("UPDATE t SET amount = 1 WHERE id = 20"));
    let waiting = format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {pid}");
    wait_for(&mut session, &waiting, "advisory")?;
    query(&mut session, &format!("SELECT pg_terminate_backend({pid})"))?;
    session.batch_execute("SELECT pg_advisory_unlock_all()")?;
    // Terminated while it was waiting, it may still answer.
    let ended = writing
        .join()
        .map_err(|_| anyhow::anyhow!("the writer panicked"))?;
    if let Some(error) = ended.err().filter(|error| !error.is_closed()) {
        assert_eq!(error.code(), Some(&SqlState::ADMIN_SHUTDOWN));
    }
    let left = "SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock'";
    wait_for(&mut session, left, "0")?;
    assert_eq!(
        query(&mut session, "SELECT amount FROM t WHERE id = 20")?,
        "0"
    );
    Ok(())
}
