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
    /// Heap with itself: whatever differs then is the tester's fault.
    Heap,
}

/// No statement of a script takes this long, on whatever machine.
const HANGS_AFTER: Duration = Duration::from_secs(60);

pub(super) struct World {
    database: &'static str,
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
    pub fn create(primary: &'a Primary, subject: Subject) -> anyhow::Result<Worlds<'a>> {
        let mut maker = primary.connect("postgres")?;
        let method = match subject {
            Subject::Howdah => "howdah",
            Subject::Heap => "heap",
        };
        for (database, method) in [("world_howdah", method), ("world_heap", "heap")] {
            maker.batch_execute(&format!("DROP DATABASE IF EXISTS {database}"))?;
            maker.batch_execute(&format!("CREATE DATABASE {database}"))?;
            primary.connect(database)?.batch_execute(
                "SET client_min_messages = warning;
                 CREATE EXTENSION howdah; CREATE EXTENSION btree_gist; CREATE EXTENSION amcheck",
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
            howdah: World::open(primary, "world_howdah", subject == Subject::Howdah)?,
            heap: World::open(primary, "world_heap", false)?,
        })
    }

    /// Empties both worlds and sets up what the script needs, in sessions of its own.
    ///
    /// # Errors
    /// When the setup fails: it must not.
    pub(super) fn begin(&mut self, script: &Script) -> anyhow::Result<()> {
        for world in [&mut self.howdah, &mut self.heap] {
            if world.control.is_closed() {
                *world = World::open(self.primary, world.database, world.is_howdah)?;
            }
            world.begin(self.primary, script)?;
        }
        Ok(())
    }
}

impl World {
    fn open(primary: &Primary, database: &'static str, is_howdah: bool) -> anyhow::Result<World> {
        let deadline = Instant::now() + HANGS_AFTER;
        let mut control = loop {
            match primary.connect(database) {
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

    fn begin(&mut self, primary: &Primary, script: &Script) -> anyhow::Result<()> {
        self.control
            .batch_execute("DROP SCHEMA IF EXISTS w CASCADE; CREATE SCHEMA w")?;
        let settings = |client: &mut Client| -> anyhow::Result<()> {
            let ours: &[String] = if self.is_howdah {
                &script.howdah_settings
            } else {
                &[]
            };
            for setting in script.settings.iter().chain(ours) {
                client.batch_execute(setting)?;
            }
            Ok(())
        };
        let mut maker = primary.connect(self.database)?;
        for statement in &script.setup {
            maker
                .batch_execute(statement)
                .with_context(|| format!("in {}: {statement}", self.database))?;
        }
        for _ in 0..script.session_count {
            let mut client = primary.connect(self.database)?;
            settings(&mut client)?;
            self.sessions.push(Session::start(client)?);
        }
        Ok(())
    }

    /// Runs a statement in a session, and waits until every session has ended its statement or
    /// waits for another; gives the outcomes of those that have ended.
    pub fn step(&mut self, session: usize, sql: &str) -> anyhow::Result<Vec<(usize, Outcome)>> {
        let sql = sql.replace("{w}", self.database);
        self.sessions[session].send(&sql)?;
        let mut ended = Vec::new();
        let deadline = Instant::now() + HANGS_AFTER;
        loop {
            let mut patience = Duration::from_millis(3);
            for (number, session) in self.sessions.iter_mut().enumerate() {
                if session.is_busy
                    && let Some(outcome) = session.outcome(patience)?
                {
                    ended.push((number, outcome));
                }
                patience = Duration::ZERO;
            }
            if self.all_busy_sessions_wait()? {
                break;
            }
            if Instant::now() > deadline {
                bail!("{} hangs in: {sql}", self.database);
            }
        }
        // One may have ended between the last look at it and the look at the locks.
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

    /// Whether every busy session waits for a lock, and long enough that a deadlock would have
    /// been found.
    fn all_busy_sessions_wait(&mut self) -> anyhow::Result<bool> {
        let busy: Vec<String> = self
            .sessions
            .iter()
            .filter(|session| session.is_busy)
            .map(|session| session.pid.to_string())
            .collect();
        if busy.is_empty() {
            return Ok(true);
        }
        let waiting = format!(
            "SELECT count(DISTINCT pid) FROM pg_locks
             WHERE pid IN ({}) AND NOT granted AND cardinality(pg_blocking_pids(pid)) > 0
               AND waitstart < clock_timestamp() - interval '40 ms'",
            busy.join(", ")
        );
        Ok(query(&mut self.control, &waiting)? == busy.len().to_string())
    }

    /// The sessions that wait.
    pub fn waiting(&self) -> Vec<usize> {
        let numbered = self.sessions.iter().enumerate();
        numbered
            .filter(|(_, session)| session.is_busy)
            .map(|(number, _)| number)
            .collect()
    }

    /// Ends whatever is still open.
    ///
    /// # Errors
    /// When a session does not let itself be cancelled.
    pub fn end(&mut self) -> anyhow::Result<()> {
        if self.control.is_closed() {
            self.sessions.clear();
            return Ok(());
        }
        for session in &self.sessions {
            query(
                &mut self.control,
                &format!("SELECT pg_terminate_backend({}, 20000)", session.pid),
            )?;
        }
        self.sessions.clear();
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
