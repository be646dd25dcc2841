//! Logical replication sends changes of cold rows as those of heap, whatever the replica identity,
//! and finds cold rows where it applies changes; moving rows sends nothing.
//!
//! A slot with `test_decoding` shows what is decoded; a second server subscribes for the rest.

use std::thread;

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{
    cold_row_count, digest, equals_twin, indexes_are_sound, row_numbers_are_unique,
};
use howdah_server_tests::cluster::{DATABASE, Primary, query, wait_until};
use postgres::Client;

const SETTINGS: [(&str, &str); 4] = [
    ("wal_level", "logical"),
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("logical_decoding_work_mem", "64kB"),
];

fn server(name: &str) -> anyhow::Result<Primary> {
    Primary::start(name, &SETTINGS)
}

/// A subscriber that has no subscriber itself: it loads cold and hides rows in bulk.
fn last_server(name: &str) -> anyhow::Result<Primary> {
    let settings = [("howdah.load_threshold", "500")];
    Primary::start(name, &[&SETTINGS[1..], &settings].concat())
}

/// A howdah table `c`, all cold, and its heap twin `h`.
fn make_twins(session: &mut Client) -> anyhow::Result<()> {
    session.batch_execute(
        "CREATE TABLE c (id int PRIMARY KEY, other int NOT NULL, word text, long text) USING howdah;
         CREATE TABLE h (id int PRIMARY KEY, other int NOT NULL, word text, long text) USING heap;
         CREATE UNIQUE INDEX c_other ON c (other);
         CREATE UNIQUE INDEX h_other ON h (other);
         INSERT INTO c SELECT i, i + 100000, 'word ' || i % 37, CASE WHEN i % 10 = 0
                THEN (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 200) j) END
             FROM generate_series(1, 3000) i;
         INSERT INTO h SELECT * FROM c",
    )?;
    chill(session, "c")?;
    ensure!(cold_row_count(session, "c")? == 3000);
    Ok(())
}

fn chill(session: &mut Client, table: &str) -> anyhow::Result<()> {
    session.batch_execute(&format!("VACUUM (FREEZE) {table}"))?;
    session.batch_execute(&format!("CALL howdah.compact('{table}')"))?;
    Ok(())
}

/// The slot's changes of a table since the last call, with the table renamed to `t`.
fn decoded(session: &mut Client, slot: &str, table: &str) -> anyhow::Result<Vec<String>> {
    let sql = format!(
        "SELECT replace(data, 'public.{table}:', 'public.t:') FROM pg_logical_slot_get_changes(
            '{slot}', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')"
    );
    Ok(query(session, &sql)?.lines().map(str::to_owned).collect())
}

fn make_slot(session: &mut Client) -> anyhow::Result<()> {
    let sql = "SELECT pg_create_logical_replication_slot('slot', 'test_decoding')";
    query(session, sql).map(drop)
}

/// Statements about `@`, run on one twin and then on the other.
fn decoded_alike(session: &mut Client, statements: &str) -> anyhow::Result<Vec<String>> {
    session.batch_execute(&statements.replace('@', "c"))?;
    let ours = decoded(session, "slot", "c")?;
    session.batch_execute(&statements.replace('@', "h"))?;
    let heaps = decoded(session, "slot", "h")?;
    ensure!(
        ours == heaps,
        "after {statements}\nhowdah: {ours:#?}\nheap: {heaps:#?}"
    );
    equals_twin(session, "c", "h").with_context(|| format!("after {statements}"))?;
    Ok(ours)
}

const IDENTITIES: [&str; 4] = ["DEFAULT", "USING INDEX @_other", "FULL", "NOTHING"];

#[test]
fn every_replica_identity_decodes_cold_rows_as_heap_rows() -> anyhow::Result<()> {
    let primary = server("logical-identities")?;
    let mut session = primary.session()?;
    make_twins(&mut session)?;
    make_slot(&mut session)?;
    for (round, identity) in IDENTITIES.into_iter().enumerate() {
        let base = round * 500;
        let at = |offset: usize| base + offset;
        session.batch_execute(
            &["c", "h"]
                .map(|t| format!("ALTER TABLE {t} REPLICA IDENTITY {identity}").replace('@', t))
                .join(";"),
        )?;
        let changes = [
            // Long values are sent in full where heap sends them as unchanged.
            format!("DELETE FROM @ WHERE id BETWEEN {} AND {}", at(1), at(40)),
            format!("UPDATE @ SET word = 'new' WHERE id = {}", at(41)),
            format!("UPDATE @ SET id = id + 100000 WHERE id IN ({}, {})", at(42), at(43)),
            format!("UPDATE @ SET other = -other WHERE id = {}", at(44)),
            format!(
                "UPDATE @ SET long = repeat('x', 10) WHERE id BETWEEN {} AND {}",
                at(50),
                at(60)
            ),
            format!(
                "BEGIN; UPDATE @ SET word = 'once' WHERE id = {0};
                 UPDATE @ SET word = 'twice' WHERE id = {0};
                 SAVEPOINT s; DELETE FROM @ WHERE id > 0; ROLLBACK TO s;
                 DELETE FROM @ WHERE id = {1}; SAVEPOINT u; DELETE FROM @ WHERE id = {2}; COMMIT",
                at(61),
                at(62),
                at(63)
            ),
            format!("BEGIN; DELETE FROM @ WHERE id > {}; ROLLBACK", at(0)),
            format!(
                "INSERT INTO @ VALUES ({}, 0) ON CONFLICT (id) DO UPDATE SET word = 'conflict'",
                at(64)
            ),
            format!(
                "MERGE INTO @ USING (VALUES ({}, 1), ({}, 2)) v (id, what) ON @.id = v.id
                 WHEN MATCHED AND what = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET word = 'merged'",
                at(65),
                at(66)
            ),
        ];
        for statements in &changes {
            let told = decoded_alike(&mut session, statements)
                .with_context(|| format!("REPLICA IDENTITY {identity}"))?;
            ensure!(told.is_empty() == statements.ends_with("ROLLBACK"));
        }
    }
    indexes_are_sound(&mut session, "c", "id")?;
    row_numbers_are_unique(&mut session, "c")
}

#[test]
fn moving_merging_and_vacuuming_are_no_news() -> anyhow::Result<()> {
    let primary = server("logical-silence")?;
    let mut session = primary.session()?;
    make_twins(&mut session)?;
    make_slot(&mut session)?;
    decoded_alike(&mut session, "DELETE FROM @ WHERE id % 3 = 0")?;
    decoded_alike(
        &mut session,
        "UPDATE @ SET word = 'new', long = NULL WHERE id % 3 = 1",
    )?;
    decoded_alike(
        &mut session,
        "INSERT INTO @ SELECT i, -i, 'late' FROM generate_series(4000, 9000) i",
    )?;
    for _ in 0..3 {
        chill(&mut session, "c")?;
        session.batch_execute("VACUUM c")?;
    }
    ensure!(cold_row_count(&mut session, "c")? == 7001);
    session.batch_execute("VACUUM FULL c")?;
    session.batch_execute("REINDEX TABLE c")?;
    let told = decoded(&mut session, "slot", "c")?;
    ensure!(told.is_empty(), "{told:#?}");
    equals_twin(&mut session, "c", "h")?;
    decoded_alike(&mut session, "DELETE FROM @ WHERE id % 3 = 2 AND id < 4000")?;
    decoded_alike(&mut session, "TRUNCATE @")?;
    indexes_are_sound(&mut session, "c", "id")
}

#[test]
fn a_command_never_sees_the_row_that_it_brings_back() -> anyhow::Result<()> {
    let primary = server("logical-commands")?;
    let mut session = primary.session()?;
    make_twins(&mut session)?;
    for identity in ["DEFAULT", "FULL"] {
        for table in ["c", "h"] {
            session.batch_execute(&format!(
                "ALTER TABLE {table} REPLICA IDENTITY {identity};
                 CREATE OR REPLACE FUNCTION look_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN
                     INSERT INTO seen SELECT '{table}', count(*), count(DISTINCT id),
                             count(*) FILTER (WHERE tg_op = 'UPDATE' AND word LIKE 'zz%')
                         FROM {table} WHERE id BETWEEN 1 AND 400;
                     RETURN coalesce(new, old);
                 END $$;
                 CREATE TABLE IF NOT EXISTS seen (t text, rows int, ids int, changed int);
                 CREATE OR REPLACE TRIGGER look_before BEFORE UPDATE OR DELETE ON {table}
                     FOR EACH ROW EXECUTE FUNCTION look_{table}();
                 CREATE OR REPLACE TRIGGER look_after AFTER UPDATE OR DELETE ON {table}
                     FOR EACH ROW EXECUTE FUNCTION look_{table}()"
            ))?;
            session.batch_execute(&format!(
                "BEGIN;
                 DECLARE before_all CURSOR FOR SELECT * FROM {table} WHERE id BETWEEN 1 AND 400;
                 UPDATE {table} SET word = 'zz' || word WHERE id % 20 = 0 AND id BETWEEN 1 AND 400;
                 INSERT INTO seen SELECT '{table}', count(*), count(DISTINCT id), count(*)
                     FILTER (WHERE word LIKE 'zz%') FROM {table} WHERE id BETWEEN 1 AND 400;
                 DELETE FROM {table} WHERE id % 30 = 0 AND id BETWEEN 1 AND 400;
                 INSERT INTO seen SELECT '{table}', count(*), count(DISTINCT id), count(*)
                     FILTER (WHERE word LIKE 'zz%') FROM {table} WHERE id BETWEEN 1 AND 400;
                 MOVE ALL IN before_all;
                 CLOSE before_all;
                 CREATE INDEX ON {table} (length(word));
                 COMMIT"
            ))?;
        }
        let seen = |t: &str| {
            format!(
                "SELECT rows, ids, changed, count(*) FROM seen WHERE t = '{t}' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
            )
        };
        let (ours, heaps) = (
            query(&mut session, &seen("c"))?,
            query(&mut session, &seen("h"))?,
        );
        ensure!(ours == heaps, "howdah:\n{ours}\nheap:\n{heaps}");
        equals_twin(&mut session, "c", "h")?;
    }
    indexes_are_sound(&mut session, "c", "id")
}

#[test]
fn an_index_build_passes_over_rows_brought_back() -> anyhow::Result<()> {
    let primary = server("logical-index")?;
    let mut session = primary.session()?;
    make_twins(&mut session)?;
    session.batch_execute(
        "CREATE FUNCTION picky(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
         BEGIN IF $1 IS NULL THEN RAISE 'no word'; END IF; RETURN $1; END $$",
    )?;
    // This snapshot keeps the rows brought back from being dead.
    let mut old = primary.session()?;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    ensure!(query(&mut old, "SELECT count(*) FROM c")? == "3000");
    session.batch_execute("DELETE FROM c WHERE id < 50; UPDATE c SET word = 'x' WHERE id < 60")?;
    session.batch_execute("CREATE INDEX ON c (picky(word))")?;
    session.batch_execute(
        "BEGIN; DELETE FROM c WHERE id < 70; CREATE INDEX ON c (picky(word)); COMMIT",
    )?;
    ensure!(query(&mut old, "SELECT count(*) FROM c")? == "3000");
    ensure!(query(&mut session, "SELECT count(*) FROM c")? == "2931");
    indexes_are_sound(&mut session, "c", "id")
}

/// A publisher and a subscriber, with the tables of [`TABLES`] on both.
struct Pair {
    publisher: Primary,
    subscriber: Primary,
}

const TABLES: &str = "
    CREATE TABLE by_key (id int PRIMARY KEY, n int, word text) USING howdah;
    CREATE TABLE by_index (id int, n int NOT NULL, word text) USING howdah;
    CREATE UNIQUE INDEX by_index_n ON by_index (n);
    ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_n;
    CREATE TABLE by_all (id int, n int, word text) USING howdah;
    ALTER TABLE by_all REPLICA IDENTITY FULL;
    CREATE TABLE filtered (id int PRIMARY KEY, n int, word text) USING howdah;
    CREATE TABLE parted (id int, n int, word text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
    CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (1000) USING howdah;
    CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (1000) TO (MAXVALUE) USING howdah;";
const WHOLE: [&str; 4] = ["by_key", "by_index", "by_all", "parted"];
const STORED: [&str; 6] = [
    "by_key",
    "by_index",
    "by_all",
    "filtered",
    "parted_low",
    "parted_high",
];

impl Pair {
    fn start(name: &str, streaming: &str) -> anyhow::Result<Pair> {
        let pair = Pair {
            publisher: server(&format!("{name}-from"))?,
            subscriber: if streaming == "parallel" {
                server(&format!("{name}-to"))?
            } else {
                last_server(&format!("{name}-to"))?
            },
        };
        let mut from = pair.publisher.session()?;
        from.batch_execute(TABLES)?;
        for table in WHOLE.into_iter().chain(["filtered"]) {
            from.batch_execute(&format!(
                "INSERT INTO {table} SELECT i, i, 'word ' || i FROM generate_series(1, 2000) i"
            ))?;
        }
        for table in STORED {
            chill(&mut from, table)?;
        }
        from.batch_execute(
            "CREATE PUBLICATION p FOR TABLE by_key, by_index, by_all, parted,
                 filtered (id, n) WHERE (id % 2 = 0)",
        )?;
        let mut to = pair.subscriber.session()?;
        to.batch_execute(TABLES)?;
        to.batch_execute(&format!(
            "CREATE SUBSCRIPTION s CONNECTION 'host={} port={} dbname={DATABASE} user={}'
             PUBLICATION p WITH (streaming = {streaming})",
            pair.publisher.socket.display(),
            pair.publisher.port,
            pair.publisher.superuser,
        ))?;
        wait_until(
            &mut to,
            "SELECT count(*) = 6 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel",
        )?;
        for table in STORED {
            chill(&mut to, table)?;
            ensure!(cold_row_count(&mut to, table)? > 900, "{table} is not cold");
        }
        pair.check()?;
        Ok(pair)
    }

    /// Waits until everything is applied.
    fn catch_up(&self) -> anyhow::Result<()> {
        let mut from = self.publisher.session()?;
        let now = query(&mut from, "SELECT pg_current_wal_lsn()")?;
        wait_until(
            &mut from,
            &format!(
                "SELECT count(*) = 1 FROM pg_stat_replication
                 WHERE application_name = 's' AND replay_lsn >= '{now}'::pg_lsn"
            ),
        )
    }

    fn check(&self) -> anyhow::Result<()> {
        self.catch_up()?;
        let (mut from, mut to) = (self.publisher.session()?, self.subscriber.session()?);
        for table in WHOLE {
            let (sent, applied) = (digest(&mut from, table)?, digest(&mut to, table)?);
            ensure!(sent == applied, "{table}: sent {sent}, applied {applied}");
        }
        let sum = |condition: &str| {
            format!(
                "SELECT count(*), sum(id), sum(n), count(DISTINCT id) FROM filtered {condition}"
            )
        };
        let sent = query(&mut from, &sum("WHERE id % 2 = 0"))?;
        let applied = query(&mut to, &sum(""))?;
        ensure!(sent == applied, "filtered: sent {sent}, applied {applied}");
        ensure!(query(&mut to, "SELECT count(word) FROM filtered")? == "0");
        for (session, side) in [(&mut from, "publisher"), (&mut to, "subscriber")] {
            for table in ["by_key", "filtered", "parted_low"] {
                indexes_are_sound(session, table, "id").context(side)?;
            }
        }
        Ok(())
    }

    fn run(&self, statements: &str) -> anyhow::Result<()> {
        for table in WHOLE.into_iter().chain(["filtered"]) {
            let statements = statements.replace('@', table);
            let mut from = self.publisher.session()?;
            from.batch_execute(&statements)
                .with_context(|| statements.clone())?;
        }
        self.check().with_context(|| format!("after {statements}"))
    }
}

#[test]
fn a_subscriber_follows_changes_of_cold_rows_with_cold_rows_of_its_own() -> anyhow::Result<()> {
    let pair = Pair::start("logical-pair", "off")?;
    pair.run("DELETE FROM @ WHERE id BETWEEN 1 AND 30")?;
    pair.run("UPDATE @ SET word = 'new', n = -n WHERE id BETWEEN 31 AND 60")?;
    // Into and out of the filter, to the other partition and back.
    pair.run("UPDATE @ SET id = id + 3001, n = n + 3001 WHERE id BETWEEN 61 AND 70")?;
    pair.run("UPDATE @ SET id = id - 3001 WHERE id > 3000")?;
    pair.run("INSERT INTO @ SELECT i, i, 'late' FROM generate_series(5001, 5100) i")?;
    pair.run(
        "BEGIN; DELETE FROM @ WHERE id BETWEEN 81 AND 90; SAVEPOINT a;
         DELETE FROM @ WHERE id > 0; ROLLBACK TO a;
         UPDATE @ SET n = n + 10000 WHERE id BETWEEN 91 AND 99; SAVEPOINT b;
         UPDATE @ SET n = n + 10000 WHERE id BETWEEN 95 AND 105; COMMIT",
    )?;
    pair.run("BEGIN; UPDATE @ SET word = 'undone'; ROLLBACK")?;
    let (mut from, mut to) = (pair.publisher.session()?, pair.subscriber.session()?);
    for table in STORED {
        chill(&mut from, table)?;
        pair.check().context("compaction of the publisher")?;
        chill(&mut to, table)?;
        pair.check().context("compaction of the subscriber")?;
    }
    pair.run("UPDATE @ SET word = 'colder' WHERE id % 7 = 0 AND id < 400")?;
    pair.run("DELETE FROM @ WHERE id % 7 = 1 AND id < 400")?;
    pair.run("TRUNCATE @")?;
    ensure!(query(&mut to, "SELECT count(*) FROM by_all")? == "0");
    let failures = "SELECT apply_error_count + sync_error_count + confl_update_missing
        + confl_delete_missing FROM pg_stat_subscription_stats";
    ensure!(query(&mut to, failures)? == "0");
    Ok(())
}

#[test]
fn pg_recvlogical_receives_changes_of_cold_rows() -> anyhow::Result<()> {
    let primary = server("logical-receive")?;
    let mut session = primary.session()?;
    make_twins(&mut session)?;
    make_slot(&mut session)?;
    session.batch_execute("DELETE FROM c WHERE id = 1; UPDATE c SET id = 0 WHERE id = 2")?;
    let end = query(&mut session, "SELECT pg_current_wal_lsn()")?;
    let mut receive = primary.command("pg_recvlogical");
    receive.args([
        "--slot=slot",
        "--start",
        "--file=-",
        "--no-loop",
        "--dbname",
    ]);
    receive.args([DATABASE, "--endpos", &end, "--option=include-xids=0"]);
    let output = receive.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    for change in [
        "DELETE: id[integer]:1\n",
        "UPDATE: old-key: id[integer]:2 new-tuple: id[integer]:0 other[integer]:100002 ",
    ] {
        ensure!(text.contains(change), "{change} is not in {text}");
    }
    Ok(())
}

#[test]
fn large_transactions_are_applied_in_parallel() -> anyhow::Result<()> {
    let pair = Pair::start("logical-large", "parallel")?;
    pair.run(
        "BEGIN; UPDATE @ SET word = repeat(word, 9), n = -n WHERE id <= 600; SAVEPOINT a;
         DELETE FROM @ WHERE id BETWEEN 601 AND 900; ROLLBACK TO a;
         DELETE FROM @ WHERE id BETWEEN 301 AND 800; COMMIT",
    )?;
    pair.run("BEGIN; DELETE FROM @; ROLLBACK")?;
    pair.run("UPDATE @ SET word = NULL WHERE id > 1500")
}

#[test]
fn an_applied_change_waits_for_transactions_that_work_on_the_cold_row() -> anyhow::Result<()> {
    let pair = Pair::start("logical-wait", "off")?;
    let mut from = pair.publisher.session()?;
    let mut to = pair.subscriber.session()?;
    for table in ["by_key", "by_index", "by_all"] {
        for (change, id) in [
            (format!("DELETE FROM {table} WHERE id = 100"), 100),
            (
                format!("UPDATE {table} SET word = 'here' WHERE id = 200"),
                200,
            ),
        ] {
            to.batch_execute("BEGIN")?;
            to.batch_execute(&change)?;
            from.batch_execute(&format!(
                "UPDATE {table} SET word = 'there' WHERE id = {id}"
            ))?;
            wait_until(
                &mut pair.subscriber.session()?,
                "SELECT count(*) > 0 FROM pg_stat_activity
                 WHERE backend_type LIKE '%apply%' AND wait_event_type = 'Lock'",
            )
            .with_context(|| format!("{table}, {change}"))?;
            to.batch_execute("ROLLBACK")?;
            pair.check().with_context(|| change.clone())?;
        }
    }
    Ok(())
}

#[test]
fn a_crash_in_the_middle_loses_no_change_and_invents_none() -> anyhow::Result<()> {
    let pair = Pair::start("logical-crash", "on")?;
    let change =
        "UPDATE by_key SET word = 'done' WHERE id <= 200; DELETE FROM by_all WHERE id <= 50";
    let undone = "BEGIN; UPDATE by_key SET word = 'never', id = id + 10000 WHERE id <= 500;
                  DELETE FROM by_all WHERE id <= 500; CREATE TABLE later ()";
    for crashing in [&pair.publisher, &pair.subscriber] {
        pair.publisher.session()?.batch_execute(change)?;
        let mut open = pair.publisher.session()?;
        open.batch_execute(undone)?;
        pair.publisher
            .session()?
            .batch_execute("DELETE FROM by_index WHERE n % 5 = 0")?;
        crashing.crash_and_recover()?;
        drop(open);
        pair.check()?;
        pair.publisher
            .session()?
            .batch_execute("INSERT INTO by_index SELECT i, i FROM generate_series(5, 2000, 5) i")?;
        pair.check()?;
        let mut from = pair.publisher.session()?;
        ensure!(
            query(
                &mut from,
                "SELECT count(*) FROM by_key WHERE word = 'never'"
            )? == "0"
        );
        for table in STORED {
            chill(&mut from, table)?;
        }
        pair.check()?;
    }
    Ok(())
}

/// A transaction that is prepared, and has changed many rows of a row group, is ended by the worker
/// that applied it: the worker must be able to change other rows of the group before that.
#[test]
fn a_prepared_transaction_keeps_no_row_from_the_worker_but_its_own() -> anyhow::Result<()> {
    let prepared = [("max_prepared_transactions", "4")];
    let settings = [&SETTINGS[..], &prepared].concat();
    let publisher = Primary::start("two-phase-publisher", &settings)?;
    let small = [
        ("max_locks_per_transaction", "10"),
        ("max_connections", "20"),
    ];
    let few_locks = [&settings[1..], &small].concat();
    let subscriber = Primary::start("two-phase-subscriber", &few_locks)?;
    let mut from = publisher.session()?;
    let mut to = subscriber.session()?;
    from.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int);
         INSERT INTO t SELECT i, 0 FROM generate_series(1, 3000) i; CREATE PUBLICATION p FOR TABLE t",
    )?;
    to.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int) USING howdah")?;
    to.batch_execute(&format!(
        "CREATE SUBSCRIPTION s CONNECTION 'host={} port={} dbname={DATABASE} user={}'
         PUBLICATION p WITH (two_phase = true)",
        publisher.socket.display(),
        publisher.port,
        publisher.superuser,
    ))?;
    wait_until(
        &mut to,
        "SELECT count(*) = 1 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel",
    )?;
    wait_until(
        &mut to,
        "SELECT subtwophasestate = 'e' FROM pg_subscription",
    )?;
    chill(&mut to, "t")?;
    ensure!(cold_row_count(&mut to, "t")? == 3000);
    // Changes and deletes of so many rows are collected, under a lock on the group.
    from.batch_execute(
        "BEGIN; UPDATE t SET v = 1 WHERE id <= 700; DELETE FROM t WHERE id BETWEEN 701 AND 1200;
         PREPARE TRANSACTION 'x'",
    )?;
    wait_until(&mut to, "SELECT count(*) = 1 FROM pg_prepared_xacts")?;
    from.batch_execute("UPDATE t SET v = 2 WHERE id = 2000")?;
    wait_until(&mut to, "SELECT v = 2 FROM t WHERE id = 2000")?;
    // Many rows, which the worker cannot lock as a group: not all at a time either.
    let mut local = subscriber.session()?;
    local.batch_execute("BEGIN; SELECT id FROM t WHERE id = 1201 FOR UPDATE")?;
    from.batch_execute("UPDATE t SET v = 3 WHERE id > 1201")?;
    wait_until(&mut to, "SELECT count(*) = 1799 FROM t WHERE v = 3")?;
    local.batch_execute("ROLLBACK")?;
    drop(local);
    // A row that it has changed is still locked, here and after a crash.
    for _ in 0..2 {
        for row in [5, 800] {
            let locked = format!("SELECT id FROM t WHERE id = {row} FOR UPDATE NOWAIT");
            let error = to
                .batch_execute(&locked)
                .err()
                .context("it is not locked")?;
            ensure!(error.code().is_some_and(|code| code.code() == "55P03"));
        }
        drop(to);
        subscriber.crash_and_recover()?;
        to = subscriber.session()?;
    }
    from.batch_execute("COMMIT PREPARED 'x'")?;
    from.batch_execute("DELETE FROM t WHERE id = 5")?;
    let counts = "SELECT count(*), count(*) FILTER (WHERE v = 1), sum(id) FROM t";
    let expected = query(&mut from, counts)?;
    wait_until(
        &mut to,
        &format!(
            "SELECT (c::text) = '({})' FROM ({counts}) c",
            expected.replace('|', ",")
        ),
    )?;
    indexes_are_sound(&mut to, "t", "id")?;
    row_numbers_are_unique(&mut to, "t")
}

/// The values of a load that is under way cannot be compared with those of the row that is looked
/// for: the worker waits for the load, rather than take the row for missing.
#[test]
fn an_applied_change_waits_for_a_load_that_may_bring_its_row() -> anyhow::Result<()> {
    let pair = Pair::start("logical-load", "off")?;
    let mut from = pair.publisher.session()?;
    let mut to = pair.subscriber.session()?;
    for table in ["by_all", "by_index"] {
        to.batch_execute(&format!(
            "CREATE TABLE kept AS SELECT * FROM {table} ORDER BY id; ANALYZE kept; TRUNCATE {table}"
        ))?;
        let mut loading = pair.subscriber.session()?;
        let load = format!(
            "INSERT INTO {table} SELECT * FROM kept WHERE id < 1999 OR pg_sleep(5) IS NOT NULL"
        );
        let load = thread::spawn(move || loading.batch_execute(&load));
        let mut watch = pair.subscriber.session()?;
        wait_until(
            &mut watch,
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
        )?;
        from.batch_execute(&format!(
            "UPDATE {table} SET word = 'changed' WHERE id = 1500; DELETE FROM {table} WHERE id = 1600"
        ))?;
        wait_until(
            &mut watch,
            "SELECT count(*) > 0 FROM pg_stat_activity
             WHERE backend_type LIKE '%apply%' AND wait_event_type = 'Lock'",
        )
        .with_context(|| table.to_owned())?;
        load.join()
            .map_err(|_| anyhow::anyhow!("the load panicked"))??;
        to.batch_execute("DROP TABLE kept")?;
        pair.check().with_context(|| table.to_owned())?;
        ensure!(
            cold_row_count(&mut to, table)? > 0,
            "{table} was loaded hot"
        );
    }
    Ok(())
}
