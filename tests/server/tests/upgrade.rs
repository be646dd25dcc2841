//! `pg_upgrade`: the files of howdah tables are moved to a server made by another `initdb`, and
//! everything works there.

use anyhow::Context as _;
use howdah_cli::cluster::{StopMode, run};
use howdah_cli::paths::Paths;
use howdah_cli::scratch::Scratch;
use howdah_server_tests::checks::{indexes_are_sound, row_numbers_are_unique};
use howdah_server_tests::cluster::{DATABASE, Primary, query};
use postgres::Client;

const SETTINGS: [(&str, &str); 2] = [("howdah.compaction", "off"), ("autovacuum", "off")];

/// Cold rows, changed one by one and by the half, changes that were rolled back, rows that are hot
/// or hot again, long values.
fn make_tables(session: &mut Client) -> anyhow::Result<()> {
    session.batch_execute(
        "CREATE TABLE t (id int PRIMARY KEY, word text, long text) USING howdah;
         ALTER TABLE t ALTER long SET STORAGE EXTERNAL;
         INSERT INTO t SELECT i, 'word ' || i % 100, CASE WHEN i % 1000 = 0 THEN repeat('x', 9000) END
             FROM generate_series(1, 20000) i;
         CREATE INDEX ON t (word);
         CREATE TABLE half (id int PRIMARY KEY) USING howdah;
         INSERT INTO half SELECT generate_series(1, 20000);
         SELECT howdah.set_options('t', sort_key => '{word}')",
    )?;
    for table in ["t", "half"] {
        session.batch_execute(&format!("CALL howdah.compact('{table}')"))?;
    }
    session.batch_execute(
        "UPDATE t SET word = 'new' WHERE id % 7 = 0;
         BEGIN; DELETE FROM t WHERE id % 3 = 0; ROLLBACK;
         DELETE FROM t WHERE id % 11 = 0;
         DELETE FROM half WHERE id % 2 = 0",
    )?;
    session.batch_execute("CALL howdah.compact('t')")?;
    Ok(session.batch_execute(
        "UPDATE t SET long = 'short' WHERE id = 1000;
         INSERT INTO t SELECT i, 'hot', NULL FROM generate_series(20001, 20010) i",
    )?)
}

fn answers(session: &mut Client) -> anyhow::Result<Vec<String>> {
    [
        "SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM t",
        "SELECT count(*), sum(id) FROM half",
        "SET enable_seqscan = off; SELECT count(*), sum(id) FROM t WHERE word = 'new'; RESET enable_seqscan",
        "SELECT o::text FROM howdah.options o ORDER BY relation::text",
        "SELECT relname, amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
             WHERE amname = 'howdah' ORDER BY relname",
    ]
    .iter()
    .map(|question| query(session, question))
    .collect()
}

/// The next transaction id of a server that is stopped.
fn next_xid(server: &Primary) -> anyhow::Result<String> {
    let told = server
        .command("pg_controldata")
        .arg(&server.data)
        .output()?;
    let told = String::from_utf8(told.stdout)?;
    let line = told.lines().find(|line| line.contains("NextXID"));
    Ok(line.context("no next transaction id")?.to_owned())
}

#[test]
fn an_upgraded_server_has_all_rows_and_goes_on_with_them() -> anyhow::Result<()> {
    let old = Primary::start("upgrade-old", &SETTINGS)?;
    let mut session = old.session()?;
    make_tables(&mut session)?;
    let expected = answers(&mut session)?;
    drop(session);
    old.stop(StopMode::Fast)?;
    // pg_upgrade starts it again, and gives the next transaction id of now to the new server.
    let conf = old.data.join("postgresql.conf");
    let eager = "\nhowdah.compaction = on\nhowdah.compact_after = 0\nhowdah.compact_naptime = 100\n\
                 howdah.compact_min_rows = 1\n";
    std::fs::write(&conf, std::fs::read_to_string(&conf)? + eager)?;
    let next_xid = next_xid(&old)?;

    let new = Scratch::start(&Paths::from_environment()?, "upgrade-new", &SETTINGS)?;
    new.cluster.stop(StopMode::Fast)?;
    let mut upgrade = new.cluster.command("pg_upgrade");
    upgrade
        .current_dir(&new.directory)
        .args(["--no-sync", "--username", &new.cluster.superuser])
        .arg("--socketdir")
        .arg(&new.cluster.socket)
        .arg("--old-datadir")
        .arg(&old.data)
        .arg("--new-datadir")
        .arg(&new.cluster.data);
    for which in ["--old-bindir", "--new-bindir"] {
        upgrade.arg(which).arg(&new.cluster.postgres.bin);
    }
    run(&mut upgrade)?;
    assert_eq!(
        self::next_xid(&old)?,
        next_xid,
        "compaction went on during the upgrade"
    );
    new.cluster.start()?;

    let mut session = new.cluster.connect(DATABASE)?;
    assert_eq!(answers(&mut session)?, expected);
    for table in ["t", "half"] {
        indexes_are_sound(&mut session, table, "id")?;
    }
    session.batch_execute(
        "UPDATE t SET word = 'newer' WHERE id % 13 = 0; DELETE FROM half WHERE id < 5000;
         INSERT INTO half VALUES (2)",
    )?;
    let expected = answers(&mut session)?;
    for table in ["t", "half"] {
        session.batch_execute(&format!("CALL howdah.compact('{table}')"))?;
        session.batch_execute(&format!("VACUUM (FREEZE, INDEX_CLEANUP on) {table}"))?;
        session.batch_execute(&format!("REINDEX TABLE {table}"))?;
        indexes_are_sound(&mut session, table, "id")?;
        row_numbers_are_unique(&mut session, table)?;
    }
    assert_eq!(answers(&mut session)?, expected);
    Ok(())
}
