//! Every encoded view says what decoding says, and conditions on selected rows what the plain
//! evaluation says.

mod generate;

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use generate::predicates::predicates;
use generate::{ALL_SHAPES, NULLS, Random, TYPES, column, open, row_group, same};
use howdah_columnar::{
    ColumnType, ColumnarError, Condition, Effort, EncodedView, Footer, OwnedValue, PackedView,
    Predicate, TextPattern, Value,
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

/// What a condition says of each row; `None`: rows that it has no answer for.
type Answers = Vec<Option<bool>>;

/// Patterns of all forms that some text of the column has.
fn patterns(rows: &[Option<OwnedValue>], random: &mut Random) -> Vec<TextPattern> {
    let texts = rows.iter().flatten().filter_map(|value| match value {
        OwnedValue::Text(text) => Some(text.as_bytes()),
        _ => None,
    });
    let texts: Vec<&[u8]> = texts.collect();
    if texts.is_empty() {
        return Vec::new();
    }
    let text = texts[random.below(texts.len() as u64) as usize];
    let start = random.below(text.len() as u64 + 1) as usize;
    let end = text.len().min(start + 3);
    let part = |range: Range<usize>| text[range].to_vec();
    let mut patterns: [TextPattern; 4] = Default::default();
    patterns[0].prefix = part(0..end);
    patterns[1].suffix = part(start..text.len());
    patterns[2].infixes = vec![part(0..start.min(2)), part(start..end)];
    patterns[3].infixes = vec![part(start..end)];
    patterns.into()
}

/// Predicates of every kind, and what they say of each row by itself.
fn leaves(
    ty: ColumnType,
    rows: &[Option<OwnedValue>],
    random: &mut Random,
) -> Vec<(Condition, Answers)> {
    let mut all = predicates(ty, rows, random);
    for pattern in patterns(rows, random) {
        all.push(Predicate::Like(pattern.clone()));
        all.push(Predicate::NotLike(pattern));
    }
    let with_answers = |predicate: Predicate| {
        let values = rows
            .iter()
            .map(|row| row.as_ref().map(OwnedValue::as_value));
        let answers = values.map(|value| predicate.matches(value)).collect();
        (Condition::Is(predicate), answers)
    };
    all.into_iter().map(with_answers).collect()
}

/// All of some conditions, or any of them.
fn joined(
    of: impl Fn(Vec<Condition>) -> Condition,
    both: impl Fn(bool, bool) -> bool,
    conditions: Vec<(Condition, Answers)>,
) -> (Condition, Answers) {
    let (conditions, answers): (Vec<_>, Vec<_>) = conditions.into_iter().unzip();
    let of_row = |row: usize| {
        let of_each = answers.iter().map(|answers: &Answers| answers[row]);
        of_each.reduce(|one, other| Some(both(one?, other?)))
    };
    let row_count = answers[0].len();
    let joined = (0..row_count).map(|row| of_row(row).expect("some conditions"));
    (of(conditions), joined.collect())
}

/// A part of the rows, and which of it are selected: all, many, few, hardly any, or only those of
/// some stretch.
fn selection(row_count: usize, random: &mut Random) -> (Range<usize>, Vec<bool>) {
    let mut below = |bound: usize| random.below(bound as u64) as usize;
    let start = [0, 1, row_count / 3, PackedView::BLOCK_ROWS][below(4)];
    let end = row_count - [0, 1, row_count / 4][below(3)];
    let density = [1, 2, 100, 3_000][below(4)];
    let (first, len) = match below(2) {
        0 => (start, row_count),
        _ => (below(row_count), below(row_count / 2)),
    };
    let is_selected = |row: usize| (first..first + len).contains(&row) && below(density) == 0;
    (start..end, (start..end).map(is_selected).collect())
}

/// Conditions of every form on a column: how many were answered.
fn check_conditions(ty: ColumnType, rows: &[Option<OwnedValue>], random: &mut Random) -> usize {
    let encoded = row_group(&[(ty, rows.to_vec())])
        .encode(Effort::Default)
        .expect("encodes");
    let footer = Footer::parse(&encoded.footer).expect("parses");
    let chunk = open(&footer, &encoded.body, 0);
    let encoding = &footer.column(0).encoding;
    let leaves = leaves(ty, rows, random);
    let some = |random: &mut Random| -> Vec<_> {
        let mut one = || leaves[random.below(leaves.len() as u64) as usize].clone();
        (0..3).map(|_| one()).collect()
    };
    let (and, or) = (|a, b| a & b, |a, b| a | b);
    let mut conditions = leaves.clone();
    for _ in 0..4 {
        conditions.push(joined(Condition::All, and, some(random)));
        conditions.push(joined(Condition::Any, or, some(random)));
        let mut any = some(random);
        any.push(joined(Condition::All, and, some(random)));
        conditions.push(joined(Condition::Any, or, any));
    }
    let mut answered = 0;
    for (condition, answers) in conditions {
        let (range, selected) = selection(rows.len(), random);
        let bits = BooleanBuffer::from(selected.clone());
        match chunk.filter_selected(&condition, range.clone(), &bits) {
            Ok(found) => {
                assert_eq!(found.len(), range.len());
                for (at, is_selected) in selected.into_iter().enumerate() {
                    let row = range.start + at;
                    let expected = match is_selected {
                        true => answers[row],
                        false => Some(false),
                    };
                    // Of a row without an answer there may be one by the other conditions.
                    let is_right = expected.is_none_or(|expected| found.value(at) == expected);
                    assert!(is_right, "row {row} of {encoding}: {condition:?}");
                }
                answered += 1;
            }
            Err(ColumnarError::NotComparable) => assert_eq!(ty, ColumnType::Numeric),
            Err(error) => panic!("{condition:?} of {encoding}: {error}"),
        }
    }
    answered
}

/// Of more rows than a block of packed values and a zone have.
#[test]
fn conditions_on_selected_rows_agree_with_the_plain_evaluation() {
    let random = &mut Random(31);
    let mut nulls = NULLS.into_iter().cycle();
    for ty in TYPES {
        let mut answered = 0;
        for shape in ALL_SHAPES {
            let nulls = nulls.next().expect("without end");
            let rows = column(ty, shape, nulls, 20_000, random);
            answered += check_conditions(ty, &rows, random);
        }
        assert!(answered > 100, "{answered} answers of {ty:?}");
    }
}
