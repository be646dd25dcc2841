//! Tables of symbols and words that strings are made of.

use std::ops::Range;

use super::reading::outside;
use crate::error::ColumnarError;
use crate::source::{ByteSource, read_range};

/// The code before a byte that has no symbol.
const ESCAPE: u8 = 255;
/// The longest symbol.
const SYMBOL_BYTES: usize = 8;
/// Codes that are decoded at a time, while there are so many.
const MANY: usize = 8;
const FEW: usize = 4;
/// Where they are written: more than [`MANY`] symbols of any length that [`LENGTH`] can tell, and
/// more than [`MANY`] and [`FEW`] symbols.
const WINDOW_BYTES: usize = 128;
/// By how much the result grows at a time.
const STEP_BYTES: usize = 1_024;
const _: () = assert!(SYMBOL_BYTES * (MANY + FEW) <= WINDOW_BYTES && WINDOW_BYTES < STEP_BYTES);
/// The longest word.
const WORD_BYTES: usize = 16;
const _: () = assert!(STEP_BYTES.is_multiple_of(WORD_BYTES));
/// The bits of a length, and the one that says that there is no such symbol.
const LENGTH: u8 = 15;
const NO_SYMBOL: u8 = 128;

/// The symbols of an FSST column.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    by_code: Box<ByCode>,
}

/// Complete, so that no code needs to be looked at before its symbol is.
#[derive(Debug)]
struct ByCode {
    /// First byte lowest, and zeros.
    symbols: [[u8; 8]; 256],
    /// [`NO_SYMBOL`]: there is no such symbol.
    lengths: [u8; 256],
}

impl SymbolTable {
    pub(crate) const HEAP_BYTES: usize = size_of::<ByCode>();

    /// Reads the table of symbols (8 bytes each) and that of their lengths.
    pub(crate) fn read<S: ByteSource + ?Sized>(
        symbols: &Range<u64>,
        lengths: &Range<u64>,
        source: &S,
    ) -> Result<Self, S::Error> {
        let count = lengths.end - lengths.start;
        if count > u64::from(ESCAPE) || symbols.end - symbols.start != 8 * count {
            return Err(ColumnarError::corrupt("a symbol table has a wrong size").into());
        }
        let symbols = read_range(source, symbols.clone())?;
        let lengths = read_range(source, lengths.clone())?;
        Ok(Self::new(&symbols, &lengths)?)
    }

    /// Of as many symbols as lengths, fewer than [`ESCAPE`] codes can tell.
    pub(crate) fn new(symbols: &[u8], lengths: &[u8]) -> Result<Self, ColumnarError> {
        let (symbols, _) = symbols.as_chunks::<8>();
        if lengths.iter().any(|&len| !(1..=8).contains(&len)) {
            return Err(ColumnarError::corrupt("a symbol has a wrong length"));
        }
        if symbols.len() != lengths.len() || lengths.len() > usize::from(ESCAPE) {
            return Err(ColumnarError::corrupt("a symbol table has a wrong size"));
        }
        let mut by_code = Box::new(ByCode {
            symbols: [[0; 8]; 256],
            lengths: [NO_SYMBOL; 256],
        });
        by_code.symbols[..symbols.len()].copy_from_slice(symbols);
        by_code.lengths[..lengths.len()].copy_from_slice(lengths);
        Ok(Self { by_code })
    }

    /// Appends what the codes stand for.
    pub(crate) fn decode(&self, codes: &[u8], out: &mut Vec<u8>) -> Result<(), ColumnarError> {
        let (mut codes, mut end) = (codes, out.len());
        while !codes.is_empty() {
            if out.len() - end < WINDOW_BYTES {
                // Each code writes 8 bytes, of which only the length of its symbol is kept: in
                // steps, the zeros of many codes need not all be written, and read again.
                let most_bytes = SYMBOL_BYTES * codes.len() + WINDOW_BYTES;
                out.resize(end + most_bytes.min(STEP_BYTES), 0);
            }
            while let Some((many, rest)) = codes.split_first_chunk::<MANY>()
                && let Some(len) = self.decode_some(many, &mut out[end..])
            {
                (codes, end) = (rest, end + len);
            }
            if out.len() - end < WINDOW_BYTES {
                continue;
            }
            if let Some((few, rest)) = codes.split_first_chunk::<FEW>()
                && let Some(len) = self.decode_some(few, &mut out[end..])
            {
                (codes, end) = (rest, end + len);
            }
            // Those before an escaped byte and that byte, or the last ones.
            end += self.decode_until_escaped(&mut codes, &mut out[end..])?;
        }
        out.truncate(end);
        Ok(())
    }

    /// Writes what some codes stand for to the beginning of `target`, and anything behind it; how
    /// long it is. `None`: one of them has no symbol, or there are fewer than [`WINDOW_BYTES`].
    #[inline(always)]
    fn decode_some<const N: usize>(&self, codes: &[u8; N], target: &mut [u8]) -> Option<usize> {
        let ByCode { symbols, lengths } = &*self.by_code;
        let window = target.first_chunk_mut::<WINDOW_BYTES>()?;
        let (mut end, mut all) = (0, 0);
        for &code in codes {
            let length = lengths[usize::from(code)];
            all |= length;
            window[end..end + SYMBOL_BYTES].copy_from_slice(&symbols[usize::from(code)]);
            // The mask tells the compiler that all of them lie within the window.
            end += usize::from(length & LENGTH);
        }
        (all & NO_SYMBOL == 0).then_some(end)
    }

    /// Does the same one by one with at most [`MANY`] codes, and takes them off of `codes`, until a
    /// byte was escaped or none is left. `target` has room for as many symbols.
    fn decode_until_escaped(
        &self,
        codes: &mut &[u8],
        target: &mut [u8],
    ) -> Result<usize, ColumnarError> {
        let ByCode { symbols, lengths } = &*self.by_code;
        let mut end = 0;
        for _ in 0..MANY {
            let Some((&code, rest)) = codes.split_first() else {
                break;
            };
            *codes = rest;
            match lengths[usize::from(code)] {
                NO_SYMBOL if code == ESCAPE => {
                    let escaped = rest.split_first();
                    let (&byte, rest) = escaped.ok_or_else(|| outside("an escaped byte"))?;
                    *codes = rest;
                    target[end] = byte;
                    return Ok(end + 1);
                }
                NO_SYMBOL => return Err(outside("a symbol")),
                length => {
                    let symbol = &symbols[usize::from(code)];
                    target[end..end + SYMBOL_BYTES].copy_from_slice(symbol);
                    end += usize::from(length);
                }
            }
        }
        Ok(end)
    }
}

/// Words end to end, by code.
#[derive(Debug)]
pub(crate) struct Words {
    /// Followed by zeros, so that as much as the longest word can be copied of each.
    bytes: Vec<u8>,
    offsets: Vec<u32>,
}

impl Words {
    /// Checks that every word lies within the bytes, and is not too long.
    pub(crate) fn new(mut bytes: Vec<u8>, offsets: Vec<u32>) -> Result<Self, ColumnarError> {
        let ends_inside = |&end: &u32| end as usize <= bytes.len();
        let is_short = |pair: &[u32]| pair[1] - pair[0] <= WORD_BYTES as u32;
        if !offsets.is_sorted()
            || !offsets.last().is_some_and(ends_inside)
            || !offsets.windows(2).all(is_short)
        {
            return Err(outside("a word"));
        }
        bytes.resize(bytes.len() + WORD_BYTES, 0);
        Ok(Self { bytes, offsets })
    }

    /// Appends what the codes stand for.
    pub(crate) fn decode(&self, codes: &[u64], out: &mut Vec<u8>) -> Result<(), ColumnarError> {
        for codes in codes.chunks(STEP_BYTES / WORD_BYTES) {
            let mut end = out.len();
            out.resize(end + WORD_BYTES * codes.len(), 0);
            for &code in codes {
                let target = out[end..].first_chunk_mut();
                let len = target.and_then(|target| self.copy(code, target));
                end += len.ok_or_else(|| outside("a code"))?;
            }
            out.truncate(end);
        }
        Ok(())
    }

    /// Copies the word of a code to the beginning of `target`, and anything behind it; how long it
    /// is. `None`: no word has the code.
    #[inline(always)]
    fn copy(&self, code: u64, target: &mut [u8; WORD_BYTES]) -> Option<usize> {
        let code = usize::try_from(code).ok()?;
        let &[start, end] = self.offsets.get(code..)?.first_chunk()?;
        *target = *self.bytes.get(start as usize..)?.first_chunk()?;
        Some((end - start) as usize)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.offsets.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SymbolTable {
        let mut symbols = b"a\0\0\0\0\0\0\0".to_vec();
        symbols.extend_from_slice(b"bcdefghi");
        symbols.extend_from_slice(b"jk\0\0\0\0\0\0");
        SymbolTable::new(&symbols, &[1, 8, 2]).expect("a table")
    }

    #[test]
    fn codes_stand_for_symbols_and_escaped_bytes() {
        let mut out = b"before ".to_vec();
        let codes = [1, 0, ESCAPE, b'z', 2, ESCAPE, 0, 1];
        table().decode(&codes, &mut out).expect("decodes");
        assert_eq!(out, b"before bcdefghiazjk\0bcdefghi");
        table().decode(&[], &mut out).expect("decodes");
        assert_eq!(out.len(), 28);
    }

    #[test]
    fn escapes_are_met_wherever_they_are_among_others() {
        // So long that the result grows in several steps, too.
        for len in (0..40).chain([127, 128, 129, 300, 500]) {
            for escaped in 0..len {
                let (mut codes, mut expected) = (Vec::new(), Vec::new());
                for at in 0..len {
                    let code = (at % 3) as u8;
                    match at == escaped || at % 11 == 7 {
                        true => codes.extend([ESCAPE, code]),
                        false => codes.push(code),
                    }
                    match at == escaped || at % 11 == 7 {
                        true => expected.push(code),
                        false => {
                            expected.extend_from_slice([&b"a"[..], b"bcdefghi", b"jk"][at % 3])
                        }
                    }
                }
                let mut out = Vec::new();
                table().decode(&codes, &mut out).expect("decodes");
                assert_eq!(out, expected);
            }
        }
    }

    #[test]
    fn codes_without_a_symbol_and_escapes_without_a_byte_are_damage() {
        for codes in [&[3][..], &[0, 254], &[0, ESCAPE], &[ESCAPE]] {
            assert!(table().decode(codes, &mut Vec::new()).is_err(), "{codes:?}");
        }
        assert!(SymbolTable::new(&[0; 16], &[1, 9]).is_err());
        assert!(SymbolTable::new(&[0; 8], &[1, 1]).is_err());
    }

    #[test]
    fn codes_stand_for_words() {
        let bytes = b"aSixteen letters!!bc".to_vec();
        let words = Words::new(bytes.clone(), vec![0, 1, 17, 17, 20]).expect("words");
        for count in [0, 1, 63, 64, 65, 200] {
            let codes: Vec<u64> = (0..count).map(|at| at * 7 % 4).collect();
            let mut expected = b"before ".to_vec();
            for &code in &codes {
                let word = [&b"a"[..], b"Sixteen letters!", b"", b"!bc"][code as usize];
                expected.extend_from_slice(word);
            }
            let mut out = b"before ".to_vec();
            words.decode(&codes, &mut out).expect("decodes");
            assert_eq!(out, expected);
        }
        for code in [4, 5, u64::MAX] {
            assert!(words.decode(&[0, code], &mut Vec::new()).is_err(), "{code}");
        }
        for offsets in [vec![], vec![0, 17], vec![0, 2, 1], vec![0, 21]] {
            assert!(
                Words::new(bytes.clone(), offsets.clone()).is_err(),
                "{offsets:?}"
            );
        }
        assert!(Words::new(bytes, vec![0]).is_ok());
    }
}
