//! Patterns of text: its beginning, the parts that follow one another within it, and its end.

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use memchr::memmem::{self, Finder};

/// `LIKE 'prefix%infix%…%suffix'`, where every part may be empty. Parts do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPattern {
    /// The beginning of a text.
    pub prefix: Vec<u8>,
    /// The parts that follow it, in this order.
    pub infixes: Vec<Vec<u8>>,
    /// The end of a text.
    pub suffix: Vec<u8>,
}

impl TextPattern {
    /// Whether a text matches the pattern.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.matches_with(text, |at, rest| memmem::find(rest, &self.infixes[at]))
    }

    /// `find` returns where the infix of a number begins in the rest of a text.
    #[inline(always)]
    fn matches_with(&self, text: &[u8], find: impl Fn(usize, &[u8]) -> Option<usize>) -> bool {
        let mut rest = text;
        // Comparing nothing would be a call all the same.
        if !self.prefix.is_empty() {
            match rest.strip_prefix(self.prefix.as_slice()) {
                Some(left) => rest = left,
                None => return false,
            }
        }
        if !self.suffix.is_empty() {
            match rest.strip_suffix(self.suffix.as_slice()) {
                Some(left) => rest = left,
                None => return false,
            }
        }
        for (at, infix) in self.infixes.iter().enumerate() {
            match find(at, rest) {
                Some(start) => rest = &rest[start + infix.len()..],
                None => return false,
            }
        }
        true
    }

    /// Which of many texts match the pattern.
    pub fn of_rows<'a>(&self, row_count: usize, text: impl Fn(usize) -> &'a [u8]) -> BooleanBuffer {
        let finders: Vec<Finder<'_>> = self.infixes.iter().map(Finder::new).collect();
        BooleanBuffer::collect_bool(row_count, |row| {
            self.matches_with(text(row), |at, rest| finders[at].find(rest))
        })
    }

    /// What a text has to have somewhere, if that is all that is asked of it.
    pub(crate) fn only_infix(&self) -> Option<&[u8]> {
        match self.infixes.as_slice() {
            [infix] if self.prefix.is_empty() && self.suffix.is_empty() => Some(infix),
            _ => None,
        }
    }

    /// Whether no text between these bounds begins as the pattern does.
    pub(crate) fn is_outside(&self, min: Option<&str>, max: Option<&str>) -> bool {
        let prefix = self.prefix.as_slice();
        let is_above = |min: &str| min.as_bytes() > prefix && !min.as_bytes().starts_with(prefix);
        min.is_some_and(is_above) || max.is_some_and(|max| max.as_bytes() < prefix)
    }
}

/// Which of the texts at these places of a buffer, which ascend and do not overlap, have an infix.
/// The buffer is searched as a whole, so that texts without it cost little.
pub(crate) fn having_infix(
    buffer: &[u8],
    places: &[Range<usize>],
    infix: &[u8],
    mut found: impl FnMut(usize),
) {
    let finder = Finder::new(infix);
    let mut row = 0;
    while let Some(place) = places.get(row) {
        // Of what lies between texts, what is found is passed over.
        let Some(at) = finder.find(&buffer[place.start..]) else {
            return;
        };
        let (start, end) = (place.start + at, place.start + at + infix.len());
        row += places[row..].partition_point(|place| place.end < end);
        if let Some(place) = places.get(row)
            && place.start <= start
        {
            found(row);
            row += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_infix_is_found_within_texts_only() {
        let buffer = b"abxabcaab..abab";
        let texts = [0..2, 2..5, 5..6, 6..9, 9..11, 11..11, 12..15];
        for infix in [&b"ab"[..], b"a", b"b", b"ba", b"abc", b".", b"bab", b"z"] {
            let mut found = Vec::new();
            having_infix(buffer, &texts, infix, |row| found.push(row));
            let expected: Vec<usize> = (0..texts.len())
                .filter(|&row| memmem::find(&buffer[texts[row].clone()], infix).is_some())
                .collect();
            assert_eq!(found, expected, "{infix:?}");
        }
    }

    fn pattern(prefix: &str, infixes: &[&str], suffix: &str) -> TextPattern {
        TextPattern {
            prefix: prefix.into(),
            infixes: infixes.iter().map(|&infix| infix.into()).collect(),
            suffix: suffix.into(),
        }
    }

    #[test]
    fn parts_do_not_overlap() {
        let ends = pattern("aba", &[], "ba");
        assert!(!ends.matches(b"aba"));
        assert!(ends.matches(b"ababa"));
        let between = pattern("a", &["b", "b"], "c");
        assert!(!between.matches(b"abc"));
        assert!(between.matches(b"abxbc"));
        assert!(!between.matches(b"abxbcd"));
    }

    #[test]
    fn bounds_rule_out_what_begins_otherwise() {
        let m = pattern("m", &[], "");
        assert!(!m.is_outside(Some("a"), Some("z")));
        assert!(!m.is_outside(Some("mz"), Some("z")));
        assert!(!m.is_outside(Some("a"), Some("m")));
        assert!(m.is_outside(Some("n"), Some("z")));
        assert!(m.is_outside(Some("a"), Some("lzz")));
        assert!(!m.is_outside(None, None));
    }
}
