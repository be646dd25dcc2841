//! Single bools, integers and floats of encoded columns, as the bits of their type: the tree of
//! encodings, read for a row.
//!
//! Its leaves are in [`super::blocks`], what is searched by row in [`super::sorted`], and rows that
//! follow each other in [`super::several`].

use std::ops::Range;

use vortex_alp::{ALPFloat, Exponents};

use super::blocks::{Bits, Packed, Plain};
use super::metadata::{Native, unzigzag};
use super::pages::Pages;
use super::reading::{Reading, outside};
use super::sorted::{Patches, Runs, patched};
use super::state::Slot;
use super::whole::Whole;
use crate::error::ColumnarError;
use crate::source::ByteSource;

/// Which rows of a node are valid; `None`: all.
pub(super) type Validity = Option<Box<Scalars>>;

/// Rows of fixed width, by encoding.
#[derive(Debug)]
pub(super) enum Scalars {
    /// Every row has this value, or is null.
    Constant {
        value: Option<u64>,
        len: u32,
    },
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
    /// Decoded by the page.
    Pages(Box<Pages>),
    /// Decoded as a whole.
    Whole(Box<Whole>),
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
            Self::Constant { value, len } => {
                if row >= *len {
                    return Err(outside("a row").into());
                }
                *value
            }
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
            Self::Pages(pages) => pages.get(row, reading)?,
            Self::Whole(whole) => whole.scalar(row, reading)?,
        })
    }

    /// Whether rows may be null; that of nodes that are decoded as a whole is not known before.
    pub(super) fn may_be_null(&self) -> bool {
        match self {
            Self::Constant { value, .. } => value.is_none(),
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
            Self::Pages(pages) => pages.may_be_null(),
            Self::Sparse { .. } | Self::Masked { .. } | Self::Whole(_) => true,
        }
    }

    /// The bits of a row and of the next one, if both are read at once.
    pub(super) fn two<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<[u64; 2]>, S::Error> {
        match self {
            Self::Packed(packed) => packed.two(row, reading),
            Self::Plain(plain) => plain.two(row, reading),
            Self::Reference {
                reference,
                native,
                child,
            } => {
                let two = child.two(row, reading)?;
                let sum = |value: u64| value.wrapping_add(*reference) & native.mask();
                Ok(two.map(|two| two.map(sum)))
            }
            _ => Ok(None),
        }
    }

    /// The first of these rows, which ascend and are not null, whose value is at least `bound`, or
    /// their end; if the block is kept that all of them lie in.
    pub(super) fn search_kept(&self, rows: Range<u32>, bound: u64, slots: &[Slot]) -> Option<u32> {
        match self {
            Self::Plain(plain) => plain.search_kept(rows, bound, slots),
            Self::Packed(packed) => packed.search_kept(rows, bound, slots),
            Self::Reference {
                reference,
                native,
                child,
            } => {
                // Sums that go around are not in the order of what they are made of.
                let Self::Packed(packed) = &**child else {
                    return None;
                };
                reference
                    .checked_add(packed.most()?)
                    .filter(|&most| most <= native.mask())?;
                match bound.checked_sub(*reference) {
                    Some(bound) => packed.search_kept(rows, bound, slots),
                    None => Some(rows.start),
                }
            }
            _ => None,
        }
    }

    /// Appends the ranges that a row's value is known to need.
    pub(super) fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        match self {
            Self::Constant { .. } | Self::Sequence { .. } => {}
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
                out.push(packed.range(row));
            }
            Self::Reference { child, .. } | Self::ZigZag { child, .. } => child.ranges(row, out),
            Self::Dict { codes, .. } => codes.ranges(row, out),
            Self::Runs { runs, .. } => runs.ranges(out),
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
            Self::Pages(pages) => pages.ranges(row, out),
            Self::Whole(whole) => out.push(whole.range()),
        }
    }
}

/// Appends the ranges that two neighbouring values are known to need, as one where they lie side by
/// side.
pub(super) fn ranges_of_two(values: &Scalars, row: u32, out: &mut Vec<Range<u64>>) {
    let first = out.len();
    values.ranges(row, out);
    values.ranges(row.saturating_add(1), out);
    if let [one, two] = &mut out[first..]
        && one.start.abs_diff(two.start) <= NEAR_BYTES
    {
        *one = one.start.min(two.start)..one.end.max(two.end);
        out.pop();
    }
}

/// Ranges that begin so near to each other are requested as one.
const NEAR_BYTES: u64 = 64;

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
