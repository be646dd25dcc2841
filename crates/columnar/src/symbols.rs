//! FSST: strings as codes of symbols of up to 8 bytes. Their rows, decoded end to end.

use vortex_array::arrays::varbin::VarBinArrayExt;
use vortex_array::{ArrayView, ExecutionCtx};
use vortex_error::{VortexResult, vortex_ensure};
use vortex_fsst::{FSST, FSSTArrayExt, FSSTArraySlotsExt};

use crate::buffers::{ends_of, indexes, nulls_of};
use crate::joined::{Joined, MOST_BYTES};

/// The longest symbol, in bytes.
const SYMBOL_BYTES: usize = 8;

/// The most codes that are decoded at once: the decoder takes memory for eight bytes each, which is
/// given back afterwards.
const MOST_CODES: usize = 1 << 20;

/// The rows of an array, if they have no more than [`MOST_BYTES`] and [`MOST_CODES`]. Text is not
/// validated.
pub(crate) fn strings(
    array: &ArrayView<'_, FSST>,
    ctx: &mut ExecutionCtx,
) -> VortexResult<Option<Joined>> {
    let row_count = array.len();
    let nulls = nulls_of(array.codes().varbin_validity(), row_count, ctx)?;
    let (lengths, _) = indexes(array.uncompressed_lengths().clone(), ctx)?;
    let total = lengths.iter().map(|&len| u64::from(len)).sum::<u64>();
    let of_rows = ends_of(array.codes_offsets(), array.codes_bytes().len(), ctx)?;
    let codes = &array.codes_bytes()[of_rows];
    vortex_ensure!(
        total <= (codes.len() * SYMBOL_BYTES) as u64,
        "strings of {total} bytes are impossible for {} codes",
        codes.len()
    );
    if total > MOST_BYTES || codes.len() > MOST_CODES {
        return Ok(None);
    }
    let mut bytes = array.decompressor().decompress(codes);
    vortex_ensure!(
        bytes.len() as u64 == total,
        "strings of {total} bytes have symbols of {}",
        bytes.len()
    );
    bytes.shrink_to_fit();
    Ok(Some(Joined {
        bytes,
        lengths,
        nulls,
    }))
}

#[cfg(test)]
mod tests {
    use arrow_array::BinaryViewArray;
    use vortex_array::arrays::VarBinViewArray;
    use vortex_array::dtype::{DType, Nullability};
    use vortex_array::{ArrayRef, IntoArray};
    use vortex_fsst::{fsst_compress, fsst_train_compressor};

    use super::*;
    use crate::codec;

    fn decoded(array: &ArrayRef) -> Vec<Option<Vec<u8>>> {
        let symbols = array.as_opt::<FSST>().unwrap();
        let strings = strings(&symbols, &mut codec::context()).unwrap().unwrap();
        let (views, buffers, nulls) = strings.into_views();
        let rows = BinaryViewArray::try_new(views, buffers, nulls).unwrap();
        rows.iter().map(|row| row.map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn rows_are_as_they_were_written() {
        let rows: Vec<Option<Vec<u8>>> = (0..2_000_usize)
            .map(|i| {
                let text = format!("{} \u{1F980} of street {}", i * 7919, i % 50);
                (i % 7 != 0).then(|| text.into_bytes().into_iter().cycle().take(i % 61).collect())
            })
            .collect();
        let views = VarBinViewArray::from_iter(
            rows.iter().map(Option::as_deref),
            DType::Binary(Nullability::Nullable),
        );
        let (views, ctx) = (views.into_array(), &mut codec::context());
        let compressor = fsst_train_compressor(&views, ctx).unwrap();
        let all = fsst_compress(&views, &compressor, ctx)
            .unwrap()
            .into_array();
        assert_eq!(decoded(&all), rows);
        for range in [0..1, 0..1_000, 17..18, 700..1_950, 1_999..2_000] {
            let some = all.slice(range.clone()).unwrap();
            if some.is::<FSST>() {
                assert_eq!(decoded(&some), rows[range]);
            }
        }
    }
}
