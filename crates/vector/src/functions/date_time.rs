//! Dates and what is computed of them, as in PostgreSQL's `utils/adt/date.c`.
//!
//! Dates count days, timestamps microseconds, both since 2000-01-01. The least and the greatest integer
//! are the infinities.

use arrow_buffer::BooleanBuffer;
use howdah_columnar::ColumnType::{Int32, Int64};
use howdah_columnar::{ColumnType, CompareOp};

use super::Function;
use super::compare::comparisons;
use super::kernel::{Kernel, Operand, Values, commuted, mismatch, rows};
use super::loops::{BinaryOp, binary, bits_of, bits_of_pairs};
use crate::error::VectorError;

/// PostgreSQL's `IS_VALID_DATE`: from Julian day 0 to before `DATE_END_JULIAN`.
const FIRST_DATE: i32 = -2_451_545;
const END_DATE: i32 = (2_147_483_494_i64 - 2_451_545) as i32;

/// `TIMESTAMP_END_JULIAN`: dates from here on are greater than all finite timestamps.
const END_TIMESTAMP_DATE: i32 = 109_203_528 - 2_451_545;

pub(crate) const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

const DATE_OUT_OF_RANGE: VectorError = VectorError::DatetimeOutOfRange {
    message: "date out of range",
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

/// The day that so many days lead to; infinite dates stay where they are.
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

/// Where a date lies among timestamps. Dates beyond all finite timestamps lie between those and
/// infinity, where no timestamp is.
#[inline(always)]
pub(crate) fn timestamp_of(date: i32) -> i64 {
    match date {
        i32::MIN => i64::MIN,
        i32::MAX => i64::MAX,
        END_TIMESTAMP_DATE.. => i64::MAX - 1,
        // Dates before the first valid one are damage; they stay less than all finite timestamps.
        date => i64::from(date.max(-106_751_991)) * MICROSECONDS_PER_DAY,
    }
}

fn dates_timestamps(
    op: CompareOp,
    dates: Operand<'_>,
    timestamps: Operand<'_>,
) -> Result<BooleanBuffer, VectorError> {
    match (dates, timestamps) {
        (Operand::Rows(dates), Operand::Same(_)) => {
            let Values::<i64>::Same(timestamp) = Values::of(timestamps)? else {
                return Err(mismatch());
            };
            Ok(bits_of(rows::<i32>(dates)?, |date| {
                op.holds(timestamp_of(date).cmp(&timestamp))
            }))
        }
        (Operand::Same(_), Operand::Rows(timestamps)) => {
            let Values::<i32>::Same(date) = Values::of(dates)? else {
                return Err(mismatch());
            };
            let date = timestamp_of(date);
            Ok(bits_of(rows::<i64>(timestamps)?, |timestamp: i64| {
                op.holds(date.cmp(&timestamp))
            }))
        }
        (Operand::Rows(dates), Operand::Rows(timestamps)) => {
            let (dates, timestamps) = (rows::<i32>(dates)?, rows::<i64>(timestamps)?);
            Ok(bits_of_pairs(dates, timestamps, |date, timestamp: i64| {
                op.holds(timestamp_of(date).cmp(&timestamp))
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
