//! Whatever the data: reading gives back what was written, filters agree with the plain
//! evaluation, and statistics never contradict it.

mod generate;

use generate::predicates::predicates;
use generate::{
    ALL_SHAPES, NULLS, Nulls, Random, Shape, TYPES, column, is_image, open, row_group, same,
};
use howdah_columnar::{
    Chunk, ColumnMeta, ColumnType, ColumnarError, CompareOp, Effort, EncodeOptions, Footer,
    MAX_ROWS, OwnedValue, Predicate, Value, Verdict, compare,
};
use proptest::prelude::*;

type Columns = Vec<(ColumnType, Vec<Option<OwnedValue>>)>;

fn check_reads(chunk: &Chunk, rows: &[Option<OwnedValue>], random: &mut Random) {
    let expected = |row: usize| rows[row].as_ref().map(OwnedValue::as_value);
    let whole = chunk.decode().expect("decodes");
    assert_eq!(whole.len(), rows.len());
    assert_eq!(
        whole.null_count(),
        rows.iter().filter(|row| row.is_none()).count()
    );
    for row in 0..rows.len() {
        assert!(same(whole.value(row), expected(row)), "row {row}");
    }
    for _ in 0..4 {
        let start = random.below(rows.len() as u64 + 1) as usize;
        let end = start + random.below((rows.len() - start) as u64 + 1) as usize;
        let part = chunk.decode_range(start..end).expect("decodes a range");
        assert_eq!(part.len(), end - start);
        for row in start..end {
            assert!(
                same(part.value(row - start), expected(row)),
                "row {row} of {start}..{end}"
            );
        }
        let step = 1 + random.below(rows.len() as u64);
        let selection: Vec<u32> = (start as u32..rows.len() as u32)
            .filter(|_| random.below(step) == 0)
            .collect();
        let part = chunk
            .decode_selection(&selection)
            .expect("decodes a selection");
        assert_eq!(part.len(), selection.len());
        for (at, &row) in selection.iter().enumerate() {
            assert!(
                same(part.value(at), expected(row as usize)),
                "selected row {row}"
            );
        }
    }
    assert!(matches!(
        chunk.decode_range(rows.len()..rows.len() + 1),
        Err(ColumnarError::OutOfRange { .. })
    ));
}

/// The plain evaluation; `None` where an image was met.
fn naive(predicate: &Predicate, rows: &[Option<OwnedValue>]) -> Option<Vec<bool>> {
    rows.iter()
        .map(|row| predicate.matches(row.as_ref().map(OwnedValue::as_value)))
        .collect()
}

fn contradicts(verdict: Verdict, matches: &[bool]) -> bool {
    match verdict {
        Verdict::None => matches.iter().any(|&m| m),
        Verdict::All => matches.iter().any(|&m| !m),
        Verdict::Some => false,
    }
}

fn check_filters(
    chunk: &Chunk,
    meta: &ColumnMeta,
    rows: &[Option<OwnedValue>],
    random: &mut Random,
) {
    for predicate in predicates(meta.ty, rows, random) {
        let start = random.below(rows.len() as u64) as usize / 2;
        let end = rows.len() - random.below((rows.len() - start) as u64) as usize / 2;
        let plain = naive(&predicate, &rows[start..end]);
        match (chunk.filter(&predicate, start..end), plain) {
            (Ok(fast), Some(plain)) => {
                let fast: Vec<bool> = fast.iter().collect();
                assert_eq!(fast, plain, "{predicate:?} on {} {}", start, meta.encoding);
            }
            (Err(ColumnarError::NotComparable), _) => {
                let images = rows.iter().flatten().any(is_image);
                assert!(images || format!("{predicate:?}").contains("Image"));
            }
            (fast, plain) => panic!("{predicate:?}: {fast:?} against {plain:?}"),
        }
        for zone in 0..meta.zones().len() {
            if let Some(plain) = naive(&predicate, &rows[meta.zone_rows(zone)]) {
                let verdict = meta.zone_verdict(zone, &predicate);
                assert!(
                    !contradicts(verdict, &plain),
                    "{predicate:?}: {verdict:?} for {zone}"
                );
            }
        }
        if let Some(plain) = naive(&predicate, rows) {
            let verdict = meta.chunk_verdict(&predicate);
            assert!(!contradicts(verdict, &plain), "{predicate:?}: {verdict:?}");
        }
    }
}

fn check_stats(meta: &ColumnMeta, rows: &[Option<OwnedValue>]) {
    let stats = &meta.stats;
    let present: Vec<&OwnedValue> = rows.iter().flatten().collect();
    assert_eq!(stats.row_count, rows.len());
    assert_eq!(stats.null_count, rows.len() - present.len());
    for extreme in [&stats.min, &stats.max].into_iter().flatten() {
        assert!(present.iter().any(|value| {
            compare(value.as_value(), extreme.as_value()) == Some(std::cmp::Ordering::Equal)
        }));
    }
    let integers: Option<i128> = present
        .iter()
        .map(|value| match value {
            OwnedValue::Int16(v) => Some(i128::from(*v)),
            OwnedValue::Int32(v) => Some(i128::from(*v)),
            OwnedValue::Int64(v) => Some(i128::from(*v)),
            _ => None,
        })
        .sum();
    if let Some(sum) = integers {
        assert_eq!(stats.sum, (!present.is_empty()).then_some(sum));
    }
    let distinct = stats.distinct_estimate.expect("always estimated");
    assert!(distinct <= present.len() as u64);
    assert_eq!(distinct == 0, present.is_empty());
}

fn check(rows: Columns, options: impl Into<EncodeOptions>, random: &mut Random) {
    let builder = row_group(&rows);
    let encoded = builder.encode(options).expect("encodes");
    let footer = Footer::parse(&encoded.footer).expect("parses");
    assert_eq!(
        Footer::encoded_len(&encoded.footer).expect("header"),
        encoded.footer.len()
    );
    assert_eq!(footer.body_len(), encoded.body.len() as u64);
    for (at, (_, rows)) in rows.iter().enumerate() {
        let meta = footer.column(at);
        let chunk = open(&footer, &encoded.body, at);
        for (row, value) in rows.iter().enumerate() {
            let expected = value.as_ref().map(OwnedValue::as_value);
            assert!(same(builder.value(at, row), expected));
        }
        check_reads(&chunk, rows, random);
        check_stats(meta, rows);
        check_filters(&chunk, meta, rows, random);
        // What lies in the same chunk is read of it.
        let first = footer.layout().first_of_group(at);
        let first = first.map(|first| (first, open(&footer, &encoded.body, first)));
        let others = first.iter().filter(|&&(first, _)| first < at);
        for (first, chunk) in others {
            assert_eq!(footer.column(*first).byte_range, meta.byte_range);
            let same = chunk.of_other_column(meta).expect("is of the group");
            check_reads(&same, rows, random);
        }
        assert_eq!(first.is_some(), meta.encoding.starts_with("grouped"));
        assert!(first.is_some() || chunk.of_other_column(meta).is_none());
    }
}

/// Some columns, most of them of strings, that are to be grouped.
fn group_of_columns(
    row_count: usize,
    effort: Effort,
    random: &mut Random,
) -> (Columns, EncodeOptions) {
    let types = [
        ColumnType::Text,
        ColumnType::Text,
        ColumnType::Bytes,
        ColumnType::Fixed { len: 16 },
        ColumnType::Int32,
    ];
    let columns: Vec<_> = (0..2 + random.below(5))
        .map(|_| {
            let ty = types[random.below(5) as usize];
            let shape = ALL_SHAPES[random.below(ALL_SHAPES.len() as u64) as usize];
            let nulls = NULLS[random.below(NULLS.len() as u64) as usize];
            (ty, column(ty, shape, nulls, row_count, random))
        })
        .collect();
    let grouped = (0..columns.len() + 1)
        .filter(|_| random.below(5) > 0)
        .collect();
    (columns, EncodeOptions { effort, grouped })
}

fn effort() -> impl Strategy<Value = Effort> {
    prop_oneof![
        Just(Effort::Fast),
        Just(Effort::Default),
        Just(Effort::Best)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn reading_and_filtering_agree_with_the_rows_written(
        seed in any::<u64>(),
        row_count in prop_oneof![1usize..4, 1usize..300, 300usize..3_000],
        ty in prop::sample::select(&TYPES[..]),
        shape in prop::sample::select(&ALL_SHAPES[..]),
        nulls in prop::sample::select(&NULLS[..]),
        effort in effort(),
    ) {
        let random = &mut Random(seed);
        let rows = column(ty, shape, nulls, row_count, random);
        check(vec![(ty, rows)], effort, random);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn grouped_columns_agree_with_the_rows_written(
        seed in any::<u64>(),
        row_count in prop_oneof![1usize..4, 1usize..300, 300usize..3_000],
        effort in effort(),
    ) {
        let random = &mut Random(seed);
        let (columns, options) = group_of_columns(row_count, effort, random);
        check(columns, options, random);
    }
}

/// Strings of many rows are decoded some at a time.
#[test]
fn grouped_columns_of_many_rows_round_trip() {
    let random = &mut Random(99);
    let columns = [Shape::Anything, Shape::Letters, Shape::Rising].map(|shape| {
        let ty = ColumnType::Text;
        (ty, column(ty, shape, Nulls::Rarely, 20_000, random))
    });
    let options = EncodeOptions {
        effort: Effort::Default,
        grouped: vec![0, 1, 2],
    };
    let encoded = row_group(&columns)
        .encode(options.clone())
        .expect("encodes");
    let footer = Footer::parse(&encoded.footer).expect("parses");
    assert_eq!(footer.column(2).encoding, footer.column(0).encoding);
    assert!(footer.column(2).encoding.starts_with("grouped("));
    assert_eq!(footer.layout().first_of_group(2), Some(0));
    check(columns.to_vec(), options, random);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn zones_agree_with_the_rows_written(
        seed in any::<u64>(),
        row_count in 8_190usize..20_000,
        ty in prop::sample::select(&TYPES[..]),
        shape in prop::sample::select(&ALL_SHAPES[..]),
        nulls in prop::sample::select(&NULLS[..]),
    ) {
        let random = &mut Random(seed);
        let rows = column(ty, shape, nulls, row_count, random);
        check(vec![(ty, rows)], Effort::Default, random);
    }
}

#[test]
fn every_type_shape_and_null_pattern_round_trips() {
    let random = &mut Random(7);
    for ty in TYPES {
        for shape in ALL_SHAPES {
            for nulls in NULLS {
                for effort in [Effort::Fast, Effort::Default, Effort::Best] {
                    let rows = column(ty, shape, nulls, 700, random);
                    check(vec![(ty, rows)], effort, random);
                }
            }
        }
    }
}

#[test]
fn a_full_row_group_of_every_type_round_trips() {
    let random = &mut Random(42);
    for (ty, shape) in TYPES
        .into_iter()
        .zip(ALL_SHAPES.into_iter().cycle().skip(1))
    {
        let rows = column(ty, shape, Nulls::Rarely, MAX_ROWS, random);
        check(vec![(ty, rows)], Effort::Default, random);
    }
}

#[test]
fn a_row_group_without_columns_or_of_many_columns_works() {
    let mut builder = howdah_columnar::RowGroupBuilder::new(&[]);
    builder.finish_row();
    let encoded = builder.encode(Effort::Default).expect("encodes");
    let footer = Footer::parse(&encoded.footer).expect("parses");
    assert_eq!((footer.row_count(), footer.column_count()), (1, 0));

    let random = &mut Random(3);
    let columns = (0..1_600)
        .map(|at| {
            let ty = TYPES[at % TYPES.len()];
            (
                ty,
                column(
                    ty,
                    ALL_SHAPES[at % ALL_SHAPES.len()],
                    Nulls::Often,
                    5,
                    random,
                ),
            )
        })
        .collect();
    check(columns, Effort::Fast, random);
}

#[test]
fn too_few_and_too_many_rows_are_refused() {
    let mut builder = howdah_columnar::RowGroupBuilder::new(&[ColumnType::Bool]);
    assert!(matches!(
        builder.encode(Effort::Fast),
        Err(ColumnarError::RowCount { rows: 0 })
    ));
    for _ in 0..=MAX_ROWS {
        builder.column_mut(0).push_bool(true);
        builder.finish_row();
    }
    assert!(matches!(
        builder.encode(Effort::Fast),
        Err(ColumnarError::RowCount { .. })
    ));
    builder.clear();
    assert_eq!((builder.row_count(), builder.raw_bytes()), (0, 0));
}

#[test]
fn reordered_rows_are_the_same_rows() {
    let random = &mut Random(5);
    let columns: Vec<_> = TYPES
        .into_iter()
        .map(|ty| (ty, column(ty, Shape::Extremes, Nulls::Often, 200, random)))
        .collect();
    let builder = row_group(&columns);
    let order: Vec<u32> = (0..200).rev().collect();
    let turned = builder.reordered(&order);
    for at in 0..columns.len() {
        for row in 0..200 {
            assert!(same(turned.value(at, row), builder.value(at, 199 - row)));
        }
    }
}

#[test]
fn a_predicate_of_another_kind_of_type_is_refused() {
    let rows = column(
        ColumnType::Text,
        Shape::Anything,
        Nulls::Never,
        9,
        &mut Random(1),
    );
    let encoded = row_group(&[(ColumnType::Text, rows)])
        .encode(Effort::Fast)
        .expect("encodes");
    let footer = Footer::parse(&encoded.footer).expect("parses");
    let predicate = Predicate::Compare {
        op: CompareOp::Eq,
        value: OwnedValue::Int32(1),
    };
    assert_eq!(footer.column(0).chunk_verdict(&predicate), Verdict::Some);
    assert!(matches!(
        open(&footer, &encoded.body, 0).filter(&predicate, 0..9),
        Err(ColumnarError::TypeMismatch {
            ty: ColumnType::Text
        })
    ));
}

#[test]
fn encoding_stops_at_any_of_its_steps() {
    let mut builder =
        howdah_columnar::RowGroupBuilder::new(&[ColumnType::Int64, ColumnType::Bytes]);
    for row in 0..20_000u32 {
        let document = format!("{{\"id\": {row}, \"name\": \"name{}\"}}", row * 7 % 91);
        builder.column_mut(0).push(Some(Value::Int64(row.into())));
        (builder.column_mut(1)).push(Some(Value::Bytes(document.as_bytes())));
        builder.finish_row();
    }
    let asked = std::cell::Cell::new(0);
    let encoded = builder.encode_unless(Effort::Best, &|| {
        asked.set(asked.get() + 1);
        false
    });
    let steps = asked.get();
    assert!(steps > 20, "asked {steps} times: once a frame at least");
    let whole = builder.encode(Effort::Best).expect("encodes");
    assert_eq!(encoded.expect("encodes").body, whole.body);
    for last in [1, 2, 5, steps] {
        asked.set(0);
        let stopped = builder.encode_unless(Effort::Best, &|| {
            asked.set(asked.get() + 1);
            asked.get() == last
        });
        assert!(matches!(stopped, Err(ColumnarError::Stopped)));
        assert_eq!(asked.get(), last, "it stops at once");
    }
}
