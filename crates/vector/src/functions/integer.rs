//! Integer arithmetic, as in PostgreSQL's `utils/adt/int.c` and `int8.c`: an overflow is an error
//! named after the type of the result, division truncates, and a remainder by -1 is 0.

use std::marker::PhantomData;

use howdah_columnar::ColumnType::{Int16, Int32, Int64};
use howdah_columnar::{ColumnType, wide};

use super::Function;
use super::kernel::{Kernel, Native};
use super::loops::{BinaryOp, UnaryOp, binary, unary};
use crate::error::VectorError;

/// An integer type that arithmetic results in.
pub(super) trait Integer: Native + Ord {
    /// PostgreSQL's error of a result beyond the type.
    const OUT_OF_RANGE: VectorError;

    fn add(self, other: Self) -> (Self, bool);
    fn subtract(self, other: Self) -> (Self, bool);
    fn multiply(self, other: Self) -> (Self, bool);
    fn divide(self, other: Self) -> (Self, bool);
    fn remainder(self, other: Self) -> (Self, bool);
    fn negate(self) -> (Self, bool);

    /// Quotients by one divisor, which is positive; `None` if it is not.
    fn divide_all(
        values: impl ExactSizeIterator<Item = Self> + Clone,
        divisor: Self,
    ) -> Option<Vec<Self>>;

    /// Remainders by one divisor, which is positive; `None` if it is not.
    fn remainder_all(
        values: impl ExactSizeIterator<Item = Self> + Clone,
        divisor: Self,
    ) -> Option<Vec<Self>>;
}

/// The results of a function.
#[inline(always)]
fn mapped<A, T>(values: impl ExactSizeIterator<Item = A>, result: impl Fn(A) -> T) -> Vec<T> {
    wide(
        #[inline(always)]
        move || {
            let mut results = Vec::with_capacity(values.len());
            results.extend(values.map(result));
            results
        },
    )
}

/// Division of these values by this divisor, which is positive, in 32 bits, whose products have no
/// more than 64; `None` if the values are negative or too far apart.
///
/// A value is a multiple of the divisor, which is the same one for all values, and a rest of less
/// than 2^31. The rest is divided as in [`Reciprocal`].
#[inline(always)]
fn near_quotients(values: impl Iterator<Item = i64>, divisor: i64) -> Option<impl Fn(i64) -> i64> {
    let (least, greatest) = wide(
        #[inline(always)]
        move || {
            values.fold((i64::MAX, i64::MIN), |(least, greatest), value| {
                (least.min(value), greatest.max(value))
            })
        },
    );
    let small_divisor = u32::try_from(divisor).ok().filter(|&d| d <= 1 << 31)?;
    if least < 0 || least > greatest {
        return None;
    }
    let first = least / divisor;
    let base = first * divisor;
    if greatest - base > i64::from(i32::MAX) {
        return None;
    }
    let bits = 31 + (small_divisor - 1).checked_ilog2().map_or(0, |log| log + 1);
    let reciprocal = (((1u64 << bits) - 1) / u64::from(small_divisor) + 1) as u32;
    Some(move |value: i64| {
        let rest = value.wrapping_sub(base) as u32;
        let quotient = u64::from(rest).wrapping_mul(reciprocal.into()) >> bits;
        first.wrapping_add(quotient as i64)
    })
}

/// Division by a constant.
trait Reciprocal: Sized {
    /// Division by this divisor, which is positive; `None` if it is not.
    fn quotient_by(divisor: Self) -> Option<impl Fn(Self) -> Self>;
}

macro_rules! integer {
    ($ty:ty, $unsigned:ty, $wide:ty, $message:literal) => {
        impl Integer for $ty {
            const OUT_OF_RANGE: VectorError = VectorError::OutOfRange { message: $message };

            #[inline(always)]
            fn add(self, other: Self) -> (Self, bool) {
                let sum = self.wrapping_add(other);
                // Both signs differ from the sum's.
                (sum, (self ^ sum) & (other ^ sum) < 0)
            }

            #[inline(always)]
            fn subtract(self, other: Self) -> (Self, bool) {
                let difference = self.wrapping_sub(other);
                (difference, (self ^ other) & (self ^ difference) < 0)
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> (Self, bool) {
                let product = <$wide>::from(self) * <$wide>::from(other);
                (product as $ty, product != <$wide>::from(product as $ty))
            }

            #[inline(always)]
            fn divide(self, other: Self) -> (Self, bool) {
                let is_bad = (other == 0) | ((other == -1) & (self == <$ty>::MIN));
                (self.wrapping_div(if is_bad { 1 } else { other }), is_bad)
            }

            #[inline(always)]
            fn remainder(self, other: Self) -> (Self, bool) {
                let is_bad = other == 0;
                (self.wrapping_rem(if is_bad { 1 } else { other }), is_bad)
            }

            #[inline(always)]
            fn negate(self) -> (Self, bool) {
                (self.wrapping_neg(), self == <$ty>::MIN)
            }

            fn divide_all(
                values: impl ExactSizeIterator<Item = Self> + Clone,
                divisor: Self,
            ) -> Option<Vec<Self>> {
                let quotient = Self::quotient_by(divisor)?;
                let near = (<$ty>::BITS > i32::BITS).then(|| {
                    let values = values.clone().map(i64::from);
                    near_quotients(values, i64::from(divisor))
                });
                if let Some(quotient) = near.flatten() {
                    return Some(mapped(values, move |value| quotient(value.into()) as $ty));
                }
                Some(mapped(values, quotient))
            }

            fn remainder_all(
                values: impl ExactSizeIterator<Item = Self> + Clone,
                divisor: Self,
            ) -> Option<Vec<Self>> {
                // No product is beyond its dividend.
                let rest = move |(value, quotient): ($ty, &$ty)| {
                    value.wrapping_sub(quotient.wrapping_mul(divisor))
                };
                let quotients = Self::divide_all(values.clone(), divisor)?;
                Some(mapped(values.zip(&quotients), rest))
            }
        }

        impl Reciprocal for $ty {
            /// A product with the reciprocal instead of a division (Granlund and Montgomery, PLDI
            /// 1994). With d <= 2^l and m = ceil(2^(B-1+l) / d), where values have B bits, m * d
            /// exceeds the power of two by less than 2^l, so that n * m / 2^(B-1+l) exceeds n / d
            /// by less than 1 / d for every n <= 2^(B-1).
            #[inline(always)]
            fn quotient_by(divisor: Self) -> Option<impl Fn(Self) -> Self> {
                if divisor <= 0 {
                    return None;
                }
                let divisor = divisor as $wide;
                let bits = <$ty>::BITS - 1 + (divisor - 1).checked_ilog2().map_or(0, |log| log + 1);
                // Less than 2^B.
                let reciprocal = ((((1 as $wide) << bits) - 1) / divisor + 1) as $unsigned;
                let quotient = move |value: $ty| {
                    let magnitude = <$wide>::from(value.unsigned_abs());
                    let quotient = ((magnitude * <$wide>::from(reciprocal)) >> bits) as $ty;
                    // The bits of -1 where the value is negative.
                    let sign = value >> (<$ty>::BITS - 1);
                    (quotient ^ sign).wrapping_sub(sign)
                };
                Some(quotient)
            }
        }
    };
}

integer!(i16, u16, i32, "smallint out of range");
integer!(i32, u32, i64, "integer out of range");
integer!(i64, u64, i128, "bigint out of range");

fn in_range<T: Integer>(failed: bool) -> Result<(), VectorError> {
    match failed {
        true => Err(T::OUT_OF_RANGE),
        false => Ok(()),
    }
}

/// Operations on values of two types, the wider of which is the result's.
macro_rules! operations {
    ($($(#[doc = $doc:literal])* $name:ident: $method:ident;)*) => {$(
        $(#[doc = $doc])*
        struct $name<A, B, T>(PhantomData<(A, B, T)>);

        impl<A, B, T> BinaryOp for $name<A, B, T>
        where
            A: Native + Into<T>,
            B: Native + Into<T>,
            T: Integer,
        {
            type Left = A;
            type Right = B;
            type Out = T;

            #[inline(always)]
            fn fast(left: A, right: B) -> (T, bool) {
                left.into().$method(right.into())
            }

            fn check(left: A, right: B) -> Result<(), VectorError> {
                in_range::<T>(Self::fast(left, right).1)
            }
        }
    )*};
}

operations! {
    Add: add;
    Subtract: subtract;
    Multiply: multiply;
}

/// Divisions, of which a divisor of zero is an error of its own.
macro_rules! divisions {
    ($($name:ident: $method:ident, $all:ident;)*) => {$(
        struct $name<A, B, T>(PhantomData<(A, B, T)>);

        impl<A, B, T> BinaryOp for $name<A, B, T>
        where
            A: Native + Into<T>,
            B: Native + Into<T>,
            T: Integer,
        {
            type Left = A;
            type Right = B;
            type Out = T;

            #[inline(always)]
            fn fast(left: A, right: B) -> (T, bool) {
                left.into().$method(right.into())
            }

            fn check(left: A, right: B) -> Result<(), VectorError> {
                if right.into() == T::default() {
                    return Err(VectorError::DivisionByZero);
                }
                in_range::<T>(Self::fast(left, right).1)
            }

            fn with_constant(left: &[A], right: B) -> Option<Vec<T>> {
                T::$all(left.iter().map(|&left| left.into()), right.into())
            }
        }
    )*};
}

divisions! {
    Divide: divide, divide_all;
    Remainder: remainder, remainder_all;
}

struct Negate<T>(PhantomData<T>);

impl<T: Integer> UnaryOp for Negate<T> {
    type In = T;
    type Out = T;

    #[inline(always)]
    fn fast(value: T) -> (T, bool) {
        value.negate()
    }

    fn check(value: T) -> Result<(), VectorError> {
        in_range::<T>(Self::fast(value).1)
    }
}

struct Absolute<T>(PhantomData<T>);

impl<T: Integer> UnaryOp for Absolute<T> {
    type In = T;
    type Out = T;

    #[inline(always)]
    fn fast(value: T) -> (T, bool) {
        let (negated, failed) = value.negate();
        (value.max(negated), failed)
    }

    fn check(value: T) -> Result<(), VectorError> {
        in_range::<T>(Self::fast(value).1)
    }
}

const fn two<O: BinaryOp>(
    prosrc: &'static str,
    arguments: &'static [ColumnType],
    result: ColumnType,
) -> Function {
    Function::new(prosrc, arguments, result, Kernel::Binary(binary::<O>)).failing()
}

const fn one<O: UnaryOp>(
    prosrc: &'static str,
    arguments: &'static [ColumnType],
    result: ColumnType,
) -> Function {
    Function::new(prosrc, arguments, result, Kernel::Unary(unary::<O>)).failing()
}

/// The four operations of two types.
macro_rules! arithmetic {
    ($prefix:literal, $a:ty, $b:ty, $t:ty, $arguments:expr, $result:expr) => {
        &[
            two::<Add<$a, $b, $t>>(concat!($prefix, "pl"), $arguments, $result),
            two::<Subtract<$a, $b, $t>>(concat!($prefix, "mi"), $arguments, $result),
            two::<Multiply<$a, $b, $t>>(concat!($prefix, "mul"), $arguments, $result),
            two::<Divide<$a, $b, $t>>(concat!($prefix, "div"), $arguments, $result),
        ]
    };
}

/// Functions of one type only.
macro_rules! of_one_type {
    ($prefix:literal, $t:ty, $ty:expr) => {
        &[
            two::<Remainder<$t, $t, $t>>(concat!($prefix, "mod"), &[$ty, $ty], $ty),
            one::<Negate<$t>>(concat!($prefix, "um"), &[$ty], $ty),
            one::<Absolute<$t>>(concat!($prefix, "abs"), &[$ty], $ty),
        ]
    };
}

pub(super) static FUNCTIONS: &[&[Function]] = &[
    arithmetic!("int2", i16, i16, i16, &[Int16, Int16], Int16),
    arithmetic!("int4", i32, i32, i32, &[Int32, Int32], Int32),
    arithmetic!("int8", i64, i64, i64, &[Int64, Int64], Int64),
    arithmetic!("int24", i16, i32, i32, &[Int16, Int32], Int32),
    arithmetic!("int28", i16, i64, i64, &[Int16, Int64], Int64),
    arithmetic!("int42", i32, i16, i32, &[Int32, Int16], Int32),
    arithmetic!("int48", i32, i64, i64, &[Int32, Int64], Int64),
    arithmetic!("int82", i64, i16, i64, &[Int64, Int16], Int64),
    arithmetic!("int84", i64, i32, i64, &[Int64, Int32], Int64),
    of_one_type!("int2", i16, Int16),
    of_one_type!("int4", i32, Int32),
    of_one_type!("int8", i64, Int64),
];

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! check {
        ($ty:ty) => {
            let ends = [<$ty>::MIN, <$ty>::MAX, 0];
            let near = |value: $ty| (-9..10).map(move |by| value.wrapping_add(by));
            let mut values: Vec<$ty> = ends.into_iter().flat_map(near).collect();
            let powers = (0..<$ty>::BITS - 1).flat_map(|bit| near(1 << bit));
            values.extend(powers);
            for &divisor in &values {
                let all = || values.iter().copied();
                let quotients = <$ty>::divide_all(all(), divisor);
                assert_eq!(quotients.is_some(), divisor > 0);
                let Some(quotients) = quotients else { continue };
                // Few values are near each other, but one alone is.
                for (at, &value) in values.iter().enumerate() {
                    let one = <$ty>::divide_all(std::iter::once(value), divisor);
                    assert_eq!(one, Some(vec![quotients[at]]), "{value} / {divisor}");
                }
                let remainders = <$ty>::remainder_all(all(), divisor).unwrap_or_default();
                for (at, &value) in values.iter().enumerate() {
                    assert_eq!(quotients[at], value / divisor, "{value} / {divisor}");
                    assert_eq!(remainders[at], value % divisor, "{value} % {divisor}");
                }
            }
        };
    }

    #[test]
    fn products_with_reciprocals_are_quotients() {
        check!(i16);
        check!(i32);
        check!(i64);
    }
}
