//! The header and the column table: fixed widths, so that one column is found without reading the
//! entries of the others.

use std::ops::Range;

use super::wire::{Reader, ensure, type_code, type_of_code};
use crate::MAX_ROWS;
use crate::error::ColumnarError;
use crate::stats::ValueFlags;
use crate::types::ColumnType;

pub(super) const MAGIC: [u8; 8] = *b"HOWDAHRG";
pub(super) const HEADER_LEN: usize = 32;
pub(super) const ENTRY_LEN: usize = 32;
/// The greatest number of columns; PostgreSQL's is 1,600.
const MAX_COLUMNS: usize = 4_096;

/// The version that this build writes.
pub const FORMAT_VERSION: u32 = 2;

const LAYOUT_ALL_NULL: u8 = 0;
const LAYOUT_ARRAY: u8 = 1;
const LAYOUT_NUMERIC: u8 = 2;
const LAYOUT_GROUPED: u8 = 3;

const FLAG_NAN: u16 = 1;
const FLAG_NEGATIVE_ZERO: u16 = 2;
const FLAG_WIDE: u16 = 4;
const FLAG_SCALES: u16 = 8;
const FLAG_IMAGES: u16 = 16;
const ALL_FLAGS: u16 = 31;

/// The fixed fields of the header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) column_count: usize,
    pub(super) row_count: usize,
    pub(super) footer_len: usize,
    pub(super) body_len: u64,
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ColumnarError> {
        let mut reader = Reader::new(bytes);
        ensure(reader.take(8)? == MAGIC, "not a row group footer")?;
        let version = reader.u32()?;
        if version != FORMAT_VERSION {
            return Err(ColumnarError::UnsupportedVersion { version });
        }
        let header = Self {
            column_count: reader.u32()? as usize,
            row_count: reader.u32()? as usize,
            footer_len: reader.u32()? as usize,
            body_len: reader.u64()?,
        };
        ensure(
            header.column_count <= MAX_COLUMNS,
            "too many columns in footer",
        )?;
        ensure(
            (1..=MAX_ROWS).contains(&header.row_count),
            "row count in footer is out of range",
        )?;
        ensure(
            header.footer_len >= HEADER_LEN + header.column_count * ENTRY_LEN
                && (header.footer_len as u64)
                    .checked_add(header.body_len)
                    .is_some(),
            "lengths in row group header are wrong",
        )?;
        Ok(header)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        for field in [self.column_count, self.row_count, self.footer_len] {
            out.extend_from_slice(&to_u32(field).to_le_bytes());
        }
        out.extend_from_slice(&self.body_len.to_le_bytes());
    }
}

/// Lengths within a footer are far below 4 GB: 4,096 columns of at most some 40 kB.
fn to_u32(value: usize) -> u32 {
    u32::try_from(value).expect("a footer's lengths and counts fit 32 bits")
}

/// How a chunk's parts are divided into trees of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkLayout {
    /// No bytes: every row is null.
    AllNull,
    /// One tree.
    Array,
    /// The trees of a numeric column.
    Numeric(NumericLayout),
    /// One tree, of the rows of a group of columns.
    Grouped,
}

/// The trees of a numeric chunk, in this order: digits (low 64 bits), then as present high
/// 64 bits, scales, rows of images, images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumericLayout {
    /// Digits need 128 bits.
    pub(crate) wide: bool,
    /// The scale of every row, unless `scales_per_row`.
    pub(crate) scale: u16,
    /// There is a tree of scales.
    pub(crate) scales_per_row: bool,
    /// Some rows are images.
    pub(crate) has_images: bool,
}

impl ChunkLayout {
    pub(crate) fn root_count(self) -> usize {
        match self {
            Self::AllNull => 0,
            Self::Array | Self::Grouped => 1,
            Self::Numeric(numeric) => {
                1 + usize::from(numeric.wide)
                    + usize::from(numeric.scales_per_row)
                    + 2 * usize::from(numeric.has_images)
            }
        }
    }
}

/// What an entry has that only a newer version knows: the column cannot be read.
#[derive(Clone, Debug)]
pub(super) struct Newer {
    what: &'static str,
    number: u64,
    /// Places mean what they mean in all entries.
    pub(super) chunk: Range<u64>,
    pub(super) nodes: Range<u64>,
}

impl Newer {
    pub(super) fn error(&self) -> ColumnarError {
        ColumnarError::newer(self.what, self.number)
    }
}

/// One column's entry. Ranges are relative to the stored value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) ty: ColumnType,
    pub(super) layout: ChunkLayout,
    pub(super) flags: ValueFlags,
    pub(super) chunk: Range<u64>,
    /// Statistics and zone map, then the node table.
    pub(super) statistics: Range<u64>,
    pub(super) nodes: Range<u64>,
}

impl Entry {
    /// Whether the column's values lie beside those of others.
    pub(super) fn is_grouped(&self) -> bool {
        self.layout == ChunkLayout::Grouped
    }

    /// Places are checked whatever else an entry says. What is newer is the inner error: it
    /// concerns this column alone.
    pub(super) fn parse(
        bytes: &[u8],
        header: &Header,
    ) -> Result<Result<Self, Newer>, ColumnarError> {
        let mut reader = Reader::new(bytes);
        let type_code = reader.u8()?;
        let layout_code = reader.u8()?;
        let parameter = reader.u16()?;
        let flags = reader.u16()?;
        let reserved = reader.u16()?;
        let start = reader.u64()?;
        let len = u64::from(reader.u32()?);
        let section = u64::from(reader.u32()?);
        let statistics_len = u64::from(reader.u32()?);
        let nodes_len = u64::from(reader.u32()?);
        reader.finish()?;

        let body_start = header.footer_len as u64;
        let chunk = start
            .checked_add(len)
            .filter(|&end| end <= header.body_len)
            .map(|end| body_start + start..body_start + end)
            .ok_or_else(|| ColumnarError::corrupt("column chunk lies outside of its row group"))?;
        let nodes_start = section + statistics_len;
        ensure(
            nodes_start + nodes_len <= body_start,
            "column section lies outside of the footer",
        )?;
        let nodes = nodes_start..nodes_start + nodes_len;
        let newer = |what, number| {
            let (chunk, nodes) = (chunk.clone(), nodes.clone());
            Ok(Err(Newer {
                what,
                number,
                chunk,
                nodes,
            }))
        };
        let Some(ty) = type_of_code(type_code, parameter) else {
            return newer("column type", type_code.into());
        };
        if layout_code > LAYOUT_GROUPED {
            return newer("chunk layout", layout_code.into());
        }
        if flags & !ALL_FLAGS != 0 {
            return newer("column flags", flags.into());
        }
        ensure(reserved == 0, "reserved bytes in footer are in use")?;
        let is_numeric = layout_code == LAYOUT_NUMERIC;
        let is_float = matches!(ty, ColumnType::Float32 | ColumnType::Float64);
        let is_fixed = matches!(ty, ColumnType::Fixed { .. });
        ensure(
            (is_numeric || flags & (FLAG_WIDE | FLAG_SCALES | FLAG_IMAGES) == 0)
                && (is_float || flags & (FLAG_NAN | FLAG_NEGATIVE_ZERO) == 0)
                && (is_numeric || is_fixed || parameter == 0),
            "fields in footer do not fit the column type",
        )?;
        let layout = match (layout_code, ty) {
            (LAYOUT_ALL_NULL, _) => {
                ensure(len == 0, "null chunk is not empty")?;
                ChunkLayout::AllNull
            }
            (LAYOUT_NUMERIC, ColumnType::Numeric) => ChunkLayout::Numeric(NumericLayout {
                wide: flags & FLAG_WIDE != 0,
                scale: parameter,
                scales_per_row: flags & FLAG_SCALES != 0,
                has_images: flags & FLAG_IMAGES != 0,
            }),
            (LAYOUT_ARRAY, ty) if ty != ColumnType::Numeric => ChunkLayout::Array,
            (LAYOUT_GROUPED, _) => ChunkLayout::Grouped,
            _ => return Err(ColumnarError::corrupt("chunk layout does not fit its type")),
        };
        Ok(Ok(Self {
            ty,
            layout,
            flags: ValueFlags {
                has_nan: flags & FLAG_NAN != 0,
                has_negative_zero: flags & FLAG_NEGATIVE_ZERO != 0,
            },
            chunk,
            statistics: section..nodes_start,
            nodes,
        }))
    }

    /// `body_start` is the footer's length.
    pub(super) fn write(&self, out: &mut Vec<u8>, body_start: u64) {
        let mut parameter = 0;
        let mut flags = 0;
        let mut flag = |condition: bool, bit: u16| flags |= if condition { bit } else { 0 };
        flag(self.flags.has_nan, FLAG_NAN);
        flag(self.flags.has_negative_zero, FLAG_NEGATIVE_ZERO);
        if let ColumnType::Fixed { len } = self.ty {
            parameter = len;
        }
        let layout = match self.layout {
            ChunkLayout::AllNull => LAYOUT_ALL_NULL,
            ChunkLayout::Array => LAYOUT_ARRAY,
            ChunkLayout::Grouped => LAYOUT_GROUPED,
            ChunkLayout::Numeric(numeric) => {
                flag(numeric.wide, FLAG_WIDE);
                flag(numeric.scales_per_row, FLAG_SCALES);
                flag(numeric.has_images, FLAG_IMAGES);
                parameter = numeric.scale;
                LAYOUT_NUMERIC
            }
        };
        out.push(type_code(self.ty));
        out.push(layout);
        out.extend_from_slice(&parameter.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&(self.chunk.start - body_start).to_le_bytes());
        for field in [
            self.chunk.end - self.chunk.start,
            self.statistics.start,
            self.statistics.end - self.statistics.start,
            self.nodes.end - self.nodes.start,
        ] {
            out.extend_from_slice(&to_u32(field as usize).to_le_bytes());
        }
    }
}
