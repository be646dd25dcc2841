//! Databases in other encodings than UTF-8: text is stored, compared, counted and sent by its bytes
//! as heap does it. And locales of UTF-8 in which the order of text is that of its bytes.

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;
use postgres::error::SqlState;

/// An encoding, and texts in it as bytes.
const ENCODINGS: [(&str, &[&str]); 3] = [
    (
        "LATIN1",
        &["e9", "e8e9", "61", "c4", "", "5c", "616263", "61e9"],
    ),
    (
        "EUC_JP",
        &[
            "a4a2", "a4a2a4a4", "61", "", "5c", "61a4a2", "616263", "8eb1",
        ],
    ),
    (
        "SQL_ASCII",
        &["e9", "ff61", "61", "", "a4a2", "5c", "616263", "c3a9"],
    ),
];

/// Each returns ASCII only. `@` stands for the table.
const QUERIES: [&str; 17] = [
    "SELECT length(w), octet_length(w), count(*) FROM @ GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT md5(w), count(*), max(length(v)) FROM @ GROUP BY w ORDER BY 1",
    "SELECT md5(max(w)), md5(min(w)), md5(max(v)), count(c) FROM @",
    "SELECT count(*), max(id) FROM @ WHERE w LIKE '_'",
    "SELECT count(*), max(id) FROM @ WHERE w LIKE '%a%' OR w LIKE '_\\_'",
    "SELECT count(*), max(id) FROM @ WHERE w LIKE '__%'",
    "SELECT count(*), max(id) FROM @ WHERE w > 'a' AND starts_with(v, 'a')",
    "SELECT id, md5(w) FROM @ ORDER BY w DESC, id LIMIT 5",
    "SELECT md5(upper(w)), count(*) FROM @ GROUP BY 1 ORDER BY 1",
    "SELECT md5(substr(w, 2, 1)), count(*) FROM @ GROUP BY 1 ORDER BY 1",
    "SELECT md5(c::text), length(c) FROM @ GROUP BY c ORDER BY 1",
    "SELECT count(*) FROM @ WHERE w = (SELECT w FROM h WHERE id = 3)",
    "SELECT count(*) FROM @ WHERE w LIKE (SELECT w FROM h WHERE id = 1) || '%'",
    "SELECT md5(string_agg(w || v || c, ',' ORDER BY id)) FROM @",
    "SELECT md5(j->>'w'), jsonb_typeof(j->'n'), count(*) FROM @ GROUP BY j->>'w', 2 ORDER BY 1, 2",
    "SELECT count(*), max(id) FROM @ WHERE length(j->>'w') = 1 AND (j->>'n')::int > 2",
    "SELECT count(*), max(id) FROM @ WHERE j ? w OR j#>>ARRAY['w'] = 'a' OR j->>0 > 'a'",
];

fn make(session: &mut Client, texts: &[&str]) -> anyhow::Result<()> {
    session.batch_execute(&format!(
        "CREATE EXTENSION howdah;
         CREATE TABLE h (id int, w text, v varchar(20), c char(10), j jsonb);
         CREATE TABLE t (LIKE h) USING howdah;
         INSERT INTO h SELECT i, w, w || i % 7, w, jsonb_build_object('w', w, w || 'a', i, 'n', i % 7)
             FROM generate_series(1, 10000) i,
             LATERAL (SELECT decode((string_to_array('{}', ','))[1 + i % 8], 'hex') AS bytes) b,
             LATERAL (SELECT convert_from(bytes, getdatabaseencoding()) AS w) s;
         SET howdah.load_threshold = 0;
         INSERT INTO t SELECT * FROM h",
        texts.join(",")
    ))?;
    Ok(session.batch_execute("VACUUM ANALYZE h, t")?)
}

#[test]
fn text_is_that_of_heap() -> anyhow::Result<()> {
    let settings = [("howdah.compaction", "off"), ("autovacuum", "off")];
    let primary = Primary::start("encodings", &settings)?;
    for (encoding, texts) in ENCODINGS {
        let name = encoding.to_lowercase();
        primary.session()?.batch_execute(&format!(
            "CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        ))?;
        let mut session = primary.connect(&name)?;
        make(&mut session, texts)?;
        for forced in ["on", "off"] {
            session.batch_execute(&format!("SET howdah.debug_force_vectorized = {forced}"))?;
            for text in QUERIES {
                let ours = query(&mut session, &text.replace('@', "t"))?;
                let theirs = query(&mut session, &text.replace('@', "h"))?;
                ensure!(
                    ours == theirs,
                    "{encoding}: {text}: {ours:.300}\nbut of heap {theirs:.300}"
                );
            }
        }
        // Lines that are written as they are, and lines that are converted.
        let mut conversions = vec![encoding];
        if encoding != "SQL_ASCII" {
            conversions.push("UTF8");
        }
        for client in conversions {
            let mut sums = Vec::new();
            for table in ["h", "t"] {
                let file = primary.data.join(format!("{name}-{client}-{table}"));
                let file = file.display();
                session.batch_execute(&format!(
                    "SET client_encoding = '{client}'; COPY {table} TO '{file}'; RESET client_encoding"
                ))?;
                let sum = format!("SELECT md5(pg_read_binary_file('{file}'))");
                sums.push(query(&mut session, &sum)?);
            }
            ensure!(sums[0] == sums[1], "{encoding}: COPY in {client}");
        }
    }
    Ok(())
}

#[test]
fn a_table_is_released_by_its_own_name_or_not_at_all() -> anyhow::Result<()> {
    let primary = Primary::start("encoded-names", &[("howdah.compaction", "off")])?;
    primary
        .session()?
        .batch_execute("CREATE DATABASE latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")?;
    let mut session = primary.connect("latin1")?;
    session.batch_execute(
        "CREATE EXTENSION howdah; SET howdah.load_threshold = 0;
         CREATE TABLE \"é\" USING howdah AS SELECT generate_series(1, 100) i;
         CREATE TABLE \"è\" USING howdah AS SELECT generate_series(1, 100) i",
    )?;
    let methods = "SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
                   WHERE c.relname IN ('é', 'è') ORDER BY 1";
    let before = query(&mut session, methods)?;
    // What is not UTF-8 is shown escaped: text of any encoding.
    session.batch_execute(
        "CREATE TABLE words (\"ö\" text) USING howdah; INSERT INTO words SELECT 'é' FROM generate_series(1, 100)",
    )?;
    let shown = query(
        &mut session,
        "SELECT DISTINCT min, max FROM howdah.column_chunks WHERE relation = 'words'::regclass",
    )?;
    ensure!(shown == r"\xe9|\xe9", "{shown}");
    let plan = query(
        &mut session,
        "SET howdah.debug_force_vectorized = on; EXPLAIN (VERBOSE, COSTS OFF) SELECT max(\"ö\") FROM words \"ä\"",
    )?;
    ensure!(plan.contains(r"\xe4"), "{plan}");
    for name in ["é", "è"] {
        let refused = session.batch_execute(&format!("SELECT howdah.release('\"{name}\"')"));
        let error = refused.err().context("it was released")?;
        ensure!(
            error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED),
            "{error:?}"
        );
        ensure!(query(&mut session, methods)? == before);
    }
    session.batch_execute("ALTER TABLE \"é\" SET ACCESS METHOD heap")?;
    let after = query(&mut session, methods)?;
    ensure!(after == "è|howdah\né|heap", "{after}");
    ensure!(query(&mut session, "SELECT count(*) FROM \"é\"")? == "100");
    Ok(())
}

/// `@` stands for the table.
const ORDERS: [&str; 5] = [
    "SELECT id, w FROM @ ORDER BY w DESC, id LIMIT 9",
    "SELECT min(w), max(w), max(v) FROM @",
    "SELECT count(*), max(id) FROM @ WHERE w > 'b' AND v <= 'd'",
    "SELECT count(*), max(id) FROM @ WHERE w BETWEEN 'a' AND 'é'",
    "SELECT w, min(v), count(*) FROM @ WHERE w >= '' GROUP BY w ORDER BY w DESC LIMIT 7",
];

#[test]
fn an_order_of_bytes_is_vectorized_whatever_provides_it() -> anyhow::Result<()> {
    let settings = [("howdah.compaction", "off"), ("autovacuum", "off")];
    let primary = Primary::start("orders", &settings)?;
    let locales = [
        (
            "builtin",
            "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'",
        ),
        ("libc", "LOCALE_PROVIDER libc LOCALE 'C.UTF-8'"),
    ];
    for (provider, locale) in locales {
        let made = primary.session()?.batch_execute(&format!(
            "CREATE DATABASE {provider} ENCODING 'UTF8' {locale} TEMPLATE template0"
        ));
        if let (Err(error), "libc") = (&made, provider) {
            println!("not tried, this machine has no such locale: {error}");
            continue;
        }
        made?;
        let mut session = primary.connect(provider)?;
        session.batch_execute(
            "CREATE EXTENSION howdah;
             CREATE TABLE h AS SELECT i AS id,
                 chr(97 + i % 5) || chr(50 + i * 37 % 900) || i % 50 AS w,
                 (substr('aZé🦀~', 1 + i % 5, 1) || i % 90)::varchar(20) AS v
             FROM generate_series(1, 9000) i;
             CREATE TABLE t (LIKE h) USING howdah;
             SET howdah.load_threshold = 0; SET howdah.debug_force_vectorized = on;
             INSERT INTO t SELECT * FROM h; ANALYZE h, t",
        )?;
        for text in ORDERS {
            let ours = text.replace('@', "t");
            let plan = query(&mut session, &format!("EXPLAIN (COSTS OFF) {ours}"))?;
            let is_computed =
                plan.contains("(Vectorized)") && !plan.contains("Evaluated by PostgreSQL");
            ensure!(is_computed, "{provider}: {text}: {plan}");
            let ours = query(&mut session, &ours)?;
            let theirs = query(&mut session, &text.replace('@', "h"))?;
            ensure!(
                ours == theirs,
                "{provider}: {text}: {ours:.300}\nbut of heap {theirs:.300}"
            );
        }
    }
    Ok(())
}
