//! Keys of groups as bits: columns of a batch to one word or string of bytes for each row, and
//! back.
//!
//! ```text
//!   one key of up to 64 (128) bits ─▶ u64 (u128); its NULL is a group of its own
//!   several that fit with a NULL bit each ─▶ u64, u128:   … │ null │ value 1 │ null │ value 0
//!   all else ─▶ bytes:   0  or  1 value …, of each key
//! ```
//!
//! Values that PostgreSQL's `=` does not tell apart have the same bits: there is one NaN, one zero,
//! and numerics have no trailing zeros. How such a key looks is kept beside the keys.

use arrow_array::{
    Array, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    PrimitiveArray,
};
use howdah_columnar::{Column, ColumnType, Numeric, NumericColumn, NumericDigits, NumericScales};

use crate::aggregates::column_of_bytes;
use crate::error::VectorError;

/// Where a key lies in a word.
#[derive(Clone, Copy, Debug)]
struct Part {
    ty: ColumnType,
    shift: u32,
    bits: u32,
}

/// In what keys are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Word,
    Wide,
    Bytes,
}

/// How the keys of a query are kept.
#[derive(Clone, Debug)]
pub(crate) struct KeyLayout {
    parts: Vec<Part>,
    pub(crate) form: Form,
}

fn bits_of(ty: ColumnType) -> Option<u32> {
    Some(match ty {
        ColumnType::Bool => 1,
        ColumnType::Int16 => 16,
        ColumnType::Int32 | ColumnType::Float32 => 32,
        ColumnType::Int64 | ColumnType::Float64 => 64,
        ColumnType::Fixed { len } if len <= 16 => u32::from(len) * 8,
        _ => return None,
    })
}

/// A word that keys are put together in.
pub(super) trait KeyWord: Copy + Default + Eq + std::ops::BitOr<Output = Self> {
    fn shifted(value: u128, shift: u32) -> Self;
    fn part(self, shift: u32, bits: u32) -> u128;
    fn tag(self) -> u64;
    /// Whether words with the same tag are the same.
    const TAG_TELLS: bool;
}

impl KeyWord for u64 {
    const TAG_TELLS: bool = true;

    #[inline(always)]
    fn shifted(value: u128, shift: u32) -> Self {
        (value as u64) << shift
    }

    fn part(self, shift: u32, bits: u32) -> u128 {
        u128::from(self >> shift & (u64::MAX >> (64 - bits)))
    }

    #[inline(always)]
    fn tag(self) -> u64 {
        self
    }
}

impl KeyWord for u128 {
    const TAG_TELLS: bool = false;

    #[inline(always)]
    fn shifted(value: u128, shift: u32) -> Self {
        value << shift
    }

    fn part(self, shift: u32, bits: u32) -> u128 {
        self >> shift & (u128::MAX >> (128 - bits))
    }

    #[inline(always)]
    fn tag(self) -> u64 {
        let (low, high) = (self as u64, (self >> 64) as u64);
        (low ^ high.rotate_left(29)).wrapping_mul(0xff51_afd7_ed55_8ccd) ^ high
    }
}

/// The bits of a float: one NaN, one zero.
#[inline(always)]
pub(super) fn bits_of_f64(value: f64) -> u64 {
    match value.is_nan() {
        true => f64::NAN.to_bits(),
        false => (value + 0.0).to_bits(),
    }
}

#[inline(always)]
fn bits_of_f32(value: f32) -> u32 {
    match value.is_nan() {
        true => f32::NAN.to_bits(),
        false => (value + 0.0).to_bits(),
    }
}

impl KeyLayout {
    pub(crate) fn new(types: &[ColumnType]) -> Self {
        let is_single = types.len() == 1;
        let mut shift = 0;
        let mut parts = Vec::with_capacity(types.len());
        let mut fits = true;
        for &ty in types {
            let bits = bits_of(ty);
            fits &= bits.is_some();
            let bits = bits.unwrap_or(0);
            parts.push(Part { ty, shift, bits });
            shift += bits + u32::from(!is_single);
        }
        let form = match shift {
            _ if !fits => Form::Bytes,
            0..=64 => Form::Word,
            65..=128 => Form::Wide,
            _ => Form::Bytes,
        };
        Self { parts, form }
    }

    /// Whether there is only one key; then its NULL has no bit.
    pub(super) fn is_single(&self) -> bool {
        self.parts.len() == 1
    }

    /// The bits of the only key, if it is an integer.
    pub(super) fn integer_bits(&self) -> Option<u32> {
        match self.parts.as_slice() {
            [part] => matches!(
                part.ty,
                ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64
            )
            .then_some(part.bits),
            _ => None,
        }
    }

    /// The keys of which equal values may look different.
    pub(super) fn looks(&self) -> impl Iterator<Item = usize> {
        use ColumnType::{Float32, Float64, Numeric};
        let looks = |part: &Part| matches!(part.ty, Numeric | Float32 | Float64);
        (0..self.parts.len()).filter(move |&at| looks(&self.parts[at]))
    }

    /// The words of a batch's rows. The word of a NULL that has no bit is undefined.
    pub(super) fn words<W: KeyWord>(
        &self,
        keys: &[Column],
        row_count: usize,
        words: &mut Vec<W>,
    ) -> Result<(), VectorError> {
        words.clear();
        if let ([_], [key]) = (self.parts.as_slice(), keys)
            && key.nulls().is_none()
        {
            // One pass: the word is the integer.
            let word = |bits: u64| W::shifted(bits.into(), 0);
            match key {
                Column::Int32(array) => {
                    words.extend(array.values().iter().map(|&v| word((v as u32).into())));
                    return Ok(());
                }
                Column::Int64(array) => {
                    words.extend(array.values().iter().map(|&v| word(v as u64)));
                    return Ok(());
                }
                _ => {}
            }
        }
        words.resize(row_count, W::default());
        for (part, column) in self.parts.iter().zip(keys) {
            self.add_part(*part, column, words)?;
        }
        Ok(())
    }

    fn add_part<W: KeyWord>(
        &self,
        part: Part,
        column: &Column,
        words: &mut [W],
    ) -> Result<(), VectorError> {
        // A single key has no place for it: its NULLs are told apart before.
        let null = match self.is_single() {
            true => W::default(),
            false => W::shifted(1, part.shift + part.bits),
        };
        macro_rules! scalars {
            ($array:expr, $bits:expr) => {{
                let array = $array;
                match array.nulls() {
                    None => {
                        for (word, &value) in words.iter_mut().zip(array.values()) {
                            *word = *word | W::shifted(u128::from($bits(value)), part.shift);
                        }
                    }
                    Some(nulls) => {
                        for (row, (word, &value)) in
                            words.iter_mut().zip(array.values()).enumerate()
                        {
                            *word = *word
                                | match nulls.is_valid(row) {
                                    true => W::shifted(u128::from($bits(value)), part.shift),
                                    false => null,
                                };
                        }
                    }
                }
            }};
        }
        match column {
            Column::Bool(array) => {
                for (row, word) in words.iter_mut().enumerate() {
                    *word = *word
                        | match array.is_valid(row) {
                            true => W::shifted(array.value(row).into(), part.shift),
                            false => null,
                        };
                }
            }
            Column::Int16(array) => scalars!(array, |value: i16| value as u16),
            Column::Int32(array) => scalars!(array, |value: i32| value as u32),
            Column::Int64(array) => scalars!(array, |value: i64| value as u64),
            Column::Float32(array) => scalars!(array, bits_of_f32),
            Column::Float64(array) => scalars!(array, bits_of_f64),
            Column::Fixed(array) => {
                for (row, word) in words.iter_mut().enumerate() {
                    *word = *word
                        | match array.is_valid(row) {
                            true => {
                                let mut wide = [0; 16];
                                let value = array.value(row);
                                wide[..value.len()].copy_from_slice(value);
                                W::shifted(u128::from_le_bytes(wide), part.shift)
                            }
                            false => null,
                        };
                }
            }
            Column::Text(_) | Column::Bytes(_) | Column::Numeric(_) => return Err(NO_WORD),
        }
        Ok(())
    }

    /// The keys of groups; `None` is the group of a NULL that has no bit. `look` tells how the key
    /// of a place is shown in the group of a place.
    pub(super) fn columns_of_words<W: KeyWord>(
        &self,
        words: impl Iterator<Item = Option<W>> + Clone,
        look: impl Fn(usize, usize) -> u16,
    ) -> Result<Vec<Column>, VectorError> {
        (self.parts.iter().enumerate())
            .map(|(key, part)| {
                let values = words.clone().map(|word| {
                    let word = word?;
                    let is_null = !self.is_single() && word.part(part.shift + part.bits, 1) == 1;
                    (!is_null).then(|| word.part(part.shift, part.bits))
                });
                Ok(with_signs(column_of_bits(part.ty, values)?, |group| {
                    look(key, group)
                }))
            })
            .collect()
    }

    /// Appends the bytes of a row's keys.
    pub(super) fn put_bytes(
        &self,
        keys: &[Column],
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), VectorError> {
        for key in keys {
            put_value(key, row, out)?;
        }
        Ok(())
    }

    /// The keys of groups, from the bytes of each.
    pub(super) fn columns_of_bytes(
        &self,
        groups: &[&[u8]],
        look: impl Fn(usize, usize) -> u16,
    ) -> Result<Vec<Column>, VectorError> {
        let mut rests = groups.to_vec();
        self.parts
            .iter()
            .enumerate()
            .map(|(key, part)| {
                let values: Vec<Option<&[u8]>> = rests
                    .iter_mut()
                    .map(|rest| take_value(part, rest))
                    .collect::<Result<_, _>>()?;
                match part.ty {
                    ColumnType::Numeric => numerics(&values, |group| look(key, group)),
                    ColumnType::Text | ColumnType::Bytes | ColumnType::Fixed { .. } => {
                        column_of_bytes(part.ty, values.iter().copied())
                    }
                    ty => {
                        let bits = values.iter().map(|value| {
                            value.map(|value| {
                                let mut wide = [0; 16];
                                wide[..value.len()].copy_from_slice(value);
                                u128::from_le_bytes(wide)
                            })
                        });
                        Ok(with_signs(column_of_bits(ty, bits)?, |group| {
                            look(key, group)
                        }))
                    }
                }
            })
            .collect()
    }
}

const NO_WORD: VectorError = VectorError::Unsupported {
    what: "a key of another type",
};
const IMAGE: VectorError = VectorError::Unsupported {
    what: "a numeric of more than 38 digits, NaN or infinite",
};

fn column_of_bits(
    ty: ColumnType,
    values: impl Iterator<Item = Option<u128>> + Clone,
) -> Result<Column, VectorError> {
    macro_rules! scalars {
        ($variant:ident, $array:ty, $from:expr) => {
            Column::$variant(values.map(|value| value.map($from)).collect::<$array>())
        };
    }
    Ok(match ty {
        ColumnType::Bool => scalars!(Bool, BooleanArray, |bits| bits != 0),
        ColumnType::Int16 => scalars!(Int16, Int16Array, |bits| bits as i16),
        ColumnType::Int32 => scalars!(Int32, Int32Array, |bits| bits as i32),
        ColumnType::Int64 => scalars!(Int64, Int64Array, |bits| bits as i64),
        ColumnType::Float32 => {
            scalars!(Float32, Float32Array, |bits| f32::from_bits(bits as u32))
        }
        ColumnType::Float64 => {
            scalars!(Float64, Float64Array, |bits| f64::from_bits(bits as u64))
        }
        ColumnType::Fixed { len } => {
            let bytes: Vec<Option<[u8; 16]>> =
                values.map(|value| value.map(u128::to_le_bytes)).collect();
            let bytes = bytes
                .iter()
                .map(|bytes| bytes.as_ref().map(|bytes| &bytes[..usize::from(len)]));
            return column_of_bytes(ty, bytes);
        }
        _ => return Err(NO_WORD),
    })
}

/// Floats, of which a zero is negative in the groups that look so.
fn with_signs(column: Column, look: impl Fn(usize) -> u16) -> Column {
    macro_rules! signed {
        ($variant:ident, $array:expr) => {{
            let (_, values, nulls) = $array.into_parts();
            let values = (values.iter().enumerate()).map(|(group, &value)| {
                let is_negative = value == 0.0 && look(group) == 1;
                if is_negative { -value } else { value }
            });
            Column::$variant(PrimitiveArray::new(values.collect(), nulls))
        }};
    }
    match column {
        Column::Float32(array) => signed!(Float32, array),
        Column::Float64(array) => signed!(Float64, array),
        other => other,
    }
}

/// The unscaled value and scale without trailing zeros.
pub(super) fn normalized(mut unscaled: i128, mut scale: u16) -> (i128, u16) {
    if unscaled == 0 {
        return (0, 0);
    }
    if let Ok(mut narrow) = i64::try_from(unscaled) {
        while scale > 0 && narrow % 10 == 0 {
            narrow /= 10;
            scale -= 1;
        }
        return (narrow.into(), scale);
    }
    while scale > 0 && unscaled % 10 == 0 {
        unscaled /= 10;
        scale -= 1;
    }
    (unscaled, scale)
}

fn put_value(column: &Column, row: usize, out: &mut Vec<u8>) -> Result<(), VectorError> {
    if column.nulls().is_some_and(|nulls| nulls.is_null(row)) {
        out.push(0);
        return Ok(());
    }
    out.push(1);
    let mut put_string = |value: &[u8]| {
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(value);
    };
    match column {
        Column::Bool(array) => out.push(array.value(row).into()),
        Column::Int16(array) => out.extend_from_slice(&array.value(row).to_le_bytes()),
        Column::Int32(array) => out.extend_from_slice(&array.value(row).to_le_bytes()),
        Column::Int64(array) => out.extend_from_slice(&array.value(row).to_le_bytes()),
        Column::Float32(array) => {
            out.extend_from_slice(&bits_of_f32(array.value(row)).to_le_bytes());
        }
        Column::Float64(array) => {
            out.extend_from_slice(&bits_of_f64(array.value(row)).to_le_bytes());
        }
        Column::Fixed(array) => out.extend_from_slice(array.value(row)),
        Column::Text(array) => put_string(array.value(row).as_bytes()),
        Column::Bytes(array) => put_string(array.value(row)),
        Column::Numeric(column) => match column.value(row) {
            Some(Numeric::Small { unscaled, scale }) => {
                let (unscaled, scale) = normalized(unscaled, scale);
                out.extend_from_slice(&unscaled.to_le_bytes());
                out.extend_from_slice(&scale.to_le_bytes());
            }
            _ => return Err(IMAGE),
        },
    }
    Ok(())
}

fn take_value<'a>(part: &Part, rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, VectorError> {
    let mut take = |len: usize| rest.split_off(..len).ok_or(NO_WORD);
    if take(1)? == [0] {
        return Ok(None);
    }
    let len = match part.ty {
        ColumnType::Text | ColumnType::Bytes => {
            let mut len = [0; 4];
            len.copy_from_slice(take(4)?);
            u32::from_le_bytes(len) as usize
        }
        ColumnType::Numeric => 18,
        ColumnType::Fixed { len } => len.into(),
        _ => part.bits.div_ceil(8) as usize,
    };
    take(len).map(Some)
}

/// Numerics from their normalized bytes, at the scales that they are shown with.
fn numerics(values: &[Option<&[u8]>], shown: impl Fn(usize) -> u16) -> Result<Column, VectorError> {
    let mut digits = Vec::with_capacity(values.len());
    let mut scales = Vec::with_capacity(values.len());
    for (group, value) in values.iter().enumerate() {
        let Some(value) = value else {
            digits.push(0);
            scales.push(0);
            continue;
        };
        let (unscaled, scale) = value.split_at(16);
        let unscaled = i128::from_le_bytes(unscaled.try_into().map_err(|_| NO_WORD)?);
        let scale = u16::from_le_bytes(scale.try_into().map_err(|_| NO_WORD)?);
        let shown = shown(group);
        let unscaled = match unscaled {
            0 => Some(0),
            unscaled => 10i128
                .checked_pow(shown.saturating_sub(scale).into())
                .and_then(|factor| unscaled.checked_mul(factor)),
        };
        digits.push(unscaled.ok_or(IMAGE)?);
        scales.push(shown);
    }
    let nulls = values
        .contains(&None)
        .then(|| values.iter().map(Option::is_some).collect());
    let column = NumericColumn::new(
        NumericDigits::Wide(digits.into()),
        NumericScales::PerRow(scales.into()),
        Vec::new(),
        None,
        nulls,
    )?;
    Ok(Column::Numeric(column))
}
