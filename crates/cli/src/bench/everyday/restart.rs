//! Rows by key after a restart, when neither shared buffers nor the operating system's memory hold
//! anything of the tables; and the private memory of many sessions that read rows here and there.
//! On a server of its own, which is stopped and started for each side of each run.

use std::fs;
use std::process::Command;

use anyhow::Context as _;
use postgres::Client;

use super::super::figure::{Figure, Goal, Outcome, Unit};
use super::super::statement::{ask, first_difference};
use super::super::{Options, Side, memory};
use super::{server_of_its_own, tables};
use crate::cluster::{Cluster, StopMode};
use crate::instance::DATABASE;
use crate::paths::Paths;
use crate::progress::{Counting, Progress};

/// Four tables on either side, their indexes, and WAL.
pub(in crate::bench) const DISK_BYTES_PER_ROW: u64 = 1_600;
const TABLES: [&str; 4] = ["noise", "usertable", "wide", "wide_grouped"];

/// What each row is read by, and how often after a restart. `$` stands for the row's number.
const CASES: [(&str, &str, &str); 5] = [
    (
        "noise",
        "one row of 4 columns",
        "SELECT * FROM {table} WHERE id = $",
    ),
    (
        "noise",
        "one row by a secondary index",
        "SELECT id, k, c FROM {table} WHERE k = $",
    ),
    (
        "usertable",
        "one row of 11 texts",
        "SELECT * FROM {table} WHERE ycsb_key = 'user' || lpad(($::bigint * 7919 % 100000007)::text, 12, '0')",
    ),
    (
        "wide",
        "one row of 60 columns",
        "SELECT * FROM {table} WHERE id = $",
    ),
    (
        "wide_grouped",
        "one row of 60 columns, grouped",
        "SELECT * FROM {table} WHERE id = $",
    ),
];
const ROWS_AFTER_A_RESTART: u64 = 30;

const SESSIONS: usize = 100;
const READS: u32 = 1_000;
/// What a session may hold more than one that reads the same rows of heap.
const BOUND_BYTES: f64 = 8.0 * 1024.0 * 1024.0;

pub(in crate::bench) fn measure(paths: &Paths, options: &Options) -> anyhow::Result<Vec<Figure>> {
    let settings = [
        ("shared_buffers", "2GB"),
        ("maintenance_work_mem", "512MB"),
        ("max_wal_size", "4GB"),
        ("max_connections", "120"),
        ("autovacuum", "off"),
    ];
    let (scratch, mut client) = server_of_its_own(paths, "bench-restart", &settings)?;
    let cluster = &scratch.cluster;
    tables::make(&mut client, options.rows, &TABLES)?;
    drop(client);
    let mut figures = vec![of_many_sessions(cluster, options)?];
    match forget_files() {
        Ok(()) => figures.extend(after_restarts(cluster, options)?),
        Err(error) => eprintln!("  rows after a restart are left out: {error:#}"),
    }
    Ok(figures)
}

/// Makes the operating system forget the contents of files, which only root may do.
fn forget_files() -> anyhow::Result<()> {
    const FILE: &str = "/proc/sys/vm/drop_caches";
    // Pages that are not written yet would stay.
    Command::new("sync").status().context("cannot run sync")?;
    fs::write(FILE, "3").with_context(|| format!("cannot write {FILE}"))
}

fn after_restarts(cluster: &Cluster, options: &Options) -> anyhow::Result<Vec<Figure>> {
    let new = |(_, title, _): (&str, &str, &str)| {
        Figure::new(&format!("after a restart: {title}"), Unit::Milliseconds)
            .with_goal(Some(Goal::RatioAtMost(2.0)))
    };
    let mut figures = CASES.map(new);
    let mut progress = Progress::of(
        "rows after restarts",
        u64::from(options.runs) * 2,
        Counting::Things,
    );
    for run in 0..options.runs {
        let mut sides = Side::BOTH;
        sides.rotate_left(run as usize % 2);
        let mut answers = Vec::new();
        for side in sides {
            cluster.stop(StopMode::Fast)?;
            forget_files()?;
            cluster.start()?;
            let mut client = cluster.connect(DATABASE)?;
            for (case, figure) in CASES.into_iter().zip(&mut figures) {
                let (times, rows) = rows_of(&mut client, options, run, case, side)?;
                figure.side(side).add(Outcome::Measured(times).median());
                answers.push((side, case.1, rows));
            }
            progress.advance(1, side.name());
        }
        for (figure, (_, title, _)) in figures.iter_mut().zip(CASES) {
            let mut both = answers.iter().filter(|answer| answer.1 == title);
            if let (Some((one, _, rows)), Some((other, _, other_rows))) = (both.next(), both.next())
            {
                let other = (other.name(), other_rows);
                let difference = first_difference((one.name(), rows), other);
                figure.difference = figure.difference.take().or(difference);
            }
        }
    }
    progress.finish(&format!("{} restarts", options.runs * 2));
    Ok(figures.into())
}

type Rows = Vec<Vec<String>>;

/// Milliseconds of each statement, and the rows of all.
fn rows_of(
    client: &mut Client,
    options: &Options,
    run: u32,
    (table, _, sql): (&str, &str, &str),
    side: Side,
) -> anyhow::Result<(Vec<f64>, Rows)> {
    let name = tables::name(table, side);
    let statement = |key: i64| {
        let sql = sql.replace("{table}", &name);
        sql.replace('$', &format!("({key})"))
    };
    // Catalogs and the upper pages of the index; no row has this key.
    ask(client, &statement(-1))?.context("refused")?;
    let count = tables::row_count(table, options.rows);
    let (mut times, mut rows) = (Vec::new(), Rows::new());
    for nth in 0..ROWS_AFTER_A_RESTART {
        let serial = u64::from(run) * ROWS_AFTER_A_RESTART + nth;
        let key = 1 + serial.wrapping_mul(1_640_531_527) % count;
        let answer = ask(client, &statement(key as i64))?.context("refused")?;
        times.push(answer.milliseconds);
        rows.extend(answer.rows);
    }
    Ok((times, rows))
}

/// Private memory of a session, the mean of many that are open at the same time.
fn of_many_sessions(cluster: &Cluster, options: &Options) -> anyhow::Result<Figure> {
    let title = format!("memory of a session, {SESSIONS} of them");
    let mut figure =
        Figure::new(&title, Unit::Bytes).with_goal(Some(Goal::MoreByAtMost(BOUND_BYTES)));
    let mut progress = Progress::of("memory of sessions", 2 * SESSIONS as u64, Counting::Things);
    for side in Side::BOTH {
        let reads: String = [("noise", "id = key"), ("wide", "id = key")]
            .map(|(table, condition)| {
                let (count, name) = (
                    tables::row_count(table, options.rows),
                    tables::name(table, side),
                );
                format!(
                    "FOR i IN 1..{READS} LOOP
                        key := 1 + floor(random() * {count});
                        SELECT t INTO STRICT found FROM {name} t WHERE {condition};
                    END LOOP;"
                )
            })
            .concat();
        let block = format!("DO $$ DECLARE key int; found record; BEGIN {reads} END $$");
        let mut sessions = Vec::new();
        let mut bytes = 0;
        for _ in 0..SESSIONS {
            let mut session = cluster.connect(DATABASE)?;
            session.batch_execute(
                "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off",
            )?;
            session.batch_execute(&block)?;
            sessions.push(session);
            progress.advance(1, side.name());
        }
        for session in &mut sessions {
            let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[])?.get(0);
            bytes += memory::private_bytes(pid).context("the memory of a session is not known")?;
        }
        let mean = bytes as f64 / SESSIONS as f64;
        figure.side(side).add(Some(mean));
    }
    progress.finish(&format!("{READS} rows of two tables each"));
    Ok(figure)
}
