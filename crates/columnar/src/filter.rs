//! Evaluates a predicate on the rows of a chunk, on encoded data where that gives PostgreSQL's
//! answer.
//!
//! ```text
//!   predicate ─▶ rewrite into the chunk's own terms ─▶ Nothing / NotNull: validity only
//!                        │                           ─▶ Compare: Vortex's kernels, which
//!                        │                              run on encoded arrays
//!                        └─ no exact rewrite ────────▶ decode, then evaluate row by row
//! ```
//!
//! Vortex orders floats by their bits, PostgreSQL does not: chunks with a NaN or a -0.0,
//! which the footer knows, are compared after decoding where that matters. Floats that are stored
//! as decimals are compared as integers (`decimal_floats`), and so are decimals of one scale.

use std::ops::Range;

use arrow_array::Array;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use vortex_array::arrays::dict::DictArraySlotsExt;
use vortex_array::arrays::varbinview::BinaryView;
use vortex_array::arrays::{ConstantArray, Dict, VarBinViewArray};
use vortex_array::builtins::ArrayBuiltins;
use vortex_array::scalar_fn::fns::operators::Operator;
use vortex_array::{ArrayRef, IntoArray};

use crate::buffers::{bools, indexes, nulls_of};
use crate::chunk::Chunk;
use crate::codec;
use crate::column::Column;
use crate::decimal_floats::{Exact, exact};
use crate::error::ColumnarError;
use crate::numeric::NumericColumn;
use crate::parts::{Form, slice};
use crate::pattern::{TextPattern, having_infix};
use crate::predicate::{CompareOp, Predicate};
use crate::rewrite::{Rewritten, rewrite};
use crate::sieve::{Sieve, hash_of_bytes, hash_of_integer};
use crate::types::ColumnType;
use crate::value::{Numeric, OwnedValue, Value, as_integer, compare_decimals, compare_floats};

/// The longest list that is evaluated as one comparison per value.
const SHORT_LIST: usize = 4;

/// See [`Chunk::filter`], which checked the range.
pub(crate) fn filter(
    chunk: &Chunk,
    predicate: &Predicate,
    rows: Range<usize>,
) -> Result<BooleanBuffer, ColumnarError> {
    if predicate.names_image() {
        return Err(ColumnarError::NotComparable);
    }
    if let Some(packed) = chunk.packed()
        && let Some(range) = packed.code_range(predicate)
    {
        return packed.matching(&[(predicate, range)], rows, None, None);
    }
    let array = match chunk.form() {
        Form::AllNull => {
            let is_null = matches!(predicate, Predicate::IsNull);
            return Ok(all(is_null, rows.len()));
        }
        Form::Array(array) => slice(array, &rows)?,
        Form::Numeric(parts) => slice(&parts.low, &rows)?,
        Form::Frames(frames) => {
            return match predicate {
                Predicate::IsNotNull => frames.valid_rows(rows),
                Predicate::IsNull => frames.valid_rows(rows).map(|valid| !&valid),
                _ => on_decoded(chunk, predicate, rows),
            };
        }
        Form::Letters(letters) => {
            return match predicate {
                Predicate::IsNotNull => letters.valid_rows(rows),
                Predicate::IsNull => letters.valid_rows(rows).map(|valid| !&valid),
                Predicate::Compare {
                    op: CompareOp::Eq,
                    value,
                } if let Some(string) = string_of(chunk, value) => letters.equal(rows, string),
                _ => on_decoded(chunk, predicate, rows),
            };
        }
        Form::Grouped(_) => return on_decoded(chunk, predicate, rows),
    };
    match predicate {
        Predicate::IsNotNull => valid_rows(&array),
        Predicate::IsNull => valid_rows(&array).map(|valid| !&valid),
        Predicate::Compare { op, value } => match rewrite(chunk, *op, value.as_value())? {
            Rewritten::Decode => on_decoded(chunk, predicate, rows),
            Rewritten::Compare(op, constant) if is_float(chunk) => {
                let Form::Array(whole) = chunk.form() else {
                    return on_decoded(chunk, predicate, rows);
                };
                match exact(whole, op, constant) {
                    Exact::Integers(integers, rewritten) => {
                        on_encoded(&slice(&integers, &rows)?, rewritten)
                    }
                    Exact::Floats(rewritten) => on_encoded(&array, rewritten),
                    Exact::Decode => on_decoded(chunk, predicate, rows),
                }
            }
            rewritten => on_encoded(&array, rewritten),
        },
        Predicate::In(values) => in_list(chunk, array, values, predicate, rows),
        Predicate::Like(pattern) | Predicate::NotLike(pattern) => match array.as_opt::<Dict>() {
            Some(dictionary) => {
                let (codes, words) = (dictionary.codes().clone(), dictionary.values().clone());
                on_dictionary(chunk, &codes, words, predicate)
            }
            None if chunk.column_type() == ColumnType::Text => {
                let negated = matches!(predicate, Predicate::NotLike(_));
                like(array, pattern, negated)
            }
            None => on_decoded(chunk, predicate, rows),
        },
    }
}

fn is_float(chunk: &Chunk) -> bool {
    matches!(
        chunk.column_type(),
        ColumnType::Float32 | ColumnType::Float64
    )
}

/// A value that is a string of the chunk's type.
fn string_of<'v>(chunk: &Chunk, value: &'v OwnedValue) -> Option<&'v [u8]> {
    match (chunk.column_type(), value.as_value()) {
        (ColumnType::Text, Value::Text(text)) => Some(text.as_bytes()),
        (ColumnType::Bytes | ColumnType::Fixed { .. }, Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

fn all(value: bool, row_count: usize) -> BooleanBuffer {
    match value {
        true => BooleanBuffer::new_set(row_count),
        false => BooleanBuffer::new_unset(row_count),
    }
}

fn valid_rows(array: &ArrayRef) -> Result<BooleanBuffer, ColumnarError> {
    let nulls = codec::guarded(|| nulls_of(array.validity()?, array.len(), &mut codec::context()))?;
    Ok(nulls.map_or_else(|| all(true, array.len()), |nulls| nulls.into_inner()))
}

fn on_encoded(array: &ArrayRef, rewritten: Rewritten) -> Result<BooleanBuffer, ColumnarError> {
    let (op, scalar) = match rewritten {
        Rewritten::Nothing => return Ok(all(false, array.len())),
        Rewritten::NotNull => return valid_rows(array),
        Rewritten::Compare(op, scalar) => (operator(op), scalar),
        Rewritten::Decode => unreachable!("the caller decodes"),
    };
    if array.is_empty() {
        return Ok(all(false, 0));
    }
    let (bits, nulls) = codec::guarded(|| {
        let constant = ConstantArray::new(scalar, array.len()).into_array();
        bools(array.binary(constant, op)?, &mut codec::context())
    })?;
    Ok(without_nulls(bits, nulls.as_ref()))
}

fn without_nulls(bits: BooleanBuffer, nulls: Option<&NullBuffer>) -> BooleanBuffer {
    match nulls {
        None => bits,
        Some(nulls) => &bits & nulls.inner(),
    }
}

fn operator(op: CompareOp) -> Operator {
    match op {
        CompareOp::Eq => Operator::Eq,
        CompareOp::Ne => Operator::NotEq,
        CompareOp::Lt => Operator::Lt,
        CompareOp::Le => Operator::Lte,
        CompareOp::Gt => Operator::Gt,
        CompareOp::Ge => Operator::Gte,
    }
}

fn in_list(
    chunk: &Chunk,
    array: ArrayRef,
    values: &[OwnedValue],
    predicate: &Predicate,
    rows: Range<usize>,
) -> Result<BooleanBuffer, ColumnarError> {
    let is_dictionary = array.as_opt::<Dict>().is_some();
    let mut comparisons = Vec::with_capacity(values.len());
    for value in values {
        if comparisons.len() > SHORT_LIST && !is_dictionary {
            return on_decoded(chunk, predicate, rows);
        }
        match rewrite(chunk, CompareOp::Eq, value.as_value())? {
            Rewritten::Nothing => {}
            Rewritten::Decode => return on_decoded(chunk, predicate, rows),
            rewritten => comparisons.push(rewritten),
        }
    }
    if let Some(dictionary) = array.as_opt::<Dict>() {
        let (codes, words) = (dictionary.codes().clone(), dictionary.values().clone());
        if !matches!(chunk.form(), Form::Numeric(_)) {
            return on_dictionary(chunk, &codes, words, predicate);
        }
    }
    if comparisons.len() > SHORT_LIST {
        return on_decoded(chunk, predicate, rows);
    }
    comparisons
        .into_iter()
        .try_fold(all(false, array.len()), |found, comparison| {
            Ok(&found | &on_encoded(&array, comparison)?)
        })
}

/// Evaluates the predicate on each word of a dictionary once, then looks the results up by code.
fn on_dictionary(
    chunk: &Chunk,
    codes: &ArrayRef,
    words: ArrayRef,
    predicate: &Predicate,
) -> Result<BooleanBuffer, ColumnarError> {
    let answers = chunk.word_answers().of(&words, predicate, || {
        let words = Column::from_array(chunk.column_type(), words.clone())?;
        let in_list = match predicate {
            Predicate::In(values) => in_many(&words, values),
            _ => None,
        };
        let answers = in_list.or_else(|| row_by_row(&words, predicate));
        answers.ok_or(ColumnarError::TypeMismatch {
            ty: chunk.column_type(),
        })
    })?;
    let (codes, nulls) = codec::guarded(|| indexes(codes.clone(), &mut codec::context()))?;
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let is_beyond = |row: usize| codes[row] as usize >= answers.len() && is_valid(row);
    let largest = codes.iter().fold(0, |most, &code| most.max(code));
    // A null may have any code.
    if largest as usize >= answers.len() && (0..codes.len()).any(is_beyond) {
        return Err(ColumnarError::corrupt("dictionary code out of range"));
    }
    let bits = BooleanBuffer::collect_bool(codes.len(), |row| {
        let code = codes[row] as usize;
        code < answers.len() && answers.value(code)
    });
    Ok(without_nulls(bits, nulls.as_ref()))
}

/// Which texts match a pattern, or do not. This needs their bytes only: they need not be valid
/// text.
fn like(
    array: ArrayRef,
    pattern: &TextPattern,
    negated: bool,
) -> Result<BooleanBuffer, ColumnarError> {
    let row_count = array.len();
    codec::guarded(|| {
        let mut ctx = codec::context();
        let texts = array.execute::<VarBinViewArray>(&mut ctx)?;
        let nulls = nulls_of(texts.validity()?, row_count, &mut ctx)?;
        let buffers: Vec<&[u8]> = (0..texts.data_buffers().len())
            .map(|at| texts.buffer(at).as_slice())
            .collect();
        let views = texts.views();
        let in_order = pattern.only_infix().and_then(|infix| {
            let texts = LongTexts::of(views, &buffers)?;
            let mut found = BooleanBufferBuilder::new(row_count);
            found.append_n(row_count, false);
            having_infix(texts.buffer, &texts.places, infix, |at| {
                found.set_bit(texts.rows[at], true);
            });
            for (row, view) in views.iter().enumerate() {
                if view.is_inlined() && pattern.matches(view.as_inlined().value()) {
                    found.set_bit(row, true);
                }
            }
            Some(found.finish())
        });
        if let Some(found) = in_order {
            let found = if negated { !&found } else { found };
            return Ok(without_nulls(found, nulls.as_ref()));
        }
        let found = pattern.of_rows(row_count, |row| match views[row].is_inlined() {
            true => views[row].as_inlined().value(),
            false => {
                let place = views[row].as_view();
                &buffers[place.buffer_index as usize][place.as_range()]
            }
        });
        let found = if negated { !&found } else { found };
        Ok(without_nulls(found, nulls.as_ref()))
    })
}

/// The texts that are not inlined in their views.
struct LongTexts<'b> {
    buffer: &'b [u8],
    rows: Vec<usize>,
    /// Where each lies in the buffer.
    places: Vec<Range<usize>>,
}

impl<'b> LongTexts<'b> {
    /// `None` unless they lie one after the other in one buffer, as decoders leave them.
    fn of(views: &[BinaryView], buffers: &[&'b [u8]]) -> Option<Self> {
        let (mut index, mut end) = (None, 0);
        let mut rows = Vec::with_capacity(views.len());
        let mut places = Vec::with_capacity(views.len());
        for (row, view) in views.iter().enumerate() {
            if view.is_inlined() {
                continue;
            }
            let place = view.as_view();
            let range = place.as_range();
            let is_next = *index.get_or_insert(place.buffer_index) == place.buffer_index;
            if !is_next || range.start < end {
                return None;
            }
            end = range.end;
            rows.push(row);
            places.push(range);
        }
        let buffer: &[u8] = match index {
            Some(index) => buffers.get(index as usize)?,
            None => &[],
        };
        (end <= buffer.len()).then_some(Self {
            buffer,
            rows,
            places,
        })
    }
}

/// The plain form: decode, then ask row by row.
fn on_decoded(
    chunk: &Chunk,
    predicate: &Predicate,
    rows: Range<usize>,
) -> Result<BooleanBuffer, ColumnarError> {
    let column = chunk.decode_range(rows)?;
    match (predicate, &column) {
        (Predicate::In(values), _) => {
            if let Some(found) = in_many(&column, values) {
                return Ok(found);
            }
        }
        (Predicate::Like(pattern), Column::Text(texts)) => {
            let found = pattern.of_rows(texts.len(), |row| texts.value(row).as_bytes());
            return Ok(without_nulls(found, texts.nulls()));
        }
        _ => {}
    }
    row_by_row(&column, predicate).ok_or(match column {
        Column::Numeric(_) => ColumnarError::NotComparable,
        _ => ColumnarError::TypeMismatch {
            ty: chunk.column_type(),
        },
    })
}

/// `None` where a row cannot be compared.
fn row_by_row(column: &Column, predicate: &Predicate) -> Option<BooleanBuffer> {
    let mut undecided = false;
    let matches = BooleanBuffer::collect_bool(column.len(), |row| {
        predicate.matches(column.value(row)).unwrap_or_else(|| {
            undecided = true;
            false
        })
    });
    (!undecided).then_some(matches)
}

/// A list of many values, by a [`Sieve`] and binary search; `None` for other columns, and where a
/// value cannot be compared.
fn in_many(column: &Column, values: &[OwnedValue]) -> Option<BooleanBuffer> {
    let integers = || {
        let mut integers: Vec<i64> = values
            .iter()
            .filter_map(|value| as_integer(value.as_value()))
            .collect();
        integers.sort_unstable();
        let sieve = Sieve::of(integers.iter().map(|&value| hash_of_integer(value)));
        (integers, sieve)
    };
    let mut strings: Vec<&[u8]> = values
        .iter()
        .filter_map(|value| match value.as_value() {
            Value::Text(text) => Some(text.as_bytes()),
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        })
        .collect();
    strings.sort_unstable();
    let sieve = Sieve::of(strings.iter().map(|string| hash_of_bytes(string)));
    let holds = |string: &[u8]| sieve.may_hold(hash_of_bytes(string)) && find(&strings, string);
    let contains = |(integers, sieve): &(Vec<i64>, Sieve), value: i64| {
        sieve.may_hold(hash_of_integer(value)) && integers.binary_search(&value).is_ok()
    };
    let bits = match column {
        Column::Int16(rows) => {
            let list = integers();
            BooleanBuffer::collect_bool(rows.len(), |row| contains(&list, rows.value(row).into()))
        }
        Column::Int32(rows) => {
            let list = integers();
            BooleanBuffer::collect_bool(rows.len(), |row| contains(&list, rows.value(row).into()))
        }
        Column::Int64(rows) => {
            let list = integers();
            BooleanBuffer::collect_bool(rows.len(), |row| contains(&list, rows.value(row)))
        }
        Column::Float32(rows) => {
            let list = floats_of(values)?;
            BooleanBuffer::collect_bool(rows.len(), |row| {
                contains_float(&list, rows.value(row).into())
            })
        }
        Column::Float64(rows) => {
            let list = floats_of(values)?;
            BooleanBuffer::collect_bool(rows.len(), |row| contains_float(&list, rows.value(row)))
        }
        Column::Numeric(rows) => return in_decimals(rows, values),
        Column::Text(rows) => {
            BooleanBuffer::collect_bool(rows.len(), |row| holds(rows.value(row).as_bytes()))
        }
        Column::Bytes(rows) => {
            BooleanBuffer::collect_bool(rows.len(), |row| holds(rows.value(row)))
        }
        Column::Fixed(rows) => {
            BooleanBuffer::collect_bool(rows.len(), |row| holds(rows.value(row)))
        }
        _ => return None,
    };
    Some(without_nulls(bits, column.nulls()))
}

/// In their order; `None` if other values are among them.
fn floats_of(values: &[OwnedValue]) -> Option<Vec<f64>> {
    let float = |value: &OwnedValue| match value {
        OwnedValue::Float32(value) => Some(f64::from(*value)),
        OwnedValue::Float64(value) => Some(*value),
        _ => None,
    };
    let floats = values.iter().map(float);
    let mut floats = floats.collect::<Option<Vec<_>>>()?;
    floats.sort_unstable_by(|&a, &b| compare_floats(a, b));
    Some(floats)
}

fn contains_float(floats: &[f64], wanted: f64) -> bool {
    let found = floats.binary_search_by(|&float| compare_floats(float, wanted));
    found.is_ok()
}

/// `None` if a row or a value of the list is an image.
fn in_decimals(rows: &NumericColumn, values: &[OwnedValue]) -> Option<BooleanBuffer> {
    let decimal = |value: Value<'_>| match value {
        Value::Numeric(Numeric::Small { unscaled, scale }) => Some((unscaled, scale)),
        _ => None,
    };
    let order = |a: (i128, u16), b: (i128, u16)| compare_decimals(a.0, a.1, b.0, b.1);
    let list = values.iter().map(|value| decimal(value.as_value()));
    let mut list = list.collect::<Option<Vec<_>>>()?;
    list.sort_unstable_by(|&a, &b| order(a, b));
    let mut bits = BooleanBufferBuilder::new(rows.len());
    for row in 0..rows.len() {
        let Some(value) = rows.value(row) else {
            bits.append(false);
            continue;
        };
        let wanted = decimal(Value::Numeric(value))?;
        let found = list.binary_search_by(|&other| order(other, wanted));
        bits.append(found.is_ok());
    }
    Some(bits.finish())
}

fn find(strings: &[&[u8]], wanted: &[u8]) -> bool {
    strings.binary_search(&wanted).is_ok()
}
