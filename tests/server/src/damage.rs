//! A server whose cold store is damaged on disk, bit by bit.
//!
//! ```text
//!   Damaged::start ──► a table with cold rows, its cold store's file as it is, what READS answer
//!     flip / lay_bytes / restore_page ──► evict the TOAST relation's buffers, write to the file
//!     refused_reads, every_byte_is_refused ──► ask, and restore
//! ```
//!
//! PostgreSQL's own page checksums are switched off first, so that the cold store's own checks are
//! met; except for sessions that rely on page checksums where they are on.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use howdah_cli::cluster::{StopMode, run};
use postgres::Client;

use crate::checks::{cold_row_count, nothing_crashed};
use crate::cluster::{Primary, query};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 8192;
/// Heap's header of each tuple.
const TUPLE_HEADER_BYTES: usize = 24;
/// What lies in front of a tuple's payload: chunk_id, chunk_seq, varlena header.
pub const KEY_AND_LENGTH_BYTES: usize = 12;
/// Kinds of records, as `docs/format.md` numbers them.
pub const DIRECTORY_ID: u32 = 1;
pub const HIGH_WATER_ID: u32 = 2;
pub const CLEANED_ID: u32 = 3;
pub const DELETION_VECTOR_ID: u32 = 4;
pub const FORWARD_ID: u32 = 5;
pub const VERSIONS_ID: u32 = 6;
pub const LATE_ROWS_ID: u32 = 7;
/// Of row numbers below 2^31.
pub const MARK_ID: u32 = 16;
/// The same.
pub const BLOCK_DELETIONS_ID: u32 = 512;
/// From here on ids are those of values.
pub const FIRST_VALUE_ID: u32 = 16_384;

const MAKE: &str = "CREATE EXTENSION pg_buffercache;
    CREATE TABLE t (id int PRIMARY KEY, word text, amount numeric, at timestamptz, real8 float8,
                    flag bool, list int[], name text, code text) USING howdah;
    SELECT howdah.set_options('t', grouped_columns => '{name,code}');
    INSERT INTO t SELECT i, 'word ' || i % 1013, i * 1.25, '2026-01-01'::timestamptz + i * '1 min'::interval,
           sqrt(i), i % 3 = 0, ARRAY[i, i % 7], md5('n' || i), 'code ' || sqrt(i)
    FROM generate_series(1, 30000) i;
    INSERT INTO t SELECT i, repeat(md5(i::text), 3), NULL, 'infinity', 'NaN', NULL, NULL, md5('n' || i), md5('c' || i)
    FROM generate_series(30001, 50000) i;
    CREATE TABLE p (LIKE t) PARTITION BY RANGE (id);
    CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (-1000000);
    ALTER TABLE p ATTACH PARTITION t FOR VALUES FROM (-1000000) TO (MAXVALUE)";

/// Reads of a damaged table: all of it, one column, one row by index, all rows by index, all of it
/// by the engine, as a partition, and rows by index from files.
pub const READS: [&str; 11] = [
    "SELECT count(*), sum(hashtextextended(r::text, 0)::numeric) FROM t r",
    "SELECT count(amount), sum(amount) FROM t",
    "SET enable_seqscan = off; SELECT * FROM t WHERE id IN (8500, 20000, 44444)",
    "SET enable_seqscan = off; SELECT sum(id), min(word), max(at) FROM t WHERE id > 0",
    "SET howdah.debug_force_vectorized = on;
     SELECT flag, count(list), sum(id), min(word COLLATE \"C\"), max(at), max(real8), sum(amount),
         min(name COLLATE \"C\"), max(code COLLATE \"C\") FROM t
     WHERE amount > 100 IS NOT FALSE GROUP BY flag ORDER BY flag",
    "SET howdah.debug_force_vectorized = on;
     SELECT id, word, amount, at, real8, flag FROM t ORDER BY at DESC, id LIMIT 10",
    "SET howdah.debug_force_vectorized = on;
     SELECT id % 7, count(*), count(real8), min(word COLLATE \"C\"), sum(amount) FROM p GROUP BY 1 ORDER BY 1",
    "SET howdah.debug_force_vectorized = on; SET howdah.threads = 0;
     SELECT count(*), sum(id), max(at), count(flag) FROM p WHERE word LIKE '%7%'",
    "SELECT count(*), sum(id), min(word), max(at), sum(amount), bool_and(flag), max(real8) FROM p",
    "SET enable_seqscan = off; SET howdah.file_copies = always;
     SELECT * FROM t WHERE id IN (8500, 20000, 44444)",
    "SET enable_seqscan = off; SET howdah.file_copies = always;
     SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off;
     SELECT count(*), sum(hashtextextended(r::text, 0)::numeric)
     FROM generate_series(1, 5000) g JOIN t r ON r.id = g * 7919 % 50021",
];
/// Of them, those that the engine computes.
const VECTORIZED_READS: std::ops::Range<usize> = 4..8;

/// One tuple of the cold store, as it lies in its file.
#[derive(Clone, Copy, Debug)]
pub struct StoredTuple {
    /// Its chunk_id: what kind of record it is, or which value it is a piece of.
    pub id: u32,
    /// Position of its line pointer in the file.
    pub pointer_bytes: usize,
    /// Position of chunk_id in the file; the payload follows it.
    pub data_offset_bytes: usize,
    /// Size of the data, including key and length.
    pub data_bytes: usize,
}

/// A place in the file, and bytes for it.
pub type Patch = (usize, Vec<u8>);

/// A server, mostly without page checksums, and the cold store of its table as it is on disk.
pub struct Damaged {
    pub primary: Primary,
    /// The main fork of the table's TOAST relation.
    pub file: PathBuf,
    /// Contents of the file when [`Damaged::look_at_disk`] last looked.
    pub image: Vec<u8>,
    /// The tuples of `image`.
    pub tuples: Vec<StoredTuple>,
    /// What [`READS`] answer while nothing is damaged.
    pub answers: Vec<String>,
}

/// The number of four bytes at `at`, little-endian.
#[must_use]
pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// All tuples of a file. The line pointers and tuple headers are those of `storage/itemid.h` and
/// `htup_details.h`.
fn stored_tuples(image: &[u8]) -> Vec<StoredTuple> {
    const NORMAL: u32 = 1;
    let mut tuples = Vec::new();
    for (page_number, page) in image.chunks_exact(PAGE_BYTES).enumerate() {
        let lower = usize::from(u16::from_le_bytes([page[12], page[13]]));
        for at in (24..lower).step_by(4) {
            let item = word(page, at);
            if (item >> 15) & 3 != NORMAL {
                continue;
            }
            let (offset, length) = ((item & 0x7FFF) as usize, (item >> 17) as usize);
            tuples.push(StoredTuple {
                id: word(page, offset + TUPLE_HEADER_BYTES),
                pointer_bytes: page_number * PAGE_BYTES + at,
                data_offset_bytes: page_number * PAGE_BYTES + offset + TUPLE_HEADER_BYTES,
                data_bytes: length - TUPLE_HEADER_BYTES,
            });
        }
    }
    tuples
}

/// The answer as text, or the SQLSTATE. A session of its own: nothing is cached.
pub fn read(primary: &Primary, sql: &str) -> anyhow::Result<String> {
    told(&mut primary.session().context("the server is gone")?, sql)
}

/// The answer that the session gets, as text, or the SQLSTATE.
pub fn told(session: &mut Client, sql: &str) -> anyhow::Result<String> {
    match query(session, sql) {
        Ok(rows) => Ok(rows),
        Err(error) => {
            let code = error
                .downcast_ref::<postgres::Error>()
                .and_then(postgres::Error::code);
            let code = code.with_context(|| format!("the session died: {error:#}"))?;
            Ok(code.code().to_owned())
        }
    }
}

/// What a session gets: the answer as text, or `ERROR`, the SQLSTATE and the message.
///
/// # Errors
/// When the session died.
pub fn outcome(session: &mut Client, sql: &str) -> anyhow::Result<String> {
    let error = match query(session, sql) {
        Ok(rows) => return Ok(rows),
        Err(error) => error,
    };
    let report = error
        .downcast_ref::<postgres::Error>()
        .and_then(postgres::Error::as_db_error);
    let report = report.with_context(|| format!("the session died: {error:#}"))?;
    // PostgreSQL's own reports of damage have no hint, and name no table t.
    ensure!(
        report.code().code() != "XX001"
            || !report.message().contains("table \"t\"")
            || report.hint().is_some_and(|hint| hint.contains("backup")),
        "no hint what to do about {report:?}"
    );
    Ok(format!(
        "{IS_ERROR}{} {}",
        report.code().code(),
        report.message()
    ))
}

/// How an [`outcome`] begins that is an error.
pub const IS_ERROR: &str = "ERROR ";

/// Whether an [`outcome`] is an error that tells that rows of table t are damaged.
#[must_use]
pub fn names_damage(outcome: &str) -> bool {
    outcome.starts_with("ERROR XX001 ") && outcome.contains("table \"t\"")
}

/// Switches page checksums of a server that is stopped.
pub fn set_page_checksums(primary: &Primary, how: &str) -> anyhow::Result<()> {
    run(primary
        .command("pg_checksums")
        .args([how, "--no-sync", "--pgdata"])
        .arg(&primary.data))?;
    Ok(())
}

impl Damaged {
    /// A server without page checksums, and its table.
    pub fn start(name: &str) -> anyhow::Result<Self> {
        Self::start_with(name, false)
    }

    /// A server with or without page checksums, and its table.
    pub fn start_with(name: &str, has_page_checksums: bool) -> anyhow::Result<Self> {
        let primary = Primary::start(
            name,
            &[
                ("autovacuum", "off"),
                ("howdah.compaction", "off"),
                ("howdah.load_threshold", "1000"),
            ],
        )?;
        if !has_page_checksums {
            primary.stop(StopMode::Fast)?;
            set_page_checksums(&primary, "--disable")?;
            primary.start_again()?;
        }
        let mut session = primary.session()?;
        let checksums = query(&mut session, "SHOW data_checksums")?;
        ensure!(
            (checksums == "on") == has_page_checksums,
            "checksums are {checksums}"
        );
        session.batch_execute(MAKE)?;
        session.batch_execute("VACUUM (FREEZE) t")?;
        session.batch_execute("CHECKPOINT")?;
        ensure!(cold_row_count(&mut session, "t")? > 40_000, "t stayed hot");
        for sql in &READS[VECTORIZED_READS] {
            let explaining = sql.replace("SELECT", "EXPLAIN SELECT");
            let plan = query(&mut session, &explaining)?;
            ensure!(plan.contains("Vectorized"), "not vectorized: {plan}");
            session.batch_execute("RESET ALL")?;
        }
        let answers = READS
            .iter()
            .map(|sql| read(&primary, sql))
            .collect::<Result<Vec<_>, _>>()?;
        let mut damaged = Self {
            primary,
            file: PathBuf::new(),
            image: Vec::new(),
            tuples: Vec::new(),
            answers,
        };
        damaged.look_at_disk()?;
        Ok(damaged)
    }

    /// Reads the current image of the cold store.
    pub fn look_at_disk(&mut self) -> anyhow::Result<()> {
        let mut session = self.primary.session()?;
        // This includes changes that reads themselves have made to the pages, such as hint bits.
        session.batch_execute("CHECKPOINT")?;
        let path = "SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE relname = 't'";
        self.file = self.primary.data.join(query(&mut session, path)?);
        self.image = fs::read(&self.file)?;
        self.tuples = stored_tuples(&self.image);
        Ok(())
    }

    /// A session whose snapshot continues to see the current contents.
    pub fn snapshot_of_now(&self) -> anyhow::Result<Client> {
        let mut session = self.primary.session()?;
        session.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
        Ok(session)
    }

    /// The tuples of one id, as they were when the test looked.
    #[must_use]
    pub fn tuples_of(&self, id: u32) -> Vec<StoredTuple> {
        let all = self.tuples.iter().copied();
        all.filter(|tuple| tuple.id == id).collect()
    }

    /// Runs the queries in an open transaction while a bit of each byte of each tuple with this id
    /// is flipped, key and length included. Every query must be refused.
    pub fn every_byte_is_refused(
        &self,
        id: u32,
        asking: &mut Client,
        questions: &[&str],
    ) -> anyhow::Result<()> {
        self.every_nth_byte_is_refused(1, id, asking, questions)
    }

    /// As [`Self::every_byte_is_refused`], with every `stride`-th byte.
    pub fn every_nth_byte_is_refused(
        &self,
        stride: usize,
        id: u32,
        asking: &mut Client,
        questions: &[&str],
    ) -> anyhow::Result<()> {
        let mut session = self.primary.session()?;
        let tuples = self.tuples_of(id);
        ensure!(!tuples.is_empty(), "no tuple with id {id} was found");
        let whole = ask(asking, questions)?;
        for tuple in &tuples {
            for at in (0..tuple.data_bytes).step_by(stride) {
                let byte = tuple.data_offset_bytes + at;
                self.flip(&mut session, byte, (at % 8) as u8)?;
                let told =
                    ask(asking, questions).with_context(|| format!("byte {at} of {tuple:?}"))?;
                ensure!(
                    told.iter()
                        .all(|told| ["XX001", "XX002"].contains(&told.as_str())),
                    "byte {at} of {tuple:?} was damaged: {told:?}"
                );
                self.restore_page(&mut session, byte)?;
            }
        }
        let again = ask(asking, questions)?;
        ensure!(
            again == whole,
            "not restored: {again:?} instead of {whole:?}"
        );
        Ok(())
    }

    /// Removes the cold store's pages from shared buffers.
    pub fn evict(&self, session: &mut Client) -> anyhow::Result<()> {
        evict(session)
    }

    /// Writes `bytes` to the file at `at`; no buffer holds the page in memory before.
    pub fn lay_bytes(&self, session: &mut Client, at: usize, bytes: &[u8]) -> anyhow::Result<()> {
        self.evict(session)?;
        let file = OpenOptions::new().write(true).open(&self.file)?;
        Ok(file.write_all_at(bytes, at as u64)?)
    }

    /// Writes each of these byte strings to its place in the file. Returns what lay there, which
    /// restores it if it is written in turn.
    ///
    /// # Errors
    /// When the pages cannot be evicted, or the file not be read or written.
    pub fn exchange(&self, patches: &[Patch]) -> anyhow::Result<Vec<Patch>> {
        exchange_on(&mut self.primary.session()?, &self.file, patches)
    }

    /// Flips one bit of the byte at `byte` of the file, as it was when the test looked at it.
    pub fn flip(&self, session: &mut Client, byte: usize, bit: u8) -> anyhow::Result<()> {
        self.lay_bytes(session, byte, &[self.image[byte] ^ (1 << bit)])
    }

    /// Writes the page around `byte` of the file, as it was when the test looked at it.
    pub fn restore_page(&self, session: &mut Client, byte: usize) -> anyhow::Result<()> {
        let page = byte / PAGE_BYTES * PAGE_BYTES;
        self.lay_bytes(session, page, &self.image[page..page + PAGE_BYTES])
    }

    /// Reads everything while `bit` of the file's byte is flipped; counts the reads refused.
    pub fn refused_reads(&self, byte: usize, bit: u8) -> anyhow::Result<usize> {
        let mut session = self.primary.session()?;
        self.flip(&mut session, byte, bit)?;
        let mut refused = 0;
        for (sql, answer) in READS.iter().zip(&self.answers) {
            // What is in shared buffers is not copied from the file.
            if sql.contains("file_copies") {
                self.evict(&mut session)?;
            }
            let got = read(&self.primary, sql)
                .with_context(|| format!("bit {bit} of byte {byte}, in: {sql}"))?;
            if got == "XX001" {
                refused += 1;
            } else {
                ensure!(
                    got == *answer,
                    "with bit {bit} of byte {byte} flipped, {got:.200} instead of {answer:.200}, in: {sql}"
                );
            }
        }
        self.restore_page(&mut session, byte)?;
        Ok(refused)
    }

    /// # Errors
    /// When the whole table does not read as before, or any backend crashed on the way.
    pub fn is_whole_again(&self) -> anyhow::Result<()> {
        for (sql, answer) in READS.iter().zip(&self.answers) {
            ensure!(read(&self.primary, sql)? == *answer, "not restored: {sql}");
        }
        self.nothing_crashed()
    }

    /// # Errors
    /// When a backend crashed.
    pub fn nothing_crashed(&self) -> anyhow::Result<()> {
        nothing_crashed(&self.primary.log)
    }
}

/// Removes the pages of the cold store of table t from the shared buffers of the session's server.
///
/// # Errors
/// When there is no table t.
pub fn evict(session: &mut Client) -> anyhow::Result<()> {
    let sql =
        "SELECT pg_buffercache_evict_relation(reltoastrelid) FROM pg_class WHERE relname = 't'";
    query(session, sql).map(drop)
}

/// As [`Damaged::exchange`], in the file of the session's server, which may be a standby.
///
/// # Errors
/// As for [`Damaged::exchange`].
pub fn exchange_on(
    session: &mut Client,
    file: &Path,
    patches: &[Patch],
) -> anyhow::Result<Vec<Patch>> {
    evict(session)?;
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let mut before = Vec::new();
    for (at, bytes) in patches {
        let mut old = vec![0; bytes.len()];
        file.read_exact_at(&mut old, *at as u64)?;
        before.push((*at, old));
    }
    for (at, bytes) in patches {
        file.write_all_at(bytes, *at as u64)?;
    }
    Ok(before)
}

/// Runs queries in an open transaction, whose state stays the same.
pub fn ask(session: &mut Client, questions: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut answers = Vec::new();
    for sql in questions {
        session.batch_execute("SAVEPOINT before")?;
        answers.push(told(session, sql)?);
        session.batch_execute("ROLLBACK TO before")?;
    }
    Ok(answers)
}

/// Positions spread over `length` bytes by a fixed odd stride.
pub fn spread(length: usize, count: usize) -> impl Iterator<Item = (usize, u8)> {
    (0..count).map(move |k| ((k * 2_654_435_761) % length, (k * 5 % 8) as u8))
}
