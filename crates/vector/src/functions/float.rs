//! Float arithmetic, as `float8_mul` and its like in PostgreSQL's `utils/float.h` do it: an
//! infinite result of finite arguments is an overflow, a zero product or quotient of others an
//! underflow.

use std::marker::PhantomData;
use std::ops::Neg;

use howdah_columnar::ColumnType;
use howdah_columnar::ColumnType::{Float32, Float64};

use super::Function;
use super::kernel::{Kernel, Native};
use super::loops::{BinaryOp, UnaryOp, binary, unary};
use crate::error::VectorError;

pub(super) const OVERFLOW: VectorError = VectorError::OutOfRange {
    message: "value out of range: overflow",
};

pub(super) const UNDERFLOW: VectorError = VectorError::OutOfRange {
    message: "value out of range: underflow",
};

pub(super) trait Float:
    Native
    + PartialOrd
    + Neg<Output = Self>
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
{
    fn is_infinite(self) -> bool;
    fn is_nan(self) -> bool;
    fn is_zero(self) -> bool;
    fn absolute(self) -> Self;
}

macro_rules! float {
    ($ty:ty) => {
        impl Float for $ty {
            #[inline(always)]
            fn is_infinite(self) -> bool {
                <$ty>::is_infinite(self)
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                <$ty>::is_nan(self)
            }

            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0.0
            }

            #[inline(always)]
            fn absolute(self) -> Self {
                self.abs()
            }
        }
    };
}

float!(f32);
float!(f64);

/// An operation on two floats, widened to `T`, and where its result is an error. Zeros and
/// infinities are common values, so the fast form distinguishes them without a branch.
macro_rules! operations {
    ($($name:ident: $op:ident, $fails:ident, $error:ident;)*) => {$(
        struct $name<A, B, T>(PhantomData<(A, B, T)>);

        impl<A, B, T> BinaryOp for $name<A, B, T>
        where
            A: Native + Into<T>,
            B: Native + Into<T>,
            T: Float,
        {
            type Left = A;
            type Right = B;
            type Out = T;

            #[inline(always)]
            fn fast(left: A, right: B) -> (T, bool) {
                let (a, b): (T, T) = (left.into(), right.into());
                let result = a.$op(b);
                (result, $fails(a, b, result))
            }

            fn check(left: A, right: B) -> Result<(), VectorError> {
                let (a, b): (T, T) = (left.into(), right.into());
                let result = a.$op(b);
                match $fails(a, b, result) {
                    true => Err($error(b, result)),
                    false => Ok(()),
                }
            }
        }
    )*};
}

operations! {
    Add: add, sum_fails, range_error;
    Subtract: sub, sum_fails, range_error;
    Multiply: mul, product_fails, range_error;
    Divide: div, quotient_fails, quotient_error;
}

#[inline(always)]
fn sum_fails<T: Float>(a: T, b: T, result: T) -> bool {
    result.is_infinite() & !a.is_infinite() & !b.is_infinite()
}

#[inline(always)]
fn product_fails<T: Float>(a: T, b: T, result: T) -> bool {
    sum_fails(a, b, result) | (result.is_zero() & !a.is_zero() & !b.is_zero())
}

#[inline(always)]
fn quotient_fails<T: Float>(a: T, b: T, result: T) -> bool {
    (b.is_zero() & !a.is_nan())
        | (result.is_infinite() & !a.is_infinite())
        | (result.is_zero() & !a.is_zero() & !b.is_infinite())
}

/// The error of a result that has one.
fn range_error<T: Float>(_: T, result: T) -> VectorError {
    match result.is_infinite() {
        true => OVERFLOW,
        false => UNDERFLOW,
    }
}

fn quotient_error<T: Float>(divisor: T, result: T) -> VectorError {
    match divisor.is_zero() {
        true => VectorError::DivisionByZero,
        false => range_error(divisor, result),
    }
}

/// Operations that never fail.
macro_rules! simple {
    ($($name:ident: |$value:ident| $result:expr;)*) => {$(
        struct $name<T>(PhantomData<T>);

        impl<T: Float> UnaryOp for $name<T> {
            type In = T;
            type Out = T;

            #[inline(always)]
            fn fast($value: T) -> (T, bool) {
                ($result, false)
            }

            fn check(_: T) -> Result<(), VectorError> {
                Ok(())
            }
        }
    )*};
}

simple! {
    Negate: |value| -value;
    Absolute: |value| value.absolute();
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
    Function::new(prosrc, arguments, result, Kernel::Unary(unary::<O>))
}

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

pub(super) static FUNCTIONS: &[&[Function]] = &[
    arithmetic!("float4", f32, f32, f32, &[Float32, Float32], Float32),
    arithmetic!("float8", f64, f64, f64, &[Float64, Float64], Float64),
    arithmetic!("float48", f32, f64, f64, &[Float32, Float64], Float64),
    arithmetic!("float84", f64, f32, f64, &[Float64, Float32], Float64),
    &[
        one::<Negate<f32>>("float4um", &[Float32], Float32),
        one::<Negate<f64>>("float8um", &[Float64], Float64),
        one::<Absolute<f32>>("float4abs", &[Float32], Float32),
        one::<Absolute<f64>>("float8abs", &[Float64], Float64),
    ],
];
