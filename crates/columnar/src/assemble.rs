//! Columns made of single values.

use arrow_array::{
    BinaryViewArray, BooleanArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, StringViewArray,
};
use arrow_buffer::{Buffer, NullBuffer};

use crate::builder::{Digits, NumericBuilder, Scales};
use crate::column::Column;
use crate::error::ColumnarError;
use crate::numeric::{NumericColumn, NumericDigits, NumericScales};
use crate::types::ColumnType;
use crate::value::Value;

impl Column {
    /// A column of these values; `None` is NULL.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::TypeMismatch`] when a value is not of the type.
    pub fn from_values<'a>(
        ty: ColumnType,
        values: impl Iterator<Item = Option<Value<'a>>>,
    ) -> Result<Self, ColumnarError> {
        macro_rules! collected {
            ($array:ty, $kind:ident) => {
                values
                    .map(|value| match value {
                        None => Ok(None),
                        Some(Value::$kind(v)) => Ok(Some(v)),
                        Some(_) => Err(ColumnarError::TypeMismatch { ty }),
                    })
                    .collect::<Result<$array, ColumnarError>>()?
            };
        }
        Ok(match ty {
            ColumnType::Bool => Self::Bool(collected!(BooleanArray, Bool)),
            ColumnType::Int16 => Self::Int16(collected!(Int16Array, Int16)),
            ColumnType::Int32 => Self::Int32(collected!(Int32Array, Int32)),
            ColumnType::Int64 => Self::Int64(collected!(Int64Array, Int64)),
            ColumnType::Float32 => Self::Float32(collected!(Float32Array, Float32)),
            ColumnType::Float64 => Self::Float64(collected!(Float64Array, Float64)),
            ColumnType::Text => Self::Text(collected!(StringViewArray, Text)),
            ColumnType::Bytes => Self::Bytes(collected!(BinaryViewArray, Bytes)),
            ColumnType::Fixed { len } => Self::Fixed(fixed(len, values)?),
            ColumnType::Numeric => Self::Numeric(numerics(values)?),
        })
    }

    /// A column with the same value in every row; `None` is NULL.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::TypeMismatch`] when the value is not of the type.
    pub fn repeat(
        ty: ColumnType,
        value: Option<Value<'_>>,
        row_count: usize,
    ) -> Result<Self, ColumnarError> {
        match value {
            None => Self::all_null(ty, row_count),
            // All rows are views of one copy of the bytes.
            Some(_) if matches!(ty, ColumnType::Text | ColumnType::Bytes) => {
                Self::from_values(ty, std::iter::once(value))?.take(&vec![0; row_count])
            }
            Some(_) => Self::from_values(ty, std::iter::repeat_n(value, row_count)),
        }
    }
}

fn fixed<'a>(
    len: u16,
    values: impl Iterator<Item = Option<Value<'a>>>,
) -> Result<FixedSizeBinaryArray, ColumnarError> {
    let width = usize::from(len);
    let (mut bytes, mut valid) = (Vec::new(), Vec::new());
    for value in values {
        match value {
            None => bytes.resize(bytes.len() + width, 0),
            Some(Value::Bytes(value)) if value.len() == width => bytes.extend_from_slice(value),
            Some(_) => {
                let ty = ColumnType::Fixed { len };
                return Err(ColumnarError::TypeMismatch { ty });
            }
        }
        valid.push(value.is_some());
    }
    let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
    FixedSizeBinaryArray::try_new(len.into(), Buffer::from_vec(bytes), nulls)
        .map_err(|error| ColumnarError::corrupt(error.to_string()))
}

fn numerics<'a>(
    values: impl Iterator<Item = Option<Value<'a>>>,
) -> Result<NumericColumn, ColumnarError> {
    let mut builder = NumericBuilder::default();
    let mut valid = Vec::new();
    for value in values {
        match value {
            None => builder.push_null(),
            Some(Value::Numeric(value)) => builder.push(value),
            Some(_) => {
                let ty = ColumnType::Numeric;
                return Err(ColumnarError::TypeMismatch { ty });
            }
        }
        valid.push(value.is_some());
    }
    let images = (0..builder.image_rows.len()).map(|at| Some(builder.image(at)));
    let images: Option<BinaryViewArray> =
        (!builder.image_rows.is_empty()).then(|| images.collect());
    let digits = match builder.digits {
        Digits::Narrow(rows) => NumericDigits::Narrow(rows.into()),
        Digits::Wide(rows) => NumericDigits::Wide(rows.into()),
    };
    let scales = match builder.scales {
        Scales::Constant(scale) => NumericScales::Constant(scale.unwrap_or(0)),
        Scales::PerRow(rows) => NumericScales::PerRow(rows.into()),
    };
    let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
    NumericColumn::new(digits, scales, builder.image_rows, images, nulls)
}
