//! The shared memory of the mark filter: slots that groups are given in turn, with a bit per row.
//!
//! Locks: none. A reader compares `version` before and after it reads a bit. A bit that is set for
//! a group that has just lost its slot does no harm to the next group.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

use howdah_bridge::shared_memory::{Area, Shareable};
use howdah_columnar::MAX_ROWS;

use crate::store::marks::group_name::{EXPIRES_AFTER, MICROSECONDS, Name};

/// Groups that are remembered, 16 kB each: 67 million rows.
const SLOTS: usize = 512;
/// Slots that a group may have.
const PROBES: usize = 4;
const WORDS: usize = MAX_ROWS / 64;
/// A younger slot is not taken away for another group.
const KEPT_FOR: i64 = 10 * MICROSECONDS;
/// A builder that has not finished by then no longer exists.
const BUILT_WITHIN: i64 = 60 * MICROSECONDS;

/// The state of a slot, in the lowest bits of its version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
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

#[repr(C)]
pub(super) struct Slot {
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
    pub(super) fn is_of(&self, name: &Name) -> bool {
        self.file.load(Ordering::Relaxed) == name.file
            && self.place.load(Ordering::Relaxed) == name.place
    }

    /// Whether the slot belongs to a group of the same file.
    pub(super) fn is_in_file(&self, name: &Name) -> bool {
        self.file.load(Ordering::Relaxed) == name.file
            && self.place.load(Ordering::Relaxed) >> 32 == name.place >> 32
    }

    pub(super) fn set(&self, position: u32) {
        let (word, bit) = (position as usize / 64, 1 << (position % 64));
        if let Some(word) = self.bits.get(word)
            && word.load(Ordering::Relaxed) & bit == 0
        {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Whether the row may have a mark; `None` if the slot cannot tell.
    pub(super) fn may_have(&self, name: &Name, position: u32, now: i64) -> Option<bool> {
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

    /// How many of these rows, from the first one on, have no mark; `None` if the slot cannot tell.
    fn unmarked_among(&self, name: &Name, positions: Range<u32>, now: i64) -> Option<u32> {
        let version = self.version.load(Ordering::Acquire);
        if State::of(version) != State::Valid || !self.is_of(name) {
            return None;
        }
        let too_old = now - self.made.load(Ordering::Relaxed) > EXPIRES_AFTER;
        if u64::from(positions.end) > self.rows.load(Ordering::Relaxed) {
            return None;
        }
        let is_unmarked = |position: &u32| {
            let word = self.bits.get(*position as usize / 64);
            word.is_some_and(|word| word.load(Ordering::Acquire) >> (position % 64) & 1 == 0)
        };
        let count = positions.take_while(is_unmarked).count() as u32;
        fence(Ordering::Acquire);
        (!too_old && self.version.load(Ordering::Relaxed) == version).then_some(count)
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
    pub(super) fn give_back(&self) {
        let version = self.version.load(Ordering::Acquire);
        if State::of(version) != State::Assigning {
            self.advance(version, State::Free);
        }
    }

    /// Sets another state, unless the slot was assigned again meanwhile.
    pub(super) fn advance(&self, version: u64, state: State) {
        let (taken, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = self
            .version
            .compare_exchange(version, state.put(version), taken, failed);
    }
}

#[repr(C)]
pub struct Shared {
    pub(super) slots: [Slot; SLOTS],
}

impl Shared {
    pub(super) fn slots_of(&self, name: &Name) -> impl Iterator<Item = &Slot> {
        let first = name.first_slot(SLOTS);
        (0..PROBES).map(move |i| &self.slots[(first + i) % SLOTS])
    }

    /// Assigns a slot to the group unless it has one: a free one, or the oldest that may go.
    pub(super) fn assign(&self, name: &Name, rows: u32, now: i64) -> Option<(&Slot, u64)> {
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

    pub(super) fn set(&self, name: &Name, position: u32) {
        // All of them: two processes may each have built one.
        for slot in self.slots_of(name) {
            if slot.is_of(name) {
                slot.set(position);
            }
        }
    }

    pub(super) fn may_have(&self, name: &Name, position: u32, now: i64) -> Option<bool> {
        self.slots_of(name)
            .find_map(|slot| slot.may_have(name, position, now))
    }

    /// How many of these rows, from the first one on, are known to have no mark.
    pub(super) fn unmarked_among(&self, name: &Name, positions: Range<u32>, now: i64) -> u32 {
        self.slots_of(name)
            .find_map(|slot| slot.unmarked_among(name, positions.clone(), now))
            .unwrap_or(0)
    }
}

// SAFETY: consists of atomics.
unsafe impl Shareable for Shared {}

pub static MARK_FILTER: Area<Shared> = Area::new(c"howdah unmarked rows");

#[cfg(test)]
mod tests;
