//! One column chunk, opened for reading.
//!
//! ```text
//!   pages ─copy─▶ ChunkBuffer ─nodes─▶ Chunk ─┬─▶ decode, decode_range, decode_selection
//!                 (64-byte aligned)           └─▶ filter     (on encoded data)
//! ```
//!
//! Opening rebuilds the tree of arrays over the buffer without copying or decoding; the store
//! verifies the integrity of the bytes. A chunk is immutable and may be shared among threads.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_buffer::BooleanBuffer;
use vortex_array::ArrayRef;
use vortex_buffer::{Alignment, ByteBuffer, ByteBufferMut};

use crate::access::RowAccess;
use crate::codec::{self, CHUNK_ALIGNMENT};
use crate::column::Column;
use crate::error::ColumnarError;
use crate::layout::ColumnMeta;
use crate::packed_numbers::PackedNumbers;
use crate::parts::{Form, decode_numeric, slice};
use crate::predicate::Predicate;
use crate::stats::ValueFlags;
use crate::types::ColumnType;
use crate::word_answers::WordAnswers;
use crate::{filter, select};

/// The bytes of a chunk, aligned as the decoders require. Make one of the length of
/// [`ColumnMeta::byte_range`], fill it, and open it.
#[derive(Debug)]
pub struct ChunkBuffer(ByteBufferMut);

impl ChunkBuffer {
    /// An empty buffer for `len` bytes, to be filled front to back by [`append`](Self::append):
    /// no byte is written twice.
    pub fn with_capacity(len: usize) -> Self {
        Self(ByteBufferMut::with_capacity_aligned(
            len,
            Alignment::new(CHUNK_ALIGNMENT),
        ))
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

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

    pub(crate) fn into_bytes(self) -> ByteBuffer {
        self.0.freeze()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl From<&[u8]> for ChunkBuffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::with_capacity(bytes.len());
        buffer.append(bytes);
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
    flags: ValueFlags,
    form: Form,
    /// The same as packed numbers, once that was asked for.
    packed: OnceLock<Option<PackedNumbers>>,
    word_answers: WordAnswers,
}

impl Chunk {
    /// Opens the chunk that `meta` describes; its bytes were verified.
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
        let bytes = buffer.into_bytes();
        if bytes.len() as u64 != range.end - range.start || row_count != meta.stats.row_count {
            return Err(ColumnarError::corrupt("column chunk has another length"));
        }
        // Decoders take for granted what readers of single rows check: widths of packed words.
        RowAccess::new(meta.ty, meta.layout, row_count, range, &meta.nodes)?;
        let form = Form::open(meta, row_count, &bytes)?;
        Ok(Self::of(meta.ty, row_count, meta.flags, form))
    }

    pub(crate) fn of(ty: ColumnType, row_count: usize, flags: ValueFlags, form: Form) -> Chunk {
        Chunk {
            inner: Arc::new(Inner {
                ty,
                row_count,
                flags,
                form,
                packed: OnceLock::new(),
                word_answers: WordAnswers::default(),
            }),
        }
    }

    /// What is known of the words of its dictionary.
    pub(crate) fn word_answers(&self) -> &WordAnswers {
        &self.inner.word_answers
    }

    /// The chunk of another column of the same row group, if it is this chunk: of columns that
    /// lie side by side, the bytes need not be read again.
    pub fn of_other_column(&self, meta: &ColumnMeta) -> Option<Chunk> {
        let Form::Grouped(grouped) = &self.inner.form else {
            return None;
        };
        let other = Form::Grouped(grouped.other(meta)?);
        Some(Self::of(meta.ty, self.row_count(), meta.flags, other))
    }

    /// The type of the column.
    pub fn column_type(&self) -> ColumnType {
        self.inner.ty
    }

    /// Rows in the chunk.
    pub fn row_count(&self) -> usize {
        self.inner.row_count
    }

    pub(crate) fn form(&self) -> &Form {
        &self.inner.form
    }

    pub(crate) fn flags(&self) -> ValueFlags {
        self.inner.flags
    }

    /// The rows as packed numbers, if they are stored so.
    pub fn packed(&self) -> Option<&PackedNumbers> {
        let open = || match &self.inner.form {
            // Damage is found where the array is decoded.
            Form::Array(array) => PackedNumbers::of_array(array, self.inner.ty).ok().flatten(),
            _ => None,
        };
        self.inner.packed.get_or_init(open).as_ref()
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
        if let Some(packed) = self.packed() {
            return packed.decode(rows);
        }
        match &self.inner.form {
            Form::AllNull => Column::all_null(self.inner.ty, rows.len()),
            Form::Array(array) => {
                let array = slice(array, &rows)?;
                Column::from_array(self.inner.ty, array)
            }
            Form::Frames(frames) => Column::from_bytes(self.inner.ty, frames.decode(rows)?),
            Form::Letters(letters) => Column::from_bytes(self.inner.ty, letters.decode(rows)?),
            Form::Grouped(grouped) => grouped.decode(rows),
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
        if let Some(packed) = self.packed() {
            return Ok(packed.decode_some(rows));
        }
        let select = |array: &ArrayRef| codec::guarded(|| select::take(array, rows));
        match &self.inner.form {
            Form::AllNull => Column::all_null(self.inner.ty, rows.len()),
            Form::Array(array) => Column::from_array(self.inner.ty, select(array)?),
            Form::Frames(frames) => Column::from_bytes(self.inner.ty, frames.take(rows)?),
            Form::Letters(letters) => Column::from_bytes(self.inner.ty, letters.take(rows)?),
            Form::Grouped(grouped) => grouped.take(rows),
            Form::Numeric(parts) => {
                let position = |row: u32| rows.binary_search(&row).ok().map(|at| at as u32);
                decode_numeric(parts, select, position).map(Column::Numeric)
            }
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
