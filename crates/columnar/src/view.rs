//! A column as it is encoded, for readers that can use the encoding: to count runs instead of rows,
//! to evaluate the words of a dictionary once, to unpack a block into their own buffer.
//!
//! ```text
//!   Chunk::view ─▶ Constant · Sequence · Runs · Dict · Packed · Plain (decoded)
//! ```
//!
//! A view shows only the outermost encoding; what lies below it is decoded. If there is no view of
//! the encoding, the column is plain.

use vortex_array::ArrayRef;
use vortex_array::arrays::dict::DictArraySlotsExt;
use vortex_array::arrays::primitive::PrimitiveArrayExt;
use vortex_array::arrays::{Constant, Dict, PrimitiveArray};
use vortex_array::dtype::PType;
use vortex_buffer::ByteBuffer;
use vortex_fastlanes::{BitPacked, BitPackedArrayExt, BitWidthsView};
use vortex_runend::{RunEnd, RunEndArrayExt, RunEndArraySlotsExt};
use vortex_sequence::Sequence;

use arrow_buffer::{NullBuffer, ScalarBuffer};

use crate::access::packed::{self, BLOCK, Word};
use crate::buffers::{indexes, nulls_of};
use crate::chunk::Chunk;
use crate::codec;
use crate::column::Column;
use crate::error::ColumnarError;
use crate::parts::{Form, slice};
use crate::types::ColumnType;

/// Rows of a chunk in the form in which they are encoded.
#[derive(Clone, Debug)]
pub enum EncodedView {
    /// Every row has the value of the only row of this column.
    Constant(Column),
    /// Row *i* has the integer `base + i * step`, modulo the width of the column's type.
    Sequence {
        /// The value of row 0.
        base: i64,
        /// What each row adds.
        step: i64,
    },
    /// Run *i* ends before row `ends[i]` and has the value of row *i* of the column.
    Runs {
        /// One past the last row of each run; ascending, the last one is the row count.
        ends: Vec<u32>,
        /// The value of each run.
        values: Column,
    },
    /// Row *i* has the word of its code.
    Dict {
        /// The code of each row; for a null it has no meaning.
        codes: Codes,
        /// Rows whose code is null; a word may be null, too.
        nulls: Option<NullBuffer>,
        /// The words, by code.
        words: Column,
    },
    /// Integers without exceptions and nulls, packed to a few bits.
    Packed(PackedView),
    /// All other columns, decoded.
    Plain(Column),
}

/// Codes of a dictionary, as wide as they are stored.
#[derive(Clone, Debug)]
pub enum Codes {
    /// Up to 256 words.
    One(ScalarBuffer<u8>),
    /// Up to 65,536 words.
    Two(ScalarBuffer<u16>),
    /// More.
    Four(ScalarBuffer<u32>),
}

impl Codes {
    /// The number of codes.
    pub fn len(&self) -> usize {
        match self {
            Self::One(codes) => codes.len(),
            Self::Two(codes) => codes.len(),
            Self::Four(codes) => codes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The largest code, of whatever row; 0 if there are none.
    fn largest(&self) -> usize {
        match self {
            Self::One(codes) => codes.iter().fold(0, |most, &code| most.max(code)).into(),
            Self::Two(codes) => codes.iter().fold(0, |most, &code| most.max(code)).into(),
            Self::Four(codes) => codes.iter().fold(0, |most, &code| most.max(code)) as usize,
        }
    }

    /// The code of a row.
    ///
    /// # Panics
    ///
    /// Panics when there is no such row.
    pub fn get(&self, row: usize) -> usize {
        match self {
            Self::One(codes) => codes[row].into(),
            Self::Two(codes) => codes[row].into(),
            Self::Four(codes) => codes[row] as usize,
        }
    }
}

/// Integers of up to 64 bits in blocks of 1,024 that are unpacked one at a time.
#[derive(Clone, Debug)]
pub struct PackedView {
    bytes: ByteBuffer,
    bits: usize,
    width: usize,
    row_count: usize,
}

impl PackedView {
    /// Rows in a block; the last one may have fewer.
    pub const BLOCK_ROWS: usize = BLOCK;

    /// Rows in the view.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Bits of a packed value: values are not negative and less than `1 << bits`.
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Unpacks a block into the caller's slice and returns how many of its values are rows.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`] when there is no such block.
    pub fn unpack(&self, block: usize, out: &mut [i64; BLOCK]) -> Result<usize, ColumnarError> {
        let first = block.saturating_mul(BLOCK);
        if first >= self.row_count {
            return Err(ColumnarError::OutOfRange {
                start: first,
                end: first.saturating_add(1),
                row_count: self.row_count,
            });
        }
        let len = packed::block_bytes(self.bits);
        // `of` made sure that every block is there.
        let bytes = &self.bytes.as_slice()[block * len..(block + 1) * len];
        match self.width {
            2 => widen::<u16>(bytes, self.bits, out),
            4 => widen::<u32>(bytes, self.bits, out),
            _ => widen::<u64>(bytes, self.bits, out),
        }
        Ok((self.row_count - first).min(BLOCK))
    }

    /// `None` if the array has exceptions, nulls, or blocks of different widths.
    fn of(array: &ArrayRef, ty: ColumnType) -> Result<Option<Self>, ColumnarError> {
        let Some(packed) = array.as_opt::<BitPacked>() else {
            return Ok(None);
        };
        let width = match ty {
            ColumnType::Int16 => 2,
            ColumnType::Int32 => 4,
            ColumnType::Int64 => 8,
            _ => return Ok(None),
        };
        let BitWidthsView::Global(bits) = packed.bit_widths() else {
            return Ok(None);
        };
        let row_count = array.len();
        let nulls =
            codec::guarded(|| nulls_of(array.validity()?, row_count, &mut codec::context()))?;
        if packed.patches().is_some() || packed.offset() != 0 || nulls.is_some() {
            return Ok(None);
        }
        let bytes = codec::guarded(|| packed.packed().try_to_host_sync())?;
        let bits = usize::from(bits);
        if bits > 8 * width || bytes.len() < row_count.div_ceil(BLOCK) * packed::block_bytes(bits) {
            return Err(ColumnarError::corrupt("packed values are too short"));
        }
        Ok(Some(Self {
            bytes,
            bits,
            width,
            row_count,
        }))
    }
}

/// Unpacks words and widens them; packed values are not negative in their type, unless they
/// take all of its bits.
fn widen<W: Word>(bytes: &[u8], bits: usize, out: &mut [i64; BLOCK]) {
    let mut words = [W::default(); BLOCK];
    packed::unpack(bytes, bits, &mut words);
    let unused = 64 - W::BITS;
    for (out, word) in out.iter_mut().zip(words) {
        // The sign of the column's type.
        *out = (word.into() << unused) as i64 >> unused;
    }
}

impl Chunk {
    /// The chunk as it is encoded.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    pub fn view(&self) -> Result<EncodedView, ColumnarError> {
        if let Form::Array(array) = self.form()
            && let Some(view) = of_array(array, self.column_type())?
        {
            return Ok(view);
        }
        if matches!(self.form(), Form::AllNull) {
            return Ok(EncodedView::Constant(self.decode_range(0..1)?));
        }
        self.decode().map(EncodedView::Plain)
    }
}

fn of_array(array: &ArrayRef, ty: ColumnType) -> Result<Option<EncodedView>, ColumnarError> {
    if array.is::<Constant>() {
        let one = Column::from_array(ty, slice(array, &(0..1))?)?;
        return Ok(Some(EncodedView::Constant(one)));
    }
    if let Some(dictionary) = array.as_opt::<Dict>() {
        let (codes, words) = (dictionary.codes().clone(), dictionary.values().clone());
        return dict(codes, Column::from_array(ty, words)?).map(Some);
    }
    if let Some(runs) = array.as_opt::<RunEnd>()
        && runs.offset() == 0
    {
        let (ends, values) = (runs.ends().clone(), runs.values().clone());
        return run_ends(ends, Column::from_array(ty, values)?, array.len()).map(Some);
    }
    if let Some(sequence) = array.as_opt::<Sequence>() {
        let (base, step) = codec::guarded(|| sequence.wrapping_bits())?;
        let (base, step) = (base as i64, step as i64);
        return Ok(Some(EncodedView::Sequence { base, step }));
    }
    Ok(PackedView::of(array, ty)?.map(EncodedView::Packed))
}

fn dict(codes: ArrayRef, words: Column) -> Result<EncodedView, ColumnarError> {
    let row_count = codes.len();
    let mut ctx = codec::context();
    let (codes, nulls) = codec::guarded(|| {
        let codes = codes.execute::<PrimitiveArray>(&mut ctx)?;
        let nulls = nulls_of(PrimitiveArrayExt::validity(&codes), row_count, &mut ctx)?;
        let codes = match PrimitiveArrayExt::ptype(&codes) {
            PType::U8 => Codes::One(codes.into_buffer::<u8>().into_arrow_scalar_buffer()),
            PType::U16 => Codes::Two(codes.into_buffer::<u16>().into_arrow_scalar_buffer()),
            PType::U32 => Codes::Four(codes.into_buffer::<u32>().into_arrow_scalar_buffer()),
            ptype => vortex_error::vortex_bail!("dictionary codes of type {ptype}"),
        };
        Ok((codes, nulls))
    })?;
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let is_beyond = |row: usize| codes.get(row) >= words.len() && is_valid(row);
    // A null may have any code.
    if codes.largest() >= words.len() && (0..codes.len()).any(is_beyond) {
        return Err(ColumnarError::corrupt("dictionary code out of range"));
    }
    Ok(EncodedView::Dict {
        codes,
        nulls,
        words,
    })
}

fn run_ends(
    ends: ArrayRef,
    values: Column,
    row_count: usize,
) -> Result<EncodedView, ColumnarError> {
    let (ends, _) = codec::guarded(|| indexes(ends, &mut codec::context()))?;
    let fits = ends.len() == values.len()
        && ends.is_sorted_by(|a, b| a < b)
        && ends.last() == Some(&(row_count as u32));
    if !fits {
        return Err(ColumnarError::corrupt("runs do not fill their chunk"));
    }
    Ok(EncodedView::Runs {
        ends: ends.to_vec(),
        values,
    })
}
