//! Codes to columns.

use std::ops::Range;

use arrow_array::{Float32Array, Float64Array, Int16Array, Int32Array, Int64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use vortex_alp::ALPFloat;

use super::{PackedNumbers, Scale, by_block};
use crate::access::packed::BLOCK;
use crate::column::Column;
use crate::error::ColumnarError;
use crate::types::ColumnType;
use crate::value::Value;

/// Rows of a block that are read one by one; the block is unpacked if there are more.
const FEW_OF_BLOCK: usize = 48;

/// Codes that are gathered at once.
const EIGHT: usize = 8;

/// Puts the values of the codes whose bits are set at the front of `out`, and returns how many they
/// are. Eight are written at a time, so that the number of steps is nearly always the same, and
/// predicted: up to seven values of no meaning follow.
#[inline(always)]
fn gather<T>(codes: &[u32], mut bits: u64, out: &mut [T], value: impl Fn(u32) -> T) -> usize {
    let count = bits.count_ones() as usize;
    if count == codes.len() {
        for (out, &code) in out.iter_mut().zip(codes) {
            *out = value(code);
        }
        return count;
    }
    let (eights, _) = out.as_chunks_mut::<EIGHT>();
    for eight in eights.iter_mut().take(count.div_ceil(EIGHT)) {
        for out in eight {
            // Without a bit left, any code: bit 64 is taken for bit 0.
            *out = value(codes[bits.trailing_zeros() as usize % 64]);
            bits &= bits.wrapping_sub(1);
        }
    }
    count
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
                let value = |code: u32| base.wrapping_add(code as i16);
                let values = self.values(wanted, value, |bits| bits as i16);
                Column::Int16(Int16Array::new(values.into(), nulls))
            }
            (ColumnType::Int32, Scale::Integer { base }) => {
                let base = base as i32;
                let value = |code: u32| base.wrapping_add(code as i32);
                let values = self.values(wanted, value, |bits| bits as i32);
                Column::Int32(Int32Array::new(values.into(), nulls))
            }
            (ColumnType::Float32, Scale::Decimal { base, exponents }) => {
                let power = <f32 as ALPFloat>::F10[usize::from(exponents.f)];
                let inverse = <f32 as ALPFloat>::IF10[usize::from(exponents.e)];
                let base = base as i32;
                let value = |code: u32| base.wrapping_add(code as i32) as f32 * power * inverse;
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
                        let integer = |code: u32| base.wrapping_add(code as i32);
                        let value = |code: u32| f64::from(integer(code)) * power * inverse;
                        self.values(wanted, value, f64::from_bits)
                    }
                    _ => {
                        let integer = |code: u32| base.wrapping_add(code.into());
                        let value = |code: u32| integer(code) as f64 * power * inverse;
                        self.values(wanted, value, f64::from_bits)
                    }
                };
                Column::Float64(Float64Array::new(values.into(), nulls))
            }
            // `open` makes bits of 32-bit floats only.
            (_, Scale::Integer { .. } | Scale::Bits) => {
                let base = self.integer_base().unwrap_or(0);
                let value = |code: u32| base.wrapping_add(code.into());
                let values = self.values(wanted, value, |bits| bits as i64);
                Column::Int64(Int64Array::new(values.into(), nulls))
            }
        }
    }

    #[inline(always)]
    fn values<T: Copy + Default>(
        &self,
        wanted: Wanted<'_>,
        value: impl Fn(u32) -> T,
        exception: impl Fn(u64) -> T,
    ) -> Vec<T> {
        match wanted {
            Wanted::All(rows) => {
                let mut values = Vec::with_capacity(rows.len());
                self.blocks(rows.clone(), |codes| {
                    values.extend(codes.iter().map(|&code| value(code)));
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
    fn selected_values<T: Copy + Default>(
        &self,
        rows: &Range<usize>,
        selected: &BooleanBuffer,
        known: Option<&[u32]>,
        value: impl Fn(u32) -> T,
    ) -> Vec<T> {
        let count = selected.count_set_bits();
        // Room for eights, the last of which may be needed in part.
        let mut values = vec![T::default(); count + EIGHT];
        let mut next = 0;
        let mut unpacked = [0; BLOCK];
        for piece in by_block(rows.clone()) {
            let place = piece.start - rows.start;
            let bits = selected.slice(place, piece.len());
            let codes = match known {
                Some(codes) => &codes[place..place + piece.len()],
                None => {
                    let count = bits.count_set_bits();
                    if count <= FEW_OF_BLOCK {
                        for (out, at) in values[next..].iter_mut().zip(bits.set_indices()) {
                            *out = value(self.codes.get(piece.start + at));
                        }
                        next += count;
                        continue;
                    }
                    self.codes.unpack(piece.start / BLOCK, &mut unpacked);
                    let first = piece.start % BLOCK;
                    &unpacked[first..first + piece.len()]
                }
            };
            for (codes, bits) in codes.chunks(64).zip(bits.bit_chunks().iter_padded()) {
                next += gather(codes, bits, &mut values[next..], &value);
            }
        }
        values.truncate(count);
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
