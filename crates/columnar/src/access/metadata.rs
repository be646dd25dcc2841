//! The metadata of Vortex's encodings, as far as row access needs it: protobuf messages, read
//! with checks. Fields that are not needed here are skipped: that they are known was checked when
//! the nodes were parsed, see [`messages`](super::messages).

use crate::error::ColumnarError;
use crate::layout::wire::{put_bytes, put_varint};

/// A native type of Vortex, by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Native {
    Unsigned(u8),
    Signed(u8),
    Float(u8),
    Bool,
}

impl Native {
    /// The type with this number in metadata.
    pub(crate) fn of_number(number: u64) -> Result<Self, ColumnarError> {
        Ok(match number {
            0..=3 => Self::Unsigned(1 << number),
            4..=7 => Self::Signed(1 << (number - 4)),
            9 => Self::Float(4),
            10 => Self::Float(8),
            _ => return Err(wrong()),
        })
    }

    /// Bytes of one value; of a bool, as if it took one.
    pub(crate) fn width(self) -> u8 {
        match self {
            Self::Unsigned(width) | Self::Signed(width) | Self::Float(width) => width,
            Self::Bool => 1,
        }
    }

    /// All bits of a value of this type.
    pub(crate) fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * u32::from(self.width()))
    }
}

pub(super) fn wrong() -> ColumnarError {
    ColumnarError::corrupt("metadata of an encoding is wrong")
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl Field<'_> {
    fn number(self) -> Result<u64, ColumnarError> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(wrong()),
        }
    }
}

/// The fields of a message, in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, ColumnarError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or_else(wrong)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(wrong())
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ColumnarError> {
        let (head, tail) = self.0.split_at_checked(len).ok_or_else(wrong)?;
        self.0 = tail;
        Ok(head)
    }

    fn fixed(&mut self, len: usize) -> Result<Field<'a>, ColumnarError> {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(self.take(len)?);
        Ok(Field::Fixed(u64::from_le_bytes(bytes)))
    }

    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, ColumnarError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => self.fixed(8)?,
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| wrong())?;
                Field::Bytes(self.take(len)?)
            }
            5 => self.fixed(4)?,
            _ => return Err(wrong()),
        };
        Ok(Some((key >> 3, field)))
    }
}

/// Calls `each` with the fields of a message.
pub(super) fn each_field<'a>(
    message: &'a [u8],
    mut each: impl FnMut(u64, Field<'a>) -> Result<(), ColumnarError>,
) -> Result<(), ColumnarError> {
    let mut fields = Fields(message);
    while let Some((number, field)) = fields.next()? {
        each(number, field)?;
    }
    Ok(())
}

fn sized(value: u64) -> Result<usize, ColumnarError> {
    usize::try_from(value).map_err(|_| wrong())
}

/// Numbers of a message of varints, by field; absent ones are 0.
fn numbers<const N: usize>(message: &[u8]) -> Result<[u64; N], ColumnarError> {
    let mut values = [0; N];
    each_field(message, |number, field| {
        if let Some(value) = sized(number)?
            .checked_sub(1)
            .and_then(|at| values.get_mut(at))
        {
            *value = field.number()?;
        }
        Ok(())
    })?;
    Ok(values)
}

/// Patches: exceptions to the values that an encoding gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatchesMetadata {
    pub(crate) len: usize,
    pub(crate) offset: u64,
    pub(crate) indices: Native,
    pub(crate) has_chunk_offsets: bool,
}

impl PatchesMetadata {
    fn parse(message: &[u8]) -> Result<Self, ColumnarError> {
        let (mut len, mut offset, mut indices, mut has_chunk_offsets) = (0, 0, 0, false);
        each_field(message, |number, field| {
            match number {
                1 => len = field.number()?,
                2 => offset = field.number()?,
                3 => indices = field.number()?,
                5 => has_chunk_offsets = true,
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self {
            len: sized(len)?,
            offset,
            indices: Native::of_number(indices)?,
            has_chunk_offsets,
        })
    }
}

/// The metadata of `fastlanes.bitpacked`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedMetadata {
    pub(crate) bit_width: u64,
    pub(crate) offset: u64,
    pub(crate) patches: Option<PatchesMetadata>,
}

impl PackedMetadata {
    pub(crate) fn parse(message: &[u8]) -> Result<Self, ColumnarError> {
        let (mut bit_width, mut offset, mut patches) = (0, 0, None);
        each_field(message, |number, field| {
            match (number, field) {
                (1, field) => bit_width = field.number()?,
                (2, field) => offset = field.number()?,
                (3, Field::Bytes(message)) => patches = Some(PatchesMetadata::parse(message)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self {
            bit_width,
            offset,
            patches,
        })
    }

    /// The children that patches take.
    pub(crate) fn patch_children(&self) -> usize {
        match &self.patches {
            None => 0,
            Some(patches) => 2 + usize::from(patches.has_chunk_offsets),
        }
    }
}

/// The metadata of `vortex.alp`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AlpMetadata {
    pub(crate) e: u8,
    pub(crate) f: u8,
    pub(crate) patches: Option<PatchesMetadata>,
}

impl AlpMetadata {
    pub(crate) fn parse(message: &[u8]) -> Result<Self, ColumnarError> {
        let (mut e, mut f, mut patches) = (0, 0, None);
        each_field(message, |number, field| {
            match (number, field) {
                (1, field) => e = field.number()?,
                (2, field) => f = field.number()?,
                (3, Field::Bytes(message)) => patches = Some(PatchesMetadata::parse(message)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self {
            e: u8::try_from(e).map_err(|_| wrong())?,
            f: u8::try_from(f).map_err(|_| wrong())?,
            patches,
        })
    }
}

/// The metadata of `vortex.alprd`.
#[derive(Clone, Debug)]
pub(crate) struct AlpRdMetadata {
    pub(crate) right_bits: u8,
    pub(crate) left_words: Vec<u16>,
    pub(crate) left: Native,
    pub(crate) patches: Option<PatchesMetadata>,
}

impl AlpRdMetadata {
    pub(crate) fn parse(message: &[u8]) -> Result<Self, ColumnarError> {
        let (mut right_bits, mut word_count, mut left) = (0, 0, 0);
        let (mut words, mut patches) = (Vec::new(), None);
        let word = |value: u64| u16::try_from(value).map_err(|_| wrong());
        each_field(message, |number, field| {
            match (number, field) {
                (1, field) => right_bits = field.number()?,
                (2, field) => word_count = field.number()?,
                // Repeated numbers are packed, but need not be.
                (3, Field::Varint(value)) => words.push(word(value)?),
                (3, Field::Bytes(packed)) => {
                    let mut packed = Fields(packed);
                    while !packed.0.is_empty() {
                        words.push(word(packed.varint()?)?);
                    }
                }
                (4, field) => left = field.number()?,
                (5, Field::Bytes(message)) => patches = Some(PatchesMetadata::parse(message)?),
                _ => {}
            }
            Ok(())
        })?;
        if sized(word_count)? > words.len() {
            return Err(wrong());
        }
        Ok(Self {
            right_bits: u8::try_from(right_bits)
                .ok()
                .filter(|&b| b < 64)
                .ok_or_else(wrong)?,
            left_words: words,
            left: Native::of_number(left)?,
            patches,
        })
    }
}

/// The metadata of `vortex.sparse`: a message around the patches.
pub(crate) fn sparse(message: &[u8]) -> Result<PatchesMetadata, ColumnarError> {
    let mut patches = None;
    each_field(message, |number, field| {
        if let (1, Field::Bytes(message)) = (number, field) {
            patches = Some(PatchesMetadata::parse(message)?);
        }
        Ok(())
    })?;
    patches.ok_or_else(wrong)
}

/// The metadata of `vortex.dict`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DictMetadata {
    pub(crate) codes: Native,
    pub(crate) word_count: usize,
}

impl DictMetadata {
    pub(crate) fn parse(message: &[u8]) -> Result<Self, ColumnarError> {
        // values_len, codes_ptype, see the test of every encoding.
        let [word_count, codes, ..] = numbers::<4>(message)?;
        Ok(Self {
            codes: Native::of_number(codes)?,
            word_count: sized(word_count)?,
        })
    }
}

/// The metadata of `vortex.runend`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunsMetadata {
    pub(crate) ends: Native,
    pub(crate) run_count: usize,
    pub(crate) offset: u64,
}

impl RunsMetadata {
    pub(crate) fn parse(message: &[u8]) -> Result<Self, ColumnarError> {
        let [ends, run_count, offset] = numbers(message)?;
        Ok(Self {
            ends: Native::of_number(ends)?,
            run_count: sized(run_count)?,
            offset,
        })
    }
}

/// The type of the offsets of `vortex.varbin`.
pub(crate) fn varbin_offsets(message: &[u8]) -> Result<Native, ColumnarError> {
    let [offsets] = numbers(message)?;
    Native::of_number(offsets)
}

/// The type of the offsets of `vortex.fsst`.
pub(crate) fn fsst_offsets(message: &[u8]) -> Result<Native, ColumnarError> {
    let [_, offsets] = numbers(message)?;
    Native::of_number(offsets)
}

/// The first row of `vortex.bool` in its first byte.
pub(crate) fn bool_offset(message: &[u8]) -> Result<u64, ColumnarError> {
    let [offset] = numbers(message)?;
    Ok(offset)
}

/// The metadata of `vortex.onpair`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnPairMetadata {
    pub(crate) word_count: usize,
    pub(crate) code_count: usize,
    pub(crate) word_offsets: Native,
    pub(crate) codes: Native,
    pub(crate) code_offsets: Native,
}

impl OnPairMetadata {
    pub(crate) fn parse(message: &[u8]) -> Result<Self, ColumnarError> {
        let [
            _,
            _,
            word_count,
            code_count,
            word_offsets,
            codes,
            code_offsets,
        ] = numbers(message)?;
        Ok(Self {
            word_count: sized(word_count)?,
            code_count: sized(code_count)?,
            word_offsets: Native::of_number(word_offsets)?,
            codes: Native::of_number(codes)?,
            code_offsets: Native::of_number(code_offsets)?,
        })
    }
}

/// A single value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Single<'a> {
    Null,
    /// An integer, a bool or a float, as the bits of its type.
    Bits(u64),
    Bytes(&'a [u8]),
}

/// A scalar value of a type (`None`: of text or bytes).
pub(crate) fn single(message: &[u8], native: Option<Native>) -> Result<Single<'_>, ColumnarError> {
    let mut value = None;
    each_field(message, |number, field| {
        value = Some(match (number, field, native) {
            (1, Field::Varint(_), _) => Single::Null,
            (2, Field::Varint(v), Some(Native::Bool)) => Single::Bits(u64::from(v != 0)),
            (3, Field::Varint(v), Some(native @ (Native::Signed(_) | Native::Unsigned(_)))) => {
                Single::Bits(unzigzag(v) & native.mask())
            }
            (4, Field::Varint(v), Some(native @ (Native::Signed(_) | Native::Unsigned(_)))) => {
                Single::Bits(v & native.mask())
            }
            (5, Field::Fixed(v), Some(Native::Float(4)))
            | (6, Field::Fixed(v), Some(Native::Float(8))) => Single::Bits(v),
            (7 | 8, Field::Bytes(bytes), None) => Single::Bytes(bytes),
            _ => return Err(wrong()),
        });
        Ok(())
    })?;
    value.ok_or_else(wrong)
}

/// Base and step of `vortex.sequence`.
pub(crate) fn sequence(message: &[u8], native: Native) -> Result<(u64, u64), ColumnarError> {
    let (mut base, mut step) = (None, None);
    each_field(message, |number, field| {
        match (number, field) {
            (1, Field::Bytes(message)) => base = Some(single(message, Some(native))?),
            // The step may be wider than the values, and is added modulo their width.
            (2, Field::Bytes(message)) => step = Some(single(message, Some(native))?),
            _ => {}
        }
        Ok(())
    })?;
    match (base, step) {
        (Some(Single::Bits(base)), Some(Single::Bits(step))) => Ok((base, step)),
        _ => Err(wrong()),
    }
}

/// The signed integer behind a zigzag varint, as bits.
pub(crate) fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// The metadata of `vortex.pco`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PcoMetadata<'a> {
    pub(crate) header: &'a [u8],
    /// Of each chunk: the number of values of each page.
    pub(crate) chunks: Vec<Vec<u32>>,
}

impl<'a> PcoMetadata<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, ColumnarError> {
        let (mut header, mut chunks) = (&[][..], Vec::new());
        each_field(message, |number, field| {
            match (number, field) {
                (1, Field::Bytes(bytes)) => header = bytes,
                (2, Field::Bytes(chunk)) => {
                    let mut pages = Vec::new();
                    each_field(chunk, |number, field| {
                        if let (1, Field::Bytes(page)) = (number, field) {
                            let [count] = numbers(page)?;
                            pages.push(u32::try_from(count).map_err(|_| wrong())?);
                        }
                        Ok(())
                    })?;
                    chunks.push(pages);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self { header, chunks })
    }

    /// The message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        fn put(field: u8, content: &[u8], out: &mut Vec<u8>) {
            out.push(field << 3 | 2);
            put_bytes(out, content);
        }
        let mut message = Vec::new();
        put(1, self.header, &mut message);
        for pages in &self.chunks {
            let mut chunk = Vec::new();
            for &count in pages {
                let mut page = vec![1 << 3];
                put_varint(&mut page, count.into());
                put(1, &page, &mut chunk);
            }
            put(2, &chunk, &mut message);
        }
        message
    }
}

#[cfg(test)]
mod pco_tests {
    use super::*;

    #[test]
    fn metadata_of_pages_comes_back() {
        for chunks in [vec![], vec![vec![]], vec![vec![8_192, 1], vec![0, 300]]] {
            let metadata = PcoMetadata {
                header: &[4, 1],
                chunks,
            };
            let message = metadata.encode();
            assert_eq!(PcoMetadata::parse(&message).expect("reads"), metadata);
        }
    }
}
