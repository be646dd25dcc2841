//! Every encoded view says what decoding says, and conditions on selected rows what the plain
//! evaluation says.

mod generate;

use arrow_buffer::BooleanBuffer;
use generate::{ALL_SHAPES, NULLS, Nulls, Random, TYPES, column, open, row_group, same};
use howdah_columnar::{
    ColumnType, ColumnarError, CompareOp, Condition, Effort, EncodedView, Footer, OwnedValue,
    PackedView, Predicate, TextPattern, Value,
};

fn integer(ty: ColumnType, value: i64) -> Value<'static> {
    match ty {
        ColumnType::Int16 => Value::Int16(value as i16),
        ColumnType::Int32 => Value::Int32(value as i32),
        _ => Value::Int64(value),
    }
}

/// The name of the view, for the count of what was met.
fn check(ty: ColumnType, rows: &[Option<OwnedValue>], effort: Effort) -> &'static str {
    let encoded = row_group(&[(ty, rows.to_vec())])
        .encode(effort)
        .expect("encodes");
    let footer = Footer::parse(&encoded.footer).expect("parses");
    let view = open(&footer, &encoded.body, 0).view().expect("views");
    let expected = |row: usize| rows[row].as_ref().map(OwnedValue::as_value);
    let what = &footer.column(0).encoding;
    match view {
        EncodedView::Constant(one) => {
            (0..rows.len()).for_each(|row| assert!(same(one.value(0), expected(row)), "{what}"));
            "constant"
        }
        EncodedView::Sequence { base, step } => {
            for row in 0..rows.len() {
                let value = base.wrapping_add(step.wrapping_mul(row as i64));
                assert!(same(Some(integer(ty, value)), expected(row)), "{what}");
            }
            "sequence"
        }
        EncodedView::Runs { ends, values } => {
            assert_eq!(ends.last(), Some(&(rows.len() as u32)));
            for row in 0..rows.len() {
                let run = ends.partition_point(|&end| end as usize <= row);
                assert!(same(values.value(run), expected(row)), "{what}");
            }
            "runs"
        }
        EncodedView::Dict {
            codes,
            nulls,
            words,
        } => {
            assert_eq!(codes.len(), rows.len());
            for row in 0..rows.len() {
                let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                let value = match null {
                    true => None,
                    false => words.value(codes.get(row)),
                };
                assert!(same(value, expected(row)), "{what}");
            }
            "dict"
        }
        EncodedView::Packed(packed) => {
            assert_eq!(packed.row_count(), rows.len());
            let mut block = [0; PackedView::BLOCK_ROWS];
            for first in (0..rows.len()).step_by(PackedView::BLOCK_ROWS) {
                let at = first / PackedView::BLOCK_ROWS;
                let len = packed.unpack(at, &mut block).expect("unpacks");
                for (offset, &value) in block[..len].iter().enumerate() {
                    let value = Some(integer(ty, value));
                    assert!(same(value, expected(first + offset)), "{what}");
                }
            }
            let past = rows.len().div_ceil(PackedView::BLOCK_ROWS);
            assert!(packed.unpack(past, &mut block).is_err());
            "packed"
        }
        EncodedView::Plain(column) => {
            (0..rows.len()).for_each(|row| assert!(same(column.value(row), expected(row))));
            "plain"
        }
    }
}

#[test]
fn views_of_every_type_shape_and_null_pattern_agree_with_the_rows_written() {
    let random = &mut Random(2_222);
    let mut met = std::collections::BTreeSet::new();
    for ty in TYPES {
        for shape in ALL_SHAPES {
            for nulls in NULLS {
                for effort in [Effort::Fast, Effort::Default, Effort::Best] {
                    let rows = column(ty, shape, nulls, 2_500, random);
                    met.insert(check(ty, &rows, effort));
                }
            }
        }
    }
    for (ty, step) in [(ColumnType::Int32, 3), (ColumnType::Int64, -7)] {
        let rows: Vec<_> = (0..2_500)
            .map(|row| Some(OwnedValue::from(integer(ty, 11 + step * row))))
            .collect();
        met.insert(check(ty, &rows, Effort::Default));
    }
    for bits in [1, 5, 14] {
        let rows: Vec<_> = (0..2_500)
            .map(|_| Some(OwnedValue::Int16((random.next() % (1 << bits)) as i16)))
            .collect();
        met.insert(check(ColumnType::Int16, &rows, Effort::Fast));
    }
    let all = ["constant", "dict", "packed", "plain", "runs", "sequence"];
    assert_eq!(met.into_iter().collect::<Vec<_>>(), all);
}

/// Leaves about texts or values that the column has.
fn leaf(ty: ColumnType, rows: &[Option<OwnedValue>], random: &mut Random) -> Condition {
    let present: Vec<&OwnedValue> = rows.iter().flatten().collect();
    if present.is_empty() || random.below(5) == 0 {
        return Condition::Is(Predicate::IsNull);
    }
    let value = present[random.below(present.len() as u64) as usize].clone();
    if let (ColumnType::Text, OwnedValue::Text(text)) = (ty, &value)
        && random.below(3) > 0
    {
        let bytes = text.as_bytes();
        let start = random.below(bytes.len() as u64 + 1) as usize;
        let end = bytes.len().min(start + 3);
        let part = |range: std::ops::Range<usize>| bytes[range].to_vec();
        let mut pattern = TextPattern::default();
        match random.below(4) {
            0 => pattern.prefix = part(0..end),
            1 => pattern.suffix = part(start..bytes.len()),
            2 => pattern.infixes = vec![part(0..start.min(2)), part(start..end)],
            _ => pattern.infixes = vec![part(start..end)],
        }
        return Condition::Is(Predicate::Like(pattern));
    }
    let op = [CompareOp::Eq, CompareOp::Lt, CompareOp::Ge][random.below(3) as usize];
    Condition::Is(Predicate::Compare { op, value })
}

fn check_conditions(ty: ColumnType, rows: &[Option<OwnedValue>], random: &mut Random) {
    let encoded = row_group(&[(ty, rows.to_vec())])
        .encode(Effort::Default)
        .expect("encodes");
    let footer = Footer::parse(&encoded.footer).expect("parses");
    let chunk = open(&footer, &encoded.body, 0);
    for _ in 0..6 {
        let leaves = |random: &mut Random| (0..3).map(|_| leaf(ty, rows, random)).collect();
        let condition = match random.below(3) {
            0 => leaf(ty, rows, random),
            1 => Condition::All(leaves(random)),
            _ => Condition::Any(vec![Condition::All(leaves(random)), leaf(ty, rows, random)]),
        };
        let start = random.below(2) as usize * rows.len() / 3;
        let density = [1, 2, 100][random.below(3) as usize];
        let selected: Vec<bool> = (start..rows.len())
            .map(|_| random.below(density) == 0)
            .collect();
        let plain: Option<Vec<bool>> = (start..rows.len())
            .map(|row| {
                let value = rows[row].as_ref().map(OwnedValue::as_value);
                Some(selected[row - start] & condition.matches(value)?)
            })
            .collect();
        let range = start..rows.len();
        match chunk.filter_selected(&condition, range, &BooleanBuffer::from(selected)) {
            Ok(found) => {
                // A condition that some unselected row could not answer may still be answered.
                if let Some(plain) = plain {
                    assert_eq!(found.iter().collect::<Vec<_>>(), plain, "{condition:?}");
                }
            }
            Err(error) => assert!(matches!(error, ColumnarError::NotComparable), "{error}"),
        }
    }
}

#[test]
fn conditions_on_selected_rows_agree_with_the_plain_evaluation() {
    let random = &mut Random(31);
    for ty in TYPES {
        for shape in ALL_SHAPES {
            for nulls in [Nulls::Never, Nulls::Rarely, Nulls::Often, Nulls::Always] {
                let rows = column(ty, shape, nulls, 900, random);
                check_conditions(ty, &rows, random);
            }
        }
    }
}
