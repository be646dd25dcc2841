//! Reads a morsel zone by zone: filters narrow a selection, and only selected rows of requested
//! columns are decoded.
//!
//! ```text
//!   Morsel ─open─▶ OpenMorsel ─▶ Zone: rows, selection ─filter─▶ Input of dense rows
//! ```

use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use howdah_columnar::{
    Chunk, Column, ColumnMeta, ColumnType, EncodedView, OwnedValue, PackedNumbers,
};

use super::words::{Computed, Dictionary};
use crate::error::VectorError;
use crate::expr::{Coded, Input, filter, take};
use crate::source::{Morsel, MorselColumn};

/// If fewer rows than one in this many are selected, only those are decoded.
const SPARSE: usize = 16;

/// A dictionary is opened as a whole for filters if at least one row in this many is read.
const MOST_OPENED: usize = 4;

/// A column of an open morsel.
pub(crate) enum OpenColumn {
    Chunk(Chunk, Arc<ColumnMeta>),
    Whole(Column),
    /// A column of one row, which stands for all.
    One(Column),
    Unread,
}

/// A morsel whose needed columns are open.
pub(crate) struct OpenMorsel {
    pub(crate) columns: Vec<OpenColumn>,
    /// Columns that were requested as codes.
    dictionaries: Vec<OnceCell<Option<Dictionary>>>,
    /// Results for their words.
    pub(super) computed: RefCell<Computed>,
    row_count: usize,
    hidden: Option<BooleanBuffer>,
    rows: Vec<Range<usize>>,
    pub(crate) filter_decided: bool,
    pub(crate) ordinal: u64,
}

impl OpenMorsel {
    /// Opens the columns that are needed.
    pub(crate) fn open(
        morsel: Morsel,
        types: &[ColumnType],
        needed: &[usize],
    ) -> Result<Self, VectorError> {
        let row_count = morsel.row_count;
        let fits = morsel.columns.len() == types.len()
            && morsel.rows.is_sorted_by(|a, b| a.end <= b.start)
            && morsel
                .rows
                .iter()
                .all(|rows| rows.start <= rows.end && rows.end <= row_count)
            && morsel
                .hidden
                .as_ref()
                .is_none_or(|hidden| hidden.len() == row_count);
        if !fits {
            return Err(MISFIT);
        }
        let mut columns = Vec::with_capacity(types.len());
        for (at, column) in morsel.columns.into_iter().enumerate() {
            columns.push(match column {
                _ if !needed.contains(&at) => OpenColumn::Unread,
                MorselColumn::Unread => OpenColumn::Unread,
                MorselColumn::Encoded { meta, bytes } => {
                    let chunk = Chunk::open(&meta, row_count, bytes)?;
                    if chunk.column_type() != types[at] {
                        return Err(MISFIT);
                    }
                    OpenColumn::Chunk(chunk, meta)
                }
                MorselColumn::Decoded(column) => {
                    if column.len() != row_count || column.column_type() != types[at] {
                        return Err(MISFIT);
                    }
                    OpenColumn::Whole(column)
                }
                MorselColumn::Constant(ty, value) => {
                    if ty != types[at] {
                        return Err(MISFIT);
                    }
                    OpenColumn::One(Column::repeat(
                        ty,
                        value.as_ref().map(OwnedValue::as_value),
                        1,
                    )?)
                }
            });
        }
        Ok(Self {
            dictionaries: columns.iter().map(|_| OnceCell::new()).collect(),
            computed: RefCell::default(),
            row_count,
            columns,
            hidden: morsel.hidden,
            rows: morsel.rows,
            filter_decided: morsel.filter_decided,
            ordinal: morsel.ordinal,
        })
    }

    /// A column as codes of words, if it is stored so and words are few.
    pub(crate) fn dictionary(&self, index: usize) -> Option<&Dictionary> {
        let dictionary =
            self.dictionaries
                .get(index)?
                .get_or_init(|| match self.columns.get(index)? {
                    OpenColumn::Chunk(chunk, meta) => Dictionary::of_chunk(chunk, meta),
                    OpenColumn::One(value) => Some(Dictionary::of_one(value.clone())),
                    OpenColumn::Whole(_) | OpenColumn::Unread => None,
                });
        dictionary.as_ref()
    }

    /// The same, unless reading the codes of all rows costs more than evaluating the few rows that
    /// are read.
    pub(super) fn dictionary_for_filter(&self, index: usize) -> Option<&Dictionary> {
        let is_open = self.dictionaries.get(index)?.get().is_some();
        let rows: usize = self.rows.iter().map(Range::len).sum();
        match is_open || rows * MOST_OPENED >= self.row_count {
            true => self.dictionary(index),
            false => None,
        }
    }

    /// Its rows, read or not.
    pub(crate) fn row_count(&self) -> usize {
        self.row_count
    }

    /// The rows to read, cut at the bounds of zones.
    pub(crate) fn zones(&self) -> impl Iterator<Item = Range<usize>> {
        self.rows.iter().flat_map(super::by_zone)
    }

    /// The rows of a zone that exist.
    pub(crate) fn zone(&self, rows: Range<usize>) -> Zone<'_> {
        let selected = self.hidden.as_ref().map(|hidden| {
            let hidden = hidden.slice(rows.start, rows.len());
            Selected::new(!&hidden)
        });
        let columns = vec![None; self.columns.len()];
        Zone {
            morsel: self,
            rows,
            selected: selected.filter(|selected| !selected.is_all()),
            whole: RefCell::new(columns.clone()),
            columns: RefCell::new(columns),
            codes: RefCell::default(),
        }
    }
}

pub(super) const UNREAD: VectorError = VectorError::Unsupported {
    what: "a column that was not delivered",
};
const MISFIT: VectorError = VectorError::Unsupported {
    what: "a morsel that does not fit the query",
};

/// Some rows of a zone.
pub(crate) struct Selected {
    bits: BooleanBuffer,
    count: usize,
}

impl Selected {
    fn new(bits: BooleanBuffer) -> Self {
        let count = bits.count_set_bits();
        Self { bits, count }
    }

    fn is_all(&self) -> bool {
        self.count == self.bits.len()
    }
}

/// Rows of a zone. As an [`Input`], its rows are the selected ones.
pub(crate) struct Zone<'a> {
    morsel: &'a OpenMorsel,
    rows: Range<usize>,
    /// `None` when all are.
    selected: Option<Selected>,
    /// Selected rows that are decoded.
    columns: RefCell<Vec<Option<Column>>>,
    /// Columns of which all rows are decoded, selected or not.
    whole: RefCell<Vec<Option<Column>>>,
    /// Codes of packed columns that were unpacked: of all rows, selected or not.
    codes: RefCell<Vec<(usize, Rc<Vec<u32>>)>>,
}

impl Zone<'_> {
    pub(crate) fn morsel(&self) -> &OpenMorsel {
        self.morsel
    }

    /// The rows of the zone, selected or not.
    pub(crate) fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Which rows of the zone are selected; `None` when all are.
    pub(crate) fn selection(&self) -> Option<&BooleanBuffer> {
        self.selected.as_ref().map(|selected| &selected.bits)
    }

    /// Whether so many rows are selected that all are decoded.
    pub(crate) fn is_dense(&self) -> bool {
        self.row_count() * SPARSE >= self.rows.len()
    }

    /// The codes of all rows of a packed column, selected or not. They are kept.
    pub(super) fn codes(
        &self,
        index: usize,
        packed: &PackedNumbers,
    ) -> Result<Rc<Vec<u32>>, VectorError> {
        if let Some(codes) = self.known_codes(index) {
            return Ok(codes);
        }
        let mut codes = Vec::with_capacity(self.rows.len());
        packed.append_codes(self.rows.clone(), &mut codes)?;
        let codes = Rc::new(codes);
        self.codes.borrow_mut().push((index, Rc::clone(&codes)));
        Ok(codes)
    }

    fn known_codes(&self, index: usize) -> Option<Rc<Vec<u32>>> {
        let codes = self.codes.borrow();
        let known = codes.iter().find(|(column, _)| *column == index);
        known.map(|(_, codes)| Rc::clone(codes))
    }

    /// All rows of a column, selected or not.
    fn whole_column(&self, index: usize) -> Result<Column, VectorError> {
        if let Some(Some(column)) = self.whole.borrow().get(index) {
            return Ok(column.clone());
        }
        let column = match self.morsel.columns.get(index) {
            Some(OpenColumn::Chunk(chunk, _)) => chunk.decode_range(self.rows.clone())?,
            Some(OpenColumn::Whole(column)) => slice(column, self.rows.clone())?,
            Some(OpenColumn::One(column)) => take(column, &vec![0; self.rows.len()])?,
            Some(OpenColumn::Unread) | None => return Err(UNREAD),
        };
        self.whole.borrow_mut()[index] = Some(column.clone());
        Ok(column)
    }

    /// Replaces the selection by some of its rows.
    pub(crate) fn select(&mut self, bits: BooleanBuffer) -> Result<(), VectorError> {
        let selected = Selected::new(bits);
        if selected.count == self.row_count() {
            return Ok(());
        }
        if self.columns.borrow().iter().any(Option::is_some) {
            // Of the rows selected so far, those that stay.
            let stay = match &self.selected {
                None => selected.bits.clone(),
                Some(before) => gather_bits(&selected.bits, &before.bits),
            };
            self.keep(&stay)?;
        }
        self.selected = Some(selected);
        Ok(())
    }

    /// Narrows the selection to those of its rows of which `dense` has the bit set.
    pub(crate) fn narrow(&mut self, dense: BooleanBuffer) -> Result<(), VectorError> {
        let count = dense.count_set_bits();
        if count == self.row_count() {
            return Ok(());
        }
        self.keep(&dense)?;
        let bits = match &self.selected {
            None => dense,
            Some(before) => spread_bits(&dense, &before.bits),
        };
        self.selected = Some(Selected { bits, count });
        Ok(())
    }

    /// Keeps some of the decoded rows.
    fn keep(&mut self, stay: &BooleanBuffer) -> Result<(), VectorError> {
        for column in self.columns.get_mut().iter_mut().flatten() {
            *column = filter(column, stay)?;
        }
        Ok(())
    }

    /// Which selected rows of a column are not null; `None` when all are, which may need no
    /// decoding.
    pub(crate) fn validity(&self, index: usize) -> Result<Option<NullBuffer>, VectorError> {
        match self.morsel.columns.get(index) {
            // A column that is only counted is not delivered where it has no nulls.
            Some(OpenColumn::Unread) => Ok(None),
            Some(OpenColumn::Chunk(_, meta)) if meta.stats.null_count == 0 => Ok(None),
            _ => Ok(self.column(index)?.nulls().cloned()),
        }
    }

    /// Whether [`validity`](Self::validity) is known to be `None` without decoding.
    pub(crate) fn has_no_nulls(&self, index: usize) -> bool {
        match self.morsel.columns.get(index) {
            Some(OpenColumn::Unread) => true,
            _ => !self.may_have_nulls(index),
        }
    }

    /// A column of integers that rise or fall evenly, none of which is NULL; `None` if it is not
    /// stored so.
    pub(crate) fn rise(&self, index: usize) -> Result<Option<Rise>, VectorError> {
        let Some(OpenColumn::Chunk(chunk, meta)) = self.morsel.columns.get(index) else {
            return Ok(None);
        };
        if meta.encoding != "sequence" || meta.stats.null_count > 0 {
            return Ok(None);
        }
        let EncodedView::Sequence { base, step } = chunk.view()? else {
            return Ok(None);
        };
        let (least, greatest) = match meta.ty {
            ColumnType::Int16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            ColumnType::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            ColumnType::Int64 => (i64::MIN, i64::MAX),
            _ => return Ok(None),
        };
        let last_row = self.morsel.row_count.saturating_sub(1) as i64;
        let last = step
            .checked_mul(last_row)
            .and_then(|rise| base.checked_add(rise));
        let is_within = |value: i64| (least..=greatest).contains(&value);
        Ok(match last {
            Some(last) if is_within(base) && is_within(last) => Some(Rise {
                ty: meta.ty,
                base,
                step,
            }),
            _ => None,
        })
    }

    /// Whether a row of a column may be null, as far as is known without decoding.
    pub(crate) fn may_have_nulls(&self, index: usize) -> bool {
        match self.morsel.columns.get(index) {
            Some(OpenColumn::Chunk(_, meta)) => meta.stats.null_count > 0,
            Some(OpenColumn::One(value)) => value.null_count() > 0,
            _ => true,
        }
    }

    /// The selected rows of the morsel.
    pub(crate) fn row_numbers(&self) -> Vec<u32> {
        match &self.selected {
            None => self.rows.clone().map(|row| row as u32).collect(),
            Some(selected) => selected
                .bits
                .set_indices()
                .map(|at| (self.rows.start + at) as u32)
                .collect(),
        }
    }

    fn read(&self, index: usize) -> Result<Column, VectorError> {
        match (self.morsel.columns.get(index), &self.selected) {
            (Some(OpenColumn::Chunk(chunk, _)), Some(selected))
                if let Some(packed) = chunk.packed() =>
            {
                let codes = self.known_codes(index);
                let codes = codes.as_ref().map(|codes| codes.as_slice());
                Ok(packed.decode_selected(self.rows.clone(), &selected.bits, codes)?)
            }
            (Some(OpenColumn::Chunk(chunk, _)), Some(_)) if !self.is_dense() => {
                Ok(chunk.decode_selection(&self.row_numbers())?)
            }
            (Some(OpenColumn::Chunk(..)), Some(selected)) => {
                filter(&self.whole_column(index)?, &selected.bits)
            }
            (Some(OpenColumn::Whole(column)), Some(_)) => take(column, &self.row_numbers()),
            (Some(OpenColumn::One(column)), Some(_)) => take(column, &vec![0; self.row_count()]),
            (_, None) => self.whole_column(index),
            (Some(OpenColumn::Unread) | None, Some(_)) => Err(UNREAD),
        }
    }
}

/// Integers that rise or fall evenly: row *i* of the morsel has `base + i * step`.
pub(crate) struct Rise {
    ty: ColumnType,
    base: i64,
    pub(crate) step: i64,
}

impl Rise {
    /// The values of rows of the morsel.
    pub(crate) fn column(&self, rows: impl Iterator<Item = usize>) -> Column {
        let values = rows.map(|row| self.base + row as i64 * self.step);
        match self.ty {
            ColumnType::Int16 => Column::Int16(values.map(|v| v as i16).collect::<Vec<_>>().into()),
            ColumnType::Int32 => Column::Int32(values.map(|v| v as i32).collect::<Vec<_>>().into()),
            _ => Column::Int64(values.collect::<Vec<_>>().into()),
        }
    }
}

/// All rows of a zone, selected or not. Only expressions that cannot fail may be evaluated for
/// them.
pub(super) struct AllRows<'z, 'm>(pub(super) &'z Zone<'m>);

impl Input for AllRows<'_, '_> {
    fn row_count(&self) -> usize {
        self.0.rows.len()
    }

    fn column(&self, index: usize) -> Result<Column, VectorError> {
        self.0.whole_column(index)
    }
}

impl Input for Zone<'_> {
    fn row_count(&self) -> usize {
        match &self.selected {
            None => self.rows.len(),
            Some(selected) => selected.count,
        }
    }

    fn column(&self, index: usize) -> Result<Column, VectorError> {
        if let Some(Some(column)) = self.columns.borrow().get(index) {
            return Ok(column.clone());
        }
        let column = self.read(index)?;
        self.columns.borrow_mut()[index] = Some(column.clone());
        Ok(column)
    }

    fn coded(&self, index: usize) -> Option<Coded> {
        let dictionary = self.morsel.dictionary_for_filter(index)?;
        let mut codes = Vec::new();
        dictionary.codes_of(self, &mut codes);
        if let Some(nulls) = &dictionary.nulls {
            for (code, row) in codes.iter_mut().zip(self.row_numbers()) {
                if nulls.is_null(row as usize) {
                    *code = Coded::NULL;
                }
            }
        }
        Some(Coded {
            codes,
            words: dictionary.words.clone(),
        })
    }
}

/// Rows of a morsel, ascending.
pub(crate) struct Picked<'a> {
    morsel: &'a OpenMorsel,
    rows: Vec<u32>,
}

impl<'a> Picked<'a> {
    pub(crate) fn new(morsel: &'a OpenMorsel, rows: Vec<u32>) -> Self {
        Self { morsel, rows }
    }

    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }
}

impl Input for Picked<'_> {
    fn row_count(&self) -> usize {
        self.rows.len()
    }

    fn column(&self, index: usize) -> Result<Column, VectorError> {
        match self.morsel.columns.get(index) {
            Some(OpenColumn::Chunk(chunk, _)) => Ok(chunk.decode_selection(&self.rows)?),
            Some(OpenColumn::Whole(column)) => take(column, &self.rows),
            Some(OpenColumn::One(column)) => take(column, &vec![0; self.rows.len()]),
            Some(OpenColumn::Unread) | None => Err(UNREAD),
        }
    }
}

/// Some rows of another input.
pub(crate) struct Masked<'a> {
    pub(crate) input: &'a dyn Input,
    pub(crate) rows: &'a BooleanBuffer,
}

impl Input for Masked<'_> {
    fn row_count(&self) -> usize {
        self.rows.count_set_bits()
    }

    fn column(&self, index: usize) -> Result<Column, VectorError> {
        filter(&self.input.column(index)?, self.rows)
    }
}

/// The bits of `bits` where `places` has one.
fn gather_bits(bits: &BooleanBuffer, places: &BooleanBuffer) -> BooleanBuffer {
    places.set_indices().map(|at| bits.value(at)).collect()
}

/// The bits of `dense` put where `places` has one.
fn spread_bits(dense: &BooleanBuffer, places: &BooleanBuffer) -> BooleanBuffer {
    // One word more than there are bits for, so that there always is a next one.
    let words: Vec<u64> = (dense.bit_chunks().iter_padded()).chain([0]).collect();
    let mut at = 0;
    let spread = places.bit_chunks().iter_padded().map(|mut places| {
        let (word, shift) = (at / 64, at as u32 % 64);
        let mut bits = words[word] >> shift | words[word + 1].unbounded_shl(64 - shift);
        at += places.count_ones() as usize;
        if places == u64::MAX {
            return bits;
        }
        let mut spread = 0;
        while places != 0 {
            spread |= (bits & 1) << places.trailing_zeros();
            places &= places - 1;
            bits >>= 1;
        }
        spread
    });
    let spread: Vec<u64> = spread.collect();
    BooleanBuffer::new(Buffer::from_vec(spread), 0, places.len())
}

/// A range of rows.
pub(crate) fn slice(column: &Column, rows: Range<usize>) -> Result<Column, VectorError> {
    if rows == (0..column.len()) {
        return Ok(column.clone());
    }
    let (start, len) = (rows.start, rows.len());
    Ok(match column {
        Column::Bool(array) => Column::Bool(array.slice(start, len)),
        Column::Int16(array) => Column::Int16(array.slice(start, len)),
        Column::Int32(array) => Column::Int32(array.slice(start, len)),
        Column::Int64(array) => Column::Int64(array.slice(start, len)),
        Column::Float32(array) => Column::Float32(array.slice(start, len)),
        Column::Float64(array) => Column::Float64(array.slice(start, len)),
        Column::Text(array) => Column::Text(array.slice(start, len)),
        Column::Bytes(array) => Column::Bytes(array.slice(start, len)),
        Column::Fixed(array) => Column::Fixed(array.slice(start, len)),
        Column::Numeric(_) => {
            let rows: Vec<u32> = rows.map(|row| row as u32).collect();
            take(column, &rows)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_bits_are_gathered_again() {
        let mut random = 7u64;
        let mut next = move || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            random >> 33
        };
        for len in [0, 1, 63, 64, 65, 128, 1_000] {
            for rare in [1, 2, 30] {
                let places = BooleanBuffer::collect_bool(len, |_| next() % rare == 0);
                let count = places.count_set_bits();
                let dense = BooleanBuffer::collect_bool(count, |_| next() % 3 == 0);
                let spread = spread_bits(&dense, &places);
                assert_eq!(gather_bits(&spread, &places), dense);
                assert_eq!(spread.count_set_bits(), dense.count_set_bits());
                assert_eq!(spread.len(), len);
            }
        }
    }
}
