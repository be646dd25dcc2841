//! Rows of each code, counted.

use std::ops::Range;

use super::PackedNumbers;
use super::blocks::{Blocks, Codes};
use crate::access::packed::BLOCK;
use crate::error::ColumnarError;

/// The most bits of codes that are counted: more codes than this are no small domain.
const MOST_COUNTED_BITS: usize = 16;

/// Counts beside each other, so that equal codes in a row need not wait for each other.
const LANES: usize = 4;

impl PackedNumbers {
    /// Adds the number of rows of each code in a range of rows to `counts`, which has one for each
    /// code; `false`, and nothing is counted, if there are too many codes or not every row has the
    /// value of its code.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`] when there are no such rows.
    pub fn count_codes(
        &self,
        rows: Range<usize>,
        counts: &mut [u32],
    ) -> Result<bool, ColumnarError> {
        self.check(&rows)?;
        let Codes::Packed(packed) = &self.codes else {
            return Ok(false);
        };
        let is_countable = packed.bits <= MOST_COUNTED_BITS && self.has_only_codes();
        if !is_countable || counts.len() != 1 << packed.bits {
            return Ok(false);
        }
        let first = rows.start.next_multiple_of(BLOCK).min(rows.end);
        let last = (rows.end / BLOCK * BLOCK).max(first);
        let whole = match self.has_codes_in_bytes() {
            true => first..last,
            false => first..first,
        };
        count_bytes(packed, &whole, counts);
        for rows in [rows.start..whole.start, whole.end..rows.end] {
            self.blocks(rows, |codes| {
                for &code in codes {
                    counts[code as usize] += 1;
                }
            });
        }
        Ok(true)
    }

    /// Whether bytes hold whole codes, so that counting them costs much less than unpacking them.
    pub fn has_codes_in_bytes(&self) -> bool {
        matches!(self.bits(), 1 | 2 | 4 | 8)
    }
}

/// Counts the bytes of whole blocks, then the codes of each byte.
fn count_bytes(packed: &Blocks, rows: &Range<usize>, counts: &mut [u32]) {
    if rows.is_empty() {
        return;
    }
    let mut of_bytes = [[0u32; 256]; LANES];
    for block in rows.start / BLOCK..rows.end / BLOCK {
        let (fours, _) = packed.bytes(block).as_chunks::<LANES>();
        for four in fours {
            for (lane, &byte) in of_bytes.iter_mut().zip(four) {
                lane[usize::from(byte)] += 1;
            }
        }
    }
    let mask = (1usize << packed.bits) - 1;
    for byte in 0..256 {
        let count: u32 = of_bytes.iter().map(|lane| lane[byte]).sum();
        for shift in (0..8).step_by(packed.bits) {
            counts[byte >> shift & mask] += count;
        }
    }
}
