//! Index entries of cold rows with a change that is visible to all: index scans skip them, and
//! indexes reuse their space before any VACUUM, but never while some snapshot may need the row.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{equals_twin, indexes_are_sound};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::compaction::{DIGEST, Stopped, start_with_table};
use postgres::Client;

const ROW_COUNT: u32 = 6_000;

/// Cold rows and a twin on heap, indexed in three ways.
fn make(session: &mut Client) -> anyhow::Result<()> {
    session.batch_execute(&format!(
        "CREATE EXTENSION amcheck; CREATE EXTENSION pageinspect; CREATE EXTENSION btree_gist;
         CREATE TABLE c (id int PRIMARY KEY, word text, n int) USING howdah;
         CREATE TABLE h (id int PRIMARY KEY, word text, n int) USING heap;
         CREATE INDEX c_word ON c USING hash (word);
         CREATE INDEX c_n ON c USING gist (n);
         CREATE INDEX ON h (word);
         CREATE INDEX ON h (n);
         INSERT INTO c SELECT i, 'word ' || i, i FROM generate_series(1, {ROW_COUNT}) i;
         INSERT INTO h SELECT * FROM c;
         SELECT howdah.set_options('c', compaction => false)"
    ))?;
    session.batch_execute("CALL howdah.compact('c')")?;
    Ok(session.batch_execute("VACUUM c")?)
}

const BY_INDEX: &str =
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off";

/// Entries of a table's primary key that lead to cold rows, alone or in a posting list: all, and
/// those marked dead.
fn cold_entries(session: &mut Client, table: &str) -> anyhow::Result<(u32, u32)> {
    let counts = query(
        session,
        &format!(
            "SELECT count(*) || ' ' || count(*) FILTER (WHERE dead)
             FROM generate_series(1, pg_relation_size('{table}_pkey') / 8192 - 1) p,
                  bt_page_stats('{table}_pkey', p::int) s, bt_page_items('{table}_pkey', p::int) i,
                  unnest(coalesce(i.tids, ARRAY[i.htid])) t
             WHERE s.type IN ('l', 'r') AND (t::text::point)[0] >= 2147483648"
        ),
    )?;
    let (all, dead) = counts.split_once(' ').context("two counts")?;
    Ok((all.parse()?, dead.parse()?))
}

/// Changes every third of the rows up to `last` on both sides, one by one.
fn change(session: &mut Client, last: u32) -> anyhow::Result<()> {
    for table in ["c", "h"] {
        session.batch_execute(&format!(
            "DO $$ BEGIN FOR i IN 1 .. {last} LOOP
               IF i % 3 = 0 THEN UPDATE {table} SET n = n + 1 WHERE id = i; END IF;
             END LOOP; END $$"
        ))?;
    }
    Ok(())
}

/// Reads every row by each index, one row at a time, and compares with heap.
fn read_all(session: &mut Client) -> anyhow::Result<()> {
    let read = |table: &str| {
        format!(
            "SELECT sum(n + length(word)) FROM generate_series(1, {ROW_COUNT}) i,
                    LATERAL (SELECT n, word FROM {table} WHERE id = i OFFSET 0) x"
        )
    };
    for _ in 0..2 {
        let (here, there) = (query(session, &read("c"))?, query(session, &read("h"))?);
        ensure!(here == there, "{here} by primary key, {there} on heap");
    }
    for condition in ["word = 'word ' || i", "n = i"] {
        let read = |table: &str| {
            format!(
                "SELECT count(*), sum(id) FROM generate_series(1, {ROW_COUNT}) i,
                        LATERAL (SELECT id FROM {table} WHERE {condition} OFFSET 0) x"
            )
        };
        let (here, there) = (query(session, &read("c"))?, query(session, &read("h"))?);
        ensure!(here == there, "{here} by {condition}, {there} on heap");
    }
    Ok(())
}

#[test]
fn entries_of_changed_rows_are_passed_over_and_replaced_before_vacuum() -> anyhow::Result<()> {
    let primary = Primary::start(
        "dead-entries",
        &[("autovacuum", "off"), ("howdah.load_threshold", "1000")],
    )?;
    let mut session = primary.session()?;
    make(&mut session)?;
    session.batch_execute(BY_INDEX)?;
    assert_eq!(cold_entries(&mut session, "c")?, (ROW_COUNT, 0));

    // A snapshot that may need the old versions.
    let mut old = primary.session()?;
    old.batch_execute(BY_INDEX)?;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    let before = query(&mut old, "SELECT sum(n) FROM c WHERE id > 0")?;
    change(&mut session, 3_000)?;
    read_all(&mut session)?;
    assert_eq!(cold_entries(&mut session, "c")?, (ROW_COUNT, 0));
    read_all(&mut session)?;
    assert_eq!(
        query(&mut old, "SELECT sum(n) FROM c WHERE id > 0")?,
        before
    );
    assert_eq!(query(&mut old, "SELECT n FROM c WHERE id = 3")?, "3");
    old.batch_execute("COMMIT")?;

    // No snapshot needs them any more; another transaction advances the horizon. An entry that
    // shares a posting list with its new version cannot be marked.
    session.batch_execute("SELECT pg_current_xact_id()")?;
    read_all(&mut session)?;
    let (all, dead) = cold_entries(&mut session, "c")?;
    ensure!(all == ROW_COUNT && dead > 500, "{dead} dead of {all}");
    read_all(&mut session)?;

    // New entries reuse the space of dead ones.
    let more = |table: &str| {
        format!(
            "INSERT INTO {table} SELECT id, 'new ' || id, id FROM
             (SELECT i AS id FROM generate_series(7001, 11000) i ORDER BY i % 97) x"
        )
    };
    change(&mut session, ROW_COUNT)?;
    read_all(&mut session)?;
    session.batch_execute("SET howdah.bulk_load = off")?;
    session.batch_execute(&format!("{}; {}", more("c"), more("h")))?;
    for _ in 0..3 {
        change(&mut session, ROW_COUNT)?;
        read_all(&mut session)?;
    }
    let (all, dead) = cold_entries(&mut session, "c")?;
    ensure!(
        all < ROW_COUNT - 500,
        "{all} entries of cold rows are left, {dead} of them dead"
    );
    session
        .batch_execute("SELECT bt_index_check('c_pkey', true), gist_index_check('c_n', true)")
        .or_else(|_| session.batch_execute("SELECT bt_index_check('c_pkey', true)"))?;

    // VACUUM and compaction find less to do, and do all of it.
    session.batch_execute("VACUUM c")?;
    read_all(&mut session)?;
    session.batch_execute("CALL howdah.compact('c')")?;
    session.batch_execute("VACUUM c")?;
    read_all(&mut session)?;
    equals_twin(&mut session, "c", "h")?;
    indexes_are_sound(&mut session, "c", "id")?;
    drop(session);
    drop(old);
    primary.crash_and_recover()?;
    let mut session = primary.session()?;
    session.batch_execute(BY_INDEX)?;
    read_all(&mut session)?;
    equals_twin(&mut session, "c", "h")
}

/// Cleaning an index page on the primary must not hide rows from a standby's older snapshot: replay
/// waits for it, or cancels it.
#[test]
fn a_standby_s_old_snapshot_finds_rows_whose_entries_the_primary_replaced() -> anyhow::Result<()> {
    let primary = Primary::start(
        "dead-entries-standby",
        &[
            ("autovacuum", "off"),
            ("howdah.load_threshold", "1000"),
            ("max_standby_streaming_delay", "2s"),
        ],
    )?;
    let mut session = primary.session()?;
    make(&mut session)?;
    session.batch_execute(BY_INDEX)?;
    let standby = primary.standby()?;
    standby.wait_for(&primary)?;
    let mut old = standby.session()?;
    old.batch_execute(BY_INDEX)?;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    let question = format!(
        "SELECT count(*), sum(n) FROM generate_series(1, {ROW_COUNT}) i,
                LATERAL (SELECT n FROM c WHERE id = i OFFSET 0) x"
    );
    let before = query(&mut old, &question)?;
    for _ in 0..4 {
        change(&mut session, ROW_COUNT)?;
        read_all(&mut session)?;
    }
    let (all, _) = cold_entries(&mut session, "c")?;
    ensure!(all < ROW_COUNT, "the primary has replaced no entry");
    // Either the standby has not replayed the cleaning yet, or the snapshot was cancelled: no row
    // is ever missing.
    let mut canceled = false;
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        match query(&mut old, &question) {
            Ok(now) => assert_eq!(now, before),
            Err(error) => {
                let code = error
                    .downcast_ref::<postgres::Error>()
                    .and_then(postgres::Error::code)
                    .map(|code| code.code().to_owned());
                ensure!(
                    matches!(code.as_deref(), Some("40001" | "57P01" | "25P02") | None),
                    "{error:#}"
                );
                canceled = true;
                break;
            }
        }
    }
    ensure!(canceled, "replay has never met the old snapshot");
    drop(old);
    standby.wait_for(&primary)?;
    let mut there = standby.session()?;
    there.batch_execute(BY_INDEX)?;
    read_all(&mut there)?;
    equals_twin(&mut there, "c", "h")
}

/// Rows that are updated once each, a few in a transaction, in no order.
const ONCE_UPDATED: u32 = 20_000;

fn update_once(session: &mut Client, remainder: u32) -> anyhow::Result<()> {
    session.batch_execute("DROP PROCEDURE IF EXISTS update_once")?;
    session.batch_execute(&format!(
        "CREATE PROCEDURE update_once() LANGUAGE plpgsql AS $$
         DECLARE i int; BEGIN
           FOR i IN SELECT (g * 7919) % {ONCE_UPDATED} FROM generate_series(0, {ONCE_UPDATED} - 1) g LOOP
             IF i % 2 = {remainder} THEN UPDATE o SET n = n + 1 WHERE id = i; END IF;
             IF i % 10 = 0 THEN COMMIT; END IF;
           END LOOP; END $$"
    ))?;
    Ok(session.batch_execute("CALL update_once()")?)
}

/// An index page that is full of entries for two versions of its rows is not split; its old entries
/// are deleted instead, as on heap where updates are not HOT, unless some snapshot may need them.
#[test]
fn entries_of_rows_that_were_updated_make_room_for_the_new_ones() -> anyhow::Result<()> {
    let primary = Primary::start(
        "room-in-indexes",
        &[("autovacuum", "off"), ("howdah.load_threshold", "1000")],
    )?;
    let mut session = primary.session()?;
    session.batch_execute(&format!(
        "CREATE EXTENSION amcheck;
         CREATE TABLE o (id int PRIMARY KEY, n int, k int) USING howdah;
         INSERT INTO o SELECT i, 0, i * 4241 % {ONCE_UPDATED} FROM generate_series(0, {ONCE_UPDATED} - 1) i;
         CREATE UNIQUE INDEX o_k ON o (k);
         SELECT howdah.set_options('o', compaction => false); {BY_INDEX}"
    ))?;
    session.batch_execute("VACUUM o")?;
    let pages = |session: &mut Client| -> anyhow::Result<u32> {
        let size = "SELECT (pg_relation_size('o_pkey') + pg_relation_size('o_k')) / 8192";
        Ok(query(session, size)?.parse()?)
    };
    // By either index.
    let seen = |session: &mut Client| -> anyhow::Result<String> {
        let by = |column: &str| format!("SELECT count(*), sum(n) FROM o WHERE {column} >= 0");
        let (by_id, by_k) = (query(session, &by("id"))?, query(session, &by("k"))?);
        ensure!(by_id == by_k, "{by_id} by id, {by_k} by k");
        Ok(by_id)
    };
    // Marks of transactions that were rolled back make no row dead.
    session.batch_execute("BEGIN; UPDATE o SET n = 9 WHERE id % 50 = 3; ROLLBACK")?;
    session.batch_execute(
        "BEGIN; SAVEPOINT s; DELETE FROM o WHERE id % 11 = 5; ROLLBACK TO s; COMMIT",
    )?;
    let at_first = pages(&mut session)?;
    update_once(&mut session, 0)?;
    let half_updated = pages(&mut session)?;
    ensure!(
        half_updated <= at_first + at_first / 10,
        "{at_first} pages, {half_updated} when each second row was updated"
    );
    assert_eq!(
        seen(&mut session)?,
        format!("{ONCE_UPDATED}|{}", ONCE_UPDATED / 2)
    );

    // The old snapshot finds the other half's old versions by the index.
    let mut old = primary.session()?;
    old.batch_execute(&format!(
        "{BY_INDEX}; BEGIN ISOLATION LEVEL REPEATABLE READ"
    ))?;
    let before = seen(&mut old)?;
    update_once(&mut session, 1)?;
    let with_old = pages(&mut session)?;
    ensure!(
        with_old > at_first + at_first / 4,
        "{at_first} pages, {with_old} though old versions may be wanted"
    );
    assert_eq!(seen(&mut old)?, before);
    assert_eq!(query(&mut old, "SELECT n FROM o WHERE id = 7")?, "0");
    old.batch_execute("COMMIT")?;
    assert_eq!(
        seen(&mut session)?,
        format!("{ONCE_UPDATED}|{ONCE_UPDATED}")
    );
    let check = "SELECT bt_index_check('o_pkey', true), bt_index_check('o_k', true)";
    session.batch_execute(check)?;
    session.batch_execute("VACUUM o")?;
    assert_eq!(
        seen(&mut session)?,
        format!("{ONCE_UPDATED}|{ONCE_UPDATED}")
    );
    Ok(session.batch_execute(check)?)
}

/// A move that was rolled back has left an entry for each row in each index. They lead to a group
/// that no snapshot sees, so that they are dead at once, also while an old snapshot lives.
#[test]
fn entries_of_a_move_that_was_rolled_back_are_dead() -> anyhow::Result<()> {
    let (primary, mut session) = start_with_table("rolled-back-entries")?;
    session.batch_execute("CREATE EXTENSION pageinspect")?;
    session.batch_execute("VACUUM t")?;
    let whole = format!("{DIGEST} FROM t");
    let before = query(&mut session, &whole)?;
    let mut old = primary.session()?;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t LIMIT 1")?;
    let stopped = Stopped::at(&primary, "stamp")?;
    session.batch_execute(BY_INDEX)?;
    let each = "SELECT sum(k) FROM generate_series(1, 20000) i,
                LATERAL (SELECT k FROM t WHERE id = i OFFSET 0) x";
    let sum = query(&mut session, each)?;
    ensure!(
        cold_entries(&mut session, "t")? == (20_000, 0),
        "in progress"
    );
    stopped.cancel()?;
    for _ in 0..3 {
        ensure!(query(&mut session, each)? == sum);
        ensure!(query(&mut old, each)? == sum, "old snapshot");
    }
    let (all, dead) = cold_entries(&mut session, "t")?;
    // Most share a posting list with the row's hot version, and cannot be marked.
    ensure!(all == 20_000 && dead > 3_000, "{dead} dead of {all}");
    // Checks of uniqueness follow the rest, and writers use the space.
    session.batch_execute("UPDATE t SET k = k WHERE id % 2 = 0")?;
    ensure!(query(&mut session, &whole)? == before);
    old.batch_execute("COMMIT")?;
    session.batch_execute("CALL howdah.compact('t')")?;
    ensure!(query(&mut session, each)? == sum, "after the next move");
    ensure!(
        query(&mut session, &whole)? == before,
        "after the next move"
    );
    indexes_are_sound(&mut session, "t", "id")
}
