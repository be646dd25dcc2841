//! What readers ask the filter, and how a slot is built for a group that they ask about often.

use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{Ordering, fence};

use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::tid::RowNumber;

use super::slots::{MARK_FILTER, Shared, Slot, State};
use crate::bounded_cache::HashCache;
use crate::settings;
use crate::store::directory::{GroupEntry, GroupFlags};
use crate::store::marks::block_deletions::{key_ranges_of, rows_of};
use crate::store::marks::deletion_vector::{
    DELETION_VECTOR_ID, deletion_vectors_of, insert_rows, open_vector,
};
use crate::store::marks::group_name::{Name, now, position_of};
use crate::store::marks::row_mark::MARK_KEYS;
use crate::store::row_set::RowSet;

/// Look-ups in the index for rows of one group before its slot is built.
const LOOKS_BEFORE_BUILDING: u32 = 64;
/// Groups whose look-ups a backend counts.
const MOST_COUNTED: usize = 1024;

thread_local! {
    /// Look-ups in the index since a slot was last tried, by group.
    static LOOKS: RefCell<HashCache<Name, u32>> = RefCell::new(HashCache::of_entries(MOST_COUNTED));
}

/// As [`may_be_marked`], for a group of any flags.
#[inline]
pub(in crate::store) fn may_have_mark(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
    may_build: bool,
) -> bool {
    let flags = [
        GroupFlags::ROW_MARKS,
        GroupFlags::BLOCK_DELETIONS,
        GroupFlags::DELETION_VECTORS,
    ];
    flags.iter().any(|flag| entry.flags.contain(*flag))
        && may_be_marked(store, entry, row, may_build)
}

/// Whether there may be a mark of the row, of any transaction. `entry` is that of its group as it
/// is in the directory: writers of marks identify the group by it. After some look-ups in vain a
/// slot is built, where that is possible.
pub(in crate::store) fn may_be_marked(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
    may_build: bool,
) -> bool {
    let Some(shared) = MARK_FILTER.get() else {
        return true;
    };
    let name = Name::of(store, entry);
    fence(Ordering::SeqCst);
    let known = shared.may_have(&name, position_of(entry, row), now());
    known.unwrap_or_else(|| {
        if may_build && count_look(name) {
            build(shared, store, entry, &name);
        }
        true
    })
}

/// Whether the row is known to have no mark of any transaction, by the rules of [`may_be_marked`].
pub(in crate::store) fn is_surely_unmarked(
    file: StoreId,
    entry: &GroupEntry,
    row: RowNumber,
) -> bool {
    let Some(shared) = MARK_FILTER.get() else {
        return false;
    };
    let name = Name::in_file(file, entry.group());
    fence(Ordering::SeqCst);
    shared.may_have(&name, position_of(entry, row), now()) == Some(false)
}

/// How many of these rows, from the first one on, are known to have no mark.
pub(in crate::store) fn surely_unmarked_among(
    file: StoreId,
    entry: &GroupEntry,
    positions: Range<u32>,
) -> u32 {
    let Some(shared) = MARK_FILTER.get() else {
        return 0;
    };
    let name = Name::in_file(file, entry.group());
    let end = positions.end.min(entry.row_count);
    fence(Ordering::SeqCst);
    shared.unmarked_among(&name, positions.start..end, now())
}

/// Counts a look-up in the index; returns whether there were enough of them.
fn count_look(name: Name) -> bool {
    let enough = match settings::force_cold() {
        true => 1,
        false => LOOKS_BEFORE_BUILDING,
    };
    LOOKS.with_borrow_mut(|looks| {
        let count = (looks.get(&name).map_or(0, |count| *count) + 1) % enough;
        looks.insert(name, count);
        count == 0
    })
}

/// Reads which rows of the group have marks, unless the group has a slot or cannot get one.
fn build(shared: &Shared, store: &ColdStore, entry: &GroupEntry, name: &Name) {
    if howdah_bridge::xid::in_recovery() {
        return;
    }
    let Some((slot, version)) = shared.assign(name, entry.capacity_rows, now()) else {
        return;
    };
    let mut building = Building {
        slot,
        version,
        end: State::Free,
    };
    // Whatever flags the entry has: they may have been set since it was read.
    for (id, seqs) in MARK_KEYS.ranges(entry.first_row, entry.capacity_rows) {
        store.for_each_key(id, seqs, &mut |seq| {
            slot.set(position_of(entry, MARK_KEYS.row_of(id, seq)));
        });
    }
    let mut is_sound = true;
    for (id, seqs) in key_ranges_of(entry.first_row, entry.capacity_rows) {
        store.visit_by_page(id, seqs, &mut |shown| {
            match rows_of(entry.group(), id, &shown) {
                Ok(rows) => rows.for_each(|row| slot.set(position_of(entry, row))),
                // The reader of the mark will raise the error.
                Err(_) => is_sound = false,
            }
        });
    }
    store.visit(
        DELETION_VECTOR_ID,
        deletion_vectors_of(entry),
        &mut |shown| {
            match open_vector(entry.group(), shown.payload) {
                Ok(vector) => {
                    let mut rows = RowSet::with_bound(entry.capacity_rows);
                    insert_rows(entry, shown.seq, &vector.hidden(), &mut rows);
                    rows.iter().for_each(|position| slot.set(position));
                }
                Err(_) => is_sound = false,
            }
            ControlFlow::Continue(())
        },
    );
    if is_sound {
        building.end = State::Valid;
    }
}

/// A slot that is being built; freed if reading the marks fails.
struct Building<'a> {
    slot: &'a Slot,
    version: u64,
    end: State,
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.slot.advance(self.version, self.end);
    }
}
