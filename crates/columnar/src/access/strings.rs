//! Single texts and byte strings of encoded columns.

use std::ops::Range;
use std::sync::OnceLock;

use super::frames::Frames;
use super::metadata::{Single, single};
use super::reading::{Reading, outside};
use super::scalars::{Scalars, Validity, is_valid, position, ranges_of_validity, required};
use super::sorted::{Exceptions, Runs};
use super::symbols::{SymbolTable, Words};
use super::whole::Whole;
use crate::error::ColumnarError;
use crate::source::ByteSource;

/// Rows of text or bytes, by encoding.
#[derive(Debug)]
pub(super) enum Strings {
    /// Every row has this value, or is null.
    Constant(Constant),
    Plain(Plain),
    Views(Views),
    Fsst(Box<Fsst>),
    OnPair(Box<OnPair>),
    Dict(Box<Dict>),
    Frames(Box<Frames>),
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

/// Codes of symbols of up to 8 bytes (Boncz et al., VLDB 2020).
#[derive(Debug)]
pub(super) struct Fsst {
    pub(super) symbols: Range<u64>,
    pub(super) lengths: Range<u64>,
    pub(super) codes: Plain,
    pub(super) table: OnceLock<SymbolTable>,
}

/// Codes of words of up to 16 bytes.
#[derive(Debug)]
pub(super) struct OnPair {
    pub(super) word_bytes: Range<u64>,
    pub(super) word_offsets: Scalars,
    pub(super) word_count: u32,
    pub(super) codes: Scalars,
    pub(super) code_offsets: Scalars,
    pub(super) code_count: u32,
    pub(super) validity: Validity,
    pub(super) words: OnceLock<Words>,
}

/// Codes of whole strings.
#[derive(Debug)]
pub(super) struct Dict {
    pub(super) codes: Scalars,
    pub(super) words: Strings,
    /// Words of a small dictionary that have been read already.
    pub(super) known: Box<[OnceLock<Word>]>,
}

/// A word of a dictionary, or null.
pub(super) type Word = Option<Box<[u8]>>;

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
        let value = bytes_of(single(reading.scratch, None)?)?;
        reading.hold(value.as_deref().map_or(0, <[u8]>::len));
        Ok(put(self.value.get_or_init(|| value).as_deref(), out))
    }

    fn ranges(&self, out: &mut Vec<Range<u64>>) {
        if self.value.get().is_none() {
            out.push(self.range.clone());
        }
    }
}

/// Appends a value, if it is no null.
fn put(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
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
    /// Whether the bytes of neighbours lie side by side, so that a stretch of rows is read at once.
    pub(super) fn has_stretches(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Fsst(_) => true,
            Self::Masked { child, .. } => matches!(**child, Self::Plain(_) | Self::Fsst(_)),
            _ => false,
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
            Self::Constant(constant) => constant.get(reading, out),
            Self::Plain(plain) => plain.get(row, reading, out),
            Self::Views(views) => views.get(row, reading, out),
            Self::Fsst(fsst) => fsst.get(row, reading, out),
            Self::OnPair(onpair) => onpair.get(row, reading, out),
            Self::Dict(dict) => dict.get(row, reading, out),
            Self::Frames(frames) => frames.get(row, reading, out),
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
            Self::Constant(constant) => constant.ranges(out),
            Self::Plain(plain) => plain.ranges(row, out),
            Self::Views(views) => {
                ranges_of_validity(&views.validity, row, out);
                let at = views.views + 16 * u64::from(row);
                out.push(at..at + 16);
            }
            Self::Fsst(fsst) => {
                if fsst.table.get().is_none() {
                    out.push(fsst.symbols.clone());
                    out.push(fsst.lengths.clone());
                }
                fsst.codes.ranges(row, out);
            }
            Self::OnPair(onpair) => {
                if onpair.words.get().is_none() {
                    out.push(onpair.word_bytes.clone());
                }
                ranges_of_validity(&onpair.validity, row, out);
                onpair.code_offsets.ranges(row, out);
            }
            Self::Dict(dict) => dict.codes.ranges(row, out),
            Self::Frames(frames) => frames.ranges(row, out),
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
fn span<S: ByteSource + ?Sized>(
    offsets: &Scalars,
    row: u32,
    limit: u64,
    reading: &mut Reading<'_, S>,
) -> Result<Range<u64>, S::Error> {
    let next = row.checked_add(1).ok_or_else(|| outside("a row"))?;
    let start = required(offsets, row, reading)?;
    let end = required(offsets, next, reading)?;
    if start > end || end > limit {
        return Err(outside("a string").into());
    }
    Ok(start..end)
}

impl Plain {
    /// Where a row's bytes lie.
    fn place<S: ByteSource + ?Sized>(
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

    fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        ranges_of_validity(&self.validity, row, out);
        self.offsets.ranges(row, out);
    }
}

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
        let mut view = [0; 16];
        reading
            .source
            .read(self.views + 16 * u64::from(row), &mut view)?;
        let (numbers, _) = view.as_chunks::<4>();
        let number = |at: usize| u64::from(u32::from_le_bytes(numbers[at]));
        let len = number(0);
        if len <= 12 {
            out.extend_from_slice(&view[4..4 + len as usize]);
            return Ok(true);
        }
        let place = self
            .buffers
            .get(number(2) as usize)
            .map(|buffer| (buffer.start + number(3), buffer.end))
            .filter(|&(start, end)| start + len <= end)
            .ok_or_else(|| outside("a string"))?;
        reading.append(place.0..place.0 + len, out)?;
        Ok(true)
    }
}

impl Fsst {
    /// The symbols, read once.
    pub(super) fn table<S: ByteSource + ?Sized>(
        &self,
        reading: &Reading<'_, S>,
    ) -> Result<&SymbolTable, S::Error> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = SymbolTable::read(&self.symbols, &self.lengths, reading.source)?;
        reading.hold(SymbolTable::HEAP_BYTES);
        Ok(self.table.get_or_init(|| table))
    }

    fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        match self.codes.place(row, reading)? {
            Place::At(range) => self.decode(&range, reading, out),
            _ => Ok(false),
        }
    }

    /// Appends what the codes in a range stand for.
    fn decode<S: ByteSource + ?Sized>(
        &self,
        range: &Range<u64>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        let table = self.table(reading)?;
        reading.fetch(range.start, (range.end - range.start) as usize)?;
        table.decode(reading.scratch, out)?;
        Ok(true)
    }
}

impl OnPair {
    fn words<S: ByteSource + ?Sized>(
        &self,
        reading: &mut Reading<'_, S>,
    ) -> Result<&Words, S::Error> {
        if let Some(words) = self.words.get() {
            return Ok(words);
        }
        let mut offsets = Vec::with_capacity(self.word_count as usize + 1);
        for word in 0..=self.word_count {
            offsets.push(position(required(&self.word_offsets, word, reading)?)?);
        }
        let mut bytes = Vec::new();
        reading.append(self.word_bytes.clone(), &mut bytes)?;
        let words = Words::new(bytes, offsets)?;
        reading.hold(words.heap_bytes());
        Ok(self.words.get_or_init(|| words))
    }

    fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        match self.place(row, reading)? {
            Place::At(codes) => self.decode(&codes, reading, out),
            _ => Ok(false),
        }
    }

    /// The codes of a row.
    fn place<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Place, S::Error> {
        if !is_valid(&self.validity, row, reading)? {
            return Ok(Place::Null);
        }
        let limit = self.code_count.into();
        span(&self.code_offsets, row, limit, reading).map(Place::At)
    }

    fn ranges_at(&self, place: &Place, out: &mut Vec<Range<u64>>) {
        if let Place::At(codes) = place
            && let Some(last) = codes.end.checked_sub(1)
            && codes.start <= last
        {
            // They fit 32 bits, because their number does.
            self.codes.ranges(codes.start as u32, out);
            self.codes.ranges(last as u32, out);
        }
    }

    /// Appends the words of some codes.
    fn decode<S: ByteSource + ?Sized>(
        &self,
        codes: &Range<u64>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        let words = self.words(reading)?;
        for at in codes.clone() {
            let code = required(&self.codes, position(at)?, reading)?;
            let word = words.get(code).ok_or_else(|| outside("a code"))?;
            out.extend_from_slice(word);
        }
        Ok(true)
    }
}

impl Dict {
    /// The longest word that is kept in memory, and the most words of a dictionary of which
    /// any are.
    const WORD_BYTES: usize = 256;
    pub(super) const KNOWN_WORDS: usize = 1_024;

    fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        match self.codes.get(row, reading)? {
            Some(code) => self.word(code, reading, out),
            None => Ok(false),
        }
    }

    /// The word of a row: that of the code at which the range starts.
    fn place<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Place, S::Error> {
        let code = self.codes.get(row, reading)?;
        Ok(code.map_or(Place::Null, |code| Place::At(code..code)))
    }

    fn ranges_at(&self, place: &Place, out: &mut Vec<Range<u64>>) {
        // A code that is no word's is an error where the word is read.
        if let Place::At(codes) = place
            && let Ok(code) = i32::try_from(codes.start)
            && self
                .known
                .get(code as usize)
                .is_none_or(|word| word.get().is_none())
        {
            self.words.ranges(code as u32, out);
        }
    }

    fn word<S: ByteSource + ?Sized>(
        &self,
        code: u64,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        let known = self.known.get(code as usize);
        if let Some(word) = known.and_then(OnceLock::get) {
            return Ok(put(word.as_deref(), out));
        }
        let start = out.len();
        let valid = self.words.get(position(code)?, reading, out)?;
        let word = &out[start..];
        if let Some(known) = known
            && word.len() <= Self::WORD_BYTES
        {
            reading.hold(word.len());
            let _ = known.set(valid.then(|| word.into()));
        }
        Ok(valid)
    }
}
