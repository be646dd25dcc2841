//! Runs of random queries over random tables agree with the oracle, whatever the number of threads
//! and the form of the rows; failures and cancellation end them.

mod damaged;
mod endings;
mod extremes;
mod foreign;
mod generate;
mod rising;

use std::cmp::Ordering;
use std::time::Duration;

use generate::{Piece, Random, Table, pieces, query, table};
use howdah_columnar::{ColumnStatistics, OwnedValue};
use howdah_vector::VectorError;
use howdah_vector::operators::{Compiled, LateRows, Look, Strain};
use howdah_vector::oracle::{self, Cell, Datum};
use howdah_vector::plan::{Output, Query};
use howdah_vector::runtime::{
    LateValues, Options, ResultColumn, ResultPart, ResultSet, RunError, run_late,
};
use proptest::prelude::*;

fn options(threads: usize, window: usize) -> Options {
    Options {
        threads,
        window,
        memory_limit_bytes: 1 << 30,
        around_spawn: |start| start(),
        on_thread_start: || {},
        is_stopped: || false,
    }
}

/// The values of rows of a piece that were not delivered.
fn late_values(table: &Table, pieces: &[Piece], late: &LateRows) -> LateValues {
    let start = pieces[late.ordinal as usize].rows.start;
    let value = |column: usize, row: u32| table.rows[start + row as usize][column].clone();
    let columns = late.columns.iter();
    columns
        .map(|&column| late.rows.iter().map(|&row| value(column, row)).collect())
        .collect()
}

/// Runs a query over pieces; `ask`: statistics decide what is read, and what was found so far.
fn run_pieces(
    compiled: &Compiled,
    options: &Options,
    table: &Table,
    pieces: &[Piece],
    ask: bool,
) -> Result<ResultSet, VectorError> {
    let result = run_late::<VectorError>(
        compiled,
        options,
        |feeder| {
            for (ordinal, piece) in pieces.iter().enumerate() {
                let mut morsel = piece.morsel(table, compiled.needed(), ordinal as u64);
                if let Some((encoded, footer)) = &piece.encoded
                    && ask
                {
                    let statistics: Vec<ColumnStatistics> = (0..table.types.len())
                        .map(|at| footer.layout().statistics(at, encoded.footer.as_slice()))
                        .collect::<Result<_, _>>()?;
                    let statistics: Vec<Option<&ColumnStatistics>> =
                        statistics.iter().map(Some).collect();
                    match compiled.ask(&statistics, piece.rows.len(), piece.hidden.is_some()) {
                        Look::Skip => continue,
                        Look::Statistics => {
                            feeder.add_statistics(&statistics, piece.rows.len())?;
                            continue;
                        }
                        Look::Read {
                            rows,
                            filter_decided,
                        } => {
                            let needed = compiled.needed_for(&statistics, filter_decided);
                            morsel = piece.morsel(table, &needed, ordinal as u64);
                            morsel.rows = match compiled.leading_order() {
                                Some((column, _)) => {
                                    let leading = statistics[column].ok_or(UNKNOWN)?;
                                    feeder.narrowed(leading, rows)
                                }
                                None => rows,
                            };
                            morsel.filter_decided = filter_decided;
                        }
                    }
                }
                while let Err(back) = feeder.try_push(morsel) {
                    morsel = back;
                    feeder.wait(Duration::from_millis(100));
                }
            }
            Ok(())
        },
        &mut || {},
        &mut |late| Ok(late_values(table, pieces, late)),
    );
    result.map_err(|error| match error {
        RunError::Feed(error) | RunError::Vector(error) => error,
    })
}

const UNKNOWN: VectorError = VectorError::Unsupported {
    what: "a column without statistics",
};

fn rows_of(result: &ResultSet) -> Vec<Vec<Cell>> {
    let rows: Vec<Vec<Cell>> = result.parts.iter().flat_map(rows_of_part).collect();
    assert_eq!(rows.len(), result.row_count);
    rows
}

fn rows_of_part(part: &ResultPart) -> Vec<Vec<Cell>> {
    (0..part.row_count)
        .map(|row| {
            let cells = part.columns.iter().map(|column| match column {
                ResultColumn::Values(column) => {
                    Cell::Value(column.value(row).map(OwnedValue::from))
                }
                ResultColumn::Quotients {
                    sums,
                    scale,
                    counts,
                } => match counts[row] {
                    0 => Cell::Value(None),
                    count => Cell::Quotient {
                        sum: sums[row],
                        scale: *scale,
                        count,
                    },
                },
            });
            cells.collect()
        })
        .collect()
}

fn same_datum(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b || oracle::compare(a, b).is_ok_and(Ordering::is_eq),
        _ => false,
    }
}

/// Equal, up to what PostgreSQL leaves open: a sign of zero, the scale of one of equal numerics.
fn same_cell(a: &Cell, b: &Cell) -> bool {
    match (a, b) {
        (Cell::Value(a), Cell::Value(b)) => same_datum(a, b),
        (a, b) => a == b,
    }
}

fn is_same_row(a: &[Cell], b: &[Cell]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_cell(a, b))
}

/// Each row of one is a row of the other.
fn assert_same_rows(mut actual: Vec<Vec<Cell>>, expected: &[Vec<Cell>]) {
    assert_eq!(actual.len(), expected.len(), "rows");
    for row in expected {
        let at = actual.iter().position(|other| is_same_row(other, row));
        let Some(at) = at else {
            panic!("no row {row:?} in {actual:?}");
        };
        actual.swap_remove(at);
    }
}

/// The sums' scales are exact.
fn assert_same_scales(query: &Query, actual: &[Vec<Cell>], expected: &[Vec<Cell>]) {
    let Output::Aggregate { keys, aggregates } = &query.output else {
        return;
    };
    for (at, call) in aggregates.iter().enumerate() {
        if call.name == "sum(numeric)" {
            let column = |rows: &[Vec<Cell>]| {
                let mut cells: Vec<String> = rows
                    .iter()
                    .map(|row| format!("{:?}", row[keys.len() + at]))
                    .collect();
                cells.sort();
                cells
            };
            assert_eq!(column(actual), column(expected));
        }
    }
}

/// Rows at a time and hash bits of one run.
fn strain(random: &mut Random, row_count: usize) -> Strain {
    let usual = Strain::default();
    let at_a_time: &[usize] = match row_count < 1_000 {
        true => &[usual.most_at_a_time, usual.most_at_a_time, 1, 7, 100],
        false => &[usual.most_at_a_time, 500, 3_000],
    };
    Strain {
        most_at_a_time: random.pick(at_a_time),
        hash_bits: random.pick(&[usual.hash_bits, usual.hash_bits, 5, 0]),
    }
}

/// Runs one query in several ways; returns how many results were compared.
fn check(seed: u64, row_count: usize) -> usize {
    let mut compared = 0;
    let random = &mut Random(seed);
    let table = table(random, row_count);
    let query = query(random, &table);
    let pieces = pieces(random, &table);
    let mut compiled = Compiled::compile(&query).expect("compiles");
    for column in 0..table.types.len() {
        match random.below(3) {
            0 => compiled.set_bounds(column, -4, 4),
            1 => compiled.set_bounds(column, -1_000, 5_000),
            _ => {}
        }
    }
    if random.one_in(2) {
        compiled.read_late(u64::MAX);
    }
    for threads in [0, 1, 2, 7] {
        compiled.set_strain(strain(random, row_count));
        let options = options(threads, random.pick(&[1, 4]));
        // Pieces that are read in part are not asked for.
        let ask = random.one_in(2);
        let asked = |piece: &Piece| ask && piece.encoded.is_some();
        let visible: Vec<Vec<Datum>> = pieces
            .iter()
            .flat_map(|piece| {
                let whole = Piece {
                    rows: piece.rows.clone(),
                    encoded: None,
                    hidden: piece.hidden.clone(),
                    zones: std::iter::once(0..piece.rows.len()).collect(),
                };
                let piece = if asked(piece) { &whole } else { piece };
                piece.visible(&table).cloned().collect::<Vec<_>>()
            })
            .collect();
        let expected = oracle::run(&query, &visible);
        let actual = run_pieces(&compiled, &options, &table, &pieces, ask);
        let context = format!("seed {seed}, {threads} threads, {query:?}");
        match (actual, expected) {
            (Ok(actual), Ok(expected)) => {
                compared += 1;
                let actual = rows_of(&actual);
                if let Output::First { columns, order, .. } = &query.output {
                    // Which of equal rows come is open, but not their order; and each is a row.
                    let parts = order.len();
                    assert_eq!(actual.len(), expected.len(), "{context}");
                    for (a, b) in actual.iter().zip(&expected) {
                        assert!(
                            is_same_row(&a[..parts], &b[..parts]),
                            "{context}: {a:?} {b:?}"
                        );
                    }
                    let rest = columns.len() - parts;
                    let all: Vec<Vec<Cell>> = visible
                        .iter()
                        .map(|row| row.iter().cloned().map(Cell::Value).collect())
                        .collect();
                    for row in &actual {
                        assert_eq!(row.len() - parts, rest);
                        assert!(
                            all.iter().any(|other| is_same_row(other, &row[parts..])),
                            "{context}"
                        );
                    }
                } else if let Output::FirstGroups {
                    keys,
                    aggregates,
                    order,
                    ..
                } = &query.output
                {
                    // Which of equal groups come is open, but not their order; and each is a group.
                    assert_eq!(actual.len(), expected.len(), "{context}");
                    for (a, b) in actual.iter().zip(&expected) {
                        for part in order {
                            let (a, b) = (&a[part.column], &b[part.column]);
                            assert!(same_cell(a, b), "{context}: {a:?} {b:?}");
                        }
                    }
                    let all = Query {
                        output: Output::Aggregate {
                            keys: keys.clone(),
                            aggregates: aggregates.clone(),
                        },
                        ..query.clone()
                    };
                    let mut all = oracle::run(&all, &visible).expect("has groups");
                    for row in &actual {
                        let at = all.iter().position(|other| is_same_row(other, row));
                        assert!(at.is_some(), "{context}: {row:?}");
                        all.swap_remove(at.unwrap_or(0));
                    }
                } else {
                    assert_same_scales(&query, &actual, &expected);
                    assert_same_rows(actual, &expected);
                }
            }
            // What cannot be computed exactly is left to PostgreSQL.
            (Err(VectorError::Unsupported { .. }), _) => {}
            // Conjuncts that cannot fail may be evaluated first.
            (Ok(_), Err(_)) if query.filter.len() > 1 => {}
            (_, Err(VectorError::Unsupported { .. })) => {}
            // LIMIT 0 reads nothing.
            (Ok(_), Err(_)) if matches!(query.output, Output::First { limit: 0, .. }) => {}
            // Only columns of rows that are returned are evaluated.
            (Err(actual), Err(expected)) => {
                let (actual, expected) = (actual.to_string(), expected.to_string());
                // Of several rows that fail, another one may be met first: columns are computed one
                // after the other, and threads at the same time.
                let raises = |row: &Vec<_>| {
                    let alone = oracle::run(&query, std::slice::from_ref(row));
                    alone.is_err_and(|error| error.to_string() == actual)
                };
                assert!(
                    actual == expected || visible.iter().any(raises),
                    "{context}: {actual}, not {expected}"
                );
            }
            (actual, expected) => panic!("{context}: {actual:?} {expected:?}"),
        }
    }
    compared
}

#[test]
fn most_random_runs_have_a_result() {
    let compared: usize = (0..100).map(|seed| check(seed, 300)).sum();
    assert!(compared > 200, "{compared} of 400");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_agree_with_the_oracle(seed: u64, row_count in 1..700usize) {
        check(seed, row_count);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_over_several_zones_agree_with_the_oracle(seed: u64, row_count in 9_000..25_000usize) {
        check(seed, row_count);
    }
}
