//! Recognizes packed numbers in the tree of a chunk.

use arrow_buffer::ArrowNativeType;
use vortex_alp::{
    ALP, ALPArrayExt, ALPArraySlotsExt, ALPFloat, ALPRD, ALPRDArrayExt, ALPRDArraySlotsExt,
    Exponents,
};
use vortex_array::arrays::PrimitiveArray;
use vortex_array::arrays::primitive::PrimitiveArrayExt;
use vortex_array::dtype::{NativePType, PType};
use vortex_array::patches::Patches;
use vortex_array::scalar::Scalar;
use vortex_array::{ArrayRef, ExecutionCtx};
use vortex_error::{VortexResult, vortex_bail};
use vortex_fastlanes::{
    BitPacked, BitPackedArrayExt, FoR, FoRArrayExt, FoRArraySlotsExt, FoRReferences,
};

use super::blocks::{Blocks, Codes, UPPER_WORDS};
use super::{Exceptions, MOST_BITS, PackedNumbers, Scale};
use crate::buffers::nulls_of;
use crate::codec;
use crate::error::ColumnarError;
use crate::types::ColumnType;

/// Rows of patches, and their bits.
type Patched = (Vec<u32>, Vec<u64>);

impl PackedNumbers {
    /// The numbers of an array; `None` if they are stored in another way, or if the order of codes
    /// may differ from that of values. Damage that makes the difference is found by the decoder,
    /// which then reads the array.
    pub(crate) fn of_array(
        array: &ArrayRef,
        ty: ColumnType,
    ) -> Result<Option<Self>, ColumnarError> {
        let width = match ty {
            ColumnType::Int16 => 2,
            ColumnType::Int32 | ColumnType::Float32 => 4,
            ColumnType::Int64 | ColumnType::Float64 => 8,
            _ => return Ok(None),
        };
        let is_float = matches!(ty, ColumnType::Float32 | ColumnType::Float64);
        match array.as_opt::<ALP>() {
            Some(alp) if is_float && is_known(alp.exponents(), ty) => {
                let scale = |base| Scale::Decimal {
                    base,
                    exponents: alp.exponents(),
                };
                Self::of_integers(array, ty, alp.encoded(), width, scale, alp.patches())
            }
            None if !is_float => Self::of_integers(
                array,
                ty,
                array,
                width,
                |base| Scale::Integer { base },
                None,
            ),
            None if ty == ColumnType::Float32 => Self::of_split(array),
            _ => Ok(None),
        }
    }

    /// Numbers that `scale` makes of integers.
    fn of_integers(
        array: &ArrayRef,
        ty: ColumnType,
        integers: &ArrayRef,
        width: usize,
        scale: impl Fn(i64) -> Scale,
        floats: Option<Patches>,
    ) -> Result<Option<Self>, ColumnarError> {
        let (base, integers) = match integers.as_opt::<FoR>() {
            None => (0, integers.clone()),
            Some(frame) => {
                let FoRReferences::Global(reference) = frame.references() else {
                    return Ok(None);
                };
                let Some(base) = base_of(reference) else {
                    return Ok(None);
                };
                (base, frame.encoded().clone())
            }
        };
        let Some(blocks) = Blocks::of_array(&integers, width)? else {
            return Ok(None);
        };
        if !is_within(base, blocks.bits, width) {
            return Ok(None);
        }
        let numbers = Self::new(array, ty, Codes::Packed(blocks), scale(base))?;
        let codes = integers
            .as_opt::<BitPacked>()
            .and_then(|packed| packed.patches());
        let (Some((mut rows, codes)), Some(floats)) =
            (numbers.patches(codes)?, numbers.patches(floats)?)
        else {
            return Ok(None);
        };
        let mut values: Vec<u64> = codes
            .into_iter()
            .map(|code| numbers.bits_of_wide_code(code))
            .collect();
        if !floats.0.is_empty() {
            // A float is stronger than the code below it.
            let mut all: Vec<(u32, u64)> = rows.into_iter().zip(values).collect();
            all.retain(|(row, _)| floats.0.binary_search(row).is_err());
            all.extend(floats.0.into_iter().zip(floats.1));
            all.sort_unstable_by_key(|&(row, _)| row);
            (rows, values) = all.into_iter().unzip();
        }
        Ok(Some(numbers.with(Exceptions { rows, values })))
    }

    /// Floats without a sign whose upper bits are words of a dictionary.
    fn of_split(array: &ArrayRef) -> Result<Option<Self>, ColumnarError> {
        let Some(split) = array.as_opt::<ALPRD>() else {
            return Ok(None);
        };
        let lower_bits = u32::from(split.right_bit_width());
        let (Some(lower), Some(upper)) = (
            Blocks::of_array(split.right_parts(), 4)?,
            Blocks::of_array(split.left_parts(), 2)?,
        ) else {
            return Ok(None);
        };
        let has_patches = |array: &ArrayRef| {
            let packed = array.as_opt::<BitPacked>();
            packed.is_none_or(|packed| packed.patches().is_some())
        };
        let known = split.left_parts_dictionary().as_slice();
        // Each number that the bits can hold must have a word.
        let is_usable = upper.bits <= 3
            && known.len() >= 1 << upper.bits
            && known.len() <= UPPER_WORDS
            && !has_patches(split.right_parts())
            && !has_patches(split.left_parts());
        if !is_usable {
            return Ok(None);
        }
        let shifted = |part: u64| {
            let word = part.checked_shl(lower_bits)?;
            (part < 1 << 16 && word < 1 << MOST_BITS).then_some(word as u32)
        };
        let mut words = [0; UPPER_WORDS];
        for (word, &part) in words.iter_mut().zip(known) {
            match shifted(part.into()) {
                Some(shifted) => *word = shifted,
                None => return Ok(None),
            }
        }
        let codes = Codes::Split {
            lower,
            upper,
            words,
        };
        let numbers = Self::new(array, ColumnType::Float32, codes, Scale::Bits)?;
        let Some((rows, parts)) = numbers.patches(split.left_parts_patches())? else {
            return Ok(None);
        };
        let Codes::Split { lower, .. } = &numbers.codes else {
            return Ok(None);
        };
        // Exceptions may have a sign.
        let bits = |(&row, &part): (&u32, &u64)| {
            part << lower_bits & u64::from(u32::MAX) | u64::from(lower.get(row as usize))
        };
        let values = rows.iter().zip(&parts).map(bits).collect();
        Ok(Some(numbers.with(Exceptions { rows, values })))
    }

    fn new(
        array: &ArrayRef,
        ty: ColumnType,
        codes: Codes,
        scale: Scale,
    ) -> Result<Self, ColumnarError> {
        let row_count = array.len();
        Ok(Self {
            ty,
            row_count,
            codes,
            scale,
            nulls: codec::guarded(|| {
                nulls_of(array.validity()?, row_count, &mut codec::context())
            })?,
            exceptions: Exceptions::default(),
        })
    }

    fn with(self, exceptions: Exceptions) -> Self {
        Self { exceptions, ..self }
    }

    /// Rows and bits of patches; `None` if the rows do not ascend within the array.
    fn patches(&self, patches: Option<Patches>) -> Result<Option<Patched>, ColumnarError> {
        let Some(patches) = patches else {
            return Ok(Some(Patched::default()));
        };
        if patches.offset() != 0 {
            return Ok(None);
        }
        let (rows, values) = codec::guarded(|| {
            let mut ctx = codec::context();
            let rows = bits_of(patches.indices().clone(), &mut ctx)?;
            let values = bits_of(patches.values().clone(), &mut ctx)?;
            Ok((rows, values))
        })?;
        let fits = rows.len() == values.len()
            && rows.is_sorted_by(|a, b| a < b)
            && rows.last().is_none_or(|&row| row < self.row_count as u64);
        Ok(fits.then(|| (rows.into_iter().map(|row| row as u32).collect(), values)))
    }

    /// The bits of the value of a code of any width.
    pub(super) fn bits_of_wide_code(&self, code: u64) -> u64 {
        match self.scale {
            Scale::Bits => code,
            Scale::Integer { base } => base.wrapping_add(code as i64) as u64,
            Scale::Decimal { base, exponents } => {
                let integer = base.wrapping_add(code as i64);
                match self.ty {
                    ColumnType::Float32 => f32::decode_single(integer as i32, exponents)
                        .to_bits()
                        .into(),
                    _ => f64::decode_single(integer, exponents).to_bits(),
                }
            }
        }
    }
}

/// Whether there are such powers of ten.
fn is_known(exponents: Exponents, ty: ColumnType) -> bool {
    let count = match ty {
        ColumnType::Float32 => <f32 as ALPFloat>::F10
            .len()
            .min(<f32 as ALPFloat>::IF10.len()),
        _ => <f64 as ALPFloat>::F10
            .len()
            .min(<f64 as ALPFloat>::IF10.len()),
    };
    usize::from(exponents.e.max(exponents.f)) < count
}

/// Whether all sums of the base and a code are integers of this many bytes.
fn is_within(base: i64, bits: usize, width: usize) -> bool {
    let unused = 64 - 8 * width as u32;
    let (least, greatest) = (i64::MIN >> unused, i64::MAX >> unused);
    let last = base.checked_add((1 << bits) - 1);
    base >= least && last.is_some_and(|last| last <= greatest)
}

fn base_of(reference: &Scalar) -> Option<i64> {
    let unsigned = || u64::try_from(reference).ok().map(|value| value as i64);
    i64::try_from(reference).ok().or_else(unsigned)
}

/// The bits of a primitive array's values; signs are extended.
fn bits_of(array: ArrayRef, ctx: &mut ExecutionCtx) -> VortexResult<Vec<u64>> {
    fn all<T: ArrowNativeType + NativePType>(
        array: PrimitiveArray,
        bits: impl Fn(T) -> u64,
    ) -> Vec<u64> {
        array
            .into_buffer::<T>()
            .iter()
            .map(|&value| bits(value))
            .collect()
    }
    let array = array.execute::<PrimitiveArray>(ctx)?;
    Ok(match PrimitiveArrayExt::ptype(&array) {
        PType::U8 => all(array, |value: u8| value.into()),
        PType::U16 => all(array, |value: u16| value.into()),
        PType::U32 => all(array, |value: u32| value.into()),
        PType::U64 => all(array, |value: u64| value),
        PType::I16 => all(array, |value: i16| i64::from(value) as u64),
        PType::I32 => all(array, |value: i32| i64::from(value) as u64),
        PType::I64 => all(array, |value: i64| value as u64),
        PType::F32 => all(array, |value: f32| value.to_bits().into()),
        PType::F64 => all(array, |value: f64| value.to_bits()),
        ptype => vortex_bail!("patches of type {ptype}"),
    })
}
