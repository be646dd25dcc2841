//! Encodes typed rows as the bytes of a row group: statistics first, then one compressed Vortex
//! array per column (several for numerics, none when every row is null).

use std::ops::Range;
use std::sync::Arc;

use vortex_array::arrays::{BoolArray, PrimitiveArray, VarBinArray};
use vortex_array::dtype::{DType, NativePType, Nullability};
use vortex_array::validity::Validity;
use vortex_array::{ArrayRef, IntoArray};
use vortex_buffer::{BitBuffer, Buffer, ByteBuffer};

use crate::builder::{
    BytesBuilder, ColumnBuilder, Digits, NumericBuilder, RowGroupBuilder, ScalarBuilder, Scales,
    ValidityBuilder,
};
use crate::codec::{self, ChunkWriter, Plan};
use crate::error::ColumnarError;
use crate::frames::NewFrames;
use crate::grouped::{self, Field, Fields, NewField};
use crate::layout::{self, ChunkLayout, NewColumn, NumericLayout};
use crate::letters::{Alphabet, NewLetters};
use crate::nodes::NodeTable;
use crate::stats::{self, ChunkStats, ColumnStats};
use crate::types::{ColumnType, Effort, EncodeOptions};
use crate::{MAX_GROUPED, MAX_ROWS};

/// Most bytes of text or bytes in one chunk: Vortex and Arrow address them with 32 bits.
const MAX_CHUNK_BYTES: usize = i32::MAX as usize;

/// Chunks smaller than this are not framed, since each row would cost a decompression.
const MIN_FRAMED_BYTES: usize = 1 << 10;

/// A sample of strings: so many runs of so many rows, of this many times as many rows at least.
const SAMPLE_RUNS: usize = 64;
const RUN_ROWS: usize = 64;
const LEAST_SAMPLES: usize = 4;

/// Whether the encoder is to stop.
pub(crate) type Stop<'a> = &'a dyn Fn() -> bool;

/// To be called between two steps.
pub(crate) fn check(is_stopped: Stop<'_>) -> Result<(), ColumnarError> {
    match is_stopped() {
        true => Err(ColumnarError::Stopped),
        false => Ok(()),
    }
}

/// An encoded row group. It is stored as `footer || body`.
#[derive(Clone, Debug)]
pub struct EncodedRowGroup {
    /// See [`crate::Footer`].
    pub footer: Vec<u8>,
    /// All column chunks.
    pub body: Vec<u8>,
}

pub(crate) fn encode_row_group(
    rows: &RowGroupBuilder,
    options: &EncodeOptions,
    is_stopped: Stop<'_>,
) -> Result<EncodedRowGroup, ColumnarError> {
    let row_count = rows.row_count();
    if !(1..=MAX_ROWS).contains(&row_count) {
        return Err(ColumnarError::RowCount { rows: row_count });
    }
    let mut stats = Vec::with_capacity(rows.types().len());
    for (position, column) in rows.columns().iter().enumerate() {
        if column.len() != row_count {
            return Err(ColumnarError::Encode {
                detail: format!("column {position} has an unfinished row"),
            });
        }
        check_size(position, column)?;
        check(is_stopped)?;
        stats.push(stats::gather(column));
    }
    let mut group = Group::of(rows.columns(), options);
    let mut body = Vec::new();
    let mut columns = Vec::with_capacity(stats.len());
    for ((position, column), stats) in rows.columns().iter().enumerate().zip(stats) {
        let encoded = match group.as_mut().and_then(|group| group.field(position)) {
            Some((group, index)) => group.column(index, options.effort, is_stopped, &mut body)?,
            None => encode_column(column, &stats, options.effort, is_stopped, &mut body)?,
        };
        columns.push(NewColumn {
            ty: column.column_type(),
            layout: encoded.layout,
            flags: stats.flags,
            chunk: encoded.chunk,
            stats: stats.chunk,
            zones: stats.zones,
            nodes: encoded.nodes,
        });
    }
    Ok(EncodedRowGroup {
        footer: layout::write(row_count, body.len() as u64, &columns),
        body,
    })
}

/// The columns of a row group whose values lie side by side.
struct Group<'r> {
    /// Their positions, ascending.
    positions: Vec<usize>,
    columns: Vec<NewField<'r>>,
    /// Once it is encoded.
    rows: Option<(EncodedChunk, Arc<Fields>)>,
}

impl<'r> Group<'r> {
    /// `None` if less than two columns are left for it.
    fn of(columns: &'r [ColumnBuilder], options: &EncodeOptions) -> Option<Self> {
        let (mut positions, mut fields) = (Vec::new(), Vec::new());
        for (position, column) in columns.iter().enumerate() {
            if positions.len() < MAX_GROUPED
                && options.grouped.contains(&position)
                && let Some(field) = NewField::of(column)
            {
                positions.push(position);
                fields.push(field);
            }
        }
        let bytes = fields.iter().map(NewField::most_bytes).sum::<usize>();
        let fits = bytes <= MAX_CHUNK_BYTES;
        (positions.len() > 1 && fits).then_some(Self {
            positions,
            columns: fields,
            rows: None,
        })
    }

    /// The group, and which of its columns the one at this position is.
    fn field(&mut self, position: usize) -> Option<(&mut Self, usize)> {
        let index = self.positions.binary_search(&position).ok()?;
        Some((self, index))
    }

    /// One of its columns; the first one brings the chunk of all.
    fn column(
        &mut self,
        index: usize,
        effort: Effort,
        is_stopped: Stop<'_>,
        body: &mut Vec<u8>,
    ) -> Result<EncodedChunk, ColumnarError> {
        let (rows, fields) = match &self.rows {
            Some(rows) => rows,
            None => {
                let (fields, rows) = grouped::rows_of(&self.columns);
                let column = match fields.is_text() {
                    true => ColumnBuilder::Text(rows),
                    false => ColumnBuilder::Bytes(rows),
                };
                let (_, arrays) = arrays_of(&column)?;
                // Rows are read one by one: they are framed only for the smallest size.
                let framed = effort == Effort::Best;
                let plan = Plan {
                    effort,
                    repetitive: false,
                };
                let (chunk, nodes) = write_chunk(&column, &arrays, plan, framed, is_stopped, body)?;
                let encoded = EncodedChunk {
                    layout: ChunkLayout::Grouped,
                    chunk,
                    nodes,
                };
                self.rows.insert((encoded, Arc::new(fields)))
            }
        };
        let mut column = rows.clone();
        if let Some(field) = Field::new(Arc::clone(fields), index) {
            column.nodes.set_field(field);
        }
        Ok(column)
    }
}

/// The chunk of a column.
#[derive(Clone)]
struct EncodedChunk {
    layout: ChunkLayout,
    /// Relative to the body.
    chunk: Range<u64>,
    nodes: NodeTable,
}

/// Whether at least half of the rows that are not null have equal values, or there are few such
/// rows.
fn is_repetitive(stats: &ChunkStats) -> bool {
    let (row_count, null_count) = (stats.row_count, stats.null_count);
    let distinct = stats.distinct_estimate.unwrap_or(0) as usize;
    distinct <= (row_count - null_count) / 2 || null_count > row_count / 2
}

fn check_size(position: usize, column: &ColumnBuilder) -> Result<(), ColumnarError> {
    let bytes = match column {
        ColumnBuilder::Text(b) | ColumnBuilder::Bytes(b) | ColumnBuilder::Fixed(_, b) => {
            b.data.len()
        }
        ColumnBuilder::Numeric(b) => b.image_bytes.len(),
        _ => 0,
    };
    if bytes > MAX_CHUNK_BYTES {
        return Err(ColumnarError::TooLarge {
            column: position,
            bytes: bytes as u64,
        });
    }
    Ok(())
}

fn encode_column(
    column: &ColumnBuilder,
    stats: &ColumnStats,
    effort: Effort,
    is_stopped: Stop<'_>,
    body: &mut Vec<u8>,
) -> Result<EncodedChunk, ColumnarError> {
    let (layout, arrays) = if stats.chunk.null_count == stats.chunk.row_count {
        (ChunkLayout::AllNull, Vec::new())
    } else {
        arrays_of(column)?
    };
    let repetitive = is_repetitive(&stats.chunk);
    let plan = Plan { effort, repetitive };
    let (chunk, mut nodes) = write_chunk(column, &arrays, plan, true, is_stopped, body)?;
    if let ColumnBuilder::Numeric(builder) = column {
        nodes.set_image_count(builder.image_rows.len());
    }
    Ok(EncodedChunk {
        layout,
        chunk,
        nodes,
    })
}

/// Encodes the arrays of a column. Strings are framed only where that is allowed, and pays.
fn write_chunk(
    column: &ColumnBuilder,
    arrays: &[ArrayRef],
    plan: Plan,
    framed: bool,
    is_stopped: Stop<'_>,
    body: &mut Vec<u8>,
) -> Result<(Range<u64>, NodeTable), ColumnarError> {
    let mut chunk = ChunkWriter::new(body);
    let mark = chunk.mark();
    let strings = strings_of(column).filter(|_| !plan.repetitive && !arrays.is_empty());
    let alphabet = strings.and_then(Alphabet::of);
    let letters_bytes = alphabet
        .as_ref()
        .map(|alphabet| column.len() * alphabet.row_bytes());
    let is_sure = match letters_bytes {
        Some(bytes) => is_surely_least(bytes, column, plan)?,
        None => false,
    };
    for array in arrays.iter().filter(|_| !is_sure) {
        check(is_stopped)?;
        codec::compress(array, plan, &mut chunk)?;
    }
    if let (Some(rows), Some(alphabet), Some(bytes)) = (strings, alphabet, letters_bytes)
        && (is_sure || bytes <= most_letters(chunk.len(), plan.effort))
    {
        let letters = NewLetters::pack(rows, alphabet);
        chunk.replace_by_letters(mark, &letters, validity_array(column))?;
    }
    if framed
        && let Some(frames) = frames(column, plan.effort, is_stopped, chunk.len(), arrays.len())?
    {
        chunk.replace_by_frames(mark, frames, validity_array(column), plan.effort)?;
    }
    let (chunk, nodes) = chunk.finish();
    if chunk.end - chunk.start > u64::from(u32::MAX) {
        return Err(ColumnarError::Encode {
            detail: "column chunk is larger than 4 GB".to_owned(),
        });
    }
    Ok((chunk, nodes))
}

/// The bytes that letters may take instead of what other encodings need: a row costs one place
/// then, without symbols or offsets.
fn most_letters(other_bytes: usize, effort: Effort) -> usize {
    match effort {
        Effort::Best => other_bytes,
        Effort::Fast | Effort::Default => other_bytes + other_bytes / 8,
    }
}

/// Whether so many bytes, those of letters, are no more than other encodings would need. These take
/// most of the time of a load of such strings, so a sample is asked: it makes them look larger than
/// they are, rather than smaller, since it needs as many words for fewer rows.
fn is_surely_least(
    letters_bytes: usize,
    column: &ColumnBuilder,
    plan: Plan,
) -> Result<bool, ColumnarError> {
    let row_count = column.len();
    if plan.effort == Effort::Best || row_count < SAMPLE_RUNS * RUN_ROWS * LEAST_SAMPLES {
        return Ok(false);
    }
    let mut sample = ColumnBuilder::new(column.column_type());
    for run in 0..SAMPLE_RUNS {
        let start = row_count / SAMPLE_RUNS * run;
        (start..start + RUN_ROWS).for_each(|row| sample.push(column.value(row)));
    }
    let mut body = Vec::new();
    let mut chunk = ChunkWriter::new(&mut body);
    for array in arrays_of(&sample)?.1 {
        codec::compress(&array, plan, &mut chunk)?;
    }
    Ok(letters_bytes / row_count <= chunk.len() / sample.len())
}

/// What a row must gain by frames, which cost a reader of single rows some microseconds each. Short
/// strings, as addresses and networks, do not.
const LEAST_GAIN_BYTES: usize = 6;

/// The rows of a column of strings in frames, if that is much smaller than the `other_bytes`
/// that other encodings need: a row costs a frame then.
fn frames(
    column: &ColumnBuilder,
    effort: Effort,
    is_stopped: Stop<'_>,
    other_bytes: usize,
    array_count: usize,
) -> Result<Option<NewFrames>, ColumnarError> {
    let gain_percent = match (column, effort) {
        (_, Effort::Fast) => return Ok(None),
        (ColumnBuilder::Bytes(_), Effort::Default) => 60,
        // Text and fixed values are often keys, which are read one by one.
        (_, Effort::Default) => return Ok(None),
        // Other encodings' codes may lie in pco, which makes a row dearer than a frame does.
        (_, Effort::Best) => 0,
    };
    let Some(rows) = strings_of(column) else {
        return Ok(None);
    };
    if array_count == 0 || other_bytes < MIN_FRAMED_BYTES {
        return Ok(None);
    }
    let least_gain = match effort {
        Effort::Best => 0,
        Effort::Fast | Effort::Default => column.len() * LEAST_GAIN_BYTES,
    };
    let most_bytes = other_bytes / 100 * (100 - gain_percent);
    let most_bytes = most_bytes.min(other_bytes.saturating_sub(least_gain));
    NewFrames::compress(&rows.data, &rows.ends, effort, most_bytes, is_stopped)
}

/// The rows of a column of strings.
fn strings_of(column: &ColumnBuilder) -> Option<&BytesBuilder> {
    match column {
        ColumnBuilder::Text(b) | ColumnBuilder::Bytes(b) | ColumnBuilder::Fixed(_, b) => Some(b),
        _ => None,
    }
}

/// Which rows are valid, if there are nulls.
fn validity_array(column: &ColumnBuilder) -> Option<ArrayRef> {
    match validity_of(column.validity()) {
        Validity::Array(valid) => Some(valid),
        _ => None,
    }
}

fn arrays_of(column: &ColumnBuilder) -> Result<(ChunkLayout, Vec<ArrayRef>), ColumnarError> {
    let array = match column {
        ColumnBuilder::Bool(b) => {
            let bits = BitBuffer::collect_bool(b.values.len(), |row| b.values[row]);
            BoolArray::new(bits, validity_of(&b.validity)).into_array()
        }
        ColumnBuilder::Int16(b) => primitive(b),
        ColumnBuilder::Int32(b) => primitive(b),
        ColumnBuilder::Int64(b) => primitive(b),
        ColumnBuilder::Float32(b) => primitive(b),
        ColumnBuilder::Float64(b) => primitive(b),
        ColumnBuilder::Numeric(b) => {
            let (layout, arrays) = numeric(b)?;
            return Ok((ChunkLayout::Numeric(layout), arrays));
        }
        ColumnBuilder::Text(b) => varbin(b, DType::Utf8)?,
        ColumnBuilder::Bytes(b) | ColumnBuilder::Fixed(_, b) => varbin(b, DType::Binary)?,
    };
    Ok((ChunkLayout::Array, vec![array]))
}

/// The Vortex type of a chunk that is one array.
pub(crate) fn dtype_of(ty: ColumnType, nullability: Nullability) -> DType {
    use vortex_array::dtype::PType;
    match ty {
        ColumnType::Bool => DType::Bool(nullability),
        ColumnType::Int16 => DType::Primitive(PType::I16, nullability),
        ColumnType::Int32 => DType::Primitive(PType::I32, nullability),
        // The digits of a numeric.
        ColumnType::Int64 | ColumnType::Numeric => DType::Primitive(PType::I64, nullability),
        ColumnType::Float32 => DType::Primitive(PType::F32, nullability),
        ColumnType::Float64 => DType::Primitive(PType::F64, nullability),
        ColumnType::Text => DType::Utf8(nullability),
        ColumnType::Bytes | ColumnType::Fixed { .. } => DType::Binary(nullability),
    }
}

/// Chunks without nulls have a non-nullable type.
fn validity_of(validity: &ValidityBuilder) -> Validity {
    match validity.words() {
        None => Validity::NonNullable,
        Some(words) => {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let bits = BitBuffer::new(ByteBuffer::from(bytes), validity.len());
            Validity::from_bit_buffer(bits, Nullability::Nullable)
        }
    }
}

fn primitive<T: NativePType>(builder: &ScalarBuilder<T>) -> ArrayRef {
    values(&builder.values, validity_of(&builder.validity))
}

fn values<T: NativePType>(values: &[T], validity: Validity) -> ArrayRef {
    PrimitiveArray::new(Buffer::copy_from(values), validity).into_array()
}

fn varbin(
    builder: &BytesBuilder,
    dtype: impl Fn(Nullability) -> DType,
) -> Result<ArrayRef, ColumnarError> {
    let validity = validity_of(&builder.validity);
    let dtype = dtype(validity.nullability());
    let data = ByteBuffer::copy_from(&builder.data);
    varbin_array(&builder.ends, data, dtype, validity)
}

fn varbin_array(
    ends: &[usize],
    data: ByteBuffer,
    dtype: DType,
    validity: Validity,
) -> Result<ArrayRef, ColumnarError> {
    // `check_size` made sure that offsets fit.
    let offsets: Buffer<i32> = std::iter::once(0)
        .chain(ends.iter().map(|&end| end as i32))
        .collect();
    let offsets = PrimitiveArray::new(offsets, Validity::NonNullable).into_array();
    VarBinArray::try_new(offsets, data, dtype, validity, &mut codec::context())
        .map(IntoArray::into_array)
        .map_err(|error| ColumnarError::Encode {
            detail: error.to_string(),
        })
}

fn numeric(builder: &NumericBuilder) -> Result<(NumericLayout, Vec<ArrayRef>), ColumnarError> {
    let validity = validity_of(&builder.validity);
    let mut arrays = Vec::new();
    let wide = match &builder.digits {
        Digits::Narrow(rows) => {
            arrays.push(values(rows, validity));
            false
        }
        Digits::Wide(rows) => {
            let low: Vec<i64> = rows.iter().map(|&v| v as i64).collect();
            let high: Vec<i64> = rows.iter().map(|&v| (v >> 64) as i64).collect();
            arrays.push(values(&low, validity));
            arrays.push(values(&high, Validity::NonNullable));
            true
        }
    };
    let (scale, scales_per_row) = match &builder.scales {
        Scales::Constant(scale) => (scale.unwrap_or(0), false),
        Scales::PerRow(rows) => {
            arrays.push(values(rows, Validity::NonNullable));
            (0, true)
        }
    };
    if !builder.image_rows.is_empty() {
        arrays.push(values(&builder.image_rows, Validity::NonNullable));
        arrays.push(varbin_array(
            &builder.image_ends,
            ByteBuffer::copy_from(&builder.image_bytes),
            DType::Binary(Nullability::NonNullable),
            Validity::NonNullable,
        )?);
    }
    Ok((
        NumericLayout {
            wide,
            scale,
            scales_per_row,
            has_images: !builder.image_rows.is_empty(),
        },
        arrays,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_tells_strings_that_only_letters_make_small() {
        const PLAN: Plan = Plan {
            effort: Effort::Default,
            repetitive: false,
        };
        let is_sure = |row_count: u64, string: &dyn Fn(u64) -> String| {
            let mut column = ColumnBuilder::new(ColumnType::Text);
            (0..row_count).for_each(|row| column.push_text(&string(row)));
            let alphabet = strings_of(&column).and_then(Alphabet::of).expect("letters");
            is_surely_least(column.len() * alphabet.row_bytes(), &column, PLAN).expect("encodes")
        };
        let noise = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17);
        let noise = |row: u64| noise(noise(row) ^ row);
        assert!(is_sure(20_000, &|row| format!("{:016x}", noise(row))));
        assert!(
            !is_sure(9_000, &|row| format!("{:016x}", noise(row))),
            "few rows"
        );
        let with_words = |row| format!("https://example.org/{:08}", noise(row) % 100_000_000);
        assert!(!is_sure(20_000, &with_words));
    }
}
