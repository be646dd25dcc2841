//! Strings of rows that follow each other, decoded together.
//!
//! ```text
//!   rows ──offsets──▶ one range of codes ──one pass──▶ bytes, end to end ──▶ a slice each
//! ```
//!
//! The codes of neighbours lie side by side, so that a reader of many of them pays for a source, a
//! place and a table of symbols once for each stretch, and for a slice per row. A stretch begins at
//! the row that is asked for and reaches as far as the reader seems to go: it is short at first,
//! and twice as long as the one before when that was read to its end, in either direction.
//!
//! A stretch is only a faster way: where it cannot be read, rows are read one by one, and damage is
//! met by the row that it belongs to.

use std::ops::Range;

use super::content::Content;
use super::letters::Letters;
use super::reading::{Reading, outside};
use super::scalars::{is_valid, position};
use super::strings::{Plain, Strings};
use crate::error::ColumnarError;
use crate::source::ByteSource;
use crate::types::ColumnType;
use crate::value::Value;

/// Rows of the first stretch, and of the longest.
pub(super) const FIRST_ROWS: u32 = 4;
const MOST_ROWS: u32 = 64;
/// The most bytes of codes that are read for one.
const MOST_CODE_BYTES: u64 = 8 << 10;

/// The rows that are to be read when `row` is asked for, which is not among `rows`, those that were
/// read last. `next_rows` is how many these were to be.
pub(super) fn rows_to_read(
    rows: &Range<u32>,
    next_rows: &mut u32,
    row: u32,
    row_count: u32,
) -> Range<u32> {
    let is_next = row == rows.end;
    let is_before = row.checked_add(1) == Some(rows.start);
    let count = match !rows.is_empty() && (is_next || is_before) {
        true => next_rows.saturating_mul(2).min(MOST_ROWS),
        false => FIRST_ROWS,
    };
    *next_rows = count;
    match is_before && !rows.is_empty() {
        true => (row + 1).saturating_sub(count)..row + 1,
        false => row..row.saturating_add(count).min(row_count),
    }
}

/// The strings of some rows.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    rows: Range<u32>,
    /// How many rows the next one is to have.
    next_rows: u32,
    content: Content,
    /// Where each row ends in the content, and whether it is valid.
    ends: Vec<(u32, bool)>,
    offsets: Vec<u64>,
}

impl Stretch {
    pub(super) fn heap_bytes(&self) -> usize {
        self.content.capacity()
            + self.ends.capacity() * size_of::<(u32, bool)>()
            + self.offsets.capacity() * size_of::<u64>()
    }

    #[inline]
    pub(super) fn holds(&self, row: u32) -> bool {
        self.rows.contains(&row)
    }

    /// The value of a row that it holds.
    #[inline]
    pub(super) fn value(&self, row: u32) -> Result<Option<Value<'_>>, ColumnarError> {
        let wrong = || outside("a row");
        let at = row.checked_sub(self.rows.start).ok_or_else(wrong)? as usize;
        let &(end, valid) = self.ends.get(at).ok_or_else(wrong)?;
        if !valid {
            return Ok(None);
        }
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        self.content.value(start as usize..end as usize).map(Some)
    }

    /// Reads a stretch that holds `row`; false if its rows are better read one by one.
    pub(super) fn read<S: ByteSource + ?Sized>(
        &mut self,
        strings: &Strings,
        ty: ColumnType,
        row: u32,
        row_count: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<bool, S::Error> {
        let rows = rows_to_read(&self.rows, &mut self.next_rows, row, row_count);
        self.rows = 0..0;
        let mut bytes = self.content.take_buffer();
        let Some(rows) = self.decode(strings, rows, row, reading, &mut bytes)? else {
            return Ok(false);
        };
        let Ok(content) = Content::of(ty, bytes) else {
            return Ok(false);
        };
        self.content = content;
        self.rows = rows;
        Ok(true)
    }

    /// Decodes rows, or fewer of them with `row` among them; which they are.
    fn decode<S: ByteSource + ?Sized>(
        &mut self,
        strings: &Strings,
        rows: Range<u32>,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Range<u32>>, S::Error> {
        let (strings, masks) = match strings {
            Strings::Masked { child, validity } => (&**child, Some(validity)),
            strings => (strings, None),
        };
        if let Strings::Letters(letters) = strings {
            return self.decode_letters(letters, rows, row, reading, out);
        }
        let (plain, fsst) = match strings {
            Strings::Plain(plain) => (plain, None),
            Strings::Fsst(fsst) => (&fsst.codes, Some(fsst)),
            _ => return Ok(None),
        };
        let Some(rows) = self.bounded(plain, rows, row, reading)? else {
            return Ok(None);
        };
        self.ends.clear();
        for row in rows.clone() {
            let mut valid = is_valid(&plain.validity, row, reading)?;
            if let Some(validity) = masks {
                valid = valid && is_valid(validity, row, reading)?;
            }
            self.ends.push((0, valid));
        }
        // `bounded` has checked that offsets do not descend, and end with the data.
        let first = self.offsets[0];
        let end = self.offsets[rows.len()];
        let len = (end - first) as usize;
        match fsst {
            None => {
                reading.append(plain.data.start + first..plain.data.start + end, out)?;
                for (row_end, &offset) in self.ends.iter_mut().zip(&self.offsets[1..]) {
                    row_end.0 = (offset - first) as u32;
                }
            }
            Some(fsst) => {
                let table = fsst.table(reading)?;
                reading.fetch(plain.data.start + first, len)?;
                let mut start = 0;
                for (row_end, &offset) in self.ends.iter_mut().zip(&self.offsets[1..]) {
                    let stop = (offset - first) as usize;
                    // A null row may have codes, which nothing needs to make sense of.
                    if row_end.1 {
                        table.decode(&reading.scratch[start..stop], out)?;
                    }
                    row_end.0 = out.len() as u32;
                    start = stop;
                }
            }
        }
        Ok(Some(rows))
    }

    /// The same of letters.
    fn decode_letters<S: ByteSource + ?Sized>(
        &mut self,
        letters: &Letters,
        rows: Range<u32>,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Range<u32>>, S::Error> {
        let most = position(MOST_CODE_BYTES / letters.alphabet.row_bytes() as u64)?;
        let rows = match row == rows.start {
            true => rows.start..rows.end.min(rows.start.saturating_add(most)),
            false => rows.start.max(rows.end.saturating_sub(most))..rows.end,
        };
        if rows.len() < 2 {
            return Ok(None);
        }
        letters.append(letters.place(rows.clone())?, reading, out)?;
        self.ends.clear();
        for (nth, row) in (1..).zip(rows.clone()) {
            let end = position(nth * letters.alphabet.len() as u64)?;
            self.ends
                .push((end, is_valid(&letters.validity, row, reading)?));
        }
        Ok(Some(rows))
    }

    /// Reads the offsets of rows; leaves out those at the far end that would make the range of
    /// codes too long. `None`: not even two are left.
    fn bounded<S: ByteSource + ?Sized>(
        &mut self,
        plain: &Plain,
        rows: Range<u32>,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<Range<u32>>, S::Error> {
        let end = rows.end.checked_add(1).ok_or_else(|| outside("a row"))?;
        self.offsets.clear();
        plain
            .offsets
            .append_required(rows.start..end, reading, &mut self.offsets)?;
        let limit = plain.data.end - plain.data.start;
        if !self.offsets.is_sorted() || self.offsets.last().is_none_or(|&last| last > limit) {
            return Err(outside("a string").into());
        }
        let offsets = &mut self.offsets;
        let rows = match row == rows.start {
            true => {
                let most = offsets[0].saturating_add(MOST_CODE_BYTES);
                let fit = offsets.partition_point(|&offset| offset <= most);
                offsets.truncate(fit);
                rows.start..rows.start + position(fit as u64)?.saturating_sub(1)
            }
            false => {
                let last = offsets.last().copied().unwrap_or_default();
                let least = last.saturating_sub(MOST_CODE_BYTES);
                let first = offsets.partition_point(|&offset| offset < least);
                offsets.drain(..first);
                rows.start + position(first as u64)?..rows.end
            }
        };
        Ok((rows.len() > 1 && rows.contains(&row)).then_some(rows))
    }
}
