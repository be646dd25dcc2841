//! The queries that run on both sides, and the comparison of their answers.
//!
//! Each is written so that its result is exact: sums of integers and numerics, minima and
//! maxima, ties broken. Two right answers are therefore equal as text, row for row once sorted.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use postgres::{Client, SimpleQueryMessage};

use super::Side;
use crate::progress::{Counting, Progress};

/// Timed runs after the first; the best one counts.
const RUNS: u32 = 3;

pub(super) struct Question {
    pub title: &'static str,
    pub sql: &'static str,
}

pub(super) const QUESTIONS: [Question; 8] = [
    Question {
        title: "flights, miles and hours in all",
        sql: "SELECT count(*), sum(distance), sum(air_time), max(dep_delay), count(dep_time) FROM flights",
    },
    Question {
        title: "delay by carrier",
        sql: "SELECT a.name, count(*), avg(f.dep_delay), avg(f.arr_delay), max(f.arr_delay)
              FROM flights f JOIN airlines a USING (carrier)
              GROUP BY a.name ORDER BY avg(f.arr_delay) DESC",
    },
    Question {
        title: "ten busiest routes",
        sql: "SELECT origin, dest, count(*), avg(distance), avg(air_time)
              FROM flights GROUP BY origin, dest ORDER BY count(*) DESC, origin, dest LIMIT 10",
    },
    Question {
        title: "delays by month",
        sql: "SELECT year, month, count(*), count(*) FILTER (WHERE dep_delay > 15),
                     count(*) FILTER (WHERE dep_time IS NULL), sum(dep_delay)
              FROM flights GROUP BY year, month ORDER BY year, month",
    },
    Question {
        title: "delays by weather (join)",
        sql: "SELECT w.visib < 3 AS fog, w.precip > 0 AS rain, w.wind_speed > 20 AS wind,
                     count(*), avg(f.dep_delay), max(f.dep_delay)
              FROM flights f JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
              GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    },
    Question {
        title: "ten largest manufacturers (join)",
        sql: "SELECT p.manufacturer, count(*), count(DISTINCT f.tailnum), sum(f.distance), max(p.seats)
              FROM flights f JOIN planes p USING (tailnum)
              GROUP BY p.manufacturer ORDER BY count(*) DESC, p.manufacturer LIMIT 10",
    },
    Question {
        title: "ten longest delays",
        sql: "SELECT time_hour, carrier, flight, origin, dest, dep_delay, arr_delay
              FROM flights WHERE arr_delay IS NOT NULL
              ORDER BY arr_delay DESC, time_hour, carrier, flight LIMIT 10",
    },
    Question {
        title: "one week in July, by day",
        sql: "SELECT date_trunc('day', time_hour), origin, count(*), sum(distance), sum(air_time)
              FROM flights
              WHERE time_hour >= '2013-07-01 00:00+00' AND time_hour < '2013-07-08 00:00+00'
              GROUP BY 1, 2 ORDER BY 1, 2",
    },
];

/// One question's outcome on both sides.
pub(super) struct Comparison {
    pub title: &'static str,
    pub row_count: usize,
    pub heap: Duration,
    pub howdah: Duration,
    /// The first line that only one side has.
    pub difference: Option<String>,
}

/// Runs every query on both sides.
pub(super) fn compare_all(client: &mut Client) -> anyhow::Result<Vec<Comparison>> {
    let runs = QUESTIONS.len() as u64 * u64::from(RUNS + 1) * Side::BOTH.len() as u64;
    let mut progress = Progress::of("querying", runs, Counting::Things);
    let mut comparisons = Vec::new();
    for question in &QUESTIONS {
        let (mut best, mut answers) = ([Duration::MAX; 2], [Vec::new(), Vec::new()]);
        // The sides take turns, so that other load on the machine affects both.
        for run in 0..=RUNS {
            for (at, side) in Side::BOTH.into_iter().enumerate() {
                let (rows, took) = ask(client, question, side)?;
                if run > 0 {
                    best[at] = best[at].min(took);
                }
                answers[at] = rows;
                progress.advance(1, question.title);
            }
        }
        let ([heap, howdah], [heap_rows, howdah_rows]) = (best, answers);
        comparisons.push(Comparison {
            title: question.title,
            row_count: heap_rows.len(),
            heap,
            howdah,
            difference: first_difference(&heap_rows, &howdah_rows),
        });
    }
    progress.finish(&format!("{} questions on both sides", QUESTIONS.len()));
    Ok(comparisons)
}

/// The sorted rows as text, and the time that one run took.
fn ask(
    client: &mut Client,
    question: &Question,
    side: Side,
) -> anyhow::Result<(Vec<String>, Duration)> {
    client.batch_execute(&format!("SET search_path = {}", side.schema()))?;
    let started = Instant::now();
    let messages = client
        .simple_query(question.sql)
        .with_context(|| format!("\"{}\" on {}", question.title, side.access_method()))?;
    let took = started.elapsed();
    let mut rows = lines(&messages);
    rows.sort_unstable();
    Ok((rows, took))
}

fn lines(messages: &[SimpleQueryMessage]) -> Vec<String> {
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| {
        let fields: Vec<&str> = (0..row.len())
            .map(|index| row.get(index).unwrap_or("NULL"))
            .collect();
        fields.join(" | ")
    })
    .collect()
}

fn first_difference(heap: &[String], howdah: &[String]) -> Option<String> {
    let at = (0..heap.len().max(howdah.len())).find(|at| heap.get(*at) != howdah.get(*at))?;
    let show = |rows: &[String]| {
        rows.get(at)
            .map_or("nothing".to_owned(), |row| format!("({row})"))
    };
    Some(format!(
        "heap says {}, howdah says {}",
        show(heap),
        show(howdah)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_results_have_no_difference_and_others_name_the_first() {
        let rows = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            first_difference(&rows(&["a", "b"]), &rows(&["a", "b"])),
            None
        );
        let text = first_difference(&rows(&["a", "b"]), &rows(&["a", "c"])).expect("a difference");
        assert_eq!(text, "heap says (b), howdah says (c)");
        let text = first_difference(&rows(&["a"]), &rows(&[])).expect("a difference");
        assert_eq!(text, "heap says (a), howdah says nothing");
    }
}
