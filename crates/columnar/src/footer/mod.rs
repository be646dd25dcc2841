//! The footer of a row group: what every column chunk is, where it lies, and what is known
//! of its values. `docs/format.md` specifies the bytes.
//!
//! ```text
//!   header │ column table (fixed width) │ section of column 0 │ section of column 1 │ …
//!                    └──────────────────────▶ encodings, sum, min, max, zone map
//! ```
//!
//! Invariant: a `Footer` value was checked as a whole. Its checksum matched, every range
//! lies inside of the body, every count agrees with the row count.

mod parse;
mod wire;
mod write;

use std::ops::Range;

pub(crate) use write::write;

use crate::ZONE_ROWS;
use crate::error::ColumnarError;
use crate::predicate::{Predicate, Verdict};
use crate::stats::{ChunkStats, ValueFlags, Zone};
use crate::types::ColumnType;
use crate::verdict::{Extent, verdict};

/// The version that this build writes.
pub const FORMAT_VERSION: u32 = 1;

/// The footer of one row group.
#[derive(Clone, Debug)]
pub struct Footer {
    row_count: usize,
    body_len: u64,
    columns: Vec<ColumnMeta>,
}

impl Footer {
    /// Bytes at the start of a footer from which [`encoded_len`](Self::encoded_len) can tell
    /// its length.
    pub const HEADER_LEN: usize = wire::HEADER_LEN;

    /// The length in bytes of the footer that starts with these bytes, so that a reader
    /// knows how much to fetch. Nothing but magic and version is verified yet.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn encoded_len(header: &[u8]) -> Result<usize, ColumnarError> {
        parse::encoded_len(header)
    }

    /// Parses the footer that `bytes` start with; what follows it (the body) is ignored.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::Corrupt`] or [`ColumnarError::UnsupportedVersion`].
    pub fn parse(bytes: &[u8]) -> Result<Footer, ColumnarError> {
        parse::parse(bytes)
    }

    /// Rows in the row group.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Bytes of all column chunks together.
    pub fn body_len(&self) -> u64 {
        self.body_len
    }

    /// Columns in the row group.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// One column.
    ///
    /// # Panics
    ///
    /// Panics when there is no such column.
    pub fn column(&self, column: usize) -> &ColumnMeta {
        &self.columns[column]
    }

    /// Memory held by the parsed footer.
    pub fn memory_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(ColumnMeta::heap_bytes).sum();
        size_of::<Self>() + columns
    }
}

/// What the footer says about one column.
#[derive(Clone, Debug)]
pub struct ColumnMeta {
    /// The type of the column.
    pub ty: ColumnType,
    /// Where the chunk lies in the body.
    pub byte_range: Range<u64>,
    /// The cascade of encodings, for people, such as `dict(bitpacked)`.
    pub encoding: String,
    /// Statistics of the whole chunk.
    pub stats: ChunkStats,
    pub(crate) zones: Vec<Zone>,
    pub(crate) checksum: u64,
    pub(crate) layout: ChunkLayout,
    pub(crate) flags: ValueFlags,
    pub(crate) parts: Vec<PartMeta>,
}

/// How a chunk's bytes are divided into arrays ("parts").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkLayout {
    /// No bytes: every row is null.
    AllNull,
    /// One array.
    Array,
    /// The parts of a numeric column.
    Numeric(NumericLayout),
}

/// The parts of a numeric chunk, in this order: digits (low 64 bits), then as present high
/// 64 bits, scales, rows of images, images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumericLayout {
    /// Digits need 128 bits.
    pub(crate) wide: bool,
    /// The scale of every row, unless `scales_per_row`.
    pub(crate) scale: u16,
    /// There is a part of scales.
    pub(crate) scales_per_row: bool,
    /// Rows that are images.
    pub(crate) image_count: u32,
}

impl NumericLayout {
    pub(crate) fn part_count(self) -> usize {
        1 + usize::from(self.wide)
            + usize::from(self.scales_per_row)
            + if self.image_count > 0 { 2 } else { 0 }
    }
}

impl ChunkLayout {
    pub(crate) fn part_count(self) -> usize {
        match self {
            Self::AllNull => 0,
            Self::Array => 1,
            Self::Numeric(numeric) => numeric.part_count(),
        }
    }
}

/// One serialized array of a chunk. Parts start at multiples of 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartMeta {
    pub(crate) len_bytes: u32,
    pub(crate) encodings: Vec<u8>,
}

impl ColumnMeta {
    /// The zone map: one entry for every [`ZONE_ROWS`] rows.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// The rows that a zone covers.
    pub fn zone_rows(&self, zone: usize) -> Range<usize> {
        let start = zone * ZONE_ROWS;
        start..(start + ZONE_ROWS).min(self.stats.row_count)
    }

    /// What the statistics alone say about a predicate on the rows of one zone.
    ///
    /// # Panics
    ///
    /// Panics when there is no such zone.
    pub fn zone_verdict(&self, zone: usize, predicate: &Predicate) -> Verdict {
        verdict(&Extent::of_zone(&self.zones[zone]), predicate)
    }

    /// What the statistics alone say about a predicate on all rows of the chunk.
    pub fn chunk_verdict(&self, predicate: &Predicate) -> Verdict {
        let whole = verdict(&Extent::of_chunk(&self.stats), predicate);
        if whole != Verdict::Some {
            return whole;
        }
        // Long values have no chunk-wide extremes, and zones may tell more in any case.
        let mut zones = (0..self.zones.len()).map(|zone| self.zone_verdict(zone, predicate));
        match zones.next() {
            Some(first) if zones.all(|other| other == first) => first,
            _ => Verdict::Some,
        }
    }

    fn heap_bytes(&self) -> usize {
        let bounds: usize = self
            .zones
            .iter()
            .flat_map(|zone| [&zone.min, &zone.max])
            .flatten()
            .map(|bound| bound.value.heap_bytes())
            .sum();
        let extremes: usize = [&self.stats.min, &self.stats.max]
            .into_iter()
            .flatten()
            .map(|value| value.heap_bytes())
            .sum();
        let parts: usize = self
            .parts
            .iter()
            .map(|part| size_of::<PartMeta>() + part.encodings.capacity())
            .sum();
        size_of::<Self>()
            + self.encoding.capacity()
            + self.zones.capacity() * size_of::<Zone>()
            + bounds
            + extremes
            + parts
    }
}
