//! Repeated changes of a table do not make it grow: compaction and VACUUM free the space that dead
//! rows, marks, bitmaps, forwards and index entries took. And no number of rows exhausts the
//! server's lock table. `HOWDAH_UPKEEP_ROUNDS` and `HOWDAH_UPKEEP_LOCKED_ROWS` make longer runs.

use anyhow::{Context as _, ensure};
use howdah_server_tests::checks::{equals_twin, indexes_are_sound, row_numbers_are_unique};
use howdah_server_tests::cluster::{Primary, query};
use howdah_server_tests::settings::number;
use postgres::Client;

fn start(name: &str) -> anyhow::Result<Primary> {
    let settings = [
        ("howdah.compaction", "off"),
        ("howdah.load_threshold", "1000"),
        ("autovacuum", "off"),
    ];
    Primary::start(name, &settings)
}

const ROWS: u32 = 60_000;

/// How often every row is updated.
fn rounds() -> u64 {
    number("HOWDAH_UPKEEP_ROUNDS", 14)
}

/// Two tables with the same rows; those of `c` are cold, in row groups of about a megabyte.
fn make_tables(client: &mut Client, c: &str, h: &str) -> anyhow::Result<()> {
    for (table, method) in [(c, "howdah"), (h, "heap")] {
        client.batch_execute(&format!(
            "CREATE TABLE {table} (id int PRIMARY KEY, n int, word text, doc text) USING {method};
             CREATE INDEX ON {table} (word);
             INSERT INTO {table} SELECT i, 0, 'word ' || i % 97, md5(i::text) || md5((-i)::text) || md5((7 * i)::text) || left('..', i % 3)
             FROM generate_series(1, {ROWS}) i"
        ))?;
    }
    client.batch_execute(&format!("CALL howdah.compact('{c}')"))?;
    client.batch_execute(&format!("VACUUM {c}"))?;
    Ok(())
}

fn size(client: &mut Client, table: &str) -> anyhow::Result<u64> {
    Ok(query(client, &format!("SELECT pg_total_relation_size('{table}')"))?.parse()?)
}

fn parts(client: &mut Client) -> anyhow::Result<String> {
    query(
        client,
        "SELECT pg_relation_size('c') AS hot, pg_relation_size(reltoastrelid) AS cold,
                pg_indexes_size('c') AS indexes, pg_indexes_size(reltoastrelid) AS cold_index
         FROM pg_class WHERE oid = 'c'::regclass",
    )
}

fn check(client: &mut Client) -> anyhow::Result<()> {
    equals_twin(client, "c", "h")?;
    indexes_are_sound(client, "c", "id")?;
    row_numbers_are_unique(client, "c")
}

/// A quarter of the rows at a time, as compaction and VACUUM keep up.
const SLICES: u32 = 4;

#[test]
fn updating_every_row_many_times_leaves_the_table_at_most_half_as_large_again() -> anyhow::Result<()>
{
    let primary = start("upkeep-slices")?;
    let mut client = primary.session()?;
    client.batch_execute("SET howdah.row_group_bytes = '1MB'")?;
    make_tables(&mut client, "c", "h")?;
    let fresh = size(&mut client, "c")?;
    let slice = ROWS / SLICES;
    for round in 1..=rounds() {
        for first in (0..SLICES).map(|nth| nth * slice) {
            let update = format!("SET n = n + 1 WHERE id > {first} AND id <= {first} + {slice}");
            client.batch_execute(&format!("UPDATE c {update}"))?;
            client.batch_execute("CALL howdah.compact('c')")?;
            client.batch_execute("VACUUM c")?;
        }
        client.batch_execute("UPDATE h SET n = n + 1")?;
        client.batch_execute("VACUUM h")?;
        if round % 10 == 0 {
            check(&mut client).with_context(|| format!("round {round}"))?;
        }
    }
    let (end, parts) = (size(&mut client, "c")?, parts(&mut client)?);
    ensure!(
        end * 2 <= fresh * 3,
        "{fresh} bytes at first, {end} at the end: {parts}"
    );
    Ok(())
}

#[test]
fn updating_every_row_at_once_again_and_again_takes_no_more_space_than_at_first()
-> anyhow::Result<()> {
    let primary = start("upkeep-whole")?;
    let mut client = primary.session()?;
    make_tables(&mut client, "c", "h")?;
    let mut largest_at_first = 0;
    for round in 1..=rounds() {
        for table in ["c", "h"] {
            client.batch_execute(&format!("UPDATE {table} SET n = n + 1"))?;
        }
        client.batch_execute("CALL howdah.compact('c')")?;
        client.batch_execute("VACUUM c")?;
        client.batch_execute("VACUUM h")?;
        // Pages that are being written at that moment are not moved, and make the next groups
        // smaller: sizes vary.
        if round <= 10 {
            largest_at_first = largest_at_first.max(size(&mut client, "c")?);
        }
        if round % 10 == 0 {
            check(&mut client).with_context(|| format!("round {round}"))?;
        }
    }
    let (end, heap, parts) = (
        size(&mut client, "c")?,
        size(&mut client, "h")?,
        parts(&mut client)?,
    );
    ensure!(
        end * 10 <= largest_at_first * 12,
        "at most {largest_at_first} bytes after ten rounds, {end} at the end: {parts}"
    );
    println!(
        "at most {largest_at_first} bytes after ten rounds, {end} at the end, heap has {heap}: {parts}"
    );
    // Old and new groups exist at the same time for a while, and their space is not returned.
    ensure!(end * 4 <= heap * 5, "{end} bytes, heap has {heap}: {parts}");
    Ok(())
}

#[test]
fn a_transaction_changes_or_locks_any_number_of_cold_rows_in_any_order() -> anyhow::Result<()> {
    let rows = number("HOWDAH_UPKEEP_LOCKED_ROWS", 500_000);
    let primary = start("upkeep-locks")?;
    let mut client = primary.session()?;
    client.batch_execute(&format!(
        "SET howdah.debug_force_cold = on;
         SET howdah.row_group_bytes = '1MB';
         CREATE TABLE c (id int PRIMARY KEY, n int, pad text) USING howdah;
         INSERT INTO c SELECT i, 0, repeat('x', 40) FROM generate_series(1, {rows}) i;
         RESET howdah.debug_force_cold;
         CREATE TABLE shuffled USING heap AS SELECT id FROM c ORDER BY hashint4(id);
         ANALYZE shuffled"
    ))?;
    ensure!(query(&mut client, "SHOW max_locks_per_transaction")? == "64");
    // So many that both limits are passed: that of row locks in a group, and in all groups.
    let groups = "SELECT count(*) FROM howdah.row_groups WHERE relation = 'c'::regclass";
    let groups: u32 = query(&mut client, groups)?.parse()?;
    ensure!(groups >= 8, "{groups} row groups");
    let in_table_order = "SELECT count(*) FROM (SELECT id FROM c FOR KEY SHARE) x";
    let in_no_order =
        "SELECT count(*) FROM (SELECT c.id FROM shuffled JOIN c USING (id) FOR KEY SHARE OF c) x";
    client.batch_execute("SET enable_hashjoin = off; SET enable_mergejoin = off")?;
    for lock in [in_table_order, in_no_order] {
        client.batch_execute("BEGIN")?;
        ensure!(query(&mut client, lock)? == rows.to_string(), "{lock}");
        let locks: u32 = query(&mut client, "SELECT count(*) FROM pg_locks")?.parse()?;
        ensure!(locks < 6_000, "{locks} locks of {lock}");
        client.batch_execute("ROLLBACK")?;
    }
    for update in [
        "UPDATE c SET n = n + 1",
        "UPDATE c SET n = n + 2 FROM shuffled WHERE shuffled.id = c.id",
    ] {
        client.batch_execute("BEGIN")?;
        client.batch_execute(update)?;
        let locks: u32 = query(&mut client, "SELECT count(*) FROM pg_locks")?.parse()?;
        ensure!(locks < 6_000, "{locks} locks of {update}");
        let end = if update.contains("shuffled") {
            "COMMIT"
        } else {
            "ROLLBACK"
        };
        client.batch_execute(end)?;
    }
    let updated = query(&mut client, "SELECT count(*), sum(n) FROM c")?;
    ensure!(updated == format!("{rows}|{}", 2 * rows), "{updated}");
    Ok(())
}
