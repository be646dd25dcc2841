//! Damaged bytes of valid row groups: ways of reading a column that can be decoded agree with what
//! it decodes to, or fail.
//!
//! `HOWDAH_FUZZ_SEED`, `HOWDAH_FUZZ_FIRST` and `HOWDAH_FUZZ_ROUNDS` choose other and longer runs,
//! or a single round that was reported.

mod generate;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use generate::{ALL_SHAPES, NULLS, Random, TYPES, agreement, column, row_group};
use howdah_columnar::{ColumnType, Effort, EncodeOptions, Footer, OwnedValue};

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

type Columns = Vec<(ColumnType, Vec<Option<OwnedValue>>)>;

/// Numbers of few bits, with a few others among them.
fn packed(ty: ColumnType, random: &mut Random) -> Vec<Option<OwnedValue>> {
    let bits = 1 + random.below(12);
    let rare = [0, 30, 200][random.below(3) as usize];
    let nulls = [0, 0, 9][random.below(3) as usize];
    (0..1_500)
        .map(|_| {
            let outlier = rare > 0 && random.below(rare) == 0;
            let number = random.below(1 << if outlier { 14 } else { bits });
            let value = match ty {
                ColumnType::Int16 => OwnedValue::Int16(number as i16),
                ColumnType::Int32 => OwnedValue::Int32(number as i32 - 100),
                ColumnType::Float32 => OwnedValue::Float32(number as f32 * 0.25),
                ColumnType::Float64 if outlier => OwnedValue::Float64((number as f64).sqrt()),
                ColumnType::Float64 => OwnedValue::Float64(number as f64 / 100.0),
                _ => OwnedValue::Int64(number as i64 + (1 << 40)),
            };
            (nulls == 0 || random.below(nulls) > 0).then_some(value)
        })
        .collect()
}

const PACKED: [ColumnType; 5] = [
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Float32,
    ColumnType::Float64,
];

/// Stored row groups of every type and shape, by themselves and side by side.
fn groups(random: &mut Random) -> Vec<Vec<u8>> {
    let mut groups = Vec::new();
    for effort in [Effort::Fast, Effort::Default, Effort::Best] {
        for shape in ALL_SHAPES {
            for nulls in NULLS {
                let mut columns: Columns = TYPES
                    .into_iter()
                    .map(|ty| (ty, column(ty, shape, nulls, 1_500, random)))
                    .collect();
                columns.extend(PACKED.into_iter().map(|ty| (ty, packed(ty, random))));
                let rows = row_group(&columns);
                for grouped in [Vec::new(), (0..TYPES.len()).collect()] {
                    let options = EncodeOptions { effort, grouped };
                    let group = rows.encode(options).expect("encodes");
                    groups.push([group.footer, group.body].concat());
                }
            }
        }
    }
    groups
}

/// Changes some of the bytes.
fn damage(bytes: &mut [u8], random: &mut Random) {
    let len = bytes.len() as u64;
    for _ in 0..1 + random.below(3) {
        let at = random.below(len) as usize;
        let count = (1 + random.below(12)).min(len - at as u64) as usize;
        let place = at..at + count;
        match random.below(8) {
            0..3 => bytes[at] ^= 1 << random.below(8),
            3 => bytes[at] = random.next() as u8,
            4 => bytes[at] = bytes[at].wrapping_add([1, 255][random.below(2) as usize]),
            5 => bytes[place].fill([0, 1, 127, 255][random.below(4) as usize]),
            6 => {
                let from = random.below(len - count as u64 + 1) as usize;
                bytes.copy_within(from..from + count, at);
            }
            _ => {
                let other = random.below(len - count as u64 + 1) as usize;
                (0..count).for_each(|nth| bytes.swap(at + nth, other + nth));
            }
        }
    }
}

#[test]
fn ways_of_reading_damaged_bytes_agree_or_fail() {
    let seed = number("HOWDAH_FUZZ_SEED", 3);
    let random = &mut Random(seed);
    let groups = groups(random);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut outcomes = [0; 2];
    let mut wrong: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let first = number("HOWDAH_FUZZ_FIRST", 0);
    for round in first..first + number("HOWDAH_FUZZ_ROUNDS", 2_000) {
        let random = &mut Random(seed << 32 | round);
        let mut bytes = groups[random.below(groups.len() as u64) as usize].clone();
        let footer = Footer::parse(&bytes).expect("parses");
        let at = random.below(footer.column_count() as u64) as usize;
        let meta = footer.column(at);
        let range = meta.byte_range.start as usize..meta.byte_range.end as usize;
        let footer_len = footer.layout().footer_len();
        let place = match random.below(4) {
            0 => 32 + 32 * footer.column_count()..footer_len,
            _ => range,
        };
        if place.is_empty() {
            continue;
        }
        damage(&mut bytes[place], random);
        let check = AssertUnwindSafe(|| agreement::check(&bytes, at, random));
        let result = catch_unwind(check).unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            Err(format!("panic: {}", text.unwrap_or("without text")))
        });
        match result {
            Ok(decoded) => outcomes[usize::from(decoded)] += 1,
            Err(text) => {
                let key: String = text.chars().take(14).collect();
                let key = format!("{} | {:?} {key}", meta.encoding, meta.ty);
                let entry = wrong.entry(key).or_default();
                *entry = (entry.0 + 1, format!("round {round}: {text:.200}"));
            }
        }
    }
    std::panic::set_hook(hook);
    for (key, (count, text)) in &wrong {
        println!("{count} {key}\n      {text}");
    }
    println!("{outcomes:?} errors and decoded");
    assert!(wrong.is_empty());
    assert!(outcomes.iter().all(|&count| count > 200), "{outcomes:?}");
}
