//! Some of the rows of an input.

use std::cell::RefCell;

use arrow_buffer::BooleanBuffer;
use howdah_columnar::Column;
use rustc_hash::FxHashMap;

use super::Input;
use crate::error::VectorError;

/// The rows whose bits are set. Columns are filtered when they are first requested.
pub(super) struct Subset<'a> {
    input: &'a dyn Input,
    rows: &'a BooleanBuffer,
    row_count: usize,
    columns: RefCell<FxHashMap<usize, Column>>,
}

impl<'a> Subset<'a> {
    pub(super) fn new(input: &'a dyn Input, rows: &'a BooleanBuffer) -> Self {
        Self {
            input,
            rows,
            row_count: rows.count_set_bits(),
            columns: RefCell::default(),
        }
    }
}

impl Input for Subset<'_> {
    fn row_count(&self) -> usize {
        self.row_count
    }

    fn column(&self, index: usize) -> Result<Column, VectorError> {
        if let Some(column) = self.columns.borrow().get(&index) {
            return Ok(column.clone());
        }
        let column = self.input.column(index)?.filter(self.rows)?;
        self.columns.borrow_mut().insert(index, column.clone());
        Ok(column)
    }
}
