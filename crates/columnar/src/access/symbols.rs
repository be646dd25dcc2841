//! Tables of symbols and words that strings are made of.

use std::ops::Range;

use super::reading::outside;
use crate::error::ColumnarError;
use crate::source::{ByteSource, read_range};

/// The code before a byte that has no symbol.
const ESCAPE: u8 = 255;
/// The longest symbol.
const SYMBOL_BYTES: usize = 8;
/// Where four symbols are written at a time.
const WINDOW_BYTES: usize = 64;

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
    /// 0: there is no such symbol.
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
            lengths: [0; 256],
        });
        by_code.symbols[..symbols.len()].copy_from_slice(symbols);
        by_code.lengths[..lengths.len()].copy_from_slice(lengths);
        Ok(Self { by_code })
    }

    /// Appends what the codes stand for.
    pub(crate) fn decode(&self, codes: &[u8], out: &mut Vec<u8>) -> Result<(), ColumnarError> {
        let ByCode { symbols, lengths } = &*self.by_code;
        let start = out.len();
        // Each code writes 8 bytes; only the length of its symbol is kept.
        out.resize(start + SYMBOL_BYTES * codes.len() + WINDOW_BYTES, 0);
        let target = &mut out[start..];
        let (mut codes, mut end) = (codes, 0);
        loop {
            while let Some((four, rest)) = codes.split_first_chunk()
                && let Some(len) = self.decode_four(four, &mut target[end..])
            {
                end += len;
                codes = rest;
            }
            // One that is escaped or stands before one, or one of the last three.
            let Some((&code, rest)) = codes.split_first() else {
                break;
            };
            codes = rest;
            match lengths[usize::from(code)] {
                0 if code == ESCAPE => {
                    let escaped = codes.split_first();
                    let (&byte, rest) = escaped.ok_or_else(|| outside("an escaped byte"))?;
                    target[end] = byte;
                    end += 1;
                    codes = rest;
                }
                0 => return Err(outside("a symbol")),
                len => {
                    let symbol = &symbols[usize::from(code)];
                    target[end..end + SYMBOL_BYTES].copy_from_slice(symbol);
                    end += usize::from(len);
                }
            }
        }
        out.truncate(start + end);
        Ok(())
    }

    /// Writes what four codes stand for to the beginning of `target`, and anything behind it; how
    /// long it is. `None`: one of them has no symbol, or there are fewer than [`WINDOW_BYTES`].
    #[inline(always)]
    fn decode_four(&self, four: &[u8; 4], target: &mut [u8]) -> Option<usize> {
        let ByCode { symbols, lengths } = &*self.by_code;
        let window = target.first_chunk_mut::<WINDOW_BYTES>()?;
        // At most 8. The mask tells the compiler that all of them lie within the window.
        let lens = four.map(|code| usize::from(lengths[usize::from(code)] & 15));
        if lens.contains(&0) {
            return None;
        }
        let mut end = 0;
        for (&code, len) in four.iter().zip(lens) {
            window[end..end + SYMBOL_BYTES].copy_from_slice(&symbols[usize::from(code)]);
            end += len;
        }
        Some(end)
    }
}

/// Words end to end, by code.
#[derive(Debug)]
pub(crate) struct Words {
    bytes: Vec<u8>,
    offsets: Vec<u32>,
}

impl Words {
    /// Checks that every word lies within the bytes.
    pub(crate) fn new(bytes: Vec<u8>, offsets: Vec<u32>) -> Result<Self, ColumnarError> {
        let fits = offsets.is_sorted()
            && offsets
                .last()
                .is_some_and(|&end| end as usize <= bytes.len());
        if !fits {
            return Err(outside("a word"));
        }
        Ok(Self { bytes, offsets })
    }

    #[inline]
    pub(crate) fn get(&self, code: u64) -> Option<&[u8]> {
        let code = usize::try_from(code).ok()?;
        let end = *self.offsets.get(code.checked_add(1)?)?;
        Some(&self.bytes[self.offsets[code] as usize..end as usize])
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
        for len in 0..40 {
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
}
