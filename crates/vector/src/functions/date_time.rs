//! Dates and what is computed of them, as in PostgreSQL's `utils/adt/date.c`.
//!
//! Dates count days, timestamps microseconds, both since 2000-01-01. The least and the greatest
//! integer are the infinities.

use arrow_buffer::BooleanBuffer;
use howdah_columnar::ColumnType::{Int32, Int64};
use howdah_columnar::{ColumnType, CompareOp};

use super::Function;
use super::compare::{comparisons, with_constant};
use super::kernel::{Kernel, Native, Operand, commuted, mismatch, rows};
use super::loops::{BinaryOp, UnaryOp, binary, bits_of, bits_of_pairs, unary};
use crate::error::VectorError;

/// PostgreSQL's `IS_VALID_DATE`: from Julian day 0 to before `DATE_END_JULIAN`.
const FIRST_DATE: i32 = -2_451_545;
const END_DATE: i32 = (2_147_483_494_i64 - 2_451_545) as i32;

pub(crate) const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// PostgreSQL's `MIN_TIMESTAMP` and `END_TIMESTAMP`.
pub(super) const FIRST_TIMESTAMP: i64 = -211_813_488_000_000_000;
pub(super) const END_TIMESTAMP: i64 = 9_223_371_331_200_000_000;

const DATE_OUT_OF_RANGE: VectorError = VectorError::DatetimeOutOfRange {
    message: "date out of range",
};

const NO_TIMESTAMP: VectorError = VectorError::DatetimeOutOfRange {
    message: "date out of range for timestamp",
};

const INFINITE_DATES: VectorError = VectorError::DatetimeOutOfRange {
    message: "cannot subtract infinite dates",
};

const fn two<O: BinaryOp>(prosrc: &'static str) -> Function {
    const ARGUMENTS: &[ColumnType] = &[Int32, Int32];
    Function::new(prosrc, ARGUMENTS, Int32, Kernel::Binary(binary::<O>)).failing()
}

pub(super) static FUNCTIONS: &[&[Function]] = &[
    &[
        two::<AddDays>("date_pli"),
        two::<SubtractDays>("date_mii"),
        two::<Days>("date_mi"),
    ],
    &[
        Function::new(
            "timestamp_date",
            &[Int64],
            Int32,
            Kernel::Unary(unary::<DateOf>),
        ),
        Function::new(
            "date_timestamp",
            &[Int32],
            Int64,
            Kernel::Unary(unary::<BeginOf>),
        )
        .failing(),
    ],
    comparisons!(
        &[Int32, Int64],
        dates_timestamps,
        false,
        "date_eq_timestamp",
        "date_ne_timestamp",
        "date_lt_timestamp",
        "date_le_timestamp",
        "date_gt_timestamp",
        "date_ge_timestamp"
    ),
    comparisons!(
        &[Int64, Int32],
        timestamps_dates,
        false,
        "timestamp_eq_date",
        "timestamp_ne_date",
        "timestamp_lt_date",
        "timestamp_le_date",
        "timestamp_gt_date",
        "timestamp_ge_date"
    ),
];

#[inline(always)]
fn is_infinite(date: i32) -> bool {
    (date == i32::MIN) | (date == i32::MAX)
}

/// The date this many days later; infinite dates do not change.
#[inline(always)]
fn moved(date: i32, days: i64) -> (i32, bool) {
    let moved = i64::from(date) + days;
    let is_valid = (moved >= FIRST_DATE.into()) & (moved < END_DATE.into());
    match is_infinite(date) {
        true => (date, false),
        false => (moved as i32, !is_valid),
    }
}

struct AddDays;
struct SubtractDays;
struct Days;

impl BinaryOp for AddDays {
    type Left = i32;
    type Right = i32;
    type Out = i32;

    #[inline(always)]
    fn fast(date: i32, days: i32) -> (i32, bool) {
        moved(date, days.into())
    }

    fn check(date: i32, days: i32) -> Result<(), VectorError> {
        match Self::fast(date, days).1 {
            true => Err(DATE_OUT_OF_RANGE),
            false => Ok(()),
        }
    }
}

impl BinaryOp for SubtractDays {
    type Left = i32;
    type Right = i32;
    type Out = i32;

    #[inline(always)]
    fn fast(date: i32, days: i32) -> (i32, bool) {
        moved(date, -i64::from(days))
    }

    fn check(date: i32, days: i32) -> Result<(), VectorError> {
        match Self::fast(date, days).1 {
            true => Err(DATE_OUT_OF_RANGE),
            false => Ok(()),
        }
    }
}

impl BinaryOp for Days {
    type Left = i32;
    type Right = i32;
    type Out = i32;

    #[inline(always)]
    fn fast(left: i32, right: i32) -> (i32, bool) {
        (
            left.wrapping_sub(right),
            is_infinite(left) | is_infinite(right),
        )
    }

    fn check(left: i32, right: i32) -> Result<(), VectorError> {
        match Self::fast(left, right).1 {
            true => Err(INFINITE_DATES),
            false => Ok(()),
        }
    }
}

/// The date of a timestamp.
pub(super) struct DateOf;

impl UnaryOp for DateOf {
    type In = i64;
    type Out = i32;

    #[inline(always)]
    fn fast(timestamp: i64) -> (i32, bool) {
        let date = match timestamp {
            i64::MIN => i32::MIN,
            i64::MAX => i32::MAX,
            // 64 bits of microseconds are some hundred million days.
            timestamp => timestamp.div_euclid(MICROSECONDS_PER_DAY) as i32,
        };
        (date, false)
    }

    fn check(_: i64) -> Result<(), VectorError> {
        Ok(())
    }
}

/// The timestamp with which a date begins.
pub(super) struct BeginOf;

impl UnaryOp for BeginOf {
    type In = i32;
    type Out = i64;

    #[inline(always)]
    fn fast(date: i32) -> (i64, bool) {
        match date {
            i32::MIN => (i64::MIN, false),
            i32::MAX => (i64::MAX, false),
            date => {
                let begin = i64::from(date).wrapping_mul(MICROSECONDS_PER_DAY);
                (
                    begin,
                    i64::from(date) >= END_TIMESTAMP / MICROSECONDS_PER_DAY,
                )
            }
        }
    }

    fn check(date: i32) -> Result<(), VectorError> {
        match Self::fast(date).1 {
            true => Err(NO_TIMESTAMP),
            false => Ok(()),
        }
    }
}

/// A comparison of dates with one timestamp, as a test of the dates.
pub(crate) enum DateTest {
    /// The comparison with this date.
    Compare(CompareOp, i32),
    /// True for all dates.
    Always,
    /// True for no date.
    Never,
}

/// The comparison of dates with a timestamp.
pub(crate) fn date_test(op: CompareOp, timestamp: i64) -> DateTest {
    let (date, is_exact) = match timestamp {
        i64::MIN => (i32::MIN, true),
        i64::MAX => (i32::MAX, true),
        timestamp => {
            let day = timestamp.div_euclid(MICROSECONDS_PER_DAY);
            let is_exact = timestamp.rem_euclid(MICROSECONDS_PER_DAY) == 0;
            // 64 bits of microseconds are some hundred million days.
            (day as i32, is_exact)
        }
    };
    match (op, is_exact) {
        (op, true) => DateTest::Compare(op, date),
        // Between two days: no date is equal.
        (CompareOp::Eq, false) => DateTest::Never,
        (CompareOp::Ne, false) => DateTest::Always,
        (CompareOp::Lt | CompareOp::Le, false) => DateTest::Compare(CompareOp::Le, date),
        (CompareOp::Gt | CompareOp::Ge, false) => DateTest::Compare(CompareOp::Gt, date),
    }
}

/// The microseconds of a date, beyond all timestamps for most dates; infinity is the greatest.
#[inline(always)]
fn microseconds_of_date(date: i32) -> i128 {
    match date {
        i32::MIN => i128::MIN,
        i32::MAX => i128::MAX,
        date => i128::from(date) * i128::from(MICROSECONDS_PER_DAY),
    }
}

#[inline(always)]
fn microseconds(timestamp: i64) -> i128 {
    match timestamp {
        i64::MIN => i128::MIN,
        i64::MAX => i128::MAX,
        timestamp => timestamp.into(),
    }
}

fn dates_timestamps(
    op: CompareOp,
    dates: Operand<'_>,
    timestamps: Operand<'_>,
) -> Result<BooleanBuffer, VectorError> {
    match (dates, timestamps) {
        (Operand::Rows(dates), Operand::Same(timestamp)) => {
            let dates = rows::<i32>(dates)?;
            let timestamp = i64::value(timestamp).ok_or_else(mismatch)?;
            Ok(match date_test(op, timestamp) {
                DateTest::Compare(op, date) => with_constant(op, dates, date),
                DateTest::Always => BooleanBuffer::new_set(dates.len()),
                DateTest::Never => BooleanBuffer::new_unset(dates.len()),
            })
        }
        (Operand::Same(date), Operand::Rows(timestamps)) => {
            let date = microseconds_of_date(i32::value(date).ok_or_else(mismatch)?);
            Ok(bits_of(rows::<i64>(timestamps)?, |timestamp| {
                op.holds(date.cmp(&microseconds(timestamp)))
            }))
        }
        (Operand::Rows(dates), Operand::Rows(timestamps)) => {
            let (dates, timestamps) = (rows::<i32>(dates)?, rows::<i64>(timestamps)?);
            Ok(bits_of_pairs(dates, timestamps, |date, timestamp| {
                op.holds(microseconds_of_date(date).cmp(&microseconds(timestamp)))
            }))
        }
        (Operand::Same(_), Operand::Same(_)) => Err(mismatch()),
    }
}

fn timestamps_dates(
    op: CompareOp,
    timestamps: Operand<'_>,
    dates: Operand<'_>,
) -> Result<BooleanBuffer, VectorError> {
    dates_timestamps(commuted(op), dates, timestamps)
}
