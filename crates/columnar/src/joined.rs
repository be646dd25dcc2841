//! Strings that lie end to end in one buffer, as decoders of whole columns leave them.

use arrow_array::{StringArray, StringViewArray};
use arrow_buffer::{Buffer as ArrowBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};

use crate::buffers::Views;
use crate::byte_views::{INLINE_BYTES, view_of, view_of_short};
use crate::error::ColumnarError;

/// The most bytes that strings may have together: Arrow counts them in an `i32`.
pub(crate) const MOST_BYTES: u64 = i32::MAX as u64;

/// Strings end to end: their bytes, how many each has, and which are valid.
pub(crate) struct Joined {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lengths: ScalarBuffer<u32>,
    pub(crate) nulls: Option<NullBuffer>,
}

impl Joined {
    /// A view of each string. All together have as many bytes as there are.
    pub(crate) fn into_views(self) -> Views {
        const READ_BYTES: usize = 16;
        let mut bytes = self.bytes;
        let len = bytes.len();
        // A short string is read as sixteen bytes.
        bytes.resize(len + READ_BYTES, 0);
        let mut start = 0;
        let views = self.lengths.iter().map(|&len| {
            let at = start;
            start += len as usize;
            match bytes[at..].first_chunk() {
                Some(&own) if len as usize <= INLINE_BYTES => view_of_short(own, len),
                _ => view_of(&bytes[at..start], at as u32),
            }
        });
        let views = views.collect::<Vec<_>>();
        bytes.truncate(len);
        (views.into(), vec![ArrowBuffer::from_vec(bytes)], self.nulls)
    }

    /// The strings as text, which is validated.
    ///
    /// They are validated as one: where a character ends at the end of each, all are valid if the
    /// buffer is. One after the other takes three times as long.
    pub(crate) fn into_texts(self) -> Result<StringViewArray, ColumnarError> {
        let corrupt = |detail: String| ColumnarError::corrupt(detail);
        let mut ends = Vec::with_capacity(self.lengths.len() + 1);
        let mut end = 0_i32;
        ends.push(end);
        for &len in &self.lengths {
            end = end
                .checked_add_unsigned(len)
                .ok_or_else(|| corrupt("texts have too many bytes".to_owned()))?;
            ends.push(end);
        }
        let ends = OffsetBuffer::new(ends.into());
        StringArray::try_new(ends, ArrowBuffer::from_vec(self.bytes), self.nulls)
            .map(|texts| StringViewArray::from(&texts))
            .map_err(|error| corrupt(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, BinaryViewArray};

    use super::*;

    fn joined_of(strings: &[&[u8]]) -> Joined {
        let lengths = strings.iter().map(|string| string.len() as u32);
        Joined {
            bytes: strings.concat(),
            lengths: lengths.collect::<Vec<_>>().into(),
            nulls: None,
        }
    }

    #[test]
    fn views_and_texts_are_the_strings() {
        let texts: Vec<String> = (0..40).map(|len| "aäß漢".repeat(len)).collect();
        let strings: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let decoded = joined_of(&strings).into_texts().unwrap();
        assert!(
            decoded
                .iter()
                .eq(texts.iter().map(|text| Some(text.as_str())))
        );
        let (views, buffers, nulls) = joined_of(&strings).into_views();
        let views = BinaryViewArray::try_new(views, buffers, nulls).unwrap();
        assert!(views.iter().eq(strings.iter().map(|&string| Some(string))));
    }

    #[test]
    fn nulls_have_no_bytes() {
        let nulls = NullBuffer::from(vec![true, false, true]);
        let strings = Joined {
            nulls: Some(nulls.clone()),
            ..joined_of(&[b"a", b"", b"a longer one than twelve"])
        };
        let texts = strings.into_texts().unwrap();
        assert_eq!(texts.nulls(), Some(&nulls));
        assert_eq!(texts.value(2), "a longer one than twelve");
    }

    #[test]
    fn a_character_in_two_strings_is_an_error() {
        let whole = "äö".as_bytes();
        assert!(joined_of(&[whole, b"x"]).into_texts().is_ok());
        assert!(joined_of(&[&whole[..1], &whole[1..]]).into_texts().is_err());
        assert!(joined_of(&[b"good", b"\xFF"]).into_texts().is_err());
    }
}
