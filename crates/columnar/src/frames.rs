//! `howdah.frames`: text or bytes in small zstd frames that share one dictionary, so that one
//! row costs one frame of some kilobytes.
//!
//! ```text
//!   metadata: number of frames           children: ends of the frames as rows    (u32)
//!   part 0: dictionary, may be empty               ends of the frames in part 1  (u32)
//!   part 1: frames, end to end                     lengths of the rows           (u32)
//!                                                  validity, if rows may be null (bool)
//! ```
//!
//! A frame holds the bytes of its rows, end to end; a null has none. A frame stores neither its
//! size nor its dictionary: the node does.

use std::cell::RefCell;
use std::io::Cursor;
use std::ops::Range;

use arrow_array::BinaryViewArray;
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use vortex_array::ArrayRef;
use vortex_array::dtype::{DType, Nullability, PType};
use vortex_array::validity::Validity;
use vortex_buffer::ByteBuffer;
use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, DCtx, DDict};

use crate::buffers::numbers;
use crate::byte_views::{built, nulls_of_range, view_of};
use crate::codec;
use crate::encode::{Stop, check};
use crate::error::ColumnarError;
use crate::layout::wire::{Reader, ensure};
use crate::nodes::NodeRef;
use crate::types::Effort;

/// How a column is compressed.
struct Tuning {
    level: i32,
    /// The shortest match, and the power of two of how many places are searched for a longer one,
    /// where the level's own are not taken.
    match_bytes: Option<u32>,
    search_log: Option<u32>,
    /// Approximate size of the rows of one frame, in bytes; of short rows fewer bytes.
    frame_bytes: usize,
    /// So many rows are enough for one frame that has [`LEAST_FRAME_BYTES`].
    frame_rows: usize,
}

impl Tuning {
    fn of(effort: Effort) -> Self {
        match effort {
            Effort::Best => Self {
                level: 9,
                match_bytes: None,
                search_log: None,
                frame_bytes: 32 << 10,
                frame_rows: usize::MAX,
            },
            // Measured on jsonb: less than level 5 makes dictionaries useless, smaller frames cost
            // 5 %, longer dictionaries save nothing and take long to train. Matches of four bytes
            // cost more than they save: without them arrays of integers are 3 % smaller and take a
            // fifth less time to decompress, documents 2 % and 6 %, or the same. Of ranges and
            // addresses that count up, 8 kB are 400 to 900 rows: one of them took 30 µs.
            Effort::Default | Effort::Fast => Self {
                level: 6,
                match_bytes: Some(5),
                search_log: Some(5),
                frame_bytes: 8 << 10,
                frame_rows: 64,
            },
        }
    }
}

/// Fewer bytes are hardly compressed.
const LEAST_FRAME_BYTES: usize = 1 << 10;

/// The longest dictionary, and the part of the rows' bytes that one may have.
const DICTIONARY_BYTES: usize = 2 << 10;
const DICTIONARY_SHARE: usize = 100;

/// Bytes of rows that a dictionary is trained with, per byte of it.
const TRAINING_FACTOR: usize = 60;

/// Memory of a dictionary prepared for decompression, beyond its bytes.
const PREPARED_BYTES: usize = 28 << 10;

/// The most bytes that one frame may decompress to: no value is longer.
const MAX_FRAME_BYTES: usize = 1 << 30;

/// No zstd frame stands for more bytes per byte: a block of 128 kB takes 4.
const MAX_RATIO: usize = 33_000;

/// Rows compressed into frames.
pub(crate) struct NewFrames {
    pub(crate) dictionary: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// One past the last row of each frame, and the end of each frame in `data`.
    pub(crate) row_ends: Vec<u32>,
    pub(crate) data_ends: Vec<u32>,
    pub(crate) lengths: Vec<u32>,
}

/// One frame to be: one past its last row, and its bytes.
struct Span {
    row_end: u32,
    bytes: Range<usize>,
}

/// Every how many frames one is compressed to learn whether frames are worth it, and how many
/// frames there must be for that.
const TRIED_FRAMES: usize = 16;
const FEW_FRAMES: usize = 4 * TRIED_FRAMES;

impl NewFrames {
    /// Compresses rows that lie end to end in `data`, each up to its end; `None` if the frames
    /// take more than `most_bytes`, which some of them tell as a rule.
    pub(crate) fn compress(
        data: &[u8],
        ends: &[usize],
        effort: Effort,
        most_bytes: usize,
        is_stopped: Stop<'_>,
    ) -> Result<Option<Self>, ColumnarError> {
        let tuning = Tuning::of(effort);
        let dictionary = train(data, ends);
        let mut compressor = compressor(&tuning, &dictionary).map_err(failed)?;
        let spans = spans(ends, &tuning);
        if spans.len() >= FEW_FRAMES {
            let (mut tried, mut needed) = (0, 0);
            for span in spans.iter().step_by(TRIED_FRAMES) {
                check(is_stopped)?;
                tried += span.bytes.len();
                needed += compressor
                    .compress(&data[span.bytes.clone()])
                    .map_err(failed)?
                    .len();
            }
            let all = needed as f64 * (data.len() as f64 / tried.max(1) as f64);
            if all > most_bytes as f64 {
                return Ok(None);
            }
        }
        let mut frames = Self {
            dictionary,
            data: Vec::new(),
            row_ends: Vec::with_capacity(spans.len()),
            data_ends: Vec::with_capacity(spans.len()),
            lengths: Vec::with_capacity(ends.len()),
        };
        let mut start = 0;
        for &end in ends {
            frames.lengths.push((end - start) as u32);
            start = end;
        }
        for span in spans {
            check(is_stopped)?;
            let compressed = compressor.compress(&data[span.bytes]).map_err(failed)?;
            frames.data.extend_from_slice(&compressed);
            frames.row_ends.push(span.row_end);
            frames.data_ends.push(frames.data.len() as u32);
        }
        Ok((frames.stored_bytes() <= most_bytes).then_some(frames))
    }

    /// Approximate size of the frames when they are stored, in bytes.
    fn stored_bytes(&self) -> usize {
        let (least, most) = (self.lengths.iter().min(), self.lengths.iter().max());
        let spread = most.unwrap_or(&0) - least.unwrap_or(&0);
        let length_bits = (u32::BITS - spread.leading_zeros()) as usize;
        // Ends are packed, some 2 bytes each.
        self.dictionary.len()
            + self.data.len()
            + 2 * (self.row_ends.len() + self.data_ends.len())
            + self.lengths.len() * length_bits / 8
    }
}

fn failed(error: std::io::Error) -> ColumnarError {
    ColumnarError::Encode {
        detail: error.to_string(),
    }
}

fn compressor(tuning: &Tuning, dictionary: &[u8]) -> std::io::Result<Compressor<'static>> {
    let mut compressor = match dictionary.is_empty() {
        true => Compressor::new(tuning.level),
        false => Compressor::with_dictionary(tuning.level, dictionary),
    }?;
    // Before the first frame: the dictionary is prepared with them.
    if let Some(bytes) = tuning.match_bytes {
        compressor.set_parameter(CParameter::MinMatch(bytes))?;
    }
    if let Some(log) = tuning.search_log {
        compressor.set_parameter(CParameter::SearchLog(log))?;
    }
    compressor.include_contentsize(false)?;
    compressor.include_checksum(false)?;
    compressor.include_dictid(false)?;
    Ok(compressor)
}

/// Which rows share a frame: all frames but the last have at least as many bytes, or rows, as are
/// enough.
fn spans(ends: &[usize], tuning: &Tuning) -> Vec<Span> {
    let (mut spans, mut start, mut first_row) = (Vec::new(), 0, 0);
    for (row, &end) in ends.iter().enumerate() {
        let (bytes, rows) = (end - start, row + 1 - first_row);
        let is_enough =
            bytes >= tuning.frame_bytes || rows >= tuning.frame_rows && bytes >= LEAST_FRAME_BYTES;
        if is_enough || row + 1 == ends.len() {
            spans.push(Span {
                row_end: row as u32 + 1,
                bytes: start..end,
            });
            (start, first_row) = (end, row + 1);
        }
    }
    spans
}

/// A dictionary for the rows; empty if there are too few of them.
fn train(data: &[u8], ends: &[usize]) -> Vec<u8> {
    let size = (data.len() / DICTIONARY_SHARE).min(DICTIONARY_BYTES);
    if size < 256 {
        return Vec::new();
    }
    let wanted = size * TRAINING_FACTOR;
    let step = (data.len() / wanted).max(1);
    let (mut samples, mut sizes) = (Vec::with_capacity(wanted), Vec::new());
    let mut start = 0;
    for (row, &end) in ends.iter().enumerate() {
        if row.is_multiple_of(step) && end > start {
            samples.extend_from_slice(&data[start..end]);
            sizes.push(end - start);
        }
        start = end;
    }
    // Fails when there are too few samples to learn from.
    zstd::dict::from_continuous(&samples, &sizes, size).unwrap_or_default()
}

/// The most memory that is reserved for rows before a frame has been decompressed.
const MOST_RESERVED_BYTES: u64 = 16 << 20;

/// A column's dictionary, ready to decompress with.
pub(crate) struct Dictionary(Option<DDict<'static>>);

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Dictionary")
            .field(&self.0.is_some())
            .finish()
    }
}

thread_local! {
    /// A context is large, and can be used again after every frame.
    static CONTEXT: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

impl Dictionary {
    pub(crate) fn new(bytes: &[u8]) -> Result<Self, ColumnarError> {
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        DDict::try_create(bytes)
            .map(|prepared| Self(Some(prepared)))
            .ok_or_else(|| ColumnarError::corrupt("a dictionary is damaged"))
    }

    /// Memory held by a dictionary of this many bytes.
    pub(crate) fn memory_bytes(len: usize) -> usize {
        match len {
            0 => 0,
            len => len + PREPARED_BYTES,
        }
    }

    /// Appends the `len` bytes that a frame decompresses to.
    pub(crate) fn decompress(
        &self,
        frame: &[u8],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ColumnarError> {
        ensure(
            len <= frame.len().saturating_mul(MAX_RATIO) + MAX_RATIO,
            "a frame cannot stand for so many bytes",
        )?;
        out.reserve(len);
        let end = out.len() as u64;
        let mut out = Cursor::new(out);
        out.set_position(end);
        let written = CONTEXT.with_borrow_mut(|context| match &self.0 {
            None => context.decompress(&mut out, frame),
            Some(dictionary) => context.decompress_using_ddict(&mut out, frame, dictionary),
        });
        match written {
            Ok(written) if written == len => Ok(()),
            Ok(_) => Err(ColumnarError::corrupt("a frame has another size")),
            Err(code) => Err(ColumnarError::corrupt(format!(
                "a frame cannot be decompressed: {}",
                zstd::zstd_safe::get_error_name(code)
            ))),
        }
    }
}

/// The number of frames, from a node's metadata.
pub(crate) fn frame_count(metadata: &[u8]) -> Result<usize, ColumnarError> {
    let mut metadata = Reader::new(metadata);
    let count = metadata.count()? as usize;
    metadata.finish()?;
    ensure(
        (1..=crate::MAX_ROWS).contains(&count),
        "the number of frames is wrong",
    )?;
    Ok(count)
}

/// The sum of the lengths of a frame's rows, if it is one that a frame can have; `ends` gets
/// the end of each row.
pub(crate) fn place_rows(
    lengths: impl Iterator<Item = u32>,
    ends: &mut Vec<u32>,
) -> Result<usize, ColumnarError> {
    let mut end = 0;
    for length in lengths {
        end += length as usize;
        ensure(end <= MAX_FRAME_BYTES, "a frame is too long")?;
        ends.push(end as u32);
    }
    Ok(end)
}

/// The frames of an open chunk.
#[derive(Debug)]
pub(crate) struct Frames {
    dictionary: Dictionary,
    data: ByteBuffer,
    row_ends: ScalarBuffer<u32>,
    data_ends: ScalarBuffer<u32>,
    lengths: ArrayRef,
    validity: Option<ArrayRef>,
    row_count: usize,
}

impl Frames {
    pub(crate) fn open(
        node: NodeRef<'_>,
        bytes: &ByteBuffer,
        row_count: usize,
    ) -> Result<Self, ColumnarError> {
        let wrong = || ColumnarError::corrupt("frames lack a part");
        let count = frame_count(node.metadata())?;
        let [dictionary, data] = node.parts() else {
            return Err(wrong());
        };
        let part = |part: &Range<u32>| {
            let range = part.start as usize..part.end as usize;
            ensure(range.end <= bytes.len(), "a part lies outside of its chunk")?;
            Ok(bytes.slice_unaligned(range))
        };
        let child = |index: usize, dtype: &DType, len: usize| {
            let child = node.child(index).ok_or_else(wrong)?;
            codec::rebuild(child, bytes, 0, dtype, len)
        };
        let u32s = DType::Primitive(PType::U32, Nullability::NonNullable);
        let decoded = |index: usize| {
            let array = child(index, &u32s, count)?;
            let (numbers, _) = codec::guarded(|| numbers::<u32>(array, &mut codec::context()))?;
            Ok::<_, ColumnarError>(numbers)
        };
        let frames = Self {
            dictionary: Dictionary::new(part(dictionary)?.as_slice())?,
            data: part(data)?,
            row_ends: decoded(0)?,
            data_ends: decoded(1)?,
            lengths: child(2, &u32s, row_count)?,
            validity: match node.child_count() {
                3 => None,
                _ => Some(child(3, &Validity::DTYPE, row_count)?),
            },
            row_count,
        };
        ensure(
            frames.row_ends.is_sorted_by(|a, b| a < b)
                && frames.row_ends.last() == Some(&(row_count as u32))
                && frames.data_ends.is_sorted()
                && frames.data_ends.last() == Some(&(frames.data.len() as u32)),
            "frames do not fill their chunk",
        )?;
        Ok(frames)
    }

    /// The frame of a row.
    fn frame_of(&self, row: usize) -> usize {
        self.row_ends.partition_point(|&end| end as usize <= row)
    }

    fn rows_of(&self, frame: usize) -> Range<usize> {
        let start = frame
            .checked_sub(1)
            .map_or(0, |before| self.row_ends[before]);
        start as usize..self.row_ends[frame] as usize
    }

    fn compressed(&self, frame: usize) -> &[u8] {
        let start = frame
            .checked_sub(1)
            .map_or(0, |before| self.data_ends[before]);
        &self.data.as_slice()[start as usize..self.data_ends[frame] as usize]
    }

    fn lengths(&self, rows: Range<usize>) -> Result<ScalarBuffer<u32>, ColumnarError> {
        let lengths = codec::guarded(|| self.lengths.slice(rows))?;
        codec::guarded(|| Ok(numbers::<u32>(lengths, &mut codec::context())?.0))
    }

    /// Which rows of a range are valid; `None`: all.
    fn nulls(&self, rows: Range<usize>) -> Result<Option<NullBuffer>, ColumnarError> {
        nulls_of_range(self.validity.as_ref(), rows)
    }

    /// Which rows of a range are valid.
    pub(crate) fn valid_rows(&self, rows: Range<usize>) -> Result<BooleanBuffer, ColumnarError> {
        let len = rows.len();
        let nulls = self.nulls(rows)?;
        Ok(nulls.map_or_else(|| BooleanBuffer::new_set(len), NullBuffer::into_inner))
    }

    /// Decodes a range of rows.
    pub(crate) fn decode(&self, rows: Range<usize>) -> Result<BinaryViewArray, ColumnarError> {
        let nulls = self.nulls(rows.clone())?;
        if rows.is_empty() {
            return built(Vec::new(), Vec::new(), nulls);
        }
        let frames = self.frame_of(rows.start)..self.frame_of(rows.end - 1) + 1;
        let first = self.rows_of(frames.start).start;
        let lengths = self.lengths(first..self.rows_of(frames.end - 1).end)?;
        let mut views = Vec::with_capacity(rows.len());
        let total: u64 = lengths.iter().map(|&len| u64::from(len)).sum();
        ensure(total <= i32::MAX as u64, "a chunk is too long")?;
        // Lengths may be damaged, which is noticed at the first frame.
        let first_bytes = total.min(MOST_RESERVED_BYTES) as usize;
        let (mut bytes, mut ends) = (Vec::with_capacity(first_bytes), Vec::new());
        for frame in frames {
            let span = self.rows_of(frame);
            ends.clear();
            let frame_lengths = &lengths[span.start - first..span.end - first];
            let len = place_rows(frame_lengths.iter().copied(), &mut ends)?;
            let start = bytes.len();
            self.dictionary
                .decompress(self.compressed(frame), len, &mut bytes)?;
            let wanted = span.start.max(rows.start)..span.end.min(rows.end);
            for row in wanted {
                let end = start + ends[row - span.start] as usize;
                let from = end - frame_lengths[row - span.start] as usize;
                views.push(view_of(&bytes[from..end], from as u32));
            }
        }
        built(views, bytes, nulls)
    }

    /// Decodes the rows with these ascending indexes.
    pub(crate) fn take(&self, rows: &[u32]) -> Result<BinaryViewArray, ColumnarError> {
        let nulls = match &self.validity {
            None => None,
            Some(_) => {
                let valid = self.valid_rows(0..self.row_count)?;
                let bits =
                    BooleanBuffer::collect_bool(rows.len(), |at| valid.value(rows[at] as usize));
                Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)
            }
        };
        let mut views = Vec::with_capacity(rows.len());
        let (mut bytes, mut frame_bytes, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let in_one_frame =
            |a: &u32, b: &u32| self.frame_of(*a as usize) == self.frame_of(*b as usize);
        for rows in rows.chunk_by(in_one_frame) {
            let frame = self.frame_of(rows[0] as usize);
            let span = self.rows_of(frame);
            let lengths = self.lengths(span.clone())?;
            ends.clear();
            let len = place_rows(lengths.iter().copied(), &mut ends)?;
            frame_bytes.clear();
            self.dictionary
                .decompress(self.compressed(frame), len, &mut frame_bytes)?;
            for &row in rows {
                let at = row as usize - span.start;
                let end = ends[at] as usize;
                let value = &frame_bytes[end - lengths[at] as usize..end];
                let start = bytes.len();
                ensure(
                    start + value.len() <= i32::MAX as usize,
                    "a chunk is too long",
                )?;
                bytes.extend_from_slice(value);
                views.push(view_of(value, start as u32));
            }
        }
        built(views, bytes, nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_few_kilobytes_and_of_short_rows_few_rows() {
        let rows_of = |len: usize, effort: Effort| {
            let ends: Vec<usize> = (1..=20_000).map(|row| row * len).collect();
            let spans = spans(&ends, &Tuning::of(effort));
            assert_eq!(spans.last().expect("some").row_end, 20_000);
            assert!(spans.windows(2).all(|w| w[0].bytes.end == w[1].bytes.start));
            spans[0].row_end
        };
        assert_eq!(rows_of(1_000, Effort::Default), 9);
        assert_eq!(rows_of(100, Effort::Default), 64);
        assert_eq!(rows_of(16, Effort::Default), 64);
        assert_eq!(rows_of(4, Effort::Default), 256);
        assert_eq!(rows_of(16, Effort::Best), 2_048);
    }

    #[test]
    fn frames_give_back_their_rows_with_and_without_a_dictionary() {
        for row_count in [1u32, 20, 5_000] {
            let (mut data, mut ends) = (Vec::new(), Vec::new());
            for row in 0..row_count {
                let text = format!("{{\"id\": {row}, \"name\": \"name{}\"}}", row * 7 % 91);
                data.extend_from_slice(text.as_bytes());
                ends.push(data.len());
            }
            let compress = |most_bytes| {
                NewFrames::compress(&data, &ends, Effort::Default, most_bytes, &|| false)
            };
            assert!(compress(data.len() / 50).expect("compresses").is_none());
            let frames = compress(2 * data.len() + 100).expect("compresses");
            let frames = frames.expect("frames are as small as that");
            assert_eq!(frames.dictionary.is_empty(), row_count < 1_000);
            let dictionary = Dictionary::new(&frames.dictionary).expect("prepares");
            let (mut row, mut start, mut from) = (0, 0, 0);
            for (&row_end, &end) in frames.row_ends.iter().zip(&frames.data_ends) {
                let mut placed = Vec::new();
                let lengths = frames.lengths[row..row_end as usize].iter().copied();
                let len = place_rows(lengths, &mut placed).expect("places");
                let mut bytes = Vec::new();
                let frame = &frames.data[start..end as usize];
                dictionary
                    .decompress(frame, len, &mut bytes)
                    .expect("decompresses");
                assert_eq!(bytes[..len], data[from..from + len]);
                assert!(dictionary.decompress(frame, len + 1, &mut bytes).is_err());
                (row, start, from) = (row_end as usize, end as usize, from + len);
            }
            assert_eq!(from, data.len());
        }
    }
}
