//! Cold rows, their marks and their row groups outlive the transaction ids that they were written
//! with: VACUUM FREEZE leaves nothing behind that compares them with newer ones.
//!
//! The server is made to believe twice that one and a half billion transactions have passed, so
//! that an id which was not frozen would seem to lie in the future, or have no status any more.

use anyhow::{Context as _, ensure};
use howdah_cli::cluster::{StopMode, run};
use howdah_server_tests::checks::{equals_twin, indexes_are_sound, row_numbers_are_unique};
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

/// Fewer than the two billion that may pass between two runs of VACUUM FREEZE.
const PASSED: u64 = 1_500_000_000;
/// Ids of a segment of `pg_xact`: the first one of a segment needs no file from before.
const SEGMENT_IDS: u64 = 1 << 20;

/// Ends every transaction id before the present one, in all databases.
fn freeze(primary: &Primary) -> anyhow::Result<()> {
    let mut session = primary.connect("postgres")?;
    session.batch_execute("ALTER DATABASE template0 ALLOW_CONNECTIONS on")?;
    let names = query(&mut session, "SELECT datname FROM pg_database")?;
    for name in names.lines() {
        primary.connect(name)?.batch_execute("VACUUM FREEZE")?;
    }
    Ok(())
}

/// Restarts the server as if many transactions had passed.
fn let_transactions_pass(primary: &Primary) -> anyhow::Result<()> {
    let now = query(&mut primary.session()?, "SELECT pg_current_xact_id()")?;
    let next = (now.trim().parse::<u64>()? + PASSED) / SEGMENT_IDS * SEGMENT_IDS;
    primary.stop(StopMode::Fast)?;
    let mut reset = primary.command("pg_resetwal");
    reset.arg("--pgdata").arg(&primary.data).args([
        "--epoch",
        &(next >> 32).to_string(),
        "--next-transaction-id",
        &(next & u64::from(u32::MAX)).to_string(),
    ]);
    run(&mut reset)?;
    primary.start_again()
}

fn both(session: &mut Client, statement: &str) -> anyhow::Result<()> {
    for table in ["h", "t"] {
        (session.batch_execute(&statement.replace('@', table)))
            .with_context(|| statement.to_owned())?;
    }
    Ok(())
}

fn check(session: &mut Client) -> anyhow::Result<()> {
    equals_twin(session, "t", "h")?;
    session.batch_execute("SET howdah.debug_force_vectorized = on")?;
    let sums = |table: &str| format!("SELECT count(*), sum(id), sum(k), max(w) FROM {table}");
    let (ours, theirs) = (query(session, &sums("t"))?, query(session, &sums("h"))?);
    ensure!(ours == theirs, "{ours}, but of heap {theirs}");
    indexes_are_sound(session, "t", "id")?;
    row_numbers_are_unique(session, "t")
}

#[test]
fn marks_and_groups_outlive_their_transaction_ids() -> anyhow::Result<()> {
    let settings = [("howdah.compaction", "off"), ("autovacuum", "off")];
    let primary = Primary::start("wraparound", &settings)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE h (id int PRIMARY KEY, k int, w text);
         CREATE TABLE t (id int PRIMARY KEY, k int, w text) USING howdah;
         INSERT INTO h SELECT i, i % 50, 'w' || i % 20 FROM generate_series(1, 20000) i;
         INSERT INTO t SELECT * FROM h",
    )?;
    session.batch_execute("CALL howdah.compact('t')")?;
    for round in 1..=2 {
        // Marks of rows, one by one and as deletion vectors; of transactions that aborted; links of
        // updates; locks; hot rows; a group of its own for rows of this round.
        both(
            &mut session,
            &format!(
                "DELETE FROM @ WHERE id % 97 = {round};
                 UPDATE @ SET k = -{round} WHERE id % 89 = {round};
                 DELETE FROM @ WHERE id BETWEEN {round} * 3000 AND {round} * 3000 + 1500;
                 BEGIN; DELETE FROM @ WHERE id % 13 = {round}; ROLLBACK;
                 BEGIN; SELECT id FROM @ WHERE id = 700 FOR KEY SHARE; SAVEPOINT a;
                 UPDATE @ SET k = 0 WHERE id = 701; ROLLBACK TO a; COMMIT;
                 INSERT INTO @ SELECT i + {round} * 100000, 1, 'new' FROM generate_series(1, 100) i"
            ),
        )?;
        check(&mut session)?;
        freeze(&primary)?;
        drop(session);
        let_transactions_pass(&primary)?;
        session = primary.session()?;
        check(&mut session).with_context(|| format!("round {round}"))?;
        both(&mut session, "UPDATE @ SET w = 'later' WHERE id % 31 = 0")?;
        session.batch_execute("CALL howdah.compact('t')")?;
        check(&mut session).with_context(|| format!("round {round}, compacted"))?;
    }
    Ok(())
}
