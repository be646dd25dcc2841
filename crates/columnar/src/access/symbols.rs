//! Tables of symbols and words that strings are made of.

use std::ops::Range;

use super::reading::outside;
use crate::error::ColumnarError;
use crate::source::{ByteSource, read_range};

/// The code before a byte that has no symbol.
const ESCAPE: u8 = 255;

/// The symbols of an FSST column.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    /// By code: the symbol, first byte lowest, and its length.
    symbols: Box<[([u8; 8], u8)]>,
}

impl SymbolTable {
    pub(crate) const HEAP_BYTES: usize = 256 * size_of::<([u8; 8], u8)>();

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

    pub(crate) fn new(symbols: &[u8], lengths: &[u8]) -> Result<Self, ColumnarError> {
        let (symbols, _) = symbols.as_chunks::<8>();
        if lengths.iter().any(|&len| !(1..=8).contains(&len)) {
            return Err(ColumnarError::corrupt("a symbol has a wrong length"));
        }
        let symbols = symbols.iter().copied().zip(lengths.iter().copied());
        Ok(Self {
            symbols: symbols.collect(),
        })
    }

    /// Appends what the codes stand for.
    pub(crate) fn decode(&self, codes: &[u8], out: &mut Vec<u8>) -> Result<(), ColumnarError> {
        let mut end = out.len();
        // Each code writes 8 bytes; only the length of its symbol is kept.
        out.resize(end + 8 * codes.len(), 0);
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            if code == ESCAPE {
                out[end] = *codes.next().ok_or_else(|| outside("an escaped byte"))?;
                end += 1;
            } else {
                let (symbol, len) = self
                    .symbols
                    .get(usize::from(code))
                    .ok_or_else(|| outside("a symbol"))?;
                out[end..end + 8].copy_from_slice(symbol);
                end += usize::from(*len);
            }
        }
        out.truncate(end);
        Ok(())
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
