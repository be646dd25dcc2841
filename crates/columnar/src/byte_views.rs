//! Arrays of strings made of views, as Arrow has them, of which rows may be null.

use std::ops::Range;

use arrow_array::BinaryViewArray;
use arrow_array::builder::make_view;
use arrow_buffer::{Buffer as ArrowBuffer, NullBuffer};
use vortex_array::ArrayRef;

use crate::buffers::bools;
use crate::codec;
use crate::error::ColumnarError;

/// The longest string that lies within its view.
pub(crate) const INLINE_BYTES: usize = 12;

/// The view of a string of so many bytes, at most [`INLINE_BYTES`], the first of those.
#[inline]
pub(crate) fn view_of_short(bytes: [u8; 16], len: u32) -> u128 {
    let own = !(u128::MAX << (u8::BITS * len));
    (u128::from_le_bytes(bytes) & own) << 32 | u128::from(len)
}

/// The view of a value that begins there in the first buffer: most are too long to lie within it.
#[inline]
pub(crate) fn view_of(value: &[u8], start: u32) -> u128 {
    match value.first_chunk::<4>() {
        Some(&head) if value.len() > INLINE_BYTES => {
            let head = u128::from(u32::from_le_bytes(head));
            value.len() as u128 | head << 32 | u128::from(start) << 96
        }
        _ => make_view(value, 0, start),
    }
}

/// Which rows of a range are valid by an array that tells it for each row; `None`: all.
pub(crate) fn nulls_of_range(
    validity: Option<&ArrayRef>,
    rows: Range<usize>,
) -> Result<Option<NullBuffer>, ColumnarError> {
    let Some(validity) = validity else {
        return Ok(None);
    };
    let valid = codec::guarded(|| validity.slice(rows))?;
    let (bits, _) = codec::guarded(|| bools(valid, &mut codec::context()))?;
    let nulls = NullBuffer::new(bits);
    Ok((nulls.null_count() > 0).then_some(nulls))
}

/// The array of these views into `bytes`.
pub(crate) fn built(
    views: Vec<u128>,
    bytes: Vec<u8>,
    nulls: Option<NullBuffer>,
) -> Result<BinaryViewArray, ColumnarError> {
    BinaryViewArray::try_new(views.into(), vec![ArrowBuffer::from_vec(bytes)], nulls)
        .map_err(|error| ColumnarError::corrupt(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_arrows() {
        for len in [0, 1, 3, 4, 12, 13, 14, 600] {
            let value: Vec<u8> = (0..len).map(|at| at as u8 ^ 0x5A).collect();
            assert_eq!(view_of(&value, 77), make_view(&value, 0, 77), "{len}");
            if len <= INLINE_BYTES as u32 {
                let mut more = [0xA5; 16];
                more[..value.len()].copy_from_slice(&value);
                assert_eq!(view_of_short(more, len), make_view(&value, 0, 77), "{len}");
            }
        }
    }
}
