//! Pages of a cold row that are not in memory are requested all at once, before the first of them
//! is waited for.

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
const MAKE: &str = "CREATE TABLE t (id int PRIMARY KEY, number bigint, word text, noise text, document jsonb,
        seldom int, few numeric) USING howdah;
    INSERT INTO t SELECT i, hashint8extended(i, 1), md5((i % 2000)::text), repeat(md5(i::text), 1 + i % 3),
        jsonb_build_object('id', i, 'name', md5((i % 100)::text), 'rest', md5((i * 7)::text)),
        CASE WHEN hashint4(i) % 40 = 0 THEN hashint4(i) ELSE hashint4(i) & 15 END, i / 100.0
    FROM generate_series(1, 60000) i";

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

#[test]
fn all_pages_of_a_row_are_requested_before_any_is_waited_for() -> anyhow::Result<()> {
    let primary = Primary::start("requested-pages", &SETTINGS)?;
    let mut maker = primary.session()?;
    maker.batch_execute(MAKE)?;
    maker.batch_execute("VACUUM (FREEZE, ANALYZE) t")?;
    let row = |id: u32| format!("SELECT t::text FROM t WHERE id = {id}");
    let expected = [12_345, 50_001].map(|id| query(&mut maker, &row(id)));
    // Recovery has nothing to read then.
    maker.batch_execute("CHECKPOINT")?;
    drop(maker);
    primary.crash_and_recover()?;
    let (mut fresh, messages) = session(&primary)?;
    fresh.batch_execute("SET client_min_messages = debug2")?;
    for (id, expected) in [12_345, 50_001].into_iter().zip(expected) {
        messages
            .lock()
            .ok()
            .context("a callback has failed")?
            .clear();
        let plan = query(
            &mut fresh,
            &format!(
                "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) {}",
                row(id)
            ),
        )?;
        let requested = requested(&messages)?;
        println!("{requested:?} pages requested for row {id}\n{plan}");
        // One request for all columns in each round, of which the first names most.
        ensure!(requested.iter().sum::<u32>() >= 7, "{requested:?}");
        ensure!(requested.len() <= 5, "{requested:?}");
        ensure!(query(&mut fresh, &row(id))? == expected?);
        // In memory now.
        messages
            .lock()
            .ok()
            .context("a callback has failed")?
            .clear();
        query(&mut fresh, &row(id))?;
        ensure!(self::requested(&messages)?.is_empty(), "requested again");
    }
    Ok(())
}
