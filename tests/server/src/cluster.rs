//! Private servers for tests: a primary with the extension, and standbys of it.

use std::fs;
use std::ops::Deref;
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use howdah_cli::cluster::{Cluster, ClusterError, StopMode, run, tail};
use howdah_cli::paths::Paths;
use howdah_cli::scratch::{Scratch, scratch_settings};
use postgres::error::SqlState;
use postgres::{Client, SimpleQueryMessage};

/// The database that every primary starts with; the extension is in it.
pub const DATABASE: &str = "test";

/// A running server with the extension created in [`DATABASE`]; stopped and deleted on drop.
pub struct Primary {
    scratch: Scratch,
    paths: Paths,
    settings: Vec<(String, String)>,
    standby_count: AtomicU16,
}

impl Deref for Primary {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.scratch.cluster
    }
}

impl Primary {
    /// # Errors
    /// When the server cannot be made or started, or the extension not created.
    pub fn start(name: &str, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let paths = Paths::from_environment()?;
        let scratch = Scratch::start(&paths, name, settings)?;
        scratch
            .cluster
            .connect("postgres")?
            .batch_execute(&format!("CREATE DATABASE {DATABASE}"))?;
        scratch
            .cluster
            .connect(DATABASE)?
            .batch_execute("CREATE EXTENSION howdah")?;
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Ok(Self {
            scratch,
            paths,
            settings,
            standby_count: AtomicU16::new(0),
        })
    }

    /// A session in [`DATABASE`].
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn session(&self) -> anyhow::Result<Client> {
        Ok(self.connect(DATABASE)?)
    }

    /// Kills every process of the server and starts it again, so that it recovers from WAL.
    ///
    /// # Errors
    /// When it does not die or does not come back.
    pub fn crash_and_recover(&self) -> anyhow::Result<()> {
        self.kill()?;
        self.start_again()
    }

    /// # Errors
    /// When it does not come back.
    pub fn start_again(&self) -> anyhow::Result<()> {
        Ok(self.scratch.cluster.start()?)
    }

    /// A streaming standby made by `pg_basebackup`.
    ///
    /// # Errors
    /// When the backup fails or the standby does not start.
    pub fn standby(&self) -> anyhow::Result<Standby> {
        let serial = self.standby_count.fetch_add(1, Ordering::Relaxed) + 1;
        let cluster = Cluster {
            data: self.scratch.directory.join(format!("standby{serial}")),
            log: self.scratch.directory.join(format!("standby{serial}.log")),
            port: self.port + serial,
            ..self.scratch.cluster.clone()
        };
        let mut backup = self.command("pg_basebackup");
        backup.args([
            "--checkpoint=fast",
            "--write-recovery-conf",
            "--no-sync",
            "--pgdata",
        ]);
        run(backup.arg(&cluster.data))?;
        let mut settings = scratch_settings(&self.paths);
        settings.extend(self.settings.iter().cloned());
        cluster.write_settings(&settings)?;
        cluster.start()?;
        Ok(Standby { cluster })
    }

    /// Dumps a database as plain SQL, as a user would.
    ///
    /// # Errors
    /// When pg_dump fails.
    pub fn dump(&self, database: &str) -> anyhow::Result<String> {
        let output = self
            .command("pg_dump")
            .arg(database)
            .output()
            .context("cannot run pg_dump")?;
        if !output.status.success() {
            bail!(
                "pg_dump failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        String::from_utf8(output.stdout).context("the dump is not UTF-8")
    }

    /// Runs a script by psql in a database, stopping at the first error.
    ///
    /// # Errors
    /// When psql or the script fails.
    pub fn run_script(&self, database: &str, script: &str) -> anyhow::Result<()> {
        let file = self.scratch.directory.join("script.sql");
        fs::write(&file, script)?;
        self.account.own(&file)?;
        let mut psql = self.command("psql");
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--set=ON_ERROR_STOP=1",
            "--dbname",
            database,
            "--file",
        ]);
        psql.arg(&file).stdin(Stdio::null());
        Ok(run(&mut psql)?)
    }
}

/// A streaming standby; stopped on drop, deleted with its primary.
pub struct Standby {
    cluster: Cluster,
}

impl Deref for Standby {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Standby {
    /// Waits until the standby has replayed what the primary has written so far.
    ///
    /// # Errors
    /// When it has not replayed that after a minute; the error tells how far each side is.
    pub fn wait_for(&self, primary: &Primary) -> anyhow::Result<()> {
        let target = query(&mut primary.session()?, "SELECT pg_current_wal_lsn()")?;
        let caught_up = format!("SELECT pg_last_wal_replay_lsn() >= '{target}'::pg_lsn");
        let mut client = self.session()?;
        let deadline = Instant::now() + Duration::from_secs(60);
        while query(&mut client, &caught_up)? != "t" {
            if Instant::now() > deadline {
                let state = self.state(primary)?;
                bail!("the standby has not replayed {target} within a minute: {state}");
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// How far WAL is on either side, whether it is streamed, and the ends of both logs.
    fn state(&self, primary: &Primary) -> anyhow::Result<String> {
        let sent = query(
            &mut primary.session()?,
            "SELECT concat('inserted ', pg_current_wal_insert_lsn(), ', written ',
                 pg_current_wal_lsn(), ', flushed ', pg_current_wal_flush_lsn(), '; ',
                 (SELECT string_agg(r::text, '; ') FROM pg_stat_replication r))",
        )?;
        let got = query(
            &mut self.session()?,
            "SELECT concat('received ', pg_last_wal_receive_lsn(), ', replayed ',
                 pg_last_wal_replay_lsn(), '; ',
                 (SELECT string_agg(r::text, '; ') FROM pg_stat_wal_receiver r),
                 (SELECT string_agg(concat_ws(' ', pid, backend_type, state, wait_event_type,
                                              wait_event, query), '; ')
                  FROM pg_stat_activity))",
        )?;
        let (primarys, standbys) = (tail(&primary.log, 15), tail(&self.log, 15));
        Ok(format!("{sent}\n{got}\n{primarys}\n{standbys}"))
    }

    /// A read-only session in [`DATABASE`]. Replay may cancel the snapshot of a session that is
    /// starting; then another one is started.
    ///
    /// # Errors
    /// When the standby does not answer, or cancels each start of a minute.
    pub fn session(&self) -> anyhow::Result<Client> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.cluster.connect(DATABASE) {
                Err(ClusterError::Connect(error))
                    if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
                        && Instant::now() < deadline => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Promotes the standby to a primary.
    ///
    /// # Errors
    /// When it does not end recovery within a minute.
    pub fn promote(&self) -> anyhow::Result<()> {
        query(&mut self.session()?, "SELECT pg_promote(true, 60)").map(drop)
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        if self.cluster.running().is_some() {
            // The directory is deleted with the primary's; an error cannot be reported here.
            let _ = self.cluster.stop(StopMode::Immediate);
        }
    }
}

/// What a statement returns, as psql's unaligned output: columns separated by `|`, rows by
/// newlines, NULL as `∅`.
///
/// # Errors
/// The server's, with its message.
pub fn query(client: &mut Client, sql: &str) -> anyhow::Result<String> {
    let messages = client
        .simple_query(sql)
        .with_context(|| format!("in: {sql}"))?;
    let mut lines = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            let fields: Vec<&str> = (0..row.len())
                .map(|index| row.get(index).unwrap_or("∅"))
                .collect();
            lines.push(fields.join("|"));
        }
    }
    Ok(lines.join("\n"))
}

/// Waits until a condition holds.
///
/// # Errors
/// When it does not after a minute.
pub fn wait_until(session: &mut Client, condition: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while query(session, condition)? != "t" {
        if Instant::now() > deadline {
            bail!("still not so in time: {condition}");
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
