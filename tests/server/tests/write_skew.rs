//! Serializable transactions that would be subject to write skew: each checks whether a pair has
//! two tokens and removes one of them, and two transactions never remove the same one. Meanwhile
//! rows move from hot to cold and from group to group. If a pair is left without a token, or if a
//! transaction that could commit has seen it without one, an anomaly has occurred.
//!
//! `HOWDAH_SKEW_SECONDS` and `HOWDAH_SKEW_SEED` make a longer run or repeat one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use howdah_server_tests::checks::{indexes_are_sound, row_numbers_are_unique};
use howdah_server_tests::cluster::{DATABASE, Primary, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::settings::number;
use postgres::{Client, Config, NoTls};

const SESSION_COUNT: u64 = 6;
/// Pairs of tokens, far apart from each other by key.
const PAIR_COUNT: u64 = 12;
const KEYS_PER_PAIR: u64 = 1_000;

/// Both tokens of every pair, among rows that no transaction changes.
fn make_table(client: &mut Client) -> anyhow::Result<()> {
    client.batch_execute(&format!(
        "CREATE TABLE tokens (id bigint PRIMARY KEY, pair bigint NOT NULL, filler text, spent boolean) USING howdah;
         CREATE INDEX ON tokens (pair);
         INSERT INTO tokens SELECT i, -i, 'x', false FROM generate_series(1, {PAIR_COUNT} * {KEYS_PER_PAIR}) i
             WHERE i % {KEYS_PER_PAIR} NOT IN (1, 500);
         INSERT INTO tokens SELECT (p - 1) * {KEYS_PER_PAIR} + t, p, 'token', false
             FROM generate_series(1, {PAIR_COUNT}) p, unnest(ARRAY[1, 500]) t"
    ))?;
    client.batch_execute("CALL howdah.compact('tokens')")?;
    Ok(client.batch_execute("ANALYZE tokens")?)
}

/// Ways to find the tokens of a pair.
const PLANS: [&str; 5] = [
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off",
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off",
    "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off",
    "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL howdah.columnar_scan = off",
    "SET LOCAL enable_seqscan = off",
];

fn keys(pair: u64) -> [u64; 2] {
    let first = (pair - 1) * KEYS_PER_PAIR;
    [first + 1, first + 500]
}

/// One transaction: removes a token if there are two, or restores what is missing. Returns how many
/// there were.
fn run_one(client: &mut Client, dice: &mut Dice) -> Result<i64, postgres::Error> {
    let pair = 1 + dice.roll() % PAIR_COUNT;
    let keys = keys(pair);
    let mut pause = || match dice.roll() % 4 {
        0 => Duration::ZERO,
        roll => Duration::from_millis(roll * 3),
    };
    let pauses = [pause(), pause(), pause()];
    let mut transaction = client
        .build_transaction()
        .isolation_level(postgres::IsolationLevel::Serializable)
        .start()?;
    let plan: &&str = dice.pick(&PLANS);
    transaction.batch_execute(plan)?;
    transaction.simple_query("SELECT 1")?;
    thread::sleep(pauses[0]);
    let how_many = match dice.roll() % 3 {
        0 => format!(
            "SELECT count(*) FROM tokens WHERE id IN ({}, {}) AND pair = {pair} AND NOT spent",
            keys[0], keys[1]
        ),
        1 => format!("SELECT count(filler) FROM tokens WHERE pair = {pair} AND NOT spent"),
        _ => format!(
            "SELECT (SELECT count(pair) FROM tokens WHERE pair = {pair})
                - (SELECT count(pair) FROM tokens WHERE pair = {pair} AND spent)"
        ),
    };
    let count: i64 = transaction.query_one(&how_many, &[])?.get(0);
    thread::sleep(pauses[1]);
    let key = keys[(dice.roll() % 2) as usize];
    // Removed by a deletion, by a change of an indexed column, or by a change that enters no index.
    let change = match (count, dice.roll() % 5) {
        (2, 0) => format!("DELETE FROM tokens WHERE id = {key}"),
        (2, 1) => format!("UPDATE tokens SET pair = -id WHERE id = {key}"),
        (2, 2) => format!("DELETE FROM tokens WHERE pair = {pair} AND id = {key}"),
        (2, _) => format!("UPDATE tokens SET spent = true WHERE id = {key}"),
        _ => format!(
            "INSERT INTO tokens VALUES ({}, {pair}, 'token', false), ({}, {pair}, 'token', false)
             ON CONFLICT (id) DO UPDATE SET pair = {pair}, spent = false",
            keys[0], keys[1]
        ),
    };
    transaction.batch_execute(&change)?;
    thread::sleep(pauses[2]);
    transaction.commit()?;
    Ok(count)
}

#[derive(Default)]
struct Counts {
    over: AtomicBool,
    taken: AtomicU64,
    refused: AtomicU64,
}

fn work(config: &Config, counts: &Counts, seed: u64) -> anyhow::Result<()> {
    let mut client = config.connect(NoTls)?;
    let mut dice = Dice::new(seed);
    while !counts.over.load(Ordering::Relaxed) {
        match run_one(&mut client, &mut dice) {
            Ok(count) => {
                ensure!(count > 0, "a pair without a token was seen");
                counts
                    .taken
                    .fetch_add(u64::from(count == 2), Ordering::Relaxed);
            }
            Err(error) => match error.code().map(postgres::error::SqlState::code) {
                Some("40001" | "40P01" | "23505") => {
                    counts.refused.fetch_add(1, Ordering::Relaxed);
                }
                _ => return Err(error.into()),
            },
        }
    }
    Ok(())
}

/// Moves, merges and vacuums, and checks whether every pair has a token.
fn move_rows(config: &Config, counts: &Counts) -> anyhow::Result<()> {
    let mut client = config.connect(NoTls)?;
    for round in 0_u64.. {
        client.batch_execute("CALL howdah.compact('tokens')")?;
        if round % 4 == 3 {
            client.batch_execute("VACUUM (INDEX_CLEANUP on) tokens")?;
        }
        every_pair_has_a_token(&mut client)?;
        if counts.over.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

fn every_pair_has_a_token(client: &mut Client) -> anyhow::Result<()> {
    let robbed = query(
        client,
        &format!(
            "SELECT count(*) FROM generate_series(1, {PAIR_COUNT}) p
             WHERE NOT EXISTS (SELECT FROM tokens WHERE pair = p AND NOT spent)"
        ),
    )?;
    ensure!(robbed == "0", "{robbed} pairs have no token");
    Ok(())
}

#[test]
fn no_pair_loses_both_its_tokens_while_rows_move() -> anyhow::Result<()> {
    let primary = Primary::start(
        "write-skew",
        &[
            ("howdah.compaction", "off"),
            ("autovacuum_naptime", "1s"),
            ("deadlock_timeout", "20ms"),
        ],
    )?;
    make_table(&mut primary.session()?)?;
    let config = primary.config(DATABASE);
    let seed = number("HOWDAH_SKEW_SEED", 1);
    let end = Instant::now() + Duration::from_secs(number("HOWDAH_SKEW_SECONDS", 10));
    let counts = Counts::default();
    thread::scope(|scope| -> anyhow::Result<()> {
        let mut handles = vec![scope.spawn(|| move_rows(&config, &counts))];
        for session in 0..SESSION_COUNT {
            let (config, counts) = (&config, &counts);
            handles.push(scope.spawn(move || work(config, counts, seed ^ (session << 32))));
        }
        // On a busy machine it takes longer until two get in each other's way.
        let has_met = || {
            counts.taken.load(Ordering::Relaxed) > 0 && counts.refused.load(Ordering::Relaxed) > 0
        };
        let last = end + Duration::from_secs(60);
        let has_time = || Instant::now() < if has_met() { end } else { last };
        while has_time() && !handles.iter().any(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(20));
        }
        counts.over.store(true, Ordering::Relaxed);
        for handle in handles {
            handle
                .join()
                .map_err(|_| anyhow::anyhow!("a session panicked"))??;
        }
        Ok(())
    })?;
    let (taken, refused) = (counts.taken.into_inner(), counts.refused.into_inner());
    println!("{taken} tokens taken, {refused} transactions refused");
    ensure!(
        taken > 0 && refused > 0,
        "no transaction met another's change"
    );
    let mut client = primary.session()?;
    every_pair_has_a_token(&mut client)?;
    indexes_are_sound(&mut client, "tokens", "id")?;
    row_numbers_are_unique(&mut client, "tokens")
}
