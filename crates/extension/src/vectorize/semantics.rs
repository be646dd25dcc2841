//! Which types keep their meaning when only their stored form is used.
//!
//! The engine groups, compares and orders stored values. For most types of
//! [`sql_types`](crate::types::sql_types)
//! that is PostgreSQL's equality and order. For others (blank-padded text, jsonb, text under a
//! nondeterministic collation) it is not, and they are declined.

use howdah_bridge::collation::{is_deterministic, orders_bytewise};
use howdah_bridge::upper::{Node, Oid, Reason};

use crate::types::AttributeLayout;
use crate::types::sql_types::{Comparison, comparison};

/// Functions that test texts for equality of their bytes only.
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
/// Functions of text that do not depend on a collation.
const TEXT_ONLY: [&str; 2] = ["textlen", "textoctetlen"];

/// Whether any function or aggregate of the engine takes values of a type.
pub fn is_known(type_oid: Oid) -> bool {
    is_scalar(type_oid) || is_text(type_oid)
}

fn is_scalar(type_oid: Oid) -> bool {
    comparison(type_oid) == Comparison::AsStored
}

fn is_text(type_oid: Oid) -> bool {
    comparison(type_oid) == Comparison::ByCollation
}

fn declined_unless(holds: bool, reason: Reason) -> Result<(), Reason> {
    if holds { Ok(()) } else { Err(reason) }
}

/// Declines an expression whose equality differs from that of its stored form.
pub fn groups_as_stored(node: Node<'_>) -> Result<(), Reason> {
    let type_oid = AttributeLayout::of_type(node.type_oid()).type_oid;
    if is_text(type_oid) {
        return declined_unless(is_deterministic(node.collation()), Reason::Collation);
    }
    let is_exact = is_scalar(type_oid) || comparison(type_oid) == Comparison::EqualAsStored;
    declined_unless(is_exact, Reason::Type(type_oid))
}

/// Declines an expression whose order differs from that of its stored form.
pub fn orders_as_stored(node: Node<'_>) -> Result<(), Reason> {
    let type_oid = AttributeLayout::of_type(node.type_oid()).type_oid;
    if is_text(type_oid) {
        return declined_unless(orders_bytewise(node.collation()), Reason::Collation);
    }
    declined_unless(is_scalar(type_oid), Reason::Type(type_oid))
}

/// Declines a function of text that does not compute what PostgreSQL does under the collation.
pub fn exact_of_text(function: &str, collation: Oid) -> Result<(), Reason> {
    if TEXT_EQUALITY.contains(&function) {
        return declined_unless(is_deterministic(collation), Reason::Collation);
    }
    if TEXT_ORDER.contains(&function) {
        return declined_unless(orders_bytewise(collation), Reason::Collation);
    }
    let is_exact = TEXT_ONLY.contains(&function);
    declined_unless(is_exact, Reason::Function(function.to_owned()))
}

/// Declines an aggregate that depends on an order which is not that of stored values.
pub fn exact_aggregate(name: &str, collation: Oid) -> Result<(), Reason> {
    let is_exact = !name.ends_with("(text)") || orders_bytewise(collation);
    declined_unless(is_exact, Reason::Collation)
}
