//! Generated scripts on heap and howdah, compared. `HOWDAH_DIFFERENTIAL_CASES` and
//! `HOWDAH_DIFFERENTIAL_SEED` make a longer run or repeat a script.

use anyhow::ensure;
use howdah_server_tests::cluster::Primary;
use howdah_server_tests::differential::{Mode, SETTINGS, Subject, run};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn compare(name: &str, mode: Mode, subject: Subject, default: u64) -> anyhow::Result<()> {
    let primary = Primary::start(name, &SETTINGS)?;
    let first = number("HOWDAH_DIFFERENTIAL_SEED", 1);
    let script_count = number("HOWDAH_DIFFERENTIAL_CASES", default);
    let finished_count = run(&primary, mode, subject, first..first + script_count)?;
    println!("{finished_count} of {script_count} scripts ran to their end");
    ensure!(
        finished_count > 0 || script_count < 10,
        "no script ran to its end"
    );
    Ok(())
}

#[test]
fn one_session_sees_of_howdah_what_it_sees_of_heap() -> anyhow::Result<()> {
    compare("alone", Mode::Alone, Subject::Howdah, 30)
}

#[test]
fn sessions_that_collide_see_of_howdah_what_they_see_of_heap() -> anyhow::Result<()> {
    compare("together", Mode::Together, Subject::Howdah, 30)
}

#[test]
fn heap_does_not_differ_from_itself() -> anyhow::Result<()> {
    compare("alone-heap", Mode::Alone, Subject::Heap, 5)?;
    compare("together-heap", Mode::Together, Subject::Heap, 5)
}

/// Workers move whatever they can as soon as they can.
#[test]
fn one_session_sees_the_same_while_workers_compact() -> anyhow::Result<()> {
    let mut settings = SETTINGS.to_vec();
    settings.extend([
        ("howdah.compaction", "on"),
        ("howdah.compact_after", "0"),
        ("howdah.compact_naptime", "100ms"),
        ("howdah.compact_min_rows", "1"),
    ]);
    let primary = Primary::start("alone-workers", &settings)?;
    let first = number("HOWDAH_DIFFERENTIAL_SEED", 1);
    run(&primary, Mode::Alone, Subject::Howdah, first..first + 10).map(drop)
}
