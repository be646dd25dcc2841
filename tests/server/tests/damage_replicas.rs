//! Damage of cold rows on servers that follow others: a standby refuses to read it, and a
//! subscription's worker stops where it meets it, loses nothing, and goes on once it is repaired.
//! Decoding of changes never meets it.

use std::fs;

use anyhow::{Context as _, ensure};
use howdah_cli::cluster::StopMode;
use howdah_server_tests::checks::{digest, nothing_crashed};
use howdah_server_tests::cluster::{DATABASE, Primary, query, wait_until};
use howdah_server_tests::damage::{IS_ERROR, evict, exchange_on, names_damage, outcome};
use howdah_server_tests::harmed_table::{
    BY_BITMAP, BY_COLUMN, BY_ENGINE, BY_INDEX, BY_ROW, BY_WORKERS, Case, FREE, Harm, HarmedTable,
    run_in,
};
use postgres::Client;

/// Queries that read the damaged values.
const REFUSED: &[Case<'static>] = &[
    (
        &[BY_INDEX],
        "Index Scan",
        "SELECT w FROM t WHERE id = 15000",
    ),
    (
        &[BY_INDEX],
        "Index Scan",
        "SELECT count(*) FROM t WHERE k = 7 AND w > 'a'",
    ),
    (
        &[BY_INDEX],
        "Sort",
        "SELECT id, w FROM t WHERE id BETWEEN 14000 AND 15000 ORDER BY n DESC",
    ),
    (
        &[BY_BITMAP],
        "Bitmap Heap Scan",
        "SELECT max(w) FROM t WHERE id BETWEEN 14000 AND 15000",
    ),
    (
        &[BY_COLUMN],
        "HowdahColumnarScan",
        "SELECT count(*) FROM t WHERE w LIKE '%ab%'",
    ),
    (
        &[BY_COLUMN, BY_WORKERS],
        "Parallel Custom Scan (HowdahColumnarScan)",
        "SELECT count(w), max(w) FROM t",
    ),
    (&[BY_ROW], "Seq Scan", "SELECT max(w) FROM t"),
    (
        &[BY_ENGINE],
        "Vectorized",
        "SELECT k, max(w COLLATE \"C\") FROM t GROUP BY k",
    ),
    (&[FREE], "", "COPY t TO '/dev/null'"),
];

/// Queries that do not read them.
const ANSWERED: &[Case<'static>] = &[
    (&[BY_INDEX], "Index Scan", "SELECT w FROM t WHERE id = 5000"),
    (
        &[BY_INDEX],
        "Index Scan",
        "SELECT k, n FROM t WHERE id = 15000",
    ),
    (
        &[BY_COLUMN],
        "HowdahColumnarScan",
        "SELECT count(*), max(w) FROM t WHERE id <= 10000",
    ),
    (
        &[BY_ENGINE],
        "Vectorized",
        "SELECT k, sum(n) FROM t GROUP BY k ORDER BY k",
    ),
];

#[test]
fn a_standby_refuses_to_read_damage_and_answers_all_else() -> anyhow::Result<()> {
    let harmed = HarmedTable::start("damage-standby")?;
    let damaged = &harmed.damaged;
    let standby = damaged.primary.standby()?;
    standby.wait_for(&damaged.primary)?;
    let file = standby
        .data
        .join(damaged.file.strip_prefix(&damaged.primary.data)?);
    let told = || -> anyhow::Result<Vec<String>> {
        let cases = REFUSED.iter().chain(ANSWERED);
        cases
            .map(|case| run_in(standby.session()?, *case))
            .collect()
    };
    let before = told()?;
    ensure!(!before.iter().any(|told| told.starts_with(IS_ERROR)));
    for harm in Harm::ALL {
        let patches = harmed.patches(harm)?;
        let restoring = exchange_on(&mut standby.session()?, &file, &patches)?;
        let now = told().with_context(|| format!("{harm:?}"))?;
        for (at, (now, before)) in now.iter().zip(&before).enumerate() {
            let (_, _, statement) = REFUSED.get(at).unwrap_or(&ANSWERED[0]);
            match at < REFUSED.len() {
                true => ensure!(names_damage(now), "{harm:?}: {now:.200} for {statement}"),
                false => ensure!(now == before, "{harm:?}: {now:.200}, once {before:.200}"),
            }
        }
        exchange_on(&mut standby.session()?, &file, &restoring)?;
    }
    ensure!(told()? == before, "not restored");
    nothing_crashed(&standby.log)?;
    harmed.damaged.nothing_crashed()
}

/// Changes of rows of group B, each of which reads column w where it is applied; and the replica
/// identity with which they are sent.
const APPLIED: [(&str, &str, &str); 3] = [
    (
        "DEFAULT",
        "UPDATE",
        "UPDATE t SET n = -1 WHERE id = 15000; UPDATE t SET n = -2 WHERE id = 5000",
    ),
    (
        "FULL",
        "DELETE",
        "DELETE FROM t WHERE id = 12345; DELETE FROM t WHERE id = 2345",
    ),
    (
        "FULL",
        "UPDATE",
        "UPDATE t SET w = 'new', id = -id WHERE id = 17000; INSERT INTO t VALUES (20001, 1, 'late')",
    ),
];

#[test]
fn a_subscriptions_worker_stops_at_damage_and_goes_on_once_it_is_repaired() -> anyhow::Result<()> {
    let harmed = HarmedTable::start("damage-apply-to")?;
    let damaged = &harmed.damaged;
    let mut to = damaged.primary.session()?;
    to.batch_execute("ALTER SYSTEM SET wal_retrieve_retry_interval = '100ms'")?;
    to.batch_execute("SELECT pg_reload_conf()")?;
    let publisher = Primary::start("damage-apply-from", &[("wal_level", "logical")])?;
    let mut from = publisher.session()?;
    from.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, k int, w text, n numeric, pad text);
         INSERT INTO t SELECT i, i % 100, md5(i::text), i * 1.25, md5('p' || i)
             FROM generate_series(1, 20000) i;
         CREATE PUBLICATION p FOR TABLE t",
    )?;
    ensure!(digest(&mut from, "t")? == digest(&mut to, "t")?);
    to.batch_execute(&format!(
        "CREATE SUBSCRIPTION s CONNECTION 'host={} port={} dbname={DATABASE} user={}'
         PUBLICATION p WITH (copy_data = false)",
        publisher.socket.display(),
        publisher.port,
        publisher.superuser,
    ))?;
    let ready = "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel";
    wait_until(&mut to, ready)?;
    for (identity, change, statements) in APPLIED {
        let context = || format!("{identity}: {statements}");
        from.batch_execute(&format!("ALTER TABLE t REPLICA IDENTITY {identity}"))?;
        let before = digest(&mut to, "t")?;
        let (log_bytes, errors) = (fs::read(&damaged.primary.log)?.len(), error_count(&mut to)?);
        let restoring = harmed.harm(Harm::Bits)?;
        for statement in statements.split(';') {
            from.batch_execute(statement)?;
        }
        // More than once: the worker starts anew, and stops at the same change.
        let stopped =
            format!("SELECT apply_error_count > {errors} + 1 FROM pg_stat_subscription_stats");
        wait_until(&mut to, &stopped).with_context(context)?;
        let log = fs::read_to_string(&damaged.primary.log)?;
        for part in [
            "could not read cold rows of table \"t\"",
            &format!("\"{change}\" for replication target relation \"public.t\""),
        ] {
            ensure!(log[log_bytes..].contains(part), "no {part} in the log");
        }
        let reads = outcome(&mut to, "SELECT count(*) FROM t WHERE w LIKE '%ab%'")?;
        ensure!(names_damage(&reads), "{reads}");
        damaged.exchange(&restoring)?;
        // The worker may have read a damaged page just before its file was repaired.
        catch_up(&mut from, &mut to).with_context(context)?;
        let (sent, applied) = (digest(&mut from, "t")?, digest(&mut to, "t")?);
        ensure!(sent == applied, "{}: {applied}, not {sent}", context());
        ensure!(applied != before, "{}: no change", context());
    }
    damaged.nothing_crashed()
}

fn error_count(session: &mut Client) -> anyhow::Result<u64> {
    let count = "SELECT apply_error_count FROM pg_stat_subscription_stats";
    Ok(query(session, count)?.parse()?)
}

/// Waits until everything is applied.
fn catch_up(from: &mut Client, to: &mut Client) -> anyhow::Result<()> {
    let now = query(from, "SELECT pg_current_wal_lsn()")?;
    let mut is_applied = false;
    for _ in 0..600 {
        evict(to)?;
        let state = format!(
            "SELECT count(*) FROM pg_stat_replication, pg_sleep(0.1)
             WHERE application_name = 's' AND replay_lsn >= '{now}'::pg_lsn"
        );
        is_applied = query(from, &state)? == "1";
        if is_applied {
            break;
        }
    }
    ensure!(is_applied, "the worker has not gone on");
    Ok(())
}

/// What a slot decodes of a table since the last call, with the table renamed.
fn decoded(session: &mut Client, table: &str) -> anyhow::Result<String> {
    let sql = format!(
        "SELECT replace(data, 'public.{table}:', 'public.') FROM pg_logical_slot_get_changes(
             'slot', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')"
    );
    query(session, &sql)
}

#[test]
fn changes_of_damaged_rows_are_refused_or_decoded_as_those_of_heap() -> anyhow::Result<()> {
    let harmed = HarmedTable::start("damage-decoding")?;
    let damaged = &harmed.damaged;
    let mut session = damaged.primary.session()?;
    session.batch_execute("ALTER SYSTEM SET wal_level = logical")?;
    drop(session);
    damaged.primary.stop(StopMode::Fast)?;
    damaged.primary.start_again()?;
    let mut session = damaged.primary.session()?;
    session
        .batch_execute("CREATE TABLE h (LIKE t INCLUDING ALL) USING heap; INSERT INTO h TABLE t")?;
    let slot = "SELECT pg_create_logical_replication_slot('slot', 'test_decoding')";
    query(&mut session, slot)?;
    for (round, identity) in ["DEFAULT", "FULL"].into_iter().enumerate() {
        for table in ["t", "h"] {
            let change = format!("ALTER TABLE {table} REPLICA IDENTITY {identity}");
            session.batch_execute(&change)?;
        }
        let at = 15_000 + 100 * round;
        let changes = [
            format!("UPDATE @ SET n = 0 WHERE id = {at}"),
            format!("UPDATE @ SET id = -id WHERE id = {at} + 1"),
            format!("DELETE FROM @ WHERE id = {at} + 2"),
        ];
        let later = format!("DELETE FROM @ WHERE id = {at} + 3");
        // What was written before the damage needs no cold row to be decoded.
        session.batch_execute(&later.replace('@', "t"))?;
        let restoring = harmed.harm(Harm::Bits)?;
        let ours = decoded(&mut session, "t")?;
        session.batch_execute(&later.replace('@', "h"))?;
        let heaps = decoded(&mut session, "h")?;
        ensure!(ours == heaps && !ours.is_empty(), "{ours}, heap: {heaps}");
        // A deletion reads no more than the key that it sends.
        let reads_all = |change: &&String| identity == "FULL" || change.starts_with("UPDATE");
        for change in changes.iter().filter(reads_all) {
            let told = outcome(&mut session, &change.replace('@', "t"))?;
            ensure!(names_damage(&told), "{told} for {change}");
        }
        let told = decoded(&mut session, "t")?;
        ensure!(told.is_empty(), "of refused changes: {told}");
        let (refused, answered): (Vec<_>, Vec<_>) = changes.iter().partition(reads_all);
        for change in &answered {
            session.batch_execute(&change.replace('@', "t"))?;
        }
        damaged.exchange(&restoring)?;
        for change in answered.iter().chain(&refused) {
            if refused.contains(change) {
                session.batch_execute(&change.replace('@', "t"))?;
            }
            let ours = decoded(&mut session, "t")?;
            session.batch_execute(&change.replace('@', "h"))?;
            let heaps = decoded(&mut session, "h")?;
            ensure!(ours == heaps && !ours.is_empty(), "{ours}, heap: {heaps}");
        }
        ensure!(digest(&mut session, "t")? == digest(&mut session, "h")?);
    }
    damaged.nothing_crashed()
}
