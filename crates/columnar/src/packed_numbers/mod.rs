//! Numbers that are stored as bit-packed codes: decoded, compared and counted without an array of
//! integers in between.
//!
//! ```text
//!   integers: base + code        (frame of reference, bit-packed)
//!   decimals: (base + code) · 10^f · 10^-e   (ALP above these)
//!   floats:   their bits are the code        (ALP-RD: upper and lower bits apart)
//!             │
//!             ▼ open, once in a chunk
//!   PackedNumbers ─┬─ decode: codes of a block ─▶ values
//!                  ├─ matching: comparisons as ranges of codes ─▶ bits of rows
//!                  └─ count_codes: rows of each code
//! ```
//!
//! Invariant: a code has at most 31 bits, and the order of codes is the order of values. No sum of
//! base and code leaves the column's type; a decimal rises with its integer, because both products
//! are with positive constants and rounding keeps order; bits of floats have no sign.
//!
//! Rows whose value is not that of their code, the *exceptions*, are kept beside with their values:
//! integers that are too great for the bits, and floats that are no short decimals (NaN, infinities
//! and -0.0 among them) or have uncommon upper bits.

mod blocks;
mod compare;
mod decode;
mod histogram;
mod open;

use std::ops::Range;

use arrow_buffer::NullBuffer;
use vortex_alp::Exponents;

use crate::access::packed::BLOCK;
use crate::error::ColumnarError;
use crate::types::ColumnType;
pub(crate) use blocks::Blocks;
use blocks::Codes;

pub use compare::CodeRange;

/// The most bits of a code.
const MOST_BITS: usize = 31;

/// Numbers of a chunk as they are packed.
#[derive(Debug)]
pub struct PackedNumbers {
    ty: ColumnType,
    row_count: usize,
    codes: Codes,
    scale: Scale,
    nulls: Option<NullBuffer>,
    exceptions: Exceptions,
}

/// The value of a code.
#[derive(Clone, Copy, Debug)]
enum Scale {
    /// The integer `base + code`.
    Integer { base: i64 },
    /// The integer `base + code`, scaled by powers of ten.
    Decimal { base: i64, exponents: Exponents },
    /// The float with these bits.
    Bits,
}

/// Rows whose value is not that of their code.
#[derive(Debug, Default)]
struct Exceptions {
    /// Ascending.
    rows: Vec<u32>,
    /// The bits of each value in the column's type.
    values: Vec<u64>,
}

impl Exceptions {
    /// The exceptions in a range of rows: their place in the range, and their bits.
    fn within(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
        let place = |row: usize| self.rows.partition_point(|&at| (at as usize) < row);
        let found = match self.rows.is_empty() {
            true => 0..0,
            false => place(rows.start)..place(rows.end),
        };
        let at = self.rows[found.clone()].iter();
        at.zip(&self.values[found])
            .map(move |(&row, &value)| (row as usize - rows.start, value))
    }
}

impl PackedNumbers {
    /// The type of the column.
    pub fn column_type(&self) -> ColumnType {
        self.ty
    }

    /// Bits of a code: codes are less than `1 << bits`.
    pub fn bits(&self) -> usize {
        self.codes.bits()
    }

    /// The integer of code 0, if the column has integers.
    pub fn integer_base(&self) -> Option<i64> {
        match self.scale {
            Scale::Integer { base } => Some(base),
            Scale::Decimal { .. } | Scale::Bits => None,
        }
    }

    /// Whether each row has the value of its code: none is NULL, and none an exception.
    pub fn has_only_codes(&self) -> bool {
        self.nulls.is_none() && self.exceptions.rows.is_empty()
    }

    /// Appends the codes of a range of rows. The code of an exception or of a NULL is undefined,
    /// but less than `1 << bits`.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`] when there are no such rows.
    pub fn append_codes(
        &self,
        rows: Range<usize>,
        out: &mut Vec<u32>,
    ) -> Result<(), ColumnarError> {
        self.check(&rows)?;
        let mut next = out.len();
        out.resize(next + rows.len(), 0);
        let mut part = [0; BLOCK];
        for rows in by_block(rows) {
            let (block, first) = (rows.start / BLOCK, rows.start % BLOCK);
            match out[next..].first_chunk_mut::<BLOCK>() {
                Some(codes) if rows.len() == BLOCK => self.codes.unpack(block, codes),
                _ => {
                    self.codes.unpack(block, &mut part);
                    out[next..next + rows.len()].copy_from_slice(&part[first..first + rows.len()]);
                }
            }
            next += rows.len();
        }
        Ok(())
    }

    /// Calls a function with the codes of a range of rows, piece by piece; see
    /// [`append_codes`](Self::append_codes).
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`] when there are no such rows.
    #[inline]
    pub fn visit_codes(
        &self,
        rows: Range<usize>,
        visit: impl FnMut(&[u32]),
    ) -> Result<(), ColumnarError> {
        self.check(&rows)?;
        self.blocks(rows, visit);
        Ok(())
    }

    fn check(&self, rows: &Range<usize>) -> Result<(), ColumnarError> {
        if rows.start <= rows.end && rows.end <= self.row_count {
            return Ok(());
        }
        Err(ColumnarError::OutOfRange {
            start: rows.start,
            end: rows.end,
            row_count: self.row_count,
        })
    }

    /// Calls a function with the codes of a range of rows, block by block. The range is checked by
    /// the caller.
    #[inline(always)]
    fn blocks(&self, rows: Range<usize>, mut visit: impl FnMut(&[u32])) {
        let mut codes = [0; BLOCK];
        for rows in by_block(rows) {
            self.codes.unpack(rows.start / BLOCK, &mut codes);
            let first = rows.start % BLOCK;
            visit(&codes[first..first + rows.len()]);
        }
    }
}

/// A range of rows, cut at the bounds of blocks.
fn by_block(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut next = rows.start;
    std::iter::from_fn(move || {
        let start = next;
        next = ((start / BLOCK + 1) * BLOCK).min(rows.end);
        (start < rows.end).then_some(start..next)
    })
}
