//! Bounds of zones: exact values where they are short, and short values just outside where
//! they are not.

use crate::value::{OwnedValue, Value};

/// Longest bound of a zone, in bytes.
const BOUND_BYTES: usize = 32;

/// Bytes of a cut bound after the prefix that all values of the chunk share.
const TELLING_BYTES: usize = 8;

/// How long bounds of a chunk's longer values are, given its least and greatest value: the prefix
/// that they share does not distinguish them.
pub(crate) fn cut_between(least: Value<'_>, greatest: Value<'_>) -> usize {
    let shared = match (least, greatest) {
        (Value::Text(a), Value::Text(b)) => shared_bytes(a.as_bytes(), b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => shared_bytes(a, b),
        _ => 0,
    };
    (shared + TELLING_BYTES).min(BOUND_BYTES)
}

fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// One end of the values of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The value: of a minimum, no row is less; of a maximum, no row is greater.
    pub value: OwnedValue,
    /// Whether some row holds exactly this value.
    pub exact: bool,
}

/// A lower bound of the values of a zone, from the least value.
pub(crate) fn lower_bound(value: Value<'_>, cut: usize) -> Bound {
    match value {
        Value::Text(text) if text.len() > BOUND_BYTES => Bound {
            value: OwnedValue::Text(text_prefix(text, cut).to_owned()),
            exact: false,
        },
        Value::Bytes(bytes) if bytes.len() > BOUND_BYTES => Bound {
            value: OwnedValue::Bytes(bytes[..cut].to_vec()),
            exact: false,
        },
        value => Bound {
            value: value.into(),
            exact: true,
        },
    }
}

/// An upper bound of the values of a zone, from the greatest value. `None` where no short value is
/// greater: a prefix of nothing but greatest characters.
pub(crate) fn upper_bound(value: Value<'_>, cut: usize) -> Option<Bound> {
    match value {
        Value::Text(text) if text.len() > BOUND_BYTES => {
            next_text(text_prefix(text, cut)).map(|text| Bound {
                value: OwnedValue::Text(text),
                exact: false,
            })
        }
        Value::Bytes(bytes) if bytes.len() > BOUND_BYTES => {
            let mut prefix = bytes[..cut].to_vec();
            while prefix.last() == Some(&u8::MAX) {
                prefix.pop();
            }
            let last = prefix.last_mut()?;
            *last += 1;
            Some(Bound {
                value: OwnedValue::Bytes(prefix),
                exact: false,
            })
        }
        value => Some(Bound {
            value: value.into(),
            exact: true,
        }),
    }
}

/// At most `cut` bytes of whole characters.
fn text_prefix(text: &str, cut: usize) -> &str {
    &text[..text.floor_char_boundary(cut)]
}

/// The least text, bytewise, that is greater than every text with this prefix.
fn next_text(prefix: &str) -> Option<String> {
    let mut next = prefix.to_owned();
    while let Some(last) = next.pop() {
        // UTF-8 order is code point order; surrogates are no characters.
        let successor = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(last as u32 + 1),
        };
        if let Some(successor) = successor {
            next.push(successor);
            return Some(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;
    use crate::value::compare;

    #[test]
    fn an_upper_bound_of_long_text_is_greater_than_the_text() {
        let long = "é".repeat(40);
        let bound = upper_bound(Value::Text(&long), 32).expect("é has a successor");
        assert!(!bound.exact);
        assert_eq!(
            compare(bound.value.as_value(), Value::Text(&long)),
            Some(Ordering::Greater)
        );
        let greatest = "\u{10ffff}".repeat(20);
        assert_eq!(upper_bound(Value::Text(&greatest), 32), None);
        assert_eq!(upper_bound(Value::Bytes(&[255; 40]), 32), None);
        assert_eq!(
            next_text("a\u{d7ff}\u{10ffff}"),
            Some("a\u{e000}".to_owned())
        );
    }
}
