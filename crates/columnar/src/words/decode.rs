//! Decoding rows of OnPair: the words of their codes, end to end, and a view of each row.
//!
//! A word is copied as sixteen bytes, whatever its length, and the next one goes over what is too
//! much. The decoder that Vortex calls makes out for each code how near its word is to the end of
//! the dictionary, and of the result: 25 instructions. Here both have room for a whole word at
//! their end, so that 12 are left. Bytes are decoded to a small buffer and appended from there:
//! the result need not be filled with zeros first.

use arrow_buffer::{Buffer as ArrowBuffer, ScalarBuffer};
use vortex_array::arrays::PrimitiveArray;
use vortex_array::arrays::primitive::PrimitiveArrayExt;
use vortex_array::dtype::PType;
use vortex_array::{ArrayView, ExecutionCtx};
use vortex_buffer::Buffer;
use vortex_error::{VortexResult, vortex_bail, vortex_ensure, vortex_err};
use vortex_onpair::{OnPair, OnPairArrayExt, OnPairArraySlotsExt};

use crate::buffers::{Views, indexes, nulls_of};
use crate::byte_views::{INLINE_BYTES, view_of, view_of_short};

/// The longest word, in bytes.
const WORD_BYTES: usize = 16;

/// Codes that are decoded to the small buffer before their bytes are appended.
const CODES_AT_ONCE: usize = 256;

/// The words of a chunk. Each lies in `bytes` and may be read there as sixteen bytes.
struct Dictionary {
    bytes: Vec<u8>,
    /// Where each word begins, and in the lowest bits its length.
    places: Vec<u32>,
}

const LENGTH_BITS: u32 = 5;

impl Dictionary {
    fn of(array: &ArrayView<'_, OnPair>, ctx: &mut ExecutionCtx) -> VortexResult<Self> {
        let stored = array.data().dict_bytes();
        let (offsets, _) = indexes(array.dict_offsets().clone(), ctx)?;
        let ends = offsets.get(1..).unwrap_or_default();
        let mut places = Vec::with_capacity(ends.len());
        for (&start, &end) in offsets.iter().zip(ends) {
            let len = end.wrapping_sub(start);
            vortex_ensure!(
                len as usize <= WORD_BYTES
                    && end as usize <= stored.len()
                    && end >> (u32::BITS - LENGTH_BITS) == 0,
                "a word lies outside of its dictionary"
            );
            places.push(start << LENGTH_BITS | len);
        }
        let mut bytes = Vec::with_capacity(stored.len() + WORD_BYTES);
        bytes.extend_from_slice(stored);
        bytes.resize(stored.len() + WORD_BYTES, 0);
        Ok(Self { bytes, places })
    }

    /// Appends the words of these codes; `None` if there is no such word.
    fn append(&self, codes: &[u16], decoded: &mut Vec<u8>) -> Option<()> {
        let mut buffer = [0; (CODES_AT_ONCE + 1) * WORD_BYTES];
        for codes in codes.chunks(CODES_AT_ONCE) {
            let mut end = 0;
            for &code in codes {
                let place = *self.places.get(usize::from(code))?;
                let start = (place >> LENGTH_BITS) as usize;
                let word = self.bytes.get(start..)?.first_chunk::<WORD_BYTES>()?;
                *buffer.get_mut(end..)?.first_chunk_mut()? = *word;
                end += (place % (1 << LENGTH_BITS)) as usize;
            }
            decoded.extend_from_slice(buffer.get(..end)?);
        }
        Some(())
    }
}

/// The rows of an array. Text is not validated.
pub(crate) fn views(array: &ArrayView<'_, OnPair>, ctx: &mut ExecutionCtx) -> VortexResult<Views> {
    let row_count = array.len();
    let nulls = nulls_of(array.array_validity(), row_count, ctx)?;
    if row_count == 0 {
        return Ok((Vec::new().into(), Vec::new(), nulls));
    }
    let codes = codes(array, ctx)?;
    let (lengths, _) = indexes(array.uncompressed_lengths().clone(), ctx)?;
    let total = lengths.iter().map(|&len| u64::from(len)).sum::<u64>();
    // What is allocated follows from the codes that are there.
    vortex_ensure!(
        total <= (codes.len() * WORD_BYTES) as u64 && u32::try_from(total).is_ok(),
        "strings of {total} bytes are impossible for {} codes",
        codes.len()
    );
    let mut bytes = Vec::with_capacity(total as usize + WORD_BYTES);
    Dictionary::of(array, ctx)?
        .append(&codes, &mut bytes)
        .ok_or_else(|| vortex_err!("a code stands for no word"))?;
    vortex_ensure!(
        bytes.len() as u64 == total,
        "strings of {total} bytes have words of {}",
        bytes.len()
    );
    let views = views_of(&lengths, &mut bytes);
    Ok((views, vec![ArrowBuffer::from_vec(bytes)], nulls))
}

/// The codes of all rows.
fn codes(array: &ArrayView<'_, OnPair>, ctx: &mut ExecutionCtx) -> VortexResult<Buffer<u16>> {
    let of_rows = super::code_range(array)?;
    let codes = array
        .codes()
        .slice(of_rows)?
        .execute::<PrimitiveArray>(ctx)?;
    Ok(match PrimitiveArrayExt::ptype(&codes) {
        PType::U16 => codes.into_buffer::<u16>(),
        PType::U8 => codes
            .into_buffer::<u8>()
            .iter()
            .map(|&code| code.into())
            .collect(),
        ptype => vortex_bail!("codes of words of type {ptype}"),
    })
}

/// The views of strings of these lengths that lie end to end in `bytes`, which are as many.
fn views_of(lengths: &[u32], bytes: &mut Vec<u8>) -> ScalarBuffer<u128> {
    let len = bytes.len();
    // A short string is read as sixteen bytes.
    bytes.resize(len + WORD_BYTES, 0);
    let mut start = 0;
    let views = lengths.iter().map(|&len| {
        let at = start;
        start += len as usize;
        match bytes[at..].first_chunk() {
            Some(&own) if len as usize <= INLINE_BYTES => view_of_short(own, len),
            _ => view_of(&bytes[at..start], at as u32),
        }
    });
    let views = views.collect::<Vec<_>>();
    bytes.truncate(len);
    views.into()
}

#[cfg(test)]
mod tests {
    use arrow_array::BinaryViewArray;
    use vortex_array::arrays::VarBinViewArray;
    use vortex_array::dtype::{DType, Nullability};
    use vortex_array::validity::Validity;
    use vortex_array::{ArrayRef, IntoArray};
    use vortex_onpair::{DEFAULT_CONFIG, onpair_compress};

    use super::*;
    use crate::codec;
    use crate::words::{slice, take};

    /// Strings of many lengths, of words that come again; every seventh is null.
    fn rows() -> Vec<Option<Vec<u8>>> {
        (0..3_000_usize)
            .map(|i| {
                let text = format!("customer {} of {}", i % 50, "a street ".repeat(i % 4));
                let len = match i % 90 {
                    0 => 5_000,
                    short => short % 31,
                };
                (i % 7 != 0).then(|| text.into_bytes().into_iter().cycle().take(len).collect())
            })
            .collect()
    }

    fn compressed(rows: &[Option<Vec<u8>>]) -> ArrayRef {
        let rows = rows.iter().map(Option::as_deref);
        let array = VarBinViewArray::from_iter(rows, DType::Binary(Nullability::Nullable));
        onpair_compress(&array.into_array(), DEFAULT_CONFIG, &mut codec::context()).unwrap()
    }

    fn decoded(array: &ArrayRef) -> VortexResult<Vec<Option<Vec<u8>>>> {
        let words = array.as_opt::<OnPair>().unwrap();
        let (views, buffers, nulls) = views(&words, &mut codec::context())?;
        let rows = BinaryViewArray::try_new(views, buffers, nulls).unwrap();
        Ok(rows.iter().map(|row| row.map(<[u8]>::to_vec)).collect())
    }

    #[test]
    fn rows_are_as_they_were_written() {
        let rows = rows();
        let all = compressed(&rows);
        assert_eq!(decoded(&all).unwrap(), rows);
        for range in [0..1, 0..1_000, 17..18, 700..2_950, 2_999..3_000, 40..40] {
            let some = slice(&all, range.clone()).unwrap();
            assert_eq!(decoded(&some).unwrap(), rows[range]);
            let lazy = all.slice(17..1_200).unwrap();
            if lazy.is::<OnPair>() {
                assert_eq!(decoded(&lazy).unwrap(), rows[17..1_200]);
            }
        }
        let some = [1, 2, 90, 91, 1_500, 2_999];
        let taken = take(&all, &some).unwrap().unwrap();
        let expected = some.map(|row| rows[row as usize].clone());
        assert_eq!(decoded(&taken).unwrap(), expected);
    }

    /// The rows with other lengths, codes and ends of words.
    fn altered(
        array: &ArrayRef,
        lengths: impl Fn(&mut Vec<u32>),
        codes: impl Fn(&mut Vec<u16>),
        offsets: impl Fn(&mut Vec<u32>),
    ) -> ArrayRef {
        let words = array.as_opt::<OnPair>().unwrap();
        let ctx = &mut codec::context();
        let numbers = |array: &ArrayRef, ctx: &mut ExecutionCtx| {
            indexes(array.clone(), ctx).unwrap().0.to_vec()
        };
        let mut all_lengths = numbers(words.uncompressed_lengths(), ctx);
        let mut all_codes = super::codes(&words, ctx).unwrap().to_vec();
        let mut all_offsets = numbers(words.dict_offsets(), ctx);
        lengths(&mut all_lengths);
        codes(&mut all_codes);
        offsets(&mut all_offsets);
        OnPair::try_new(
            array.dtype().clone(),
            words.data().dict_bytes_handle().clone(),
            Buffer::from(all_offsets).into_array(),
            Buffer::from(all_codes).into_array(),
            words.codes_offsets().clone(),
            Buffer::from(all_lengths).into_array(),
            Validity::AllValid,
        )
        .unwrap()
        .into_array()
    }

    #[test]
    fn what_does_not_fit_together_is_an_error() {
        let all = compressed(&rows());
        fn same<T>(_: &mut T) {}
        assert!(decoded(&altered(&all, same, same, same)).is_ok());
        let damaged = [
            altered(&all, |lengths| lengths[5] += 1, same, same),
            altered(&all, |lengths| lengths[5] = u32::MAX, same, same),
            altered(&all, |lengths| lengths[5] -= 1, same, same),
            altered(&all, same, |codes| codes[40] = u16::MAX, same),
            altered(&all, same, same, |offsets| offsets[3] += 20),
            altered(&all, same, same, |offsets| {
                *offsets.last_mut().unwrap() = 1 << 20
            }),
        ];
        for (nth, array) in damaged.iter().enumerate() {
            assert!(decoded(array).is_err(), "{nth}");
        }
    }
}
