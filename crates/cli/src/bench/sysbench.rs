//! sysbench's OLTP scripts with two clients on two tables whose rows are all cold at first, heap
//! and howdah in slices by turns. The program is Debian's package `sysbench`; without it the part
//! is left out.
//!
//! Each script runs with the program's own choice of rows, three quarters of them among one in a
//! hundred, and then with all rows alike. The second is the harder one where rows are changed: few
//! of them have been changed before. So are the first seconds of either.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use postgres::Client;

use super::figure::{Figure, Goal, Unit};
use super::statement::{ask, first_exact_difference};
use super::{Options, Side, writes};
use crate::cluster::Cluster;
use crate::instance::DATABASE;
use crate::progress::{Counting, Progress};

/// Scripts that are measured, those that read first.
const SCRIPTS: [(&str, &str); 6] = [
    ("oltp_point_select", "point select"),
    ("oltp_read_only", "read only"),
    ("oltp_update_index", "update index"),
    ("oltp_update_non_index", "update non-index"),
    ("oltp_read_write", "read/write"),
    ("oltp_write_only", "write only"),
];

/// How sysbench chooses rows, and how figures name it.
const DISTRIBUTIONS: [(&str, &str); 2] = [("special", "sysbench"), ("uniform", "sysbench uniform")];

const TABLE_COUNT: u32 = 2;
const TABLE_ROWS: u32 = 500_000;
/// Short ones: the speed of a machine that is shared with others changes within seconds. All rows
/// are cold before the first, which is a figure of its own where rows are changed: most rows that
/// it changes are changed for the first time.
const SLICES: u32 = 8;
const SECONDS: u32 = 3;

pub(super) fn measure(
    cluster: &Cluster,
    client: &mut Client,
    options: &Options,
) -> anyhow::Result<Vec<Figure>> {
    if !is_installed() {
        eprintln!("  sysbench is left out: it is not installed (apt-get install sysbench)");
        return Ok(Vec::new());
    }
    let cases = DISTRIBUTIONS
        .into_iter()
        .flat_map(|distribution| SCRIPTS.map(|script| (distribution, script)));
    let steps = cases.clone().count() as u64 * u64::from(options.runs);
    let mut progress = Progress::of("sysbench", steps, Counting::Things);
    let mut figures: Vec<Figure> = Vec::new();
    let mut are_fresh = false;
    for ((distribution, name), (script, title)) in cases {
        let title = format!("{name}: {title}");
        // All begin with cold rows.
        if !are_fresh {
            for side in Side::BOTH {
                make_tables(cluster, client, side)?;
            }
            client.batch_execute("CHECKPOINT")?;
        }
        are_fresh = !changes_rows(script);
        let new = |title: &str| {
            Figure::new(title, Unit::PerSecond).with_goal(Some(Goal::RatioAtLeast(0.85)))
        };
        let mut figure = new(&title);
        let mut first_slice = new(&format!("{title}, first {SECONDS} s"));
        for run in 0..options.runs {
            for slice in 0..SLICES {
                let mut sides = Side::BOTH;
                sides.rotate_left((run + slice) as usize % 2);
                for side in sides {
                    let rate = sysbench(cluster, side, script, distribution, "run")?;
                    let rate = transactions_per_second(&rate)
                        .with_context(|| format!("sysbench printed no rate: {rate}"))?;
                    figure.side(side).add(Some(rate));
                    if (run, slice) == (0, 0) {
                        first_slice.side(side).add(Some(rate));
                    }
                }
            }
            progress.advance(1, &title);
        }
        if changes_rows(script) {
            figure.difference = contradiction(client)?;
        }
        figures.push(figure);
        if changes_rows(script) {
            figures.push(first_slice);
        }
    }
    for side in Side::BOTH {
        client.batch_execute(&format!("DROP SCHEMA {} CASCADE", schema(side)))?;
    }
    progress.finish("2 clients");
    Ok(figures)
}

fn changes_rows(script: &str) -> bool {
    script.contains("update") || script.contains("write")
}

fn is_installed() -> bool {
    Command::new("sysbench")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

fn schema(side: Side) -> String {
    format!("bench_sysbench_{}", side.name())
}

fn make_tables(cluster: &Cluster, client: &mut Client, side: Side) -> anyhow::Result<()> {
    let schema = schema(side);
    client.batch_execute(&format!(
        "DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}"
    ))?;
    sysbench(cluster, side, "oltp_common", "special", "prepare")?;
    for number in 1..=TABLE_COUNT {
        let table = format!("{schema}.sbtest{number}");
        writes::settle(client, side, &table)?;
    }
    Ok(())
}

/// What a table must give as many of as it was loaded with, and the settings that leave one way to
/// find it.
const COUNTS: [(&str, &str, &str); 4] = [
    ("as planned", "", "count(DISTINCT id) FROM {table}"),
    (
        "row by row",
        "SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off;
         SET LOCAL enable_bitmapscan = off; SET LOCAL howdah.columnar_scan = off;
         SET LOCAL howdah.vectorized = off",
        "count(*) FROM {table}",
    ),
    (
        "by the index of id",
        BY_INDEX,
        "count(*) FROM {table} WHERE id > 0",
    ),
    (
        "by the index of k",
        BY_INDEX,
        "count(*) FROM {table} WHERE k > 0",
    ),
];
const BY_INDEX: &str = "SET LOCAL enable_seqscan = off; SET LOCAL howdah.columnar_scan = off;
    SET LOCAL howdah.vectorized = off";

/// What contradicts that all scripts insert an id which they have deleted: a table has as many rows
/// as at first, each of another id, whichever way it is read. The sides have run different
/// transactions, so the rows themselves are not compared.
fn contradiction(client: &mut Client) -> anyhow::Result<Option<String>> {
    let loaded = vec![vec![TABLE_ROWS.to_string()]];
    for side in Side::BOTH {
        for number in 1..=TABLE_COUNT {
            let table = format!("{}.sbtest{number}", schema(side));
            for (way, settings, count) in COUNTS {
                client.batch_execute(&format!("BEGIN; {settings}"))?;
                let sql = format!("SELECT {}", count.replace("{table}", &table));
                let found = ask(client, &sql)?.context("refused")?.rows;
                client.batch_execute("COMMIT")?;
                let difference = first_exact_difference(("the load", &loaded), (way, &found));
                if let Some(difference) = difference {
                    return Ok(Some(format!("{table}: {difference}")));
                }
            }
        }
    }
    Ok(None)
}

/// Runs sysbench, and returns its output.
fn sysbench(
    cluster: &Cluster,
    side: Side,
    script: &str,
    distribution: &str,
    phase: &str,
) -> anyhow::Result<String> {
    let mut command = cluster.external(Path::new("sysbench"));
    command
        .env(
            "PGOPTIONS",
            format!(
                "-c search_path={} -c default_table_access_method={} -c synchronous_commit=off -c client_min_messages=error",
                schema(side),
                side.name()
            ),
        )
        .args(["--db-driver=pgsql", "--threads=2", "--db-ps-mode=auto"])
        .arg(format!("--pgsql-host={}", cluster.socket.display()))
        .arg(format!("--pgsql-port={}", cluster.port))
        .arg(format!("--pgsql-user={}", cluster.superuser))
        .arg(format!("--pgsql-db={DATABASE}"))
        .arg(format!("--tables={TABLE_COUNT}"))
        .arg(format!("--table-size={TABLE_ROWS}"))
        .arg(format!("--time={SECONDS}"))
        .arg(format!("--rand-type={distribution}"))
        .args([script, phase]);
    let output = command.output().context("cannot run sysbench")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!(
            "sysbench failed: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(text)
}

/// The rate in a line such as `    transactions:    1234   (246.80 per sec.)`.
fn transactions_per_second(output: &str) -> Option<f64> {
    let line = output
        .lines()
        .find(|line| line.trim_start().starts_with("transactions:"))?;
    let (_, rate) = line.split_once('(')?;
    rate.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_what_sysbench_prints() {
        let output =
            "SQL statistics:\n    transactions:                        1234   (246.80 per sec.)\n";
        assert_eq!(transactions_per_second(output), Some(246.8));
        assert_eq!(transactions_per_second("FATAL: no"), None);
    }
}
