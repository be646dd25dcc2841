//! The order of floats that are stored as the integers of short decimals (ALP), and a constant.
//!
//! Vortex compares the integers with the constant's own product, rounded up or down. The product is
//! rounded, too: of a constant right beside a stored float (`0.55 * 3` beside `1.65`) it is the
//! integer of that float, whose rows then fall on the wrong side. Here the integers are compared
//! with the first one whose float lies beyond the constant, found by decoding.

use vortex_alp::{ALP, ALPArrayExt, ALPArraySlotsExt, ALPFloat};
use vortex_array::ArrayRef;
use vortex_array::dtype::Nullability::NonNullable;
use vortex_array::dtype::PType;
use vortex_array::scalar::Scalar;

use crate::predicate::CompareOp;
use crate::rewrite::Rewritten;

/// A comparison of floats that Vortex evaluates as PostgreSQL does, and the array it is about.
pub(crate) enum Exact {
    /// Of these integers.
    Integers(ArrayRef, Rewritten),
    /// As it was, of the floats themselves.
    Floats(Rewritten),
    /// There is none: compare decoded values.
    Decode,
}

/// Makes a comparison of floats exact.
pub(crate) fn exact(array: &ArrayRef, op: CompareOp, constant: Scalar) -> Exact {
    if matches!(op, CompareOp::Eq | CompareOp::Ne) || !has_decimals(array) {
        return Exact::Floats(Rewritten::Compare(op, constant));
    }
    let alp = match array.as_opt::<ALP>() {
        Some(alp) if alp.patches().is_none() => alp,
        _ => return Exact::Decode,
    };
    // Rows from the first integer on, or those before it.
    let (after_equal, from_there) = match op {
        CompareOp::Gt => (true, true),
        CompareOp::Ge => (false, true),
        CompareOp::Le => (true, false),
        _ => (false, false),
    };
    let exponents = alp.exponents();
    let width = constant.as_primitive_opt().map(|constant| constant.ptype());
    let first = match (width, f64::try_from(&constant), f32::try_from(&constant)) {
        (Some(PType::F64), Ok(constant), _) => first_where(i64::MIN, i64::MAX, |integer| {
            let float = f64::decode_single(integer, exponents);
            float > constant || float == constant && !after_equal
        })
        .map(|integer| Scalar::primitive(integer, NonNullable)),
        (Some(PType::F32), _, Ok(constant)) => {
            first_where(i32::MIN.into(), i32::MAX.into(), |integer| {
                let float = f32::decode_single(integer as i32, exponents);
                float > constant || float == constant && !after_equal
            })
            .map(|integer| Scalar::primitive(integer as i32, NonNullable))
        }
        _ => return Exact::Decode,
    };
    let rewritten = match (first, from_there) {
        (Some(first), true) => Rewritten::Compare(CompareOp::Ge, first),
        (Some(first), false) => Rewritten::Compare(CompareOp::Lt, first),
        (None, true) => Rewritten::Nothing,
        (None, false) => Rewritten::NotNull,
    };
    Exact::Integers(alp.encoded().clone(), rewritten)
}

/// Whether decimals are stored anywhere in the array.
fn has_decimals(array: &ArrayRef) -> bool {
    array.is::<ALP>() || array.children_iter().any(has_decimals)
}

/// The first integer of these for which the condition holds; it holds for all that follow.
fn first_where(least: i64, greatest: i64, holds: impl Fn(i64) -> bool) -> Option<i64> {
    let (mut from, mut to) = (i128::from(least), i128::from(greatest) + 1);
    while from < to {
        let middle = (from + to).div_euclid(2);
        match holds(middle as i64) {
            true => to = middle,
            false => from = middle + 1,
        }
    }
    (from <= i128::from(greatest)).then_some(from as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_integer_is_found_wherever_it_is() {
        for (least, greatest) in [(i64::MIN, i64::MAX), (-3, 4), (5, 5)] {
            for wanted in [least, least.saturating_add(1).min(greatest), 0, 4, greatest] {
                if (least..=greatest).contains(&wanted) {
                    let found = first_where(least, greatest, |integer| integer >= wanted);
                    assert_eq!(found, Some(wanted));
                }
            }
            assert_eq!(first_where(least, greatest, |_| false), None);
        }
    }
}
