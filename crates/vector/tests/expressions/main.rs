//! Compiled expressions agree with the oracle: every function, trees of them, and predicates.

mod generate;
mod json;
mod zones;

use arrow_buffer::BooleanBuffer;
use generate::{Random, Table};
use howdah_columnar::{Column, ColumnType, OwnedValue, Value};
use howdah_vector::expr::{Compiled, Input, condition_of};
use howdah_vector::functions::{self, Function};
use howdah_vector::oracle::{self, Datum};
use howdah_vector::plan::Expr;
use howdah_vector::{Declined, VectorError};
use proptest::prelude::*;

struct Columns {
    columns: Vec<Column>,
    row_count: usize,
}

impl Columns {
    fn new(types: &[ColumnType], rows: &[Vec<Datum>]) -> Self {
        let column = |(at, &ty): (usize, &ColumnType)| {
            let values = rows
                .iter()
                .map(|row| row[at].as_ref().map(OwnedValue::as_value));
            // Columns may be slices of others, the bits of their nulls too.
            let before = rows.first().and_then(|row| row[at].as_ref());
            let before = std::iter::repeat_n(before.map(OwnedValue::as_value), BEFORE);
            let column = Column::from_values(ty, before.chain(values));
            sliced(&column.expect("values of the column's type"), rows.len())
        };
        Self {
            columns: types.iter().enumerate().map(column).collect(),
            row_count: rows.len(),
        }
    }
}

/// Rows before those that a column is made of.
const BEFORE: usize = 3;

fn sliced(column: &Column, row_count: usize) -> Column {
    match column {
        Column::Bool(array) => Column::Bool(array.slice(BEFORE, row_count)),
        Column::Int16(array) => Column::Int16(array.slice(BEFORE, row_count)),
        Column::Int32(array) => Column::Int32(array.slice(BEFORE, row_count)),
        Column::Int64(array) => Column::Int64(array.slice(BEFORE, row_count)),
        Column::Float32(array) => Column::Float32(array.slice(BEFORE, row_count)),
        Column::Float64(array) => Column::Float64(array.slice(BEFORE, row_count)),
        Column::Text(array) => Column::Text(array.slice(BEFORE, row_count)),
        Column::Bytes(array) => Column::Bytes(array.slice(BEFORE, row_count)),
        Column::Fixed(array) => Column::Fixed(array.slice(BEFORE, row_count)),
        Column::Numeric(column) => {
            let rows: Vec<u32> = (0..row_count).map(|row| (row + BEFORE) as u32).collect();
            Column::Numeric(column.take(&rows).expect("rows that are there"))
        }
    }
}

impl Input for Columns {
    fn row_count(&self) -> usize {
        self.row_count
    }

    fn column(&self, index: usize) -> Result<Column, VectorError> {
        Ok(self.columns[index].clone())
    }
}

/// Equal to the last bit, but that a NaN is a NaN.
fn is_same(a: Option<Value<'_>>, b: Option<Value<'_>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(Value::Float32(a)), Some(Value::Float32(b))) => {
            a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
        }
        (Some(Value::Float64(a)), Some(Value::Float64(b))) => {
            a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
        }
        (Some(a), Some(b)) => OwnedValue::from(a) == OwnedValue::from(b),
        _ => false,
    }
}

fn is_unsupported(error: &VectorError) -> bool {
    matches!(error, VectorError::Unsupported { .. })
}

/// An error without what it says of its reason, which PostgreSQL does not know.
fn kind(error: &VectorError) -> String {
    match error {
        VectorError::Unsupported { .. } => "unsupported".to_owned(),
        error => error.to_string(),
    }
}

fn check_values(expr: &Expr, expected: &[Datum], found: &Column) {
    assert_eq!(found.len(), expected.len(), "{expr:?}");
    for (row, expected) in expected.iter().enumerate() {
        let expected = expected.as_ref().map(OwnedValue::as_value);
        let found = found.value(row);
        assert!(
            is_same(found, expected),
            "{expr:?}, row {row}: {found:?} instead of {expected:?}"
        );
    }
}

fn check_selected(expr: &Expr, expected: &[Datum], found: &BooleanBuffer) {
    let expected: BooleanBuffer = expected
        .iter()
        .map(|value| *value == Some(OwnedValue::Bool(true)))
        .collect();
    assert_eq!(found, &expected, "{expr:?}");
}

/// Evaluates a call of a function over all rows, which raises the error of the first row that has
/// one, and over the rows that have none.
fn check_function(expr: &Expr, types: &[ColumnType], rows: &[Vec<Datum>]) {
    let compiled = Compiled::compile(expr, types).expect("compiles");
    let results: Vec<_> = rows.iter().map(|row| oracle::evaluate(expr, row)).collect();
    let found = compiled.evaluate(&Columns::new(types, rows));
    match results.iter().find_map(|result| result.as_ref().err()) {
        Some(expected) => {
            let found = found.expect_err("fails");
            assert_eq!(kind(&found), kind(expected), "{expr:?}");
            assert!(compiled.can_fail() || is_unsupported(expected), "{expr:?}");
        }
        None => assert!(found.is_ok(), "{expr:?}: {found:?}"),
    }
    let (kept, expected): (Vec<Vec<Datum>>, Vec<Datum>) = rows
        .iter()
        .cloned()
        .zip(results)
        .filter_map(|(row, result)| Some((row, result.ok()?)))
        .unzip();
    let input = Columns::new(types, &kept);
    let found = compiled.evaluate(&input).expect("no row fails");
    check_values(expr, &expected, &found);
    if compiled.column_type() == ColumnType::Bool {
        let selected = compiled.select(&input).expect("no row fails");
        check_selected(expr, &expected, &selected);
    }
}

/// The calls of a function: of columns, and of a column and a constant.
fn calls(function: &Function, random: &mut Random) -> Vec<Expr> {
    if function.prosrc.ends_with("like") {
        let arguments = vec![Expr::Column(0), generate::pattern(random)];
        return vec![generate::call_of(function, arguments, random)];
    }
    let columns: Vec<Expr> = (0..function.arguments.len()).map(Expr::Column).collect();
    let mut calls = vec![columns.clone()];
    if columns.len() == 2 {
        for at in 0..2 {
            let mut arguments = columns.clone();
            arguments[at] = generate::constant(function.arguments[at], random);
            calls.push(arguments);
        }
    }
    let constants = function.arguments.iter();
    let constants = constants.map(|&ty| generate::constant(ty, random));
    calls.push(constants.collect());
    if function.prosrc.ends_with("_trunc") {
        let of_unit = |_| vec![generate::unit(random), Expr::Column(1)];
        calls.extend((0..12).map(of_unit));
    }
    let calls = calls.into_iter();
    calls
        .map(|arguments| generate::call_of(function, arguments, random))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_function_agrees_with_the_oracle(seed in any::<u64>()) {
        let mut random = Random(seed);
        for function in functions::all().filter(|function| !json::takes(function.prosrc)) {
            let table = Table::new(function.arguments, &mut random);
            for expr in calls(function, &mut random) {
                check_function(&expr, &table.types, &table.rows);
            }
        }
    }

    #[test]
    fn trees_agree_with_the_oracle(seed in any::<u64>()) {
        let mut random = Random(seed);
        let table = Table::new(&generate::TYPES, &mut random);
        for _ in 0..40 {
            let ty = table.types[random.below(table.types.len())];
            let expr = generate::tree(ty, &table.types, 4, &mut random);
            check_tree(&expr, &table);
        }
        for _ in 0..80 {
            let expr = generate::tree(ColumnType::Bool, &table.types, 5, &mut random);
            check_tree(&expr, &table);
        }
    }

    #[test]
    fn predicates_are_true_of_the_same_rows(seed in any::<u64>()) {
        let mut random = Random(seed);
        let table = Table::new(&generate::TYPES, &mut random);
        for _ in 0..200 {
            let expr = generate::tree(ColumnType::Bool, &table.types, 2, &mut random);
            check_condition(&expr, &table);
        }
    }
}

/// A tree raises an error if the oracle does for some row, though not the same: functions go over
/// all rows one after the other. It may be unsupported where it computes for all rows what the
/// oracle skips.
fn check_tree(expr: &Expr, table: &Table) {
    let compiled = match Compiled::compile(expr, &table.types) {
        Ok(compiled) => compiled,
        Err(Declined::Types { name }) if name.ends_with("like") => return,
        Err(error) => panic!("{expr:?}: {error}"),
    };
    let evaluate = |row: &Vec<Datum>| oracle::evaluate(expr, row);
    let results: Vec<_> = table.rows.iter().map(evaluate).collect();
    let fails = |result: &Result<Datum, VectorError>| {
        result.as_ref().is_err_and(|error| !is_unsupported(error))
    };
    let input = Columns::new(&table.types, &table.rows);
    if results.iter().any(fails) {
        assert!(compiled.can_fail(), "{expr:?}");
        assert!(compiled.evaluate(&input).is_err(), "{expr:?}");
        if compiled.column_type() == ColumnType::Bool {
            assert!(compiled.select(&input).is_err(), "{expr:?}");
        }
    }
    let (kept, expected): (Vec<Vec<Datum>>, Vec<Datum>) = table
        .rows
        .iter()
        .cloned()
        .zip(results)
        .filter_map(|(row, result)| Some((row, result.ok()?)))
        .unzip();
    let input = Columns::new(&table.types, &kept);
    match compiled.evaluate(&input) {
        Ok(found) => check_values(expr, &expected, &found),
        Err(error) => assert!(is_unsupported(&error), "{expr:?}: {error}"),
    }
    if compiled.column_type() == ColumnType::Bool {
        match compiled.select(&input) {
            Ok(found) => check_selected(expr, &expected, &found),
            Err(error) => assert!(is_unsupported(&error), "{expr:?}: {error}"),
        }
    }
}

fn check_condition(expr: &Expr, table: &Table) {
    let Some((column, condition)) = condition_of(expr) else {
        return;
    };
    for row in &table.rows {
        let Ok(expected) = oracle::evaluate(expr, row) else {
            continue;
        };
        let value = row[column].as_ref().map(OwnedValue::as_value);
        assert_eq!(
            condition.matches(value),
            Some(expected == Some(OwnedValue::Bool(true))),
            "{expr:?} of {value:?}"
        );
    }
}

#[test]
fn what_fails_is_evaluated_for_undecided_rows_only() {
    let types = [ColumnType::Int32, ColumnType::Int32];
    let int = |value: i32| Some(OwnedValue::Int32(value));
    let rows = vec![
        vec![int(6), int(0)],
        vec![int(6), int(2)],
        vec![int(6), None],
        vec![int(6), int(7)],
    ];
    let call = |function: &str, arguments: Vec<Expr>| Expr::Call {
        function: function.to_owned(),
        arguments,
    };
    let constant = |value| Expr::Constant(ColumnType::Int32, int(value));
    let is_zero = call("int4eq", vec![Expr::Column(1), constant(0)]);
    let quotient = call("int4div", vec![Expr::Column(0), Expr::Column(1)]);
    let is_three = call("int4eq", vec![quotient, constant(3)]);
    let guarded = Expr::And(vec![Expr::Not(Box::new(is_zero.clone())), is_three.clone()]);
    let either = Expr::Or(vec![is_zero, is_three.clone()]);
    let input = Columns::new(&types, &rows);
    let select = |expr: &Expr| {
        Compiled::compile(expr, &types)
            .expect("compiles")
            .select(&input)
    };
    let bits = |bits: [bool; 4]| BooleanBuffer::from(bits.to_vec());
    assert_eq!(
        select(&guarded).expect("guarded"),
        bits([false, true, false, false])
    );
    assert_eq!(
        select(&either).expect("guarded"),
        bits([true, true, false, false])
    );
    assert!(matches!(
        select(&is_three),
        Err(VectorError::DivisionByZero)
    ));
}

#[test]
fn what_does_not_fit_is_declined() {
    let types = [ColumnType::Int32, ColumnType::Text];
    let call = |function: &str, arguments: Vec<Expr>| Expr::Call {
        function: function.to_owned(),
        arguments,
    };
    let declined = |expr: Expr| Compiled::compile(&expr, &types).expect_err("declined");
    assert!(matches!(
        declined(call("nosuch", vec![])),
        Declined::Function { .. }
    ));
    for expr in [
        call("int4pl", vec![Expr::Column(0), Expr::Column(1)]),
        call("int4pl", vec![Expr::Column(0)]),
        call("textlike", vec![Expr::Column(1), Expr::Column(1)]),
        Expr::Column(2),
        Expr::And(vec![Expr::Column(0)]),
        Expr::And(vec![]),
        Expr::Constant(ColumnType::Int16, Some(OwnedValue::Int32(1))),
    ] {
        assert!(matches!(declined(expr), Declined::Types { .. }));
    }
}

#[test]
fn a_compiled_expression_tells_what_it_reads() {
    let types = [ColumnType::Int32; 4];
    let sum = Expr::Call {
        function: "int4pl".to_owned(),
        arguments: vec![Expr::Column(3), Expr::Column(1)],
    };
    let twice = Expr::Call {
        function: "int4eq".to_owned(),
        arguments: vec![sum, Expr::Column(3)],
    };
    let compiled = Compiled::compile(&twice, &types).expect("compiles");
    assert_eq!(compiled.columns(), [1, 3]);
    assert_eq!(compiled.column_type(), ColumnType::Bool);
    assert!(compiled.can_fail());
    assert_eq!(compiled.as_column(), None);
    let column = Compiled::compile(&Expr::Column(2), &types).expect("compiles");
    assert_eq!(column.as_column(), Some(2));
    assert!(!column.can_fail());
}

/// The values of an expression.
fn evaluated(
    expr: &Expr,
    types: &[ColumnType],
    rows: &[Vec<Datum>],
) -> Result<Column, VectorError> {
    let compiled = Compiled::compile(expr, types).expect("compiles");
    compiled.evaluate(&Columns::new(types, rows))
}
