//! Positions that arrays are searched by: rows of exceptions, ends of runs.
//!
//! Decoders, slices and readers of single rows go through them in different ways, and find
//! different values where they do not ascend. So they are checked when an array is rebuilt.

use arrow_buffer::{NullBuffer, ScalarBuffer};
use vortex_alp::{ALP, ALPArrayExt, ALPRD, ALPRDArrayExt};
use vortex_array::ArrayRef;
use vortex_array::patches::{PATCH_CHUNK_SIZE, Patches};
use vortex_error::{VortexResult, vortex_ensure};
use vortex_fastlanes::{BitPacked, BitPackedArrayExt};
use vortex_runend::{RunEnd, RunEndArraySlotsExt};
use vortex_sparse::{Sparse, SparseExt};

use crate::buffers::{indexes, nulls_of};
use crate::codec;

/// Checks what an array is searched by, if it is; not that of arrays within it.
pub(crate) fn check(array: &ArrayRef) -> VortexResult<()> {
    if let Some(runs) = array.as_opt::<RunEnd>() {
        let (ends, _) = indexes(runs.ends().clone(), &mut codec::context())?;
        vortex_ensure!(
            ends.is_sorted_by(|a, b| a < b),
            "ends of runs do not ascend"
        );
        return Ok(());
    }
    let Some(exceptions) = exceptions_of(array) else {
        return Ok(());
    };
    let rows = check_exceptions(&exceptions)?;
    if array.is::<BitPacked>() || array.is::<ALP>() {
        // Selections would take the value of such a row, and ranges of rows its null.
        let nulls = nulls_of(array.validity()?, array.len(), &mut codec::context())?;
        let is_null = |&row: &u32| {
            let is_null = |nulls: &NullBuffer| nulls.is_null(row as usize - exceptions.offset());
            nulls.as_ref().is_some_and(is_null)
        };
        vortex_ensure!(
            !rows.iter().any(is_null),
            "a row that is null is an exception"
        );
    }
    Ok(())
}

fn exceptions_of(array: &ArrayRef) -> Option<Patches> {
    if let Some(packed) = array.as_opt::<BitPacked>() {
        packed.patches()
    } else if let Some(sparse) = array.as_opt::<Sparse>() {
        Some(sparse.patches())
    } else if let Some(decimals) = array.as_opt::<ALP>() {
        decimals.patches()
    } else {
        array.as_opt::<ALPRD>()?.left_parts_patches()
    }
}

/// Checks rows of exceptions, and returns them.
fn check_exceptions(exceptions: &Patches) -> VortexResult<ScalarBuffer<u32>> {
    let mut ctx = codec::context();
    let (rows, _) = indexes(exceptions.indices().clone(), &mut ctx)?;
    let place = |bound: usize| rows.partition_point(|&row| (row as usize) < bound);
    let first = exceptions.offset();
    vortex_ensure!(
        rows.is_sorted_by(|a, b| a < b)
            && place(first) == 0
            && place(first.saturating_add(exceptions.array_len())) == rows.len(),
        "rows of exceptions do not ascend within their node"
    );
    let Some(offsets) = exceptions.chunk_offsets() else {
        return Ok(rows);
    };
    // Where the exceptions of each 1,024 rows begin.
    let (offsets, _) = indexes(offsets.clone(), &mut ctx)?;
    let base = offsets.first().copied().unwrap_or_default();
    let block = first / PATCH_CHUNK_SIZE;
    let begins = |(nth, offset): (usize, &u32)| {
        let expected = place((block + nth).saturating_mul(PATCH_CHUNK_SIZE));
        offset.checked_sub(base) == Some(expected as u32)
    };
    vortex_ensure!(
        offsets.iter().enumerate().skip(1).all(begins),
        "blocks of exceptions do not begin with their rows"
    );
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use vortex_array::IntoArray;
    use vortex_buffer::Buffer;

    use super::*;

    fn exceptions(rows: &[u32], offsets: &[u64]) -> Patches {
        let values: Buffer<u32> = rows.iter().copied().collect();
        let rows: Buffer<u32> = rows.iter().copied().collect();
        let offsets: Buffer<u64> = offsets.iter().copied().collect();
        let ctx = &mut codec::context();
        let (rows, offsets) = (rows.into_array(), offsets.into_array());
        Patches::new(3_000, 0, rows, values.into_array(), Some(offsets), ctx).unwrap()
    }

    #[test]
    fn rows_of_exceptions_are_found_by_their_block() {
        let rows = [7, 1_023, 1_024, 2_999];
        assert!(check_exceptions(&exceptions(&rows, &[0, 2, 3])).is_ok());
        for offsets in [[0, 1, 3], [0, 3, 3], [0, 2, 2], [1, 2, 3]] {
            let wrong = exceptions(&rows, &offsets);
            assert!(check_exceptions(&wrong).is_err(), "{offsets:?}");
        }
        let twice = exceptions(&[7, 7, 1_024, 2_999], &[0, 2, 3]);
        assert!(check_exceptions(&twice).is_err());
    }
}
