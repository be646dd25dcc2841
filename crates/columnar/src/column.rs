//! Decoded columns: Arrow arrays, and numerics in a form of this crate's own.
//!
//! Text is validated here: decoders of damaged bytes may produce anything.

use arrow_array::{
    Array, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, PrimitiveArray as ArrowPrimitive, StringViewArray,
    UInt32Array, cast::AsArray, types::ArrowPrimitiveType,
};
use arrow_buffer::{BooleanBuffer, Buffer as ArrowBuffer, NullBuffer, ScalarBuffer};
use vortex_array::arrays::dict::DictArraySlotsExt;
use vortex_array::arrays::{Constant, Dict, VarBinViewArray};
use vortex_array::dtype::NativePType;
use vortex_array::{ArrayRef, ExecutionCtx};
use vortex_error::VortexResult;
use vortex_fsst::FSST;
use vortex_onpair::OnPair;

use crate::buffers::{Views, bools, indexes, nulls_of, numbers};
use crate::codec;
use crate::error::ColumnarError;
use crate::joined::Joined;
use crate::numeric::{NumericColumn, NumericDigits, NumericScales};
use crate::types::ColumnType;
use crate::value::Value;
use crate::{symbols, words};

/// Rows of one column, decoded.
#[derive(Clone, Debug)]
pub enum Column {
    /// Rows of [`ColumnType::Bool`].
    Bool(BooleanArray),
    /// Rows of [`ColumnType::Int16`].
    Int16(Int16Array),
    /// Rows of [`ColumnType::Int32`].
    Int32(Int32Array),
    /// Rows of [`ColumnType::Int64`].
    Int64(Int64Array),
    /// Rows of [`ColumnType::Float32`].
    Float32(Float32Array),
    /// Rows of [`ColumnType::Float64`].
    Float64(Float64Array),
    /// Rows of [`ColumnType::Text`].
    Text(StringViewArray),
    /// Rows of [`ColumnType::Bytes`].
    Bytes(BinaryViewArray),
    /// Rows of [`ColumnType::Fixed`].
    Fixed(FixedSizeBinaryArray),
    /// Rows of [`ColumnType::Numeric`].
    Numeric(NumericColumn),
}

macro_rules! each_column {
    ($self:expr, $array:ident => $body:expr) => {
        match $self {
            Column::Bool($array) => $body,
            Column::Int16($array) => $body,
            Column::Int32($array) => $body,
            Column::Int64($array) => $body,
            Column::Float32($array) => $body,
            Column::Float64($array) => $body,
            Column::Text($array) => $body,
            Column::Bytes($array) => $body,
            Column::Fixed($array) => $body,
            Column::Numeric($array) => $body,
        }
    };
}

impl Column {
    /// The type of the column.
    pub fn column_type(&self) -> ColumnType {
        match self {
            Self::Bool(_) => ColumnType::Bool,
            Self::Int16(_) => ColumnType::Int16,
            Self::Int32(_) => ColumnType::Int32,
            Self::Int64(_) => ColumnType::Int64,
            Self::Float32(_) => ColumnType::Float32,
            Self::Float64(_) => ColumnType::Float64,
            Self::Numeric(_) => ColumnType::Numeric,
            Self::Text(_) => ColumnType::Text,
            Self::Bytes(_) => ColumnType::Bytes,
            Self::Fixed(array) => ColumnType::Fixed {
                // Arrow's widths are signed; those of columns come from a u16.
                len: array.value_length() as u16,
            },
        }
    }

    /// Rows in the column.
    pub fn len(&self) -> usize {
        each_column!(self, array => array.len())
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows that are null.
    pub fn null_count(&self) -> usize {
        each_column!(self, array => array.null_count())
    }

    /// Which rows are valid; `None` when all are.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        each_column!(self, array => array.nulls())
    }

    /// The value of a row; `None` is NULL.
    ///
    /// # Panics
    ///
    /// Panics when there is no such row.
    pub fn value(&self, row: usize) -> Option<Value<'_>> {
        if self.nulls().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(match self {
            Self::Bool(array) => Value::Bool(array.value(row)),
            Self::Int16(array) => Value::Int16(array.value(row)),
            Self::Int32(array) => Value::Int32(array.value(row)),
            Self::Int64(array) => Value::Int64(array.value(row)),
            Self::Float32(array) => Value::Float32(array.value(row)),
            Self::Float64(array) => Value::Float64(array.value(row)),
            Self::Text(array) => Value::Text(array.value(row)),
            Self::Bytes(array) => Value::Bytes(array.value(row)),
            Self::Fixed(array) => Value::Bytes(array.value(row)),
            Self::Numeric(column) => return column.value(row).map(Value::Numeric),
        })
    }

    /// Memory held by the column's buffers.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Numeric(column) => column.memory_bytes(),
            Self::Bool(array) => array.get_array_memory_size(),
            Self::Int16(array) => array.get_array_memory_size(),
            Self::Int32(array) => array.get_array_memory_size(),
            Self::Int64(array) => array.get_array_memory_size(),
            Self::Float32(array) => array.get_array_memory_size(),
            Self::Float64(array) => array.get_array_memory_size(),
            Self::Text(array) => array.get_array_memory_size(),
            Self::Bytes(array) => array.get_array_memory_size(),
            Self::Fixed(array) => array.get_array_memory_size(),
        }
    }

    /// A column of nothing but nulls.
    pub(crate) fn all_null(ty: ColumnType, row_count: usize) -> Result<Self, ColumnarError> {
        Ok(match ty {
            ColumnType::Bool => Self::Bool(BooleanArray::new_null(row_count)),
            ColumnType::Int16 => Self::Int16(Int16Array::new_null(row_count)),
            ColumnType::Int32 => Self::Int32(Int32Array::new_null(row_count)),
            ColumnType::Int64 => Self::Int64(Int64Array::new_null(row_count)),
            ColumnType::Float32 => Self::Float32(Float32Array::new_null(row_count)),
            ColumnType::Float64 => Self::Float64(Float64Array::new_null(row_count)),
            ColumnType::Text => Self::Text(StringViewArray::new_null(row_count)),
            ColumnType::Bytes => Self::Bytes(BinaryViewArray::new_null(row_count)),
            ColumnType::Fixed { len } => {
                let nulls = NullBuffer::new_null(row_count);
                let bytes = vec![0; row_count * usize::from(len)];
                Self::Fixed(fixed_array(len, bytes, Some(nulls))?)
            }
            ColumnType::Numeric => Self::Numeric(NumericColumn::all_null(row_count)),
        })
    }

    /// Decodes an array of a chunk that is one array.
    pub(crate) fn from_array(ty: ColumnType, array: ArrayRef) -> Result<Self, ColumnarError> {
        let mut ctx = codec::context();
        Ok(match ty {
            ColumnType::Bool => {
                let (bits, nulls) = codec::guarded(|| bools(array, &mut ctx))?;
                Self::Bool(BooleanArray::new(bits, nulls))
            }
            ColumnType::Int16 => Self::Int16(primitive(array, &mut ctx)?),
            ColumnType::Int32 => Self::Int32(primitive(array, &mut ctx)?),
            ColumnType::Int64 | ColumnType::Numeric => Self::Int64(primitive(array, &mut ctx)?),
            ColumnType::Float32 => Self::Float32(primitive(array, &mut ctx)?),
            ColumnType::Float64 => Self::Float64(primitive(array, &mut ctx)?),
            ColumnType::Text => Self::Text(texts(array, &mut ctx)?),
            ColumnType::Bytes => Self::Bytes(bytes(array, &mut ctx)?),
            ColumnType::Fixed { len } => Self::Fixed(fixed(len, &bytes(array, &mut ctx)?)?),
        })
    }
}

impl Column {
    /// A column of strings.
    pub(crate) fn from_bytes(
        ty: ColumnType,
        values: BinaryViewArray,
    ) -> Result<Self, ColumnarError> {
        Ok(match ty {
            ColumnType::Text => {
                let (views, buffers, nulls) = values.into_parts();
                let texts = StringViewArray::try_new(views, buffers, nulls)
                    .map_err(|error| ColumnarError::corrupt(error.to_string()))?;
                Self::Text(texts)
            }
            ColumnType::Fixed { len } => Self::Fixed(fixed(len, &values)?),
            _ => Self::Bytes(values),
        })
    }

    /// A column of the values of stored bits, which are those of [`Value::of_bits`]; of numerics
    /// with this scale.
    pub(crate) fn from_bits(
        ty: ColumnType,
        scale: u16,
        bits: Vec<u64>,
        nulls: Option<NullBuffer>,
    ) -> Result<Self, ColumnarError> {
        Ok(match ty {
            ColumnType::Bool => {
                let values = BooleanBuffer::collect_bool(bits.len(), |row| bits[row] != 0);
                Self::Bool(BooleanArray::new(values, nulls))
            }
            ColumnType::Int16 => Self::Int16(numbers_of(bits, |bits| bits as i16, nulls)?),
            ColumnType::Int32 => Self::Int32(numbers_of(bits, |bits| bits as i32, nulls)?),
            ColumnType::Int64 => Self::Int64(numbers_of(bits, |bits| bits as i64, nulls)?),
            ColumnType::Float32 => {
                Self::Float32(numbers_of(bits, |bits| f32::from_bits(bits as u32), nulls)?)
            }
            ColumnType::Float64 => Self::Float64(numbers_of(bits, f64::from_bits, nulls)?),
            ColumnType::Numeric => {
                let digits = bits.into_iter().map(|bits| bits as i64).collect();
                let (digits, scale) = (
                    NumericDigits::Narrow(digits),
                    NumericScales::Constant(scale),
                );
                Self::Numeric(NumericColumn::new(digits, scale, Vec::new(), None, nulls)?)
            }
            ColumnType::Text | ColumnType::Bytes | ColumnType::Fixed { .. } => {
                return Err(ColumnarError::corrupt("a column of strings has numbers"));
            }
        })
    }
}

fn numbers_of<A: ArrowPrimitiveType>(
    bits: Vec<u64>,
    number: impl Fn(u64) -> A::Native,
    nulls: Option<NullBuffer>,
) -> Result<ArrowPrimitive<A>, ColumnarError> {
    ArrowPrimitive::try_new(bits.into_iter().map(number).collect(), nulls)
        .map_err(|error| ColumnarError::corrupt(error.to_string()))
}

fn primitive<A>(array: ArrayRef, ctx: &mut ExecutionCtx) -> Result<ArrowPrimitive<A>, ColumnarError>
where
    A: ArrowPrimitiveType,
    A::Native: NativePType,
{
    let (values, nulls) = codec::guarded(|| numbers::<A::Native>(array, ctx))?;
    ArrowPrimitive::try_new(values, nulls)
        .map_err(|error| ColumnarError::corrupt(error.to_string()))
}

/// The strings of an array that is decoded here, not by Vortex.
fn joined(array: &ArrayRef, ctx: &mut ExecutionCtx) -> VortexResult<Option<Joined>> {
    if let Some(words) = array.as_opt::<OnPair>() {
        words::strings(&words, ctx)
    } else if let Some(symbols) = array.as_opt::<FSST>() {
        symbols::strings(&symbols, ctx)
    } else {
        Ok(None)
    }
}

fn views(array: ArrayRef, ctx: &mut ExecutionCtx) -> VortexResult<Views> {
    if let Some(strings) = joined(&array, ctx)? {
        return Ok(strings.into_views());
    }
    let row_count = array.len();
    let parts = array.execute::<VarBinViewArray>(ctx)?.into_data_parts();
    let nulls = nulls_of(parts.validity, row_count, ctx)?;
    if row_count == 0 {
        // An empty buffer need not be aligned, which Arrow would refuse.
        return Ok((Vec::new().into(), Vec::new(), nulls));
    }
    let views = parts.views.try_into_host_sync()?.into_arrow_buffer();
    let buffers = parts
        .buffers
        .iter()
        .map(|buffer| Ok(buffer.try_to_host_sync()?.into_arrow_buffer()))
        .collect::<VortexResult<Vec<_>>>()?;
    Ok((ScalarBuffer::new(views, 0, row_count), buffers, nulls))
}

/// Decodes text. Words of a dictionary are validated once, not once per row.
fn texts(array: ArrayRef, ctx: &mut ExecutionCtx) -> Result<StringViewArray, ColumnarError> {
    let row_count = array.len();
    let (words, codes) = if let Some(dictionary) = array.as_opt::<Dict>()
        && dictionary.values().len() < row_count
    {
        let codes = dictionary.codes().clone();
        let (codes, nulls) = codec::guarded(|| indexes(codes, ctx))?;
        (dictionary.values().clone(), UInt32Array::new(codes, nulls))
    } else if array.is::<Constant>() && row_count > 1 {
        let codes = UInt32Array::from(vec![0; row_count]);
        (codec::guarded(|| array.slice(0..1))?, codes)
    } else {
        if let Some(strings) = codec::guarded(|| joined(&array, ctx))? {
            return strings.into_texts();
        }
        let (views, buffers, nulls) = codec::guarded(|| views(array, ctx))?;
        return StringViewArray::try_new(views, buffers, nulls)
            .map_err(|error| ColumnarError::corrupt(error.to_string()));
    };
    let words = texts(words, ctx)?;
    let texts = codec::guarded(|| {
        arrow_select::take::take(&words, &codes, None)
            .map_err(|error| vortex_error::vortex_err!("{error}"))
    })?;
    Ok(texts.as_string_view().clone())
}

/// Decodes bytes of any length.
pub(crate) fn bytes(
    array: ArrayRef,
    ctx: &mut ExecutionCtx,
) -> Result<BinaryViewArray, ColumnarError> {
    let (views, buffers, nulls) = codec::guarded(|| views(array, ctx))?;
    BinaryViewArray::try_new(views, buffers, nulls)
        .map_err(|error| ColumnarError::corrupt(error.to_string()))
}

fn fixed(len: u16, values: &BinaryViewArray) -> Result<FixedSizeBinaryArray, ColumnarError> {
    let width = usize::from(len);
    let mut bytes = Vec::with_capacity(values.len() * width);
    for row in 0..values.len() {
        if values.is_null(row) {
            bytes.resize(bytes.len() + width, 0);
            continue;
        }
        let value = values.value(row);
        if value.len() != width {
            return Err(ColumnarError::corrupt("a fixed value has another length"));
        }
        bytes.extend_from_slice(value);
    }
    fixed_array(len, bytes, values.nulls().cloned())
}

fn fixed_array(
    len: u16,
    bytes: Vec<u8>,
    nulls: Option<NullBuffer>,
) -> Result<FixedSizeBinaryArray, ColumnarError> {
    FixedSizeBinaryArray::try_new(len.into(), ArrowBuffer::from_vec(bytes), nulls)
        .map_err(|error| ColumnarError::corrupt(error.to_string()))
}

impl From<NumericColumn> for Column {
    fn from(column: NumericColumn) -> Self {
        Self::Numeric(column)
    }
}
