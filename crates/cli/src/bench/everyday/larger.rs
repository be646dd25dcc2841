//! The everyday statements on tables that shared buffers hold a small part of, on a server of their
//! own: most pages come from the operating system's memory, one by one. Also one row by key in many
//! sessions at a time, of rows of many types, too.

use std::fs;

use anyhow::Context as _;

use super::super::figure::{Figure, Goal, Unit};
use super::super::{Options, Side, writes};
use super::{measure_cases, server_of_its_own, tables};
use crate::paths::Paths;
use crate::progress::{Counting, Progress};
use crate::scratch::Scratch;

/// All tables on either side, their indexes, and WAL.
pub(in crate::bench) const DISK_BYTES_PER_ROW: u64 = 1_600;
/// Of 1.1 GB (`noise` as heap) an eighth.
const ROWS_PER_MEGABYTE: u64 = 40_000;
const FEWEST_MEGABYTES: u64 = 16;
const TABLES: [&str; 3] = ["noise", "usertable", "grouped"];
/// Tables of which only rows are read, by many sessions.
const ONLY_READ: [&str; 2] = ["mixed", "mixed_grouped"];
const SESSIONS: u32 = 50;
/// What the sessions read: table, what its rows are, one of them by its number.
const READS: [(&str, &str, &str); 4] = [
    ("usertable", "YCSB: read", YCSB_ROW),
    ("grouped", "YCSB grouped: read", YCSB_ROW),
    ("mixed", "15 types: one row", MIXED_ROW),
    ("mixed_grouped", "15 types grouped: one row", MIXED_ROW),
];
const YCSB_ROW: &str = "ycsb_key = 'user' || lpad((:id::bigint * 7919 % 100000007)::text, 12, '0')";
const MIXED_ROW: &str = "id = :id";
const SLICES: u32 = 2;
const SECONDS: u32 = 3;

pub(in crate::bench) fn measure(paths: &Paths, options: &Options) -> anyhow::Result<Vec<Figure>> {
    let megabytes = (options.rows / ROWS_PER_MEGABYTE).max(FEWEST_MEGABYTES);
    let settings = [
        ("shared_buffers", format!("{megabytes}MB")),
        ("effective_cache_size", "8GB".to_owned()),
        ("maintenance_work_mem", "512MB".to_owned()),
        ("max_wal_size", "4GB".to_owned()),
        ("autovacuum", "off".to_owned()),
    ];
    let settings = settings.each_ref().map(|(name, value)| (*name, &**value));
    let (scratch, mut client) = server_of_its_own(paths, "bench-larger", &settings)?;
    let all = [&TABLES[..], &ONLY_READ].concat();
    tables::make(&mut client, options.rows, &all)?;
    let mut sessions = Vec::new();
    for read in READS {
        sessions.push(in_many_sessions(&scratch, options, read)?);
    }
    let mut figures = measure_cases(&scratch.cluster, &mut client, options, &TABLES)?;
    figures.append(&mut sessions);
    for figure in &mut figures {
        figure.title = format!("larger: {}", figure.title);
    }
    Ok(figures)
}

/// One row by key, each session in a backend of its own.
fn in_many_sessions(
    scratch: &Scratch,
    options: &Options,
    (table, title, condition): (&str, &str, &str),
) -> anyhow::Result<Figure> {
    let cluster = &scratch.cluster;
    let title = format!("{title}, {SESSIONS} sessions");
    // At most 1.4 times heap's time.
    let goal = Goal::RatioAtLeast(0.71);
    let mut figure = Figure::new(&title, Unit::PerSecond).with_goal(Some(goal));
    let rows = tables::row_count(table, options.rows);
    let script = |side: Side| scratch.directory.join(format!("{}.sql", side.name()));
    for side in Side::BOTH {
        let (path, table) = (script(side), tables::name(table, side));
        let text =
            format!("\\set id random(1, {rows})\nSELECT * FROM {table} WHERE {condition};\n");
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        cluster.account.own(&path)?;
    }
    let mut progress = Progress::of(
        "rows in many sessions",
        u64::from(options.runs),
        Counting::Things,
    );
    for run in 0..options.runs {
        for slice in 0..SLICES {
            let mut sides = Side::BOTH;
            sides.rotate_left((run + slice) as usize % 2);
            for side in sides {
                let file = format!("--file={}", script(side).display());
                let clients = format!("--client={SESSIONS}");
                let arguments = ["--protocol=prepared", &file, &clients];
                let rate = writes::pgbench(cluster, "", SECONDS, &arguments)?;
                figure.side(side).add(Some(rate));
            }
        }
        progress.advance(1, "");
    }
    progress.finish(&format!("{SESSIONS} sessions"));
    Ok(figure)
}
