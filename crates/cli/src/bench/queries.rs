//! The analytical questions, and changes of one percent of the rows.

use postgres::Client;

use super::figure::{Figure, Goal, Unit};
use super::statement::{Rows, Run, ask, by_turns, first_difference};
use super::{Options, Side, table};
use crate::progress::{Counting, Progress};

/// One question; `T` stands for the table, `FROM_TIME` and `TO_TIME` for 1 % of its time range,
/// `FROM_KEY` and `TO_KEY` for 1 % of its keys.
pub(super) struct Question {
    pub title: &'static str,
    pub sql: &'static str,
    /// The text for DuckDB, where its syntax differs.
    pub duckdb_sql: Option<&'static str>,
    goal: Option<Goal>,
    /// Whether it changes rows; it is then rolled back after each run.
    pub changes: bool,
}

/// What a question that needs no join must reach.
const BESIDE_DUCKDB: Option<Goal> = Some(Goal::DuckDbAtMost {
    times: 1.0,
    plus: 0.5,
});

const fn question(title: &'static str, sql: &'static str) -> Question {
    Question {
        title,
        sql,
        duckdb_sql: None,
        goal: BESIDE_DUCKDB,
        changes: false,
    }
}

pub(super) const QUESTIONS: [Question; 13] = [
    question("all of c2, counted", "SELECT count(c2) FROM T"),
    question("count(*)", "SELECT count(*) FROM T"),
    question("sum(c1)", "SELECT sum(c1) FROM T"),
    question("distinct c2", "SELECT DISTINCT c2 FROM T"),
    question(
        "grp, count(c5)",
        "SELECT grp, count(c5) FROM T GROUP BY grp",
    ),
    question(
        "c3, avg(c5), max(c4)",
        "SELECT c3, avg(c5), max(c4) FROM T GROUP BY c3",
    ),
    question(
        "sum(c5), two range filters",
        "SELECT sum(c5) FROM T WHERE c3 BETWEEN 100 AND 299 AND c5 >= 2500",
    ),
    question(
        "sum(c5), 1% of the time",
        "SELECT sum(c5) FROM T WHERE c4 >= FROM_TIME AND c4 < TO_TIME",
    ),
    Question {
        duckdb_sql: Some(
            "SELECT c1 // 10 AS g, sum(c3) FROM T GROUP BY 1 ORDER BY sum(c3) DESC, 1 LIMIT 10",
        ),
        ..question(
            "top 10 of rows/10 groups",
            "SELECT c1 / 10 AS g, sum(c3) FROM T GROUP BY 1 ORDER BY sum(c3) DESC, 1 LIMIT 10",
        )
    },
    Question {
        goal: None,
        ..question(
            "self join on c1, counted",
            "SELECT count(*) FROM T a JOIN T b USING (c1)",
        )
    },
    question(
        "top 10 rows by c5",
        "SELECT c1, c5 FROM T ORDER BY c5 DESC, c1 LIMIT 10",
    ),
    Question {
        changes: true,
        goal: Some(Goal::RatioAtMost(2.0)),
        ..question(
            "update 1% by index",
            "UPDATE T SET c3 = c3 + 1 WHERE c1 BETWEEN FROM_KEY AND TO_KEY",
        )
    },
    Question {
        changes: true,
        goal: Some(Goal::RatioAtMost(2.0)),
        ..question(
            "delete 1% by index",
            "DELETE FROM T WHERE c1 BETWEEN FROM_KEY AND TO_KEY",
        )
    },
];

/// The statement on one table; the 1 % lies in the middle.
pub(super) fn sql(text: &str, table: &str, rows: u64) -> String {
    let (from, to) = (rows / 2, rows / 2 + rows / 100);
    let time = |second: u64| format!("('2026-01-01'::timestamp + {second} * interval '1 second')");
    text.replace("FROM_TIME", &time(from))
        .replace("TO_TIME", &time(to))
        .replace("FROM_KEY", &from.to_string())
        .replace("TO_KEY", &(to - 1).to_string())
        .split(' ')
        .map(|word| if word == "T" { table } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

/// A question's figure, with heap's answer, with which those of other engines are compared.
pub(super) struct Asked {
    pub figure: Figure,
    pub question: &'static Question,
    pub answer: Rows,
}

pub(super) fn measure(client: &mut Client, options: &Options) -> anyhow::Result<Vec<Asked>> {
    let mut progress = Progress::of("querying", QUESTIONS.len() as u64, Counting::Things);
    let mut all = Vec::new();
    for question in &QUESTIONS {
        let mut figure = Figure::new(question.title, Unit::Milliseconds).with_goal(question.goal);
        let sides = by_turns(options.runs, |at| {
            once(client, question, Side::BOTH[at], options.rows)
        })?;
        let [heap, howdah] = sides;
        (figure.heap, figure.howdah) = (heap.0, howdah.0);
        if let (Some(heap), Some(howdah)) = (&heap.1, &howdah.1) {
            figure.difference = first_difference(("heap", heap), ("howdah", howdah));
        }
        all.push(Asked {
            figure,
            question,
            answer: heap.1.unwrap_or_default(),
        });
        progress.advance(1, question.title);
    }
    progress.finish(&format!("{} questions on both sides", QUESTIONS.len()));
    Ok(all)
}

fn once(client: &mut Client, question: &Question, side: Side, rows: u64) -> anyhow::Result<Run> {
    let statement = sql(question.sql, &table::name(side), rows);
    if !question.changes {
        let answer = ask(client, &statement)?;
        return Ok(match answer {
            Some(answer) => (Some(answer.milliseconds), Some(answer.rows)),
            None => (None, None),
        });
    }
    client.batch_execute("BEGIN")?;
    let answer = ask(client, &statement);
    client.batch_execute("ROLLBACK")?;
    Ok((answer?.map(|answer| answer.milliseconds), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lone_letter_stands_for_the_table() {
        let text = sql(
            "SELECT count(*) FROM T a JOIN T b USING (c1)",
            "bench.t",
            1000,
        );
        assert_eq!(
            text,
            "SELECT count(*) FROM bench.t a JOIN bench.t b USING (c1)"
        );
        let text = sql(
            "DELETE FROM T WHERE c1 BETWEEN FROM_KEY AND TO_KEY",
            "x",
            1000,
        );
        assert_eq!(text, "DELETE FROM x WHERE c1 BETWEEN 500 AND 509");
    }
}
