//! Compaction and VACUUM beside sessions that do not want to wait for locks: maintenance locks no
//! rows.
//!
//! `lock_timeout` is tested by tests/isolation/specs/maintenance-nowait.spec: here it would also
//! count waits that occur on heap, for VACUUM that truncates the table and for the extension of the
//! table.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

const SETTINGS: [(&str, &str); 2] = [("howdah.compaction", "off"), ("autovacuum", "off")];
const LONG: Duration = Duration::from_secs(60);
/// How long sessions and maintenance run concurrently.
const MEETING: Duration = Duration::from_secs(12);
/// Sessions, each with rows of its own, which no other session locks.
const SESSIONS: u32 = 3;
const OWN_ROWS: u32 = 40;

fn sleep() {
    thread::sleep(Duration::from_millis(5));
}

/// Moves, merges, rewrites and vacuums until the other sessions have ended; returns how often.
fn maintain(primary: &Primary, is_over: &AtomicBool) -> anyhow::Result<u32> {
    let mut session = primary.session()?;
    // Its own deletions count as a user's changes, and must lock rows only.
    session.batch_execute("SET howdah.debug_group_locks = off")?;
    let mut round = 0;
    while !is_over.load(Ordering::SeqCst) {
        round += 1;
        session
            .batch_execute("INSERT INTO t SELECT 100000 + i, 0 FROM generate_series(1, 3000) i")?;
        session.batch_execute("CALL howdah.compact('t')")?;
        session.batch_execute("DELETE FROM t WHERE id >= 100000 AND random() < 0.7")?;
        session.batch_execute("VACUUM (INDEX_CLEANUP on) t")?;
        session.batch_execute("CALL howdah.compact('t')")?;
    }
    Ok(round)
}

/// Locks and changes rows that no other session locks; every statement must get its row. `pick` is
/// any number.
fn lock_own_row(session: &mut Client, of: u32, pick: u32) -> anyhow::Result<()> {
    let id = of * OWN_ROWS + pick % OWN_ROWS;
    let strength = ["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"][(pick / 7 % 4) as usize];
    let statement = match pick % 5 {
        0 => format!("SELECT id FROM t WHERE id = {id} FOR {strength} NOWAIT"),
        1 => format!("SELECT id FROM t WHERE id = {id} FOR {strength} SKIP LOCKED"),
        2 => format!("SELECT id FROM t WHERE id = {id} FOR {strength}"),
        3 => format!("UPDATE t SET n = n + 1 WHERE id = {id} RETURNING id"),
        _ => format!(
            "WITH gone AS (DELETE FROM t WHERE id = {id} RETURNING *) INSERT INTO t SELECT * FROM gone RETURNING id"
        ),
    };
    let got = query(session, &statement).with_context(|| statement.clone())?;
    ensure!(got == id.to_string(), "{statement}: {got:?}");
    Ok(())
}

#[test]
fn rows_that_no_session_has_locked_are_neither_refused_nor_skipped() -> anyhow::Result<()> {
    let primary = Primary::start("maintenance-locks", &SETTINGS)?;
    let mut session = primary.session()?;
    // No unique index, because a check of uniqueness may wait longer for compaction.
    session.batch_execute(
        "CREATE TABLE t (id int, n int) USING howdah; CREATE INDEX ON t (id);
         INSERT INTO t SELECT i, 0 FROM generate_series(0, 5000) i",
    )?;
    session.batch_execute("CALL howdah.compact('t')")?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| -> anyhow::Result<()> {
        let maintaining = scope.spawn(|| maintain(&primary, &is_over));
        let lockers: Vec<_> = (0..SESSIONS)
            .map(|of| {
                let primary = &primary;
                scope.spawn(move || -> anyhow::Result<()> {
                    let mut session = primary.session()?;
                    session.batch_execute("SET enable_seqscan = off")?;
                    let began = Instant::now();
                    let mut pick = of;
                    while began.elapsed() < MEETING {
                        pick = pick.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        lock_own_row(&mut session, of, pick >> 8)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let ends: Vec<_> = lockers.into_iter().map(|locker| locker.join()).collect();
        is_over.store(true, Ordering::SeqCst);
        let rounds = maintaining.join();
        for end in ends {
            end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let rounds = rounds.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        ensure!(rounds > 0, "no maintenance was done meanwhile");
        Ok(())
    })?;
    let kept = query(
        &mut session,
        "SELECT count(*), count(DISTINCT id) FROM t WHERE id < 100000",
    )?;
    assert_eq!(kept, "5001|5001");
    Ok(())
}

/// A synchronous standby that is not connected keeps transactions of users from ending. Rows that
/// compaction has moved must not make other transactions wait for it.
#[test]
fn compaction_waits_for_no_standby() -> anyhow::Result<()> {
    let primary = Primary::start("no-standby", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, n int) USING howdah;
         CREATE TABLE other (n int) USING heap;
         INSERT INTO t SELECT i, 0 FROM generate_series(1, 3000) i",
    )?;
    session.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'absent'")?;
    session.batch_execute("SELECT pg_reload_conf()")?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| -> anyhow::Result<()> {
        let mut user = primary.session()?;
        let mut compacting = primary.session()?;
        let mut watcher = primary.session()?;
        let is_over = &is_over;
        let waiting = scope.spawn(move || -> anyhow::Result<()> {
            while !is_over.load(Ordering::SeqCst) {
                user.batch_execute("INSERT INTO other VALUES (1)")?;
            }
            Ok(())
        });
        let outcome = (|| -> anyhow::Result<()> {
            let deadline = Instant::now() + LONG;
            let waits = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT%'";
            while query(&mut watcher, waits)?.is_empty() {
                ensure!(
                    Instant::now() < deadline,
                    "users do not wait for the standby"
                );
                sleep();
            }
            let compacted =
                scope.spawn(move || compacting.batch_execute("CALL howdah.compact('t')"));
            while !compacted.is_finished() {
                ensure!(
                    Instant::now() < deadline,
                    "compaction waits for the standby"
                );
                sleep();
            }
            let cold = "SELECT cold_rows FROM howdah.tables WHERE relation = 't'::regclass";
            let cold = query(&mut watcher, cold)?;
            ensure!(cold == "3000", "{cold} cold rows");
            Ok(())
        })();
        is_over.store(true, Ordering::SeqCst);
        session.batch_execute("ALTER SYSTEM RESET synchronous_standby_names")?;
        session.batch_execute("SELECT pg_reload_conf()")?;
        let user = waiting.join();
        outcome?;
        user.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
