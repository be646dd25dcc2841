//! The report of the bench: where it ran, a table of figures with goals and verdicts, and the same
//! as JSON with every single measurement.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use comfy_table::{CellAlignment, Table, presets};
use postgres::Client;
use serde::Serialize;

use super::figure::{Figure, Goal, Outcome, Unit, Verdict};
use super::{Options, Part};
use crate::{machine, units};

const SETTINGS: [&str; 5] = [
    "server_version",
    "shared_buffers",
    "work_mem",
    "max_parallel_workers_per_gather",
    "max_wal_size",
];

/// The environment that the figures depend on.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    rows: u64,
    /// Where TPC-H is measured.
    tpch_scale: Option<f64>,
    runs: u32,
    processors: usize,
    memory_bytes: Option<u64>,
    settings: Vec<(String, String)>,
}

pub(super) fn facts(client: &mut Client, options: &Options) -> anyhow::Result<Facts> {
    let mut settings = Vec::new();
    for name in SETTINGS {
        let row = client.query_one("SELECT current_setting($1)", &[&name])?;
        settings.push((name.to_owned(), row.get(0)));
    }
    Ok(Facts {
        rows: options.rows,
        tpch_scale: options.wants(Part::Tpch).then_some(options.scale),
        runs: options.runs,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: machine::memory_bytes(),
        settings,
    })
}

pub(super) fn print(facts: &Facts, figures: &[Figure]) {
    let tpch = facts.tpch_scale;
    let tpch = tpch.map_or_else(String::new, |scale| format!(", TPC-H at scale {scale}"));
    println!(
        "\n{} rows{tpch}, median of {} runs, {} processors, {} of memory",
        units::count(facts.rows),
        facts.runs,
        facts.processors,
        facts.memory_bytes.map_or("?".to_owned(), units::bytes)
    );
    let settings: Vec<String> = facts
        .settings
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    println!("{}\n", settings.join(", "));
    println!("{}", table(figures));
    for figure in figures {
        if let Some(difference) = &figure.difference {
            println!("DIFFERENT ANSWERS for \"{}\": {difference}", figure.title);
        }
    }
    let of = |wanted| {
        figures
            .iter()
            .filter(|figure| figure.verdict() == wanted)
            .count()
    };
    let (reached, missed) = (of(Verdict::Ok), of(Verdict::Miss));
    println!("{reached} goals reached, {missed} missed");
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY).set_header([
        "",
        "heap",
        "howdah",
        "DuckDB",
        "howdah / heap",
        "howdah / DuckDB",
        "goal",
        "",
    ]);
    for figure in figures {
        table.add_row([
            figure.title.clone(),
            show(&figure.heap, figure.unit),
            show(&figure.howdah, figure.unit),
            show(&figure.duckdb, figure.unit),
            figure.ratio().map_or("-".to_owned(), ratio),
            figure.ratio_to_duckdb().map_or("-".to_owned(), ratio),
            figure
                .goal
                .map_or(String::new(), |goal| show_goal(goal, figure.unit)),
            verdict(figure).to_owned(),
        ]);
    }
    for index in 1..6 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn verdict(figure: &Figure) -> &'static str {
    match (figure.difference.is_some(), figure.verdict()) {
        (true, _) => "DIFFERENT",
        (false, Verdict::Ok) => "ok",
        (false, Verdict::Miss) => "miss",
        (false, Verdict::Open) => "",
    }
}

fn show(outcome: &Outcome, unit: Unit) -> String {
    match outcome {
        Outcome::Refused => "refused".to_owned(),
        Outcome::Absent => "-".to_owned(),
        Outcome::Measured(_) => outcome
            .median()
            .map_or("-".to_owned(), |value| in_unit(value, unit)),
    }
}

fn in_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("{value:.2} s"),
        Unit::Milliseconds => {
            let time = Duration::from_secs_f64(value.max(0.0) / 1e3);
            format!("{} ms", units::milliseconds(time))
        }
        Unit::Microseconds => format!("{value:.0} µs"),
        Unit::Bytes => units::bytes(value as u64),
        Unit::PerSecond => format!("{}/s", units::count(value as u64)),
        Unit::Times => format!("{value:.2} ×"),
    }
}

fn ratio(value: f64) -> String {
    if value < 0.1 {
        format!("{value:.3}")
    } else {
        format!("{value:.2}")
    }
}

fn show_goal(goal: Goal, unit: Unit) -> String {
    match goal {
        Goal::RatioAtMost(limit) => format!("≤ {} × heap", ratio(limit)),
        Goal::RatioAtLeast(limit) => format!("≥ {} × heap", ratio(limit)),
        Goal::AtMost(limit) => format!("≤ {}", in_unit(limit, unit)),
        Goal::AtLeast(limit) => format!("≥ {}", in_unit(limit, unit)),
        Goal::MoreByAtMost(limit) => format!("≤ heap + {}", in_unit(limit, unit)),
        Goal::DuckDbAtLeast(limit) => format!("≥ {} × DuckDB", ratio(limit)),
        Goal::DuckDbAtMost { times, plus: 0.0 } => {
            format!("≤ {} × DuckDB", ratio(times))
        }
        Goal::DuckDbAtMost { times, plus } => {
            format!("≤ {} × DuckDB + {}", ratio(times), in_unit(plus, unit))
        }
    }
}

pub(super) fn write_json(file: &Path, facts: &Facts, figures: &[Figure]) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&serde_json::json!({
        "facts": facts,
        "figures": figures,
    }))?;
    fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_statement_is_shown_as_refused_and_missing() {
        let mut figure =
            Figure::new("one cold row", Unit::Microseconds).with_goal(Some(Goal::RatioAtMost(3.0)));
        figure.heap = Outcome::one(100.0);
        figure.howdah = Outcome::Refused;
        let text = table(&[figure]).to_string();
        assert!(
            text.contains("refused") && text.contains("miss") && text.contains("≤ 3.00 × heap")
        );
    }

    #[test]
    fn values_are_shown_in_their_units() {
        assert_eq!(in_unit(1234.0, Unit::PerSecond), "1,234/s");
        assert_eq!(in_unit(0.2345, Unit::Milliseconds), "0.23 ms");
        assert_eq!(in_unit(12.4, Unit::Microseconds), "12 µs");
    }
}
