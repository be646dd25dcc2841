//! One query asked of the engine, of PostgreSQL's nodes over cold rows, and of heap.

use anyhow::ensure;
use postgres::Client;

use super::answer::{Answer, Plan, answer, plan, same};
use super::author::{author, values};
use super::query::{PARAMETERS, Query, Way};
use crate::differential::Dice;

/// The SQLSTATEs of a statement that replay has cancelled: for locks, snapshots and pins, and for a
/// pin that replay and a backend wait for in turn. Only changes could raise them otherwise.
const CONFLICTS: [&str; 2] = ["40001", "40P01"];

/// How many queries met what.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub asked: usize,
    /// Run by the engine.
    pub taken: usize,
    /// Evaluated in part by PostgreSQL for the engine.
    pub foreign: usize,
    /// With an error over heap.
    pub failed: usize,
    /// With an error over heap, but none by the engine.
    pub spared: usize,
    /// Cancelled, on a standby, by a conflict with what is replayed.
    pub cancelled: usize,
}

/// A query and the values of its parameters.
struct Question {
    query: Query,
    values: String,
    /// The exported snapshot in which it is asked; if there is none, each time in one of its own.
    snapshot: Option<String>,
}

impl Question {
    /// What is sent to ask a text of this query; a prepared statement is prepared for it.
    fn sent(&self, session: &mut Client, text: &str) -> anyhow::Result<String> {
        if self.query.way != Way::Prepared {
            return Ok(text.to_owned());
        }
        session.batch_execute(&format!(
            "DEALLOCATE ALL; PREPARE asked({PARAMETERS}) AS {text}"
        ))?;
        Ok(format!("EXECUTE asked({})", self.values))
    }

    fn ask(&self, session: &mut Client, text: &str) -> anyhow::Result<Answer> {
        let sent = self.sent(session, text)?;
        let Some(snapshot) = &self.snapshot else {
            return answer(session, &sent);
        };
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT";
        answer(session, &format!("{begin} '{snapshot}'; {sent}; COMMIT"))
    }

    fn plan(&self, session: &mut Client, text: &str) -> anyhow::Result<Plan> {
        let sent = self.sent(session, text)?;
        plan(session, &sent)
    }
}

/// Asks a new query, with settings that the dice choose as well, and counts how it went.
///
/// # Errors
/// When the answers differ, with the query and the settings; when the session ends.
pub fn compare_next(
    session: &mut Client,
    dice: &mut Dice,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let query = author(dice);
    let values = values(dice);
    let snapshot = None;
    compare(
        session,
        dice,
        tally,
        &Question {
            query,
            values,
            snapshot,
        },
    )
}

/// As [`compare_next`], but every answer is of the same snapshot, which another session exports,
/// whatever other transactions do meanwhile.
///
/// # Errors
/// As for [`compare_next`].
pub fn compare_next_in(
    snapshot: &str,
    session: &mut Client,
    dice: &mut Dice,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut query = author(dice);
    // A transaction that changes rows which others change cannot serialize.
    while query.way == Way::Changed {
        query = author(dice);
    }
    let values = values(dice);
    let snapshot = Some(snapshot.to_owned());
    let compared = compare(
        session,
        dice,
        tally,
        &Question {
            query,
            values,
            snapshot,
        },
    );
    match compared {
        // Replay cancels what plans and prepares, too: that holds the table's lock as well.
        Err(error) if is_conflict(&error) => {
            tally.asked += 1;
            tally.cancelled += 1;
            Ok(())
        }
        compared => compared,
    }
}

/// Whether replay has cancelled the statement of this error, or ended its session.
pub fn is_conflict(error: &anyhow::Error) -> bool {
    let error = error.chain().find_map(|one| one.downcast_ref());
    let code = error.and_then(postgres::Error::code);
    code.is_some_and(|code| CONFLICTS.contains(&code.code()))
}

fn compare(
    session: &mut Client,
    dice: &mut Dice,
    tally: &mut Tally,
    question: &Question,
) -> anyhow::Result<()> {
    let threads = dice.pick(&[0, 1, 2, 7]);
    let memory = dice.pick(&["64kB", "4MB", "64MB"]);
    let step_rows = dice.pick(&[0, 0, 0, 1, 7, 500]);
    let hash_bits = dice.pick(&[64, 64, 5, 0]);
    let partitionwise = dice.pick(&["on", "off"]);
    let zone = dice.pick(&[
        "UTC",
        "UTC",
        "Europe/Berlin",
        "America/St_Johns",
        "Pacific/Apia",
    ]);
    let cached = dice.pick(&["force_generic_plan", "force_custom_plan"]);
    session.batch_execute(&format!(
        "SET enable_partitionwise_aggregate = {partitionwise}; SET plan_cache_mode = {cached};
         SET howdah.debug_force_vectorized = on; SET howdah.vectorized = on;
         SET howdah.debug_step_rows = {step_rows}; SET howdah.debug_hash_bits = {hash_bits};
         SET howdah.threads = {threads}; SET work_mem = '{memory}'; SET timezone = '{zone}'"
    ))?;
    let plan = question.plan(session, &question.query.explained("t"))?;
    let text = question.query.of("t");
    tally.taken += usize::from(plan.is_vectorized);
    tally.foreign += usize::from(plan.has_foreign);
    let vectorized = question.ask(session, &text)?;
    session.batch_execute("SET howdah.vectorized = off")?;
    let plain = question.ask(session, &text)?;
    let mut heap = question.ask(session, &question.query.of("h"))?;
    tally.asked += 1;
    let is_cancelled =
        |answer: &Answer| matches!(answer, Err(code) if CONFLICTS.contains(&code.as_str()));
    if [&vectorized, &plain, &heap].into_iter().any(is_cancelled) {
        tally.cancelled += 1;
        return Ok(());
    }
    tally.failed += usize::from(heap.is_err());
    let say = |other: &str| {
        let values = &question.values;
        format!(
            "{threads} threads, {step_rows} rows at a time, {hash_bits} bits of hashes, work_mem \
             {memory}, {zone}, ({values}): {text}: {other}"
        )
    };
    if let (Ok(_), Err(_)) = (&vectorized, &heap) {
        heap = question.ask(session, &question.query.with_errors_last())?;
        tally.spared += usize::from(heap.is_err());
    }
    if let (Err(_), Ok(_)) = (&vectorized, &heap) {
        heap = question.ask(session, &question.query.to_the_end().of("h"))?;
    }
    ensure!(
        vectorized.is_ok() || heap.is_err(),
        "{}",
        say(&format!("{vectorized:?}, but not over heap"))
    );
    // Which of two errors comes first depends on the order of rows; pushed filters spare some.
    let (Ok(vectorized), Ok(heap)) = (vectorized, heap) else {
        return Ok(());
    };
    ensure!(
        same(&vectorized, &heap),
        "{}\n{:?}\n{:?}",
        say("rows differ from heap's"),
        only_in(&vectorized, &heap),
        only_in(&heap, &vectorized)
    );
    if let Ok(plain) = plain {
        ensure!(
            same(&plain, &heap),
            "{}",
            say("PostgreSQL's nodes over cold rows differ from heap")
        );
    }
    Ok(())
}

/// The first rows of `a` that are not in `b`.
fn only_in<'a>(a: &'a [String], b: &[String]) -> Vec<&'a String> {
    a.iter().filter(|row| !b.contains(row)).take(5).collect()
}
