//! Texts and byte strings that are stored as codes: of symbols (FSST), of words (OnPair), and of
//! whole strings (dictionaries).
//!
//! Symbols and words are read once for all rows. Of a small dictionary, each word is kept that was
//! read.

use std::ops::Range;
use std::sync::OnceLock;

use super::reading::Reading;
use super::scalars::{
    Scalars, Validity, is_valid, position, ranges_of_two, ranges_of_validity, required,
};
use super::strings::{Place, Plain, Strings, put, span};
use super::symbols::{SymbolTable, Words};
use crate::source::ByteSource;

/// Codes of words that are read before they are decoded.
const CODES_AT_A_TIME: usize = 1_024;

/// Codes of symbols of up to 8 bytes (Boncz et al., VLDB 2020).
#[derive(Debug)]
pub(super) struct Fsst {
    pub(super) symbols: Range<u64>,
    pub(super) lengths: Range<u64>,
    pub(super) codes: Plain,
    pub(super) table: OnceLock<SymbolTable>,
}

/// Codes of words of up to 16 bytes.
#[derive(Debug)]
pub(super) struct OnPair {
    pub(super) word_bytes: Range<u64>,
    pub(super) word_offsets: Scalars,
    pub(super) word_count: u32,
    pub(super) codes: Scalars,
    pub(super) code_offsets: Scalars,
    pub(super) code_count: u32,
    pub(super) validity: Validity,
    pub(super) words: OnceLock<Words>,
}

/// Codes of whole strings.
#[derive(Debug)]
pub(super) struct Dict {
    pub(super) codes: Scalars,
    pub(super) words: Strings,
    /// Words of a small dictionary that have been read already.
    pub(super) known: Box<[OnceLock<Word>]>,
}

/// A word of a dictionary, or null.
pub(super) type Word = Option<Box<[u8]>>;

impl Fsst {
    /// The symbols, read once.
    pub(super) fn table<S: ByteSource + ?Sized>(
        &self,
        reading: &Reading<'_, S>,
    ) -> Result<&SymbolTable, S::Error> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = SymbolTable::read(&self.symbols, &self.lengths, reading.source)?;
        reading.hold(SymbolTable::HEAP_BYTES);
        Ok(self.table.get_or_init(|| table))
    }

    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        match self.codes.place(row, reading)? {
            Place::At(range) => self.decode(&range, reading, out),
            _ => Ok(false),
        }
    }

    /// Appends the ranges that a row's value is known to need.
    pub(super) fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        if self.table.get().is_none() {
            out.push(self.symbols.clone());
            out.push(self.lengths.clone());
        }
        self.codes.ranges(row, out);
    }

    /// Appends what the codes in a range stand for.
    pub(super) fn decode<S: ByteSource + ?Sized>(
        &self,
        range: &Range<u64>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        let table = self.table(reading)?;
        reading.look(range, |codes| table.decode(codes, out))??;
        Ok(true)
    }
}

impl OnPair {
    /// The words, read once.
    pub(super) fn words<S: ByteSource + ?Sized>(
        &self,
        reading: &mut Reading<'_, S>,
    ) -> Result<&Words, S::Error> {
        if let Some(words) = self.words.get() {
            return Ok(words);
        }
        let mut offsets = Vec::with_capacity(self.word_count as usize + 1);
        for word in 0..=self.word_count {
            offsets.push(position(required(&self.word_offsets, word, reading)?)?);
        }
        let mut bytes = Vec::new();
        reading.append(self.word_bytes.clone(), &mut bytes)?;
        let words = Words::new(bytes, offsets)?;
        reading.hold(words.heap_bytes());
        Ok(self.words.get_or_init(|| words))
    }

    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        match self.place(row, reading)? {
            Place::At(codes) => self.decode(&codes, reading, out),
            _ => Ok(false),
        }
    }

    /// The codes of a row.
    pub(super) fn place<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Place, S::Error> {
        if !is_valid(&self.validity, row, reading)? {
            return Ok(Place::Null);
        }
        let limit = self.code_count.into();
        span(&self.code_offsets, row, limit, reading).map(Place::At)
    }

    /// Appends the ranges that a row's value is known to need.
    pub(super) fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        if self.words.get().is_none() {
            out.push(self.word_bytes.clone());
        }
        ranges_of_validity(&self.validity, row, out);
        ranges_of_two(&self.code_offsets, row, out);
    }

    pub(super) fn ranges_at(&self, place: &Place, out: &mut Vec<Range<u64>>) {
        if let Place::At(codes) = place
            && let Some(last) = codes.end.checked_sub(1)
            && codes.start <= last
        {
            // They fit 32 bits, because their number does.
            self.codes.ranges(codes.start as u32, out);
            self.codes.ranges(last as u32, out);
        }
    }

    /// Appends the words of some codes.
    pub(super) fn decode<S: ByteSource + ?Sized>(
        &self,
        codes: &Range<u64>,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        let words = self.words(reading)?;
        let codes = position(codes.start)?..position(codes.end)?;
        let mut some = Vec::with_capacity(codes.len().min(CODES_AT_A_TIME));
        for start in codes.clone().step_by(CODES_AT_A_TIME) {
            let end = codes.end.min(start.saturating_add(CODES_AT_A_TIME as u32));
            some.clear();
            self.codes.append_required(start..end, reading, &mut some)?;
            words.decode(&some, out)?;
        }
        Ok(true)
    }
}

impl Dict {
    /// The longest word that is kept in memory, and the most words of a dictionary of which
    /// any are.
    const WORD_BYTES: usize = 256;
    pub(super) const KNOWN_WORDS: usize = 1_024;

    pub(super) fn get<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        match self.codes.get(row, reading)? {
            Some(code) => self.word(code, reading, out),
            None => Ok(false),
        }
    }

    /// The word of a row: that of the code at which the range starts.
    pub(super) fn place<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Place, S::Error> {
        let code = self.codes.get(row, reading)?;
        Ok(code.map_or(Place::Null, |code| Place::At(code..code)))
    }

    pub(super) fn ranges_at(&self, place: &Place, out: &mut Vec<Range<u64>>) {
        // A code that is no word's is an error where the word is read.
        if let Place::At(codes) = place
            && let Ok(code) = i32::try_from(codes.start)
            && !self.knows(codes.start)
        {
            self.words.ranges(code as u32, out);
        }
    }

    /// Whether a word is kept.
    pub(super) fn knows(&self, code: u64) -> bool {
        let known = self.known.get(code as usize);
        known.is_some_and(|word| word.get().is_some())
    }

    pub(super) fn word<S: ByteSource + ?Sized>(
        &self,
        code: u64,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<u8>,
    ) -> Result<bool, S::Error> {
        let known = self.known.get(code as usize);
        if let Some(word) = known.and_then(OnceLock::get) {
            return Ok(put(word.as_deref(), out));
        }
        let start = out.len();
        let valid = self.words.get(position(code)?, reading, out)?;
        let word = &out[start..];
        if let Some(known) = known
            && word.len() <= Self::WORD_BYTES
        {
            reading.hold(word.len());
            let _ = known.set(valid.then(|| word.into()));
        }
        Ok(valid)
    }
}
