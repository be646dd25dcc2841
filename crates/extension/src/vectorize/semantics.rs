//! Which types keep their meaning when only their stored form is looked at.
//!
//! The engine groups, compares and orders stored values. That is PostgreSQL's equality and order for the types
//! listed here; for others (blank-padded text, jsonb, text under a nondeterministic collation) it is not, and they are declined.

use howdah_bridge::collation::{is_deterministic, orders_bytewise};
use howdah_bridge::upper::{Node, Oid};

use crate::types::AttributeLayout;

const BOOL: u32 = 16;
const BYTEA: u32 = 17;
const CHAR: u32 = 18;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const OID: u32 = 26;
const FLOAT4: u32 = 700;
const FLOAT8: u32 = 701;
const VARCHAR: u32 = 1043;
const DATE: u32 = 1082;
const TIME: u32 = 1083;
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;
const NUMERIC: u32 = 1700;
const UUID: u32 = 2950;

/// Functions that ask texts for equality of their bytes only.
const TEXT_EQUALITY: [&str; 5] = [
    "texteq",
    "textne",
    "textlike",
    "textnlike",
    "text_starts_with",
];
/// Functions that order texts.
const TEXT_ORDER: [&str; 6] = [
    "text_lt",
    "text_le",
    "text_gt",
    "text_ge",
    "text_larger",
    "text_smaller",
];
/// Functions of text that no collation changes.
const TEXT_ONLY: [&str; 2] = ["textlen", "textoctetlen"];

/// Whether values of a type are known to functions and aggregates of the engine at all.
pub fn is_known(type_oid: Oid) -> bool {
    is_scalar(type_oid) || is_text(type_oid)
}

fn is_scalar(type_oid: Oid) -> bool {
    matches!(
        type_oid.to_u32(),
        BOOL | BYTEA
            | INT2
            | INT4
            | INT8
            | FLOAT4
            | FLOAT8
            | DATE
            | TIME
            | TIMESTAMP
            | TIMESTAMPTZ
            | NUMERIC
            | UUID
    )
}

fn is_text(type_oid: Oid) -> bool {
    matches!(type_oid.to_u32(), TEXT | VARCHAR)
}

/// Whether the values of an expression are equal where their stored forms are.
pub fn groups_as_stored(node: Node<'_>) -> bool {
    let type_oid = AttributeLayout::of_type(node.type_oid()).type_oid;
    is_scalar(type_oid)
        || matches!(type_oid.to_u32(), OID | CHAR)
        || is_text(type_oid) && is_deterministic(node.collation())
}

/// Whether the values of an expression are ordered as their stored forms are.
pub fn orders_as_stored(node: Node<'_>) -> bool {
    let type_oid = AttributeLayout::of_type(node.type_oid()).type_oid;
    is_scalar(type_oid) || is_text(type_oid) && orders_bytewise(node.collation())
}

/// Whether a function of text computes what PostgreSQL does under the collation.
pub fn is_exact_of_text(function: &str, collation: Oid) -> bool {
    TEXT_ONLY.contains(&function)
        || TEXT_EQUALITY.contains(&function) && is_deterministic(collation)
        || TEXT_ORDER.contains(&function) && orders_bytewise(collation)
}

/// Whether an aggregate that depends on order does so under the collation.
pub fn is_exact_aggregate(name: &str, collation: Oid) -> bool {
    !name.ends_with("(text)") || orders_bytewise(collation)
}
