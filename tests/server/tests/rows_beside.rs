//! A scan by index reads the rows beside each other to which its index leads together, however few
//! they are, and none beyond them: what it touches tells.

use anyhow::ensure;
use howdah_server_tests::buffers::touched;
use howdah_server_tests::checks::cold_row_count;
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

const SETTINGS: [(&str, &str); 4] = [
    ("howdah.load_threshold", "0"),
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("enable_seqscan", "off"),
];

/// Of each parent ten rows beside each other; twelve texts of several lengths.
fn make(session: &mut Client) -> anyhow::Result<()> {
    let columns = |what: &dyn Fn(u32) -> String| (1..=12).map(what).collect::<String>();
    session.batch_execute(&format!(
        "CREATE TABLE t (id int PRIMARY KEY, parent int NOT NULL {}) USING howdah;
         INSERT INTO t SELECT i, i / 10 {} FROM generate_series(0, 29999) i;
         CREATE INDEX ON t (parent)",
        columns(&|k| format!(", c{k} text COLLATE \"C\"")),
        columns(&|k| format!(", left(md5((i * {k})::text), 20 + i % 9)")),
    ))?;
    session.batch_execute("VACUUM (FREEZE, ANALYZE) t")?;
    ensure!(cold_row_count(session, "t")? == 30_000, "t stayed hot");
    session.batch_execute("SET howdah.columnar_scan = off; SET howdah.vectorized = off")?;
    // Footer, words and symbols are read once.
    query(
        session,
        "SELECT md5(string_agg(t::text, '')) FROM t WHERE id BETWEEN 100 AND 900",
    )?;
    Ok(())
}

#[test]
fn rows_beside_each_other_are_read_at_once_and_no_others() -> anyhow::Result<()> {
    let primary = Primary::start("rows-beside", &SETTINGS)?;
    let mut session = primary.session()?;
    make(&mut session)?;
    let one = touched(
        &mut session,
        "SELECT * FROM t WHERE id = 2000",
        &["Index Scan"],
    )?;
    let forth = "Index Scan using";
    for (sql, node, rows) in [
        ("SELECT * FROM t WHERE id BETWEEN 4000 AND 4001", forth, 2),
        ("SELECT * FROM t WHERE id BETWEEN 5000 AND 5039", forth, 40),
        (
            "SELECT * FROM t WHERE id BETWEEN 6000 AND 6039 ORDER BY id DESC",
            "Index Scan Backward",
            40,
        ),
        ("SELECT * FROM t WHERE parent = 700", forth, 10),
        (
            "SELECT * FROM t WHERE id >= 8000 ORDER BY id LIMIT 1",
            "Limit",
            1,
        ),
        (
            "SELECT * FROM t WHERE id >= 9000 ORDER BY id LIMIT 7",
            "Limit",
            7,
        ),
        (
            "SELECT * FROM t WHERE id <= 9900 ORDER BY id DESC LIMIT 20 OFFSET 3",
            "Limit",
            20,
        ),
        (
            "SELECT (SELECT t FROM t WHERE id >= 11000 ORDER BY id LIMIT 1)",
            "InitPlan",
            1,
        ),
    ] {
        let found = touched(&mut session, sql, &[node, &format!("rows={rows}.")])?;
        println!("{found} buffers where one row needs {one}: {sql}");
        // Some pages are met for the first time, and some rows lie on two.
        ensure!(
            found <= one * 9 / 4,
            "{found} buffers where one row needs {one}: {sql}"
        );
    }
    session.batch_execute("SET enable_indexscan = off")?;
    let bitmap = touched(
        &mut session,
        "SELECT * FROM t WHERE parent = 1200",
        &["Bitmap Heap Scan", "rows=10."],
    )?;
    ensure!(
        bitmap <= one * 9 / 4,
        "{bitmap} buffers by bitmap where one row needs {one}"
    );
    Ok(())
}

/// A join that asks whether there is any row reads no second one, wherever that lies.
#[test]
fn a_semi_join_reads_one_row() -> anyhow::Result<()> {
    let primary = Primary::start("rows-of-semi-joins", &SETTINGS)?;
    let mut session = primary.session()?;
    make(&mut session)?;
    session.batch_execute(
        "CREATE INDEX ON t ((id % 3000)); ANALYZE t;
         SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
         SET enable_memoize = off",
    )?;
    let texts: Vec<String> = (1..=12).map(|k| format!("c{k}")).collect();
    let texts = texts.join(" || ");
    let mut asked = |sql: &str, nodes: &[&str]| {
        let sql = sql.replace("TEXTS", &texts);
        touched(&mut session, &sql, nodes)
    };
    let all = asked(
        "SELECT count(*) FROM t WHERE id % 3000 = 700 AND TEXTS <> ''",
        &["t_expr_idx"],
    )?;
    for (sql, node) in [
        (
            "SELECT FROM generate_series(800, 800) v WHERE EXISTS
             (SELECT FROM t WHERE id % 3000 = v AND TEXTS <> '')",
            "Nested Loop Semi Join",
        ),
        (
            "SELECT FROM generate_series(900, 900) v WHERE NOT EXISTS
             (SELECT FROM t WHERE id % 3000 = v AND TEXTS <> '')",
            "Nested Loop Anti Join",
        ),
        (
            "SELECT EXISTS (SELECT FROM t WHERE id % 3000 = 1000 AND TEXTS <> '')",
            "InitPlan",
        ),
    ] {
        let found = asked(sql, &[node, "t_expr_idx"])?;
        println!("{found} buffers where ten rows need {all}: {sql}");
        ensure!(
            found * 3 < all,
            "{found} buffers where ten rows need {all}: {sql}"
        );
    }
    Ok(())
}

/// Rows of three row groups by turns, as an index has them: a Limit wants them all together, not so
/// many of each group.
#[test]
fn a_limit_counts_the_rows_of_all_groups() -> anyhow::Result<()> {
    let primary = Primary::start("rows-by-turns", &SETTINGS)?;
    let mut session = primary.session()?;
    let columns = |what: &dyn Fn(u32) -> String| (1..=12).map(what).collect::<String>();
    session.batch_execute(&format!(
        "CREATE TABLE t (turn int PRIMARY KEY {}) USING howdah",
        columns(&|k| format!(", c{k} text COLLATE \"C\"")),
    ))?;
    for group in 0..3 {
        session.batch_execute(&format!(
            "INSERT INTO t SELECT 3 * (i * 7919 % 10000) + {group} {} FROM generate_series(0, 9999) i",
            columns(&|k| format!(", left(md5((i * {k})::text), 20 + i % 9)")),
        ))?;
    }
    session.batch_execute("VACUUM (FREEZE, ANALYZE) t")?;
    let groups = "SELECT count(*) FROM howdah.row_groups WHERE relation = 't'::regclass";
    ensure!(
        query(&mut session, groups)?.trim() == "3",
        "not three row groups"
    );
    session.batch_execute("SET howdah.columnar_scan = off; SET howdah.vectorized = off")?;
    query(
        &mut session,
        "SELECT md5(string_agg(t::text, '')) FROM t WHERE turn < 900",
    )?;
    let range = "SELECT * FROM t WHERE turn BETWEEN 6000 AND 6011 ORDER BY turn";
    let range = touched(&mut session, range, &["Index Scan", "rows=12."])?;
    let limit = "SELECT * FROM t WHERE turn >= 9000 ORDER BY turn LIMIT 12";
    let limit = touched(&mut session, limit, &["Limit", "rows=12."])?;
    println!("{limit} buffers where a range of as many rows needs {range}");
    ensure!(
        limit <= range * 5 / 4,
        "{limit} buffers where a range of as many rows needs {range}"
    );
    Ok(())
}
