//! Values of `char(n)`, which PostgreSQL stores with blanks up to *n* characters, and compares
//! without them.
//!
//! Two values of a column are therefore equal if their bytes are. A value from elsewhere, of any
//! length, is equal to those of the column that have its bytes once it is given as many blanks as
//! they have; one that is too long for the column keeps its length, and is equal to none.
//!
//! Their order is another one than that of their bytes: `'a'` is less than `'a\t'`.

use howdah_bridge::Oid;
use howdah_bridge::builtin::types;
use howdah_bridge::table::Attribute;
use howdah_columnar::OwnedValue;

/// How many characters the values of an attribute have, if all have the same number.
pub fn characters(att: &Attribute, base: Oid) -> Option<u32> {
    // A domain's values have the length that the domain tells, and not the attribute.
    if base != types::BPCHAR || att.atttypid != types::BPCHAR {
        return None;
    }
    let length = att.atttypmod.checked_sub(TYPMOD_HEADER)?;
    u32::try_from(length)
        .ok()
        .filter(|&length| length <= MOST_CHARACTERS)
}

/// Longer columns are left to PostgreSQL: each value of a list would be given as many blanks, and a
/// list of 100,000 words takes 900 MB for `char(2000)`.
const MOST_CHARACTERS: u32 = 256;

/// What a type modifier counts beside characters (`VARHDRSZ`).
const TYPMOD_HEADER: i32 = 4;

/// The value as a column stores it whose values have so many characters.
pub fn as_stored(value: OwnedValue, characters: u32) -> OwnedValue {
    match value {
        OwnedValue::Text(mut text) => {
            text.truncate(text.trim_end_matches(' ').len());
            let missing = (characters as usize).saturating_sub(text.chars().count());
            text.extend(std::iter::repeat_n(' ', missing));
            OwnedValue::Text(text)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_gets_the_blanks_that_a_column_would_store() {
        let stored =
            |text: &str, characters| match as_stored(OwnedValue::Text(text.into()), characters) {
                OwnedValue::Text(text) => text,
                other => panic!("{other:?}"),
            };
        assert_eq!(stored("a", 3), "a  ");
        assert_eq!(stored("a     ", 3), "a  ");
        assert_eq!(stored("äß", 3), "äß ");
        assert_eq!(stored("", 2), "  ");
        assert_eq!(stored("abc", 3), "abc");
        assert_eq!(
            stored("abcd  ", 3),
            "abcd",
            "equal to no value of the column"
        );
        assert_eq!(stored("a\t", 3), "a\t ");
    }
}
