//! `./howdah bench`: one table as heap and as howdah on the same server, and in DuckDB where that
//! can be installed; every figure beside the goal it must reach.
//!
//! ```text
//!   table        5 M rows, staged once; load into each engine, size on disk
//!   queries      analytical questions; answers compared between the engines
//!   output       whole columns and rows to the client, COPY
//!   billion      counts and sums over twenty times the rows, in rows a second
//!   points       one row by index: cold rows, hot rows
//!   writes       INSERT, UPDATE, DELETE of single hot rows under pgbench
//!   changes      cold rows changed and locked: one, many, half of the table; scans after that
//!   tpcb         pgbench's TPC-B on tables that are cold at first
//!   compaction   rows moved per second, and the longest wait of a writer beside it
//!   beside       updates by key while rows are moved; part of `compaction`
//!   memory       peak of a backend that loads 50 columns of wide text
//!   everyday     rows, ranges, lists, joins, changes by key; wide rows, many types, partitions
//!   larger       those by key again, on tables larger than shared buffers; part of `everyday`
//!   restart      rows by key after a restart, and the memory of many sessions; part of `everyday`
//!   tpch         TPC-H's 22 queries, with the engine and without it
//!   onoff        every shape of query with the engine and without it
//!   sysbench     its OLTP scripts on tables that are cold at first
//!   duckdb       the same table and questions in a Python process of its own
//!                python_package  how it, and TPC-H's generator, are fetched
//!   figure       a measurement of each engine, its goal, its verdict;  report  table and JSON
//! ```
//!
//! Invariants:
//! - Engines take turns within each figure, so that a noisy machine is noisy for all of them;
//!   a figure is the median of its runs, a ratio the median of the ratios of runs that were
//!   taken side by side.
//! - A different answer is a failure of the whole bench. A statement that howdah refuses with
//!   0A000 is shown as refused, and misses its goal.
//! - Everything lives in the schema `bench` of the instance's database, dropped at the end.

mod beside;
mod billion;
mod changes;
mod compaction;
mod duckdb;
mod everyday;
mod figure;
mod memory;
mod onoff;
mod output;
mod points;
mod python_package;
mod queries;
mod report;
mod statement;
mod sysbench;
mod table;
mod tpcb;
mod tpch;
mod writes;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};

use crate::cluster::Cluster;
use crate::paths::Paths;
use crate::{instance, machine, units};

use duckdb::DuckDb;
use figure::Figure;
use queries::Asked;

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(100_000..=1_000_000_000))]
    pub rows: u64,
    /// Scale of TPC-H; at 1 its largest table has 6 million rows
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = scale)]
    pub scale: f64,
    /// Measure only these parts, separated by commas
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// Runs of each measurement; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Leave DuckDB out
    #[arg(long)]
    pub no_duckdb: bool,
    /// Keep the tables, in the schema "bench"
    #[arg(long)]
    pub keep: bool,
    /// Write all measurements to this file, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// One part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// INSERT … SELECT, and the size on disk
    Load,
    /// Analytical questions
    Queries,
    /// Whole columns and rows to the client, and COPY
    Output,
    /// Rows a second over a table of three columns and twenty times the rows
    Billion,
    /// One row by index, cold and hot
    Points,
    /// Cold rows changed and locked
    Changes,
    /// Single-row INSERT, UPDATE and DELETE under pgbench
    Writes,
    /// TPC-B on tables that are cold at first
    Tpcb,
    /// CALL howdah.compact beside a writer
    Compaction,
    /// Peak memory of a load
    Memory,
    /// Everyday statements on tables larger than any cache of a session
    Everyday,
    /// Statements by key on tables larger than shared buffers
    Larger,
    /// Rows by key after a restart, and the memory of 100 sessions
    Restart,
    /// TPC-H's 22 queries
    Tpch,
    /// Every shape of query with the engine and without it
    Onoff,
    /// sysbench's OLTP scripts, where it is installed
    Sysbench,
}

/// A scale of TPC-H.
fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.01..=1000.0).contains(&scale) => Ok(scale),
        _ => Err("a scale is a number between 0.01 and 1000".to_owned()),
    }
}

impl Options {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// Whether the big table is needed.
    fn wants_table(&self) -> bool {
        [
            Part::Load,
            Part::Queries,
            Part::Output,
            Part::Points,
            Part::Changes,
        ]
        .iter()
        .any(|part| self.wants(*part))
    }
}

/// What is measured on the big table; empty where it is not wanted.
struct Measured {
    loaded: Vec<Figure>,
    asked: Vec<Asked>,
    points: Vec<Figure>,
}

/// The two access methods that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Heap,
    Howdah,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Heap, Self::Howdah];

    /// The name of the access method, which also ends the names of its tables.
    fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Howdah => "howdah",
        }
    }
}

/// Exit code 1 when the engines answer anything differently.
///
/// # Errors
/// When the server, a statement or a program fails.
pub fn run(paths: &Paths, options: &Options) -> anyhow::Result<ExitCode> {
    require_disk(paths, options)?;
    let cluster = instance::bring_up(paths)?;
    let mut client = cluster.connect(instance::DATABASE)?;
    client.batch_execute(
        "SET client_min_messages = warning; DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench",
    )?;
    // The queries contain a self join that must be executed.
    client.batch_execute("SET enable_self_join_elimination = off")?;
    let figures = measure(paths, &cluster, &mut client, options)?;
    let facts = report::facts(&mut client, options)?;
    report::print(&facts, &figures);
    if let Some(file) = &options.json {
        report::write_json(file, &facts, &figures)?;
    }
    if options.keep {
        println!("the tables are in the schema bench; ./howdah psql shows them");
    } else {
        client.batch_execute("DROP SCHEMA bench CASCADE")?;
    }
    let different = figures.iter().any(|figure| figure.difference.is_some());
    Ok(if different {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn measure(
    paths: &Paths,
    cluster: &Cluster,
    client: &mut postgres::Client,
    options: &Options,
) -> anyhow::Result<Vec<Figure>> {
    let duckdb = duckdb(paths, options);
    let mut figures = Vec::new();
    if options.wants_table() {
        table::stage(client, options.rows)?;
        let mut measured = Measured {
            loaded: table::load(client, options)?,
            asked: if options.wants(Part::Queries) {
                queries::measure(client, options)?
            } else {
                Vec::new()
            },
            points: if options.wants(Part::Points) {
                points::measure(client, options)?
            } else {
                Vec::new()
            },
        };
        if let Some(duckdb) = &duckdb {
            duckdb.fill_in(client, options, &mut measured)?;
        }
        figures.extend(measured.loaded);
        figures.extend(measured.asked.into_iter().map(|asked| asked.figure));
        if options.wants(Part::Output) {
            figures.extend(output::measure(cluster, options)?);
        }
        figures.extend(measured.points);
        if options.wants(Part::Changes) {
            figures.extend(changes::measure(client, options)?);
        }
    }
    if options.wants(Part::Billion) {
        figures.extend(billion::measure(client, duckdb.as_ref(), options)?);
    }
    if options.wants(Part::Writes) {
        figures.extend(writes::measure(paths, cluster, client, options)?);
    }
    if options.wants(Part::Tpcb) {
        figures.extend(tpcb::measure(cluster, client, options)?);
    }
    if options.wants(Part::Compaction) {
        figures.extend(compaction::measure(cluster, client, options)?);
        figures.push(beside::measure(cluster, client, options)?);
    }
    if options.wants(Part::Memory) {
        figures.extend(memory::measure(cluster, client, options)?);
    }
    if options.wants(Part::Everyday) {
        figures.extend(everyday::measure(cluster, client, options)?);
    }
    if options.wants(Part::Larger) {
        figures.extend(everyday::larger::measure(paths, options)?);
    }
    if options.wants(Part::Restart) {
        figures.extend(everyday::restart::measure(paths, options)?);
    }
    if options.wants(Part::Tpch) {
        figures.extend(tpch::measure(paths, client, options)?);
    }
    if options.wants(Part::Onoff) {
        figures.extend(onoff::measure(cluster, client, options)?);
    }
    if options.wants(Part::Sysbench) {
        figures.extend(sysbench::measure(cluster, client, options)?);
    }
    Ok(figures)
}

/// DuckDB, where a part is wanted that it takes part in, and where it can be had.
fn duckdb(paths: &Paths, options: &Options) -> Option<DuckDb> {
    if options.no_duckdb || !(options.wants_table() || options.wants(Part::Billion)) {
        return None;
    }
    match DuckDb::prepare(paths) {
        Ok(duckdb) => Some(duckdb),
        Err(error) => {
            eprintln!("  DuckDB is left out: {error:#}");
            None
        }
    }
}

/// Bytes of disk for one row, all copies together: staging, two tables, WAL, DuckDB, its CSV.
const DISK_BYTES_PER_ROW: u64 = 900;

fn require_disk(paths: &Paths, options: &Options) -> anyhow::Result<()> {
    let billion = match options.wants(Part::Billion) {
        true => options.rows * billion::ROWS_TIMES * billion::DISK_BYTES_PER_ROW,
        false => 0,
    };
    let larger = match options.wants(Part::Larger) {
        true => options.rows * everyday::larger::DISK_BYTES_PER_ROW,
        false => 0,
    };
    let restart = match options.wants(Part::Restart) {
        true => options.rows * everyday::restart::DISK_BYTES_PER_ROW,
        false => 0,
    };
    // One of the two at a time.
    let larger = larger.max(restart);
    let tpch = match options.wants(Part::Tpch) {
        true => tpch::disk_bytes(options.scale),
        false => 0,
    };
    let needed = (options.rows * DISK_BYTES_PER_ROW).max(billion) + larger + tpch + (4 << 30);
    match machine::free_disk_bytes(&paths.data()) {
        Some(free) if free < needed => bail!(
            "such a bench needs about {} free under {}, and there are {}",
            units::bytes(needed),
            paths.home.display(),
            units::bytes(free)
        ),
        _ => Ok(()),
    }
}
