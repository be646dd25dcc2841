//! Moving an all-hot table without indexes to the cold side, with a concurrent writer: it inserts
//! rows, changes those, and changes rows all over the table, which are being moved. Its longest
//! wait is the longest of all runs, not a median.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use postgres::Client;

use super::figure::{Figure, Goal, Outcome, Unit};
use super::{Options, Side, statement, table, writes};
use crate::cluster::Cluster;
use crate::instance::DATABASE;
use crate::progress::{Counting, Progress};
use crate::units;

const MOST_ROWS: u64 = 2_000_000;
const TABLE: &str = "bench.compacted";
/// How long the writer works alone, for comparison.
const ALONE: Duration = Duration::from_secs(3);

pub(super) fn measure(
    cluster: &Cluster,
    client: &mut Client,
    options: &Options,
) -> anyhow::Result<Vec<Figure>> {
    let rows = options.rows.min(MOST_ROWS);
    let mut rate = Figure::new("compaction, rows", Unit::PerSecond)
        .with_goal(Some(Goal::AtLeast(1_000_000.0)));
    let mut wait = Figure::new("writer's longest wait", Unit::Milliseconds)
        .with_goal(Some(Goal::AtMost(200.0)));
    rate.heap = Outcome::Absent;
    let known = "SELECT to_regprocedure('howdah.compact(regclass)') IS NOT NULL";
    if !client.query_one(known, &[])?.get::<_, bool>(0) {
        for figure in [&mut rate, &mut wait] {
            figure.heap = Outcome::Absent;
            figure.howdah = Outcome::Absent;
        }
        return Ok(vec![rate, wait]);
    }
    if client
        .query_one("SELECT to_regclass('bench.source') IS NULL", &[])?
        .get(0)
    {
        table::stage(client, rows)?;
    }
    let mut progress = Progress::of("compacting", u64::from(options.runs), Counting::Things);
    let (mut alone_longest, mut beside_longest) = (0.0_f64, 0.0_f64);
    for _ in 0..options.runs {
        make_hot(client, rows)?;
        let alone = beside_writer(cluster, || {
            thread::sleep(ALONE);
            Ok(())
        })?;
        alone_longest = alone_longest.max(alone.longest);
        let expected = fingerprint(client)?;
        // Without a writer first: the rate.
        let started = Instant::now();
        client
            .batch_execute(&format!("CALL howdah.compact('{TABLE}')"))
            .context("CALL howdah.compact")?;
        let seconds = started.elapsed().as_secs_f64();
        let moved: i64 = client
            .query_one(
                &format!("SELECT cold_rows FROM howdah.table_sizes('{TABLE}')"),
                &[],
            )?
            .get(0);
        rate.howdah.add(Some(moved as f64 / seconds));
        let found = fingerprint(client)?;
        rate.difference = rate.difference.take().or_else(|| {
            statement::first_difference(("before compaction", &expected), ("after", &found))
        });
        // Then again with one: the wait.
        make_hot(client, rows)?;
        let expected = untouched(client)?;
        let beside = beside_writer(cluster, || {
            Ok(client.batch_execute(&format!("CALL howdah.compact('{TABLE}')"))?)
        })?;
        beside_longest = beside_longest.max(beside.longest);
        let count = format!("SELECT count(*) FROM {TABLE} WHERE c1 = 0");
        let inserted: i64 = client.query_one(&count, &[])?.get(0);
        anyhow::ensure!(
            inserted == beside.inserted,
            "{} rows were inserted beside compaction, {inserted} are there",
            beside.inserted
        );
        let found = untouched(client)?;
        wait.difference = wait.difference.take().or_else(|| {
            statement::first_difference(("before compaction", &expected), ("after", &found))
        });
        progress.advance(1, "");
    }
    wait.heap = Outcome::one(alone_longest);
    wait.howdah = Outcome::one(beside_longest);
    progress.finish(&format!("{} hot rows", units::count(rows)));
    Ok(vec![rate, wait])
}

fn make_hot(client: &mut Client, rows: u64) -> anyhow::Result<()> {
    client.batch_execute(&format!(
        "DROP TABLE IF EXISTS {TABLE};
         CREATE TABLE {TABLE} ({}) USING howdah",
        table::COLUMNS
    ))?;
    writes::keep_hot(client, Side::Howdah, TABLE)?;
    client.batch_execute(&format!(
        "SET howdah.bulk_load = off;
         INSERT INTO {TABLE} SELECT * FROM bench.source LIMIT {rows};
         RESET howdah.bulk_load"
    ))?;
    client.batch_execute(&format!("VACUUM (FREEZE, ANALYZE) {TABLE}"))?;
    Ok(client.batch_execute("CHECKPOINT")?)
}

fn fingerprint(client: &mut Client) -> anyhow::Result<statement::Rows> {
    let sql = format!("SELECT count(*), sum(c1), sum(c3), sum(c5), max(c4) FROM {TABLE}");
    Ok(statement::ask(client, &sql)?
        .map(|answer| answer.rows)
        .unwrap_or_default())
}

/// The rows that the writer does not change.
fn untouched(client: &mut Client) -> anyhow::Result<statement::Rows> {
    let sql = format!("SELECT count(*), sum(c1), sum(c5), max(c4) FROM {TABLE} WHERE c1 > 0");
    Ok(statement::ask(client, &sql)?
        .map(|answer| answer.rows)
        .unwrap_or_default())
}

/// The measurements of a writer.
struct Written {
    /// Milliseconds of the slowest statement.
    longest: f64,
    inserted: i64,
}

/// Does `work` while a session inserts rows and updates them again.
fn beside_writer(
    cluster: &Cluster,
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Written> {
    beside(cluster, write_until, work)
}

/// Does `work` while another session writes, until it is told that the work is done; what it has
/// written.
pub(super) fn beside<W: Send>(
    cluster: &Cluster,
    write: impl FnOnce(&mut Client, &AtomicBool) -> anyhow::Result<W> + Send,
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<W> {
    let mut writer = cluster.connect(DATABASE)?;
    writer.batch_execute("SET synchronous_commit = off")?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing = scope.spawn(|| write(&mut writer, &done));
        let result = work();
        done.store(true, Ordering::SeqCst);
        let written = writing
            .join()
            .map_err(|_| anyhow::anyhow!("the writer panicked"))?;
        result?;
        written
    })
}

fn write_until(client: &mut Client, done: &AtomicBool) -> anyhow::Result<Written> {
    let insert = client.prepare(&format!(
        "INSERT INTO {TABLE} VALUES (0, 'one value', 0, 'epoch', 0, 0) RETURNING ctid::text"
    ))?;
    let update = client.prepare(&format!(
        "UPDATE {TABLE} SET c3 = c3 + 1 WHERE ctid = $1::text::tid"
    ))?;
    let blocks: i64 = client
        .query_one(
            &format!("SELECT pg_relation_size('{TABLE}') / current_setting('block_size')::bigint"),
            &[],
        )?
        .get(0);
    let mut longest = Duration::ZERO;
    let mut inserted = 0;
    while !done.load(Ordering::SeqCst) {
        let started = Instant::now();
        let ctid: String = client.query_one(&insert, &[])?.get(0);
        longest = longest.max(started.elapsed());
        inserted += 1;
        let anywhere = format!(
            "({},{})",
            inserted * 7919 % blocks.max(1),
            inserted % 50 + 1
        );
        for ctid in [ctid, anywhere] {
            let started = Instant::now();
            // The row may have been moved in the meantime.
            if let Err(error) = client.execute(&update, &[&ctid])
                && !statement::is_refusal(&error)
            {
                return Err(error).context("the writer beside compaction");
            }
            longest = longest.max(started.elapsed());
        }
    }
    Ok(Written {
        longest: longest.as_secs_f64() * 1e3,
        inserted,
    })
}
