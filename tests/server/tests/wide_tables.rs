//! A table of four hundred columns, whose footer fills several pieces. A scan reads the footer's
//! header, its column table, and the sections of the columns that it asks for: few pages, and
//! damage in the sections of other columns is no error of its columns.

use std::ops::Range;

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::damage::{DIRECTORY_ID, Damaged, KEY_AND_LENGTH_BYTES, read, word};
use postgres::Client;

const COLUMNS: usize = 400;
const ROWS: usize = 4_000;
const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 32;
/// The checks in front of a piece's bytes, the bytes that have one, and those of a piece.
const CHECKS_BYTES: usize = 32;
const CHECKED_BYTES: usize = 1024;
const PIECE_BYTES: usize = 8064;

const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off;
    SET howdah.columnar_scan = off; SET howdah.vectorized = off; ";
const BY_COLUMN: &str = "SET enable_indexscan = off; SET enable_indexonlyscan = off;
    SET enable_bitmapscan = off; SET howdah.vectorized = off; ";
const BY_ENGINE: &str = "SET howdah.debug_force_vectorized = on; ";

/// Makes the table t of one row group: a key, and texts.
fn make(session: &mut Client) -> anyhow::Result<()> {
    let columns = |what: &dyn Fn(usize) -> String| (1..COLUMNS).map(what).collect::<String>();
    session.batch_execute(&format!(
        "CREATE TABLE t (id int PRIMARY KEY {}) USING howdah;
         INSERT INTO t SELECT i {} FROM generate_series(1, {ROWS}) i",
        columns(&|k| format!(", c{k} text COLLATE \"C\"")),
        columns(&|k| format!(", md5((i + {k})::text)")),
    ))?;
    session.batch_execute("VACUUM (FREEZE, ANALYZE) t")?;
    let group = "SELECT row_count, footer_bytes > 8 * 8064 FROM howdah.row_groups
        WHERE relation = 't'::regclass";
    let group = query(session, group)?;
    ensure!(group == format!("{ROWS}|t"), "t has {group}");
    Ok(())
}

/// Kilobytes of a footer: which of its bytes, and where these lie in the file.
type Kilobytes = Vec<(Range<usize>, usize)>;

/// The only row group, from its footer on, and the kilobytes of the footer.
fn footer(damaged: &Damaged) -> anyhow::Result<(Vec<u8>, Kilobytes)> {
    let image = &damaged.image;
    let entries = damaged.tuples_of(DIRECTORY_ID);
    ensure!(entries.len() == 1, "{} groups", entries.len());
    let id = word(
        image,
        entries[0].data_offset_bytes + KEY_AND_LENGTH_BYTES + 24,
    );
    let mut pieces = damaged.tuples_of(id);
    pieces.sort_by_key(|piece| word(image, piece.data_offset_bytes + 4));
    let (mut footer, mut kilobytes) = (Vec::new(), Vec::new());
    for piece in pieces {
        let start = piece.data_offset_bytes + KEY_AND_LENGTH_BYTES + CHECKS_BYTES;
        let bytes = &image[start..piece.data_offset_bytes + piece.data_bytes];
        for (k, kilobyte) in bytes.chunks(CHECKED_BYTES).enumerate() {
            let at = footer.len();
            footer.extend_from_slice(kilobyte);
            kilobytes.push((at..footer.len(), start + k * CHECKED_BYTES));
        }
    }
    ensure!(footer.starts_with(b"HOWDAHRG"), "no footer");
    let len = word(&footer, 20) as usize;
    kilobytes.retain(|(kilobyte, _)| kilobyte.start < len);
    Ok((footer, kilobytes))
}

/// The statistics and the nodes of a column in the footer, as docs/format.md says.
fn sections(footer: &[u8], column: usize) -> (Range<usize>, Range<usize>) {
    let entry = HEADER_BYTES + column * ENTRY_BYTES;
    let number = |at| word(footer, entry + at) as usize;
    let (start, middle) = (number(20), number(20) + number(24));
    (start..middle, middle..middle + number(28))
}

/// What reads a column's values: a row by index, a scan, the engine.
fn reads(column: usize) -> [String; 3] {
    [
        format!("{BY_INDEX} SELECT c{column} FROM t WHERE id = 1234"),
        format!("{BY_COLUMN} SELECT max(c{column}) FROM t"),
        format!("{BY_ENGINE} SELECT count(*), min(c{column}) FROM t WHERE c{column} LIKE '%7%'"),
    ]
}

#[test]
fn damage_in_a_long_footer_is_met_by_the_columns_whose_sections_it_hits() -> anyhow::Result<()> {
    let mut damaged = Damaged::start("wide-tables-damage")?;
    let mut session = damaged.primary.session()?;
    session.batch_execute("DROP TABLE p CASCADE")?;
    make(&mut session)?;
    damaged.look_at_disk()?;
    let (footer, kilobytes) = footer(&damaged)?;
    let table_end = HEADER_BYTES + COLUMNS * ENTRY_BYTES;
    let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
    let mut refused = [0; 3];
    for (nth, (kilobyte, place)) in kilobytes.iter().enumerate() {
        let hit = |column: &usize| {
            let (statistics, nodes) = sections(&footer, *column);
            meet(kilobyte, &(statistics.start..nodes.end))
        };
        // One of the columns that are hit, each time another, and the two beside them.
        let hits: Vec<usize> = (1..COLUMNS).filter(hit).collect();
        let mut asked = match (hits.first(), hits.last()) {
            (Some(first), Some(last)) => vec![hits[nth % hits.len()], first - 1, last + 1],
            _ => vec![1 + nth],
        };
        asked.retain(|column| (1..COLUMNS).contains(column));
        let whole: Vec<_> = asked
            .iter()
            .map(|&column| reads(column).map(|sql| read(&damaged.primary, &sql)))
            .collect();
        damaged.flip(&mut session, place + nth % kilobyte.len(), (nth % 8) as u8)?;
        for (&column, whole) in asked.iter().zip(whole) {
            let (_, nodes) = sections(&footer, column);
            let is_in_table = kilobyte.start < table_end;
            let of_scan = is_in_table || hit(&column);
            let of_row = is_in_table || meet(kilobyte, &nodes);
            let expected = [of_row, of_scan, of_scan];
            for (k, (sql, whole)) in reads(column).iter().zip(whole).enumerate() {
                let (told, whole) = (read(&damaged.primary, sql)?, whole?);
                ensure!(whole != "XX001", "damaged before: {sql}");
                let expected_told = if expected[k] { "XX001" } else { &whole };
                ensure!(
                    told == expected_told,
                    "bytes {kilobyte:?}: {told:.100} instead of {expected_told:.100}: {sql}"
                );
                refused[k] += usize::from(expected[k]);
            }
        }
        damaged.restore_page(&mut session, *place)?;
    }
    println!(
        "{} kilobytes; refused by index, scan, engine: {refused:?}",
        kilobytes.len()
    );
    ensure!(refused.iter().all(|&count| count > 20), "{refused:?}");
    damaged.nothing_crashed()
}

/// Buffers of a scan besides those of its chunks: of the directory, of the footer's first pages,
/// and of the sections of its columns.
const BUFFERS_OF_SCAN: u64 = 10;

/// The buffers of a statement's plan, in memory or not.
fn buffers(session: &mut Client, sql: &str) -> anyhow::Result<u64> {
    let plan = query(
        session,
        &format!(
            "EXPLAIN (ANALYZE, BUFFERS, SERIALIZE TEXT, COSTS OFF, TIMING OFF, SUMMARY OFF) {sql}"
        ),
    )?;
    ensure!(plan.contains("HowdahColumnarScan"), "{plan}");
    let line = plan
        .lines()
        .find_map(|line| line.trim().strip_prefix("Buffers: shared "));
    let mut sum = 0;
    for (what, count) in line
        .context("no buffers")?
        .split(' ')
        .filter_map(|word| word.split_once('='))
    {
        if ["hit", "read"].contains(&what) {
            sum += count.parse::<u64>().context("not a count")?;
        }
    }
    Ok(sum)
}

#[test]
fn a_scan_of_few_columns_reads_few_pages_of_a_long_footer() -> anyhow::Result<()> {
    let primary = Primary::start(
        "wide-tables-buffers",
        &[
            ("howdah.load_threshold", "0"),
            ("howdah.compaction", "off"),
            ("autovacuum", "off"),
        ],
    )?;
    let mut maker = primary.session()?;
    make(&mut maker)?;
    let pieces = "SELECT footer_bytes / 8064 FROM howdah.row_groups WHERE relation = 't'::regclass";
    let pieces: u64 = query(&mut maker, pieces)?.parse()?;
    ensure!(pieces >= BUFFERS_OF_SCAN, "a footer of {pieces} pieces");
    for (one, other) in [(2, 4), (10, 190), (102, 198)] {
        let chunks = format!(
            "SELECT sum(bytes / {PIECE_BYTES} + 2) FROM howdah.column_chunks
             WHERE relation = 't'::regclass AND column_name IN ('c{one}', 'c{other}')"
        );
        let chunks: u64 = query(&mut maker, &chunks)?.parse()?;
        let mut fresh = primary.session()?;
        fresh.batch_execute(BY_COLUMN)?;
        // Buffers read by parsing and planning are not counted.
        query(&mut fresh, "SELECT count(*) FROM t WHERE id < 0")?;
        let sql = format!("SELECT c{one}, c{other} FROM t");
        let read = buffers(&mut fresh, &sql)?;
        println!(
            "c{one}, c{other}: {read} buffers, of {chunks} pages of chunks; a footer of {pieces} pieces"
        );
        ensure!(
            read <= chunks + BUFFERS_OF_SCAN,
            "{sql}: {read} buffers, of {chunks} pages of chunks"
        );
    }
    Ok(())
}
