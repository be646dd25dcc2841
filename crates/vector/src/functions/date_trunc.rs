//! `date_trunc` of timestamps, as `timestamp_trunc` and `timestamptz_trunc` in PostgreSQL's
//! `utils/adt/timestamp.c`.
//!
//! What is no unit is left to PostgreSQL, which raises the error, as are timestamps whose beginning
//! would lie before the first valid one.
//!
//! Years are counted with a year 0, which is 1 BC, as in PostgreSQL's calendar functions.

use howdah_columnar::ColumnType::{Int64, Text};
use howdah_columnar::{Column, Value};

use super::Function;
use super::date_time::{END_TIMESTAMP as END, FIRST_TIMESTAMP as FIRST, MICROSECONDS_PER_DAY};
use super::kernel::{Kernel, Native, Operand, column, mismatch, nulls_of, row_count, rows, value};
use super::loops::{check_rows, gathered};
use super::zoned::{local_times, moments_of};
use crate::error::VectorError;
use crate::zone::Zone;

pub(super) static FUNCTIONS: &[&[Function]] = &[&[
    Function::new(
        "timestamp_trunc",
        &[Text, Int64],
        Int64,
        Kernel::Binary(truncated),
    )
    .failing()
    .exact_where("where there is such a unit"),
    Function::new(
        "timestamptz_trunc",
        &[Text, Int64],
        Int64,
        Kernel::Zoned(truncated_in_zone),
    )
    .failing()
    .exact_where("where there is such a unit, for timestamps of which the zone is known"),
]];

const UNUSUAL: VectorError = VectorError::Unsupported {
    what: "an unknown unit, or a timestamp of the first days",
};

/// What a timestamp is truncated to.
#[derive(Clone, Copy)]
enum Unit {
    /// So many microseconds, counted from midnight.
    Microseconds(i64),
    Week,
    /// So many months, which begin with a year.
    Months(i64),
    Decade,
    /// So many years, the last of which is a multiple of them.
    Years(i64),
}

/// PostgreSQL's `TOKMAXLEN`: of a name no more bytes are compared.
const NAME_BYTES: usize = 10;

/// The names of units, as in `deltatktbl` of PostgreSQL's `utils/adt/datetime.c`.
#[rustfmt::skip]
const UNITS: [(&[&str], Unit); 13] = [
    (&["microsecon", "us", "usec", "usecond", "useconds", "usecs"], Unit::Microseconds(1)),
    (&["millisecon", "ms", "msec", "msecond", "mseconds", "msecs"], Unit::Microseconds(1_000)),
    (&["second", "s", "sec", "seconds", "secs"], Unit::Microseconds(1_000_000)),
    (&["minute", "m", "min", "mins", "minutes"], Unit::Microseconds(60_000_000)),
    (&["hour", "h", "hours", "hr", "hrs"], Unit::Microseconds(3_600_000_000)),
    (&["day", "d", "days"], Unit::Microseconds(MICROSECONDS_PER_DAY)),
    (&["week", "w", "weeks"], Unit::Week),
    (&["month", "mon", "mons", "months"], Unit::Months(1)),
    (&["quarter", "qtr"], Unit::Months(3)),
    (&["year", "y", "years", "yr", "yrs"], Unit::Months(12)),
    (&["decade", "dec", "decades", "decs"], Unit::Decade),
    (&["century", "c", "cent", "centuries"], Unit::Years(100)),
    (&["millennium", "mil", "millennia", "mils"], Unit::Years(1_000)),
];

impl Unit {
    fn named(name: &str) -> Option<Self> {
        let name = &name.as_bytes()[..name.len().min(NAME_BYTES)];
        let is_spelled = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
        let known = (UNITS.iter()).find(|(names, _)| names.iter().any(is_spelled));
        known.map(|&(_, unit)| unit)
    }

    /// The beginnings of the units in which the timestamps lie, and whether one of them is invalid.
    fn begins(self, timestamps: &[i64]) -> (Vec<i64>, bool) {
        match self {
            Self::Microseconds(count) => each(timestamps, move |at| at - at.rem_euclid(count)),
            Self::Week => each(timestamps, |at| {
                let day = day_of(at);
                // Day 0 is a Saturday.
                (day - (day + 5).rem_euclid(7)) * MICROSECONDS_PER_DAY
            }),
            Self::Months(count) => each(timestamps, move |at| {
                let (year, month) = month_of(day_of(at));
                begin_of(year, month - month % count)
            }),
            Self::Decade => each(timestamps, |at| {
                let (year, _) = month_of(day_of(at));
                begin_of(year - year.rem_euclid(10), 0)
            }),
            Self::Years(count) => each(timestamps, move |at| {
                let (year, _) = month_of(day_of(at));
                begin_of(year - (year - 1).rem_euclid(count), 0)
            }),
        }
    }
}

#[inline(always)]
fn each(timestamps: &[i64], begin: impl Fn(i64) -> i64) -> (Vec<i64>, bool) {
    gathered(timestamps.iter().map(move |&at| {
        let is_finite = (FIRST..END).contains(&at);
        let begin = begin(if is_finite { at } else { 0 });
        match is_finite {
            true => (begin, begin < FIRST),
            false => (at, (at != i64::MIN) & (at != i64::MAX)),
        }
    }))
}

/// The days since 2000-01-01; of valid timestamps they fit 32 bits.
#[inline(always)]
fn day_of(timestamp: i64) -> i64 {
    timestamp.div_euclid(MICROSECONDS_PER_DAY)
}

/// Days from 0000-03-01 to 2000-01-01. Years that begin in March end with the leap day.
const TO_EPOCH: i64 = 730_425;
const DAYS_OF_400_YEARS: i64 = 146_097;

/// The year of a day, and its month from 0.
#[inline(always)]
fn month_of(day: i64) -> (i64, i64) {
    let day = day + TO_EPOCH;
    let era = day.div_euclid(DAYS_OF_400_YEARS);
    let day = (day - era * DAYS_OF_400_YEARS) as u32;
    // Without the leap days before it, every year has 365 days.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months from March on have 153 days.
    let month = (5 * day + 2) / 153;
    let is_next = u32::from(month >= 10);
    let year = i64::from(year + is_next) + 400 * era;
    (year, i64::from(month + 2 - 12 * is_next))
}

/// The first moment of a month, which is counted from 0.
#[inline(always)]
fn begin_of(year: i64, month: i64) -> i64 {
    let is_before_march = i64::from(month < 2);
    let year = year - is_before_march;
    let month = month - 2 + 12 * is_before_march;
    let era = year.div_euclid(400);
    let year = year - 400 * era;
    let day = 365 * year + year / 4 - year / 100 + (153 * month + 2) / 5;
    (day + era * DAYS_OF_400_YEARS - TO_EPOCH) * MICROSECONDS_PER_DAY
}

fn truncated(units: Operand<'_>, timestamps: Operand<'_>) -> Result<Column, VectorError> {
    truncated_by(units, timestamps, Unit::begins)
}

/// Truncates on the clocks of a zone.
fn truncated_in_zone(zone: &Zone, operands: &[Operand<'_>]) -> Result<Column, VectorError> {
    let &[units, timestamps] = operands else {
        return Err(mismatch());
    };
    truncated_by(units, timestamps, |unit, moments| {
        let (local, outside) = local_times(zone, moments);
        let (mut begins, invalid) = unit.begins(&local);
        let is_part_of_day =
            matches!(unit, Unit::Microseconds(count) if count < MICROSECONDS_PER_DAY);
        let (begins, beyond) = match is_part_of_day {
            // The offset stays that of the timestamp.
            true => {
                let passed = local.iter().zip(moments);
                for (begin, (local, moment)) in begins.iter_mut().zip(passed) {
                    *begin = begin.wrapping_sub(local.wrapping_sub(*moment));
                }
                gathered(begins.into_iter().map(|begin| {
                    let is_infinite = (begin == i64::MIN) | (begin == i64::MAX);
                    (begin, !is_infinite & !(FIRST..END).contains(&begin))
                }))
            }
            false => moments_of(zone, &begins),
        };
        (begins, outside | invalid | beyond)
    })
}

/// Truncates by the unit of each row. `begins` returns the beginnings, and whether one is invalid.
fn truncated_by(
    units: Operand<'_>,
    timestamps: Operand<'_>,
    begins: impl Fn(Unit, &[i64]) -> (Vec<i64>, bool),
) -> Result<Column, VectorError> {
    if let (Operand::Same(Value::Text(name)), Operand::Rows(array)) = (units, timestamps)
        && let Some(unit) = Unit::named(name)
    {
        let values = rows::<i64>(array)?;
        let (results, suspect) = begins(unit, values);
        if suspect {
            check_rows(values.len(), array.nulls(), |row| {
                match begins(unit, &values[row..=row]).1 {
                    true => Err(UNUSUAL),
                    false => Ok(()),
                }
            })?;
        }
        return Ok(column(results, array.nulls().cloned()));
    }
    let of_row = |row: usize| match (value(units, row), value(timestamps, row)) {
        (None, _) | (_, None) => Ok(0),
        (Some(Value::Text(name)), Some(at)) => {
            let unit = Unit::named(name).ok_or(UNUSUAL)?;
            let (results, is_invalid) = begins(unit, &[i64::value(at).ok_or_else(mismatch)?]);
            results
                .first()
                .copied()
                .filter(|_| !is_invalid)
                .ok_or(UNUSUAL)
        }
        _ => Err(mismatch()),
    };
    let results = (0..row_count(units, timestamps)).map(of_row);
    let results = results.collect::<Result<Vec<i64>, _>>()?;
    Ok(column(results, nulls_of(units, timestamps)))
}
