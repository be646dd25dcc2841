//! Numbers in pages: a row costs its page, not the chunk, and neighbours nothing more.

mod generate;

use generate::recorder::{Recorder, stored};
use generate::{Random, agreement, same};
use howdah_columnar::{
    ColumnType, Effort, GroupLayout, OwnedNumeric, OwnedValue, ReadUnit, RowState,
};

const ROWS: usize = 40_000;

/// A line with noise, which nothing stores in fewer bytes than pco.
fn rows(random: &mut Random, ty: ColumnType, nulls: u64) -> Vec<Option<OwnedValue>> {
    let value = |row: i64, noise: i64| match ty {
        ColumnType::Int64 => OwnedValue::Int64(row * 1_000 + noise * noise),
        ColumnType::Float64 => OwnedValue::Float64((row * 1_000 + noise * noise) as f64 / 7.0),
        ColumnType::Numeric => OwnedValue::Numeric(OwnedNumeric::Small {
            unscaled: (row * 1_000 + noise * noise).into(),
            scale: 2,
        }),
        _ => OwnedValue::Int32((row * 300 + noise * noise) as i32),
    };
    (0..ROWS as i64)
        .map(|row| {
            let noise = random.below(70) as i64;
            (random.below(100) >= nulls).then(|| value(row, noise))
        })
        .collect()
}

#[test]
fn a_row_costs_its_page() {
    let random = &mut Random(53);
    let mut in_pages = 0;
    for ty in [
        ColumnType::Int32,
        ColumnType::Int64,
        ColumnType::Float64,
        ColumnType::Numeric,
    ] {
        for nulls in [0, 1, 60] {
            let rows = rows(random, ty, nulls);
            let bytes = stored(ty, &rows, Effort::Best);
            let recorder = Recorder::new(&bytes);
            let layout = GroupLayout::read(&recorder).expect("reads");
            let meta = layout.column(0, &recorder).expect("reads");
            let what = format!("{ty:?}, {nulls} % nulls, {}", meta.encoding);
            let access = layout.row_access(0, &recorder).expect("plans");
            if !meta.encoding.contains("pco") {
                println!("not in pages: {what}");
                continue;
            }
            assert_eq!(access.unit(), ReadUnit::Frame, "{what}");
            in_pages += 1;
            let mut state = RowState::default();
            let mut check = |row: usize| {
                recorder.take();
                let value = access.value(row as u32, &recorder, &mut state);
                let wanted = rows[row].as_ref().map(OwnedValue::as_value);
                assert!(same(value.expect("reads"), wanted), "row {row} of {what}");
                let read: u64 = recorder.take().iter().map(|it| it.end - it.start).sum();
                read
            };
            let chunk_len = meta.byte_range.end - meta.byte_range.start;
            let valid = (100..ROWS).find(|&row| rows[row].is_some());
            let first = check(valid.expect("not all are null"));
            assert!(
                first * 3 < chunk_len * 2,
                "{first} bytes for one row of {chunk_len}: {what}"
            );
            let near: u64 = (60..164).map(&mut check).sum();
            assert_eq!(near, 0, "bytes for neighbours: {what}");
            // In their order, and in any other.
            let all: u64 = (0..ROWS).map(&mut check).sum();
            assert!(all <= chunk_len, "{all} bytes of {chunk_len}: {what}");
            // They are kept.
            for _ in 0..2_000 {
                assert_eq!(check(random.below(ROWS as u64) as usize), 0, "{what}");
            }
            let beyond = access.value(ROWS as u32, &recorder, &mut state);
            assert!(beyond.is_err(), "{what}");
        }
    }
    assert!(in_pages > 6, "only {in_pages} columns lie in pages");
}

/// All ways of reading give what decoding gives, or an error; also where bytes are damaged.
#[test]
fn pages_are_read_in_all_ways_alike() {
    let random = &mut Random(59);
    for ty in [ColumnType::Int32, ColumnType::Float64, ColumnType::Numeric] {
        for nulls in [0, 30] {
            let rows = rows(random, ty, nulls);
            let intact = stored(ty, &rows, Effort::Best);
            let was_read = agreement::check(&intact, 0, random);
            assert_eq!(was_read, Ok(true), "{ty:?}, {nulls} % nulls");
            for _ in 0..12 {
                let mut bytes = intact.clone();
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
                let checked = agreement::check(&bytes, 0, random);
                assert!(checked.is_ok(), "{ty:?}, byte {at}: {checked:?}");
            }
        }
    }
}
