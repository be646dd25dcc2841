//! Generated queries while their tables change: on the primary, and on a standby that replays the
//! changes. By the engine, by PostgreSQL's nodes over cold rows, and over heap, the rows of one
//! snapshot are the same, whatever is inserted, updated, deleted, compacted, vacuumed and rewritten
//! meanwhile.
//!
//! ```text
//!   changer ─▶ h, t: the same change in one transaction; compact, VACUUM, VACUUM FULL, ANALYZE
//!   keeper  ─▶ an exported snapshot, on either server
//!   asker   ─▶ queries of t and h in that snapshot
//! ```
//!
//! Replay may cancel a query of the standby, or end the keeper; the answers of that query do not
//! count. `HOWDAH_QUERY_SEED` and `HOWDAH_QUERY_SCHEMAS` choose others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, Standby, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::queries::{
    FUNCTIONS, Tally, committed_changes, compare_next_in, is_conflict, make_tables,
};
use howdah_server_tests::settings::number;
use postgres::Client;

const SNAPSHOTS_PER_SCHEMA: usize = 8;
const QUERIES_PER_SNAPSHOT: usize = 8;
/// More rows than so many changes insert would be numbered twice.
const MOST_CHANGES: usize = 45;
/// The least percentage of queries that the engine must run.
const LEAST_TAKEN_PERCENT: usize = 40;
/// The most that replay may cancel, in percent; otherwise the test proves nothing.
const MOST_CANCELLED_PERCENT: usize = 50;

const SETTINGS: [(&str, &str); 7] = [
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("timezone", "UTC"),
    ("max_standby_streaming_delay", "300ms"),
    ("hot_standby_feedback", "off"),
    // Compaction finds old pages, and groups to merge.
    ("howdah.compact_after", "0"),
    ("howdah.compact_min_rows", "1"),
];

fn settle(session: &mut Client) -> anyhow::Result<()> {
    Ok(session.batch_execute("SET client_min_messages = error; SET jit = off")?)
}

/// Changes both tables until told to stop, and makes rows cold.
fn change(primary: &Primary, seed: u64, is_over: &AtomicBool) -> anyhow::Result<usize> {
    let mut session = primary.session()?;
    settle(&mut session)?;
    let mut dice = Dice::new(seed ^ 0xC4A2_6E11);
    let tables = query(
        &mut session,
        "SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = c.relam
         WHERE amname = 'howdah' AND relname ~ '^t[0-9a-c]*$' ORDER BY relname",
    )?;
    let tables: Vec<&str> = tables.lines().collect();
    let mut changes = 0;
    while !is_over.load(Ordering::Acquire) {
        let table = *dice.pick(&tables);
        let statement = match dice.below(9) {
            0..=4 if changes < MOST_CHANGES => {
                changes += 1;
                committed_changes(&mut dice, changes)
            }
            5 => "VACUUM h; VACUUM t".to_owned(),
            6 => format!("VACUUM (FREEZE) {table}"),
            7 => format!("VACUUM FULL {table}"),
            _ => format!("CALL howdah.compact('{table}'); ANALYZE t"),
        };
        // VACUUM and compact are statements of their own.
        let statements: Vec<&str> = match statement.starts_with("BEGIN") {
            true => vec![&statement],
            false => statement.split("; ").collect(),
        };
        for statement in statements {
            session
                .batch_execute(statement)
                .with_context(|| statement.to_owned())?;
        }
        sleep(Duration::from_millis(20));
    }
    Ok(changes)
}

/// Where queries are asked.
enum Place<'a> {
    Primary(&'a Primary),
    Standby(&'a Standby),
}

impl Place<'_> {
    fn session(&self) -> anyhow::Result<Client> {
        let mut session = match self {
            Place::Primary(primary) => primary.session()?,
            Place::Standby(standby) => standby.session()?,
        };
        settle(&mut session)?;
        Ok(session)
    }
}

/// A session that keeps a snapshot, and its name. `None`: replay has ended the session, which it
/// may do between two statements of a transaction.
fn keep(place: &Place<'_>) -> anyhow::Result<Option<(Client, String)>> {
    let mut keeper = place.session()?;
    let begun = keeper.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    let exported = begun
        .map_err(anyhow::Error::from)
        .and_then(|()| query(&mut keeper, "SELECT pg_export_snapshot()"));
    match exported {
        Ok(snapshot) => Ok(Some((keeper, snapshot))),
        Err(error)
            if matches!(place, Place::Standby(_))
                && (keeper.is_closed() || is_conflict(&error)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Asks queries of one snapshot, as long as the session that keeps it lives.
fn ask(place: &Place<'_>, dice: &mut Dice, tally: &mut Tally) -> anyhow::Result<()> {
    let Some((mut keeper, snapshot)) = keep(place)? else {
        tally.cancelled += 1;
        return Ok(());
    };
    let mut asker = place.session()?;
    for at in 0..QUERIES_PER_SNAPSHOT {
        let cancelled = tally.cancelled;
        let compared = compare_next_in(&snapshot, &mut asker, dice, tally);
        let is_kept = keeper.batch_execute("SELECT 1").is_ok();
        if !is_kept || asker.is_closed() {
            ensure!(
                matches!(place, Place::Standby(_)),
                "the primary ended a session"
            );
            tally.cancelled += 1;
            return Ok(());
        }
        compared.with_context(|| format!("query {at} of a snapshot"))?;
        ensure!(
            tally.cancelled == cancelled || matches!(place, Place::Standby(_)),
            "query {at} of a snapshot was cancelled on the primary"
        );
    }
    Ok(())
}

#[test]
fn queries_of_a_snapshot_have_one_answer_while_tables_change() -> anyhow::Result<()> {
    let primary = Primary::start("vectorized-changes", &SETTINGS)?;
    let standby = primary.standby()?;
    let mut session = primary.session()?;
    settle(&mut session)?;
    session.batch_execute(FUNCTIONS)?;
    let first = number("HOWDAH_QUERY_SEED", 1);
    let (mut tally, mut changes) = (Tally::default(), 0);
    for seed in first..first + number("HOWDAH_QUERY_SCHEMAS", 4) {
        let mut dice = Dice::new(seed ^ 0x57A2_DB15);
        make_tables(&mut session, &mut dice).with_context(|| format!("seed {seed}"))?;
        standby.wait_for(&primary)?;
        let is_over = AtomicBool::new(false);
        changes += thread::scope(|scope| {
            let changer = scope.spawn(|| change(&primary, seed, &is_over));
            let mut all = || -> anyhow::Result<()> {
                for at in 0..SNAPSHOTS_PER_SCHEMA {
                    let place = match at % 3 {
                        0 => Place::Primary(&primary),
                        _ => Place::Standby(&standby),
                    };
                    let name = match place {
                        Place::Primary(_) => "primary",
                        Place::Standby(_) => "standby",
                    };
                    ask(&place, &mut dice, &mut tally)
                        .with_context(|| format!("seed {seed}, snapshot {at}, on the {name}"))?;
                }
                Ok(())
            };
            let asked = all();
            is_over.store(true, Ordering::Release);
            let changed = changer.join();
            asked?;
            changed.map_err(|_| anyhow::anyhow!("the changer panicked"))?
        })?;
    }
    println!("{tally:?}, {changes} transactions of changes");
    ensure!(changes > 0, "nothing changed");
    ensure!(
        tally.cancelled * 100 <= tally.asked * MOST_CANCELLED_PERCENT,
        "replay cancelled {} of {} queries",
        tally.cancelled,
        tally.asked
    );
    ensure!(
        tally.taken * 100 >= tally.asked * LEAST_TAKEN_PERCENT,
        "the engine took {} of {} queries only",
        tally.taken,
        tally.asked
    );
    Ok(())
}
