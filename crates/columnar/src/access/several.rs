//! The values of rows that follow each other, read together: the way through the tree of encodings,
//! the place of a block and the search among exceptions are paid for once.
//!
//! ```text
//!   append(rows)   the child's values of all rows, then what the node makes of each
//!                  Reference + · ZigZag · Alp · Dict ──▶ words · exceptions
//! ```
//!
//! What a row has is what [`Scalars::get`] gives; an error of one row is one of all.

use std::ops::Range;

use vortex_alp::ALPFloat;

use super::metadata::unzigzag;
use super::reading::{Reading, outside};
use super::scalars::{Scalars, Validity, position, required};
use crate::error::ColumnarError;
use crate::source::ByteSource;

/// Which of some rows are valid; `None`: all of them have to be.
type Flags<'f> = Option<&'f mut Vec<bool>>;

/// Appends which rows are valid.
pub(super) fn append_valid<S: ByteSource + ?Sized>(
    validity: &Validity,
    rows: Range<u32>,
    reading: &mut Reading<'_, S>,
    out: &mut Vec<bool>,
) -> Result<(), S::Error> {
    match validity.as_deref() {
        None => out.extend(rows.map(|_| true)),
        Some(Scalars::Bits(bits)) if bits.validity.is_none() => {
            let few = bits.append_few(rows.clone(), reading, out)?;
            for row in rows.start + few..rows.end {
                out.push(bits.get(row, reading)? == 1);
            }
        }
        Some(bits) => {
            for row in rows {
                out.push(bits.get(row, reading)? == Some(1));
            }
        }
    }
    Ok(())
}

impl Scalars {
    /// Appends the bits of some rows that follow each other, none of which is null.
    pub(super) fn append_required<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u64>,
    ) -> Result<(), S::Error> {
        self.append(rows, reading, out, None)
    }

    /// Appends the bits of some rows that follow each other, and which of them are valid; others
    /// have any bits.
    pub(super) fn append_optional<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u64>,
        valid: &mut Vec<bool>,
    ) -> Result<(), S::Error> {
        match self.may_be_null() {
            true => self.append(rows, reading, out, Some(valid)),
            false => {
                valid.extend(rows.clone().map(|_| true));
                self.append(rows, reading, out, None)
            }
        }
    }

    fn append<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u64>,
        mut valid: Flags<'_>,
    ) -> Result<(), S::Error> {
        let start = out.len();
        let first_flag = valid.as_ref().map_or(0, |valid| valid.len());
        match self {
            Self::Reference { child, .. }
            | Self::ZigZag { child, .. }
            | Self::Alp { child, .. }
            | Self::Dict { codes: child, .. } => {
                child.append(rows.clone(), reading, out, valid.as_deref_mut())?;
                let flags = valid.as_deref_mut().map(|valid| &mut valid[first_flag..]);
                self.convert(rows, reading, &mut out[start..], flags)?;
            }
            Self::Plain(plain) if Self::takes(&plain.validity, &valid) => {
                if let Some(valid) = valid {
                    append_valid(&plain.validity, rows.clone(), reading, valid)?;
                }
                plain.append(rows, reading, out)?;
            }
            Self::Packed(packed) if Self::takes(&packed.validity, &valid) => {
                if let Some(valid) = valid {
                    append_valid(&packed.validity, rows.clone(), reading, valid)?;
                }
                packed.append(rows, reading, out)?;
            }
            Self::Constant {
                value: Some(value),
                len,
            } if rows.end <= *len => {
                out.extend(std::iter::repeat_n(*value, rows.len()));
                if let Some(valid) = valid {
                    valid.extend(rows.map(|_| true));
                }
            }
            Self::Sparse { patches, fill, len }
                if rows.end <= *len
                    && let Some(valid) = valid.as_deref_mut() =>
            {
                out.extend(std::iter::repeat_n(fill.unwrap_or(0), rows.len()));
                valid.extend(std::iter::repeat_n(fill.is_some(), rows.len()));
                let found = patches.among(rows, reading)?;
                found.check()?;
                for (at, value) in found.each() {
                    out[start + at] = value.unwrap_or(0);
                    valid[first_flag + at] = value.is_some();
                }
            }
            Self::Runs { runs, values } => {
                let mut next = rows.start;
                let mut run = match rows.is_empty() {
                    true => 0,
                    false => runs.find(next, reading)?,
                };
                while next < rows.end {
                    let end = runs.end_of(run, reading)?.min(rows.end);
                    if end <= next {
                        return Err(outside("a run").into());
                    }
                    let count = (end - next) as usize;
                    let value = values.push(run, reading, out, valid.as_deref_mut())?;
                    out.extend(std::iter::repeat_n(value, count - 1));
                    if let Some(valid) = valid.as_deref_mut()
                        && let Some(&last) = valid.last()
                    {
                        valid.extend(std::iter::repeat_n(last, count - 1));
                    }
                    (next, run) = (end, run + 1);
                }
            }
            _ => {
                for row in rows {
                    self.push(row, reading, out, valid.as_deref_mut())?;
                }
            }
        }
        Ok(())
    }

    /// Whether values with this validity may be appended as they are: rows are told apart by flags,
    /// or there are no nulls.
    fn takes(validity: &Validity, flags: &Flags<'_>) -> bool {
        flags.is_some() || validity.is_none()
    }

    /// Appends one row; its bits.
    fn push<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u64>,
        valid: Flags<'_>,
    ) -> Result<u64, S::Error> {
        let value = match valid {
            None => required(self, row, reading)?,
            Some(valid) => {
                let value = self.get(row, reading)?;
                valid.push(value.is_some());
                value.unwrap_or(0)
            }
        };
        out.push(value);
        Ok(value)
    }

    /// Makes values of a child's.
    fn convert<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        values: &mut [u64],
        valid: Option<&mut [bool]>,
    ) -> Result<(), S::Error> {
        match self {
            Self::Reference {
                reference, native, ..
            } => {
                for value in values {
                    *value = value.wrapping_add(*reference) & native.mask();
                }
            }
            Self::ZigZag { native, .. } => {
                for value in values {
                    *value = unzigzag(*value) & native.mask();
                }
            }
            Self::Alp {
                exponents,
                is_wide,
                patches,
                ..
            } => {
                for value in values.iter_mut() {
                    *value = match *is_wide {
                        true => f64::decode_single(*value as i64, *exponents).to_bits(),
                        false => f32::decode_single(*value as i32, *exponents)
                            .to_bits()
                            .into(),
                    };
                }
                if let Some(patches) = patches {
                    patches.apply(rows, reading, values)?;
                }
            }
            Self::Dict { words, .. } => match valid {
                None => {
                    for value in values {
                        *value = required(words, position(*value)?, reading)?;
                    }
                }
                Some(valid) => {
                    for (value, valid) in values.iter_mut().zip(valid) {
                        if *valid {
                            let word = words.get(position(*value)?, reading)?;
                            (*value, *valid) = (word.unwrap_or(0), word.is_some());
                        }
                    }
                }
            },
            _ => return Err(ColumnarError::corrupt("a node has no child").into()),
        }
        Ok(())
    }
}
