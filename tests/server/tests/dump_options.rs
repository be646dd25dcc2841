//! Dump and restore: rows, access method and options are restored, whichever role dumps them, in
//! every format.

use howdah_cli::cluster::run;
use howdah_server_tests::cluster::{DATABASE, Primary, query};

/// A table whose attribute numbers differ after a restore, half hot and half cold.
const MAKE: &str = "CREATE TABLE t (gone int, id int PRIMARY KEY, word text, price numeric);
    ALTER TABLE t DROP COLUMN gone;
    ALTER TABLE t SET ACCESS METHOD howdah;
    SET howdah.load_threshold = 1000;
    INSERT INTO t SELECT i, 'word ' || i % 100, i / 7.0 FROM generate_series(1, 20000) i;
    CREATE SCHEMA \"Other\";
    CREATE TABLE \"Other\".\"T 2\" (id int) USING howdah;
    CREATE MATERIALIZED VIEW m USING howdah AS SELECT word, count(*) FROM t GROUP BY word;
    SELECT howdah.set_options('t', sort_key => '{word,id}', compression_effort => 'best',
        compact_after => '2 hours', compact_min_rows => 5, compaction => false,
        grouped_columns => '{word}');
    SELECT howdah.set_options('\"Other\".\"T 2\"', compaction => false)";
const DIGEST: &str = "SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM t";
const OPTIONS: &str = "SELECT o::text FROM howdah.options o ORDER BY relation::text";
const METHODS: &str = "SELECT relname, amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
    WHERE amname = 'howdah' ORDER BY relname";

#[test]
fn plain_and_archived_dumps_bring_back_rows_access_methods_and_options() -> anyhow::Result<()> {
    let primary = Primary::start("dump_options", &[])?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    let expected: Vec<String> = answers(&mut session)?;

    let plain = primary.dump(DATABASE)?;
    session.batch_execute("CREATE DATABASE plain TEMPLATE template0")?;
    primary.run_script("plain", &plain)?;
    assert_eq!(answers(&mut primary.connect("plain")?)?, expected);

    let archive = primary.data.with_file_name("dump_options.archive");
    let mut dump = primary.command("pg_dump");
    run(dump
        .args(["--format=custom", "--file"])
        .arg(&archive)
        .arg(DATABASE))?;
    session.batch_execute("CREATE DATABASE archived TEMPLATE template0")?;
    let mut restore = primary.command("pg_restore");
    run(restore
        .args(["--exit-on-error", "--jobs=2", "--dbname=archived"])
        .arg(&archive))?;
    let mut archived = primary.connect("archived")?;
    assert_eq!(answers(&mut archived)?, expected);
    // A second dump equals the first: nothing was lost.
    let again = primary.dump("archived")?;
    assert_eq!(lines_of_data(&again), lines_of_data(&plain));
    Ok(())
}

#[test]
fn an_owner_without_superuser_rights_can_dump_tables_with_options() -> anyhow::Result<()> {
    let primary = Primary::start("dump_owner", &[])?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE ROLE keeper LOGIN; GRANT CREATE ON SCHEMA public TO keeper; SET ROLE keeper;
         CREATE TABLE kept (id int) USING howdah; INSERT INTO kept VALUES (1);
         SELECT howdah.set_options('kept', sort_key => '{id}')",
    )?;
    let mut dump = primary.command("pg_dump");
    let output = dump.args(["--role=keeper", DATABASE]).output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout)?;
    let label = "SECURITY LABEL FOR howdah ON COLUMN public.kept.id IS 'sort_key=1';";
    assert!(text.contains(label), "{text}");
    Ok(())
}

/// Tables that a dump leaves out have no options in it, and temporary ones need none.
#[test]
fn a_dump_has_the_options_of_the_tables_that_are_in_it() -> anyhow::Result<()> {
    let primary = Primary::start("dump_excluded", &[])?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE kept (id int) USING howdah; CREATE TABLE left_out (id int) USING howdah;
         CREATE TEMP TABLE passing (id int) USING howdah; CREATE TABLE renamed (a int, b int) USING howdah;
         SELECT howdah.set_options(t, compaction => false, sort_key => '{id}')
             FROM unnest('{kept,left_out,passing}'::regclass[]) t;
         SELECT howdah.set_options('renamed', sort_key => '{b,a}');
         ALTER TABLE renamed RENAME b TO \"B b\"; ALTER TABLE renamed RENAME TO \"Re named\"",
    )?;
    let mut dump = primary.command("pg_dump");
    let output = dump.args(["--exclude-table=left_out", DATABASE]).output()?;
    let text = String::from_utf8(output.stdout)?;
    session.batch_execute("CREATE DATABASE fewer TEMPLATE template0")?;
    primary.run_script("fewer", &text)?;
    let mut restored = primary.connect("fewer")?;
    assert_eq!(
        query(&mut restored, OPTIONS)?,
        "(\"\"\"Re named\"\"\",\"{\"\"B b\"\",a}\",,,,,)\n(kept,{id},,,,f,)"
    );
    Ok(())
}

/// Labels come before the rows, so that rows are sorted and encoded as the options say.
#[test]
fn options_are_restored_before_the_rows_and_without_the_access_method() -> anyhow::Result<()> {
    let primary = Primary::start("dump_order", &[])?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    let text = primary.dump(DATABASE)?;
    let place = |what: &str| text.find(what).expect(what);
    assert!(place("SECURITY LABEL FOR howdah ON TABLE public.t IS") < place("COPY public.t "));
    session.batch_execute("CREATE DATABASE plain_heap TEMPLATE template0")?;
    let mut dump = primary.command("pg_dump");
    let output = dump.args(["--no-table-access-method", DATABASE]).output()?;
    primary.run_script("plain_heap", &String::from_utf8(output.stdout)?)?;
    let mut restored = primary.connect("plain_heap")?;
    assert_eq!(query(&mut restored, METHODS)?, "");
    assert_eq!(
        query(&mut restored, OPTIONS)?,
        query(&mut session, OPTIONS)?
    );
    Ok(())
}

fn answers(session: &mut postgres::Client) -> anyhow::Result<Vec<String>> {
    [DIGEST, OPTIONS, METHODS]
        .iter()
        .map(|question| query(session, question))
        .collect()
}

/// The dump without its comments and its one-time key.
fn lines_of_data(dump: &str) -> Vec<&str> {
    dump.lines()
        .filter(|line| !line.starts_with("--") && !line.contains("restrict"))
        .collect()
}
