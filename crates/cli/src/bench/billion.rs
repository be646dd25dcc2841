//! A billion rows a second: `SELECT grp, count(data) … GROUP BY 1` over a table of three columns
//! and twenty times the rows of the other parts (100 million by default), beside a sum and a
//! filtered count.
//!
//! The table is `t_demo(id integer, grp integer 0..9, data real with two decimals)` without an
//! index. Heap's table is the source: howdah loads from it, and DuckDB from a table of its own,
//! made by the same arithmetic. Sums are taken in double precision: a sum of 10 million `real`
//! values in `real` depends on the order in which they are added, in PostgreSQL as elsewhere, so
//! that no two answers could be compared.

use postgres::Client;

use super::duckdb::{Asking, DuckDb};
use super::figure::{Figure, Goal, Outcome, Unit};
use super::statement::{Rows, ask, first_difference};
use super::{Options, Side};
use crate::progress::{Counting, Progress};
use crate::units;

/// Rows for each row of the big table of the other parts.
pub(super) const ROWS_TIMES: u64 = 20;
/// Bytes of disk for one of these rows: heap's, howdah's, WAL of a load, and DuckDB's two.
pub(super) const DISK_BYTES_PER_ROW: u64 = 80;

struct Question {
    title: &'static str,
    /// `FROM T` stands for the table.
    sql: &'static str,
    goal: Option<Goal>,
}

const QUESTIONS: [Question; 3] = [
    Question {
        title: "grp, count(data)",
        sql: "SELECT grp, count(data) FROM T GROUP BY 1",
        goal: Some(Goal::AtLeast(1e9)),
    },
    Question {
        title: "grp, sum(data)",
        sql: "SELECT grp, sum(data::double precision) FROM T GROUP BY 1",
        goal: None,
    },
    Question {
        title: "count where data < 2500",
        sql: "SELECT count(*) FROM T WHERE data < 2500",
        goal: None,
    },
];

/// The rows, in the SQL that PostgreSQL and DuckDB share: `SERIES` yields `i`. Multiplying by an
/// odd number and dropping the lowest bits gives values that look random to an encoder.
const ROWS: &str = "SELECT i::integer AS id, (((i * 2654435761) >> 16) % 10)::integer AS grp,
    ((((i * 2654435761) >> 8) % 1000000) / 100.0::float8)::real AS data FROM SERIES";

impl Question {
    /// The statement on one table.
    fn on(&self, table: &str) -> String {
        self.sql.replace("FROM T", &format!("FROM {table}"))
    }
}

fn table(side: Side) -> String {
    format!("bench.t_demo_{}", side.name())
}

pub(super) fn measure(
    client: &mut Client,
    duckdb: Option<&DuckDb>,
    options: &Options,
) -> anyhow::Result<Vec<Figure>> {
    let rows = options.rows * ROWS_TIMES;
    let mut load = Figure::new("load of t_demo", Unit::PerSecond).with_goal(Some(
        // A rate: howdah's half of DuckDB's is twice its time.
        Goal::DuckDbAtLeast(0.5),
    ));
    load.heap = Outcome::Absent;
    make(client, rows, options, &mut load)?;
    let (mut figures, answers) = query(client, rows, options)?;
    if let Some(duckdb) = duckdb {
        fill_in(duckdb, rows, options, &mut load, &mut figures, &answers)?;
    }
    figures.insert(0, load);
    for side in Side::BOTH {
        client.batch_execute(&format!("DROP TABLE {}", table(side)))?;
    }
    Ok(figures)
}

/// Makes heap's table, and loads howdah's from it as often as asked for.
fn make(
    client: &mut Client,
    rows: u64,
    options: &Options,
    load: &mut Figure,
) -> anyhow::Result<()> {
    let progress = Progress::open_ended("making t_demo");
    let (heap, howdah) = (table(Side::Heap), table(Side::Howdah));
    let source = ROWS.replace("SERIES", &format!("generate_series(1::bigint, {rows}) i"));
    // CREATE TABLE AS does not run parallel plans below a function scan, and nothing here needs
    // one.
    client.batch_execute(&format!(
        "CREATE UNLOGGED TABLE {heap} USING heap AS {source}"
    ))?;
    client.batch_execute(&format!("VACUUM (FREEZE, ANALYZE) {heap}"))?;
    progress.finish(&format!("{} rows", units::count(rows)));
    let mut progress = Progress::of("loading", u64::from(options.runs), Counting::Things);
    for _ in 0..options.runs {
        client.batch_execute(&format!(
            "DROP TABLE IF EXISTS {howdah};
             CREATE TABLE {howdah} (id integer, grp integer, data real) USING howdah"
        ))?;
        client.batch_execute("CHECKPOINT")?;
        let answer = ask(
            client,
            &format!("INSERT INTO {howdah} SELECT * FROM {heap}"),
        )?;
        let rate = answer.map(|answer| rows as f64 / (answer.milliseconds / 1e3));
        load.howdah.add(rate);
        progress.advance(1, "t_demo");
    }
    progress.finish(&format!("{} times", options.runs));
    client.batch_execute(&format!("VACUUM (ANALYZE) {howdah}"))?;
    Ok(())
}

/// Asks both sides by turns; figures and heap's answers, by question.
fn query(
    client: &mut Client,
    rows: u64,
    options: &Options,
) -> anyhow::Result<(Vec<Figure>, Vec<Rows>)> {
    let steps = QUESTIONS.len() as u64 * u64::from(options.runs + 1);
    let mut progress = Progress::of("querying", steps, Counting::Things);
    let (mut figures, mut answers) = (Vec::new(), Vec::new());
    for question in &QUESTIONS {
        let mut figure = Figure::new(question.title, Unit::PerSecond).with_goal(question.goal);
        let mut last = [None, None];
        for run in 0..=options.runs {
            for (at, side) in Side::BOTH.into_iter().enumerate() {
                let answer = ask(client, &question.on(&table(side)))?;
                // The first run warms up.
                if run > 0 {
                    let rate = answer
                        .as_ref()
                        .map(|answer| rate(rows, answer.milliseconds));
                    figure.side(side).add(rate);
                }
                last[at] = answer.map(|answer| answer.rows);
            }
            progress.advance(1, question.title);
        }
        let [heap, howdah] = last.map(Option::unwrap_or_default);
        figure.difference = first_difference(("heap", &heap), ("howdah", &howdah));
        figures.push(figure);
        answers.push(heap);
    }
    progress.finish(&format!("{} questions on both sides", QUESTIONS.len()));
    Ok((figures, answers))
}

fn rate(rows: u64, milliseconds: f64) -> f64 {
    rows as f64 / (milliseconds / 1e3)
}

fn fill_in(
    duckdb: &DuckDb,
    rows: u64,
    options: &Options,
    load: &mut Figure,
    figures: &mut [Figure],
    answers: &[Rows],
) -> anyhow::Result<()> {
    let progress = Progress::open_ended("asking DuckDB");
    let mut request = duckdb.request(options);
    let series = format!("range(1, {rows} + 1) series(i)");
    request.source = vec![format!(
        "CREATE TABLE source AS {}",
        ROWS.replace("SERIES", &series)
    )];
    let asking = |question: &Question| Asking {
        sql: question.on("t"),
        changes: false,
    };
    request.questions = QUESTIONS.iter().map(asking).collect();
    let response = duckdb.ask(request)?;
    let rates = response
        .load_seconds
        .iter()
        .map(|seconds| rows as f64 / seconds);
    load.duckdb = Outcome::Measured(rates.collect());
    for ((figure, answer), answered) in figures.iter_mut().zip(answers).zip(response.questions) {
        let rates = answered.milliseconds.iter().map(|&time| rate(rows, time));
        figure.duckdb = Outcome::Measured(rates.collect());
        let difference = first_difference(("heap", answer), ("DuckDB", &answered.rows));
        figure.difference = figure.difference.take().or(difference);
    }
    progress.finish(&format!("{} rows", units::count(rows)));
    Ok(())
}
