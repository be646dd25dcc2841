//! Reading a morsel zone by zone: filters narrow a selection, and only selected rows of columns that
//! are asked for are decoded.
//!
//! ```text
//!   Morsel ─open─▶ OpenMorsel ─▶ Zone: rows, selection ─filter─▶ Input of dense rows
//! ```

use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use howdah_columnar::{
    Chunk, Codes, Column, ColumnMeta, ColumnType, EncodedView, OwnedValue, ZONE_ROWS,
};

use crate::error::VectorError;
use crate::expr::{Input, filter, take};
use crate::source::{Morsel, MorselColumn};

/// Where fewer rows than one in so many are selected, only those are decoded.
const SPARSE: usize = 16;

/// Words of a dictionary are few if there are so many times more rows.
const FEW: usize = 8;

/// A column of an open morsel.
pub(crate) enum OpenColumn {
    Chunk(Chunk, Arc<ColumnMeta>),
    Whole(Column),
    /// A column of one row, which stands for all.
    One(Column),
    Unread,
}

/// A column of strings as codes of words.
pub(crate) struct DictionaryView {
    pub(crate) codes: Codes,
    pub(crate) nulls: Option<NullBuffer>,
    pub(crate) words: Column,
}

/// A morsel whose needed columns are open.
pub(crate) struct OpenMorsel {
    pub(crate) columns: Vec<OpenColumn>,
    /// Columns that were asked for as codes.
    dictionaries: Vec<OnceCell<Option<DictionaryView>>>,
    hidden: Option<BooleanBuffer>,
    rows: Vec<Range<usize>>,
    pub(crate) filter_decided: bool,
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
            columns,
            hidden: morsel.hidden,
            rows: morsel.rows,
            filter_decided: morsel.filter_decided,
        })
    }

    /// A column as codes of words, if it is stored so and words are few.
    pub(crate) fn dictionary(&self, index: usize) -> Option<&DictionaryView> {
        let view = self.dictionaries.get(index)?.get_or_init(|| {
            let Some(OpenColumn::Chunk(chunk, meta)) = self.columns.get(index) else {
                return None;
            };
            // A damaged chunk fails where it is decoded.
            if !meta.encoding.starts_with("dict(") && meta.encoding != "dict" {
                return None;
            }
            match chunk.view() {
                Ok(EncodedView::Dict {
                    codes,
                    nulls,
                    words,
                }) if words.len() * FEW <= codes.len() => Some(DictionaryView {
                    codes,
                    nulls,
                    words,
                }),
                _ => None,
            }
        });
        view.as_ref()
    }

    /// The rows to look at, cut at the bounds of zones.
    pub(crate) fn zones(&self) -> impl Iterator<Item = Range<usize>> {
        self.rows.iter().flat_map(|rows| {
            let mut start = rows.start;
            std::iter::from_fn(move || {
                let end = ((start / ZONE_ROWS + 1) * ZONE_ROWS).min(rows.end);
                let zone = start..end;
                start = end;
                (!zone.is_empty()).then_some(zone)
            })
        })
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
            columns: RefCell::new(columns),
        }
    }
}

const UNREAD: VectorError = VectorError::Unsupported {
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

    /// Replaces the selection by some of its rows.
    pub(crate) fn select(&mut self, bits: BooleanBuffer) -> Result<(), VectorError> {
        let selected = Selected::new(bits);
        if selected.count == self.row_count() {
            return Ok(());
        }
        let mut columns = self.columns.borrow_mut();
        if columns.iter().any(Option::is_some) {
            // Of the rows selected so far, those that stay.
            let stay = match &self.selected {
                None => selected.bits.clone(),
                Some(before) => gather_bits(&selected.bits, &before.bits),
            };
            for column in columns.iter_mut().flatten() {
                *column = filter(column, &stay)?;
            }
        }
        drop(columns);
        self.selected = Some(selected);
        Ok(())
    }

    /// Narrows the selection to those of its rows of which `dense` has the bit set.
    pub(crate) fn narrow(&mut self, dense: BooleanBuffer) -> Result<(), VectorError> {
        let bits = match &self.selected {
            None => dense,
            Some(before) => spread_bits(&dense, &before.bits),
        };
        self.select(bits)
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
        match self.morsel.columns.get(index) {
            Some(OpenColumn::Chunk(chunk, _)) => match &self.selected {
                None => Ok(chunk.decode_range(self.rows.clone())?),
                Some(selected) if selected.count * SPARSE < self.rows.len() => {
                    Ok(chunk.decode_selection(&self.row_numbers())?)
                }
                Some(selected) => filter(&chunk.decode_range(self.rows.clone())?, &selected.bits),
            },
            Some(OpenColumn::Whole(column)) => match &self.selected {
                None => slice(column, self.rows.clone()),
                Some(_) => take(column, &self.row_numbers()),
            },
            Some(OpenColumn::One(column)) => take(column, &vec![0; self.row_count()]),
            Some(OpenColumn::Unread) | None => Err(UNREAD),
        }
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
    let mut spread = BooleanBufferBuilder::new(places.len());
    spread.append_n(places.len(), false);
    for (at, place) in places.set_indices().enumerate() {
        if dense.value(at) {
            spread.set_bit(place, true);
        }
    }
    spread.finish()
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
