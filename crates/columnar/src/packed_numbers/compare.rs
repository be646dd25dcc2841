//! Comparisons as ranges of codes.
//!
//! Values rise with codes, so that the codes of which a comparison is true, or of which it is
//! false, lie side by side. The ends are found by searching codes whose values are compared in the
//! plain way: the answer is exact, whatever rounding is in a float's scale.

use std::cmp::Ordering;
use std::ops::Range;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer};

use super::PackedNumbers;
use crate::access::packed::BLOCK;
use crate::error::ColumnarError;
use crate::predicate::{CompareOp, Predicate};
use crate::value::compare;

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
    #[inline(always)]
    fn contains(self, code: u32) -> bool {
        (code.wrapping_sub(self.first) < self.len) ^ self.is_outside
    }

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
    match *ranges {
        [range] if !range.is_outside => {
            let CodeRange { first, len, .. } = range;
            append_bits(codes, words, |code| code.wrapping_sub(first) < len);
        }
        _ => append_bits(codes, words, |code| {
            ranges.iter().all(|range| range.contains(code))
        }),
    }
}

/// Answers are made as bytes first, a loop that the compiler vectorizes, then packed eight at a
/// time.
#[inline(always)]
fn append_bits(codes: &[u32], words: &mut Vec<u64>, answer: impl Fn(u32) -> bool) {
    let (whole, rest) = codes.as_chunks::<64>();
    let mut answers = [0_u8; 64];
    for codes in whole {
        for (to, &code) in answers.iter_mut().zip(codes) {
            *to = u8::from(answer(code));
        }
        words.push(packed(&answers));
    }
    if !rest.is_empty() {
        answers = [0; 64];
        for (to, &code) in answers.iter_mut().zip(rest) {
            *to = u8::from(answer(code));
        }
        words.push(packed(&answers));
    }
}

/// The lowest bits of 64 bytes, each 0 or 1.
#[inline(always)]
fn packed(answers: &[u8; 64]) -> u64 {
    // The product brings the lowest bit of byte i to bit 56 + i, and no two bits to the same place.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = answers.as_chunks::<8>();
    let mut word = 0;
    for (at, bytes) in eights.iter().enumerate() {
        let eight = u64::from_le_bytes(*bytes).wrapping_mul(GATHER) >> 56;
        word |= eight << (8 * at);
    }
    word
}
