//! Replay on a standby that conflicts with old snapshots: whether it waits, and which errors the
//! sessions that hold them get.

use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use postgres::Client;

use crate::cluster::{Primary, Standby, query};

/// How far the replay of a standby got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It has replayed all that the primary has written.
    Done,
    /// It waits for a snapshot or a lock of one of its sessions.
    Waiting,
}

/// Replay that is blocked for so long is blocked by a session that does not end its statement: a
/// running statement that conflicts, such as the test's own query, ends sooner.
const HELD_UP: Duration = Duration::from_millis(1_500);

/// Waits until the standby has replayed what the primary has written so far, or is blocked by a
/// session.
///
/// # Errors
/// When neither has happened after a minute.
pub fn come_to_rest(primary: &Primary, standby: &Standby) -> anyhow::Result<Replay> {
    let mut here = primary.session()?;
    // VACUUM leaves its records in WAL buffers: they are flushed, and so sent, with this record.
    let flush = "SELECT pg_logical_emit_message(false, 'test', 'flush', true)";
    let target = query(&mut here, flush)?;
    let state = format!(
        "SELECT CASE WHEN pg_last_wal_replay_lsn() >= '{target}' THEN 'done' ELSE
           (SELECT 'waiting at ' || pg_last_wal_replay_lsn() FROM pg_stat_activity
            WHERE backend_type = 'startup'
            AND (wait_event_type = 'Lock' OR wait_event LIKE 'RecoveryConflict%')) END"
    );
    let mut there = standby.session()?;
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut since = (String::new(), Instant::now());
    while Instant::now() < deadline {
        let now = query(&mut there, &state)?;
        if now == "done" {
            return Ok(Replay::Done);
        }
        if now != since.0 {
            since = (now, Instant::now());
        } else if now.starts_with("waiting") && since.1.elapsed() > HELD_UP {
            return Ok(Replay::Waiting);
        }
        sleep(Duration::from_millis(20));
    }
    bail!("the standby neither replays {target} nor waits for a session")
}

/// Changes a setting of a running server.
///
/// # Errors
/// When it refuses.
pub fn set(session: &mut Client, setting: &str, value: &str) -> anyhow::Result<()> {
    session.batch_execute(&format!("ALTER SYSTEM SET {setting} = {value}"))?;
    session.batch_execute("SELECT pg_reload_conf()")?;
    let deadline = Instant::now() + Duration::from_secs(10);
    let show = format!("SHOW {setting}");
    while query(session, &show)? != value.trim_matches('\'') {
        ensure!(
            Instant::now() < deadline,
            "{setting} does not become {value}"
        );
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A statement that holds its session's snapshot until it is cancelled.
pub struct Sleeper(JoinHandle<Result<(), postgres::Error>>);

impl Sleeper {
    /// Sends the session, in a transaction of its own, to sleep.
    #[must_use]
    pub fn of(mut session: Client) -> Sleeper {
        Sleeper(spawn(move || session.batch_execute("SELECT pg_sleep(60)")))
    }

    /// The SQLSTATE with which it was cancelled.
    ///
    /// # Errors
    /// When nothing has cancelled it.
    pub fn woken_with(self) -> anyhow::Result<String> {
        let Ok(ended) = self.0.join() else {
            bail!("the sleeper panicked");
        };
        let Err(error) = ended else {
            bail!("the snapshot was not cancelled");
        };
        let code = error.code().context("the connection was lost")?;
        Ok(code.code().to_owned())
    }
}
