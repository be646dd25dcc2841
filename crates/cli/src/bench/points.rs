//! One row by index: prepared, from the client's side, keys all over the table.

use std::time::Instant;

use postgres::{Client, Statement};

use super::figure::{Figure, Goal, Outcome, Unit};
use super::{Options, Side, statement, table};
use crate::progress::{Counting, Progress};

/// Lookups of one run; their median is the run's figure.
const LOOKUPS: u64 = 1000;
/// Rows of the table of hot rows.
const HOT_ROWS: u64 = 100_000;

pub(super) fn measure(client: &mut Client, options: &Options) -> anyhow::Result<Vec<Figure>> {
    for side in Side::BOTH {
        let table = hot_table(side);
        client.batch_execute(&format!(
            "SET howdah.bulk_load = off;
             CREATE TABLE {table} ({}) USING {};
             INSERT INTO {table} SELECT * FROM bench.source LIMIT {HOT_ROWS};
             CREATE UNIQUE INDEX ON {table} (c1);
             RESET howdah.bulk_load",
            table::COLUMNS,
            side.name()
        ))?;
        client.batch_execute(&format!("VACUUM (ANALYZE) {table}"))?;
    }
    let steps = u64::from(options.runs + 1) * 2;
    let mut progress = Progress::of("one row by index", steps, Counting::Things);
    let cold = Figure::new("one cold row by index", Unit::Microseconds)
        .with_goal(Some(Goal::RatioAtMost(3.0)));
    let hot = Figure::new("one hot row by index", Unit::Microseconds)
        .with_goal(Some(Goal::RatioAtMost(1.1)));
    let figures = vec![
        compare(
            client,
            options,
            cold,
            table::name,
            options.rows,
            &mut progress,
        )?,
        compare(client, options, hot, hot_table, HOT_ROWS, &mut progress)?,
    ];
    progress.finish(&format!("{LOOKUPS} rows a run"));
    Ok(figures)
}

fn hot_table(side: Side) -> String {
    format!("bench.hot_{}", side.name())
}

fn compare(
    client: &mut Client,
    options: &Options,
    mut figure: Figure,
    table: impl Fn(Side) -> String,
    rows: u64,
    progress: &mut Progress,
) -> anyhow::Result<Figure> {
    let statements = Side::BOTH.map(|side| {
        format!(
            "SELECT c1, c2, c3, c4::text, c5, grp FROM {} WHERE c1 = $1",
            table(side)
        )
    });
    let prepared = [
        client.prepare(&statements[0])?,
        client.prepare(&statements[1])?,
    ];
    for run in 0..=options.runs {
        let (microseconds, found) = look_up(client, &prepared, rows, u64::from(run))?;
        // The first run warms up.
        if run > 0 {
            for (side, microseconds) in Side::BOTH.into_iter().zip(microseconds) {
                figure.side(side).add(Some(microseconds));
            }
        }
        if figure.difference.is_none() {
            figure.difference =
                statement::first_difference(("heap", &found[0]), ("howdah", &found[1]));
        }
        progress.advance(1, &figure.title);
    }
    Ok(figure)
}

/// The median time of a lookup on either side, and every row found. The sides take turns key by
/// key, and take turns in going first.
fn look_up(
    client: &mut Client,
    prepared: &[Statement; 2],
    rows: u64,
    run: u64,
) -> anyhow::Result<([f64; 2], [statement::Rows; 2])> {
    let mut times = [Vec::new(), Vec::new()];
    let mut found = [Vec::new(), Vec::new()];
    for (turn, key) in keys(run, rows).enumerate() {
        for side in [turn % 2, 1 - turn % 2] {
            let started = Instant::now();
            let row = client.query_one(&prepared[side], &[&key])?;
            times[side].push(started.elapsed().as_secs_f64() * 1e6);
            found[side].push(vec![
                row.get::<_, i64>(0).to_string(),
                row.get::<_, String>(1),
                row.get::<_, i32>(2).to_string(),
                row.get::<_, String>(3),
                row.get::<_, f64>(4).to_string(),
                row.get::<_, i32>(5).to_string(),
            ]);
        }
    }
    let median = |times| Outcome::Measured(times).median().unwrap_or_default();
    Ok((times.map(median), found))
}

/// The keys of one run.
pub(super) fn keys(run: u64, rows: u64) -> impl Iterator<Item = i64> {
    (run * LOOKUPS..(run + 1) * LOOKUPS).map(move |serial| key(serial, rows))
}

/// Keys that are spread over the table, and skip the first rows of a load, which are hot in any
/// table.
fn key(serial: u64, rows: u64) -> i64 {
    const FIRST: u64 = 20_000;
    (FIRST + serial * 1_640_531_527 % (rows - FIRST)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_within_the_table_and_away_from_its_first_rows() {
        for serial in 0..10_000 {
            assert!((20_000..100_000).contains(&key(serial, 100_000)));
        }
    }
}
