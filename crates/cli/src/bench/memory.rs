//! The private memory of a backend that loads a wide table: the peak of `RssAnon`, as the kernel
//! reports it while the load runs.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::Client;

use super::figure::{Figure, Goal, Unit};
use super::{Options, Side, writes};
use crate::cluster::Cluster;
use crate::instance::DATABASE;
use crate::progress::{Counting, Progress};

const COLUMN_COUNT: usize = 50;
/// Bytes of each text.
const WIDTH_BYTES: usize = 128;
/// About 1.3 GB of text: five times what a load may keep in memory.
const MOST_ROWS: u64 = 200_000;
const INTERVAL: Duration = Duration::from_millis(10);

/// `howdah.row_group_bytes` of rows (64 MB), their encoded form, and the encoder's scratch space.
const BOUND_BYTES: f64 = 256.0 * 1024.0 * 1024.0;

pub(super) fn measure(
    cluster: &Cluster,
    client: &mut Client,
    options: &Options,
) -> anyhow::Result<Vec<Figure>> {
    let rows = (options.rows / 25).clamp(20_000, MOST_ROWS);
    let mut figure = Figure::new("peak memory of a load", Unit::Bytes)
        .with_goal(Some(Goal::AtMost(BOUND_BYTES)));
    let mut progress = Progress::of("loading wide rows", 2, Counting::Things);
    for side in Side::BOTH {
        let table = format!("bench.wide_{}", side.name());
        let columns: Vec<String> = (0..COLUMN_COUNT).map(|at| format!("t{at} text")).collect();
        client.batch_execute(&format!(
            "DROP TABLE IF EXISTS {table}; CREATE TABLE {table} ({}) USING {}",
            columns.join(", "),
            side.name()
        ))?;
        writes::keep_hot(client, side, &table)?;
        // Text that is neither constant nor noise.
        let values: Vec<String> = (0..COLUMN_COUNT)
            .map(|at| format!("repeat(md5((i * {at} % 9973)::text), {})", WIDTH_BYTES / 32))
            .collect();
        let load = format!(
            "INSERT INTO {table} SELECT {} FROM generate_series(1, {rows}) i",
            values.join(", ")
        );
        // A new backend, so that no earlier statement has made it grow.
        let mut loader = cluster.connect(DATABASE)?;
        let peak = peak_of(&mut loader, &load)?;
        figure.side(side).add(Some(peak));
        client.batch_execute(&format!("DROP TABLE {table}"))?;
        progress.advance(1, side.name());
    }
    progress.finish(&format!(
        "{rows} rows of {COLUMN_COUNT} columns, {WIDTH_BYTES} bytes each"
    ));
    Ok(vec![figure])
}

fn peak_of(client: &mut Client, load: &str) -> anyhow::Result<f64> {
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut peak = 0;
            while !done.load(Ordering::SeqCst) {
                peak = peak.max(private_bytes(pid).unwrap_or_default());
                thread::sleep(INTERVAL);
            }
            peak
        });
        let result = client.batch_execute(load);
        done.store(true, Ordering::SeqCst);
        let peak = watching
            .join()
            .map_err(|_| anyhow::anyhow!("the watcher panicked"))?;
        result?;
        Ok(peak as f64)
    })
}

pub(super) fn private_bytes(pid: i32) -> Option<u64> {
    parse_private_bytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parse_private_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_is_read_from_the_kernels_status() {
        let status = "VmHWM:\t  2048 kB\nRssAnon:\t  1024 kB\nRssFile:\t 512 kB\n";
        assert_eq!(parse_private_bytes(status), Some(1 << 20));
        assert_eq!(parse_private_bytes(""), None);
    }
}
