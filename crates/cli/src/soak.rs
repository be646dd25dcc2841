//! `./howdah soak --minutes N`: tests that find faults only when they run for long, repeated with
//! new seeds until the time is up.
//!
//! ```text
//!   round ─► differential (one session, several) ─► emptied in place ─► transfers, keys, merges
//!     ┌─ fuzz ◄─ stopped loads ◄─ vectorized: queries, stopped, old snapshots ◄─ crashes ◄─┘
//!     └─► visibility, upkeep ─► PostgreSQL's suites by workers and engine (round 1) ─► Perl tests
//! ```
//!
//! The Perl tests are PostgreSQL's own tests of subscriptions and recovery. They take no seed;
//! whether the rows of their tables are hot or cold changes from round to round.
//!
//! Every round prints its seed; `./howdah soak --seed S --rounds 1` repeats it. The first failure
//! ends the soak, so that later rounds do not hide it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use crate::paths::Paths;
use crate::test::{self, SoakPrograms, Tally};
use crate::{scratch, units};

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Begin no new round after this time
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub minutes: u64,
    /// End after so many rounds, too
    #[arg(long, value_name = "N")]
    pub rounds: Option<u64>,
    /// The first round's seed; each further round counts on from it
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
}

/// Scripts that one round of the differential tester compares, of each kind.
const SCRIPT_COUNT: u64 = 200;

/// Schemas of which a round asks generated queries, 100 of each.
const SCHEMA_COUNT: u64 = 200;
/// Schemas that change while queries of them are asked, 64 of each.
const CHANGED_SCHEMA_COUNT: u64 = 50;

/// What a round runs: a program of tests, and its settings for the round's seed.
fn parts(seed: u64) -> [(&'static str, Vec<(&'static str, u64)>); 17] {
    [
        (
            "differential",
            vec![
                ("HOWDAH_DIFFERENTIAL_SEED", seed.wrapping_mul(SCRIPT_COUNT)),
                ("HOWDAH_DIFFERENTIAL_CASES", SCRIPT_COUNT),
            ],
        ),
        (
            "emptied_in_place",
            vec![
                ("HOWDAH_EMPTIED_SEED", seed.wrapping_mul(SCRIPT_COUNT)),
                ("HOWDAH_EMPTIED_CASES", SCRIPT_COUNT),
            ],
        ),
        (
            "transfers",
            vec![
                ("HOWDAH_TRANSFER_SEED", seed),
                ("HOWDAH_TRANSFER_SECONDS", 30),
            ],
        ),
        (
            "shared_keys",
            vec![("HOWDAH_KEYS_SEED", seed), ("HOWDAH_KEYS_SECONDS", 30)],
        ),
        (
            "merges",
            vec![("HOWDAH_MERGE_SEED", seed), ("HOWDAH_MERGE_SECONDS", 60)],
        ),
        (
            "crash",
            vec![("HOWDAH_CRASH_SEED", seed), ("HOWDAH_CRASH_ROUNDS", 40)],
        ),
        ("compaction_crash", vec![("HOWDAH_CRASH_ROUNDS", 60)]),
        (
            "standby_snapshots",
            vec![("HOWDAH_STANDBY_SEED", seed), ("HOWDAH_STANDBY_ROUNDS", 90)],
        ),
        (
            "vectorized_queries",
            vec![
                ("HOWDAH_QUERY_SEED", seed.wrapping_mul(SCHEMA_COUNT)),
                ("HOWDAH_QUERY_SCHEMAS", SCHEMA_COUNT),
            ],
        ),
        (
            "vectorized_changes",
            vec![
                ("HOWDAH_QUERY_SEED", seed.wrapping_mul(CHANGED_SCHEMA_COUNT)),
                ("HOWDAH_QUERY_SCHEMAS", CHANGED_SCHEMA_COUNT),
            ],
        ),
        (
            "vectorized_cancel",
            vec![("HOWDAH_CANCEL_SEED", seed), ("HOWDAH_CANCEL_CASES", 500)],
        ),
        (
            "vectorized_snapshots",
            vec![
                ("HOWDAH_SNAPSHOT_SEED", seed),
                ("HOWDAH_SNAPSHOT_STEPS", 200),
            ],
        ),
        (
            "load_threads",
            vec![("HOWDAH_LOAD_SEED", seed), ("HOWDAH_LOAD_CANCELS", 200)],
        ),
        (
            "fuzz",
            vec![("HOWDAH_FUZZ_SEED", seed), ("HOWDAH_FUZZ_SECONDS", 120)],
        ),
        (
            "fuzz_records",
            vec![("HOWDAH_FUZZ_SEED", seed), ("HOWDAH_FUZZ_SECONDS", 60)],
        ),
        (
            "visibility",
            vec![
                ("HOWDAH_VISIBILITY_SEED", seed),
                ("HOWDAH_VISIBILITY_SCRIPTS", 8),
            ],
        ),
        (
            "upkeep",
            vec![
                ("HOWDAH_UPKEEP_ROUNDS", 50),
                ("HOWDAH_UPKEEP_LOCKED_ROWS", 2_000_000),
            ],
        ),
    ]
}

/// Runs rounds until the time is up or one fails.
///
/// # Errors
/// When the tests cannot be built or started.
pub fn run(paths: &Paths, options: &Options) -> anyhow::Result<ExitCode> {
    scratch::sweep(paths);
    let programs = SoakPrograms::build(paths)?;
    let started = Instant::now();
    let time = Duration::from_secs(options.minutes * 60);
    // Seconds since the epoch: new every time, and short enough to type.
    let first_seed = options.seed.unwrap_or_else(|| {
        std::time::UNIX_EPOCH
            .elapsed()
            .map_or(1, |since| since.as_secs())
    });
    let mut total = Tally::default();
    for round in 0..options.rounds.unwrap_or(u64::MAX) {
        if round > 0 && started.elapsed() >= time {
            break;
        }
        let seed = first_seed + round;
        eprintln!("round {} with seed {seed}", round + 1);
        for (program, settings) in parts(seed) {
            total.add(programs.run(program, &settings)?);
        }
        if round == 0 {
            total.add(test::forced_suites(paths)?);
        }
        total.add(test::perl_tests(paths, seed.is_multiple_of(2))?);
        if total.failed > 0 {
            eprintln!("to repeat: ./howdah soak --seed {seed} --rounds 1");
            break;
        }
    }
    for failure in &total.failures {
        eprintln!("  {failure}");
    }
    eprintln!("the soak took {}", units::duration(started.elapsed()));
    println!("{total}");
    Ok(if total.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
