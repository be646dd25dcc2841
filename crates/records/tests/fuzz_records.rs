//! The fuzz target of records, driven by random inputs for a limited time: an input that panics is
//! printed in full. `HOWDAH_FUZZ_SECONDS` and `HOWDAH_FUZZ_SEED` choose longer and other runs.

#[path = "../../../fuzz/src/records.rs"]
mod target;

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A generator of numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Bytes of which many are zero, as counts and flags are; some are long enough for a whole
    /// deletion vector.
    fn bytes(&mut self) -> Vec<u8> {
        let length = match self.next() % 8 {
            0 => 4_096 + self.next() % 64,
            1 => self.next() % 8_200,
            _ => self.next() % 64,
        };
        let zeros = self.next() % 4;
        (0..=length)
            .map(|_| match self.next() % 4 < zeros {
                true => 0,
                false => self.next() as u8,
            })
            .collect()
    }
}

#[test]
fn records_give_an_error_or_a_value_for_every_input() {
    let seed = number("HOWDAH_FUZZ_SEED", 1);
    let random = &mut Random(seed);
    let end = Instant::now() + Duration::from_secs(number("HOWDAH_FUZZ_SECONDS", 3));
    let mut count = 0u64;
    while Instant::now() < end {
        let input = random.bytes();
        let run = catch_unwind(|| target::records(&input));
        assert!(run.is_ok(), "seed {seed}, input {count}: {input:?}");
        count += 1;
    }
    assert!(count > 100, "{count} inputs only");
    println!("{count} inputs");
}
