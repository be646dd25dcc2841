//! Comparisons with integers that rise or fall evenly, whose rows are found by searching.

use howdah_columnar::{ColumnType, OwnedValue};
use howdah_vector::operators::Compiled;
use howdah_vector::oracle::{self, Cell};
use howdah_vector::plan::{AggregateCall, Expr, Output, Query};

use super::generate::{Random, Table, pieces};
use super::{assert_same_rows, options, rows_of, run_pieces};

/// Three zones, the last of which is not full.
const ROWS: usize = 2 * 8_192 + 700;

const TYPES: [ColumnType; 4] = [
    ColumnType::Int64,
    ColumnType::Int32,
    ColumnType::Int16,
    ColumnType::Float64,
];

/// Integers that rise, that fall, and that rise within zones; and floats.
fn table(random: &mut Random) -> Table {
    let row = |row: usize| {
        let values = [
            OwnedValue::Int64(row as i64 * 1_000_000 - 7),
            OwnedValue::Int32(100 - row as i32 * 3),
            OwnedValue::Int16(row as i16),
            OwnedValue::Float64(match random.one_in(50) {
                true => f64::NAN,
                false => random.below(1_000) as f64 * 0.25,
            }),
        ];
        values.into_iter().map(Some).collect()
    };
    Table {
        rows: (0..ROWS).map(row).collect(),
        types: TYPES.to_vec(),
    }
}

fn call(function: &str, column: usize, value: OwnedValue) -> Expr {
    Expr::Call {
        function: function.to_owned(),
        arguments: vec![
            Expr::Column(column),
            Expr::Constant(TYPES[column], Some(value)),
        ],
    }
}

/// Values around that of some row, and the least and greatest.
fn value(random: &mut Random, column: usize) -> OwnedValue {
    let row = random.below(ROWS as u64) as i64;
    let near = random.below(3) as i64 - 1;
    match (column, random.below(8)) {
        (0, 0) => OwnedValue::Int64(random.pick(&[i64::MIN, i64::MAX])),
        (0, _) => OwnedValue::Int64(row * 1_000_000 - 7 + near),
        (1, 0) => OwnedValue::Int32(random.pick(&[i32::MIN, i32::MAX])),
        (1, _) => OwnedValue::Int32(100 - row as i32 * 3 + near as i32),
        (_, 0) => OwnedValue::Int16(random.pick(&[i16::MIN, i16::MAX])),
        (..) => OwnedValue::Int16(row as i16),
    }
}

#[test]
fn comparisons_with_rising_and_falling_integers_agree_with_the_oracle() {
    let random = &mut Random(23);
    let (mut some, mut none) = (0, 0);
    for case in 0..60 {
        let table = table(random);
        let mut filter = Vec::new();
        for _ in 0..1 + random.below(3) {
            let column = random.below(3) as usize;
            let op = random.pick(&["eq", "ne", "lt", "le", "gt", "ge"]);
            let function = format!("{}{op}", ["int8", "int4", "int2"][column]);
            filter.push(call(&function, column, value(random, column)));
        }
        if random.one_in(2) {
            filter.push(call("float8lt", 3, OwnedValue::Float64(100.0)));
        }
        let aggregate = |name: &str, argument: Option<usize>| AggregateCall {
            name: name.to_owned(),
            argument: argument.map(Expr::Column),
            filter: None,
        };
        let query = Query {
            columns: TYPES.to_vec(),
            filter,
            output: Output::Aggregate {
                keys: Vec::new(),
                aggregates: vec![
                    aggregate("count()", None),
                    aggregate("min(int8)", Some(0)),
                    aggregate("sum(int4)", Some(1)),
                    aggregate("max(float8)", Some(3)),
                ],
            },
        };
        let mut pieces = pieces(random, &table);
        for piece in &mut pieces {
            piece.zones = std::iter::once(0..piece.rows.len()).collect();
        }
        let visible = pieces
            .iter()
            .flat_map(|piece| piece.visible(&table).cloned().collect::<Vec<_>>());
        let visible: Vec<_> = visible.collect();
        let expected = oracle::run(&query, &visible).expect("has a result");
        match &expected[0][0] {
            Cell::Value(Some(OwnedValue::Int64(1..))) => some += 1,
            _ => none += 1,
        }
        let compiled = Compiled::compile(&query).expect("compiles");
        let threads = random.pick(&[0, 2]);
        // Zones that statistics exclude are read or not.
        let asks = case % 2 == 0;
        let actual = run_pieces(&compiled, &options(threads, 4), &table, &pieces, asks);
        assert_same_rows(rows_of(&actual.expect("runs")), &expected);
    }
    assert!(some > 10 && none > 5, "{some} with rows, {none} without");
}
