//! Runs over chunks with changed bytes: an error, or a result, which may be another one because
//! nothing checks these bytes here; never a panic that escapes, a run without end, or memory
//! without bound.

use std::time::{Duration, Instant};

use howdah_columnar::Footer;
use howdah_vector::VectorError;
use howdah_vector::operators::Compiled;

use super::generate::{Random, pieces, query, table};
use super::{options, run_pieces};

const CASES: u64 = 150;

#[test]
fn damaged_chunks_end_a_run_with_an_error_or_a_result() {
    let began = Instant::now();
    let (mut results, mut errors, mut panics) = (0, 0, 0);
    // Panics of the libraries that decode are caught, and need not be printed.
    std::panic::set_hook(Box::new(|_| {}));
    for seed in 0..CASES {
        let random = &mut Random(seed ^ 0xDA_4A6E);
        let row_count = 1 + random.below(2_000) as usize;
        let table = table(random, row_count);
        let query = query(random, &table);
        let mut pieces = pieces(random, &table);
        for (encoded, footer) in pieces.iter_mut().filter_map(|piece| piece.encoded.as_mut()) {
            for _ in 0..random.below(5) {
                let len = encoded.body.len() as u64;
                if len > 0 {
                    let at = random.below(len) as usize;
                    encoded.body[at] = random.next() as u8;
                }
            }
            // Statistics that are still a footer, but not that of the chunks.
            if random.one_in(3) {
                let mut changed = encoded.footer.clone();
                let at = random.below(changed.len() as u64) as usize;
                changed[at] ^= 1 << random.below(8);
                let start = footer.layout().footer_len() as u64;
                let end = start + encoded.body.len() as u64;
                if let Ok(parsed) = Footer::parse(&changed)
                    && parsed.column_count() == footer.column_count()
                    && parsed.row_count() == footer.row_count()
                    && parsed.layout().footer_len() as u64 == start
                    && (0..parsed.column_count()).all(|at| {
                        let range = &parsed.column(at).byte_range;
                        start <= range.start && range.start <= range.end && range.end <= end
                    })
                {
                    (encoded.footer, *footer) = (changed, parsed);
                }
            }
        }
        let compiled = Compiled::compile(&query).expect("compiles");
        let threads = random.pick(&[0, 2]);
        match run_pieces(
            &compiled,
            &options(threads, 4),
            &table,
            &pieces,
            random.one_in(2),
        ) {
            Ok(_) => results += 1,
            Err(VectorError::Panicked { .. }) => panics += 1,
            Err(_) => errors += 1,
        }
    }
    let _ = std::panic::take_hook();
    println!("{results} results, {errors} errors, {panics} of panics");
    assert!(
        errors > 0 && results > 0,
        "{results} results, {errors} errors"
    );
    assert!(began.elapsed() < Duration::from_secs(120));
}
