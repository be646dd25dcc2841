//! Comparisons of text and bytes, byte by byte.
//!
//! The views of Arrow's arrays (16 bytes: a length, then up to 12 bytes of value, or the first 4
//! and an offset) decide most equalities without an access to the value.

use arrow_array::types::ByteViewType;
use arrow_array::{Array, FixedSizeBinaryArray, GenericByteViewArray, StringViewArray};
use arrow_buffer::BooleanBuffer;
use howdah_columnar::ColumnType::{Bytes, Fixed, Text};
use howdah_columnar::{Column, CompareOp, Value};

use super::Function;
use super::compare::{comparisons, with_constant};
use super::kernel::{Operand, commuted, mismatch};
use super::loops::bits_of;
use crate::error::VectorError;

const DETERMINISTIC: &str = "under a deterministic collation";
const BYTEWISE: &str = "under a collation that compares bytes, such as C";

const fn text(prosrc: &'static str, op: CompareOp, condition: &'static str) -> Function {
    super::compare::entry(prosrc, &[Text, Text], op, strings, true).exact_where(condition)
}

pub(super) static FUNCTIONS: &[&[Function]] = &[
    &[
        text("texteq", CompareOp::Eq, DETERMINISTIC),
        text("textne", CompareOp::Ne, DETERMINISTIC),
        text("text_lt", CompareOp::Lt, BYTEWISE),
        text("text_le", CompareOp::Le, BYTEWISE),
        text("text_gt", CompareOp::Gt, BYTEWISE),
        text("text_ge", CompareOp::Ge, BYTEWISE),
    ],
    comparisons!("bytea", &[Bytes, Bytes], strings),
    comparisons!("uuid_", &[Fixed { len: 16 }, Fixed { len: 16 }], strings),
];

/// The longest value that lies within its view.
const INLINE_BYTES: usize = 12;

fn strings(
    op: CompareOp,
    left: Operand<'_>,
    right: Operand<'_>,
) -> Result<BooleanBuffer, VectorError> {
    match (left, right) {
        (Operand::Rows(rows), Operand::Same(constant)) => with_bytes(op, rows, bytes_of(constant)?),
        (Operand::Same(constant), Operand::Rows(rows)) => {
            with_bytes(commuted(op), rows, bytes_of(constant)?)
        }
        (Operand::Rows(a), Operand::Rows(b)) if a.len() == b.len() => match (a, b) {
            (Column::Text(a), Column::Text(b)) => Ok(views(op, a, b)),
            (Column::Bytes(a), Column::Bytes(b)) => Ok(views(op, a, b)),
            (Column::Fixed(a), Column::Fixed(b)) => Ok(fixed(op, a, b)),
            _ => Err(mismatch()),
        },
        _ => Err(mismatch()),
    }
}

fn bytes_of(value: Value<'_>) -> Result<&[u8], VectorError> {
    match value {
        Value::Text(text) => Ok(text.as_bytes()),
        Value::Bytes(bytes) => Ok(bytes),
        _ => Err(mismatch()),
    }
}

fn with_bytes(op: CompareOp, rows: &Column, constant: &[u8]) -> Result<BooleanBuffer, VectorError> {
    match rows {
        Column::Text(rows) => Ok(views_with(op, rows, constant)),
        Column::Bytes(rows) => Ok(views_with(op, rows, constant)),
        Column::Fixed(rows) => Ok(fixed_with(op, rows, constant)),
        _ => Err(mismatch()),
    }
}

/// The view of a value that lies within it.
pub(super) fn inline_view(value: &[u8]) -> Option<u128> {
    let mut view = [0; 16];
    view[..4].copy_from_slice(&u32::try_from(value.len()).ok()?.to_le_bytes());
    view[4..]
        .get_mut(..value.len())
        .filter(|room| room.len() <= INLINE_BYTES)?
        .copy_from_slice(value);
    Some(u128::from_le_bytes(view))
}

/// The low half of a view: the length and the first four bytes.
fn head(value: &[u8]) -> u64 {
    let mut head = [0; 8];
    head[..4].copy_from_slice(&(value.len() as u32).to_le_bytes());
    for (to, &byte) in head[4..].iter_mut().zip(value) {
        *to = byte;
    }
    u64::from_le_bytes(head)
}

fn views_with<T: ByteViewType>(
    op: CompareOp,
    rows: &GenericByteViewArray<T>,
    constant: &[u8],
) -> BooleanBuffer {
    let found = match inline_view(constant) {
        _ if !matches!(op, CompareOp::Eq | CompareOp::Ne) => {
            let order = |row: usize| -> bool {
                let value: &[u8] = rows.value(row).as_ref();
                op.holds(value.cmp(constant))
            };
            return BooleanBuffer::collect_bool(rows.len(), order);
        }
        Some(view) => bits_of(rows.views(), |row| row == view),
        None => {
            let head = head(constant);
            let views = rows.views();
            BooleanBuffer::collect_bool(rows.len(), |row| {
                views[row] as u64 == head && AsRef::<[u8]>::as_ref(rows.value(row)) == constant
            })
        }
    };
    match op {
        CompareOp::Ne => !&found,
        _ => found,
    }
}

/// Which texts are this one.
pub(super) fn equal(rows: &StringViewArray, constant: &[u8]) -> BooleanBuffer {
    views_with(CompareOp::Eq, rows, constant)
}

fn views<T: ByteViewType>(
    op: CompareOp,
    left: &GenericByteViewArray<T>,
    right: &GenericByteViewArray<T>,
) -> BooleanBuffer {
    let (left_views, right_views) = (left.views(), right.views());
    let values =
        |row: usize| -> (&[u8], &[u8]) { (left.value(row).as_ref(), right.value(row).as_ref()) };
    let is_equal = |row: usize| {
        let (a, b) = (left_views[row], right_views[row]);
        if a as u32 as usize <= INLINE_BYTES {
            return a == b;
        }
        let (left, right) = values(row);
        a as u64 == b as u64 && left == right
    };
    match op {
        CompareOp::Eq => BooleanBuffer::collect_bool(left.len(), is_equal),
        CompareOp::Ne => BooleanBuffer::collect_bool(left.len(), |row| !is_equal(row)),
        _ => BooleanBuffer::collect_bool(left.len(), |row| {
            let (left, right) = values(row);
            op.holds(left.cmp(right))
        }),
    }
}

/// 16 bytes compare as one big-endian integer.
fn fixed_with(op: CompareOp, rows: &FixedSizeBinaryArray, constant: &[u8]) -> BooleanBuffer {
    if let (Ok(constant), 16) = (<[u8; 16]>::try_from(constant), rows.value_length()) {
        let (values, _) = rows.value_data().as_chunks::<16>();
        let constant = u128::from_be_bytes(constant);
        return match op {
            CompareOp::Eq | CompareOp::Ne => with_constant(op, values, constant.to_be_bytes()),
            _ => bits_of(values, |value: [u8; 16]| {
                op.holds(u128::from_be_bytes(value).cmp(&constant))
            }),
        };
    }
    BooleanBuffer::collect_bool(rows.len(), |row| op.holds(rows.value(row).cmp(constant)))
}

fn fixed(
    op: CompareOp,
    left: &FixedSizeBinaryArray,
    right: &FixedSizeBinaryArray,
) -> BooleanBuffer {
    BooleanBuffer::collect_bool(left.len(), |row| {
        op.holds(left.value(row).cmp(right.value(row)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_arrows() {
        for text in ["", "a", "abcdefghijkl", "abcdefghijklm", "ab\0"] {
            let array = StringViewArray::from(vec![text]);
            let view = array.views()[0];
            assert_eq!(view as u64, head(text.as_bytes()));
            assert_eq!(
                inline_view(text.as_bytes()),
                (text.len() <= INLINE_BYTES).then_some(view)
            );
        }
    }
}
