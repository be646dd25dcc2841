//! Generated scripts on heap and howdah, compared. `HOWDAH_DIFFERENTIAL_SEED` and
//! `HOWDAH_DIFFERENTIAL_CASES` make a longer run or repeat a script, `HOWDAH_DIFFERENTIAL_WORKERS`
//! says how many scripts run at a time, `HOWDAH_DIFFERENTIAL_PLAYS` how often each,
//! `HOWDAH_DIFFERENTIAL_DIFFERENCES` and `HOWDAH_DIFFERENTIAL_SECONDS` when to stop early. Beside
//! the differences, the tally of each run is kept under `differences` in the instance's directory.

use std::time::{Duration, Instant};

use anyhow::ensure;
use howdah_server_tests::cluster::Primary;
use howdah_server_tests::differential::{Extent, Mode, SETTINGS, Subject, run, write_report};
use howdah_server_tests::settings::number;

fn told(name: &str, default: u64) -> u64 {
    number(&format!("HOWDAH_DIFFERENTIAL_{name}"), default)
}

fn compare(
    name: &str,
    mode: Mode,
    subject: Subject,
    extra_settings: &[(&str, &str)],
    default_count: u64,
) -> anyhow::Result<()> {
    let settings = [&SETTINGS[..], extra_settings].concat();
    let primary = Primary::start(name, &settings)?;
    let script_count = told("CASES", default_count);
    let extent = Extent {
        first_seed: told("SEED", 1),
        script_count,
        play_count: told("PLAYS", 1).max(1),
        worker_count: told("WORKERS", 3) as usize,
        most_differences: told("DIFFERENCES", 1) as usize,
        longest: Duration::from_secs(told("SECONDS", 3_600)),
    };
    let started = Instant::now();
    let tally = run(&primary, mode, subject, extent)?;
    let report = format!(
        "{name}, {:.0} s: {tally}\n",
        started.elapsed().as_secs_f64()
    );
    print!("{report}");
    write_report(&format!("{name}.txt"), &report)?;
    ensure!(
        tally.differences.is_empty(),
        "{}",
        tally.differences.join("\n\n")
    );
    ensure!(
        tally.finished_count > tally.cut_short_count,
        "most scripts did not run to their end"
    );
    Ok(())
}

#[test]
fn one_session_sees_of_howdah_what_it_sees_of_heap() -> anyhow::Result<()> {
    compare("alone", Mode::Alone, Subject::Howdah, &[], 40)
}

#[test]
fn sessions_that_collide_see_of_howdah_what_they_see_of_heap() -> anyhow::Result<()> {
    compare("together", Mode::Together, Subject::Howdah, &[], 40)
}

/// What a row has of all its strings lies in one place.
#[test]
fn one_session_sees_the_same_of_grouped_columns() -> anyhow::Result<()> {
    let grouped = [("howdah.debug_group_columns", "on")];
    compare("alone-grouped", Mode::Alone, Subject::Howdah, &grouped, 15)
}

/// Changed cold rows are brought back as hot tuples, so that decoding sees the changes.
#[test]
fn one_session_sees_the_same_where_changes_are_decoded() -> anyhow::Result<()> {
    let logical = [("wal_level", "logical")];
    compare("alone-logical", Mode::Alone, Subject::Howdah, &logical, 15)
}

#[test]
fn sessions_that_collide_see_the_same_where_changes_are_decoded() -> anyhow::Result<()> {
    let logical = [("wal_level", "logical")];
    compare(
        "together-logical",
        Mode::Together,
        Subject::Howdah,
        &logical,
        15,
    )
}

#[test]
fn heap_does_not_differ_from_itself() -> anyhow::Result<()> {
    compare("alone-heap", Mode::Alone, Subject::Heap, &[], 10)?;
    compare("together-heap", Mode::Together, Subject::Heap, &[], 10)
}

/// Workers move all rows that they can as soon as possible.
const WORKERS: [(&str, &str); 6] = [
    ("howdah.compaction", "on"),
    ("howdah.compact_after", "0"),
    ("howdah.compact_naptime", "100ms"),
    ("howdah.compact_min_rows", "1"),
    ("howdah.max_compaction_workers", "6"),
    ("max_worker_processes", "20"),
];

#[test]
fn one_session_sees_the_same_while_workers_compact() -> anyhow::Result<()> {
    compare("alone-workers", Mode::Alone, Subject::Howdah, &WORKERS, 10)
}

#[test]
fn sessions_that_collide_see_the_same_while_workers_compact() -> anyhow::Result<()> {
    compare(
        "together-workers",
        Mode::Together,
        Subject::Howdah,
        &WORKERS,
        10,
    )
}
