//! Single texts and byte strings of encoded columns: those stored as they are, and by encoding.

use std::ops::Range;
use std::sync::OnceLock;

use super::coded_strings::{Dict, Fsst, OnPair};
use super::frames::Frames;
use super::letters::Letters;
use super::messages;
use super::metadata::{Single, single};
use super::reading::{Reading, outside};
use super::scalars::{Scalars, Validity, is_valid, ranges_of_two, ranges_of_validity, required};
use super::sorted::{Exceptions, Runs};
use super::whole::Whole;
use crate::error::ColumnarError;
use crate::source::ByteSource;

/// Rows of text or bytes, by encoding.
#[derive(Debug)]
pub(super) enum Strings {
    /// Every row has this value, or is null.
    Constant {
        value: Constant,
        len: u32,
    },
    Plain(Plain),
    Views(Views),
    Fsst(Box<Fsst>),
    OnPair(Box<OnPair>),
    Dict(Box<Dict>),
    Frames(Box<Frames>),
    Letters(Box<Letters>),
    Runs {
        runs: Runs,
        values: Box<Strings>,
    },
    Sparse {
        rows: Box<SparseRows>,
        values: Box<Strings>,
    },
    Masked {
        child: Box<Strings>,
        validity: Validity,
    },
    /// Decoded as a whole.
    Whole(Box<Whole>),
}

/// The place of a row's value, as far as it is known before its bytes are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing, or nothing that would spare a read.
    #[default]
    Unknown,
    Null,
    /// The range of its bytes, or of the codes that they are made of; that depends on the node.
    At(Range<u64>),
}

/// A single value, which is read once if the node table does not hold it.
#[derive(Debug)]
pub(super) struct Constant {
    pub(super) range: Range<u64>,
    pub(super) value: OnceLock<Option<Box<[u8]>>>,
}

/// Strings end to end, and where each begins.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) offsets: Scalars,
    pub(super) data: Range<u64>,
    pub(super) validity: Validity,
}

/// Views of 16 bytes: length, then the string, or its beginning and place.
#[derive(Debug)]
pub(super) struct Views {
    pub(super) views: u64,
    pub(super) buffers: Box<[Range<u64>]>,
    pub(super) len: u32,
    pub(super) validity: Validity,
}

/// Which rows of a sparse node have a value of their own, and the value of all other rows.
#[derive(Debug)]
pub(super) struct SparseRows {
    pub(super) at: Exceptions,
    pub(super) fill: Constant,
    pub(super) len: u32,
}

impl Constant {
    fn get<S: ByteSource + ?Sized>(
        &self,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        if let Some(value) = self.value.get() {
            return Ok(put(value.as_deref(), out));
        }
        reading.fetch(
            self.range.start,
            (self.range.end - self.range.start) as usize,
        )?;
        messages::check_value(reading.scratch)?;
        let value = bytes_of(single(reading.scratch, None)?)?;
        reading.hold(value.as_deref().map_or(0, <[u8]>::len));
        Ok(put(self.value.get_or_init(|| value).as_deref(), out))
    }

    pub(super) fn ranges(&self, out: &mut Vec<Range<u64>>) {
        if self.value.get().is_none() {
            out.push(self.range.clone());
        }
    }
}

/// Appends a value, if it is no null.
pub(super) fn put(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(value.unwrap_or_default());
    value.is_some()
}

/// The bytes of a single value, if it is no null.
pub(super) fn bytes_of(single: Single<'_>) -> Result<Option<Box<[u8]>>, ColumnarError> {
    match single {
        Single::Null => Ok(None),
        Single::Bytes(bytes) => Ok(Some(bytes.into())),
        Single::Bits(_) => Err(ColumnarError::corrupt("a string is a number")),
    }
}

impl Strings {
    /// Whether a stretch of rows is read at once. Of frames, and of what is decoded as a whole, all
    /// is kept in any case.
    pub(super) fn has_stretches(&self) -> bool {
        match self {
            Self::Frames(_) | Self::Whole(_) => false,
            Self::Masked { child, .. } => child.has_stretches(),
            _ => true,
        }
    }

    /// Appends a row's bytes to `out`; false if it is null.
    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        match self {
            Self::Constant { value, len } => {
                if row >= *len {
                    return Err(outside("a row").into());
                }
                value.get(reading, out)
            }
            Self::Plain(plain) => plain.get(row, reading, out),
            Self::Views(views) => views.get(row, reading, out),
            Self::Fsst(fsst) => fsst.get(row, reading, out),
            Self::OnPair(onpair) => onpair.get(row, reading, out),
            Self::Dict(dict) => dict.get(row, reading, out),
            Self::Frames(frames) => frames.get(row, reading, out),
            Self::Letters(letters) => letters.get(row, reading, out),
            Self::Runs { runs, values } => {
                let run = runs.find(row, reading)?;
                values.get(run, reading, out)
            }
            Self::Sparse { rows, values } => {
                if row >= rows.len {
                    return Err(outside("a row").into());
                }
                match rows.at.find(row, reading)? {
                    Some(at) => values.get(at, reading, out),
                    None => rows.fill.get(reading, out),
                }
            }
            Self::Masked { child, validity } => match is_valid(validity, row, reading)? {
                true => child.get(row, reading, out),
                false => Ok(false),
            },
            Self::Whole(whole) => whole.string(row, reading, out),
        }
    }

    /// Reads the place of a row's value, as far as offsets and codes give it, and appends the
    /// ranges to be read next.
    pub(super) fn locate<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        next: &mut Vec<Range<u64>>,
    ) -> Result<Place, S::Error> {
        let place = match self {
            Self::Plain(plain) => plain.place(row, reading)?,
            Self::Fsst(fsst) => fsst.codes.place(row, reading)?,
            Self::OnPair(onpair) => {
                let place = onpair.place(row, reading)?;
                onpair.ranges_at(&place, next);
                return Ok(place);
            }
            Self::Dict(dict) => {
                let place = dict.place(row, reading)?;
                dict.ranges_at(&place, next);
                return Ok(place);
            }
            Self::Masked { child, validity } => {
                return match is_valid(validity, row, reading)? {
                    true => child.locate(row, reading, next),
                    false => Ok(Place::Null),
                };
            }
            _ => Place::Unknown,
        };
        if let Place::At(range) = &place {
            next.push(range.clone());
        }
        Ok(place)
    }

    /// Whether the place of a row's value is stored, so that [`locate`](Self::locate) reads it.
    pub(super) fn has_places(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Fsst(_) | Self::OnPair(_) | Self::Dict(_) => true,
            Self::Masked { child, .. } => child.has_places(),
            _ => false,
        }
    }

    /// Appends the bytes of a row that was [located](Self::locate); false if it is null.
    pub(super) fn get_at<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        place: &Place,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        match (self, place) {
            (_, Place::Unknown) => self.get(row, reading, out),
            (_, Place::Null) => Ok(false),
            (Self::Plain(_), Place::At(range)) => reading.append(range.clone(), out).map(|()| true),
            (Self::Fsst(fsst), Place::At(range)) => fsst.decode(range, reading, out),
            (Self::OnPair(onpair), Place::At(codes)) => onpair.decode(codes, reading, out),
            (Self::Dict(dict), Place::At(codes)) => dict.word(codes.start, reading, out),
            (Self::Masked { child, .. }, place) => child.get_at(row, place, reading, out),
            _ => self.get(row, reading, out),
        }
    }

    /// Appends the ranges that a row's value is known to need.
    pub(super) fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        match self {
            Self::Constant { value, .. } => value.ranges(out),
            Self::Plain(plain) => plain.ranges(row, out),
            Self::Views(views) => {
                ranges_of_validity(&views.validity, row, out);
                let at = views.views + 16 * u64::from(row);
                out.push(at..at + 16);
            }
            Self::Fsst(fsst) => fsst.ranges(row, out),
            Self::OnPair(onpair) => onpair.ranges(row, out),
            Self::Dict(dict) => dict.codes.ranges(row, out),
            Self::Frames(frames) => frames.ranges(row, out),
            Self::Letters(letters) => letters.ranges(row, out),
            Self::Runs { runs, .. } => runs.ranges(out),
            Self::Sparse { rows, .. } => rows.at.ranges(out),
            Self::Masked { child, validity } => {
                ranges_of_validity(validity, row, out);
                child.ranges(row, out);
            }
            Self::Whole(whole) => out.push(whole.range()),
        }
    }
}

/// Two neighbouring offsets, which do not descend and end by `limit`.
pub(super) fn span<S: ByteSource + ?Sized>(
    offsets: &Scalars,
    row: u32,
    limit: u64,
    reading: &mut Reading<'_, S>,
) -> Result<Range<u64>, S::Error> {
    let next = row.checked_add(1).ok_or_else(|| outside("a row"))?;
    let [start, end] = match offsets.two(row, reading)? {
        Some(two) => two,
        None => [
            required(offsets, row, reading)?,
            required(offsets, next, reading)?,
        ],
    };
    if start > end || end > limit {
        return Err(outside("a string").into());
    }
    Ok(start..end)
}

impl Plain {
    /// Where a row's bytes lie.
    pub(super) fn place<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Place, S::Error> {
        if !is_valid(&self.validity, row, reading)? {
            return Ok(Place::Null);
        }
        let limit = self.data.end - self.data.start;
        let span = span(&self.offsets, row, limit, reading)?;
        Ok(Place::At(
            self.data.start + span.start..self.data.start + span.end,
        ))
    }

    fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        match self.place(row, reading)? {
            Place::At(range) => reading.append(range, out).map(|()| true),
            _ => Ok(false),
        }
    }

    pub(super) fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        ranges_of_validity(&self.validity, row, out);
        ranges_of_two(&self.offsets, row, out);
    }
}

/// A view, and the place of its string, if that is too long for a view.
type View = ([u8; 16], Option<Range<u64>>);

impl Views {
    fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        if !is_valid(&self.validity, row, reading)? {
            return Ok(false);
        }
        let (view, place) = self.place(row, reading)?;
        match place {
            None => {
                let len = usize::from(view[0]);
                let short = view.get(4..4 + len).ok_or_else(|| outside("a string"))?;
                out.extend_from_slice(short);
            }
            Some(place) => reading.append(place, out)?,
        }
        Ok(true)
    }

    /// Where the view of a row lies, if there is such a row.
    pub(super) fn view_range(&self, row: u32) -> Option<Range<u64>> {
        let at = self.views + 16 * u64::from(row);
        (row < self.len).then_some(at..at + 16)
    }

    /// The view of a row, and the place of its string, if that is too long for a view.
    #[inline]
    pub(super) fn place<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<View, S::Error> {
        let mut view = [0; 16];
        reading
            .source
            .read(self.views + 16 * u64::from(row), &mut view)?;
        let (numbers, _) = view.as_chunks::<4>();
        let number = |at: usize| u64::from(u32::from_le_bytes(numbers[at]));
        let len = number(0);
        if len <= 12 {
            return Ok((view, None));
        }
        let place = self
            .buffers
            .get(number(2) as usize)
            .map(|buffer| (buffer.start + number(3), buffer.end))
            .filter(|&(start, end)| start + len <= end)
            .ok_or_else(|| outside("a string"))?;
        Ok((view, Some(place.0..place.0 + len)))
    }
}
