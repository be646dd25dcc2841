//! Flat arrays of Vortex as Arrow's buffers.

use arrow_buffer::{BooleanBuffer, Buffer as ArrowBuffer, NullBuffer, ScalarBuffer};
use vortex_array::arrays::bool::BoolArrayExt;
use vortex_array::arrays::primitive::PrimitiveArrayExt;
use vortex_array::arrays::{BoolArray, PrimitiveArray};
use vortex_array::dtype::{NativePType, PType};
use vortex_array::validity::Validity;
use vortex_array::{ArrayRef, ExecutionCtx};
use vortex_error::VortexResult;

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

/// Decodes dictionary codes, of any width.
pub(crate) fn indexes(
    array: ArrayRef,
    ctx: &mut ExecutionCtx,
) -> VortexResult<(ScalarBuffer<u32>, Option<NullBuffer>)> {
    let row_count = array.len();
    let numbers = array.execute::<PrimitiveArray>(ctx)?;
    let nulls = nulls_of(PrimitiveArrayExt::validity(&numbers), row_count, ctx)?;
    let indexes: Vec<u32> = match PrimitiveArrayExt::ptype(&numbers) {
        PType::U8 => numbers
            .into_buffer::<u8>()
            .iter()
            .map(|&v| v.into())
            .collect(),
        PType::U16 => numbers
            .into_buffer::<u16>()
            .iter()
            .map(|&v| v.into())
            .collect(),
        PType::U32 => {
            let codes = numbers.into_buffer::<u32>().into_arrow_scalar_buffer();
            return Ok((codes, nulls));
        }
        ptype => vortex_error::vortex_bail!("dictionary codes of type {ptype}"),
    };
    Ok((indexes.into(), nulls))
}
