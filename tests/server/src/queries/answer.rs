//! Answers of queries, as far as they do not depend on the order of rows; and their plans.

use anyhow::{Context as _, ensure};
use postgres::{Client, SimpleQueryMessage};

/// The rows of a query as text, sorted; or the SQLSTATE of its error.
pub type Answer = Result<Vec<String>, String>;

/// Asks a query. A transaction that it began has ended when this returns.
///
/// # Errors
/// When the session ends, or the error is an internal one (`XX000` and the like).
pub fn answer(session: &mut Client, query: &str) -> anyhow::Result<Answer> {
    match session.simple_query(query) {
        Ok(messages) => {
            let mut rows = Vec::new();
            for message in messages {
                if let SimpleQueryMessage::Row(row) = message {
                    let texts = (0..row.len()).map(|at| match row.get(at) {
                        // Which of two equal values is shown depends on the order of rows.
                        Some("-0") => "0",
                        Some(text) => text,
                        None => "NULL",
                    });
                    rows.push(texts.collect::<Vec<_>>().join("|"));
                }
            }
            rows.sort_unstable();
            Ok(Ok(rows))
        }
        Err(error) => {
            let code = error.code().with_context(|| format!("{query}: {error}"))?;
            ensure!(!code.code().starts_with("XX"), "{query}: {error:?}");
            session.batch_execute("ROLLBACK")?;
            Ok(Err(code.code().to_owned()))
        }
    }
}

/// Equal numerics of different display scales are one group, shown as any of them.
fn without_trailing_zeros(rows: &[String]) -> Vec<String> {
    let mut rows: Vec<String> = (rows.iter())
        .map(|row| {
            let texts = row.split('|').map(|text| match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.'),
                false => text,
            });
            texts.collect::<Vec<_>>().join("|")
        })
        .collect();
    rows.sort_unstable();
    rows
}

/// Whether two queries over the same rows may have these answers.
#[must_use]
pub fn same(a: &[String], b: &[String]) -> bool {
    a == b || without_trailing_zeros(a) == without_trailing_zeros(b)
}

/// What the engine does of a query, as EXPLAIN tells.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The engine runs it.
    pub is_vectorized: bool,
    /// PostgreSQL evaluates a part of it for the engine.
    pub has_foreign: bool,
}

/// How a query is planned.
///
/// # Errors
/// When it cannot be explained.
pub fn plan(session: &mut Client, query: &str) -> anyhow::Result<Plan> {
    let explain = format!("EXPLAIN (COSTS OFF) {query}");
    let messages = session.simple_query(&explain).context(explain)?;
    let has = |text: &str| {
        messages.iter().any(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).is_some_and(|line| line.contains(text)),
            _ => false,
        })
    };
    Ok(Plan {
        is_vectorized: has("(Vectorized)"),
        has_foreign: has("Evaluated by PostgreSQL:"),
    })
}
