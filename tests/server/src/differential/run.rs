//! Runs a case on both tables and compares.

use anyhow::{Context as _, bail, ensure};
use postgres::{Client, SimpleQueryMessage};

use super::generate::Case;
use crate::cluster::query;

/// How a statement ended: rows affected by each command, or the SQLSTATE.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Rows(Vec<u64>),
    Error(String),
}

const HOWDAH: &str = "c";
const HEAP: &str = "h";

fn outcome(client: &mut Client, sql: &str) -> Outcome {
    match client.simple_query(sql) {
        Ok(messages) => Outcome::Rows(
            messages
                .iter()
                .filter_map(|m| match m {
                    SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
                    _ => None,
                })
                .collect(),
        ),
        Err(error) => Outcome::Error(
            error
                .code()
                .map_or_else(|| error.to_string(), |code| code.code().to_owned()),
        ),
    }
}

fn on(table: &str, sql: &str) -> String {
    sql.replace("{t}", table).replace("{x}", table)
}

/// Runs one statement on both tables inside savepoints; leaves the transaction usable.
fn run_both(client: &mut Client, sql: &str) -> anyhow::Result<()> {
    client.batch_execute("SAVEPOINT s")?;
    let howdah = outcome(client, &on(HOWDAH, sql));
    if matches!(howdah, Outcome::Error(_)) {
        client.batch_execute("ROLLBACK TO s")?;
    }
    if howdah == Outcome::Error("0A000".to_owned()) {
        return Ok(());
    }
    client.batch_execute("SAVEPOINT s")?;
    let heap = outcome(client, &on(HEAP, sql));
    if matches!(heap, Outcome::Error(_)) {
        client.batch_execute("ROLLBACK TO s")?;
    }
    ensure!(
        howdah == heap,
        "howdah ended with {howdah:?}, heap with {heap:?}, in: {sql}"
    );
    Ok(())
}

fn compare_contents(client: &mut Client) -> anyhow::Result<()> {
    for (left, right) in [(HOWDAH, HEAP), (HEAP, HOWDAH)] {
        // Compared as text: exact scale and bits, and for types without equality too.
        let sql = format!(
            "SELECT r FROM (SELECT t::text AS r FROM {left} t EXCEPT ALL SELECT t::text FROM {right} t) d LIMIT 3"
        );
        let extra = query(client, &sql)?;
        ensure!(
            extra.is_empty(),
            "rows in {left} that are not in {right}:\n{extra}"
        );
    }
    Ok(())
}

const PLANS: &[&str] = &[
    "SET LOCAL enable_seqscan = on",
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off",
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off",
    "SET LOCAL debug_parallel_query = on; SET LOCAL parallel_setup_cost = 0; SET LOCAL min_parallel_table_scan_size = 0",
];

fn compare_reads(client: &mut Client, case: &mut Case) -> anyhow::Result<()> {
    let predicate = case.predicate();
    let plan = *case.dice().pick(PLANS);
    let digest = |table: &str| {
        format!(
            "SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0), min(id), max(id) FROM {table} t WHERE {predicate}"
        )
    };
    client.batch_execute("SAVEPOINT plan")?;
    client.batch_execute(plan)?;
    let read = |client: &mut Client, table: &str| match query(client, &digest(table)) {
        Ok(rows) => Ok(rows),
        Err(error) => {
            client.batch_execute("ROLLBACK TO plan")?;
            client.batch_execute(plan)?;
            // Only the SQLSTATE matters: a filter may not fit its column's type.
            match error
                .downcast_ref::<postgres::Error>()
                .and_then(|e| e.code().cloned())
            {
                Some(code) => Ok(code.code().to_owned()),
                None => Err(error),
            }
        }
    };
    let (howdah, heap) = (read(client, HOWDAH)?, read(client, HEAP)?);
    client.batch_execute("ROLLBACK TO plan")?;
    if howdah != heap {
        bail!("reads differ WHERE {predicate} under \"{plan}\": howdah {howdah}, heap {heap}");
    }
    Ok(())
}

fn maintain(client: &mut Client, sql: &str) -> anyhow::Result<()> {
    if sql.starts_with("COMPACT") {
        client.batch_execute(&format!("CALL howdah.compact('{HOWDAH}')"))?;
        return Ok(());
    }
    client.batch_execute(&on(HOWDAH, sql))?;
    client.batch_execute(&on(HEAP, sql))?;
    Ok(())
}

/// Runs the case of one seed: `steps` statements in transactions that commit or roll back.
///
/// # Errors
/// The first difference, with the seed and the statements that led to it.
pub fn run_case(client: &mut Client, seed: u64, steps: usize) -> anyhow::Result<()> {
    let mut case = Case::new(seed);
    let columns = case.create();
    client.batch_execute(&format!(
        "DROP TABLE IF EXISTS {HOWDAH}, {HEAP};
         CREATE TABLE {HOWDAH} {columns} USING howdah; CREATE TABLE {HEAP} {columns} USING heap;
         SET howdah.load_threshold = 50; SET datestyle = iso; SET timezone = 'UTC'"
    ))?;
    let mut history = vec![format!("CREATE TABLE {{t}} {columns}")];
    let mut body = |history: &mut Vec<String>| -> anyhow::Result<()> {
        let mut step = 0;
        while step < steps {
            client.batch_execute("BEGIN")?;
            history.push("BEGIN".to_owned());
            // A transaction that changes the schema commits, so that generator and table agree.
            let mut must_commit = false;
            for _ in 0..1 + case.dice().below(6) {
                let sql = case.statement();
                must_commit |= ["CREATE", "ALTER", "DROP"]
                    .iter()
                    .any(|w| sql.starts_with(w));
                history.push(sql.clone());
                run_both(client, &sql)?;
                compare_reads(client, &mut case)?;
                step += 1;
            }
            compare_contents(client)?;
            let end = if !must_commit && case.dice().one_in(4) {
                "ROLLBACK"
            } else {
                "COMMIT"
            };
            client.batch_execute(end)?;
            history.push(end.to_owned());
            compare_contents(client)?;
            if let Some(sql) = case.maintenance() {
                history.push(sql.to_owned());
                maintain(client, sql)?;
                compare_contents(client)?;
            }
        }
        Ok(())
    };
    let result = body(&mut history);
    result.with_context(|| {
        // A transaction may be open; the next case starts clean.
        format!("seed {seed}, after:\n  {}", history.join(";\n  "))
    })
}
