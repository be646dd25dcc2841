//! The table that all figures are about: staged once as an unlogged heap table, loaded from
//! there by INSERT … SELECT, then given its unique index and statistics.

use postgres::Client;

use super::figure::{Figure, Goal, Unit};
use super::statement::ask;
use super::{Options, Part, Side};
use crate::progress::{Counting, Progress};
use crate::units;

pub(super) const COLUMNS: &str =
    "c1 bigint, c2 varchar, c3 integer, c4 timestamp, c5 float8, grp integer";

/// Values that repeat from run to run and look random to an encoder; the same on every machine.
fn source(rows: u64) -> String {
    "CREATE UNLOGGED TABLE bench.source USING heap AS
     SELECT i AS c1, 'one value'::varchar AS c2, (abs(hashint8(i)::bigint) % 1000)::integer AS c3,
            '2026-01-01'::timestamp + i * interval '1 second' AS c4,
            (abs(hashint8(i + 1000000007)::bigint) % 1000000) / 100.0::float8 AS c5,
            (abs(hashint8(i + 2000000011)::bigint) % 10)::integer AS grp
     FROM generate_series(1::bigint, ROWS) i"
        .replace("ROWS", &rows.to_string())
}

pub(super) fn stage(client: &mut Client, rows: u64) -> anyhow::Result<()> {
    let progress = Progress::open_ended("staging the rows");
    client.batch_execute(&source(rows))?;
    client.batch_execute("VACUUM (FREEZE, ANALYZE) bench.source")?;
    progress.finish(&format!("{} rows", units::count(rows)));
    Ok(())
}

pub(super) fn name(side: Side) -> String {
    format!("bench.t_{}", side.name())
}

/// Loads both sides in turn, as often as requested; the rows of the last run stay, indexed and
/// analyzed. Returns figures only if they are wanted.
pub(super) fn load(client: &mut Client, options: &Options) -> anyhow::Result<Vec<Figure>> {
    let wanted = options.wants(Part::Load);
    let runs = if wanted { options.runs } else { 1 };
    let mut time =
        Figure::new("load, no index", Unit::Seconds).with_goal(Some(Goal::RatioAtMost(1.3)));
    let mut index = Figure::new("unique index on c1", Unit::Seconds);
    let mut progress = Progress::of("loading", u64::from(runs) * 2, Counting::Things);
    for _ in 0..runs {
        for side in Side::BOTH {
            let table = name(side);
            client.batch_execute(&format!(
                "DROP TABLE IF EXISTS {table}; CREATE TABLE {table} ({COLUMNS}) USING {}",
                side.name()
            ))?;
            client.batch_execute("CHECKPOINT")?;
            let sql = format!("INSERT INTO {table} SELECT * FROM bench.source");
            let seconds = ask(client, &sql)?.map(|answer| answer.milliseconds / 1e3);
            time.side(side).add(seconds);
            progress.advance(1, side.name());
        }
    }
    progress.finish(&format!("{runs} times"));
    let mut size =
        Figure::new("size, no index", Unit::Bytes).with_goal(Some(Goal::RatioAtMost(1.0 / 12.0)));
    let progress = Progress::open_ended("indexing");
    for side in Side::BOTH {
        let table = name(side);
        let row = client.query_one(
            "SELECT pg_total_relation_size($1::text::regclass)",
            &[&table],
        )?;
        size.side(side).add(Some(row.get::<_, i64>(0) as f64));
        let sql = format!("CREATE UNIQUE INDEX ON {table} (c1)");
        let seconds = ask(client, &sql)?.map(|answer| answer.milliseconds / 1e3);
        index.side(side).add(seconds);
        // A statement of its own, as VACUUM cannot run in a transaction block.
        client.batch_execute(&format!("VACUUM (ANALYZE) {table}"))?;
    }
    progress.finish("done");
    client.batch_execute("CHECKPOINT")?;
    Ok(if wanted {
        vec![time, size, index]
    } else {
        Vec::new()
    })
}
