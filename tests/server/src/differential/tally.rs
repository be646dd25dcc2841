//! What a run did: how often each kind of statement ran and failed, which parts of the cold side it
//! reached, and which known limits it reached.

use std::collections::BTreeMap;
use std::fmt;

use super::limits::Limit;
use super::session::Outcome;

#[derive(Debug, Default, Clone, Copy)]
struct Runs {
    done_count: u64,
    failed_count: u64,
    waiting_count: u64,
}

/// All counters; one set per worker, added up at the end.
#[derive(Debug, Default)]
pub struct Tally {
    pub finished_count: u64,
    /// Scripts that ended at a known limit, or reached one that could be avoided.
    pub cut_short_count: u64,
    /// Those of them that agreed to the end without it.
    pub avoided_count: u64,
    pub races: Vec<String>,
    pub differences: Vec<String>,
    statements: BTreeMap<String, Runs>,
    codes: BTreeMap<String, u64>,
    limits: BTreeMap<&'static str, u64>,
    reached: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts a statement of a session; a statement without an outcome waits.
    pub(super) fn statement(&mut self, text: &str, outcome: Option<&Outcome>) {
        let runs = self.statements.entry(kind_of(text)).or_default();
        match outcome {
            None => runs.waiting_count += 1,
            Some(Outcome::Done { .. }) => runs.done_count += 1,
            Some(Outcome::Error(_) | Outcome::Lost(_)) => runs.failed_count += 1,
        }
        if let Some(Outcome::Error(refusal)) = outcome {
            *self.codes.entry(refusal.sqlstate.clone()).or_default() += 1;
        }
    }

    pub(super) fn limit(&mut self, limit: Limit) {
        *self.limits.entry(limit.told()).or_default() += 1;
    }

    /// Counts a script that left something of this kind in a cold store.
    pub(super) fn reached(&mut self, what: &str) {
        *self.reached.entry(what.to_owned()).or_default() += 1;
    }

    pub fn add(&mut self, other: Tally) {
        self.finished_count += other.finished_count;
        self.cut_short_count += other.cut_short_count;
        self.avoided_count += other.avoided_count;
        self.races.extend(other.races);
        self.differences.extend(other.differences);
        for (kind, runs) in other.statements {
            let sum = self.statements.entry(kind).or_default();
            sum.done_count += runs.done_count;
            sum.failed_count += runs.failed_count;
            sum.waiting_count += runs.waiting_count;
        }
        for (code, count) in other.codes {
            *self.codes.entry(code).or_default() += count;
        }
        for (name, count) in other.limits {
            *self.limits.entry(name).or_default() += count;
        }
        for (what, count) in other.reached {
            *self.reached.entry(what).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} scripts ran to their end, {} up to a known limit ({} to their end without it), {} differed, {} raced",
            self.finished_count,
            self.cut_short_count,
            self.avoided_count,
            self.differences.len(),
            self.races.len()
        )?;
        writeln!(f, "     done  failed  waited")?;
        for (kind, runs) in &self.statements {
            writeln!(
                f,
                "{:>9} {:>7} {:>7}  {kind}",
                runs.done_count, runs.failed_count, runs.waiting_count
            )?;
        }
        for (title, counts) in [
            (
                "SQLSTATEs",
                self.codes
                    .iter()
                    .map(|(code, count)| (code.as_str(), count))
                    .collect::<Vec<_>>(),
            ),
            (
                "known limits met",
                self.limits
                    .iter()
                    .map(|(name, count)| (*name, count))
                    .collect(),
            ),
            (
                "scripts that left",
                self.reached
                    .iter()
                    .map(|(what, count)| (what.as_str(), count))
                    .collect(),
            ),
        ] {
            writeln!(f, "{title}")?;
            for (name, count) in counts {
                writeln!(f, "{count:>9}  {name}")?;
            }
        }
        Ok(())
    }
}

/// Words that tell kinds of statements apart, at any position; the first match counts.
const TELLING: [&str; 22] = [
    "WHERE CURRENT OF",
    "ON CONFLICT DO NOTHING",
    "DO NOTHING",
    "DO UPDATE",
    "FOR NO KEY UPDATE NOWAIT",
    "FOR NO KEY UPDATE SKIP LOCKED",
    "FOR NO KEY UPDATE",
    "FOR KEY SHARE NOWAIT",
    "FOR KEY SHARE SKIP LOCKED",
    "FOR KEY SHARE",
    "FOR UPDATE NOWAIT",
    "FOR UPDATE SKIP LOCKED",
    "FOR UPDATE",
    "FOR SHARE NOWAIT",
    "FOR SHARE SKIP LOCKED",
    "FOR SHARE",
    "WITH HOLD",
    "EXCEPTION WHEN",
    "ctid",
    "DELETE FROM t",
    "UPDATE t",
    "INSERT INTO t",
];

/// The kind of a statement: its first words, and the word that distinguishes it from others with
/// the same ones.
fn kind_of(text: &str) -> String {
    let words: Vec<&str> = text
        .split([' ', ';', '(', '\n'])
        .filter(|word| !word.is_empty())
        .collect();
    let first = words.first().copied().unwrap_or_default();
    let leading = match first {
        "ALTER" => {
            let form = words.iter().skip(3).filter(|word| {
                word.len() > 1
                    && word
                        .chars()
                        .all(|letter| letter.is_ascii_uppercase() || letter == '_')
            });
            let form: Vec<&str> = form.take(4).copied().collect();
            return format!("ALTER TABLE {}", form.join(" "));
        }
        "CREATE" | "DROP" | "SET" | "ROLLBACK" | "COMMIT" | "PREPARE" | "REFRESH" | "REINDEX" => {
            words
                .iter()
                .take(3)
                .take_while(|word| {
                    word.chars().all(|letter| letter.is_ascii_uppercase())
                        || word.contains("enable_")
                })
                .copied()
                .collect::<Vec<_>>()
                .join(" ")
        }
        "BEGIN" => text.to_owned(),
        "UPDATE" | "DELETE" | "INSERT" => words
            .iter()
            .take(3)
            .filter(|word| !["FROM", "INTO"].contains(word) && word.len() < 8)
            .take(2)
            .copied()
            .collect::<Vec<_>>()
            .join(" "),
        _ => first.to_owned(),
    };
    let searched = !["CREATE", "MERGE", "ALTER", "ROLLBACK", "COMMIT"].contains(&first);
    match TELLING
        .iter()
        .filter(|telling| searched && text.contains(**telling))
        .find(|telling| !telling.starts_with(first))
    {
        Some(telling) => format!("{leading} … {telling}"),
        None => leading,
    }
}
