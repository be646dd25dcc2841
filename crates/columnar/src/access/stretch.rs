//! Strings of rows that follow each other, decoded together.
//!
//! ```text
//!   rows ──offsets──▶ one range of codes ──one pass──▶ bytes, end to end ──▶ a slice each
//! ```
//!
//! The codes of neighbours lie side by side, so that a reader of many of them pays for a source, a
//! place and a table of symbols once for each stretch, and for a slice per row. A stretch reaches
//! as far as the reader is expected to go, in either direction: see [`super::expected`].
//!
//! A stretch is only a faster way: where it cannot be read, rows are read one by one, and damage is
//! met by the row that it belongs to.

use std::mem::take;
use std::ops::Range;

use super::coded_strings::{Dict, Fsst, OnPair};
use super::content::Content;
use super::expected::Progress;
use super::letters::Letters;
use super::reading::{Reading, outside};
use super::scalars::{Scalars, Validity, position};
use super::several::append_valid;
use super::strings::{Plain, Strings};
use crate::error::ColumnarError;
use crate::source::ByteSource;
use crate::types::ColumnType;
use crate::value::Value;

/// The most bytes of codes that are read for one, or of strings that are made one by one.
const MOST_CODE_BYTES: u64 = 8 << 10;
/// The most codes of words that are read for one.
const MOST_CODES: u64 = 2 << 10;

/// What a stretch is read for.
struct Asked<'a, 'r, S: ?Sized> {
    /// The rows to be read, and the one among them that has to be.
    rows: Range<u32>,
    row: u32,
    reading: &'a mut Reading<'r, S>,
    /// Where the strings are put, end to end.
    out: &'a mut Vec<u8>,
}

/// The rows that were read, if they are not better read one by one.
type Rows = Option<Range<u32>>;

/// The strings of some rows.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    pub(super) progress: Progress,
    content: Content,
    /// Where each row ends in the content, and whether it is valid.
    ends: Vec<(u32, bool)>,
    offsets: Vec<u64>,
    codes: Vec<u64>,
    valid: Vec<bool>,
}

impl Stretch {
    pub(super) fn heap_bytes(&self) -> usize {
        self.content.capacity()
            + self.ends.capacity() * size_of::<(u32, bool)>()
            + (self.offsets.capacity() + self.codes.capacity()) * size_of::<u64>()
            + self.valid.capacity()
    }

    /// The value of a row that it holds.
    #[inline]
    pub(super) fn value(&self, row: u32) -> Result<Option<Value<'_>>, ColumnarError> {
        let wrong = || outside("a row");
        let at = self.progress.place(row).ok_or_else(wrong)?;
        let &(end, valid) = self.ends.get(at).ok_or_else(wrong)?;
        if !valid {
            return Ok(None);
        }
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        self.content.value(start as usize..end as usize).map(Some)
    }

    /// Reads a stretch of these rows, or of fewer of them, that holds `row`; false if they are
    /// better read one by one.
    pub(super) fn read<S: ByteSource + ?Sized>(
        &mut self,
        strings: &Strings,
        ty: ColumnType,
        rows: Range<u32>,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<bool, S::Error> {
        let mut bytes = self.content.take_buffer();
        let asked = &mut Asked {
            rows,
            row,
            reading,
            out: &mut bytes,
        };
        let Some(rows) = self.decode(strings, asked)? else {
            return Ok(false);
        };
        let Ok(content) = Content::of(ty, bytes) else {
            return Ok(false);
        };
        self.content = content;
        self.progress.set(rows);
        Ok(true)
    }

    /// Decodes rows, or fewer of them with `row` among them; which they are.
    fn decode<S: ByteSource + ?Sized>(
        &mut self,
        strings: &Strings,
        asked: &mut Asked<'_, '_, S>,
    ) -> Result<Rows, S::Error> {
        let (strings, masks) = match strings {
            Strings::Masked { child, validity } => (&**child, validity),
            strings => (strings, &None),
        };
        self.ends.clear();
        self.valid.clear();
        let rows = match strings {
            Strings::Letters(letters) => self.decode_letters(letters, asked),
            Strings::Plain(plain) => self.copy_plain(plain, asked),
            Strings::Fsst(fsst) => self.decode_symbols(fsst, asked),
            Strings::OnPair(onpair) => self.decode_words(onpair, asked),
            Strings::Dict(dict) => self.look_up(dict, asked),
            strings => self.one_by_one(strings, asked),
        }?;
        let Some(rows) = rows else {
            return Ok(None);
        };
        self.mask(masks, &rows, asked.reading)?;
        Ok((self.ends.len() == rows.len()).then_some(rows))
    }

    /// Makes those rows null that are not valid.
    fn mask<S: ByteSource + ?Sized>(
        &mut self,
        validity: &Validity,
        rows: &Range<u32>,
        reading: &mut Reading<'_, S>,
    ) -> Result<(), S::Error> {
        if validity.is_some() {
            self.valid.clear();
            append_valid(validity, rows.clone(), reading, &mut self.valid)?;
            for (end, valid) in self.ends.iter_mut().zip(&self.valid) {
                end.1 &= valid;
            }
        }
        Ok(())
    }

    fn copy_plain<S: ByteSource + ?Sized>(
        &mut self,
        plain: &Plain,
        asked: &mut Asked<'_, '_, S>,
    ) -> Result<Rows, S::Error> {
        let Some(rows) = self.bounded_plain(plain, asked)? else {
            return Ok(None);
        };
        let Asked { reading, out, .. } = asked;
        append_valid(&plain.validity, rows.clone(), reading, &mut self.valid)?;
        // `bounded` has checked that offsets do not descend, and end with the data.
        let (first, end) = (self.offsets[0], self.offsets[rows.len()]);
        reading.append(plain.data.start + first..plain.data.start + end, out)?;
        for (&offset, &valid) in self.offsets[1..].iter().zip(&self.valid) {
            self.ends.push(((offset - first) as u32, valid));
        }
        Ok(Some(rows))
    }

    fn decode_symbols<S: ByteSource + ?Sized>(
        &mut self,
        fsst: &Fsst,
        asked: &mut Asked<'_, '_, S>,
    ) -> Result<Rows, S::Error> {
        let plain = &fsst.codes;
        let Some(rows) = self.bounded_plain(plain, asked)? else {
            return Ok(None);
        };
        let Asked { reading, out, .. } = asked;
        append_valid(&plain.validity, rows.clone(), reading, &mut self.valid)?;
        let (first, end) = (self.offsets[0], self.offsets[rows.len()]);
        let table = fsst.table(reading)?;
        reading.fetch(plain.data.start + first, (end - first) as usize)?;
        let mut start = 0;
        for (&offset, &valid) in self.offsets[1..].iter().zip(&self.valid) {
            let stop = (offset - first) as usize;
            // A null row may have codes, which nothing needs to make sense of.
            if valid {
                table.decode(&reading.scratch[start..stop], out)?;
            }
            self.ends.push((out.len() as u32, valid));
            start = stop;
        }
        Ok(Some(rows))
    }

    fn decode_words<S: ByteSource + ?Sized>(
        &mut self,
        onpair: &OnPair,
        asked: &mut Asked<'_, '_, S>,
    ) -> Result<Rows, S::Error> {
        let limit = onpair.code_count.into();
        let offsets = &onpair.code_offsets;
        let Some(rows) = self.bounded(offsets, limit, MOST_CODES, asked)? else {
            return Ok(None);
        };
        let Asked { reading, out, .. } = asked;
        append_valid(&onpair.validity, rows.clone(), reading, &mut self.valid)?;
        let (first, end) = (self.offsets[0], self.offsets[rows.len()]);
        let words = onpair.words(reading)?;
        self.codes.clear();
        let codes = position(first)?..position(end)?;
        onpair
            .codes
            .append_required(codes, reading, &mut self.codes)?;
        let mut start = 0;
        for (&offset, &valid) in self.offsets[1..].iter().zip(&self.valid) {
            let stop = (offset - first) as usize;
            if valid {
                let codes = self.codes.get(start..stop);
                words.decode(codes.ok_or_else(|| outside("a code"))?, out)?;
            }
            self.ends.push((out.len() as u32, valid));
            start = stop;
        }
        Ok(Some(rows))
    }

    fn look_up<S: ByteSource + ?Sized>(
        &mut self,
        dict: &Dict,
        asked: &mut Asked<'_, '_, S>,
    ) -> Result<Rows, S::Error> {
        let (mut codes, mut valid) = (take(&mut self.codes), take(&mut self.valid));
        codes.clear();
        dict.codes
            .append_optional(asked.rows.clone(), asked.reading, &mut codes, &mut valid)?;
        let word = |at: usize, reading: &mut Reading<'_, S>, out: &mut Vec<u8>| match (
            valid.get(at),
            codes.get(at),
        ) {
            (Some(true), Some(&code)) => dict.word(code, reading, out),
            (Some(false), _) => Ok(false),
            _ => Err(outside("a row").into()),
        };
        let rows = self.each(asked, word);
        (self.codes, self.valid) = (codes, valid);
        rows
    }

    /// Rows of nodes whose neighbours have nothing in common.
    fn one_by_one<S: ByteSource + ?Sized>(
        &mut self,
        strings: &Strings,
        asked: &mut Asked<'_, '_, S>,
    ) -> Result<Rows, S::Error> {
        let start = asked.rows.start;
        let get = |at: usize, reading: &mut Reading<'_, S>, out: &mut Vec<u8>| {
            strings.get(start + at as u32, reading, out)
        };
        self.each(asked, get)
    }

    /// Takes the strings of rows, by their place among them, one after the other, until they are
    /// long; which rows that were, if `row` is among them.
    fn each<S: ByteSource + ?Sized>(
        &mut self,
        asked: &mut Asked<'_, '_, S>,
        mut get: impl FnMut(usize, &mut Reading<'_, S>, &mut Vec<u8>) -> Result<bool, S::Error>,
    ) -> Result<Rows, S::Error> {
        let (rows, row) = (asked.rows.clone(), asked.row);
        let Asked { reading, out, .. } = asked;
        let mut end = rows.start;
        while end < rows.end && (out.len() as u64) < MOST_CODE_BYTES {
            let valid = get((end - rows.start) as usize, reading, out)?;
            self.ends.push((position(out.len() as u64)?, valid));
            end += 1;
        }
        let rows = rows.start..end;
        Ok(rows.contains(&row).then_some(rows))
    }

    fn decode_letters<S: ByteSource + ?Sized>(
        &mut self,
        letters: &Letters,
        asked: &mut Asked<'_, '_, S>,
    ) -> Result<Rows, S::Error> {
        let (rows, row) = (asked.rows.clone(), asked.row);
        let Asked { reading, out, .. } = asked;
        let most = position(MOST_CODE_BYTES / letters.alphabet.row_bytes() as u64)?;
        let rows = match row == rows.start {
            true => rows.start..rows.end.min(rows.start.saturating_add(most)),
            false => rows.start.max(rows.end.saturating_sub(most))..rows.end,
        };
        if rows.len() < 2 {
            return Ok(None);
        }
        letters.append(letters.place(rows.clone())?, reading, out)?;
        append_valid(&letters.validity, rows.clone(), reading, &mut self.valid)?;
        for (nth, &valid) in (1..).zip(&self.valid) {
            let end = position(nth * letters.alphabet.len() as u64)?;
            self.ends.push((end, valid));
        }
        Ok(Some(rows))
    }

    fn bounded_plain<S: ByteSource + ?Sized>(
        &mut self,
        plain: &Plain,
        asked: &mut Asked<'_, '_, S>,
    ) -> Result<Rows, S::Error> {
        let limit = plain.data.end - plain.data.start;
        self.bounded(&plain.offsets, limit, MOST_CODE_BYTES, asked)
    }

    /// Reads the offsets of rows, which end by `limit`; leaves out those at the far end that would
    /// make the range of codes longer than `most`. `None`: not even two are left.
    fn bounded<S: ByteSource + ?Sized>(
        &mut self,
        offsets: &Scalars,
        limit: u64,
        most: u64,
        asked: &mut Asked<'_, '_, S>,
    ) -> Result<Rows, S::Error> {
        let (rows, row) = (asked.rows.clone(), asked.row);
        let end = rows.end.checked_add(1).ok_or_else(|| outside("a row"))?;
        self.offsets.clear();
        offsets.append_required(rows.start..end, asked.reading, &mut self.offsets)?;
        if !self.offsets.is_sorted() || self.offsets.last().is_none_or(|&last| last > limit) {
            return Err(outside("a string").into());
        }
        let offsets = &mut self.offsets;
        let rows = match row == rows.start {
            true => {
                let most = offsets[0].saturating_add(most);
                let fit = offsets.partition_point(|&offset| offset <= most);
                offsets.truncate(fit);
                rows.start..rows.start + position(fit as u64)?.saturating_sub(1)
            }
            false => {
                let last = offsets.last().copied().unwrap_or_default();
                let least = last.saturating_sub(most);
                let first = offsets.partition_point(|&offset| offset < least);
                offsets.drain(..first);
                rows.start + position(first as u64)?..rows.end
            }
        };
        Ok((rows.len() > 1 && rows.contains(&row)).then_some(rows))
    }
}
