//! What the demo shows at the end: what was loaded, the times, a chart, and what to try next.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

use super::load::Loaded;
use super::queries::Comparison;
use crate::units;

/// The longest bar of the chart.
const BAR_CELLS: f64 = 40.0;

pub(super) fn print(heap: &Loaded, howdah: &Loaded, comparisons: &[Comparison]) {
    println!("\n{}", storage_table(heap, howdah));
    println!("\n{}", time_table(comparisons));
    println!("\n{}", chart(comparisons));
    for comparison in comparisons {
        if let Some(difference) = &comparison.difference {
            println!(
                "DIFFERENT RESULTS for \"{}\": {difference}",
                comparison.title
            );
        }
    }
}

fn storage_table(heap: &Loaded, howdah: &Loaded) -> Table {
    let mut table = new_table(&["", "heap", "howdah", "howdah / heap"]);
    let count = units::count(heap.flight_count);
    let other_count = units::count(howdah.flight_count);
    table.add_row(["flights", count.as_str(), other_count.as_str(), ""]);
    add_seconds(
        &mut table,
        "load (COPY)",
        heap.load_seconds,
        howdah.load_seconds,
    );
    add_seconds(
        &mut table,
        "VACUUM ANALYZE",
        heap.vacuum_seconds,
        howdah.vacuum_seconds,
    );
    add_bytes(
        &mut table,
        "size of flights",
        heap.flights_bytes,
        howdah.flights_bytes,
    );
    add_bytes(
        &mut table,
        "size of all tables",
        heap.total_bytes,
        howdah.total_bytes,
    );
    align_numbers(&mut table, 4);
    table
}

fn add_seconds(table: &mut Table, title: &str, heap: f64, howdah: f64) {
    let show = |seconds: f64| format!("{seconds:.2} s");
    table.add_row([
        title.to_owned(),
        show(heap),
        show(howdah),
        ratio(howdah, heap),
    ]);
}

fn add_bytes(table: &mut Table, title: &str, heap: u64, howdah: u64) {
    let share = ratio(howdah as f64, heap as f64);
    table.add_row([
        title.to_owned(),
        units::bytes(heap),
        units::bytes(howdah),
        share,
    ]);
}

fn time_table(comparisons: &[Comparison]) -> Table {
    let mut table = new_table(&[
        "query (best of 3, warm)",
        "rows",
        "heap ms",
        "howdah ms",
        "howdah / heap",
        "results",
    ]);
    for comparison in comparisons {
        table.add_row([
            comparison.title.to_owned(),
            units::count(comparison.row_count as u64),
            units::milliseconds(comparison.heap),
            units::milliseconds(comparison.howdah),
            ratio(
                comparison.howdah.as_secs_f64(),
                comparison.heap.as_secs_f64(),
            ),
            if comparison.difference.is_none() {
                "equal"
            } else {
                "DIFFERENT"
            }
            .to_owned(),
        ]);
    }
    align_numbers(&mut table, 5);
    table
}

fn new_table(heading: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_BORDERS_ONLY)
        .set_header(heading);
    table
}

/// All columns but the first, up to `column_count`, hold numbers.
fn align_numbers(table: &mut Table, column_count: usize) {
    for index in 1..column_count {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn ratio(howdah: f64, heap: f64) -> String {
    if heap > 0.0 {
        format!("{:.2}", howdah / heap)
    } else {
        "-".to_owned()
    }
}

/// Two bars for each query, to one scale: shorter is faster.
fn chart(comparisons: &[Comparison]) -> String {
    let longest = comparisons
        .iter()
        .map(|comparison| comparison.heap.max(comparison.howdah))
        .max();
    let longest = longest.unwrap_or_default();
    let mut text = String::from("milliseconds, shorter is faster\n");
    for comparison in comparisons {
        let sides = [("heap", comparison.heap), ("howdah", comparison.howdah)];
        for (index, (side, time)) in sides.into_iter().enumerate() {
            let title = if index == 0 { comparison.title } else { "" };
            let bar = bar(time, longest);
            text.push_str(&format!(
                "{title:<33} {side:<6} {bar} {}\n",
                units::milliseconds(time)
            ));
        }
    }
    text
}

fn bar(time: Duration, longest: Duration) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = time.as_secs_f64() / longest.as_secs_f64().max(f64::MIN_POSITIVE);
    // The bar is never empty: every query takes some time.
    let eighths = ((share * BAR_CELLS * 8.0).round() as usize).max(1);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

pub(super) fn print_how_to_go_on() {
    println!("All results are equal. To go on by hand:");
    println!("  ./howdah psql -c 'SET search_path = demo_howdah' -c '\\d+'");
    println!(
        "  ./howdah psql -c 'EXPLAIN ANALYZE SELECT origin, count(*) FROM demo_howdah.flights GROUP BY 1'"
    );
    println!("  ./howdah psql            and then any SQL; demo_heap holds the same rows as heap");
    println!("  ./howdah demo --scale 10 for ten years of flights");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_chart_and_the_shortest_is_still_seen() {
        let second = Duration::from_secs(1);
        assert_eq!(bar(second, second).chars().count(), 40);
        assert_eq!(bar(Duration::from_nanos(1), second), "▏");
        assert_eq!(bar(second / 2, second).chars().count(), 20);
    }
}
