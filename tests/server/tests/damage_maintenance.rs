//! One column of one row group is damaged on disk. Maintenance that reads it is refused and leaves
//! the table as it was: the same rows elsewhere, the damaged ones still refused, and all of them
//! as they were once the bytes are restored.

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::cold_row_count;
use howdah_server_tests::cluster::Primary;
use howdah_server_tests::damage::{Damaged, IS_ERROR, Patch, names_damage, outcome};
use howdah_server_tests::harmed_table::{BY_INDEX, Harm, HarmedTable};
use howdah_server_tests::stored_groups::stored_groups;
use postgres::Client;

/// Maintenance that reads every value; settings stand before a semicolon.
const REFUSED: &[&str] = &[
    "ANALYZE t",
    "CREATE INDEX made ON t (w)",
    "CREATE INDEX made ON t (lower(w)) WHERE k < 50",
    "CREATE INDEX CONCURRENTLY made ON t (w)",
    "SET enable_sort = off; CLUSTER t USING t_pkey",
    "CLUSTER t USING t_k",
    "VACUUM FULL t",
    "ALTER TABLE t ALTER COLUMN k TYPE bigint",
    "ALTER TABLE t SET ACCESS METHOD heap",
    "ALTER TABLE t ADD CHECK (w > '')",
    "ALTER TABLE t ALTER COLUMN w SET NOT NULL, ADD CHECK (length(w) = 32)",
    "SELECT howdah.release('t')",
    "CALL howdah.compact('t')",
];
/// Maintenance that does not read it: it reads other columns, or marks, or the directory.
const ANSWERED: &[&str] = &[
    "CREATE INDEX made ON t (n)",
    "DROP INDEX made",
    "REINDEX INDEX t_k",
    "VACUUM t",
    "ALTER TABLE t ADD COLUMN more int DEFAULT 7",
    "ALTER TABLE t DROP COLUMN more",
    "SELECT count(*) FROM howdah.column_chunks",
];

/// Rows by their keys, and what else must stay.
struct Reads {
    /// The rows of group A.
    sound: String,
    /// Keys of all rows.
    keys: String,
    /// All rows.
    all: String,
}

const FILES: &str = "SELECT relfilenode, reltoastrelid, relam FROM pg_class WHERE relname = 't'";

impl Reads {
    fn new() -> Self {
        let rows = format!(
            "{BY_INDEX} SELECT count(*), sum(hashtextextended(ROW(id, k, w, n, pad)::text, 0)::numeric)
             FROM t WHERE id"
        );
        Self {
            sound: format!("{rows} <= 10000"),
            keys: format!("{BY_INDEX} SELECT count(*), sum(id) FROM t WHERE id > 0"),
            all: format!("{rows} > 0"),
        }
    }

    /// What all four give.
    fn read(&self, primary: &Primary) -> anyhow::Result<[String; 4]> {
        let mut session = primary.session()?;
        let mut read = |sql: &str| outcome(&mut session, sql);
        Ok([
            read(&self.sound)?,
            read(&self.keys)?,
            read(FILES)?,
            read(&self.all)?,
        ])
    }

    /// # Errors
    /// When what is sound has changed, or what is damaged is read.
    fn stand(&self, primary: &Primary, whole: &[String; 4], after: &str) -> anyhow::Result<()> {
        let now = self.read(primary)?;
        ensure!(
            now[..3] == whole[..3],
            "after {after}: {now:?} instead of {whole:?}"
        );
        ensure!(names_damage(&now[3]), "after {after}: {}", now[3]);
        for sql in ["SELECT max(w) FROM t", "SELECT w FROM t WHERE id = 15000"] {
            let now = outcome(&mut primary.session()?, sql)?;
            ensure!(names_damage(&now), "after {after}: {now:.200}, in: {sql}");
        }
        Ok(())
    }
}

/// Runs settings and a statement that wants no transaction block around it.
fn run_alone(session: &mut Client, statements: &str) -> anyhow::Result<String> {
    let (settings, statement) = statements.rsplit_once("; ").unwrap_or(("", statements));
    session.batch_execute(settings)?;
    outcome(session, statement)
}

#[test]
fn maintenance_that_meets_damage_leaves_the_table_as_it_was() -> anyhow::Result<()> {
    let table = HarmedTable::start("damage-maintenance")?;
    let primary = &table.damaged.primary;
    let mut session = primary.session()?;
    // Marks that hide rows of both groups, so that compaction has a reason to write them anew.
    session.batch_execute("DELETE FROM t WHERE id % 3 = 1 AND id <> 15000")?;
    let reads = Reads::new();
    let whole = reads.read(primary)?;
    let mut wrong = Vec::new();
    for harm in Harm::ALL {
        let restoring = table.harm(harm)?;
        reads.stand(primary, &whole, "nothing")?;
        for statement in REFUSED {
            let told = run_alone(&mut primary.session()?, statement)?;
            if !names_damage(&told) {
                wrong.push(format!(
                    "{harm:?}: {told:.200} instead of XX001: {statement}"
                ));
            }
            // What CONCURRENTLY leaves behind.
            session.batch_execute("DROP INDEX IF EXISTS made")?;
            reads.stand(primary, &whole, statement)?;
        }
        // VACUUM gives the room of a page without tuples to others.
        let is_answered = [Harm::Bits, Harm::Swapped].contains(&harm);
        for statement in ANSWERED.iter().filter(|_| is_answered) {
            let told = run_alone(&mut primary.session()?, statement)?;
            if told.starts_with(IS_ERROR) {
                wrong.push(format!("{harm:?}: {told:.200}: {statement}"));
            }
            reads.stand(primary, &whole, statement)?;
        }
        table.damaged.exchange(&restoring)?;
        let now = reads.read(primary)?;
        ensure!(now == whole, "not restored: {now:?} instead of {whole:?}");
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Without damage each of them does its work, one after the other.
    for statement in REFUSED {
        let told = run_alone(&mut primary.session()?, statement)?;
        ensure!(!told.starts_with(IS_ERROR), "{told}: {statement}");
        session.batch_execute("DROP INDEX IF EXISTS made")?;
        if statement.ends_with("heap") || statement.contains("release") {
            session.batch_execute("ALTER TABLE t SET ACCESS METHOD howdah")?;
        }
        let now = reads.read(primary)?;
        ensure!(
            now[..2] == whole[..2] && now[3] == whole[3],
            "after {statement}: {now:?} instead of {whole:?}"
        );
    }
    table.damaged.nothing_crashed()
}

/// Rows that become cold are sorted as the groups that are there already; one that cannot be read
/// does not keep them hot. It is large, so that no merge reads it.
#[test]
fn hot_rows_become_cold_beside_a_group_without_a_footer() -> anyhow::Result<()> {
    let mut damaged = Damaged::start("damage-beside")?;
    let mut session = damaged.primary.session()?;
    session.batch_execute(
        "DROP TABLE t;
         CREATE TABLE t (id int PRIMARY KEY, w text) USING howdah;
         INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 80000) i",
    )?;
    session.batch_execute("VACUUM (FREEZE, ANALYZE) t")?;
    damaged.look_at_disk()?;
    let group = stored_groups(&damaged)?.pop().context("no row group")?;
    let bits: Vec<Patch> = group
        .piece(0)?
        .step_by(256)
        .map(|at| (at, vec![damaged.image[at] ^ 4]))
        .collect();
    let restoring = damaged.exchange(&bits)?;
    session.batch_execute(
        "SET howdah.bulk_load = off;
         INSERT INTO t SELECT i, 'new' FROM generate_series(80001, 85000) i ORDER BY hashint4(i)",
    )?;
    session.batch_execute("CALL howdah.compact('t')")?;
    let new = format!("{BY_INDEX} SELECT count(*), sum(id), min(w) FROM t WHERE id > 80000");
    let told = outcome(&mut damaged.primary.session()?, &new)?;
    ensure!(told == "5000|412502500|new", "{told}");
    let told = outcome(&mut damaged.primary.session()?, "SELECT max(w) FROM t")?;
    ensure!(names_damage(&told), "{told:.200}");
    damaged.exchange(&restoring)?;
    let all = "SELECT count(*), sum(id), count(DISTINCT w) FROM t";
    let told = outcome(&mut damaged.primary.session()?, all)?;
    ensure!(told == "85000|3612542500|80001", "{told}");
    let cold = cold_row_count(&mut session, "t")?;
    ensure!(cold == 85_000, "{cold} rows are cold");
    damaged.nothing_crashed()
}
