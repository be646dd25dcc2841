//! One answer to "does this snapshot see this cold row", whichever way a statement comes to ask.
//!
//! Several sessions change, roll back, take savepoints and keep old snapshots, while rows are
//! moved, merged and folded: generated scripts, `HOWDAH_VISIBILITY_SEED` and
//! `HOWDAH_VISIBILITY_SCRIPTS` for a longer run. Between steps every session reads all cold rows by
//! TID, by index (one by one, and with their neighbours, both ways), by bitmap, by group in a
//! sequential and in a columnar scan, and has them counted by the directory and by `howdah.tables`.
//! All must agree.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::settings::number;
use postgres::Client;

const SETTINGS: [(&str, &str); 3] = [
    ("howdah.load_threshold", "0"),
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
];

const ROWS: u32 = 1_200;
const GROUPS: u32 = 4;

/// Cold blocks are those from here on.
const FIRST_COLD_BLOCK: u32 = 1 << 31;

/// Groups of different ages, some with rows that are younger than their group.
fn make(session: &mut Client) -> anyhow::Result<()> {
    session.batch_execute(
        "CREATE TABLE v (id int PRIMARY KEY, n int, pad text) USING howdah
             WITH (vacuum_truncate = off, toast.vacuum_truncate = off);
         CREATE INDEX v_n ON v (n)",
    )?;
    for group in 0..GROUPS {
        let (first, last) = (group * ROWS / GROUPS + 1, (group + 1) * ROWS / GROUPS);
        session.batch_execute(&format!(
            "INSERT INTO v SELECT i, i % 100, md5(i::text) FROM generate_series({first}, {last}) i"
        ))?;
    }
    Ok(())
}

/// Numbers that look random; the same for the same seed.
struct Dice(u64);

impl Dice {
    fn of(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % bound
    }
}

/// A session, and what it has open.
struct Actor {
    client: Client,
    isolation: &'static str,
    is_open: bool,
    savepoints: u32,
}

impl Actor {
    fn new(mut client: Client, isolation: &'static str) -> anyhow::Result<Actor> {
        client.batch_execute("SET lock_timeout = '40ms'")?;
        Ok(Actor {
            client,
            isolation,
            is_open: false,
            savepoints: 0,
        })
    }

    /// Runs a statement. A lock that is not to be had, a serialization failure and a key that is
    /// there already end the transaction; any other error is a fault.
    fn run(&mut self, sql: &str) -> anyhow::Result<()> {
        let Err(error) = self.client.batch_execute(sql) else {
            return Ok(());
        };
        let code = error.code().map_or("", |code| code.code());
        ensure!(
            ["55P03", "40001", "40P01", "23505"].contains(&code),
            "{error:?} in: {sql}"
        );
        self.end("ROLLBACK")
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        if !self.is_open {
            self.is_open = true;
            let isolation = self.isolation;
            // The snapshot is taken at once, where the transaction keeps one.
            let sql = format!("BEGIN ISOLATION LEVEL {isolation}; SELECT FROM v WHERE id = 0");
            self.client.batch_execute(&sql)?;
        }
        Ok(())
    }

    fn end(&mut self, how: &str) -> anyhow::Result<()> {
        (self.is_open, self.savepoints) = (false, 0);
        match self.client.batch_execute(how) {
            Err(error) if error.code().is_some_and(|code| code.code() == "40001") => {
                Ok(self.client.batch_execute("ROLLBACK")?)
            }
            result => Ok(result?),
        }
    }

    /// A change of some rows, one by one or many at a time, that this session chooses.
    fn change(&mut self, dice: &mut Dice) -> anyhow::Result<()> {
        let first = dice.below(ROWS) + 1;
        let last = first + [0, 0, 3, 40, 400][dice.below(5) as usize];
        let every = dice.below(5) + 1;
        let rows = format!("id BETWEEN {first} AND {last} AND id % {every} = 0");
        self.run(&match dice.below(6) {
            0 => format!("DELETE FROM v WHERE {rows} AND id % 2 = 0"),
            1 => format!("UPDATE v SET id = id + {ROWS} WHERE {rows} AND id <= {ROWS}"),
            2 => format!("SELECT FROM v WHERE {rows} FOR KEY SHARE SKIP LOCKED"),
            3 => format!(
                "INSERT INTO v SELECT i, i % 100, 'again'
                 FROM generate_series({first}, {last}, {every}) i ON CONFLICT DO NOTHING"
            ),
            _ => format!("UPDATE v SET n = n + 1 WHERE {rows}"),
        })
    }

    fn act(&mut self, dice: &mut Dice) -> anyhow::Result<()> {
        match dice.below(12) {
            0 => self.end("COMMIT"),
            1 => self.end("ROLLBACK"),
            2 | 3 if self.is_open => {
                self.savepoints += 1;
                let sql = format!("SAVEPOINT s{}", self.savepoints);
                self.run(&sql)
            }
            4 if self.savepoints > 0 => {
                let sql = format!("ROLLBACK TO s{}", self.savepoints);
                self.run(&sql)
            }
            5 if self.savepoints > 0 => {
                let sql = format!("RELEASE s{}", self.savepoints);
                self.savepoints -= 1;
                self.run(&sql)
            }
            6 | 7 => self.begin(),
            8 if !self.is_open => self.change(dice),
            _ => {
                self.begin()?;
                self.change(dice)
            }
        }
    }
}

/// Maintenance, which gives way to sessions at work. While a transaction is open, it would wait
/// seconds for the lock under which it gives back pages, and go without it.
fn maintain(session: &mut Client, dice: &mut Dice, are_open: bool) -> anyhow::Result<()> {
    let truncate = if are_open { "off" } else { "on" };
    let sql = match dice.below(4) {
        0 => format!("VACUUM (TRUNCATE {truncate}) v"),
        1 => format!("VACUUM (ANALYZE, TRUNCATE {truncate}) v"),
        _ => "CALL howdah.compact('v')".to_owned(),
    };
    match session.batch_execute(&sql) {
        Err(error) if error.code().is_some_and(|code| code.code() == "55P03") => Ok(()),
        result => Ok(result.context(sql)?),
    }
}

/// Rows by TID, as `id n`.
type Rows = BTreeMap<String, String>;

/// Every way to read the table, as settings and a query.
const WAYS: [(&str, &str, &str); 7] = [
    (
        "sequential scan",
        "enable_seqscan",
        "SELECT ctid, id || ' ' || n FROM v",
    ),
    (
        "columnar scan",
        "enable_seqscan = on; SET howdah.columnar_scan",
        "SELECT ctid, id || ' ' || n FROM v WHERE n > -1",
    ),
    (
        "index, one by one",
        "enable_indexscan",
        "SELECT v.ctid, v.id || ' ' || v.n
         FROM generate_series(1, 2400) i CROSS JOIN LATERAL
              (SELECT ctid, id, n FROM v WHERE id = (i * 7919) % 2400 + 1 OFFSET 0) v",
    ),
    (
        "index, with neighbours",
        "enable_indexscan",
        "SELECT ctid, id || ' ' || n FROM v WHERE id BETWEEN 1 AND 9999 ORDER BY id",
    ),
    (
        "index, backwards",
        "enable_indexscan",
        "SELECT ctid, id || ' ' || n FROM v WHERE id BETWEEN 1 AND 9999 ORDER BY id DESC",
    ),
    (
        "another index",
        "enable_indexscan",
        "SELECT ctid, id || ' ' || n FROM v WHERE n BETWEEN -1 AND 9999 ORDER BY n",
    ),
    (
        "bitmap",
        "enable_bitmapscan",
        "SELECT ctid, id || ' ' || n FROM v WHERE id BETWEEN 1 AND 9999",
    ),
];

const ALL_OFF: &str = "SET enable_seqscan = off; SET enable_indexscan = off;
    SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET enable_tidscan = off;
    SET howdah.columnar_scan = off; SET howdah.vectorized = off; SET enable_memoize = off;
    SET enable_nestloop = on; SET enable_sort = on";

fn is_cold(tid: &str) -> bool {
    let block = tid.trim_start_matches('(').split(',').next();
    block
        .and_then(|block| block.parse::<u32>().ok())
        .is_some_and(|block| block >= FIRST_COLD_BLOCK)
}

/// The cold rows that a query returns.
fn cold_rows(client: &mut Client, sql: &str) -> anyhow::Result<Rows> {
    let text = query(client, sql)?;
    let lines = text.lines().filter_map(|line| line.split_once('|'));
    let mut rows = Rows::new();
    for (tid, row) in lines.filter(|(tid, _)| is_cold(tid)) {
        let twice = rows.insert(tid.to_owned(), row.to_owned());
        ensure!(twice.is_none(), "{tid} twice in: {sql}");
    }
    Ok(rows)
}

/// Compares all ways to read; `tids` are the places at which cold rows were ever seen, and gets
/// those that are seen now.
fn compare(actor: &mut Actor, tids: &mut BTreeSet<String>) -> anyhow::Result<usize> {
    let client = &mut actor.client;
    let mut expected: Option<Rows> = None;
    for (name, setting, sql) in WAYS {
        client.batch_execute(ALL_OFF)?;
        client.batch_execute(&format!("SET {setting} = on"))?;
        let rows = cold_rows(client, sql)?;
        match &expected {
            None => expected = Some(rows),
            Some(expected) => same(name, &rows, expected)?,
        }
    }
    let expected = expected.context("no way to read")?;
    tids.extend(expected.keys().cloned());
    let all: Vec<String> = tids.iter().map(|tid| format!("\"{tid}\"")).collect();
    let by_tid = format!(
        "SELECT ctid, id || ' ' || n FROM v WHERE ctid = ANY ('{{{}}}'::tid[])",
        all.join(",")
    );
    client.batch_execute(ALL_OFF)?;
    client.batch_execute("SET enable_tidscan = on")?;
    same("TID", &cold_rows(client, &by_tid)?, &expected)?;
    // Counted from the directory, where statistics suffice; all rows, hot ones too.
    client.batch_execute("SET enable_seqscan = on")?;
    let slow = query(client, "SELECT count(*) FROM v")?;
    client.batch_execute("SET howdah.columnar_scan = on; SET howdah.vectorized = on")?;
    let counted = query(client, "SELECT count(*) FROM v")?;
    ensure!(counted == slow, "count(*) is {counted}, not {slow}");
    let told = query(
        client,
        "SELECT cold_rows FROM howdah.tables WHERE relation = 'v'::regclass",
    )?;
    ensure!(
        told == expected.len().to_string(),
        "howdah.tables has {told} cold rows, scans find {}",
        expected.len()
    );
    Ok(expected.len())
}

fn is_serialization_failure(error: &anyhow::Error) -> bool {
    let server = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<postgres::Error>());
    server
        .and_then(postgres::Error::code)
        .is_some_and(|code| code.code() == "40001")
}

fn same(name: &str, found: &Rows, expected: &Rows) -> anyhow::Result<()> {
    let missing: Vec<_> = expected
        .iter()
        .filter(|(tid, row)| found.get(*tid) != Some(*row))
        .collect();
    let extra: Vec<_> = found
        .iter()
        .filter(|(tid, row)| expected.get(*tid) != Some(*row))
        .collect();
    ensure!(
        missing.is_empty() && extra.is_empty(),
        "{name}: missing {missing:?}, too many {extra:?}"
    );
    Ok(())
}

/// Plays the script of a seed; returns how many cold rows were compared.
fn play(primary: &Primary, seed: u64) -> anyhow::Result<usize> {
    let mut dice = Dice::of(seed);
    let mut janitor = primary.session()?;
    janitor.batch_execute("DROP TABLE IF EXISTS v; SET lock_timeout = '40ms'")?;
    make(&mut janitor)?;
    let levels = [
        "READ COMMITTED",
        "REPEATABLE READ",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ];
    let mut actors = levels
        .into_iter()
        .map(|level| Actor::new(primary.session()?, level))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (mut tids, mut compared) = (BTreeSet::new(), 0);
    for step in 0..36 {
        for _ in 0..3 {
            let nth = dice.below(actors.len() as u32 + 1) as usize;
            let are_open = actors.iter().any(|actor| actor.is_open);
            match actors.get_mut(nth) {
                Some(actor) => actor.act(&mut dice),
                None => maintain(&mut janitor, &mut dice, are_open),
            }
            .with_context(|| format!("seed {seed}, step {step}"))?;
        }
        let nth = dice.below(actors.len() as u32) as usize;
        let actor = &mut actors[nth];
        let level = actor.isolation;
        match compare(actor, &mut tids) {
            Ok(rows) => compared += rows,
            Err(error) if is_serialization_failure(&error) => actor.end("ROLLBACK")?,
            Err(error) => {
                let place = format!("seed {seed}, step {step}, session {nth}, {level}");
                return Err(error.context(place));
            }
        }
    }
    Ok(compared)
}

#[test]
fn all_ways_to_read_agree_on_every_cold_row() -> anyhow::Result<()> {
    let primary = Primary::start("visibility", &SETTINGS)?;
    let first = number("HOWDAH_VISIBILITY_SEED", 1);
    let scripts = number("HOWDAH_VISIBILITY_SCRIPTS", 2);
    for seed in first..first + scripts {
        let compared = play(&primary, seed)?;
        ensure!(compared > 5_000, "seed {seed}: only {compared} cold rows");
    }
    Ok(())
}

/// A transaction changes a row that was moved after it took its snapshot: it does not see the row
/// at its old place any more, and `howdah.tables` does not count it there.
#[test]
fn cold_rows_that_were_changed_where_they_were_moved_to_are_not_counted() -> anyhow::Result<()> {
    let primary = Primary::start("visibility-moved", &SETTINGS)?;
    let mut mover = primary.session()?;
    make(&mut mover)?;
    let mut old = primary.session()?;
    let counts = |session: &mut Client| {
        let scanned = "SELECT count(*) FROM v WHERE ctid >= '(2147483648,0)'";
        let told = "SELECT cold_rows FROM howdah.tables WHERE relation = 'v'::regclass";
        anyhow::Ok((query(session, scanned)?, query(session, told)?))
    };
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    let all = ROWS.to_string();
    assert_eq!(counts(&mut old)?, (all.clone(), all.clone()));
    let groups = "SELECT count(*) FROM howdah.row_groups WHERE relation = 'v'::regclass";
    assert_eq!(query(&mut mover, groups)?, GROUPS.to_string());
    mover.batch_execute("CALL howdah.compact('v')")?;
    ensure!(
        query(&mut mover, groups)? != GROUPS.to_string(),
        "not merged"
    );
    assert_eq!(query(&mut old, groups)?, GROUPS.to_string());
    old.batch_execute("UPDATE v SET n = 0 WHERE id = 7")?;
    old.batch_execute("DELETE FROM v WHERE id = 8")?;
    let left = (ROWS - 2).to_string();
    assert_eq!(counts(&mut old)?, (left.clone(), left));
    assert_eq!(counts(&mut mover)?, (all.clone(), all.clone()));
    old.batch_execute("ROLLBACK")?;
    assert_eq!(counts(&mut old)?, (all.clone(), all));
    Ok(())
}
