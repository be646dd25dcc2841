//! `pg_rewind` and incremental backups copy the blocks that WAL names: what a server wrote of cold
//! rows after it was left behind is undone, and what changed since a backup is in the next one.

use howdah_cli::cluster::{Cluster, StopMode, run};
use howdah_cli::paths::Paths;
use howdah_cli::scratch::scratch_settings;
use howdah_server_tests::checks::{equals_twin, indexes_are_sound, row_numbers_are_unique};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::differential::Dice;
use postgres::Client;

const SETTINGS: [(&str, &str); 4] = [
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("summarize_wal", "on"),
    ("wal_keep_size", "1GB"),
];

/// Tables of howdah, each with a twin of heap.
const TABLES: [&str; 3] = ["a", "b", "c"];

fn make_tables(session: &mut Client) -> anyhow::Result<()> {
    for table in TABLES {
        session.batch_execute(&format!(
            "CREATE TABLE {table} (id int PRIMARY KEY, word text, list int[]) USING howdah;
             CREATE INDEX ON {table} (word);
             CREATE TABLE {table}_twin (LIKE {table}) USING heap;
             INSERT INTO {table} SELECT i, 'word ' || i % 371, ARRAY[i, NULL]
                 FROM generate_series(1, 30000) i;
             INSERT INTO {table}_twin TABLE {table}"
        ))?;
    }
    Ok(())
}

/// Some changes of a table and its twin, and some work of maintenance. Rows that are inserted are
/// numbered from `beyond`.
fn change(session: &mut Client, dice: &mut Dice, beyond: usize) -> anyhow::Result<()> {
    let table = *dice.pick(&TABLES);
    let changes = match dice.below(6) {
        0 => format!(
            "INSERT INTO @ SELECT i, 'late ' || i % 31, NULL FROM generate_series({beyond}, {beyond} + 20000) i"
        ),
        1 => format!(
            "INSERT INTO @ SELECT i, 'hot', NULL FROM generate_series({beyond}, {beyond} + 200) i"
        ),
        2 => format!(
            "UPDATE @ SET word = 'new {beyond}' WHERE id % {} = 1",
            dice.below(900) + 2
        ),
        3 => format!("DELETE FROM @ WHERE id % {} = 2", dice.below(50) + 3),
        4 => "TRUNCATE @".to_owned(),
        _ => format!(
            "UPDATE @ SET id = id + 900000000 WHERE id = {}",
            dice.below(30_000)
        ),
    };
    for name in [table.to_owned(), format!("{table}_twin")] {
        session.batch_execute(&changes.replace('@', &name))?;
    }
    let maintenance = match dice.below(7) {
        0 | 1 => format!("CALL howdah.compact('{table}')"),
        2 => format!("VACUUM (FREEZE, INDEX_CLEANUP on) {table}"),
        3 => format!("CLUSTER {table} USING {table}_pkey"),
        4 => "CHECKPOINT".to_owned(),
        _ => return Ok(()),
    };
    Ok(session.batch_execute(&maintenance)?)
}

fn changes(session: &mut Client, dice: &mut Dice, beyond: usize) -> anyhow::Result<()> {
    (0..12).try_for_each(|at| change(session, dice, beyond + at * 100_000))
}

fn check(session: &mut Client) -> anyhow::Result<Vec<String>> {
    let mut groups = Vec::new();
    for table in TABLES {
        equals_twin(session, table, &format!("{table}_twin"))?;
        row_numbers_are_unique(session, table)?;
        groups.push(query(
            session,
            &format!(
                "SELECT first_row, row_count, body_bytes FROM howdah.row_groups
                 WHERE relation = '{table}'::regclass ORDER BY 1"
            ),
        )?);
    }
    Ok(groups)
}

/// Further changes and maintenance leave everything whole.
fn is_whole(session: &mut Client, dice: &mut Dice) -> anyhow::Result<()> {
    check(session)?;
    changes(session, dice, 50_000_000)?;
    for table in TABLES {
        session.batch_execute(&format!("CALL howdah.compact('{table}')"))?;
        session.batch_execute(&format!("VACUUM {table}"))?;
        indexes_are_sound(session, table, "id")?;
    }
    check(session).map(drop)
}

#[test]
fn a_server_that_was_left_behind_is_rewound_and_follows() -> anyhow::Result<()> {
    for seed in 0..3 {
        let dice = &mut Dice::new(seed);
        let old = Primary::start("rewind", &SETTINGS)?;
        let mut session = old.session()?;
        make_tables(&mut session)?;
        changes(&mut session, dice, 1_000_000)?;
        let new = old.standby()?;
        changes(&mut session, dice, 10_000_000)?;
        new.wait_for(&old)?;
        new.promote()?;
        // Both go on, each by itself.
        changes(&mut session, dice, 20_000_000)?;
        drop(session);
        let mut successor = new.session()?;
        changes(&mut successor, dice, 30_000_000)?;
        successor.batch_execute("CHECKPOINT")?;
        old.stop(StopMode::Fast)?;

        let source = format!(
            "host={} port={} user={} dbname=postgres",
            new.socket.display(),
            new.port,
            new.superuser
        );
        let mut rewind = old.command("pg_rewind");
        rewind.args(["--no-sync", "--write-recovery-conf", "--target-pgdata"]);
        rewind.arg(&old.data).arg("--source-server").arg(source);
        run(&mut rewind)?;
        // Settings came from the other server, its port among them.
        let mut settings = scratch_settings(&Paths::from_environment()?);
        settings.extend(SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())));
        old.write_settings(&settings)?;
        old.start_again()?;
        changes(&mut successor, dice, 40_000_000)?;
        let target = query(&mut successor, "SELECT pg_current_wal_lsn()")?;
        let expected = check(&mut successor)?;
        let mut session = old.session()?;
        let replayed = format!(
            "SELECT pg_is_in_recovery() AND pg_last_wal_replay_lsn() >= '{target}'::pg_lsn"
        );
        while query(&mut session, &replayed)? != "t" {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(check(&mut session)?, expected, "seed {seed}");
        query(&mut session, "SELECT pg_promote(true, 60)")?;
        is_whole(&mut session, dice)?;
    }
    Ok(())
}

#[test]
fn incremental_backups_hold_what_changed_since() -> anyhow::Result<()> {
    let dice = &mut Dice::new(7);
    let primary = Primary::start("incremental", &SETTINGS)?;
    let mut session = primary.session()?;
    make_tables(&mut session)?;
    let directory = primary.data.with_file_name("backups");
    let backup = |name: &str, since: Option<&str>| -> anyhow::Result<()> {
        let mut backup = primary.command("pg_basebackup");
        backup.args(["--checkpoint=fast", "--no-sync", "--pgdata"]);
        backup.arg(directory.with_file_name(name));
        if let Some(since) = since {
            let manifest = directory.with_file_name(since).join("backup_manifest");
            backup.arg("--incremental").arg(manifest);
        }
        Ok(run(&mut backup)?)
    };
    backup("full", None)?;
    changes(&mut session, dice, 1_000_000)?;
    backup("first", Some("full"))?;
    changes(&mut session, dice, 10_000_000)?;
    let expected = check(&mut session)?;
    backup("second", Some("first"))?;

    let combined = Cluster {
        data: directory.with_file_name("combined"),
        log: directory.with_file_name("combined.log"),
        port: primary.port + 1,
        ..(*primary).clone()
    };
    let mut combine = primary.command("pg_combinebackup");
    combine.args(["full", "first", "second"].map(|name| directory.with_file_name(name)));
    combine.args(["--no-sync", "--output"]).arg(&combined.data);
    run(&mut combine)?;
    let mut settings = scratch_settings(&Paths::from_environment()?);
    settings.extend(SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    combined.write_settings(&settings)?;
    combined.start()?;
    let found = (|| {
        let mut session = combined.connect(howdah_server_tests::cluster::DATABASE)?;
        assert_eq!(check(&mut session)?, expected);
        is_whole(&mut session, dice)
    })();
    combined.stop(StopMode::Immediate)?;
    found
}
