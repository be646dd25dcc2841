//! Plays a script in both worlds, and compares.

use anyhow::Context as _;
use postgres::Client;

use super::script::{Script, Step};
use super::session::{Outcome, Refusal};
use super::tally::Tally;
use super::worlds::{World, Worlds};
use crate::cluster::query;

/// Several sessions that are woken at once race for the same rows, on heap as well.
const RACED: &str = "several waited and went on in another order";

/// Differences from heap that docs/limits.md names, as narrowly as they can be told.
const WAYS_LOST: &str = "40001: the table was rewritten after the snapshot was taken";
const GROUP_LOCKED: &str = "a row group was locked as a whole";
const STORE_REINDEXED: &str = "REINDEX TABLE kept a reader from the cold rows";
const COARSE_READS: &str =
    "40001: SERIALIZABLE is coarser with cold rows and in checks for conflicting ones";
const HEAP_WAITS: &str =
    "FOR KEY SHARE, told not to wait: heap waits for a later version's changer";
const OTHER_PLAN: &str = "a cursor's plan used an index in one world only";
/// Of PostgreSQL 18.6, not of howdah: rows inserted, updated and rolled back to before that by the transaction that
/// clusters their table are gone from a heap.
const HEAP_LOSES: &str = "heap loses rows: CLUSTER behind ROLLBACK TO";
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Agreed,
    /// The worlds went apart at what docs/limits.md names; up to there they agreed.
    CutShort,
    Differs(String),
}

/// What a maintenance command may end with when it gives way to a session: it was cancelled, or
/// found its table gone or of another kind.
const MAINTENANCE_GIVES_WAY: [&str; 7] = [
    "57014", "55P03", "42P01", "42809", "3F000", "42704", "55006",
];

/// # Errors
/// When the script cannot be played; a difference is a verdict.
pub(super) fn play(
    worlds: &mut Worlds<'_>,
    script: &Script,
    tally: &mut Tally,
) -> anyhow::Result<Verdict> {
    worlds.begin(script)?;
    let workers_compact = query(&mut worlds.howdah.control, "SHOW howdah.compaction")? == "on";
    let mut player = Player {
        howdah: &mut worlds.howdah,
        heap: &mut worlds.heap,
        is_alone: script.session_count == 1,
        has_sequences: script.setup.iter().any(|text| text.contains("IDENTITY")),
        blocks: vec![Block::None; script.session_count],
        arbiter_asked: false,
        has_compacted: workers_compact,
        rolled_back_to: false,
        tally,
    };
    let verdict = player.play(&script.steps);
    worlds.howdah.end()?;
    worlds.heap.end()?;
    verdict
}

/// The transaction block that a session is in, as far as its statements tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    ReadCommitted,
    /// Its snapshot may be older than a rewrite that loses the ways to new versions of rows.
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

struct Player<'p> {
    howdah: &'p mut World,
    heap: &'p mut World,
    is_alone: bool,
    has_sequences: bool,
    blocks: Vec<Block>,
    /// Whether a serializable transaction has looked for rows that its own would conflict with.
    arbiter_asked: bool,
    /// Whether there may be cold rows.
    has_compacted: bool,
    /// Whether the only session has rolled back a part of its transaction.
    rolled_back_to: bool,
    tally: &'p mut Tally,
}

type Ended = Vec<(usize, Outcome)>;

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
        let verdict = self.compare_contents()?;
        if self.howdah.is_howdah() {
            self.count_reached()?;
        }
        Ok(verdict)
    }

    fn sql(&mut self, session: usize, text: &str) -> anyhow::Result<Verdict> {
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

    /// A statement of the only session. One that finds no way to a row is left out in the heap world too.
    fn alone(&mut self, text: &str, ends_block: bool) -> anyhow::Result<Verdict> {
        self.note_rewrite(text);
        self.rolled_back_to |= text.starts_with("ROLLBACK TO");
        self.rolled_back_to &= !ends_block;
        if self.rolled_back_to && text.starts_with("CLUSTER") {
            self.tally.limit(HEAP_LOSES);
            return Ok(Verdict::CutShort);
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
            self.tally.limit(WAYS_LOST);
            // Sequences have moved on, or a cursor is gone, in one world only.
            if self.has_sequences || text.starts_with("FETCH") {
                return Ok(Verdict::CutShort);
            }
            if ends_block {
                self.heap.step(0, "ROLLBACK")?;
            } else {
                self.howdah.step(0, "ROLLBACK TO guard")?;
            }
            return Ok(Verdict::Agreed);
        }
        let heaps = self.heap.step(0, text).context("in the heap world")?;
        if is_index_in_use(text, &ours) != is_index_in_use(text, &heaps) {
            self.tally.limit(OTHER_PLAN);
            return Ok(Verdict::CutShort);
        }
        let verdict = self.compared(&ours, &heaps);
        if verdict == Verdict::Agreed {
            return Ok(verdict);
        }
        // Both by a prepared transaction.
        if self.meets_group_lock(text, &[], &ours, &heaps)? {
            self.tally.limit(GROUP_LOCKED);
            return Ok(Verdict::CutShort);
        }
        let (refused, on_heap) = (has_failed(&ours, "55P03"), has_failed(&heaps, "55P03"));
        if refused && !on_heap && self.is_store_reindexed()? {
            self.tally.limit(STORE_REINDEXED);
            return Ok(Verdict::CutShort);
        }
        Ok(verdict)
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
        let limit = if self.meets_lost_way(&ours, &heaps) {
            WAYS_LOST
        } else if self.meets_group_lock(text, &holders, &ours, &heaps)? {
            GROUP_LOCKED
        } else if (self.arbiter_asked || self.has_compacted)
            && self.serialization_fails(&ours, &heaps)
        {
            COARSE_READS
        } else if self.only_heap_waits(text, session, &heaps) {
            HEAP_WAITS
        } else if waiting_count >= 2 && has_woken(session, &ours, &heaps) {
            RACED
        } else {
            return Ok(verdict);
        };
        self.tally.limit(limit);
        Ok(Verdict::CutShort)
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

    /// Whether a session with an old snapshot failed on a row whose way was lost since, and not
    /// on heap.
    fn meets_lost_way(&self, ours: &Ended, heaps: &Ended) -> bool {
        ours.iter().any(|(session, outcome)| {
            let lost = matches!(
                self.blocks[*session],
                Block::OldSnapshot {
                    ways_lost: true,
                    ..
                }
            );
            let heaps = heaps.iter().find(|(number, _)| number == session);
            lost && outcome.has_code("40001")
                && heaps.is_none_or(|(_, outcome)| !outcome.has_code("40001"))
        })
    }

    fn is_serializable(&self, session: usize) -> bool {
        matches!(
            self.blocks[session],
            Block::OldSnapshot {
                is_serializable: true,
                ..
            }
        )
    }

    /// Whether a serializable session failed with 40001 that did not on heap.
    fn serialization_fails(&self, ours: &Ended, heaps: &Ended) -> bool {
        ours.iter().any(|(session, outcome)| {
            let heaps = heaps.iter().find(|(number, _)| number == session);
            self.is_serializable(*session)
                && outcome.has_code("40001")
                && heaps.is_none_or(|(_, outcome)| !outcome.has_code("40001"))
        })
    }

    /// Whether heap has followed a row to a version whose key is being changed, and waits there,
    /// whatever it was told (`heap_lock_updated_tuple_rec`), maybe in a circle. A cold row's newer versions are
    /// locked as they are told.
    fn only_heap_waits(&self, text: &str, session: usize, heaps: &Ended) -> bool {
        ["FOR KEY SHARE NOWAIT", "FOR KEY SHARE SKIP LOCKED"]
            .iter()
            .any(|locking| text.contains(locking))
            && (self.heap.waiting().contains(&session) || has_failed(heaps, "40P01"))
            && !self.howdah.waiting().contains(&session)
    }

    /// Whether somebody has locked a whole row group, and another waits for it, would have had to,
    /// or did not see rows of it as free, which are free on heap.
    fn meets_group_lock(
        &mut self,
        text: &str,
        before: &[i32],
        ours: &Ended,
        heaps: &Ended,
    ) -> anyhow::Result<bool> {
        let mut holders = self.group_holders()?;
        holders.extend(before);
        let held_by_other = |session: usize| {
            let pid = self.howdah.sessions[session].pid;
            holders.iter().any(|holder| *holder != pid)
        };
        let waits_for_group = self
            .howdah
            .waiting()
            .iter()
            .any(|session| !self.heap.waiting().contains(session) && held_by_other(*session));
        let refused = ours.iter().any(|(session, outcome)| {
            let on_heap = heaps.iter().find(|(number, _)| number == session);
            let on_heap = on_heap.map(|(_, outcome)| outcome);
            held_by_other(*session)
                && match outcome {
                    Outcome::Error(Refusal { sqlstate, .. }) => {
                        ["55P03", "40P01"].contains(&sqlstate.as_str())
                            && on_heap.is_none_or(|heaps| !heaps.has_code(sqlstate))
                    }
                    Outcome::Done { rows, .. } => {
                        text.contains("SKIP LOCKED")
                            && matches!(on_heap, Some(Outcome::Done { rows: heaps, .. })
                                if rows.iter().all(|row| heaps.contains(row)))
                    }
                    Outcome::Lost(_) => false,
                }
        });
        // Who waits for the group at its first row holds no others, for which somebody would wait.
        let heap_deadlocks = heaps.iter().any(|(session, outcome)| {
            let ours = ours.iter().find(|(number, _)| number == session);
            !holders.is_empty()
                && outcome.has_code("40P01")
                && ours.is_none_or(|(_, outcome)| !outcome.has_code("40P01"))
        });
        // Nor do those find rows of his locked who come after him.
        let waits_on_heap_only = {
            let ours = self.howdah.waiting();
            self.heap.waiting().iter().any(|one| !ours.contains(one))
        };
        let finds_more = self.waits_for_group()?
            && (waits_on_heap_only
                || heaps.iter().any(|(session, on_heap)| {
                    let ours = ours.iter().find(|(number, _)| number == session);
                    match (ours.map(|(_, outcome)| outcome), on_heap) {
                        (Some(Outcome::Done { rows, .. }), Outcome::Done { rows: heaps, .. }) => {
                            text.contains("SKIP LOCKED") && rows != heaps
                        }
                        (ours, on_heap) => {
                            on_heap.has_code("55P03") && ours.is_some_and(|o| !o.has_code("55P03"))
                        }
                    }
                }));
        Ok(waits_for_group || refused || heap_deadlocks || finds_more)
    }

    /// Whether anybody waits for a row group that others work on, or have locked as a whole.
    fn waits_for_group(&mut self) -> anyhow::Result<bool> {
        const WAITING: &str = "SELECT count(*) FROM pg_locks
            WHERE locktype = 'page' AND NOT granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        Ok(query(&mut self.howdah.control, WAITING)? != "0")
    }

    /// The processes that have locked whole row groups; 0 stands for prepared transactions.
    fn group_holders(&mut self) -> anyhow::Result<Vec<i32>> {
        const LOCKED: &str = "SELECT coalesce(pid, 0) FROM pg_locks
            WHERE locktype = 'page' AND mode IN ('ShareLock', 'ExclusiveLock') AND granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        Ok(query(&mut self.howdah.control, LOCKED)?
            .lines()
            .filter_map(|pid| pid.parse().ok())
            .collect())
    }

    /// Counts what a script left in the cold stores, so that a run can say what it has been at.
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

    /// Cutting off empty pages waits five seconds for whoever uses the table; do it only if nobody can.
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

    /// Whether an open transaction has rebuilt the index of a cold store, for which readers of the
    /// cold rows wait; on heap those of toasted values do.
    fn is_store_reindexed(&mut self) -> anyhow::Result<bool> {
        const LOCKED: &str = "SELECT count(*) FROM pg_locks JOIN pg_index ON indexrelid = relation
            JOIN pg_class store ON store.oid = indrelid AND store.relkind = 't'
            WHERE mode = 'AccessExclusiveLock' AND granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        Ok(query(&mut self.howdah.control, LOCKED)? != "0")
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
                self.tally.limit(STORE_REINDEXED);
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

/// Whether a cursor of the same session uses an index that was to be rebuilt or dropped; which
/// indexes it uses is the planner's choice.
fn is_index_in_use(text: &str, ended: &Ended) -> bool {
    (text.starts_with("REINDEX") || text.starts_with("DROP INDEX"))
        && matches!(&ended[..], [(_, outcome)] if outcome.has_code("55006"))
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

/// Whether a session went on because of what another one did, in either world.
fn has_woken(acting: usize, ours: &Ended, heaps: &Ended) -> bool {
    let mut ended = ours.iter().chain(heaps);
    ended.any(|(session, _)| *session != acting)
}

fn has_failed(ended: &Ended, code: &str) -> bool {
    ended.iter().any(|(_, outcome)| outcome.has_code(code))
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
