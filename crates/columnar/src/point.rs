//! Reading one row of a chunk without decoding the others, as far as the encoding allows.

use vortex_array::ArrayRef;
use vortex_array::scalar::{Scalar, ScalarValue};
use vortex_error::VortexResult;

use crate::codec;
use crate::error::ColumnarError;
use crate::numeric::join;
use crate::parts::{Form, NumericParts};
use crate::types::ColumnType;
use crate::value::{OwnedNumeric, OwnedValue};

/// The value of a row that lies within the chunk; `None` is NULL.
pub(crate) fn value_at(
    form: &Form,
    ty: ColumnType,
    row: usize,
) -> Result<Option<OwnedValue>, ColumnarError> {
    match form {
        Form::AllNull => Ok(None),
        Form::Array(array) => value_of(scalar_at(array, row)?, ty),
        Form::Frames(_) => Err(ColumnarError::corrupt(
            "frames are decoded, not looked into",
        )),
        Form::Numeric(parts) => Ok(numeric_at(parts, row)?.map(OwnedValue::Numeric)),
    }
}

fn scalar_at(array: &ArrayRef, row: usize) -> Result<Scalar, ColumnarError> {
    codec::guarded(|| array.execute_scalar(row, &mut codec::context()))
}

fn value_of(scalar: Scalar, ty: ColumnType) -> Result<Option<OwnedValue>, ColumnarError> {
    let Some(value) = scalar.into_value() else {
        return Ok(None);
    };
    let wrong = || ColumnarError::corrupt("decoder returned a value of another type");
    Ok(Some(match (value, ty) {
        (ScalarValue::Bool(v), ColumnType::Bool) => OwnedValue::Bool(v),
        (ScalarValue::Primitive(v), _) => match ty {
            ColumnType::Int16 => OwnedValue::Int16(cast(|| v.cast())?),
            ColumnType::Int32 => OwnedValue::Int32(cast(|| v.cast())?),
            ColumnType::Int64 => OwnedValue::Int64(cast(|| v.cast())?),
            ColumnType::Float32 => OwnedValue::Float32(cast(|| v.cast())?),
            ColumnType::Float64 => OwnedValue::Float64(cast(|| v.cast())?),
            _ => return Err(wrong()),
        },
        (ScalarValue::Utf8(text), ColumnType::Text) => {
            // The decoder claims UTF-8; trust the bytes only after a look.
            let text = text.into_inner();
            let text = std::str::from_utf8(text.as_slice())
                .map_err(|_| ColumnarError::corrupt("text is not UTF-8"))?;
            OwnedValue::Text(text.to_owned())
        }
        (ScalarValue::Binary(v), ColumnType::Bytes) => OwnedValue::Bytes(v.as_slice().to_vec()),
        (ScalarValue::Binary(v), ColumnType::Fixed { len }) => {
            if v.len() != usize::from(len) {
                return Err(ColumnarError::corrupt("a fixed value has another length"));
            }
            OwnedValue::Bytes(v.as_slice().to_vec())
        }
        _ => return Err(wrong()),
    }))
}

fn cast<T>(run: impl FnOnce() -> VortexResult<T>) -> Result<T, ColumnarError> {
    codec::guarded(run)
}

/// One row of a numeric chunk.
fn numeric_at(parts: &NumericParts, row: usize) -> Result<Option<OwnedNumeric>, ColumnarError> {
    let integer = |array: &ArrayRef| -> Result<Option<i64>, ColumnarError> {
        let scalar = scalar_at(array, row)?;
        codec::guarded(|| scalar.as_primitive().try_typed_value::<i64>())
    };
    let Some(low) = integer(&parts.low)? else {
        return Ok(None);
    };
    if let Some(images) = &parts.images
        && let Ok(index) = parts.image_rows.binary_search(&(row as u32))
    {
        let image = value_of(scalar_at(images, index)?, ColumnType::Bytes)?;
        return match image {
            Some(OwnedValue::Bytes(image)) => Ok(Some(OwnedNumeric::Image(image))),
            _ => Err(ColumnarError::corrupt("a numeric image is missing")),
        };
    }
    let unscaled = match &parts.high {
        None => low.into(),
        Some(high) => join(low, integer(high)?.unwrap_or_default()),
    };
    let scale = match &parts.scales {
        None => parts.scale,
        Some(scales) => {
            let scalar = scalar_at(scales, row)?;
            codec::guarded(|| scalar.as_primitive().try_typed_value::<u16>())?.unwrap_or_default()
        }
    };
    Ok(Some(OwnedNumeric::Small { unscaled, scale }))
}
