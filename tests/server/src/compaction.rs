//! Compactions that wait at stop points (`howdah.debug_stop_point`), held by the advisory lock
//! 7468, and what tests of compaction share; no such test depends on a sleep for correctness.

use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::ensure;
use postgres::{Client, SimpleQueryMessage};

use crate::cluster::{Primary, query};

/// The beginning of a query that tells the contents of a table like [`MAKE`]'s.
pub const DIGEST: &str =
    "SELECT count(*), sum(id), sum(k), md5(string_agg(id || ':' || k || word, ',' ORDER BY id))";

/// A table with indexes of several kinds, all rows hot and all-visible.
pub const MAKE: &str = "
    CREATE TABLE t (id int PRIMARY KEY, k int, word text) USING howdah;
    CREATE INDEX ON t (k);
    CREATE INDEX ON t USING hash (word);
    CREATE INDEX ON t (lower(word)) WHERE k < 10;
    SET howdah.bulk_load = off;
    INSERT INTO t SELECT i, i % 100, 'word ' || i FROM generate_series(1, 20000) i;";

/// A server without background compaction and autovacuum.
///
/// # Errors
/// When it does not start.
pub fn start(name: &str) -> anyhow::Result<Primary> {
    Primary::start(name, &[("howdah.compaction", "off"), ("autovacuum", "off")])
}

/// Such a server with the table that [`MAKE`] makes, and a session on it.
///
/// # Errors
/// When it does not start.
pub fn start_with_table(name: &str) -> anyhow::Result<(Primary, Client)> {
    let primary = start(name)?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    Ok((primary, session))
}

/// The SQLSTATE of a failed statement, or what it returned.
#[must_use]
pub fn outcome(client: &mut Client, sql: &str) -> String {
    match client.simple_query(sql) {
        Ok(messages) => messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("∅").to_owned()),
                SimpleQueryMessage::CommandComplete(rows) => Some(format!("{rows} rows")),
                _ => None,
            })
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => error
            .code()
            .map_or_else(|| error.to_string(), |code| code.code().to_owned()),
    }
}

/// Runs a statement in a thread of its own.
#[must_use]
pub fn in_background(mut client: Client, sql: String) -> JoinHandle<String> {
    thread::spawn(move || outcome(&mut client, &sql))
}

/// The [`outcome`] of a statement in the background, when it has ended.
#[must_use]
pub fn joined(handle: JoinHandle<String>) -> String {
    handle.join().unwrap_or_else(|_| "panicked".to_owned())
}

/// Waits until the condition, a query that returns t, holds.
///
/// # Errors
/// When it does not hold within a minute.
pub fn wait_until(client: &mut Client, condition: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while query(client, condition)? != "t" {
        ensure!(Instant::now() < deadline, "never came true: {condition}");
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A mover that waits at a stop point until it is released.
pub struct Stopped {
    keeper: Client,
    mover: JoinHandle<String>,
    mover_pid: String,
}

impl Stopped {
    /// Starts a compaction of `t`, and waits until it has reached the stop point.
    ///
    /// # Errors
    /// When it does not reach it.
    pub fn at(primary: &Primary, point: &str) -> anyhow::Result<Stopped> {
        let mut keeper = primary.session()?;
        keeper.batch_execute("SELECT pg_advisory_lock(7468)")?;
        let mut mover = primary.session()?;
        mover.batch_execute(&format!("SET howdah.debug_stop_point = '{point}'"))?;
        let mover_pid = query(&mut mover, "SELECT pg_backend_pid()")?;
        let mover = in_background(mover, "CALL howdah.compact('t')".to_owned());
        wait_until(
            &mut keeper,
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)",
        )?;
        Ok(Stopped {
            keeper,
            mover,
            mover_pid,
        })
    }

    /// Waits until `count` sessions wait for the mover's transaction.
    ///
    /// # Errors
    /// When fewer wait.
    pub fn wait_for_waiters(&mut self, count: u32) -> anyhow::Result<()> {
        wait_until(
            &mut self.keeper,
            &format!(
                "SELECT count(*) = {count} FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"
            ),
        )
    }

    /// Lets the compaction go on, to its end.
    ///
    /// # Errors
    /// When it fails.
    pub fn let_go(mut self) -> anyhow::Result<()> {
        self.keeper
            .batch_execute("SELECT pg_advisory_unlock(7468)")?;
        let end = joined(self.mover);
        ensure!(end == "0 rows", "the mover ended with {end}");
        Ok(())
    }

    /// Cancels the compaction where it is stopped.
    ///
    /// # Errors
    /// When it ends in another way.
    pub fn cancel(mut self) -> anyhow::Result<()> {
        query(
            &mut self.keeper,
            &format!("SELECT pg_cancel_backend({})", self.mover_pid),
        )?;
        let end = joined(self.mover);
        ensure!(end == "57014", "the mover ended with {end}");
        Ok(())
    }
}

/// # Errors
/// When `t` and its heap twin `h` differ, by any scan, or an index of `t` is damaged.
pub fn same_as_twin(client: &mut Client) -> anyhow::Result<()> {
    for setting in ["enable_indexscan", "enable_seqscan"] {
        client.batch_execute(&format!("SET {setting} = off"))?;
        let howdah = query(client, &format!("{DIGEST} FROM t WHERE id > 0"))?;
        let heap = query(client, &format!("{DIGEST} FROM h WHERE id > 0"))?;
        ensure!(howdah == heap, "{setting} off: {howdah} instead of {heap}");
        client.batch_execute(&format!("RESET {setting}"))?;
    }
    client.batch_execute(
        "SELECT bt_index_check(indexrelid, false) FROM pg_index JOIN pg_class i ON i.oid = indexrelid
             WHERE indrelid = 't'::regclass AND relam = (SELECT oid FROM pg_am WHERE amname = 'btree')",
    )?;
    Ok(())
}
