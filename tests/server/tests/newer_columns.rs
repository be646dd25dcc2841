//! Row groups in which a newer version has written one column: its type, or its layout, is not
//! known. The other columns are read as before; what reads this one is refused with 0A000; and
//! maintenance that is refused, or carries such a group over, loses nothing.
//!
//! The bytes are those of groups of today: one number in the column table is another, and the check
//! of its kilobyte fits.

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::query;
use howdah_server_tests::damage::{
    DIRECTORY_ID, Damaged, KEY_AND_LENGTH_BYTES, READS, read, told, word,
};
use xxhash_rust::xxh3::xxh3_64;

/// Columns of the table: a numeric, and a text beside whose strings lie those of the last one.
const AMOUNT: usize = 2;
const NAME: usize = 7;
/// A byte of what the footer says of a column.
#[derive(Clone, Copy)]
enum Byte {
    /// In its entry in the column table.
    Type,
    Layout,
    /// The kind of the second record about its nodes: what rows of grouped columns are made of.
    Record,
}

const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 32;
/// The checks in front of a piece's bytes, and the bytes that have one.
const CHECKS_BYTES: usize = 32;
const CHECKED_BYTES: usize = 1024;

const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off;
    SET howdah.columnar_scan = off; SET howdah.vectorized = off; ";
const BY_ROW: &str = "SET enable_indexscan = off; SET enable_bitmapscan = off;
    SET howdah.columnar_scan = off; SET howdah.vectorized = off; ";
const BY_COLUMN: &str = "SET enable_indexscan = off; SET enable_indexonlyscan = off;
    SET enable_bitmapscan = off; SET howdah.vectorized = off; ";
const BY_ENGINE: &str = "SET howdah.debug_force_vectorized = on; ";

/// Settings, a node of the plan, the statement.
type Case = (&'static str, &'static str, &'static str);

/// Statements that read neither amount nor name.
const ANSWERED: &[Case] = &[
    (
        BY_INDEX,
        "Index Scan",
        "SELECT id, word, at, real8, flag, list, code FROM t WHERE id IN (8500, 20000, 44444)",
    ),
    (
        BY_INDEX,
        "Index Scan",
        "SELECT sum(id), min(word), max(at), max(code) FROM t WHERE id > 0",
    ),
    (
        BY_ROW,
        "Sample Scan",
        "SELECT sum(id), min(word), max(at), min(code) FROM t TABLESAMPLE system (100)",
    ),
    (
        BY_COLUMN,
        "HowdahColumnarScan",
        "SELECT sum(id), min(word), max(at), min(code) FROM t WHERE word LIKE '%7%'",
    ),
    (
        BY_ENGINE,
        "Vectorized",
        "SELECT flag, sum(id), max(at), min(code COLLATE \"C\") FROM t GROUP BY flag ORDER BY flag",
    ),
    // Statistics of another column say that no group is read.
    (
        BY_COLUMN,
        "HowdahColumnarScan",
        "SELECT count(amount), max(name) FROM t WHERE id > 60000",
    ),
    (
        BY_ENGINE,
        "Vectorized",
        "SELECT count(amount), max(name COLLATE \"C\") FROM t WHERE id > 60000",
    ),
    (
        "",
        "",
        "SELECT cold_rows, row_groups, cold_bytes FROM howdah.tables WHERE table_name = 't'",
    ),
    (
        "",
        "",
        "SELECT attnum, encoding, bytes > 0, raw_bytes, null_count, min, max FROM howdah.column_chunks
         WHERE column_name NOT IN ('amount', 'name', 'code') ORDER BY 1, 4",
    ),
    ("", "", "CREATE INDEX made ON t (at); DROP INDEX made"),
    ("", "", "VACUUM t"),
];

/// Statements that read both of amount and name.
const REFUSED: &[Case] = &[
    (
        BY_INDEX,
        "Index Scan",
        "SELECT COLUMN FROM t WHERE id = 8500",
    ),
    (
        BY_INDEX,
        "Index Scan",
        "SELECT count(COLUMN) FROM t WHERE id > 0",
    ),
    (BY_ROW, "Seq Scan", "SELECT max(COLUMN) FROM t"),
    (
        BY_COLUMN,
        "HowdahColumnarScan",
        "SELECT max(COLUMN) FROM t WHERE id > 10",
    ),
    (
        BY_COLUMN,
        "HowdahColumnarScan",
        "SELECT count(*) FROM t WHERE COLUMN IS NULL",
    ),
    (
        BY_ENGINE,
        "Vectorized",
        "SELECT flag, count(COLUMN) FROM t GROUP BY flag ORDER BY flag",
    ),
    (
        BY_ENGINE,
        "Vectorized",
        "SELECT count(*) FROM t WHERE COLUMN IS NOT NULL",
    ),
    (
        BY_ENGINE,
        "Vectorized",
        "SELECT id, COLUMN FROM t ORDER BY id LIMIT 3",
    ),
    ("", "", "UPDATE t SET word = '' WHERE id = 8500"),
    ("", "", "COPY t TO '/dev/null'"),
    ("", "", "ANALYZE t"),
    ("", "", "CREATE INDEX made ON t (COLUMN)"),
    ("", "", "ALTER TABLE t SET ACCESS METHOD heap"),
    ("", "", "CALL howdah.compact('t')"),
];

/// Where a byte lies in a row group.
fn place_of(group: &[u8], column: usize, byte: Byte) -> usize {
    let entry = HEADER_BYTES + column * ENTRY_BYTES;
    match byte {
        Byte::Type => entry,
        Byte::Layout => entry + 1,
        Byte::Record => {
            // Sections: their start, and the length of the first one. A record: kind, length.
            let mut at = (word(group, entry + 20) + word(group, entry + 24)) as usize + 1;
            let (mut len, mut shift) = (0, 0);
            loop {
                len |= usize::from(group[at] & 0x7f) << shift;
                shift += 7;
                at += 1;
                if group[at - 1] & 0x80 == 0 {
                    break at + len;
                }
            }
        }
    }
}

/// Writes a byte in all row groups that are on disk; returns how many. It had another value.
fn write(damaged: &mut Damaged, column: usize, byte: Byte, value: u8) -> anyhow::Result<usize> {
    damaged.look_at_disk()?;
    let mut session = damaged.primary.session()?;
    let image = &damaged.image;
    let mut count = 0;
    for entry in damaged.tuples_of(DIRECTORY_ID) {
        let id = word(image, entry.data_offset_bytes + KEY_AND_LENGTH_BYTES + 24);
        let pieces = damaged.tuples_of(id);
        let mut firsts = pieces
            .iter()
            .filter(|piece| word(image, piece.data_offset_bytes + 4) == 0);
        let first = firsts.next().context("a group without pieces")?;
        let checks = first.data_offset_bytes + KEY_AND_LENGTH_BYTES;
        let start = checks + CHECKS_BYTES;
        let group = &image[start..first.data_offset_bytes + first.data_bytes];
        ensure!(group.starts_with(b"HOWDAHRG"), "no footer");
        let at = place_of(group, column, byte);
        ensure!(group[at] != value, "nothing to change");
        let (number, in_kilobyte) = (at / CHECKED_BYTES, at % CHECKED_BYTES);
        let mut kilobytes = group.chunks(CHECKED_BYTES);
        let mut kilobyte = kilobytes.nth(number).context("short")?.to_vec();
        kilobyte[in_kilobyte] = value;
        // As docs/format.md says, of piece 0.
        let place = (u64::from(id) << 32) + number as u64;
        let check = xxh3_64(&kilobyte) ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let check = ((check >> 32) as u32).to_le_bytes();
        damaged.lay_bytes(&mut session, start + number * CHECKED_BYTES, &kilobyte)?;
        damaged.lay_bytes(&mut session, checks + number * check.len(), &check)?;
        count += 1;
    }
    Ok(count)
}

/// What a statement gives in a session of its own, after a check of its plan.
fn run(damaged: &Damaged, (settings, node, statement): Case, of: &str) -> anyhow::Result<String> {
    let mut session = damaged.primary.session()?;
    session.batch_execute(settings)?;
    let statement = statement.replace("COLUMN FROM", &format!("{of} FROM"));
    let statement = statement.replace("COLUMN IS", &format!("{of} IS"));
    let statement = statement.replace("(COLUMN)", &format!("({of})"));
    if !node.is_empty() {
        let plan = query(&mut session, &format!("EXPLAIN (COSTS OFF) {statement}"))?;
        ensure!(plan.contains(node), "no {node} in {plan}");
    }
    let mut answers = Vec::new();
    for part in statement.split("; ") {
        answers.push(told(&mut session, part).with_context(|| statement.clone())?);
    }
    Ok(answers.join("; "))
}

fn answers(damaged: &Damaged) -> anyhow::Result<Vec<String>> {
    ANSWERED
        .iter()
        .map(|case| run(damaged, *case, ""))
        .collect()
}

/// What else reads the table.
fn reads(damaged: &Damaged) -> anyhow::Result<Vec<String>> {
    READS
        .iter()
        .map(|sql| read(&damaged.primary, sql))
        .collect()
}

/// That what reads the other columns is answered as before.
fn is_answered(damaged: &Damaged, whole: &[String]) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for ((case, told), whole) in ANSWERED.iter().zip(answers(damaged)?).zip(whole) {
        if told != *whole {
            wrong.push(format!("{told:.300} instead of {whole:.300}: {}", case.2));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// That a column is refused, and all others are read as before.
fn is_refused(damaged: &Damaged, of: &str, whole: &[String]) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for case in REFUSED {
        let told = run(damaged, *case, of)?;
        if told != "0A000" {
            wrong.push(format!("{told:.200} instead of 0A000: {}", case.2));
        }
    }
    ensure!(wrong.is_empty(), "{of}: {}", wrong.join("\n"));
    is_answered(damaged, whole)?;
    let mut session = damaged.primary.session()?;
    let error = session.batch_execute(&format!("SELECT count({of}) FROM t"));
    let error = error.err().context("it is read")?;
    let error = error.as_db_error().context("the session died")?;
    let hint = error.hint().unwrap_or_default();
    ensure!(hint.contains("newer version"), "{error}: {hint}");
    let unknown = "SELECT string_agg(DISTINCT column_name, ','), count(*), count(bytes), count(min)
        FROM howdah.column_chunks WHERE encoding IS NULL";
    let unknown = query(&mut session, unknown)?;
    ensure!(
        unknown == format!("{of}|2|0|0"),
        "unknown chunks: {unknown}"
    );
    let sizes = "SELECT count(*), count(body_bytes), count(raw_bytes) FROM howdah.row_groups
        WHERE relation = 't'::regclass";
    let sizes = query(&mut session, sizes)?;
    ensure!(sizes == "2|2|0", "sizes: {sizes}");
    Ok(())
}

#[test]
fn a_column_of_a_newer_version_is_refused_and_the_others_are_read() -> anyhow::Result<()> {
    let mut damaged = Damaged::start("newer-columns")?;
    let mut session = damaged.primary.session()?;
    // A rewrite carries groups over that it need not decode.
    let (whole, before) = (answers(&damaged)?, reads(&damaged)?);
    ensure!(write(&mut damaged, AMOUNT, Byte::Type, 11)? == 2);
    session.batch_execute("VACUUM FULL t")?;
    ensure!(read(&damaged.primary, "SELECT sum(amount) FROM t")? == "0A000");
    is_answered(&damaged, &whole)?;
    ensure!(write(&mut damaged, AMOUNT, Byte::Type, 7)? == 2);
    ensure!(reads(&damaged)? == before, "lost by VACUUM FULL");
    // Marks, which compaction would fold and sweep, of groups that it would merge.
    session.batch_execute("DELETE FROM t WHERE id % 1000 = 77")?;
    let (whole, before) = (answers(&damaged)?, reads(&damaged)?);
    for (column, name, field, known, newer) in [
        (AMOUNT, "amount", Byte::Type, 7, 11),
        (NAME, "name", Byte::Layout, 3, 4),
    ] {
        ensure!(write(&mut damaged, column, field, newer)? == 2);
        is_refused(&damaged, name, &whole)?;
        ensure!(write(&mut damaged, column, field, known)? == 2);
        ensure!(reads(&damaged)? == before, "lost after {name}");
    }
    // Name has what it and code have in common: both are read by it, all others without it.
    ensure!(write(&mut damaged, NAME, Byte::Record, 99)? == 2);
    for (case, whole) in ANSWERED.iter().zip(&whole) {
        let reads_code = ["list, code", "(code"].iter().any(|it| case.2.contains(it));
        let expected = if reads_code { "0A000" } else { whole };
        let told = run(&damaged, *case, "")?;
        ensure!(
            told == expected,
            "{told:.200} instead of {expected:.200}: {}",
            case.2
        );
    }
    for case in &REFUSED[..4] {
        for of in ["name", "code"] {
            let told = run(&damaged, *case, of)?;
            ensure!(told == "0A000", "{told:.200}: {} of {of}", case.2);
        }
    }
    ensure!(write(&mut damaged, NAME, Byte::Record, 3)? == 2);
    ensure!(reads(&damaged)? == before, "lost after its record");
    damaged.nothing_crashed()
}
