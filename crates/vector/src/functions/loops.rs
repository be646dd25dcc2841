//! The loops of kernels: values to values, values to bits.
//!
//! An operation that may fail has two forms. The fast form computes a result for any bits, and
//! returns whether it is invalid; its loop only collects these flags. If the result of some row is
//! invalid, a loop of the exact form follows, which skips nulls and raises the first error.

use arrow_buffer::{BooleanBuffer, NullBuffer};
use howdah_columnar::{Column, wide};

use super::kernel::{Native, Operand, Values, column, nulls_of, rows};
use crate::error::VectorError;

/// One operation on one value.
pub(crate) trait UnaryOp {
    type In: Native;
    type Out: Native;

    /// A result, and whether it is invalid.
    fn fast(value: Self::In) -> (Self::Out, bool);

    /// The error of a value for which `fast` returns `true`; `Ok` if its result is valid all the
    /// same.
    fn check(value: Self::In) -> Result<(), VectorError>;
}

/// One operation on two values.
pub(crate) trait BinaryOp {
    type Left: Native;
    type Right: Native;
    type Out: Native;

    /// As [`UnaryOp::fast`].
    fn fast(left: Self::Left, right: Self::Right) -> (Self::Out, bool);

    /// As [`UnaryOp::check`].
    fn check(left: Self::Left, right: Self::Right) -> Result<(), VectorError>;

    /// The results of all rows with one right argument, where that is faster than row by row and
    /// none of them can fail.
    fn with_constant(left: &[Self::Left], right: Self::Right) -> Option<Vec<Self::Out>> {
        let _ = (left, right);
        None
    }
}

pub(crate) fn unary<O: UnaryOp>(argument: &Column) -> Result<Column, VectorError> {
    let values = rows::<O::In>(argument)?;
    let nulls = argument.nulls();
    let (out, suspect) = gathered(values.iter().map(|&value| O::fast(value)));
    if suspect {
        check_rows(values.len(), nulls, |row| O::check(values[row]))?;
    }
    Ok(column(out, nulls.cloned()))
}

pub(crate) fn binary<O: BinaryOp>(
    left: Operand<'_>,
    right: Operand<'_>,
) -> Result<Column, VectorError> {
    let nulls = nulls_of(left, right);
    let left = Values::<O::Left>::of(left)?;
    let right = Values::<O::Right>::of(right)?;
    let (out, suspect) = match (&left, &right) {
        (Values::Rows(left), Values::Rows(right)) => {
            if left.len() != right.len() {
                return Err(VectorError::Unsupported {
                    what: "columns of different lengths",
                });
            }
            let pairs = left.iter().zip(*right);
            gathered(pairs.map(|(&left, &right)| O::fast(left, right)))
        }
        (Values::Rows(left), Values::Same(right)) => match O::with_constant(left, *right) {
            Some(out) => (out, false),
            None => {
                let right = *right;
                gathered(left.iter().map(move |&left| O::fast(left, right)))
            }
        },
        (Values::Same(left), Values::Rows(right)) => {
            let left = *left;
            gathered(right.iter().map(move |&right| O::fast(left, right)))
        }
        (Values::Same(left), Values::Same(right)) => {
            let (out, suspect) = O::fast(*left, *right);
            (vec![out], suspect)
        }
    };
    if suspect {
        check_rows(out.len(), nulls.as_ref(), |row| {
            O::check(left.get(row), right.get(row))
        })?;
    }
    Ok(column(out, nulls))
}

/// Results, and whether one of them is invalid.
#[inline(always)]
pub(super) fn gathered<T: Native>(
    results: impl ExactSizeIterator<Item = (T, bool)>,
) -> (Vec<T>, bool) {
    wide(
        #[inline(always)]
        move || {
            let mut suspect = false;
            let mut out = Vec::with_capacity(results.len());
            out.extend(results.map(|(value, failed)| {
                suspect |= failed;
                value
            }));
            (out, suspect)
        },
    )
}

/// Runs the check of every row that is not null.
pub(crate) fn check_rows(
    row_count: usize,
    nulls: Option<&NullBuffer>,
    check: impl Fn(usize) -> Result<(), VectorError>,
) -> Result<(), VectorError> {
    match nulls {
        None => (0..row_count).try_for_each(check),
        Some(nulls) => nulls.try_for_each_valid_idx(check),
    }
}

/// A bit for each value.
///
/// Answers are made as bytes first, a loop that the compiler vectorizes, then packed eight at a
/// time.
#[inline(always)]
pub(crate) fn bits_of<T: Copy>(values: &[T], answer: impl Fn(T) -> bool) -> BooleanBuffer {
    let words = wide(
        #[inline(always)]
        move || {
            let mut words = Vec::with_capacity(values.len().div_ceil(64));
            let (whole, rest) = values.as_chunks::<64>();
            let mut answers = [0_u8; 64];
            for chunk in whole {
                for (to, &value) in answers.iter_mut().zip(chunk) {
                    *to = u8::from(answer(value));
                }
                words.push(packed(&answers));
            }
            if !rest.is_empty() {
                answers = [0; 64];
                for (to, &value) in answers.iter_mut().zip(rest) {
                    *to = u8::from(answer(value));
                }
                words.push(packed(&answers));
            }
            words
        },
    );
    of_words(words, values.len())
}

/// A bit for each pair of values; as many as the shorter slice has.
#[inline(always)]
pub(crate) fn bits_of_pairs<A: Copy, B: Copy>(
    left: &[A],
    right: &[B],
    answer: impl Fn(A, B) -> bool,
) -> BooleanBuffer {
    let row_count = left.len().min(right.len());
    let (left, right) = (&left[..row_count], &right[..row_count]);
    let words = wide(
        #[inline(always)]
        move || {
            let mut words = Vec::with_capacity(row_count.div_ceil(64));
            let mut answers = [0_u8; 64];
            let (left_whole, left_rest) = left.as_chunks::<64>();
            let (right_whole, right_rest) = right.as_chunks::<64>();
            for (left, right) in left_whole.iter().zip(right_whole) {
                for ((to, &left), &right) in answers.iter_mut().zip(left).zip(right) {
                    *to = u8::from(answer(left, right));
                }
                words.push(packed(&answers));
            }
            if !left_rest.is_empty() {
                answers = [0; 64];
                for ((to, &left), &right) in answers.iter_mut().zip(left_rest).zip(right_rest) {
                    *to = u8::from(answer(left, right));
                }
                words.push(packed(&answers));
            }
            words
        },
    );
    of_words(words, row_count)
}

/// The lowest bits of 64 bytes, each 0 or 1.
#[inline(always)]
fn packed(answers: &[u8; 64]) -> u64 {
    // The product brings the lowest bit of byte i to bit 56 + i, and no two bits to the same place.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (bytes, _) = answers.as_chunks::<8>();
    let mut word = 0;
    for (at, bytes) in bytes.iter().enumerate() {
        let eight = u64::from_le_bytes(*bytes).wrapping_mul(GATHER) >> 56;
        word |= eight << (8 * at);
    }
    word
}

fn of_words(words: Vec<u64>, row_count: usize) -> BooleanBuffer {
    BooleanBuffer::new(arrow_buffer::Buffer::from_vec(words), 0, row_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_answers_whatever_the_length() {
        for len in [0, 1, 7, 63, 64, 65, 127, 128, 200] {
            let values: Vec<i32> = (0..len).map(|at| (at * 7919) % 13).collect();
            let bits = bits_of(&values, |value| value < 5);
            let pairs = bits_of_pairs(&values, &values, |a, b| a + b < 10);
            let expected: BooleanBuffer = values.iter().map(|&value| value < 5).collect();
            assert_eq!(bits, expected);
            assert_eq!(pairs, expected);
        }
    }
}
