//! Arguments and results of kernels.

use arrow_array::types::{Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer};
use howdah_columnar::{Column, CompareOp, Value};

use crate::error::VectorError;
use crate::zone::Zone;

/// An argument of a function. Of the arguments of one call at least one is `Rows`, and all such
/// have the same length.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand<'a> {
    /// A value for each row.
    Rows(&'a Column),
    /// The same value, which is not NULL, for all rows.
    Same(Value<'a>),
}

impl Operand<'_> {
    pub(crate) fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Self::Rows(column) => column.nulls(),
            Self::Same(_) => None,
        }
    }

    fn row_count(&self) -> Option<usize> {
        match self {
            Self::Rows(column) => Some(column.len()),
            Self::Same(_) => None,
        }
    }
}

/// Rows where both are not null; `None` if all are.
pub(crate) fn nulls_of(left: Operand<'_>, right: Operand<'_>) -> Option<NullBuffer> {
    NullBuffer::union(left.nulls(), right.nulls())
}

/// The rows of a call.
pub(crate) fn row_count(left: Operand<'_>, right: Operand<'_>) -> usize {
    left.row_count().or(right.row_count()).unwrap_or(0)
}

/// The value of a row; `None` is NULL.
pub(crate) fn value(operand: Operand<'_>, row: usize) -> Option<Value<'_>> {
    match operand {
        Operand::Rows(column) => column.value(row),
        Operand::Same(value) => Some(value),
    }
}

/// A comparison by an operator: a bit for each row, undefined where an argument is null.
pub(crate) type Comparison =
    fn(CompareOp, Operand<'_>, Operand<'_>) -> Result<BooleanBuffer, VectorError>;

/// How a function is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    /// A value of each row.
    Unary(fn(&Column) -> Result<Column, VectorError>),
    /// Of two arguments.
    Binary(fn(Operand<'_>, Operand<'_>) -> Result<Column, VectorError>),
    /// A comparison.
    Compare {
        op: CompareOp,
        /// The order is that of [`howdah_columnar::compare`].
        by_value: bool,
        compare: Comparison,
    },
    /// `LIKE` a constant pattern, or not.
    Like { negated: bool },
    /// A value of each row and a time zone.
    Zoned(fn(&Zone, &[Operand<'_>]) -> Result<Column, VectorError>),
}

/// The operator of `right op left`.
pub(crate) fn commuted(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq => CompareOp::Eq,
        CompareOp::Ne => CompareOp::Ne,
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
    }
}

/// The operator of `NOT (left op right)`.
pub(crate) fn negated(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq => CompareOp::Ne,
        CompareOp::Ne => CompareOp::Eq,
        CompareOp::Lt => CompareOp::Ge,
        CompareOp::Le => CompareOp::Gt,
        CompareOp::Gt => CompareOp::Le,
        CompareOp::Ge => CompareOp::Lt,
    }
}

/// A type whose values lie in a slice.
pub(crate) trait Native: ArrowNativeType {
    type Arrow: ArrowPrimitiveType<Native = Self>;

    fn array(column: &Column) -> Option<&PrimitiveArray<Self::Arrow>>;
    fn value(value: Value<'_>) -> Option<Self>;
    fn column(array: PrimitiveArray<Self::Arrow>) -> Column;
}

macro_rules! native {
    ($($ty:ty, $arrow:ty, $kind:ident;)*) => {$(
        impl Native for $ty {
            type Arrow = $arrow;

            fn array(column: &Column) -> Option<&PrimitiveArray<Self::Arrow>> {
                match column {
                    Column::$kind(array) => Some(array),
                    _ => None,
                }
            }

            fn value(value: Value<'_>) -> Option<Self> {
                match value {
                    Value::$kind(value) => Some(value),
                    _ => None,
                }
            }

            fn column(array: PrimitiveArray<Self::Arrow>) -> Column {
                Column::$kind(array)
            }
        }
    )*};
}

native! {
    i16, Int16Type, Int16;
    i32, Int32Type, Int32;
    i64, Int64Type, Int64;
    f32, Float32Type, Float32;
    f64, Float64Type, Float64;
}

/// The values of an operand.
pub(crate) enum Values<'a, T> {
    Rows(&'a [T]),
    Same(T),
}

impl<'a, T: Native> Values<'a, T> {
    pub(crate) fn of(operand: Operand<'a>) -> Result<Self, VectorError> {
        match operand {
            Operand::Rows(column) => rows::<T>(column).map(Self::Rows),
            Operand::Same(value) => T::value(value).map(Self::Same).ok_or_else(mismatch),
        }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> T {
        match self {
            Self::Rows(rows) => rows[row],
            Self::Same(value) => *value,
        }
    }
}

/// The slice of a column's values.
pub(crate) fn rows<T: Native>(column: &Column) -> Result<&[T], VectorError> {
    T::array(column)
        .map(|array| -> &[T] { array.values() })
        .ok_or_else(mismatch)
}

/// A column of computed values.
pub(crate) fn column<T: Native>(values: Vec<T>, nulls: Option<NullBuffer>) -> Column {
    T::column(PrimitiveArray::new(ScalarBuffer::from(values), nulls))
}

/// Arguments of other types than those that were compiled for.
pub(crate) fn mismatch() -> VectorError {
    VectorError::Unsupported {
        what: "a column of another type than declared",
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    #[test]
    fn operators_commute_and_negate() {
        use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
        for op in [Eq, Ne, Lt, Le, Gt, Ge] {
            for order in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
                assert_eq!(commuted(op).holds(order.reverse()), op.holds(order));
                assert_eq!(negated(op).holds(order), !op.holds(order));
            }
        }
    }
}
