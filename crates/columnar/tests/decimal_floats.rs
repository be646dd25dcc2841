//! Floats that are short decimals, compared with constants right beside them, in every encoding
//! that such floats get.

mod generate;

use std::collections::BTreeSet;

use generate::{Random, open, row_group};
use howdah_columnar::{ColumnType, CompareOp, Effort, Footer, OwnedValue, Predicate};

const OPS: [CompareOp; 6] = [
    CompareOp::Eq,
    CompareOp::Ne,
    CompareOp::Lt,
    CompareOp::Le,
    CompareOp::Gt,
    CompareOp::Ge,
];
const ROWS: usize = 3_000;

/// Decimals with so many digits after the point, most of them far from each other.
fn decimals(shape: u64, random: &mut Random) -> Vec<f64> {
    let scale = 10f64.powi(1 + random.below(5) as i32);
    let factor = 1 + random.below(40_000);
    let start = random.below(1_000) as i64 - 500;
    let decimal = |nth: u64| (start + (nth * factor) as i64) as f64 / scale;
    (0..ROWS as u64)
        .map(|row| {
            decimal(match shape {
                // Some values again and again, in turn or in runs; all in their order; any.
                0 => random.below(50),
                1 => row / 100,
                2 => row,
                3 => random.below(1 << 40) / factor,
                _ => {
                    if row % 400 == 7 {
                        random.below(1 << 20)
                    } else {
                        3
                    }
                }
            })
        })
        .collect()
}

fn check(ty: ColumnType, with_nulls: bool, encodings: &mut BTreeSet<String>) {
    let random = &mut Random(77 + u64::from(with_nulls));
    for round in 0..60 {
        let floats = decimals(round % 5, random);
        let owned = |float: f64| match ty {
            ColumnType::Float32 => OwnedValue::Float32(float as f32),
            _ => OwnedValue::Float64(float),
        };
        let is_null = |row: usize| with_nulls && row % 11 == 5;
        let rows: Vec<Option<OwnedValue>> = (floats.iter().enumerate())
            .map(|(row, &float)| (!is_null(row)).then(|| owned(float)))
            .collect();
        let group = row_group(&[(ty, rows.clone())]);
        let effort = [Effort::Fast, Effort::Default, Effort::Best][random.below(3) as usize];
        let encoded = group.encode(effort).expect("encodes");
        let footer = Footer::parse(&encoded.footer).expect("parses");
        encodings.insert(footer.column(0).encoding.clone());
        let chunk = open(&footer, &encoded.body, 0);
        for _ in 0..12 {
            let float = floats[random.below(ROWS as u64) as usize];
            let constants = match ty {
                ColumnType::Float32 => {
                    let float = float as f32;
                    [
                        float.next_down(),
                        float,
                        float.next_up(),
                        float * 3.0 / 3.0,
                        0.1 * float,
                    ]
                    .map(OwnedValue::Float32)
                }
                _ => [
                    float.next_down(),
                    float,
                    float.next_up(),
                    float * 3.0 / 3.0,
                    0.1 * float,
                ]
                .map(OwnedValue::Float64),
            };
            for (value, op) in constants.iter().flat_map(|value| OPS.map(|op| (value, op))) {
                let value = value.clone();
                let predicate = Predicate::Compare { op, value };
                let start = random.below(ROWS as u64) as usize;
                let found = chunk.filter(&predicate, start..ROWS).expect("compares");
                for (at, row) in (start..ROWS).enumerate() {
                    let value = rows[row].as_ref().map(OwnedValue::as_value);
                    let expected = predicate.matches(value) == Some(true);
                    assert_eq!(
                        found.value(at),
                        expected,
                        "{predicate:?} of {value:?} in {}",
                        footer.column(0).encoding
                    );
                }
            }
        }
    }
}

#[test]
fn constants_beside_stored_decimals_fall_on_their_side() {
    for ty in [ColumnType::Float64, ColumnType::Float32] {
        let mut encodings = BTreeSet::new();
        for with_nulls in [false, true] {
            check(ty, with_nulls, &mut encodings);
        }
        let has = |part: &str| encodings.iter().any(|encoding| encoding.contains(part));
        for part in ["alp(dict(", "alp(runend", "alp(sparse(", "alp(bitpacked"] {
            assert!(has(part), "{ty:?}: {part} is not among {encodings:?}");
        }
    }
}
