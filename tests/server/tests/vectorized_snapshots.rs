//! Old snapshots, cursors, prepared statements, standbys and crashes, as the vectorized engine sees
//! them: whatever happens to the rows, a snapshot sees of a howdah table and of partitions what it
//! sees of their heap twin.
//!
//! ```text
//!   steps (insert, update, delete, abort, compact, vacuum, rewrite) ─▶ h (heap), t, parts
//!   snapshots, taken at any step, kept for some ─▶ the same queries of h, t and parts
//!   cursors, opened at any step, read in parts ─▶ the rows of h at the time of their opening
//! ```
//!
//! `HOWDAH_SNAPSHOT_SEED` and `HOWDAH_SNAPSHOT_STEPS` choose other and longer runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::settings::number;
use postgres::Client;

const SETTINGS: [(&str, &str); 7] = [
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("howdah.load_threshold", "500"),
    ("hot_standby_feedback", "on"),
    ("wal_receiver_status_interval", "1s"),
    ("max_standby_streaming_delay", "2s"),
    // Several row groups and zones, of few rows.
    ("howdah.row_group_bytes", "1MB"),
];
const PARTITIONS: [&str; 4] = ["parts_a", "parts_b", "parts_c", "parts_d"];
const MAKE: &str = "
    CREATE TABLE h (id int, k int, w text COLLATE \"C\", n numeric(12,2), at date) USING heap;
    CREATE TABLE t (LIKE h) USING howdah;
    CREATE TABLE parts (LIKE h) PARTITION BY RANGE (id);
    CREATE TABLE parts_a PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (8000) USING howdah;
    CREATE TABLE parts_b (at date, n numeric(12,2), gone int, w text COLLATE \"C\", k int, id int) USING howdah;
    ALTER TABLE parts_b DROP COLUMN gone;
    ALTER TABLE parts ATTACH PARTITION parts_b FOR VALUES FROM (8000) TO (20000);
    CREATE TABLE parts_c PARTITION OF parts FOR VALUES FROM (20000) TO (40000) USING heap;
    CREATE TABLE parts_d PARTITION OF parts DEFAULT USING howdah;
    CREATE INDEX ON h (id); CREATE INDEX ON t (id); CREATE INDEX ON parts (id);";
/// Each in a total order. `x` stands for the table.
const QUERIES: [&str; 7] = [
    "SELECT count(*), sum(id), sum(k), min(w), max(w), sum(n), max(at) FROM x",
    "SELECT k % 10 AS g, count(*), sum(id), avg(n) FROM x GROUP BY 1 ORDER BY 1",
    "SELECT id, k, w FROM x ORDER BY w, id, k LIMIT 30",
    "SELECT w, count(*) FROM x WHERE k > 300 GROUP BY w ORDER BY 2 DESC, w LIMIT 10",
    "SELECT DISTINCT k, at FROM x WHERE id % 3 = 0 ORDER BY 1, 2 LIMIT 200",
    "SELECT count(*), max(id) FROM x WHERE w LIKE '%7%' AND (k IS NULL OR k BETWEEN 100 AND 700)",
    "SELECT id, w FROM x WHERE id BETWEEN 7000 AND 9000 ORDER BY id DESC, k, w LIMIT 500",
];
const FORCED: &str = "SET howdah.debug_force_vectorized = on; SET client_min_messages = error";

/// A session that keeps its snapshot.
struct Snapshot {
    session: Client,
    taken_at: u64,
}

impl Snapshot {
    fn take(mut session: Client, at: u64, dice: &mut Dice) -> anyhow::Result<Self> {
        // Some have read the tables before rows are changed, and hold locks on them.
        let first = *dice.pick(&["SELECT 1", "SELECT count(*) FROM t"]);
        session.batch_execute(&format!(
            "{FORCED}; BEGIN ISOLATION LEVEL REPEATABLE READ; {first}"
        ))?;
        let taken_at = at;
        Ok(Self { session, taken_at })
    }

    fn check(&mut self, dice: &mut Dice) -> anyhow::Result<()> {
        for at in [dice.below(QUERIES.len()), dice.below(QUERIES.len())] {
            compare(&mut self.session, QUERIES[at], dice)
                .with_context(|| format!("snapshot of step {}", self.taken_at))?;
        }
        Ok(())
    }
}

/// The same query of the three tables.
fn compare(session: &mut Client, text: &str, dice: &mut Dice) -> anyhow::Result<()> {
    let of = |table: &str| text.replace(" x", &format!(" {table}"));
    let heap = query(session, &of("h"))?;
    session.batch_execute(&format!(
        "SET howdah.threads = {}; SET work_mem = '{}'",
        dice.pick(&[0, 1, 2, 7]),
        dice.pick(&["64kB", "32MB"])
    ))?;
    for table in ["t", "parts"] {
        let got = query(session, &of(table))?;
        ensure!(
            got == heap,
            "{}: {got:.400}\nbut of heap: {heap:.400}",
            of(table)
        );
    }
    Ok(())
}

/// A cursor over the engine's plan, and what it has yet to return.
struct Cursor {
    name: String,
    rows: Vec<String>,
    /// The row before the next one.
    at: usize,
}

impl Cursor {
    fn open(session: &mut Client, name: String, dice: &mut Dice) -> anyhow::Result<Self> {
        let text = dice.pick(&QUERIES);
        let table = dice.pick(&[" t", " parts"]);
        let rows = query(session, &text.replace(" x", " h"))?;
        session.batch_execute(&format!(
            "DECLARE {name} SCROLL CURSOR {} FOR {}",
            dice.pick(&["WITH HOLD", ""]),
            text.replace(" x", table)
        ))?;
        let rows = rows.lines().map(str::to_owned).collect();
        Ok(Self { name, rows, at: 0 })
    }

    /// Reads some rows, forwards or backwards.
    fn read(&mut self, session: &mut Client, dice: &mut Dice) -> anyhow::Result<()> {
        // FETCH 0 returns the current row again.
        let count = 1 + dice.below(40);
        let (ask, expected) = match dice.below(4) {
            0 => {
                // The rows before the current one; the position is then before the first of them.
                let from = (self.at.min(self.rows.len() + 1)).saturating_sub(1);
                let start = from.saturating_sub(count);
                let mut rows: Vec<String> = self.rows[start..from].to_vec();
                rows.reverse();
                self.at = match from < count {
                    true => 0,
                    false => start + 1,
                };
                (format!("FETCH BACKWARD {count} FROM {}", self.name), rows)
            }
            1 => {
                self.at = self.rows.len();
                let last = self.rows.last().cloned();
                (
                    format!("FETCH LAST FROM {}", self.name),
                    last.into_iter().collect(),
                )
            }
            _ => {
                let start = self.at.min(self.rows.len());
                let end = (start + count).min(self.rows.len());
                self.at = match start + count > self.rows.len() {
                    true => self.rows.len() + 1,
                    false => end,
                };
                let rows = self.rows[start..end].to_vec();
                (format!("FETCH FORWARD {count} FROM {}", self.name), rows)
            }
        };
        let got = query(session, &ask)?;
        ensure!(
            got == expected.join("\n"),
            "{ask}: {got:.300}\ninstead of {:.300}",
            expected.join("\n")
        );
        Ok(())
    }
}

/// Whether replay has ended the statement or the session, as it may for any old snapshot.
fn met_recovery(error: &anyhow::Error) -> bool {
    let error = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<postgres::Error>());
    error.is_some_and(|error| {
        let code = error.code().map(|code| code.code());
        error.is_closed() || matches!(code, Some("40001" | "25P02"))
    })
}

/// Changes all three tables in the same way; compaction and VACUUM change none of their rows.
fn step(session: &mut Client, dice: &mut Dice, at: u64, may_rewrite: bool) -> anyhow::Result<()> {
    let from = dice.below(24_000);
    let to = from + dice.below(6_000);
    let all = |text: String| -> String {
        let tables = ["h", "t", "parts"].map(|table| text.replace(" x", &format!(" {table}")));
        tables.join("; ")
    };
    let change = match dice.below(5) {
        0 => all(format!("DELETE FROM x WHERE id BETWEEN {from} AND {to} AND id % 3 = {}", dice.below(3))),
        1 => all(format!("UPDATE x SET k = k + 1, w = w || '!' WHERE id BETWEEN {from} AND {to}")),
        // Rows move from partition to partition.
        2 => all(format!("UPDATE x SET id = id + 9000 WHERE id BETWEEN {from} AND {to} AND id % 7 = 1")),
        3 => all(format!(
            "INSERT INTO x SELECT g, nullif(g % 977, 0), 'w' || g % 311, g % 1000 / 4.0, date '2020-01-01' + g % 90
             FROM generate_series({from}, {to}) g"
        )),
        _ => all(format!("UPDATE x SET k = {at} WHERE id BETWEEN {from} AND {} ", from + 40)),
    };
    let run = |session: &mut Client, text: &str| {
        session.batch_execute(text).with_context(|| text.to_owned())
    };
    match dice.below(12) {
        0..=5 => run(session, &format!("BEGIN; {change}; COMMIT")),
        6 => run(session, &format!("BEGIN; {change}; ROLLBACK")),
        7 => run(
            session,
            &format!("BEGIN; SAVEPOINT s; {change}; ROLLBACK TO s; {change}; COMMIT"),
        ),
        8 | 9 => {
            for table in PARTITIONS
                .iter()
                .filter(|name| **name != "parts_c")
                .chain([&"t"])
            {
                run(session, &format!("CALL howdah.compact('{table}')"))?;
            }
            Ok(())
        }
        10 => run(session, "VACUUM t, parts, h"),
        _ if !may_rewrite => run(session, "ANALYZE t, parts, h"),
        _ => {
            // A reader's lock keeps the table as it is.
            session.batch_execute("SET lock_timeout = '50ms'")?;
            for rewrite in [
                "CLUSTER t USING t_id_idx",
                "VACUUM FULL parts_b",
                "VACUUM FULL parts_a",
            ] {
                if let Err(error) = session.batch_execute(rewrite) {
                    let code = error.code().map_or("none", |code| code.code());
                    ensure!(code == "55P03", "{rewrite}: {error:?}");
                }
            }
            Ok(session.batch_execute("RESET lock_timeout")?)
        }
    }
}

fn fill(session: &mut Client) -> anyhow::Result<()> {
    session.batch_execute(&format!(
        "{MAKE} INSERT INTO h SELECT g, nullif(g % 977, 0), 'w' || g % 311, g % 1000 / 4.0, date '2020-01-01' + g % 90
             FROM generate_series(1, 26000) g;
         INSERT INTO t SELECT * FROM h; INSERT INTO parts SELECT * FROM h; ANALYZE h, t, parts; {FORCED}"
    ))?;
    for table in ["t", "parts"] {
        let plan = query(
            session,
            &format!("EXPLAIN {}", QUERIES[1].replace(" x", &format!(" {table}"))),
        )?;
        ensure!(plan.contains("Vectorized"), "not vectorized: {plan}");
    }
    Ok(())
}

#[test]
fn old_snapshots_and_cursors_keep_their_rows() -> anyhow::Result<()> {
    let primary = Primary::start("vectorized-snapshots", &SETTINGS)?;
    let mut session = primary.session()?;
    fill(&mut session)?;
    let seed = number("HOWDAH_SNAPSHOT_SEED", 1);
    let mut dice = Dice::new(seed);
    let mut snapshots: Vec<Snapshot> = Vec::new();
    let mut holder = primary.session()?;
    holder.batch_execute(FORCED)?;
    let mut cursors: Vec<Cursor> = Vec::new();
    for at in 0..number("HOWDAH_SNAPSHOT_STEPS", 30) {
        step(&mut session, &mut dice, at, true)
            .with_context(|| format!("seed {seed}, step {at}"))?;
        let mut look = || -> anyhow::Result<()> {
            if dice.below(2) == 0 {
                snapshots.push(Snapshot::take(primary.session()?, at, &mut dice)?);
            }
            if snapshots.len() > 5 {
                let gone = dice.below(snapshots.len());
                snapshots.swap_remove(gone);
            }
            let text = QUERIES[dice.below(QUERIES.len())];
            compare(&mut session, text, &mut dice)?;
            for snapshot in &mut snapshots {
                snapshot.check(&mut dice)?;
            }
            if cursors.is_empty() {
                holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
                for name in 0..4 {
                    cursors.push(Cursor::open(
                        &mut holder,
                        format!("c{at}_{name}"),
                        &mut dice,
                    )?);
                }
            }
            for cursor in &mut cursors {
                cursor.read(&mut holder, &mut dice)?;
            }
            if dice.below(4) == 0 {
                // Those WITH HOLD outlive their transaction.
                holder.batch_execute("COMMIT")?;
                let held = query(&mut holder, "SELECT name FROM pg_cursors")?;
                cursors.retain(|cursor| held.lines().any(|name| name == cursor.name));
                for cursor in &mut cursors {
                    for _ in 0..3 {
                        cursor.read(&mut holder, &mut dice)?;
                    }
                }
                holder.batch_execute("CLOSE ALL")?;
                cursors.clear();
            }
            Ok(())
        };
        look().with_context(|| format!("seed {seed}, step {at}"))?;
    }
    Ok(())
}

#[test]
fn standbys_and_crashed_servers_have_the_same_rows_for_the_engine() -> anyhow::Result<()> {
    let primary = Primary::start("vectorized-standby", &SETTINGS)?;
    let standby = primary.standby()?;
    let mut session = primary.session()?;
    fill(&mut session)?;
    let seed = number("HOWDAH_SNAPSHOT_SEED", 1);
    let mut dice = Dice::new(seed ^ 0x57A4_DB15);
    let (mut snapshots, mut checked) = (Vec::<Snapshot>::new(), 0);
    for at in 0..number("HOWDAH_SNAPSHOT_STEPS", 30) / 2 {
        let mut all = || -> anyhow::Result<()> {
            step(&mut session, &mut dice, at, false)?;
            if dice.below(4) > 0 {
                return Ok(());
            }
            standby.wait_for(&primary)?;
            let mut there = standby.session()?;
            there.batch_execute(FORCED)?;
            for text in QUERIES {
                compare(&mut there, text, &mut dice)?;
            }
            let mut kept = Vec::new();
            for mut snapshot in snapshots.drain(..) {
                match snapshot.check(&mut dice) {
                    Ok(()) => kept.push(snapshot),
                    Err(error) if met_recovery(&error) => {}
                    Err(error) => return Err(error.context("on the standby")),
                }
            }
            checked += kept.len();
            snapshots = kept;
            snapshots.push(Snapshot::take(there, at, &mut dice)?);
            if snapshots.len() > 3 {
                snapshots.swap_remove(dice.below(3));
            }
            if dice.below(2) == 0 {
                // Whatever the step was, it is followed by others that no checkpoint covers.
                step(&mut session, &mut dice, at, false)?;
                let _ = session.batch_execute("BEGIN; DELETE FROM t WHERE id % 2 = 0");
                primary.crash_and_recover()?;
                session = primary.session()?;
                session.batch_execute(FORCED)?;
                for text in QUERIES {
                    compare(&mut session, text, &mut dice).context("after a crash")?;
                }
            }
            Ok(())
        };
        all().with_context(|| format!("seed {seed}, step {at}"))?;
    }
    println!("{checked} checks of old snapshots on the standby");
    drop(snapshots);
    standby.wait_for(&primary)?;
    standby.promote()?;
    let mut promoted = standby.session()?;
    promoted.batch_execute(FORCED)?;
    for at in 0..3 {
        step(&mut promoted, &mut dice, at, true).context("after the promotion")?;
        for text in QUERIES {
            compare(&mut promoted, text, &mut dice).context("after the promotion")?;
        }
    }
    Ok(())
}

#[test]
fn prepared_statements_follow_partitions_that_come_and_go() -> anyhow::Result<()> {
    let primary = Primary::start("vectorized-prepared", &SETTINGS)?;
    let mut session = primary.session()?;
    fill(&mut session)?;
    let counting = "SELECT count(*), sum(k) FROM parts";
    let with = query(&mut session, counting)?;
    let without = query(
        &mut session,
        &format!("{counting} WHERE id < 8000 OR id >= 20000"),
    )?;
    ensure!(with != without);
    let is_over = Arc::new(AtomicBool::new(false));
    let (mut readers, mut all_seen) = (Vec::new(), Vec::new());
    for mode in ["force_generic_plan", "force_custom_plan", "auto"] {
        let (mut reader, is_over) = (primary.session()?, Arc::clone(&is_over));
        reader.batch_execute(&format!(
            "{FORCED}; SET plan_cache_mode = {mode}; PREPARE all_rows AS {counting};
             PREPARE of_key(int) AS SELECT count(*) FROM parts WHERE id % 100 = $1"
        ))?;
        let answers = [with.clone(), without.clone()];
        let seen: Arc<[AtomicU64; 2]> = Arc::default();
        all_seen.push(Arc::clone(&seen));
        readers.push(thread::spawn(move || -> anyhow::Result<()> {
            while !is_over.load(Ordering::Relaxed) {
                let got = query(&mut reader, "EXECUTE all_rows")?;
                let which = answers.iter().position(|answer| *answer == got);
                let which =
                    which.with_context(|| format!("{mode}: {got}, neither of {answers:?}"))?;
                seen[which].fetch_add(1, Ordering::Relaxed);
                let got = query(&mut reader, "EXECUTE of_key(5)")?;
                ensure!(
                    ["260", "140"].contains(&got.as_str()),
                    "{mode}: {got} rows of a key"
                );
            }
            Ok(())
        }));
    }
    let has_seen_both =
        |seen: &Arc<[AtomicU64; 2]>| seen.iter().all(|count| count.load(Ordering::Relaxed) > 0);
    // On a busy machine it takes more rounds until every reader has met both states.
    for round in 0..200 {
        if round >= 8 && all_seen.iter().all(has_seen_both) {
            break;
        }
        let how = match round % 2 {
            0 => "",
            _ => "CONCURRENTLY",
        };
        // A default partition forbids to detach concurrently, and is not needed here.
        if round == 0 {
            session.batch_execute("ALTER TABLE parts DETACH PARTITION parts_d; ALTER TABLE parts ATTACH PARTITION parts_d FOR VALUES FROM (40000) TO (MAXVALUE)")?;
        }
        session.batch_execute(&format!("ALTER TABLE parts DETACH PARTITION parts_b {how}"))?;
        thread::sleep(Duration::from_millis(30));
        session.batch_execute(
            "ALTER TABLE parts ATTACH PARTITION parts_b FOR VALUES FROM (8000) TO (20000)",
        )?;
        thread::sleep(Duration::from_millis(30));
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        reader
            .join()
            .map_err(|_| anyhow::anyhow!("a reader panicked"))??;
    }
    ensure!(
        all_seen.iter().all(has_seen_both),
        "{all_seen:?} answers with and without"
    );
    Ok(())
}
