//! Values of several columns side by side: what one row has of them is one string, so that it
//! lies in one place.
//!
//! ```text
//!   columns    a "Ann"  b NULL  n 7  c "Oslo"     a row: lengths + 1 and numbers, then the strings
//!   row        4 0 3 5 │ Ann │ Oslo               (0: null; of strings of one length: nothing;
//!              │                                   here, the least n is 5)
//!              ╰ a chunk like one of a column of strings, which all these columns share
//! ```
//!
//! A reader of one of the columns reads what the row has of all of them: cheap for rows that are
//! wanted whole, dear for scans of one column. So columns are grouped only where the caller asks
//! for it, and of these no strings that repeat, since a dictionary does better by them, and no
//! numbers that need nothing by themselves (`rows.rs`, `number.rs`, `numerics.rs`).
//!
//! Lengths and numbers are written in digits of seven bits, as many as the longest string or the
//! greatest number of the column needs. So a row of texts and numbers is a text, and is encoded as
//! one.

mod beside;
mod fields;
mod gathered;
mod number;
mod numerics;
mod rows;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::BinaryViewArray;
use vortex_array::dtype::Nullability;
use vortex_buffer::ByteBuffer;

pub(crate) use beside::{Beside, RECORD_BESIDE};
pub(crate) use fields::{Field, Fields};
pub(crate) use rows::{NewField, rows_of};

use crate::chunk::Chunk;
use crate::column::Column;
use crate::error::ColumnarError;
use crate::layout::ColumnMeta;
use crate::parts::Form;
use crate::stats::ValueFlags;
use crate::types::ColumnType;
use gathered::Gathered;

/// Rows that are decoded at a time: mostly, they fit the processor's cache.
const ROWS_AT_A_TIME: usize = 128;

const MISSING: &str = "a row of grouped columns is missing";

/// A column of a group, opened for reading.
#[derive(Debug)]
pub(crate) struct Grouped {
    rows: Arc<Rows>,
    column: GroupedColumn,
}

#[derive(Clone, Debug)]
struct GroupedColumn {
    field: Field,
    ty: ColumnType,
    may_be_null: bool,
}

/// The rows of a group, which its columns share.
#[derive(Debug)]
struct Rows {
    chunk: Chunk,
    /// Where the chunk lies in the stored value.
    range: Range<u64>,
    /// See [`NodeTable::group_hash`](crate::nodes::NodeTable::group_hash).
    hash: u64,
    shared: Mutex<Shared>,
}

/// What columns decode for each other: a reader that asks for range after range, of column after
/// column, has the rows decoded once.
#[derive(Debug)]
struct Shared {
    /// The columns that are open.
    columns: Vec<GroupedColumn>,
    /// The range that was decoded last, and the values of those of its columns that were not asked
    /// for since.
    range: Range<usize>,
    decoded: Vec<(usize, Column)>,
    /// Whether the next range is to be decoded for all columns: of the last one, all asked for it.
    together: bool,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            range: 0..0,
            decoded: Vec::new(),
            together: true,
        }
    }
}

impl Shared {
    fn add(&mut self, column: &GroupedColumn) {
        let is_same = |known: &GroupedColumn| known.field.index == column.field.index;
        if !self.columns.iter().any(is_same) {
            self.columns.push(column.clone());
        }
    }

    /// The values of a column in a range, if another column has decoded them.
    fn take(&mut self, range: &Range<usize>, index: usize) -> Option<Column> {
        if self.range != *range {
            return None;
        }
        let at = self.decoded.iter().position(|(known, _)| *known == index);
        // One that is asked for and not there would have been welcome.
        self.together |= at.is_none();
        at.map(|at| self.decoded.swap_remove(at).1)
    }

    /// The columns that the next range is decoded for, beside the one that asks for it.
    fn others(&mut self, range: &Range<usize>, index: usize) -> Vec<GroupedColumn> {
        if self.range == *range {
            return Vec::new();
        }
        self.together &= self.decoded.is_empty();
        self.range = range.clone();
        self.decoded.clear();
        let others = self.columns.iter().filter(|it| it.field.index != index);
        others.filter(|_| self.together).cloned().collect()
    }
}

impl Grouped {
    pub(crate) fn open(
        meta: &ColumnMeta,
        row_count: usize,
        bytes: &ByteBuffer,
    ) -> Result<Self, ColumnarError> {
        let field = field_of(meta)?;
        let ty = field.row_type();
        let rows = Form::open_array(&meta.nodes, ty, Nullability::NonNullable, row_count, bytes)?;
        let rows = Rows {
            // Each string is checked to be text, not the row.
            chunk: Chunk::of(ColumnType::Bytes, row_count, ValueFlags::default(), rows),
            range: meta.byte_range.clone(),
            hash: meta.nodes.group_hash(),
            shared: Mutex::default(),
        };
        Ok(Self::of(Arc::new(rows), field, meta))
    }

    fn of(rows: Arc<Rows>, field: &Field, meta: &ColumnMeta) -> Self {
        let column = GroupedColumn {
            field: field.clone(),
            ty: meta.ty,
            may_be_null: meta.stats.null_count > 0,
        };
        rows.shared().add(&column);
        Self { rows, column }
    }

    /// Another column of the group.
    pub(crate) fn other(&self, meta: &ColumnMeta) -> Option<Self> {
        let field = meta.nodes.field()?;
        let is_of_group =
            self.rows.range == meta.byte_range && self.rows.hash == meta.nodes.group_hash();
        is_of_group.then(|| Self::of(Arc::clone(&self.rows), field, meta))
    }

    /// Decodes a range of rows.
    pub(crate) fn decode(&self, rows: Range<usize>) -> Result<Column, ColumnarError> {
        let index = self.column.field.index;
        let others = {
            let mut shared = self.rows.shared();
            if let Some(column) = shared.take(&rows, index) {
                return Ok(column);
            }
            shared.others(&rows, index)
        };
        if others.is_empty()
            && let Some(column) = self.decode_alone(&rows)
        {
            return column;
        }
        let mut own = Gathered::of(&self.column.field);
        let others_of = |other: &GroupedColumn| Gathered::of(&other.field);
        let mut of_others: Vec<Gathered> = others.iter().map(others_of).collect();
        for start in rows.clone().step_by(ROWS_AT_A_TIME) {
            let end = (start + ROWS_AT_A_TIME).min(rows.end);
            let some = bytes_of(self.rows.chunk.decode_range(start..end)?)?;
            own.add(&self.column.field, &some)?;
            for (values, other) in of_others.iter_mut().zip(&others) {
                values.add(&other.field, &some)?;
            }
        }
        let own = own.finish(&self.column)?;
        let mut decoded = Vec::with_capacity(others.len());
        for (values, other) in of_others.into_iter().zip(&others) {
            decoded.push((other.field.index, values.finish(other)?));
        }
        let mut shared = self.rows.shared();
        if shared.range == rows {
            shared.decoded.append(&mut decoded);
        }
        Ok(own)
    }

    /// Decodes a range of rows without what they have of other columns, if each row has this
    /// column's value in the same place and the rows are letters.
    fn decode_alone(&self, rows: &Range<usize>) -> Option<Result<Column, ColumnarError>> {
        let (place, len) = self.column.field.constant_place()?;
        let Form::Letters(letters) = self.rows.chunk.form() else {
            return None;
        };
        if letters.string_len() != len || place.is_empty() {
            return None;
        }
        let own = letters.decode_characters(rows.clone(), place);
        Some(own.and_then(|own| self.column.of_own(own)))
    }

    /// Decodes the rows with these ascending indexes.
    pub(crate) fn take(&self, rows: &[u32]) -> Result<Column, ColumnarError> {
        let mut own = Gathered::of(&self.column.field);
        for some in rows.chunks(ROWS_AT_A_TIME) {
            let some = bytes_of(self.rows.chunk.decode_selection(some)?)?;
            own.add(&self.column.field, &some)?;
        }
        own.finish(&self.column)
    }
}

impl Rows {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn field_of(meta: &ColumnMeta) -> Result<&Field, ColumnarError> {
    meta.nodes.field().ok_or_else(is_none_of_its_group)
}

fn is_none_of_its_group() -> ColumnarError {
    ColumnarError::corrupt("a column is none of its group")
}

/// The rows of a group.
fn bytes_of(rows: Column) -> Result<BinaryViewArray, ColumnarError> {
    match rows {
        Column::Bytes(rows) => Ok(rows),
        _ => Err(ColumnarError::corrupt("rows of a group are no strings")),
    }
}
