//! Numbers of rows that follow each other, read together.
//!
//! A number of a row whose neighbours are read as well costs more for the way to it (the tree of
//! encodings, its block) than for itself. So numbers are read some rows ahead, as strings are
//! ([`super::stretch`]), and kept as the bits of their type. A numeric is made of up to three of
//! them; a row of which it is an image is read by itself.
//!
//! What cannot be read is given up, and the rows are read one by one, so that damage is met by the
//! row that it belongs to.

use std::ops::Range;

use super::Root;
use super::expected::Progress;
use super::reading::Reading;
use super::root::NumericRoot;
use super::scalars::Scalars;
use crate::numeric::join;
use crate::source::ByteSource;
use crate::types::ColumnType;
use crate::value::{Numeric, Value};

/// The numbers of some rows.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) progress: Progress,
    bits: Vec<u64>,
    valid: Vec<bool>,
    /// Of numerics that have them.
    high: Vec<u64>,
    scales: Vec<u64>,
}

impl Ahead {
    pub(super) fn heap_bytes(&self) -> usize {
        let numbers = self.bits.capacity() + self.high.capacity() + self.scales.capacity();
        numbers * size_of::<u64>() + self.valid.capacity()
    }

    /// Whether it reads columns of this kind.
    pub(super) fn reads(root: &Root) -> bool {
        match root {
            Root::Scalars(scalars) => !matches!(scalars, Scalars::Whole(_)),
            Root::Numeric(_) => true,
            Root::AllNull | Root::Strings(_) => false,
        }
    }

    /// The value of a row that it holds.
    #[inline]
    pub(super) fn value(&self, row: u32, ty: ColumnType, root: &Root) -> Option<Value<'static>> {
        let at = self.progress.place(row)?;
        if !*self.valid.get(at)? {
            return None;
        }
        let bits = *self.bits.get(at)?;
        let Root::Numeric(numeric) = root else {
            return Some(Value::of_bits(ty, bits));
        };
        let unscaled = match self.high.get(at) {
            None => (bits as i64).into(),
            Some(&high) => join(bits as i64, high as i64),
        };
        let scale = self
            .scales
            .get(at)
            .map_or(numeric.scale, |&scale| scale as u16);
        Some(Value::Numeric(Numeric::Small { unscaled, scale }))
    }

    /// Reads these rows, `row` among them, or fewer; none if one of them cannot be read. Until then
    /// it holds none: an ERROR of the server's unwinds from the source.
    pub(super) fn read<S: ByteSource + ?Sized>(
        &mut self,
        root: &Root,
        rows: Range<u32>,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) {
        for numbers in [&mut self.bits, &mut self.high, &mut self.scales] {
            numbers.clear();
        }
        self.valid.clear();
        let read = match root {
            Root::Scalars(scalars) => self
                .append(scalars, rows.clone(), reading)
                .map(|()| Some(rows)),
            Root::Numeric(numeric) => self.append_numerics(numeric, row, rows, reading),
            Root::AllNull | Root::Strings(_) => Ok(None),
        };
        if let Ok(Some(rows)) = read
            && self.bits.len() == rows.len()
            && self.valid.len() == rows.len()
        {
            self.progress.set(rows);
        }
    }

    fn append<S: ByteSource + ?Sized>(
        &mut self,
        scalars: &Scalars,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
    ) -> Result<(), S::Error> {
        scalars.append_optional(rows, reading, &mut self.bits, &mut self.valid)
    }

    /// Those around `row` that are no images.
    fn append_numerics<S: ByteSource + ?Sized>(
        &mut self,
        numeric: &NumericRoot,
        row: u32,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<Range<u32>>, S::Error> {
        let rows = match &numeric.images {
            None => rows,
            Some((images, _)) => match images.gap(row, rows, reading)? {
                None => return Ok(None),
                Some(rows) => rows,
            },
        };
        self.append(&numeric.low, rows.clone(), reading)?;
        // A null row may have anything in the other parts, or nothing.
        let mut unused = Vec::new();
        for (part, out) in [
            (&numeric.high, &mut self.high),
            (&numeric.scales, &mut self.scales),
        ] {
            if let Some(part) = part {
                unused.clear();
                part.append_optional(rows.clone(), reading, out, &mut unused)?;
                let is_missing = |(valid, there): (&bool, &bool)| *valid && !there;
                if self.valid.iter().zip(&unused).any(is_missing) {
                    return Ok(None);
                }
            }
        }
        Ok(Some(rows))
    }
}
