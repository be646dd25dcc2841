//! Columns of several zones: sorted ones and others, with exceptions, runs and words by the
//! thousand, so that readers search over blocks of positions.
//!
//! The generator must never change: golden files hold its rows.

use super::{Nulls, Random};
use howdah_columnar::{ColumnType, Effort, OwnedNumeric, OwnedValue};

/// Two whole zones and a part of a third one.
pub const ROWS: usize = 16_600;

pub type Rows = Vec<Option<OwnedValue>>;

/// A value by its row.
type Make = fn(u64, &mut Random) -> OwnedValue;

/// The columns, and which of them are to lie side by side.
pub fn columns(effort: Effort) -> (Vec<(ColumnType, Rows)>, Vec<usize>) {
    use ColumnType::{Bool, Bytes, Fixed, Float32, Float64, Int16, Int32, Int64, Numeric, Text};
    use Nulls::{Always, Mostly, Never, Often, Rarely};
    let random = &mut Random(2050 + effort as u64);
    let made: [(ColumnType, Nulls, Make); 35] = [
        (Bool, Rarely, |row, random| {
            OwnedValue::Bool(row >= 16_384 || row >= 8_192 && random.below(2) == 0)
        }),
        (Int16, Never, |row, _| {
            OwnedValue::Int16(row as i16 / 7 - 900)
        }),
        (Int16, Often, |_, random| {
            OwnedValue::Int16(random.below(90) as i16 - 45)
        }),
        (Int32, Rarely, |_, random| {
            let outlier = random.below(8) == 0;
            OwnedValue::Int32(random.below(if outlier { 1 << 30 } else { 30 }) as i32)
        }),
        (Int32, Never, |_, random| {
            let outlier = random.below(9) == 0;
            OwnedValue::Int32(random.below(if outlier { 1 << 30 } else { 12 }) as i32)
        }),
        // Runs of 7 rows.
        (Int32, Never, |row, _| {
            OwnedValue::Int32((row / 7 * 7_919 % 1_009) as i32 - 500)
        }),
        // Most rows have one value.
        (Int32, Never, |_, random| {
            OwnedValue::Int32(match random.below(13) {
                0 => random.below(50_000) as i32 - 25_000,
                _ => 7,
            })
        }),
        (Int32, Mostly, |row, random| {
            OwnedValue::Int32((row * 5 + random.below(5)) as i32)
        }),
        (Int64, Never, |row, _| {
            OwnedValue::Int64(row as i64 * 3 - 1_000)
        }),
        (Int64, Rarely, |row, random| {
            OwnedValue::Int64(row as i64 * 50 + random.below(50) as i64)
        }),
        // Bounds of zones that need 8 bytes.
        (Int64, Mostly, |row, random| {
            let far = [i64::MIN, 0, i64::MAX - 999][row as usize / 8_192];
            OwnedValue::Int64(far + random.below(999) as i64)
        }),
        (Int64, Always, |row, _| OwnedValue::Int64(row as i64)),
        (Float32, Rarely, |row, random| {
            OwnedValue::Float32((row / 4) as f32 * 0.5 + random.below(2) as f32)
        }),
        (Float32, Never, |row, random| {
            OwnedValue::Float32(match random.below(2_000) {
                0 if row < 8_192 => -0.0,
                1 if row > 16_384 => f32::NAN,
                _ => random.below(400) as f32 / 4.0,
            })
        }),
        // Decimals, and others among them.
        (Float64, Rarely, |_, random| {
            OwnedValue::Float64(match random.below(12) {
                0 => (1.0 + random.below(1 << 40) as f64).sqrt(),
                _ => random.below(10_000) as f64 / 100.0,
            })
        }),
        (Float64, Never, |row, _| {
            OwnedValue::Float64((row / 40) as f64 / 10.0 - 300.0)
        }),
        // Narrow floats, and wide ones in the last zone.
        (Float64, Mostly, |row, random| {
            OwnedValue::Float64(match row {
                0..16_384 => random.below(1_000) as f64 / 8.0,
                _ if random.below(20) == 0 => f64::NAN,
                _ => (2.0 + random.below(1 << 30) as f64).sqrt() / 3.0,
            })
        }),
        (Numeric, Never, |row, random| {
            small(i128::from(row) * 10 + i128::from(random.below(10)), 2)
        }),
        (Numeric, Rarely, |row, random| {
            small(i128::from(random.below(500)) - 250, 1 + (row % 2) as u16)
        }),
        (Numeric, Often, |_, random| {
            small(i128::from(random.below(100)) << 70, 3)
        }),
        // Images in the second zone alone.
        (Numeric, Mostly, |row, random| match row {
            8_192..16_384 if random.below(3) == 0 => {
                OwnedValue::Numeric(OwnedNumeric::Image(b"NaN".to_vec()))
            }
            _ => small(i128::from(random.below(90)) - 45, 2),
        }),
        (Text, Never, |row, random| {
            text(format!("k{:05}", row * 5 + random.below(5)))
        }),
        // Words by the thousand.
        (Text, Rarely, |_, random| {
            text(format!("word {}", random.below(1_500) * 7_919 % 9_973))
        }),
        // Runs of texts.
        (Text, Never, |row, _| {
            text(format!("run {}", row / 11 * 7_919 % 9_973))
        }),
        // Most rows have one text.
        (Text, Never, |_, random| match random.below(14) {
            0 => text(format!("rare {}", random.below(700))),
            _ => text("frequent".into()),
        }),
        // Long ones that begin in the same way: bounds are cut behind that.
        (Text, Mostly, |_, random| {
            text(format!(
                "https://example.org/archive/{:06}/öffentlich",
                random.below(1 << 19)
            ))
        }),
        // The second zone has no upper bound, and the third one no greatest value that is kept.
        (Text, Mostly, |row, random| match row {
            0..8_192 => text(format!("{:x}", random.below(1 << 24))),
            8_192..16_384 => text("\u{10ffff}".repeat(9 + random.below(3) as usize)),
            _ => text("z".repeat(257 + random.below(5) as usize)),
        }),
        // Unlike each other, so that only their letters repeat.
        (Text, Rarely, |_, random| {
            let syllable = |random: &mut Random| {
                ["ta", "ri", "mon", "ke", "lu", "sch", "o", "bar"][random.below(8) as usize]
            };
            text((0..3).map(|_| syllable(random)).collect())
        }),
        (Bytes, Often, |row, _| {
            OwnedValue::Bytes((row as u16 * 3).to_be_bytes().to_vec())
        }),
        // No value in the second zone, see below.
        (Bytes, Often, |_, random| {
            let len = random.below(3);
            OwnedValue::Bytes((0..len).map(|_| random.next() as u8).collect())
        }),
        (Bytes, Mostly, |row, random| {
            let name = random.below(40);
            let document = format!("{{\"row\": {row}, \"name\": \"name {name}\", \"of\": [1, 2]}}");
            OwnedValue::Bytes(document.into_bytes())
        }),
        (Fixed { len: 3 }, Often, |row, _| {
            OwnedValue::Bytes((row as u32 / 50).to_be_bytes()[1..].to_vec())
        }),
        (Fixed { len: 16 }, Mostly, |_, random| {
            let half = random.next().to_be_bytes();
            OwnedValue::Bytes([half, half].concat())
        }),
        (Fixed { len: 3 }, Rarely, |_, random| {
            OwnedValue::Bytes((0..3).map(|_| b"acgt"[random.below(4) as usize]).collect())
        }),
        (Fixed { len: 2 }, Never, |row, random| {
            OwnedValue::Bytes(vec![(row / 90) as u8, random.below(3) as u8])
        }),
    ];
    let mut columns = Vec::new();
    for (ty, nulls, make) in made {
        columns.push((ty, rows(nulls, make, random)));
    }
    columns[29].1[8_192..16_384].fill(None);
    let first = columns.len();
    let grouped: [(ColumnType, Nulls, Make); 3] = [
        (Text, Rarely, |_, random| {
            text(format!("{}", random.below(1 << 17)))
        }),
        (Bytes, Often, |_, random| {
            let len = 1 + random.below(2);
            OwnedValue::Bytes(random.next().to_be_bytes()[..len as usize].to_vec())
        }),
        (Fixed { len: 2 }, Never, |_, random| {
            OwnedValue::Bytes(random.next().to_be_bytes()[..2].to_vec())
        }),
    ];
    for (ty, nulls, make) in grouped {
        columns.push((ty, rows(nulls, make, random)));
    }
    let positions = (first..columns.len()).collect();
    (columns, positions)
}

fn rows(nulls: Nulls, make: Make, random: &mut Random) -> Rows {
    (0..ROWS as u64)
        .map(|row| {
            let value = make(row, random);
            (!nulls.next(random)).then_some(value)
        })
        .collect()
}

fn small(unscaled: i128, scale: u16) -> OwnedValue {
    OwnedValue::Numeric(OwnedNumeric::Small { unscaled, scale })
}

fn text(text: String) -> OwnedValue {
    OwnedValue::Text(text)
}
