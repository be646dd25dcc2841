//! Groups by key: each new key gets the next number. States of groups are in arrays by number.
//!
//! ```text
//!   key columns ─layout─▶ words or bytes ─┬─slots──▶ group of each row
//!                         close integers ─┴─dense──▶
//! ```
//!
//! No step takes long, whatever the number of groups: a run that is to stop asks between batches.
//! So a dense table of many groups is not turned into slots when an integer lies too far away: it
//! keeps what it covers, and slots take the others.

mod dense;
mod layout;
mod slots;

use std::hash::Hasher;

use howdah_columnar::{Column, Numeric};
use rustc_hash::FxHasher;

use dense::Dense;
pub(crate) use layout::KeyLayout;
use layout::{Form, KeyWord};
use slots::{Slot, Slots};

use crate::error::VectorError;

/// The keys of the groups so far.
pub(crate) struct Groups {
    layout: KeyLayout,
    /// Integers, while they lie close together: `slots` is empty then, or holds those that this
    /// table does not cover.
    dense: Option<Dense>,
    slots: Slots,
    store: Store,
    /// The group of a single key's NULL.
    null_group: Option<u32>,
    /// How equal values that look different are shown. Of each numeric key: the scale of a group's;
    /// of each float: whether a group's zero is negative. What was not met is `u16::MAX`.
    shown: Vec<(usize, Vec<u16>)>,
    count: usize,
    /// Room for the words of a batch.
    words: Vec<u64>,
    wides: Vec<u128>,
    /// Room for the keys of a batch as bytes.
    rows: ByteKeys,
}

/// Keys by group.
enum Store {
    Words(Vec<u64>),
    Wides(Vec<u128>),
    Bytes(ByteKeys),
}

/// Keys as bytes, one after the other.
#[derive(Default)]
struct ByteKeys {
    data: Vec<u8>,
    /// One past the last byte of each key.
    ends: Vec<usize>,
}

impl ByteKeys {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, key: usize) -> &[u8] {
        let start = if key == 0 { 0 } else { self.ends[key - 1] };
        &self.data[start..self.ends[key]]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.ends.push(self.data.len());
    }

    fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
    }

    fn memory_bytes(&self) -> usize {
        self.data.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

fn tag_of_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// The memory of slots that processors' own caches may hold.
const CACHED_BYTES: usize = 2 << 20;

/// Keys whose slots are read before any of them is tested.
const BATCH: usize = 32;

/// The group of a key that has none.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// The tag of a word: short in tests, unless it must tell the word.
#[inline(always)]
fn tag_of_word<W: KeyWord>(slots: &Slots, word: W) -> u64 {
    match W::TAG_TELLS {
        true => word.tag(),
        false => slots.shortened(word.tag()),
    }
}

/// Groups of words: those of valid rows by the table, the others are one group.
fn ids_of_words<W: KeyWord>(
    slots: &mut Slots,
    store: &mut Vec<W>,
    words: &[W],
    ids: &mut Vec<u32>,
) {
    for words in words.chunks(BATCH) {
        let mut glances = [Slot::default(); BATCH];
        for (glance, word) in glances.iter_mut().zip(words) {
            *glance = slots.glance(tag_of_word(slots, *word));
        }
        for (glance, &word) in glances.iter().zip(words) {
            let tag = tag_of_word(slots, word);
            if let Some(group) = glance.group_of(tag)
                && (W::TAG_TELLS || store[group as usize] == word)
            {
                ids.push(group);
                continue;
            }
            let next = store.len() as u32;
            let is_same = |group: u32| W::TAG_TELLS || store[group as usize] == word;
            let (group, is_new) = slots.find_or_insert(tag, next, is_same);
            if is_new {
                store.push(word);
            }
            ids.push(group);
        }
    }
}

/// Groups of words that have one; [`NO_GROUP`] for the others.
fn find_words<W: KeyWord>(slots: &Slots, store: &[W], words: &[W], ids: &mut Vec<u32>) {
    for words in words.chunks(BATCH) {
        let mut glances = [Slot::default(); BATCH];
        for (glance, word) in glances.iter_mut().zip(words) {
            *glance = slots.glance(tag_of_word(slots, *word));
        }
        for (glance, &word) in glances.iter().zip(words) {
            let tag = tag_of_word(slots, word);
            let is_same = |group: u32| W::TAG_TELLS || store[group as usize] == word;
            let group = match glance.group_of(tag) {
                Some(group) if is_same(group) => Some(group),
                _ => slots.find(tag, is_same),
            };
            ids.push(group.unwrap_or(NO_GROUP));
        }
    }
}

/// Groups of integers that lie close together, which are hashed instead if one lies too far away.
const MOST_HASHED_ANEW: usize = 1 << 16;

/// Groups of words, of integers that lie close together by their place.
fn ids_of_integers(
    dense: &mut Option<Dense>,
    slots: &mut Slots,
    null_group: Option<u32>,
    store: &mut Vec<u64>,
    words: &[u64],
    ids: &mut Vec<u32>,
) {
    if let Some(table) = dense {
        if table.cover(words, store.len()) {
            table.ids_of(words, store, ids);
            return;
        }
        if store.len() > MOST_HASHED_ANEW {
            table.close();
            ids_of_both(table, slots, store, words, ids);
            return;
        }
        *dense = None;
        slots.reserve(store.len());
        for (group, word) in (0u32..).zip(store.iter()) {
            if null_group != Some(group) {
                slots.find_or_insert(word.tag(), group, |_| true);
            }
        }
    }
    ids_of_words(slots, store, words, ids);
}

/// Groups of integers, some of which a closed table covers.
fn ids_of_both(
    dense: &mut Dense,
    slots: &mut Slots,
    store: &mut Vec<u64>,
    words: &[u64],
    ids: &mut Vec<u32>,
) {
    for words in words.chunks(BATCH) {
        let mut glances = [Slot::default(); BATCH];
        for (glance, &word) in glances.iter_mut().zip(words) {
            *glance = match dense.covers(word) {
                true => Slot::of(word.tag(), dense.find(word)),
                false => slots.glance(word.tag()),
            };
        }
        for (glance, &word) in glances.iter().zip(words) {
            if let Some(group) = glance.group_of(word.tag()) {
                ids.push(group);
            } else if dense.covers(word) {
                dense.ids_of(&[word], store, ids);
            } else {
                let next = store.len() as u32;
                let (group, is_new) = slots.find_or_insert(word.tag(), next, |_| true);
                if is_new {
                    store.push(word);
                }
                ids.push(group);
            }
        }
    }
}

impl Groups {
    /// `hash_bits`: how many bits of hashes are used; with fewer than all, integers are hashed,
    /// too. `lookup_bytes`: memory that is granted for looking integers up, whatever the number
    /// of groups.
    pub(crate) fn new(layout: &KeyLayout, hash_bits: u32, lookup_bytes: usize) -> Self {
        let granted_entries = lookup_bytes / size_of::<u32>();
        let bits = layout.integer_bits().filter(|_| hash_bits == u64::BITS);
        Self {
            dense: bits.map(|bits| Dense::new(bits, granted_entries)),
            layout: layout.clone(),
            slots: Slots::new(hash_bits),
            store: match layout.form {
                Form::Word => Store::Words(Vec::new()),
                Form::Wide => Store::Wides(Vec::new()),
                Form::Bytes => Store::Bytes(ByteKeys::default()),
            },
            null_group: None,
            shown: layout.looks().map(|key| (key, Vec::new())).collect(),
            count: 0,
            words: Vec::new(),
            wides: Vec::new(),
            rows: ByteKeys::default(),
        }
    }

    /// Groups so far.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The groups of a batch's rows, of which there are so many.
    pub(crate) fn ids_of(
        &mut self,
        keys: &[Column],
        row_count: usize,
        ids: &mut Vec<u32>,
    ) -> Result<(), VectorError> {
        ids.clear();
        if let [key] = keys
            && let Some(nulls) = key.nulls().filter(|nulls| nulls.null_count() > 0)
            && self.layout.form != Form::Bytes
        {
            let valid: Vec<u32> = nulls.valid_indices().map(|row| row as u32).collect();
            let values = crate::expr::take(key, &valid)?;
            let mut of_valid = Vec::with_capacity(valid.len());
            self.ids_of(&[values], valid.len(), &mut of_valid)?;
            ids.resize(row_count, self.null_group());
            for (&row, id) in valid.iter().zip(of_valid) {
                ids[row as usize] = id;
            }
            return Ok(());
        }
        match &mut self.store {
            Store::Words(store) => {
                self.layout.words(keys, row_count, &mut self.words)?;
                ids_of_integers(
                    &mut self.dense,
                    &mut self.slots,
                    self.null_group,
                    store,
                    &self.words,
                    ids,
                );
                self.count = store.len();
            }
            Store::Wides(store) => {
                self.layout.words(keys, row_count, &mut self.wides)?;
                ids_of_words(&mut self.slots, store, &self.wides, ids);
                self.count = store.len();
            }
            Store::Bytes(_) => {
                let mut rows = std::mem::take(&mut self.rows);
                for start in (0..row_count).step_by(BATCH) {
                    rows.clear();
                    for row in start..row_count.min(start + BATCH) {
                        self.layout.put_bytes(keys, row, &mut rows.data)?;
                        rows.ends.push(rows.data.len());
                    }
                    self.ids_of_bytes(&rows, ids);
                }
                self.rows = rows;
            }
        }
        self.note_looks(keys, ids);
        Ok(())
    }

    /// The group of a single key's NULL. Its word is never read.
    fn null_group(&mut self) -> u32 {
        if let Some(group) = self.null_group {
            return group;
        }
        let group = self.count as u32;
        match &mut self.store {
            Store::Words(words) => words.push(0),
            Store::Wides(words) => words.push(0),
            Store::Bytes(keys) => keys.push(&[]),
        }
        self.count += 1;
        self.null_group = Some(group);
        group
    }

    /// The groups of at most [`BATCH`] keys.
    fn ids_of_bytes(&mut self, rows: &ByteKeys, ids: &mut Vec<u32>) {
        let Store::Bytes(keys) = &mut self.store else {
            return;
        };
        let (mut tags, mut glances) = ([0; BATCH], [Slot::default(); BATCH]);
        for (row, (tag, glance)) in (0..rows.len()).zip(tags.iter_mut().zip(&mut glances)) {
            *tag = self.slots.shortened(tag_of_bytes(rows.get(row)));
            *glance = self.slots.glance(*tag);
        }
        for (row, (&tag, glance)) in (0..rows.len()).zip(tags.iter().zip(&glances)) {
            let bytes = rows.get(row);
            let is_same = |group: u32| keys.get(group as usize) == bytes;
            if let Some(group) = glance.group_of(tag).filter(|&group| is_same(group)) {
                ids.push(group);
                continue;
            }
            let next = keys.len() as u32;
            let (group, is_new) = self.slots.find_or_insert(tag, next, is_same);
            if is_new {
                keys.push(bytes);
            }
            ids.push(group);
        }
        self.count = keys.len();
    }

    /// Keeps the least scale of equal numerics and the positive one of both zeros, so that it does
    /// not depend on the order of rows.
    fn note_looks(&mut self, keys: &[Column], ids: &[u32]) {
        for (key, shown) in &mut self.shown {
            shown.resize(self.count, u16::MAX);
            let mut note = |row: usize, look: u16| {
                let shown = &mut shown[ids[row] as usize];
                *shown = (*shown).min(look);
            };
            macro_rules! zeros {
                ($array:expr) => {
                    for (row, &value) in $array.values().iter().enumerate() {
                        if value == 0.0 {
                            note(row, value.is_sign_negative().into());
                        }
                    }
                };
            }
            match &keys[*key] {
                Column::Numeric(column) => {
                    for row in 0..ids.len() {
                        if let Some(Numeric::Small { scale, .. }) = column.value(row) {
                            note(row, scale);
                        }
                    }
                }
                Column::Float32(array) => zeros!(array),
                Column::Float64(array) => zeros!(array),
                _ => {}
            }
        }
    }

    /// Which of `part_count` parts a group belongs to, by the hash of its key: the same in all
    /// tables.
    pub(crate) fn part_of(&self, group: u32, part_count: usize) -> usize {
        let at = group as usize;
        let tag = match &self.store {
            _ if self.null_group == Some(group) => 0,
            Store::Words(words) => words[at].tag(),
            Store::Wides(words) => words[at].tag(),
            Store::Bytes(keys) => tag_of_bytes(keys.get(at)),
        };
        // The upper bits choose the place within a table. These 32 are a fraction of the parts.
        let fraction = u64::from((slots::mixed(tag) >> 8) as u32);
        ((fraction * part_count as u64) >> 32) as usize
    }

    /// Enters groups of another table of the same layout and appends the groups that they are here.
    pub(crate) fn absorb(&mut self, other: &Self, groups: &[u32], ids: &mut Vec<u32>) {
        let first = ids.len();
        let null_at = groups
            .iter()
            .position(|&group| other.null_group == Some(group));
        let keyed = groups
            .iter()
            .filter(|&&group| other.null_group != Some(group))
            .map(|&group| group as usize);
        match (&mut self.store, &other.store) {
            (Store::Words(here), Store::Words(there)) => {
                self.words.clear();
                self.words.extend(keyed.map(|group| there[group]));
                ids_of_integers(
                    &mut self.dense,
                    &mut self.slots,
                    self.null_group,
                    here,
                    &self.words,
                    ids,
                );
                self.count = here.len();
            }
            (Store::Wides(here), Store::Wides(there)) => {
                self.wides.clear();
                self.wides.extend(keyed.map(|group| there[group]));
                ids_of_words(&mut self.slots, here, &self.wides, ids);
                self.count = here.len();
            }
            (Store::Bytes(_), Store::Bytes(there)) => {
                let mut rows = std::mem::take(&mut self.rows);
                let keyed: Vec<usize> = keyed.collect();
                for batch in keyed.chunks(BATCH) {
                    rows.clear();
                    batch.iter().for_each(|&group| rows.push(there.get(group)));
                    self.ids_of_bytes(&rows, ids);
                }
                self.rows = rows;
            }
            // Tables of one query have one layout.
            _ => ids.extend(keyed.map(|_| 0)),
        }
        if let Some(at) = null_at {
            let group = self.null_group();
            ids.insert(first + at, group);
        }
        self.merge_looks(other, &ids[first..], groups);
    }

    /// Appends what groups of another table of the same layout are here; [`NO_GROUP`] for those
    /// whose key is unknown here.
    pub(crate) fn find(&self, other: &Self, groups: &[u32], ids: &mut Vec<u32>) {
        let first = ids.len();
        match (&self.store, &other.store) {
            (Store::Words(here), Store::Words(there)) => {
                let words = groups.iter().map(|&group| there[group as usize]);
                match &self.dense {
                    Some(dense) => ids.extend(words.map(|word| {
                        let found = dense.find(word);
                        let found = found.or_else(|| self.slots.find(word.tag(), |_| true));
                        found.unwrap_or(NO_GROUP)
                    })),
                    None => find_words(&self.slots, here, &words.collect::<Vec<_>>(), ids),
                }
            }
            (Store::Wides(here), Store::Wides(there)) => {
                let words = groups.iter().map(|&group| there[group as usize]);
                find_words(&self.slots, here, &words.collect::<Vec<_>>(), ids);
            }
            (Store::Bytes(here), Store::Bytes(there)) => {
                ids.extend(groups.iter().map(|&group| {
                    let bytes = there.get(group as usize);
                    let is_same = |group: u32| here.get(group as usize) == bytes;
                    let tag = self.slots.shortened(tag_of_bytes(bytes));
                    self.slots.find(tag, is_same).unwrap_or(NO_GROUP)
                }));
            }
            // Tables of one query have one layout.
            _ => ids.extend(groups.iter().map(|_| NO_GROUP)),
        }
        if let Some(null) = other.null_group {
            // What its word was looked up as means nothing.
            for (id, _) in ids[first..]
                .iter_mut()
                .zip(groups)
                .filter(|(_, group)| **group == null)
            {
                *id = self.null_group.unwrap_or(NO_GROUP);
            }
        }
    }

    /// Keeps how the keys of groups look, and those of another table that are merged into them.
    pub(crate) fn merge_looks(&mut self, other: &Self, ids: &[u32], groups: &[u32]) {
        for ((_, here), (_, there)) in self.shown.iter_mut().zip(&other.shown) {
            here.resize(self.count, u16::MAX);
            for (&id, &group) in ids.iter().zip(groups) {
                let shown = &mut here[id as usize];
                // The group of a NULL may be newer than what was noted.
                *shown = (*shown).min(there.get(group as usize).copied().unwrap_or(u16::MAX));
            }
        }
    }

    /// How a group's key looks.
    fn look(&self, key: usize, group: u32) -> u16 {
        let noted = self.shown.iter().find(|(noted, _)| *noted == key);
        let look = noted.and_then(|(_, shown)| shown.get(group as usize));
        look.copied().unwrap_or(u16::MAX)
    }

    /// The keys of groups.
    pub(crate) fn columns(&self, groups: &[u32]) -> Result<Vec<Column>, VectorError> {
        let numbers = groups.iter().copied();
        let is_null = |group: u32| self.null_group == Some(group);
        let look = |key: usize, at: usize| self.look(key, groups[at]);
        match &self.store {
            Store::Words(words) => {
                let words = numbers.map(|group| (!is_null(group)).then(|| words[group as usize]));
                self.layout.columns_of_words(words, look)
            }
            Store::Wides(words) => {
                let words = numbers.map(|group| (!is_null(group)).then(|| words[group as usize]));
                self.layout.columns_of_words(words, look)
            }
            Store::Bytes(keys) => {
                let keys: Vec<&[u8]> = numbers.map(|group| keys.get(group as usize)).collect();
                self.layout.columns_of_bytes(&keys, look)
            }
        }
    }

    /// Whether the table is so large that most of its slots are in no cache.
    pub(crate) fn hashes_many(&self) -> bool {
        self.slots.memory_bytes() > CACHED_BYTES
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        let store = match &self.store {
            Store::Words(words) => words.capacity() * size_of::<u64>(),
            Store::Wides(words) => words.capacity() * size_of::<u128>(),
            Store::Bytes(keys) => keys.memory_bytes(),
        };
        let shown = (self.shown.iter()).map(|(_, shown)| shown.capacity() * size_of::<u16>());
        let dense = self.dense.as_ref().map_or(0, Dense::memory_bytes);
        self.slots.memory_bytes() + self.rows.memory_bytes() + dense + store + shown.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use howdah_columnar::ColumnType;

    use super::*;

    fn ids_of(groups: &mut Groups, keys: &[i64]) -> Result<Vec<u32>, VectorError> {
        let mut ids = Vec::new();
        let column = Column::Int64(keys.to_vec().into());
        groups.ids_of(&[column], keys.len(), &mut ids)?;
        Ok(ids)
    }

    fn of_integers() -> Groups {
        let layout = KeyLayout::new(&[ColumnType::Int64]);
        Groups::new(&layout, u64::BITS, 64 << 20)
    }

    #[test]
    fn many_close_integers_keep_their_places_when_one_lies_far_away() -> Result<(), VectorError> {
        for count in [MOST_HASHED_ANEW / 2, MOST_HASHED_ANEW * 4] {
            let close: Vec<i64> = (0..count as i64).map(|at| at * 3 - 1_000).collect();
            let mut groups = of_integers();
            let ids = ids_of(&mut groups, &close)?;
            assert!(ids.iter().copied().eq(0..count as u32));
            // Known ones, new ones between them, and far ones, each twice in a batch.
            let mixed: Vec<i64> = (0..20_000)
                .map(|at| match at % 4 {
                    0 => close[at as usize * 2 % count],
                    1 => close[at as usize] + 1,
                    _ => i64::MAX - at / 3,
                })
                .collect();
            let ids = ids_of(&mut groups, &mixed)?;
            let is_kept = count > MOST_HASHED_ANEW;
            assert_eq!(groups.dense.is_some(), is_kept, "{count} groups");
            assert_eq!(ids_of(&mut groups, &mixed)?, ids);
            assert!(ids_of(&mut groups, &close)?.into_iter().eq(0..count as u32));
            let all: Vec<u32> = (0..groups.len() as u32).collect();
            let [Column::Int64(keys)] = &groups.columns(&all)?[..] else {
                panic!("one column of integers");
            };
            for (key, id) in mixed.iter().zip(&ids) {
                assert_eq!(keys.value(*id as usize), *key);
            }
            let distinct: std::collections::HashSet<i64> = keys.values().iter().copied().collect();
            assert_eq!(distinct.len(), groups.len());
            // What another table finds in it, and takes from it.
            let mut other = of_integers();
            ids_of(&mut other, &[i64::MIN, -1_000, -999, i64::MAX - 3])?;
            let (mut found, mut absorbed) = (Vec::new(), Vec::new());
            groups.find(&other, &[0, 1, 3], &mut found);
            let known = |key: i64| keys.values().iter().position(|&known| known == key);
            assert_eq!(found[0], NO_GROUP);
            assert_eq!(Some(found[1] as usize), known(-1_000));
            assert_eq!(Some(found[2] as usize), known(i64::MAX - 3));
            other.absorb(&groups, &all, &mut absorbed);
            assert_eq!(absorbed[found[1] as usize], 1);
            assert_eq!(absorbed[found[2] as usize], 3);
            assert_eq!(other.len(), groups.len() + 2);
        }
        Ok(())
    }

    #[test]
    fn a_zero_is_negative_where_no_other_was_met() -> Result<(), VectorError> {
        use ColumnType::{Float32, Float64, Int64, Text};
        for types in [&[Float64][..], &[Float64, Int64], &[Float64, Float32, Text]] {
            let layout = KeyLayout::new(types);
            let keys = |zeros: &[Option<f64>]| -> Vec<Column> {
                let column = |ty: &ColumnType| match ty {
                    Float64 => Column::Float64(zeros.to_vec().into()),
                    Float32 => Column::Float32(vec![-0.0; zeros.len()].into()),
                    Int64 => Column::Int64(vec![7; zeros.len()].into()),
                    _ => Column::Text(vec!["x"; zeros.len()].into()),
                };
                types.iter().map(column).collect()
            };
            let shown = |groups: &Groups| -> Result<Vec<String>, VectorError> {
                let all: Vec<u32> = (0..groups.len() as u32).collect();
                let columns = groups.columns(&all)?;
                if let Some(Column::Float32(zeros)) = columns.get(1) {
                    assert!(zeros.values().iter().all(|zero| zero.is_sign_negative()));
                }
                let Column::Float64(zeros) = &columns[0] else {
                    panic!("a column of floats");
                };
                Ok(zeros.iter().map(|zero| format!("{zero:?}")).collect())
            };
            let mut ids = Vec::new();
            let mut negative = Groups::new(&layout, u64::BITS, 0);
            negative.ids_of(
                &keys(&[Some(-0.0), None, Some(1.0), Some(-0.0)]),
                4,
                &mut ids,
            )?;
            let mut found = shown(&negative)?;
            found.sort();
            assert_eq!(found, ["None", "Some(-0.0)", "Some(1.0)"], "{types:?}");
            let mut both = Groups::new(&layout, u64::BITS, 0);
            both.ids_of(&keys(&[Some(-0.0), Some(0.0), Some(-0.0)]), 3, &mut ids)?;
            assert_eq!(shown(&both)?, ["Some(0.0)"], "{types:?}");
            // Taken into another table.
            for (table, first) in [(&negative, "Some(-0.0)"), (&both, "Some(0.0)")] {
                let mut taken = Groups::new(&layout, u64::BITS, 0);
                let all: Vec<u32> = (0..table.len() as u32).collect();
                taken.absorb(table, &all, &mut Vec::new());
                assert!(shown(&taken)?.contains(&first.into()), "{types:?}");
                taken.absorb(&both, &[0], &mut Vec::new());
                assert!(shown(&taken)?.contains(&"Some(0.0)".into()), "{types:?}");
            }
        }
        Ok(())
    }
}
