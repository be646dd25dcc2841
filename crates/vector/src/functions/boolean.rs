//! Comparisons of booleans, 64 at a time.

use arrow_buffer::BooleanBuffer;
use howdah_columnar::ColumnType::Bool;
use howdah_columnar::{Column, CompareOp, Value};

use super::Function;
use super::compare::comparisons;
use super::kernel::{Operand, mismatch, row_count};
use crate::error::VectorError;

pub(super) static FUNCTIONS: &[&[Function]] = &[comparisons!("bool", &[Bool, Bool], booleans)];

fn booleans(
    op: CompareOp,
    left: Operand<'_>,
    right: Operand<'_>,
) -> Result<BooleanBuffer, VectorError> {
    let row_count = row_count(left, right);
    let (left, right) = (bits(left, row_count)?, bits(right, row_count)?);
    Ok(match op {
        CompareOp::Eq => !&(&left ^ &right),
        CompareOp::Ne => &left ^ &right,
        CompareOp::Lt => &!&left & &right,
        CompareOp::Le => &!&left | &right,
        CompareOp::Gt => &left & &!&right,
        CompareOp::Ge => &left | &!&right,
    })
}

fn bits(operand: Operand<'_>, row_count: usize) -> Result<BooleanBuffer, VectorError> {
    match operand {
        Operand::Rows(Column::Bool(array)) => Ok(array.values().clone()),
        Operand::Same(Value::Bool(true)) => Ok(BooleanBuffer::new_set(row_count)),
        Operand::Same(Value::Bool(false)) => Ok(BooleanBuffer::new_unset(row_count)),
        _ => Err(mismatch()),
    }
}
