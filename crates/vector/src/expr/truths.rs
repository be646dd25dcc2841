//! SQL's three truth values of many rows, as bits.

use arrow_array::{Array, BooleanArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};

/// Rows that are true, and rows that are NULL; the others are false. No row is both.
#[derive(Clone, Debug)]
pub(super) struct Truths {
    pub(super) is_true: BooleanBuffer,
    /// `None` if no row is.
    pub(super) is_null: Option<BooleanBuffer>,
}

impl Truths {
    /// Of bits that mean nothing where a row is null.
    pub(super) fn new(bits: BooleanBuffer, nulls: Option<&NullBuffer>) -> Self {
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => Self {
                is_true: bits,
                is_null: None,
            },
            Some(nulls) => Self {
                is_true: &bits & nulls.inner(),
                is_null: Some(!nulls.inner()),
            },
        }
    }

    pub(super) fn of_array(array: &BooleanArray) -> Self {
        Self::new(array.values().clone(), array.nulls())
    }

    pub(super) fn all(value: Option<bool>, row_count: usize) -> Self {
        Self {
            is_true: match value {
                Some(true) => BooleanBuffer::new_set(row_count),
                _ => BooleanBuffer::new_unset(row_count),
            },
            is_null: value.is_none().then(|| BooleanBuffer::new_set(row_count)),
        }
    }

    pub(super) fn into_array(self) -> BooleanArray {
        let nulls = self.is_null.map(|is_null| NullBuffer::new(!&is_null));
        BooleanArray::new(self.is_true, nulls.filter(|nulls| nulls.null_count() > 0))
    }

    pub(super) fn not_false(&self) -> BooleanBuffer {
        match &self.is_null {
            None => self.is_true.clone(),
            Some(is_null) => &self.is_true | is_null,
        }
    }

    pub(super) fn is_false(&self) -> BooleanBuffer {
        !&self.not_false()
    }

    pub(super) fn not(self) -> Self {
        Self {
            is_true: self.is_false(),
            is_null: self.is_null,
        }
    }

    pub(super) fn and(self, other: &Self) -> Self {
        let is_true = &self.is_true & &other.is_true;
        let is_null = match (&self.is_null, &other.is_null) {
            (None, None) => None,
            _ => Some(&(&self.not_false() & &other.not_false()) & &!&is_true),
        };
        Self { is_true, is_null }
    }

    pub(super) fn or(self, other: &Self) -> Self {
        let is_true = &self.is_true | &other.is_true;
        let is_null = match (self.is_null, &other.is_null) {
            (None, None) => None,
            (Some(is_null), None) => Some(&is_null & &!&is_true),
            (None, Some(is_null)) => Some(is_null & &!&is_true),
            (Some(a), Some(b)) => Some(&(&a | b) & &!&is_true),
        };
        Self { is_true, is_null }
    }

    /// The answers of chosen rows in the places of those; false elsewhere.
    pub(super) fn scattered(&self, rows: &BooleanBuffer) -> Self {
        Self {
            is_true: scattered(&self.is_true, rows),
            is_null: self.is_null.as_ref().map(|bits| scattered(bits, rows)),
        }
    }
}

/// Puts bit `i` where `rows` has its `i`-th set bit.
pub(super) fn scattered(bits: &BooleanBuffer, rows: &BooleanBuffer) -> BooleanBuffer {
    let mut words = vec![0_u64; rows.len().div_ceil(64)];
    for (row, bit) in rows.set_indices().zip(bits) {
        words[row / 64] |= u64::from(bit) << (row % 64);
    }
    BooleanBuffer::new(arrow_buffer::Buffer::from_vec(words), 0, rows.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Option<bool>; 3] = [Some(true), Some(false), None];

    fn values(truths: &Truths) -> Vec<Option<bool>> {
        truths.clone().into_array().iter().collect()
    }

    #[test]
    fn logic_is_three_valued() {
        let pairs = || ALL.iter().flat_map(|&a| ALL.iter().map(move |&b| (a, b)));
        let truths = |values: Vec<Option<bool>>| Truths::of_array(&BooleanArray::from(values));
        let left = truths(pairs().map(|(a, _)| a).collect());
        let right = truths(pairs().map(|(_, b)| b).collect());
        let and = |(a, b): (Option<bool>, Option<bool>)| match (a, b) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
        let not = |(a, b): (Option<bool>, Option<bool>)| (a.map(|a| !a), b.map(|b| !b));
        let expected: Vec<_> = pairs().map(and).collect();
        assert_eq!(values(&left.clone().and(&right)), expected);
        let expected: Vec<_> = pairs().map(|pair| and(not(pair)).map(|v| !v)).collect();
        assert_eq!(values(&left.clone().or(&right)), expected);
        let expected: Vec<_> = pairs().map(|pair| not(pair).0).collect();
        assert_eq!(values(&left.not()), expected);
    }

    #[test]
    fn answers_are_put_back_where_their_rows_were() {
        let rows = BooleanBuffer::from(vec![false, true, true, false, true]);
        let bits = BooleanBuffer::from(vec![true, false, true]);
        let expected = BooleanBuffer::from(vec![false, true, false, false, true]);
        assert_eq!(scattered(&bits, &rows), expected);
    }
}
