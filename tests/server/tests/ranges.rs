//! Single cold rows are read from the pages they lie on: the places of those pages may be
//! remembered, and may be out of date; a row needs few pages, from memory and from disk, on the
//! primary, on a standby, after a crash.

use anyhow::{Context as _, ensure};
use howdah_server_tests::buffers::touched;
use howdah_server_tests::checks::cold_row_count;
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

const SETTINGS: [(&str, &str); 3] = [
    ("howdah.load_threshold", "0"),
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
];

/// Two groups, long values, and a hole between them where other values were.
const MAKE: &str =
    "CREATE TABLE t (id int PRIMARY KEY, k int, word text, pad char(60)) USING howdah;
    CREATE TABLE gone (id int) USING howdah;
    INSERT INTO t SELECT i, i * 7 % 1000, md5(i::text) || md5((i * 3)::text), md5((-i)::text)
    FROM generate_series(1, 30000) i;
    INSERT INTO t SELECT i, i * 7 % 1000, md5(i::text) || md5((i * 3)::text), md5((-i)::text)
    FROM generate_series(30001, 60000) i;
    CREATE INDEX ON t (k)";

/// Rows all over the table, by key and one by one.
const READ: &str =
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off;
    SELECT md5(string_agg(t::text, ',' ORDER BY id)), count(*) FROM t
    WHERE id = ANY (SELECT (i * 7919 % 60000) + 1 FROM generate_series(1, 500) i)";

/// The same result from the same values, generated anew.
const EXPECTED: &str = "SELECT md5(string_agg(r::text, ',' ORDER BY id)), count(*)
    FROM (SELECT i AS id, i * 7 % 1000 AS k, md5(i::text) || md5((i * 3)::text) AS word, md5((-i)::text)::char(60) AS pad
          FROM (SELECT DISTINCT (i * 7919 % 60000) + 1 AS i FROM generate_series(1, 500) i) i) r";

fn vacuum_full_cold_store(session: &mut Client) -> anyhow::Result<()> {
    let statement = "SELECT format('VACUUM FULL %s', reltoastrelid::regclass) FROM pg_class
                     WHERE oid = 't'::regclass";
    let statement = query(session, statement)?;
    session.batch_execute(&statement).context(statement)
}

/// Buffers, in memory or not, that an index scan for one row has touched until all columns of the
/// row were written as text.
fn buffers_of_one_row(session: &mut Client, table: &str, id: u32) -> anyhow::Result<u64> {
    session.batch_execute(
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off;
         SET enable_indexonlyscan = off",
    )?;
    let sql = format!("SELECT * FROM {table} WHERE id = {id}");
    touched(session, &sql, &["Index Scan", "rows=1"])
}

#[test]
fn rows_are_found_after_their_pieces_were_moved() -> anyhow::Result<()> {
    let primary = Primary::start("ranges-moved", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    ensure!(cold_row_count(&mut session, "t")? == 60_000, "t stayed hot");
    let expected = query(&mut session, EXPECTED)?;
    // One session remembers the places, another knows them only from the directory.
    let mut knowing = primary.session()?;
    ensure!(query(&mut knowing, READ)? == expected);
    session.batch_execute("DELETE FROM t WHERE id <= 2000")?;
    session.batch_execute(
        "INSERT INTO t SELECT i, i * 7 % 1000, md5(i::text) || md5((i * 3)::text), md5((-i)::text)
         FROM generate_series(1, 2000) i",
    )?;
    for round in 0..2 {
        vacuum_full_cold_store(&mut session)?;
        ensure!(query(&mut knowing, READ)? == expected, "round {round}");
        ensure!(
            query(&mut primary.session()?, READ)? == expected,
            "round {round}"
        );
        // The pieces are moved once more.
        session.batch_execute("CALL howdah.compact('t')")?;
        session.batch_execute("VACUUM t")?;
        ensure!(query(&mut knowing, READ)? == expected, "after compaction");
    }
    Ok(())
}

#[test]
fn rows_are_read_by_an_open_cursor_while_their_table_changes() -> anyhow::Result<()> {
    let primary = Primary::start("ranges-cursor", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    let mut reader = primary.session()?;
    reader.batch_execute(
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off; BEGIN;
         DECLARE c CURSOR FOR SELECT id, word, pad FROM t WHERE id > 0 ORDER BY id; MOVE 100 FROM c",
    )?;
    let next = |reader: &mut Client, id: u32| -> anyhow::Result<()> {
        let row = query(reader, "FETCH c")?;
        let word = format!(
            "SELECT format('%s|%s|%s', {id}, md5('{id}') || md5(({id} * 3)::text), md5((-{id})::text)::char(60))"
        );
        ensure!(row == query(reader, &word)?, "{row} instead of row {id}");
        Ok(())
    };
    next(&mut reader, 101)?;
    session.batch_execute("DELETE FROM t WHERE id % 3 = 0")?;
    session.batch_execute("VACUUM t")?;
    next(&mut reader, 102)?;
    // A savepoint that is rolled back closes what was opened in it, and nothing else.
    reader.batch_execute("SAVEPOINT s")?;
    next(&mut reader, 103)?;
    reader.batch_execute("ROLLBACK TO s")?;
    next(&mut reader, 104)?;
    session.batch_execute("CALL howdah.compact('t')")?;
    session.batch_execute("VACUUM t")?;
    next(&mut reader, 105)?;
    reader.batch_execute("MOVE 40000 FROM c")?;
    next(&mut reader, 40_106)?;
    reader.batch_execute("COMMIT")?;
    Ok(())
}

#[test]
fn a_row_costs_few_pages_in_a_new_session_on_both_servers_and_after_a_crash() -> anyhow::Result<()>
{
    let primary = Primary::start("ranges-buffers", &SETTINGS)?;
    let standby = primary.standby()?;
    let mut session = primary.session()?;
    session.batch_execute(MAKE)?;
    session.batch_execute("VACUUM (FREEZE, ANALYZE) t")?;
    let expected = query(&mut session, EXPECTED)?;
    standby.wait_for(&primary)?;
    // Six, and three for each of four columns.
    let bound = 18;
    let few = |mut fresh: Client, step: &str| -> anyhow::Result<()> {
        // Buffers read by parsing and planning are not counted.
        query(&mut fresh, "SELECT count(*) FROM t WHERE id = -1")?;
        let first = buffers_of_one_row(&mut fresh, "t", 12_345)?;
        let second = buffers_of_one_row(&mut fresh, "t", 54_321)?;
        println!("{step}: {first} buffers for the first row, {second} for the second");
        // Where pieces are not consecutive, the index is searched once: three more buffers.
        ensure!(
            first <= bound && second <= bound + 3,
            "{step}: {first}, {second}"
        );
        ensure!(query(&mut fresh, READ)? == expected, "{step}");
        Ok(())
    };
    few(primary.session()?, "primary")?;
    few(standby.session()?, "standby")?;
    vacuum_full_cold_store(&mut session)?;
    standby.wait_for(&primary)?;
    ensure!(query(&mut standby.session()?, READ)? == expected);
    session.batch_execute("INSERT INTO t SELECT i FROM generate_series(60001, 70000) i")?;
    drop(session);
    primary.crash_and_recover()?;
    let mut fresh = primary.session()?;
    ensure!(query(&mut fresh, READ)? == expected);
    ensure!(query(&mut fresh, "SELECT count(*) FROM t WHERE id > 60000")? == "10000");
    Ok(())
}

/// Buffers besides those of columns, and of each column.
const BUFFERS_OF_ROW: u64 = 6;
const BUFFERS_OF_COLUMN: u64 = 3;
/// More of each column of the first row of a group whose texts share words, which are read once.
const BUFFERS_OF_WORDS: u64 = 8;

/// A table of one row group with so many columns, its key included: numbers, or texts that share
/// words.
fn make_columns(
    session: &mut Client,
    name: &str,
    count: u32,
    expression: &str,
) -> anyhow::Result<()> {
    let columns = |what: &dyn Fn(u32) -> String| (1..count).map(what).collect::<String>();
    let of_type = match expression.contains('\'') {
        true => "text",
        false => "int",
    };
    session.batch_execute(&format!(
        "CREATE TABLE {name} (id int PRIMARY KEY {}) USING howdah;
         INSERT INTO {name} SELECT i {} FROM generate_series(1, 30000) i",
        columns(&|k| format!(", c{k} {of_type}")),
        columns(&|k| format!(", {}", expression.replace('K', &k.to_string()))),
    ))?;
    session.batch_execute(&format!("VACUUM (FREEZE, ANALYZE) {name}"))?;
    let groups =
        format!("SELECT cold_rows, row_groups FROM howdah.tables WHERE table_name = '{name}'");
    let groups = query(session, &groups)?;
    ensure!(groups == "30000|1", "{name} has {groups}");
    Ok(())
}

#[test]
fn a_row_of_few_or_many_columns_costs_few_pages() -> anyhow::Result<()> {
    let primary = Primary::start("ranges-columns", &SETTINGS)?;
    let mut session = primary.session()?;
    let kinds = [
        ("numbers", "i * 7919 % (99991 + K)", 0),
        (
            "texts",
            "format('{\"customer\": \"name %s\", \"lines\": [{\"item\": %s, \"count\": %s}, {\"item\": %s, \"count\": %s}]}',
                    i * 7919 % 300, i * 31 % (500 + K), i * 53 % 9, i * 17 % 500, i * 71 % (7 + K))",
            BUFFERS_OF_WORDS,
        ),
    ];
    let mut wrong = Vec::new();
    for (kind, expression, more) in kinds {
        for count in [1_u32, 2, 4, 8, 16] {
            let name = format!("{kind}{count}");
            make_columns(&mut session, &name, count, expression)?;
            let encodings = format!(
                "SELECT string_agg(DISTINCT encoding, ', ') FROM howdah.column_chunks
                 WHERE relation = '{name}'::regclass AND column_name <> 'id'"
            );
            let encodings = query(&mut session, &encodings)?;
            let mut fresh = primary.session()?;
            // Buffers read by parsing and planning are not counted.
            query(
                &mut fresh,
                &format!("SELECT count(*) FROM {name} WHERE id = -1"),
            )?;
            let first = buffers_of_one_row(&mut fresh, &name, 12_345)?;
            let second = buffers_of_one_row(&mut fresh, &name, 27_654)?;
            println!(
                "{name}: {first} buffers for the first row, {second} for the second; {encodings}"
            );
            let bound = BUFFERS_OF_ROW + BUFFERS_OF_COLUMN * u64::from(count);
            ensure!(
                count == 1 || more == 0 || encodings.contains("onpair"),
                "texts without words: {encodings}"
            );
            if first > bound + more * u64::from(count - 1) || second > bound {
                wrong.push(format!(
                    "{name}: {first} and {second} of {bound} ({encodings})"
                ));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
