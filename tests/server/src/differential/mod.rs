//! Heap and howdah side by side: generated schemas, data and statements run on two tables that
//! differ in nothing but their access method; outcomes and contents are compared.
//!
//! ```text
//!   seed ──> generate: Case ──> statements with {t} for the table
//!                                │ run on howdah, then on heap (savepoint each)
//!                                ▼
//!                compare: row counts, SQLSTATEs; now and then the whole contents and
//!                         filtered reads under plans forced one way or another
//! ```
//!
//! A statement that howdah refuses with 0A000 because it would change a cold row is skipped on
//! heap too; nothing else may differ.

mod generate;
mod run;

pub use run::run_case;

/// A small deterministic generator (SplitMix64), so that a seed names a case for ever.
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
