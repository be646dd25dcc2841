//! `howdah.letters`: strings of one length made of few different characters, as digests, codes and
//! numbers written as text are. Each character is packed to a few bits.
//!
//! ```text
//!   metadata: length of a string, alphabet      child: validity, if rows may be null (bool)
//!   part 0:   ├─ row 0 ─┼─ row 1 ─┼─ …          each of the same number of bytes
//! ```
//!
//! A row's place follows from its number alone, so that reading it costs one place instead of those
//! of its offsets and its bytes. A null has the space of a row, filled with zeros.
//!
//! Characters are ASCII, so that decoded text is UTF-8 by itself. A code that is no character's is
//! decoded as a byte that is none of ASCII's, and found so: damage never gives a wrong string.

use std::ops::Range;

use arrow_array::BinaryViewArray;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use vortex_array::ArrayRef;
use vortex_array::validity::Validity;
use vortex_buffer::ByteBuffer;

use crate::builder::BytesBuilder;
use crate::byte_views::{built, view_of};
use crate::codec;
use crate::column::bools;
use crate::error::ColumnarError;
use crate::layout::wire::{Reader, ensure, put_varint};
use crate::nodes::NodeRef;

/// The most characters of an alphabet: all of ASCII.
const MOST_CHARACTERS: usize = 128;
/// The longest string.
const MOST_LEN: usize = 1 << 16;
/// What stands for codes without a character.
const NO_CHARACTER: u8 = 0xFF;
/// Characters that are packed together, to as many bytes as each has bits.
const TOGETHER: usize = 8;

/// The length of the strings of a column, and the characters that they are made of.
#[derive(Clone, Debug)]
pub(crate) struct Alphabet {
    len: usize,
    /// The bits of a character, 1 to 7.
    bits: usize,
    /// The character of each code.
    characters: Box<[u8; MOST_CHARACTERS]>,
    count: usize,
}

impl Alphabet {
    /// `characters` ascend.
    fn new(len: usize, characters: &[u8]) -> Result<Self, ColumnarError> {
        ensure(
            (1..=MOST_LEN).contains(&len)
                && (1..=MOST_CHARACTERS).contains(&characters.len())
                && characters.is_ascii()
                && characters.is_sorted_by(|a, b| a < b),
            "an alphabet is wrong",
        )?;
        let mut table = Box::new([NO_CHARACTER; MOST_CHARACTERS]);
        table[..characters.len()].copy_from_slice(characters);
        let bits = characters.len().next_power_of_two().trailing_zeros() as usize;
        Ok(Self {
            len,
            bits: bits.max(1),
            characters: table,
            count: characters.len(),
        })
    }

    /// Of a node, from its metadata.
    pub(crate) fn parse(metadata: &[u8]) -> Result<Self, ColumnarError> {
        let mut metadata = Reader::new(metadata);
        let len = metadata.count()? as usize;
        let count = metadata.count()? as usize;
        let characters = metadata.take(count)?;
        metadata.finish()?;
        Self::new(len, characters)
    }

    /// That of the rows which are not null, if all of them have one length and are ASCII.
    fn of(rows: &BytesBuilder) -> Option<Self> {
        let valid = rows.validity.words();
        let is_valid =
            |row: usize| valid.is_none_or(|words| words[row / 64] >> (row % 64) & 1 == 1);
        let (mut start, mut len) = (0, None);
        for (row, &end) in rows.ends.iter().enumerate() {
            if is_valid(row) && *len.get_or_insert(end - start) != end - start
                || !is_valid(row) && end > start
            {
                return None;
            }
            start = end;
        }
        if !rows.data.is_ascii() {
            return None;
        }
        let mut found = [false; MOST_CHARACTERS];
        for &byte in &rows.data {
            found[usize::from(byte)] = true;
        }
        let characters: Vec<u8> = (0..MOST_CHARACTERS as u8)
            .filter(|&byte| found[usize::from(byte)])
            .collect();
        Self::new(len?, &characters).ok()
    }

    pub(crate) fn metadata(&self) -> Vec<u8> {
        let mut metadata = Vec::new();
        put_varint(&mut metadata, self.len as u64);
        put_varint(&mut metadata, self.count as u64);
        metadata.extend_from_slice(&self.characters[..self.count]);
        metadata
    }

    /// The length of every string, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes that a row is packed to.
    pub(crate) fn row_bytes(&self) -> usize {
        (self.len * self.bits).div_ceil(8)
    }

    /// Appends the strings of rows that are packed end to end.
    pub(crate) fn unpack(&self, packed: &[u8], out: &mut Vec<u8>) -> Result<(), ColumnarError> {
        let start = out.len();
        let rows = packed.chunks_exact(self.row_bytes());
        out.resize(start + rows.len() * self.len, 0);
        let strings = out[start..].chunks_exact_mut(self.len);
        let pairs = rows.zip(strings);
        match self.bits {
            1 => pairs.for_each(|(row, string)| self.unpack_row::<1>(row, string)),
            2 => pairs.for_each(|(row, string)| self.unpack_row::<2>(row, string)),
            3 => pairs.for_each(|(row, string)| self.unpack_row::<3>(row, string)),
            4 => pairs.for_each(|(row, string)| self.unpack_row::<4>(row, string)),
            5 => pairs.for_each(|(row, string)| self.unpack_row::<5>(row, string)),
            6 => pairs.for_each(|(row, string)| self.unpack_row::<6>(row, string)),
            _ => pairs.for_each(|(row, string)| self.unpack_row::<7>(row, string)),
        }
        match out[start..].is_ascii() {
            true => Ok(()),
            false => Err(ColumnarError::corrupt("a code is no character's")),
        }
    }

    #[inline]
    fn unpack_row<const BITS: usize>(&self, row: &[u8], string: &mut [u8]) {
        let mask = (1 << BITS) - 1;
        let (groups, rest) = string.as_chunks_mut::<TOGETHER>();
        let (packed, last) = row.as_chunks::<BITS>();
        for (group, packed) in groups.iter_mut().zip(packed) {
            let word = word_of(packed);
            for (at, character) in group.iter_mut().enumerate() {
                *character = self.characters[(word >> (at * BITS)) as usize & mask];
            }
        }
        // The last characters may take as many bytes as a group.
        let last = packed.get(groups.len()).map_or(last, |packed| packed);
        let word = word_of(last);
        for (at, character) in rest.iter_mut().enumerate() {
            *character = self.characters[(word >> (at * BITS)) as usize & mask];
        }
    }

    /// The code of each character; that of others is no code.
    fn codes(&self) -> [u8; MOST_CHARACTERS] {
        let mut codes = [NO_CHARACTER; MOST_CHARACTERS];
        for (code, &character) in self.characters[..self.count].iter().enumerate() {
            codes[usize::from(character)] = code as u8;
        }
        codes
    }

    /// A string as it is packed, if it can be that of a row.
    fn packed(&self, string: &[u8]) -> Option<Vec<u8>> {
        let codes = self.codes();
        let is_known = |&byte: &u8| {
            let code = codes.get(usize::from(byte));
            code.is_some_and(|&code| code != NO_CHARACTER)
        };
        if string.len() != self.len || !string.iter().all(is_known) {
            return None;
        }
        let mut packed = Vec::with_capacity(self.row_bytes());
        self.pack(&codes, string, &mut packed);
        Some(packed)
    }

    /// Appends a string, packed.
    fn pack(&self, codes: &[u8; MOST_CHARACTERS], string: &[u8], out: &mut Vec<u8>) {
        for group in string.chunks(TOGETHER) {
            let mut word = 0;
            for (at, &character) in group.iter().enumerate() {
                word |= u64::from(codes[usize::from(character)]) << (at * self.bits);
            }
            let len = (group.len() * self.bits).div_ceil(8);
            out.extend_from_slice(&word.to_le_bytes()[..len]);
        }
    }
}

/// Up to 8 bytes as a number.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Rows to be stored.
pub(crate) struct NewLetters {
    pub(crate) alphabet: Alphabet,
    pub(crate) data: Vec<u8>,
}

impl NewLetters {
    /// Packs rows, if all have one length and `most_bytes` are enough for them.
    pub(crate) fn pack(rows: &BytesBuilder, most_bytes: usize) -> Option<Self> {
        let alphabet = Alphabet::of(rows)?;
        let row_bytes = alphabet.row_bytes();
        let stored_bytes = rows.ends.len() * row_bytes;
        if stored_bytes > most_bytes {
            return None;
        }
        let codes = alphabet.codes();
        let (mut data, mut start) = (Vec::with_capacity(stored_bytes), 0);
        for &end in &rows.ends {
            match end > start {
                true => alphabet.pack(&codes, &rows.data[start..end], &mut data),
                false => data.resize(data.len() + row_bytes, 0),
            }
            start = end;
        }
        Some(Self { alphabet, data })
    }
}

/// The letters of an open chunk.
#[derive(Debug)]
pub(crate) struct Letters {
    alphabet: Alphabet,
    data: ByteBuffer,
    validity: Option<ArrayRef>,
    row_count: usize,
}

impl Letters {
    pub(crate) fn open(
        node: NodeRef<'_>,
        bytes: &ByteBuffer,
        row_count: usize,
    ) -> Result<Self, ColumnarError> {
        let alphabet = Alphabet::parse(node.metadata())?;
        let [part] = node.parts() else {
            return Err(ColumnarError::corrupt("letters lack a part"));
        };
        let range = part.start as usize..part.end as usize;
        ensure(
            range.end <= bytes.len() && range.len() == row_count * alphabet.row_bytes(),
            "letters do not fill their chunk",
        )?;
        let validity = match node.child(0) {
            None => None,
            Some(child) => Some(codec::rebuild(
                child,
                bytes,
                0,
                &Validity::DTYPE,
                row_count,
            )?),
        };
        Ok(Self {
            alphabet,
            data: bytes.slice_unaligned(range),
            validity,
            row_count,
        })
    }

    /// Which rows of a range are valid; `None`: all.
    fn nulls(&self, rows: Range<usize>) -> Result<Option<NullBuffer>, ColumnarError> {
        let Some(validity) = &self.validity else {
            return Ok(None);
        };
        let valid = codec::guarded(|| validity.slice(rows))?;
        let (bits, _) = codec::guarded(|| bools(valid, &mut codec::context()))?;
        let nulls = NullBuffer::new(bits);
        Ok((nulls.null_count() > 0).then_some(nulls))
    }

    /// Which rows of a range are valid.
    pub(crate) fn valid_rows(&self, rows: Range<usize>) -> Result<BooleanBuffer, ColumnarError> {
        let len = rows.len();
        let nulls = self.nulls(rows)?;
        Ok(nulls.map_or_else(|| BooleanBuffer::new_set(len), NullBuffer::into_inner))
    }

    /// Which rows of a range have this string.
    pub(crate) fn equal(
        &self,
        rows: Range<usize>,
        string: &[u8],
    ) -> Result<BooleanBuffer, ColumnarError> {
        let Some(wanted) = self.alphabet.packed(string) else {
            return Ok(BooleanBuffer::new_unset(rows.len()));
        };
        let data = self.data.as_slice();
        let equal = BooleanBuffer::collect_bool(rows.len(), |at| {
            let start = (rows.start + at) * wanted.len();
            data[start..start + wanted.len()] == wanted[..]
        });
        Ok(match self.nulls(rows)? {
            None => equal,
            Some(nulls) => &equal & nulls.inner(),
        })
    }

    /// Decodes a range of rows.
    pub(crate) fn decode(&self, rows: Range<usize>) -> Result<BinaryViewArray, ColumnarError> {
        let nulls = self.nulls(rows.clone())?;
        let row_bytes = self.alphabet.row_bytes();
        let packed = &self.data.as_slice()[rows.start * row_bytes..rows.end * row_bytes];
        self.built(packed, rows.len(), nulls)
    }

    /// Decodes the rows with these ascending indexes.
    pub(crate) fn take(&self, rows: &[u32]) -> Result<BinaryViewArray, ColumnarError> {
        let nulls = self.nulls(0..self.row_count)?.map(|nulls| {
            let is_valid = |at: usize| nulls.is_valid(rows[at] as usize);
            NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), is_valid))
        });
        let row_bytes = self.alphabet.row_bytes();
        let mut packed = Vec::with_capacity(rows.len() * row_bytes);
        for &row in rows {
            let start = row as usize * row_bytes;
            packed.extend_from_slice(&self.data.as_slice()[start..start + row_bytes]);
        }
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        self.built(&packed, rows.len(), nulls)
    }

    fn built(
        &self,
        packed: &[u8],
        row_count: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<BinaryViewArray, ColumnarError> {
        let len = self.alphabet.len();
        ensure(row_count * len <= i32::MAX as usize, "a chunk is too long")?;
        let mut bytes = Vec::with_capacity(row_count * len);
        self.alphabet.unpack(packed, &mut bytes)?;
        let views = bytes.chunks_exact(len).enumerate();
        let views = views.map(|(row, string)| view_of(string, (row * len) as u32));
        let views = views.collect();
        built(views, bytes, nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(strings: &[&str]) -> BytesBuilder {
        let mut rows = BytesBuilder::default();
        for string in strings {
            rows.data.extend_from_slice(string.as_bytes());
            rows.ends.push(rows.data.len());
            rows.validity.push_valid();
        }
        rows
    }

    #[test]
    fn packed_strings_of_every_length_and_alphabet_are_unpacked_again() {
        for count in 1..=MOST_CHARACTERS {
            let characters: Vec<u8> = (0..count as u8).rev().collect();
            for len in 1..=33 {
                let string = |first: usize| -> String {
                    let at = |nth: usize| characters[(first + nth * 7) % count];
                    (0..len).map(|nth| char::from(at(nth))).collect()
                };
                let strings: Vec<String> = (0..5 + count).map(string).collect();
                let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
                let new = NewLetters::pack(&rows(&strings), usize::MAX).expect("packs");
                let alphabet = Alphabet::parse(&new.alphabet.metadata()).expect("parses");
                assert_eq!(new.data.len(), strings.len() * alphabet.row_bytes());
                let mut bytes = Vec::new();
                alphabet.unpack(&new.data, &mut bytes).expect("unpacks");
                assert_eq!(bytes, strings.concat().as_bytes(), "{count} {len}");
            }
        }
    }

    #[test]
    fn other_strings_are_not_packed() {
        assert!(NewLetters::pack(&rows(&["abc", "ab"]), usize::MAX).is_none());
        assert!(NewLetters::pack(&rows(&["abc", "abé"]), usize::MAX).is_none());
        assert!(NewLetters::pack(&rows(&["", ""]), usize::MAX).is_none());
        assert!(NewLetters::pack(&rows(&["abc", "abd"]), 1).is_none());
        assert!(NewLetters::pack(&rows(&["abc", "abd"]), 2).is_some());
    }

    #[test]
    fn codes_of_no_character_are_damage() {
        let alphabet = Alphabet::new(3, b"abc").expect("is right");
        let mut out = Vec::new();
        assert!(alphabet.unpack(&[0b00_10_01_00], &mut out).is_ok());
        assert_eq!(out, b"abc");
        assert!(alphabet.unpack(&[0b00_11_01_00], &mut out).is_err());
        for (len, characters) in [
            (0, &b"a"[..]),
            (3, b""),
            (3, b"ba"),
            (3, b"aa"),
            (3, b"\xE9"),
        ] {
            assert!(Alphabet::new(len, characters).is_err());
        }
    }
}
