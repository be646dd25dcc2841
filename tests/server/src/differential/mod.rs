//! Heap and howdah side by side: generated scripts run in two worlds, databases of one server
//! that differ in nothing but their default access method; whatever a client can see is compared.
//!
//! ```text
//!   seed ─► Author (schema, statements, ddl) ─┬─ alone     one session, every kind of statement
//!                                             └─ together  2 to 4 sessions that collide
//!                     │ Script: setup, steps
//!                     ▼
//!   play:  each step in the howdah world, then in the heap world:
//!          sessions that ended or wait, rows, row counts, SQLSTATEs; contents when idle
//!                     │ a difference
//!                     ▼
//!   minimize: leaves out steps while it still differs ─► the script, to be read and run by hand
//!                     │                       unless heap does the same with its rows elsewhere
//!   limits:  tells the differences that docs/limits.md names from faults, narrowly
//!   replay:  plays such a script again without reaching the limit, if possible
//! ```
//!
//! Compaction runs between steps, in the howdah world only. A script is generated whole before it
//! runs, so leaving out a step changes no other step. No statement's outcome may depend on the
//! physical order of rows: several sessions read by the primary key's index, changed keys are fresh
//! ones, and rows without ORDER BY are sorted before they are compared. Where an outcome does
//! depend on it, heap with its rows at other places shows the same difference.

mod alone;
mod author;
mod blocks;
mod ddl;
mod kinds;
mod limits;
mod minimize;
mod play;
mod replay;
mod schema;
mod script;
mod session;
mod statements;
mod tally;
mod together;
mod worlds;

use std::fs;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use howdah_cli::paths::Paths;

use crate::cluster::Primary;
use limits::Limit;
use play::Verdict;
use replay::{Played, agrees_elsewhere, depends_on_places, play_out};
use script::Script;
pub use tally::Tally;
pub use worlds::{Subject, Worlds};

/// One session or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Alone,
    Together,
}

/// The settings of a server that scripts run on: only the scripts themselves move rows, a deadlock
/// is found by the session that closes the cycle, and serializable transactions lock whole
/// relations in both worlds, as they must where rows may move.
pub const SETTINGS: [(&str, &str); 6] = [
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("deadlock_timeout", "8ms"),
    ("max_pred_locks_per_relation", "0"),
    ("max_pred_locks_per_page", "0"),
    ("max_prepared_transactions", "20"),
];

/// Scripts between two lines that report the progress of a run.
const SCRIPTS_PER_LINE: u64 = 200;

/// How a run is distributed and when it ends.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub first_seed: u64,
    pub script_count: u64,
    /// How often each script is played: the result may depend on concurrent activity.
    pub play_count: u64,
    /// Pairs of worlds that scripts are played in at the same time.
    pub worker_count: usize,
    /// Differences after which no further script is begun.
    pub most_differences: usize,
    /// Time after which no further script is begun.
    pub longest: Duration,
}

/// Runs the scripts of the seeds from the first one on, and counts what happened. Differences and
/// races are also written to files.
///
/// # Errors
/// When a script could not be played.
pub fn run(
    primary: &Primary,
    mode: Mode,
    subject: Subject,
    extent: Extent,
) -> anyhow::Result<Tally> {
    let next_play = AtomicU64::new(0);
    let end = extent.first_seed + extent.script_count;
    let difference_count = AtomicUsize::new(0);
    let started = Instant::now();
    let work = |mut worlds: Worlds<'_>| -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        while difference_count.load(Ordering::Relaxed) < extent.most_differences
            && started.elapsed() < extent.longest
        {
            let play = next_play.fetch_add(1, Ordering::Relaxed);
            let seed = extent.first_seed + play / extent.play_count;
            if seed >= end {
                break;
            }
            if play.is_multiple_of(SCRIPTS_PER_LINE) {
                let seconds = started.elapsed().as_secs();
                println!("{mode:?}: at seed {seed} after {seconds} s");
            }
            let known = tally.differences.len();
            try_seed(&mut worlds, mode, seed, &mut tally)
                .with_context(|| format!("{mode:?}, seed {seed}"))?;
            difference_count.fetch_add(tally.differences.len() - known, Ordering::Relaxed);
        }
        Ok(tally)
    };
    let all_worlds = (0..extent.worker_count)
        .map(|worker| Worlds::create(primary, subject, worker))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut total = Tally::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = all_worlds
            .into_iter()
            .map(|worlds| scope.spawn(|| work(worlds)))
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(tally) => total.add(tally?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(total)
    })
}

fn try_seed(
    worlds: &mut Worlds<'_>,
    mode: Mode,
    seed: u64,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let Played {
        script,
        verdict,
        avoided,
    } = play_out(worlds, script_of(mode, seed), tally)?;
    let limit = match &verdict {
        Verdict::CutShort(limit) => Some(limit),
        Verdict::Agreed => avoided.first(),
        Verdict::Differs(_) => None,
    };
    if let Some(limit) = limit {
        if *limit == Limit::Raced {
            keep(mode, seed, "raced", &script.to_string())?;
        }
        tally.limit(*limit);
        tally.cut_short_count += 1;
        tally.avoided_count += u64::from(verdict == Verdict::Agreed);
        return Ok(());
    }
    let Verdict::Differs(first) = verdict else {
        tally.finished_count += 1;
        return Ok(());
    };
    let Some((smallest, difference)) = minimize::minimize(worlds, script.clone(), first.clone())?
    else {
        let report = format!("{mode:?}, seed {seed}: a race, not seen again: {first}");
        println!("{report}");
        keep(mode, seed, "race", &format!("{report}\n{script}"))?;
        tally.races.push(report);
        return Ok(());
    };
    let report = format!("{mode:?}, seed {seed}: {difference}\n{smallest}");
    // The minimized script may differ in another way than the whole one did, so neither may remain
    // unexplained.
    if depends_on_places(worlds, &smallest)? && agrees_elsewhere(worlds, &script)? {
        keep(mode, seed, "places", &report)?;
        tally.limit(Limit::OtherPlaces);
        tally.cut_short_count += 1;
    } else {
        keep(mode, seed, "difference", &report)?;
        tally.differences.push(report);
    }
    Ok(())
}

fn keep(mode: Mode, seed: u64, what: &str, report: &str) -> anyhow::Result<()> {
    write_report(
        &format!("{mode:?}-{seed}-{what}.sql").to_lowercase(),
        report,
    )
}

/// Writes a report beside the servers' directories, where it outlives them.
///
/// # Errors
/// When the file cannot be written.
pub fn write_report(name: &str, report: &str) -> anyhow::Result<()> {
    let directory = Paths::from_environment()?.home.join("differences");
    fs::create_dir_all(&directory)?;
    let file = directory.join(name);
    fs::write(&file, report).with_context(|| format!("cannot write {}", file.display()))
}

fn script_of(mode: Mode, seed: u64) -> Script {
    match mode {
        Mode::Alone => alone::script(seed),
        Mode::Together => together::script(seed),
    }
}

/// A small deterministic generator (SplitMix64), so that a seed names a script for ever.
pub struct Dice(u64);

impl Dice {
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.roll() % limit as u64) as usize
    }

    /// True once in `n` rolls.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
