//! Casts of jsonb values to numbers and booleans.
//!
//! JSON's null becomes NULL. What is no number, or no boolean, is an error of PostgreSQL's, whose
//! message names the type that the value has: the query is left to PostgreSQL, which raises it.

use arrow_array::{Array, BooleanArray, PrimitiveArray};
use howdah_columnar::{Column, Numeric, Value};

use super::image::{Container, DAMAGED, Item, Kind};
use super::number::{Number, rounded};
use super::search::{images, values};
use crate::error::VectorError;
use crate::functions::integer::Integer;
use crate::functions::kernel::Native;

const NOT_CAST: VectorError = VectorError::Unsupported {
    what: "a jsonb value that cannot be cast",
};

const TOO_LONG: VectorError = VectorError::Unsupported {
    what: "a jsonb number of more than 38 digits",
};

/// The single value of each row; `None` of null, and of JSON's null.
fn scalars(
    argument: &Column,
) -> Result<impl ExactSizeIterator<Item = Result<Option<Item<'_>>, VectorError>>, VectorError> {
    let scalars = values(images(argument)?).map(|image| {
        let Some(image) = image else {
            return Ok(None);
        };
        let container = Container::open(image)?;
        match container.kind {
            Kind::Object | Kind::Array => Err(NOT_CAST),
            Kind::Scalar => match container.element(0)?.ok_or(DAMAGED)? {
                Item::Null => Ok(None),
                item => Ok(Some(item)),
            },
        }
    });
    Ok(scalars)
}

/// The number of each row.
fn numbers(
    argument: &Column,
) -> Result<impl ExactSizeIterator<Item = Result<Option<Number<'_>>, VectorError>>, VectorError> {
    let numbers = scalars(argument)?.map(|item| match item? {
        None => Ok(None),
        Some(Item::Number(image)) => Number::open(image).map(Some),
        Some(_) => Err(NOT_CAST),
    });
    Ok(numbers)
}

pub(super) fn to_bool(argument: &Column) -> Result<Column, VectorError> {
    let values = scalars(argument)?.map(|item| match item? {
        None => Ok(None),
        Some(Item::Bool(value)) => Ok(Some(value)),
        Some(_) => Err(NOT_CAST),
    });
    let values: BooleanArray = values.collect::<Result<_, VectorError>>()?;
    Ok(Column::Bool(values))
}

pub(super) fn to_numeric(argument: &Column) -> Result<Column, VectorError> {
    let values = numbers(argument)?.map(|number| {
        let decimal = number?.map(|number| number.decimal().ok_or(TOO_LONG));
        let decimal = decimal.transpose()?;
        Ok(decimal.map(|(unscaled, scale)| Value::Numeric(Numeric::Small { unscaled, scale })))
    });
    let values = values.collect::<Result<Vec<_>, VectorError>>()?;
    let ty = howdah_columnar::ColumnType::Numeric;
    Ok(Column::from_values(ty, values.into_iter())?)
}

/// Rounded half away from zero.
pub(super) fn to_integer<T: Integer + TryFrom<i128>>(
    argument: &Column,
) -> Result<Column, VectorError> {
    collected(argument, |number| {
        let decimal = number.decimal().ok_or(TOO_LONG)?;
        T::try_from(rounded(decimal)).map_err(|_| T::OUT_OF_RANGE)
    })
}

/// By way of their text, as `numeric_float8` does.
pub(super) fn to_float64(argument: &Column) -> Result<Column, VectorError> {
    let mut text = Vec::new();
    collected(argument, |number| {
        text.clear();
        number.write(&mut text);
        crate::functions::input::float64(&text)
    })
}

/// As [`to_float64`].
pub(super) fn to_float32(argument: &Column) -> Result<Column, VectorError> {
    let mut text = Vec::new();
    collected(argument, |number| {
        text.clear();
        number.write(&mut text);
        crate::functions::input::float32(&text)
    })
}

fn collected<T: Native>(
    argument: &Column,
    mut convert: impl FnMut(&Number<'_>) -> Result<T, VectorError>,
) -> Result<Column, VectorError> {
    let values = numbers(argument)?;
    let values = values.map(|number| number?.map(|number| convert(&number)).transpose());
    let values = values.collect::<Result<Vec<Option<T>>, VectorError>>()?;
    let array: PrimitiveArray<T::Arrow> = values.into_iter().collect();
    let array = match array.null_count() {
        0 => PrimitiveArray::new(array.values().clone(), None),
        _ => array,
    };
    Ok(T::column(array))
}
