//! Comparisons of numerics.
//!
//! Where all rows have one scale and 64 bits, a constant is brought to that scale once and integers
//! are compared. Any other pair is compared by value, row by row; images only their owner can
//! compare.

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use howdah_columnar::ColumnType::Numeric as NumericType;
use howdah_columnar::{Column, CompareOp, Numeric, NumericColumn, Value, compare};

use super::Function;
use super::compare::with_constant;
use super::kernel::{Operand, commuted, mismatch, row_count, value};
use super::loops::bits_of_pairs;
use crate::error::VectorError;

pub(crate) const IMAGE: VectorError = VectorError::Unsupported {
    what: "a numeric that is NaN, infinite or of more than 38 digits",
};

const fn entry(prosrc: &'static str, op: CompareOp) -> Function {
    super::compare::entry(prosrc, &[NumericType, NumericType], op, numerics, true)
        .exact_where("where both are finite and have at most 38 digits")
}

pub(super) static FUNCTIONS: &[&[Function]] = &[&[
    entry("numeric_eq", CompareOp::Eq),
    entry("numeric_ne", CompareOp::Ne),
    entry("numeric_lt", CompareOp::Lt),
    entry("numeric_le", CompareOp::Le),
    entry("numeric_gt", CompareOp::Gt),
    entry("numeric_ge", CompareOp::Ge),
]];

fn numerics(
    op: CompareOp,
    left: Operand<'_>,
    right: Operand<'_>,
) -> Result<BooleanBuffer, VectorError> {
    let fast = match (left, right) {
        (Operand::Rows(Column::Numeric(rows)), Operand::Same(Value::Numeric(constant))) => {
            narrow_with(op, rows, constant)
        }
        (Operand::Same(Value::Numeric(constant)), Operand::Rows(Column::Numeric(rows))) => {
            narrow_with(commuted(op), rows, constant)
        }
        (Operand::Rows(Column::Numeric(left)), Operand::Rows(Column::Numeric(right))) => {
            narrow_pairs(op, left, right)
        }
        _ => return Err(mismatch()),
    };
    fast.map_or_else(|| by_row(op, left, right), Ok)
}

fn narrow_with(
    op: CompareOp,
    rows: &NumericColumn,
    constant: Numeric<'_>,
) -> Option<BooleanBuffer> {
    let (values, scale) = rows.as_narrow()?;
    Some(match at_scale(op, constant, scale)? {
        AtScale::Compare(op, constant) => with_constant(op, values, constant),
        AtScale::Always => BooleanBuffer::new_set(values.len()),
        AtScale::Never => BooleanBuffer::new_unset(values.len()),
    })
}

/// A comparison of integers of one scale with a constant.
enum AtScale {
    Compare(CompareOp, i64),
    Always,
    Never,
}

/// Brings the constant to the scale of the rows, rounding down, and corrects the operator for what
/// was cut off.
fn at_scale(op: CompareOp, constant: Numeric<'_>, scale: u16) -> Option<AtScale> {
    let Numeric::Small {
        unscaled,
        scale: own,
    } = constant
    else {
        return None;
    };
    let power = 10_i128.checked_pow(scale.abs_diff(own).into())?;
    let (floor, is_exact) = match own <= scale {
        true => (unscaled.checked_mul(power)?, true),
        false => (unscaled.div_euclid(power), unscaled.rem_euclid(power) == 0),
    };
    let op = match (op, is_exact) {
        (op, true) => op,
        (CompareOp::Eq, false) => return Some(AtScale::Never),
        (CompareOp::Ne, false) => return Some(AtScale::Always),
        // floor < constant < floor + 1
        (CompareOp::Lt | CompareOp::Le, false) => CompareOp::Le,
        (CompareOp::Gt | CompareOp::Ge, false) => CompareOp::Gt,
    };
    Some(match i64::try_from(floor) {
        Ok(floor) => AtScale::Compare(op, floor),
        Err(_) if op.holds(0.cmp(&floor)) => AtScale::Always,
        Err(_) => AtScale::Never,
    })
}

fn narrow_pairs(
    op: CompareOp,
    left: &NumericColumn,
    right: &NumericColumn,
) -> Option<BooleanBuffer> {
    let ((left, left_scale), (right, right_scale)) = (left.as_narrow()?, right.as_narrow()?);
    if left.len() != right.len() {
        return None;
    }
    if left_scale == right_scale {
        return Some(match op {
            CompareOp::Eq => bits_of_pairs(left, right, |a, b| a == b),
            CompareOp::Ne => bits_of_pairs(left, right, |a, b| a != b),
            CompareOp::Lt => bits_of_pairs(left, right, |a, b| a < b),
            CompareOp::Le => bits_of_pairs(left, right, |a, b| a <= b),
            CompareOp::Gt => bits_of_pairs(left, right, |a, b| a > b),
            CompareOp::Ge => bits_of_pairs(left, right, |a, b| a >= b),
        });
    }
    // Up to 10^18 times 64 bits are 128 bits.
    let factor = |own: u16, other: u16| match other.saturating_sub(own) {
        digits @ 0..=18 => Some(10_i128.pow(digits.into())),
        _ => None,
    };
    let (a_factor, b_factor) = (
        factor(left_scale, right_scale)?,
        factor(right_scale, left_scale)?,
    );
    Some(bits_of_pairs(left, right, |a: i64, b: i64| {
        op.holds((i128::from(a) * a_factor).cmp(&(i128::from(b) * b_factor)))
    }))
}

fn by_row(
    op: CompareOp,
    left: Operand<'_>,
    right: Operand<'_>,
) -> Result<BooleanBuffer, VectorError> {
    let row_count = row_count(left, right);
    let mut found = BooleanBufferBuilder::new(row_count);
    for row in 0..row_count {
        found.append(match (value(left, row), value(right, row)) {
            (Some(left), Some(right)) => op.holds(compare(left, right).ok_or(IMAGE)?),
            _ => false,
        });
    }
    Ok(found.finish())
}
