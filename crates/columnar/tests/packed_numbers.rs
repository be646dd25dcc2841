//! Packed numbers say what the rows written say: decoded, selected, compared and counted.

mod generate;

use arrow_buffer::BooleanBuffer;
use generate::{Random, open, row_group, same};
use howdah_columnar::{
    Chunk, ColumnType, CompareOp, Effort, Footer, OwnedValue, Predicate, Value, compare,
};

const OPERATORS: [CompareOp; 6] = [
    CompareOp::Eq,
    CompareOp::Ne,
    CompareOp::Lt,
    CompareOp::Le,
    CompareOp::Gt,
    CompareOp::Ge,
];

/// What lies beside the packed numbers of a column.
#[derive(Clone, Copy, Debug)]
struct Mixture {
    /// One row in so many is NULL; 0: none.
    nulls: u64,
    /// One row in so many is none of the common numbers; 0: none.
    rare: u64,
}

/// Common numbers: integers from `base` on, of so many bits; floats are quarters or hundredths of
/// these, or (`is_split`) have more digits than decimals are packed with.
#[derive(Clone, Copy, Debug)]
struct Common {
    ty: ColumnType,
    base: i64,
    bits: u32,
    is_split: bool,
}

fn number(common: Common, random: &mut Random) -> OwnedValue {
    let integer = common.base + (random.next() & ((1 << common.bits) - 1)) as i64;
    match common.ty {
        ColumnType::Int16 => OwnedValue::Int16(integer as i16),
        ColumnType::Int32 => OwnedValue::Int32(integer as i32),
        ColumnType::Float32 if common.is_split => {
            OwnedValue::Float32(600.0 + (random.next() >> 40) as f32 / 16_384.0)
        }
        ColumnType::Float32 => OwnedValue::Float32(integer as f32 * 0.25),
        ColumnType::Float64 => OwnedValue::Float64(integer as f64 / 100.0),
        _ => OwnedValue::Int64(integer),
    }
}

fn rare(ty: ColumnType, random: &mut Random) -> OwnedValue {
    const FLOATS: [f64; 9] = [
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        1e300,
        -1.0 / 3.0,
        f64::MIN_POSITIVE,
    ];
    let at = random.below(9) as usize;
    match ty {
        ColumnType::Int16 => OwnedValue::Int16([i16::MIN, i16::MAX, -1][at % 3]),
        ColumnType::Int32 => OwnedValue::Int32([i32::MIN, i32::MAX, -1][at % 3]),
        ColumnType::Float32 => OwnedValue::Float32(FLOATS[at] as f32),
        ColumnType::Float64 => OwnedValue::Float64(FLOATS[at]),
        _ => OwnedValue::Int64([i64::MIN, i64::MAX, -1][at % 3]),
    }
}

type Rows = Vec<Option<OwnedValue>>;

fn rows(common: Common, mixture: Mixture, row_count: usize, random: &mut Random) -> Rows {
    let one_in = |count: u64, random: &mut Random| count > 0 && random.below(count) == 0;
    (0..row_count)
        .map(|_| {
            let value = match one_in(mixture.rare, random) {
                true => rare(common.ty, random),
                false => number(common, random),
            };
            (!one_in(mixture.nulls, random)).then_some(value)
        })
        .collect()
}

/// A value to compare with: one of the column, one beside it, a rare one, or one of another width.
fn operand(common: Common, rows: &Rows, random: &mut Random) -> OwnedValue {
    let some = match rows[random.below(rows.len() as u64) as usize].clone() {
        Some(value) => value,
        None => number(common, random),
    };
    match (random.below(6), some) {
        (0, _) => rare(common.ty, random),
        (1, OwnedValue::Float32(value)) => OwnedValue::Float64(f64::from(value) + 1e-9),
        (1, OwnedValue::Float64(value)) => OwnedValue::Float64(value.next_up()),
        (2, OwnedValue::Float64(value)) => OwnedValue::Float64(value.next_down()),
        (2, OwnedValue::Float32(value)) => OwnedValue::Float64(value.into()),
        (1, OwnedValue::Int64(value)) => OwnedValue::Int32(value as i32),
        (1, OwnedValue::Int32(value)) => OwnedValue::Int64(i64::from(value) << 20),
        (1, OwnedValue::Int16(value)) => OwnedValue::Int64(i64::from(value) + (1 << 40)),
        (_, some) => some,
    }
}

fn selection(len: usize, random: &mut Random) -> BooleanBuffer {
    let density = [1, 2, 7, 90][random.below(4) as usize];
    BooleanBuffer::collect_bool(len, |row| random.below(density) == 0 || row / 1_500 == 1)
}

fn check_decoded(chunk: &Chunk, rows: &Rows, random: &mut Random) {
    let packed = chunk.packed().expect("is packed");
    let start = random.below(rows.len() as u64) as usize;
    let end = start + 1 + random.below((rows.len() - start) as u64) as usize;
    let expected = |row: usize| rows[row].as_ref().map(OwnedValue::as_value);
    let decoded = chunk.decode_range(start..end).expect("decodes");
    for row in start..end {
        assert!(same(decoded.value(row - start), expected(row)), "row {row}");
    }
    let selected = selection(end - start, random);
    let numbers: Vec<u32> = selected
        .set_indices()
        .map(|at| (start + at) as u32)
        .collect();
    let mut codes = Vec::new();
    packed
        .append_codes(start..end, &mut codes)
        .expect("unpacks");
    for known in [None, Some(codes.as_slice())] {
        let found = packed.decode_selected(start..end, &selected, known);
        let found = found.expect("decodes");
        assert_eq!(found.len(), numbers.len());
        for (at, &row) in numbers.iter().enumerate() {
            assert!(same(found.value(at), expected(row as usize)), "row {row}");
        }
    }
    let found = chunk.decode_selection(&numbers).expect("decodes");
    for (at, &row) in numbers.iter().enumerate() {
        assert!(same(found.value(at), expected(row as usize)), "row {row}");
    }
    let wrong = BooleanBuffer::new_set(end - start + 1);
    assert!(packed.decode_selected(start..end, &wrong, None).is_err());
    assert!(packed.append_codes(0..rows.len() + 1, &mut codes).is_err());
}

fn check_compared(chunk: &Chunk, common: Common, rows: &Rows, random: &mut Random) {
    let packed = chunk.packed().expect("is packed");
    let start = random.below(rows.len() as u64) as usize;
    let mut codes = Vec::new();
    packed
        .append_codes(start..rows.len(), &mut codes)
        .expect("unpacks");
    for _ in 0..12 {
        let predicates: Vec<Predicate> = (0..1 + random.below(3))
            .map(|_| Predicate::Compare {
                op: OPERATORS[random.below(6) as usize],
                value: operand(common, rows, random),
            })
            .collect();
        let ranges: Vec<_> = predicates
            .iter()
            .map(|predicate| {
                (
                    predicate,
                    packed.code_range(predicate).expect("has a range"),
                )
            })
            .collect();
        let selected = selection(rows.len() - start, random);
        for selected in [None, Some(&selected)] {
            let expected: BooleanBuffer = (start..rows.len())
                .map(|row| {
                    let value = rows[row].as_ref().map(OwnedValue::as_value);
                    let mut all = predicates.iter();
                    selected.is_none_or(|selected| selected.value(row - start))
                        && all.all(|predicate| predicate.matches(value) == Some(true))
                })
                .collect();
            for known in [None, Some(codes.as_slice())] {
                let found = packed.matching(&ranges, start..rows.len(), selected, known);
                assert_eq!(found.expect("compares"), expected, "{predicates:?}");
            }
        }
        let found = chunk
            .filter(&predicates[0], 0..rows.len())
            .expect("filters");
        for (row, value) in rows.iter().enumerate() {
            let value = value.as_ref().map(OwnedValue::as_value);
            assert_eq!(Some(found.value(row)), predicates[0].matches(value));
        }
    }
    let text = Predicate::Compare {
        op: CompareOp::Eq,
        value: OwnedValue::Text("7".to_owned()),
    };
    assert_eq!(packed.code_range(&text), None);
    assert_eq!(packed.code_range(&Predicate::IsNull), None);
}

/// Whether codes were counted.
fn check_counted(chunk: &Chunk, rows: &Rows, random: &mut Random) -> bool {
    let packed = chunk.packed().expect("is packed");
    let start = random.below(rows.len() as u64) as usize;
    if packed.bits() > 16 {
        return false;
    }
    let mut counts = vec![0; 1 << packed.bits()];
    let is_counted = packed
        .count_codes(start..rows.len(), &mut counts)
        .expect("counts");
    if !is_counted {
        assert!(counts.iter().all(|&count| count == 0));
        return false;
    }
    let Some(base) = packed.integer_base() else {
        return true;
    };
    let mut total = 0;
    for (code, &count) in counts.iter().enumerate() {
        let value = Value::Int64(base + code as i64);
        let is_it = |row: &&Option<OwnedValue>| {
            let row = row.as_ref().map(OwnedValue::as_value);
            row.and_then(|row| compare(row, value))
                .is_some_and(|order| order.is_eq())
        };
        if count > 0 {
            assert_eq!(rows[start..].iter().filter(is_it).count(), count as usize);
        }
        total += count as usize;
    }
    assert_eq!(total, rows.len() - start);
    true
}

#[test]
fn packed_numbers_agree_with_the_rows_written() {
    let random = &mut Random(47);
    let of = |ty, base, bits| Common {
        ty,
        base,
        bits,
        is_split: false,
    };
    let commons = [
        of(ColumnType::Int16, -300, 9),
        of(ColumnType::Int16, i64::from(i16::MIN), 10),
        of(ColumnType::Int32, 0, 4),
        of(ColumnType::Int32, 0, 1),
        of(ColumnType::Int32, 5, 10),
        of(ColumnType::Int32, i64::from(i32::MIN), 12),
        of(ColumnType::Int32, i64::from(i32::MAX) - 255, 8),
        of(ColumnType::Int64, 1 << 50, 20),
        of(ColumnType::Int64, -(1 << 40), 27),
        of(ColumnType::Int64, i64::MIN, 14),
        of(ColumnType::Float32, -2_000, 12),
        of(ColumnType::Float64, 0, 20),
        of(ColumnType::Float64, -500_000, 20),
        of(ColumnType::Float64, 1 << 45, 16),
        Common {
            is_split: true,
            ..of(ColumnType::Float32, 0, 0)
        },
    ];
    let (mut met, mut counted) = (std::collections::BTreeMap::new(), 0);
    for common in commons {
        for (nulls, rare) in [(0, 0), (0, 40), (9, 0), (3, 60)] {
            for effort in [Effort::Fast, Effort::Default] {
                let mixture = Mixture { nulls, rare };
                let row_count = [700, 3_000, 4_096][random.below(3) as usize];
                let rows = rows(common, mixture, row_count, random);
                let encoded = row_group(&[(common.ty, rows.clone())])
                    .encode(effort)
                    .expect("encodes");
                let footer = Footer::parse(&encoded.footer).expect("parses");
                let chunk = open(&footer, &encoded.body, 0);
                let Some(packed) = chunk.packed() else {
                    continue;
                };
                let kind = format!("{:?} {}", common.ty, common.is_split);
                *met.entry((kind, packed.has_only_codes())).or_insert(0) += 1;
                check_decoded(&chunk, &rows, random);
                check_compared(&chunk, common, &rows, random);
                counted += usize::from(check_counted(&chunk, &rows, random));
            }
        }
    }
    // Every kind of number was met, without and with NULLs or exceptions.
    assert_eq!(met.len(), 12, "{met:?}");
    assert!(counted >= 8, "{counted}");
}
