//! Rows ready to be returned, column by column.

use crate::datum::Datum;
use crate::tid::RowNumber;

/// One column of a batch: a value for each row.
#[derive(Default)]
pub struct Column {
    /// Of the attribute's type if the flag tells that the value is not NULL; undefined otherwise.
    pub values: Vec<Datum>,
    pub nulls: Vec<bool>,
}

impl Column {
    pub fn clear(&mut self) {
        self.values.clear();
        self.nulls.clear();
    }
}

/// Consecutive rows. The memory to which their datums point is valid until the next rows are
/// fetched.
#[derive(Default)]
pub struct Batch {
    pub(super) row_count: usize,
    /// Whether the pushed clauses are still to be evaluated.
    pub(super) recheck: bool,
    pub(super) first_row: u64,
    /// If rows are not consecutive: their distances from the first row.
    pub(super) positions: Vec<u32>,
    /// One per attribute; empty where not wanted.
    columns: Vec<Column>,
}

impl Batch {
    pub(super) fn new(attribute_count: usize) -> Batch {
        let mut columns = Vec::new();
        columns.resize_with(attribute_count, Column::default);
        Batch {
            columns,
            ..Batch::default()
        }
    }

    /// Starts a batch of consecutive rows. Columns keep their contents.
    pub fn start_consecutive(&mut self, first_row: RowNumber, row_count: usize, recheck: bool) {
        self.row_count = row_count;
        self.recheck = recheck;
        self.first_row = first_row.0;
        self.positions.clear();
    }

    /// Starts a batch of rows at these distances from the first row, ascending.
    pub fn start_scattered(&mut self, first_row: RowNumber, positions: &[u32], recheck: bool) {
        self.start_consecutive(first_row, positions.len(), recheck);
        self.positions.extend_from_slice(positions);
    }

    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// The column of an attribute, to be filled with one value per row.
    pub fn column_mut(&mut self, attribute: usize) -> &mut Column {
        &mut self.columns[attribute]
    }

    /// The addresses of a column's values and flags.
    ///
    /// # Panics
    ///
    /// Panics when there are fewer than rows.
    pub(super) fn addresses(&self, attribute: usize) -> (*const Datum, *const bool) {
        let column = &self.columns[attribute];
        let filled = column.values.len().min(column.nulls.len());
        assert!(filled >= self.row_count, "a value for each row");
        (column.values.as_ptr(), column.nulls.as_ptr())
    }
}
