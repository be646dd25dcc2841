//! One column chunk, opened for reading.
//!
//! ```text
//!   pages ─copy─▶ ChunkBuffer ─checksum─▶ Chunk ─┬─▶ decode, decode_range, decode_selection
//!                 (64-byte aligned)              ├─▶ value      (one row)
//!                                                └─▶ filter     (on encoded data)
//! ```
//!
//! Opening verifies the checksum before anything interprets a byte, then rebuilds the tree
//! of arrays over the buffer without copying or decoding. A chunk is immutable and may be
//! shared among threads.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use vortex_array::ArrayRef;
use vortex_array::dtype::{DType, Nullability, PType};
use vortex_array::scalar::{Scalar, ScalarValue};
use vortex_buffer::{Alignment, ByteBuffer, ByteBufferMut};
use vortex_error::VortexResult;

use crate::codec::{self, CHUNK_ALIGNMENT};
use crate::column::{Column, bytes, numbers};
use crate::encode::dtype_of;
use crate::error::ColumnarError;
use crate::footer::{ChunkLayout, ColumnMeta, NumericLayout};
use crate::numeric::{NumericColumn, NumericDigits, NumericScales, join};
use crate::predicate::Predicate;
use crate::stats::ValueFlags;
use crate::types::ColumnType;
use crate::value::{OwnedNumeric, OwnedValue};
use crate::{checksum, filter, select};

/// The bytes of a chunk, aligned as the decoders want them. Make one of the length of
/// [`ColumnMeta::byte_range`], fill it, and open it.
#[derive(Debug)]
pub struct ChunkBuffer(ByteBufferMut);

impl ChunkBuffer {
    /// A zeroed buffer of `len` bytes.
    pub fn with_len(len: usize) -> Self {
        Self(ByteBufferMut::zeroed_aligned(
            len,
            Alignment::new(CHUNK_ALIGNMENT),
        ))
    }

    /// The bytes, to be filled.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.as_mut_slice()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl From<&[u8]> for ChunkBuffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::with_len(bytes.len());
        buffer.as_mut_slice().copy_from_slice(bytes);
        buffer
    }
}

/// An open column chunk.
#[derive(Clone, Debug)]
pub struct Chunk {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ty: ColumnType,
    row_count: usize,
    len_bytes: usize,
    flags: ValueFlags,
    form: Form,
}

/// What a chunk is made of.
#[derive(Debug)]
pub(crate) enum Form {
    AllNull,
    Array(ArrayRef),
    Numeric(NumericParts),
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

impl Chunk {
    /// Opens the chunk that `meta` describes.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::Corrupt`] when the bytes are not what was written.
    pub fn open(
        meta: &ColumnMeta,
        row_count: usize,
        buffer: ChunkBuffer,
    ) -> Result<Chunk, ColumnarError> {
        let range = &meta.byte_range;
        let bytes = buffer.0.freeze();
        if bytes.len() as u64 != range.end - range.start || row_count != meta.stats.row_count {
            return Err(ColumnarError::corrupt("column chunk has another length"));
        }
        if checksum::of_chunk(bytes.as_slice()) != meta.checksum {
            return Err(ColumnarError::corrupt(
                "checksum of column chunk does not match",
            ));
        }
        let nullability = Nullability::from(meta.stats.null_count > 0);
        let mut parts = Parts {
            meta,
            bytes: &bytes,
            next: 0,
            offset: 0,
        };
        let form = match meta.layout {
            ChunkLayout::AllNull => Form::AllNull,
            ChunkLayout::Array => {
                Form::Array(parts.open(&dtype_of(meta.ty, nullability), row_count)?)
            }
            ChunkLayout::Numeric(layout) => {
                Form::Numeric(parts.open_numeric(layout, nullability, row_count)?)
            }
        };
        Ok(Chunk {
            inner: Arc::new(Inner {
                ty: meta.ty,
                row_count,
                len_bytes: bytes.len(),
                flags: meta.flags,
                form,
            }),
        })
    }

    /// The type of the column.
    pub fn column_type(&self) -> ColumnType {
        self.inner.ty
    }

    /// Rows in the chunk.
    pub fn row_count(&self) -> usize {
        self.inner.row_count
    }

    /// Memory held by the chunk: its bytes and a little for each node of its tree.
    pub fn memory_bytes(&self) -> usize {
        const NODE_BYTES: usize = 512;
        let nodes = match &self.inner.form {
            Form::AllNull => 0,
            Form::Array(array) => array.depth_first_traversal().count(),
            Form::Numeric(parts) => parts
                .arrays()
                .map(|array| array.depth_first_traversal().count())
                .sum(),
        };
        size_of::<Inner>() + self.inner.len_bytes + nodes * NODE_BYTES
    }

    pub(crate) fn form(&self) -> &Form {
        &self.inner.form
    }

    pub(crate) fn flags(&self) -> ValueFlags {
        self.inner.flags
    }

    /// Decodes every row.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::Corrupt`] when the decoder meets what the encoder does not write.
    pub fn decode(&self) -> Result<Column, ColumnarError> {
        self.decode_range(0..self.row_count())
    }

    /// Decodes a range of rows.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and [`ColumnarError::OutOfRange`].
    pub fn decode_range(&self, rows: Range<usize>) -> Result<Column, ColumnarError> {
        self.check(&rows)?;
        match &self.inner.form {
            Form::AllNull => Column::all_null(self.inner.ty, rows.len()),
            Form::Array(array) => {
                let array = slice(array, &rows)?;
                Column::from_array(self.inner.ty, array)
            }
            Form::Numeric(parts) => {
                let select = |array: &ArrayRef| slice(array, &rows);
                let position = |row: u32| {
                    let row = row as usize;
                    rows.contains(&row).then(|| (row - rows.start) as u32)
                };
                decode_numeric(parts, select, position).map(Column::Numeric)
            }
        }
    }

    /// Decodes the rows with these indexes, which must ascend.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and [`ColumnarError::OutOfRange`].
    pub fn decode_selection(&self, rows: &[u32]) -> Result<Column, ColumnarError> {
        debug_assert!(rows.is_sorted_by(|a, b| a < b), "a selection ascends");
        if let Some(&last) = rows.last() {
            self.check(&(rows[0] as usize..last as usize + 1))?;
        } else {
            return self.decode_range(0..0);
        }
        let select = |array: &ArrayRef| codec::guarded(|| select::take(array, rows));
        match &self.inner.form {
            Form::AllNull => Column::all_null(self.inner.ty, rows.len()),
            Form::Array(array) => Column::from_array(self.inner.ty, select(array)?),
            Form::Numeric(parts) => {
                let position = |row: u32| rows.binary_search(&row).ok().map(|at| at as u32);
                decode_numeric(parts, select, position).map(Column::Numeric)
            }
        }
    }

    /// The value of one row; `None` is NULL. Most encodings give it without decoding more.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), and [`ColumnarError::OutOfRange`].
    pub fn value(&self, row: usize) -> Result<Option<OwnedValue>, ColumnarError> {
        self.check(&(row..row + 1))?;
        match &self.inner.form {
            Form::AllNull => Ok(None),
            Form::Array(array) => value_of(scalar_at(array, row)?, self.inner.ty),
            Form::Numeric(parts) => numeric_at(parts, row).map(|v| v.map(OwnedValue::Numeric)),
        }
    }

    /// Where a predicate is true within a range of rows (bit 0 is row `rows.start`).
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode); [`ColumnarError::OutOfRange`];
    /// [`ColumnarError::TypeMismatch`] when the predicate's value is of another kind of type;
    /// [`ColumnarError::NotComparable`] when the chunk or the predicate holds a numeric image:
    /// then evaluate the predicate row by row.
    pub fn filter(
        &self,
        predicate: &Predicate,
        rows: Range<usize>,
    ) -> Result<BooleanBuffer, ColumnarError> {
        self.check(&rows)?;
        filter::filter(self, predicate, rows)
    }

    fn check(&self, rows: &Range<usize>) -> Result<(), ColumnarError> {
        if rows.start <= rows.end && rows.end <= self.row_count() {
            return Ok(());
        }
        Err(ColumnarError::OutOfRange {
            start: rows.start,
            end: rows.end,
            row_count: self.row_count(),
        })
    }
}

/// Takes the arrays of a chunk out of its bytes, one after the other.
struct Parts<'a> {
    meta: &'a ColumnMeta,
    bytes: &'a ByteBuffer,
    next: usize,
    offset: usize,
}

impl Parts<'_> {
    fn open(&mut self, dtype: &DType, row_count: usize) -> Result<ArrayRef, ColumnarError> {
        // The footer's check made sure that there are as many parts as the layout wants, and
        // that they fill the chunk.
        let part = &self.meta.parts[self.next];
        let start = self.offset.next_multiple_of(CHUNK_ALIGNMENT);
        let end = start + part.len_bytes as usize;
        self.next += 1;
        self.offset = end;
        let bytes = self.bytes.slice_unaligned(start..end);
        codec::deserialize(bytes, &part.encodings, dtype, row_count)
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
        let image_count = layout.image_count as usize;
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

impl NumericParts {
    fn arrays(&self) -> impl Iterator<Item = &ArrayRef> {
        std::iter::once(&self.low)
            .chain(&self.high)
            .chain(&self.scales)
            .chain(&self.images)
    }
}

/// A lazy slice of an array.
pub(crate) fn slice(array: &ArrayRef, rows: &Range<usize>) -> Result<ArrayRef, ColumnarError> {
    codec::guarded(|| array.slice(rows.clone()))
}

/// Decodes the rows of a numeric chunk that `select` leaves; `position` tells where a row of
/// the chunk went.
fn decode_numeric(
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

fn scalar_at(array: &ArrayRef, row: usize) -> Result<Scalar, ColumnarError> {
    codec::guarded(|| array.execute_scalar(row, &mut codec::context()))
}

fn value_of(scalar: Scalar, ty: ColumnType) -> Result<Option<OwnedValue>, ColumnarError> {
    let Some(value) = scalar.into_value() else {
        return Ok(None);
    };
    let wrong = || ColumnarError::corrupt("decoder returned a value of another type");
    Ok(Some(match (value, ty) {
        (ScalarValue::Bool(v), ColumnType::Bool) => OwnedValue::Bool(v),
        (ScalarValue::Primitive(v), _) => match ty {
            ColumnType::Int16 => OwnedValue::Int16(cast(|| v.cast())?),
            ColumnType::Int32 => OwnedValue::Int32(cast(|| v.cast())?),
            ColumnType::Int64 => OwnedValue::Int64(cast(|| v.cast())?),
            ColumnType::Float32 => OwnedValue::Float32(cast(|| v.cast())?),
            ColumnType::Float64 => OwnedValue::Float64(cast(|| v.cast())?),
            _ => return Err(wrong()),
        },
        (ScalarValue::Utf8(text), ColumnType::Text) => {
            // The decoder claims UTF-8; trust the bytes only after a look.
            let text = text.into_inner();
            let text = std::str::from_utf8(text.as_slice())
                .map_err(|_| ColumnarError::corrupt("text is not UTF-8"))?;
            OwnedValue::Text(text.to_owned())
        }
        (ScalarValue::Binary(v), ColumnType::Bytes) => OwnedValue::Bytes(v.as_slice().to_vec()),
        (ScalarValue::Binary(v), ColumnType::Fixed { len }) => {
            if v.len() != usize::from(len) {
                return Err(ColumnarError::corrupt("a fixed value has another length"));
            }
            OwnedValue::Bytes(v.as_slice().to_vec())
        }
        _ => return Err(wrong()),
    }))
}

fn cast<T>(run: impl FnOnce() -> VortexResult<T>) -> Result<T, ColumnarError> {
    codec::guarded(run)
}

fn numeric_at(parts: &NumericParts, row: usize) -> Result<Option<OwnedNumeric>, ColumnarError> {
    let integer = |array: &ArrayRef| -> Result<Option<i64>, ColumnarError> {
        let scalar = scalar_at(array, row)?;
        codec::guarded(|| scalar.as_primitive().try_typed_value::<i64>())
    };
    let Some(low) = integer(&parts.low)? else {
        return Ok(None);
    };
    if let Some(images) = &parts.images
        && let Ok(index) = parts.image_rows.binary_search(&(row as u32))
    {
        let image = value_of(scalar_at(images, index)?, ColumnType::Bytes)?;
        return match image {
            Some(OwnedValue::Bytes(image)) => Ok(Some(OwnedNumeric::Image(image))),
            _ => Err(ColumnarError::corrupt("a numeric image is missing")),
        };
    }
    let unscaled = match &parts.high {
        None => low.into(),
        Some(high) => join(low, integer(high)?.unwrap_or_default()),
    };
    let scale = match &parts.scales {
        None => parts.scale,
        Some(scales) => {
            let scalar = scalar_at(scales, row)?;
            codec::guarded(|| scalar.as_primitive().try_typed_value::<u16>())?.unwrap_or_default()
        }
    };
    Ok(Some(OwnedNumeric::Small { unscaled, scale }))
}
