//! pgbench's TPC-B with two clients, on tables whose rows are all cold at first: every account's
//! first change changes a cold row, tellers and branches soon are hot. Commits do not wait for the
//! disk.
//!
//! It runs twice: with one branch, as pgbench makes by default, where each account has soon been
//! changed; and with ten, where nearly every change is an account's first. Tables are made once for
//! all runs, since pgbench's manual recommends runs of some minutes: at scale 10, three runs are
//! two minutes a side, in which each account is changed about once.
//!
//! With ten branches all rows are found by their keys, on either side. By default the planner reads
//! a hundred tellers with a sequential scan while they fill a page or two, and by index once they
//! fill more. When that happens depends on chance, since they grow while autovacuum analyzes
//! accounts, on the side that is being measured at that moment; the difference of a few percent has
//! nothing to do with either side.

use postgres::Client;

use super::figure::{Figure, Goal, Unit};
use super::statement::{Rows, ask, first_difference};
use super::{Options, Side, writes};
use crate::cluster::Cluster;
use crate::progress::{Counting, Progress};

struct Setting {
    title: &'static str,
    /// 100,000 accounts each.
    scale: &'static str,
    /// Seconds of one slice.
    seconds: u32,
    /// Options of the server, for both sides.
    options: &'static str,
}

const SETTINGS: [Setting; 2] = [
    Setting {
        title: "TPC-B from cold, scale 1",
        scale: "1",
        seconds: 3,
        options: "",
    },
    Setting {
        title: "TPC-B from cold, scale 10",
        scale: "10",
        seconds: 5,
        options: "-c enable_seqscan=off",
    },
];

/// Slices of either side in turn, in each run: many short ones, since machines stall for a second
/// now and then.
const SLICES: u32 = 8;

pub(super) fn measure(
    cluster: &Cluster,
    client: &mut Client,
    options: &Options,
) -> anyhow::Result<Vec<Figure>> {
    let steps = SETTINGS.len() as u64 * u64::from(options.runs);
    let mut progress = Progress::of("TPC-B", steps, Counting::Things);
    let mut figures = Vec::new();
    for setting in &SETTINGS {
        figures.push(of_setting(
            cluster,
            client,
            options,
            setting,
            &mut progress,
        )?);
    }
    progress.finish("2 clients");
    Ok(figures)
}

fn of_setting(
    cluster: &Cluster,
    client: &mut Client,
    options: &Options,
    setting: &Setting,
    progress: &mut Progress,
) -> anyhow::Result<Figure> {
    let mut figure =
        Figure::new(setting.title, Unit::PerSecond).with_goal(Some(Goal::RatioAtLeast(0.9)));
    for side in Side::BOTH {
        make_tables(cluster, client, side, setting.scale)?;
    }
    client.batch_execute("CHECKPOINT")?;
    for run in 0..options.runs {
        for slice in 0..SLICES {
            let mut sides = Side::BOTH;
            sides.rotate_left((run + slice) as usize % 2);
            for side in sides {
                let (schema, more) = (in_schema(side), setting.options);
                let options = format!("{schema} -c synchronous_commit=off {more}");
                let arguments = ["--builtin=tpcb-like", "--protocol=prepared"];
                let rate = writes::pgbench(cluster, &options, setting.seconds, &arguments)?;
                figure.side(side).add(Some(rate));
            }
        }
        for side in Side::BOTH {
            if figure.difference.is_none() {
                figure.difference = imbalance(client, side)?;
            }
        }
        progress.advance(1, &figure.title);
    }
    for side in Side::BOTH {
        client.batch_execute(&format!("DROP SCHEMA {} CASCADE", schema(side)))?;
    }
    Ok(figure)
}

fn schema(side: Side) -> String {
    format!("bench_tpcb_{}", side.name())
}

fn in_schema(side: Side) -> String {
    format!("-c search_path={}", schema(side))
}

fn make_tables(
    cluster: &Cluster,
    client: &mut Client,
    side: Side,
    scale: &str,
) -> anyhow::Result<()> {
    let schema = schema(side);
    client.batch_execute(&format!(
        "DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}"
    ))?;
    let options = format!(
        "{} -c default_table_access_method={} -c client_min_messages=warning",
        in_schema(side),
        side.name()
    );
    writes::make_pgbench_tables(cluster, &options, scale)?;
    for table in ["accounts", "tellers", "branches"] {
        let table = format!("{schema}.pgbench_{table}");
        writes::settle(client, side, &table)?;
    }
    Ok(())
}

/// Checks what TPC-B keeps equal: the balances of accounts, tellers and branches, and the history's
/// sum.
fn imbalance(client: &mut Client, side: Side) -> anyhow::Result<Option<String>> {
    let schema = schema(side);
    let mut sums: Vec<Rows> = Vec::new();
    for (column, table) in [
        ("abalance", "accounts"),
        ("tbalance", "tellers"),
        ("bbalance", "branches"),
        ("delta", "history"),
    ] {
        let sql = format!("SELECT sum({column}) FROM {schema}.pgbench_{table}");
        sums.push(
            ask(client, &sql)?
                .map(|answer| answer.rows)
                .unwrap_or_default(),
        );
    }
    Ok(sums[1..]
        .iter()
        .find_map(|sum| first_difference(("accounts", &sums[0]), ("others", sum)))
        .map(|difference| format!("{}: {difference}", side.name())))
}
