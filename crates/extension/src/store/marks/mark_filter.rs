//! Rows that are known to have no mark, neither one of their own nor in a deletion vector: one bit
//! per row, in shared memory.
//!
//! Most rows of a group with marks have none. Each of them that is read by index would be looked up
//! in the store's index, which takes longer than the rest of the read. This cache remembers which
//! rows may have a mark. It answers "no mark", or it does not answer.
//!
//! ```text
//!   slot   free ─assigned─> building ─all marks read─> valid ─older than an hour, or needed─> free
//!   bits   one per row, set for every mark in the store, of any transaction, dead ones included
//! ```
//!
//! Invariant: when a slot is valid, every mark that is completely written has its bit. A writer of
//! a mark, or of a deletion vector of marks, sets the bits before and after the mark enters the
//! store. A builder publishes the slot as `building` with all bits clear, and reads marks and
//! deletion vectors afterwards. So a mark is either in the index before the builder reads it, or
//! its writer meets the slot when it sets the bit for the second time.
//!
//! A mark that is being written may lack its bit. Its transaction is in progress, and the answer
//! "no mark" is one that the reader could also have got a moment earlier. That is correct for each
//! kind of reader:
//! - an MVCC snapshot does not see the mark;
//! - a backend that has locked the row keeps the writer out;
//! - a check of uniqueness, which waits for writers, counts as earlier than this writer;
//! - a serializable transaction takes its SIREAD lock before it looks here, and the writer looks
//!   for such locks after it has set the bit.
//!
//! Bits are never cleared: VACUUM may remove marks, and a look-up in vain only costs time. Row
//! numbers are not used again, but names of files are, four billion objects later, or when a
//! database is created again from a template under the same OID. Hence the limit of an hour, and
//! [`forget`] for statements on databases. On a standby, marks arrive by WAL replay, which sets no
//! bits: no slot is built there. A crash empties shared memory.
//!
//! Locks: none. A reader compares `version` before and after it reads a bit. A bit that is set for
//! a group that has just lost its slot does no harm to the next group.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

use howdah_bridge::shared_memory::{Area, Shareable};
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::tid::RowNumber;
use howdah_columnar::MAX_ROWS;

use super::deletion_vector::{DELETION_VECTOR_ID, deletion_vectors_of, insert_rows, open_vector};
use super::row_mark::{key_ranges, row_of};
use crate::bounded_cache::HashCache;
use crate::settings;
use crate::store::directory::GroupEntry;
use crate::store::row_set::RowSet;

/// Groups that are remembered; 16 kB each.
const SLOTS: usize = 256;
/// Slots that a group may have.
const PROBES: usize = 4;
const WORDS: usize = MAX_ROWS / 64;
/// Look-ups in the index for rows of one group before its slot is built.
const LOOKS_BEFORE_BUILDING: u32 = 64;
/// Groups whose look-ups a backend counts.
const MOST_COUNTED: usize = 1024;

const MICROSECONDS: i64 = 1_000_000;
/// Far less than it takes to use up all names of files.
const EXPIRES_AFTER: i64 = 3_600 * MICROSECONDS;
/// A younger slot is not taken away for another group.
const KEPT_FOR: i64 = 10 * MICROSECONDS;
/// A builder that has not finished by then no longer exists.
const BUILT_WITHIN: i64 = 60 * MICROSECONDS;

/// The state of a slot, in the lowest bits of its version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free = 0,
    /// Being given to a group, by one process.
    Assigning = 1,
    Building = 2,
    Valid = 3,
}

impl State {
    const BITS: u32 = 2;

    fn of(version: u64) -> State {
        match version & 3 {
            0 => State::Free,
            1 => State::Assigning,
            2 => State::Building,
            _ => State::Valid,
        }
    }

    /// The same assignment in another state.
    fn put(self, version: u64) -> u64 {
        version >> State::BITS << State::BITS | self as u64
    }

    /// The next assignment.
    fn next(self, version: u64) -> u64 {
        ((version >> State::BITS) + 1) << State::BITS | self as u64
    }
}

/// A group of a file of a database.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Name {
    file: u64,
    place: u64,
}

impl Name {
    fn of(store: &ColdStore, entry: &GroupEntry) -> Name {
        Name::in_file(store.id(), entry.group())
    }

    fn in_file(store: StoreId, group: u32) -> Name {
        let database = howdah_bridge::xid::current_database().to_u32();
        Name {
            file: u64::from(store.toast) << 32 | u64::from(store.file),
            place: u64::from(database) << 32 | u64::from(group),
        }
    }

    /// The first of the slots that it may have.
    fn first_slot(&self) -> usize {
        let mixed = (self.file ^ self.place.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize % SLOTS
    }
}

#[repr(C)]
struct Slot {
    version: AtomicU64,
    file: AtomicU64,
    place: AtomicU64,
    /// When it was assigned, in PostgreSQL's microseconds.
    made: AtomicI64,
    /// Rows of the group; marks of rows beyond them were not looked for.
    rows: AtomicU64,
    bits: [AtomicU64; WORDS],
}

impl Slot {
    fn is_of(&self, name: &Name) -> bool {
        self.file.load(Ordering::Relaxed) == name.file
            && self.place.load(Ordering::Relaxed) == name.place
    }

    /// Whether the slot belongs to a group of the same file.
    fn is_in_file(&self, name: &Name) -> bool {
        self.file.load(Ordering::Relaxed) == name.file
            && self.place.load(Ordering::Relaxed) >> 32 == name.place >> 32
    }

    fn set(&self, position: u32) {
        let (word, bit) = (position as usize / 64, 1 << (position % 64));
        if let Some(word) = self.bits.get(word)
            && word.load(Ordering::Relaxed) & bit == 0
        {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Whether the row may have a mark; `None` if the slot cannot tell.
    fn may_have(&self, name: &Name, position: u32, now: i64) -> Option<bool> {
        let version = self.version.load(Ordering::Acquire);
        if State::of(version) != State::Valid || !self.is_of(name) {
            return None;
        }
        let too_old = now - self.made.load(Ordering::Relaxed) > EXPIRES_AFTER;
        if u64::from(position) >= self.rows.load(Ordering::Relaxed) {
            return None;
        }
        let word = self.bits.get(position as usize / 64)?;
        let is_set = word.load(Ordering::Acquire) >> (position % 64) & 1 == 1;
        fence(Ordering::Acquire);
        (!too_old && self.version.load(Ordering::Relaxed) == version).then_some(is_set)
    }

    /// Whether a slot of the group can be used, or soon will be.
    fn serves(&self, version: u64, now: i64) -> bool {
        let age = now - self.made.load(Ordering::Relaxed);
        match State::of(version) {
            State::Free => false,
            State::Assigning => true,
            State::Building => age <= BUILT_WITHIN,
            State::Valid => age <= EXPIRES_AFTER,
        }
    }

    /// Whether the slot may be assigned to another group.
    fn may_go(&self, version: u64, now: i64) -> bool {
        let age = now - self.made.load(Ordering::Relaxed);
        match State::of(version) {
            State::Free => true,
            // Only a process that was killed leaves a slot in this state, and then shared memory is
            // initialized anew.
            State::Assigning => false,
            State::Building => age > BUILT_WITHIN,
            State::Valid => age > KEPT_FOR,
        }
    }

    /// Assigns the slot to the group, with no bit set. Returns the new version, unless another
    /// process has changed the slot meanwhile.
    fn assign(&self, name: &Name, rows: u32, version: u64, now: i64) -> Option<u64> {
        let assigning = State::Assigning.next(version);
        let (taken, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        self.version
            .compare_exchange(version, assigning, taken, failed)
            .ok()?;
        fence(Ordering::SeqCst);
        self.file.store(name.file, Ordering::Relaxed);
        self.place.store(name.place, Ordering::Relaxed);
        self.made.store(now, Ordering::Relaxed);
        self.rows.store(u64::from(rows), Ordering::Relaxed);
        for word in &self.bits {
            word.store(0, Ordering::Relaxed);
        }
        let building = State::Building.put(assigning);
        self.version.store(building, Ordering::SeqCst);
        Some(building)
    }

    /// Frees the slot, unless it is being assigned.
    fn give_back(&self) {
        let version = self.version.load(Ordering::Acquire);
        if State::of(version) != State::Assigning {
            self.advance(version, State::Free);
        }
    }

    /// Sets another state, unless the slot was assigned again meanwhile.
    fn advance(&self, version: u64, state: State) {
        let (taken, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = self
            .version
            .compare_exchange(version, state.put(version), taken, failed);
    }
}

#[repr(C)]
pub struct Shared {
    slots: [Slot; SLOTS],
}

impl Shared {
    fn slots_of(&self, name: &Name) -> impl Iterator<Item = &Slot> {
        let first = name.first_slot();
        (0..PROBES).map(move |i| &self.slots[(first + i) % SLOTS])
    }

    /// Assigns a slot to the group unless it has one: a free one, or the oldest that may go.
    fn assign(&self, name: &Name, rows: u32, now: i64) -> Option<(&Slot, u64)> {
        let mut best: Option<(&Slot, u64, i64)> = None;
        for slot in self.slots_of(name) {
            let version = slot.version.load(Ordering::Acquire);
            if slot.is_of(name) && slot.serves(version, now) {
                return None;
            }
            let made = match State::of(version) {
                State::Free => i64::MIN,
                _ => slot.made.load(Ordering::Relaxed),
            };
            if slot.may_go(version, now) && best.is_none_or(|(_, _, oldest)| made < oldest) {
                best = Some((slot, version, made));
            }
        }
        let (slot, version, _) = best?;
        let version = slot.assign(name, rows, version, now)?;
        Some((slot, version))
    }

    fn set(&self, name: &Name, position: u32) {
        // All of them: two processes may each have built one.
        for slot in self.slots_of(name) {
            if slot.is_of(name) {
                slot.set(position);
            }
        }
    }

    fn may_have(&self, name: &Name, position: u32, now: i64) -> Option<bool> {
        self.slots_of(name)
            .find_map(|slot| slot.may_have(name, position, now))
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

// SAFETY: consists of atomics.
unsafe impl Shareable for Shared {}

pub static MARK_FILTER: Area<Shared> = Area::new(c"howdah unmarked rows");

thread_local! {
    /// Look-ups in the index since a slot was last tried, by group.
    static LOOKS: RefCell<HashCache<Name, u32>> = RefCell::new(HashCache::of_entries(MOST_COUNTED));
}

/// When the current statement began: precise enough, without a call for the time.
fn now() -> i64 {
    howdah_bridge::xid::statement_start()
}

fn position_of(entry: &GroupEntry, row: RowNumber) -> u32 {
    (row.0 - entry.first_row.0) as u32
}

/// To be called before and after marks of the rows at these positions of the group enter the store.
pub(super) fn note_marks(
    store: &ColdStore,
    entry: &GroupEntry,
    positions: impl IntoIterator<Item = u32>,
) {
    fence(Ordering::SeqCst);
    if let Some(shared) = MARK_FILTER.get() {
        let name = Name::of(store, entry);
        for position in positions {
            shared.set(&name, position);
        }
    }
}

/// To be called when marks of a group were copied into a store that no other backend can see yet.
pub(super) fn forget_group(store: &ColdStore, entry: &GroupEntry) {
    if let Some(shared) = MARK_FILTER.get() {
        let name = Name::of(store, entry);
        for slot in shared.slots_of(&name).filter(|slot| slot.is_of(&name)) {
            slot.give_back();
        }
    }
}

/// Frees the slots of a file that is truncated in place. They would only lead to look-ups in vain,
/// as their bits are never cleared, but no new ones are built while they exist.
pub(super) fn forget_file(file: StoreId) {
    let Some(shared) = MARK_FILTER.get() else {
        return;
    };
    let any_group = Name::in_file(file, 0);
    for slot in shared
        .slots
        .iter()
        .filter(|slot| slot.is_in_file(&any_group))
    {
        slot.give_back();
    }
}

/// Whether there may be a mark of the row, of any transaction. `entry` is that of its group as it
/// is in the directory: writers of marks identify the group by it. After some look-ups in vain a
/// slot is built, where that is possible.
pub(super) fn may_be_marked(
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
pub(super) fn is_surely_unmarked(file: StoreId, entry: &GroupEntry, row: RowNumber) -> bool {
    let Some(shared) = MARK_FILTER.get() else {
        return false;
    };
    let name = Name::in_file(file, entry.group());
    fence(Ordering::SeqCst);
    shared.may_have(&name, position_of(entry, row), now()) == Some(false)
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
    for (id, seqs) in key_ranges(entry.first_row, entry.capacity_rows) {
        store.for_each_key(id, seqs, &mut |seq| {
            slot.set(position_of(entry, row_of(id, seq)));
        });
    }
    let mut is_sound = true;
    // Whatever flags the entry has: they may have been set since it was read.
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
                // Whoever looks will say so.
                Err(_) => is_sound = false,
            }
            ControlFlow::Continue(())
        },
    );
    if is_sound {
        building.end = State::Valid;
    }
}

/// Discards everything: names of files may be used again.
pub fn forget() {
    let Some(shared) = MARK_FILTER.get() else {
        return;
    };
    shared.slots.iter().for_each(Slot::give_back);
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc_zeroed};
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    const ROWS: u32 = MAX_ROWS as u32 - 64;

    fn memory() -> Box<Shared> {
        // SAFETY: zeroed bytes are a valid `Shared`; the layout is that of the box.
        unsafe { Box::from_raw(alloc_zeroed(Layout::new::<Shared>()).cast()) }
    }

    fn name(group: u64) -> Name {
        Name {
            file: 7 << 32 | 9,
            place: 5 << 32 | group,
        }
    }

    /// Assigns a valid slot with some bits set to the group.
    fn make(shared: &Shared, group: u64, marked: &[u32], now: i64) -> bool {
        let Some((slot, version)) = shared.assign(&name(group), ROWS, now) else {
            return false;
        };
        marked.iter().for_each(|&position| slot.set(position));
        slot.advance(version, State::Valid);
        true
    }

    #[test]
    fn only_valid_slots_speak() {
        let shared = memory();
        assert_eq!(shared.may_have(&name(0), 3, 0), None);
        let (slot, version) = shared.assign(&name(0), ROWS, 0).unwrap();
        shared.set(&name(0), 3);
        assert_eq!(shared.may_have(&name(0), 3, 0), None);
        slot.advance(version, State::Valid);
        assert_eq!(shared.may_have(&name(0), 3, 0), Some(true));
        assert_eq!(shared.may_have(&name(0), 4, 0), Some(false));
        assert_eq!(shared.may_have(&name(0), ROWS, 0), None, "behind the group");
        shared.set(&name(0), MAX_ROWS as u32);
        assert_eq!(shared.may_have(&name(1), 3, 0), None);
    }

    #[test]
    fn slots_expire_and_are_made_anew() {
        let shared = memory();
        assert!(make(&shared, 0, &[3], 0));
        assert!(!make(&shared, 0, &[], EXPIRES_AFTER), "the group has one");
        let later = EXPIRES_AFTER + 1;
        assert_eq!(shared.may_have(&name(0), 3, later), None);
        assert!(make(&shared, 0, &[4], later));
        assert_eq!(shared.may_have(&name(0), 3, later), Some(false));
        assert_eq!(shared.may_have(&name(0), 4, later), Some(true));
    }

    #[test]
    fn a_builder_that_is_gone_is_succeeded_and_cannot_come_back() {
        let shared = memory();
        let (slot, version) = shared.assign(&name(0), ROWS, 0).unwrap();
        assert!(!make(&shared, 0, &[], BUILT_WITHIN));
        let now = BUILT_WITHIN + 1;
        assert!(slot.may_go(version, now));
        let next = slot.assign(&name(1), ROWS, version, now).unwrap();
        slot.advance(version, State::Valid);
        assert!(State::of(slot.version.load(Ordering::Relaxed)) == State::Building);
        slot.advance(next, State::Valid);
        assert_eq!(slot.may_have(&name(1), 3, now), Some(false));
        assert_eq!(slot.may_have(&name(0), 3, now), None);
        assert!(make(&shared, 0, &[3], now), "in another slot");
        assert_eq!(shared.may_have(&name(0), 3, now), Some(true));
    }

    #[test]
    fn young_slots_stay_and_old_ones_give_way() {
        let shared = memory();
        let rivals: Vec<u64> = (0..)
            .filter(|&group| name(group).first_slot() == name(0).first_slot())
            .take(PROBES + 1)
            .collect();
        for (at, &group) in rivals[..PROBES].iter().enumerate() {
            assert!(make(&shared, group, &[1], at as i64));
        }
        let last = rivals[PROBES];
        assert!(!make(&shared, last, &[2], KEPT_FOR));
        assert!(make(&shared, last, &[2], KEPT_FOR + 1));
        assert_eq!(shared.may_have(&name(last), 1, KEPT_FOR), Some(false));
        assert_eq!(shared.may_have(&name(rivals[0]), 1, KEPT_FOR), None);
        assert_eq!(shared.may_have(&name(rivals[1]), 1, KEPT_FOR), Some(true));
    }

    /// One process frees the slot and assigns it again over and over. Others mark rows, one of them
    /// in an index of its own that builders read. No marked row may be reported as having no mark.
    #[test]
    fn a_row_that_was_marked_is_never_said_to_have_no_mark() {
        let (shared, index) = (memory(), memory());
        let (rounds, rows) = (300, 4_096_u32);
        let begin = Barrier::new(4);
        let index = &index.slots[0];
        let is_in_index =
            |row: u32| index.bits[row as usize / 64].load(Ordering::SeqCst) >> (row % 64) & 1 == 1;
        thread::scope(|scope| {
            for writer in 0..2 {
                let (shared, begin) = (&shared, &begin);
                scope.spawn(move || {
                    begin.wait();
                    for row in (writer..rows).step_by(2) {
                        shared.set(&name(0), row);
                        index.set(row);
                        fence(Ordering::SeqCst);
                        shared.set(&name(0), row);
                        // From here on the mark is completely written.
                        assert_ne!(shared.may_have(&name(0), row, 0), Some(false));
                        std::hint::spin_loop();
                    }
                });
            }
            scope.spawn(|| {
                begin.wait();
                for round in 0..rounds {
                    let now = i64::from(round) * (EXPIRES_AFTER + 1);
                    let Some((slot, version)) = shared.assign(&name(0), ROWS, now) else {
                        continue;
                    };
                    (0..rows)
                        .filter(|&row| is_in_index(row))
                        .for_each(|row| slot.set(row));
                    slot.advance(version, State::Valid);
                }
            });
            begin.wait();
        });
        let said: Vec<_> = (0..rows)
            .filter(|&row| shared.may_have(&name(0), row, 0) == Some(false))
            .collect();
        assert!(said.is_empty(), "{said:?}");
    }
}
