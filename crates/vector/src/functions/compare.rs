//! Comparisons of numbers, dates and times.
//!
//! Floats are ordered as `float8_lt` and its like in `utils/float.h` order them: every NaN is equal
//! to every NaN and greater than all else, -0.0 is equal to 0.0. Infinite dates and timestamps are
//! extreme integers, so integers compare them.

use arrow_buffer::BooleanBuffer;
use howdah_columnar::ColumnType::{Float32, Float64, Int16, Int32, Int64};
use howdah_columnar::CompareOp;

use super::Function;
use super::kernel::{Comparison, Kernel, Native, Operand, commuted, mismatch, rows};
use super::loops::{bits_of, bits_of_pairs};
use crate::error::VectorError;

/// Six entries: one for each operator, in this order.
macro_rules! comparisons {
    ($arguments:expr, $compare:expr, $by_value:expr,
     $eq:expr, $ne:expr, $lt:expr, $le:expr, $gt:expr, $ge:expr) => {
        &[
            $crate::functions::compare::entry($eq, $arguments, CompareOp::Eq, $compare, $by_value),
            $crate::functions::compare::entry($ne, $arguments, CompareOp::Ne, $compare, $by_value),
            $crate::functions::compare::entry($lt, $arguments, CompareOp::Lt, $compare, $by_value),
            $crate::functions::compare::entry($le, $arguments, CompareOp::Le, $compare, $by_value),
            $crate::functions::compare::entry($gt, $arguments, CompareOp::Gt, $compare, $by_value),
            $crate::functions::compare::entry($ge, $arguments, CompareOp::Ge, $compare, $by_value),
        ]
    };
    ($prefix:literal, $arguments:expr, $compare:expr) => {
        comparisons!(
            $arguments,
            $compare,
            true,
            concat!($prefix, "eq"),
            concat!($prefix, "ne"),
            concat!($prefix, "lt"),
            concat!($prefix, "le"),
            concat!($prefix, "gt"),
            concat!($prefix, "ge")
        )
    };
}
pub(super) use comparisons;

pub(super) const fn entry(
    prosrc: &'static str,
    arguments: &'static [howdah_columnar::ColumnType],
    op: CompareOp,
    compare: Comparison,
    by_value: bool,
) -> Function {
    let kernel = Kernel::Compare {
        op,
        by_value,
        compare,
    };
    Function::new(prosrc, arguments, howdah_columnar::ColumnType::Bool, kernel)
}

pub(super) static FUNCTIONS: &[&[Function]] = &[
    comparisons!("int2", &[Int16, Int16], integers::<i16, i16>),
    comparisons!("int4", &[Int32, Int32], integers::<i32, i32>),
    comparisons!("int8", &[Int64, Int64], integers::<i64, i64>),
    comparisons!("int24", &[Int16, Int32], integers::<i16, i32>),
    comparisons!("int28", &[Int16, Int64], integers::<i16, i64>),
    comparisons!("int42", &[Int32, Int16], integers::<i32, i16>),
    comparisons!("int48", &[Int32, Int64], integers::<i32, i64>),
    comparisons!("int82", &[Int64, Int16], integers::<i64, i16>),
    comparisons!("int84", &[Int64, Int32], integers::<i64, i32>),
    comparisons!("float4", &[Float32, Float32], floats::<f32, f32, f32>),
    comparisons!("float8", &[Float64, Float64], floats::<f64, f64, f64>),
    comparisons!("float48", &[Float32, Float64], floats::<f32, f64, f64>),
    comparisons!("float84", &[Float64, Float32], floats::<f64, f32, f64>),
    comparisons!("date_", &[Int32, Int32], integers::<i32, i32>),
    comparisons!("time_", &[Int64, Int64], integers::<i64, i64>),
    comparisons!("timestamp_", &[Int64, Int64], integers::<i64, i64>),
];

trait Integer: Native + Ord + Into<i64> + TryFrom<i64> {}
impl Integer for i16 {}
impl Integer for i32 {}
impl Integer for i64 {}

fn integers<A: Integer, B: Integer>(
    op: CompareOp,
    left: Operand<'_>,
    right: Operand<'_>,
) -> Result<BooleanBuffer, VectorError> {
    match (left, right) {
        (Operand::Rows(left), Operand::Same(right)) => {
            let right = B::value(right).ok_or_else(mismatch)?;
            Ok(with_integer(op, rows::<A>(left)?, right.into()))
        }
        (Operand::Same(left), Operand::Rows(right)) => {
            let left = A::value(left).ok_or_else(mismatch)?;
            Ok(with_integer(commuted(op), rows::<B>(right)?, left.into()))
        }
        (Operand::Rows(left), Operand::Rows(right)) => {
            let (left, right) = (rows::<A>(left)?, rows::<B>(right)?);
            let order = |a: A, b: B| -> (i64, i64) { (a.into(), b.into()) };
            macro_rules! pairs {
                ($op:tt) => {
                    bits_of_pairs(left, right, |a, b| {
                        let (a, b) = order(a, b);
                        a $op b
                    })
                };
            }
            Ok(match op {
                CompareOp::Eq => pairs!(==),
                CompareOp::Ne => pairs!(!=),
                CompareOp::Lt => pairs!(<),
                CompareOp::Le => pairs!(<=),
                CompareOp::Gt => pairs!(>),
                CompareOp::Ge => pairs!(>=),
            })
        }
        (Operand::Same(_), Operand::Same(_)) => Err(mismatch()),
    }
}

/// Compares in the type of the rows. A constant beyond it is greater or less than all of them.
fn with_integer<T: Integer>(op: CompareOp, values: &[T], constant: i64) -> BooleanBuffer {
    match T::try_from(constant) {
        Ok(constant) => with_constant(op, values, constant),
        Err(_) => {
            let order = 0.cmp(&constant);
            match op.holds(order) {
                true => BooleanBuffer::new_set(values.len()),
                false => BooleanBuffer::new_unset(values.len()),
            }
        }
    }
}

/// Where values compare so with a constant, in Rust's order.
pub(super) fn with_constant<T: Copy + PartialOrd>(
    op: CompareOp,
    values: &[T],
    constant: T,
) -> BooleanBuffer {
    match op {
        CompareOp::Eq => bits_of(values, move |value| value == constant),
        CompareOp::Ne => bits_of(values, move |value| value != constant),
        CompareOp::Lt => bits_of(values, move |value| value < constant),
        CompareOp::Le => bits_of(values, move |value| value <= constant),
        CompareOp::Gt => bits_of(values, move |value| value > constant),
        CompareOp::Ge => bits_of(values, move |value| value >= constant),
    }
}

trait Float: Native + PartialOrd {}
impl Float for f32 {}
impl Float for f64 {}

/// Whether a value is NaN: nothing else differs from itself.
#[inline(always)]
#[allow(clippy::eq_op)]
fn is_nan<W: Float>(value: W) -> bool {
    value != value
}

/// Compares as `W`, which holds the values of both types.
fn floats<A: Float + Into<W>, B: Float + Into<W>, W: Float>(
    op: CompareOp,
    left: Operand<'_>,
    right: Operand<'_>,
) -> Result<BooleanBuffer, VectorError> {
    match (left, right) {
        (Operand::Rows(left), Operand::Same(right)) => {
            let right = B::value(right).ok_or_else(mismatch)?;
            Ok(with_float::<A, W>(op, rows::<A>(left)?, right.into()))
        }
        (Operand::Same(left), Operand::Rows(right)) => {
            let left = A::value(left).ok_or_else(mismatch)?;
            let right = rows::<B>(right)?;
            Ok(with_float::<B, W>(commuted(op), right, left.into()))
        }
        (Operand::Rows(left), Operand::Rows(right)) => {
            let (left, right) = (rows::<A>(left)?, rows::<B>(right)?);
            let is_equal = |a: A, b: B| {
                let (a, b): (W, W) = (a.into(), b.into());
                (a == b) | (is_nan(a) & is_nan(b))
            };
            let is_less = |a: A, b: B| {
                let (a, b): (W, W) = (a.into(), b.into());
                (a < b) | (is_nan(b) & !is_nan(a))
            };
            let is_greater = |a: A, b: B| {
                let (a, b): (W, W) = (a.into(), b.into());
                (a > b) | (is_nan(a) & !is_nan(b))
            };
            Ok(match op {
                CompareOp::Eq => bits_of_pairs(left, right, is_equal),
                CompareOp::Ne => bits_of_pairs(left, right, |a, b| !is_equal(a, b)),
                CompareOp::Lt => bits_of_pairs(left, right, is_less),
                CompareOp::Le => bits_of_pairs(left, right, |a, b| !is_greater(a, b)),
                CompareOp::Gt => bits_of_pairs(left, right, is_greater),
                CompareOp::Ge => bits_of_pairs(left, right, |a, b| !is_less(a, b)),
            })
        }
        (Operand::Same(_), Operand::Same(_)) => Err(mismatch()),
    }
}

/// A NaN among the rows compares as greater: it is neither less nor equal. So `>` and `>=` are
/// computed as the opposites of `<=` and `<`.
fn with_float<A: Float + Into<W>, W: Float>(
    op: CompareOp,
    values: &[A],
    constant: W,
) -> BooleanBuffer {
    let wide = |value: A| -> W { value.into() };
    if is_nan(constant) {
        return match op {
            CompareOp::Eq | CompareOp::Ge => bits_of(values, is_nan),
            CompareOp::Ne | CompareOp::Lt => bits_of(values, |value| !is_nan(value)),
            CompareOp::Le => BooleanBuffer::new_set(values.len()),
            CompareOp::Gt => BooleanBuffer::new_unset(values.len()),
        };
    }
    match op {
        CompareOp::Eq => bits_of(values, move |value| wide(value) == constant),
        CompareOp::Ne => bits_of(values, move |value| wide(value) != constant),
        CompareOp::Lt => bits_of(values, move |value| wide(value) < constant),
        CompareOp::Le => bits_of(values, move |value| wide(value) <= constant),
        CompareOp::Gt => !&bits_of(values, move |value| wide(value) <= constant),
        CompareOp::Ge => !&bits_of(values, move |value| wide(value) < constant),
    }
}
