//! What a session remembers of a table, and tables that are emptied in place: TRUNCATE in the
//! (sub)transaction that made the table's files (CREATE, CLUSTER, a rewrite, an earlier TRUNCATE),
//! and ON COMMIT DELETE ROWS. File names and row numbers are the same afterwards, rows are not.
//!
//! ```text
//!   seed ─► steps: CLUSTER, TRUNCATE, VACUUM FULL, ALTER, INSERT, UPDATE, DELETE, savepoints, …
//!             │ each on the howdah table, then on its heap twin, by the same session
//!             ▼
//!   after each step this session counts both, in every way there is to read them, and the
//!   inserted rows that a row trigger saw; another session counts, too, when no transaction is open
//! ```
//!
//! Most scripts sometimes produce the dangerous case: rows that are deleted for this session only,
//! carried over by a rewrite, and other rows loaded in their place.
//!
//! A third session sometimes holds an old snapshot, so that rewrites carry deleted rows over. It
//! has locked neither table. No step may fail. `HOWDAH_EMPTIED_SEED` and `HOWDAH_EMPTIED_CASES`
//! make a longer run or repeat one.

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::settings::number;
use postgres::Client;

const SETTINGS: [(&str, &str); 2] = [("howdah.compaction", "off"), ("autovacuum", "off")];
const STEPS: usize = 40;
const DEFAULT_CASES: u64 = 25;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Permanent,
    Temporary,
    /// Its rows are deleted whenever a transaction commits.
    DeletedOnCommit,
}

/// The state of the session.
struct State {
    kind: Kind,
    in_transaction: bool,
    savepoints: usize,
    holds_snapshot: bool,
    next_id: usize,
    /// The next steps, in reverse order.
    planned: Vec<Planned>,
}

/// Steps of the dangerous case.
#[derive(Clone, Copy)]
enum Planned {
    Load,
    HoldSnapshot,
    Delete,
    Begin,
    Rewrite,
    Truncate,
}

enum Step {
    /// Run for either table, whose name is `{t}`.
    Each(String),
    Once(String),
    /// Run by the session that holds a snapshot.
    Hold(&'static str),
}

const HOLD: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";

fn each(sql: impl Into<String>) -> Step {
    Step::Each(sql.into())
}

fn once(sql: impl Into<String>) -> Step {
    Step::Once(sql.into())
}

fn insert(dice: &mut Dice, state: &mut State) -> Step {
    if dice.one_in(4) {
        state.next_id = 1;
    }
    let (first, count) = (state.next_id, *dice.pick(&[1, 5, 40, 300]));
    state.next_id += count;
    let base = dice.below(1_000);
    let last = first + count - 1;
    // Rows of an INSERT with ON CONFLICT stay hot.
    let is_new = match dice.one_in(4) {
        true => "ON CONFLICT DO NOTHING",
        false => "WHERE NOT EXISTS (SELECT FROM {t} old WHERE old.id = i)",
    };
    each(format!(
        "INSERT INTO {{t}} SELECT i, i % 10, {base} + i FROM generate_series({first}, {last}) i
         {is_new}"
    ))
}

fn change(dice: &mut Dice) -> Step {
    let some = format!("key = {}", dice.below(10));
    each(match dice.below(6) {
        0 | 1 => "DELETE FROM {t}".to_owned(),
        2 => format!("DELETE FROM {{t}} WHERE {some}"),
        3 => "UPDATE {t} SET amount = amount + 1".to_owned(),
        4 => format!("UPDATE {{t}} SET amount = amount + 1 WHERE {some}"),
        _ => format!(
            "UPDATE {{t}} SET amount = amount + 1 WHERE id = {}",
            1 + dice.below(50)
        ),
    })
}

fn replace_files(dice: &mut Dice, state: &State) -> Step {
    each(match dice.below(8) {
        0..3 => "CLUSTER {t} USING {t}_pkey",
        3..6 => "TRUNCATE {t}",
        6 if state.kind == Kind::Permanent => "ALTER TABLE {t} SET UNLOGGED",
        _ => "ALTER TABLE {t} ALTER amount TYPE bigint USING amount + 1",
    })
}

/// The steps of the dangerous case, of which some may be missing.
fn plan(dice: &mut Dice) -> Vec<Planned> {
    use Planned::*;
    let mut planned = vec![Load, HoldSnapshot, Delete, Begin, Rewrite, Truncate, Load];
    planned.retain(|_| !dice.one_in(12));
    planned.insert(0, Truncate);
    planned.reverse();
    planned
}

/// A planned step; `None` if it makes no sense in the session's current state.
fn planned(step: Planned, dice: &mut Dice, state: &mut State) -> Option<Step> {
    Some(match step {
        Planned::Load => insert(dice, state),
        Planned::HoldSnapshot if !state.holds_snapshot => {
            state.holds_snapshot = true;
            Step::Hold(HOLD)
        }
        Planned::Begin if !state.in_transaction => begin(dice, state),
        Planned::HoldSnapshot | Planned::Begin => return None,
        Planned::Delete => each("DELETE FROM {t}"),
        Planned::Rewrite => each("CLUSTER {t} USING {t}_pkey"),
        Planned::Truncate => each("TRUNCATE {t}"),
    })
}

fn choose(dice: &mut Dice, state: &mut State) -> Step {
    while let Some(next) = state.planned.pop() {
        if let Some(step) = planned(next, dice, state) {
            return step;
        }
    }
    if dice.one_in(5) {
        state.holds_snapshot = !state.holds_snapshot;
        return Step::Hold(if state.holds_snapshot { HOLD } else { "COMMIT" });
    }
    if !state.in_transaction && dice.one_in(5) {
        state.planned = plan(dice);
    }
    match dice.below(10) {
        0..2 => insert(dice, state),
        2 => change(dice),
        3 => each(format!(
            "SET LOCAL enable_seqscan = off; SELECT * FROM {{t}} WHERE id = {}",
            1 + dice.below(3)
        )),
        4 => replace_files(dice, state),
        _ if state.in_transaction => in_transaction(dice, state),
        5..8 => begin(dice, state),
        8 => change(dice),
        _ => match dice.below(3) {
            0 => once("CALL howdah.compact('t')"),
            1 => each("VACUUM FULL {t}"),
            _ => each("VACUUM {t}"),
        },
    }
}

fn in_transaction(dice: &mut Dice, state: &mut State) -> Step {
    match dice.below(7) {
        0..3 => replace_files(dice, state),
        3 => {
            state.savepoints += 1;
            once("SAVEPOINT s")
        }
        4 if state.savepoints > 0 => match dice.one_in(2) {
            true => once("ROLLBACK TO s"),
            false => {
                state.savepoints -= 1;
                once("RELEASE s")
            }
        },
        5 => {
            state.in_transaction = false;
            state.savepoints = 0;
            once(*dice.pick(&["COMMIT", "COMMIT", "ROLLBACK"]))
        }
        _ => insert(dice, state),
    }
}

fn begin(dice: &mut Dice, state: &mut State) -> Step {
    state.in_transaction = true;
    once(match dice.one_in(3) {
        true => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        false => "BEGIN",
    })
}

/// Ways to read a table: settings, and a condition that invites them.
const WAYS: [(&str, [&str; 4], &str); 4] = [
    ("by column", ["on", "on", "off", "off"], "TRUE"),
    ("row by row", ["on", "off", "off", "off"], "TRUE"),
    (
        "by index",
        ["off", "off", "on", "off"],
        "id > 0 ORDER BY id DESC",
    ),
    ("by bitmap", ["off", "off", "off", "on"], "key >= 0"),
];

/// What the session sees of a table, in every way, and what was recorded of its inserted rows.
fn seen(session: &mut Client, table: &str) -> anyhow::Result<String> {
    let mut seen = String::new();
    for (way, [sequential, columnar, index, bitmap], condition) in WAYS {
        let sums = query(
            session,
            &format!(
                "SET enable_seqscan = {sequential}; SET howdah.columnar_scan = {columnar};
                 SET enable_indexscan = {index}; SET enable_bitmapscan = {bitmap};
                 SELECT count(*), sum(id), sum(key), sum(amount)
                 FROM (SELECT * FROM {table} WHERE {condition}) rows"
            ),
        )?;
        writeln!(seen, "{way}: {sums}")?;
    }
    Ok(seen)
}

fn noted(session: &mut Client, table: &str) -> anyhow::Result<String> {
    query(
        session,
        &format!("SELECT count(*), sum(id), sum(amount) FROM noted WHERE name = '{table}'"),
    )
}

fn make_tables(session: &mut Client, kind: Kind) -> anyhow::Result<()> {
    let (temporary, at_commit) = match kind {
        Kind::Permanent => ("", ""),
        Kind::Temporary => ("TEMPORARY", ""),
        Kind::DeletedOnCommit => ("TEMPORARY", "ON COMMIT DELETE ROWS"),
    };
    session.batch_execute("DROP TABLE IF EXISTS t, h; TRUNCATE noted")?;
    for (table, method) in [("t", "howdah"), ("h", "heap")] {
        session.batch_execute(&format!(
            "CREATE {temporary} TABLE {table} (id int PRIMARY KEY, key int, amount bigint)
                 USING {method} {at_commit};
             CREATE INDEX ON {table} (key);
             CREATE TRIGGER note AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION note()"
        ))?;
    }
    Ok(())
}

fn play(primary: &Primary, seed: u64, history: &mut String) -> anyhow::Result<()> {
    let mut dice = Dice::new(seed);
    let mut state = State {
        kind: *dice.pick(&[
            Kind::Permanent,
            Kind::Permanent,
            Kind::Temporary,
            Kind::DeletedOnCommit,
        ]),
        in_transaction: false,
        savepoints: 0,
        holds_snapshot: false,
        next_id: 1,
        planned: Vec::new(),
    };
    let (mut session, mut other, mut holder) =
        (primary.session()?, primary.session()?, primary.session()?);
    let force = *dice.pick(&["on", "off"]);
    session.batch_execute(&format!(
        "SET howdah.debug_force_cold = {force}; SET howdah.load_threshold = 10;
         SET enable_indexonlyscan = off"
    ))?;
    make_tables(&mut session, state.kind)?;
    for _ in 0..STEPS {
        match choose(&mut dice, &mut state) {
            Step::Hold(sql) => {
                writeln!(history, "-- holder: {sql}")?;
                holder.batch_execute(sql)?;
            }
            Step::Once(sql) => {
                writeln!(history, "{sql};")?;
                session.batch_execute(&sql)?;
            }
            Step::Each(sql) => {
                writeln!(history, "{sql};")?;
                for table in ["t", "h"] {
                    session
                        .batch_execute(&sql.replace("{t}", table))
                        .with_context(|| format!("for {table}"))?;
                }
            }
        }
        let ours = seen(&mut session, "t")? + &noted(&mut session, "t")?;
        let heaps = seen(&mut session, "h")? + &noted(&mut session, "h")?;
        ensure!(
            ours == heaps,
            "saw\n{ours}\nof howdah and\n{heaps}\nof heap"
        );
        if !state.in_transaction && state.kind == Kind::Permanent {
            let (ours, heaps) = (seen(&mut other, "t")?, seen(&mut other, "h")?);
            ensure!(
                ours == heaps,
                "another session saw\n{ours}\nof howdah and\n{heaps}\nof heap"
            );
        }
    }
    if state.in_transaction {
        session.batch_execute("ROLLBACK")?;
    }
    Ok(session.batch_execute("DROP TABLE t, h")?)
}

const NOTE: &str = "
    CREATE TABLE noted (name text, id int, amount bigint) USING heap;
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO noted VALUES (TG_TABLE_NAME, NEW.id, NEW.amount);
        RETURN NULL;
    END $$";

#[test]
fn a_session_sees_what_it_would_see_on_heap() -> anyhow::Result<()> {
    let primary = Primary::start("emptied-in-place", &SETTINGS)?;
    primary.session()?.batch_execute(NOTE)?;
    let first = number("HOWDAH_EMPTIED_SEED", 1);
    for seed in first..first + number("HOWDAH_EMPTIED_CASES", DEFAULT_CASES) {
        let mut history = String::new();
        play(&primary, seed, &mut history).with_context(|| format!("seed {seed}:\n{history}"))?;
    }
    Ok(())
}

/// A rewrite carries deleted rows over for an old snapshot; the session learns that none of them is
/// visible to itself, and then loads other rows into the same file.
#[test]
fn rows_loaded_after_cluster_and_truncate_are_seen() -> anyhow::Result<()> {
    let primary = Primary::start("emptied-cluster", &SETTINGS)?;
    let (mut session, mut other) = (primary.session()?, primary.session()?);
    session.batch_execute(
        "SET howdah.load_threshold = 0;
         CREATE TABLE t (id int PRIMARY KEY) USING howdah;
         INSERT INTO t SELECT generate_series(1, 1000)",
    )?;
    other.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
    session.batch_execute("DELETE FROM t")?;
    session.batch_execute("BEGIN; CLUSTER t USING t_pkey; SELECT count(*) FROM t; TRUNCATE t")?;
    session.batch_execute("INSERT INTO t SELECT generate_series(1, 1000)")?;
    assert_eq!(query(&mut session, "SELECT count(*) FROM t")?, "1000");
    session.batch_execute("COMMIT")?;
    assert_eq!(query(&mut session, "SELECT count(*) FROM t")?, "1000");
    Ok(())
}

/// Rows that the transaction has loaded itself were not moved by compaction, although its snapshot
/// does not see their group.
#[test]
fn a_transaction_clusters_rows_that_it_has_loaded_and_changed() -> anyhow::Result<()> {
    let primary = Primary::start("emptied-own", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "SET howdah.load_threshold = 0;
         CREATE TABLE t (id int PRIMARY KEY) USING howdah",
    )?;
    session.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    session.batch_execute(
        "INSERT INTO t SELECT generate_series(1, 1000);
         UPDATE t SET id = -id;
         CLUSTER t USING t_pkey",
    )?;
    assert_eq!(query(&mut session, "SELECT sum(id) FROM t")?, "-500500");
    Ok(())
}
