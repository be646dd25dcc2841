//! Conversions between numbers.
//!
//! A float becomes the integer next to it, the even one of two, as `dtoi4` in PostgreSQL's
//! `utils/adt/float.c` does with `rint`; NaN and what lies beyond the integer's range are errors.

use std::marker::PhantomData;

use howdah_columnar::ColumnType;
use howdah_columnar::ColumnType::{Float32, Float64, Int16, Int32, Int64};

use super::Function;
use super::float::{OVERFLOW, UNDERFLOW};
use super::integer::Integer;
use super::kernel::{Kernel, Native};
use super::loops::{UnaryOp, unary};
use crate::error::VectorError;

/// A type to which values of another type are converted.
trait ConvertFrom<A>: Sized {
    /// The value, and whether there is an error; the value is undefined then.
    fn converted(value: A) -> (Self, bool);

    /// The error of a value for which `converted` returns `true`.
    fn error(value: A) -> Option<VectorError>;
}

struct Convert<A, B>(PhantomData<(A, B)>);

impl<A: Native, B: Native + ConvertFrom<A>> UnaryOp for Convert<A, B> {
    type In = A;
    type Out = B;

    #[inline(always)]
    fn fast(value: A) -> (B, bool) {
        B::converted(value)
    }

    fn check(value: A) -> Result<(), VectorError> {
        match B::converted(value).1 {
            true => B::error(value).map_or(Ok(()), Err),
            false => Ok(()),
        }
    }
}

macro_rules! conversions {
    ($($from:ty => $to:ty, |$value:ident| $result:expr, $error:expr;)*) => {$(
        impl ConvertFrom<$from> for $to {
            #[inline(always)]
            fn converted($value: $from) -> (Self, bool) {
                $result
            }

            fn error(value: $from) -> Option<VectorError> {
                $error(value)
            }
        }
    )*};
}

/// For conversions that have a result for every value.
fn never<A>(_: A) -> Option<VectorError> {
    None
}

fn beyond<A, T: Integer>(_: A) -> Option<VectorError> {
    Some(T::OUT_OF_RANGE)
}

fn beyond_float4(value: f64) -> Option<VectorError> {
    Some(match (value as f32).is_infinite() {
        true => OVERFLOW,
        false => UNDERFLOW,
    })
}

/// The rounded value, and whether it lies outside of `-limit..limit` or is NaN.
macro_rules! rounded {
    ($value:expr, $to:ty, $limit:expr) => {{
        let rounded = $value.round_ties_even();
        let fits = (-$limit..$limit).contains(&rounded);
        (rounded as $to, !fits)
    }};
}

/// The lowest half of an integer, and whether that is another one.
macro_rules! shortened {
    ($value:expr, $to:ty) => {
        ($value as $to, i64::from($value) != i64::from($value as $to))
    };
}

const TWO_15: f64 = 32_768.0;
const TWO_31: f64 = 2_147_483_648.0;
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

conversions! {
    i16 => i32, |value| (value.into(), false), never;
    i16 => i64, |value| (value.into(), false), never;
    i32 => i64, |value| (value.into(), false), never;
    i32 => i16, |value| shortened!(value, i16), beyond::<_, i16>;
    i64 => i16, |value| shortened!(value, i16), beyond::<_, i16>;
    i64 => i32, |value| shortened!(value, i32), beyond::<_, i32>;
    i16 => f32, |value| (value.into(), false), never;
    i16 => f64, |value| (value.into(), false), never;
    i32 => f32, |value| (value as f32, false), never;
    i32 => f64, |value| (value.into(), false), never;
    i64 => f32, |value| (value as f32, false), never;
    i64 => f64, |value| (value as f64, false), never;
    f32 => i16, |value| rounded!(value, i16, TWO_15 as f32), beyond::<_, i16>;
    f32 => i32, |value| rounded!(value, i32, TWO_31 as f32), beyond::<_, i32>;
    f32 => i64, |value| rounded!(value, i64, TWO_63 as f32), beyond::<_, i64>;
    f64 => i16, |value| rounded!(value, i16, TWO_15), beyond::<_, i16>;
    f64 => i32, |value| rounded!(value, i32, TWO_31), beyond::<_, i32>;
    f64 => i64, |value| rounded!(value, i64, TWO_63), beyond::<_, i64>;
    f32 => f64, |value| (value.into(), false), never;
    f64 => f32,
        |value| {
            let narrow = value as f32;
            let overflows = narrow.is_infinite() & !value.is_infinite();
            (narrow, overflows | ((narrow == 0.0) & (value != 0.0)))
        },
        beyond_float4;
}

const fn convert<A: Native, B: Native + ConvertFrom<A>>(
    prosrc: &'static str,
    argument: &'static [ColumnType],
    result: ColumnType,
) -> Function {
    let kernel = Kernel::Unary(unary::<Convert<A, B>>);
    Function::new(prosrc, argument, result, kernel)
}

pub(super) static FUNCTIONS: &[&[Function]] = &[
    &[
        convert::<i16, i32>("i2toi4", &[Int16], Int32),
        convert::<i16, i64>("int28", &[Int16], Int64),
        convert::<i32, i64>("int48", &[Int32], Int64),
        convert::<i32, i16>("i4toi2", &[Int32], Int16).failing(),
        convert::<i64, i16>("int82", &[Int64], Int16).failing(),
        convert::<i64, i32>("int84", &[Int64], Int32).failing(),
    ],
    &[
        convert::<i16, f32>("i2tof", &[Int16], Float32),
        convert::<i16, f64>("i2tod", &[Int16], Float64),
        convert::<i32, f32>("i4tof", &[Int32], Float32),
        convert::<i32, f64>("i4tod", &[Int32], Float64),
        convert::<i64, f32>("i8tof", &[Int64], Float32),
        convert::<i64, f64>("i8tod", &[Int64], Float64),
    ],
    &[
        convert::<f32, i16>("ftoi2", &[Float32], Int16).failing(),
        convert::<f32, i32>("ftoi4", &[Float32], Int32).failing(),
        convert::<f32, i64>("ftoi8", &[Float32], Int64).failing(),
        convert::<f64, i16>("dtoi2", &[Float64], Int16).failing(),
        convert::<f64, i32>("dtoi4", &[Float64], Int32).failing(),
        convert::<f64, i64>("dtoi8", &[Float64], Int64).failing(),
    ],
    &[
        convert::<f32, f64>("ftod", &[Float32], Float64),
        convert::<f64, f32>("dtof", &[Float64], Float32).failing(),
    ],
];
