//! Groups by code: the only key is an integer that is stored as packed codes.
//!
//! ```text
//!   code ─▶ group, for a morsel; if it is not known yet, its integer is looked up once
//! ```
//!
//! If rows are only counted, those of each code are, and no row's group is looked up at all.

use howdah_columnar::{Column, ColumnType, PackedNumbers, ZONE_ROWS, wide};

use super::Found;
use crate::error::VectorError;
use crate::operators::groups::Groups;
use crate::operators::scan::{OpenColumn, Zone};

/// The most bits of codes: a table of 16 kB stays in the cache.
const MOST_BITS: usize = 12;

/// Entries of a table.
const ENTRIES: usize = 1 << MOST_BITS;

/// The bit of an entry whose group is known; there are never as many groups.
const KNOWN: u32 = 1 << 31;

/// The groups of a morsel's codes.
#[derive(Debug, Default)]
pub(super) struct CodeGroups {
    /// By code: the group and [`KNOWN`], or 0. `None` before the first use.
    groups: Option<Box<[u32; ENTRIES]>>,
    /// The rows of each code in a zone.
    counts: Vec<u32>,
    /// The same, counted while groups were looked up.
    code_counts: Option<Box<[u32; ENTRIES]>>,
    /// The codes of a zone's rows, where they are needed twice.
    codes: Vec<u32>,
}

/// The packed codes of a key whose zones are not constant.
fn packed_key<'z>(zone: &'z Zone<'_>, column: usize) -> Option<(&'z PackedNumbers, i64)> {
    let OpenColumn::Chunk(chunk, meta) = zone.morsel().columns.get(column)? else {
        return None;
    };
    let packed = chunk.packed()?;
    let base = packed.integer_base()?;
    let is_constant = || {
        let bounds = meta.zone(zone.rows().start / ZONE_ROWS)?;
        Some(bounds.min?.value == bounds.max?.value)
    };
    let is_usable = packed.has_only_codes() && packed.bits() <= MOST_BITS;
    (is_usable && is_constant() != Some(true)).then_some((packed, base))
}

impl CodeGroups {
    /// Called at the beginning of another morsel.
    pub(super) fn begin_morsel(&mut self) {
        if let Some(groups) = &mut self.groups {
            groups.fill(0);
        }
    }

    fn table(groups: &mut Option<Box<[u32; ENTRIES]>>) -> &mut [u32; ENTRIES] {
        groups.get_or_insert_with(|| Box::new([0; ENTRIES]))
    }

    /// The groups of a zone's selected rows; [`Found::Not`] if the key has no codes of few bits.
    pub(super) fn ids_of(
        &mut self,
        zone: &Zone<'_>,
        column: usize,
        groups: &mut Groups,
        ids: &mut Vec<u32>,
    ) -> Result<Found, VectorError> {
        let Some((packed, base)) = packed_key(zone, column) else {
            return Ok(Found::Not);
        };
        self.codes.clear();
        if let Some(selected) = zone.selection() {
            packed.append_codes(zone.rows(), &mut self.codes)?;
            let chosen = selected.set_indices().map(|at| self.codes[at]);
            self.codes = chosen.collect();
        }
        let table = Self::table(&mut self.groups);
        ids.clear();
        let mut are_known = true;
        match zone.selection() {
            Some(_) => are_known = append_groups(table, &self.codes, ids),
            None if packed.has_codes_in_bytes() => packed.visit_codes(zone.rows(), |codes| {
                are_known &= append_groups(table, codes, ids);
            })?,
            None => {
                let counts = self
                    .code_counts
                    .get_or_insert_with(|| Box::new([0; ENTRIES]));
                counts[..1 << packed.bits()].fill(0);
                packed.visit_codes(zone.rows(), |codes| {
                    are_known &= append_groups(table, codes, ids);
                    for &code in codes {
                        counts[code as usize % ENTRIES] += 1;
                    }
                })?;
            }
        }
        if !are_known {
            if zone.selection().is_none() {
                packed.append_codes(zone.rows(), &mut self.codes)?;
            }
            let mut unknown: Vec<u32> = Vec::new();
            for &code in &self.codes {
                let entry = &mut table[code as usize];
                if *entry == 0 {
                    // Its group is set below.
                    *entry = KNOWN;
                    unknown.push(code);
                }
            }
            meet(table, &unknown, packed, base, groups)?;
            ids.clear();
            append_groups(table, &self.codes, ids);
        }
        Ok(Found::Each)
    }

    /// Calls a function with each group of a zone, whose [`ids_of`](Self::ids_of) was asked for
    /// last, and its rows; `false` if they were not counted.
    pub(super) fn counted(
        &mut self,
        zone: &Zone<'_>,
        column: usize,
        groups: &mut Groups,
        mut add: impl FnMut(u32, u32),
    ) -> Result<bool, VectorError> {
        let Some((packed, _)) = packed_key(zone, column) else {
            return Ok(false);
        };
        if packed.has_codes_in_bytes() {
            // Counting bytes costs much less than counting rows.
            return self.count(zone, column, groups, add);
        }
        let (Some(table), Some(counts)) = (&self.groups, &self.code_counts) else {
            return Ok(false);
        };
        let codes = 0..1 << packed.bits();
        for (&entry, &count) in table[codes.clone()].iter().zip(&counts[codes]) {
            if count > 0 {
                add(entry & !KNOWN, count);
            }
        }
        Ok(true)
    }

    /// Counts a zone's rows, all of which are selected: calls a function with each group and its
    /// rows. `false` if the key has no codes of few bits.
    pub(super) fn count(
        &mut self,
        zone: &Zone<'_>,
        column: usize,
        groups: &mut Groups,
        mut add: impl FnMut(u32, u32),
    ) -> Result<bool, VectorError> {
        let Some((packed, base)) = packed_key(zone, column) else {
            return Ok(false);
        };
        self.counts.clear();
        self.counts.resize(1 << packed.bits(), 0);
        if !packed.count_codes(zone.rows(), &mut self.counts)? {
            return Ok(false);
        }
        let table = Self::table(&mut self.groups);
        let unknown: Vec<u32> = (0u32..)
            .zip(table.iter().zip(&self.counts))
            .filter(|&(_, (&entry, &count))| count > 0 && entry == 0)
            .map(|(code, _)| code)
            .collect();
        meet(table, &unknown, packed, base, groups)?;
        for (&entry, &count) in table.iter().zip(&self.counts) {
            if count > 0 {
                add(entry & !KNOWN, count);
            }
        }
        Ok(true)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let tables = [&self.groups, &self.code_counts];
        let entries = tables.into_iter().flatten().count() * ENTRIES;
        let words = entries + self.counts.capacity() + self.codes.capacity();
        words * size_of::<u32>()
    }
}

/// Enters the groups of codes, each of which is given once.
fn meet(
    table: &mut [u32; ENTRIES],
    codes: &[u32],
    packed: &PackedNumbers,
    base: i64,
    groups: &mut Groups,
) -> Result<(), VectorError> {
    if codes.is_empty() {
        return Ok(());
    }
    let integers = codes.iter().map(|&code| base + i64::from(code));
    let keys = match packed.column_type() {
        ColumnType::Int16 => {
            Column::Int16(integers.map(|key| key as i16).collect::<Vec<_>>().into())
        }
        ColumnType::Int32 => {
            Column::Int32(integers.map(|key| key as i32).collect::<Vec<_>>().into())
        }
        _ => Column::Int64(integers.collect::<Vec<_>>().into()),
    };
    let mut ids = Vec::with_capacity(codes.len());
    groups.ids_of(&[keys], codes.len(), &mut ids)?;
    for (&code, id) in codes.iter().zip(ids) {
        table[code as usize] = id | KNOWN;
    }
    Ok(())
}

/// Appends the groups of codes; `false` if some are not known.
fn append_groups(table: &[u32; ENTRIES], codes: &[u32], ids: &mut Vec<u32>) -> bool {
    wide(
        #[inline(always)]
        move || {
            let mut all = KNOWN;
            ids.extend(codes.iter().map(|&code| {
                // Codes have no more bits.
                let entry = table[code as usize % ENTRIES];
                all &= entry;
                entry & !KNOWN
            }));
            all == KNOWN
        },
    )
}
