//! A session in a thread of its own: statements go in, outcomes come out, so that a statement that
//! waits for a lock does not block the test.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use postgres::error::DbError;
use postgres::{Client, SimpleQueryMessage};

/// How a statement ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The row counts of its commands, and the rows it returned, sorted unless it has an ORDER BY.
    Done {
        counts: Vec<u64>,
        rows: Vec<String>,
    },
    Error(Refusal),
    /// The connection broke.
    Lost(String),
}

/// An error of the server. Two are equal if their codes are: the messages may name TIDs.
#[derive(Clone)]
pub(super) struct Refusal {
    pub sqlstate: String,
    /// Its message, with detail, context and the server's function where it has them.
    message: String,
}

impl Refusal {
    fn of(error: &DbError) -> Refusal {
        let parts = [
            Some(error.message()),
            error.detail(),
            error.where_(),
            error.routine(),
        ];
        Refusal {
            sqlstate: error.code().code().to_owned(),
            message: parts.into_iter().flatten().collect::<Vec<_>>().join(" / "),
        }
    }
}

impl Refusal {
    pub fn tells(&self, words: &str) -> bool {
        self.message.contains(words)
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.sqlstate, self.message)
    }
}

impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        self.sqlstate == other.sqlstate
    }
}

impl Eq for Refusal {}

impl Outcome {
    pub fn of(client: &mut Client, sql: &str) -> Outcome {
        let messages = match client.simple_query(sql) {
            Ok(messages) => messages,
            Err(error) => {
                // The error is reported before the transaction's locks are released; the answer to
                // an empty query comes after that.
                let _ = client.simple_query("");
                return match error.as_db_error() {
                    Some(one) if !client.is_closed() => Outcome::Error(Refusal::of(one)),
                    _ => Outcome::Lost(error.to_string()),
                };
            }
        };
        let (mut counts, mut rows) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                SimpleQueryMessage::CommandComplete(count) => counts.push(count),
                SimpleQueryMessage::Row(row) => {
                    let fields = (0..row.len()).map(|index| row.get(index).unwrap_or("∅"));
                    rows.push(fields.collect::<Vec<_>>().join("|"));
                }
                _ => {}
            }
        }
        let changes_rows = ["WITH", "INSERT", "UPDATE", "DELETE", "MERGE"]
            .iter()
            .any(|word| sql.starts_with(word));
        if changes_rows || !sql.contains("ORDER BY") {
            rows.sort_unstable();
        }
        Outcome::Done { counts, rows }
    }

    /// Whether both outcomes are allowed: a statement that violates several constraints may report
    /// any of them.
    pub fn agrees(&self, other: &Outcome) -> bool {
        let is_violation =
            |one: &Outcome| matches!(one, Outcome::Error(one) if one.sqlstate.starts_with("23"));
        self == other || (is_violation(self) && is_violation(other))
    }

    pub fn has_code(&self, sqlstate: &str) -> bool {
        matches!(self, Outcome::Error(one) if one.sqlstate == sqlstate)
    }
}

pub(super) struct Session {
    statements: Sender<String>,
    outcomes: Receiver<Outcome>,
    pub pid: i32,
    pub is_busy: bool,
}

impl Session {
    pub fn start(mut client: Client) -> anyhow::Result<Session> {
        let pid = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        let (statements, incoming) = channel::<String>();
        let (outgoing, outcomes) = channel();
        thread::spawn(move || {
            for sql in incoming {
                if outgoing.send(Outcome::of(&mut client, &sql)).is_err() {
                    return;
                }
            }
        });
        Ok(Session {
            statements,
            outcomes,
            pid,
            is_busy: false,
        })
    }

    /// Ends what is open in an idle session and resets it; false if that fails.
    pub fn is_clean(&mut self) -> anyhow::Result<bool> {
        for sql in ["ROLLBACK", "DISCARD ALL"] {
            self.send(sql)?;
            let outcome = self.outcome(Duration::from_secs(20))?;
            if !matches!(outcome, Some(Outcome::Done { .. })) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn send(&mut self, sql: &str) -> anyhow::Result<()> {
        self.is_busy = true;
        self.statements
            .send(sql.to_owned())
            .context("a session's thread is gone")
    }

    /// The outcome of the running statement, if it ends within `patience`.
    pub fn outcome(&mut self, patience: Duration) -> anyhow::Result<Option<Outcome>> {
        match self.outcomes.recv_timeout(patience) {
            Ok(outcome) => {
                self.is_busy = false;
                Ok(Some(outcome))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("a session's thread is gone"),
        }
    }
}
