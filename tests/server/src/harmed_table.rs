//! A table of two row groups, of which one column of the second is damaged on disk, in any of
//! several ways; and statements that meet the damage, or do not.
//!
//! ```text
//!   t = row group A (ids 1..10000, sound) + row group B (ids 10001..20000, its column w damaged)
//! ```

use anyhow::{Context as _, ensure};
use postgres::Client;

use crate::cluster::query;
use crate::damage::{Damaged, IS_ERROR, PAGE_BYTES, Patch, names_damage, outcome};
use crate::stored_groups::{StoredGroup, stored_groups};

/// The number of column w, which is damaged.
const W: usize = 2;
const MAKE: &str = "DROP TABLE IF EXISTS p, t, log, kinds, child CASCADE;
    CREATE TABLE t (id int PRIMARY KEY, k int, w text, n numeric, pad text) USING howdah;
    INSERT INTO t SELECT i, i % 100, md5(i::text), i * 1.25, md5('p' || i) FROM generate_series(1, 10000) i;
    INSERT INTO t SELECT i, i % 100, md5(i::text), i * 1.25, md5('p' || i) FROM generate_series(10001, 20000) i;
    CREATE INDEX t_k ON t (k);
    CREATE TABLE log (w text);
    CREATE TABLE kinds (k int PRIMARY KEY);
    INSERT INTO kinds SELECT generate_series(0, 99)";
/// Settings for plans of these kinds.
pub const BY_INDEX: &str =
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_tidscan = off;
    SET howdah.columnar_scan = off; SET howdah.vectorized = off;";
pub const BY_BITMAP: &str =
    "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
    SET howdah.columnar_scan = off; SET howdah.vectorized = off;";
pub const BY_COLUMN: &str =
    "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;
    SET howdah.vectorized = off;";
pub const BY_ROW: &str =
    "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;
    SET howdah.columnar_scan = off; SET howdah.vectorized = off;";
pub const BY_ENGINE: &str = "SET howdah.debug_force_vectorized = on;";
pub const BY_WORKERS: &str = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
    SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0;
    SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off;";
/// Any plan.
pub const FREE: &str = "";

/// Settings, a part of the plan, the statement.
pub type Case<'a> = (&'a [&'a str], &'a str, &'a str);

/// What has happened to column w of group B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// One bit in each of its whole kilobytes.
    Bits,
    /// Its whole kilobytes are zero.
    Zeros,
    /// The pages of its whole pieces are zero.
    Pages,
    /// Each of its whole pieces holds what the next one should, checks included.
    Swapped,
    /// Each of its whole pieces holds what that of group A holds, checks included.
    Older,
    /// The pages of its whole pieces are those of group A, as if a page that was used again had
    /// never reached the disk.
    OlderPages,
}

impl Harm {
    /// All of them.
    pub const ALL: [Harm; 6] = [
        Harm::Bits,
        Harm::Zeros,
        Harm::Pages,
        Harm::Swapped,
        Harm::Older,
        Harm::OlderPages,
    ];
}

/// What a statement gives in a new session, in a transaction that is rolled back, after a check of
/// its plan.
///
/// # Errors
/// When the plan is another, or the session died.
pub fn run_in(
    mut session: Client,
    (settings, node, statement): Case<'_>,
) -> anyhow::Result<String> {
    session.batch_execute(&settings.concat())?;
    if !node.is_empty() {
        let plan = outcome(&mut session, &format!("EXPLAIN (COSTS OFF) {statement}"))?;
        if plan.starts_with(IS_ERROR) {
            return Ok(plan);
        }
        ensure!(plan.contains(node), "no {node} in {plan}");
    }
    session.batch_execute("BEGIN")?;
    outcome(&mut session, statement).with_context(|| statement.to_owned())
}

/// A server, and what is needed to damage column w of group B.
pub struct HarmedTable {
    /// The server, and its table's cold store.
    pub damaged: Damaged,
    /// Group A.
    sound: StoredGroup,
    /// Group B.
    harmed: StoredGroup,
}

impl HarmedTable {
    /// The server and its table, without any damage yet.
    ///
    /// # Errors
    /// When the table does not consist of two row groups.
    pub fn start(name: &str) -> anyhow::Result<Self> {
        Self::make(Damaged::start(name)?)
    }

    /// The same server and a new table.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn make_anew(self) -> anyhow::Result<Self> {
        Self::make(self.damaged)
    }

    fn make(mut damaged: Damaged) -> anyhow::Result<Self> {
        let mut session = damaged.primary.session()?;
        session.batch_execute(MAKE)?;
        session.batch_execute("VACUUM (FREEZE, ANALYZE) t")?;
        let cold = query(
            &mut session,
            "SELECT cold_rows, row_groups FROM howdah.tables WHERE table_name = 't'",
        )?;
        ensure!(cold == "20000|2", "cold rows and groups: {cold}");
        damaged.look_at_disk()?;
        let mut groups = stored_groups(&damaged)?;
        let harmed = groups.pop().context("no row group")?;
        let sound = groups.pop().context("one row group")?;
        Ok(Self {
            damaged,
            sound,
            harmed,
        })
    }

    /// Damages w in group B. Returns what [`Damaged::exchange`] needs to restore it.
    ///
    /// # Errors
    /// When the file cannot be changed, or the column takes few pieces.
    pub fn harm(&self, harm: Harm) -> anyhow::Result<Vec<Patch>> {
        self.damaged.exchange(&self.patches(harm)?)
    }

    /// What [`Damaged::exchange`] needs to damage w in group B.
    ///
    /// # Errors
    /// As [`Self::harm`].
    pub fn patches(&self, harm: Harm) -> anyhow::Result<Vec<Patch>> {
        let image = &self.damaged.image;
        let kilobytes = self.harmed.kilobytes(image, W)?;
        let pieces = self.harmed.pieces_of_column(image, W)?;
        ensure!(
            kilobytes.len() > 100 && pieces.len() > 10,
            "only {} kilobytes and {} pieces",
            kilobytes.len(),
            pieces.len()
        );
        let page_at = |at: usize| at / PAGE_BYTES * PAGE_BYTES;
        if harm == Harm::Bits {
            let middle = |kilobyte: std::ops::Range<usize>| {
                let at = usize::midpoint(kilobyte.start, kilobyte.end);
                (at, vec![image[at] ^ 4])
            };
            return Ok(kilobytes.into_iter().map(middle).collect());
        }
        if harm == Harm::Zeros {
            let zeros =
                |kilobyte: std::ops::Range<usize>| (kilobyte.start, vec![0; kilobyte.len()]);
            return Ok(kilobytes.into_iter().map(zeros).collect());
        }
        let (first, count) = (pieces.start, pieces.end - pieces.start);
        pieces
            .map(|number| {
                let place = self.harmed.piece(number)?;
                let other = match harm {
                    Harm::Swapped => self.harmed.piece(first + (number - first + 1) % count)?,
                    _ => self.sound.piece(number)?,
                };
                ensure!(place.len() == other.len(), "pieces of other lengths");
                let page = page_at(other.start);
                Ok(match harm {
                    Harm::Pages => (page_at(place.start), vec![0; PAGE_BYTES]),
                    Harm::OlderPages => (
                        page_at(place.start),
                        image[page..page + PAGE_BYTES].to_vec(),
                    ),
                    _ => (place.start, image[other].to_vec()),
                })
            })
            .collect()
    }

    /// What a statement gives in a session of its own, which is rolled back, after a check of its
    /// plan.
    ///
    /// # Errors
    /// When the plan is another, or the session died.
    pub fn run(&self, case: Case<'_>) -> anyhow::Result<String> {
        run_in(self.damaged.primary.session()?, case)
    }

    fn run_all(&self, cases: &[Case<'_>]) -> anyhow::Result<Vec<String>> {
        cases.iter().map(|case| self.run(*case)).collect()
    }

    /// Each of the first cases is refused while w is damaged and answered otherwise; the next are
    /// answered always; and the last are answered or refused while w is damaged.
    ///
    /// # Errors
    /// All cases that were not.
    pub fn is_refused_and_answered(
        &self,
        harms: &[Harm],
        refused: &[Case<'_>],
        answered: &[Case<'_>],
        either: &[Case<'_>],
    ) -> anyhow::Result<()> {
        let told = || {
            anyhow::Ok([
                self.run_all(refused)?,
                self.run_all(answered)?,
                self.run_all(either)?,
            ])
        };
        let before = told()?;
        for (case, told) in refused.iter().zip(&before[0]) {
            ensure!(
                !told.starts_with(IS_ERROR),
                "{told} without any damage: {}",
                case.2
            );
        }
        let cases = refused.iter().chain(answered).chain(either);
        let mut wrong = Vec::new();
        for harm in harms {
            let restoring = self.harm(*harm)?;
            let now = told()?;
            let (now, whole) = (now.iter().flatten(), before.iter().flatten());
            for (number, ((case, now), whole)) in cases.clone().zip(now).zip(whole).enumerate() {
                let is_right = match number {
                    _ if number < refused.len() => names_damage(now),
                    _ if number < refused.len() + answered.len() => now == whole,
                    _ => now == whole || names_damage(now),
                };
                if !is_right {
                    wrong.push(format!(
                        "{harm:?}: {now:.200}, without damage {whole:.200}: {}",
                        case.2
                    ));
                }
            }
            self.damaged.exchange(&restoring)?;
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        ensure!(told()? == before, "not restored");
        self.damaged.nothing_crashed()
    }
}
