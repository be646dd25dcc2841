//! Loading one side: tables, COPY, VACUUM ANALYZE, sizes.
//!
//! At scale N the flights and the weather are loaded N times in one COPY, each time a year
//! later; the other tables are the same every year. What was loaded, and how long it took, is
//! kept as the schema's comment, which is written last: a schema without it was never finished.

use std::borrow::Cow;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use postgres::Client;
use serde::{Deserialize, Serialize};

use super::data::Files;
use super::{Options, Side};
use crate::machine;
use crate::progress::{Counting, Progress};
use crate::units;

/// Incremented when tables or data change, so that older loads are not used again.
const LOAD_VERSION: u32 = 2;

/// The year of the data as they come.
const FIRST_YEAR: u16 = 2013;

/// Bytes on disk for one byte of CSV, heap and howdah and WAL together, generously.
const DISK_FACTOR: u64 = 6;

/// Which fields of a line hold its year, so that a copy of the line can be a year later.
enum Years {
    /// Every year is the same: loaded once at any scale.
    Same,
    /// The year is field `year_field`, and the last field is a time that begins with a year.
    Shifted { year_field: usize },
}

pub(super) struct Table {
    pub name: &'static str,
    columns: &'static str,
    years: Years,
}

pub(super) const TABLES: [Table; 5] = [
    Table {
        name: "airlines",
        columns: "carrier text PRIMARY KEY, name text NOT NULL",
        years: Years::Same,
    },
    Table {
        name: "airports",
        columns: "faa text PRIMARY KEY, name text NOT NULL, lat float8, lon float8, alt integer,
                  tz integer, dst text, tzone text",
        years: Years::Same,
    },
    Table {
        name: "planes",
        columns: "tailnum text PRIMARY KEY, year integer, type text, manufacturer text, model text,
                  engines integer, seats integer, speed integer, engine text",
        years: Years::Same,
    },
    Table {
        name: "weather",
        columns: "origin text NOT NULL, year integer, month integer, day integer, hour integer,
                  temp float8, dewp float8, humid float8, wind_dir integer, wind_speed float8,
                  wind_gust float8, precip float8, pressure float8, visib float8,
                  time_hour timestamptz NOT NULL",
        years: Years::Shifted { year_field: 1 },
    },
    Table {
        name: "flights",
        columns: "year integer NOT NULL, month integer NOT NULL, day integer NOT NULL,
                  dep_time integer, sched_dep_time integer, dep_delay integer, arr_time integer,
                  sched_arr_time integer, arr_delay integer, carrier text NOT NULL,
                  flight integer NOT NULL, tailnum text, origin text NOT NULL, dest text NOT NULL,
                  air_time integer, distance integer, hour integer, minute integer,
                  time_hour timestamptz NOT NULL",
        years: Years::Shifted { year_field: 0 },
    },
];

/// What one side holds; the load's numbers are those of the run that loaded it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Loaded {
    version: u32,
    pub scale: u16,
    pub flight_count: u64,
    pub load_seconds: f64,
    pub vacuum_seconds: f64,
    /// All tables, with their indexes.
    pub total_bytes: u64,
    /// The flights alone, as `pg_total_relation_size` tells.
    pub flights_bytes: u64,
}

/// Stops before a load that would fill the disk.
pub(super) fn require_disk(data: &Path, files: &Files, scale: u16) -> anyhow::Result<()> {
    let csv_bytes = total_bytes(files, scale);
    let needed = csv_bytes * DISK_FACTOR + (256 << 20);
    let Some(free) = machine::free_disk_bytes(data) else {
        return Ok(());
    };
    if free < needed {
        bail!(
            "a demo of scale {scale} needs about {} free under {}, and there are {}",
            units::bytes(needed),
            data.display(),
            units::bytes(free)
        );
    }
    Ok(())
}

fn total_bytes(files: &Files, scale: u16) -> u64 {
    TABLES
        .iter()
        .map(|table| table.copies(scale) * files.size_bytes(table.name))
        .sum()
}

/// Makes sure that the side is loaded at the wanted scale: finds it so, or loads it.
pub(super) fn ensure(
    client: &mut Client,
    files: &Files,
    side: Side,
    options: &Options,
) -> anyhow::Result<Loaded> {
    if !options.reload
        && let Some(found) = find(client, side)?
        && found.scale == options.scale
    {
        return Ok(found);
    }
    load(client, files, side, options.scale)
        .with_context(|| format!("loading the {} tables failed", side.access_method()))
}

fn find(client: &mut Client, side: Side) -> anyhow::Result<Option<Loaded>> {
    let tables: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    // A table may have been dropped since, as by DROP EXTENSION … CASCADE.
    let row = client.query_opt(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace
         WHERE nspname = $1 AND NOT EXISTS (SELECT FROM unnest($2::text[]) t
             WHERE to_regclass(format('%I.%I', nspname, t)) IS NULL)",
        &[&side.schema(), &tables],
    )?;
    let comment: Option<String> = row.and_then(|row| row.get(0));
    let loaded = comment.and_then(|text| serde_json::from_str::<Loaded>(&text).ok());
    Ok(loaded.filter(|loaded| loaded.version == LOAD_VERSION))
}

fn load(client: &mut Client, files: &Files, side: Side, scale: u16) -> anyhow::Result<Loaded> {
    let schema = side.schema();
    client.batch_execute(&format!(
        "SET client_min_messages = warning;
         DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}"
    ))?;
    let title = format!("loading as {}", side.access_method());
    let mut progress = Progress::of(&title, total_bytes(files, scale), Counting::Bytes);
    let mut load_seconds = 0.0;
    let mut flight_count = 0;
    for table in &TABLES {
        let name = table.name;
        client
            .batch_execute(&format!(
                "CREATE TABLE {schema}.{name} ({}) USING {}",
                table.columns,
                side.access_method()
            ))
            .with_context(|| format!("CREATE TABLE {schema}.{name}"))?;
        let text = files.read(name)?;
        let started = Instant::now();
        let row_count = copy(client, side, table, &text, scale, &mut progress)
            .with_context(|| format!("COPY {schema}.{name}"))?;
        load_seconds += started.elapsed().as_secs_f64();
        if name == "flights" {
            flight_count = row_count;
        }
    }
    progress.finish(&format!("{} flights", units::count(flight_count)));

    let progress = Progress::open_ended(&format!("vacuum of {}", side.access_method()));
    let started = Instant::now();
    for table in &TABLES {
        client.batch_execute(&format!("VACUUM (ANALYZE) {schema}.{}", table.name))?;
    }
    let vacuum_seconds = started.elapsed().as_secs_f64();
    progress.vanish();

    let (total, flights) = sizes(client, side)?;
    let loaded = Loaded {
        version: LOAD_VERSION,
        scale,
        flight_count,
        load_seconds,
        vacuum_seconds,
        total_bytes: total,
        flights_bytes: flights,
    };
    let comment = serde_json::to_string(&loaded)?;
    client.batch_execute(&format!(
        "COMMENT ON SCHEMA {schema} IS '{}'",
        comment.replace('\'', "''")
    ))?;
    Ok(loaded)
}

fn sizes(client: &mut Client, side: Side) -> anyhow::Result<(u64, u64)> {
    let row = client.query_one(
        "SELECT sum(pg_total_relation_size(c.oid))::bigint,
                sum(pg_total_relation_size(c.oid)) FILTER (WHERE relname = 'flights')::bigint
         FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
         WHERE nspname = $1 AND relkind = 'r'",
        &[&side.schema()],
    )?;
    let size = |column| row.get::<_, i64>(column).unsigned_abs();
    Ok((size(0), size(1)))
}

/// One COPY of a table's rows, as often as the scale says; returns how many rows the server took.
fn copy(
    client: &mut Client,
    side: Side,
    table: &Table,
    text: &str,
    scale: u16,
    progress: &mut Progress,
) -> anyhow::Result<u64> {
    let statement = format!(
        "COPY {}.{} FROM STDIN (FORMAT csv, NULL 'NA')",
        side.schema(),
        table.name
    );
    let mut writer = client.copy_in(&statement)?;
    let (_, rows) = text.split_once('\n').context("the file has no heading")?;
    for copy_number in 0..table.copies(scale) {
        let year = FIRST_YEAR + u16::try_from(copy_number).unwrap_or(u16::MAX);
        for block in Blocks(rows) {
            writer.write_all(table.in_year(block, year).as_bytes())?;
            progress.advance(block.len() as u64, table.name);
        }
    }
    Ok(writer.finish()?)
}

/// Text in pieces of whole lines, of about a megabyte.
struct Blocks<'a>(&'a str);

impl<'a> Iterator for Blocks<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        const WANTED_BYTES: usize = 1 << 20;
        if self.0.is_empty() {
            return None;
        }
        let text = self.0;
        let from = WANTED_BYTES.min(text.len());
        let end = text.as_bytes()[from..]
            .iter()
            .position(|byte| *byte == b'\n');
        let (block, rest) = text.split_at(end.map_or(text.len(), |end| from + end + 1));
        self.0 = rest;
        Some(block)
    }
}

impl Table {
    fn copies(&self, scale: u16) -> u64 {
        match self.years {
            Years::Same => 1,
            Years::Shifted { .. } => u64::from(scale),
        }
    }

    /// The lines changed to another year. Times near midnight of New Year's Eve belong to the
    /// following year, so a time's own year is moved, not replaced.
    fn in_year<'a>(&self, lines: &'a str, year: u16) -> Cow<'a, str> {
        let Years::Shifted { year_field } = self.years else {
            return Cow::Borrowed(lines);
        };
        if year == FIRST_YEAR {
            return Cow::Borrowed(lines);
        }
        let later = year - FIRST_YEAR;
        let mut shifted = String::with_capacity(lines.len() + 16);
        for line in lines.lines() {
            shift_line(line, year_field, later, &mut shifted);
        }
        Cow::Owned(shifted)
    }
}

fn shift_line(line: &str, year_field: usize, later: u16, out: &mut String) {
    let last = line.split(',').count().saturating_sub(1);
    for (index, field) in line.split(',').enumerate() {
        if index > 0 {
            out.push(',');
        }
        let year = (index == year_field || index == last)
            .then(|| field.get(..4))
            .flatten();
        match year.and_then(|year| year.parse::<u16>().ok()) {
            Some(year) => {
                out.push_str(&(year + later).to_string());
                out.push_str(&field[4..]);
            }
            None => out.push_str(field),
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_year_moves_the_year_and_the_time_and_nothing_else() {
        let line =
            "2013,12,31,2013,2015,NA,2013-12-31T23:00:00Z\n2013,12,31,1,2,3,2014-01-01T04:00:00Z\n";
        let flights = &TABLES[4];
        assert_eq!(
            flights.in_year(line, 2016),
            "2016,12,31,2013,2015,NA,2016-12-31T23:00:00Z\n2016,12,31,1,2,3,2017-01-01T04:00:00Z\n"
        );
        assert_eq!(flights.in_year(line, 2013), line);
        assert_eq!(TABLES[0].in_year(line, 2016), line);
    }

    #[test]
    fn blocks_are_whole_lines_and_lose_nothing() {
        let text = "a line of some length\n".repeat(200_000);
        let blocks: Vec<&str> = Blocks(&text).collect();
        assert!(blocks.len() > 2 && blocks.iter().all(|block| block.ends_with('\n')));
        assert_eq!(blocks.concat(), text);
        let unfinished = "no newline at the end";
        assert_eq!(Blocks(unfinished).collect::<Vec<_>>(), [unfinished]);
    }
}
