//! Single bools, integers and floats of encoded columns, as the bits of their type.

use std::ops::Range;
use std::sync::OnceLock;

use vortex_alp::{ALPFloat, Exponents};

use super::metadata::{Native, unzigzag};
use super::packed::{BLOCK, Place, block_bytes};
use super::reading::{Reading, outside};
use super::state::{Approach, Kept, Slot};
use super::whole::Whole;
use crate::error::ColumnarError;
use crate::source::ByteSource;

/// A block that is read whole at once, in bytes.
const SMALL_BLOCK_BYTES: usize = 256;

/// Which rows of a node are valid; `None`: all.
pub(super) type Validity = Option<Box<Scalars>>;

/// Rows of fixed width, by encoding.
#[derive(Debug)]
pub(super) enum Scalars {
    /// Every row has this value, or is null.
    Constant(Option<u64>),
    Plain(Plain),
    Bits(Bits),
    Packed(Box<Packed>),
    /// A value is its child's plus the reference.
    Reference {
        reference: u64,
        native: Native,
        child: Box<Scalars>,
    },
    ZigZag {
        native: Native,
        child: Box<Scalars>,
    },
    Sequence {
        base: u64,
        step: u64,
        native: Native,
        len: u32,
    },
    Dict {
        codes: Box<Scalars>,
        words: Box<Scalars>,
    },
    Runs {
        runs: Runs,
        values: Box<Scalars>,
    },
    Sparse {
        patches: Patches,
        fill: Option<u64>,
        len: u32,
    },
    Masked {
        child: Box<Scalars>,
        validity: Validity,
    },
    Alp {
        exponents: Exponents,
        is_wide: bool,
        child: Box<Scalars>,
        patches: Option<Patches>,
    },
    AlpRd {
        left: Box<Scalars>,
        right: Box<Scalars>,
        right_bits: u8,
        words: Box<[u16]>,
        patches: Option<Patches>,
    },
    /// Decoded as a whole.
    Whole(Box<Whole>),
}

/// Values as they are.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) start: u64,
    pub(super) width: u8,
    pub(super) len: u32,
    pub(super) slot: usize,
    pub(super) validity: Validity,
}

/// A bitmap.
#[derive(Debug)]
pub(super) struct Bits {
    pub(super) start: u64,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) slot: usize,
    pub(super) validity: Validity,
}

/// Blocks of bit-packed values.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) start: u64,
    /// Bits of a packed value, bytes of an unpacked one.
    pub(super) bits: u8,
    pub(super) width: u8,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) slot: usize,
    pub(super) patches: Option<Patches>,
    pub(super) validity: Validity,
}

/// Rows that are exceptions, ascending.
#[derive(Debug)]
pub(super) struct Exceptions {
    pub(super) rows: Sorted,
    /// What is taken off of the numbers in `rows`.
    pub(super) offset: u64,
}

/// Exceptions and their values.
#[derive(Debug)]
pub(super) struct Patches {
    pub(super) at: Exceptions,
    pub(super) values: Box<Scalars>,
}

/// Ends of runs, ascending.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) ends: Sorted,
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// Ascending integers that are searched.
#[derive(Debug)]
pub(super) struct Sorted {
    pub(super) values: Box<Scalars>,
    pub(super) len: u32,
    /// The first value of each block but the first, once one was looked for.
    pub(super) fences: OnceLock<Box<[u64]>>,
}

/// Whether a row is valid.
pub(super) fn is_valid<S: ByteSource + ?Sized>(
    validity: &Validity,
    row: u32,
    reading: &mut Reading<'_, S>,
) -> Result<bool, S::Error> {
    match validity {
        None => Ok(true),
        Some(bits) => Ok(bits.get(row, reading)? == Some(1)),
    }
}

impl Scalars {
    /// The bits of a row's value; `None` is NULL.
    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<u64>, S::Error> {
        Ok(match self {
            Self::Constant(value) => *value,
            Self::Plain(plain) => match is_valid(&plain.validity, row, reading)? {
                true => Some(plain.get(row, reading)?),
                false => None,
            },
            Self::Bits(bits) => match is_valid(&bits.validity, row, reading)? {
                true => Some(bits.get(row, reading)?),
                false => None,
            },
            Self::Packed(packed) => match is_valid(&packed.validity, row, reading)? {
                true => Some(packed.get(row, reading)?),
                false => None,
            },
            Self::Reference {
                reference,
                native,
                child,
            } => child
                .get(row, reading)?
                .map(|value| value.wrapping_add(*reference) & native.mask()),
            Self::ZigZag { native, child } => child
                .get(row, reading)?
                .map(|value| unzigzag(value) & native.mask()),
            Self::Sequence {
                base,
                step,
                native,
                len,
            } => {
                if row >= *len {
                    return Err(outside("a row").into());
                }
                let value = base.wrapping_add(step.wrapping_mul(row.into()));
                Some(value & native.mask())
            }
            Self::Dict { codes, words } => match codes.get(row, reading)? {
                None => None,
                Some(code) => words.get(position(code)?, reading)?,
            },
            Self::Runs { runs, values } => values.get(runs.find(row, reading)?, reading)?,
            Self::Sparse { patches, fill, len } => {
                if row >= *len {
                    return Err(outside("a row").into());
                }
                match patches.at.find(row, reading)? {
                    Some(at) => patches.values.get(at, reading)?,
                    None => *fill,
                }
            }
            Self::Masked { child, validity } => match is_valid(validity, row, reading)? {
                true => child.get(row, reading)?,
                false => None,
            },
            Self::Alp {
                exponents,
                is_wide,
                child,
                patches,
            } => match child.get(row, reading)? {
                None => None,
                Some(encoded) => match patched(patches.as_ref(), row, reading)? {
                    Some(value) => Some(value),
                    None if *is_wide => {
                        Some(f64::decode_single(encoded as i64, *exponents).to_bits())
                    }
                    None => Some(
                        f32::decode_single(encoded as i32, *exponents)
                            .to_bits()
                            .into(),
                    ),
                },
            },
            Self::AlpRd {
                left,
                right,
                right_bits,
                words,
                patches,
            } => match left.get(row, reading)? {
                None => None,
                Some(code) => {
                    let left = match patched(patches.as_ref(), row, reading)? {
                        Some(left) => left,
                        None => words
                            .get(code as usize)
                            .copied()
                            .ok_or_else(|| outside("a code"))?
                            .into(),
                    };
                    let right = required(right, row, reading)?;
                    Some(left << right_bits | right)
                }
            },
            Self::Whole(whole) => whole.scalar(row, reading)?,
        })
    }

    /// Whether rows may be null; that of nodes that are decoded as a whole is not known before.
    pub(super) fn may_be_null(&self) -> bool {
        match self {
            Self::Constant(value) => value.is_none(),
            Self::Plain(plain) => plain.validity.is_some(),
            Self::Bits(bits) => bits.validity.is_some(),
            Self::Packed(packed) => packed.validity.is_some(),
            Self::Reference { child, .. }
            | Self::ZigZag { child, .. }
            | Self::Alp { child, .. } => child.may_be_null(),
            Self::Sequence { .. } => false,
            Self::Dict { codes, words } => codes.may_be_null() || words.may_be_null(),
            Self::Runs { values, .. } => values.may_be_null(),
            Self::AlpRd { left, .. } => left.may_be_null(),
            Self::Sparse { .. } | Self::Masked { .. } | Self::Whole(_) => true,
        }
    }

    /// Appends the bits of some rows that follow each other, none of which is null.
    pub(super) fn append_required<S: ByteSource + ?Sized>(
        &self,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u64>,
    ) -> Result<(), S::Error> {
        match self {
            Self::Reference {
                reference,
                native,
                child,
            } => {
                let start = out.len();
                child.append_required(rows, reading, out)?;
                for value in &mut out[start..] {
                    *value = value.wrapping_add(*reference) & native.mask();
                }
            }
            Self::Packed(packed) if packed.validity.is_none() => {
                let mut next = rows.start;
                while next < rows.end {
                    // The first makes sure of the block, which most likely has the others, too.
                    out.push(packed.get(next, reading)?);
                    next += 1;
                    next += packed.append_kept(next..rows.end, reading.slots, out);
                }
            }
            _ => {
                for row in rows {
                    out.push(required(self, row, reading)?);
                }
            }
        }
        Ok(())
    }

    /// Appends the ranges that a row's value is known to need.
    pub(super) fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        match self {
            Self::Constant(_) | Self::Sequence { .. } => {}
            Self::Plain(plain) => {
                ranges_of_validity(&plain.validity, row, out);
                let at = plain.start + u64::from(row) * u64::from(plain.width);
                out.push(at..at + u64::from(plain.width));
            }
            Self::Bits(bits) => {
                ranges_of_validity(&bits.validity, row, out);
                let at = bits.start + u64::from(bits.offset + row) / 8;
                out.push(at..at + 1);
            }
            Self::Packed(packed) => {
                ranges_of_validity(&packed.validity, row, out);
                if let Some(patches) = &packed.patches {
                    patches.at.ranges(out);
                }
                out.push(packed.block_range((packed.offset + row) / BLOCK as u32));
            }
            Self::Reference { child, .. } | Self::ZigZag { child, .. } => child.ranges(row, out),
            Self::Dict { codes, .. } => codes.ranges(row, out),
            Self::Runs { runs, .. } => runs.ends.ranges(out),
            Self::Sparse { patches, .. } => patches.at.ranges(out),
            Self::Masked { child, validity } => {
                ranges_of_validity(validity, row, out);
                child.ranges(row, out);
            }
            Self::Alp { child, patches, .. } => {
                child.ranges(row, out);
                if let Some(patches) = patches {
                    patches.at.ranges(out);
                }
            }
            Self::AlpRd {
                left,
                right,
                patches,
                ..
            } => {
                left.ranges(row, out);
                right.ranges(row, out);
                if let Some(patches) = patches {
                    patches.at.ranges(out);
                }
            }
            Self::Whole(whole) => out.push(whole.range()),
        }
    }
}

pub(super) fn ranges_of_validity(validity: &Validity, row: u32, out: &mut Vec<Range<u64>>) {
    if let Some(bits) = validity {
        bits.ranges(row, out);
    }
}

/// A value that cannot be null.
pub(super) fn required<S: ByteSource + ?Sized>(
    values: &Scalars,
    row: u32,
    reading: &mut Reading<'_, S>,
) -> Result<u64, S::Error> {
    let value = values.get(row, reading)?;
    Ok(value.ok_or_else(|| ColumnarError::corrupt("a value that something needs is null"))?)
}

/// A stored number as a position among rows.
pub(super) fn position(value: u64) -> Result<u32, ColumnarError> {
    u32::try_from(value).map_err(|_| outside("a position"))
}

fn patched<S: ByteSource + ?Sized>(
    patches: Option<&Patches>,
    row: u32,
    reading: &mut Reading<'_, S>,
) -> Result<Option<u64>, S::Error> {
    match patches {
        None => Ok(None),
        Some(patches) => match patches.at.find(row, reading)? {
            None => Ok(None),
            Some(at) => required(&patches.values, at, reading).map(Some),
        },
    }
}

impl Plain {
    fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<u64, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        let block = row / BLOCK as u32;
        let first = block * BLOCK as u32;
        let len = (self.len - first).min(BLOCK as u32) as usize * usize::from(self.width);
        match reading.slots[self.slot].approach(block, len <= SMALL_BLOCK_BYTES) {
            Approach::Kept => {}
            Approach::Single => {
                let mut bytes = [0; 8];
                let at = self.start + u64::from(row) * u64::from(self.width);
                reading
                    .source
                    .read(at, &mut bytes[..usize::from(self.width)])?;
                return Ok(u64::from_le_bytes(bytes));
            }
            Approach::Load => {
                reading.fetch(self.start + u64::from(first) * u64::from(self.width), len)?;
                let slot = &mut reading.slots[self.slot];
                slot.values.fill_plain(reading.scratch, self.width);
                slot.kept = Kept::Block(block);
            }
        }
        let value = reading.slots[self.slot].values.get((row - first) as usize);
        Ok(value.ok_or_else(|| outside("a row"))?)
    }
}

impl Bits {
    fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<u64, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        // A block of bits is one of bytes: 8 times the rows, and still small.
        let at = self.offset + row;
        let block = at / 8 / BLOCK as u32;
        let first = block * BLOCK as u32;
        let len = ((self.offset + self.len).div_ceil(8) - first).min(BLOCK as u32) as usize;
        let byte = at / 8;
        let value = match reading.slots[self.slot].approach(block, len <= SMALL_BLOCK_BYTES) {
            Approach::Single => {
                let mut bytes = [0; 1];
                reading
                    .source
                    .read(self.start + u64::from(byte), &mut bytes)?;
                return Ok(u64::from(bytes[0] >> (at % 8) & 1));
            }
            Approach::Kept => reading.slots[self.slot].values.get((byte - first) as usize),
            Approach::Load => {
                reading.fetch(self.start + u64::from(first), len)?;
                let slot = &mut reading.slots[self.slot];
                slot.values.fill_plain(reading.scratch, 1);
                slot.kept = Kept::Block(block);
                slot.values.get((byte - first) as usize)
            }
        };
        Ok(value.ok_or_else(|| outside("a row"))? >> (at % 8) & 1)
    }
}

impl Packed {
    fn block_range(&self, block: u32) -> Range<u64> {
        let len = block_bytes(self.bits.into()) as u64;
        let start = self.start + u64::from(block) * len;
        start..start + len
    }

    fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<u64, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        let (bits, width) = (usize::from(self.bits), usize::from(self.width));
        let at = self.offset + row;
        let (block, index) = (at / BLOCK as u32, at as usize % BLOCK);
        let range = self.block_range(block);
        let is_small = block_bytes(bits) <= SMALL_BLOCK_BYTES;
        match reading.slots[self.slot].approach(block, is_small) {
            Approach::Kept => {}
            Approach::Single => {
                if let Some(value) = patched(self.patches.as_ref(), row, reading)? {
                    return Ok(value);
                }
                let mut bytes = [0; 136];
                let place = Place::of(index, width, bits);
                let bytes = &mut bytes[..place.len];
                reading
                    .source
                    .read(range.start + place.start as u64, bytes)?;
                return Ok(place.value(bytes, width, bits));
            }
            Approach::Load => {
                reading.fetch(range.start, block_bytes(bits))?;
                let slot = &mut reading.slots[self.slot];
                slot.kept = Kept::Nothing;
                slot.values.fill_packed(reading.scratch, self.width, bits);
                self.patch_block(block, reading)?;
                reading.slots[self.slot].kept = Kept::Block(block);
            }
        }
        let value = reading.slots[self.slot].values.get(index);
        Ok(value.ok_or_else(|| outside("a row"))?)
    }

    /// Appends the values of rows as far as the block that is kept has them; how many.
    fn append_kept(&self, rows: Range<u32>, slots: &[Slot], out: &mut Vec<u64>) -> u32 {
        let slot = &slots[self.slot];
        let Kept::Block(block) = slot.kept else {
            return 0;
        };
        if rows.is_empty() || rows.end > self.len {
            return 0;
        }
        let at = self.offset + rows.start;
        if at / BLOCK as u32 != block {
            return 0;
        }
        let index = at as usize % BLOCK;
        let end = (index + rows.len()).min(BLOCK);
        let before = out.len();
        slot.values.append(index..end, out);
        (out.len() - before) as u32
    }

    /// Puts the exceptions among a block's rows into its unpacked values.
    fn patch_block<S: ByteSource + ?Sized>(
        &self,
        block: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<(), S::Error> {
        let Some(patches) = &self.patches else {
            return Ok(());
        };
        let first = u64::from(block) * BLOCK as u64;
        // Positions in the blocks, of rows, of numbers in the patches.
        let number = |at: u64| at.saturating_sub(self.offset.into()) + patches.at.offset;
        let mut patch = patches.at.rows.lower_bound(number(first), reading)?;
        while patch < patches.at.rows.len {
            let row = required(&patches.at.rows.values, patch, reading)?;
            let at = row
                .wrapping_sub(patches.at.offset)
                .wrapping_add(self.offset.into());
            let Some(at) = at.checked_sub(first).filter(|&at| at < BLOCK as u64) else {
                break;
            };
            let value = required(&patches.values, patch, reading)?;
            reading.slots[self.slot].values.set(at as usize, value);
            patch += 1;
        }
        Ok(())
    }
}

impl Exceptions {
    /// The position of the exception for a row, if there is one.
    pub(super) fn find<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<u32>, S::Error> {
        let number = u64::from(row) + self.offset;
        let at = self.rows.lower_bound(number, reading)?;
        if at == self.rows.len {
            return Ok(None);
        }
        let found = required(&self.rows.values, at, reading)?;
        Ok((found == number).then_some(at))
    }

    pub(super) fn ranges(&self, out: &mut Vec<Range<u64>>) {
        self.rows.ranges(out);
    }
}

impl Runs {
    /// The run of a row.
    pub(super) fn find<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<u32, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        // A run ends before its end.
        let past = (u64::from(row) + 1).saturating_add(self.offset);
        self.ends.lower_bound(past, reading)
    }
}

impl Sorted {
    pub(super) fn new(values: Scalars, len: u32) -> Self {
        Self {
            values: Box::new(values),
            len,
            fences: OnceLock::new(),
        }
    }

    /// The number of values less than `bound`.
    pub(super) fn lower_bound<S: ByteSource + ?Sized>(
        &self,
        bound: u64,
        reading: &mut Reading<'_, S>,
    ) -> Result<u32, S::Error> {
        let block = match self.fences.get() {
            Some(fences) => fences.partition_point(|&fence| fence < bound),
            None if self.len <= BLOCK as u32 => 0,
            None => {
                let fences = (1..self.len.div_ceil(BLOCK as u32))
                    .map(|block| required(&self.values, block * BLOCK as u32, reading))
                    .collect::<Result<Box<[u64]>, _>>()?;
                let block = fences.partition_point(|&fence| fence < bound);
                reading.hold(size_of_val(&*fences));
                let _ = self.fences.set(fences);
                block
            }
        };
        let mut low = (block * BLOCK) as u32;
        let mut high = low.saturating_add(BLOCK as u32).min(self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            match required(&self.values, middle, reading)? < bound {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }

    /// What is read first, if that is known.
    pub(super) fn ranges(&self, out: &mut Vec<Range<u64>>) {
        if self.len <= BLOCK as u32 && self.len > 0 {
            self.values.ranges(self.len / 2, out);
        }
    }
}
