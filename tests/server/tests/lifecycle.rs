//! The basic life cycle: a table with rows survives a crash, is replicated to a standby, and is
//! restored from a dump. Further properties are tested in files of their own.

use howdah_server_tests::cluster::{DATABASE, Primary, query};

const MAKE: &str = "CREATE TABLE t (id int PRIMARY KEY, word text) USING howdah;
    INSERT INTO t SELECT i, 'word ' || i FROM generate_series(1, 20000) i";
const DIGEST: &str = "SELECT count(*), sum(id), md5(string_agg(word, ',' ORDER BY id)) FROM t";

#[test]
fn committed_rows_survive_a_kill_of_every_process() -> anyhow::Result<()> {
    let primary = Primary::start("crash", &[])?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    let before = query(&mut session, DIGEST)?;
    session.batch_execute("BEGIN; INSERT INTO t VALUES (0, 'never committed')")?;
    primary.crash_and_recover()?;
    assert_eq!(query(&mut primary.session()?, DIGEST)?, before);
    Ok(())
}

#[test]
fn a_standby_reads_what_the_primary_wrote_and_can_take_over() -> anyhow::Result<()> {
    let primary = Primary::start("standby", &[])?;
    let standby = primary.standby()?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    let expected = query(&mut session, DIGEST)?;
    standby.wait_for(&primary)?;
    assert_eq!(query(&mut standby.session()?, DIGEST)?, expected);
    standby.promote()?;
    standby
        .session()?
        .batch_execute("INSERT INTO t VALUES (0, 'after promotion')")?;
    Ok(())
}

#[test]
fn a_dump_restores_rows_and_access_method() -> anyhow::Result<()> {
    let primary = Primary::start("dump", &[])?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    let expected = query(&mut session, DIGEST)?;
    let dump = primary.dump(DATABASE)?;
    session.batch_execute("CREATE DATABASE restored TEMPLATE template0")?;
    primary.run_script("restored", &dump)?;
    let mut restored = primary.connect("restored")?;
    assert_eq!(query(&mut restored, DIGEST)?, expected);
    let method = "SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 't'";
    assert_eq!(query(&mut restored, method)?, "howdah");
    Ok(())
}
