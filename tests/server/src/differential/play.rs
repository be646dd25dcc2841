//! Plays a script in both worlds, and compares them.

use anyhow::Context as _;
use postgres::Client;

use super::limits::{Limit, Situation, is_index_in_use};
use super::script::{Script, Step};
use super::session::Outcome;
use super::tally::Tally;
use super::worlds::{Places, World, Worlds};
use crate::cluster::query;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Agreed,
    /// The worlds differed at one of the known limits; up to there they agreed.
    CutShort(Limit),
    Differs(String),
}

/// What a maintenance command may end with when it gives way to a session: it was cancelled, or its
/// table was dropped or changed its kind.
const MAINTENANCE_GIVES_WAY: [&str; 7] = [
    "57014", "55P03", "42P01", "42809", "3F000", "42704", "55006",
];

/// # Errors
/// When the script cannot be played; a difference is a verdict.
pub(super) fn play(
    worlds: &mut Worlds<'_>,
    script: &Script,
    places: Places,
    tally: &mut Tally,
) -> anyhow::Result<Verdict> {
    worlds.begin(script, places)?;
    let workers_compact = query(&mut worlds.howdah.control, "SHOW howdah.compaction")? == "on";
    let mut player = Player {
        howdah: &mut worlds.howdah,
        heap: &mut worlds.heap,
        is_alone: script.session_count == 1,
        has_sequences: script.setup.iter().any(|text| text.contains("IDENTITY")),
        blocks: vec![Block::None; script.session_count],
        arbiter_asked: false,
        has_compacted: workers_compact,
        has_moved: false,
        rolled_back_to: false,
        tally,
    };
    let verdict = player.play(&script.steps);
    worlds.end()?;
    verdict
}

/// The transaction block that a session is in, according to its statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    None,
    ReadCommitted,
    /// Its snapshot may be older than a rewrite that loses the links to new versions of rows.
    OldSnapshot {
        is_serializable: bool,
        ways_lost: bool,
    },
}

impl Block {
    fn begun_by(text: &str) -> Block {
        if text.contains("REPEATABLE READ") || text.contains("SERIALIZABLE") {
            Block::OldSnapshot {
                is_serializable: text.contains("SERIALIZABLE"),
                ways_lost: false,
            }
        } else {
            Block::ReadCommitted
        }
    }
}

pub(super) struct Player<'p> {
    pub(super) howdah: &'p mut World,
    pub(super) heap: &'p mut World,
    is_alone: bool,
    has_sequences: bool,
    pub(super) blocks: Vec<Block>,
    /// Whether a serializable transaction has searched for rows that conflict with its own.
    pub(super) arbiter_asked: bool,
    /// Whether there may be cold rows.
    pub(super) has_compacted: bool,
    /// Whether a table was given another access method, which may be its own in one world.
    pub(super) has_moved: bool,
    /// Whether the only session has rolled back a part of its transaction.
    rolled_back_to: bool,
    tally: &'p mut Tally,
}

pub(super) type Ended = Vec<(usize, Outcome)>;

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
                Verdict::CutShort(_) => return Ok(verdict),
                Verdict::Differs(what) => {
                    return Ok(Verdict::Differs(format!(
                        "at step {number}, {step:?}: {what}"
                    )));
                }
            }
        }
        let verdict = self.compare_contents()?;
        if self.howdah.is_howdah() {
            self.count_reached()?;
        }
        Ok(verdict)
    }

    fn sql(&mut self, session: usize, text: &str) -> anyhow::Result<Verdict> {
        self.has_moved |= text.contains("SET ACCESS METHOD");
        if self.howdah.sessions[session].is_busy {
            return Ok(Verdict::Agreed);
        }
        let ends_block = ["COMMIT", "ROLLBACK", "PREPARE TRANSACTION"]
            .iter()
            .any(|word| text.starts_with(word))
            && !text.contains(" TO ")
            && !text.contains(" PREPARED ");
        let verdict = if self.is_alone {
            self.alone(text, ends_block)?
        } else {
            self.together(session, text)?
        };
        if verdict != Verdict::Agreed {
            return Ok(verdict);
        }
        if text.starts_with("BEGIN") {
            self.blocks[session] = Block::begun_by(text);
        } else if text.ends_with("AND CHAIN") {
            self.blocks[session] = match self.blocks[session] {
                Block::OldSnapshot {
                    is_serializable, ..
                } => Block::OldSnapshot {
                    is_serializable,
                    ways_lost: false,
                },
                other => other,
            };
        } else if ends_block {
            self.blocks[session] = Block::None;
        }
        if self.is_alone && ends_block {
            return self.compare_contents();
        }
        Ok(Verdict::Agreed)
    }

    /// A statement of the only session. One that fails because the link to a row is lost is left
    /// out in the heap world too.
    fn alone(&mut self, text: &str, ends_block: bool) -> anyhow::Result<Verdict> {
        self.note_rewrite(text);
        self.rolled_back_to |= text.starts_with("ROLLBACK TO");
        self.rolled_back_to &= !ends_block;
        if self.rolled_back_to && text.starts_with("CLUSTER") {
            return Ok(Verdict::CutShort(Limit::HeapLoses));
        }
        let is_guarded = matches!(
            self.blocks[0],
            Block::OldSnapshot {
                ways_lost: true,
                ..
            }
        );
        if is_guarded {
            self.howdah.step(0, "SAVEPOINT guard")?;
            self.heap.step(0, "SAVEPOINT guard")?;
        }
        let ours = match self.howdah.step(0, text) {
            Ok(ended) => ended,
            Err(error) => return Ok(Verdict::Differs(format!("howdah: {error:#}"))),
        };
        self.count(0, text, &ours);
        if is_guarded && matches!(&ours[..], [(_, outcome)] if outcome.has_code("40001")) {
            // Sequences have advanced, or a cursor is closed, in one world only.
            if self.has_sequences || text.starts_with("FETCH") {
                return Ok(Verdict::CutShort(Limit::WaysLost));
            }
            self.tally.limit(Limit::WaysLost);
            if ends_block {
                self.heap.step(0, "ROLLBACK")?;
            } else {
                self.howdah.step(0, "ROLLBACK TO guard")?;
            }
            return Ok(Verdict::Agreed);
        }
        let heaps = self.heap.step(0, text).context("in the heap world")?;
        if is_index_in_use(text, &ours) != is_index_in_use(text, &heaps) {
            return Ok(Verdict::CutShort(Limit::OtherPlan));
        }
        let verdict = self.compared(&ours, &heaps);
        if verdict == Verdict::Agreed {
            return Ok(verdict);
        }
        let met = self.limit_met_alone(text, &ours, &heaps)?;
        Ok(met.map_or(verdict, Verdict::CutShort))
    }

    /// A statement of one of several sessions, in both worlds at once.
    fn together(&mut self, session: usize, text: &str) -> anyhow::Result<Verdict> {
        let waiting_count = self.howdah.waiting().len();
        let holders = if waiting_count > 0 {
            self.group_holders()?
        } else {
            Vec::new()
        };
        let asks =
            text.contains("ON CONFLICT") || text.contains("INTO e ") || text.contains("UPDATE e ");
        self.arbiter_asked |= asks && self.is_serializable(session);
        let (howdah, heap) = (&mut *self.howdah, &mut *self.heap);
        let (ours, heaps) = std::thread::scope(|scope| {
            let ours = scope.spawn(|| howdah.step(session, text));
            let heaps = heap.step(session, text);
            (ours.join(), heaps)
        });
        let ours = match ours {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => return Ok(Verdict::Differs(format!("howdah: {error:#}"))),
            Err(panic) => std::panic::resume_unwind(panic),
        };
        self.count(session, text, &ours);
        let heaps = heaps.context("in the heap world")?;
        let verdict = self.compared(&ours, &heaps);
        if verdict == Verdict::Agreed {
            return Ok(verdict);
        }
        let met = self.limit_met(
            &Situation {
                session,
                text,
                waiting_count,
                group_holders: &holders,
            },
            &ours,
            &heaps,
        )?;
        Ok(met.map_or(verdict, Verdict::CutShort))
    }

    fn compared(&self, ours: &Ended, heaps: &Ended) -> Verdict {
        let is_same = ours.len() == heaps.len()
            && self.howdah.waiting() == self.heap.waiting()
            && ours
                .iter()
                .zip(heaps)
                .all(|((a, ours), (b, heaps))| a == b && ours.agrees(heaps));
        if is_same {
            return Verdict::Agreed;
        }
        Verdict::Differs(format!(
            "howdah: {ours:?}, waiting {:?}; heap: {heaps:?}, waiting {:?}",
            self.howdah.waiting(),
            self.heap.waiting()
        ))
    }

    fn count(&mut self, session: usize, text: &str, ended: &Ended) {
        let own = ended.iter().find(|(number, _)| *number == session);
        self.tally.statement(text, own.map(|(_, outcome)| outcome));
    }

    /// Counts what a script left in the cold stores, so that a run can report which parts it has
    /// reached.
    fn count_reached(&mut self) -> anyhow::Result<()> {
        const STORES: &str = "SELECT DISTINCT reltoastrelid::regclass FROM pg_class
            JOIN pg_am ON pg_am.oid = relam WHERE relnamespace = to_regnamespace('w')
              AND amname = 'howdah' AND reltoastrelid <> 0";
        let mut parts = Vec::new();
        for store in query(&mut self.howdah.control, STORES)?.lines() {
            parts.push(format!(
                "SELECT DISTINCT CASE WHEN chunk_id < 16 THEN chunk_id::text ELSE '16' END FROM {store}
                 WHERE chunk_id < 16384"
            ));
        }
        if parts.is_empty() {
            return Ok(());
        }
        let found = query(&mut self.howdah.control, &parts.join(" UNION "));
        for id in found.unwrap_or_default().lines() {
            self.tally.reached(match id {
                "1" => "row groups",
                "4" => "bitmaps",
                "5" => "forwards of merged groups",
                "6" => "lists of new versions",
                "7" => "lists of late rows",
                "16" => "row marks",
                _ => "high-water marks and the like",
            });
        }
        Ok(())
    }

    /// Truncating empty pages waits five seconds for any session that uses the table; it is allowed
    /// only if no session can.
    fn choose_truncation(&mut self) -> anyhow::Result<()> {
        let is_quiet = self.blocks.iter().all(|block| *block == Block::None)
            && query(
                &mut self.howdah.control,
                "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()",
            )? == "0";
        let state = if is_quiet { "on" } else { "off" };
        for world in [&mut *self.howdah, &mut *self.heap] {
            world
                .control
                .batch_execute(&format!("SET vacuum_truncate = {state}"))?;
        }
        Ok(())
    }

    fn maintain(&mut self, text: &str) -> anyhow::Result<Verdict> {
        self.choose_truncation()?;
        self.note_rewrite(text);
        for world in [&mut *self.howdah, &mut *self.heap] {
            if let Some(complaint) = maintenance(&mut world.control, text) {
                return Ok(Verdict::Differs(complaint));
            }
        }
        if text.starts_with("REINDEX") && self.leaves_other_indexes()? {
            return Ok(Verdict::CutShort(Limit::ReindexGaveWay));
        }
        self.compare_contents()
    }

    fn compact(&mut self, table: &str) -> anyhow::Result<Verdict> {
        if !self.howdah.is_howdah() {
            return Ok(Verdict::Agreed);
        }
        self.choose_truncation()?;
        let call = format!("CALL howdah.compact('{table}')");
        match maintenance(&mut self.howdah.control, &call) {
            Some(complaint) => Ok(Verdict::Differs(complaint)),
            None => {
                self.has_compacted = true;
                self.compare_contents()
            }
        }
    }

    fn note_rewrite(&mut self, text: &str) {
        let rewrites = text.starts_with("CLUSTER") || text.starts_with("VACUUM (FULL)");
        for block in &mut self.blocks {
            if let Block::OldSnapshot { ways_lost, .. } = block {
                *ways_lost |= rewrites;
            }
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
            (Err(ours), Ok(_))
                if code(&ours).as_deref() == Some("55P03") && self.is_store_reindexed()? =>
            {
                self.tally.limit(Limit::StoreReindexed);
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
        Outcome::Error(refusal) if !MAINTENANCE_GIVES_WAY.contains(&refusal.sqlstate.as_str()) => {
            Some(format!("{text} ended with {refusal:?}"))
        }
        Outcome::Lost(why) => Some(format!("{text} lost its server: {why}")),
        _ => None,
    }
}

/// A line for each table and way to read it.
fn contents(control: &mut Client) -> anyhow::Result<String> {
    const TABLES: &str = "SELECT relname FROM pg_class
        WHERE relnamespace = 'w'::regnamespace AND relkind IN ('r', 'p', 'm') ORDER BY relname";
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
