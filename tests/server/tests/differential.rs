//! Generated statements on heap and howdah, compared. `HOWDAH_DIFFERENTIAL_CASES` and
//! `HOWDAH_DIFFERENTIAL_SEED` make a longer run or repeat one.

use howdah_server_tests::cluster::Primary;
use howdah_server_tests::differential::run_case;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn run_cases(primary: &Primary, default_count: u64) -> anyhow::Result<()> {
    let first = number("HOWDAH_DIFFERENTIAL_SEED", 1);
    for seed in first..first + number("HOWDAH_DIFFERENTIAL_CASES", default_count) {
        run_case(&mut primary.session()?, seed, 40)?;
    }
    Ok(())
}

#[test]
fn howdah_does_what_heap_does_under_generated_statements() -> anyhow::Result<()> {
    let primary = Primary::start("differential", &[("howdah.compaction", "off")])?;
    run_cases(&primary, 40)
}

/// Workers move whatever they can as soon as they can.
#[test]
fn howdah_does_what_heap_does_while_workers_compact() -> anyhow::Result<()> {
    let primary = Primary::start(
        "differential-workers",
        &[
            ("howdah.compact_after", "0"),
            ("howdah.compact_naptime", "100ms"),
            ("howdah.compact_min_rows", "1"),
        ],
    )?;
    run_cases(&primary, 15)
}
