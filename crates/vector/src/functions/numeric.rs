//! Arithmetic of numerics, as in PostgreSQL's `utils/adt/numeric.c`: a sum shows as many digits
//! after the point as the argument that shows more, a product as both together.
//!
//! ```text
//!   one scale and 64 bits on both sides ─▶ a loop over i64 ─▶ fits ─▶ narrow
//!                                     │                        └ not ─┐
//!   anything else ────────────────────┴─▶ row by row in i128 ◀────────┘
//! ```

use arrow_buffer::NullBuffer;
use howdah_columnar::ColumnType::{Int16, Int32, Int64, Numeric as NumericType};
use howdah_columnar::{
    Column, ColumnType, Numeric, NumericColumn, NumericDigits, NumericScales, Value,
};

use super::kernel::{Kernel, Native, Operand, mismatch, nulls_of, row_count, rows, value};
use super::numeric_compare::IMAGE;
use super::{Exactness, Function};
use crate::error::VectorError;

/// The first magnitude that is stored as an image.
const LIMIT: u128 = 10_u128.pow(38);

/// PostgreSQL's `NUMERIC_DSCALE_MAX`, from where on products are rounded.
const SCALE_MAX: u16 = 0x3FFF;

const TOO_LONG: VectorError = VectorError::Unsupported {
    what: "a numeric result of more than 38 digits",
};

const SMALL: Exactness =
    Exactness::Where("where arguments and result are finite and have at most 38 digits");

const fn entry(
    prosrc: &'static str,
    arguments: &'static [ColumnType],
    kernel: Kernel,
    exactness: Exactness,
) -> Function {
    let mut function = Function::new(prosrc, arguments, NumericType, kernel);
    function.exactness = exactness;
    function
}

const TWO: &[ColumnType] = &[NumericType, NumericType];

pub(super) static FUNCTIONS: &[&[Function]] = &[
    &[
        entry("numeric_add", TWO, Kernel::Binary(binary::<Add>), SMALL),
        entry(
            "numeric_sub",
            TWO,
            Kernel::Binary(binary::<Subtract>),
            SMALL,
        ),
        entry(
            "numeric_mul",
            TWO,
            Kernel::Binary(binary::<Multiply>),
            SMALL,
        ),
    ],
    &[
        entry(
            "numeric_uminus",
            &[NumericType],
            Kernel::Unary(negate),
            SMALL,
        ),
        entry(
            "numeric_abs",
            &[NumericType],
            Kernel::Unary(absolute),
            SMALL,
        ),
    ],
    &[
        entry(
            "int2_numeric",
            &[Int16],
            Kernel::Unary(of_integers::<i16>),
            Exactness::Always,
        ),
        entry(
            "int4_numeric",
            &[Int32],
            Kernel::Unary(of_integers::<i32>),
            Exactness::Always,
        ),
        entry(
            "int8_numeric",
            &[Int64],
            Kernel::Unary(of_integers::<i64>),
            Exactness::Always,
        ),
    ],
];

/// A decimal that is no image: its digits and its scale.
type Decimal = (i128, u16);

trait Operation {
    /// The factors by which arguments of these scales are multiplied first, and the scale of the
    /// result; `None` if beyond 64 bits.
    fn scales(left: u16, right: u16) -> Option<(i64, i64, u16)>;

    /// The result of narrow digits, already multiplied, and whether it is beyond 64 bits.
    fn narrow(left: i64, right: i64) -> (i64, bool);

    /// The result for any arguments; `None` if beyond 128 bits.
    fn exact(left: Decimal, right: Decimal) -> Option<Decimal>;
}

struct Add;
struct Subtract;
struct Multiply;

/// The factor that brings a value of scale `own` to the greater of both scales.
fn factor(own: u16, other: u16) -> Option<i64> {
    10_i64.checked_pow(other.saturating_sub(own).into())
}

/// Both values at the greater of both scales.
fn aligned(left: Decimal, right: Decimal) -> Option<(i128, i128, u16)> {
    let scale = left.1.max(right.1);
    let up = |(unscaled, own): Decimal| match unscaled {
        0 => Some(0),
        _ => unscaled.checked_mul(10_i128.checked_pow((scale - own).into())?),
    };
    Some((up(left)?, up(right)?, scale))
}

impl Operation for Add {
    fn scales(left: u16, right: u16) -> Option<(i64, i64, u16)> {
        Some((factor(left, right)?, factor(right, left)?, left.max(right)))
    }

    #[inline(always)]
    fn narrow(left: i64, right: i64) -> (i64, bool) {
        let sum = left.wrapping_add(right);
        (sum, (left ^ sum) & (right ^ sum) < 0)
    }

    fn exact(left: Decimal, right: Decimal) -> Option<Decimal> {
        let (left, right, scale) = aligned(left, right)?;
        Some((left.checked_add(right)?, scale))
    }
}

impl Operation for Subtract {
    fn scales(left: u16, right: u16) -> Option<(i64, i64, u16)> {
        Add::scales(left, right)
    }

    #[inline(always)]
    fn narrow(left: i64, right: i64) -> (i64, bool) {
        let difference = left.wrapping_sub(right);
        (difference, (left ^ right) & (left ^ difference) < 0)
    }

    fn exact(left: Decimal, right: Decimal) -> Option<Decimal> {
        let (left, right, scale) = aligned(left, right)?;
        Some((left.checked_sub(right)?, scale))
    }
}

impl Operation for Multiply {
    fn scales(left: u16, right: u16) -> Option<(i64, i64, u16)> {
        let scale = left.checked_add(right)?;
        (scale <= SCALE_MAX).then_some((1, 1, scale))
    }

    #[inline(always)]
    fn narrow(left: i64, right: i64) -> (i64, bool) {
        left.overflowing_mul(right)
    }

    fn exact(left: Decimal, right: Decimal) -> Option<Decimal> {
        let (_, _, scale) = Self::scales(left.1, right.1)?;
        Some((left.0.checked_mul(right.0)?, scale))
    }
}

fn binary<O: Operation>(left: Operand<'_>, right: Operand<'_>) -> Result<Column, VectorError> {
    let nulls = nulls_of(left, right);
    if let Some((digits, scale)) = narrow::<O>(left, right) {
        return narrow_column(digits, scale, nulls);
    }
    let results = (0..row_count(left, right)).map(|row| {
        let (Some(left), Some(right)) = (value(left, row), value(right, row)) else {
            return Ok(None);
        };
        let result = O::exact(decimal(left)?, decimal(right)?);
        result.ok_or(TOO_LONG).map(Some)
    });
    assembled(results, nulls)
}

/// An argument of one scale and 64 bits.
enum Narrow<'a> {
    Rows(&'a [i64], u16),
    Same(i64, u16),
}

fn narrow_operand(operand: Operand<'_>) -> Option<Narrow<'_>> {
    match operand {
        Operand::Rows(Column::Numeric(column)) => {
            let (digits, scale) = column.as_narrow()?;
            Some(Narrow::Rows(digits, scale))
        }
        Operand::Same(Value::Numeric(Numeric::Small { unscaled, scale })) => {
            Some(Narrow::Same(i64::try_from(unscaled).ok()?, scale))
        }
        _ => None,
    }
}

/// The narrow result of narrow arguments, if all of it is.
fn narrow<O: Operation>(left: Operand<'_>, right: Operand<'_>) -> Option<(Vec<i64>, u16)> {
    match (narrow_operand(left)?, narrow_operand(right)?) {
        (Narrow::Rows(left, left_scale), Narrow::Rows(right, right_scale)) => {
            let (a, b, scale) = O::scales(left_scale, right_scale)?;
            let pairs = left.iter().zip(right).map(|(&left, &right)| (left, right));
            Some((narrow_loop::<O>(pairs, a, b)?, scale))
        }
        (Narrow::Rows(left, left_scale), Narrow::Same(right, right_scale)) => {
            let (a, b, scale) = O::scales(left_scale, right_scale)?;
            let right = right.checked_mul(b)?;
            let pairs = left.iter().map(|&left| (left, right));
            Some((narrow_loop::<O>(pairs, a, 1)?, scale))
        }
        (Narrow::Same(left, left_scale), Narrow::Rows(right, right_scale)) => {
            let (a, b, scale) = O::scales(left_scale, right_scale)?;
            let left = left.checked_mul(a)?;
            let pairs = right.iter().map(|&right| (left, right));
            Some((narrow_loop::<O>(pairs, 1, b)?, scale))
        }
        (Narrow::Same(..), Narrow::Same(..)) => None,
    }
}

fn narrow_loop<O: Operation>(
    pairs: impl ExactSizeIterator<Item = (i64, i64)>,
    left_factor: i64,
    right_factor: i64,
) -> Option<Vec<i64>> {
    let mut failed = false;
    let mut out = Vec::with_capacity(pairs.len());
    if left_factor == 1 && right_factor == 1 {
        out.extend(pairs.map(|(left, right)| {
            let (result, overflows) = O::narrow(left, right);
            failed |= overflows;
            result
        }));
    } else {
        out.extend(pairs.map(|(left, right)| {
            let (left, left_overflows) = left.overflowing_mul(left_factor);
            let (right, right_overflows) = right.overflowing_mul(right_factor);
            let (result, overflows) = O::narrow(left, right);
            failed |= left_overflows | right_overflows | overflows;
            result
        }));
    }
    (!failed).then_some(out)
}

fn decimal(value: Value<'_>) -> Result<Decimal, VectorError> {
    match value {
        Value::Numeric(Numeric::Small { unscaled, scale }) => Ok((unscaled, scale)),
        Value::Numeric(Numeric::Image(_)) => Err(IMAGE),
        _ => Err(mismatch()),
    }
}

/// A column of decimals, as narrow as they allow.
fn assembled(
    results: impl Iterator<Item = Result<Option<Decimal>, VectorError>>,
    nulls: Option<NullBuffer>,
) -> Result<Column, VectorError> {
    let (mut digits, mut scales) = (Vec::new(), Vec::new());
    for result in results {
        let (unscaled, scale) = match result? {
            Some((unscaled, _)) if unscaled.unsigned_abs() >= LIMIT => return Err(TOO_LONG),
            Some(decimal) => decimal,
            None => (0, scales.last().copied().unwrap_or(0)),
        };
        digits.push(unscaled);
        scales.push(scale);
    }
    let narrow: Result<Vec<i64>, _> = digits.iter().map(|&digits| i64::try_from(digits)).collect();
    let digits = match narrow {
        Ok(narrow) => NumericDigits::Narrow(narrow.into()),
        Err(_) => NumericDigits::Wide(digits.into()),
    };
    let first = scales.first().copied().unwrap_or(0);
    let scales = match scales.iter().all(|&scale| scale == first) {
        true => NumericScales::Constant(first),
        false => NumericScales::PerRow(scales.into()),
    };
    let column = NumericColumn::new(digits, scales, Vec::new(), None, nulls)?;
    Ok(Column::Numeric(column))
}

fn narrow_column(
    digits: Vec<i64>,
    scale: u16,
    nulls: Option<NullBuffer>,
) -> Result<Column, VectorError> {
    let digits = NumericDigits::Narrow(digits.into());
    let scales = NumericScales::Constant(scale);
    let column = NumericColumn::new(digits, scales, Vec::new(), None, nulls)?;
    Ok(Column::Numeric(column))
}

fn negate(argument: &Column) -> Result<Column, VectorError> {
    unary(argument, i64::overflowing_neg, |unscaled| -unscaled)
}

fn absolute(argument: &Column) -> Result<Column, VectorError> {
    unary(argument, i64::overflowing_abs, i128::abs)
}

/// What keeps the scale. `wide` is given magnitudes below [`LIMIT`].
fn unary(
    argument: &Column,
    narrow: impl Fn(i64) -> (i64, bool),
    wide: impl Fn(i128) -> i128,
) -> Result<Column, VectorError> {
    let nulls = argument.nulls().cloned();
    if let Some(Narrow::Rows(digits, scale)) = narrow_operand(Operand::Rows(argument)) {
        let mut failed = false;
        let results = digits.iter().map(|&digits| {
            let (result, overflows) = narrow(digits);
            failed |= overflows;
            result
        });
        let results: Vec<i64> = results.collect();
        if !failed {
            return narrow_column(results, scale, nulls);
        }
    }
    let results = (0..argument.len()).map(|row| {
        let value = argument.value(row).map(decimal).transpose()?;
        match value {
            Some((unscaled, _)) if unscaled.unsigned_abs() >= LIMIT => Err(TOO_LONG),
            value => Ok(value.map(|(unscaled, scale)| (wide(unscaled), scale))),
        }
    });
    assembled(results, nulls)
}

fn of_integers<T: Native + Into<i64>>(argument: &Column) -> Result<Column, VectorError> {
    let digits = rows::<T>(argument)?.iter().map(|&value| value.into());
    narrow_column(digits.collect(), 0, argument.nulls().cloned())
}
