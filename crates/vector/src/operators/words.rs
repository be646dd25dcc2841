//! Columns of few words: a chunk that is stored as codes of a dictionary, or as one value for all
//! rows.
//!
//! ```text
//!   chunk ─view─▶ Dictionary: a code for each row, words by code
//!                   ├─▶ verdicts: a conjunct evaluated for each word once
//!                   └─▶ answers: an expression evaluated for each word once
//! ```
//!
//! Results for words are kept while the morsel is open. An expression that can raise an error is
//! never evaluated for words: a word may occur only in rows that the query does not select.

use std::rc::Rc;

use arrow_buffer::{BooleanBuffer, NullBuffer};
use howdah_columnar::{Chunk, CodeRange, Codes, Column, ColumnMeta, ColumnType, EncodedView};

use super::scan::{UNREAD, Zone};
use crate::error::VectorError;
use crate::expr::{self, Input, take};
use crate::functions::bits_of;

/// Words of a dictionary are few if there are at least this many times more rows.
const FEW: usize = 8;

/// A column as codes of words.
pub(crate) struct Dictionary {
    /// The code of each row; `None`: every row has the first word.
    pub(crate) codes: Option<Codes>,
    /// Rows whose code is null. A word may be null, too.
    pub(crate) nulls: Option<NullBuffer>,
    pub(crate) words: Column,
}

impl Dictionary {
    /// A chunk as codes of words, if it is stored so and words are few.
    pub(super) fn of_chunk(chunk: &Chunk, meta: &ColumnMeta) -> Option<Self> {
        let is_constant = meta.encoding == "constant" || meta.stats.null_count == chunk.row_count();
        let is_dictionary = meta.encoding.starts_with("dict(") || meta.encoding == "dict";
        // Numerics are several arrays.
        if meta.ty == ColumnType::Numeric || !is_constant && !is_dictionary {
            return None;
        }
        // A damaged chunk fails where it is decoded.
        match chunk.view() {
            Ok(EncodedView::Constant(words)) if words.len() == 1 => Some(Self::of_one(words)),
            Ok(EncodedView::Dict {
                codes,
                nulls,
                words,
            }) if words.len() * FEW <= codes.len() => Some(Self {
                codes: Some(codes),
                nulls,
                words,
            }),
            _ => None,
        }
    }

    /// The same value in every row.
    pub(super) fn of_one(value: Column) -> Self {
        Self {
            codes: None,
            nulls: None,
            words: value,
        }
    }

    /// Whether every row has the first word.
    pub(crate) fn is_constant(&self) -> bool {
        self.codes.is_none()
    }

    /// The codes of a zone's selected rows; the code of a null is undefined.
    pub(crate) fn codes_of(&self, zone: &Zone<'_>, out: &mut Vec<u32>) {
        out.clear();
        let rows = zone.rows();
        match (&self.codes, zone.selection()) {
            (None, _) => out.resize(zone.row_count(), 0),
            (Some(Codes::One(codes)), None) => {
                out.extend(codes[rows].iter().map(|&code| u32::from(code)));
            }
            (Some(Codes::Two(codes)), None) => {
                out.extend(codes[rows].iter().map(|&code| u32::from(code)));
            }
            (Some(Codes::Four(codes)), None) => out.extend_from_slice(&codes[rows]),
            (Some(codes), Some(selected)) => {
                out.extend(
                    selected
                        .set_indices()
                        .map(|at| codes.get(rows.start + at) as u32),
                );
            }
        }
    }
}

/// The value of a conjunct for each word: whether it is true.
pub(super) struct Verdicts {
    of_words: Truth,
    of_null: bool,
}

/// The most words with which each code is compared.
const COMPARED: usize = 4;

/// The codes of the words of which a conjunct is true.
#[derive(Debug)]
enum Truth {
    /// All codes, or none.
    Constant(bool),
    /// A few codes, at least one, or all others.
    Few { codes: Vec<u32>, is_true: bool },
    /// By code; false beyond the last one.
    Table(Vec<bool>),
}

impl Truth {
    fn new(of_words: Vec<bool>) -> Self {
        let count = of_words.iter().filter(|&&is_true| is_true).count();
        let codes_of = |wanted: bool| {
            let codes = (0..).zip(&of_words).filter(|&(_, is)| *is == wanted);
            codes.map(|(code, _)| code).collect()
        };
        match (count, of_words.len() - count) {
            (0, _) => Self::Constant(false),
            (_, 0) => Self::Constant(true),
            (..=COMPARED, _) => Self::Few {
                codes: codes_of(true),
                is_true: true,
            },
            (_, ..=COMPARED) => Self::Few {
                codes: codes_of(false),
                is_true: false,
            },
            _ => Self::Table(of_words),
        }
    }

    /// A bit for each code: whether the conjunct is true of its word.
    fn of_codes<C: Copy + Eq + Into<u32> + TryFrom<u32>>(&self, codes: &[C]) -> BooleanBuffer {
        match self {
            Self::Constant(true) => BooleanBuffer::new_set(codes.len()),
            Self::Constant(false) => BooleanBuffer::new_unset(codes.len()),
            Self::Few {
                codes: words,
                is_true,
            } => {
                // A word whose code is too great for the type is no row's.
                let words: Vec<C> = (words.iter())
                    .filter_map(|&word| C::try_from(word).ok())
                    .collect();
                let found = match *words.as_slice() {
                    [] => BooleanBuffer::new_unset(codes.len()),
                    [word] => bits_of(codes, move |code| code == word),
                    [first, .., last] => {
                        let [second, third] = [words[1], words[words.len() - 2]];
                        bits_of(codes, move |code| {
                            (code == first) | (code == second) | (code == third) | (code == last)
                        })
                    }
                };
                match is_true {
                    true => found,
                    false => !&found,
                }
            }
            Self::Table(table) => BooleanBuffer::collect_bool(codes.len(), |row| {
                table.get(codes[row].into() as usize) == Some(&true)
            }),
        }
    }
}

/// The words of one column.
struct WordsOf<'a> {
    column: usize,
    words: &'a Column,
}

impl Input for WordsOf<'_> {
    fn row_count(&self) -> usize {
        self.words.len()
    }

    fn column(&self, index: usize) -> Result<Column, VectorError> {
        match index == self.column {
            true => Ok(self.words.clone()),
            false => Err(UNREAD),
        }
    }
}

/// The column that an expression reads, if it is one alone and no row can make it fail.
pub(super) fn single_column(compiled: &expr::Compiled) -> Option<usize> {
    match compiled.columns() {
        &[column] if !compiled.can_fail() => Some(column),
        _ => None,
    }
}

impl Verdicts {
    /// Evaluates a conjunct for each word.
    pub(super) fn new(
        dictionary: &Dictionary,
        conjunct: &expr::Compiled,
        column: usize,
    ) -> Result<Self, VectorError> {
        let ask = |words: &Column| conjunct.select(&WordsOf { column, words });
        let of_words = Truth::new(ask(&dictionary.words)?.iter().collect());
        let of_null = match &dictionary.nulls {
            Some(_) => ask(&Column::repeat(dictionary.words.column_type(), None, 1)?)?.value(0),
            None => false,
        };
        Ok(Self { of_words, of_null })
    }

    /// The rows of a zone, selected or not, of which the conjunct is true.
    pub(super) fn of_rows(&self, dictionary: &Dictionary, zone: &Zone<'_>) -> BooleanBuffer {
        let rows = zone.rows();
        let found = match &dictionary.codes {
            // The first word's code.
            None => match self.of_words.of_codes(&[0u32]).value(0) {
                true => return BooleanBuffer::new_set(rows.len()),
                false => return BooleanBuffer::new_unset(rows.len()),
            },
            Some(Codes::One(codes)) => self.of_words.of_codes(&codes[rows.clone()]),
            Some(Codes::Two(codes)) => self.of_words.of_codes(&codes[rows.clone()]),
            Some(Codes::Four(codes)) => self.of_words.of_codes(&codes[rows.clone()]),
        };
        match &dictionary.nulls {
            None => found,
            Some(nulls) => {
                let valid = nulls.inner().slice(rows.start, rows.len());
                let found = &found & &valid;
                match self.of_null {
                    true => &found | &!&valid,
                    false => found,
                }
            }
        }
    }
}

/// Results for words, while a morsel is open.
#[derive(Default)]
pub(super) struct Computed {
    /// By conjunct; `None` where words are not sufficient.
    verdicts: Vec<(usize, Option<Rc<Verdicts>>)>,
    /// By expression.
    answers: Vec<(*const expr::Compiled, Option<Column>)>,
    /// By conjunct: the packed codes of which it is true.
    ranges: Vec<(usize, Option<CodeRange>)>,
}

impl Computed {
    pub(super) fn verdicts(
        &mut self,
        conjunct: usize,
        make: impl FnOnce() -> Option<Verdicts>,
    ) -> Option<Rc<Verdicts>> {
        if let Some((_, known)) = self.verdicts.iter().find(|(known, _)| *known == conjunct) {
            return known.clone();
        }
        let made = make().map(Rc::new);
        self.verdicts.push((conjunct, made.clone()));
        made
    }

    pub(super) fn range(
        &mut self,
        conjunct: usize,
        make: impl FnOnce() -> Option<CodeRange>,
    ) -> Option<CodeRange> {
        if let Some((_, known)) = self.ranges.iter().find(|(known, _)| *known == conjunct) {
            return *known;
        }
        let made = make();
        self.ranges.push((conjunct, made));
        made
    }

    fn answers(
        &mut self,
        compiled: &expr::Compiled,
        make: impl FnOnce() -> Option<Column>,
    ) -> Option<Column> {
        // A plan outlives the morsel, so that an address is always the same expression's.
        let address = std::ptr::from_ref(compiled);
        if let Some((_, known)) = self.answers.iter().find(|(known, _)| *known == address) {
            return known.clone();
        }
        let made = make();
        self.answers.push((address, made.clone()));
        made
    }
}

/// The values of an expression for a zone's selected rows: evaluated for words if the expression
/// reads only a column of few words.
pub(super) fn evaluate(zone: &Zone<'_>, compiled: &expr::Compiled) -> Result<Column, VectorError> {
    if compiled.as_column().is_none()
        && let Some(column) = single_column(compiled)
        && let Some(dictionary) = zone.morsel().dictionary(column)
        && dictionary.nulls.is_none()
    {
        let words = &dictionary.words;
        let answers = zone.morsel().computed.borrow_mut().answers(compiled, || {
            compiled.evaluate(&WordsOf { column, words }).ok()
        });
        if let Some(answers) = answers {
            let mut codes = Vec::new();
            dictionary.codes_of(zone, &mut codes);
            return take(&answers, &codes);
        }
    }
    compiled.evaluate(zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every count of words that are true, of codes of every width, among them codes of nulls,
    /// which are beyond the words.
    #[test]
    fn codes_have_the_truth_of_their_words() {
        for word_count in 1..12_u32 {
            for true_count in 0..=word_count {
                let is_true = |word: u32| (word * 7 + 3) % word_count.max(1) < true_count;
                let truth = Truth::new((0..word_count).map(is_true).collect());
                let codes: Vec<u8> = (0..200).map(|row| (row * 5 % 13) as u8).collect();
                let wide: Vec<u32> = codes.iter().map(|&code| code.into()).collect();
                let half: Vec<u16> = codes.iter().map(|&code| code.into()).collect();
                let found = truth.of_codes(&codes);
                assert_eq!(found, truth.of_codes(&half));
                assert_eq!(found, truth.of_codes(&wide));
                for (row, &code) in wide.iter().enumerate() {
                    if code < word_count {
                        assert_eq!(found.value(row), is_true(code), "{truth:?} of {code}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_word_beyond_the_codes_is_no_rows() {
        let beyond = |word: u32| word == 300;
        let codes = [0_u8, 44, 255];
        for (is_true, expected) in [(true, false), (false, true)] {
            let truth = Truth::new((0..400).map(|word| beyond(word) == is_true).collect());
            let found: Vec<bool> = truth.of_codes(&codes).iter().collect();
            assert_eq!(found, [expected; 3]);
        }
    }
}
