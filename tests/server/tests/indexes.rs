//! Indexes are built and rebuilt beside writers and compaction, and have an entry for every row
//! afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use howdah_server_tests::checks::{indexes_are_sound, row_numbers_are_unique};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::compaction::{in_background, joined, wait_until};
use postgres::Client;

/// Two indexes of each kind: one that the queries use, one that is compared with it.
const MAKE: &str = "
    CREATE EXTENSION btree_gist;
    CREATE TABLE t (id int PRIMARY KEY, k int, word text, span int4range, EXCLUDE USING gist (span WITH &&)) USING howdah;
    CREATE INDEX t_k ON t (k);
    CREATE INDEX t_word ON t USING hash (word);
    INSERT INTO t SELECT i, i % 100, 'w' || i, int4range(i * 10, i * 10 + 5) FROM generate_series(1, 10000) i;";

/// Maintenance of the indexes, repeated.
const UPKEEP: [&str; 8] = [
    "CREATE INDEX CONCURRENTLY t_more ON t (word, id)",
    "CREATE UNIQUE INDEX CONCURRENTLY t_unique ON t (id) INCLUDE (k)",
    "REINDEX INDEX CONCURRENTLY t_pkey",
    "REINDEX INDEX CONCURRENTLY t_word",
    "REINDEX TABLE CONCURRENTLY t",
    "DROP INDEX CONCURRENTLY t_more",
    "DROP INDEX CONCURRENTLY t_unique",
    "VACUUM t",
];

/// Updates, deletes and inserts single rows, and loads some in bulk.
fn write(mut client: Client, writer: u32, stop: &AtomicBool) -> anyhow::Result<u32> {
    client.batch_execute("SET howdah.load_threshold = 50")?;
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        // Each writer has rows of its own; every third of them is not changed.
        let id = (round * 7919 % 3000) * 3 + writer;
        client.batch_execute(&format!(
            "BEGIN;
             UPDATE t SET k = (k + 1) % 100, word = 'u{round}' WHERE id = {id};
             DELETE FROM t WHERE id = {id} AND k % 5 = 0;
             INSERT INTO t VALUES ({id}, {round} % 100, 'back', int4range({id} * 10, {id} * 10 + 5)) ON CONFLICT DO NOTHING;
             COMMIT"
        ))?;
        if round % 10 == 0 {
            let first = 100_000_000 * (writer + 1) + round * 100;
            let last = first + 99;
            client.batch_execute(&format!(
                "INSERT INTO t SELECT i, i % 100, 'bulk' FROM generate_series({first}, {last}) i"
            ))?;
            client.batch_execute(&format!(
                "DELETE FROM t WHERE id BETWEEN {first} AND {last} AND k < 80"
            ))?;
        }
        round += 1;
    }
    Ok(round)
}

#[test]
fn indexes_made_beside_writers_and_compaction_know_every_row() -> anyhow::Result<()> {
    let settings = [("howdah.compaction", "off"), ("autovacuum", "off")];
    let primary = Primary::start("indexes", &settings)?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    session.batch_execute("CALL howdah.compact('t')")?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for writer in 1..=2 {
        let (client, stop) = (primary.session()?, stop.clone());
        threads.push(thread::spawn(move || write(client, writer, &stop)));
    }
    let (mut client, compactor_stop) = (primary.session()?, stop.clone());
    threads.push(thread::spawn(move || {
        let mut rounds = 0;
        while !compactor_stop.load(Ordering::Relaxed) {
            client.batch_execute("CALL howdah.compact('t')")?;
            rounds += 1;
        }
        Ok(rounds)
    }));
    let deadline = Instant::now() + Duration::from_secs(12);
    'rounds: while threads.iter().all(|t| !t.is_finished()) {
        for statement in UPKEEP {
            session.batch_execute(statement)?;
        }
        if Instant::now() > deadline {
            break 'rounds;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        let rounds = thread.join().map_err(|_| anyhow::anyhow!("panicked"))??;
        ensure!(rounds > 0, "a thread did nothing");
    }
    let invalid = "SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass AND NOT indisvalid";
    assert_eq!(query(&mut session, invalid)?, "0");
    indexes_are_sound(&mut session, "t", "id")?;
    indexes_are_sound(&mut session, "t", "k")?;
    row_numbers_are_unique(&mut session, "t")?;
    session.batch_execute("SET howdah.columnar_scan = off")?;
    let spans = "SELECT count(*), sum(lower(span)) FROM t";
    let all = query(&mut session, &format!("{spans} WHERE span IS NOT NULL"))?;
    session.batch_execute("SET enable_seqscan = off")?;
    assert_eq!(
        query(
            &mut session,
            &format!("{spans} WHERE span && '[0,1000000)'")
        )?,
        all
    );
    let lost = "SELECT count(*) FROM t a WHERE NOT EXISTS (SELECT FROM t b WHERE b.word = a.word AND b.id = a.id)";
    assert_eq!(query(&mut session, lost)?, "0");
    Ok(())
}

/// REINDEX CONCURRENTLY of the cold store's own index waits for all that hold a lock on the store;
/// VACUUM and compaction, which wait for it there, hold none meanwhile.
#[test]
fn the_index_of_a_cold_store_is_rebuilt_beside_vacuum() -> anyhow::Result<()> {
    let primary = Primary::start("store_index", &[("howdah.compaction", "off")])?;
    let mut session = primary.session()?;
    session.batch_execute(
        "SET howdah.load_threshold = 100;
         CREATE TABLE t (id int PRIMARY KEY, v text) USING howdah;
         INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 500) i;
         DELETE FROM t WHERE id <= 100",
    )?;
    let index = "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class c ON indrelid = reltoastrelid
                 WHERE c.oid = 't'::regclass";
    let index = query(&mut session, index)?;
    for maintenance in ["VACUUM (INDEX_CLEANUP on) t", "CALL howdah.compact('t')"] {
        let mut writer = primary.session()?;
        writer.batch_execute("SET howdah.load_threshold = 100; BEGIN")?;
        writer
            .batch_execute("INSERT INTO t SELECT i, 'w' || i FROM generate_series(1001, 1300) i")?;
        let reindex = format!("REINDEX INDEX CONCURRENTLY {index}");
        let reindex = in_background(primary.session()?, reindex);
        let waits = |what: &str| {
            format!(
                "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '{what}%'"
            )
        };
        wait_until(&mut session, &waits("REINDEX"))?;
        let maintained = in_background(primary.session()?, maintenance.to_owned());
        // It may end without any wait.
        thread::sleep(Duration::from_millis(300));
        writer.batch_execute("ROLLBACK")?;
        assert_eq!(joined(reindex), "0 rows", "REINDEX beside {maintenance}");
        assert_eq!(joined(maintained), "0 rows", "{maintenance}");
        let invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid";
        assert_eq!(query(&mut session, invalid)?, "0", "{maintenance}");
        assert_eq!(query(&mut session, "SELECT count(*) FROM t")?, "400");
    }
    Ok(())
}

/// Autovacuum of a table vacuums its hot rows while the cold store is locked, by its own VACUUM for
/// example, and counts the cold rows all the same.
#[test]
fn autovacuum_does_not_wait_for_a_busy_cold_store() -> anyhow::Result<()> {
    let settings = [
        ("howdah.compaction", "off"),
        ("autovacuum_naptime", "1s"),
        ("autovacuum_vacuum_threshold", "50"),
        ("autovacuum_vacuum_scale_factor", "0"),
    ];
    let primary = Primary::start("busy_store", &settings)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "SET howdah.load_threshold = 100;
         CREATE TABLE t (id int PRIMARY KEY, v text) USING howdah;
         INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 5000) i;
         SET howdah.bulk_load = off;
         INSERT INTO t SELECT i, 'h' || i FROM generate_series(5001, 7000) i",
    )?;
    session.batch_execute("VACUUM t")?;
    let index = "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class c ON indrelid = reltoastrelid
                 WHERE c.oid = 't'::regclass";
    let index = query(&mut session, index)?;
    let mut writer = primary.session()?;
    writer.batch_execute("SET howdah.load_threshold = 100; BEGIN")?;
    writer
        .batch_execute("INSERT INTO t SELECT i, 'w' || i FROM generate_series(10001, 10300) i")?;
    let reindex = format!("REINDEX INDEX CONCURRENTLY {index}");
    let reindex = in_background(primary.session()?, reindex);
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'REINDEX%'";
    wait_until(&mut session, waits)?;
    let count = "SELECT autovacuum_count FROM pg_stat_all_tables WHERE relid = 't'::regclass";
    let before = query(&mut session, count)?;
    session.batch_execute("DELETE FROM t WHERE id BETWEEN 6001 AND 6500")?;
    wait_until(&mut session, &format!("SELECT ({count}) > {before}"))?;
    let counted = "SELECT reltuples FROM pg_class WHERE oid = 't'::regclass";
    assert_eq!(query(&mut session, counted)?, "6500");
    assert_eq!(
        query(&mut session, waits)?,
        "t",
        "the store is locked still"
    );
    writer.batch_execute("ROLLBACK")?;
    assert_eq!(joined(reindex), "0 rows");
    assert_eq!(query(&mut session, "SELECT count(*) FROM t")?, "6500");
    Ok(())
}
