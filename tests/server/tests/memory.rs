//! How much memory a session keeps.

use std::fs;

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use postgres::Client;

const SETTINGS: [(&str, &str); 2] = [("howdah.compaction", "off"), ("autovacuum", "off")];
const GROUP_COUNT: u64 = 60;
const ROWS_PER_GROUP: u64 = 2000;
/// Approximate encoded size: 16 random words of 32 hexadecimal digits a row.
const GROUP_BYTES: u64 = ROWS_PER_GROUP * 16 * 17;

/// Anonymous memory of the session's process, in bytes.
fn own_memory(session: &mut Client) -> anyhow::Result<u64> {
    let pid = query(session, "SELECT pg_backend_pid()")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .context("the kernel does not tell RssAnon")?;
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>()?;
    Ok(kilobytes * 1024)
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
    let usual = growth_by_reads(&primary, "4MB")?;
    let small = growth_by_reads(&primary, "1MB")?;
    let large = growth_by_reads(&primary, "1GB")?;
    println!(
        "{small} bytes with a cache of 1 MB, {usual} with one of 4 MB, {large} with one of 1 GB"
    );
    ensure!(usual <= 8 << 20, "{usual} bytes by default");
    ensure!(small <= 4 << 20, "{small} bytes with a small cache");
    ensure!(
        large < GROUP_COUNT * GROUP_BYTES / 2,
        "{large} bytes: whole columns were kept"
    );
    Ok(())
}
