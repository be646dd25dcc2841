//! UPDATEs of 100 rows by a unique key: of hot rows with nothing beside, and of rows all over the
//! table while `howdah.compact` moves them. What is compared are statements a second; the first
//! figure takes the place of heap's.
//!
//! Each UPDATE enters both indexes, and so checks that its keys are unique, also against entries
//! that the mover has made for the same rows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use postgres::Client;

use super::Options;
use super::compaction::beside;
use super::figure::{Figure, Goal, Unit};
use crate::cluster::Cluster;
use crate::progress::{Counting, Progress};

const MOST_ROWS: u64 = 1_000_000;
const TABLE: &str = "bench.keyed";
/// Rows that one statement changes.
const SPAN: u64 = 100;
/// How long the writer works alone.
const ALONE: Duration = Duration::from_secs(3);

pub(super) fn measure(
    cluster: &Cluster,
    client: &mut Client,
    options: &Options,
) -> anyhow::Result<Figure> {
    let rows = options.rows.min(MOST_ROWS);
    let mut figure = Figure::new("UPDATE of 100 rows beside compaction", Unit::PerSecond)
        .with_goal(Some(Goal::RatioAtLeast(0.4)));
    let mut progress = Progress::of("updating", u64::from(options.runs), Counting::Things);
    let write = |writer: &mut Client, done: &AtomicBool| write_until(writer, rows, done);
    for _ in 0..options.runs {
        make_hot(client, rows)?;
        let alone = beside(cluster, write, || {
            thread::sleep(ALONE);
            Ok(())
        })?;
        make_hot(client, rows)?;
        let moving = beside(cluster, write, || {
            let compact = format!("CALL howdah.compact('{TABLE}')");
            client.batch_execute(&compact).context("compaction")
        })?;
        let changed: i64 = client
            .query_one(&format!("SELECT sum(k)::bigint FROM {TABLE}"), &[])?
            .get(0);
        ensure!(
            changed as u64 == moving.statements * SPAN,
            "{} UPDATEs have changed {changed} rows",
            moving.statements
        );
        figure.heap.add(Some(alone.rate()));
        figure.howdah.add(Some(moving.rate()));
        progress.advance(1, "");
    }
    progress.finish(&format!("{SPAN} rows each"));
    Ok(figure)
}

fn make_hot(client: &mut Client, rows: u64) -> anyhow::Result<()> {
    client.batch_execute(&format!(
        "DROP TABLE IF EXISTS {TABLE};
         CREATE TABLE {TABLE} (id bigint PRIMARY KEY, k int, filler text) USING howdah;
         CREATE INDEX ON {TABLE} (k);
         SELECT howdah.set_options('{TABLE}', compaction => false);
         SET howdah.bulk_load = off;
         INSERT INTO {TABLE} SELECT i, 0, md5(i::text) FROM generate_series(1, {rows}) i;
         RESET howdah.bulk_load"
    ))?;
    client.batch_execute(&format!("VACUUM (FREEZE, ANALYZE) {TABLE}"))?;
    Ok(client.batch_execute("CHECKPOINT")?)
}

/// What a writer has done.
struct Written {
    statements: u64,
    time: Duration,
}

impl Written {
    fn rate(&self) -> f64 {
        self.statements as f64 / self.time.as_secs_f64()
    }
}

fn write_until(client: &mut Client, rows: u64, done: &AtomicBool) -> anyhow::Result<Written> {
    let update = client.prepare(&format!(
        "UPDATE {TABLE} SET k = k + 1 WHERE id BETWEEN $1 AND $1 + {}",
        SPAN - 1
    ))?;
    let (spans, started) = (rows / SPAN, Instant::now());
    let mut statements = 0;
    while !done.load(Ordering::SeqCst) {
        let first = (statements * 7_919 % spans * SPAN + 1) as i64;
        let changed = client.execute(&update, &[&first])?;
        ensure!(changed == SPAN, "{changed} rows from {first} on");
        statements += 1;
    }
    Ok(Written {
        statements,
        time: started.elapsed(),
    })
}
