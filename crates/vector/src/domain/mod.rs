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
mod words;

use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use howdah_columnar::{Codes, Column, ColumnType, OwnedValue, ZONE_ROWS};

use crate::error::VectorError;
use crate::expr::{Input, take};
use crate::operators::groups::Groups;
use crate::operators::scan::{OpenColumn, Zone};
use crate::operators::words::Dictionary;
use codes::CodeGroups;
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

/// The ordinal of every row of a zone, if it is known without reading them.
fn only_ordinal(part: &Part, zone: &Zone<'_>) -> Option<u32> {
    match part {
        Part::Words {
            column, ordinals, ..
        } => {
            let dictionary = zone.morsel().dictionary(*column)?;
            match dictionary.is_constant() {
                true => ordinals.as_ref()?.first().copied(),
                false => None,
            }
        }
        Part::Integers { column, base, span } => {
            let OpenColumn::Chunk(_, meta) = zone.morsel().columns.get(*column)? else {
                return None;
            };
            let bounds = meta.zone(zone.rows().start / ZONE_ROWS)?;
            let (min, max) = (bounds.min.as_ref()?, bounds.max.as_ref()?);
            let is_one = bounds.null_count == 0 && min.exact && max.exact;
            let value = integer(&min.value)?;
            let offset = i128::from(value) - i128::from(*base);
            let is_within = (0..*span as i128).contains(&offset);
            (is_one && min.value == max.value && is_within).then(|| offset as u32 + 1)
        }
    }
}

/// The result of storing ordinals.
enum Put {
    /// The least and greatest one, if they are known.
    Within(Option<(u32, u32)>),
    /// A value is outside of the domain.
    Outside,
}

impl From<bool> for Put {
    fn from(is_within: bool) -> Self {
        match is_within {
            true => Self::Within(None),
            false => Self::Outside,
        }
    }
}

/// Stores the ordinal of each row's key.
fn put_ordinals(part: &Part, zone: &Zone<'_>, ordinals: &mut Vec<u32>) -> Result<Put, VectorError> {
    ordinals.clear();
    match part {
        Part::Integers { column, base, span } => {
            let span = *span as u64;
            let is_within = match zone.column(*column)? {
                Column::Bool(array) => {
                    ordinals.extend((0..array.len()).map(|row| {
                        let ordinal = 1 + u32::from(array.value(row));
                        if array.is_valid(row) { ordinal } else { 0 }
                    }));
                    true
                }
                Column::Int16(array) => put_integers(&array, *base, span, ordinals),
                Column::Int32(array) => match (array.nulls(), i32::try_from(*base)) {
                    (None, Ok(base)) if i64::from(base) + span as i64 <= i64::from(i32::MAX) => {
                        return Ok(put_narrow(array.values(), base, span as u32, ordinals));
                    }
                    _ => put_integers(&array, *base, span, ordinals),
                },
                Column::Int64(array) => put_integers(&array, *base, span, ordinals),
                _ => false,
            };
            Ok(is_within.into())
        }
        Part::Words {
            column,
            ordinals: words,
            ..
        } => match (zone.morsel().dictionary(*column), words) {
            (Some(view), Some(words)) => {
                put_words(view, words, zone, ordinals);
                Ok(Put::Within(None))
            }
            _ => Ok(Put::Outside),
        },
    }
}

/// 32-bit integers without NULLs. A difference that wraps is no ordinal, for the domain's end does
/// not wrap.
fn put_narrow(values: &[i32], base: i32, span: u32, ordinals: &mut Vec<u32>) -> Put {
    let ordinal = |value: &i32| value.wrapping_sub(base).wrapping_add(1) as u32;
    ordinals.extend(values.iter().map(ordinal));
    let (least, greatest) = extremes(ordinals);
    match least as i32 >= 1 && greatest as i32 <= span as i32 {
        true => Put::Within(Some((least, greatest))),
        false => Put::Outside,
    }
}

fn put_integers<A: ArrowPrimitiveType>(
    array: &PrimitiveArray<A>,
    base: i64,
    span: u64,
    ordinals: &mut Vec<u32>,
) -> bool
where
    A::Native: Into<i64>,
{
    let mut outside = false;
    match array.nulls() {
        None => ordinals.extend(array.values().iter().map(|&value| {
            let offset = value.into().wrapping_sub(base) as u64;
            outside |= offset >= span;
            (offset as u32).wrapping_add(1)
        })),
        Some(nulls) => ordinals.extend(array.values().iter().enumerate().map(|(row, &value)| {
            let offset = value.into().wrapping_sub(base) as u64;
            let is_valid = nulls.is_valid(row);
            outside |= is_valid & (offset >= span);
            (offset as u32).wrapping_add(1) * u32::from(is_valid)
        })),
    }
    !outside
}

fn put_words(view: &Dictionary, words: &[u32], zone: &Zone<'_>, ordinals: &mut Vec<u32>) {
    match (zone.selection(), &view.codes, &view.nulls) {
        (None, Some(Codes::One(codes)), None) => {
            ordinals.extend(
                codes[zone.rows()]
                    .iter()
                    .map(|&code| words[usize::from(code)]),
            );
        }
        (_, _, None) => {
            view.codes_of(zone, ordinals);
            for ordinal in ordinals.iter_mut() {
                *ordinal = words[*ordinal as usize];
            }
        }
        (_, _, Some(nulls)) => {
            view.codes_of(zone, ordinals);
            // The code of a null is undefined.
            for (ordinal, row) in ordinals.iter_mut().zip(zone.row_numbers()) {
                *ordinal = match nulls.is_null(row as usize) {
                    true => 0,
                    false => words[*ordinal as usize],
                };
            }
        }
    }
}
