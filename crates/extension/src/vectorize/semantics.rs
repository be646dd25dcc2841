//! Which types keep their meaning when only their stored form is used.
//!
//! The engine groups, compares and orders stored values. For most types of
//! [`sql_types`](crate::types::sql_types)
//! that is PostgreSQL's equality and order. For others (jsonb, text under a nondeterministic
//! collation) it is not, and they are declined. Of `char(n)` it is the equality only, between
//! values that have the same length ([`padded`](crate::types::padded)).

use howdah_bridge::builtin::types;
use howdah_bridge::collation::{is_deterministic, orders_bytewise};
use howdah_bridge::upper::{Node, Oid, Reason};
use howdah_columnar::ColumnType;
use howdah_vector::functions;

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
/// Functions of text, or of arrays of text, that do not depend on a collation.
const TEXT_ONLY: [&str; 19] = [
    "rtrim1",
    "textlen",
    "textoctetlen",
    "boolin",
    "int2in",
    "int4in",
    "int8in",
    "float4in",
    "float8in",
    "numeric_in",
    "jsonb_object_field",
    "jsonb_object_field_text",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "jsonb_exists",
    "jsonb_exists_any",
    "jsonb_exists_all",
    "timestamp_trunc",
    "timestamptz_trunc",
];

/// Whether any function or aggregate of the engine takes values of a type.
pub fn is_known(type_oid: Oid) -> bool {
    let is_image = matches!(type_oid, types::JSONB | types::TEXT_ARRAY);
    is_scalar(type_oid) || is_text(type_oid) || is_image
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

/// Declines an expression whose equality differs from that of its stored form. A column of
/// `char(n)` is `padded`.
pub fn groups_as_stored(node: Node<'_>, padded: bool) -> Result<(), Reason> {
    let type_oid = AttributeLayout::of_type(node.type_oid()).type_oid;
    if is_text(type_oid) || padded {
        return declined_unless(is_deterministic(node.collation()), Reason::Collation);
    }
    let is_exact = is_scalar(type_oid) || is_equal_as_stored(type_oid);
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

/// The function that tells of stored values what this one tells of their meaning, if it is one of
/// types of which only the equality is that of stored values.
pub fn equality_as_stored(function: &str) -> Option<&'static str> {
    Some(match function {
        "bpchareq" => "texteq",
        "bpcharne" => "textne",
        "enum_eq" | "oideq" => "int4eq",
        "enum_ne" | "oidne" => "int4ne",
        // Family, bits of the net, address.
        "network_eq" => "byteaeq",
        "network_ne" => "byteane",
        "chareq" => "int2eq",
        "charne" => "int2ne",
        _ => return None,
    })
}

/// Whether only the equality of a type's values is that of their stored form.
pub fn is_equal_as_stored(type_oid: Oid) -> bool {
    comparison(type_oid) == Comparison::EqualAsStored
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

/// Declines a function whose result is text in a database that does not store text as such: nothing
/// else of the engine would know that it is.
pub fn stores_text_of(function: &str) -> Result<(), Reason> {
    let is_text = functions::find(function).is_some_and(|known| known.result == ColumnType::Text);
    let is_stored = AttributeLayout::of_type(types::TEXT).column_type == ColumnType::Text;
    declined_unless(is_stored || !is_text, Reason::Function(function.to_owned()))
}

/// Declines an aggregate that depends on an order which is not that of stored values.
pub fn exact_aggregate(name: &str, collation: Oid) -> Result<(), Reason> {
    let is_exact = !name.ends_with("(text)") || orders_bytewise(collation);
    declined_unless(is_exact, Reason::Collation)
}
