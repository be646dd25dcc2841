//! What a jsonb value is, and what it holds: `jsonb_typeof`, `jsonb_array_length`, `?`, `?|`, `?&`,
//! `@>` and `<@`.

use arrow_array::{Array, BinaryViewArray, BooleanArray, Int32Array, StringViewArray};
use arrow_buffer::BooleanBufferBuilder;
use howdah_columnar::{Column, Value};

use super::extract::Images;
use super::image::{Container, DAMAGED, Item, Kind};
use super::number::Number;
use super::path;
use super::write::{MOST_LEVELS, TOO_DEEP};
use crate::error::VectorError;
use crate::functions::kernel::{Operand, mismatch, nulls_of, row_count, value};
use crate::stop::check_here;

const NO_ARRAY: VectorError = VectorError::Unsupported {
    what: "the array length of a jsonb value that is no array",
};

pub(super) fn images(column: &Column) -> Result<&BinaryViewArray, VectorError> {
    match column {
        Column::Bytes(images) => Ok(images),
        _ => Err(mismatch()),
    }
}

/// The rows that are not null, and the others as `None`.
pub(super) fn values(
    images: &BinaryViewArray,
) -> impl ExactSizeIterator<Item = Option<&[u8]>> + '_ {
    (0..images.len()).map(|row| (!images.is_null(row)).then(|| images.value(row)))
}

pub(super) fn type_of(argument: &Column) -> Result<Column, VectorError> {
    let names = values(images(argument)?).map(|image| {
        let Some(image) = image else {
            return Ok(None);
        };
        let container = Container::open(image)?;
        Ok(Some(match container.kind {
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::Scalar => match container.element(0)?.ok_or(DAMAGED)? {
                Item::Null => "null",
                Item::Bool(_) => "boolean",
                Item::String(_) => "string",
                Item::Number(_) => "number",
                Item::Container(_) => return Err(DAMAGED),
            },
        }))
    });
    let names: StringViewArray = names.collect::<Result<_, VectorError>>()?;
    Ok(Column::Text(names))
}

pub(super) fn array_length(argument: &Column) -> Result<Column, VectorError> {
    let lengths = values(images(argument)?).map(|image| {
        let Some(image) = image else {
            return Ok(None);
        };
        let container = Container::open(image)?;
        match container.kind {
            // The count has 28 bits.
            Kind::Array => Ok(Some(container.count as i32)),
            Kind::Object | Kind::Scalar => Err(NO_ARRAY),
        }
    });
    let lengths: Int32Array = lengths.collect::<Result<_, VectorError>>()?;
    Ok(Column::Int32(lengths))
}

/// A bit for each row where both arguments are.
fn each<'a>(
    left: Operand<'a>,
    right: Operand<'a>,
    mut holds: impl FnMut(usize) -> Result<bool, VectorError>,
) -> Result<Column, VectorError> {
    let nulls = nulls_of(left, right);
    let row_count = row_count(left, right);
    let mut bits = BooleanBufferBuilder::new(row_count);
    for row in 0..row_count {
        // A row takes as long as the other side is long.
        check_here()?;
        let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        bits.append(!is_null && holds(row)?);
    }
    Ok(Column::Bool(BooleanArray::new(bits.finish(), nulls)))
}

/// Whether a value has a key, or is an array with such a string.
fn has(image: &[u8], key: &[u8], guess: &mut usize) -> Result<bool, VectorError> {
    let container = Container::open(image)?;
    if container.kind == Kind::Object {
        return Ok(container.value_of(key, guess)?.is_some());
    }
    for item in container.items() {
        if let Item::String(text) = item?
            && text == key
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `?`
pub(super) fn exists(left: Operand<'_>, right: Operand<'_>) -> Result<Column, VectorError> {
    let images = Images::of(left)?;
    let mut guess = 0;
    each(left, right, |row| match value(right, row) {
        Some(Value::Text(key)) => has(images.get(row), key.as_bytes(), &mut guess),
        _ => Err(mismatch()),
    })
}

/// `?|`
pub(super) fn exists_any(left: Operand<'_>, right: Operand<'_>) -> Result<Column, VectorError> {
    exists_of(left, right, true)
}

/// `?&`
pub(super) fn exists_all(left: Operand<'_>, right: Operand<'_>) -> Result<Column, VectorError> {
    exists_of(left, right, false)
}

/// Whether a value has any of the keys, or all of them. NULLs among them do not count.
fn exists_of(left: Operand<'_>, right: Operand<'_>, decides: bool) -> Result<Column, VectorError> {
    let (images, lists) = (Images::of(left)?, Images::of(right)?);
    let mut keys = match lists {
        Images::Same(list) => path::texts(list)?,
        Images::Rows(_) => Vec::new(),
    };
    each(left, right, |row| {
        if let Images::Rows(rows) = lists {
            keys = path::texts(rows.value(row))?;
        }
        for key in keys.iter().flatten() {
            if has(images.get(row), key, &mut 0)? == decides {
                return Ok(decides);
            }
        }
        Ok(!decides)
    })
}

/// `@>`
pub(super) fn contains(left: Operand<'_>, right: Operand<'_>) -> Result<Column, VectorError> {
    let (values, parts) = (Images::of(left)?, Images::of(right)?);
    each(left, right, |row| {
        holds(values.get(row), parts.get(row), MOST_LEVELS)
    })
}

/// `<@`
pub(super) fn contained(left: Operand<'_>, right: Operand<'_>) -> Result<Column, VectorError> {
    let (parts, values) = (Images::of(left)?, Images::of(right)?);
    each(left, right, |row| {
        holds(values.get(row), parts.get(row), MOST_LEVELS)
    })
}

/// Whether a container holds all of another one, as `JsonbDeepContains` decides.
fn holds(value: &[u8], part: &[u8], levels: usize) -> Result<bool, VectorError> {
    let levels = levels.checked_sub(1).ok_or(TOO_DEEP)?;
    let (value, part) = (Container::open(value)?, Container::open(part)?);
    match (value.kind, part.kind) {
        (Kind::Object, Kind::Object) => holds_pairs(&value, &part, levels),
        (Kind::Object, _) | (_, Kind::Object) => Ok(false),
        // A single value holds another one only, and an array also holds single values.
        (Kind::Scalar, Kind::Array) => Ok(false),
        _ => holds_elements(&value, &part, levels),
    }
}

fn holds_pairs(
    value: &Container<'_>,
    part: &Container<'_>,
    levels: usize,
) -> Result<bool, VectorError> {
    if value.count < part.count {
        return Ok(false);
    }
    let wanted_values = part.items().skip(part.count);
    for (key, wanted) in part.items().zip(wanted_values) {
        let Item::String(key) = key? else {
            return Err(DAMAGED);
        };
        let found = match (value.value_of(key, &mut 0)?, wanted?) {
            (None, _) => false,
            (Some(Item::Container(own)), Item::Container(wanted)) => holds(own, wanted, levels)?,
            (Some(own), wanted) => is_same_scalar(own, wanted)?,
        };
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

fn holds_elements(
    value: &Container<'_>,
    part: &Container<'_>,
    levels: usize,
) -> Result<bool, VectorError> {
    for wanted in part.items() {
        let wanted = wanted?;
        let mut found = false;
        for own in value.items() {
            found = match (own?, wanted) {
                (Item::Container(own), Item::Container(wanted)) => holds(own, wanted, levels)?,
                (own, wanted) => is_same_scalar(own, wanted)?,
            };
            if found {
                break;
            }
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_same_scalar(a: Item<'_>, b: Item<'_>) -> Result<bool, VectorError> {
    Ok(match (a, b) {
        (Item::Null, Item::Null) => true,
        (Item::Bool(a), Item::Bool(b)) => a == b,
        (Item::String(a), Item::String(b)) => a == b,
        (Item::Number(a), Item::Number(b)) => Number::open(a)?.equals(&Number::open(b)?),
        _ => false,
    })
}
