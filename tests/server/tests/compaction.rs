//! Compaction beside readers and writers, which meet it at each of its steps.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::compaction::{
    DIGEST, MAKE, Stopped, in_background, joined, outcome, same_as_twin, start_with_table,
    wait_until,
};
use postgres::Client;

#[test]
fn a_statement_that_waits_for_a_moved_row_continues_with_the_cold_one() -> anyhow::Result<()> {
    let (primary, mut session) = start_with_table("moved")?;
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
    let (primary, mut session) = start_with_table("aborted")?;
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
    let (primary, mut session) = start_with_table("snapshots")?;
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
    let (primary, mut session) = start_with_table("unique")?;
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
    let (primary, mut session) = start_with_table("readers-first")?;
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

/// Adds a column while a mover is stopped, which gives way to that.
fn add_column_beside(
    primary: &Primary,
    session: &mut Client,
    stopped: Stopped,
) -> anyhow::Result<()> {
    let ddl = in_background(
        primary.session()?,
        "ALTER TABLE t ADD COLUMN later int DEFAULT 5".to_owned(),
    );
    wait_until(
        session,
        "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted)",
    )?;
    stopped.let_go()?;
    assert_eq!(joined(ddl), "0 rows");
    Ok(())
}

#[test]
fn compaction_releases_a_table_that_another_session_waits_for() -> anyhow::Result<()> {
    let (primary, mut session) = start_with_table("yield")?;
    let stopped = Stopped::at(&primary, "index_insert")?;
    add_column_beside(&primary, &mut session, stopped)?;
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
    let (primary, mut session) = start_with_table("yield-merge")?;
    session.batch_execute("RESET howdah.bulk_load; SET howdah.load_threshold = 0")?;
    for first in [100_001, 200_001] {
        session.batch_execute(&format!(
            "INSERT INTO t SELECT i, i % 100, 'word ' || i FROM generate_series({first}, {first} + 4999) i"
        ))?;
    }
    let before = query(&mut session, &format!("{DIGEST} FROM t"))?;
    let stopped = Stopped::at(&primary, "merge_index_insert")?;
    add_column_beside(&primary, &mut session, stopped)?;
    assert_eq!(query(&mut session, &format!("{DIGEST} FROM t"))?, before);
    session.batch_execute("CALL howdah.compact('t')")?;
    assert_eq!(query(&mut session, &format!("{DIGEST} FROM t"))?, before);
    Ok(())
}

/// Each waits for the other's lock. If they gave way to each other, none would come to an end.
#[test]
fn two_compactions_of_a_table_end() -> anyhow::Result<()> {
    let (primary, mut session) = start_with_table("two-compactions")?;
    let before = query(&mut session, &format!("{DIGEST} FROM t"))?;
    let calls = [(), ()].map(|()| -> anyhow::Result<_> {
        let mut other = primary.session()?;
        other.batch_execute("SET statement_timeout = '60s'")?;
        Ok(in_background(other, "CALL howdah.compact('t')".to_owned()))
    });
    for call in calls {
        assert_eq!(joined(call?), "0 rows");
    }
    assert_eq!(query(&mut session, &format!("{DIGEST} FROM t"))?, before);
    // Giving way left 160 MB within half a minute.
    let state = "SELECT cold_rows, pg_table_size(relation) < 16 << 20 FROM howdah.tables";
    assert_eq!(query(&mut session, state)?, "20000|t");
    Ok(())
}

/// Rows of pages that are changed while the group is written stay hot; the group hides them from
/// every snapshot, whatever its order and its indexes.
#[test]
fn rows_that_are_changed_meanwhile_are_left() -> anyhow::Result<()> {
    let (primary, mut session) = start_with_table("left")?;
    session.batch_execute("CREATE EXTENSION amcheck; CREATE TABLE h AS SELECT * FROM t")?;
    let change = "UPDATE {t} SET k = k + 1, word = 'new ' || id WHERE id BETWEEN 5001 AND 5010;
                  DELETE FROM {t} WHERE id BETWEEN 9001 AND 9005;
                  UPDATE {t} SET k = -k WHERE id = 12000";
    for options in ["compaction => false", "sort_key => ARRAY['word']"] {
        session.batch_execute(&format!("SELECT howdah.set_options('t', {options})"))?;
        session.batch_execute("VACUUM t")?;
        let mut old = primary.session()?;
        old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
        let whole = format!("{DIGEST} FROM t");
        let before = query(&mut old, &whole)?;
        let stopped = Stopped::at(&primary, "stamp")?;
        for table in ["t", "h"] {
            session.batch_execute(&change.replace("{t}", table))?;
        }
        stopped.let_go()?;
        same_as_twin(&mut session)?;
        let (all, cold) = (
            "SELECT count(*) FROM t",
            "WHERE (ctid::text::point)[0] > 1e9",
        );
        let hot_rows = query(&mut session, &format!("{all} {}", cold.replace('>', "<")))?;
        let cold_rows = query(&mut session, &format!("{all} {cold}"))?;
        ensure!(
            (15..2_000).contains(&hot_rows.parse::<i32>()?),
            "{hot_rows} hot and {cold_rows} cold rows with {options}"
        );
        ensure!(
            query(&mut old, &whole)? == before,
            "old snapshot, {options}"
        );
        old.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off")?;
        let by_key = format!("{whole} WHERE id > 0");
        ensure!(query(&mut old, &by_key)? == before, "by key, {options}");
        old.batch_execute("COMMIT")?;
        session.batch_execute("VACUUM t")?;
        same_as_twin(&mut session)?;
        // All hot again, for the other order.
        session.batch_execute("CREATE TABLE u AS TABLE h; TRUNCATE t, h")?;
        session.batch_execute("SET howdah.bulk_load = off; INSERT INTO t TABLE u; INSERT INTO h TABLE u; DROP TABLE u")?;
    }
    Ok(())
}

#[test]
fn a_page_that_is_pinned_at_the_last_moment_is_left() -> anyhow::Result<()> {
    let (primary, mut session) = start_with_table("pinned")?;
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
