//! Maintenance on the primary never removes rows that are visible to an old snapshot on a standby
//! that sends no feedback: replay waits for the snapshot, or cancels it with 40001, as it does for
//! heap.
//!
//! Heap twins are never vacuumed here, so only maintenance of the howdah table can conflict.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{
    cold_row_count, digest, equals_twin, indexes_are_sound, row_numbers_are_unique,
};
use howdah_server_tests::cluster::{Primary, Standby, query};
use howdah_server_tests::differential::Dice;
use howdah_server_tests::replay::{Replay, Sleeper, come_to_rest, set};
use howdah_server_tests::settings;
use postgres::Client;

const SETTINGS: [(&str, &str); 6] = [
    ("howdah.load_threshold", "0"),
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("hot_standby_feedback", "off"),
    ("max_standby_streaming_delay", "-1"),
    ("wal_receiver_status_interval", "1s"),
];

const MAKE: &str = "DROP TABLE IF EXISTS c, h;
    CREATE TABLE c (id int PRIMARY KEY, word text, n int) USING howdah;
    CREATE TABLE h (id int PRIMARY KEY, word text, n int) USING heap";

const LOAD: &str = "INSERT INTO @ SELECT i, 'word ' || i % 37, i FROM generate_series(1, 3000) i";

const FIVE_LOADS: &str = "INSERT INTO @ SELECT i, 'a', i FROM generate_series(1, 600) i;
    INSERT INTO @ SELECT i, 'b', i FROM generate_series(601, 1200) i;
    INSERT INTO @ SELECT i, 'c', i FROM generate_series(1201, 1800) i;
    INSERT INTO @ SELECT i, 'd', i FROM generate_series(1801, 2400) i;
    INSERT INTO @ SELECT i, 'e', i FROM generate_series(2401, 3000) i";

const FIVE_LOADS_APART: &str = "INSERT INTO @ SELECT i * 10, 'a', i FROM generate_series(1, 600) i;
    INSERT INTO @ SELECT i * 10, 'b', i FROM generate_series(601, 1200) i;
    INSERT INTO @ SELECT i * 10, 'c', i FROM generate_series(1201, 1800) i;
    INSERT INTO @ SELECT i * 10, 'd', i FROM generate_series(1801, 2400) i;
    INSERT INTO @ SELECT i * 10, 'e', i FROM generate_series(2401, 3000) i";

/// Follows all index entries twice: the first time it is learned which are dead.
const FOLLOW_ALL: &str = "SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET howdah.columnar_scan = off;
    SELECT count(n) FROM c WHERE id > 0;
    SELECT count(n) FROM c WHERE id > 0;
    RESET enable_seqscan;
    RESET enable_bitmapscan;
    RESET howdah.columnar_scan";

/// Of 3,000 rows that were merged, and as many new ones, all entries would be 9,000. Those that
/// share a posting list with the entry of the row's new place cannot be marked dead.
const ENTRIES_WERE_REPLACED: &str = "DO $$ BEGIN
    ASSERT (SELECT sum(coalesce(cardinality(i.tids), 1)) < 8600
            FROM generate_series(1, pg_relation_size('c_pkey') / 8192 - 1) p,
                 bt_page_stats('c_pkey', p::int) s, bt_page_items('c_pkey', p::int) i
            WHERE s.type IN ('l', 'r')), 'no index page was cleaned'; END $$";

const HOT: &str = "SET howdah.bulk_load = off;
    INSERT INTO @ SELECT i, 'word ' || i % 37, i FROM generate_series(1, 3000) i;
    RESET howdah.bulk_load";

const VACUUM: &str = "VACUUM (INDEX_CLEANUP on) c";
const COMPACT: &str = "CALL howdah.compact('c')";

/// A maintenance action. Statements about `@` are run on both twins.
struct Case {
    what: &'static str,
    /// Statements that run before the snapshots are taken.
    before: &'static [&'static str],
    after: &'static [&'static str],
    /// Whether the old snapshots have read the table.
    have_read: bool,
    /// Whether the action removes what they need.
    conflicts: bool,
}

const CASES: &[Case] = &[
    Case {
        what: "VACUUM of rows with marks",
        before: &[LOAD],
        after: &["DELETE FROM @ WHERE id <= 20", VACUUM],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "VACUUM of rows in bitmaps",
        before: &[LOAD],
        after: &["DELETE FROM @ WHERE id % 2 = 0", VACUUM],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "VACUUM of updated rows",
        before: &[LOAD],
        after: &["UPDATE @ SET n = -n WHERE id % 7 = 0", VACUUM],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "VACUUM by its own choice",
        before: &[LOAD],
        after: &["DELETE FROM @ WHERE id <= 1000", "VACUUM c"],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "bits set in a bitmap that is there",
        before: &[LOAD, "DELETE FROM @ WHERE id % 2 = 0", VACUUM],
        after: &["DELETE FROM @ WHERE id IN (1, 3, 5, 701)", VACUUM],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "VACUUM of a table that nothing is left of",
        before: &[LOAD],
        after: &["DELETE FROM @", VACUUM, "VACUUM c"],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "merges, and VACUUM of the gaps they leave",
        before: &[FIVE_LOADS],
        after: &[COMPACT, VACUUM],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "index pages cleaned of entries that lead to gaps",
        before: &[FIVE_LOADS_APART],
        after: &[
            COMPACT,
            "VACUUM (INDEX_CLEANUP off) c",
            FOLLOW_ALL,
            "SET howdah.bulk_load = off",
            "INSERT INTO @ SELECT i * 10 + 1, 'new', i FROM generate_series(1, 3000) i ORDER BY i % 97",
            "RESET howdah.bulk_load",
            ENTRIES_WERE_REPLACED,
        ],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "merges of groups with hidden rows",
        before: &[FIVE_LOADS, "DELETE FROM @ WHERE id % 3 = 0"],
        after: &["DELETE FROM @ WHERE id % 3 = 1", COMPACT, VACUUM, COMPACT],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "sweeps of folded marks",
        before: &[LOAD, "DELETE FROM @ WHERE id <= 20", VACUUM],
        after: &[COMPACT, VACUUM, "VACUUM (FREEZE) c", COMPACT],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "moves of hot rows",
        before: &[HOT],
        after: &[COMPACT, VACUUM],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "a VACUUM that finds nothing",
        before: &[
            LOAD,
            "DELETE FROM @ WHERE id <= 20",
            VACUUM,
            "VACUUM (FREEZE) c",
        ],
        after: &[VACUUM],
        have_read: true,
        conflicts: false,
    },
    Case {
        what: "changes that nothing has vacuumed",
        before: &[LOAD],
        after: &["DELETE FROM @ WHERE id <= 100"],
        have_read: true,
        conflicts: false,
    },
    Case {
        what: "CLUSTER of a table that was read",
        before: &[LOAD],
        after: &["DELETE FROM @ WHERE id <= 100", "CLUSTER c USING c_pkey"],
        have_read: true,
        conflicts: true,
    },
    Case {
        what: "CLUSTER of a table that was not read yet",
        before: &[LOAD],
        after: &["DELETE FROM @ WHERE id <= 100", "CLUSTER c USING c_pkey"],
        have_read: false,
        conflicts: true,
    },
    Case {
        what: "VACUUM FULL of a table that was not read yet",
        before: &[LOAD],
        after: &["UPDATE @ SET n = -n WHERE id <= 100", "VACUUM FULL c"],
        have_read: false,
        conflicts: true,
    },
];

/// Statements one by one, as some refuse to run in a transaction block; a line each where they are
/// several.
fn run_all(client: &mut Client, statements: &[&str]) -> anyhow::Result<()> {
    for statement in statements.iter().flat_map(|all| all.split(";\n")) {
        let twins = match statement.contains('@') {
            true => vec![statement.replace('@', "c"), statement.replace('@', "h")],
            false => vec![(*statement).to_owned()],
        };
        for one in twins {
            client
                .batch_execute(&one)
                .with_context(|| format!("in: {one}"))?;
        }
    }
    Ok(())
}

/// A session whose transaction has taken its snapshot.
fn with_snapshot(standby: &Standby, have_read: bool) -> anyhow::Result<Client> {
    let mut session = standby.session()?;
    // Replay may hold a lock on the table while it waits for another snapshot.
    session.batch_execute("SET lock_timeout = '300ms'")?;
    session.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM h")?;
    if have_read {
        session.batch_execute("SELECT count(*) FROM c")?;
    }
    Ok(session)
}

/// The rows of a table: read from end to end, by column, by index, and by bitmaps.
fn rows_of(session: &mut Client, table: &str) -> anyhow::Result<Vec<String>> {
    let sums = format!("SELECT count(*), sum(id), sum(n), min(word) FROM {table}");
    let ways = [
        "SET LOCAL howdah.columnar_scan = off".to_owned(),
        "SET LOCAL howdah.columnar_scan = on".to_owned(),
        "SET LOCAL howdah.columnar_scan = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off".to_owned(),
        "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = on".to_owned(),
    ];
    let mut seen = vec![digest(session, table)?];
    for way in &ways {
        session.batch_execute(way)?;
        seen.push(query(session, &format!("{sums} WHERE id > 0"))?);
    }
    session.batch_execute(
        "RESET howdah.columnar_scan; RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexscan",
    )?;
    Ok(seen)
}

fn run_case(
    case: &Case,
    primary: &Primary,
    patient: &Standby,
    strict: &Standby,
) -> anyhow::Result<()> {
    let mut client = primary.session()?;
    client.batch_execute(MAKE)?;
    run_all(&mut client, case.before)?;
    for standby in [patient, strict] {
        ensure!(come_to_rest(primary, standby)? == Replay::Done);
    }
    let mut old = with_snapshot(patient, case.have_read)?;
    let before = rows_of(&mut old, "h")?;
    if case.have_read {
        ensure!(rows_of(&mut old, "c")? == before, "before the action");
    }
    let sleeper = case
        .conflicts
        .then(|| with_snapshot(strict, case.have_read).map(Sleeper::of))
        .transpose()?;
    run_all(&mut client, case.after)?;

    let replay = come_to_rest(primary, patient)?;
    if case.have_read {
        ensure!(rows_of(&mut old, "c")? == before, "replay: {replay:?}");
    }
    let expected = match case.conflicts {
        true => Replay::Waiting,
        false => Replay::Done,
    };
    ensure!(replay == expected, "replay: {replay:?}");
    old.batch_execute("COMMIT")?;
    if let Some(sleeper) = sleeper {
        let code = sleeper.woken_with()?;
        ensure!(code == "40001", "woken with {code}");
    }
    for standby in [patient, strict] {
        ensure!(come_to_rest(primary, standby)? == Replay::Done);
        equals_twin(&mut standby.session()?, "c", "h")?;
    }
    Ok(())
}

#[test]
fn maintenance_conflicts_with_old_snapshots_of_standbys() -> anyhow::Result<()> {
    let primary = Primary::start("standby-conflicts", &SETTINGS)?;
    let mut client = primary.session()?;
    client.batch_execute("CREATE EXTENSION pageinspect")?;
    client.batch_execute(MAKE)?;
    let (patient, strict) = (primary.standby()?, primary.standby()?);
    set(&mut strict.session()?, "max_standby_streaming_delay", "0")?;
    let failures: Vec<String> = CASES
        .iter()
        .filter_map(|case| {
            let failure = run_case(case, &primary, &patient, &strict).err()?;
            Some(format!("{}: {failure:#}", case.what))
        })
        .collect();
    ensure!(failures.is_empty(), "{failures:#?}");
    Ok(())
}

/// An index page deletes the entries of rows that a reader has found dead. The horizon at the time
/// of the deletion may be too low to tell a standby which snapshots need them: a standby that
/// begins to send feedback moves it back.
#[test]
fn entries_found_dead_conflict_though_the_horizon_has_gone_back() -> anyhow::Result<()> {
    let primary = Primary::start("standby-entries", &SETTINGS)?;
    let mut client = primary.session()?;
    client.batch_execute(
        "CREATE EXTENSION pageinspect;
         CREATE TABLE c (id int PRIMARY KEY, word text, n int) USING howdah;
         INSERT INTO c SELECT i * 10, 'word', i FROM generate_series(1, 3000) i",
    )?;
    client.batch_execute("VACUUM c")?;
    let by_index =
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off";
    let question = "SELECT count(*), sum(n) FROM c WHERE id > 0";
    let cold_entries = "SELECT count(*), count(*) FILTER (WHERE dead)
         FROM generate_series(1, pg_relation_size('c_pkey') / 8192 - 1) p,
              bt_page_stats('c_pkey', p::int) s, bt_page_items('c_pkey', p::int) i
         WHERE s.type IN ('l', 'r') AND (i.htid::text::point)[0] >= 2147483648";
    for (hides, how) in [("DELETE FROM c WHERE id % 30 = 0", "bitmap"), ("", "marks")] {
        // Changes of one row at a time write marks; a statement that changes many writes a bitmap.
        let standby = primary.standby()?;
        standby.wait_for(&primary)?;
        let mut old = standby.session()?;
        old.batch_execute(by_index)?;
        old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
        let before = query(&mut old, question)?;
        match hides {
            "" => client.batch_execute(
                "DO $$ BEGIN FOR i IN 1 .. 3000 LOOP
                   IF i % 3 = 1 THEN DELETE FROM c WHERE id = i * 10; END IF;
                 END LOOP; END $$",
            )?,
            _ => client.batch_execute(hides)?,
        }
        client.batch_execute(by_index)?;
        client.batch_execute("SELECT pg_current_xact_id()")?;
        for _ in 0..3 {
            query(&mut client, question)?;
        }
        let counts = query(&mut client, cold_entries)?;
        ensure!(!counts.ends_with("|0"), "no entry is marked dead: {counts}");
        ensure!(query(&mut old, question)? == before);

        // The standby's snapshot holds the horizon back from now on.
        set(&mut standby.session()?, "hot_standby_feedback", "on")?;
        let horizon = "SELECT count(*) > 0 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL";
        let deadline = Instant::now() + Duration::from_secs(60);
        while query(&mut client, horizon)? != "t" {
            ensure!(Instant::now() < deadline, "no feedback");
            sleep(Duration::from_millis(50));
        }
        client.batch_execute("SET howdah.bulk_load = off")?;
        let digit = how.len();
        client.batch_execute(&format!(
            "INSERT INTO c SELECT i * 10 + {digit}, 'new', 0 FROM generate_series(1, 3000) i ORDER BY i % 97"
        ))?;
        let left = query(&mut client, cold_entries)?;
        ensure!(left != counts, "no index page was cleaned: {left}");
        let replay = come_to_rest(&primary, &standby)?;
        let now = query(&mut old, question)?;
        ensure!(
            now == before,
            "{now} instead of {before}, {how}; replay: {replay:?}"
        );
        ensure!(replay == Replay::Waiting, "{how}");
        old.batch_execute("COMMIT")?;
        ensure!(come_to_rest(&primary, &standby)? == Replay::Done);
        let (here, there) = (
            query(&mut client, question)?,
            query(&mut standby.session()?, question)?,
        );
        ensure!(
            here == there,
            "{here} on the primary, {there} on the standby"
        );
    }
    Ok(())
}

/// Background workers merge, sweep and vacuum at any time, without a statement.
#[test]
fn background_compaction_conflicts_with_old_snapshots_of_standbys() -> anyhow::Result<()> {
    let settings = [
        ("howdah.compaction", "on"),
        ("howdah.compact_after", "0"),
        ("howdah.compact_min_rows", "1"),
        ("howdah.compact_naptime", "200ms"),
    ];
    let primary = Primary::start("standby-workers", &[&SETTINGS[..], &settings].concat())?;
    let mut client = primary.session()?;
    client.batch_execute(MAKE)?;
    run_all(&mut client, &[FIVE_LOADS])?;
    let standby = primary.standby()?;
    standby.wait_for(&primary)?;
    let mut old = with_snapshot(&standby, true)?;
    let before = rows_of(&mut old, "h")?;
    run_all(
        &mut client,
        &[
            "DELETE FROM @ WHERE id % 3 = 0",
            "SET howdah.bulk_load = off",
            "INSERT INTO @ SELECT i, 'hot', i FROM generate_series(5001, 8000) i",
            "UPDATE @ SET n = n + 1 WHERE id % 2 = 0",
        ],
    )?;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let replay = come_to_rest(&primary, &standby)?;
        ensure!(rows_of(&mut old, "c")? == before, "replay: {replay:?}");
        if replay == Replay::Waiting {
            break;
        }
        ensure!(Instant::now() < deadline, "nothing has conflicted");
        sleep(Duration::from_millis(100));
    }
    old.batch_execute("COMMIT")?;
    ensure!(come_to_rest(&primary, &standby)? == Replay::Done);
    equals_twin(&mut standby.session()?, "c", "h")
}

/// Statements that were planned with a BRIN index before the first move would miss the rows that it
/// moves. On a standby, as on the primary, the move waits for statements that may have such a plan.
#[test]
fn the_first_move_beside_a_brin_index_waits_for_lockers_on_standbys() -> anyhow::Result<()> {
    let primary = Primary::start("standby-brin", &SETTINGS)?;
    let mut client = primary.session()?;
    let standby = primary.standby()?;
    for (index, expected) in [
        ("", Replay::Done),
        ("CREATE INDEX ON c USING brin (n)", Replay::Waiting),
    ] {
        client.batch_execute(MAKE)?;
        run_all(&mut client, &[HOT])?;
        client.batch_execute(index)?;
        ensure!(come_to_rest(&primary, &standby)? == Replay::Done);
        // This session holds a lock without a snapshot.
        let mut reader = standby.session()?;
        reader.batch_execute("BEGIN; SELECT count(*) FROM c")?;
        // Truncation would take a lock of its own.
        client.batch_execute("SET vacuum_truncate = off")?;
        client.batch_execute(COMPACT)?;
        ensure!(cold_row_count(&mut client, "c")? == 3000);
        let replay = come_to_rest(&primary, &standby)?;
        ensure!(replay == expected, "{index}: {replay:?}");
        ensure!(
            query(&mut reader, "SELECT count(*), sum(id) FROM c WHERE n > 0")? == "3000|4501500"
        );
        reader.batch_execute("COMMIT")?;
        ensure!(come_to_rest(&primary, &standby)? == Replay::Done);
        equals_twin(&mut standby.session()?, "c", "h")?;
    }
    Ok(())
}

/// Steps of the random walk; `@` is either twin, other steps are maintenance of `c` alone.
const STEPS: &[&str] = &[
    "INSERT INTO @ SELECT i, 'cold', i FROM generate_series(1, 4000) i ON CONFLICT (id) DO UPDATE SET word = @.word || '!'",
    "INSERT INTO @ SELECT (SELECT coalesce(max(id), 0) FROM @) + i, 'load', i FROM generate_series(1, 500) i",
    "SET howdah.bulk_load = off; INSERT INTO @ SELECT (SELECT coalesce(max(id), 0) FROM @) + i, 'hot', i FROM generate_series(1, 300) i; RESET howdah.bulk_load",
    "DELETE FROM @ WHERE id % 97 = 5",
    "DELETE FROM @ WHERE id % 3 = 1",
    "DELETE FROM @ WHERE id BETWEEN 100 AND 150",
    "UPDATE @ SET n = n + 1 WHERE id % 11 = 4",
    "UPDATE @ SET n = n + 1 WHERE id % 2 = 0",
    "UPDATE @ SET id = id + 100000 WHERE id BETWEEN 700 AND 720 AND NOT EXISTS (SELECT FROM @ t WHERE t.id = @.id + 100000)",
    "BEGIN; DELETE FROM @ WHERE id % 5 = 2; SAVEPOINT s; UPDATE @ SET n = 0; ROLLBACK TO s; UPDATE @ SET n = n + 2 WHERE id % 13 = 3; COMMIT",
    "BEGIN; DELETE FROM @; ROLLBACK",
    "SELECT count(n) FROM c WHERE id > 0",
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET howdah.columnar_scan = off; SELECT count(n) FROM c WHERE id > -10000; SELECT count(n) FROM c WHERE id > -10000; RESET ALL",
    "VACUUM c",
    "VACUUM (INDEX_CLEANUP on) c",
    "VACUUM (INDEX_CLEANUP on) c",
    "VACUUM (FREEZE) c",
    "CALL howdah.compact('c')",
    "CALL howdah.compact('c')",
    "CLUSTER c USING c_pkey",
    "VACUUM FULL c",
];

/// Whether an old snapshot reads the same rows of both twins. An error means that it was cancelled,
/// or that replay holds a lock.
fn sees_the_same(old: &mut Client) -> anyhow::Result<bool> {
    let Ok(heaps) = rows_of(old, "h") else {
        return Ok(false);
    };
    match rows_of(old, "c") {
        Ok(ours) => {
            ensure!(ours == heaps, "{ours:?}, on heap {heaps:?}");
            Ok(true)
        }
        Err(_) => Ok(false),
    }
}

/// On one standby replay waits for old snapshots, on the other it cancels them.
#[test]
fn old_snapshots_of_standbys_see_their_rows_through_random_steps() -> anyhow::Result<()> {
    let seed = settings::number("HOWDAH_STANDBY_SEED", 1);
    let rounds = settings::number("HOWDAH_STANDBY_ROUNDS", 15);
    let primary = Primary::start("standby-random", &SETTINGS)?;
    let mut client = primary.session()?;
    client.batch_execute(MAKE)?;
    run_all(&mut client, &[FIVE_LOADS])?;
    let standbys = [primary.standby()?, primary.standby()?];
    set(
        &mut standbys[1].session()?,
        "max_standby_streaming_delay",
        "0",
    )?;
    let mut dice = Dice::new(seed);
    let mut olds: [Vec<Client>; 2] = Default::default();
    let (mut waits, mut cancelled) = (0, 0);
    for round in 0..rounds {
        for (standby, olds) in standbys.iter().zip(&mut olds) {
            if olds.len() < 2 {
                olds.extend(with_snapshot(standby, dice.one_in(2)));
            }
        }
        let step = *dice.pick(STEPS);
        let told = || format!("seed {seed}, round {round}, after {step}");
        run_all(&mut client, &[step]).with_context(told)?;
        for (standby, olds) in standbys.iter().zip(&mut olds) {
            let replay = come_to_rest(&primary, standby).with_context(told)?;
            let mut kept = Vec::new();
            for mut old in olds.drain(..) {
                match sees_the_same(&mut old).with_context(told)? {
                    true => kept.push(old),
                    false => cancelled += 1,
                }
            }
            waits += u32::from(replay == Replay::Waiting);
            if replay == Replay::Waiting && dice.one_in(2) {
                kept.clear();
                ensure!(
                    come_to_rest(&primary, standby)? == Replay::Done,
                    "{}",
                    told()
                );
            }
            *olds = kept;
            if dice.one_in(4) {
                olds.clear();
            }
        }
    }
    olds.iter_mut().for_each(Vec::clear);
    for standby in &standbys {
        ensure!(come_to_rest(&primary, standby)? == Replay::Done);
        equals_twin(&mut standby.session()?, "c", "h")?;
    }
    ensure!(
        rounds < 30 || waits > 0 && cancelled > 0,
        "{waits} waits, {cancelled} cancelled"
    );
    equals_twin(&mut client, "c", "h")?;
    indexes_are_sound(&mut client, "c", "id")?;
    row_numbers_are_unique(&mut client, "c")
}
