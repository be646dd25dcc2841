//! Money moves between accounts that start cold, under eight sessions and with compaction all the
//! time; all totals agree at any moment, and after a crash.
//!
//! `HOWDAH_TRANSFER_SECONDS` and `HOWDAH_TRANSFER_SEED` make a longer run or repeat one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{cold_row_count, indexes_are_sound, row_numbers_are_unique};
use howdah_server_tests::cluster::{DATABASE, Primary, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::settings::number;
use postgres::{Client, Config, NoTls};

const SESSION_COUNT: u64 = 8;
const ACCOUNT_COUNT: u64 = 20_000;
/// Accounts that all sessions use.
const POPULAR_COUNT: u64 = 50;
const OPENING_BALANCE: u64 = 100;
const TELLER_COUNT: u64 = 80;

fn start(name: &str) -> anyhow::Result<Primary> {
    Primary::start(
        name,
        &[
            ("howdah.compaction", "off"),
            ("autovacuum_naptime", "1s"),
            ("deadlock_timeout", "20ms"),
        ],
    )
}

/// The balances of accounts, tellers and branches are the opening balance plus the sum of the
/// history.
fn open_bank(client: &mut Client) -> anyhow::Result<()> {
    client.batch_execute(&format!(
        "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL, filler text) USING howdah;
         CREATE TABLE tellers (id bigint PRIMARY KEY, balance bigint NOT NULL) USING howdah;
         CREATE TABLE branches (id bigint PRIMARY KEY, balance bigint NOT NULL) USING howdah;
         CREATE TABLE history (account bigint REFERENCES accounts, teller bigint, branch bigint,
                               amount bigint, at timestamptz DEFAULT now()) USING howdah;
         INSERT INTO accounts SELECT i, {OPENING_BALANCE}, repeat('x', 40) FROM generate_series(1, {ACCOUNT_COUNT}) i;
         INSERT INTO tellers SELECT i, 0 FROM generate_series(1, {TELLER_COUNT}) i;
         INSERT INTO branches SELECT i, 0 FROM generate_series(1, {SESSION_COUNT}) i"
    ))?;
    compact_all(client)?;
    ensure!(cold_row_count(client, "accounts")? == ACCOUNT_COUNT);
    Ok(())
}

const TABLES: [&str; 4] = ["accounts", "tellers", "branches", "history"];

fn compact_all(client: &mut Client) -> Result<(), postgres::Error> {
    for table in TABLES {
        client.batch_execute(&format!("CALL howdah.compact('{table}')"))?;
    }
    Ok(())
}

/// Checks what must hold at any moment, by sequential scans and through the primary key.
fn check_books(client: &mut Client) -> anyhow::Result<()> {
    let books = "SELECT (SELECT count(*) FROM accounts), \
                        (SELECT sum(balance) FROM accounts) - (SELECT coalesce(sum(amount), 0) FROM history), \
                        (SELECT sum(balance) FROM tellers) - (SELECT coalesce(sum(amount), 0) FROM history), \
                        (SELECT sum(balance) FROM branches) - (SELECT coalesce(sum(amount), 0) FROM history)";
    let expected = format!("{ACCOUNT_COUNT}|{}|0|0", ACCOUNT_COUNT * OPENING_BALANCE);
    for plan in [
        "enable_indexscan = on",
        "enable_seqscan = off",
        "howdah.columnar_scan = off",
    ] {
        client.batch_execute(&format!("SET {plan}"))?;
        let found = query(client, books)?;
        client.batch_execute("RESET ALL")?;
        ensure!(
            found == expected,
            "the books say {found}, not {expected}, with {plan}"
        );
    }
    // Each account by itself: no update was lost, none was applied twice.
    let wrong = format!(
        "SELECT count(*) FROM accounts a LEFT JOIN \
           (SELECT account, sum(amount) AS moved FROM history GROUP BY account) h ON h.account = a.id \
         WHERE a.balance <> {OPENING_BALANCE} + coalesce(h.moved, 0)"
    );
    ensure!(
        query(client, &wrong)? == "0",
        "accounts do not match their history"
    );
    Ok(())
}

fn some_account(dice: &mut Dice) -> u64 {
    let limit = if dice.one_in(3) {
        POPULAR_COUNT
    } else {
        ACCOUNT_COUNT
    };
    1 + dice.roll() % limit
}

/// A transfer between two accounts, or one of TPC-B's; both keep every total.
fn transaction(dice: &mut Dice, session: u64) -> String {
    let (from, to) = (some_account(dice), some_account(dice));
    let (teller, branch) = (1 + dice.roll() % TELLER_COUNT, 1 + session % SESSION_COUNT);
    let amount = 1 + dice.roll() % 50;
    let isolation = *dice.pick(&["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ"]);
    let lock = if dice.one_in(2) {
        format!("SELECT balance FROM accounts WHERE id IN ({from}, {to}) ORDER BY id FOR UPDATE;")
    } else {
        String::new()
    };
    let end = if dice.one_in(8) { "ROLLBACK" } else { "COMMIT" };
    let work = if dice.one_in(2) {
        format!(
            "{lock}
             UPDATE accounts SET balance = balance - {amount} WHERE id = {from};
             UPDATE accounts SET balance = balance + {amount} WHERE id = {to};
             INSERT INTO history VALUES ({from}, 0, 0, -{amount}), ({to}, 0, 0, {amount});"
        )
    } else {
        format!(
            "UPDATE accounts SET balance = balance + {amount} WHERE id = {from};
             UPDATE tellers SET balance = balance + {amount} WHERE id = {teller};
             UPDATE branches SET balance = balance + {amount} WHERE id = {branch};
             INSERT INTO history VALUES ({from}, {teller}, {branch}, {amount});"
        )
    };
    format!("BEGIN ISOLATION LEVEL {isolation}; {work} {end}")
}

/// Errors that are expected under concurrency: a deadlock, a serialization failure.
fn may_happen(error: &postgres::Error) -> bool {
    let code = error.code().map(|code| code.code());
    matches!(code, Some("40P01" | "40001"))
}

/// Whether the server was killed: the connection broke, or the server closed it.
fn lost_server(error: &postgres::Error) -> bool {
    error
        .as_db_error()
        .is_none_or(|one| one.code().code().starts_with("57P"))
}

/// Works until told to stop or the server dies; fails on any other error.
fn work(config: &Config, session: u64, seed: u64, bank: &Bank) -> anyhow::Result<()> {
    let mut client = config.connect(NoTls)?;
    let mut dice = Dice::new(seed ^ (session << 32));
    while !bank.is_closed() {
        match client.batch_execute(&transaction(&mut dice, session)) {
            Ok(()) => _ = bank.done_count.fetch_add(1, Ordering::Relaxed),
            Err(error) if bank.may_crash && lost_server(&error) => return Ok(()),
            // If this fails, the next transaction reports why.
            Err(error) if may_happen(&error) => drop(client.batch_execute("ROLLBACK")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Compacts all tables over and over, and checks the books in between.
fn compact_and_check(config: &Config, bank: &Bank) -> anyhow::Result<()> {
    let mut client = config.connect(NoTls)?;
    while !bank.is_closed() {
        let round = |client: &mut Client| -> anyhow::Result<()> {
            compact_all(client)?;
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
            check_books(client).context("while the bank is open")?;
            Ok(client.batch_execute("COMMIT")?)
        };
        let lost = |error: &anyhow::Error| error.downcast_ref().is_some_and(lost_server);
        match round(&mut client) {
            Err(error) if bank.may_crash && lost(&error) => return Ok(()),
            other => other?,
        }
    }
    Ok(())
}

struct Bank {
    closed: AtomicBool,
    done_count: AtomicU64,
    may_crash: bool,
}

impl Bank {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

/// Opens the bank for a while; at its end the server is killed, if the bank may crash.
fn run_bank(primary: &Primary, seed: u64, time: Duration, may_crash: bool) -> anyhow::Result<u64> {
    let bank = Bank {
        closed: AtomicBool::new(false),
        done_count: AtomicU64::new(0),
        may_crash,
    };
    let config = primary.config(DATABASE);
    thread::scope(|scope| -> anyhow::Result<()> {
        let mut handles = vec![scope.spawn(|| compact_and_check(&config, &bank))];
        for session in 0..SESSION_COUNT {
            let (config, bank) = (&config, &bank);
            handles.push(scope.spawn(move || work(config, session, seed, bank)));
        }
        let end = Instant::now() + time;
        while Instant::now() < end && !handles.iter().any(thread::ScopedJoinHandle::is_finished) {
            sleep(Duration::from_millis(20));
        }
        if may_crash {
            primary.crash_and_recover()?;
        }
        bank.closed.store(true, Ordering::Relaxed);
        for handle in handles {
            handle
                .join()
                .map_err(|_| anyhow::anyhow!("a session panicked"))??;
        }
        Ok(())
    })?;
    Ok(bank.done_count.into_inner())
}

fn check_bank(primary: &Primary) -> anyhow::Result<()> {
    let mut client = primary.session()?;
    check_books(&mut client)?;
    for table in ["accounts", "tellers", "branches"] {
        indexes_are_sound(&mut client, table, "id")?;
        row_numbers_are_unique(&mut client, table)?;
    }
    row_numbers_are_unique(&mut client, "history")
}

#[test]
fn money_is_neither_made_nor_lost_while_rows_move() -> anyhow::Result<()> {
    let primary = start("transfers")?;
    let seed = number("HOWDAH_TRANSFER_SEED", 1);
    let time = Duration::from_secs(number("HOWDAH_TRANSFER_SECONDS", 10));
    open_bank(&mut primary.session()?)?;
    let done_count = run_bank(&primary, seed, time, false)?;
    println!("{done_count} transactions");
    ensure!(done_count > 0, "nothing was done");
    check_bank(&primary)?;
    let mut client = primary.session()?;
    compact_all(&mut client)?;
    client.batch_execute("VACUUM accounts, tellers, branches, history")?;
    check_bank(&primary)
}

#[test]
fn the_books_balance_after_every_crash() -> anyhow::Result<()> {
    let primary = start("transfers-crash")?;
    let seed = number("HOWDAH_TRANSFER_SEED", 1);
    let rounds = number("HOWDAH_TRANSFER_SECONDS", 10).div_ceil(3);
    open_bank(&mut primary.session()?)?;
    let mut dice = Dice::new(seed);
    for round in 0..rounds {
        let time = Duration::from_millis(300 + dice.roll() % 2000);
        run_bank(&primary, seed + round, time, true)
            .and_then(|_| check_bank(&primary))
            .with_context(|| format!("round {round}, killed after {time:?}"))?;
    }
    Ok(())
}
