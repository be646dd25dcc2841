//! jsonb values as trees, and the functions of them.
//!
//! Images are read into a tree as a whole, and written from one; nothing is shared with the
//! kernels, which read them in place.

use howdah_columnar::{OwnedNumeric, OwnedValue};

use super::functions::{at_scale, small};
use super::{Datum, unsupported};
use crate::error::VectorError;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number of at most 38 digits: without its point, and how many digits follow that.
    Number(i128, u16),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object; keys are unique, in any order.
    Object(Vec<(String, Json)>),
}

const STRIDE: usize = 32;

impl Json {
    /// The image of a value, as PostgreSQL's `convertToJsonb` makes it.
    pub fn image(&self) -> Vec<u8> {
        match self {
            Self::Array(_) | Self::Object(_) => self.container(),
            scalar => {
                let mut image = (1_u32 | 0x5000_0000).to_ne_bytes().to_vec();
                image.extend(entries(&[scalar]));
                image
            }
        }
    }

    fn container(&self) -> Vec<u8> {
        match self {
            Self::Array(elements) => {
                let mut image = (elements.len() as u32 | 0x4000_0000).to_ne_bytes().to_vec();
                image.extend(entries(&elements.iter().collect::<Vec<_>>()));
                image
            }
            Self::Object(pairs) => {
                let mut pairs: Vec<&(String, Json)> = pairs.iter().collect();
                pairs.sort_by_key(|(key, _)| (key.len(), key.as_bytes()));
                let keys: Vec<Json> = (pairs.iter())
                    .map(|(key, _)| Self::String(key.clone()))
                    .collect();
                let all: Vec<&Json> = keys.iter().chain(pairs.iter().map(|(_, v)| v)).collect();
                let mut image = (pairs.len() as u32 | 0x2000_0000).to_ne_bytes().to_vec();
                image.extend(entries(&all));
                image
            }
            _ => Vec::new(),
        }
    }

    /// Reads an image.
    fn read(image: &[u8]) -> Option<Self> {
        let header = u32_at(image, 0)?;
        let count = (header & 0x0FFF_FFFF) as usize;
        match header >> 28 {
            0b0101 if count == 1 => Some(read_entries(image, 1)?.remove(0)),
            0b0100 => Some(Self::Array(read_entries(image, count)?)),
            0b0010 => {
                let mut keys = read_entries(image, count * 2)?;
                let values = keys.split_off(count);
                let pair = |(key, value)| match key {
                    Self::String(key) => Some((key, value)),
                    _ => None,
                };
                let pairs = keys.into_iter().zip(values).map(pair);
                Some(Self::Object(pairs.collect::<Option<_>>()?))
            }
            _ => None,
        }
    }

    fn is_scalar(&self) -> bool {
        !matches!(self, Self::Array(_) | Self::Object(_))
    }

    /// The value as PostgreSQL shows it.
    fn text(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(unscaled, scale) => number_text(*unscaled, *scale),
            Self::String(text) => quoted(text),
            Self::Array(elements) => {
                let elements: Vec<String> = elements.iter().map(Self::text).collect();
                format!("[{}]", elements.join(", "))
            }
            Self::Object(pairs) => {
                let pair =
                    |(key, value): &(String, Self)| format!("{}: {}", quoted(key), value.text());
                let pairs: Vec<String> = pairs.iter().map(pair).collect();
                format!("{{{}}}", pairs.join(", "))
            }
        }
    }

    /// The value as `->>` returns it.
    fn shown(&self) -> Datum {
        match self {
            Self::Null => None,
            Self::String(text) => Some(OwnedValue::Text(text.clone())),
            other => Some(OwnedValue::Text(other.text())),
        }
    }

    fn value_of(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(pairs) => pairs
                .iter()
                .find(|(own, _)| own == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// The element of an array; a single value is the element of one that is not shown.
    fn element(&self, index: i64) -> Option<&Self> {
        let elements = match self {
            Self::Object(_) => return None,
            Self::Array(elements) => elements.as_slice(),
            scalar => std::slice::from_ref(scalar),
        };
        let index = if index < 0 {
            index + elements.len() as i64
        } else {
            index
        };
        elements.get(usize::try_from(index).ok()?)
    }

    fn follow(&self, path: &[Option<String>]) -> Option<&Self> {
        if path.iter().any(Option::is_none) {
            return None;
        }
        path.iter()
            .flatten()
            .try_fold(self, |value, step| match value {
                Self::Object(_) => value.value_of(step),
                Self::Array(_) => value.element(step.trim_start().parse::<i32>().ok()?.into()),
                _ => None,
            })
    }

    fn has(&self, key: &str) -> bool {
        match self {
            Self::Object(_) => self.value_of(key).is_some(),
            Self::Array(elements) => elements.contains(&Self::String(key.to_owned())),
            Self::String(text) => text == key,
            _ => false,
        }
    }

    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a, a_scale), Self::Number(b, b_scale)) => {
                let scale = *a_scale.max(b_scale);
                let aligned = (at_scale(*a, *a_scale, scale), at_scale(*b, *b_scale, scale));
                matches!(aligned, (Some(a), Some(b)) if a == b)
            }
            (a, b) => a == b,
        }
    }

    /// `@>`. A value at the root, which has no container, is contained in arrays as well.
    fn contains(&self, part: &Self, is_root: bool) -> bool {
        match (self, part) {
            (Self::Object(_), Self::Object(pairs)) => pairs.iter().all(|(key, wanted)| {
                self.value_of(key)
                    .is_some_and(|own| own.contains(wanted, false))
            }),
            (Self::Array(own), Self::Array(parts)) => {
                let holds = |wanted: &Self| own.iter().any(|own| own.contains(wanted, false));
                parts.iter().all(holds)
            }
            (Self::Array(own), scalar) if is_root && scalar.is_scalar() => {
                own.iter().any(|own| own.equals(scalar))
            }
            (own, wanted) => own.is_scalar() && wanted.is_scalar() && own.equals(wanted),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(..) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

/// The entries and the data of a container.
fn entries(items: &[&Json]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::<u8>::new());
    for (at, item) in items.iter().enumerate() {
        let start = data.len();
        let align = |data: &mut Vec<u8>| data.resize(data.len().next_multiple_of(4), 0);
        let kind: u32 = match item {
            Json::String(text) => {
                data.extend(text.bytes());
                0
            }
            Json::Number(unscaled, scale) => {
                align(&mut data);
                let image = numeric_image(*unscaled, *scale);
                data.extend((((image.len() + 4) as u32) << 2).to_ne_bytes());
                data.extend(image);
                1
            }
            Json::Bool(false) => 2,
            Json::Bool(true) => 3,
            Json::Null => 4,
            container => {
                align(&mut data);
                data.extend(container.container());
                5
            }
        };
        let length = match at % STRIDE {
            0 => data.len() as u32 | 0x8000_0000,
            _ => (data.len() - start) as u32,
        };
        entries.extend((kind << 28 | length).to_ne_bytes());
    }
    entries.extend(data);
    entries
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_entries(image: &[u8], count: usize) -> Option<Vec<Json>> {
    let data = image.get(4 + count.checked_mul(4)?..)?;
    let (mut start, mut items) = (0, Vec::new());
    for at in 0..count {
        let entry = u32_at(image, 4 + 4 * at)?;
        let length = (entry & 0x0FFF_FFFF) as usize;
        let end = if entry >> 31 == 1 {
            length
        } else {
            start + length
        };
        let aligned = || data.get(start.next_multiple_of(4)..end);
        items.push(match entry >> 28 & 7 {
            0 => Json::String(String::from_utf8(data.get(start..end)?.to_vec()).ok()?),
            1 => {
                let (unscaled, scale) = read_numeric(aligned()?.get(4..)?)?;
                Json::Number(unscaled, scale)
            }
            2 => Json::Bool(false),
            3 => Json::Bool(true),
            4 => Json::Null,
            5 => Json::read(aligned()?)?,
            _ => return None,
        });
        start = end;
    }
    Some(items)
}

/// A numeric's image in its short form.
fn numeric_image(unscaled: i128, scale: u16) -> Vec<u8> {
    let padding = usize::from(scale.next_multiple_of(4) - scale);
    let mut text = unscaled.unsigned_abs().to_string() + &"0".repeat(padding);
    while !text.len().is_multiple_of(4) {
        text.insert(0, '0');
    }
    let mut digits: Vec<u16> = (text.as_bytes().chunks(4))
        .map(|four| {
            four.iter()
                .fold(0, |value, digit| value * 10 + u16::from(digit - b'0'))
        })
        .collect();
    let mut weight = digits.len() as i32 - 1 - i32::from(scale.div_ceil(4));
    while digits.first() == Some(&0) {
        digits.remove(0);
        weight -= 1;
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    if digits.is_empty() {
        weight = 0;
    }
    let sign = if unscaled < 0 { 0x2000 } else { 0 };
    let header = 0x8000 | sign | scale << 7 | (weight as u16 & 0x7F);
    let halves = std::iter::once(header).chain(digits);
    halves.flat_map(u16::to_ne_bytes).collect()
}

fn read_numeric(image: &[u8]) -> Option<(i128, u16)> {
    let halves: Vec<u16> = (image.chunks(2))
        .map(|half| Some(u16::from_ne_bytes(half.try_into().ok()?)))
        .collect::<Option<_>>()?;
    let (&header, digits) = halves.split_first()?;
    if header >> 14 != 0b10 {
        return None;
    }
    let scale = header >> 7 & 0x3F;
    let weight = i32::from(((header & 0x7F) << 9) as i16 >> 9);
    let mut unscaled = 0_i128;
    for (at, &digit) in digits.iter().enumerate() {
        let exponent = 4 * (weight - at as i32) + i32::from(scale);
        let digit = i128::from(digit);
        unscaled += match exponent >= 0 {
            true => digit.checked_mul(10_i128.checked_pow(exponent as u32)?)?,
            false => digit / 10_i128.pow(exponent.unsigned_abs()),
        };
    }
    Some((
        if header & 0x2000 != 0 {
            -unscaled
        } else {
            unscaled
        },
        scale,
    ))
}

fn number_text(unscaled: i128, scale: u16) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:01$}", unscaled.unsigned_abs(), usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    match scale {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    }
}

fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|letter| match letter {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        letter if letter < ' ' => format!("\\u{:04x}", letter as u32),
        letter => letter.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// The image of an array of texts in one dimension.
pub fn text_array(texts: &[Option<String>]) -> Vec<u8> {
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_ne_bytes()).collect() };
    if texts.is_empty() {
        return words(&[0, 0, 25]);
    }
    let has_nulls = texts.iter().any(Option::is_none);
    let mut image = words(&[1, 0, 25, texts.len() as u32, 1]);
    if has_nulls {
        for eight in texts.chunks(8) {
            let bit = |(at, text): (usize, &Option<String>)| u8::from(text.is_some()) << at;
            image.push(eight.iter().enumerate().map(bit).sum());
        }
    }
    let pad = |image: &mut Vec<u8>, to: usize| {
        image.resize((image.len() + 4).next_multiple_of(to) - 4, 0);
    };
    pad(&mut image, 8);
    if has_nulls {
        let start = (image.len() as u32 + 4).to_ne_bytes();
        image[4..8].copy_from_slice(&start);
    }
    for text in texts.iter().flatten() {
        pad(&mut image, 4);
        image.extend((((text.len() + 4) as u32) << 2).to_ne_bytes());
        image.extend(text.bytes());
    }
    image
}

fn read_text_array(image: &[u8]) -> Option<Vec<Option<String>>> {
    if u32_at(image, 0)? == 0 {
        return Some(Vec::new());
    }
    let (offset, count) = (u32_at(image, 4)? as usize, u32_at(image, 12)? as usize);
    let mut at = if offset == 0 { 20 } else { offset - 4 };
    let mut texts = Vec::new();
    for element in 0..count {
        if offset > 0 && image.get(20 + element / 8)? >> (element % 8) & 1 == 0 {
            texts.push(None);
            continue;
        }
        at = at.next_multiple_of(4);
        let end = at + (u32_at(image, at)? >> 2) as usize;
        texts.push(Some(
            String::from_utf8(image.get(at + 4..end)?.to_vec()).ok()?,
        ));
        at = end;
    }
    Some(texts)
}

/// The value of a function of jsonb values, or of a cast of text; `None` for any other function.
pub(super) fn call(prosrc: &str, arguments: &[OwnedValue]) -> Option<Result<Datum, VectorError>> {
    let result = match (prosrc, arguments) {
        (_, [OwnedValue::Text(text)]) if prosrc.ends_with("in") => cast_of_text(prosrc, text),
        (_, [OwnedValue::Bytes(image), rest @ ..]) if prosrc.starts_with("jsonb_") => {
            match Json::read(image) {
                Some(value) => of_jsonb(prosrc, &value, rest),
                None => Err(unsupported("a damaged image")),
            }
        }
        _ => return None,
    };
    Some(result)
}

fn of_jsonb(prosrc: &str, value: &Json, rest: &[OwnedValue]) -> Result<Datum, VectorError> {
    use OwnedValue::{Bytes, Int32, Text};
    let list = |image: &[u8]| read_text_array(image).ok_or_else(|| unsupported("a damaged array"));
    let tree = |image: &[u8]| Json::read(image).ok_or_else(|| unsupported("a damaged image"));
    let truth = |holds: bool| Ok(Some(OwnedValue::Bool(holds)));
    let part = |found: Option<&Json>, as_text: bool| match (found, as_text) {
        (None, _) => Ok(None),
        (Some(found), true) => Ok(found.shown()),
        (Some(found), false) => Ok(Some(Bytes(found.image()))),
    };
    match (prosrc, rest) {
        ("jsonb_object_field", [Text(key)]) => part(value.value_of(key), false),
        ("jsonb_object_field_text", [Text(key)]) => part(value.value_of(key), true),
        ("jsonb_array_element", [Int32(at)]) => part(value.element((*at).into()), false),
        ("jsonb_array_element_text", [Int32(at)]) => part(value.element((*at).into()), true),
        ("jsonb_extract_path", [Bytes(path)]) => part(value.follow(&list(path)?), false),
        ("jsonb_extract_path_text", [Bytes(path)]) => part(value.follow(&list(path)?), true),
        ("jsonb_exists", [Text(key)]) => truth(value.has(key)),
        ("jsonb_exists_any", [Bytes(keys)]) => {
            truth(list(keys)?.iter().flatten().any(|key| value.has(key)))
        }
        ("jsonb_exists_all", [Bytes(keys)]) => {
            truth(list(keys)?.iter().flatten().all(|key| value.has(key)))
        }
        ("jsonb_contains", [Bytes(part)]) => truth(value.contains(&tree(part)?, true)),
        ("jsonb_contained", [Bytes(whole)]) => truth(tree(whole)?.contains(value, true)),
        ("jsonb_typeof", []) => Ok(Some(Text(value.type_name().to_owned()))),
        ("jsonb_array_length", []) => match value {
            Json::Array(elements) => Ok(Some(Int32(elements.len() as i32))),
            _ => Err(unsupported("no array")),
        },
        (_, []) => cast(prosrc, value),
        _ => Err(unsupported("a function of these arguments")),
    }
}

fn cast(prosrc: &str, value: &Json) -> Result<Datum, VectorError> {
    let not_cast = || unsupported("a value that cannot be cast");
    let (unscaled, scale) = match value {
        Json::Null => return Ok(None),
        Json::Bool(value) if prosrc == "jsonb_bool" => return Ok(Some(OwnedValue::Bool(*value))),
        Json::Number(unscaled, scale) if prosrc != "jsonb_bool" => (*unscaled, *scale),
        _ => return Err(not_cast()),
    };
    let text = number_text(unscaled, scale);
    let value = match prosrc {
        "jsonb_numeric" => small(Some(unscaled), scale)?,
        "jsonb_float4" => return cast_of_text("float4in", &text),
        "jsonb_float8" => return cast_of_text("float8in", &text),
        _ => {
            // Half away from zero: the digit after the point decides.
            let (whole, fraction) = text.split_once('.').unwrap_or((&text, "0"));
            let up = i128::from(fraction.as_bytes()[0] >= b'5');
            let whole = whole
                .trim_start_matches('-')
                .parse::<i128>()
                .map_err(|_| not_cast())?;
            let rounded = if unscaled < 0 {
                -(whole + up)
            } else {
                whole + up
            };
            let width = prosrc
                .trim_start_matches("jsonb_int")
                .parse()
                .map_err(|_| not_cast())?;
            super::functions::sized(width, rounded)?
        }
    };
    Ok(Some(value))
}

/// A cast by the type's input function.
fn cast_of_text(prosrc: &str, text: &str) -> Result<Datum, VectorError> {
    let unusual = || unsupported("a text that is no plain value");
    let is_plain = |letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter);
    let text = text.trim_matches(|letter: char| " \t\n\u{b}\u{c}\r".contains(letter));
    if prosrc == "boolin" {
        return match text {
            "t" | "true" => Ok(Some(OwnedValue::Bool(true))),
            "f" | "false" => Ok(Some(OwnedValue::Bool(false))),
            _ => Err(unusual()),
        };
    }
    if !text.chars().all(is_plain) {
        return Err(unusual());
    }
    let is_zero = |text: &str| {
        !text
            .split(['e', 'E'])
            .next()
            .unwrap_or("")
            .contains(|letter: char| ('1'..='9').contains(&letter))
    };
    let value = match prosrc {
        "int2in" => OwnedValue::Int16(text.parse().map_err(|_| unusual())?),
        "int4in" => OwnedValue::Int32(text.parse().map_err(|_| unusual())?),
        "int8in" => OwnedValue::Int64(text.parse().map_err(|_| unusual())?),
        "float4in" => {
            let value: f32 = text.parse().map_err(|_| unusual())?;
            match value.is_infinite() || value == 0.0 && !is_zero(text) {
                true => return Err(unusual()),
                false => OwnedValue::Float32(value),
            }
        }
        "float8in" => {
            let value: f64 = text.parse().map_err(|_| unusual())?;
            match value.is_infinite() || value == 0.0 && !is_zero(text) {
                true => return Err(unusual()),
                false => OwnedValue::Float64(value),
            }
        }
        "numeric_in" => {
            let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
            let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
            let digits = format!("{whole}{fraction}");
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            if !is_number || digits.is_empty() || digits.len() > 38 {
                return Err(unusual());
            }
            let magnitude: i128 = digits.parse().map_err(|_| unusual())?;
            OwnedValue::Numeric(OwnedNumeric::Small {
                unscaled: if text.starts_with('-') {
                    -magnitude
                } else {
                    magnitude
                },
                scale: fraction.len() as u16,
            })
        }
        _ => return Err(unusual()),
    };
    Ok(Some(value))
}
