//! Decoding rows of OnPair: the words of their codes, end to end.
//!
//! A word is copied as sixteen bytes, whatever its length, and the next one goes over what is too
//! much. The decoder that Vortex calls makes out for each code how near its word is to the end of
//! the dictionary, and of the result: 25 instructions, 1.7 ns. Here both have room for a whole word
//! at their end. Bytes are decoded to a small buffer and appended from there: the result need not
//! be filled with zeros first. That takes 1.3 ns, and 0.8 where the words of many codes are laid
//! out side by side before, which takes some 6 µs.

use arrow_buffer::ScalarBuffer;
use vortex_array::arrays::PrimitiveArray;
use vortex_array::arrays::primitive::PrimitiveArrayExt;
use vortex_array::dtype::PType;
use vortex_array::{ArrayView, ExecutionCtx};
use vortex_buffer::Buffer;
use vortex_error::{VortexResult, vortex_bail, vortex_ensure, vortex_err};
use vortex_onpair::{OnPair, OnPairArrayExt, OnPairArraySlotsExt};

use crate::buffers::{ends_of, indexes, nulls_of};
use crate::joined::{Joined, MOST_BYTES};

/// The longest word, in bytes.
const WORD_BYTES: usize = 16;

/// Codes that are decoded to the small buffer before their bytes are appended.
const CODES_AT_ONCE: usize = 256;

/// From so many codes for each word of the dictionary on, words are laid out first.
const CODES_OF_A_WORD: usize = 4;

/// A word, as the first of so many bytes.
type Word<'a> = (&'a [u8; WORD_BYTES], usize);

/// The words of a chunk as they are stored, with sixteen bytes more behind the last.
struct Dictionary<'a> {
    bytes: &'a [u8],
    /// Where each word begins, and where the last one ends.
    offsets: ScalarBuffer<u32>,
}

impl Dictionary<'_> {
    /// A word; `None` if there is none, or it is damaged.
    fn word(&self, code: usize) -> Option<Word<'_>> {
        let &[start, end] = self.offsets.get(code..)?.first_chunk()?;
        let len = end.wrapping_sub(start) as usize;
        let word = self.bytes.get(start as usize..)?.first_chunk()?;
        (len <= WORD_BYTES).then_some((word, len))
    }

    /// Appends the words of these codes.
    fn append(&self, codes: &[u16], decoded: &mut Vec<u8>) -> Option<()> {
        let count = self.offsets.len().saturating_sub(1);
        if codes.len() < CODES_OF_A_WORD * count {
            return append(codes, decoded, |code| self.word(code));
        }
        let (mut words, mut lengths) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for code in 0..count {
            let (word, len) = self.word(code)?;
            words.push(*word);
            lengths.push(len as u8);
        }
        append(codes, decoded, |code| {
            Some((words.get(code)?, usize::from(*lengths.get(code)?)))
        })
    }
}

/// Appends the words of these codes; `None` if there is no such word.
fn append<'a>(
    codes: &[u16],
    decoded: &mut Vec<u8>,
    word: impl Fn(usize) -> Option<Word<'a>>,
) -> Option<()> {
    let mut buffer = [0; (CODES_AT_ONCE + 1) * WORD_BYTES];
    for codes in codes.chunks(CODES_AT_ONCE) {
        let mut end = 0;
        for &code in codes {
            let (word, len) = word(usize::from(code))?;
            *buffer.get_mut(end..)?.first_chunk_mut()? = *word;
            end += len;
        }
        decoded.extend_from_slice(buffer.get(..end)?);
    }
    Some(())
}

/// The rows of an array, if they have no more than [`MOST_BYTES`]. Text is not validated.
pub(crate) fn strings(
    array: &ArrayView<'_, OnPair>,
    ctx: &mut ExecutionCtx,
) -> VortexResult<Option<Joined>> {
    let row_count = array.len();
    let nulls = nulls_of(array.array_validity(), row_count, ctx)?;
    let codes = codes(array, ctx)?;
    let (lengths, _) = indexes(array.uncompressed_lengths().clone(), ctx)?;
    let total = lengths.iter().map(|&len| u64::from(len)).sum::<u64>();
    // What is allocated follows from the codes that are there.
    vortex_ensure!(
        total <= (codes.len() * WORD_BYTES) as u64,
        "strings of {total} bytes are impossible for {} codes",
        codes.len()
    );
    if total > MOST_BYTES {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(total as usize + WORD_BYTES);
    let dictionary = Dictionary {
        bytes: array.data().dict_bytes(),
        offsets: indexes(array.dict_offsets().clone(), ctx)?.0,
    };
    dictionary
        .append(&codes, &mut bytes)
        .ok_or_else(|| vortex_err!("a code stands for no word, or for a damaged one"))?;
    vortex_ensure!(
        bytes.len() as u64 == total,
        "strings of {total} bytes have words of {}",
        bytes.len()
    );
    Ok(Some(Joined {
        bytes,
        lengths,
        nulls,
    }))
}

/// The codes of all rows.
fn codes(array: &ArrayView<'_, OnPair>, ctx: &mut ExecutionCtx) -> VortexResult<Buffer<u16>> {
    let of_rows = ends_of(array.codes_offsets(), array.codes().len(), ctx)?;
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
        let (views, buffers, nulls) = strings(&words, &mut codec::context())?
            .unwrap()
            .into_views();
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
