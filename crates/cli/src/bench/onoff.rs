//! The same statements with the engine and without it: none may be slower with it.
//!
//! Statements of every shape that the engine takes, over tables of a thousand to a hundred thousand
//! rows, where the fixed cost of a run shows most. Two sessions run each statement by turns, one
//! of them with `howdah.vectorized = off`: each of them in one half of a pair, as of two equal
//! sessions one may be some percent slower. The figure of a statement is its worst size: the median
//! of the ratios of pairs of runs, where less than [`SLACK_MS`] more counts as none. Answers are
//! compared.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use postgres::Client;

use super::Options;
use super::figure::{Figure, Goal, Outcome, Unit};
use super::statement::{Answer, ask, first_difference};
use crate::cluster::Cluster;
use crate::instance;
use crate::progress::{Counting, Progress};
use crate::units;

/// At most this many times as long with the engine.
const GOAL: f64 = 1.05;
/// What a small statement may take more, in milliseconds.
const SLACK_MS: f64 = 0.1;
const SIZES: [u64; 3] = [1_000, 10_000, 100_000];
/// Pairs of runs of a statement that are measured: as many as fit in the time, within bounds.
const FEWEST_PAIRS: usize = 5;
const MOST_PAIRS: usize = 51;
const TIME: Duration = Duration::from_millis(250);

/// Statements whose answer does not depend on the plan; `T` stands for the table.
const STATEMENTS: [&str; 48] = [
    "SELECT count(*) FROM T",
    "SELECT count(j) FROM T",
    "SELECT count(*) FROM T WHERE k = 7",
    "SELECT count(*) FROM T WHERE id < 10",
    "SELECT sum(v) FROM T",
    "SELECT sum(k), min(id), max(ts) FROM T",
    "SELECT sum(v) FROM T WHERE id BETWEEN 200 AND 300",
    "SELECT sum(n), avg(n) FROM T",
    "SELECT k, count(*) FROM T GROUP BY k",
    "SELECT k, sum(v), avg(n) FROM T GROUP BY k",
    "SELECT tag, count(*) FROM T GROUP BY tag",
    "SELECT tag, flag, max(ts) FROM T GROUP BY 1, 2",
    "SELECT d, count(*) FROM T GROUP BY d",
    "SELECT count(*) FROM T WHERE w LIKE '%abc%'",
    "SELECT count(*) FROM T WHERE w LIKE 'abc%'",
    "SELECT DISTINCT tag FROM T",
    "SELECT DISTINCT k FROM T ORDER BY k",
    "SELECT * FROM T ORDER BY v DESC, id LIMIT 10",
    "SELECT id, v FROM T ORDER BY v, id LIMIT 10",
    "SELECT * FROM T ORDER BY id DESC LIMIT 10",
    "SELECT * FROM T ORDER BY ts LIMIT 10",
    "SELECT id FROM T ORDER BY w LIMIT 5",
    "SELECT * FROM T ORDER BY n DESC, id LIMIT 20",
    "SELECT id, w FROM T WHERE k = 7 ORDER BY v, id LIMIT 5",
    "SELECT id, w, tag FROM T ORDER BY v, id LIMIT 1000",
    "SELECT count(*), avg(v) FROM T WHERE tag = 't17'",
    "SELECT count(*), avg(v) FROM T WHERE origin = 'o123'",
    "SELECT origin, count(*) FROM T WHERE origin < 'o11' GROUP BY 1",
    "SELECT count(*) FROM T WHERE w = 'c4ca4238a0b923820dcc509a6f75849b'",
    "SELECT count(*) FROM T WHERE k IN (1, 5, 9)",
    "SELECT count(*) FROM T WHERE k = 3 OR flag",
    "SELECT count(*) FROM T WHERE j IS NULL",
    "SELECT count(*) FILTER (WHERE k < 5), sum(v) FILTER (WHERE flag) FROM T",
    "SELECT bool_and(flag), bool_or(flag) FROM T",
    "SELECT k % 10, sum(id) FROM T GROUP BY 1 ORDER BY 2 DESC LIMIT 3",
    "SELECT k, avg(v) FROM T GROUP BY k HAVING count(*) > 5",
    "SELECT date_trunc('month', ts), count(*) FROM T GROUP BY 1",
    "SELECT sum(CASE WHEN k < 5 THEN v ELSE 0 END) FROM T",
    "SELECT k, sum(bench.plus_one(id)) FROM T WHERE id < 20000 GROUP BY k",
    "SELECT count(*) FROM T WHERE upper(tag) = 'T5'",
    "SELECT md5(tag), count(*) FROM T GROUP BY 1",
    "SELECT sum(length(w)) FROM T",
    "SELECT sum(v) FROM T WHERE id = 77",
    "SELECT sum(v) FROM T WHERE ts >= '2026-01-01 00:05' AND ts < '2026-01-01 00:15'",
    "SELECT id / 10 AS g, sum(k) FROM T GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
    "SELECT max(n), min(w) FROM T",
    "SELECT count(*) FROM T a JOIN T b USING (id) WHERE a.k = 7",
    "SELECT * FROM T WHERE id = 5",
];

/// Values that look random and are the same in every run.
const SOURCE: &str = "SELECT i AS id, (abs(hashint4(i)::bigint) % 100)::int AS k,
    (abs(hashint4(i + 7)::bigint) % 1000000) / 100.0::float8 AS v, md5(i::text) AS w,
    date '2026-01-01' + i % 365 AS d, timestamp '2026-01-01' + i * interval '1 second' AS ts,
    ((abs(hashint4(i + 9)::bigint) % 100000) / 100.0)::numeric(10, 2) AS n, i % 3 = 0 AS flag,
    't' || abs(hashint4(i + 3)::bigint) % 25 AS tag,
    'o' || 100 + abs(hashint4(i + 5)::bigint) % 300 AS origin,
    CASE WHEN i % 10 >= 3 THEN i % 50 END AS j";

fn table(rows: u64) -> String {
    format!("bench.onoff_{rows}")
}

fn make_tables(client: &mut Client) -> anyhow::Result<()> {
    client.batch_execute(
        "CREATE FUNCTION bench.plus_one(int) RETURNS int LANGUAGE plpgsql IMMUTABLE
             AS 'BEGIN RETURN $1 + 1; END'",
    )?;
    for rows in SIZES {
        let table = table(rows);
        client.batch_execute(&format!(
            "CREATE TABLE {table} USING howdah AS {SOURCE} FROM generate_series(1, {rows}) i;
             CREATE UNIQUE INDEX ON {table} (id)"
        ))?;
        client.batch_execute(&format!("CALL howdah.compact('{table}')"))?;
        client.batch_execute(&format!("VACUUM (ANALYZE) {table}"))?;
    }
    Ok(())
}

pub(super) fn measure(
    cluster: &Cluster,
    client: &mut Client,
    _: &Options,
) -> anyhow::Result<Vec<Figure>> {
    make_tables(client)?;
    let mut sessions = [
        cluster.connect(instance::DATABASE)?,
        cluster.connect(instance::DATABASE)?,
    ];
    let mut progress = Progress::of("on and off", STATEMENTS.len() as u64, Counting::Things);
    let mut figures = Vec::new();
    for statement in STATEMENTS {
        figures.push(of_statement(&mut sessions, statement)?);
        progress.advance(1, "");
    }
    progress.finish("done");
    Ok(figures)
}

/// The statement over the table where the engine does worst.
fn of_statement(sessions: &mut [Client; 2], statement: &str) -> anyhow::Result<Figure> {
    let mut worst: Option<(f64, Figure)> = None;
    let mut difference = None;
    for rows in SIZES {
        let sql = super::queries::sql(statement, &table(rows), rows);
        let (ratios, found) = pairs(sessions, &sql)?;
        difference = difference.or(found);
        let ratio = Outcome::Measured(ratios.clone()).median().unwrap_or(1.0);
        if worst.as_ref().is_none_or(|(known, _)| ratio > *known) {
            let title = format!("on / off: {statement}, {} rows", units::count(rows));
            let mut figure = Figure::new(&title, Unit::Times).with_goal(Some(Goal::AtMost(GOAL)));
            figure.heap = Outcome::Absent;
            figure.howdah = Outcome::Measured(ratios);
            worst = Some((ratio, figure));
        }
    }
    let (_, mut figure) = worst.context("no table")?;
    figure.difference = difference;
    Ok(figure)
}

/// The ratios of pairs of runs, and the first difference between their answers.
fn pairs(sessions: &mut [Client; 2], sql: &str) -> anyhow::Result<(Vec<f64>, Option<String>)> {
    let (mut ratios, mut difference) = (Vec::new(), None);
    let started = Instant::now();
    // The first pair warms up.
    for pair in 0..=MOST_PAIRS {
        let (mut on_ms, mut off_ms) = (0.0, 0.0);
        for on_at in [pair % 2, 1 - pair % 2] {
            let (on, off) = in_both(sessions, sql, on_at)?;
            on_ms += on.milliseconds / 2.0;
            off_ms += off.milliseconds / 2.0;
            if pair == 0 {
                let found = first_difference(("on", &on.rows), ("off", &off.rows));
                difference = difference.or(found);
            }
        }
        if pair > 0 {
            let most = match on_ms - off_ms < SLACK_MS {
                true => 1.0,
                false => f64::INFINITY,
            };
            ratios.push((on_ms / off_ms).min(most));
        }
        if ratios.len() >= FEWEST_PAIRS && started.elapsed() > TIME {
            break;
        }
    }
    Ok((ratios, difference))
}

/// The answers with the engine, in one of the sessions, and without it, in the other. The first
/// session begins, so that either of the two does so in one half of a pair.
fn in_both(
    sessions: &mut [Client; 2],
    sql: &str,
    on_at: usize,
) -> anyhow::Result<(Answer, Answer)> {
    let mut answers = [None, None];
    for (at, session) in sessions.iter_mut().enumerate() {
        let (side, setting) = if at == on_at { (0, "on") } else { (1, "off") };
        session.batch_execute(&format!("SET howdah.vectorized = {setting}"))?;
        answers[side] = ask(session, sql)?;
    }
    let [with, without] = answers;
    with.zip(without).with_context(|| format!("refused: {sql}"))
}
