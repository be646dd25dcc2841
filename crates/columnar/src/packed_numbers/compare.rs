//! Comparisons as ranges of codes.
//!
//! Values rise with codes, so that the codes of which a comparison is true, or of which it is
//! false, lie side by side. The ends are found by searching codes whose values are compared in the
//! plain way: the answer is exact, whatever rounding is in a float's scale.

use std::cmp::Ordering;
use std::ops::Range;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer};
use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u32x16};

use super::PackedNumbers;
use crate::access::packed::BLOCK;
use crate::error::ColumnarError;
use crate::predicate::{CompareOp, Predicate};
use crate::value::compare;

/// Codes that are compared at a time.
const VECTOR: usize = 16;

/// Words of bits of a block.
const WORDS: usize = BLOCK / 64;

/// The codes of a chunk of which a comparison is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRange {
    first: u32,
    len: u32,
    /// Those outside of the range instead.
    is_outside: bool,
}

impl CodeRange {
    /// The codes of both; `None` if these are no range.
    fn and(self, other: Self) -> Option<Self> {
        if self.is_outside || other.is_outside {
            return None;
        }
        let first = self.first.max(other.first);
        let end = (self.first + self.len).min(other.first + other.len);
        Some(Self {
            first,
            len: end.saturating_sub(first),
            is_outside: false,
        })
    }
}

impl PackedNumbers {
    /// The codes of which a predicate is true; `None` if it is no comparison with a number.
    pub fn code_range(&self, predicate: &Predicate) -> Option<CodeRange> {
        let Predicate::Compare { op, value } = predicate else {
            return None;
        };
        let order = |code: u32| compare(self.value_of_code(code), value.as_value());
        order(0)?;
        let end = 1u32 << self.bits();
        let not_less = || search(end, |code| order(code) == Some(Ordering::Less));
        let greater = || search(end, |code| order(code) != Some(Ordering::Greater));
        let (codes, is_outside) = match op {
            CompareOp::Eq => (not_less()..greater(), false),
            CompareOp::Ne => (not_less()..greater(), true),
            CompareOp::Lt => (0..not_less(), false),
            CompareOp::Le => (0..greater(), false),
            CompareOp::Gt => (greater()..end, false),
            CompareOp::Ge => (not_less()..end, false),
        };
        Some(CodeRange {
            first: codes.start,
            len: codes.end - codes.start,
            is_outside,
        })
    }

    /// Where all of some comparisons, with their ranges, are true among the selected rows of a
    /// range (bit 0 is row `rows.start`). `codes` are those of the rows, if they were unpacked
    /// before; else blocks without a selected row are not unpacked.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`] when there are no such rows, or not as many bits or codes.
    pub fn matching(
        &self,
        comparisons: &[(&Predicate, CodeRange)],
        rows: Range<usize>,
        selected: Option<&BooleanBuffer>,
        codes: Option<&[u32]>,
    ) -> Result<BooleanBuffer, ColumnarError> {
        self.check(&rows)?;
        self.check_len(&rows, selected.map_or(rows.len(), BooleanBuffer::len))?;
        self.check_len(&rows, codes.map_or(rows.len(), <[u32]>::len))?;
        let mut ranges: Vec<CodeRange> = Vec::with_capacity(comparisons.len());
        for (_, range) in comparisons {
            match ranges.last_mut().map(|last| (last.and(*range), last)) {
                Some((Some(both), last)) => *last = both,
                _ => ranges.push(*range),
            }
        }
        let mut found = match codes {
            Some(codes) => {
                let mut words = Vec::with_capacity(codes.len().div_ceil(64));
                append_matches(&ranges, codes, &mut words);
                BooleanBuffer::new(Buffer::from_vec(words), 0, rows.len())
            }
            None => self.matching_blocks(&ranges, &rows, selected),
        };
        if !self.exceptions.rows.is_empty() {
            found = self.with_exceptions(found, comparisons, &rows);
        }
        if let Some(nulls) = &self.nulls {
            found = &found & nulls.slice(rows.start, rows.len()).inner();
        }
        Ok(match selected {
            Some(selected) => &found & selected,
            None => found,
        })
    }

    pub(super) fn check_len(&self, rows: &Range<usize>, len: usize) -> Result<(), ColumnarError> {
        match len == rows.len() {
            true => Ok(()),
            false => Err(ColumnarError::OutOfRange {
                start: rows.start,
                end: rows.start.saturating_add(len),
                row_count: self.row_count,
            }),
        }
    }

    /// The rows whose code is in all ranges, block by block.
    fn matching_blocks(
        &self,
        ranges: &[CodeRange],
        rows: &Range<usize>,
        selected: Option<&BooleanBuffer>,
    ) -> BooleanBuffer {
        let first_block = rows.start / BLOCK;
        let blocks = first_block..rows.end.div_ceil(BLOCK);
        let mut words: Vec<u64> = Vec::with_capacity(blocks.len() * WORDS);
        let mut codes = [0; BLOCK];
        for block in blocks {
            let start = (block * BLOCK).max(rows.start) - rows.start;
            let end = ((block + 1) * BLOCK).min(rows.end) - rows.start;
            let is_needed = selected
                .is_none_or(|selected| selected.slice(start, end - start).count_set_bits() > 0);
            if !is_needed {
                words.resize(words.len() + WORDS, 0);
                continue;
            }
            self.codes.unpack(block, &mut codes);
            append_matches(ranges, &codes, &mut words);
        }
        let offset = rows.start - first_block * BLOCK;
        BooleanBuffer::new(Buffer::from_vec(words), offset, rows.len())
    }

    /// Answers for exceptions, whose codes mean nothing.
    fn with_exceptions(
        &self,
        found: BooleanBuffer,
        comparisons: &[(&Predicate, CodeRange)],
        rows: &Range<usize>,
    ) -> BooleanBuffer {
        let mut exceptions = self.exceptions.within(rows.clone()).peekable();
        if exceptions.peek().is_none() {
            return found;
        }
        let mut bits = BooleanBufferBuilder::new(found.len());
        bits.append_buffer(&found);
        for (at, value) in exceptions {
            let value = self.value_of_bits(value);
            let mut predicates = comparisons.iter().map(|(predicate, _)| predicate);
            bits.set_bit(at, predicates.all(|p| p.matches(Some(value)) == Some(true)));
        }
        bits.finish()
    }
}

/// The first number below `end` of which a condition is false that no number after it has.
fn search(end: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// Appends a bit for each code: whether it is in all ranges. Unused bits of the last word are 0.
fn append_matches(ranges: &[CodeRange], codes: &[u32], words: &mut Vec<u64>) {
    dispatch!(Level::new(), simd => append_matches_by(simd, ranges, codes, words));
}

#[inline(always)]
fn append_matches_by<S: Simd>(simd: S, ranges: &[CodeRange], codes: &[u32], words: &mut Vec<u64>) {
    let (whole, rest) = codes.as_chunks::<64>();
    words.reserve(whole.len() + 1);
    for codes in whole {
        words.push(matches_of(simd, ranges, codes));
    }
    if !rest.is_empty() {
        let mut codes = [0; 64];
        codes[..rest.len()].copy_from_slice(rest);
        words.push(matches_of(simd, ranges, &codes) & (u64::MAX >> (64 - rest.len())));
    }
}

/// A bit for each of 64 codes: whether it is in all ranges.
#[inline(always)]
fn matches_of<S: Simd>(simd: S, ranges: &[CodeRange], codes: &[u32; 64]) -> u64 {
    let (vectors, _) = codes.as_chunks::<VECTOR>();
    let mut all = u64::MAX;
    for range in ranges {
        let first = u32x16::splat(simd, range.first);
        let len = u32x16::splat(simd, range.len);
        let mut inside = 0;
        for (at, codes) in vectors.iter().enumerate() {
            let codes: u32x16<S> = (*codes).simd_into(simd);
            inside |= (codes - first).simd_lt(len).to_bitmask() << (VECTOR * at);
        }
        all &= match range.is_outside {
            true => !inside,
            false => inside,
        };
    }
    all
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::wide::levels;

    #[test]
    fn codes_are_matched_at_every_level() {
        let codes: Vec<u32> = (0..1_000u32)
            .map(|at| at.wrapping_mul(0x9e37_79b9) >> (at % 27 + 1))
            .collect();
        let range = |first, len, is_outside| CodeRange {
            first,
            len,
            is_outside,
        };
        let range_lists = [
            vec![range(0, 0, false)],
            vec![range(0, 1 << 31, false)],
            vec![range(1_000, 1_000_000, false)],
            vec![range(17, 1, true), range(0, 0x4000_0000, false)],
        ];
        for ranges in range_lists {
            let is_match = |code: u32| {
                let mut all = ranges.iter();
                all.all(|r| (code >= r.first && code - r.first < r.len) != r.is_outside)
            };
            for len in [0, 1, 15, 16, 63, 64, 65, 200, codes.len()] {
                let expected: BooleanBuffer = codes[..len].iter().map(|&c| is_match(c)).collect();
                for level in levels() {
                    let (codes, mut words) = (&codes[..len], Vec::new());
                    dispatch!(level, simd => append_matches_by(simd, &ranges, codes, &mut words));
                    assert_eq!(words.len(), len.div_ceil(64));
                    let unused = words.last().map_or(0, |word| match len % 64 {
                        0 => 0,
                        used => word >> used,
                    });
                    assert_eq!(unused, 0);
                    let found = BooleanBuffer::new(Buffer::from_vec(words), 0, len);
                    assert_eq!(found, expected, "{level:?}, {len} codes");
                }
            }
        }
    }
}
