//! Pages of a cold row that are not in memory are requested in few rounds: all of a round at once,
//! before the first of them is waited for.
//!
//! ```text
//!   the row group's footer, if the session does not know it
//!   values, codes, offsets, and where strings probably lie
//!   strings and words to which these lead
//!   words of a dictionary that has offsets of its own
//! ```

use std::sync::{Arc, Mutex};

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{DATABASE, Primary, query};
use postgres::{Client, NoTls};

const SETTINGS: [(&str, &str); 3] = [
    ("howdah.load_threshold", "0"),
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
];

/// Columns each value of which lies on a page of its own column: numbers, words of a dictionary
/// that is longer than a page, strings found by offsets, frames, and exceptions.
const MAKE: &str =
    "CREATE TABLE t (id int PRIMARY KEY, number bigint, word text, noise text, document jsonb,
        seldom int, few numeric) USING howdah";
const GROUP_COUNT: u32 = 3;
const ROWS_PER_GROUP: u32 = 60_000;
/// Which rows of a group are read: the first one while the session does not know the group, the
/// others when it does. Their values lie on different pages. A session whose reads are quick, as
/// here, stops requesting after nine rounds.
const PLACES: [u32; 3] = [12_345, 50_001, 31_007];

/// Columns, and the most rounds for a row of them in a new group; in a known one, one less.
const MOST_ROUNDS: [(&str, usize); 3] = [
    ("number, seldom, few", 2),
    // What decision 24 says of rows with strings.
    ("number, noise, document, few", 3),
    ("t.*", 4),
];

/// Adds the rows of a group to the table.
fn add(group: u32) -> String {
    let (first, last) = (group * ROWS_PER_GROUP + 1, (group + 1) * ROWS_PER_GROUP);
    format!(
        "INSERT INTO t SELECT i, hashint8extended(i, 1), md5((i % 2000)::text), repeat(md5(i::text), 1 + i % 3),
             jsonb_build_object('id', i, 'name', md5((i % 100)::text), 'rest', md5((i * 7)::text)),
             CASE WHEN hashint4(i) % 40 = 0 THEN hashint4(i) ELSE hashint4(i) & 15 END, i / 100.0
         FROM generate_series({first}, {last}) i"
    )
}

type Messages = Arc<Mutex<Vec<String>>>;

/// A new session with an open transaction's worth of catalogs read, and what the server tells it.
fn session(primary: &Primary) -> anyhow::Result<(Client, Messages)> {
    let messages = Messages::default();
    let told = Arc::clone(&messages);
    let mut config = primary.config(DATABASE);
    config.notice_callback(move |notice| {
        if let Ok(mut told) = told.lock() {
            told.push(notice.message().to_owned());
        }
    });
    let mut session = config.connect(NoTls)?;
    session.batch_execute(
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off",
    )?;
    query(&mut session, "SELECT * FROM t WHERE id = -1")?;
    Ok((session, messages))
}

/// The pages that one request after the other was for.
fn requested(messages: &Messages) -> anyhow::Result<Vec<u32>> {
    let messages = messages.lock().ok().context("a callback has failed")?;
    let counts = messages.iter().filter_map(|message| {
        let count = message.strip_prefix("requested ")?;
        Some(count.strip_suffix(" pages of cold rows")?.parse())
    });
    Ok(counts.collect::<Result<_, _>>()?)
}

fn clear(messages: &Messages) -> anyhow::Result<()> {
    messages
        .lock()
        .ok()
        .context("a callback has failed")?
        .clear();
    Ok(())
}

#[test]
fn all_pages_of_a_row_are_requested_before_any_is_waited_for() -> anyhow::Result<()> {
    let primary = Primary::start("requested-pages", &SETTINGS)?;
    let mut maker = primary.session()?;
    maker.batch_execute("CREATE EXTENSION pg_buffercache")?;
    maker.batch_execute(MAKE)?;
    for group in 0..GROUP_COUNT {
        maker.batch_execute(&add(group))?;
    }
    maker.batch_execute("VACUUM (FREEZE, ANALYZE) t")?;
    let groups = query(&mut maker, "SELECT count(*) FROM howdah.row_groups")?;
    ensure!(groups == GROUP_COUNT.to_string(), "{groups} row groups");
    for (columns, most) in MOST_ROUNDS {
        for group in 0..GROUP_COUNT {
            reads_in_rounds(&primary, columns, most, group)
                .with_context(|| format!("{columns} of row group {group}"))?;
        }
    }
    Ok(())
}

/// A new session reads rows of a group, of which nothing is in shared buffers at first.
fn reads_in_rounds(
    primary: &Primary,
    columns: &str,
    most_rounds: usize,
    group: u32,
) -> anyhow::Result<()> {
    let (mut fresh, messages) = session(primary)?;
    query(
        &mut fresh,
        "SELECT pg_buffercache_evict_relation(reltoastrelid) FROM pg_class WHERE relname = 't'",
    )?;
    let rows = PLACES.map(|place| {
        let id = group * ROWS_PER_GROUP + place;
        format!("SELECT ROW({columns})::text FROM t WHERE id = {id}")
    });
    let mut told = Vec::new();
    fresh.batch_execute("SET client_min_messages = debug2")?;
    for (number, row) in rows.iter().enumerate() {
        clear(&messages)?;
        told.push(query(&mut fresh, row)?);
        let requested = requested(&messages)?;
        println!("{requested:?} pages requested for {row}");
        let (most, fewest_pages) = match number {
            0 => (most_rounds, most_rounds),
            _ => (most_rounds - 1, 1),
        };
        ensure!(requested.len() <= most, "{requested:?} for {row}");
        let pages = requested.iter().sum::<u32>() as usize;
        ensure!(pages >= fewest_pages, "{requested:?} for {row}");
    }
    // In memory now, but for pages that were requested because of a wrong guess, and not read. Not
    // tried before: after rows that read nothing no page is requested.
    clear(&messages)?;
    query(&mut fresh, &rows[PLACES.len() - 1])?;
    let (again, has_strings) = (requested(&messages)?, most_rounds > 2);
    ensure!(
        again.len() <= usize::from(has_strings),
        "requested again: {again:?}"
    );
    fresh.batch_execute("SET enable_indexscan = off; SET enable_seqscan = on")?;
    for (row, told) in rows.iter().zip(told) {
        ensure!(query(&mut fresh, row)? == told, "{told} for {row}");
    }
    Ok(())
}
