//! The two worlds: a database whose tables are howdah, and one whose tables are heap.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use postgres::Client;

use super::script::Script;
use super::session::{Outcome, Session};
use crate::cluster::{Primary, query};

/// What is compared with heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Howdah,
    /// Heap with itself: any difference is then a fault of the test.
    Heap,
}

/// Where a script's rows lie on heap. It must not matter, but it does where several have one key in
/// an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    AsInserted,
    /// Behind free line pointers, so that rows inserted or updated later get places before them, as
    /// hot rows lie before cold ones.
    BehindLaterOnes,
}

/// Rows that are deleted to free places: more than the versions that a script makes before the next
/// VACUUM.
const PLACE_COUNT: u64 = 2_000;

/// How long a statement may run before the test checks whether it waits.
const FIRST_LOOK: Duration = Duration::from_millis(4);
/// A session that waits for this long is in no deadlock: several times `deadlock_timeout`.
const SETTLED_AFTER: Duration = Duration::from_millis(40);

/// No statement of a script takes this long, on any machine.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// NULL where there is no such setting.
const SHOW_COMPACTION: &str = "SELECT current_setting('howdah.compaction', true)";

pub(super) struct World {
    database: String,
    is_howdah: bool,
    pub sessions: Vec<Session>,
    pub control: Client,
}

pub struct Worlds<'a> {
    primary: &'a Primary,
    pub(super) howdah: World,
    pub(super) heap: World,
}

impl<'a> Worlds<'a> {
    /// # Errors
    /// When the databases cannot be made.
    pub fn create(
        primary: &'a Primary,
        subject: Subject,
        worker: usize,
    ) -> anyhow::Result<Worlds<'a>> {
        let mut maker = primary.connect("postgres")?;
        let method = match subject {
            Subject::Howdah => "howdah",
            Subject::Heap => "heap",
        };
        let (ours, heaps) = (
            format!("world_howdah_{worker}"),
            format!("world_heap_{worker}"),
        );
        for (database, method) in [(&ours, method), (&heaps, "heap")] {
            maker.batch_execute(&format!("DROP DATABASE IF EXISTS {database}"))?;
            maker.batch_execute(&format!("CREATE DATABASE {database}"))?;
            primary.connect(database)?.batch_execute(
                "SET client_min_messages = warning;
                 CREATE EXTENSION howdah; CREATE EXTENSION btree_gist; CREATE EXTENSION amcheck;
                 CREATE EXTENSION pgrowlocks",
            )?;
            for setting in [
                format!("default_table_access_method = {method}"),
                "search_path = w, public".into(),
                "timezone = 'UTC'".into(),
                "client_min_messages = error".into(),
            ] {
                maker.batch_execute(&format!("ALTER DATABASE {database} SET {setting}"))?;
            }
        }
        Ok(Worlds {
            primary,
            howdah: World::open(primary, ours, subject == Subject::Howdah)?,
            heap: World::open(primary, heaps, false)?,
        })
    }

    /// Empties both worlds and sets up what the script needs, in sessions of its own.
    ///
    /// # Errors
    /// When the setup fails: it must not.
    pub(super) fn begin(&mut self, script: &Script, on_heap: Places) -> anyhow::Result<()> {
        for world in [&mut self.howdah, &mut self.heap] {
            if world.control.is_closed() {
                *world = World::open(self.primary, world.database.clone(), world.is_howdah)?;
            }
        }
        self.howdah
            .begin(self.primary, script, Places::AsInserted)?;
        self.heap.begin(self.primary, script, on_heap)
    }

    /// Ends what a script has left open.
    ///
    /// # Errors
    /// When a session cannot be cancelled.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        self.howdah.end()?;
        self.heap.end()
    }
}

impl World {
    fn open(primary: &Primary, database: String, is_howdah: bool) -> anyhow::Result<World> {
        let deadline = Instant::now() + HANGS_AFTER;
        let mut control = loop {
            match primary.connect(&database) {
                Ok(client) => break client,
                // The server may be recovering from a crash that the last script caused.
                Err(error) if Instant::now() > deadline => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        control.batch_execute("SET lock_timeout = '40ms'; SET statement_timeout = '10s'")?;
        Ok(World {
            database,
            is_howdah,
            sessions: Vec::new(),
            control,
        })
    }

    pub fn is_howdah(&self) -> bool {
        self.is_howdah
    }

    fn begin(&mut self, primary: &Primary, script: &Script, places: Places) -> anyhow::Result<()> {
        let clear = "RESET lock_timeout; DROP SCHEMA IF EXISTS w CASCADE; CREATE SCHEMA w";
        if let Err(error) = self.control.batch_execute(clear) {
            let holders = "SELECT pid, state, relation::regclass, locktype, mode, query
                FROM pg_locks LEFT JOIN pg_stat_activity USING (pid) WHERE granted";
            let holders = query(&mut self.control, holders)?;
            return Err(error).context(format!("in {}: {clear}\n{holders}", self.database));
        }
        for statement in &placed(&script.setup, places) {
            self.control
                .batch_execute(statement)
                .with_context(|| format!("in {}: {statement}", self.database))?;
        }
        self.control.batch_execute("SET lock_timeout = '40ms'")?;
        let ours: &[String] = if self.is_howdah {
            &script.howdah_settings
        } else {
            &[]
        };
        let mut settings: Vec<String> = script.settings.iter().chain(ours).cloned().collect();
        if script.session_count == 1 && query(&mut self.control, SHOW_COMPACTION)? == "on" {
            // A worker's step may take longer than the scripts' own timeout on a machine that is
            // busy.
            settings.push("SET lock_timeout = '500ms'".to_owned());
        }
        self.sessions.truncate(script.session_count);
        while self.sessions.len() < script.session_count {
            self.sessions
                .push(Session::start(primary.connect(&self.database)?)?);
        }
        for number in 0..self.sessions.len() {
            let outcomes = self.step(number, &format!("{}; SELECT 1", settings.join("; ")))?;
            ensure!(
                matches!(outcomes[..], [(_, Outcome::Done { .. })]),
                "settings: {outcomes:?}"
            );
        }
        Ok(())
    }

    /// Runs a statement in a session, and waits until every session has ended its statement or
    /// waits for another session; returns the outcomes of those that have ended.
    pub fn step(&mut self, session: usize, sql: &str) -> anyhow::Result<Vec<(usize, Outcome)>> {
        let method = if self.is_howdah { "howdah" } else { "heap" };
        let sql = sql.replace("{w}", &self.database).replace("{am}", method);
        self.sessions[session].send(&sql)?;
        let mut ended = Vec::new();
        let deadline = Instant::now() + HANGS_AFTER;
        let mut patience = FIRST_LOOK;
        loop {
            // The session that got the statement usually ends first.
            let others = (0..self.sessions.len()).filter(|number| *number != session);
            let numbers: Vec<usize> = std::iter::once(session).chain(others).collect();
            for number in numbers {
                let session = &mut self.sessions[number];
                if session.is_busy
                    && let Some(outcome) = session.outcome(patience)?
                {
                    ended.push((number, outcome));
                }
                if session.is_busy {
                    patience = Duration::ZERO;
                }
            }
            let Some(longer) = self.wait_is_unfinished()? else {
                break;
            };
            patience = longer;
            if Instant::now() > deadline {
                bail!("{} hangs in: {sql}", self.database);
            }
        }
        // A session may have ended between the last check of it and the check of the locks.
        for (number, session) in self.sessions.iter_mut().enumerate() {
            if session.is_busy
                && let Some(outcome) = session.outcome(Duration::ZERO)?
            {
                ended.push((number, outcome));
            }
        }
        ended.sort_by_key(|(number, _)| *number);
        Ok(ended)
    }

    /// How much longer to wait for the busy sessions; `None` if each has waited for a lock, and
    /// long enough that a deadlock would have been found.
    fn wait_is_unfinished(&mut self) -> anyhow::Result<Option<Duration>> {
        let busy: Vec<String> = self
            .sessions
            .iter()
            .filter(|session| session.is_busy)
            .map(|session| session.pid.to_string())
            .collect();
        if busy.is_empty() {
            return Ok(None);
        }
        let waiting = format!(
            "SELECT count(DISTINCT pid),
                    extract(milliseconds FROM clock_timestamp() - max(waitstart))::bigint
             FROM pg_locks
             WHERE pid IN ({}) AND NOT granted AND waitstart IS NOT NULL
               AND cardinality(pg_blocking_pids(pid)) > 0",
            busy.join(", ")
        );
        let answer = query(&mut self.control, &waiting)?;
        let (count, age_ms) = answer.split_once('|').context("one row of two columns")?;
        if count != busy.len().to_string() {
            return Ok(Some(FIRST_LOOK));
        }
        let age = Duration::from_millis(age_ms.parse().unwrap_or_default());
        // The only session waits for a prepared transaction, until its lock_timeout.
        let settled = if self.sessions.len() == 1 {
            HANGS_AFTER
        } else {
            SETTLED_AFTER
        };
        let left = settled.saturating_sub(age).min(SETTLED_AFTER);
        Ok((!left.is_zero()).then(|| left + Duration::from_millis(1)))
    }

    /// The sessions that wait.
    pub fn waiting(&self) -> Vec<usize> {
        let numbered = self.sessions.iter().enumerate();
        numbered
            .filter(|(_, session)| session.is_busy)
            .map(|(number, _)| number)
            .collect()
    }

    /// Ends whatever is still running.
    ///
    /// # Errors
    /// When a session cannot be cancelled.
    pub fn end(&mut self) -> anyhow::Result<()> {
        if self.control.is_closed() {
            self.sessions.clear();
            return Ok(());
        }
        // A session is used again by the next script, unless it still waits or has died.
        let mut kept = Vec::new();
        for mut session in std::mem::take(&mut self.sessions) {
            if !session.is_busy && session.is_clean()? {
                kept.push(session);
            } else {
                query(
                    &mut self.control,
                    &format!("SELECT pg_terminate_backend({}, 20000)", session.pid),
                )?;
            }
        }
        self.sessions = kept;
        let prepared = format!(
            "SELECT gid FROM pg_prepared_xacts WHERE database = '{}'",
            self.database
        );
        for gid in query(&mut self.control, &prepared)?.lines() {
            self.control
                .batch_execute(&format!("ROLLBACK PREPARED '{gid}'"))?;
        }
        let left = format!(
            "SELECT count(*) FROM pg_prepared_xacts WHERE database = '{}'",
            self.database
        );
        ensure!(query(&mut self.control, &left)? == "0");
        Ok(())
    }
}

/// The statements of a setup that store the rows of `t` at the intended places.
fn placed(setup: &[String], places: Places) -> Vec<String> {
    let mut statements = Vec::new();
    for statement in setup {
        let moves = places == Places::BehindLaterOnes && statement.starts_with("INSERT INTO t ");
        if moves {
            statements.push(format!(
                "INSERT INTO t (id) SELECT -i FROM generate_series(1, {PLACE_COUNT}) i"
            ));
        }
        statements.push(statement.clone());
        if moves {
            statements.push("DELETE FROM t WHERE id < 0".into());
            statements.push("VACUUM (INDEX_CLEANUP on) t".into());
        }
    }
    statements
}
