//! Paths into a jsonb value, and the arrays of texts that they are given as.

use super::image::{Container, Item, Kind, varlena_len};
use crate::error::VectorError;

const DAMAGED_ARRAY: VectorError = VectorError::Unsupported {
    what: "an array of texts whose image is damaged",
};

/// `ELEMTYPE` of arrays of text, and of varchar.
const TEXT_TYPES: [u32; 2] = [25, 1043];

/// The elements of an array of texts, from an image without varlena header (`utils/array.h`);
/// `None` is NULL.
pub(super) fn texts(image: &[u8]) -> Result<Vec<Option<&[u8]>>, VectorError> {
    let word = |at: usize| {
        let bytes = image.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes
            .map(|bytes| i32::from_ne_bytes(*bytes))
            .ok_or(DAMAGED_ARRAY)
    };
    let (dimensions, data_offset) = (word(0)?, word(4)?);
    if !(0..=6).contains(&dimensions) || !TEXT_TYPES.contains(&(word(8)? as u32)) {
        return Err(DAMAGED_ARRAY);
    }
    let dimensions = dimensions as usize;
    let mut count = usize::from(dimensions > 0);
    for dimension in 0..dimensions {
        let len = usize::try_from(word(12 + 4 * dimension)?).map_err(|_| DAMAGED_ARRAY)?;
        count = count.checked_mul(len).ok_or(DAMAGED_ARRAY)?;
    }
    if count > image.len() * 8 {
        return Err(DAMAGED_ARRAY);
    }
    // Offsets count from the varlena header, which takes 4 bytes.
    let bitmap_start = 12 + 8 * dimensions;
    let (bitmap, start) = match data_offset {
        0 => (None, (bitmap_start + 4).next_multiple_of(8) - 4),
        offset => {
            let start = usize::try_from(offset)
                .ok()
                .and_then(|offset| offset.checked_sub(4));
            let bitmap = image.get(bitmap_start..bitmap_start + count.div_ceil(8));
            (
                Some(bitmap.ok_or(DAMAGED_ARRAY)?),
                start.ok_or(DAMAGED_ARRAY)?,
            )
        }
    };
    let mut at = start;
    let mut texts = Vec::with_capacity(count);
    for element in 0..count {
        if bitmap.is_some_and(|bitmap| bitmap[element / 8] >> (element % 8) & 1 == 0) {
            texts.push(None);
            continue;
        }
        // What is left out before a header is zero, and what is not zero is a header.
        if image.get(at) == Some(&0) {
            at = at.next_multiple_of(4);
        }
        let rest = image.get(at..).ok_or(DAMAGED_ARRAY)?;
        let (len, header_len) = varlena_len(rest).ok_or(DAMAGED_ARRAY)?;
        texts.push(Some(rest.get(header_len..len).ok_or(DAMAGED_ARRAY)?));
        at += len;
    }
    Ok(texts)
}

/// What a path leads to.
pub(super) enum Found<'a> {
    Nothing,
    Item(Item<'a>),
    /// The value itself, which is a container.
    Root,
}

/// Follows a path, as `jsonb_get_element` does.
pub(super) fn follow<'a>(
    image: &'a [u8],
    path: &[&[u8]],
    guesses: &mut [usize],
) -> Result<Found<'a>, VectorError> {
    let mut container = Container::open(image)?;
    let Some(last) = path.len().checked_sub(1) else {
        return Ok(match container.kind {
            Kind::Scalar => container.element(0)?.map_or(Found::Nothing, Found::Item),
            Kind::Array | Kind::Object => Found::Root,
        });
    };
    for (at, (step, guess)) in path.iter().zip(guesses).enumerate() {
        let item = match container.kind {
            Kind::Object => container.value_of(step, guess)?,
            Kind::Array => match subscript(step) {
                Some(index) => element(&container, index)?,
                None => None,
            },
            Kind::Scalar => None,
        };
        match item {
            None => return Ok(Found::Nothing),
            Some(item) if at == last => return Ok(Found::Item(item)),
            Some(Item::Container(inner)) => container = Container::open(inner)?,
            Some(_) => return Ok(Found::Nothing),
        }
    }
    Ok(Found::Nothing)
}

/// An element of an array, of a negative subscript from the end.
pub(super) fn element<'a>(
    container: &Container<'a>,
    index: i32,
) -> Result<Option<Item<'a>>, VectorError> {
    let index = match index < 0 {
        false => Some(index as usize),
        true => container.count.checked_sub(index.unsigned_abs() as usize),
    };
    match index {
        Some(index) => container.element(index),
        None => Ok(None),
    }
}

/// What `strtoint` makes of a subscript, if it is nothing else.
fn subscript(text: &[u8]) -> Option<i32> {
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(is_space).count()..];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits.iter().try_fold(0_i64, |value, digit| {
        let value = value * 10 + i64::from(digit - b'0');
        (value <= 1 << 31).then_some(value)
    })?;
    i32::try_from(if is_negative { -magnitude } else { magnitude }).ok()
}
