//! pg_dump and pg_restore keep tables, options and rows; UNLOGGED tables are empty after a crash
//! and usable again; TEMP tables have a cold side too.

use std::path::Path;

use anyhow::ensure;
use howdah_cli::cluster::run;
use howdah_server_tests::checks::{cold_row_count, digest, indexes_are_sound};
use howdah_server_tests::cluster::{DATABASE, Primary, query};
use postgres::Client;

const SETTINGS: [(&str, &str); 2] = [
    ("howdah.load_threshold", "1000"),
    ("howdah.compaction", "off"),
];

const MAKE: &str = "CREATE SCHEMA \"odd name\";
    CREATE TABLE t (id int PRIMARY KEY, word text, amount numeric, list int[], at timestamptz)
        USING howdah;
    CREATE INDEX ON t (word);
    INSERT INTO t SELECT i, 'word ' || i % 97, i * 1.10, ARRAY[i], '2026-01-01'::timestamptz + i * '1 s'::interval
        FROM generate_series(1, 20000) i;
    INSERT INTO t VALUES (0, NULL, 'NaN', NULL, '-infinity');
    CREATE TABLE \"odd name\".\"Odd \"\"table\"\"\" (id int, part int, UNIQUE (id, part)) PARTITION BY LIST (part);
    CREATE TABLE p1 PARTITION OF \"odd name\".\"Odd \"\"table\"\"\" FOR VALUES IN (1) USING howdah;
    CREATE TABLE p2 PARTITION OF \"odd name\".\"Odd \"\"table\"\"\" FOR VALUES IN (2) USING heap;
    INSERT INTO \"odd name\".\"Odd \"\"table\"\"\" SELECT i, 1 + i % 2 FROM generate_series(1, 9000) i;
    CREATE MATERIALIZED VIEW v USING howdah AS SELECT id, word FROM t;
    SELECT howdah.set_options('t', sort_key => '{at,id}', compression_effort => 'best',
                              compact_after => '5 min', compact_min_rows => 1000, compaction => false,
                              grouped_columns => '{list,word}')";

const METHODS: &str = "SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
     WHERE c.relname IN ('t', 'p1', 'p2', 'v') ORDER BY 1";
const OPTIONS: &str = "SELECT * FROM howdah.options ORDER BY relation::text";
const TABLES: [&str; 5] = ["t", "\"odd name\".\"Odd \"\"table\"\"\"", "p1", "p2", "v"];

/// Everything that a dump must bring back.
fn state(client: &mut Client) -> anyhow::Result<Vec<String>> {
    let mut state = vec![query(client, METHODS)?, query(client, OPTIONS)?];
    for table in TABLES {
        state.push(digest(client, table)?);
    }
    Ok(state)
}

fn restored(primary: &Primary, database: &str) -> anyhow::Result<Vec<String>> {
    let mut client = primary.connect(database)?;
    ensure!(
        cold_row_count(&mut client, "t")? > 10_000,
        "the restored rows are hot"
    );
    indexes_are_sound(&mut client, "t", "id")?;
    state(&mut client)
}

#[test]
fn plain_and_custom_dumps_restore_tables_options_and_rows() -> anyhow::Result<()> {
    let primary = Primary::start("dump-formats", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    let expected = state(&mut session)?;
    assert!(expected[1].contains("{at,id}"));

    session.batch_execute("CREATE DATABASE plain TEMPLATE template0")?;
    primary.run_script("plain", &primary.dump(DATABASE)?)?;
    assert_eq!(restored(&primary, "plain")?, expected);

    session.batch_execute("CREATE DATABASE custom TEMPLATE template0")?;
    let directory = primary
        .data
        .parent()
        .unwrap_or(Path::new("/"))
        .to_path_buf();
    let file = directory.join("custom.dump");
    run(primary
        .command("pg_dump")
        .args(["--format=custom", "--file"])
        .arg(&file)
        .arg(DATABASE))?;
    run(primary
        .command("pg_restore")
        .args(["--exit-on-error", "--jobs=2", "--dbname=custom"])
        .arg(&file))?;
    assert_eq!(restored(&primary, "custom")?, expected);
    Ok(())
}

#[test]
fn an_unlogged_table_is_empty_after_a_crash_and_usable_again() -> anyhow::Result<()> {
    let primary = Primary::start("dump-unlogged", &SETTINGS)?;
    let mut session = primary.session()?;
    let load = "INSERT INTO u SELECT i, 'word ' || i FROM generate_series(1, 20000) i";
    session
        .batch_execute("CREATE UNLOGGED TABLE u (id int PRIMARY KEY, word text) USING howdah")?;
    session.batch_execute(load)?;
    let before = digest(&mut session, "u")?;
    ensure!(cold_row_count(&mut session, "u")? > 10_000);
    primary.crash_and_recover()?;
    let mut session = primary.session()?;
    assert_eq!(query(&mut session, "SELECT count(*) FROM u")?, "0");
    assert_eq!(cold_row_count(&mut session, "u")?, 0);
    session.batch_execute(load)?;
    assert_eq!(digest(&mut session, "u")?, before);
    indexes_are_sound(&mut session, "u", "id")?;
    session.batch_execute("ALTER TABLE u SET LOGGED")?;
    primary.crash_and_recover()?;
    assert_eq!(digest(&mut primary.session()?, "u")?, before);
    Ok(())
}

#[test]
fn temporary_tables_have_a_cold_side_and_follow_on_commit() -> anyhow::Result<()> {
    let primary = Primary::start("dump-temporary", &SETTINGS)?;
    let mut session = primary.session()?;
    let load = |table: &str| {
        format!("INSERT INTO {table} SELECT i, 'word ' || i FROM generate_series(1, 20000) i")
    };
    session.batch_execute("CREATE TEMP TABLE k (id int PRIMARY KEY, word text) USING howdah")?;
    session.batch_execute(&load("k"))?;
    ensure!(cold_row_count(&mut session, "k")? > 10_000);
    assert_eq!(
        query(&mut session, "SELECT count(*), sum(id) FROM k")?,
        "20000|200010000"
    );
    session.batch_execute(
        "CREATE TEMP TABLE d (id int, word text) USING howdah ON COMMIT DELETE ROWS",
    )?;
    session.batch_execute("BEGIN")?;
    session.batch_execute(&load("d"))?;
    assert_eq!(query(&mut session, "SELECT count(*) FROM d")?, "20000");
    session.batch_execute("COMMIT")?;
    assert_eq!(query(&mut session, "SELECT count(*) FROM d")?, "0");
    session.batch_execute("TRUNCATE k")?;
    session.batch_execute(&load("k"))?;
    indexes_are_sound(&mut session, "k", "id")?;
    Ok(())
}
