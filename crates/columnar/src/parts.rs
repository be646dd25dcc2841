//! The arrays that a column chunk is made of: one for most types, several for numerics.

use std::ops::Range;

use arrow_buffer::{NullBuffer, ScalarBuffer};
use vortex_array::ArrayRef;
use vortex_array::dtype::{DType, Nullability, PType};
use vortex_buffer::ByteBuffer;

use crate::buffers::numbers;
use crate::codec;
use crate::column::bytes;
use crate::encode::dtype_of;
use crate::error::ColumnarError;
use crate::frames::Frames;
use crate::grouped::Grouped;
use crate::layout::wire::ensure;
use crate::layout::{ChunkLayout, ColumnMeta, NumericLayout};
use crate::letters::Letters;
use crate::nodes::{Encoding, NodeRef, NodeTable};
use crate::numeric::{NumericColumn, NumericDigits, NumericScales, join};
use crate::select;
use crate::types::ColumnType;
use crate::words;

/// The arrays of a chunk.
#[derive(Debug)]
pub(crate) enum Form {
    AllNull,
    Array(ArrayRef),
    Numeric(NumericParts),
    Frames(Frames),
    Letters(Letters),
    Grouped(Grouped),
}

/// The arrays of a numeric chunk. Null rows are null in `low` only.
#[derive(Debug)]
pub(crate) struct NumericParts {
    pub(crate) low: ArrayRef,
    pub(crate) high: Option<ArrayRef>,
    pub(crate) scale: u16,
    pub(crate) scales: Option<ArrayRef>,
    pub(crate) image_rows: Vec<u32>,
    pub(crate) images: Option<ArrayRef>,
}

impl Form {
    /// Rebuilds the arrays of a chunk over its bytes.
    pub(crate) fn open(
        meta: &ColumnMeta,
        row_count: usize,
        bytes: &ByteBuffer,
    ) -> Result<Self, ColumnarError> {
        let nullability = Nullability::from(meta.stats.null_count > 0);
        Ok(match meta.layout {
            ChunkLayout::AllNull => Self::AllNull,
            ChunkLayout::Array => {
                Self::open_array(&meta.nodes, meta.ty, nullability, row_count, bytes)?
            }
            ChunkLayout::Grouped => Self::Grouped(Grouped::open(meta, row_count, bytes)?),
            ChunkLayout::Numeric(layout) => {
                let mut trees = Trees::of(&meta.nodes, bytes);
                Self::Numeric(trees.open_numeric(layout, nullability, row_count)?)
            }
        })
    }

    /// The same of a chunk that is one tree.
    pub(crate) fn open_array(
        nodes: &NodeTable,
        ty: ColumnType,
        nullability: Nullability,
        row_count: usize,
        bytes: &ByteBuffer,
    ) -> Result<Self, ColumnarError> {
        let mut trees = Trees::of(nodes, bytes);
        if trees.starts_with(Encoding::Frames) {
            is_of_strings(ty)?;
            return Ok(Self::Frames(Frames::open(trees.next()?, bytes, row_count)?));
        }
        if trees.starts_with(Encoding::Letters) {
            is_of_strings(ty)?;
            let letters = Letters::open(trees.next()?, bytes, row_count)?;
            return Ok(Self::Letters(letters));
        }
        let dtype = dtype_of(ty, nullability);
        Ok(Self::Array(trees.open(&dtype, row_count)?))
    }
}

fn is_of_strings(ty: ColumnType) -> Result<(), ColumnarError> {
    ensure(
        ty.is_of_strings(),
        "an encoding of strings does not fit the column type",
    )
}

/// Rebuilds the arrays of a chunk, one after the other.
struct Trees<'a> {
    roots: std::vec::IntoIter<NodeRef<'a>>,
    bytes: &'a ByteBuffer,
    image_count: usize,
}

impl<'a> Trees<'a> {
    fn of(nodes: &'a NodeTable, bytes: &'a ByteBuffer) -> Self {
        Self {
            roots: nodes.roots().collect::<Vec<_>>().into_iter(),
            bytes,
            image_count: nodes.image_count(),
        }
    }

    fn next(&mut self) -> Result<NodeRef<'a>, ColumnarError> {
        // The check of the footer has made sure that there are as many trees as the layout
        // requires.
        self.roots
            .next()
            .ok_or_else(|| ColumnarError::corrupt("a tree of nodes is missing"))
    }

    fn open(&mut self, dtype: &DType, row_count: usize) -> Result<ArrayRef, ColumnarError> {
        let bytes = self.bytes;
        codec::rebuild(self.next()?, bytes, 0, dtype, row_count)
    }

    fn starts_with(&self, encoding: Encoding) -> bool {
        let first = self.roots.as_slice().first();
        first.is_some_and(|node| node.encoding() == encoding)
    }

    fn open_numeric(
        &mut self,
        layout: NumericLayout,
        nullability: Nullability,
        row_count: usize,
    ) -> Result<NumericParts, ColumnarError> {
        let required = |ptype| DType::Primitive(ptype, Nullability::NonNullable);
        let low = self.open(&dtype_of(ColumnType::Numeric, nullability), row_count)?;
        let high = match layout.wide {
            true => Some(self.open(&required(PType::I64), row_count)?),
            false => None,
        };
        let scales = match layout.scales_per_row {
            true => Some(self.open(&required(PType::U16), row_count)?),
            false => None,
        };
        let image_count = self.image_count;
        let (image_rows, images) = match image_count {
            0 => (Vec::new(), None),
            _ => {
                let rows = self.open(&required(PType::U32), image_count)?;
                let (rows, _) = codec::guarded(|| numbers::<u32>(rows, &mut codec::context()))?;
                let ascending = rows.is_sorted_by(|a, b| a < b);
                if !ascending || rows.last().is_some_and(|&row| row as usize >= row_count) {
                    return Err(ColumnarError::corrupt("rows of numeric images are wrong"));
                }
                let images = self.open(&DType::Binary(Nullability::NonNullable), image_count)?;
                (rows.to_vec(), Some(images))
            }
        };
        Ok(NumericParts {
            low,
            high,
            scale: layout.scale,
            scales,
            image_rows,
            images,
        })
    }
}

/// A lazy slice of an array.
pub(crate) fn slice(array: &ArrayRef, rows: &Range<usize>) -> Result<ArrayRef, ColumnarError> {
    codec::guarded(|| words::slice(array, rows.clone()))
}

/// Decodes the rows of a numeric chunk that `select` leaves; `position` gives the new position of a
/// row of the chunk.
pub(crate) fn decode_numeric(
    parts: &NumericParts,
    select: impl Fn(&ArrayRef) -> Result<ArrayRef, ColumnarError>,
    position: impl Fn(u32) -> Option<u32>,
) -> Result<NumericColumn, ColumnarError> {
    let mut ctx = codec::context();
    let low = select(&parts.low)?;
    let (low, nulls): (ScalarBuffer<i64>, Option<NullBuffer>) =
        codec::guarded(|| numbers(low, &mut ctx))?;
    let digits = match &parts.high {
        None => NumericDigits::Narrow(low),
        Some(high) => {
            let high = select(high)?;
            let (high, _) = codec::guarded(|| numbers::<i64>(high, &mut ctx))?;
            let joined: Vec<i128> = low.iter().zip(&high).map(|(&l, &h)| join(l, h)).collect();
            NumericDigits::Wide(joined.into())
        }
    };
    let scales = match &parts.scales {
        None => NumericScales::Constant(parts.scale),
        Some(scales) => {
            let scales = select(scales)?;
            NumericScales::PerRow(codec::guarded(|| numbers::<u16>(scales, &mut ctx))?.0)
        }
    };
    let (mut image_rows, mut kept) = (Vec::new(), Vec::new());
    for (index, &row) in parts.image_rows.iter().enumerate() {
        if let Some(at) = position(row) {
            image_rows.push(at);
            kept.push(index as u32);
        }
    }
    let images = match &parts.images {
        Some(images) if !kept.is_empty() => Some(bytes(
            codec::guarded(|| select::take(images, &kept))?,
            &mut ctx,
        )?),
        _ => None,
    };
    NumericColumn::new(digits, scales, image_rows, images, nulls)
}
