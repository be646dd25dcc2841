//! Rows of a zone of an open morsel: filters narrow its selection, and what is decoded of its
//! columns is kept.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use arrow_buffer::{BooleanBuffer, NullBuffer};
use howdah_columnar::{Column, ColumnType, EncodedView, PackedNumbers};

use super::bits::{gather_bits, spread_bits};
use super::{OpenColumn, OpenMorsel, SPARSE, UNREAD, slice};
use crate::error::VectorError;
use crate::expr::{Coded, Input, filter, take};

/// Some rows of a zone.
pub(crate) struct Selected {
    bits: BooleanBuffer,
    count: usize,
}

impl Selected {
    pub(super) fn new(bits: BooleanBuffer) -> Self {
        let count = bits.count_set_bits();
        Self { bits, count }
    }

    pub(super) fn is_all(&self) -> bool {
        self.count == self.bits.len()
    }
}

/// Rows of a zone. As an [`Input`], its rows are the selected ones.
pub(crate) struct Zone<'a> {
    pub(super) morsel: &'a OpenMorsel,
    pub(super) rows: Range<usize>,
    /// `None` when all are.
    pub(super) selected: Option<Selected>,
    /// Selected rows that are decoded.
    pub(super) columns: RefCell<Vec<Option<Column>>>,
    /// Columns of which all rows are decoded, selected or not.
    pub(super) whole: RefCell<Vec<Option<Column>>>,
    /// Codes of packed columns that were unpacked: of all rows, selected or not.
    pub(super) codes: RefCell<Vec<(usize, Rc<Vec<u32>>)>>,
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
    pub(in crate::operators) fn codes(
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
            Some(last) if is_within(base) && is_within(last) => {
                Some(Rise::new(meta.ty, base, step))
            }
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
    /// Values that the type can hold.
    pub(in crate::operators) fn new(ty: ColumnType, base: i64, step: i64) -> Self {
        Self { ty, base, step }
    }

    /// The value of a row of the morsel.
    pub(in crate::operators) fn value(&self, row: usize) -> i64 {
        self.base + row as i64 * self.step
    }

    /// The values of rows of the morsel.
    pub(crate) fn column(&self, rows: impl Iterator<Item = usize>) -> Column {
        let values = rows.map(|row| self.value(row));
        match self.ty {
            ColumnType::Int16 => Column::Int16(values.map(|v| v as i16).collect::<Vec<_>>().into()),
            ColumnType::Int32 => Column::Int32(values.map(|v| v as i32).collect::<Vec<_>>().into()),
            _ => Column::Int64(values.collect::<Vec<_>>().into()),
        }
    }
}

/// All rows of a zone, selected or not. Only expressions that cannot fail may be evaluated for
/// them.
pub(in crate::operators) struct AllRows<'z, 'm>(pub(in crate::operators) &'z Zone<'m>);

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
