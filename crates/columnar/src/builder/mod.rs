//! Rows in memory, by column, that will be encoded as a row group.
//!
//! ```text
//!   push_* per column ─▶ finish_row ─▶ … ─▶ encode ─▶ footer || body
//!                            │
//!                            └─ value(column, row) reads what is not written yet
//! ```
//!
//! Invariant: between two calls of `finish_row` every column holds the same number of rows.

mod column;
mod decoded;
mod numeric;
mod validity;

pub use column::{BytesBuilder, ColumnBuilder, ScalarBuilder};
pub use numeric::NumericBuilder;
pub(crate) use numeric::{Digits, Scales};
pub(crate) use validity::ValidityBuilder;

use crate::encode::{EncodedRowGroup, encode_row_group};
use crate::error::ColumnarError;
use crate::types::{ColumnType, EncodeOptions};
use crate::value::Value;

/// The rows of one row group, not yet encoded.
#[derive(Clone, Debug)]
pub struct RowGroupBuilder {
    types: Vec<ColumnType>,
    columns: Vec<ColumnBuilder>,
    row_count: usize,
}

impl RowGroupBuilder {
    /// An empty builder for rows of these types.
    pub fn new(types: &[ColumnType]) -> Self {
        Self {
            types: types.to_vec(),
            columns: types.iter().map(|&ty| ColumnBuilder::new(ty)).collect(),
            row_count: 0,
        }
    }

    /// The column types, in order.
    pub fn types(&self) -> &[ColumnType] {
        &self.types
    }

    /// The number of finished rows.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// The bytes of all values held. Vectors may reserve up to twice as much. Costs a few additions
    /// per column, independent of the number of rows.
    pub fn raw_bytes(&self) -> usize {
        self.columns.iter().map(ColumnBuilder::heap_bytes).sum()
    }

    /// The column to push the next value to.
    ///
    /// # Panics
    ///
    /// Panics when there is no such column.
    #[inline]
    pub fn column_mut(&mut self, column: usize) -> &mut ColumnBuilder {
        &mut self.columns[column]
    }

    /// All columns, in order.
    pub fn columns(&self) -> &[ColumnBuilder] {
        &self.columns
    }

    /// Completes a row: every column must have been given exactly one value since the last
    /// call, which debug builds check.
    #[inline]
    pub fn finish_row(&mut self) {
        self.row_count += 1;
        debug_assert!(
            self.columns.iter().all(|c| c.len() == self.row_count),
            "every column gets one value per row"
        );
    }

    /// Completes rows that were pushed column by column: every column must have been given as many
    /// values since the last call, which debug builds check.
    #[inline]
    pub fn finish_rows(&mut self, count: usize) {
        self.row_count += count;
        debug_assert!(
            self.columns.iter().all(|c| c.len() == self.row_count),
            "every column gets one value per row"
        );
    }

    /// The value of a finished row; `None` is NULL.
    ///
    /// # Panics
    ///
    /// Panics when there is no such row or column.
    pub fn value(&self, column: usize, row: usize) -> Option<Value<'_>> {
        assert!(row < self.row_count, "row {row} of {}", self.row_count);
        self.columns[column].value(row)
    }

    /// A copy with the rows in another order: row `i` of the copy is row `order[i]`.
    ///
    /// # Panics
    ///
    /// Panics when `order` names a row that is not finished.
    pub fn reordered(&self, order: &[u32]) -> RowGroupBuilder {
        let mut copy = RowGroupBuilder::new(&self.types);
        for (from, to) in self.columns.iter().zip(&mut copy.columns) {
            for &row in order {
                assert!(
                    (row as usize) < self.row_count,
                    "row {row} of {}",
                    self.row_count
                );
                to.push(from.value(row as usize));
            }
        }
        copy.row_count = order.len();
        copy
    }

    /// Drops all rows, unfinished ones too, and keeps the memory for the next ones.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(ColumnBuilder::clear);
        self.row_count = 0;
    }

    /// Encodes all finished rows as a row group.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::RowCount`] and [`ColumnarError::TooLarge`] when the rows do not fit
    /// one row group, [`ColumnarError::Encode`] when the encoder fails.
    pub fn encode(
        &self,
        options: impl Into<EncodeOptions>,
    ) -> Result<EncodedRowGroup, ColumnarError> {
        self.encode_unless(options, &|| false)
    }

    /// Encodes all finished rows unless it is stopped: asked every few milliseconds, but not while
    /// one column is encoded other than as frames, which takes up to a second for 64 MB of text.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::Stopped`] if it was, and those of [`encode`](Self::encode).
    pub fn encode_unless(
        &self,
        options: impl Into<EncodeOptions>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<EncodedRowGroup, ColumnarError> {
        encode_row_group(self, &options.into(), is_stopped)
    }
}
