//! Heap and howdah side by side: generated scripts run in two worlds, databases of one server
//! that differ in nothing but their default access method; whatever a client can see is compared.
//!
//! ```text
//!   seed ─► Author (schema, statements, ddl) ─┬─ alone     one session, every kind of statement
//!                                             └─ together  2 to 4 sessions that collide
//!                     │ Script: setup, steps
//!                     ▼
//!   play:  each step in the howdah world, then in the heap world:
//!          who ended, who waits, rows, row counts, SQLSTATEs; contents when nothing is open
//!                     │ a difference
//!                     ▼
//!   minimize: leaves out steps while it still differs ─► the script, to be read and run by hand
//! ```
//!
//! Compaction runs between steps, in the howdah world only. A script is made whole before it
//! runs, so leaving out a step changes no other. No statement's outcome may depend on the
//! physical order of rows: several sessions read by the primary key's index, changed keys are
//! fresh ones, and rows without ORDER BY are sorted before they are compared.

mod alone;
mod author;
mod ddl;
mod kinds;
mod minimize;
mod play;
mod schema;
mod script;
mod session;
mod statements;
mod together;
mod worlds;

use anyhow::bail;

use crate::cluster::Primary;
use play::Verdict;
use script::Script;
pub use worlds::{Subject, Worlds};

/// Whether statements that change or lock cold rows work. Until they do, such a statement
/// (it ends with 0A000) is left out in the heap world too, and a script with several sessions
/// ends there.
pub const COLD_ROWS_CAN_CHANGE: bool = true;

/// Whether a transaction with an old snapshot can lock, change and conflict with a row that
/// compaction has moved since. Until it can, howdah may end with 40001 where heap does not; such
/// a statement is left out as above.
pub const MOVES_GO_UNNOTICED: bool = false;

/// One session or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Alone,
    Together,
}

/// The settings of a server that scripts run on: nothing moves rows but the scripts themselves,
/// deadlocks are found by whoever closes the circle, and serializable transactions lock whole
/// relations in both worlds, as they must where rows may move.
pub const SETTINGS: [(&str, &str); 6] = [
    ("howdah.compaction", "off"),
    ("autovacuum", "off"),
    ("deadlock_timeout", "8ms"),
    ("max_pred_locks_per_relation", "0"),
    ("max_pred_locks_per_page", "0"),
    ("max_prepared_transactions", "20"),
];

/// Runs the scripts of `seeds`; says how many could be run to their end.
///
/// # Errors
/// The first difference, minimized.
pub fn run(
    primary: &Primary,
    mode: Mode,
    subject: Subject,
    seeds: std::ops::Range<u64>,
) -> anyhow::Result<u64> {
    let mut worlds = Worlds::create(primary, subject)?;
    let mut finished_count = 0;
    for seed in seeds {
        let script = script_of(mode, seed);
        match play::play(&mut worlds, &script)? {
            Verdict::Agreed => finished_count += 1,
            Verdict::CutShort => {}
            Verdict::Differs(difference) => {
                let first = difference.clone();
                let Some((smallest, difference)) =
                    minimize::minimize(&mut worlds, script, difference)?
                else {
                    println!("{mode:?}, seed {seed}: a race, not seen again: {first}");
                    continue;
                };
                bail!("{mode:?}, seed {seed}: {difference}\n{smallest}");
            }
        }
    }
    Ok(finished_count)
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
