//! Flipped bits on disk: a read gives the right rows or XX001, never a wrong row, never a crash.
//!
//! PostgreSQL's own page checksums are switched off first, so that the cold store's own checks are
//! tested; except for sessions that rely on page checksums where they are on. One server reads all
//! damaged images: its buffers of the TOAST relation are evicted before a page is changed on disk,
//! and the page is restored afterwards.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use howdah_cli::cluster::{StopMode, run};
use howdah_server_tests::checks::cold_row_count;
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

const PAGE_BYTES: usize = 8192;
/// Heap tuple header, and in front of the payload: chunk_id, chunk_seq, varlena header.
const TUPLE_HEADER_BYTES: usize = 24;
const KEY_AND_LENGTH_BYTES: usize = 12;
const DIRECTORY_ID: u32 = 1;
const HIGH_WATER_ID: u32 = 2;
const CLEANED_ID: u32 = 3;
const DELETION_VECTOR_ID: u32 = 4;
const FORWARD_ID: u32 = 5;
const VERSIONS_ID: u32 = 6;
const LATE_ROWS_ID: u32 = 7;
const FIRST_VALUE_ID: u32 = 16_384;

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
const READS: [&str; 11] = [
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
struct StoredTuple {
    id: u32,
    /// Position of its line pointer in the file.
    pointer_bytes: usize,
    /// Position of chunk_id in the file; the payload follows it.
    data_offset_bytes: usize,
    /// Size of the data, including key and length.
    data_bytes: usize,
}

/// A server, mostly without page checksums, and the cold store of its table as it is on disk.
struct Damaged {
    primary: Primary,
    file: PathBuf,
    image: Vec<u8>,
    tuples: Vec<StoredTuple>,
    answers: Vec<String>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The line pointers and tuple headers are those of `storage/itemid.h` and `htup_details.h`.
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
fn read(primary: &Primary, sql: &str) -> anyhow::Result<String> {
    told(&mut primary.session().context("the server is gone")?, sql)
}

/// The answer that the session gets, as text, or the SQLSTATE.
fn told(session: &mut Client, sql: &str) -> anyhow::Result<String> {
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

/// Switches page checksums of a server that is stopped.
fn set_page_checksums(primary: &Primary, how: &str) -> anyhow::Result<()> {
    run(primary
        .command("pg_checksums")
        .args([how, "--no-sync", "--pgdata"])
        .arg(&primary.data))?;
    Ok(())
}

impl Damaged {
    fn start(name: &str) -> anyhow::Result<Self> {
        Self::start_with(name, false)
    }

    fn start_with(name: &str, has_page_checksums: bool) -> anyhow::Result<Self> {
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
    fn look_at_disk(&mut self) -> anyhow::Result<()> {
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
    fn snapshot_of_now(&self) -> anyhow::Result<Client> {
        let mut session = self.primary.session()?;
        session.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
        Ok(session)
    }

    fn tuples_of(&self, id: u32) -> Vec<StoredTuple> {
        let all = self.tuples.iter().copied();
        all.filter(|tuple| tuple.id == id).collect()
    }

    /// Runs the queries in an open transaction while a bit of each byte of each tuple with this id
    /// is flipped, key and length included. Every query must be refused.
    fn every_byte_is_refused(
        &self,
        id: u32,
        asking: &mut Client,
        questions: &[&str],
    ) -> anyhow::Result<()> {
        self.every_nth_byte_is_refused(1, id, asking, questions)
    }

    fn every_nth_byte_is_refused(
        &self,
        stride: usize,
        id: u32,
        asking: &mut Client,
        questions: &[&str],
    ) -> anyhow::Result<()> {
        let mut session = self.primary.session()?;
        let file = OpenOptions::new().write(true).open(&self.file)?;
        let tuples = self.tuples_of(id);
        ensure!(!tuples.is_empty(), "no tuple with id {id} was found");
        let whole = ask(asking, questions)?;
        for tuple in &tuples {
            for at in (0..tuple.data_bytes).step_by(stride) {
                let byte = tuple.data_offset_bytes + at;
                let page = byte / PAGE_BYTES * PAGE_BYTES;
                self.evict(&mut session)?;
                file.write_all_at(&[self.image[byte] ^ (1 << (at % 8))], byte as u64)?;
                let told =
                    ask(asking, questions).with_context(|| format!("byte {at} of {tuple:?}"))?;
                ensure!(
                    told.iter()
                        .all(|told| ["XX001", "XX002"].contains(&told.as_str())),
                    "byte {at} of {tuple:?} was damaged: {told:?}"
                );
                self.evict(&mut session)?;
                file.write_all_at(&self.image[page..page + PAGE_BYTES], page as u64)?;
            }
        }
        let again = ask(asking, questions)?;
        ensure!(
            again == whole,
            "not restored: {again:?} instead of {whole:?}"
        );
        Ok(())
    }

    fn evict(&self, session: &mut Client) -> anyhow::Result<()> {
        let sql =
            "SELECT pg_buffercache_evict_relation(reltoastrelid) FROM pg_class WHERE relname = 't'";
        query(session, sql).map(drop)
    }

    /// Reads everything while `bit` of the file's byte is flipped; counts the reads refused.
    fn refused_reads(&self, byte: usize, bit: u8) -> anyhow::Result<usize> {
        let mut session = self.primary.session()?;
        let file = OpenOptions::new().write(true).open(&self.file)?;
        self.evict(&mut session)?;
        file.write_all_at(&[self.image[byte] ^ (1 << bit)], byte as u64)?;
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
        self.evict(&mut session)?;
        let page = byte / PAGE_BYTES * PAGE_BYTES;
        file.write_all_at(&self.image[page..page + PAGE_BYTES], page as u64)?;
        Ok(refused)
    }

    /// # Errors
    /// When the whole table does not read as before, or any backend crashed on the way.
    fn is_whole_again(&self) -> anyhow::Result<()> {
        for (sql, answer) in READS.iter().zip(&self.answers) {
            ensure!(read(&self.primary, sql)? == *answer, "not restored: {sql}");
        }
        self.nothing_crashed()
    }

    fn nothing_crashed(&self) -> anyhow::Result<()> {
        let log = fs::read_to_string(&self.primary.log)?;
        ensure!(
            !log.contains("terminated by signal") && !log.contains("PANIC"),
            "a backend crashed; see the log"
        );
        Ok(())
    }
}

/// Runs queries in an open transaction, whose state stays the same.
fn ask(session: &mut Client, questions: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut answers = Vec::new();
    for sql in questions {
        session.batch_execute("SAVEPOINT before")?;
        answers.push(told(session, sql)?);
        session.batch_execute("ROLLBACK TO before")?;
    }
    Ok(answers)
}

/// Positions spread over `length` bytes by a fixed odd stride.
fn spread(length: usize, count: usize) -> impl Iterator<Item = (usize, u8)> {
    (0..count).map(move |k| ((k * 2_654_435_761) % length, (k * 5 % 8) as u8))
}

#[test]
fn flipped_bits_in_column_chunks_are_refused_and_never_read_as_rows() -> anyhow::Result<()> {
    let damaged = Damaged::start("damage-chunks")?;
    let values: Vec<StoredTuple> = damaged
        .tuples
        .iter()
        .copied()
        .filter(|tuple| tuple.id >= FIRST_VALUE_ID)
        .collect();
    ensure!(values.len() > 10, "only {} pieces", values.len());
    let (mut flips, mut noticed) = (0, 0);
    for (k, tuple) in values.iter().enumerate().cycle().take(120) {
        let (at, bit) = spread(tuple.data_bytes, 120).nth(flips).unwrap_or((k, 0));
        flips += 1;
        noticed += usize::from(damaged.refused_reads(tuple.data_offset_bytes + at, bit)? > 0);
    }
    // Bytes between chunks belong to no chunk and change nothing.
    ensure!(
        noticed * 10 > flips * 9,
        "only {noticed} of {flips} flipped bits were noticed"
    );
    damaged.is_whole_again()
}

/// A session remembers which kilobytes of a page it has verified, because PostgreSQL verifies a
/// page that is read from disk again. If PostgreSQL is told to ignore checksum failures, the
/// session must remember nothing.
#[test]
fn remembered_kilobytes_are_verified_again_where_page_checksums_are_ignored() -> anyhow::Result<()>
{
    const PAYLOAD_AND_CHECKS_BYTES: usize = KEY_AND_LENGTH_BYTES + 32;
    let rows = READS[2];
    let damaged = Damaged::start_with("damage-remembered", true)?;
    let answer = damaged.answers[2].as_str();
    let mut asking = damaged.primary.session()?;
    let mut evicting = damaged.primary.session()?;
    for _ in 0..3 {
        ensure!(told(&mut asking, rows)? == answer);
    }
    let file = OpenOptions::new().write(true).open(&damaged.file)?;
    let (mut by_page, mut by_kilobyte) = (0, 0);
    for tuple in damaged
        .tuples
        .iter()
        .filter(|tuple| tuple.id >= FIRST_VALUE_ID)
    {
        for at in (PAYLOAD_AND_CHECKS_BYTES + 512..tuple.data_bytes).step_by(1024) {
            let byte = tuple.data_offset_bytes + at;
            let page = byte / PAGE_BYTES * PAGE_BYTES;
            damaged.evict(&mut evicting)?;
            file.write_all_at(&[damaged.image[byte] ^ 4], byte as u64)?;
            let checked = told(&mut asking, rows)?;
            let ignoring = format!("SET ignore_checksum_failure = on; {rows}");
            let ignored = told(&mut asking, &ignoring)?;
            asking.batch_execute("RESET ignore_checksum_failure")?;
            // The damaged page is in memory now, where other sessions have noted that it was sound.
            let unaware = told(&mut damaged.primary.session()?, rows)?;
            damaged.evict(&mut evicting)?;
            file.write_all_at(&damaged.image[page..page + PAGE_BYTES], page as u64)?;
            for told in [&checked, &ignored, &unaware] {
                ensure!(
                    told == answer || told == "XX001",
                    "byte {at} of {tuple:?} was damaged: {told:.200}"
                );
            }
            by_page += usize::from(checked == "XX001");
            by_kilobyte += usize::from(ignored == "XX001");
        }
    }
    ensure!(
        by_kilobyte > 0 && by_page >= by_kilobyte,
        "{by_page} pages and {by_kilobyte} kilobytes were refused"
    );
    ensure!(told(&mut asking, rows)? == answer, "not restored");
    damaged.is_whole_again()
}

/// `pg_checksums --enable` takes pages as they are. What was damaged before must be met by the
/// first session that reads it, and by the next one, though PostgreSQL verifies pages from then on.
#[test]
fn damage_that_has_a_page_checksum_is_met_by_each_session() -> anyhow::Result<()> {
    const ROUNDS: usize = 8;
    let damaged = Damaged::start("damage-checksummed")?;
    let pieces = || {
        damaged
            .tuples
            .iter()
            .filter(|tuple| tuple.id >= FIRST_VALUE_ID)
    };
    let (mut refused, mut refused_by_index) = (0, 0);
    for round in 0..ROUNDS {
        damaged.primary.stop(StopMode::Fast)?;
        if round > 0 {
            set_page_checksums(&damaged.primary, "--disable")?;
        }
        let file = OpenOptions::new().write(true).open(&damaged.file)?;
        file.write_all_at(&damaged.image, 0)?;
        // A byte in one kilobyte of each piece.
        let start = KEY_AND_LENGTH_BYTES + 32 + round * 1024;
        for piece in pieces().filter(|piece| start + 512 < piece.data_bytes) {
            let byte = piece.data_offset_bytes + start + 512;
            file.write_all_at(&[damaged.image[byte] ^ 16], byte as u64)?;
        }
        set_page_checksums(&damaged.primary, "--enable")?;
        damaged.primary.start_again()?;
        for turn in 0..2 {
            for (number, (sql, answer)) in READS.iter().zip(&damaged.answers).enumerate() {
                let got = read(&damaged.primary, sql)?;
                ensure!(
                    got == *answer || got == "XX001",
                    "kilobyte {round}, turn {turn}: {got:.200} instead of {answer:.200}, in: {sql}"
                );
                refused += usize::from(got == "XX001");
                refused_by_index += usize::from(got == "XX001" && (number == 2 || number == 3));
            }
        }
    }
    ensure!(
        refused_by_index >= ROUNDS && refused > 2 * refused_by_index,
        "{refused} reads were refused, {refused_by_index} of them by index"
    );
    damaged.primary.stop(StopMode::Fast)?;
    set_page_checksums(&damaged.primary, "--disable")?;
    fs::write(&damaged.file, &damaged.image)?;
    damaged.primary.start_again()?;
    damaged.is_whole_again()
}

#[test]
fn flipped_bits_in_keys_and_lengths_of_pieces_are_refused() -> anyhow::Result<()> {
    let damaged = Damaged::start("damage-keys")?;
    let mut noticed = 0;
    let tuples = damaged.tuples.iter().enumerate().cycle().take(60);
    for (flips, (k, tuple)) in tuples.enumerate() {
        let (at, bit) = spread(KEY_AND_LENGTH_BYTES, 60)
            .nth(flips)
            .unwrap_or((k, 0));
        noticed += usize::from(damaged.refused_reads(tuple.data_offset_bytes + at, bit)? > 0);
    }
    ensure!(noticed > 0, "no flipped bit of a key was noticed");
    damaged.is_whole_again()
}

#[test]
fn flipped_bits_in_directory_entries_are_refused() -> anyhow::Result<()> {
    let damaged = Damaged::start("damage-directory")?;
    let entries: Vec<StoredTuple> = damaged
        .tuples
        .iter()
        .copied()
        .filter(|tuple| tuple.id == DIRECTORY_ID)
        .collect();
    ensure!(!entries.is_empty(), "no directory entry was found");
    for tuple in entries {
        let payload_bytes = tuple.data_bytes - KEY_AND_LENGTH_BYTES;
        for (at, bit) in spread(payload_bytes, 30) {
            let byte = tuple.data_offset_bytes + KEY_AND_LENGTH_BYTES + at;
            ensure!(
                damaged.refused_reads(byte, bit)? > 0,
                "bit {bit} of byte {at} of a directory entry was flipped and nothing noticed"
            );
        }
    }
    damaged.is_whole_again()
}

/// A session that knows the places of entries does not take a damaged one for one that is gone.
#[test]
fn flipped_bits_in_directory_entries_are_refused_by_sessions_that_know_them() -> anyhow::Result<()>
{
    let mut damaged = Damaged::start("damage-known-directory")?;
    let mut session = damaged.primary.session()?;
    for change in [
        "DROP TABLE p",
        "CREATE TABLE t (id int, word text) USING howdah",
        "INSERT INTO t SELECT i, 'word ' || i FROM generate_series(1, 3000) i",
        "INSERT INTO t SELECT i, 'word ' || i FROM generate_series(3001, 5000) i",
    ] {
        session.batch_execute(change)?;
    }
    damaged.look_at_disk()?;
    let (question, mut refused) = ("SELECT count(*), sum(length(word)) FROM t", 0);
    let whole = told(&mut session, question)?;
    let file = OpenOptions::new().write(true).open(&damaged.file)?;
    for tuple in damaged.tuples_of(DIRECTORY_ID) {
        for at in 0..tuple.data_bytes {
            let mut knowing = damaged.primary.session()?;
            for _ in 0..3 {
                ensure!(told(&mut knowing, question)? == whole, "not restored");
            }
            let byte = tuple.data_offset_bytes + at;
            let page = byte / PAGE_BYTES * PAGE_BYTES;
            damaged.evict(&mut session)?;
            file.write_all_at(&[damaged.image[byte] ^ (1 << (at % 8))], byte as u64)?;
            match told(&mut knowing, question)?.as_str() {
                "XX001" => refused += 1,
                // It remembers what the entry said.
                told => ensure!(told == whole, "{told} with byte {at} of {tuple:?} flipped"),
            }
            damaged.evict(&mut session)?;
            file.write_all_at(&damaged.image[page..page + PAGE_BYTES], page as u64)?;
        }
    }
    ensure!(refused > 0, "no flipped bit was noticed");
    damaged.nothing_crashed()
}

/// An index entry that leads to no line pointer is damage: what it stands for did exist.
#[test]
fn lost_line_pointers_are_refused() -> anyhow::Result<()> {
    let mut damaged = Damaged::start("damage-pointers")?;
    let mut session = damaged.primary.session()?;
    session.batch_execute("DELETE FROM t WHERE id % 3 = 0 OR id = 40000")?;
    damaged.answers = READS
        .iter()
        .map(|sql| read(&damaged.primary, sql))
        .collect::<Result<Vec<_>, _>>()?;
    damaged.look_at_disk()?;
    const CHANGES: [(u32, &[&str]); 3] = [
        (DIRECTORY_ID, &["SELECT count(*) FROM t"]),
        (
            HIGH_WATER_ID,
            &[
                "SELECT howdah.release('t')",
                "INSERT INTO t (id) SELECT i FROM generate_series(100001, 120000) i",
            ],
        ),
        (
            DELETION_VECTOR_ID,
            &["SELECT count(*) FROM t", "SELECT sum(id) FROM t"],
        ),
    ];
    let file = OpenOptions::new().write(true).open(&damaged.file)?;
    for (id, statements) in CHANGES {
        let tuples = damaged.tuples_of(id);
        ensure!(!tuples.is_empty(), "no tuple with id {id} was found");
        for tuple in tuples {
            let pointer = word(&damaged.image, tuple.pointer_bytes) & !(3 << 15);
            let page = tuple.pointer_bytes / PAGE_BYTES * PAGE_BYTES;
            damaged.evict(&mut session)?;
            file.write_all_at(&pointer.to_le_bytes(), tuple.pointer_bytes as u64)?;
            for sql in statements {
                let told = read(&damaged.primary, sql)?;
                ensure!(told == "XX001", "{sql} without {tuple:?}: {told:.200}");
            }
            damaged.evict(&mut session)?;
            file.write_all_at(&damaged.image[page..page + PAGE_BYTES], page as u64)?;
        }
    }
    damaged.is_whole_again()
}

/// A statement that deletes many rows hides them by bitmaps, of which a range of keys reads a part.
#[test]
fn flipped_bits_in_deletion_vectors_are_refused() -> anyhow::Result<()> {
    let mut damaged = Damaged::start("damage-vectors")?;
    // Its snapshot keeps index entries from being found dead.
    let mut before = damaged.snapshot_of_now()?;
    let mut session = damaged.primary.session()?;
    session.batch_execute("DELETE FROM t WHERE id BETWEEN 2001 AND 3000 AND id % 2 = 0")?;
    let mut after = damaged.snapshot_of_now()?;
    damaged.look_at_disk()?;
    let questions = [
        "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
         SET LOCAL howdah.columnar_scan = off; SELECT count(word) FROM t WHERE id BETWEEN 2801 AND 2900",
        "SET LOCAL enable_seqscan = off; SELECT id FROM t WHERE id = 2900",
        "SET LOCAL howdah.columnar_scan = off; SELECT count(word) FROM t",
        "SELECT sum(id) FROM t",
    ];
    ensure!(ask(&mut after, &questions[..3])? == ["50", "", "49500"]);
    ensure!(ask(&mut before, &questions[..1])? == ["100"]);
    damaged.every_nth_byte_is_refused(13, DELETION_VECTOR_ID, &mut after, &questions)?;
    after.batch_execute("ROLLBACK")?;
    before.batch_execute("ROLLBACK")?;
    let count = query(&mut session, "SELECT count(*) FROM t")?;
    ensure!(count == "49500", "{count} rows");
    Ok(())
}

#[test]
fn flipped_bits_in_lists_of_new_versions_are_refused() -> anyhow::Result<()> {
    let mut damaged = Damaged::start("damage-versions")?;
    let mut old = damaged.snapshot_of_now()?;
    let mut session = damaged.primary.session()?;
    session.batch_execute("UPDATE t SET word = word || '!' WHERE id BETWEEN 2000 AND 2600")?;
    damaged.look_at_disk()?;
    let questions = [
        "SELECT id FROM t WHERE id = 2300 FOR KEY SHARE",
        "SELECT id FROM t WHERE id = 2599 FOR UPDATE",
        "UPDATE t SET word = 'old' WHERE id = 2333 RETURNING id",
    ];
    ensure!(ask(&mut old, &questions)? == ["2300", "40001", "40001"]);
    damaged.every_byte_is_refused(VERSIONS_ID, &mut old, &questions)?;
    // A snapshot that sees the update needs no list.
    old.batch_execute("ROLLBACK")?;
    let count = query(&mut session, "SELECT count(*) FROM t WHERE word LIKE '%!'")?;
    ensure!(count == "601", "{count} rows were updated");
    Ok(())
}

#[test]
fn flipped_bits_in_lists_of_late_rows_are_refused() -> anyhow::Result<()> {
    let mut damaged = Damaged::start("damage-late")?;
    let mut old = damaged.snapshot_of_now()?;
    let mut session = damaged.primary.session()?;
    session.batch_execute(
        "INSERT INTO t (id) SELECT -i FROM generate_series(1, 2000) i;
         INSERT INTO t (id) SELECT i FROM generate_series(60001, 60100) i; CLUSTER t USING t_pkey",
    )?;
    damaged.look_at_disk()?;
    let questions = [
        "SELECT count(*) FROM t",
        "SET LOCAL howdah.columnar_scan = off; SELECT count(*) FROM t",
        "SET LOCAL enable_seqscan = off; SELECT id FROM t WHERE id = -77",
    ];
    ensure!(ask(&mut old, &questions)? == ["50000", "50000", ""]);
    damaged.every_byte_is_refused(LATE_ROWS_ID, &mut old, &questions)?;
    old.batch_execute("ROLLBACK")?;
    let count = query(&mut session, "SELECT count(*) FROM t")?;
    ensure!(count == "52100", "{count} rows");
    Ok(())
}

#[test]
fn flipped_bits_in_ways_of_merged_rows_are_refused() -> anyhow::Result<()> {
    let mut damaged = Damaged::start("damage-ways")?;
    let mut session = damaged.primary.session()?;
    session.batch_execute("DELETE FROM t WHERE id BETWEEN 2400 AND 2700 OR id > 49700")?;
    let mut old = damaged.snapshot_of_now()?;
    session.batch_execute("CALL howdah.compact('t')")?;
    damaged.look_at_disk()?;
    // One row of each group that was merged: the last was hot when the transaction began.
    let questions = [
        "SELECT id FROM t WHERE id IN (2333, 30500, 44444) ORDER BY id FOR UPDATE",
        "SELECT id FROM t WHERE id IN (2333, 30500, 44444) ORDER BY id FOR KEY SHARE",
    ];
    ensure!(ask(&mut old, &questions)? == ["2333\n30500\n44444"; 2]);
    damaged.every_byte_is_refused(FORWARD_ID, &mut old, &questions)?;
    // The bytes after key, length, kind, version, order and first new number: the value that lists
    // the rows without a new place.
    let at = KEY_AND_LENGTH_BYTES + 11;
    let ways = damaged.tuples_of(FORWARD_ID);
    let values = ways
        .iter()
        .map(|way| word(&damaged.image, way.data_offset_bytes + at));
    let mut value_count = 0;
    for value in values.filter(|&value| value != 0) {
        damaged.every_nth_byte_is_refused(61, value, &mut old, &questions)?;
        value_count += 1;
    }
    ensure!(
        value_count == 2,
        "rows of {value_count} groups went nowhere"
    );
    old.batch_execute("ROLLBACK")?;
    let count = query(&mut session, "SELECT count(*) FROM t")?;
    ensure!(count == "49399", "{count} rows");
    Ok(())
}

/// A load that is rolled back raises the high-water mark of row numbers, and leaves a gap, which
/// the next VACUUM notes: both are changed in place.
#[test]
fn flipped_bits_in_lengths_are_refused_by_changes_in_place() -> anyhow::Result<()> {
    const CHANGES: [&str; 2] = [
        "BEGIN; INSERT INTO t (id) SELECT generate_series(100001, 102000)",
        "VACUUM t",
    ];
    let mut damaged = Damaged::start("damage-in-place")?;
    let mut session = damaged.primary.session()?;
    for change in CHANGES {
        session.batch_execute(change)?;
        session.batch_execute("ROLLBACK")?;
    }
    damaged.look_at_disk()?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&damaged.file)?;
    // The page goes on to change, so that the bit alone is restored.
    let flip = |byte: u64, bit: u32| -> anyhow::Result<()> {
        let mut bytes = [0];
        file.read_exact_at(&mut bytes, byte)?;
        file.write_all_at(&[bytes[0] ^ (1 << bit)], byte)?;
        Ok(())
    };
    for (id, change) in [(HIGH_WATER_ID, 0), (CLEANED_ID, 1)] {
        let tuples = damaged.tuples_of(id);
        ensure!(tuples.len() == 1, "{} tuples with id {id}", tuples.len());
        let length = tuples[0].data_offset_bytes + KEY_AND_LENGTH_BYTES - 4;
        let mut refused = 0;
        for bit in 0..32_u32 {
            // Before the length is damaged, so that VACUUM has a gap to note.
            session.batch_execute(CHANGES[0])?;
            session.batch_execute("ROLLBACK")?;
            let byte = (length + bit as usize / 8) as u64;
            damaged.evict(&mut session)?;
            flip(byte, bit % 8)?;
            let mut writer = damaged.primary.session()?;
            let got = told(&mut writer, CHANGES[change])?;
            drop(writer);
            ensure!(
                ["", "XX001"].contains(&got.as_str()),
                "bit {bit} of the length of id {id} was flipped: {got}"
            );
            refused += usize::from(!got.is_empty());
            damaged.evict(&mut session)?;
            flip(byte, bit % 8)?;
        }
        ensure!(refused > 20, "only {refused} of 32 bits were noticed");
        for change in CHANGES {
            session.batch_execute(change)?;
            session.batch_execute("ROLLBACK")?;
        }
    }
    damaged.is_whole_again()
}
