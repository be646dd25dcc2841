//! Reads a morsel zone by zone: filters narrow a selection, and only selected rows of requested
//! columns are decoded.
//!
//! ```text
//!   Morsel ─open─▶ OpenMorsel ─▶ Zone: rows, selection ─filter─▶ Input of dense rows
//! ```

mod bits;
mod zone;

use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::BooleanBuffer;
use howdah_columnar::{Chunk, Column, ColumnMeta, ColumnType, OwnedValue};

use super::words::{Computed, Dictionary};
use crate::error::VectorError;
use crate::expr::{Input, filter, take};
use crate::source::{Morsel, MorselColumn};
use zone::Selected;
pub(crate) use zone::Zone;
pub(super) use zone::{AllRows, Rise};

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
        // By the first of its columns.
        let mut groups: Vec<(usize, Chunk)> = Vec::new();
        let firsts: Vec<usize> = (morsel.columns.iter())
            .filter_map(|column| match column {
                MorselColumn::Grouped { first, .. } => Some(*first),
                _ => None,
            })
            .collect();
        let of_type = |chunk: Chunk, meta, at: usize| match chunk.column_type() == types[at] {
            true => Ok(OpenColumn::Chunk(chunk, meta)),
            false => Err(MISFIT),
        };
        for (at, column) in morsel.columns.into_iter().enumerate() {
            columns.push(match column {
                MorselColumn::Encoded { meta, bytes } if firsts.contains(&at) => {
                    let chunk = Chunk::open(&meta, row_count, bytes)?;
                    groups.push((at, chunk.clone()));
                    match needed.contains(&at) {
                        true => of_type(chunk, meta, at)?,
                        false => OpenColumn::Unread,
                    }
                }
                _ if !needed.contains(&at) => OpenColumn::Unread,
                MorselColumn::Unread => OpenColumn::Unread,
                MorselColumn::Encoded { meta, bytes } => {
                    of_type(Chunk::open(&meta, row_count, bytes)?, meta, at)?
                }
                MorselColumn::Grouped { meta, first } => {
                    let group = groups.iter().find(|(known, _)| *known == first);
                    let chunk = group.and_then(|(_, chunk)| chunk.of_other_column(&meta));
                    of_type(chunk.ok_or(MISFIT)?, meta, at)?
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
