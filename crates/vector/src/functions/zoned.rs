//! What depends on a time zone: casts between timestamps with time zone and what clocks show, as in
//! PostgreSQL's `utils/adt/timestamp.c` and `date.c`.
//!
//! Timestamps of which the zone is not known, and results that are no valid timestamps, are left to
//! PostgreSQL.

use howdah_columnar::Column;
use howdah_columnar::ColumnType::{Int32, Int64};

use super::Function;
use super::date_time::{BeginOf, DateOf, END_TIMESTAMP, FIRST_TIMESTAMP, MICROSECONDS_PER_DAY};
use super::kernel::{Kernel, Native, Operand, column, mismatch, rows};
use super::loops::{UnaryOp, check_rows, gathered};
use crate::error::VectorError;
use crate::zone::Zone;

const KNOWN: &str = "for timestamps of which the zone is known";

const UNKNOWN: VectorError = VectorError::Unsupported {
    what: "a timestamp of which the time zone is not known",
};

pub(super) static FUNCTIONS: &[&[Function]] = &[&[
    Function::new(
        "timestamptz_timestamp",
        &[Int64],
        Int64,
        Kernel::Zoned(to_local),
    )
    .failing()
    .exact_where(KNOWN),
    Function::new(
        "timestamp_timestamptz",
        &[Int64],
        Int64,
        Kernel::Zoned(of_local),
    )
    .failing()
    .exact_where(KNOWN),
    Function::new("timestamptz_date", &[Int64], Int32, Kernel::Zoned(to_date))
        .failing()
        .exact_where(KNOWN),
    Function::new("date_timestamptz", &[Int32], Int64, Kernel::Zoned(of_date))
        .failing()
        .exact_where(KNOWN),
]];

/// Converts finite timestamps, and leaves infinite ones as they are. Also returns whether an
/// argument or a result is no timestamp, or none of which the zone is known.
fn converted(
    zone: &Zone,
    timestamps: &[i64],
    mut convert: impl FnMut(i64) -> i64,
) -> (Vec<i64>, bool) {
    // A local time is less than a day from its moment.
    let end = END_TIMESTAMP.min(zone.end().saturating_sub(2 * MICROSECONDS_PER_DAY));
    let is_known = move |at: i64| (FIRST_TIMESTAMP..end).contains(&at);
    gathered(timestamps.iter().map(move |&at| {
        let is_infinite = (at == i64::MIN) | (at == i64::MAX);
        match is_known(at) {
            true => {
                let result = convert(at);
                (result, !is_known(result))
            }
            false => (at, !is_infinite),
        }
    }))
}

/// What clocks show at these moments.
pub(super) fn local_times(zone: &Zone, moments: &[i64]) -> (Vec<i64>, bool) {
    converted(zone, moments, zone.local_times())
}

/// When clocks show these times.
pub(super) fn moments_of(zone: &Zone, local_times: &[i64]) -> (Vec<i64>, bool) {
    converted(zone, local_times, zone.moments())
}

/// The only operand, which has a value for each row.
fn only<'a>(operands: &[Operand<'a>]) -> Result<&'a Column, VectorError> {
    match operands {
        &[Operand::Rows(argument)] => Ok(argument),
        _ => Err(mismatch()),
    }
}

/// Converts a column; `convert` returns the results, and whether one of them is invalid.
fn each<T: Native, R: Native>(
    operands: &[Operand<'_>],
    convert: impl Fn(&[T]) -> (Vec<R>, bool),
) -> Result<Column, VectorError> {
    let argument = only(operands)?;
    let values = rows::<T>(argument)?;
    let (results, suspect) = convert(values);
    if suspect {
        check_rows(values.len(), argument.nulls(), |row| {
            match convert(&values[row..=row]).1 {
                true => Err(UNKNOWN),
                false => Ok(()),
            }
        })?;
    }
    Ok(column(results, argument.nulls().cloned()))
}

fn to_local(zone: &Zone, operands: &[Operand<'_>]) -> Result<Column, VectorError> {
    each::<i64, i64>(operands, |moments| local_times(zone, moments))
}

fn of_local(zone: &Zone, operands: &[Operand<'_>]) -> Result<Column, VectorError> {
    each::<i64, i64>(operands, |local| moments_of(zone, local))
}

fn to_date(zone: &Zone, operands: &[Operand<'_>]) -> Result<Column, VectorError> {
    each::<i64, i32>(operands, |moments| {
        let (local, suspect) = local_times(zone, moments);
        (
            local.iter().map(|&at| DateOf::fast(at).0).collect(),
            suspect,
        )
    })
}

fn of_date(zone: &Zone, operands: &[Operand<'_>]) -> Result<Column, VectorError> {
    each::<i32, i64>(operands, |dates| {
        let (begins, too_late) = gathered(dates.iter().map(|&date| BeginOf::fast(date)));
        let (moments, suspect) = moments_of(zone, &begins);
        (moments, too_late | suspect)
    })
}
