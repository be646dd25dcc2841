//! Text: lengths, beginnings, blanks at the end, and LIKE.

use arrow_array::builder::make_view;
use arrow_array::{Array, BooleanArray, Int32Array, StringViewArray};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, ScalarBuffer};
use howdah_columnar::ColumnType::{Bool, Int32, Text};
use howdah_columnar::{Column, CompareOp, OwnedValue, Predicate, TextPattern, Value};

use super::Function;
use super::kernel::{Kernel, Operand, mismatch, nulls_of, row_count};
use crate::error::VectorError;
use crate::stop::check_here;

const UTF8: &str = "in a database encoded in UTF-8";
const UTF8_DETERMINISTIC: &str =
    "in a database encoded in UTF-8, under a deterministic collation, for a constant pattern";

const fn like(prosrc: &'static str, negated: bool) -> Function {
    Function::new(prosrc, &[Text, Text], Bool, Kernel::Like { negated })
        .exact_where(UTF8_DETERMINISTIC)
}

pub(super) static FUNCTIONS: &[&[Function]] = &[&[
    Function::new("textlen", &[Text], Int32, Kernel::Unary(length)).exact_where(UTF8),
    Function::new("textoctetlen", &[Text], Int32, Kernel::Unary(octet_length)),
    // `rtrim(text)`, and what makes a text of a `char(n)`.
    Function::new("rtrim1", &[Text], Text, Kernel::Unary(without_blanks)),
    Function::new(
        "text_starts_with",
        &[Text, Text],
        Bool,
        Kernel::Binary(starts_with),
    )
    .exact_where("under a deterministic collation"),
    like("textlike", false),
    like("textnlike", true),
]];

fn texts(column: &Column) -> Result<&StringViewArray, VectorError> {
    match column {
        Column::Text(texts) => Ok(texts),
        _ => Err(mismatch()),
    }
}

fn length(argument: &Column) -> Result<Column, VectorError> {
    let texts = texts(argument)?;
    let buffers: Vec<&[u8]> = (texts.data_buffers().iter())
        .map(|buffer| buffer.as_slice())
        .collect();
    let are_plain = are_ascii(&buffers, texts.len());
    let characters = texts.views().iter().map(|&view| {
        let byte_count = view as u32;
        let inside = match byte_count as usize <= INLINE_BYTES {
            // The text follows its length; what is left of the view is zero.
            true => insides((view >> 32) as u64) + insides((view >> 96) as u64),
            false if are_plain => 0,
            false => {
                // Four bytes of it, then its buffer and its place there.
                let (buffer, start) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
                count_inside(&buffers[buffer][start..start + byte_count as usize]) as u64
            }
        };
        byte_count.wrapping_sub(inside as u32) as i32
    });
    Ok(lengths(characters.collect(), texts))
}

/// Whether buffers that are not much longer than so many texts have no other characters than
/// ASCII's. Looking at a buffer is several times as fast as looking at each of its texts.
fn are_ascii(buffers: &[&[u8]], text_count: usize) -> bool {
    const BYTES_OF_A_TEXT: usize = 100;
    let byte_count: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    byte_count <= text_count * BYTES_OF_A_TEXT && buffers.iter().all(|buffer| buffer.is_ascii())
}

/// Bytes that a view holds itself.
const INLINE_BYTES: usize = 12;

/// How many of eight bytes continue a character.
#[inline(always)]
fn insides(bytes: u64) -> u64 {
    const LOWEST: u64 = 0x0101_0101_0101_0101;
    // The upper bit is set and the one below is not.
    let is_inside = (bytes >> 7) & !(bytes >> 6) & LOWEST;
    is_inside.wrapping_mul(LOWEST) >> 56
}

/// How many bytes continue a character.
fn count_inside(bytes: &[u8]) -> usize {
    // Counts of bytes fit a byte each, which the compiler adds many at a time.
    const MOST: usize = 255;
    let (words, rest) = bytes.as_chunks::<8>();
    let in_rest = rest.iter().filter(|&&byte| is_inside(byte)).count();
    if words.len() < 4 {
        let words = words.iter().map(|&word| insides(u64::from_le_bytes(word)));
        return words.sum::<u64>() as usize + in_rest;
    }
    let counts = words.as_flattened().chunks(MOST).map(|bytes| {
        let count = bytes
            .iter()
            .fold(0, |count, &byte| count + u8::from(is_inside(byte)));
        usize::from(count)
    });
    counts.sum::<usize>() + in_rest
}

fn octet_length(argument: &Column) -> Result<Column, VectorError> {
    let texts = texts(argument)?;
    Ok(lengths(
        texts.lengths().map(|bytes| bytes as i32).collect(),
        texts,
    ))
}

/// The texts without blanks at their ends, which share the bytes of those that were given.
fn without_blanks(argument: &Column) -> Result<Column, VectorError> {
    let texts = texts(argument)?;
    let views = texts.views().iter().enumerate().map(|(row, &view)| {
        let trimmed = texts.value(row).trim_end_matches(' ');
        match trimmed.len() {
            0..=INLINE_BYTES => make_view(trimmed.as_bytes(), 0, 0),
            len => view & !u128::from(u32::MAX) | len as u128,
        }
    });
    let buffers = texts.data_buffers().to_vec();
    let trimmed = StringViewArray::try_new(views.collect(), buffers, texts.nulls().cloned());
    trimmed.map(Column::Text).map_err(|_| mismatch())
}

/// Texts are below 1 GB, so their lengths fit.
fn lengths(lengths: Vec<i32>, texts: &StringViewArray) -> Column {
    let nulls = texts.nulls().cloned();
    Column::Int32(Int32Array::new(ScalarBuffer::from(lengths), nulls))
}

/// Whether a byte of UTF-8 continues a character.
#[inline(always)]
fn is_inside(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

fn starts_with(left: Operand<'_>, right: Operand<'_>) -> Result<Column, VectorError> {
    let nulls = nulls_of(left, right);
    let row_count = row_count(left, right);
    let bits = match (left, right) {
        (Operand::Rows(rows), Operand::Same(Value::Text(prefix))) => {
            let rows = texts(rows)?;
            BooleanBuffer::collect_bool(row_count, |row| rows.value(row).starts_with(prefix))
        }
        (Operand::Same(Value::Text(text)), Operand::Rows(prefixes)) => {
            let prefixes = texts(prefixes)?;
            BooleanBuffer::collect_bool(row_count, |row| text.starts_with(prefixes.value(row)))
        }
        (Operand::Rows(left), Operand::Rows(right)) => {
            let (left, right) = (texts(left)?, texts(right)?);
            BooleanBuffer::collect_bool(row_count, |row| {
                left.value(row).starts_with(right.value(row))
            })
        }
        _ => return Err(mismatch()),
    };
    Ok(Column::Bool(BooleanArray::new(bits, nulls)))
}

/// The condition of LIKE on a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Like {
    /// The text is equal to this one.
    Equal(String),
    /// The text has these parts.
    Parts(TextPattern),
    /// The text matches these, one after the other.
    Tokens(Vec<Token>),
}

/// One element of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// This byte.
    Byte(u8),
    /// `_`: any character.
    One,
    /// `%`: any characters.
    Many,
}

impl Like {
    /// Reads a pattern; `None` if it ends with an escape, which PostgreSQL refuses.
    ///
    /// Comparing bytes gives PostgreSQL's answer in UTF-8, where no character begins inside another
    /// one.
    pub(crate) fn new(pattern: &str) -> Option<Self> {
        let mut tokens = Vec::with_capacity(pattern.len());
        let mut bytes = pattern.bytes();
        while let Some(byte) = bytes.next() {
            tokens.push(match byte {
                b'_' => Token::One,
                b'%' => Token::Many,
                b'\\' => Token::Byte(bytes.next()?),
                byte => Token::Byte(byte),
            });
        }
        Some(Self::of_parts(&tokens).unwrap_or(Self::Tokens(tokens)))
    }

    fn of_parts(tokens: &[Token]) -> Option<Self> {
        let mut parts = vec![Vec::new()];
        for token in tokens {
            match token {
                Token::One => return None,
                Token::Many => parts.push(Vec::new()),
                Token::Byte(byte) => parts.last_mut()?.push(*byte),
            }
        }
        let suffix = parts.pop()?;
        if parts.is_empty() {
            return Some(Self::Equal(String::from_utf8(suffix).ok()?));
        }
        let mut parts = parts.into_iter();
        Some(Self::Parts(TextPattern {
            prefix: parts.next()?,
            infixes: parts.filter(|part| !part.is_empty()).collect(),
            suffix,
        }))
    }

    /// The same as a predicate of a column, if it is one.
    pub(crate) fn predicate(self, negated: bool) -> Option<Predicate> {
        match self {
            Self::Equal(text) => Some(Predicate::Compare {
                op: match negated {
                    true => CompareOp::Ne,
                    false => CompareOp::Eq,
                },
                value: OwnedValue::Text(text),
            }),
            Self::Parts(pattern) if negated => Some(Predicate::NotLike(pattern)),
            Self::Parts(pattern) => Some(Predicate::Like(pattern)),
            Self::Tokens(_) => None,
        }
    }

    /// A bit for each row; anything where it is null.
    pub(crate) fn matches(&self, column: &Column) -> Result<BooleanBuffer, VectorError> {
        let texts = texts(column)?;
        Ok(match self {
            Self::Equal(text) => super::bytes::equal(texts, text.as_bytes()),
            Self::Parts(pattern) => pattern.of_rows(texts.len(), |row| texts.value(row).as_bytes()),
            Self::Tokens(tokens) => {
                let mut matched = BooleanBufferBuilder::new(texts.len());
                for row in 0..texts.len() {
                    // Its time grows with the product of both lengths.
                    check_here()?;
                    matched.append(matches_tokens(texts.value(row).as_bytes(), tokens));
                }
                matched.finish()
            }
        })
    }
}

/// Whether a text matches a pattern. After a mismatch the last `%` takes one character more; those
/// before it need not, since what follows them was found as early as it can be.
fn matches_tokens(text: &[u8], tokens: &[Token]) -> bool {
    let (mut at, mut token) = (0, 0);
    let mut last_many = None;
    loop {
        match tokens.get(token) {
            Some(Token::Many) => {
                token += 1;
                last_many = Some((token, at));
                continue;
            }
            Some(Token::One) if at < text.len() => {
                at = next_character(text, at);
                token += 1;
                continue;
            }
            Some(&Token::Byte(byte)) if text.get(at) == Some(&byte) => {
                at += 1;
                token += 1;
                continue;
            }
            None if at == text.len() => return true,
            _ => {}
        }
        match last_many {
            Some((after, from)) if from < text.len() => {
                let from = next_character(text, from);
                last_many = Some((after, from));
                (token, at) = (after, from);
            }
            _ => return false,
        }
    }
}

/// Where the character after the one at `at` begins.
fn next_character(text: &[u8], at: usize) -> usize {
    let rest = &text[at + 1..];
    let inside = rest.iter().take_while(|&&byte| is_inside(byte)).count();
    at + 1 + inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_like(text: &str, pattern: &str) -> bool {
        let column = Column::Text(StringViewArray::from(vec![text]));
        let like = Like::new(pattern).expect("a pattern");
        like.matches(&column).expect("text").value(0)
    }

    #[test]
    fn lengths_are_counts_of_characters() {
        let texts: Vec<String> = (0..700)
            .map(|len| ["a", "ä", "漢", "🦀x"][len % 4].repeat(len))
            .chain(["".to_owned(), "äöüß€".to_owned(), "123456789012".to_owned()])
            .collect();
        let column = Column::Text(StringViewArray::from_iter_values(&texts));
        let Ok(Column::Int32(lengths)) = length(&column) else {
            panic!("lengths are integers");
        };
        for (row, text) in texts.iter().enumerate() {
            assert_eq!(lengths.value(row) as usize, text.chars().count());
        }
        let plain: Vec<String> = (0..70).map(|len| "x".repeat(len)).collect();
        let column = Column::Text(StringViewArray::from_iter_values(&plain));
        let Ok(Column::Int32(lengths)) = length(&column) else {
            panic!("lengths are integers");
        };
        assert!(lengths.values().iter().copied().eq(0..70));
    }

    #[test]
    fn blanks_are_taken_from_the_end_only() {
        let texts: Vec<String> = (0..40)
            .flat_map(|blanks| {
                ["", " a", "twelve bytes", "more than twelve bytes", "ä\t"]
                    .map(|text| format!("{text}{}", " ".repeat(blanks)))
            })
            .collect();
        let mut given: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
        given.push(None);
        let column = Column::Text(StringViewArray::from_iter(&given));
        let Ok(Column::Text(trimmed)) = without_blanks(&column) else {
            panic!("texts");
        };
        for (row, text) in texts.iter().enumerate() {
            assert_eq!(trimmed.value(row), text.trim_end_matches(' '));
        }
        assert!(trimmed.is_null(texts.len()));
    }

    #[test]
    fn single_characters_are_characters() {
        assert!(is_like("äöü", "___"));
        assert!(is_like("äöü", "_ö_"));
        assert!(!is_like("äöü", "______"));
        assert!(is_like("aXbXc", "%_c"));
        assert!(is_like("abcabd", "%ab_"));
        assert!(!is_like("ab", "ab_"));
        assert!(is_like("a_c", r"a\_c"));
        assert!(!is_like("abc", r"a\_c"));
        assert!(is_like("mississippi", "m%is_i%p_"));
        assert!(!is_like("mississippi", "m%is_i%p_x"));
        assert!(is_like("", "%"));
        assert!(!is_like("", "_"));
        assert!(is_like("", ""));
    }

    #[test]
    fn a_pattern_that_ends_with_an_escape_is_none() {
        assert_eq!(Like::new(r"ab\"), None);
        assert_eq!(Like::new(r"ab\\"), Some(Like::Equal(r"ab\".to_owned())));
    }
}
