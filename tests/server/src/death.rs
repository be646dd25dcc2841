//! Backends that kill themselves at a named step, after which their server goes through recovery.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use postgres::Client;

use crate::cluster::{Primary, query};

/// The start of the checkpointer, which changes with every recovery.
const CHECKPOINTER: &str =
    "SELECT pid, backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'";

/// The postmaster starts recovery when it notices that a backend died, which may be after the next
/// connection is accepted; connections fail meanwhile. `checkpointer` is the value from before.
fn wait_for_recovery(primary: &Primary, checkpointer: &str) -> anyhow::Result<Client> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(mut client) = primary.session()
            && query(&mut client, CHECKPOINTER)
                .is_ok_and(|now| !now.is_empty() && now != checkpointer)
        {
            return Ok(client);
        }
        if Instant::now() > deadline {
            bail!("the server did not recover within a minute");
        }
        sleep(Duration::from_millis(50));
    }
}

/// Runs a statement in a session that kills itself at `step`, and waits for the recovery.
///
/// # Errors
/// When the statement does not pass `step`, or the server does not recover.
pub fn recovered_from_death_at(
    primary: &Primary,
    step: &str,
    statement: &str,
) -> anyhow::Result<Client> {
    let mut victim = primary.session()?;
    let checkpointer = query(&mut victim, CHECKPOINTER)?;
    victim.batch_execute(&format!("SET howdah.debug_crash_point = '{step}'"))?;
    match victim.batch_execute(statement) {
        Ok(()) => bail!("{statement} does not pass {step}"),
        Err(error) if error.as_db_error().is_none() => wait_for_recovery(primary, &checkpointer),
        Err(error) => Err(error).with_context(|| format!("at {step}: {statement}")),
    }
}
