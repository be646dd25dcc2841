//! Groups without hashing: where keys come from small domains, a row's group is looked up by index.
//!
//! ```text
//!   integers: value - least ──┐
//!   words of a dictionary:    ├─▶ index = Σ ordinal · stride ─▶ lookup ─▶ group
//!     a number for each word ─┘      (ordinal 0 is NULL)          └ not met yet: ask the hash table, once
//! ```
//!
//! The lookup is a cache of the hash table: it may be thrown away at any time, which happens when a domain
//! turns out to be larger than it was thought. Rows outside of it are hashed as usual.

mod words;

use arrow_array::Array;
use arrow_buffer::NullBuffer;
use howdah_columnar::{Column, ColumnType, OwnedValue};

use crate::error::VectorError;
use crate::expr::{Input, take};
use crate::operators::groups::Groups;
use crate::operators::scan::{DictionaryView, OpenColumn, Zone};
use words::Words;

/// The most entries of a lookup: 16 MB.
const MOST_ENTRIES: usize = 1 << 22;

/// The domain of one key.
enum Part {
    /// Integers from `base` on.
    Integers {
        column: usize,
        base: i64,
        span: usize,
    },
    /// Words that dictionaries were seen to have; `span` leaves room for more.
    Words {
        column: usize,
        words: Words,
        span: usize,
        /// The numbers of the words of the morsel's dictionary by code, if it has one.
        ordinals: Option<Vec<u32>>,
    },
}

/// A key that is a column: which one, its type, and its least and greatest integer if known.
pub(crate) type KeyColumn = (usize, ColumnType, Option<(i64, i64)>);

/// The domains of all keys, and the groups found so far.
pub(crate) struct Domain {
    parts: Vec<Part>,
    /// By index: the group plus one; 0 is not met yet. Empty before the first use.
    lookup: Vec<u32>,
    /// The indexes of a batch's rows.
    index: Vec<u32>,
    /// The most entries that the lookup may have.
    most_entries: usize,
    /// The morsel's values and dictionaries have not been looked at.
    is_fresh: bool,
    /// Too large to be looked up.
    given_up: bool,
}

/// Which groups a batch's rows have.
pub(crate) enum Found {
    /// All this one.
    One(u32),
    /// One for each row: see `ids`.
    Each,
    /// The keys must be hashed.
    Not,
}

impl Domain {
    /// Domains of keys that are columns of these types, with bounds as far as they are known.
    pub(crate) fn new(keys: &[KeyColumn], most_entries: usize) -> Self {
        let parts = keys.iter().map(|&(column, ty, bounds)| {
            Some(match ty {
                ColumnType::Bool => Part::Integers {
                    column,
                    base: 0,
                    span: 2,
                },
                ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 => {
                    let (base, span) = bounds.map_or((0, 0), span_of);
                    Part::Integers { column, base, span }
                }
                ColumnType::Text | ColumnType::Bytes | ColumnType::Fixed { .. } => Part::Words {
                    column,
                    words: Words::default(),
                    span: 0,
                    ordinals: None,
                },
                _ => return None,
            })
        });
        let parts: Option<Vec<Part>> = parts.collect();
        Self {
            given_up: parts.as_ref().is_none_or(Vec::is_empty),
            parts: parts.unwrap_or_default(),
            lookup: Vec::new(),
            index: Vec::new(),
            most_entries: most_entries.min(MOST_ENTRIES),
            is_fresh: true,
        }
    }

    /// Says that another morsel begins.
    pub(crate) fn begin_morsel(&mut self) {
        self.is_fresh = true;
    }

    /// Widens domains to the values of a morsel, as far as its statistics and dictionaries tell.
    fn widen(&mut self, zone: &Zone<'_>) {
        for part in &mut self.parts {
            match part {
                Part::Integers { column, base, span } => {
                    let Some(OpenColumn::Chunk(_, meta)) = zone.morsel().columns.get(*column)
                    else {
                        continue;
                    };
                    let bounds = (meta.stats.min.as_ref(), meta.stats.max.as_ref());
                    let (Some(min), Some(max)) =
                        (bounds.0.and_then(integer), bounds.1.and_then(integer))
                    else {
                        continue;
                    };
                    let is_within = |value: i64| {
                        let offset = i128::from(value) - i128::from(*base);
                        (0..*span as i128).contains(&offset)
                    };
                    if is_within(min) && is_within(max) {
                        continue;
                    }
                    let known = (*span > 0).then(|| (*base, base.saturating_add(*span as i64 - 1)));
                    let (low, high) = known.unwrap_or((min, max));
                    (*base, *span) = span_of((low.min(min), high.max(max)));
                    self.lookup.clear();
                }
                Part::Words {
                    column,
                    words,
                    span,
                    ordinals,
                } => {
                    let view = zone.morsel().dictionary(*column);
                    *ordinals = view.map(|view| words.ordinals(&view.words));
                    if view.is_some() {
                        if words.len() > *span {
                            *span = (words.len() * 2).max(16);
                            self.lookup.clear();
                        }
                    }
                }
            }
        }
    }

    /// The groups of a zone's rows, if they can be looked up.
    pub(crate) fn ids_of(
        &mut self,
        zone: &Zone<'_>,
        groups: &mut Groups,
        ids: &mut Vec<u32>,
    ) -> Result<Found, VectorError> {
        if self.given_up {
            return Ok(Found::Not);
        }
        if std::mem::take(&mut self.is_fresh) {
            self.widen(zone);
        }
        let spans = self.parts.iter().map(|part| match part {
            Part::Integers { span, .. } | Part::Words { span, .. } => *span + 1,
        });
        let entries = spans.clone().try_fold(1usize, usize::checked_mul);
        let Some(entries) = entries.filter(|&entries| entries <= self.most_entries) else {
            self.given_up = true;
            self.lookup = Vec::new();
            return Ok(Found::Not);
        };
        if self.lookup.len() != entries {
            self.lookup = vec![0; entries];
        }
        self.index.clear();
        self.index.resize(zone.row_count(), 0);
        let spans: Vec<usize> = spans.collect();
        let mut stride = 1;
        for (part, span) in self.parts.iter().zip(spans) {
            if !add_part(part, zone, stride as u32, &mut self.index)? {
                return Ok(Found::Not);
            }
            stride *= span;
        }
        let least = self.index.iter().copied().fold(u32::MAX, u32::min);
        let greatest = self.index.iter().copied().fold(0, u32::max);
        if least == greatest {
            if self.lookup[least as usize] == 0 {
                self.meet(&[0], zone, groups)?;
            }
            return Ok(Found::One(self.lookup[least as usize] - 1));
        }
        let mut unknown = false;
        ids.clear();
        ids.extend(self.index.iter().map(|&index| {
            let group = self.lookup[index as usize];
            unknown |= group == 0;
            group.wrapping_sub(1)
        }));
        if unknown {
            self.meet_all(zone, groups)?;
            ids.clear();
            let lookup = &self.lookup;
            ids.extend(self.index.iter().map(|&index| lookup[index as usize] - 1));
        }
        Ok(Found::Each)
    }

    /// Enters the groups of indexes that were not met yet.
    fn meet_all(&mut self, zone: &Zone<'_>, groups: &mut Groups) -> Result<(), VectorError> {
        let mut rows = Vec::new();
        for (row, &index) in self.index.iter().enumerate() {
            let group = &mut self.lookup[index as usize];
            if *group == 0 {
                // Known from here on; which group it is follows.
                *group = u32::MAX;
                rows.push(row as u32);
            }
        }
        self.meet(&rows, zone, groups)
    }

    fn meet(
        &mut self,
        rows: &[u32],
        zone: &Zone<'_>,
        groups: &mut Groups,
    ) -> Result<(), VectorError> {
        let keys = self.parts.iter().map(|part| match part {
            Part::Integers { column, .. } | Part::Words { column, .. } => {
                take(&zone.column(*column)?, rows)
            }
        });
        let keys = keys.collect::<Result<Vec<Column>, VectorError>>()?;
        let mut ids = Vec::new();
        groups.ids_of(&keys, rows.len(), &mut ids)?;
        for (&row, id) in rows.iter().zip(ids) {
            self.lookup[self.index[row as usize] as usize] = id + 1;
        }
        Ok(())
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        let words = self.parts.iter().map(|part| match part {
            Part::Words { words, .. } => words.memory_bytes(),
            Part::Integers { .. } => 0,
        });
        self.lookup.capacity() * size_of::<u32>() + words.sum::<usize>()
    }
}

/// The least value and the number of values; more than a lookup can have if they are too many.
fn span_of((min, max): (i64, i64)) -> (i64, usize) {
    let span = i128::from(max) - i128::from(min) + 1;
    (
        min,
        usize::try_from(span)
            .unwrap_or(usize::MAX)
            .min(MOST_ENTRIES),
    )
}

fn integer(value: &OwnedValue) -> Option<i64> {
    match value {
        OwnedValue::Int16(value) => Some((*value).into()),
        OwnedValue::Int32(value) => Some((*value).into()),
        OwnedValue::Int64(value) => Some(*value),
        _ => None,
    }
}

/// Adds a key's share to the index of each row; `false` if a value is outside of the domain.
fn add_part(
    part: &Part,
    zone: &Zone<'_>,
    stride: u32,
    index: &mut [u32],
) -> Result<bool, VectorError> {
    match part {
        Part::Integers { column, base, span } => {
            let (base, span) = (*base, *span as u64);
            Ok(match zone.column(*column)? {
                Column::Bool(array) => {
                    for (row, index) in index.iter_mut().enumerate() {
                        let ordinal = 1 + u32::from(array.value(row));
                        *index += if array.is_valid(row) {
                            ordinal * stride
                        } else {
                            0
                        };
                    }
                    true
                }
                Column::Int16(array) => {
                    add_integers(array.values(), array.nulls(), base, span, stride, index)
                }
                Column::Int32(array) => {
                    add_integers(array.values(), array.nulls(), base, span, stride, index)
                }
                Column::Int64(array) => {
                    add_integers(array.values(), array.nulls(), base, span, stride, index)
                }
                _ => false,
            })
        }
        Part::Words {
            column, ordinals, ..
        } => match (zone.morsel().dictionary(*column), ordinals) {
            (Some(view), Some(ordinals)) => {
                add_words(view, ordinals, zone, stride, index);
                Ok(true)
            }
            _ => Ok(false),
        },
    }
}

fn add_integers<T: Copy + Into<i64>>(
    values: &[T],
    nulls: Option<&NullBuffer>,
    base: i64,
    span: u64,
    stride: u32,
    index: &mut [u32],
) -> bool {
    let mut outside = false;
    match nulls {
        None => {
            for (index, &value) in index.iter_mut().zip(values) {
                let offset = value.into().wrapping_sub(base) as u64;
                outside |= offset >= span;
                *index = index.wrapping_add((offset as u32).wrapping_add(1).wrapping_mul(stride));
            }
        }
        Some(nulls) => {
            for (row, (index, &value)) in index.iter_mut().zip(values).enumerate() {
                let offset = value.into().wrapping_sub(base) as u64;
                let is_valid = nulls.is_valid(row);
                outside |= is_valid & (offset >= span);
                let ordinal = (offset as u32).wrapping_add(1) * u32::from(is_valid);
                *index = index.wrapping_add(ordinal.wrapping_mul(stride));
            }
        }
    }
    !outside
}

fn add_words(
    view: &DictionaryView,
    ordinals: &[u32],
    zone: &Zone<'_>,
    stride: u32,
    index: &mut [u32],
) {
    let shares: Vec<u32> = ordinals.iter().map(|ordinal| ordinal * stride).collect();
    let add = |index: &mut u32, row: usize| {
        let is_null = view.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        if !is_null {
            *index += shares[view.codes.get(row)];
        }
    };
    match zone.selection() {
        None => match (&view.codes, &view.nulls) {
            (howdah_columnar::Codes::One(codes), None) => {
                for (index, &code) in index.iter_mut().zip(&codes[zone.rows()]) {
                    *index += shares[usize::from(code)];
                }
            }
            _ => {
                for (index, row) in index.iter_mut().zip(zone.rows()) {
                    add(index, row);
                }
            }
        },
        Some(_) => {
            for (index, row) in index.iter_mut().zip(zone.row_numbers()) {
                add(index, row as usize);
            }
        }
    }
}
