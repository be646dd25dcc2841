//! Flipped bits on disk: a read gives the right rows or XX001, never a wrong row, never a crash.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;

use anyhow::ensure;
use howdah_cli::cluster::StopMode;
use howdah_server_tests::cluster::query;
use howdah_server_tests::damage::{
    CLEANED_ID, DELETION_VECTOR_ID, DIRECTORY_ID, Damaged, FIRST_VALUE_ID, FORWARD_ID,
    HIGH_WATER_ID, KEY_AND_LENGTH_BYTES, LATE_ROWS_ID, READS, StoredTuple, VERSIONS_ID, ask, read,
    set_page_checksums, spread, told, word,
};

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
    let (mut by_page, mut by_kilobyte) = (0, 0);
    for tuple in damaged
        .tuples
        .iter()
        .filter(|tuple| tuple.id >= FIRST_VALUE_ID)
    {
        for at in (PAYLOAD_AND_CHECKS_BYTES + 512..tuple.data_bytes).step_by(1024) {
            let byte = tuple.data_offset_bytes + at;
            damaged.flip(&mut evicting, byte, 2)?;
            let checked = told(&mut asking, rows)?;
            let ignoring = format!("SET ignore_checksum_failure = on; {rows}");
            let ignored = told(&mut asking, &ignoring)?;
            asking.batch_execute("RESET ignore_checksum_failure")?;
            // The damaged page is in memory now, where other sessions have noted that it was sound.
            let unaware = told(&mut damaged.primary.session()?, rows)?;
            damaged.restore_page(&mut evicting, byte)?;
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
    ensure!(
        noticed * 10 > 60 * 9,
        "only {noticed} of 60 flipped bits were noticed"
    );
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
    for tuple in damaged.tuples_of(DIRECTORY_ID) {
        for at in 0..tuple.data_bytes {
            let mut knowing = damaged.primary.session()?;
            for _ in 0..3 {
                ensure!(told(&mut knowing, question)? == whole, "not restored");
            }
            let byte = tuple.data_offset_bytes + at;
            damaged.flip(&mut session, byte, (at % 8) as u8)?;
            match told(&mut knowing, question)?.as_str() {
                "XX001" => refused += 1,
                // It remembers what the entry said.
                told => ensure!(told == whole, "{told} with byte {at} of {tuple:?} flipped"),
            }
            damaged.restore_page(&mut session, byte)?;
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
    for (id, statements) in CHANGES {
        let tuples = damaged.tuples_of(id);
        ensure!(!tuples.is_empty(), "no tuple with id {id} was found");
        for tuple in tuples {
            let pointer = word(&damaged.image, tuple.pointer_bytes) & !(3 << 15);
            damaged.lay_bytes(&mut session, tuple.pointer_bytes, &pointer.to_le_bytes())?;
            for sql in statements {
                let told = read(&damaged.primary, sql)?;
                ensure!(told == "XX001", "{sql} without {tuple:?}: {told:.200}");
            }
            damaged.restore_page(&mut session, tuple.pointer_bytes)?;
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
