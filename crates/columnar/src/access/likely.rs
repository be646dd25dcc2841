//! Where the strings of a row probably lie, for a reader that would have to wait for offsets.
//!
//! ```text
//!   data of n strings   ├──────────────┼──────────────────────┤
//!                       0      row / n of its bytes           n
//! ```
//!
//! Strings of about the same length lie about where their row is among all rows. A reader that
//! fetches pages from disk may request that place along with the offsets that tell the true one: it
//! mostly waits once then instead of twice, for a page that it does not need at times. Nothing is
//! read by a guess.

use std::ops::Range;

use super::strings::Strings;
use super::{Root, RowAccess};

/// How far before and behind its place a string is expected. Lengths that vary by some bytes lead
/// a row of a hundred thousand astray by some hundred times as many.
const ASTRAY_BYTES: u64 = 3 << 10;

impl RowAccess {
    /// Appends the ranges of the stored value in which the row's bytes probably lie, where
    /// [`ranges`](Self::ranges) does not know them.
    pub fn likely_ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        if let (true, Root::Strings(strings)) = (row < self.row_count, &self.root) {
            strings.likely(row, self.row_count, out);
        }
    }
}

impl Strings {
    fn likely(&self, row: u32, row_count: u32, out: &mut Vec<Range<u64>>) {
        let data = match self {
            Self::Plain(plain) => &plain.data,
            Self::Fsst(fsst) => &fsst.codes.data,
            Self::Masked { child, .. } => return child.likely(row, row_count, out),
            _ => return,
        };
        let len = data.end.saturating_sub(data.start);
        let at = |row: u32| {
            let share = u128::from(len) * u128::from(row) / u128::from(row_count.max(1));
            data.start + share as u64
        };
        let first = at(row).saturating_sub(ASTRAY_BYTES).max(data.start);
        let end = at(row.saturating_add(1)).saturating_add(ASTRAY_BYTES);
        out.push(first..end.min(data.end).max(first));
    }
}
