//! Every way of reading a column, compared with decoding it as a whole. Whatever the bytes are, a
//! way gives the same answer or an error, but for what the format cannot tell, see [`Untold`].

use std::fmt::Debug;

use howdah_columnar::{
    Chunk, ChunkBuffer, Column, ColumnType, CompareOp, Condition, EncodedView, GroupLayout,
    MOST_SCATTERED, OwnedValue, PackedNumbers, PackedView, Predicate, RowAccess, RowState,
    TextPattern, Value,
};

use super::{Random, expected_around, same};

const OPERATORS: [CompareOp; 6] = [
    CompareOp::Eq,
    CompareOp::Ne,
    CompareOp::Lt,
    CompareOp::Le,
    CompareOp::Gt,
    CompareOp::Ge,
];

/// Rows that are read one by one of those that were decoded.
const SINGLE_ROWS: usize = 200;

/// What is wrong: a way of reading, and where it differs.
type Checked = Result<(), String>;

/// What damaged bytes can say in two ways, of which only one is looked at.
#[derive(Clone, Copy)]
struct Untold {
    /// The lengths of coded strings: once with the codes, which single and selected rows are read
    /// by, and once decoded.
    lengths: bool,
    /// Values that have several codes: encoders write one of them, which `=` looks for.
    equal_codes: bool,
}

impl Untold {
    fn of(encoding: &str) -> Self {
        let has = |name| encoding.contains(name);
        Self {
            lengths: has("fsst") || has("onpair"),
            equal_codes: has("fsst") || has("onpair") || has("alp"),
        }
    }

    /// Whether the answer for a value cannot be relied upon. Footers say whether there are any NaN
    /// and -0.0, whose order is then left to their bits.
    fn is_of(self, predicate: &Predicate, value: Option<Value<'_>>) -> bool {
        let is_equality = match predicate {
            Predicate::Compare { op, .. } => matches!(op, CompareOp::Eq | CompareOp::Ne),
            Predicate::In(_) => true,
            _ => false,
        };
        let is_unordered = match value {
            Some(Value::Float32(value)) => value.is_nan() || value.to_bits() == 1 << 31,
            Some(Value::Float64(value)) => value.is_nan() || value.to_bits() == 1 << 63,
            _ => false,
        };
        let is_null_test = matches!(predicate, Predicate::IsNull | Predicate::IsNotNull);
        self.equal_codes && is_equality || is_unordered && !is_null_test
    }
}

/// Reads a column of a stored row group, of which any byte may be damaged, in every way. Whether
/// it can be decoded as a whole; then each way must agree with that, or fail.
pub fn check(stored: &[u8], column: usize, random: &mut Random) -> Result<bool, String> {
    let Ok(layout) = GroupLayout::read(stored) else {
        return Ok(false);
    };
    if column >= layout.column_count() {
        return Ok(false);
    }
    let _ = layout.statistics(column, stored);
    let access = layout.row_access(column, stored);
    let meta = layout.column(column, stored);
    let untold = Untold::of(meta.as_ref().map_or("", |meta| meta.encoding.as_str()));
    let chunk = open(&layout, stored, column);
    let decoded = chunk.as_ref().and_then(|chunk| chunk.decode().ok());
    if let Some(decoded) = &decoded
        && decoded.len() != layout.row_count()
    {
        return Err(format!("decodes {} rows", decoded.len()));
    }
    let decoded = decoded.as_ref();
    if let Ok(access) = access {
        let known = decoded.filter(|_| !untold.lengths);
        single_rows(&access, stored, layout.row_count(), known, random)?;
    }
    if let Some(chunk) = &chunk {
        let known = decoded.filter(|_| !untold.lengths);
        parts(chunk, known, random)?;
        filters(chunk, decoded, untold, random)?;
        view(chunk, decoded)?;
        if let Some(packed) = chunk.packed() {
            packed_numbers(packed, decoded, random)?;
        }
        neighbour(&layout, stored, column, chunk)?;
    }
    Ok(decoded.is_some())
}

fn open(layout: &GroupLayout, stored: &[u8], column: usize) -> Option<Chunk> {
    let meta = layout.column(column, stored).ok()?;
    let range = meta.byte_range.start as usize..meta.byte_range.end as usize;
    let bytes = stored.get(range)?;
    Chunk::open(&meta, layout.row_count(), ChunkBuffer::from(bytes)).ok()
}

/// One value of a column that was decoded; nothing is known of others.
fn agrees(
    decoded: Option<&Column>,
    row: usize,
    value: Option<Value<'_>>,
    way: impl Debug,
) -> Checked {
    let Some(decoded) = decoded else {
        return Ok(());
    };
    let expected = decoded.value(row);
    match same(value, expected) {
        true => Ok(()),
        false => Err(format!("{way:?}: row {row} is {value:?}, not {expected:?}")),
    }
}

/// Two columns of the same rows; the second one decoded in another way.
fn agree(
    decoded: Option<&Column>,
    rows: impl ExactSizeIterator<Item = usize>,
    found: &Column,
    way: impl Debug,
) -> Checked {
    if found.len() != rows.len() {
        return Err(format!("{way:?}: {} rows of {}", found.len(), rows.len()));
    }
    for (at, row) in rows.enumerate() {
        agrees(decoded, row, found.value(at), &way)?;
    }
    Ok(())
}

fn single_rows(
    access: &RowAccess,
    stored: &[u8],
    row_count: usize,
    decoded: Option<&Column>,
    random: &mut Random,
) -> Checked {
    let first = random.below(row_count as u64) as usize;
    let near = first..row_count.min(first + SINGLE_ROWS / 4);
    let far = (0..SINGLE_ROWS / 4).map(|_| random.below(row_count as u64) as usize);
    let far: Vec<usize> = far.collect();
    let (mut state, mut among) = (RowState::default(), RowState::default());
    let mut ranges = Vec::new();
    for row in far.into_iter().chain(near.clone()) {
        let at = row as u32;
        access.ranges(at, &mut ranges);
        access.likely_ranges(at, &mut ranges);
        ranges.clear();
        if let Ok(value) = access.value(at, stored, &mut state) {
            agrees(decoded, row, value, "value")?;
        }
        if access.locate(at, stored, &mut state, &mut ranges).is_ok()
            && let Ok(value) = access.value(at, stored, &mut state)
        {
            agrees(decoded, row, value, "a located value")?;
        }
        if let Ok(whole) = access.stored(at, stored, &mut state)
            && let Ok(value) = access.of_stored(whole)
        {
            agrees(decoded, row, value, "of_stored")?;
        }
    }
    // Forth and back: rows that are read along with others.
    for row in near.clone().chain(near.clone().rev()) {
        let at = row as u32;
        if let Some(value) = access.kept(at, &mut among) {
            agrees(decoded, row, value, "kept")?;
        } else if let Ok(value) = access.value_among(at, stored, &mut among) {
            agrees(decoded, row, value, "value_among")?;
        }
    }
    for _ in 0..SINGLE_ROWS {
        let row = match random.below(4) {
            0 => random.below(row_count as u64) as usize,
            _ => near.start + random.below(near.len() as u64) as usize,
        };
        let expected = expected_around(row as u32, random);
        let whole = access.stored_among(row as u32, &expected, stored, &mut among);
        if let Ok(whole) = whole
            && let Ok(value) = access.of_stored(whole)
        {
            agrees(decoded, row, value, "stored_among")?;
        }
    }
    for _ in 0..8 {
        let count = 1 + random.below(MOST_SCATTERED as u64);
        let some: Vec<u32> = (0..count)
            .map(|_| random.below(row_count as u64) as u32)
            .collect();
        access.read_scattered(&some, stored, &mut among);
        for &row in &some {
            if let Some(value) = access.kept(row, &mut among) {
                agrees(decoded, row as usize, value, "read_scattered")?;
            }
            // Of columns that lie side by side, what is stored is kept.
            if access.holds_scattered(row, &among)
                && let Ok(value) = access.value(row, stored, &mut among)
            {
                agrees(decoded, row as usize, value, "value of scattered rows")?;
            }
        }
    }
    match access.value(u32::MAX, stored, &mut state) {
        Ok(_) => Err("a row that does not exist has a value".to_owned()),
        Err(_) => Ok(()),
    }
}

/// Ranges and selections.
fn parts(chunk: &Chunk, decoded: Option<&Column>, random: &mut Random) -> Checked {
    let row_count = chunk.row_count() as u64;
    for _ in 0..3 {
        let start = random.below(row_count) as usize;
        let end = start + random.below(row_count - start as u64 + 1) as usize;
        if let Ok(part) = chunk.decode_range(start..end) {
            agree(decoded, start..end, &part, "decode_range")?;
        }
    }
    for step in [1, 3, 40, 400] {
        let mut rows = Vec::new();
        let mut row = random.below(step);
        while row < row_count {
            rows.push(row as u32);
            row += 1 + random.below(step);
        }
        if let Ok(some) = chunk.decode_selection(&rows) {
            let rows = rows.iter().map(|&row| row as usize);
            agree(decoded, rows, &some, "decode_selection")?;
        }
    }
    Ok(())
}

/// A value that the column has, if any.
fn some_value(decoded: &Column, random: &mut Random) -> Option<OwnedValue> {
    let row = random.below(decoded.len() as u64) as usize;
    let mut rows = (row..decoded.len()).chain(0..row);
    rows.find_map(|row| decoded.value(row)).map(Into::into)
}

fn pattern(text: &str, random: &mut Random) -> TextPattern {
    let bytes = text.as_bytes();
    let start = random.below(bytes.len() as u64 + 1) as usize;
    let end = bytes.len().min(start + 3);
    let mut pattern = TextPattern::default();
    match random.below(3) {
        0 => pattern.prefix = bytes[..end].to_vec(),
        1 => pattern.suffix = bytes[start..].to_vec(),
        _ => pattern.infixes = vec![bytes[start..end].to_vec()],
    }
    pattern
}

fn predicates(decoded: &Column, random: &mut Random) -> Vec<Predicate> {
    let mut predicates = vec![Predicate::IsNull, Predicate::IsNotNull];
    let values = |random: &mut Random, count| -> Vec<OwnedValue> {
        (0..count)
            .filter_map(|_| some_value(decoded, random))
            .collect()
    };
    for value in values(random, 2) {
        for op in OPERATORS {
            let value = value.clone();
            predicates.push(Predicate::Compare { op, value });
        }
    }
    predicates.push(Predicate::In(values(random, 2)));
    predicates.push(Predicate::In(values(random, 9)));
    if let Some(OwnedValue::Text(text)) = values(random, 1).pop() {
        let pattern = pattern(&text, random);
        predicates.push(Predicate::NotLike(pattern.clone()));
        predicates.push(Predicate::Like(pattern));
    }
    predicates
}

fn filters(
    chunk: &Chunk,
    decoded: Option<&Column>,
    untold: Untold,
    random: &mut Random,
) -> Checked {
    let all = 0..chunk.row_count();
    let Some(decoded) = decoded else {
        let _ = chunk.filter(&Predicate::IsNull, all.clone());
        let _ = chunk.filter(&Predicate::IsNotNull, all);
        return Ok(());
    };
    let predicates = predicates(decoded, random);
    let start = random.below(all.len() as u64) as usize;
    for predicate in &predicates {
        for rows in [all.clone(), start..all.end] {
            let Ok(found) = chunk.filter(predicate, rows.clone()) else {
                continue;
            };
            for row in rows.clone() {
                let value = decoded.value(row);
                let (expected, found) = (predicate.matches(value), found.value(row - rows.start));
                if untold.is_of(predicate, value) {
                    continue;
                }
                if expected.is_some_and(|expected| expected != found) {
                    let what = format!("{predicate:?} of row {row}, {value:?}");
                    return Err(format!("filter: {found} for {what}"));
                }
            }
        }
    }
    if untold.lengths {
        return Ok(());
    }
    let one = |random: &mut Random| {
        let at = random.below(predicates.len() as u64) as usize;
        Condition::Is(predicates[at].clone())
    };
    for (nth, selecting) in predicates.iter().enumerate() {
        let Ok(selected) = chunk.filter(selecting, all.clone()) else {
            continue;
        };
        let both = vec![one(random), one(random)];
        let condition = match nth % 2 {
            0 => Condition::All(both),
            _ => Condition::Any(both),
        };
        let Ok(found) = chunk.filter_selected(&condition, all.clone(), &selected) else {
            continue;
        };
        for row in all.clone() {
            let value = decoded.value(row);
            let (Condition::All(leaves) | Condition::Any(leaves)) = &condition else {
                continue;
            };
            let is_untold = |leaf: &Condition| matches!(leaf, Condition::Is(predicate) if untold.is_of(predicate, value));
            if leaves.iter().any(is_untold) {
                continue;
            }
            let matches = condition.matches(value);
            let expected = matches.map(|matches| matches && selected.value(row));
            if expected.is_some_and(|expected| expected != found.value(row)) {
                return Err(format!("filter_selected: {condition:?} of row {row}"));
            }
        }
    }
    Ok(())
}

/// The value of an integer column.
fn integer(ty: ColumnType, value: i64) -> Value<'static> {
    match ty {
        ColumnType::Int16 => Value::Int16(value as i16),
        ColumnType::Int32 => Value::Int32(value as i32),
        _ => Value::Int64(value),
    }
}

fn view(chunk: &Chunk, decoded: Option<&Column>) -> Checked {
    let Ok(view) = chunk.view() else {
        return Ok(());
    };
    let (ty, rows) = (chunk.column_type(), 0..chunk.row_count());
    let way = "view";
    match view {
        EncodedView::Constant(one) => rows
            .into_iter()
            .try_for_each(|row| agrees(decoded, row, one.value(0), way)),
        EncodedView::Sequence { base, step } => rows.into_iter().try_for_each(|row| {
            let value = base.wrapping_add(step.wrapping_mul(row as i64));
            agrees(decoded, row, Some(integer(ty, value)), way)
        }),
        EncodedView::Runs { ends, values } => {
            let mut run = 0;
            for row in rows {
                while ends.get(run).is_some_and(|&end| end as usize <= row) {
                    run += 1;
                }
                agrees(decoded, row, values.value(run), way)?;
            }
            Ok(())
        }
        EncodedView::Dict {
            codes,
            nulls,
            words,
        } => rows.into_iter().try_for_each(|row| {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let value = (!is_null).then(|| words.value(codes.get(row))).flatten();
            agrees(decoded, row, value, way)
        }),
        EncodedView::Packed(packed) => {
            let mut block = [0; PackedView::BLOCK_ROWS];
            for first in rows.step_by(PackedView::BLOCK_ROWS) {
                let Ok(count) = packed.unpack(first / PackedView::BLOCK_ROWS, &mut block) else {
                    continue;
                };
                for (at, &value) in block[..count].iter().enumerate() {
                    agrees(decoded, first + at, Some(integer(ty, value)), way)?;
                }
            }
            Ok(())
        }
        EncodedView::Plain(column) => agree(decoded, rows, &column, way),
    }
}

fn packed_numbers(
    packed: &PackedNumbers,
    decoded: Option<&Column>,
    random: &mut Random,
) -> Checked {
    let Some(decoded) = decoded else {
        return Ok(());
    };
    let start = random.below(decoded.len() as u64) as usize;
    let rows = start..decoded.len();
    let mut codes = Vec::new();
    if packed.append_codes(rows.clone(), &mut codes).is_err() {
        return Ok(());
    }
    if let Some(&code) = codes.iter().find(|&&code| code >> packed.bits() != 0) {
        return Err(format!("code {code} has more than {} bits", packed.bits()));
    }
    if let (Some(base), true) = (packed.integer_base(), packed.has_only_codes()) {
        for (row, &code) in rows.clone().zip(&codes) {
            let value = integer(packed.column_type(), base + i64::from(code));
            agrees(Some(decoded), row, Some(value), "a code")?;
        }
    }
    for predicate in predicates(decoded, random) {
        let Some(range) = packed.code_range(&predicate) else {
            continue;
        };
        for known in [None, Some(codes.as_slice())] {
            let ranges = [(&predicate, range)];
            let Ok(found) = packed.matching(&ranges, rows.clone(), None, known) else {
                continue;
            };
            for row in rows.clone() {
                let value = decoded.value(row);
                if predicate.matches(value) != Some(found.value(row - start)) {
                    return Err(format!("matching: {predicate:?} of row {row}, {value:?}"));
                }
            }
            if let Ok(some) = packed.decode_selected(rows.clone(), &found, known) {
                let rows: Vec<usize> = found.set_indices().map(|at| start + at).collect();
                agree(Some(decoded), rows.into_iter(), &some, "decode_selected")?;
            }
        }
    }
    if packed.bits() <= 16 {
        let mut counts = vec![0; 1 << packed.bits()];
        if matches!(packed.count_codes(rows, &mut counts), Ok(true)) {
            for code in codes {
                counts[code as usize] -= 1;
            }
            if counts.iter().any(|&count| count != 0) {
                return Err("count_codes counts other codes".to_owned());
            }
        }
    }
    Ok(())
}

/// Columns that lie beside this one are the same whether they are opened by themselves or with it.
fn neighbour(layout: &GroupLayout, stored: &[u8], column: usize, chunk: &Chunk) -> Checked {
    if layout.first_of_group(column).is_none() {
        return Ok(());
    }
    for other in 0..layout.column_count() {
        let Ok(meta) = layout.column(other, stored) else {
            continue;
        };
        let together = chunk.of_other_column(&meta).map(|other| other.decode());
        let alone = open(layout, stored, other).map(|other| other.decode());
        if let (Some(Ok(together)), Some(Ok(alone))) = (together, alone) {
            agree(Some(&alone), 0..alone.len(), &together, "of_other_column")?;
        }
    }
    Ok(())
}
