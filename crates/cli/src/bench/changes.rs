//! Changes and locks of cold rows: single rows, ten thousand, half of the table, and what a scan
//! costs after rows were deleted. They use the big table, all of it cold on howdah's side.

use std::time::Instant;

use postgres::Client;

use super::figure::{Figure, Goal, Outcome, Unit};
use super::statement::{Rows, ask, first_difference};
use super::{Options, Side, points, queries, table};
use crate::progress::{Counting, Progress};

/// A statement that is rolled back after each run.
struct Change {
    title: &'static str,
    /// `T` stands for the table, `FROM_KEY` for a key in its middle.
    sql: &'static str,
    goal: Goal,
}

const CHANGES: [Change; 2] = [
    Change {
        title: "lock 10,000 cold rows",
        sql: "SELECT count(*) FROM (SELECT c1 FROM T WHERE c1 >= FROM_KEY AND c1 < FROM_KEY + 10000 FOR UPDATE) x",
        goal: Goal::RatioAtMost(2.0),
    },
    Change {
        title: "delete half of the table",
        sql: "DELETE FROM T WHERE c1 % 2 = 0",
        goal: Goal::RatioAtMost(1.0),
    },
];

/// What is compared after a change.
const LEFT: &str = "SELECT count(*), sum(c1) FROM T";

const SCAN: &str = "SELECT count(*), sum(c5) FROM T";

pub(super) fn measure(client: &mut Client, options: &Options) -> anyhow::Result<Vec<Figure>> {
    let steps = u64::from(options.runs + 1) * 4 + 2;
    let mut progress = Progress::of("changing cold rows", steps, Counting::Things);
    let howdah = table::name(Side::Howdah);
    client.batch_execute(&format!("CALL howdah.compact('{howdah}')"))?;
    client.batch_execute("SET synchronous_commit = off")?;
    let mut figures = vec![single_rows(client, options, &mut progress)?];
    for change in &CHANGES {
        figures.push(undone(client, options, change, &mut progress)?);
    }
    figures.push(scan_of_marked(client, options, &mut progress)?);
    client.batch_execute("RESET synchronous_commit")?;
    progress.finish("done");
    Ok(figures)
}

fn single_rows(
    client: &mut Client,
    options: &Options,
    progress: &mut Progress,
) -> anyhow::Result<Figure> {
    let mut figure = Figure::new("UPDATE of one cold row", Unit::Microseconds)
        .with_goal(Some(Goal::RatioAtMost(2.0)));
    let mut prepared = Vec::new();
    for side in Side::BOTH {
        let table = table::name(side);
        prepared.push(client.prepare(&format!(
            "UPDATE {table} SET c3 = c3 + 1 WHERE c1 = $1 RETURNING c1, c3"
        ))?);
    }
    for run in 0..=options.runs {
        let mut times = [Vec::new(), Vec::new()];
        let mut found: [Rows; 2] = [Vec::new(), Vec::new()];
        // Keys that the lookups of single rows have not used.
        for (turn, key) in points::keys(u64::from(run) + 1_000, options.rows).enumerate() {
            for side in [turn % 2, 1 - turn % 2] {
                let started = Instant::now();
                let rows = client.query(&prepared[side], &[&key])?;
                times[side].push(started.elapsed().as_secs_f64() * 1e6);
                found[side].extend(rows.iter().map(|row| {
                    vec![
                        row.get::<_, i64>(0).to_string(),
                        row.get::<_, i32>(1).to_string(),
                    ]
                }));
            }
        }
        // The first run warms up.
        if run > 0 {
            for (side, times) in Side::BOTH.into_iter().zip(times) {
                figure.side(side).add(Outcome::Measured(times).median());
            }
        }
        if figure.difference.is_none() {
            figure.difference = first_difference(("heap", &found[0]), ("howdah", &found[1]));
        }
        progress.advance(1, &figure.title);
    }
    Ok(figure)
}

fn undone(
    client: &mut Client,
    options: &Options,
    change: &Change,
    progress: &mut Progress,
) -> anyhow::Result<Figure> {
    let mut figure = Figure::new(change.title, Unit::Milliseconds).with_goal(Some(change.goal));
    for run in 0..=options.runs {
        let mut answers: [Rows; 2] = [Vec::new(), Vec::new()];
        for (at, side) in Side::BOTH.into_iter().enumerate() {
            let statement = queries::sql(change.sql, &table::name(side), options.rows);
            client.batch_execute("BEGIN")?;
            let answer = ask(client, &statement);
            let left = ask(
                client,
                &queries::sql(LEFT, &table::name(side), options.rows),
            );
            client.batch_execute("ROLLBACK")?;
            if let Some(answer) = answer? {
                if run > 0 {
                    figure.side(side).add(Some(answer.milliseconds));
                }
                answers[at] = answer.rows;
                answers[at].extend(left?.into_iter().flat_map(|left| left.rows));
            } else {
                figure.side(side).add(None);
            }
        }
        if figure.difference.is_none() {
            let [heap, howdah] = &answers;
            figure.difference = first_difference(("heap", heap), ("howdah", howdah));
        }
        progress.advance(1, change.title);
    }
    Ok(figure)
}

/// How many times as long a scan takes once one row in a hundred was deleted, each by a statement
/// of its own. The same is measured on heap.
fn scan_of_marked(
    client: &mut Client,
    options: &Options,
    progress: &mut Progress,
) -> anyhow::Result<Figure> {
    let mut figure = Figure::new("scan, 1% of the rows deleted", Unit::Times)
        .with_goal(Some(Goal::AtMost(1.15)));
    let marked = |side: Side| format!("bench.marked_{}", side.name());
    for side in Side::BOTH {
        let (whole, marked) = (table::name(side), marked(side));
        client.batch_execute(&format!(
            "CREATE TABLE {marked} USING {} AS SELECT * FROM {whole};
             CREATE UNIQUE INDEX ON {marked} (c1)",
            side.name()
        ))?;
        if side == Side::Howdah {
            client.batch_execute(&format!("CALL howdah.compact('{marked}')"))?;
        }
        client.batch_execute(&format!("VACUUM (ANALYZE) {marked}"))?;
        client.batch_execute(&format!(
            "DO $$ BEGIN FOR i IN 1..{} BY 100 LOOP DELETE FROM {marked} WHERE c1 = i; END LOOP; END $$",
            options.rows
        ))?;
        progress.advance(1, &figure.title);
    }
    for run in 0..=options.runs {
        let mut answers: [Rows; 2] = [Vec::new(), Vec::new()];
        for (at, side) in Side::BOTH.into_iter().enumerate() {
            let mut milliseconds = [0.0; 2];
            for (which, table) in [table::name(side), marked(side)].iter().enumerate() {
                let answer = ask(client, &queries::sql(SCAN, table, options.rows))?;
                if let Some(answer) = answer {
                    milliseconds[which] = answer.milliseconds;
                    answers[at] = answer.rows;
                }
            }
            if run > 0 {
                figure
                    .side(side)
                    .add(Some(milliseconds[1] / milliseconds[0]));
            }
        }
        if figure.difference.is_none() {
            let [heap, howdah] = &answers;
            figure.difference = first_difference(("heap", heap), ("howdah", howdah));
        }
        progress.advance(1, &figure.title);
    }
    Ok(figure)
}
