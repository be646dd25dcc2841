//! Marks are damaged on disk. That a row is hidden is told by the key of its mark; how, and
//! where its new version is, by the mark's record. A statement that needs the record is refused
//! while it is damaged, one that needs the key only is answered; one that finds no mark where the
//! index of the cold store says that there is one is refused: no row comes back, and none is lost.
//! Of rows that were deleted along with their neighbours the record tells which they are: every
//! statement that meets them needs it.

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::query;
use howdah_server_tests::damage::{
    BLOCK_DELETIONS_ID, IS_ERROR, KEY_AND_LENGTH_BYTES, MARK_ID, PAGE_BYTES, Patch, StoredTuple,
    names_damage, outcome, word,
};
use howdah_server_tests::harmed_table::{
    BY_BITMAP, BY_COLUMN, BY_ENGINE, BY_INDEX, BY_ROW, BY_WORKERS, Case, FREE, HarmedTable,
};
use postgres::Client;

/// Settings, a part of the plan, and a statement that meets the mark of the row whose id stands for
/// ROW.
const STATEMENTS: &[Case<'static>] = &[
    (&[BY_INDEX], "Index Scan", "SELECT w FROM t WHERE id = ROW"),
    (
        &[BY_INDEX],
        "Index Only Scan",
        "SELECT count(id) FROM t WHERE id = ROW",
    ),
    (
        &[BY_INDEX],
        "Index Only Scan",
        "SELECT count(id) FROM t WHERE id BETWEEN ROW - 700 AND ROW + 700",
    ),
    (
        &[BY_INDEX],
        "Index Scan Backward",
        "SELECT max(w) FROM (SELECT w FROM t WHERE id < ROW + 300 ORDER BY id DESC LIMIT 500) x",
    ),
    (
        &[BY_INDEX, BY_WORKERS],
        "Parallel Index Only Scan",
        "SELECT count(id) FROM t WHERE id > 5",
    ),
    (
        &[BY_BITMAP],
        "Bitmap Heap Scan",
        "SELECT count(*) FROM t WHERE id BETWEEN ROW - 700 AND ROW + 700",
    ),
    (&[BY_ROW], "Seq Scan", "SELECT count(*) FROM t"),
    (
        &[BY_ROW, BY_WORKERS],
        "Parallel Seq Scan",
        "SELECT max(w) FROM t",
    ),
    (
        &[BY_COLUMN],
        "HowdahColumnarScan",
        "SELECT count(*) FROM t WHERE n > 0",
    ),
    (
        &[BY_COLUMN],
        "HowdahColumnarScan",
        "SELECT count(*) FROM t WHERE w LIKE '%ab%'",
    ),
    (&[BY_ENGINE], "Vectorized", "SELECT count(*) FROM t"),
    (
        &[BY_ENGINE],
        "Vectorized",
        "SELECT k, max(w COLLATE \"C\") FROM t GROUP BY k",
    ),
    (
        &[BY_INDEX],
        "LockRows",
        "SELECT id FROM t WHERE id = ROW FOR UPDATE",
    ),
    (
        &[BY_INDEX],
        "LockRows",
        "SELECT id FROM t WHERE id = ROW FOR KEY SHARE",
    ),
    (&[BY_INDEX], "Update", "UPDATE t SET n = 0 WHERE id = ROW"),
    (&[BY_INDEX], "Delete", "DELETE FROM t WHERE id = ROW"),
    (&[FREE], "Delete", "DELETE FROM t WHERE n > 0"),
    (
        &[BY_INDEX],
        "Merge",
        "MERGE INTO t USING kinds ON t.id = kinds.k + ROW WHEN MATCHED THEN DELETE",
    ),
    (&[FREE], "Insert", "INSERT INTO t VALUES (ROW)"),
    (
        &[FREE],
        "Conflict",
        "INSERT INTO t VALUES (ROW) ON CONFLICT DO NOTHING",
    ),
    (
        &[FREE],
        "Conflict",
        "INSERT INTO t VALUES (ROW) ON CONFLICT (id) DO UPDATE SET n = 0",
    ),
    (&[FREE], "Insert", "INSERT INTO child VALUES (ROW)"),
    (&[FREE], "", "COPY t TO '/dev/null'"),
    (&[FREE], "", "COPY (SELECT n FROM t) TO '/dev/null'"),
    (
        &[BY_INDEX],
        "",
        "DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE id < ROW + 100 ORDER BY id DESC;
         MOVE 500 FROM c; FETCH BACKWARD 1 FROM c",
    ),
    (&[FREE], "", "SELECT howdah.release('t')"),
    (&[FREE], "", "ANALYZE t"),
    (&[FREE], "", "CREATE INDEX ON t (n)"),
    (&[FREE], "", "CLUSTER t USING t_k"),
    (&[FREE], "", "ALTER TABLE t ALTER COLUMN k TYPE bigint"),
    (&[FREE], "", "ALTER TABLE t ADD CHECK (n > 0)"),
];
/// A change of a row.
#[derive(Clone, Copy)]
struct Change {
    /// The id of the row.
    id: u32,
    sql: &'static str,
    /// The id of the only record that it makes of this kind.
    record_id: u32,
}

/// A row that is deleted, one that is updated, and one that is deleted with its neighbours; they
/// lie far from each other.
const CHANGES: [Change; 3] = [
    Change {
        id: 12_500,
        sql: "DELETE FROM t WHERE id = 12500",
        record_id: MARK_ID,
    },
    Change {
        id: UPDATED,
        sql: "UPDATE t SET n = 1 WHERE id = 17500",
        record_id: MARK_ID,
    },
    Change {
        id: 15_020,
        sql: "DELETE FROM t WHERE id BETWEEN 15000 AND 15030",
        record_id: BLOCK_DELETIONS_ID,
    },
];
const UPDATED: u32 = 17_500;
const COUNT: &str = "SELECT count(*), sum(id), sum(n) FROM t";

/// A table with one mark, the mark, and a session with a snapshot that does not see its effect.
struct Marked {
    table: HarmedTable,
    mark: StoredTuple,
    /// The id of the row.
    id: u32,
    before: Client,
}

impl Marked {
    fn make(table: HarmedTable, change: Change) -> anyhow::Result<Self> {
        let mut table = table.make_anew()?;
        let mut session = table.damaged.primary.session()?;
        session.batch_execute("CREATE TABLE child (id int REFERENCES t (id))")?;
        // It keeps index entries from being found dead.
        let before = table.damaged.snapshot_of_now()?;
        session.batch_execute(change.sql)?;
        table.damaged.look_at_disk()?;
        let marks = table.damaged.tuples_of(change.record_id);
        ensure!(marks.len() == 1, "{} marks", marks.len());
        Ok(Self {
            mark: marks[0],
            table,
            id: change.id,
            before,
        })
    }

    /// A bit of a byte of the mark, whose key, length and record are counted as one.
    fn flipped(&self, at: usize, bit: usize) -> Patch {
        let place = self.mark.data_offset_bytes + at;
        (place, vec![self.table.damaged.image[place] ^ (1 << bit)])
    }

    /// What the statements give, each in a session of its own, which is rolled back.
    fn run_all(&self, cases: &[Case<'_>]) -> anyhow::Result<Vec<String>> {
        let id = self.id.to_string();
        let run = |(settings, node, statement): &Case<'_>| {
            let statement = statement.replace("ROW", &id);
            self.table
                .run((settings, node, &statement))
                .with_context(|| statement.clone())
        };
        cases.iter().map(run).collect()
    }
}

/// What a statement gives that meets a damaged mark.
#[derive(Clone, Copy)]
struct Told<'a> {
    statement: &'a str,
    damaged: &'a str,
    sound: &'a str,
    is_updated: bool,
}

impl Told<'_> {
    /// CLUSTER carries marks over, and so reads their records.
    fn needs_the_key_only(self) -> bool {
        self.damaged == self.sound
            || (self.statement.starts_with("CLUSTER") && names_damage(self.damaged))
    }

    /// Of an updated row, an insertion may find the new version first.
    fn is_refused(self) -> bool {
        let may_stop_before = self.is_updated && self.statement.starts_with("INSERT INTO t");
        names_damage(self.damaged) || (may_stop_before && self.damaged == self.sound)
    }
}

#[test]
fn statements_that_meet_a_damaged_mark_revive_no_row() -> anyhow::Result<()> {
    let mut table = HarmedTable::start("damage-marks")?;
    let mut wrong = Vec::new();
    for change in CHANGES {
        let (id, marked) = (change.id, Marked::make(table, change)?);
        let sound = marked.run_all(STATEMENTS)?;
        let mut check = |what: &str, patch: Patch, is_right: &dyn Fn(Told<'_>) -> bool| {
            let restoring = marked.table.damaged.exchange(&[patch])?;
            let damaged = marked.run_all(STATEMENTS)?;
            for ((case, damaged), sound) in STATEMENTS.iter().zip(&damaged).zip(&sound) {
                let told = Told {
                    statement: case.2,
                    damaged,
                    sound,
                    is_updated: id == UPDATED,
                };
                if !is_right(told) {
                    wrong.push(format!("{what} of row {id}: {damaged:.300}: {}", case.2));
                }
            }
            marked.table.damaged.exchange(&restoring).map(drop)
        };
        // The record: the new version's place, the check.
        for at in [3, 10] {
            let patch = marked.flipped(KEY_AND_LENGTH_BYTES + at, at % 8);
            check(
                &format!("byte {at}"),
                patch,
                &|told| match change.record_id {
                    MARK_ID => told.needs_the_key_only(),
                    _ => told.is_refused(),
                },
            )?;
        }
        for at in [0, 3, 4, 6] {
            let what = format!("byte {at} of the key");
            check(&what, marked.flipped(at, at), &|told| told.is_refused())?;
        }
        let pointer = word(&marked.table.damaged.image, marked.mark.pointer_bytes) & !(3 << 15);
        let pointer = (marked.mark.pointer_bytes, pointer.to_le_bytes().to_vec());
        check("the line pointer", pointer, &|told| told.is_refused())?;
        let page = marked.mark.pointer_bytes / PAGE_BYTES * PAGE_BYTES;
        check("the page", (page, vec![0; PAGE_BYTES]), &|told| {
            told.is_refused()
        })?;
        ensure!(marked.run_all(STATEMENTS)? == sound, "not restored");
        table = marked.table;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    table.damaged.nothing_crashed()
}

/// A transaction that sees the row as it was needs to know what has become of it.
#[test]
fn statements_that_need_the_record_of_a_damaged_mark_are_refused() -> anyhow::Result<()> {
    let mut table = HarmedTable::start("damage-mark-records")?;
    for change in CHANGES {
        let (id, mut marked) = (change.id, Marked::make(table, change)?);
        let questions = [
            "SELECT id FROM t WHERE id = ROW FOR UPDATE",
            "SELECT id FROM t WHERE id = ROW FOR KEY SHARE",
            "UPDATE t SET k = 0 WHERE id = ROW",
            "DELETE FROM t WHERE id = ROW",
            "MERGE INTO t USING kinds ON t.id = kinds.k + ROW WHEN MATCHED THEN DELETE",
        ]
        .map(|question| question.replace("ROW", &id.to_string()));
        let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
        println!(
            "{:?}",
            howdah_server_tests::damage::ask(&mut marked.before, &questions)?
        );
        marked.table.damaged.every_byte_is_refused(
            change.record_id,
            &mut marked.before,
            &questions,
        )?;
        marked.before.batch_execute("ROLLBACK")?;
        table = marked.table;
    }
    table.damaged.nothing_crashed()
}

/// Maintenance that meets the mark when every snapshot sees it.
const MAINTENANCE: [&str; 8] = [
    "VACUUM t",
    "VACUUM (FREEZE) t",
    "REINDEX INDEX t_pkey",
    "VACUUM FULL t",
    "CLUSTER t USING t_pkey",
    "CALL howdah.compact('t')",
    "CREATE INDEX CONCURRENTLY made ON t (n)",
    "SELECT howdah.release('t')",
];

#[test]
fn maintenance_that_meets_a_damaged_mark_loses_and_revives_no_row() -> anyhow::Result<()> {
    let mut table = HarmedTable::start("damage-marks-maintenance")?;
    for (change, statement) in CHANGES
        .into_iter()
        .flat_map(|change| MAINTENANCE.map(|statement| (change, statement)))
    {
        let mut marked = Marked::make(table, change)?;
        marked.before.batch_execute("ROLLBACK")?;
        let damaged = &marked.table.damaged;
        let mut session = damaged.primary.session()?;
        let whole = query(&mut session, COUNT)?;
        // Nothing where the index of the cold store says that there is a mark.
        let unlinked = word(&damaged.image, marked.mark.pointer_bytes) & !(3 << 15);
        let unlinked = (marked.mark.pointer_bytes, unlinked.to_le_bytes().to_vec());
        let restoring = damaged.exchange(&[unlinked])?;
        let told = outcome(&mut damaged.primary.session()?, statement)?;
        ensure!(names_damage(&told), "without a mark, {statement}: {told}");
        damaged.exchange(&restoring)?;
        session.batch_execute("DROP INDEX IF EXISTS made")?;
        let now = query(&mut session, COUNT)?;
        ensure!(
            now == whole,
            "after a refused {statement}: {now}, not {whole}"
        );
        // The record, which is not needed once no snapshot sees the row.
        let restoring = damaged.exchange(&[marked.flipped(KEY_AND_LENGTH_BYTES + 7, 7)])?;
        let told = outcome(&mut damaged.primary.session()?, statement)?;
        let is_block = change.record_id == BLOCK_DELETIONS_ID;
        ensure!(
            names_damage(&told) || !(is_block || told.starts_with(IS_ERROR)),
            "{statement}: {told}"
        );
        if is_block {
            damaged.exchange(&restoring)?;
            session.batch_execute("DROP INDEX IF EXISTS made")?;
        }
        let now = query(&mut damaged.primary.session()?, COUNT)?;
        ensure!(now == whole, "after {statement}: {now}, not {whole}");
        table = marked.table;
    }
    table.damaged.nothing_crashed()
}
