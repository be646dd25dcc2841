//! LIKE patterns as row groups evaluate them.

use howdah_columnar::{CompareOp, OwnedValue, Predicate, TextPattern};

/// The predicate that a text is LIKE the pattern, or is not. `None` if the pattern matches single
/// characters (`_`), or ends with an escape, which PostgreSQL rejects.
///
/// In UTF-8, comparing bytes gives PostgreSQL's result, because no character begins inside another
/// one.
pub fn predicate(pattern: &str, negated: bool) -> Option<Predicate> {
    let mut parts = vec![Vec::new()];
    let mut bytes = pattern.bytes();
    while let Some(byte) = bytes.next() {
        let literal = match byte {
            b'_' => return None,
            b'%' => {
                parts.push(Vec::new());
                continue;
            }
            b'\\' => bytes.next()?,
            byte => byte,
        };
        parts.last_mut()?.push(literal);
    }
    let suffix = parts.pop()?;
    if parts.is_empty() {
        let value = OwnedValue::Text(String::from_utf8(suffix).ok()?);
        let op = match negated {
            true => CompareOp::Ne,
            false => CompareOp::Eq,
        };
        return Some(Predicate::Compare { op, value });
    }
    let mut parts = parts.into_iter();
    let pattern = TextPattern {
        prefix: parts.next()?,
        infixes: parts.filter(|part| !part.is_empty()).collect(),
        suffix,
    };
    Some(match negated {
        true => Predicate::NotLike(pattern),
        false => Predicate::Like(pattern),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pattern: &str) -> Option<(String, Vec<String>, String)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
        match predicate(pattern, false)? {
            Predicate::Like(like) => Some((
                text(like.prefix)?,
                like.infixes.into_iter().filter_map(text).collect(),
                text(like.suffix)?,
            )),
            _ => None,
        }
    }

    #[test]
    fn patterns_come_apart_at_percent_signs() {
        let found = |prefix: &str, infixes: &[&str], suffix: &str| {
            let infixes = infixes.iter().map(|&infix| infix.to_owned()).collect();
            Some((prefix.to_owned(), infixes, suffix.to_owned()))
        };
        assert_eq!(parts("ab%"), found("ab", &[], ""));
        assert_eq!(parts("%ab%"), found("", &["ab"], ""));
        assert_eq!(parts("a%%b%c%d"), found("a", &["b", "c"], "d"));
        assert_eq!(parts("%"), found("", &[], ""));
        assert_eq!(parts("a\\%b%"), found("a%b", &[], ""));
    }

    #[test]
    fn other_patterns_are_left_to_postgresql() {
        assert_eq!(predicate("a_b", true), None);
        assert_eq!(predicate("ab\\", false), None);
        assert_eq!(
            predicate("a\\_b", true),
            Some(Predicate::Compare {
                op: CompareOp::Ne,
                value: OwnedValue::Text("a_b".to_owned()),
            })
        );
    }
}
