//! Codes to columns.

use std::ops::Range;

use arrow_array::{Float32Array, Float64Array, Int16Array, Int32Array, Int64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, mask32x16, u32x16};
use vortex_alp::ALPFloat;

use super::{PackedNumbers, Scale, by_block};
use crate::access::packed::BLOCK;
use crate::column::Column;
use crate::error::ColumnarError;
use crate::types::ColumnType;
use crate::value::Value;
use crate::wide::wide;

/// Rows of a block that are read one by one; the block is unpacked if there are more.
const FEW_OF_BLOCK: usize = 24;

/// Codes that are compacted at a time.
const VECTOR: usize = 16;

/// Room for the codes of a block that are selected; up to fifteen codes of no meaning follow them.
type Chosen = [u32; BLOCK + VECTOR];

/// Puts the codes whose bits are set at the front of `chosen`, and returns how many they are. There
/// are at most as many codes as a block has, and 64 for each word.
fn choose(codes: &[u32], words: &[u64], chosen: &mut Chosen) -> usize {
    dispatch!(Level::new(), simd => choose_by(simd, codes, words, chosen))
}

#[inline(always)]
fn choose_by<S: Simd>(simd: S, codes: &[u32], words: &[u64], chosen: &mut Chosen) -> usize {
    let mut next = 0;
    for (codes, word) in codes.chunks(64).zip(words) {
        for (at, codes) in codes.chunks(VECTOR).enumerate() {
            let mut bits = word >> (VECTOR * at) & 0xffff;
            let codes: u32x16<S> = match codes.first_chunk::<VECTOR>() {
                Some(codes) => (*codes).simd_into(simd),
                None => {
                    bits &= (1 << codes.len()) - 1;
                    let mut last = [0; VECTOR];
                    last[..codes.len()].copy_from_slice(codes);
                    last.simd_into(simd)
                }
            };
            let mask = mask32x16::from_bitmask(simd, bits);
            codes
                .compress(mask)
                .store_slice(&mut chosen[next..next + VECTOR]);
            next += bits.count_ones() as usize;
        }
    }
    next
}

/// Which rows are decoded.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// A range.
    All(&'a Range<usize>),
    /// Rows of a range, whose codes may have been unpacked before.
    Selected(&'a Range<usize>, &'a BooleanBuffer, Option<&'a [u32]>),
    /// These, which ascend.
    Some(&'a [u32]),
}

/// Appends the values of codes.
#[inline(always)]
fn append<T>(values: &mut Vec<T>, codes: &[u32], value: impl Fn(u32) -> T) {
    wide(
        #[inline(always)]
        move || values.extend(codes.iter().map(move |&code| value(code))),
    );
}

impl PackedNumbers {
    /// Decodes a range of rows.
    pub(crate) fn decode(&self, rows: Range<usize>) -> Result<Column, ColumnarError> {
        self.check(&rows)?;
        let nulls = self
            .nulls
            .as_ref()
            .map(|nulls| nulls.slice(rows.start, rows.len()));
        Ok(self.column(Wanted::All(&rows), nulls))
    }

    /// Decodes rows, which ascend and are checked by the caller.
    pub(crate) fn decode_some(&self, rows: &[u32]) -> Column {
        let nulls = self.nulls.as_ref().map(|nulls| {
            let is_valid = |at: usize| nulls.is_valid(rows[at] as usize);
            NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), is_valid))
        });
        self.column(Wanted::Some(rows), nulls)
    }

    /// Decodes the selected rows of a range. `codes` are those of the range, if they were unpacked
    /// before.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`] when there are no such rows, or not as many bits or codes.
    pub fn decode_selected(
        &self,
        rows: Range<usize>,
        selected: &BooleanBuffer,
        codes: Option<&[u32]>,
    ) -> Result<Column, ColumnarError> {
        self.check(&rows)?;
        self.check_len(&rows, selected.len())?;
        self.check_len(&rows, codes.map_or(rows.len(), <[u32]>::len))?;
        let nulls = self.nulls.as_ref().map(|nulls| {
            let is_valid = |at: usize| nulls.is_valid(rows.start + at);
            NullBuffer::new(selected.set_indices().map(is_valid).collect())
        });
        Ok(self.column(Wanted::Selected(&rows, selected, codes), nulls))
    }

    fn column(&self, wanted: Wanted<'_>, nulls: Option<NullBuffer>) -> Column {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        match (self.ty, self.scale) {
            (ColumnType::Int16, Scale::Integer { base }) => {
                let base = base as i16;
                let value = move |code: u32| base.wrapping_add(code as i16);
                let values = self.values(wanted, value, |bits| bits as i16);
                Column::Int16(Int16Array::new(values.into(), nulls))
            }
            (ColumnType::Int32, Scale::Integer { base }) => {
                let base = base as i32;
                let value = move |code: u32| base.wrapping_add(code as i32);
                let values = self.values(wanted, value, |bits| bits as i32);
                Column::Int32(Int32Array::new(values.into(), nulls))
            }
            (ColumnType::Float32, Scale::Decimal { base, exponents }) => {
                let power = <f32 as ALPFloat>::F10[usize::from(exponents.f)];
                let inverse = <f32 as ALPFloat>::IF10[usize::from(exponents.e)];
                let base = base as i32;
                let value =
                    move |code: u32| base.wrapping_add(code as i32) as f32 * power * inverse;
                let values = self.values(wanted, value, |bits| f32::from_bits(bits as u32));
                Column::Float32(Float32Array::new(values.into(), nulls))
            }
            (ColumnType::Float32, _) => {
                let values =
                    self.values(wanted, f32::from_bits, |bits| f32::from_bits(bits as u32));
                Column::Float32(Float32Array::new(values.into(), nulls))
            }
            (_, Scale::Decimal { base, exponents }) => {
                let power = <f64 as ALPFloat>::F10[usize::from(exponents.f)];
                let inverse = <f64 as ALPFloat>::IF10[usize::from(exponents.e)];
                let last = base + ((1i64 << self.bits()) - 1);
                let values = match (i32::try_from(base), i32::try_from(last)) {
                    // Conversions of 32 bits are faster.
                    (Ok(base), Ok(_)) => {
                        let integer = move |code: u32| base.wrapping_add(code as i32);
                        let value = move |code: u32| f64::from(integer(code)) * power * inverse;
                        self.values(wanted, value, f64::from_bits)
                    }
                    _ => {
                        let integer = move |code: u32| base.wrapping_add(code.into());
                        let value = move |code: u32| integer(code) as f64 * power * inverse;
                        self.values(wanted, value, f64::from_bits)
                    }
                };
                Column::Float64(Float64Array::new(values.into(), nulls))
            }
            // `open` makes bits of 32-bit floats only.
            (_, Scale::Integer { .. } | Scale::Bits) => {
                let base = self.integer_base().unwrap_or(0);
                let value = move |code: u32| base.wrapping_add(code.into());
                let values = self.values(wanted, value, |bits| bits as i64);
                Column::Int64(Int64Array::new(values.into(), nulls))
            }
        }
    }

    #[inline(always)]
    fn values<T: Copy>(
        &self,
        wanted: Wanted<'_>,
        value: impl Fn(u32) -> T + Copy,
        exception: impl Fn(u64) -> T,
    ) -> Vec<T> {
        match wanted {
            Wanted::All(rows) => {
                let mut values = Vec::with_capacity(rows.len());
                self.blocks(rows.clone(), |codes| {
                    append(&mut values, codes, value);
                });
                for (at, bits) in self.exceptions.within(rows.clone()) {
                    values[at] = exception(bits);
                }
                values
            }
            Wanted::Selected(rows, selected, codes) => {
                let mut values = self.selected_values(rows, selected, codes, value);
                let (mut seen, mut place) = (0, 0);
                for (at, bits) in self.exceptions.within(rows.clone()) {
                    place += selected.slice(seen, at - seen).count_set_bits();
                    seen = at;
                    if selected.value(at) {
                        values[place] = exception(bits);
                    }
                }
                values
            }
            Wanted::Some(rows) => {
                let mut values = self.values_of(rows, value);
                if let (Some(&first), Some(&last)) = (rows.first(), rows.last()) {
                    let all = first as usize..last as usize + 1;
                    for (at, bits) in self.exceptions.within(all) {
                        if let Ok(at) = rows.binary_search(&(first + at as u32)) {
                            values[at] = exception(bits);
                        }
                    }
                }
                values
            }
        }
    }

    #[inline(always)]
    fn selected_values<T: Copy>(
        &self,
        rows: &Range<usize>,
        selected: &BooleanBuffer,
        known: Option<&[u32]>,
        value: impl Fn(u32) -> T + Copy,
    ) -> Vec<T> {
        let mut values = Vec::with_capacity(selected.count_set_bits());
        let mut unpacked = [0; BLOCK];
        let mut chosen: Chosen = [0; BLOCK + VECTOR];
        for piece in by_block(rows.clone()) {
            let place = piece.start - rows.start;
            let bits = selected.slice(place, piece.len());
            let count = bits.count_set_bits();
            let codes = match known {
                Some(codes) => &codes[place..place + piece.len()],
                None if count <= FEW_OF_BLOCK => {
                    let code = |at: usize| self.codes.get(piece.start + at);
                    values.extend(bits.set_indices().map(|at| value(code(at))));
                    continue;
                }
                None => {
                    self.codes.unpack(piece.start / BLOCK, &mut unpacked);
                    let first = piece.start % BLOCK;
                    &unpacked[first..first + piece.len()]
                }
            };
            if count == codes.len() {
                append(&mut values, codes, value);
                continue;
            }
            let mut words = [0; BLOCK / 64];
            for (word, bits) in words.iter_mut().zip(bits.bit_chunks().iter_padded()) {
                *word = bits;
            }
            let count = choose(codes, &words, &mut chosen);
            append(&mut values, &chosen[..count], value);
        }
        values
    }

    #[inline(always)]
    fn values_of<T: Copy>(&self, rows: &[u32], value: impl Fn(u32) -> T) -> Vec<T> {
        let mut values = Vec::with_capacity(rows.len());
        let mut codes = [0; BLOCK];
        for rows in rows.chunk_by(|&a, &b| a as usize / BLOCK == b as usize / BLOCK) {
            if rows.len() <= FEW_OF_BLOCK {
                values.extend(rows.iter().map(|&row| value(self.codes.get(row as usize))));
                continue;
            }
            self.codes.unpack(rows[0] as usize / BLOCK, &mut codes);
            values.extend(rows.iter().map(|&row| value(codes[row as usize % BLOCK])));
        }
        values
    }

    /// The value of a code.
    pub(super) fn value_of_code(&self, code: u32) -> Value<'static> {
        self.value_of_bits(self.bits_of_wide_code(code.into()))
    }

    /// The value of its bits.
    pub(super) fn value_of_bits(&self, bits: u64) -> Value<'static> {
        match self.ty {
            ColumnType::Int16 => Value::Int16(bits as i16),
            ColumnType::Int32 => Value::Int32(bits as i32),
            ColumnType::Float32 => Value::Float32(f32::from_bits(bits as u32)),
            ColumnType::Float64 => Value::Float64(f64::from_bits(bits)),
            _ => Value::Int64(bits as i64),
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::wide::levels;

    #[test]
    fn selected_codes_are_chosen_at_every_level() {
        let codes: [u32; BLOCK] = std::array::from_fn(|at| at as u32 * 3);
        for rare in [1, 2, 5, 40] {
            for len in [0, 1, 15, 17, 64, 100, BLOCK] {
                let is_selected = |at: usize| (at * 7_919 / 13).is_multiple_of(rare);
                let mut words = [0; BLOCK / 64];
                for at in (0..BLOCK).filter(|&at| is_selected(at)) {
                    words[at / 64] |= 1 << (at % 64);
                }
                let expected: Vec<u32> = (0..len)
                    .filter(|&at| is_selected(at))
                    .map(|at| codes[at])
                    .collect();
                for level in levels() {
                    let mut chosen: Chosen = [0; BLOCK + VECTOR];
                    let codes = &codes[..len];
                    let count =
                        dispatch!(level, simd => choose_by(simd, codes, &words, &mut chosen));
                    assert_eq!(chosen[..count], expected, "{level:?}, {len} codes");
                }
            }
        }
    }
}
