//! Plays a script in both worlds, and compares.

use anyhow::Context as _;
use postgres::Client;

use super::script::{Script, Step};
use super::session::Outcome;
use super::worlds::{World, Worlds};
use super::{COLD_ROWS_CAN_CHANGE, MOVES_GO_UNNOTICED};
use crate::cluster::query;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Agreed,
    /// A statement met what is not supported yet; up to there the worlds agreed.
    CutShort,
    Differs(String),
}

/// What a maintenance command may end with when it gives way to a session: it was cancelled, or
/// found its table gone or of another kind.
const MAINTENANCE_GIVES_WAY: [&str; 5] = ["57014", "55P03", "42P01", "42809", "3F000"];

/// # Errors
/// When the script cannot be played; a difference is a verdict.
pub(super) fn play(worlds: &mut Worlds<'_>, script: &Script) -> anyhow::Result<Verdict> {
    worlds.begin(script)?;
    let mut player = Player {
        howdah: &mut worlds.howdah,
        heap: &mut worlds.heap,
        is_alone: script.session_count == 1,
        is_open: vec![false; script.session_count],
    };
    let verdict = player.play(&script.steps);
    worlds.howdah.end()?;
    worlds.heap.end()?;
    verdict
}

struct Player<'p> {
    howdah: &'p mut World,
    heap: &'p mut World,
    is_alone: bool,
    /// Whether a session is in a transaction block, as far as its statements tell.
    is_open: Vec<bool>,
}

impl Player<'_> {
    fn play(&mut self, steps: &[Step]) -> anyhow::Result<Verdict> {
        for (number, step) in steps.iter().enumerate() {
            let verdict = match step {
                Step::Sql { session, text } => self.sql(*session, text)?,
                Step::Maintain(text) => self.maintain(text)?,
                Step::Compact(table) => self.compact(table)?,
            };
            match verdict {
                Verdict::Agreed => {}
                Verdict::CutShort => return Ok(verdict),
                Verdict::Differs(what) => {
                    return Ok(Verdict::Differs(format!(
                        "at step {number}, {step:?}: {what}"
                    )));
                }
            }
        }
        self.compare_contents()
    }

    fn sql(&mut self, session: usize, text: &str) -> anyhow::Result<Verdict> {
        if self.howdah.sessions[session].is_busy {
            return Ok(Verdict::Agreed);
        }
        let has_limits = !(COLD_ROWS_CAN_CHANGE && MOVES_GO_UNNOTICED);
        let is_guarded = has_limits && self.is_alone && self.is_open[session];
        if is_guarded {
            self.howdah.step(session, "SAVEPOINT guard")?;
            self.heap.step(session, "SAVEPOINT guard")?;
        }
        let waiting_count = self.howdah.waiting().len();
        let ours = match self.howdah.step(session, text) {
            Ok(ended) => ended,
            Err(error) => return Ok(Verdict::Differs(format!("howdah: {error:#}"))),
        };
        let ends_block = ["COMMIT", "ROLLBACK", "PREPARE TRANSACTION"]
            .iter()
            .any(|word| text.starts_with(word))
            && !text.contains(" TO ");
        let meets_limit = ours.iter().any(|(_, outcome)| outcome.meets_limit());
        if meets_limit && self.is_alone {
            if ends_block {
                self.heap.step(session, "ROLLBACK")?;
                self.is_open[session] = false;
            } else if is_guarded {
                self.howdah.step(session, "ROLLBACK TO guard")?;
            }
            return Ok(Verdict::Agreed);
        }
        let heaps = self.heap.step(session, text).context("in the heap world")?;
        if text.starts_with("BEGIN") {
            self.is_open[session] = true;
        } else if ends_block {
            self.is_open[session] = false;
        }
        let is_same = ours.len() == heaps.len()
            && self.howdah.waiting() == self.heap.waiting()
            && ours
                .iter()
                .zip(&heaps)
                .all(|((a, ours), (b, heaps))| a == b && ours.agrees(heaps));
        if !is_same && meets_limit {
            return Ok(Verdict::CutShort);
        }
        // Several sessions that are woken at once race for the same rows, on heap as well.
        if !is_same && waiting_count >= 2 {
            return Ok(Verdict::CutShort);
        }
        if !is_same {
            return Ok(Verdict::Differs(format!(
                "howdah: {ours:?}, waiting {:?}; heap: {heaps:?}, waiting {:?}",
                self.howdah.waiting(),
                self.heap.waiting()
            )));
        }
        if self.is_alone && ends_block {
            return self.compare_contents();
        }
        Ok(Verdict::Agreed)
    }

    fn maintain(&mut self, text: &str) -> anyhow::Result<Verdict> {
        for world in [&mut *self.howdah, &mut *self.heap] {
            if let Some(complaint) = maintenance(&mut world.control, text) {
                return Ok(Verdict::Differs(complaint));
            }
        }
        self.compare_contents()
    }

    fn compact(&mut self, table: &str) -> anyhow::Result<Verdict> {
        if !self.howdah.is_howdah() {
            return Ok(Verdict::Agreed);
        }
        let call = format!("CALL howdah.compact('{table}')");
        match maintenance(&mut self.howdah.control, &call) {
            Some(complaint) => Ok(Verdict::Differs(complaint)),
            None => self.compare_contents(),
        }
    }

    /// Compares what a new session sees of every table, by sequential scans and by indexes.
    fn compare_contents(&mut self) -> anyhow::Result<Verdict> {
        let ours = contents(&mut self.howdah.control);
        let heaps = contents(&mut self.heap.control);
        Ok(match (ours, heaps) {
            (Ok(ours), Ok(heaps)) if ours == heaps => Verdict::Agreed,
            // A table that an open transaction has locked cannot be read; in both worlds.
            (Err(ours), Err(heaps)) if code(&ours) == code(&heaps) && code(&ours).is_some() => {
                Verdict::Agreed
            }
            (ours, heaps) => Verdict::Differs(format!(
                "contents differ:\nhowdah:\n{}\nheap:\n{}",
                ours.unwrap_or_else(|error| format!("{error:#}")),
                heaps.unwrap_or_else(|error| format!("{error:#}"))
            )),
        })
    }
}

fn code(error: &anyhow::Error) -> Option<String> {
    let error = error.downcast_ref::<postgres::Error>()?;
    Some(error.code()?.code().to_owned())
}

fn maintenance(control: &mut Client, text: &str) -> Option<String> {
    match Outcome::of(control, text) {
        Outcome::Error(code) if !MAINTENANCE_GIVES_WAY.contains(&code.as_str()) => {
            Some(format!("{text} ended with {code}"))
        }
        Outcome::Lost(why) => Some(format!("{text} lost its server: {why}")),
        _ => None,
    }
}

/// A line for each table and way to read it.
fn contents(control: &mut Client) -> anyhow::Result<String> {
    const TABLES: &str = "SELECT relname FROM pg_class
        WHERE relnamespace = 'w'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname";
    let digests: Vec<String> = query(control, TABLES)?
        .lines()
        .map(|table| {
            format!(
                "SELECT '{table}', count(*), coalesce(sum(hashtextextended(r::text, 0)), 0) FROM w.{table} r"
            )
        })
        .collect();
    if digests.is_empty() {
        return Ok(String::new());
    }
    let all = digests.join(" UNION ALL ");
    let plain = query(control, &all)?;
    let has_t = digests.iter().any(|one| one.starts_with("SELECT 't',"));
    if !has_t {
        return Ok(plain);
    }
    let by_key = "SET enable_seqscan = off; SET enable_bitmapscan = off;
        SELECT 't by key', count(*), sum(id), sum(k) FROM w.t WHERE id > -1;
        RESET enable_seqscan; RESET enable_bitmapscan";
    let through = query(control, by_key);
    if through.is_err() && !control.is_closed() {
        control.batch_execute("RESET enable_seqscan; RESET enable_bitmapscan")?;
    }
    Ok(format!("{plain}\n{}", through?))
}
