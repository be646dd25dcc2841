//! Groups without hashing: if keys come from small domains, a row's group is looked up by index.
//!
//! ```text
//!   integers: value - least ──┐
//!   words of a dictionary:    ├─▶ index = Σ ordinal · stride ─▶ lookup ─▶ group
//!     a number for each word ─┘      (ordinal 0 is NULL)          └ unknown: the hash table, once
//! ```
//!
//! The lookup is a cache of the hash table. It may be dropped at any time, which happens when a
//! domain turns out to be larger than assumed. Rows outside of it are hashed as usual.

mod codes;
mod ordinals;
mod words;

use howdah_columnar::{Column, ColumnType, OwnedValue};

use crate::error::VectorError;
use crate::expr::{Input, take};
use crate::operators::groups::Groups;
use crate::operators::scan::{OpenColumn, Zone};
use codes::CodeGroups;
use ordinals::{Put, only_ordinal, put_ordinals};
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
    /// Words that dictionaries were found to have; `span` leaves room for more.
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
    /// By index: the group plus one; 0 is unknown. Empty before the first use.
    lookup: Vec<u32>,
    /// The indexes of a batch's rows.
    index: Vec<u32>,
    /// The ordinals of a key in a batch's rows.
    ordinals: Vec<u32>,
    /// The most entries that the lookup may have.
    most_entries: usize,
    /// The morsel's values and dictionaries have not been examined.
    is_fresh: bool,
    /// Too large for a lookup.
    given_up: bool,
    /// Groups by packed code.
    codes: CodeGroups,
}

/// Which groups a batch's rows have.
pub(crate) enum Found {
    /// All have this one.
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
            ordinals: Vec::new(),
            most_entries: most_entries.min(MOST_ENTRIES),
            is_fresh: true,
            codes: CodeGroups::default(),
        }
    }

    /// Called at the beginning of another morsel.
    pub(crate) fn begin_morsel(&mut self) {
        self.is_fresh = true;
        self.codes.begin_morsel();
    }

    /// The only key, if it is an integer.
    fn only_integer(&self) -> Option<usize> {
        match self.parts.as_slice() {
            [Part::Integers { column, .. }] => Some(*column),
            _ => None,
        }
    }

    /// Counts the rows of a zone by group, without a look at each row: calls a function with groups
    /// and numbers of rows. `false` if that cannot be done.
    pub(crate) fn count(
        &mut self,
        zone: &Zone<'_>,
        groups: &mut Groups,
        add: impl FnMut(u32, u32),
    ) -> Result<bool, VectorError> {
        match self.only_integer() {
            Some(column) if zone.selection().is_none() => {
                self.codes.count(zone, column, groups, add)
            }
            _ => Ok(false),
        }
    }

    /// Widens domains to the values of a morsel, as far as its statistics and dictionaries are
    /// known.
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
                    if view.is_some() && words.len() > *span {
                        *span = (words.len() * 2).max(16);
                        self.lookup.clear();
                    }
                }
            }
        }
    }

    /// Counts the rows of the zone whose groups were asked for last, if that was done on the way or
    /// costs much less than counting the groups of rows; else `false`.
    pub(crate) fn counted(
        &mut self,
        zone: &Zone<'_>,
        groups: &mut Groups,
        add: impl FnMut(u32, u32),
    ) -> Result<bool, VectorError> {
        match self.only_integer() {
            Some(column) if zone.selection().is_none() => {
                self.codes.counted(zone, column, groups, add)
            }
            _ => Ok(false),
        }
    }

    /// The groups of a zone's rows, if they can be looked up.
    pub(crate) fn ids_of(
        &mut self,
        zone: &Zone<'_>,
        groups: &mut Groups,
        ids: &mut Vec<u32>,
    ) -> Result<Found, VectorError> {
        if let Some(column) = self.only_integer()
            && let Found::Each = self.codes.ids_of(zone, column, groups, ids)?
        {
            return Ok(Found::Each);
        }
        if self.given_up {
            return Ok(Found::Not);
        }
        if std::mem::take(&mut self.is_fresh) {
            self.widen(zone);
        }
        let mut spans = self.parts.iter().map(Part::span);
        let entries = spans.try_fold(1usize, |entries, span| entries.checked_mul(span + 1));
        let Some(entries) = entries.filter(|&entries| entries <= self.most_entries) else {
            self.given_up = true;
            self.lookup = Vec::new();
            return Ok(Found::Not);
        };
        if self.lookup.len() != entries {
            self.lookup = vec![0; entries];
        }
        if let Some(index) = self.only_index(zone) {
            self.index.clear();
            self.index.push(index);
            if self.lookup[index as usize] == 0 {
                self.meet(&[0], zone, groups)?;
            }
            return Ok(Found::One(self.lookup[index as usize] - 1));
        }
        let mut stride = 1;
        let mut range = None;
        for (at, part) in self.parts.iter().enumerate() {
            let ordinals = if at == 0 {
                &mut self.index
            } else {
                &mut self.ordinals
            };
            range = match put_ordinals(part, zone, ordinals)? {
                Put::Outside => return Ok(Found::Not),
                Put::Within(range) => range.filter(|_| self.parts.len() == 1),
            };
            if at > 0 {
                for (index, ordinal) in self.index.iter_mut().zip(&self.ordinals) {
                    *index += ordinal * stride;
                }
            }
            stride *= part.span() as u32 + 1;
        }
        let (least, greatest) = range.unwrap_or_else(|| extremes(&self.index));
        if least == greatest {
            if self.lookup[least as usize] == 0 {
                self.meet(&[0], zone, groups)?;
            }
            return Ok(Found::One(self.lookup[least as usize] - 1));
        }
        if !look_up(&self.lookup, &self.index, ids) {
            self.meet_all(zone, groups)?;
            look_up(&self.lookup, &self.index, ids);
        }
        Ok(Found::Each)
    }

    /// The index of all rows of a zone, if statistics and encodings show that they have the same.
    fn only_index(&self, zone: &Zone<'_>) -> Option<u32> {
        let (mut index, mut stride) = (0, 1);
        for part in &self.parts {
            index += only_ordinal(part, zone)? * stride;
            stride *= part.span() as u32 + 1;
        }
        Some(index)
    }

    /// Enters the groups of unknown indexes.
    fn meet_all(&mut self, zone: &Zone<'_>, groups: &mut Groups) -> Result<(), VectorError> {
        let mut rows = Vec::new();
        for (row, &index) in self.index.iter().enumerate() {
            let group = &mut self.lookup[index as usize];
            if *group == 0 {
                // Known from here on; its group is set below.
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
        let lookup = self.lookup.capacity() * size_of::<u32>();
        lookup + self.codes.memory_bytes() + words.sum::<usize>()
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

/// The least and greatest index.
fn extremes(index: &[u32]) -> (u32, u32) {
    // Indexes are less than the most entries; signed comparisons are the cheaper ones.
    let fold = |(least, greatest): (i32, i32), &index: &u32| {
        (least.min(index as i32), greatest.max(index as i32))
    };
    let (least, greatest) = index.iter().fold((i32::MAX, i32::MIN), fold);
    (least as u32, greatest as u32)
}

/// The groups of rows; `false` if some are not known.
fn look_up(lookup: &[u32], index: &[u32], ids: &mut Vec<u32>) -> bool {
    const FEW: usize = 256;
    let mut all = u32::MAX;
    let mut known = |group: u32| {
        // No group has the greatest number; it stands for unknown ones.
        let id = group.wrapping_sub(1);
        all = all.min(!id);
        id
    };
    ids.clear();
    if lookup.len() <= FEW {
        let mut few = [0; FEW];
        few[..lookup.len()].copy_from_slice(lookup);
        ids.extend(index.iter().map(|&index| known(few[index as usize % FEW])));
    } else {
        ids.extend(index.iter().map(|&index| known(lookup[index as usize])));
    }
    all != 0
}

impl Part {
    /// Ordinals of values; NULL comes on top.
    fn span(&self) -> usize {
        match self {
            Self::Integers { span, .. } | Self::Words { span, .. } => *span,
        }
    }
}
