//! Everyday work on tables larger than any cache of a session: single rows, ranges, lists, joins
//! and changes by key, wide rows, rows of many types, documents, foreign keys, partitions, pages of
//! a list, copies.
//!
//! Statements are prepared on the server, planned as it sees fit, and run by one client, the sides
//! in turn, with the same keys; the median of a run's statements is its figure. Answers are
//! compared as text, and after the changes the tables as a whole.
//!
//! The session is warm: what a statement costs when its session meets a page for the first time
//! (the system then makes the page part of the session's address space) is over for nearly all
//! pages, because each statement that changes nothing is run many times before any counts. Some
//! cases are about new sessions, or about sessions whose snapshot is older than changes.
//!
//! ```text
//!   tables   what they are about;  case  what a statement is;  cases  the statements
//!   larger   those of two tables again, on a server whose shared buffers hold little of them
//!   restart  rows after a restart, and the memory of many sessions
//! ```

mod case;
mod cases;
pub(super) mod larger;
pub(super) mod restart;
mod tables;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use postgres::Client;

use self::case::{Argument, Case, Session};
use self::cases::CASES;
use super::figure::{Figure, Outcome};
use super::statement::{Rows, ask, first_exact_difference, on_tables};
use super::{Options, Side};
use crate::cluster::Cluster;
use crate::instance::DATABASE;
use crate::paths::Paths;
use crate::progress::{Counting, Progress};
use crate::scratch::Scratch;

/// Tables that are made together, and dropped before the next ones are made. At 5,000,000 rows each
/// group fits shared buffers of 4 GB: the goals are those of tables in memory. [`larger`] is about
/// tables that are not.
const GROUPS: [&[&str]; 2] = [
    &[
        "noise", "changed", "kept", "child", "wide", "document", "tagged", "places", "split",
        "part",
    ],
    &[
        "usertable",
        "grouped",
        "texts",
        "mixed",
        "mixed_split",
        "mixed_grouped",
    ],
];

fn all_tables() -> Vec<&'static str> {
    GROUPS.concat()
}

const SETTINGS: &str = "SET synchronous_commit = off; SET max_parallel_workers_per_gather = 0";

/// A session is warm after so many statements of either side, or after this time.
const WARMING_STATEMENTS: u64 = 10_000;
const WARMING_TIME: Duration = Duration::from_secs(2);
/// Where the keys of these statements begin: further on than those of any run.
const WARMING_SERIAL: u64 = 1 << 40;

/// The tables that are compared at the end; the child's identity column counts the same on both
/// sides.
const CHANGED: [&str; 6] = ["noise", "kept", "child", "usertable", "grouped", "places"];

pub(super) fn measure(
    cluster: &Cluster,
    client: &mut Client,
    options: &Options,
) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for tables in GROUPS {
        tables::make(client, options.rows, tables)?;
        figures.extend(measure_cases(cluster, client, options, tables)?);
        if !options.keep {
            tables::drop(client, tables)?;
        }
    }
    Ok(figures)
}

/// Measures the cases that need no other tables than these.
fn measure_cases(
    cluster: &Cluster,
    client: &mut Client,
    options: &Options,
    tables: &[&str],
) -> anyhow::Result<Vec<Figure>> {
    let is_possible = |case: &Case| {
        let mut needed = all_tables().into_iter().filter(|table| case.needs(table));
        needed.all(|table| tables.contains(&table))
    };
    let cases = CASES.iter().enumerate();
    let cases: Vec<_> = cases.filter(|(_, case)| is_possible(case)).collect();
    let mut progress = Progress::of("everyday work", cases.len() as u64, Counting::Things);
    client.batch_execute(SETTINGS)?;
    let mut figures = Vec::new();
    for (number, case) in cases {
        figures.push(of_case(cluster, client, options, (number, case))?);
        progress.advance(1, case.title);
    }
    client.batch_execute("RESET synchronous_commit; RESET max_parallel_workers_per_gather")?;
    let changed = CHANGED.iter().filter(|table| tables.contains(table));
    let difference = tables_differ(client, changed)?;
    if let (Some(last), difference @ Some(_)) = (figures.last_mut(), difference) {
        last.difference = difference;
    }
    progress.finish("done");
    Ok(figures)
}

/// A server for one part alone, and a session in a database with the extension.
fn server_of_its_own(
    paths: &Paths,
    name: &str,
    settings: &[(&str, &str)],
) -> anyhow::Result<(Scratch, Client)> {
    let scratch = Scratch::start(paths, name, settings)?;
    scratch
        .cluster
        .connect("postgres")?
        .batch_execute(&format!("CREATE DATABASE {DATABASE}"))?;
    let mut client = scratch.cluster.connect(DATABASE)?;
    client.batch_execute(
        "SET client_min_messages = warning; CREATE EXTENSION howdah; CREATE SCHEMA bench",
    )?;
    Ok((scratch, client))
}

fn with_tables(sql: &str, side: Side) -> String {
    on_tables(sql, &all_tables(), |table| tables::name(table, side))
}

fn of_case(
    cluster: &Cluster,
    client: &mut Client,
    options: &Options,
    numbered: (usize, &Case),
) -> anyhow::Result<Figure> {
    let (number, case) = numbered;
    let mut figure = Figure::new(case.title, case.unit()).with_goal(Some(case.goal()));
    let mut of_this_case;
    let client = match case.session {
        Session::Warm | Session::New => client,
        Session::Before(change) => {
            of_this_case = connect(cluster)?;
            of_this_case.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
            for side in Side::BOTH {
                client.batch_execute(&with_tables(change, side))?;
            }
            &mut of_this_case
        }
    };
    if case.session != Session::New {
        prepare(client, numbered)?;
        warm(client, options, numbered)?;
    }
    let scale = match case.repeats {
        0..10 => 1.0,
        _ => 1e3,
    };
    for run in 0..=options.runs {
        let mut of_this_run;
        let client = match case.session {
            Session::Warm | Session::Before(_) => &mut *client,
            Session::New => {
                of_this_run = connect(cluster)?;
                prepare(&mut of_this_run, numbered)?;
                &mut of_this_run
            }
        };
        let mut times = [Vec::new(), Vec::new()];
        for repeat in 0..case.repeats {
            let serial = (u64::from(run) * u64::from(case.repeats) + u64::from(repeat))
                + 10_007 * number as u64;
            let mut answers: Vec<Rows> = vec![Vec::new(), Vec::new()];
            let first = (repeat + run) as usize % 2;
            for at in [first, 1 - first] {
                let side = Side::BOTH[at];
                let statement = statement(numbered, side, argument(case, serial, options.rows));
                let started = Instant::now();
                let answer = ask(client, &statement)?.context("refused")?;
                times[at].push(started.elapsed().as_secs_f64() * 1e3 * scale);
                answers[at] = answer.rows;
            }
            let is_plan = case.sql.starts_with("EXPLAIN");
            if figure.difference.is_none() && !is_plan {
                figure.difference =
                    first_exact_difference(("heap", &answers[0]), ("howdah", &answers[1]));
            }
        }
        // The first run warms up.
        if run > 0 {
            for (side, times) in Side::BOTH.into_iter().zip(times) {
                figure.side(side).add(Outcome::Measured(times).median());
            }
        }
    }
    Ok(figure)
}

fn connect(cluster: &Cluster) -> anyhow::Result<Client> {
    let mut session = cluster.connect(DATABASE)?;
    session.batch_execute(SETTINGS)?;
    Ok(session)
}

/// Prepares the statement of either side, if it has a parameter.
fn prepare(client: &mut Client, (number, case): (usize, &Case)) -> anyhow::Result<()> {
    if matches!(case.argument, Argument::None) {
        return Ok(());
    }
    for side in Side::BOTH {
        let (name, parameter) = (prepared(number, side), case.parameter());
        let sql = with_tables(case.sql, side);
        client
            .batch_execute(&format!("PREPARE {name} {parameter} AS {sql}"))
            .with_context(|| case.title.to_owned())?;
    }
    Ok(())
}

/// Runs statements that change nothing, with keys of their own.
fn warm(client: &mut Client, options: &Options, numbered: (usize, &Case)) -> anyhow::Result<()> {
    let case = numbered.1;
    if matches!(case.argument, Argument::None) || !case.only_reads() {
        return Ok(());
    }
    for side in Side::BOTH {
        let started = Instant::now();
        let serials = WARMING_SERIAL..WARMING_SERIAL + WARMING_STATEMENTS;
        for serial in serials.take_while(|_| started.elapsed() < WARMING_TIME) {
            let statement = statement(numbered, side, argument(case, serial, options.rows));
            ask(client, &statement)?.context("refused")?;
        }
    }
    Ok(())
}

fn statement((number, case): (usize, &Case), side: Side, argument: Option<String>) -> String {
    match argument {
        None => with_tables(case.sql, side),
        Some(argument) => format!("EXECUTE {} ({argument})", prepared(number, side)),
    }
}

fn prepared(number: usize, side: Side) -> String {
    format!("everyday_{number}_{}", side.name())
}

/// The argument of one statement as SQL: keys spread all over the table.
fn argument(case: &Case, serial: u64, rows: u64) -> Option<String> {
    let rows = rows / case.divisor;
    let key = |serial: u64, apart: u64| {
        let places = (rows / apart).saturating_sub(2).max(1);
        1 + serial.wrapping_mul(1_640_531_527) % places * apart
    };
    match case.argument {
        Argument::None => None,
        Argument::Key { apart } => Some(key(serial, apart).to_string()),
        Argument::Keys(count) => {
            let keys = (0..count as u64).map(|n| key(serial * count as u64 + n, 1).to_string());
            Some(format!("'{{{}}}'", keys.collect::<Vec<_>>().join(",")))
        }
    }
}

/// Compares the tables that were changed, row by row in sums of hashes.
fn tables_differ<'a>(
    client: &mut Client,
    tables: impl Iterator<Item = &'a &'static str>,
) -> anyhow::Result<Option<String>> {
    for table in tables {
        let mut sums = Vec::new();
        for side in Side::BOTH {
            let table = tables::name(table, side);
            let sql = format!("SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t");
            sums.push(ask(client, &sql)?.context("refused")?.rows);
        }
        if let Some(difference) = first_exact_difference(("heap", &sums[0]), ("howdah", &sums[1])) {
            return Ok(Some(format!("{table}: {difference}")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_that_a_case_names_is_known() {
        for case in &CASES {
            let sql = with_tables(case.sql, Side::Howdah);
            assert!(!sql.contains("FROM {") && !sql.contains("JOIN {"), "{sql}");
        }
    }

    #[test]
    fn each_case_is_measured_once() {
        for case in &CASES {
            let has_all = |tables: &&&[&str]| {
                let mut needed = all_tables().into_iter().filter(|table| case.needs(table));
                needed.all(|table| tables.contains(&table))
            };
            let groups = GROUPS.iter().filter(has_all).count();
            assert_eq!(groups, 1, "{}", case.title);
        }
    }

    #[test]
    fn keys_of_a_case_are_keys_of_its_table() {
        let rows = 5_000_000;
        for case in &CASES {
            for serial in 0..1000 {
                if let (Argument::Key { apart }, Some(text)) =
                    (case.argument, argument(case, serial, rows))
                {
                    let key: u64 = text.parse().expect("a number");
                    let last = key + apart - 1;
                    assert!(
                        key > 0 && last <= rows / case.divisor,
                        "{}: {key}",
                        case.title
                    );
                }
            }
        }
    }
}
