//! Predicates about the values of a column.

use howdah_columnar::{ColumnType, CompareOp, OwnedValue, Predicate, TextPattern};

use super::{ALL_SHAPES, Nulls, Random, column};

const OPS: [CompareOp; 6] = [
    CompareOp::Eq,
    CompareOp::Ne,
    CompareOp::Lt,
    CompareOp::Le,
    CompareOp::Gt,
    CompareOp::Ge,
];

/// Predicates of every kind, about values that a column has and that it has not.
pub fn predicates(
    ty: ColumnType,
    rows: &[Option<OwnedValue>],
    random: &mut Random,
) -> Vec<Predicate> {
    let shape = ALL_SHAPES[random.below(ALL_SHAPES.len() as u64) as usize];
    let mut constants = column(ty, shape, Nulls::Never, 3, random)
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    let present: Vec<&OwnedValue> = rows.iter().flatten().collect();
    for _ in 0..4.min(present.len()) {
        constants.push(present[random.below(present.len() as u64) as usize].clone());
    }
    // Decimals are found among floats by products, which may be those of their neighbours.
    let neighbours: Vec<OwnedValue> = constants
        .iter()
        .flat_map(|constant| match constant {
            OwnedValue::Float32(v) => [v.next_down(), v.next_up()].map(OwnedValue::Float32).into(),
            OwnedValue::Float64(v) => [v.next_down(), v.next_up()].map(OwnedValue::Float64).into(),
            _ => Vec::new(),
        })
        .collect();
    constants.extend(neighbours);
    constants.push(match ty {
        ColumnType::Int16 | ColumnType::Int32 => OwnedValue::Int64(random.next() as i64 >> 40),
        ColumnType::Int64 => OwnedValue::Int16(random.next() as i16),
        ColumnType::Float32 => OwnedValue::Float64(0.1),
        ColumnType::Float64 => OwnedValue::Float32(-0.0),
        _ => constants[0].clone(),
    });
    let mut predicates = vec![
        Predicate::IsNull,
        Predicate::IsNotNull,
        Predicate::In(Vec::new()),
        Predicate::In(constants[..2].to_vec()),
        Predicate::In(constants.clone()),
    ];
    for constant in constants {
        if let OwnedValue::Text(text) = &constant {
            let bytes = text.as_bytes();
            let pattern = TextPattern {
                prefix: bytes[..bytes.len().min(1)].to_vec(),
                infixes: vec![bytes[bytes.len() / 2..].to_vec()],
                suffix: Vec::new(),
            };
            predicates.push(Predicate::NotLike(pattern.clone()));
            predicates.push(Predicate::Like(pattern));
        }
        predicates.extend(OPS.map(|op| Predicate::Compare {
            op,
            value: constant.clone(),
        }));
    }
    predicates
}
