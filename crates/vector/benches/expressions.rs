//! Speed of compiled expressions, in rows per second of one thread. Every result is checked against
//! the oracle before it is measured.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use howdah_columnar::{Column, ColumnType, MAX_ROWS, OwnedNumeric, OwnedValue};
use howdah_vector::VectorError;
use howdah_vector::expr::{Compiled, Input};
use howdah_vector::oracle::{self, Datum};
use howdah_vector::plan::Expr;

const TYPES: [ColumnType; 9] = [
    ColumnType::Int32,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Float64,
    ColumnType::Numeric,
    ColumnType::Numeric,
    ColumnType::Text,
    ColumnType::Text,
    // Every eighth row is null.
    ColumnType::Int32,
];

struct Table(Vec<Column>);

impl Input for Table {
    fn row_count(&self) -> usize {
        MAX_ROWS
    }

    fn column(&self, index: usize) -> Result<Column, VectorError> {
        Ok(self.0[index].clone())
    }
}

fn datum(column: usize, row: usize) -> Datum {
    let bits = (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let numeric = |unscaled: u64| {
        Some(OwnedValue::Numeric(OwnedNumeric::Small {
            unscaled: unscaled.into(),
            scale: 2,
        }))
    };
    let modes = ["AIR", "FOB", "MAIL", "RAIL", "SHIP", "TRUCK", "REG AIR"];
    match column {
        0 => Some(OwnedValue::Int32((bits % 1_000) as i32)),
        1 => Some(OwnedValue::Int32((bits % 77) as i32 + 1)),
        2 => Some(OwnedValue::Int64((bits % 100_000) as i64)),
        3 => Some(OwnedValue::Float64((bits % 10_000) as f64 / 100.0)),
        4 => numeric(bits % 10_000_000),
        5 => numeric(bits % 11),
        6 => Some(OwnedValue::Text(modes[bits as usize % 7].to_owned())),
        7 => Some(OwnedValue::Text(format!("deposits {bits} sleep furiously"))),
        _ => (!row.is_multiple_of(8)).then_some(OwnedValue::Int32((bits % 1_000) as i32)),
    }
}

fn call(function: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Call {
        function: function.to_owned(),
        arguments,
    }
}

fn column(index: usize) -> Expr {
    Expr::Column(index)
}

fn int(value: i32) -> Expr {
    Expr::Constant(ColumnType::Int32, Some(OwnedValue::Int32(value)))
}

fn text(value: &str) -> Expr {
    Expr::Constant(ColumnType::Text, Some(OwnedValue::Text(value.to_owned())))
}

fn conditions() -> Vec<(&'static str, Expr)> {
    let float = Expr::Constant(ColumnType::Float64, Some(OwnedValue::Float64(24.0)));
    let one = OwnedValue::Numeric(OwnedNumeric::Small {
        unscaled: 5,
        scale: 0,
    });
    let numeric = Expr::Constant(ColumnType::Numeric, Some(one));
    let less = call("int4lt", vec![column(0), int(10)]);
    let many = (0..40).map(|at| Some(OwnedValue::Int32(at * 17))).collect();
    vec![
        ("int4 < constant", less.clone()),
        ("int4 < int4", call("int4lt", vec![column(0), column(1)])),
        (
            "int4 with nulls = constant",
            call("int4eq", vec![column(8), int(5)]),
        ),
        (
            "int8 >= int4 constant",
            call("int84ge", vec![column(2), int(500)]),
        ),
        (
            "float8 > constant",
            call("float8gt", vec![column(3), float]),
        ),
        (
            "numeric < constant",
            call("numeric_lt", vec![column(5), numeric]),
        ),
        (
            "text = short constant",
            call("texteq", vec![column(6), text("MAIL")]),
        ),
        (
            "text like",
            call("textlike", vec![column(7), text("%sleep%ly")]),
        ),
        (
            "int4 in 40",
            Expr::AnyAll {
                function: "int4eq".to_owned(),
                left: Box::new(column(0)),
                element: ColumnType::Int32,
                values: many,
                all: false,
            },
        ),
        (
            "int4 < constant and text like",
            Expr::And(vec![
                less.clone(),
                call("textlike", vec![column(7), text("%sleep%ly")]),
            ]),
        ),
        (
            "int4 < constant and int4 / int4 = constant",
            Expr::And(vec![
                less,
                call(
                    "int4eq",
                    vec![call("int4div", vec![column(0), column(1)]), int(2)],
                ),
            ]),
        ),
    ]
}

fn values() -> Vec<(&'static str, Expr)> {
    let one = Expr::Constant(
        ColumnType::Numeric,
        Some(OwnedValue::Numeric(OwnedNumeric::Small {
            unscaled: 1,
            scale: 0,
        })),
    );
    let rest = call("numeric_sub", vec![one, column(5)]);
    vec![
        ("int4 + int4", call("int4pl", vec![column(0), column(1)])),
        ("int4 + constant", call("int4pl", vec![column(0), int(7)])),
        (
            "int4 + int4 with nulls",
            call("int4pl", vec![column(0), column(8)]),
        ),
        ("int4 * int4", call("int4mul", vec![column(0), column(1)])),
        ("int4 / int4", call("int4div", vec![column(0), column(1)])),
        ("int8 * int4", call("int84mul", vec![column(2), column(1)])),
        (
            "float8 * float8",
            call("float8mul", vec![column(3), column(3)]),
        ),
        (
            "numeric * (1 - numeric)",
            call("numeric_mul", vec![column(4), rest]),
        ),
        ("date + int4", call("date_pli", vec![column(0), column(1)])),
        ("length", call("textlen", vec![column(7)])),
    ]
}

fn expressions(c: &mut Criterion) {
    let rows: Vec<Vec<Datum>> = (0..MAX_ROWS)
        .map(|row| (0..TYPES.len()).map(|at| datum(at, row)).collect())
        .collect();
    let columns = TYPES.iter().enumerate().map(|(at, &ty)| {
        let values = rows
            .iter()
            .map(|row| row[at].as_ref().map(OwnedValue::as_value));
        Column::from_values(ty, values).expect("values of the column's type")
    });
    let table = Table(columns.collect());
    let mut group = c.benchmark_group("expressions");
    group.throughput(Throughput::Elements(MAX_ROWS as u64));
    for (name, expr) in conditions() {
        let compiled = Compiled::compile(&expr, &TYPES).expect("compiles");
        let found = compiled.select(&table).expect("no error");
        for (row, values) in rows.iter().enumerate() {
            let expected = oracle::evaluate(&expr, values).expect("no error");
            assert_eq!(found.value(row), expected == Some(OwnedValue::Bool(true)));
        }
        group.bench_function(name, |b| {
            b.iter(|| compiled.select(black_box(&table)).expect("no error"));
        });
    }
    for (name, expr) in values() {
        let compiled = Compiled::compile(&expr, &TYPES).expect("compiles");
        let found = compiled.evaluate(&table).expect("no error");
        for (row, values) in rows.iter().enumerate() {
            let expected = oracle::evaluate(&expr, values).expect("no error");
            assert_eq!(found.value(row).map(OwnedValue::from), expected);
        }
        group.bench_function(name, |b| {
            b.iter(|| compiled.evaluate(black_box(&table)).expect("no error"));
        });
    }
    group.finish();
}

criterion_group!(benches, expressions);
criterion_main!(benches);
