//! The SQL types that are known by name: how each is stored, and how far its stored form has its
//! equality and order.
//!
//! Adding a type is adding an entry here. A type without one is stored by its physical form alone,
//! as opaque bytes or as an integer of its length, and is read back; nothing is computed of it.

use howdah_bridge::Oid;
use howdah_bridge::builtin::types;
use howdah_bridge::collation::is_utf8_database;
use howdah_columnar::ColumnType;

/// How a comparison of stored values relates to the type's own operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equality and order are those of the stored values.
    AsStored,
    /// A text of which two values are equal, and one is less, as its collation says.
    ByCollation,
    /// Equality is that of the stored values; the order is not.
    EqualAsStored,
    /// The order of the stored values tells which is less, but nothing is computed of it.
    Shown,
    /// Stored values say nothing about equality and order.
    Unknown,
}

struct SqlType {
    oid: Oid,
    /// `None`: by its physical form.
    stored: Option<ColumnType>,
    comparison: Comparison,
}

const fn entry(oid: Oid, stored: Option<ColumnType>, comparison: Comparison) -> SqlType {
    SqlType {
        oid,
        stored,
        comparison,
    }
}

/// Text is stored as such where the database's encoding is UTF-8, otherwise as bytes.
const TYPES: [SqlType; 22] = {
    use Comparison::{AsStored, ByCollation, EqualAsStored, Shown, Unknown};
    [
        entry(types::BOOL, Some(ColumnType::Bool), AsStored),
        entry(types::BYTEA, None, AsStored),
        entry(types::CHAR, None, EqualAsStored),
        entry(types::INT8, None, AsStored),
        entry(types::INT2, None, AsStored),
        entry(types::INT4, None, AsStored),
        entry(types::TEXT, Some(ColumnType::Text), ByCollation),
        entry(types::OID, None, EqualAsStored),
        entry(types::JSON, Some(ColumnType::Text), Unknown),
        entry(types::FLOAT4, Some(ColumnType::Float32), AsStored),
        entry(types::FLOAT8, Some(ColumnType::Float64), AsStored),
        entry(types::CIDR, None, EqualAsStored),
        entry(types::MONEY, None, Shown),
        entry(types::INET, None, EqualAsStored),
        entry(types::BPCHAR, Some(ColumnType::Text), Shown),
        entry(types::VARCHAR, Some(ColumnType::Text), ByCollation),
        entry(types::DATE, None, AsStored),
        entry(types::TIME, None, AsStored),
        entry(types::TIMESTAMP, None, AsStored),
        entry(types::TIMESTAMPTZ, None, AsStored),
        entry(types::NUMERIC, Some(ColumnType::Numeric), AsStored),
        entry(types::UUID, None, AsStored),
    ]
};

fn find(base: Oid) -> Option<&'static SqlType> {
    TYPES.iter().find(|known| known.oid == base)
}

/// How a type is stored that is not stored by its physical form.
pub(super) fn stored(base: Oid) -> Option<ColumnType> {
    match find(base)?.stored? {
        ColumnType::Text => is_utf8_database().then_some(ColumnType::Text),
        other => Some(other),
    }
}

/// How stored values of a type compare; of a domain, ask for its base type.
pub fn comparison(base: Oid) -> Comparison {
    match find(base) {
        Some(known) => known.comparison,
        // It is stored as the number of its label, which does not tell the label's place.
        None if types::is_enum(base) => Comparison::EqualAsStored,
        None => Comparison::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_has_two_entries() {
        for (at, known) in TYPES.iter().enumerate() {
            let first = TYPES.iter().position(|other| other.oid == known.oid);
            assert_eq!(first, Some(at), "{:?}", known.oid);
        }
    }

    #[test]
    fn what_compares_otherwise_than_its_bytes_is_not_computed_with() {
        // Blank-padded text of any length, an array, jsonb, a number that does not exist.
        for oid in [types::BPCHAR.to_u32(), 1007, 3802, 0] {
            let comparison = find(Oid::from(oid)).map(|known| known.comparison);
            let is_computed = matches!(
                comparison,
                Some(Comparison::AsStored | Comparison::ByCollation | Comparison::EqualAsStored)
            );
            assert!(!is_computed, "{oid}");
        }
    }
}
