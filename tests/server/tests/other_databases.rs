//! A long transaction in one database holds up nothing in another, and makes nothing visible again
//! that was removed there; a server that is stopped in the middle of a compaction stops at once; a
//! session that is terminated in the middle of a change leaves nothing behind.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_cli::cluster::StopMode;
use howdah_server_tests::checks::indexes_are_sound;
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

const DIGEST: &str = "SELECT count(*), sum(id), md5(string_agg(word, ',' ORDER BY id)) FROM t";
const COLD_ROWS: &str =
    "SELECT cold_rows, row_groups FROM howdah.tables WHERE relation = 't'::regclass";

fn start(name: &str) -> anyhow::Result<Primary> {
    Primary::start(name, &[("howdah.compaction", "off"), ("autovacuum", "off")])
}

/// A session of another database in the middle of a transaction with a snapshot and an id.
fn long_transaction_elsewhere(primary: &Primary) -> anyhow::Result<Client> {
    primary
        .session()?
        .batch_execute("CREATE DATABASE elsewhere")?;
    let mut elsewhere = primary.connect("elsewhere")?;
    elsewhere.batch_execute(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*), pg_current_xact_id() FROM pg_class",
    )?;
    Ok(elsewhere)
}

/// The session that waits at a stop point, once one does.
fn at_stop_point(session: &mut Client) -> anyhow::Result<String> {
    let waiting = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let pid = query(session, waiting)?;
        if !pid.is_empty() {
            return Ok(pid);
        }
        ensure!(
            Instant::now() < deadline,
            "no session came to the stop point"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end_at_stop_point(session: &mut Client) -> anyhow::Result<()> {
    let pid = at_stop_point(session)?;
    let end = format!("SELECT pg_terminate_backend({pid}, 10000)");
    assert_eq!(query(session, &end)?, "t");
    Ok(())
}

#[test]
fn compaction_moves_rows_beside_a_long_transaction_of_another_database() -> anyhow::Result<()> {
    let primary = start("compact_elsewhere")?;
    let mut elsewhere = long_transaction_elsewhere(&primary)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, word text) USING howdah;
        SET howdah.bulk_load = off;
        INSERT INTO t SELECT i, 'word ' || i FROM generate_series(1, 20000) i;
        UPDATE t SET word = 'changed' WHERE id % 100 = 0;",
    )?;
    let before = query(&mut session, DIGEST)?;
    session.batch_execute("CALL howdah.compact('t')")?;
    assert_eq!(query(&mut session, COLD_ROWS)?, "20000|1");
    assert_eq!(query(&mut session, "SELECT pg_relation_size('t')")?, "8192");
    assert_eq!(query(&mut session, DIGEST)?, before);
    elsewhere.batch_execute("COMMIT")?;
    Ok(())
}

#[test]
fn vacuum_full_beside_a_long_transaction_of_another_database_leaves_no_old_ids()
-> anyhow::Result<()> {
    let primary = start("full_elsewhere")?;
    let mut elsewhere = long_transaction_elsewhere(&primary)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, word text) USING howdah;
        INSERT INTO t SELECT i, 'word ' || i FROM generate_series(1, 20000) i;
        UPDATE t SET word = 'changed' WHERE id % 100 = 0;
        DELETE FROM t WHERE id % 100 = 1;",
    )?;
    let before = query(&mut session, DIGEST)?;
    for statement in [
        "VACUUM (FREEZE, PROCESS_TOAST off) t",
        "VACUUM FULL t",
        "VACUUM (FREEZE) t",
    ] {
        session.batch_execute(statement)?;
        assert_eq!(query(&mut session, DIGEST)?, before, "after {statement}");
    }
    elsewhere.batch_execute("COMMIT")?;
    Ok(())
}

#[test]
fn a_server_that_is_stopped_while_rows_move_goes_at_once() -> anyhow::Result<()> {
    let primary = start("stopped")?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, word text) USING howdah;
        SET howdah.bulk_load = off;
        INSERT INTO t SELECT i, 'word ' || i FROM generate_series(1, 20000) i",
    )?;
    let before = query(&mut session, DIGEST)?;
    session.batch_execute("SELECT pg_advisory_lock(7468)")?;
    for point in ["index_insert", "directory"] {
        let mut mover = primary.session()?;
        mover.batch_execute(&format!("SET howdah.debug_stop_point = '{point}'"))?;
        let mover = std::thread::spawn(move || mover.batch_execute("CALL howdah.compact('t')"));
        at_stop_point(&mut session)?;
        let asked = Instant::now();
        primary.stop(StopMode::Fast)?;
        ensure!(
            asked.elapsed() < Duration::from_secs(20),
            "it took too long"
        );
        ensure!(
            mover.join().is_ok_and(|ended| ended.is_err()),
            "the mover was to be ended"
        );
        primary.start_again()?;
        session = primary.session()?;
        session.batch_execute("SELECT pg_advisory_lock(7468)")?;
        assert_eq!(query(&mut session, DIGEST)?, before, "stopped at {point}");
    }
    session.batch_execute("SELECT pg_advisory_unlock_all()")?;
    session.batch_execute("CALL howdah.compact('t')")?;
    assert_eq!(query(&mut session, COLD_ROWS)?, "20000|1");
    assert_eq!(query(&mut session, DIGEST)?, before);
    Ok(())
}

#[test]
fn a_session_that_is_ended_while_it_changes_a_cold_row_leaves_no_pin_behind() -> anyhow::Result<()>
{
    let primary = start("ended")?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, word text) USING howdah;
        INSERT INTO t SELECT i, 'word ' || i FROM generate_series(1, 20000) i",
    )?;
    session.batch_execute("CALL howdah.compact('t')")?;
    let before = query(&mut session, DIGEST)?;
    session.batch_execute("SELECT pg_advisory_lock(7468)")?;
    let mut ended = primary.session()?;
    // The second row's group is remembered from the first; the session waits at the point where it
    // uses it.
    ended.batch_execute("BEGIN; UPDATE t SET word = 'changed' WHERE id = 7000")?;
    ended.batch_execute("SAVEPOINT s; SET howdah.debug_stop_point = 'group_recalled'")?;
    let ended = std::thread::spawn(move || ended.batch_execute("DELETE FROM t WHERE id = 7001"));
    end_at_stop_point(&mut session)?;
    ensure!(
        ended.join().is_ok_and(|result| result.is_err()),
        "the session was to be ended"
    );
    let log = std::fs::read_to_string(&primary.log)?;
    ensure!(
        !log.contains("borrowed"),
        "the session did not end in good order"
    );
    assert_eq!(query(&mut session, DIGEST)?, before);
    // Waits for every pin on the table's pages.
    session.batch_execute("SELECT pg_advisory_unlock_all(); DELETE FROM t WHERE id = 7001")?;
    session.batch_execute("DROP TABLE t")?;
    Ok(())
}

/// Leaves a table `t` with a row group that was merged into another one, whose directory entry is
/// still there while a piece of its rows was pruned: no snapshot in this database needed it. Then
/// snapshots are taken that count a transaction of another database, and by their horizon the group
/// may be needed. Returns the session that runs that transaction.
fn delete_pieces_under_an_entry(primary: &Primary, session: &mut Client) -> anyhow::Result<Client> {
    let load = |from: u32| {
        format!(
            "INSERT INTO t SELECT i, sha256(i::text::bytea)::text FROM generate_series({from}, {}) i",
            from + 212
        )
    };
    session.batch_execute(
        "DROP TABLE IF EXISTS t;
        CREATE TABLE t (id int PRIMARY KEY, word text) USING howdah;
        SET howdah.load_threshold = 50;",
    )?;
    session.batch_execute(&load(1))?;
    session.batch_execute(&load(214))?;
    session.batch_execute("ANALYZE t; CREATE TABLE IF NOT EXISTS empty ()")?;
    let transaction = || -> anyhow::Result<Client> {
        let mut elsewhere = primary.connect("elsewhere")?;
        elsewhere.batch_execute("BEGIN; SELECT pg_current_xact_id()")?;
        Ok(elsewhere)
    };
    let first = transaction()?;
    session.batch_execute("CALL howdah.compact('t')")?;
    let elsewhere = transaction()?;
    drop(first);
    // Frees space, so that the page with the entries is not pruned below.
    session.batch_execute("VACUUM t")?;
    session.batch_execute(&load(427))?;
    // The compaction is terminated after the merge, where it sweeps after the previous one, and
    // before its last VACUUM.
    session.batch_execute("SELECT pg_advisory_lock(7468)")?;
    let mut mover = primary.session()?;
    mover.batch_execute("SET howdah.debug_stop_point = 'sweep_delete'")?;
    let mover = std::thread::spawn(move || mover.batch_execute("CALL howdah.compact('t')"));
    end_at_stop_point(session)?;
    ensure!(
        mover.join().is_ok_and(|ended| ended.is_err()),
        "the mover was to be ended"
    );
    session.batch_execute("SELECT pg_advisory_unlock_all()")?;
    // VACUUM computes the database's horizon for this session; a scan then prunes pages that are
    // full.
    session.batch_execute("VACUUM empty")?;
    let toast = query(
        session,
        "SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 't'::regclass",
    )?;
    query(session, &format!("SELECT count(*) FROM {toast}"))?;
    let left = format!(
        "SELECT bool_or(lp_flags = 3), bool_or(substr(t_data, 1, 4) = '\\x01000000' AND t_xmax <> '0')
        FROM generate_series(0, pg_relation_size('{toast}') / 8192 - 1) block,
            heap_page_items(get_raw_page('{toast}', block::int))"
    );
    assert_eq!(
        query(session, &left)?,
        "t|t",
        "a piece is gone, and an entry deleted but there"
    );
    Ok(elsewhere)
}

#[test]
fn a_half_deleted_row_group_that_no_session_needs_disturbs_nothing() -> anyhow::Result<()> {
    let primary = start("half_gone")?;
    let mut session = primary.session()?;
    session.batch_execute("CREATE EXTENSION pageinspect")?;
    session.batch_execute("CREATE DATABASE elsewhere")?;
    for statements in [
        // The planner reads the least id from the index.
        &[
            "EXPLAIN SELECT FROM t WHERE id < -5",
            "CREATE INDEX t_word ON t (word)",
            "REINDEX INDEX t_pkey",
            "REINDEX TABLE t",
            "VACUUM FULL t",
        ][..],
        &["CLUSTER t USING t_pkey", "REINDEX TABLE t"],
    ] {
        let mut elsewhere = delete_pieces_under_an_entry(&primary, &mut session)?;
        let before = query(&mut session, DIGEST)?;
        for statement in statements {
            // A session that has not computed the horizon yet.
            primary
                .session()?
                .batch_execute(statement)
                .context(*statement)?;
            assert_eq!(query(&mut session, DIGEST)?, before, "after {statement}");
            indexes_are_sound(&mut session, "t", "id")?;
        }
        elsewhere.batch_execute("COMMIT")?;
        session.batch_execute("CALL howdah.compact('t')")?;
        assert_eq!(query(&mut session, DIGEST)?, before);
    }
    Ok(())
}
