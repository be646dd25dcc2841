//! Small row groups are merged over and over while their rows are changed, above all between the
//! reading of the old groups and their end: a session sees every row once under any snapshot, on
//! the primary, on a standby, and after every crash.
//!
//! A merger stands at `merge_delete` as long as a keeper holds the advisory lock. Each transaction
//! does the same to a table and to its heap twin, so that both hold the same rows under every
//! snapshot. Writers keep to keys of their own: no two change one row.
//! `HOWDAH_MERGE_SECONDS` and `HOWDAH_MERGE_SEED` make a longer run or repeat one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{equals_twin, indexes_are_sound, row_numbers_are_unique};
use howdah_server_tests::cluster::{DATABASE, Primary, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::settings::number;
use postgres::{Client, Config, NoTls};

const WRITER_COUNT: u64 = 3;
const GROUP_COUNT: u64 = 20;
const GROUP_ROWS: u64 = 300;
const ROW_COUNT: u64 = GROUP_COUNT * GROUP_ROWS;

fn start(name: &str) -> anyhow::Result<Primary> {
    let primary = Primary::start(
        name,
        &[
            ("howdah.compaction", "off"),
            ("autovacuum", "off"),
            ("howdah.load_threshold", "50"),
            ("max_standby_streaming_delay", "-1"),
        ],
    )?;
    primary.session()?.batch_execute(&format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, k int, v int) USING howdah;
         CREATE INDEX ON t (k); CREATE INDEX ON t (v) WHERE k < 10;
         CREATE TABLE h (LIKE t INCLUDING ALL) USING heap;
         DO $$ BEGIN
           FOR g IN 0..{GROUP_COUNT} - 1 LOOP
             INSERT INTO t SELECT i, i % 100, 0
               FROM generate_series(g * {GROUP_ROWS} + 1, (g + 1) * {GROUP_ROWS}) i;
           END LOOP;
         END $$;
         INSERT INTO h SELECT * FROM t"
    ))?;
    Ok(primary)
}

/// A session's changes; a new key is above all that were there.
struct Writer {
    dice: Dice,
    number: u64,
    next_key: u64,
}

impl Writer {
    /// A key of this writer, which may be there or not.
    fn key(&mut self) -> u64 {
        let key = self.dice.roll() % ROW_COUNT;
        key - key % WRITER_COUNT + self.number
    }

    fn new_keys(&mut self, count: u64) -> u64 {
        let first = self.next_key;
        self.next_key += count * WRITER_COUNT;
        first
    }

    /// A statement, with `TABLE` for the table's name.
    fn statement(&mut self) -> String {
        let (key, number) = (self.key(), self.number);
        match self.dice.below(20) {
            0..=7 => {
                let k = self.dice.below(100);
                format!("UPDATE TABLE SET v = v + 1, k = {k} WHERE id = {key}")
            }
            8..=9 => format!("DELETE FROM TABLE WHERE id = {key}"),
            10 => format!("INSERT INTO TABLE VALUES ({}, 1, 0)", self.new_keys(1)),
            11..=12 => format!(
                "UPDATE TABLE SET v = v + 1
                 WHERE id BETWEEN {key} AND {key} + 60 AND id % {WRITER_COUNT} = {number}"
            ),
            13..=14 => format!(
                "UPDATE TABLE SET id = {} WHERE id = {key}",
                self.new_keys(1)
            ),
            15 => format!(
                "INSERT INTO TABLE SELECT {} + i * {WRITER_COUNT}, i % 100, 0
                 FROM generate_series(0, 199) i",
                self.new_keys(200)
            ),
            // A key that was deleted or given another may be taken again.
            16..=17 => format!(
                "INSERT INTO TABLE VALUES ({key}, 5, 5)
                 ON CONFLICT (id) DO UPDATE SET v = TABLE.v + 10"
            ),
            18 => format!("SELECT id FROM TABLE WHERE id = {key} FOR UPDATE"),
            _ => format!("SELECT id FROM TABLE WHERE id = {key} FOR NO KEY UPDATE"),
        }
    }

    /// A transaction that does the same to both tables.
    fn transact(&mut self, client: &mut Client) -> anyhow::Result<()> {
        let isolation = *self
            .dice
            .pick(&["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ"]);
        let mut transaction = client.transaction()?;
        transaction.batch_execute(&format!("SET TRANSACTION ISOLATION LEVEL {isolation}"))?;
        for _ in 0..*self.dice.pick(&[1, 1, 1, 2, 5]) {
            let statement = self.statement();
            let undone = self.dice.one_in(8);
            if undone {
                transaction.batch_execute("SAVEPOINT s")?;
            }
            let [ours, heaps] = ["t", "h"].map(|table| {
                let statement = statement.replace("TABLE", table);
                transaction.execute(&statement, &[])
            });
            let (ours, heaps) = (ours.with_context(|| statement.clone())?, heaps?);
            ensure!(ours == heaps, "{ours} rows instead of {heaps}: {statement}");
            if undone {
                transaction.batch_execute("ROLLBACK TO s")?;
            }
        }
        match self.dice.one_in(7) {
            true => transaction.rollback()?,
            false => transaction.commit()?,
        }
        Ok(())
    }
}

/// Both tables under one snapshot, by several plans and several times.
fn read(client: &mut Client, dice: &mut Dice) -> anyhow::Result<()> {
    let sums = "count(*), count(DISTINCT id), sum(id), sum(v), sum(k)";
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    let expected = query(client, &format!("SELECT {sums} FROM h"))?;
    for plan in [
        "enable_seqscan = off",
        "enable_indexscan = off",
        "howdah.vectorized = off",
        "howdah.columnar_scan = off",
    ] {
        let column = *dice.pick(&["id > -1", "k > -1"]);
        client.batch_execute(&format!("SET LOCAL {plan}"))?;
        let found = query(client, &format!("SELECT {sums} FROM t WHERE {column}"))?;
        ensure!(
            found == expected,
            "{found} instead of {expected}, {plan}, {column}"
        );
        sleep(Duration::from_millis(dice.roll() % 20));
    }
    Ok(client.batch_execute("COMMIT")?)
}

/// What sessions share.
#[derive(Default)]
struct Run {
    is_over: AtomicBool,
    may_crash: bool,
    transaction_count: AtomicU64,
    read_count: AtomicU64,
    /// Transactions that ended while the merger stood.
    late_count: AtomicU64,
}

impl Run {
    /// Repeats `step` in a session until the run is over or its server dies.
    fn repeat(
        &self,
        config: &Config,
        mut step: impl FnMut(&mut Client) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut client = config.connect(NoTls)?;
        while !self.is_over.load(Ordering::Relaxed) {
            match step(&mut client) {
                Err(error) if self.may_crash && lost_server(&error) => return Ok(()),
                other => other?,
            }
        }
        Ok(())
    }

    fn write(&self, config: &Config, number: u64, seed: u64) -> anyhow::Result<()> {
        let mut writer = Writer {
            dice: Dice::new(seed ^ (number << 32)),
            number,
            // Above those of all runs before; the remainder tells the writer.
            next_key: 3_000_000 * (1 + seed % 1_000_000) + number,
        };
        self.repeat(config, |client| {
            writer.transact(client)?;
            self.transaction_count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }

    fn read(&self, config: &Config, seed: u64) -> anyhow::Result<()> {
        let mut dice = Dice::new(seed);
        self.repeat(config, |client| {
            read(client, &mut dice)?;
            self.read_count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }

    fn merge(&self, config: &Config) -> anyhow::Result<()> {
        let mut merge_count = 0;
        self.repeat(config, |client| {
            merge_count += 1;
            client.batch_execute("SET howdah.debug_stop_point = 'merge_delete'")?;
            client.batch_execute("CALL howdah.compact('t')")?;
            if merge_count % 7 == 0 {
                client.batch_execute("VACUUM (INDEX_CLEANUP on) t")?;
            }
            Ok(())
        })
    }

    /// Holds the merger for up to a tenth of a second where it stops.
    fn keep(&self, config: &Config, seed: u64) -> anyhow::Result<()> {
        let mut dice = Dice::new(seed);
        let standing = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        self.repeat(config, |client| {
            client.batch_execute("SELECT pg_advisory_lock(7468)")?;
            sleep(Duration::from_millis(dice.roll() % 50));
            let stands = query(client, standing)? == "1";
            let before = self.transaction_count.load(Ordering::Relaxed);
            sleep(Duration::from_millis(dice.roll() % 50));
            if stands {
                let ended = self.transaction_count.load(Ordering::Relaxed) - before;
                self.late_count.fetch_add(ended, Ordering::Relaxed);
            }
            client.batch_execute("SELECT pg_advisory_unlock(7468)")?;
            sleep(Duration::from_millis(2));
            Ok(())
        })
    }

    /// All sessions at work for a while; `readers` are on a standby, too. The primary is killed at
    /// the end if it may crash.
    fn go(
        &self,
        primary: &Primary,
        readers: &[Config],
        seed: u64,
        time: Duration,
    ) -> anyhow::Result<()> {
        let config = &primary.config(DATABASE);
        thread::scope(|scope| -> anyhow::Result<()> {
            let mut handles = vec![
                scope.spawn(|| self.merge(config)),
                scope.spawn(|| self.keep(config, seed)),
            ];
            handles.extend((0..WRITER_COUNT).map(|number| {
                scope.spawn(move || self.write(config, number, seed).context("a writer"))
            }));
            handles.extend(
                readers
                    .iter()
                    .map(|reader| scope.spawn(move || self.read(reader, seed).context("a reader"))),
            );
            let end = Instant::now() + time;
            while Instant::now() < end && !handles.iter().any(ScopedJoinHandle::is_finished) {
                sleep(Duration::from_millis(10));
            }
            if self.may_crash {
                primary.crash_and_recover()?;
            }
            self.is_over.store(true, Ordering::Relaxed);
            for handle in handles {
                handle
                    .join()
                    .map_err(|_| anyhow::anyhow!("a session panicked"))??;
            }
            Ok(())
        })
    }
}

/// Whether the server was killed: the connection broke, or the server closed it.
fn lost_server(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<postgres::Error>()
        .is_some_and(|error| {
            error
                .as_db_error()
                .is_none_or(|one| one.code().code().starts_with("57P"))
        })
}

fn check(client: &mut Client) -> anyhow::Result<()> {
    equals_twin(client, "t", "h")?;
    read(client, &mut Dice::new(1))?;
    indexes_are_sound(client, "t", "k")?;
    row_numbers_are_unique(client, "t")
}

fn compact_and_vacuum(client: &mut Client) -> Result<(), postgres::Error> {
    client.batch_execute("CALL howdah.compact('t')")?;
    client.batch_execute("VACUUM t")
}

/// The row groups up to one.
fn group_count(client: &mut Client, last: &str) -> anyhow::Result<String> {
    let sql = format!(
        "SELECT count(*) FROM howdah.row_groups
         WHERE relation = 't'::regclass AND row_group <= {last}"
    );
    query(client, &sql)
}

#[test]
fn merges_beside_changes_show_every_row_once() -> anyhow::Result<()> {
    let seed = number("HOWDAH_MERGE_SEED", 1);
    let time = Duration::from_secs(number("HOWDAH_MERGE_SECONDS", 8));
    let primary = start("merges")?;
    let standby = primary.standby()?;
    let run = Run::default();
    let readers = [
        primary.config(DATABASE),
        standby.config(DATABASE),
        standby.config(DATABASE),
    ];
    let mut client = primary.session()?;
    let last = query(&mut client, "SELECT max(row_group) FROM howdah.row_groups")?;
    ensure!(group_count(&mut client, &last)? == GROUP_COUNT.to_string());
    run.go(&primary, &readers, seed, time)?;
    println!(
        "{:?}",
        (&run.transaction_count, &run.late_count, &run.read_count)
    );
    ensure!(run.late_count.into_inner() > 0, "no row changed late");
    ensure!(run.read_count.into_inner() > 0, "no snapshot was read");
    check(&mut client)?;
    compact_and_vacuum(&mut client)?;
    ensure!(group_count(&mut client, &last)? == "0", "groups are left");
    check(&mut client)?;
    standby.wait_for(&primary)?;
    standby.promote()?;
    let mut client = standby.session()?;
    check(&mut client).context("on the standby")?;
    compact_and_vacuum(&mut client)?;
    check(&mut client).context("on the standby, compacted")
}

#[test]
fn merges_that_are_killed_beside_changes_lose_nothing() -> anyhow::Result<()> {
    let seed = number("HOWDAH_MERGE_SEED", 1);
    let rounds = number("HOWDAH_MERGE_SECONDS", 8).div_ceil(2);
    let primary = start("merges-killed")?;
    let mut dice = Dice::new(seed);
    for round in 0..rounds {
        let time = Duration::from_millis(100 + dice.roll() % 1_000);
        let run = Run {
            may_crash: true,
            ..Run::default()
        };
        run.go(&primary, &[], seed + round, time)
            .and_then(|()| check(&mut primary.session()?))
            .with_context(|| format!("round {round}, killed after {time:?}"))?;
    }
    Ok(())
}
