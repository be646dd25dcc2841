//! One column of one row group is damaged on disk. Every kind of statement that reads it is refused
//! with XX001, and every one that does not read it answers as before; maintenance that is refused
//! leaves the table as it was.
//!
//! ```text
//!   t = row group A (ids 1..10000, sound) + row group B (ids 10001..20000, its column w damaged)
//! ```

use howdah_server_tests::harmed_table::{
    BY_BITMAP, BY_COLUMN, BY_ENGINE, BY_INDEX, BY_ROW, BY_WORKERS, Case, FREE, Harm, HarmedTable,
};

/// Statements that read the damaged values.
const REFUSED: &[Case<'static>] = &[
    (
        &[BY_INDEX],
        "Index Scan",
        "SELECT w FROM t WHERE id = 15000",
    ),
    (
        &[BY_INDEX],
        "Index Scan",
        "SELECT t FROM t WHERE id = 15000",
    ),
    (
        &[BY_INDEX],
        "Index Scan",
        "SELECT count(*) FROM t WHERE k = 7 AND w > 'a'",
    ),
    (
        &[BY_INDEX],
        "Index Scan Backward",
        "SELECT max(w) FROM (SELECT w FROM t ORDER BY id DESC LIMIT 900) x",
    ),
    (
        &[BY_INDEX, BY_WORKERS],
        "Parallel Index Scan",
        "SELECT count(w), max(w) FROM t WHERE id > 5",
    ),
    // A late row in a sort, a hash, a window.
    (
        &[BY_INDEX],
        "Sort",
        "SELECT id, w FROM t WHERE id BETWEEN 14000 AND 15000 ORDER BY n DESC",
    ),
    (
        &[BY_INDEX],
        "Hash Join",
        "SELECT max(x.w) FROM (SELECT k, w FROM t WHERE id > 14000 OFFSET 0) x JOIN kinds USING (k)",
    ),
    (
        &[BY_INDEX],
        "WindowAgg",
        "SELECT id, lag(w) OVER (ORDER BY id) FROM t WHERE id > 14000",
    ),
    (
        &[BY_BITMAP],
        "Bitmap Heap Scan",
        "SELECT max(w) FROM t WHERE id BETWEEN 14000 AND 15000",
    ),
    (
        &[BY_BITMAP, BY_WORKERS],
        "Parallel Bitmap Heap Scan",
        "SELECT count(w), max(w) FROM t WHERE k < 90 AND w > 'a'",
    ),
    (
        &[BY_COLUMN],
        "HowdahColumnarScan",
        "SELECT count(*) FROM t WHERE w LIKE '%ab%'",
    ),
    (
        &[BY_COLUMN],
        "HowdahColumnarScan",
        "SELECT count(*) FROM t WHERE w = 'ab'",
    ),
    (&[BY_COLUMN], "HowdahColumnarScan", "SELECT * FROM t"),
    // Single values of a chunk.
    (
        &[BY_COLUMN],
        "HowdahColumnarScan",
        "SELECT w FROM t WHERE n = 18750",
    ),
    (
        &[BY_COLUMN, BY_WORKERS],
        "Parallel Custom Scan (HowdahColumnarScan)",
        "SELECT count(w), max(w) FROM t",
    ),
    (&[BY_ROW], "Seq Scan", "SELECT max(w) FROM t"),
    (
        &[BY_ROW, BY_WORKERS],
        "Parallel Seq Scan",
        "SELECT max(w) FROM t",
    ),
    (
        &[BY_ROW],
        "Sample Scan",
        "SELECT max(w) FROM t TABLESAMPLE system (100)",
    ),
    (
        &[],
        "Tid Scan",
        "SELECT w FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE id = 15000))",
    ),
    (
        &[BY_ENGINE],
        "Vectorized",
        "SELECT k, max(w COLLATE \"C\") FROM t GROUP BY k",
    ),
    (
        &[BY_ENGINE],
        "Vectorized",
        "SELECT count(*) FROM t WHERE w LIKE '%ab%'",
    ),
    (
        &[BY_ENGINE],
        "Vectorized",
        "SELECT id, w FROM t WHERE id < 16000 ORDER BY n DESC LIMIT 3",
    ),
    (
        &[BY_INDEX],
        "LockRows",
        "SELECT w FROM t WHERE id = 15000 FOR UPDATE",
    ),
    (
        &[BY_INDEX],
        "LockRows",
        "SELECT w FROM t WHERE id = 15000 FOR KEY SHARE",
    ),
    (
        &[BY_INDEX],
        "Index Scan",
        "UPDATE t SET w = w || '!' WHERE id = 15000",
    ),
    // The new version takes the value over.
    (
        &[BY_INDEX],
        "Index Scan",
        "UPDATE t SET n = 0 WHERE id = 15000",
    ),
    (&[FREE], "Update", "UPDATE t SET n = 0 WHERE id > 12000"),
    (
        &[BY_INDEX],
        "Index Scan",
        "DELETE FROM t WHERE id = 15000 RETURNING w",
    ),
    (&[FREE], "Delete", "DELETE FROM t WHERE w LIKE '%ab%'"),
    (
        &[FREE],
        "Conflict",
        "INSERT INTO t VALUES (15000) ON CONFLICT (id) DO UPDATE SET w = t.w || '!'",
    ),
    (
        &[FREE],
        "Conflict",
        "INSERT INTO t VALUES (15000) ON CONFLICT (id) DO UPDATE SET n = 0",
    ),
    (
        &[FREE],
        "Conflict",
        "INSERT INTO t VALUES (15000) ON CONFLICT (id) DO UPDATE SET n = 0 WHERE t.w > 'a'",
    ),
    (
        &[BY_INDEX],
        "Merge",
        "MERGE INTO t USING kinds ON t.id = kinds.k + 15000 WHEN MATCHED THEN UPDATE SET w = t.w || '!'",
    ),
    (&[FREE], "Insert", "INSERT INTO log SELECT w FROM t"),
    (&[FREE], "", "CREATE TABLE copied AS SELECT * FROM t"),
    (&[FREE], "", "COPY t TO '/dev/null'"),
    (&[FREE], "", "COPY t TO '/dev/null' (FORMAT binary)"),
    (
        &[FREE],
        "",
        "COPY (SELECT w FROM t WHERE id = 15000) TO '/dev/null'",
    ),
    (
        &[BY_INDEX],
        "",
        "DECLARE c SCROLL CURSOR FOR SELECT w FROM t ORDER BY id; MOVE 15000 FROM c; FETCH BACKWARD 1 FROM c",
    ),
    (
        &[BY_INDEX],
        "",
        "DECLARE c SCROLL CURSOR FOR SELECT id, w FROM t ORDER BY id DESC; MOVE 1000 FROM c; FETCH BACKWARD 2 FROM c",
    ),
    (
        &[BY_COLUMN],
        "",
        "DECLARE c SCROLL CURSOR FOR SELECT w FROM t; MOVE LAST FROM c; FETCH BACKWARD 1000 FROM c",
    ),
];

/// Statements that do not read the damaged values.
const ANSWERED: &[Case<'static>] = &[
    (&[BY_INDEX], "Index Scan", "SELECT w FROM t WHERE id = 5000"),
    (
        &[BY_INDEX],
        "Index Scan",
        "SELECT k, n FROM t WHERE id = 15000",
    ),
    (
        &[BY_INDEX],
        "Index Only Scan",
        "SELECT count(id), sum(id) FROM t WHERE id > 14000",
    ),
    (
        &[BY_INDEX, BY_WORKERS],
        "Parallel Index Only Scan",
        "SELECT count(id), sum(id) FROM t WHERE id > 5",
    ),
    (
        &[BY_BITMAP],
        "Bitmap Heap Scan",
        "SELECT sum(n) FROM t WHERE id BETWEEN 14000 AND 15000",
    ),
    // The statistics of the chunk say that no value is so large.
    (
        &[BY_COLUMN],
        "HowdahColumnarScan",
        "SELECT count(*) FROM t WHERE w > 'zzz'",
    ),
    (
        &[BY_COLUMN],
        "HowdahColumnarScan",
        "SELECT count(*), max(w) FROM t WHERE id <= 10000",
    ),
    (
        &[BY_COLUMN, BY_WORKERS],
        "Parallel Custom Scan (HowdahColumnarScan)",
        "SELECT sum(n) FROM t WHERE k < 9",
    ),
    (
        &[BY_ENGINE],
        "Vectorized",
        "SELECT k, sum(n) FROM t GROUP BY k ORDER BY k",
    ),
    (
        &[BY_ENGINE],
        "Vectorized",
        "SELECT id, w FROM t ORDER BY id LIMIT 3",
    ),
    // A cursor passes over rows that are not put together.
    (
        &[BY_INDEX],
        "",
        "DECLARE c SCROLL CURSOR FOR SELECT * FROM t ORDER BY id; MOVE 15000 FROM c;
                       MOVE BACKWARD 12000 FROM c; FETCH BACKWARD 1 FROM c",
    ),
    // A lock and a deletion write a mark, and read nothing that is not returned.
    (
        &[BY_INDEX],
        "LockRows",
        "SELECT id FROM t WHERE id = 15000 FOR UPDATE",
    ),
    (&[BY_INDEX], "Index Scan", "DELETE FROM t WHERE id = 15000"),
    (
        &[FREE],
        "Conflict",
        "INSERT INTO t VALUES (15000) ON CONFLICT DO NOTHING RETURNING id",
    ),
    (&[FREE], "", "COPY (SELECT id, n FROM t) TO '/dev/null'"),
];

/// Statements that need other columns only, but may read all of a row.
const EITHER: &[Case<'static>] = &[
    (&[BY_ROW], "Seq Scan", "SELECT count(*), sum(n) FROM t"),
    (
        &[BY_INDEX],
        "Index Scan",
        "DELETE FROM t WHERE id = 15000 RETURNING id",
    ),
];

#[test]
fn statements_are_refused_where_they_read_damage_and_nowhere_else() -> anyhow::Result<()> {
    let table = HarmedTable::start("damage-statements")?;
    table.is_refused_and_answered(&Harm::ALL, REFUSED, ANSWERED, EITHER)
}

#[test]
fn triggers_and_foreign_keys_are_refused_where_they_read_damage() -> anyhow::Result<()> {
    let harmed = HarmedTable::start("damage-triggers")?;
    let mut session = harmed.damaged.primary.session()?;
    session.batch_execute(
        "CREATE FUNCTION looks_up() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN SELECT w INTO STRICT NEW.w FROM t WHERE id = NEW.w::int; RETURN NEW; END $$;
         CREATE TRIGGER looks_up BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION looks_up();
         CREATE FUNCTION keeps_old() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO kept VALUES (OLD.w); RETURN NULL; END $$;
         CREATE TABLE kept (w text);
         CREATE TRIGGER keeps_old AFTER DELETE ON t FOR EACH ROW WHEN (OLD.k = 7)
             EXECUTE FUNCTION keeps_old();
         CREATE FUNCTION keeps_all() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO kept SELECT w FROM gone; RETURN NULL; END $$;
         CREATE TRIGGER keeps_all AFTER DELETE ON t REFERENCING OLD TABLE AS gone
             FOR EACH STATEMENT WHEN (current_setting('keeps.everything', true) = 'on')
             EXECUTE FUNCTION keeps_all()",
    )?;
    harmed.is_refused_and_answered(
        &[Harm::Bits, Harm::Swapped],
        &[
            (&[FREE], "", "INSERT INTO log VALUES ('15000')"),
            (&[BY_INDEX], "", "DELETE FROM t WHERE id = 15007"),
            (
                &[BY_INDEX],
                "",
                "SET LOCAL keeps.everything = on; DELETE FROM t WHERE id = 15008",
            ),
        ],
        &[(&[FREE], "", "INSERT INTO log VALUES ('5000') RETURNING w")],
        &[],
    )?;
    session.batch_execute(
        "DROP TRIGGER keeps_old ON t; DROP TRIGGER keeps_all ON t;
         CREATE UNIQUE INDEX t_w ON t (w);
         CREATE TABLE child (w text REFERENCES t (w) ON UPDATE CASCADE);
         INSERT INTO child SELECT w FROM t WHERE id IN (5000, 15000);
         ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES kinds ON UPDATE CASCADE ON DELETE CASCADE;
         ALTER TABLE kinds ADD kind text;
         CREATE FUNCTION known() RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT md5('16000')$$",
    )?;
    harmed.is_refused_and_answered(
        &[Harm::Bits, Harm::Swapped],
        &[
            // The referenced key is read of the row that is gone.
            (&[BY_INDEX], "", "DELETE FROM t WHERE id = 16000"),
            (&[BY_INDEX], "", "UPDATE t SET w = 'new' WHERE id = 16000"),
            // Rows that refer to a key which changes are written anew.
            (&[FREE], "", "UPDATE kinds SET k = 1007 WHERE k = 7"),
        ],
        &[(
            &[FREE],
            "",
            "UPDATE kinds SET kind = 'x' WHERE k = 7 RETURNING k",
        )],
        // The key is found in the index, and its row is locked.
        &[(
            &[FREE],
            "",
            "INSERT INTO child VALUES (known()) RETURNING w",
        )],
    )
}
