//! Expressions that the caller evaluates: on its own thread only, for the rows that are left only,
//! whatever the number of threads.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;

use arrow_array::Int64Array;
use howdah_columnar::{Column, ColumnType, OwnedValue, Value};
use howdah_vector::VectorError;
use howdah_vector::foreign::{Evaluate, Exchange, Foreign};
use howdah_vector::operators::Compiled;
use howdah_vector::plan::{AggregateCall, Expr, Output, Query};
use howdah_vector::runtime::{ResultColumn, ResultPart, RunError, run};
use howdah_vector::source::{Morsel, MorselColumn};

use super::options;

const ROWS: i64 = 50_000;
const MORSELS: i64 = 6;

/// Expressions over one column, by their places.
const LAST_DIGIT: usize = 0;
const IS_ODD: usize = 1;
const PANIC: usize = 2;
const ERROR: usize = 3;

struct Evaluator {
    home: ThreadId,
    rows: AtomicUsize,
}

impl Evaluate for Evaluator {
    fn evaluate(
        &self,
        place: usize,
        columns: &[Column],
        row_count: usize,
    ) -> Result<Column, VectorError> {
        assert_eq!(std::thread::current().id(), self.home);
        assert!(row_count > 0 && columns.len() == 1 && columns[0].len() == row_count);
        self.rows.fetch_add(row_count, Ordering::Relaxed);
        let values = (0..row_count).map(|row| match columns[0].value(row) {
            Some(Value::Int64(value)) => value,
            other => panic!("{other:?}"),
        });
        let values: Vec<i64> = values.collect();
        // The filter left these.
        assert!(values.iter().all(|value| *value >= 1_000));
        match place {
            LAST_DIGIT => {
                let digits = values.iter().map(|value| Some(Value::Int64(value % 10)));
                Ok(Column::from_values(ColumnType::Int64, digits)?)
            }
            IS_ODD => {
                let odd = values.iter().map(|value| Some(Value::Bool(value % 2 == 1)));
                Ok(Column::from_values(ColumnType::Bool, odd)?)
            }
            PANIC => std::panic::resume_unwind(Box::new("the caller's")),
            _ => Err(VectorError::DivisionByZero),
        }
    }
}

/// `SELECT digit(x), count(*) WHERE is_odd(x) AND x >= 1000 GROUP BY 1`, with an expression in the
/// place of `digit`.
fn query(key: usize) -> (Compiled, Arc<Evaluator>) {
    let evaluator = Arc::new(Evaluator {
        home: std::thread::current().id(),
        rows: AtomicUsize::new(0),
    });
    let exchange = Arc::new(Exchange::new(evaluator.clone()));
    let foreign = |place: usize, column_type: ColumnType| {
        Expr::Foreign(Foreign {
            place,
            column_type,
            columns: vec![(0, ColumnType::Int64)],
            exchange: exchange.clone(),
        })
    };
    let query = Query {
        columns: vec![ColumnType::Int64],
        filter: vec![
            foreign(IS_ODD, ColumnType::Bool),
            Expr::Call {
                function: "int8ge".to_owned(),
                arguments: vec![
                    Expr::Column(0),
                    Expr::Constant(ColumnType::Int64, Some(OwnedValue::Int64(1_000))),
                ],
            },
        ],
        output: Output::Aggregate {
            keys: vec![foreign(key, ColumnType::Int64)],
            aggregates: vec![AggregateCall {
                name: "count()".to_owned(),
                argument: None,
                filter: None,
            }],
        },
    };
    (Compiled::compile(&query).expect("compiles"), evaluator)
}

fn morsel(ordinal: u64) -> Morsel {
    let values = Int64Array::from_iter_values(0..ROWS);
    Morsel {
        row_count: ROWS as usize,
        columns: vec![MorselColumn::Decoded(Column::Int64(values))],
        hidden: None,
        rows: std::iter::once(0..ROWS as usize).collect(),
        filter_decided: false,
        ordinal,
    }
}

/// Groups and counts.
fn ran(compiled: &Compiled, threads: usize) -> Result<BTreeMap<i64, i64>, RunError<()>> {
    let result = run(
        compiled,
        &options(threads, 2),
        |feeder| {
            for ordinal in 0..MORSELS as u64 {
                let mut new = morsel(ordinal);
                while let Err(back) = feeder.try_push(new) {
                    new = back;
                    feeder.wait(std::time::Duration::from_secs(5));
                }
            }
            Ok(())
        },
        &mut || {},
    )?;
    let value = |part: &ResultPart, column: usize, row: usize| match &part.columns[column] {
        ResultColumn::Values(values) => match values.value(row) {
            Some(Value::Int64(value)) => value,
            other => panic!("{other:?}"),
        },
        ResultColumn::Quotients { .. } => panic!("no average was asked for"),
    };
    let rows_of = |part: &'_ ResultPart| {
        let rows = (0..part.row_count).map(|row| (value(part, 0, row), value(part, 1, row)));
        rows.collect::<Vec<_>>()
    };
    Ok(result.parts.iter().flat_map(rows_of).collect())
}

#[test]
fn values_are_the_same_with_any_number_of_threads() {
    let of_each_digit = (ROWS - 1_000) / 10 * MORSELS;
    let expected: BTreeMap<i64, i64> = [1, 3, 5, 7, 9].map(|digit| (digit, of_each_digit)).into();
    for threads in [0, 1, 2, 7] {
        let (compiled, evaluator) = query(LAST_DIGIT);
        assert_eq!(ran(&compiled, threads).expect("runs"), expected);
        // The conjunct for the rows that the known one left, the key for half of these.
        let rows = (ROWS - 1_000) * 3 / 2 * MORSELS;
        assert_eq!(evaluator.rows.load(Ordering::Relaxed), rows as usize);
    }
}

#[test]
fn an_error_ends_the_run() {
    for threads in [0, 1, 2, 7] {
        let (compiled, _) = query(ERROR);
        let ended = ran(&compiled, threads);
        let is_its_own = matches!(ended, Err(RunError::Vector(VectorError::DivisionByZero)));
        assert!(is_its_own, "{threads} threads: {ended:?}");
    }
}

#[test]
fn a_panic_of_the_caller_passes() {
    for threads in [0, 1, 2, 7] {
        let (compiled, _) = query(PANIC);
        let caught = catch_unwind(AssertUnwindSafe(|| ran(&compiled, threads)));
        let panic = caught.expect_err("panicked");
        assert_eq!(panic.downcast_ref(), Some(&"the caller's"));
    }
}
