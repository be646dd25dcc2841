//! Children are loaded by the thousand while their cold parents are updated, deleted and given
//! other keys, and while compaction and VACUUM move them: no child is ever without its parent, and
//! no key is there twice.
//!
//! Loads of more than 1,024 children share the keys of whole row groups (decision 38).
//! `HOWDAH_KEYS_SECONDS` and `HOWDAH_KEYS_SEED` make a longer run or repeat one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{indexes_are_sound, row_numbers_are_unique};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::settings::number;
use postgres::Client;

const PARENT_COUNT: u64 = 20_000;
/// What is added to a key while its parent has another one.
const AWAY: u64 = 100_000;

/// What a session does, over and over.
#[derive(Clone, Copy, Debug)]
enum Work {
    Load,
    Update,
    Delete,
    ChangeKeys,
    Restore,
}

const SESSIONS: [Work; 9] = [
    Work::Load,
    Work::Load,
    Work::Update,
    Work::Update,
    Work::Update,
    Work::Delete,
    Work::Delete,
    Work::ChangeKeys,
    Work::Restore,
];

fn some_key(dice: &mut Dice) -> u64 {
    1 + dice.roll() % PARENT_COUNT
}

fn some_keys(dice: &mut Dice, count: usize) -> String {
    let keys: Vec<_> = (0..count).map(|_| some_key(dice).to_string()).collect();
    keys.join(", ")
}

impl Work {
    fn statements(self, dice: &mut Dice) -> String {
        let key = some_key(dice);
        match self {
            Work::Load => {
                let end = key + *dice.pick(&[1_300, 1_500, 2_500, 4_000]);
                let savepoint = if dice.one_in(3) { "SAVEPOINT s;" } else { "" };
                let undo = if dice.one_in(6) && !savepoint.is_empty() {
                    "ROLLBACK TO s;"
                } else {
                    ""
                };
                let more = 1 + dice.roll() % 300;
                format!(
                    "{savepoint} INSERT INTO children (parent) SELECT id FROM parents WHERE id BETWEEN {key} AND {end};
                     {undo} INSERT INTO children (parent) SELECT id FROM parents WHERE id < {more};"
                )
            }
            Work::Update if dice.one_in(10) => {
                let end = key + *dice.pick(&[5, 400]);
                format!("UPDATE parents SET v = v + 1 WHERE id BETWEEN {key} AND {end};")
            }
            Work::Update => {
                let keys = some_keys(dice, 5);
                format!("UPDATE parents SET v = v + 1 WHERE id IN ({keys});")
            }
            // By a foreign key that refuses it, too.
            Work::Delete if dice.one_in(3) => format!("DELETE FROM parents WHERE id = {key};"),
            Work::Delete => {
                let keys = some_keys(dice, 3);
                format!(
                    "DELETE FROM parents p WHERE id IN ({keys})
                       AND NOT EXISTS (SELECT FROM children WHERE parent = p.id);"
                )
            }
            Work::ChangeKeys => {
                let back = some_key(dice) + AWAY;
                format!(
                    "UPDATE parents SET id = id + {AWAY} WHERE id = {key}
                       AND NOT EXISTS (SELECT FROM children WHERE parent = {key});
                     UPDATE parents SET id = id - {AWAY} WHERE id = {back};"
                )
            }
            Work::Restore => {
                let end = key + 50;
                format!(
                    "INSERT INTO parents SELECT i, 0 FROM generate_series({key}, {end}) i ON CONFLICT DO NOTHING;
                     DELETE FROM children WHERE parent BETWEEN {key} AND {end};"
                )
            }
        }
    }
}

/// Errors that are expected: a deadlock, a parent with children or a child without a parent, a key
/// that is there already, two updates of a row, a lock table without room for more locks.
fn may_happen(error: &postgres::Error) -> bool {
    let code = error.code().map(|code| code.code());
    matches!(
        code,
        Some("40P01" | "23503" | "23001" | "23505" | "40001" | "53200")
    )
}

struct Run {
    is_over: AtomicBool,
    done_counts: [AtomicU64; SESSIONS.len()],
}

fn work(primary: &Primary, run: &Run, session: usize, seed: u64) -> anyhow::Result<()> {
    let mut client = primary.session()?;
    let mut dice = Dice::new(seed ^ ((session as u64) << 32));
    while !run.is_over.load(Ordering::Relaxed) {
        let statements = SESSIONS[session].statements(&mut dice);
        // Transactions that stay open meet each other.
        let pause = format!("SELECT pg_sleep({} / 1000.0);", dice.roll() % 30);
        let end = if dice.one_in(5) { "ROLLBACK" } else { "COMMIT" };
        match client.batch_execute(&format!("BEGIN; {statements} {pause} {end}")) {
            Ok(()) => _ = run.done_counts[session].fetch_add(1, Ordering::Relaxed),
            Err(error) if may_happen(&error) => client.batch_execute("ROLLBACK")?,
            Err(error) => return Err(error).context(statements),
        }
    }
    Ok(())
}

/// What must hold under any snapshot.
fn check(client: &mut Client) -> anyhow::Result<()> {
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    let orphans =
        "SELECT count(*) FROM children c LEFT JOIN parents p ON p.id = c.parent WHERE p.id IS NULL";
    ensure!(
        query(client, orphans)? == "0",
        "children are without parents"
    );
    let doubled = "SELECT count(*) - count(DISTINCT id) FROM parents";
    ensure!(query(client, doubled)? == "0", "keys are there twice");
    Ok(client.batch_execute("COMMIT")?)
}

fn move_and_check(primary: &Primary, run: &Run) -> anyhow::Result<()> {
    let mut client = primary.session()?;
    while !run.is_over.load(Ordering::Relaxed) {
        client.batch_execute("CALL howdah.compact('parents')")?;
        client.batch_execute("VACUUM parents")?;
        check(&mut client)?;
    }
    Ok(())
}

/// How often the keys of a whole row group were seen to be shared.
fn watch(primary: &Primary, run: &Run) -> anyhow::Result<u64> {
    let mut client = primary.session()?;
    let mut seen_count = 0;
    while !run.is_over.load(Ordering::Relaxed) {
        let shared = "SELECT count(*) FROM howdah.locks WHERE target = 'all keys of group'";
        seen_count += u64::from(query(&mut client, shared)? != "0");
        sleep(Duration::from_millis(10));
    }
    Ok(seen_count)
}

#[test]
fn no_child_is_without_its_parent_while_keys_are_shared() -> anyhow::Result<()> {
    let settings = [
        ("howdah.compaction", "off"),
        ("howdah.load_threshold", "100"),
        ("deadlock_timeout", "50ms"),
    ];
    let primary = Primary::start("shared-keys", &settings)?;
    let seed = number("HOWDAH_KEYS_SEED", 1);
    let time = Duration::from_secs(number("HOWDAH_KEYS_SECONDS", 10));
    let mut client = primary.session()?;
    client.batch_execute(&format!(
        "CREATE TABLE parents (id int PRIMARY KEY, v int NOT NULL) USING howdah;
         INSERT INTO parents SELECT i, 0 FROM generate_series(1, {PARENT_COUNT}) i;
         CREATE TABLE children (id bigint GENERATED ALWAYS AS IDENTITY, parent int REFERENCES parents);
         CREATE INDEX ON children (parent)"
    ))?;
    let run = Run {
        is_over: AtomicBool::new(false),
        done_counts: Default::default(),
    };
    let seen_count = thread::scope(|scope| -> anyhow::Result<u64> {
        let (primary, run) = (&primary, &run);
        let mut handles = vec![scope.spawn(|| move_and_check(primary, run))];
        handles.extend(
            (0..SESSIONS.len())
                .map(|session| scope.spawn(move || work(primary, run, session, seed))),
        );
        let watcher = scope.spawn(|| watch(primary, run));
        let end = Instant::now() + time;
        while Instant::now() < end && !handles.iter().any(thread::ScopedJoinHandle::is_finished) {
            sleep(Duration::from_millis(20));
        }
        run.is_over.store(true, Ordering::Relaxed);
        let panicked = |_| anyhow::anyhow!("a session panicked");
        for handle in handles {
            handle.join().map_err(panicked)??;
        }
        watcher.join().map_err(panicked)?
    })?;
    for (work, done_count) in SESSIONS.iter().zip(run.done_counts) {
        let done_count = done_count.into_inner();
        println!("{work:?}: {done_count} transactions");
        ensure!(done_count > 0, "{work:?} was never done");
    }
    println!("the keys of a group were seen shared {seen_count} times");
    ensure!(seen_count > 0, "no group's keys were shared");
    check(&mut client)?;
    indexes_are_sound(&mut client, "parents", "id")?;
    row_numbers_are_unique(&mut client, "parents")
}
