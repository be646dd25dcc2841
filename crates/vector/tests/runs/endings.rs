//! How runs end before their end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_array::Int64Array;
use howdah_columnar::{Column, ColumnType, OwnedValue};
use howdah_vector::VectorError;
use howdah_vector::operators::Compiled;
use howdah_vector::oracle::Cell;
use howdah_vector::plan::{AggregateCall, Expr, OrderBy, Output, Query};
use howdah_vector::runtime::{Options, RunError, run};
use howdah_vector::source::{Morsel, MorselColumn};

use super::options;

const ROWS: usize = 200_000;

fn grouping(argument: &str) -> Compiled {
    let query = Query {
        columns: vec![ColumnType::Int64],
        filter: Vec::new(),
        output: Output::Aggregate {
            keys: vec![Expr::Column(0)],
            aggregates: vec![AggregateCall {
                name: argument.to_owned(),
                argument: Some(Expr::Column(0)),
                filter: None,
            }],
        },
    };
    Compiled::compile(&query).expect("compiles")
}

fn morsel(ordinal: u64) -> Morsel {
    let values = (0..ROWS as i64).map(|row| row * 7_919 + ordinal as i64 % 10);
    Morsel {
        row_count: ROWS,
        columns: vec![MorselColumn::Decoded(Column::Int64(
            Int64Array::from_iter_values(values),
        ))],
        hidden: None,
        rows: std::iter::once(0..ROWS).collect(),
        filter_decided: false,
        ordinal,
    }
}

#[test]
fn a_panic_of_the_source_ends_an_endless_run_at_once() {
    let compiled = grouping("sum(int8)");
    // Other work on the machine makes single runs late.
    for threads in [1, 2, 7] {
        let late = (0..8)
            .map(|_| lateness(&compiled, threads))
            .find(|late| *late < Duration::from_millis(50));
        assert!(late.is_some(), "{threads} threads");
    }
}

/// How long after a panic of the source a run with endless morsels ends.
fn lateness(compiled: &Compiled, threads: usize) -> Duration {
    let mut panicked_at = None;
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let start = Instant::now();
        run::<()>(
            compiled,
            &options(threads, 4),
            |feeder| {
                for ordinal in 0.. {
                    let mut new = morsel(ordinal);
                    while let Err(back) = feeder.try_push(new) {
                        new = back;
                        if start.elapsed() > Duration::from_millis(200) {
                            panicked_at = Some(Instant::now());
                            std::panic::resume_unwind(Box::new("canceled"));
                        }
                        feeder.wait(Duration::from_millis(5));
                    }
                }
                Ok(())
            },
            &mut || {},
        )
    }));
    assert!(caught.is_err());
    panicked_at.expect("the source panicked").elapsed()
}

#[test]
fn an_error_of_the_source_is_returned() {
    let compiled = grouping("sum(int8)");
    let ended = run(
        &compiled,
        &options(2, 4),
        |feeder| {
            assert!(feeder.try_push(morsel(0)).is_ok());
            Err("source")
        },
        &mut || {},
    );
    assert!(matches!(ended, Err(RunError::Feed("source"))));
}

#[test]
fn a_panic_while_waiting_at_the_end_goes_on() {
    let compiled = grouping("sum(int8)");
    let caught = std::panic::catch_unwind(|| {
        run::<()>(
            &compiled,
            &options(2, 40),
            |feeder| {
                for ordinal in 0..40 {
                    assert!(feeder.try_push(morsel(ordinal)).is_ok());
                }
                Ok(())
            },
            &mut || std::panic::resume_unwind(Box::new("canceled")),
        )
    });
    assert!(caught.is_err());
}

#[test]
fn the_callers_thread_is_stopped_after_a_zone() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let compiled = grouping("sum(int8)");
    let options = Options {
        is_stopped: || ASKED.fetch_add(1, Ordering::Relaxed) == 2,
        ..options(0, 1)
    };
    let ended = run::<()>(
        &compiled,
        &options,
        |feeder| {
            assert!(feeder.try_push(morsel(0)).is_ok());
            assert!(feeder.failed());
            Ok(())
        },
        &mut || {},
    );
    assert!(matches!(ended, Err(RunError::Vector(VectorError::Stopped))));
    // The morsel has many more zones.
    assert_eq!(ASKED.load(Ordering::Relaxed), 3);
}

#[test]
fn threads_are_stopped_by_what_the_caller_knows() {
    static KNOWN: AtomicBool = AtomicBool::new(false);
    let compiled = grouping("sum(int8)");
    let options = Options {
        is_stopped: || KNOWN.load(Ordering::Relaxed),
        ..options(2, 40)
    };
    let ended = run::<()>(
        &compiled,
        &options,
        |feeder| {
            for ordinal in 0..10 {
                assert!(feeder.try_push(morsel(ordinal)).is_ok());
            }
            // As if this thread got no processor.
            KNOWN.store(true, Ordering::Relaxed);
            let start = Instant::now();
            while !feeder.failed() && start.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
            Ok(())
        },
        &mut || {},
    );
    assert!(matches!(ended, Err(RunError::Vector(VectorError::Stopped))));
}

/// How often a run of the caller's thread over some morsels asks whether to stop, without its end.
fn asked(compiled: &Compiled, morsels: u64) -> usize {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    ASKED.store(0, Ordering::Relaxed);
    let options = Options {
        is_stopped: || {
            ASKED.fetch_add(1, Ordering::Relaxed);
            false
        },
        ..options(0, 1)
    };
    let ended = run(
        compiled,
        &options,
        |feeder| {
            for ordinal in 0..morsels {
                assert!(feeder.try_push(morsel(ordinal)).is_ok());
            }
            Err("the end")
        },
        &mut || {},
    );
    assert!(matches!(ended, Err(RunError::Feed("the end"))));
    ASKED.load(Ordering::Relaxed)
}

#[test]
fn few_rows_are_kept_between_two_checks() {
    let query = Query {
        columns: vec![ColumnType::Int64],
        filter: Vec::new(),
        output: Output::First {
            columns: vec![Expr::Column(0)],
            // Each row is before all that are kept.
            order: vec![OrderBy {
                expr: Expr::Column(0),
                descending: true,
                nulls_first: false,
            }],
            limit: 1_000,
        },
    };
    let compiled = Compiled::compile(&query).expect("compiles");
    assert!(asked(&compiled, 1) >= ROWS / 512);
}

#[test]
fn few_rows_are_looked_up_in_a_large_table_between_two_checks() {
    let compiled = grouping("sum(int8)");
    let in_a_small_table = asked(&compiled, 1);
    let in_a_large_table = asked(&compiled, 2) - in_a_small_table;
    assert!(in_a_large_table >= ROWS / 2_048);
}

#[test]
fn a_panic_of_a_thread_is_an_error() {
    let compiled = grouping("sum(int8)");
    let options = Options {
        around_spawn: |start| start(),
        on_thread_start: || panic!("a thread's bug"),
        ..options(2, 4)
    };
    let ended = run::<()>(
        &compiled,
        &options,
        |feeder| {
            let mut new = morsel(0);
            while !feeder.failed() {
                if let Err(back) = feeder.try_push(new) {
                    new = back;
                } else {
                    new = morsel(1);
                }
                feeder.wait(Duration::from_millis(1));
            }
            Ok(())
        },
        &mut || {},
    );
    let Err(RunError::Vector(VectorError::Panicked { message })) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(message, "a thread's bug");
}

#[test]
fn a_run_without_enough_memory_is_an_error_never_wrong() {
    let compiled = grouping("count(any)");
    for threads in [0, 1, 2] {
        for memory_limit_bytes in [0, 10_000, 1 << 20, 1 << 26] {
            let options = Options {
                memory_limit_bytes,
                ..options(threads, 2)
            };
            let ended = run::<()>(
                &compiled,
                &options,
                |feeder| {
                    let mut new = morsel(0);
                    while let Err(back) = feeder.try_push(new) {
                        new = back;
                        feeder.wait(Duration::from_millis(1));
                    }
                    Ok(())
                },
                &mut || {},
            );
            match ended {
                Ok(result) => {
                    assert_eq!(result.row_count, ROWS);
                    assert!(result.statistics.memory_peak_bytes <= memory_limit_bytes);
                }
                Err(RunError::Vector(VectorError::Memory { limit_bytes })) => {
                    assert_eq!(limit_bytes, memory_limit_bytes);
                    assert!(limit_bytes < 1 << 26);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn many_groups_are_merged_in_parts() {
    let compiled = grouping("avg(int8)");
    for threads in [0, 1, 2, 7] {
        let result = run::<()>(
            &compiled,
            &options(threads, 20),
            |feeder| {
                // The same keys ten times over, and those of the others.
                for ordinal in 0..20 {
                    assert!(feeder.try_push(morsel(ordinal % 2)).is_ok());
                }
                Ok(())
            },
            &mut || {},
        );
        let result = result.expect("runs");
        let mut rows = super::rows_of(&result);
        rows.sort_by_key(|row| match &row[0] {
            Cell::Value(Some(OwnedValue::Int64(key))) => *key,
            other => panic!("{other:?}"),
        });
        assert_eq!(rows.len(), 2 * ROWS, "{threads} threads");
        for (at, row) in rows.iter().enumerate() {
            let key = (at / 2) as i64 * 7_919 + (at % 2) as i64;
            let quotient = Cell::Quotient {
                sum: i128::from(key) * 10,
                scale: 0,
                count: 10,
            };
            assert_eq!(
                row[..],
                [Cell::Value(Some(OwnedValue::Int64(key))), quotient]
            );
        }
    }
}

#[test]
fn threads_are_started_for_work_only() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let compiled = grouping("count(any)");
    let options = Options {
        around_spawn: |start| start(),
        on_thread_start: || {
            STARTED.fetch_add(1, Ordering::Relaxed);
        },
        ..options(7, 8)
    };
    let result = run::<()>(&compiled, &options, |_| Ok(()), &mut || {}).expect("runs");
    assert_eq!((result.row_count, STARTED.load(Ordering::Relaxed)), (0, 0));
    let result = run::<()>(
        &compiled,
        &options,
        |feeder| {
            assert!(feeder.try_push(morsel(0)).is_ok());
            Ok(())
        },
        &mut || {},
    );
    assert_eq!(result.expect("runs").row_count, ROWS);
    assert_eq!(STARTED.load(Ordering::Relaxed), 1);
}

#[test]
fn great_floats_overflow_as_in_postgresql() {
    let sum_of = |name: &str, values: &[f64]| {
        let query = Query {
            columns: vec![ColumnType::Float64],
            filter: Vec::new(),
            output: Output::Aggregate {
                keys: Vec::new(),
                aggregates: vec![AggregateCall {
                    name: name.to_owned(),
                    argument: Some(Expr::Column(0)),
                    filter: None,
                }],
            },
        };
        let compiled = Compiled::compile(&query).expect("compiles");
        let values = values
            .iter()
            .map(|&value| Some(howdah_columnar::Value::Float64(value)));
        let column = Column::from_values(ColumnType::Float64, values).expect("floats");
        let row_count = column.len();
        let result = run::<()>(
            &compiled,
            &options(0, 1),
            |feeder| {
                let morsel = Morsel {
                    row_count,
                    columns: vec![MorselColumn::Decoded(column)],
                    hidden: None,
                    rows: std::iter::once(0..row_count).collect(),
                    filter_decided: false,
                    ordinal: 0,
                };
                assert!(feeder.try_push(morsel).is_ok());
                Ok(())
            },
            &mut || {},
        );
        match result {
            Ok(result) => match &super::rows_of(&result)[0][0] {
                Cell::Value(Some(OwnedValue::Float64(value))) => Ok(*value),
                other => panic!("{other:?}"),
            },
            Err(RunError::Vector(VectorError::OutOfRange { message })) => Err(message),
            Err(other) => panic!("{other:?}"),
        }
    };
    let overflow = Err("value out of range: overflow");
    assert_eq!(sum_of("sum(float8)", &[1e308, 1e308]), overflow);
    assert_eq!(
        sum_of("sum(float8)", &[f64::INFINITY, 1e308, 1e308]),
        Ok(f64::INFINITY)
    );
    // The sum of squared deviations overflows though the sum does not.
    assert_eq!(sum_of("avg(float8)", &[1e160, -1e160]), overflow);
    assert_eq!(sum_of("avg(float8)", &[1e160]), Ok(1e160));
    assert_eq!(sum_of("avg(float8)", &[1.0, 3.0]), Ok(2.0));
    assert_eq!(
        sum_of("sum(float8)", &[-0.0]).map(f64::to_bits),
        Ok((-0.0f64).to_bits())
    );
}
