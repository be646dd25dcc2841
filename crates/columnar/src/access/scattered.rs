//! Values of rows here and there, read column by column.
//!
//! ```text
//!   row by row       row 1: a b c …   row 2: a b c …      each reader's code and tables anew
//!   column by column a: rows 1 2 …    b: rows 1 2 …       once for some rows
//! ```
//!
//! What a row costs is mostly the way through the code and the tables of each column's reader,
//! which are more than the processor's nearest caches hold. A reader that knows which rows it will
//! ask for has each column read for all of them. First all their places are requested, so that
//! memory is waited for together.
//!
//! A row that cannot be read is no matter of the others: then none are kept, and each is read by
//! itself.

use std::ops::Range;

use super::content::Content;
use super::reading::Reading;
use super::root::{Digits, Root};
use super::scalars::Scalars;
use super::strings::{Place, Strings};
use crate::error::ColumnarError;
use crate::source::ByteSource;
use crate::types::ColumnType;
use crate::value::{Numeric, Value};

/// The most rows that are read together.
pub const MOST_SCATTERED: usize = 16;
/// The most bytes of strings that are kept, but for the last one.
const MOST_BYTES: usize = 8 << 10;

/// The values of some rows.
#[derive(Debug, Default)]
pub(super) struct Scattered {
    rows: Vec<u32>,
    content: Content,
    /// Where each string ends in the content, and whether it is valid.
    ends: Vec<(u32, bool)>,
    numbers: Vec<Option<u64>>,
    /// The unscaled values and scales of numerics.
    numerics: Vec<Option<(i128, u16)>>,
    places: Vec<Place>,
    /// Ranges to be requested.
    pub(super) ranges: Vec<Range<u64>>,
}

impl Scattered {
    pub(super) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<u32>()
            + self.content.capacity()
            + self.ends.capacity() * size_of::<(u32, bool)>()
            + self.numbers.capacity() * size_of::<Option<u64>>()
            + self.numerics.capacity() * size_of::<Option<(i128, u16)>>()
            + self.places.capacity() * size_of::<Place>()
            + self.ranges.capacity() * size_of::<Range<u64>>()
    }

    /// Whether values of a column of this kind are kept.
    pub(super) fn keeps(root: &Root) -> bool {
        match root {
            Root::Scalars(scalars) => !matches!(scalars, Scalars::Whole(_)),
            Root::Strings(strings) => strings.has_stretches(),
            Root::Numeric(numeric) => !matches!(numeric.low, Scalars::Whole(_)),
            Root::AllNull => false,
        }
    }

    pub(super) fn holds(&self, row: u32) -> bool {
        self.rows.contains(&row)
    }

    /// The value of a row; the outer `None`: it is not kept.
    pub(super) fn value(
        &self,
        row: u32,
        ty: ColumnType,
    ) -> Option<Result<Option<Value<'_>>, ColumnarError>> {
        let at = self.rows.iter().position(|&kept| kept == row)?;
        if let Some(number) = self.numbers.get(at) {
            return Some(Ok(number.map(|bits| Value::of_bits(ty, bits))));
        }
        if let Some(number) = self.numerics.get(at) {
            let small = |(unscaled, scale)| Value::Numeric(Numeric::Small { unscaled, scale });
            return Some(Ok(number.map(small)));
        }
        let &(end, valid) = self.ends.get(at)?;
        if !valid {
            return Some(Ok(None));
        }
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let value = self.content.value(start as usize..end as usize);
        Some(value.map(Some))
    }

    /// Keeps nothing.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.ends.clear();
        self.numbers.clear();
        self.numerics.clear();
        self.places.clear();
        self.ranges.clear();
    }

    /// Reads the values of these rows, or of the first ones. Keeps nothing if one cannot be read.
    pub(super) fn read<S: ByteSource + ?Sized>(
        &mut self,
        root: &Root,
        ty: ColumnType,
        rows: &[u32],
        reading: &mut Reading<'_, S>,
    ) -> Result<(), S::Error> {
        match root {
            Root::Scalars(scalars) => {
                for &row in rows {
                    self.numbers.push(scalars.get(row, reading)?);
                }
            }
            Root::Strings(strings) => self.read_strings(strings, ty, rows, reading)?,
            Root::Numeric(numeric) => {
                for &row in rows {
                    self.numerics.push(match numeric.digits(row, reading)? {
                        Digits::Null => None,
                        Digits::Small { unscaled, scale } => Some((unscaled, scale)),
                        // Images are rare, and read by themselves.
                        Digits::Image(_) => break,
                    });
                }
            }
            Root::AllNull => {}
        }
        let count = self
            .numbers
            .len()
            .max(self.numerics.len())
            .max(self.ends.len());
        self.rows.extend_from_slice(&rows[..count]);
        Ok(())
    }

    fn read_strings<S: ByteSource + ?Sized>(
        &mut self,
        strings: &Strings,
        ty: ColumnType,
        rows: &[u32],
        reading: &mut Reading<'_, S>,
    ) -> Result<(), S::Error> {
        if strings.has_places() {
            self.ranges.clear();
            for &row in rows {
                let place = strings.locate(row, reading, &mut self.ranges)?;
                self.places.push(place);
            }
            reading.source.request(&self.ranges);
        }
        self.places.resize(rows.len(), Place::Unknown);
        let mut bytes = self.content.take_buffer();
        for (&row, place) in rows.iter().zip(&self.places) {
            let valid = strings.get_at(row, place, reading, &mut bytes)?;
            let end = u32::try_from(bytes.len());
            let end = end.map_err(|_| ColumnarError::corrupt("strings are too long"))?;
            self.ends.push((end, valid));
            if bytes.len() > MOST_BYTES {
                break;
            }
        }
        self.content = Content::of(ty, bytes)?;
        Ok(())
    }
}
