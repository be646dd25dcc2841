//! Extremes of groups over many zones, whose bounds tell which zones are not read.

use howdah_columnar::{ColumnType, OwnedValue};
use howdah_vector::operators::Compiled;
use howdah_vector::oracle;
use howdah_vector::plan::{AggregateCall, Expr, Output, Query};

use super::generate::{Piece, Random, Table, pieces};
use super::{assert_same_rows, options, rows_of, run_pieces};

/// Six zones, the last of which is not full.
const ROWS: usize = 5 * 8_192 + 1_000;

const TYPES: [ColumnType; 6] = [
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Int64,
    ColumnType::Float64,
    ColumnType::Float32,
    ColumnType::Int16,
];

const SPECIAL: [f32; 6] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    -0.0,
    0.0,
    f32::MAX,
];

/// A key of `group_count` values, integers that rise evenly and unevenly, floats that fall, any
/// floats, and small integers, the least and the greatest among them.
fn table(random: &mut Random, group_count: u64, nulls: u64) -> Table {
    let rows = (0..ROWS as u64).map(|row| {
        let values = [
            OwnedValue::Int32(random.below(group_count) as i32),
            OwnedValue::Int64(row as i64 * 5 - 1_000),
            OwnedValue::Int64(row as i64 * 5 + random.below(40) as i64),
            OwnedValue::Float64((random.below(10) as f64 - row as f64) * 0.25),
            OwnedValue::Float32(match random.one_in(300) {
                true => random.pick(&SPECIAL),
                false => random.below(1 << 20) as f32 * 0.5,
            }),
            OwnedValue::Int16(match random.one_in(500) {
                true => random.pick(&[i16::MIN, i16::MAX]),
                false => random.below(100) as i16,
            }),
        ];
        let is_null = |random: &mut Random| nulls > 0 && random.one_in(nulls);
        let values = values.into_iter();
        values
            .map(|value| (!is_null(random)).then_some(value))
            .collect()
    });
    Table {
        rows: rows.collect(),
        types: TYPES.to_vec(),
    }
}

fn extremes(filter: Vec<Expr>, keys: Vec<Expr>) -> Query {
    let types = ["int4", "int8", "timestamp", "float8", "float4", "int2"];
    let call = |name: String, argument: usize| AggregateCall {
        name,
        argument: Some(Expr::Column(argument)),
        filter: None,
    };
    let both = |at: usize| {
        let of = |which: &str| call(format!("{which}({})", types[at]), at);
        [of("min"), of("max")]
    };
    let mut aggregates: Vec<AggregateCall> = (1..TYPES.len()).flat_map(both).collect();
    aggregates.push(call("count(any)".to_owned(), 3));
    // Beside a sum the values are read in any case.
    aggregates.push(call("sum(int2)".to_owned(), 5));
    Query {
        columns: TYPES.to_vec(),
        filter,
        output: Output::Aggregate { keys, aggregates },
    }
}

#[test]
fn extremes_agree_with_the_oracle_where_zones_are_skipped() {
    let random = &mut Random(11);
    for (group_count, nulls) in [(1, 0), (10, 0), (700, 0), (10, 50), (30_000, 0)] {
        let table = table(random, group_count, nulls);
        let below = Expr::Call {
            function: "int4lt".to_owned(),
            arguments: vec![
                Expr::Column(0),
                Expr::Constant(ColumnType::Int32, Some(OwnedValue::Int32(100))),
            ],
        };
        for (filter, keys) in [
            (vec![], vec![Expr::Column(0)]),
            (vec![below.clone()], vec![Expr::Column(0)]),
            (vec![below.clone()], vec![]),
        ] {
            if group_count > 1_000 && filter.is_empty() {
                continue;
            }
            let query = extremes(filter, keys);
            let pieces = pieces(random, &table);
            let whole = |piece: &Piece| Piece {
                rows: piece.rows.clone(),
                encoded: None,
                hidden: piece.hidden.clone(),
                zones: std::iter::once(0..piece.rows.len()).collect(),
            };
            let visible: Vec<_> = pieces
                .iter()
                .flat_map(|piece| {
                    let piece = if piece.encoded.is_some() {
                        &whole(piece)
                    } else {
                        piece
                    };
                    piece.visible(&table).cloned().collect::<Vec<_>>()
                })
                .collect();
            let expected = oracle::run(&query, &visible).expect("has a result");
            for threads in [0, 2] {
                let mut compiled = Compiled::compile(&query).expect("compiles");
                compiled.set_bounds(0, 0, group_count as i64 - 1);
                let actual = run_pieces(&compiled, &options(threads, 4), &table, &pieces, true);
                assert_same_rows(rows_of(&actual.expect("runs")), &expected);
            }
        }
    }
}
