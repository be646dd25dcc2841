//! Containers as text: what `JsonbToCString` returns.

use super::image::{Container, Item, Kind};
use super::number::Number;
use crate::error::VectorError;

/// Values nested deeper are left to PostgreSQL, which checks the depth of its stack.
pub(super) const MOST_LEVELS: usize = 100;

pub(super) const TOO_DEEP: VectorError = VectorError::Unsupported {
    what: "a jsonb value that is nested too deep",
};

/// Appends a container as text.
pub(super) fn container(image: &[u8], levels: usize, out: &mut Vec<u8>) -> Result<(), VectorError> {
    let levels = levels.checked_sub(1).ok_or(TOO_DEEP)?;
    let container = Container::open(image)?;
    if container.kind == Kind::Object {
        out.push(b'{');
        let values = container.items().skip(container.count);
        for (at, (key, value)) in container.items().zip(values).enumerate() {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            item(key?, levels, out)?;
            out.extend_from_slice(b": ");
            item(value?, levels, out)?;
        }
        out.push(b'}');
        return Ok(());
    }
    out.push(b'[');
    for (at, element) in container.items().enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        item(element?, levels, out)?;
    }
    out.push(b']');
    Ok(())
}

fn item(item: Item<'_>, levels: usize, out: &mut Vec<u8>) -> Result<(), VectorError> {
    match item {
        Item::Null => out.extend_from_slice(b"null"),
        Item::Bool(true) => out.extend_from_slice(b"true"),
        Item::Bool(false) => out.extend_from_slice(b"false"),
        Item::String(text) => escaped(text, out),
        Item::Number(number) => Number::open(number)?.write(out),
        Item::Container(image) => container(image, levels, out)?,
    }
    Ok(())
}

/// Appends a string in quotes, as `escape_json` does.
fn escaped(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..b' ' => {
                out.extend_from_slice(b"\\u00");
                out.push(DIGITS[usize::from(byte >> 4)]);
                out.push(DIGITS[usize::from(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
