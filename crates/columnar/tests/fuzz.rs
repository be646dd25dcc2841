//! The fuzz targets of `fuzz/`, driven by random inputs for a limited time, so that what is called
//! a fuzzer is compiled and run by an ordinary compiler too; and golden files with changed bytes.
//!
//! `HOWDAH_FUZZ_SECONDS` and `HOWDAH_FUZZ_SEED` choose longer and other runs. An input that panics
//! is printed in full.

#[path = "../../../fuzz/src/row_groups.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::time::{Duration, Instant};

use targets::generate::{Random, TYPES};

/// All golden files, by name.
fn golden_files() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir("tests/golden").expect("the directory is there");
    let paths = entries.map(|entry| entry.expect("is readable").path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|it| it == "rowgroup"))
        .collect();
    paths.sort_unstable();
    let read = |path: std::path::PathBuf| {
        let bytes = std::fs::read(&path).expect("is readable");
        (path.display().to_string(), bytes)
    };
    paths.into_iter().map(read).collect()
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Random bytes, of which some are alike: changes then hit the same places.
fn input(random: &mut Random) -> Vec<u8> {
    let length = 4 + random.below(8) * random.below(12);
    (0..length)
        .map(|_| match random.below(4) {
            0 => random.pick_byte(&[0, 1, 127, 128, 255]),
            _ => random.next() as u8,
        })
        .collect()
}

trait Pick {
    fn pick_byte(&mut self, from: &[u8]) -> u8;
}

impl Pick for Random {
    fn pick_byte(&mut self, from: &[u8]) -> u8 {
        from[self.below(from.len() as u64) as usize]
    }
}

#[test]
fn targets_give_an_error_or_a_value_for_every_input() {
    let golden = golden_files();
    assert!(!golden.is_empty());
    let mut hits = vec![0u64; golden.len()];
    // Decoders catch what their libraries panic about: that is not printed.
    set_hook(Box::new(|_| {}));
    let seed = number("HOWDAH_FUZZ_SEED", 1);
    let random = &mut Random(seed);
    let end = Instant::now() + Duration::from_secs(number("HOWDAH_FUZZ_SECONDS", 4));
    let mut counts = [0u64; 4];
    while Instant::now() < end {
        let input = input(random);
        let which = random.below(4) as usize;
        // One after the other, so that a slow machine changes all of them, too.
        let file = counts[2] as usize % golden.len();
        let (name, bytes) = &golden[file];
        let ty = TYPES[random.below(TYPES.len() as u64) as usize];
        let run = AssertUnwindSafe(|| match which {
            0 => targets::footer(&input),
            1 => targets::nodes(&input),
            2 => targets::golden(bytes, &input),
            _ => targets::chunk(ty, &input),
        });
        if let Err(payload) = catch_unwind(run) {
            let _ = std::panic::take_hook();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.unwrap_or("a panic without text");
            panic!("seed {seed}: target {which} of {ty:?} or of {name}: {text}: {input:?}");
        }
        counts[which] += 1;
        hits[file] += u64::from(which == 2);
    }
    let _ = std::panic::take_hook();
    println!("{counts:?} inputs of footers, nodes, golden files, chunks");
    assert!(counts.iter().all(|&count| count > 10), "{counts:?}");
    assert!(
        hits.iter().all(|&count| count > 0),
        "{hits:?} inputs of golden files"
    );
}
