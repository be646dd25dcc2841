//! Killed servers lose nothing that was committed and keep nothing that was not.
//!
//! A howdah table and its heap twin are written by the same transactions, so after any crash
//! both hold the same rows; batches whose commit was confirmed are there, and at most one more.
//! `HOWDAH_CRASH_ROUNDS` and `HOWDAH_CRASH_SEED` make a longer run or repeat one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{
    can_compact, cold_row_count, equals_twin, indexes_are_sound, row_numbers_are_unique,
};
use howdah_server_tests::cluster::{DATABASE, Primary, query};
use howdah_server_tests::death::recovered_from_death_at;
use howdah_server_tests::settings::number;
use postgres::{Client, Config, NoTls};

const SETTINGS: [(&str, &str); 3] = [
    ("howdah.load_threshold", "1000"),
    ("howdah.compaction", "off"),
    ("autovacuum_naptime", "1s"),
];
const BATCH_ROWS: u64 = 6000;
/// Batches are of one of these kinds, by their number.
const KINDS: u64 = 4;

/// xorshift64*: delays that a seed repeats.
struct Delays(u64);

impl Delays {
    fn next(&mut self, limit: Duration) -> Duration {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let share = (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40) as f64 / (1 << 24) as f64;
        limit.mul_f64(share)
    }
}

fn make_tables(client: &mut Client) -> anyhow::Result<()> {
    for (table, method) in [("c", "howdah"), ("h", "heap")] {
        client.batch_execute(&format!(
            "CREATE TABLE {table} (id bigint PRIMARY KEY, batch bigint, word text, amount numeric)
             USING {method};
             CREATE INDEX ON {table} (word)"
        ))?;
    }
    Ok(())
}

fn fill(table: &str, batch: u64, rows: u64, first: u64) -> String {
    format!(
        "INSERT INTO {table} SELECT {batch} * 1000000::bigint + i, {batch}, 'word ' || i % 97, i / 8.0
         FROM generate_series({first}, {}) i;",
        first + rows - 1
    )
}

/// Loads one batch into both tables: plain, hot rows only, with a savepoint rolled back, or rolled
/// back as a whole.
fn load_batch(client: &mut Client, batch: u64) -> Result<(), postgres::Error> {
    let both = |rows, first| fill("c", batch, rows, first) + &fill("h", batch, rows, first);
    match batch % KINDS {
        0 => client.batch_execute(&format!("BEGIN; {} COMMIT", both(BATCH_ROWS, 1))),
        1 => client.batch_execute(&format!("BEGIN; {} COMMIT", both(100, 1))),
        2 => client.batch_execute(&format!(
            "BEGIN; {} SAVEPOINT s; {} ROLLBACK TO s; {} COMMIT",
            both(BATCH_ROWS / 2, 1),
            both(BATCH_ROWS / 2, 10_000),
            both(BATCH_ROWS / 2, 20_000),
        )),
        _ => client.batch_execute(&format!("BEGIN; {} ROLLBACK", both(BATCH_ROWS, 1))),
    }
}

fn keeps_rows(batch: u64) -> bool {
    batch % KINDS != 3
}

/// Loads batch after batch until the server dies; counts those whose commit was confirmed.
fn load_until_killed(config: &Config, first: u64, confirmed: &AtomicU64, compact: bool) {
    let Ok(mut client) = config.connect(NoTls) else {
        return;
    };
    for batch in first.. {
        if load_batch(&mut client, batch).is_err() {
            return;
        }
        confirmed.store(batch + 1, Ordering::SeqCst);
        if compact && batch % 3 == 0 && client.batch_execute("CALL howdah.compact('c')").is_err() {
            return;
        }
    }
}

fn check_after_crash(client: &mut Client) -> anyhow::Result<()> {
    equals_twin(client, "c", "h")?;
    indexes_are_sound(client, "c", "id")?;
    row_numbers_are_unique(client, "c")
}

/// Checks which batches are there, of those from `first` to `confirmed` and the one after these.
fn check_batches(client: &mut Client, first: u64, confirmed: u64) -> anyhow::Result<()> {
    let promised = (first..confirmed)
        .filter(|batch| keeps_rows(*batch))
        .count();
    let there = query(
        client,
        &format!("SELECT count(DISTINCT batch) FROM c WHERE batch BETWEEN {first} AND {confirmed}"),
    )?
    .parse::<usize>()?;
    ensure!(
        there == promised || (there == promised + 1 && keeps_rows(confirmed)),
        "{promised} batches were confirmed, {there} are there"
    );
    Ok(())
}

#[test]
fn a_server_killed_at_any_moment_of_loading_loses_and_doubles_nothing() -> anyhow::Result<()> {
    let primary = Primary::start("crash-load", &SETTINGS)?;
    let compact = can_compact(&mut primary.session()?)?;
    make_tables(&mut primary.session()?)?;
    let mut delays = Delays(number("HOWDAH_CRASH_SEED", 0x5EED) | 1);
    let confirmed = AtomicU64::new(0);
    let mut cold_rows_seen = 0;
    for round in 0..number("HOWDAH_CRASH_ROUNDS", 12) {
        let first = confirmed.load(Ordering::SeqCst);
        let (config, delay) = (
            primary.config(DATABASE),
            delays.next(Duration::from_millis(900)),
        );
        thread::scope(|scope| {
            scope.spawn(|| load_until_killed(&config, first, &confirmed, compact));
            sleep(delay);
            primary.crash_and_recover()
        })?;
        let mut client = primary.session()?;
        let now = confirmed.load(Ordering::SeqCst);
        check_batches(&mut client, first, now)
            .and_then(|()| check_after_crash(&mut client))
            .with_context(|| format!("round {round}, killed after {delay:?}"))?;
        // The number of the batch that was interrupted is not used again.
        confirmed.store(now + 1, Ordering::SeqCst);
        cold_rows_seen += cold_row_count(&mut client, "c")?;
        if round % 4 == 3 {
            client.batch_execute("VACUUM c")?;
            check_after_crash(&mut client)?;
            client.batch_execute("TRUNCATE c, h")?;
        }
    }
    ensure!(cold_rows_seen > 0, "no round left a cold row behind");
    Ok(())
}

/// The named steps of loading, and of merging small groups. The steps of moving hot rows are tested
/// in `compaction.rs`.
const LOAD_STEPS: [&str; 2] = ["value_written", "completed"];
const MERGE_STEPS: [&str; 4] = [
    "merge_reserve",
    "merge_index_insert",
    "merge_delete",
    "merge_commit",
];

#[test]
fn a_backend_killed_at_a_named_step_of_loading_or_merging_leaves_no_trace() -> anyhow::Result<()> {
    let primary = Primary::start("crash-step", &SETTINGS)?;
    let mut client = primary.session()?;
    make_tables(&mut client)?;
    // Batches of a multiple of KINDS keep all their rows.
    for batch in 0..3 {
        load_batch(&mut client, batch * KINDS)?;
    }
    let mut next_batch = 3;
    for step in LOAD_STEPS {
        let statement = format!("BEGIN; {} COMMIT", fill("c", 999_999, BATCH_ROWS, 1));
        let mut client = recovered_from_death_at(&primary, step, &statement)?;
        check_after_crash(&mut client).with_context(|| format!("killed at {step}"))?;
        load_batch(&mut client, next_batch * KINDS)?;
        check_after_crash(&mut client).with_context(|| format!("loading after {step}"))?;
        next_batch += 1;
    }
    for step in MERGE_STEPS {
        let mut client = recovered_from_death_at(&primary, step, "CALL howdah.compact('c')")?;
        check_after_crash(&mut client).with_context(|| format!("killed at {step}"))?;
        client.batch_execute("VACUUM c")?;
        check_after_crash(&mut client).with_context(|| format!("VACUUM after {step}"))?;
        load_batch(&mut client, next_batch * KINDS)?;
        check_after_crash(&mut client).with_context(|| format!("loading after {step}"))?;
        next_batch += 1;
    }
    client = primary.session()?;
    client.batch_execute("CALL howdah.compact('c')")?;
    check_after_crash(&mut client)
}
