//! Every encoded view says what decoding says.

mod generate;

use generate::{NULLS, Random, SHAPES, TYPES, column, open, row_group, same};
use howdah_columnar::{ColumnType, Effort, EncodedView, Footer, OwnedValue, PackedView, Value};

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
        for shape in SHAPES {
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
