//! Flat arrays of Vortex as Arrow's buffers.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, Buffer as ArrowBuffer, NullBuffer, ScalarBuffer};
use vortex_array::arrays::bool::BoolArrayExt;
use vortex_array::arrays::primitive::PrimitiveArrayExt;
use vortex_array::arrays::{BoolArray, PrimitiveArray};
use vortex_array::dtype::{NativePType, PType};
use vortex_array::validity::Validity;
use vortex_array::{ArrayRef, ExecutionCtx, match_each_integer_ptype};
use vortex_error::{VortexResult, vortex_bail, vortex_ensure, vortex_err};

/// Views, the buffers that they point into, and which rows are valid.
pub(crate) type Views = (ScalarBuffer<u128>, Vec<ArrowBuffer>, Option<NullBuffer>);

/// The validity of a decoded array as Arrow's; `None` when no row is null.
pub(crate) fn nulls_of(
    validity: Validity,
    row_count: usize,
    ctx: &mut ExecutionCtx,
) -> VortexResult<Option<NullBuffer>> {
    Ok(match validity {
        Validity::NonNullable | Validity::AllValid => None,
        Validity::AllInvalid => Some(NullBuffer::new_null(row_count)),
        Validity::Array(array) => {
            let mask = array.execute::<BoolArray>(ctx)?;
            let nulls = NullBuffer::new(BooleanBuffer::from(mask.into_bit_buffer()));
            (nulls.null_count() > 0).then_some(nulls)
        }
    })
}

/// Decodes booleans.
pub(crate) fn bools(
    array: ArrayRef,
    ctx: &mut ExecutionCtx,
) -> VortexResult<(BooleanBuffer, Option<NullBuffer>)> {
    let row_count = array.len();
    let bools = array.execute::<BoolArray>(ctx)?;
    let nulls = nulls_of(BoolArrayExt::validity(&bools), row_count, ctx)?;
    Ok((BooleanBuffer::from(bools.into_bit_buffer()), nulls))
}

/// Decodes numbers of one native type.
pub(crate) fn numbers<T: NativePType + arrow_buffer::ArrowNativeType>(
    array: ArrayRef,
    ctx: &mut ExecutionCtx,
) -> VortexResult<(ScalarBuffer<T>, Option<NullBuffer>)> {
    let row_count = array.len();
    let numbers = array.execute::<PrimitiveArray>(ctx)?;
    let nulls = nulls_of(PrimitiveArrayExt::validity(&numbers), row_count, ctx)?;
    Ok((numbers.into_buffer::<T>().into_arrow_scalar_buffer(), nulls))
}

/// Decodes numbers of any width that are not negative: codes, lengths, ends.
pub(crate) fn indexes(
    array: ArrayRef,
    ctx: &mut ExecutionCtx,
) -> VortexResult<(ScalarBuffer<u32>, Option<NullBuffer>)> {
    let row_count = array.len();
    let numbers = array.execute::<PrimitiveArray>(ctx)?;
    let nulls = nulls_of(PrimitiveArrayExt::validity(&numbers), row_count, ctx)?;
    let ptype = PrimitiveArrayExt::ptype(&numbers);
    let indexes = match ptype {
        PType::U32 => numbers.into_buffer::<u32>().into_arrow_scalar_buffer(),
        _ if ptype.is_int() => {
            match_each_integer_ptype!(ptype, |P| { unsigned(&numbers.into_buffer::<P>())?.into() })
        }
        _ => vortex_bail!("indexes of type {ptype}"),
    };
    Ok((indexes, nulls))
}

fn unsigned<T: Copy + TryInto<u32>>(numbers: &[T]) -> VortexResult<Vec<u32>> {
    let numbers = numbers.iter().map(|&number| number.try_into());
    let numbers: Result<Vec<u32>, _> = numbers.collect();
    numbers.map_err(|_| vortex_err!("an index is negative or too large"))
}

/// What rows lie between by an array of the end of each, with the first one's beginning before
/// them; at most so many are there.
pub(crate) fn ends_of(
    ends: &ArrayRef,
    count: usize,
    ctx: &mut ExecutionCtx,
) -> VortexResult<Range<usize>> {
    let mut end = |row: usize| {
        let (end, _) = indexes(ends.slice(row..row + 1)?, ctx)?;
        VortexResult::Ok(end[0] as usize)
    };
    vortex_ensure!(!ends.is_empty(), "the ends of rows are missing");
    let all = end(0)?..end(ends.len() - 1)?;
    vortex_ensure!(
        all.start <= all.end && all.end <= count,
        "rows lie outside of their node"
    );
    Ok(all)
}
