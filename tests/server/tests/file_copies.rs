//! Rows whose bytes are copied from files beside shared buffers: the same rows as heap's, while
//! other sessions change, move, merge and vacuum them and pages are used anew, on a standby, too;
//! and the reads are counted. Files that are read again and again are mapped, and may grow and be
//! dropped meanwhile.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, ensure};
use howdah_cli::cluster::Cluster;
use howdah_server_tests::checks::{equals_twin, nothing_crashed};
use howdah_server_tests::cluster::{DATABASE, Primary, query};
use howdah_server_tests::damage::told;
use howdah_server_tests::differential::Dice;
use howdah_server_tests::settings::number;
use postgres::Client;

/// So few buffers that most pages are in none.
const SETTINGS: [(&str, &str); 6] = [
    ("shared_buffers", "2MB"),
    ("autovacuum", "off"),
    ("howdah.compaction", "off"),
    ("howdah.load_threshold", "0"),
    ("howdah.row_group_bytes", "2MB"),
    ("max_standby_streaming_delay", "-1"),
];
const ROWS: usize = 30_000;
/// Strings of one length and of different ones, numbers, NULLs, documents; `S` is a salt.
const VALUES: &str =
    "i, i * 7919 % 30011, md5('S' || i) || md5(i::text), repeat(md5('S' || i), 1 + i % 4),
    CASE WHEN i % 5 <> 0 THEN i * 1.25 END, sqrt(i), i % 3 = 0,
    jsonb_build_object('i', i, 'w', md5(i::text)), ARRAY[i, i % 7]";

fn begin(primary: &Primary) -> anyhow::Result<Client> {
    let mut session = primary.session()?;
    session.batch_execute(&format!(
        "CREATE TABLE t (id int PRIMARY KEY, k int, c text, w text, n numeric, f float8, b bool, d jsonb, a int[])
             USING howdah;
         CREATE INDEX ON t (k);
         CREATE TABLE h (LIKE t INCLUDING INDEXES) USING heap;
         INSERT INTO h SELECT {VALUES} FROM generate_series(1, {ROWS}) i;
         INSERT INTO t SELECT * FROM h ORDER BY id;
         ANALYZE t; ANALYZE h; CHECKPOINT"
    ))?;
    Ok(session)
}

/// Rows here and there by one of the indexes, and some that follow each other.
fn question(dice: &mut Dice, table: &str) -> String {
    let keys: Vec<String> = (0..20).map(|_| dice.below(ROWS).to_string()).collect();
    let keys = keys.join(",");
    let first = dice.below(ROWS);
    let condition = match dice.below(3) {
        0 => format!("id = ANY ('{{{keys}}}')"),
        1 => format!("k = ANY ('{{{keys}}}')"),
        _ => format!("id BETWEEN {first} AND {}", first + 60),
    };
    format!(
        "SELECT count(*), md5(string_agg(t::text, '|' ORDER BY id)) FROM {table} t WHERE {condition}"
    )
}

fn read_by_index(session: &mut Client) -> anyhow::Result<()> {
    Ok(session.batch_execute(
        "SET enable_seqscan = off; SET howdah.columnar_scan = off; SET howdah.vectorized = off;
         SET howdah.file_copies = always",
    )?)
}

/// Reads of client backends, and their bytes.
fn reads(session: &mut Client) -> anyhow::Result<(f64, f64)> {
    session.batch_execute("SELECT pg_stat_force_next_flush()")?;
    let row = session.query_one(
        "SELECT sum(reads)::float8, sum(read_bytes)::float8 FROM pg_stat_io
         WHERE backend_type = 'client backend' AND object = 'relation' AND context = 'normal'",
        &[],
    )?;
    Ok((row.get(0), row.get(1)))
}

#[test]
fn rows_copied_from_files_are_counted_as_pages_read() -> anyhow::Result<()> {
    let primary = Primary::start("file-copies-counted", &SETTINGS)?;
    let mut session = begin(&primary)?;
    let mut dice = Dice::new(number("HOWDAH_COPIES_SEED", 1));
    let mut bytes_a_read = |setting: &str| -> anyhow::Result<f64> {
        let mut reader = primary.session()?;
        read_by_index(&mut reader)?;
        reader.batch_execute(&format!("SET howdah.file_copies = {setting}"))?;
        let before = reads(&mut session)?;
        for _ in 0..50 {
            let seed = dice.below(1 << 30);
            let ask = |table| question(&mut Dice::new(seed as u64), table);
            ensure!(query(&mut reader, &ask("t"))? == query(&mut session, &ask("h"))?);
        }
        let plan = reader.query(
            "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT * FROM t WHERE id IN (9, 9000, 24444)",
            &[],
        )?;
        let has_reads = |row: &postgres::Row| row.get::<_, &str>(0).contains("read=");
        ensure!(plan.iter().any(has_reads), "{setting}: {plan:?}");
        reader.batch_execute("SELECT pg_stat_force_next_flush()")?;
        let after = reads(&mut session)?;
        Ok((after.1 - before.1) / (after.0 - before.0))
    };
    let (copied, read) = (bytes_a_read("always")?, bytes_a_read("off")?);
    println!("{copied} and {read} bytes a read");
    ensure!(read >= 8192.0, "{read} bytes a read without copies");
    // Pages of indexes and of heap's table are read whole.
    ensure!(copied < 8000.0, "{copied} bytes a read: nothing is copied");
    Ok(())
}

#[test]
fn rows_copied_from_files_are_heap_s_while_pages_are_used_anew() -> anyhow::Result<()> {
    let primary = Primary::start("file-copies", &SETTINGS)?;
    let mut session = begin(&primary)?;
    let rounds = number("HOWDAH_COPIES_ROUNDS", 4);
    let seed = number("HOWDAH_COPIES_SEED", 1);
    let standby = primary.standby()?;
    standby.wait_for(&primary)?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| -> anyhow::Result<()> {
        let read = |server: &Cluster, seed: u64| -> anyhow::Result<usize> {
            let mut reader = server.connect(DATABASE)?;
            read_by_index(&mut reader)?;
            let mut dice = Dice::new(seed);
            let mut count = 0;
            while !done.load(Ordering::SeqCst) {
                // One snapshot for both tables.
                reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
                for _ in 0..dice.below(8) + 1 {
                    let seed = dice.below(1 << 30);
                    let mut ask = |table| {
                        let question = question(&mut Dice::new(seed as u64), table);
                        query(&mut reader, &question)
                    };
                    let (ours, theirs) = (ask("t")?, ask("h")?);
                    ensure!(ours == theirs, "{ours}, not {theirs}, question {seed}");
                    count += 1;
                }
                reader.batch_execute("COMMIT")?;
            }
            Ok(count)
        };
        let servers: [&Cluster; 3] = [&primary, &primary, &standby];
        let readers: Vec<_> = servers
            .into_iter()
            .zip(seed + 100..)
            .map(|(server, seed)| scope.spawn(move || read(server, seed)))
            .collect();
        let changed = (0..rounds).try_for_each(|round| change(&mut session, round));
        let changed = changed.and_then(|()| standby.wait_for(&primary));
        done.store(true, Ordering::SeqCst);
        for reader in readers {
            let count = reader
                .join()
                .map_err(|_| anyhow::anyhow!("a reader panicked"))??;
            println!("{count} questions");
            ensure!(count > 20, "only {count} questions");
        }
        changed
    })?;
    equals_twin(&mut standby.session()?, "t", "h")?;
    equals_twin(&mut session, "t", "h")
}

/// What a session has mapped of the file at `path`: the names of the kernel's links to it.
fn mapped(pid: i32, path: &str) -> anyhow::Result<Vec<PathBuf>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let lines = maps.lines().filter(|line| line.contains(path));
    let range = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let link = |range: String| PathBuf::from(format!("/proc/{pid}/map_files/{range}"));
    Ok(lines.filter_map(range).map(link).collect())
}

/// The file of the table's cold side.
fn cold_file(session: &mut Client) -> anyhow::Result<String> {
    let sql = "SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE oid = 't'::regclass";
    Ok(session.query_one(sql, &[])?.get(0))
}

#[test]
fn files_that_sessions_have_mapped_grow_and_are_rewritten_and_dropped() -> anyhow::Result<()> {
    let primary = Primary::start("file-copies-mapped", &SETTINGS)?;
    let mut session = begin(&primary)?;
    let mut reader = primary.session()?;
    read_by_index(&mut reader)?;
    let pid: i32 = reader.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let mut dice = Dice::new(number("HOWDAH_COPIES_SEED", 1));
    let mut read_all = |session: &mut Client, reader: &mut Client| -> anyhow::Result<()> {
        for _ in 0..60 {
            let seed = dice.below(1 << 30);
            let ask = |table| question(&mut Dice::new(seed as u64), table);
            ensure!(query(reader, &ask("t"))? == query(session, &ask("h"))?);
        }
        Ok(())
    };
    let first = cold_file(&mut session)?;
    ensure!(mapped(pid, &first)?.is_empty());
    read_all(&mut session, &mut reader)?;
    ensure!(mapped(pid, &first)?.len() == 1, "the file is not mapped");

    // The file grows, and parts of it are used anew.
    for round in 0..3 {
        change(&mut session, round)?;
        read_all(&mut session, &mut reader)?;
    }

    // Another file. None of the old one's blocks are kept, and with its next statement the reader
    // gives up the mapping, too.
    let keeps_no_block = |file: &str| -> anyhow::Result<()> {
        let links = mapped(pid, file)?;
        ensure!(!links.is_empty(), "it was unmapped before");
        for link in links {
            let blocks = std::fs::metadata(&link).with_context(|| format!("{}", link.display()))?;
            ensure!(blocks.blocks() == 0, "{} blocks are kept", blocks.blocks());
        }
        Ok(())
    };
    session.batch_execute("VACUUM FULL t")?;
    session.batch_execute("CHECKPOINT")?;
    ensure!(cold_file(&mut session)? != first);
    keeps_no_block(&first)?;
    read_all(&mut session, &mut reader)?;
    ensure!(mapped(pid, &first)?.is_empty(), "the file is still mapped");
    let second = cold_file(&mut session)?;
    ensure!(
        !mapped(pid, &second)?.is_empty(),
        "the new file is not mapped"
    );
    equals_twin(&mut reader, "t", "h")?;
    session.batch_execute("DROP TABLE t")?;
    session.batch_execute("CHECKPOINT")?;
    keeps_no_block(&second)?;
    let count = "SELECT count(*) FROM h";
    ensure!(query(&mut reader, count)? == query(&mut session, count)?);
    ensure!(mapped(pid, &second)?.is_empty(), "the file is still mapped");
    nothing_crashed(&primary.log)
}

#[test]
fn a_mapped_file_that_loses_its_end_is_an_error_of_the_statement() -> anyhow::Result<()> {
    let primary = Primary::start("file-copies-cut", &SETTINGS)?;
    let mut session = begin(&primary)?;
    session.batch_execute("CREATE EXTENSION pg_buffercache")?;
    let mut reader = primary.session()?;
    read_by_index(&mut reader)?;
    let pid: i32 = reader.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    reader.batch_execute("SET enable_hashjoin = off; SET enable_mergejoin = off")?;
    // Through a cursor: a new statement would see how large the file is, and read nothing there.
    let begin_reading = |reader: &mut Client| {
        reader.batch_execute(
            "BEGIN; DECLARE c CURSOR FOR SELECT t.* FROM generate_series(7, 29000, 150) g JOIN t ON t.id = g;
             MOVE 5 FROM c",
        )
    };
    let read = |reader: &mut Client| told(reader, "FETCH ALL FROM c");
    let evict =
        "SELECT pg_buffercache_evict_relation(reltoastrelid) FROM pg_class WHERE relname = 't'";
    begin_reading(&mut reader)?;
    let whole = read(&mut reader)?;
    // Each part of the file is copied from often enough.
    for _ in 0..10 {
        query(&mut session, evict)?;
        reader.batch_execute("ROLLBACK")?;
        begin_reading(&mut reader)?;
        read(&mut reader)?;
    }
    let name = cold_file(&mut session)?;
    ensure!(!mapped(pid, &name)?.is_empty(), "the file is not mapped");

    let path = primary.data.join(&name);
    let bytes = std::fs::read(&path)?;
    session.batch_execute("CHECKPOINT")?;
    // Nothing is read of mappings for a while where a copy has taken long, as on a busy machine.
    let mut tries = 0..20;
    while !mapped(pid, &name)?.is_empty() {
        ensure!(tries.next().is_some(), "no read of the mapping has failed");
        reader.batch_execute("ROLLBACK")?;
        begin_reading(&mut reader)?;
        query(&mut session, evict)?;
        std::fs::write(&path, &bytes[..bytes.len() / 2 / 8192 * 8192])?;
        let answer = read(&mut reader);
        std::fs::write(&path, &bytes)?;
        ensure!(answer? == "XX001");
    }
    reader.batch_execute("ROLLBACK")?;
    query(&mut session, evict)?;
    begin_reading(&mut reader)?;
    ensure!(read(&mut reader)? == whole);
    equals_twin(&mut session, "t", "h")?;
    nothing_crashed(&primary.log)
}

/// Changes a part of the rows of both tables, makes all of them cold, and gives room back.
fn change(session: &mut Client, round: u64) -> anyhow::Result<()> {
    let (part, salt) = (round % 6, format!("'{round}' || "));
    let values = VALUES.replace("'S' || ", &salt);
    let of_part = format!("id / 1000 % 6 = {part}");
    let grouped = round % 2 == 1;
    session.batch_execute(&format!(
        "SET howdah.debug_group_columns = {grouped}; BEGIN"
    ))?;
    for table in ["t", "h"] {
        session
            .batch_execute(&format!(
                "DELETE FROM {table} WHERE {of_part};
                 INSERT INTO {table} SELECT {values} FROM generate_series(0, {ROWS}) i
                     WHERE i / 1000 % 6 = {part};
                 UPDATE {table} SET n = -id WHERE id % 50 = {round}"
            ))
            .with_context(|| format!("round {round}"))?;
    }
    session.batch_execute("COMMIT")?;
    session.batch_execute("CALL howdah.compact('t')")?;
    Ok(session.batch_execute("VACUUM t")?)
}
