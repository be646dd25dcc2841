//! Fallback invariance: for every entry of `howdah.functions`, generated calls with the engine's
//! kernel and without it give the same rows, or the same SQLSTATE. Without its kernel a function is
//! evaluated by PostgreSQL inside of the same plan; a query with an aggregate is left to PostgreSQL
//! as a whole. A call counts only if EXPLAIN shows that it moved; some call of every function must.
//!
//! `HOWDAH_FUNCTION_SEED` draws other values.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::Primary;
use howdah_server_tests::settings::number;
use postgres::{Client, SimpleQueryMessage};

/// A type: its name in `pg_type`, how a column of it is declared, an expression for a value by `g`,
/// the row's number, and rare values.
const TYPES: &[(&str, &str, &str, &[&str])] = &[
    ("bool", "bool", "random() < 0.5", &[]),
    (
        "int2",
        "int2",
        "(random() * 40)::int - 20",
        &["32767", "-32768", "0"],
    ),
    (
        "int4",
        "int4",
        "(random() * 400)::int - 200",
        &["2147483647", "-2147483648", "0"],
    ),
    (
        "int8",
        "int8",
        "(random() * 4000)::int - 2000",
        &["9223372036854775807", "-9223372036854775808", "0"],
    ),
    (
        "float4",
        "float4",
        "(random() * 400)::int * 0.25 - 50",
        &["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "3e38"],
    ),
    (
        "float8",
        "float8",
        "(random() * 4000)::int * 0.25 - 500",
        &["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "1e308"],
    ),
    (
        "numeric",
        "numeric(10,2)",
        "(random() * 10000)::int * 0.01 - 30",
        &["99999999.99", "-99999999.99", "0"],
    ),
    (
        "date",
        "date",
        "date '2000-01-01' + (random() * 800)::int",
        &["'infinity'", "'-infinity'", "'4713-01-01 BC'"],
    ),
    (
        "time",
        "time",
        "time '00:00' + (random() * 1000)::int * interval '1 minute'",
        &["'24:00'"],
    ),
    (
        "timestamp",
        "timestamp",
        "timestamp '2000-01-01' + (random() * 900)::int * interval '17 hours'",
        &["'infinity'", "'-infinity'", "'4713-01-01 BC'"],
    ),
    (
        "timestamptz",
        "timestamptz",
        "timestamptz '2000-01-01' + (random() * 900)::int * interval '17 hours'",
        &["'infinity'", "'-infinity'"],
    ),
    (
        "text",
        "text COLLATE \"C\"",
        "substr(md5((random() * 50)::int::text), 1, g % 7)",
        &["''", "'ä%_'", "'same'"],
    ),
    (
        "bytea",
        "bytea",
        "decode(md5((random() * 50)::int::text), 'hex')",
        &["''"],
    ),
    ("uuid", "uuid", "md5((random() * 50)::int::text)::uuid", &[]),
    (
        "bpchar",
        "char(4)",
        "substr(md5((random() * 50)::int::text), 1, g % 5)",
        &["''", "'ab  '"],
    ),
    (
        "jsonb",
        "jsonb",
        "jsonb_build_object(substr(md5((random() * 50)::int::text), 1, g % 4), g % 5, 'same',
            jsonb_build_array('same', g % 3, NULL, 1.50, jsonb_build_object('a', g % 2 = 0)))",
        &[
            "'{}'",
            "'[\"same\", [], 0]'",
            "'\"same\"'",
            "'null'",
            "'0.10'",
        ],
    ),
    (
        "_text",
        "text[]",
        "(ARRAY['same', (random() * 5)::int::text, substr(md5((random() * 50)::int::text), 1, 1),
            CASE WHEN g % 2 = 0 THEN '-1' END])[1:(random() * 4)::int]",
        &[],
    ),
    (
        JSONB_NUMBER,
        "jsonb",
        "to_jsonb((random() * 400)::int * 0.25 - 50)",
        &[
            "'32767.5'",
            "'-1e10'",
            "'null'",
            "'1e-30'",
            "'9223372036854775807'",
        ],
    ),
    (
        JSONB_TRUTH,
        "jsonb",
        "to_jsonb(random() < 0.5)",
        &["'null'"],
    ),
    (
        JSONB_ARRAY,
        "jsonb",
        "to_jsonb((ARRAY[g, g % 7])[1:g % 3])",
        &["'[]'", "'[[], {}]'"],
    ),
    (
        TEXT_INTEGER,
        "text COLLATE \"C\"",
        "((random() * 400)::int - 200)::text",
        &["' 7 '", "'-32768'", "'+2147483647'", "'0x1F'", "'1_0'"],
    ),
    (
        TEXT_NUMBER,
        "text COLLATE \"C\"",
        "((random() * 400)::int * 0.25 - 50)::text",
        &["' 7.50 '", "'-.5'", "'1e3'", "'5.'", "'NaN'"],
    ),
    (
        TEXT_TRUTH,
        "text COLLATE \"C\"",
        "(random() < 0.5)::text",
        &["' t'", "'no'"],
    ),
];

/// Columns of values that functions of a narrower domain take.
const JSONB_NUMBER: &str = "jsonb_number";
const JSONB_TRUTH: &str = "jsonb_truth";
const JSONB_ARRAY: &str = "jsonb_array";
const TEXT_INTEGER: &str = "text_integer";
const TEXT_NUMBER: &str = "text_number";
const TEXT_TRUTH: &str = "text_truth";

/// The kinds of values to call a function with, instead of those of its arguments' types: most
/// values of these would be errors.
fn narrowed(name: &str) -> Option<&'static str> {
    Some(match name {
        "jsonb_numeric" | "jsonb_int2" | "jsonb_int4" | "jsonb_int8" | "jsonb_float4"
        | "jsonb_float8" => JSONB_NUMBER,
        "jsonb_bool" => JSONB_TRUTH,
        "jsonb_array_length" => JSONB_ARRAY,
        "int2in" | "int4in" | "int8in" => TEXT_INTEGER,
        "float4in" | "float8in" | "numeric_in" => TEXT_NUMBER,
        "boolin" => TEXT_TRUTH,
        _ => return None,
    })
}

/// A call of a function. An input function stands for the cast of a text.
fn called(name: &str, call: &str, arguments: &str) -> String {
    match name {
        // Variadic, which the engine does not take; the operators are not.
        "jsonb_extract_path" => format!("({})", arguments.replacen(", ", " #> ", 1)),
        "jsonb_extract_path_text" => format!("({})", arguments.replacen(", ", " #>> ", 1)),
        input if input.ends_with("in") && narrowed(input).is_some() => {
            let ty = input.trim_end_matches("in").trim_end_matches('_');
            format!("CAST({arguments} AS {ty})")
        }
        _ => format!("{call}({arguments})"),
    }
}

/// Tables `moderate` and `extreme`: two columns of each type; and `constants`: a value of each
/// type, in heap.
fn make_tables(session: &mut Client, seed: u64) -> anyhow::Result<()> {
    for table in ["moderate", "extreme"] {
        let mut columns = vec!["id int".to_owned(), "k int".to_owned()];
        let mut values = vec!["g".to_owned(), "g % 3".to_owned()];
        for (name, ty, value, rare) in TYPES {
            for side in ["a", "b"] {
                let base = ty.split(' ').next().unwrap_or_default();
                let value = match (table, rare.is_empty()) {
                    ("extreme", false) => {
                        let list: Vec<String> = rare
                            .iter()
                            .map(|rare| format!("({rare})::{base}"))
                            .collect();
                        let count = list.len();
                        let drawn = format!(
                            "(ARRAY[{}])[1 + floor(random() * {count})::int]",
                            list.join(", ")
                        );
                        format!("CASE WHEN random() < 0.3 THEN {drawn} ELSE ({value})::{base} END")
                    }
                    _ => format!("({value})::{base}"),
                };
                columns.push(format!("{name}_{side} {ty}"));
                values.push(format!("CASE WHEN random() < 0.9 THEN {value} END"));
            }
        }
        session.batch_execute(&format!(
            "CREATE TABLE {table} ({}) USING howdah; SELECT setseed({});
             INSERT INTO {table} SELECT {} FROM generate_series(1, 2000) g; ANALYZE {table}",
            columns.join(", "),
            (seed % 1000) as f64 / 1000.0,
            values.join(", ")
        ))?;
    }
    let constants: Vec<String> = (TYPES.iter())
        .map(|(name, ty, ..)| {
            let ty = ty.split(' ').next().unwrap_or_default();
            format!("(SELECT max({name}_b::text) FROM moderate)::{ty} AS {name}_b")
        })
        .collect();
    session.batch_execute(&format!(
        "CREATE TABLE constants USING heap AS SELECT {}",
        constants.join(", ")
    ))?;
    Ok(())
}

/// The first column of what a query returns.
fn texts(session: &mut Client, query: &str) -> anyhow::Result<Vec<String>> {
    let messages = session
        .simple_query(query)
        .with_context(|| query.to_owned())?;
    let texts = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        _ => None,
    });
    Ok(texts.collect())
}

/// The rows of a query in no order, or the SQLSTATE of its error.
fn answer(session: &mut Client, query: &str) -> anyhow::Result<Result<Vec<String>, String>> {
    match texts(session, &format!("SELECT s::text FROM ({query}) s")) {
        Ok(mut rows) => {
            // Which of two equal values is shown depends on the order of rows.
            rows.iter_mut()
                .for_each(|row| *row = row.replace("(-0,", "(0,"));
            rows.sort_unstable();
            Ok(Ok(rows))
        }
        Err(error) => {
            let code = (error.downcast_ref::<postgres::Error>())
                .and_then(postgres::Error::code)
                .map(|code| code.code().to_owned());
            let code = code.with_context(|| format!("{query}: {error:#}"))?;
            ensure!(!code.starts_with("XX"), "{query}: {error:#}");
            Ok(Err(code))
        }
    }
}

/// Where a query is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    ByKernels,
    /// By the engine, for which PostgreSQL evaluates a part.
    InPart,
    No,
}

fn taken(session: &mut Client, query: &str) -> anyhow::Result<Taken> {
    let lines = texts(session, &format!("EXPLAIN (COSTS OFF) {query}"))?;
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    Ok(
        match (has("(Vectorized)"), has("Evaluated by PostgreSQL:")) {
            (true, false) => Taken::ByKernels,
            (true, true) => Taken::InPart,
            (false, _) => Taken::No,
        },
    )
}

/// Queries that call a function of arguments of these types, or an aggregate.
fn queries(kind: &str, name: &str, call: &str, types: &[&str]) -> Vec<String> {
    let narrowed = narrowed(name);
    let types = narrowed.as_ref().map_or(types, std::slice::from_ref);
    let known: Option<Vec<_>> = types
        .iter()
        .map(|ty| TYPES.iter().find(|(name, ..)| name == ty))
        .collect();
    let Some(known) = known else {
        return Vec::new();
    };
    let column = |at: usize| format!("{}_{}", known[at].0, ["a", "b"][at % 2]);
    // LIKE takes a pattern; every other second argument may be a literal too.
    let constant = |at: usize| {
        let (name, ty, ..) = known[at];
        let ty = ty.split(' ').next().unwrap_or_default();
        format!("(SELECT {name}_b FROM constants)::{ty}")
    };
    let arguments: Vec<Vec<String>> = match known.len() {
        0 => vec![Vec::new()],
        1 => vec![vec![column(0)]],
        _ => vec![
            (0..known.len()).map(column).collect(),
            (0..known.len())
                .map(|at| if at == 0 { column(0) } else { constant(at) })
                .collect(),
            (0..known.len())
                .map(|at| if at == 0 { constant(0) } else { column(at) })
                .collect(),
        ],
    };
    let mut queries = Vec::new();
    for arguments in arguments {
        let arguments = arguments.join(", ");
        for table in ["moderate", "extreme"] {
            if kind == "aggregate" {
                let arguments = if arguments.is_empty() {
                    "*"
                } else {
                    &arguments
                };
                queries.push(format!(
                    "SELECT k, {call}({arguments}) AS v FROM {table} GROUP BY k"
                ));
                queries.push(format!("SELECT {call}({arguments}) AS v FROM {table}"));
            } else {
                let call = called(name, call, &arguments);
                queries.push(format!(
                    "SELECT {call} AS v, count(*) FROM {table} GROUP BY 1"
                ));
                queries.push(format!(
                    "SELECT count({call}) AS v FROM {table} WHERE id < 50"
                ));
            }
        }
    }
    queries
}

#[test]
fn calls_have_one_answer_with_and_without_their_kernel() -> anyhow::Result<()> {
    let settings = [
        ("howdah.compaction", "off"),
        ("autovacuum", "off"),
        ("timezone", "UTC"),
    ];
    let primary = Primary::start("vectorized-functions", &settings)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "SET client_min_messages = error; SET jit = off; SET howdah.load_threshold = 0;
         SET howdah.debug_force_vectorized = on; SET howdah.threads = 1",
    )?;
    make_tables(&mut session, number("HOWDAH_FUNCTION_SEED", 1))?;
    let entries = session.query(
        "SELECT f.name, f.kind, format('pg_catalog.%I', p.proname),
                ARRAY(SELECT CASE t.typname WHEN 'any' THEN 'int4' ELSE t.typname END
                      FROM unnest(p.proargtypes) WITH ORDINALITY AS u (oid, at)
                          JOIN pg_type t ON t.oid = u.oid ORDER BY u.at)::text[]
         FROM howdah.functions f, unnest(f.functions) AS procedure
             JOIN pg_proc p ON p.oid = procedure
         ORDER BY f.kind, f.name, p.oid",
        &[],
    )?;
    let missing = session.query_one(
        "SELECT coalesce(string_agg(name, ', ' ORDER BY name), '') FROM howdah.functions
         WHERE cardinality(functions) = 0",
        &[],
    )?;
    let missing: String = missing.get(0);
    ensure!(missing.is_empty(), "no functions of {missing}");
    let mut moved = BTreeMap::<String, usize>::new();
    let mut asked = 0;
    for row in &entries {
        let (name, kind, call): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let types: Vec<String> = row.get(3);
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        let signature = format!("{call}({})", types.join(", "));
        let count = moved.entry(signature).or_default();
        for query in queries(&kind, &name, &call, &types) {
            session.batch_execute("RESET howdah.debug_disabled_functions")?;
            if taken(&mut session, &query)? != Taken::ByKernels {
                continue;
            }
            let with = answer(&mut session, &query)?;
            session.batch_execute(&format!("SET howdah.debug_disabled_functions = '{name}'"))?;
            let expected = match kind.as_str() {
                "aggregate" => Taken::No,
                _ => Taken::InPart,
            };
            let moved_to = taken(&mut session, &query)?;
            ensure!(
                moved_to == expected,
                "{query}: {moved_to:?} though {name} is disabled"
            );
            let without = answer(&mut session, &query)?;
            ensure!(
                with == without,
                "{query}: with the kernel of {name}\n{with:?}\nwithout\n{without:?}"
            );
            *count += 1;
            asked += 1;
        }
    }
    let still: Vec<_> = moved.iter().filter(|(_, count)| **count == 0).collect();
    println!(
        "{asked} calls of {} functions; not moved: {still:?}",
        moved.len()
    );
    ensure!(
        still.is_empty() && !moved.is_empty(),
        "these did not move: {still:?}"
    );
    Ok(())
}
