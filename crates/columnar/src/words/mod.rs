//! OnPair: strings as codes of words of up to 16 bytes that they share.
//!
//! *Byte strings, too.* Documents, arrays, text search vectors and ranges repeat words as text
//! does, and Vortex's own scheme looks at text only. Against FSST they are a fifth to two thirds
//! smaller, and read as fast; see decision 40.
//!
//! *Slices of their own codes.* A slice of Vortex's keeps all codes of its chunk, and unpacks them
//! all when it is decoded: a chunk that is read slice by slice would take the square of its time.
//! A selection of Vortex's decodes all rows first.

mod decode;

use std::ops::Range;

use arrow_buffer::ScalarBuffer;
use vortex_array::{ArrayId, ArrayRef, ArrayView, Canonical, ExecutionCtx, IntoArray};
use vortex_btrblocks::schemes::string::OnPairScheme;
use vortex_btrblocks::{ArrayAndStats, CascadingCompressor, CompressorContext, Scheme};
use vortex_buffer::Buffer;
use vortex_compressor::scheme::CompressionEstimate;
use vortex_error::{VortexResult, vortex_ensure, vortex_err};
use vortex_fastlanes::{BitPacked, BitPackedArrayExt};
use vortex_onpair::{OnPair, OnPairArrayExt, OnPairArraySlotsExt};

use crate::access::packed::BLOCK;
use crate::buffers::indexes;
use crate::codec;
use crate::packed_numbers::Blocks;

pub(crate) use decode::strings;

/// OnPair where the values are bytes, see [`OnPairScheme`].
#[derive(Copy, Clone, Debug)]
pub(crate) struct ByteWords;

impl Scheme for ByteWords {
    fn scheme_name(&self) -> &'static str {
        "howdah.binary.onpair"
    }

    fn matches(&self, canonical: &Canonical) -> bool {
        canonical.dtype().is_binary()
    }

    fn produced_encodings(&self) -> Vec<ArrayId> {
        OnPairScheme.produced_encodings()
    }

    fn num_children(&self) -> usize {
        OnPairScheme.num_children()
    }

    fn expected_compression_ratio(
        &self,
        data: &ArrayAndStats,
        context: CompressorContext,
        execution: &mut ExecutionCtx,
    ) -> CompressionEstimate {
        OnPairScheme.expected_compression_ratio(data, context, execution)
    }

    fn compress(
        &self,
        compressor: &CascadingCompressor,
        data: &ArrayAndStats,
        context: CompressorContext,
        execution: &mut ExecutionCtx,
    ) -> VortexResult<ArrayRef> {
        OnPairScheme.compress(compressor, data, context, execution)
    }
}

/// A lazy slice of an array. Of OnPair it has the codes of its own rows only.
pub(crate) fn slice(array: &ArrayRef, rows: Range<usize>) -> VortexResult<ArrayRef> {
    let Some(all) = array.as_opt::<OnPair>() else {
        return array.slice(rows);
    };
    if rows.len() == array.len() {
        return Ok(array.clone());
    }
    let offsets = code_offsets(&all, rows.clone())?;
    let codes = all.codes().slice(codes_of(&offsets, 0..rows.len()))?;
    let own: Buffer<u32> = offsets.iter().map(|offset| offset - offsets[0]).collect();
    Ok(OnPair::try_new_with_data(
        array.dtype().clone(),
        all.data().clone(),
        all.dict_offsets().clone(),
        codes,
        own.into_array(),
        all.uncompressed_lengths().slice(rows.clone())?,
        all.array_validity().slice(rows)?,
    )?
    .into_array())
}

/// The rows of an OnPair array with these ascending indexes, and their codes only; `None` of other
/// arrays.
pub(crate) fn take(array: &ArrayRef, rows: &[u32]) -> VortexResult<Option<ArrayRef>> {
    let (Some(all), Some((&first, &last))) =
        (array.as_opt::<OnPair>(), rows.first().zip(rows.last()))
    else {
        return Ok(None);
    };
    let offsets = code_offsets(&all, first as usize..last as usize + 1)?;
    let of_row = |row: u32| {
        let at = (row - first) as usize;
        codes_of(&offsets, at..at + 1)
    };
    let (mut codes, mut own) = (Vec::<u16>::new(), vec![0u32]);
    match Blocks::of_array(all.codes(), size_of::<u16>()) {
        Ok(Some(blocks)) if !has_exceptions(all.codes()) => {
            let (mut block, mut words) = (usize::MAX, [0; BLOCK]);
            for &row in rows {
                let Range { start, end } = of_row(row);
                let mut at = start;
                while at < end {
                    if at / BLOCK != block {
                        block = at / BLOCK;
                        blocks.unpack(block, &mut words);
                    }
                    let stop = end.min((block + 1) * BLOCK);
                    let some = &words[at % BLOCK..][..stop - at];
                    codes.extend(some.iter().map(|&word| word as u16));
                    at = stop;
                }
                own.push(codes.len() as u32);
            }
        }
        _ => {
            let all = all
                .codes()
                .slice(codes_of(&offsets, 0..offsets.len() - 1))?;
            let (all, _) = indexes(all, &mut codec::context())?;
            for &row in rows {
                let Range { start, end } = of_row(row);
                let base = offsets[0] as usize;
                let some = all[start - base..end - base].iter();
                let some = some.map(|&code| u16::try_from(code));
                codes.extend(
                    some.collect::<Result<Vec<u16>, _>>()
                        .map_err(|_| vortex_err!("a code stands for no word"))?,
                );
                own.push(codes.len() as u32);
            }
        }
    }
    let rows = rows.iter().copied().collect::<Buffer<u32>>().into_array();
    let taken = OnPair::try_new_with_data(
        array.dtype().clone(),
        all.data().clone(),
        all.dict_offsets().clone(),
        Buffer::from(codes).into_array(),
        Buffer::from(own).into_array(),
        all.uncompressed_lengths().take(rows.clone())?,
        all.array_validity().take(&rows)?,
    )?;
    Ok(Some(taken.into_array()))
}

/// Where the codes of some rows begin, and where those of the last end; they rise, and there are as
/// many codes.
fn code_offsets(
    all: &ArrayView<'_, OnPair>,
    rows: Range<usize>,
) -> VortexResult<ScalarBuffer<u32>> {
    let offsets = all.codes_offsets().slice(rows.start..rows.end + 1)?;
    let (offsets, _) = indexes(offsets, &mut codec::context())?;
    vortex_ensure!(
        offsets.is_sorted()
            && offsets
                .last()
                .is_some_and(|&end| end as usize <= all.codes().len()),
        "the codes of a row lie outside of its node"
    );
    Ok(offsets)
}

/// The codes of rows, counted from the first one that `offsets` tell of.
fn codes_of(offsets: &[u32], rows: Range<usize>) -> Range<usize> {
    offsets[rows.start] as usize..offsets[rows.end] as usize
}

fn has_exceptions(codes: &ArrayRef) -> bool {
    codes
        .as_opt::<BitPacked>()
        .is_none_or(|packed| packed.patches().is_some())
}
