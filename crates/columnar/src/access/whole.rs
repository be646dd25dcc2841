//! Nodes without access to single rows: decoded once, as a whole, and kept in the state.
//!
//! The encoder writes such nodes (pco of fewer rows than the column has, of one page) only when
//! asked for the smallest size.

use std::ops::Range;

use arrow_array::Array;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use vortex_array::ArrayRef;
use vortex_array::arrays::PrimitiveArray;
use vortex_array::arrays::primitive::PrimitiveArrayExt;
use vortex_array::dtype::{DType, PType};

use super::reading::{Reading, outside};
use super::state::{Kept, Slot};
use crate::buffers::{bools, nulls_of};
use crate::chunk::ChunkBuffer;
use crate::codec;
use crate::column::bytes;
use crate::error::ColumnarError;
use crate::layout::wire::ensure;
use crate::nodes::NodeTable;
use crate::source::ByteSource;

/// A tree that is decoded as a whole.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) tree: NodeTable,
    /// Where the tree's parts lie in the stored value, and where the first one lies in the
    /// chunk.
    pub(super) range: Range<u64>,
    pub(super) base: u32,
    pub(super) dtype: DType,
    pub(super) len: u32,
    pub(super) slot: usize,
}

impl Whole {
    pub(super) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Whether the state of the node has it.
    pub(super) fn is_held(&self, slot: &Slot) -> bool {
        matches!(slot.kept, Kept::Whole(_) | Kept::Strings(_))
    }

    fn array<S: ByteSource + ?Sized>(
        &self,
        reading: &Reading<'_, S>,
    ) -> Result<ArrayRef, S::Error> {
        let mut buffer = ChunkBuffer::with_len((self.range.end - self.range.start) as usize);
        reading
            .source
            .read(self.range.start, buffer.as_mut_slice())?;
        let node = self
            .tree
            .roots()
            .next()
            .ok_or_else(|| ColumnarError::corrupt("a tree of nodes is missing"))?;
        let (buffer, len) = (buffer.into_bytes(), self.len as usize);
        Ok(codec::rebuild(node, &buffer, self.base, &self.dtype, len)?)
    }

    fn load<S: ByteSource + ?Sized>(&self, reading: &mut Reading<'_, S>) -> Result<(), S::Error> {
        let array = self.array(reading)?;
        let slot = &mut reading.slots[self.slot];
        match &self.dtype {
            DType::Utf8(_) | DType::Binary(_) => {
                slot.kept = Kept::Strings(bytes(array, &mut codec::context())?);
            }
            DType::Bool(_) => {
                let (bits, nulls) = bools_of(array)?;
                slot.values.fill_wide(bits.iter().map(u64::from).collect());
                slot.kept = Kept::Whole(nulls.map(|nulls| nulls.into_inner()));
            }
            _ => {
                let (values, nulls) = numbers_of(array)?;
                slot.values.fill_wide(values);
                slot.kept = Kept::Whole(nulls.map(|nulls| nulls.into_inner()));
            }
        }
        Ok(())
    }

    /// The rows of a tree of bools, none of which is null; the slot keeps nothing of it.
    pub(super) fn bits<S: ByteSource + ?Sized>(
        &self,
        reading: &Reading<'_, S>,
    ) -> Result<BooleanBuffer, S::Error> {
        let (bits, nulls) = bools_of(self.array(reading)?)?;
        ensure(nulls.is_none(), "a node of bits has nulls")?;
        Ok(bits)
    }

    pub(super) fn scalar<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<u64>, S::Error> {
        if !matches!(reading.slots[self.slot].kept, Kept::Whole(_)) {
            self.load(reading)?;
        }
        let slot = &reading.slots[self.slot];
        let row = row as usize;
        let value = slot.values.get(row).ok_or_else(|| outside("a row"))?;
        match &slot.kept {
            Kept::Whole(Some(valid)) if !valid.value(row) => Ok(None),
            Kept::Whole(_) => Ok(Some(value)),
            _ => Err(ColumnarError::corrupt("a node holds strings, not numbers").into()),
        }
    }

    pub(super) fn string<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        if !matches!(reading.slots[self.slot].kept, Kept::Strings(_)) {
            self.load(reading)?;
        }
        match &reading.slots[self.slot].kept {
            Kept::Strings(strings) if (row as usize) < strings.len() => {
                let valid = strings.is_valid(row as usize);
                if valid {
                    out.extend_from_slice(strings.value(row as usize));
                }
                Ok(valid)
            }
            _ => Err(outside("a row").into()),
        }
    }
}

fn bools_of(array: ArrayRef) -> Result<(BooleanBuffer, Option<NullBuffer>), ColumnarError> {
    codec::guarded(|| bools(array, &mut codec::context()))
}

/// The bits of numbers of any type, and which are valid.
pub(super) fn numbers_of(array: ArrayRef) -> Result<(Vec<u64>, Option<NullBuffer>), ColumnarError> {
    let mut ctx = codec::context();
    let (numbers, nulls) = codec::guarded(|| {
        let row_count = array.len();
        let numbers = array.execute::<PrimitiveArray>(&mut ctx)?;
        let nulls = nulls_of(PrimitiveArrayExt::validity(&numbers), row_count, &mut ctx)?;
        Ok((wide(numbers), nulls))
    })?;
    Ok((numbers?, nulls))
}

/// The bits of numbers of any type.
fn wide(numbers: PrimitiveArray) -> Result<Vec<u64>, ColumnarError> {
    macro_rules! widen {
        ($ty:ty, $bits:ident) => {
            numbers
                .into_buffer::<$ty>()
                .iter()
                .map(|&v| v as $bits as u64)
                .collect()
        };
    }
    Ok(match numbers.ptype() {
        PType::U8 => widen!(u8, u8),
        PType::U16 => widen!(u16, u16),
        PType::U32 => widen!(u32, u32),
        PType::U64 => widen!(u64, u64),
        PType::I8 => widen!(i8, u8),
        PType::I16 => widen!(i16, u16),
        PType::I32 => widen!(i32, u32),
        PType::I64 => widen!(i64, u64),
        PType::F32 => {
            let values = numbers.into_buffer::<f32>();
            values.iter().map(|v| v.to_bits().into()).collect()
        }
        PType::F64 => {
            let values = numbers.into_buffer::<f64>();
            values.iter().map(|v| v.to_bits()).collect()
        }
        PType::F16 => return Err(ColumnarError::corrupt("a node holds 16-bit floats")),
    })
}
