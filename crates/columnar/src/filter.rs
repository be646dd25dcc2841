//! Evaluating a predicate on the rows of a chunk.

use std::ops::Range;

use arrow_buffer::BooleanBuffer;

use crate::chunk::{Chunk, Form};
use crate::column::Column;
use crate::error::ColumnarError;
use crate::predicate::Predicate;

/// See [`Chunk::filter`], which checked the range.
pub(crate) fn filter(
    chunk: &Chunk,
    predicate: &Predicate,
    rows: Range<usize>,
) -> Result<BooleanBuffer, ColumnarError> {
    if predicate.names_image() {
        return Err(ColumnarError::NotComparable);
    }
    if matches!(chunk.form(), Form::AllNull) {
        let is_null = matches!(predicate, Predicate::IsNull);
        return Ok(BooleanBuffer::collect_bool(rows.len(), |_| is_null));
    }
    on_decoded(&chunk.decode_range(rows)?, chunk, predicate)
}

/// The plain form: decode, then ask row by row.
fn on_decoded(
    column: &Column,
    chunk: &Chunk,
    predicate: &Predicate,
) -> Result<BooleanBuffer, ColumnarError> {
    let mut undecided = false;
    let matches = BooleanBuffer::collect_bool(column.len(), |row| {
        predicate.matches(column.value(row)).unwrap_or_else(|| {
            undecided = true;
            false
        })
    });
    match column {
        _ if !undecided => Ok(matches),
        Column::Numeric(_) => Err(ColumnarError::NotComparable),
        _ => Err(ColumnarError::TypeMismatch {
            ty: chunk.column_type(),
        }),
    }
}
