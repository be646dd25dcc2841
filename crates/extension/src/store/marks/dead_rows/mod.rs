//! Rows that are known to be hidden from every snapshot by marks of their own: one bit per row, in
//! shared memory.
//!
//! An index page that is full of versions of the same rows asks which of them are dead. A row is
//! asked about once for each index, long after its mark was written, and to look a mark up takes a
//! descent of the store's index. Marks of neighbours, which lie side by side in that index, are
//! therefore looked at together, and this cache remembers which of them every snapshot sees.
//!
//! Invariant: a bit that is valid is that of a row whose mark was found committed, by a transaction
//! older than every snapshot. Such a row stays dead, and its number is not used again in its file.
//! Bits are lost at any time, and never wrong:
//! - a word holds the bits of 32 rows, and the slot's generation. It is valid in that generation
//!   only. A process that was about to set a bit when the slot was given to another group writes a
//!   word of the old generation, which the new group ignores;
//! - a reader compares the slot's version before and after;
//! - names of files are used again some time: what is older than an hour is not believed, and
//!   [`forget`] and [`forget_file`] are called where the mark filter's are.
//!
//! The slot also remembers the latest of the transactions that wrote the marks of such rows. It is
//! raised before a bit is set. As the snapshot conflict horizon of any of these rows it may be
//! later than necessary; it is older than every snapshot there was when the bit was set.
//!
//! Locks: none, so that it may be asked while an index page is locked. Nothing is noted during
//! recovery, when no index asks. A crash empties shared memory.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

use howdah_bridge::shared_memory::{Area, Shareable};
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::tid::{GroupId, RowNumber};
use howdah_bridge::xid::Xid;
use howdah_columnar::MAX_ROWS;

use super::group_name::{EXPIRES_AFTER, MICROSECONDS, Name, now, position_of};
use crate::store::directory::GroupEntry;

/// Groups that are remembered, 32 kB each: 33 million rows.
const SLOTS: usize = 256;
/// Slots that a group may have.
const PROBES: usize = 4;
/// Rows of a word, whose other half is a generation.
const WORD_ROWS: usize = 32;
const WORDS: usize = MAX_ROWS / WORD_ROWS;
/// A younger slot is not taken away for another group.
const KEPT_FOR: i64 = 10 * MICROSECONDS;

#[repr(C)]
struct Slot {
    /// Odd while it is being given to a group.
    version: AtomicU64,
    file: AtomicU64,
    place: AtomicU64,
    /// When it was given away, in PostgreSQL's microseconds.
    made: AtomicI64,
    /// The latest writer of a mark of a row whose bit is set.
    youngest: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The generation of a version, in the upper half of a word.
fn generation(version: u64) -> u64 {
    version >> 1 << 32
}

fn as_xid(raw: u64) -> Xid {
    Xid::from_raw((raw as u32).into())
}

impl Slot {
    /// Its version, if it belongs to the group.
    fn version_for(&self, name: &Name, now: i64) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        let is_it = version.is_multiple_of(2)
            && self.file.load(Ordering::Relaxed) == name.file
            && self.place.load(Ordering::Relaxed) == name.place
            && now - self.made.load(Ordering::Relaxed) <= EXPIRES_AFTER;
        (is_it && self.is_still(version)).then_some(version)
    }

    /// Whether what was read since the version was read belongs to it.
    fn is_still(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    /// If the row is known to be dead, a transaction that is no earlier than the one that hid it.
    fn hider(&self, name: &Name, position: u32, now: i64) -> Option<Xid> {
        let version = self.version_for(name, now)?;
        let word = self.words.get(position as usize / WORD_ROWS)?;
        let word = word.load(Ordering::Acquire);
        let is_valid = word >> 32 << 32 == generation(version);
        let is_set = word >> (position as usize % WORD_ROWS) & 1 == 1;
        let youngest = self.youngest.load(Ordering::Acquire);
        (is_valid && is_set && self.is_still(version)).then(|| as_xid(youngest))
    }

    /// Notes in a version of the slot that a row is dead.
    fn note(&self, version: u64, position: u32, hider: Xid) {
        let Some(word) = self.words.get(position as usize / WORD_ROWS) else {
            return;
        };
        let (done, failed) = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.youngest.fetch_update(done, failed, |youngest| {
            let later = as_xid(youngest).younger(hider);
            (later != as_xid(youngest)).then(|| u64::from(later.raw().into_inner()))
        });
        let bit = 1 << (position as usize % WORD_ROWS);
        let _ = word.fetch_update(done, failed, |word| {
            let kept = match word >> 32 << 32 == generation(version) {
                true => word,
                false => generation(version),
            };
            Some(kept | bit)
        });
    }

    /// Gives the slot of this version to the group, or to none. Returns the new version, unless
    /// another process was faster.
    fn give(&self, name: Option<&Name>, version: u64, now: i64) -> Option<u64> {
        let (taken, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        (self.version)
            .compare_exchange(version, version + 1, taken, failed)
            .ok()?;
        fence(Ordering::SeqCst);
        let (file, place) = name.map_or((0, 0), |name| (name.file, name.place));
        self.file.store(file, Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
        self.made.store(now, Ordering::Relaxed);
        self.youngest.store(0, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::SeqCst);
        Some(version + 2)
    }

    /// Takes the slot away from its group, if `is_it` says so.
    fn take_away(&self, is_it: impl Fn(&Slot) -> bool) {
        loop {
            let version = self.version.load(Ordering::SeqCst);
            if version.is_multiple_of(2) && !is_it(self) {
                return;
            }
            // Another process gives it away: a moment.
            if version.is_multiple_of(2) && self.give(None, version, 0).is_some() {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

#[repr(C)]
pub struct Shared {
    slots: [Slot; SLOTS],
}

impl Shared {
    fn slots_of(&self, name: &Name) -> impl Iterator<Item = &Slot> {
        let first = name.first_slot(SLOTS);
        (0..PROBES).map(move |i| &self.slots[(first + i) % SLOTS])
    }

    /// The slot of the group, after it was given one if necessary and possible: one that belongs to
    /// no group, or the oldest that may go.
    fn slot_for(&self, name: &Name, now: i64) -> Option<(&Slot, u64)> {
        let mut oldest: Option<(&Slot, u64, i64)> = None;
        for slot in self.slots_of(name) {
            if let Some(version) = slot.version_for(name, now) {
                return Some((slot, version));
            }
            let version = slot.version.load(Ordering::Acquire);
            let is_free = slot.file.load(Ordering::Relaxed) == 0;
            let made = match is_free {
                true => i64::MIN,
                false => slot.made.load(Ordering::Relaxed),
            };
            let may_go = version.is_multiple_of(2) && (is_free || now - made > KEPT_FOR);
            if may_go && oldest.is_none_or(|(_, _, known)| made < known) {
                oldest = Some((slot, version, made));
            }
        }
        let (slot, version, _) = oldest?;
        Some((slot, slot.give(Some(name), version, now)?))
    }
}

// SAFETY: consists of atomics.
unsafe impl Shareable for Shared {}

pub static DEAD_ROWS: Area<Shared> = Area::new(c"howdah dead rows");

/// What is known of the rows of one group.
pub(super) struct DeadRows<'a> {
    shared: Option<&'static Shared>,
    entry: &'a GroupEntry,
    name: Name,
    now: i64,
}

impl<'a> DeadRows<'a> {
    /// `entry` is that of the group as it is in the directory.
    pub(super) fn of(store: &ColdStore, entry: &'a GroupEntry) -> Self {
        Self {
            shared: DEAD_ROWS.get(),
            entry,
            name: Name::of(store, entry),
            now: now(),
        }
    }

    /// If the row is known to be dead to all, a transaction that is no earlier than the one that
    /// hid it, and older than every snapshot when that became known.
    pub(super) fn hider(&self, row: RowNumber) -> Option<Xid> {
        let position = position_of(self.entry, row);
        let mut slots = self.shared?.slots_of(&self.name);
        slots.find_map(|slot| slot.hider(&self.name, position, self.now))
    }

    /// Notes that the row is dead to all, by a mark that `hider` wrote.
    pub(super) fn note(&self, row: RowNumber, hider: Xid) {
        let slot = self
            .shared
            .and_then(|shared| shared.slot_for(&self.name, self.now));
        if let Some((slot, version)) = slot {
            slot.note(version, position_of(self.entry, row), hider);
        }
    }
}

/// Forgets the rows of a file that is truncated in place: their numbers are used again.
pub(super) fn forget_file(file: StoreId) {
    let any_group = Name::in_file(file, GroupId::of_block(0));
    let is_in_file = |slot: &Slot| {
        slot.file.load(Ordering::Relaxed) == any_group.file
            && slot.place.load(Ordering::Relaxed) >> 32 == any_group.place >> 32
    };
    if let Some(shared) = DEAD_ROWS.get() {
        for slot in &shared.slots {
            slot.take_away(is_in_file);
        }
    }
}

/// Forgets everything: names of files may be used again.
pub(super) fn forget() {
    if let Some(shared) = DEAD_ROWS.get() {
        for slot in &shared.slots {
            slot.take_away(|_| true);
        }
    }
}

#[cfg(test)]
mod tests;
