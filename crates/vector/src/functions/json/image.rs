//! Images of jsonb values, as PostgreSQL's `utils/jsonb.h` defines them, without the varlena
//! header.
//!
//! ```text
//!   header: u32, a count and flags │ entries: u32, for each element, or keys, then values │ data
//!   entry:  kind, and the length of its data, or every 32nd time the end of its data
//! ```
//!
//! Keys of an object are unique and sorted, shorter ones first. A single value is an array of one
//! element with a flag. Numbers and containers lie at multiples of four bytes of the data, and what
//! is left out for that counts as theirs.
//!
//! Invariant: no image, however damaged, makes a reader here panic or loop: it is
//! [`DAMAGED`], and PostgreSQL evaluates the query itself.

use std::cmp::Ordering;
use std::ops::Range;

use crate::error::VectorError;

pub(super) const DAMAGED: VectorError = VectorError::Unsupported {
    what: "a jsonb value whose image is damaged",
};

const COUNT_MASK: u32 = 0x0FFF_FFFF;
const SCALAR: u32 = 0x1000_0000;
const OBJECT: u32 = 0x2000_0000;
const ARRAY: u32 = 0x4000_0000;

const LENGTH_MASK: u32 = 0x0FFF_FFFF;
const KIND_MASK: u32 = 0x7000_0000;
const STRING: u32 = 0;
const NUMERIC: u32 = 0x1000_0000;
const FALSE: u32 = 0x2000_0000;
const TRUE: u32 = 0x3000_0000;
const NULL: u32 = 0x4000_0000;
const CONTAINER: u32 = 0x5000_0000;
/// The entry holds the end of its data instead of the length.
const IS_END: u32 = 0x8000_0000;

/// An element of a container.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'a> {
    Null,
    Bool(bool),
    String(&'a [u8]),
    /// A numeric's image, without its varlena header.
    Number(&'a [u8]),
    /// The image of an object or an array.
    Container(&'a [u8]),
}

/// What a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    /// The array that stands for a single value.
    Scalar,
}

/// A container whose entries are there.
#[derive(Clone, Copy)]
pub(super) struct Container<'a> {
    pub(super) kind: Kind,
    /// Elements of an array, or pairs of an object.
    pub(super) count: usize,
    entries: &'a [[u8; 4]],
    data: &'a [u8],
}

fn word(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}

/// The place after `start` where a number or a container lies.
fn aligned(start: usize) -> usize {
    start.next_multiple_of(4)
}

/// The order of keys within an object.
fn order_of_keys(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl<'a> Container<'a> {
    pub(super) fn open(image: &'a [u8]) -> Result<Self, VectorError> {
        let (header, rest) = image.split_first_chunk::<4>().ok_or(DAMAGED)?;
        let header = word(*header);
        let count = (header & COUNT_MASK) as usize;
        let (kind, entry_count) = match header & (OBJECT | ARRAY | SCALAR) {
            OBJECT => (Kind::Object, count * 2),
            ARRAY => (Kind::Array, count),
            bits if bits == ARRAY | SCALAR && count == 1 => (Kind::Scalar, 1),
            _ => return Err(DAMAGED),
        };
        let (entries, data) = rest.split_at_checked(entry_count * 4).ok_or(DAMAGED)?;
        Ok(Self {
            kind,
            count,
            entries: entries.as_chunks::<4>().0,
            data,
        })
    }

    /// Where the data of an entry starts: the last known end before it, and the lengths since.
    fn start(&self, index: usize) -> usize {
        let mut start = 0;
        for &entry in self.entries[..index].iter().rev() {
            let entry = word(entry);
            start += (entry & LENGTH_MASK) as usize;
            if entry & IS_END != 0 {
                break;
            }
        }
        start
    }

    fn end(&self, index: usize, start: usize) -> usize {
        let entry = word(self.entries[index]);
        let length = (entry & LENGTH_MASK) as usize;
        match entry & IS_END {
            0 => start + length,
            _ => length,
        }
    }

    fn bytes(&self, range: Range<usize>) -> Result<&'a [u8], VectorError> {
        self.data.get(range).ok_or(DAMAGED)
    }

    /// The key of a pair, if it is this one. Keys of other lengths are not read.
    fn has_key(&self, index: usize, key: &[u8]) -> bool {
        let entry = word(self.entries[index]);
        if entry & IS_END == 0 && (entry & LENGTH_MASK) as usize != key.len() {
            return false;
        }
        let start = self.start(index);
        self.data.get(start..self.end(index, start)) == Some(key)
    }

    /// The entry and its data, which starts there.
    fn item_from(&self, index: usize, start: usize) -> Result<Item<'a>, VectorError> {
        let end = self.end(index, start);
        Ok(match word(self.entries[index]) & KIND_MASK {
            STRING => Item::String(self.bytes(start..end)?),
            NUMERIC => Item::Number(without_header(self.bytes(aligned(start)..end)?)?),
            FALSE => Item::Bool(false),
            TRUE => Item::Bool(true),
            NULL => Item::Null,
            CONTAINER => Item::Container(self.bytes(aligned(start)..end)?),
            _ => return Err(DAMAGED),
        })
    }

    /// The element of an array, if there is one at this place.
    pub(super) fn element(&self, index: usize) -> Result<Option<Item<'a>>, VectorError> {
        match self.kind != Kind::Object && index < self.count {
            true => self.item_from(index, self.start(index)).map(Some),
            false => Ok(None),
        }
    }

    /// The value of an object's key. `guess` is where it may be, and then where it was.
    pub(super) fn value_of(
        &self,
        key: &[u8],
        guess: &mut usize,
    ) -> Result<Option<Item<'a>>, VectorError> {
        if self.kind != Kind::Object {
            return Ok(None);
        }
        if *guess >= self.count || !self.has_key(*guess, key) {
            match self.search(key)? {
                Some(found) => *guess = found,
                None => return Ok(None),
            }
        }
        let at = self.count + *guess;
        self.item_from(at, self.start(at)).map(Some)
    }

    fn search(&self, key: &[u8]) -> Result<Option<usize>, VectorError> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let start = self.start(middle);
            let candidate = self.bytes(start..self.end(middle, start))?;
            match order_of_keys(candidate, key) {
                Ordering::Equal => return Ok(Some(middle)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// All entries, from first to last: elements, or keys and then values.
    pub(super) fn items(&self) -> impl Iterator<Item = Result<Item<'a>, VectorError>> {
        let mut start = 0;
        (0..self.entries.len()).map(move |index| {
            let item = self.item_from(index, start);
            start = self.end(index, start);
            item
        })
    }
}

/// A value without its varlena header.
///
/// The bits of a header that tell its length are the lowest ones on little-endian machines, and
/// the highest ones on others.
fn without_header(value: &[u8]) -> Result<&[u8], VectorError> {
    let (len, header_len) = varlena_len(value).ok_or(DAMAGED)?;
    value.get(header_len..len).ok_or(DAMAGED)
}

/// The length of a value that is neither compressed nor stored elsewhere, and that of its header.
pub(super) fn varlena_len(value: &[u8]) -> Option<(usize, usize)> {
    if cfg!(target_endian = "big") {
        return None;
    }
    let first = *value.first()?;
    if first & 1 == 1 {
        return (first != 1).then_some((usize::from(first >> 1), 1));
    }
    let header = word(*value.first_chunk::<4>()?);
    (header & 3 == 0).then_some(((header >> 2) as usize, 4))
}

/// Appends the image of a single value; `None` if it is a container, which has one already.
pub(super) fn push_scalar_image(item: Item<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (kind, len) = match item {
        Item::Null => (NULL, 0),
        Item::Bool(false) => (FALSE, 0),
        Item::Bool(true) => (TRUE, 0),
        Item::String(text) => (STRING, text.len()),
        Item::Number(number) => (NUMERIC, number.len() + 4),
        Item::Container(_) => return None,
    };
    let len = u32::try_from(len).ok().filter(|&len| len <= LENGTH_MASK)?;
    out.extend_from_slice(&(ARRAY | SCALAR | 1).to_ne_bytes());
    out.extend_from_slice(&(kind | IS_END | len).to_ne_bytes());
    match item {
        Item::String(text) => out.extend_from_slice(text),
        Item::Number(number) => {
            out.extend_from_slice(&(len << 2).to_ne_bytes());
            out.extend_from_slice(number);
        }
        _ => {}
    }
    Some(())
}
