//! The place of each row's key in the domain of one column.

use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use howdah_columnar::{Codes, Column, ZONE_ROWS};

use super::{Part, extremes, integer};
use crate::error::VectorError;
use crate::expr::Input;
use crate::operators::scan::{OpenColumn, Zone};
use crate::operators::words::Dictionary;

/// The ordinal of every row of a zone, if it is known without reading them.
pub(super) fn only_ordinal(part: &Part, zone: &Zone<'_>) -> Option<u32> {
    match part {
        Part::Words {
            column, ordinals, ..
        } => {
            let dictionary = zone.morsel().dictionary(*column)?;
            match dictionary.is_constant() {
                true => ordinals.as_ref()?.first().copied(),
                false => None,
            }
        }
        Part::Integers { column, base, span } => {
            let OpenColumn::Chunk(_, meta) = zone.morsel().columns.get(*column)? else {
                return None;
            };
            let bounds = meta.zone(zone.rows().start / ZONE_ROWS)?;
            let (min, max) = (bounds.min.as_ref()?, bounds.max.as_ref()?);
            let is_one = bounds.null_count == 0 && min.exact && max.exact;
            let value = integer(&min.value)?;
            let offset = i128::from(value) - i128::from(*base);
            let is_within = (0..*span as i128).contains(&offset);
            (is_one && min.value == max.value && is_within).then(|| offset as u32 + 1)
        }
    }
}

/// The result of storing ordinals.
pub(super) enum Put {
    /// The least and greatest one, if they are known.
    Within(Option<(u32, u32)>),
    /// A value is outside of the domain.
    Outside,
}

impl From<bool> for Put {
    fn from(is_within: bool) -> Self {
        match is_within {
            true => Self::Within(None),
            false => Self::Outside,
        }
    }
}

/// Stores the ordinal of each row's key.
pub(super) fn put_ordinals(
    part: &Part,
    zone: &Zone<'_>,
    ordinals: &mut Vec<u32>,
) -> Result<Put, VectorError> {
    ordinals.clear();
    match part {
        Part::Integers { column, base, span } => {
            let span = *span as u64;
            let is_within = match zone.column(*column)? {
                Column::Bool(array) => {
                    ordinals.extend((0..array.len()).map(|row| {
                        let ordinal = 1 + u32::from(array.value(row));
                        if array.is_valid(row) { ordinal } else { 0 }
                    }));
                    true
                }
                Column::Int16(array) => put_integers(&array, *base, span, ordinals),
                Column::Int32(array) => match (array.nulls(), i32::try_from(*base)) {
                    (None, Ok(base)) if i64::from(base) + span as i64 <= i64::from(i32::MAX) => {
                        return Ok(put_narrow(array.values(), base, span as u32, ordinals));
                    }
                    _ => put_integers(&array, *base, span, ordinals),
                },
                Column::Int64(array) => put_integers(&array, *base, span, ordinals),
                _ => false,
            };
            Ok(is_within.into())
        }
        Part::Words {
            column,
            ordinals: words,
            ..
        } => match (zone.morsel().dictionary(*column), words) {
            (Some(view), Some(words)) => {
                put_words(view, words, zone, ordinals);
                Ok(Put::Within(None))
            }
            _ => Ok(Put::Outside),
        },
    }
}

/// 32-bit integers without NULLs. A difference that wraps is no ordinal, for the domain's end does
/// not wrap.
fn put_narrow(values: &[i32], base: i32, span: u32, ordinals: &mut Vec<u32>) -> Put {
    let ordinal = |value: &i32| value.wrapping_sub(base).wrapping_add(1) as u32;
    ordinals.extend(values.iter().map(ordinal));
    let (least, greatest) = extremes(ordinals);
    match least as i32 >= 1 && greatest as i32 <= span as i32 {
        true => Put::Within(Some((least, greatest))),
        false => Put::Outside,
    }
}

fn put_integers<A: ArrowPrimitiveType>(
    array: &PrimitiveArray<A>,
    base: i64,
    span: u64,
    ordinals: &mut Vec<u32>,
) -> bool
where
    A::Native: Into<i64>,
{
    let mut outside = false;
    match array.nulls() {
        None => ordinals.extend(array.values().iter().map(|&value| {
            let offset = value.into().wrapping_sub(base) as u64;
            outside |= offset >= span;
            (offset as u32).wrapping_add(1)
        })),
        Some(nulls) => ordinals.extend(array.values().iter().enumerate().map(|(row, &value)| {
            let offset = value.into().wrapping_sub(base) as u64;
            let is_valid = nulls.is_valid(row);
            outside |= is_valid & (offset >= span);
            (offset as u32).wrapping_add(1) * u32::from(is_valid)
        })),
    }
    !outside
}

fn put_words(view: &Dictionary, words: &[u32], zone: &Zone<'_>, ordinals: &mut Vec<u32>) {
    match (zone.selection(), &view.codes, &view.nulls) {
        (None, Some(Codes::One(codes)), None) => {
            ordinals.extend(
                codes[zone.rows()]
                    .iter()
                    .map(|&code| words[usize::from(code)]),
            );
        }
        (_, _, None) => {
            view.codes_of(zone, ordinals);
            for ordinal in ordinals.iter_mut() {
                *ordinal = words[*ordinal as usize];
            }
        }
        (_, _, Some(nulls)) => {
            view.codes_of(zone, ordinals);
            // The code of a null is undefined.
            for (ordinal, row) in ordinals.iter_mut().zip(zone.row_numbers()) {
                *ordinal = match nulls.is_null(row as usize) {
                    true => 0,
                    false => words[*ordinal as usize],
                };
            }
        }
    }
}
