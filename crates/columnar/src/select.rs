//! Takes single rows out of an encoded array.

use std::ops::Range;

use vortex_array::arrays::{ChunkedArray, PrimitiveArray};
use vortex_array::validity::Validity;
use vortex_array::{ArrayRef, IntoArray};
use vortex_buffer::Buffer;
use vortex_error::VortexResult;
use vortex_pco::Pco;

use crate::words;

/// Selected rows at most this far apart are decoded together where single rows are expensive.
const CLUSTER_GAP: u32 = 512;

/// The rows with these ascending indexes, lazily.
///
/// Most encodings find single rows. Those that compress frames would decode the whole array,
/// so only the slices around the rows are taken from them.
pub(crate) fn take(array: &ArrayRef, rows: &[u32]) -> VortexResult<ArrayRef> {
    if let Some(words) = words::take(array, rows)? {
        return Ok(words);
    }
    let clusters = clusters(rows);
    if !array.is::<Pco>() || clusters.len() < 2 && rows.len() > 1 {
        return array.take(indexes(rows.iter().copied()));
    }
    let pieces = clusters
        .into_iter()
        .map(|cluster| {
            let rows = &rows[cluster];
            let (first, last) = (rows[0], rows[rows.len() - 1]);
            array
                .slice(first as usize..last as usize + 1)?
                .take(indexes(rows.iter().map(|row| row - first)))
        })
        .collect::<VortexResult<Vec<ArrayRef>>>()?;
    Ok(ChunkedArray::try_new(pieces, array.dtype().clone())?.into_array())
}

fn indexes(rows: impl Iterator<Item = u32>) -> ArrayRef {
    PrimitiveArray::new(rows.collect::<Buffer<u32>>(), Validity::NonNullable).into_array()
}

/// Ranges of positions in `rows` whose rows lie close together.
fn clusters(rows: &[u32]) -> Vec<Range<usize>> {
    let mut clusters = Vec::new();
    let mut start = 0;
    for at in 1..=rows.len() {
        if at == rows.len() || rows[at] - rows[at - 1] > CLUSTER_GAP {
            clusters.push(start..at);
            start = at;
        }
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_far_apart_are_in_different_clusters() {
        assert_eq!(
            clusters(&[1, 2, 500, 1_012, 1_525, 9_000]),
            [0..4, 4..5, 5..6]
        );
        assert_eq!(clusters(&[7]).len(), 1);
    }
}
