//! Which rows of a column under construction are null: a bitmap that only exists once
//! there is a null.

/// A growing validity bitmap; a set bit is a value, a clear bit a null.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValidityBuilder {
    /// Empty while every row is valid.
    words: Vec<u64>,
    len: usize,
    null_count: usize,
}

impl ValidityBuilder {
    #[inline]
    pub(crate) fn push_valid(&mut self) {
        if self.null_count > 0 {
            self.grow();
            self.words[self.len / 64] |= 1 << (self.len % 64);
        }
        self.len += 1;
    }

    pub(crate) fn push_all_valid(&mut self, count: usize) {
        if self.null_count == 0 {
            self.len += count;
        } else {
            (0..count).for_each(|_| self.push_valid());
        }
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        if self.null_count == 0 {
            self.start();
        }
        self.grow();
        self.len += 1;
        self.null_count += 1;
    }

    /// Writes the bitmap of the valid rows so far.
    #[cold]
    fn start(&mut self) {
        self.words.clear();
        self.words.resize(self.len.div_ceil(64), u64::MAX);
        if !self.len.is_multiple_of(64)
            && let Some(last) = self.words.last_mut()
        {
            *last = (1 << (self.len % 64)) - 1;
        }
    }

    #[inline]
    fn grow(&mut self) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
    }

    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.null_count == 0 || self.words[row / 64] >> (row % 64) & 1 == 1
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn null_count(&self) -> usize {
        self.null_count
    }

    /// The bitmap's words, least significant bit first; `None` when no row is null.
    pub(crate) fn words(&self) -> Option<&[u64]> {
        (self.null_count > 0).then_some(self.words.as_slice())
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        if self.null_count == 0 {
            0
        } else {
            self.words.len() * 8
        }
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
        self.null_count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_first_null_keeps_the_earlier_rows_valid() {
        for first_null in [0usize, 1, 63, 64, 65, 128, 200] {
            let mut validity = ValidityBuilder::default();
            for row in 0..300 {
                if row == first_null || row % 7 == 3 && row > first_null {
                    validity.push_null();
                } else {
                    validity.push_valid();
                }
            }
            for row in 0..300 {
                let null = row == first_null || row % 7 == 3 && row > first_null;
                assert_eq!(validity.is_valid(row), !null, "row {row}");
            }
        }
    }
}
