//! Keys of rows that are being moved: checks of uniqueness pass over the new places of such rows,
//! and let no duplicate in, whatever an index leads to first.
//!
//! A hash index leads to the entry that was made last, hence to the new place before the old one.
//! The mover is stopped in an index expression, after it has entered row 7 into the hash index; the
//! check is stopped after it has passed over that entry.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::compaction::{in_background, joined, outcome, start, wait_until};
use postgres::Client;

/// 1,000 hot rows, of which a mover in a session with `moving.stops` stops at the seventh.
const MAKE: &str = "
    CREATE FUNCTION stop_at_7(id int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN
      IF id = 7 AND current_setting('moving.stops', true) = 'yes' THEN
        PERFORM pg_advisory_lock(9), pg_advisory_unlock(9);
      END IF;
      RETURN id;
    END $$;
    CREATE TABLE t (id int PRIMARY KEY, code int, n int,
      CONSTRAINT one_code EXCLUDE USING hash (code WITH =)) USING howdah;
    CREATE INDEX ON t (public.stop_at_7(id));
    INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 1000) i;";

/// What stands in the table: rows, codes, sum of n.
const LOOK: &str = "SELECT count(*), count(DISTINCT code), sum(n) FROM t";

/// Runs a statement whose check has passed over row 7 when the mover or merger commits, after which
/// `has_moved` returns t. What the statement returned.
fn across_the_commit(primary: &Primary, sql: &str, has_moved: &str) -> anyhow::Result<String> {
    let mut keeper = primary.session()?;
    keeper.batch_execute("SELECT pg_advisory_lock(7468), pg_advisory_lock(9)")?;
    let is_stopped = |key: u32| {
        format!(
            "SELECT EXISTS (SELECT FROM pg_locks
               WHERE locktype = 'advisory' AND objid = {key} AND NOT granted)"
        )
    };
    let mut mover = primary.session()?;
    mover.batch_execute("SET moving.stops = 'yes'")?;
    let mover = in_background(mover, "CALL howdah.compact('t')".to_owned());
    wait_until(&mut keeper, &is_stopped(9)).context("the mover")?;
    let mut writer = primary.session()?;
    writer.batch_execute("SET howdah.debug_stop_point = 'passed'")?;
    let writer = in_background(writer, sql.to_owned());
    wait_until(&mut keeper, &is_stopped(7468)).context("the check")?;
    keeper.batch_execute("SELECT pg_advisory_unlock(9)")?;
    wait_until(&mut keeper, has_moved)?;
    keeper.batch_execute("SELECT pg_advisory_unlock(7468)")?;
    let answer = joined(writer);
    let end = joined(mover);
    ensure!(end == "0 rows", "the mover ended with {end}");
    Ok(answer)
}

#[test]
fn a_check_that_passes_over_a_row_finds_it_after_the_move() -> anyhow::Result<()> {
    let inserts = [
        ("INSERT INTO t VALUES (2001, 7, 1)", "23P01"),
        (
            "INSERT INTO t VALUES (2001, 7, 1) ON CONFLICT ON CONSTRAINT one_code DO NOTHING",
            "0 rows",
        ),
    ];
    let primary = start("moved-keys")?;
    let mut session = primary.session()?;
    for (sql, answer) in inserts {
        session.batch_execute(MAKE)?;
        let moved = "SELECT cold_rows > 0 FROM howdah.tables";
        ensure!(
            across_the_commit(&primary, sql, moved)? == answer,
            "move: {sql}"
        );
        ensure!(query(&mut session, LOOK)? == "1000|1000|0", "move: {sql}");
        // The same while two groups become one.
        session.batch_execute("INSERT INTO t SELECT i, i, 0 FROM generate_series(1001, 1500) i")?;
        let merged = "SELECT cold_rows > 1000 AND row_groups = 1 FROM howdah.tables";
        ensure!(
            across_the_commit(&primary, sql, merged)? == answer,
            "merge: {sql}"
        );
        ensure!(query(&mut session, LOOK)? == "1500|1500|0", "merge: {sql}");
        // The key can be used again when the row has gone.
        let freed = "DELETE FROM t WHERE id = 7; INSERT INTO t VALUES (7, 7, 0)";
        ensure!(outcome(&mut session, freed) == "1 rows 1 rows");
        session.batch_execute("DROP TABLE t; DROP FUNCTION stop_at_7")?;
    }
    Ok(())
}

/// Writers insert, change and delete rows of few keys, whose rows are moved and merged all the
/// time. No key may ever be there twice, and no statement fails but for a key that is in use.
#[test]
fn keys_stay_unique_while_their_rows_are_moved() -> anyhow::Result<()> {
    let primary = start("unique-keys")?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, code int, n int,
           CONSTRAINT one_code EXCLUDE USING hash (code WITH =)) USING howdah;
         CREATE INDEX ON t (n);
         INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 2000) i",
    )?;
    let (over, refused) = (AtomicBool::new(false), AtomicU32::new(0));
    let write = |mut client: Client, seed: u32| -> anyhow::Result<()> {
        let statements = [
            "UPDATE t SET n = n + 1 WHERE id = {1}",
            "UPDATE t SET code = {2} WHERE id = {1}",
            "UPDATE t SET id = {2} WHERE id = {1}",
            "INSERT INTO t VALUES ({1}, {2}, 0) ON CONFLICT DO NOTHING",
            "INSERT INTO t VALUES ({1}, {2}, 0) ON CONFLICT (id) DO UPDATE SET n = t.n + 1",
            "DELETE FROM t WHERE id = {1}",
            "INSERT INTO t VALUES ({1}, {2}, 0)",
            "BEGIN; UPDATE t SET n = n + 1 WHERE id = {1}; UPDATE t SET code = {2} WHERE id = {1}; ROLLBACK",
        ];
        let mut random = seed;
        let mut next = |below: usize| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as usize % below
        };
        while !over.load(Ordering::SeqCst) {
            let sql = statements[next(statements.len())]
                .replace("{1}", &(next(2500) + 1).to_string())
                .replace("{2}", &(next(2500) + 1).to_string());
            match client.batch_execute(&sql) {
                Ok(()) => {}
                Err(error) => {
                    let code = error.code().map(postgres::error::SqlState::code);
                    // A deadlock of two checks is possible, as on heap.
                    ensure!(
                        matches!(code, Some("23505" | "23P01" | "40P01")),
                        "{sql}: {error:?}"
                    );
                    refused.fetch_add(1, Ordering::SeqCst);
                    client.batch_execute("ROLLBACK")?;
                }
            }
        }
        Ok(())
    };
    thread::scope(|scope| -> anyhow::Result<()> {
        let writers = (0..4)
            .map(|seed| {
                let client = primary.session()?;
                let write = &write;
                Ok(scope.spawn(move || write(client, seed)))
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let end = Instant::now() + Duration::from_secs(10);
        let mut result = Ok(());
        while result.is_ok() && Instant::now() < end {
            result = session
                .batch_execute("CALL howdah.compact('t')")
                .map_err(anyhow::Error::from);
        }
        over.store(true, Ordering::SeqCst);
        for writer in writers {
            writer
                .join()
                .map_err(|_| anyhow::anyhow!("a writer panicked"))??;
        }
        result
    })?;
    ensure!(refused.load(Ordering::SeqCst) > 0, "no key was in use");
    session.batch_execute("SET enable_indexscan = off; SET enable_bitmapscan = off")?;
    let twice = "SELECT count(*) - count(DISTINCT id), count(*) - count(DISTINCT code) FROM t";
    ensure!(query(&mut session, twice)? == "0|0", "a key is there twice");
    ensure!(query(&mut session, "SELECT cold_rows > 0 FROM howdah.tables")? == "t");
    Ok(())
}
