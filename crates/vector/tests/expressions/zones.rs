//! Functions that depend on a time zone agree with the oracle, above all where clocks change.

use std::sync::Arc;

use howdah_columnar::{ColumnType, OwnedValue};
use howdah_vector::functions;
use howdah_vector::oracle::Datum;
use howdah_vector::plan::Expr;
use howdah_vector::zone::Zone;
use proptest::prelude::*;

use crate::check_function;
use crate::generate::{self, Random};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// A zone whose clocks change more than two days apart, by less than a day.
pub fn zone(random: &mut Random) -> Arc<Zone> {
    let (first, changes, end) = changes(random);
    Arc::new(Zone::new(first, &changes, end))
}

/// The first offset, the changes and the end.
fn changes(random: &mut Random) -> (i64, Vec<(i64, i64)>, i64) {
    let offset = |random: &mut Random| match random.below(4) {
        0 => 0,
        1 => (random.below(2 * 50_000) as i64 - 50_000) * SECOND,
        _ => (random.below(57) as i64 - 28) * 1_800 * SECOND,
    };
    let first = offset(random);
    let mut at = -(random.below(400) as i64) * DAY;
    let changes = (0..random.below(12)).map(|_| {
        at += (3 * 86_400 + random.below(300 * 86_400) as i64) * SECOND;
        (at, offset(random))
    });
    let changes = changes.collect();
    let end = match random.below(2) {
        0 => i64::MAX,
        _ => at + (3 + random.below(500) as i64) * DAY,
    };
    (first, changes, end)
}

/// Timestamps here and there, most of them near the changes, as moments and as clocks show them.
fn timestamps(first: i64, changes: &[(i64, i64)], end: i64, random: &mut Random) -> Vec<i64> {
    let mut timestamps = vec![0, i64::MIN, i64::MAX, end, end.saturating_sub(2 * DAY)];
    let mut before = first;
    for &(at, after) in changes {
        for near in [at, at + before, at + after] {
            let offsets = [-DAY, -SECOND, -1, 0, 1, SECOND - 1, SECOND, SECOND + 1, DAY];
            timestamps.extend(offsets.map(|offset| near + offset));
            let any = |_| near + random.below(3 * DAY as usize) as i64 - DAY;
            timestamps.extend((0..8).map(any));
        }
        before = after;
    }
    timestamps
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn clocks_show_what_the_oracle_says(seed in any::<u64>()) {
        let mut random = Random(seed);
        let (first, changes, end) = changes(&mut random);
        let zone = Arc::new(Zone::new(first, &changes, end));
        let timestamps = timestamps(first, &changes, end, &mut random);
        for function in functions::all().filter(|function| function.needs_zone()) {
            let argument = function.arguments.len() - 1;
            let ty = function.arguments[argument];
            let value = |&at: &i64| match ty {
                ColumnType::Int32 => OwnedValue::Int32(at.div_euclid(DAY) as i32),
                _ => OwnedValue::Int64(at),
            };
            let rows: Vec<Vec<Datum>> =
                timestamps.iter().map(|at| vec![Some(value(at))]).collect();
            for _ in 0..=20 * argument {
                let mut arguments = vec![Expr::Column(0)];
                if argument == 1 {
                    arguments.insert(0, generate::unit(&mut random));
                }
                let call = Expr::Zoned {
                    function: function.prosrc.to_owned(),
                    zone: zone.clone(),
                    arguments,
                };
                check_function(&call, &[ty], &rows);
            }
        }
    }
}
