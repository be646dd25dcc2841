//! TPC-H's queries, heap beside howdah; howdah also without the engine. With settings as users have
//! them, parallel workers among them; answers are compared to the last digit.
//!
//! ```text
//!   tables    what they are, and how they are filled;  queries  what is asked
//! ```
//!
//! The rows are those of the specification's own generator, by the program `tpchgen-cli` of the
//! Python package of that name; without it the part is left out. At scale 1, answers must have as
//! many rows as the specification's.

mod queries;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use postgres::Client;

use self::queries::{QUERIES, Query};
use super::figure::{Figure, Goal, Outcome, Unit};
use super::python_package::{self, run};
use super::statement::{Rows, ask, by_turns, first_exact_difference, on_tables};
use super::{Options, Side};
use crate::paths::Paths;
use crate::progress::{Counting, Progress};

const PACKAGE: &str = "tpchgen-cli";
/// howdah's time, in heap's.
const GOAL: Goal = Goal::RatioAtMost(1.2);
/// Files, tables on either side, their indexes, and WAL, at scale 1.
const DISK_BYTES_OF_SCALE_1: f64 = 5e9;

/// How a query is run: on a side, and with `howdah.vectorized` set to this.
const WAYS: [(Side, &str); 3] = [
    (Side::Heap, "on"),
    (Side::Howdah, "on"),
    (Side::Howdah, "off"),
];

pub(super) fn disk_bytes(scale: f64) -> u64 {
    (scale * DISK_BYTES_OF_SCALE_1) as u64
}

/// # Errors
/// When a statement fails, or the generator while it writes rows.
pub(super) fn measure(
    paths: &Paths,
    client: &mut Client,
    options: &Options,
) -> anyhow::Result<Vec<Figure>> {
    let generator = match generator(paths) {
        Ok(generator) => generator,
        Err(error) => {
            eprintln!("  TPC-H is left out, its rows cannot be made: {error:#}");
            return Ok(Vec::new());
        }
    };
    let files = paths.cache.join(PACKAGE).join("rows");
    let made =
        generate(&generator, options.scale, &files).and_then(|()| tables::make(client, &files));
    // They are large, or not there; nothing depends on them.
    let _ = fs::remove_dir_all(&files);
    made?;
    let mut progress = Progress::of("asking TPC-H", QUERIES.len() as u64, Counting::Things);
    let (mut with_engine, mut without) = (Vec::new(), Vec::new());
    for (query, number) in QUERIES.iter().zip(1..) {
        let title = format!("TPC-H Q{number}");
        let [on, off] = of_query(client, options, query, &title)?;
        with_engine.push(on);
        without.push(off);
        progress.advance(1, &title);
    }
    client.batch_execute("RESET howdah.vectorized")?;
    progress.finish(&format!("scale {}", options.scale));
    with_engine.append(&mut without);
    Ok(with_engine)
}

/// The program that makes rows.
fn generator(paths: &Paths) -> anyhow::Result<PathBuf> {
    let package = python_package::installed(paths, PACKAGE)?;
    let program = package.join("bin").join(PACKAGE);
    run(Command::new(&program).arg("--version"))
        .with_context(|| format!("{} does not run here", program.display()))?;
    Ok(program)
}

/// Writes the rows of all tables as CSV into a directory. All at a time: the program takes seconds
/// before it writes the first row.
fn generate(generator: &Path, scale: f64, files: &Path) -> anyhow::Result<()> {
    let progress = Progress::open_ended("making TPC-H's rows");
    fs::create_dir_all(files).with_context(|| format!("cannot make {}", files.display()))?;
    let mut command = Command::new(generator);
    command
        .args(["csv", "--quiet", "--overwrite", "--scale-factor"])
        .arg(scale.to_string())
        .arg("--output-dir")
        .arg(files);
    run(&mut command).context("TPC-H's rows cannot be made")?;
    progress.finish(&format!("scale {scale}"));
    Ok(())
}

/// The figures with the engine and without it, beside the same runs of heap.
fn of_query(
    client: &mut Client,
    options: &Options,
    query: &Query,
    title: &str,
) -> anyhow::Result<[Figure; 2]> {
    let [heap, on, off] = by_turns(options.runs, |at| {
        let (side, vectorized) = WAYS[at];
        client.batch_execute(&format!("SET howdah.vectorized = {vectorized}"))?;
        let answer = ask(client, &sql(query, side, options.scale))?;
        Ok(answer.map_or((None, None), |answer| {
            (Some(answer.milliseconds), Some(answer.rows))
        }))
    })?;
    let figure = |title: &str, howdah: (Outcome, Option<Rows>)| Figure {
        heap: heap.0.clone(),
        howdah: howdah.0,
        difference: difference(query, options.scale, heap.1.as_ref(), howdah.1.as_ref()),
        ..Figure::new(title, Unit::Milliseconds).with_goal(Some(GOAL))
    };
    Ok([
        figure(title, on),
        figure(&format!("{title}, engine off"), off),
    ])
}

fn sql(query: &Query, side: Side, scale: f64) -> String {
    let names = tables::TABLES.map(|table| table.name);
    let sql = on_tables(query.sql, &names, |table| tables::name(table, side));
    sql.replace("FRACTION", &format!("{}", 0.0001 / scale))
}

/// What is wrong with the answers of the two sides, where both gave one.
fn difference(
    query: &Query,
    scale: f64,
    heap: Option<&Rows>,
    howdah: Option<&Rows>,
) -> Option<String> {
    let (heap, howdah) = (heap?, howdah?);
    let expected = query.row_count;
    if scale == 1.0 && heap.len() != expected {
        let found = heap.len();
        return Some(format!(
            "heap gives {found} rows, the specification {expected}"
        ));
    }
    first_exact_difference(("heap", heap), ("howdah", howdah))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_reads_one_side_and_asks_for_its_part_of_the_scale() {
        let query = &QUERIES[10];
        let text = sql(query, Side::Howdah, 10.0);
        assert!(text.contains("FROM bench.tpch_partsupp_howdah, bench.tpch_supplier_howdah"));
        assert!(text.contains(" * 0.00001 FROM"), "{text}");
        assert!(!text.contains("heap"), "{text}");
    }

    #[test]
    fn answers_must_be_equal_and_at_scale_1_have_the_specifications_rows() {
        let query = Query {
            sql: "",
            row_count: 2,
        };
        let rows = |fields: &[&str]| -> Rows {
            fields
                .iter()
                .map(|field| vec![(*field).to_owned()])
                .collect()
        };
        let (two, other, one) = (
            rows(&["1.0", "2.0"]),
            rows(&["2.0", "1.00"]),
            rows(&["1.0"]),
        );
        assert_eq!(difference(&query, 1.0, Some(&two), Some(&two)), None);
        assert!(difference(&query, 1.0, Some(&two), Some(&other)).is_some());
        assert_eq!(
            difference(&query, 1.0, Some(&one), Some(&one)).as_deref(),
            Some("heap gives 1 rows, the specification 2")
        );
        assert_eq!(difference(&query, 0.5, Some(&one), Some(&one)), None);
        // A refusal is shown as such.
        assert_eq!(difference(&query, 1.0, Some(&two), None), None);
    }
}
