//! How much memory a session keeps.

use anyhow::ensure;
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::process::{mapped_file_count, own_memory_bytes, page_table_bytes};
use postgres::Client;

const SETTINGS: [(&str, &str); 2] = [("howdah.compaction", "off"), ("autovacuum", "off")];
const GROUP_COUNT: u64 = 60;
const ROWS_PER_GROUP: u64 = 2000;
/// Approximate encoded size: 16 random words of 32 hexadecimal digits a row.
const GROUP_BYTES: u64 = ROWS_PER_GROUP * 16 * 17;

/// Anonymous memory of the session's process, in bytes.
fn own_memory(session: &mut Client) -> anyhow::Result<u64> {
    own_memory_bytes(&query(session, "SELECT pg_backend_pid()")?)
}

/// How much the memory of a session grows that reads rows all over the table, each by its key.
fn growth_by_reads(primary: &Primary, cache_size: &str) -> anyhow::Result<u64> {
    let mut session = primary.session()?;
    session.batch_execute(&format!(
        "SET howdah.cache_size = '{cache_size}'; SET enable_seqscan = off;
         SET enable_bitmapscan = off; SET howdah.columnar_scan = off"
    ))?;
    let row_count = GROUP_COUNT * ROWS_PER_GROUP;
    let read = format!(
        "DO $$ DECLARE length int; BEGIN
             FOR i IN 1..20000 LOOP
                 SELECT length(words) INTO STRICT length FROM t WHERE id = i::bigint * 7919 % {row_count} + 1;
             END LOOP;
         END $$"
    );
    session.batch_execute("SELECT words FROM t WHERE id = 1")?;
    let before = own_memory(&mut session)?;
    session.batch_execute(&read)?;
    session.batch_execute(&read)?;
    Ok(own_memory(&mut session)?.saturating_sub(before))
}

#[test]
fn a_session_keeps_little_of_the_row_groups_that_it_reads() -> anyhow::Result<()> {
    let primary = Primary::start("cache-memory", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, words text) USING howdah;
         SET howdah.debug_force_cold = on",
    )?;
    for group in 0..GROUP_COUNT {
        session.batch_execute(&format!(
            "INSERT INTO t SELECT {group} * {ROWS_PER_GROUP} + i,
                 (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 16 + 0 * i))
             FROM generate_series(1, {ROWS_PER_GROUP}) i"
        ))?;
    }
    let groups = query(&mut session, "SELECT count(*) FROM howdah.row_groups")?;
    assert_eq!(groups.parse::<u64>()?, GROUP_COUNT);
    let usual = growth_by_reads(&primary, "6MB")?;
    let small = growth_by_reads(&primary, "1MB")?;
    let large = growth_by_reads(&primary, "1GB")?;
    println!(
        "{small} bytes with a cache of 1 MB, {usual} with one of 6 MB, {large} with one of 1 GB"
    );
    ensure!(usual <= 8 << 20, "{usual} bytes by default");
    ensure!(small <= 4 << 20, "{small} bytes with a small cache");
    ensure!(
        large < GROUP_COUNT * GROUP_BYTES / 2,
        "{large} bytes: whole columns were kept"
    );
    Ok(())
}

/// What a statement may need for any number of runs of one plan.
const MOST_FOR_RESCANS: u64 = 8 << 20;

#[test]
fn rescans_of_a_vectorized_plan_need_no_more_memory_than_one() -> anyhow::Result<()> {
    let primary = Primary::start("rescan-memory", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int, k int, w text) USING howdah;
         SET howdah.debug_force_cold = on;
         INSERT INTO t SELECT i, i % 10, 'w' || i FROM generate_series(1, 200) i; ANALYZE t;
         SET howdah.debug_force_vectorized = on; SET howdah.threads = 0",
    )?;
    let pid = query(&mut session, "SELECT pg_backend_pid()")?;
    let grown = |session: &mut Client, rescans: u32| -> anyhow::Result<u64> {
        // The last row of the function is computed when all rescans are over.
        let text = format!(
            "SELECT sum((SELECT count(*) FROM t WHERE k = g AND w <> 'x' || g)),
                    substring(pg_read_file('/proc/{pid}/status') FROM 'RssAnon:\\s+(\\d+)')
             FROM generate_series(1, {rescans}) g"
        );
        let plan = query(session, &format!("EXPLAIN {text}"))?;
        ensure!(plan.contains("Vectorized"), "not vectorized: {plan}");
        let before = own_memory_bytes(&pid)?;
        let answer = query(session, &text)?;
        let (sum, kilobytes) = answer.split_once('|').unwrap_or_default();
        ensure!(sum == "180", "{answer}");
        Ok((kilobytes.parse::<u64>()? * 1024).saturating_sub(before))
    };
    grown(&mut session, 100)?;
    let bytes = grown(&mut session, 8000)?;
    println!("{bytes} bytes for 8000 rescans");
    ensure!(bytes <= MOST_FOR_RESCANS, "{bytes} bytes for 8000 rescans");
    Ok(())
}

/// The most memory that the session's process ever had, shared memory that it touched included.
fn peak_bytes(session: &mut Client) -> anyhow::Result<u64> {
    let peak = query(
        session,
        "SELECT substring(pg_read_file('/proc/self/status') FROM 'VmHWM:\\s+(\\d+)')",
    )?;
    Ok(peak.parse::<u64>()? * 1024)
}

const DOCUMENT_COUNT: u64 = 600;
/// What a run over hot rows may need besides: a few batches, and the server's own memory.
const MOST_FOR_DOCUMENTS: u64 = 300 << 20;

#[test]
fn long_values_of_hot_rows_are_expanded_a_few_at_a_time() -> anyhow::Result<()> {
    let primary = Primary::start("hot-memory", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(&format!(
        "CREATE TABLE t (id int, document text COLLATE \"C\") USING howdah;
         CREATE TABLE parts (LIKE t) PARTITION BY RANGE (id);
         CREATE TABLE parts_a PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (300) USING howdah;
         CREATE TABLE parts_b (document text COLLATE \"C\", gone int, id int) USING howdah;
         ALTER TABLE parts_b DROP COLUMN gone;
         ALTER TABLE parts ATTACH PARTITION parts_b FOR VALUES FROM (300) TO (500);
         CREATE TABLE parts_c PARTITION OF parts FOR VALUES FROM (500) TO (MAXVALUE) USING heap;
         SET howdah.debug_force_cold = on;
         INSERT INTO t SELECT i, '' FROM generate_series(1, 300) i; INSERT INTO parts TABLE t;
         RESET howdah.debug_force_cold; SET howdah.bulk_load = off;
         INSERT INTO t SELECT i, repeat(md5(i::text), 32768) FROM generate_series(1, {DOCUMENT_COUNT}) i;
         INSERT INTO parts SELECT * FROM t WHERE document <> '';
         ANALYZE t, parts"
    ))?;
    for table in ["t", "parts"] {
        // A session of its own: the peak is of the whole process.
        let mut session = primary.session()?;
        session.batch_execute("SET howdah.debug_force_vectorized = on")?;
        let text = format!("SELECT left(max(document), 4), count(id) FROM {table}");
        let plan = query(&mut session, &format!("EXPLAIN {text}"))?;
        ensure!(plan.contains("Vectorized"), "not vectorized: {plan}");
        let answer = query(&mut session, &text)?;
        let expected = query(
            &mut session,
            &format!(
                "SELECT left(max(md5(i::text) COLLATE \"C\"), 4), count(*) + 300 FROM generate_series(1, {DOCUMENT_COUNT}) i"
            ),
        )?;
        ensure!(answer == expected, "{answer} instead of {expected}");
        let bytes = peak_bytes(&mut session)?;
        println!("{bytes} bytes at most for {DOCUMENT_COUNT} documents of 1 MB in {table}");
        ensure!(bytes <= MOST_FOR_DOCUMENTS, "{bytes} bytes for {table}");
    }
    Ok(())
}

#[test]
fn results_of_postgresqls_expressions_are_kept_a_few_at_a_time() -> anyhow::Result<()> {
    let primary = Primary::start("foreign-memory", &SETTINGS)?;
    primary.session()?.batch_execute(
        "CREATE TABLE t (id int, w text COLLATE \"C\") USING howdah;
         SET howdah.debug_force_cold = on;
         INSERT INTO t SELECT i, 'w' || i FROM generate_series(1, 3000) i; ANALYZE t",
    )?;
    // 900 MB if all were kept.
    for aggregate in [
        "max(lpad(w, 300000))",
        "count(*) FILTER (WHERE lpad(w, 300000) > 'a')",
    ] {
        let mut session = primary.session()?;
        session.batch_execute("SET howdah.debug_force_vectorized = on")?;
        let text = format!("SELECT length({aggregate}::text) FROM t");
        let plan = query(&mut session, &format!("EXPLAIN {text}"))?;
        ensure!(plan.contains("Vectorized"), "not vectorized: {plan}");
        query(&mut session, &text)?;
        let bytes = peak_bytes(&mut session)?;
        println!("{bytes} bytes at most for {aggregate}");
        ensure!(bytes <= MOST_FOR_DOCUMENTS, "{bytes} bytes for {aggregate}");
    }
    Ok(())
}

#[test]
fn scans_by_index_that_have_ended_keep_no_row() -> anyhow::Result<()> {
    let primary = Primary::start("late-row-memory", &SETTINGS)?;
    let mut session = primary.session()?;
    let partition_count = 30;
    session.batch_execute(
        "CREATE TABLE p (id int PRIMARY KEY, words text) PARTITION BY RANGE (id);
         SET howdah.debug_force_cold = on",
    )?;
    for nth in 0..partition_count {
        session.batch_execute(&format!(
            "CREATE TABLE p{nth} PARTITION OF p FOR VALUES FROM ({nth} * 2) TO ({nth} * 2 + 2) USING howdah;
             INSERT INTO p SELECT {nth} * 2 + i % 2, string_agg(md5(random()::text), '')
                 FROM generate_series(1, 120000) i GROUP BY i % 2"
        ))?;
    }
    let mut reader = primary.session()?;
    reader.batch_execute(
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off;
         SET jit_above_cost = 0;
         BEGIN; DECLARE c CURSOR FOR SELECT id, length(words) FROM p WHERE id >= 0; FETCH 4 FROM c",
    )?;
    let before = own_memory(&mut reader)?;
    let rows = reader.query("FETCH ALL FROM c", &[])?;
    assert_eq!(rows.len(), 2 * partition_count - 4);
    let grown = own_memory(&mut reader)?.saturating_sub(before);
    ensure!(
        grown <= 12 << 20,
        "{grown} bytes for {partition_count} scans"
    );
    Ok(())
}

/// What a session that reads cold rows by their keys may keep beyond one that reads heap's.
const MOST_BEYOND_HEAP: u64 = 8 << 20;
const READ_COUNT: u32 = 100_000;

#[test]
fn a_session_that_reads_many_rows_by_key_keeps_little_more_than_one_of_heap() -> anyhow::Result<()>
{
    let primary = Primary::start("row-memory", &SETTINGS)?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE cold (id int PRIMARY KEY, at timestamptz, amount numeric, word text, code text,
             flag bool, real8 float8, list int[], document jsonb) USING howdah;
         SET howdah.debug_force_cold = on",
    )?;
    for group in 0..10 {
        session.batch_execute(&format!(
            "INSERT INTO cold SELECT i, '2026-01-01'::timestamptz + i * '1 min'::interval, i * 1.25,
                 'order ' || i * 7919 % 99991 || ' of customer ' || i % 1013, md5(i::text), i % 3 = 0, sqrt(i),
                 ARRAY[i, i % 7], jsonb_build_object('id', i, 'tags', ARRAY[md5((i % 99)::text)])
             FROM generate_series({group} * 20000 + 1, {group} * 20000 + 20000) i"
        ))?;
    }
    session.batch_execute(
        "CREATE TABLE heap (LIKE cold INCLUDING ALL) USING heap; INSERT INTO heap TABLE cold",
    )?;
    let groups = query(&mut session, "SELECT count(*) FROM howdah.row_groups")?;
    ensure!(groups == "10", "{groups} row groups");
    session.batch_execute("VACUUM (ANALYZE) cold, heap")?;
    let (mut kept, mut sums) = (Vec::new(), Vec::new());
    for table in ["heap", "cold"] {
        let mut reader = primary.session()?;
        reader.batch_execute(&format!(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off;
             DO $$ DECLARE r {table}; sum bigint := 0; BEGIN
                 FOR i IN 1..{READ_COUNT} LOOP
                     SELECT * INTO STRICT r FROM {table}
                         WHERE id = 1 + (hashint4(i) & 2147483647) % 200000;
                     sum := sum # hashtextextended(r::text, i);
                 END LOOP;
                 PERFORM set_config('test.sum', sum::text, false);
             END $$"
        ))?;
        sums.push(query(&mut reader, "SHOW test.sum")?);
        kept.push(own_memory(&mut reader)?);
    }
    println!("{} bytes of heap's session, {} of ours", kept[0], kept[1]);
    ensure!(sums[0] == sums[1], "other rows: {sums:?}");
    ensure!(
        kept[1] <= kept[0] + MOST_BEYOND_HEAP,
        "{} bytes after {READ_COUNT} rows, heap's session has {}",
        kept[1],
        kept[0]
    );
    Ok(())
}

/// What decision 55 allows for page tables of mapped files.
const MOST_FOR_MAPS: u64 = 4 << 20;
const WIDE_GROUPS: u64 = 8;
const WIDE_ROWS_PER_GROUP: u64 = 7_000;
const WIDE_READS: u32 = 15_000;
/// Types of the columns of a wide table, and a value of row i of the n-th of them.
const KINDS: [(&str, &str); 8] = [
    ("int", "hashint4(i + N)"),
    ("numeric", "i * 1.25 + N"),
    ("text", "md5((i * 40 + N)::text)"),
    (
        "text",
        "'order ' || i * 7919 % 9999 || ' of ' || (i + N) % 1013",
    ),
    ("text", "md5(((i + N) % 2000)::text)"),
    (
        "timestamptz",
        "'2026-01-01'::timestamptz + (i + N) * '1 min'::interval",
    ),
    ("float8", "sqrt(i + N)"),
    (
        "jsonb",
        "jsonb_build_object('id', i, 'tag', md5((i % 99)::text))",
    ),
];
const WIDE_COLUMNS: usize = 40;

/// Near the worst: each row is another of many groups, and has values of many columns.
#[test]
fn a_session_that_reads_wide_rows_keeps_little_more_than_one_of_heap() -> anyhow::Result<()> {
    let small = [("shared_buffers", "2MB")];
    let primary = Primary::start("wide-memory", &[&SETTINGS[..], &small].concat())?;
    let mut session = primary.session()?;
    let columns = || (0..WIDE_COLUMNS).map(|number| (number, KINDS[number % KINDS.len()]));
    let names: String = columns()
        .map(|(number, (kind, _))| format!(", c{number} {kind}"))
        .collect();
    let values: String = columns()
        .map(|(number, (_, value))| format!(", {}", value.replace('N', &number.to_string())))
        .collect();
    session.batch_execute(&format!(
        "CREATE TABLE cold (id int PRIMARY KEY{names}) USING howdah;
         SET howdah.debug_force_cold = on"
    ))?;
    for group in 0..WIDE_GROUPS {
        session.batch_execute(&format!(
            "INSERT INTO cold SELECT i{values}
             FROM generate_series({group} * {WIDE_ROWS_PER_GROUP} + 1, ({group} + 1) * {WIDE_ROWS_PER_GROUP}) i"
        ))?;
    }
    session.batch_execute(
        "CREATE TABLE heap (LIKE cold INCLUDING ALL) USING heap; INSERT INTO heap TABLE cold",
    )?;
    session.batch_execute("VACUUM (ANALYZE) cold, heap")?;
    session.batch_execute("CHECKPOINT")?;
    let groups = query(&mut session, "SELECT count(*) FROM howdah.row_groups")?;
    ensure!(groups == WIDE_GROUPS.to_string(), "{groups} row groups");
    let row_count = WIDE_GROUPS * WIDE_ROWS_PER_GROUP;
    let (mut kept, mut tables, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for table in ["heap", "cold"] {
        let mut reader = primary.session()?;
        let pid = query(&mut reader, "SELECT pg_backend_pid()")?;
        reader.batch_execute(&format!(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off;
             SET howdah.file_copies = always;
             DO $$ DECLARE r {table}; sum bigint := 0; BEGIN
                 FOR i IN 1..{WIDE_READS} LOOP
                     SELECT * INTO STRICT r FROM {table}
                         WHERE id = 1 + (hashint4(i) & 2147483647) % {row_count};
                     sum := sum # hashtextextended(r::text, i);
                 END LOOP;
                 PERFORM set_config('test.sum', sum::text, false);
             END $$"
        ))?;
        sums.push(query(&mut reader, "SHOW test.sum")?);
        kept.push(own_memory_bytes(&pid)?);
        tables.push(page_table_bytes(&pid)?);
        let mapped = mapped_file_count(&pid, &primary.data)?;
        ensure!(
            (mapped > 0) == (table == "cold"),
            "{mapped} files of {table} are mapped"
        );
    }
    println!("bytes of heap's session and ours: {kept:?}, of page tables {tables:?}");
    ensure!(sums[0] == sums[1], "other rows: {sums:?}");
    ensure!(
        kept[1] <= kept[0] + MOST_BEYOND_HEAP,
        "bytes of heap's session and ours after {WIDE_READS} rows: {kept:?}"
    );
    ensure!(
        tables[1] <= tables[0] + MOST_FOR_MAPS,
        "bytes of page tables of heap's session and ours: {tables:?}"
    );
    Ok(())
}
