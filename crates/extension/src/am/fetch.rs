//! Fetches by TID: index scans, TID scans, visibility of a row in a slot.
//!
//! Hot rows are fetched by heap, and followed to their new place where necessary ([`moved`]); cold
//! rows are read by a [`PointReader`]. A row with a mark that is visible to all is reported as dead
//! to all, so that indexes skip its entry from then on, and delete the entry when they need the
//! space ([`super::index_delete`]). So is a row of a group that no snapshot can see: its move was
//! rolled back, or VACUUM has removed the group's directory entry.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use howdah_bridge::heap_am;
use howdah_bridge::predicate::is_serializable;
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::{Snapshot, SnapshotKind, try_with_active};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::table_am::{Routine, RowFetches, set_fetches};
use howdah_bridge::tid::{RowNumber, Tid};

use super::late_rows::{self, Stored};
use super::point_reader::{Ahead, PointReader, SlotIs, fetch_placed};
use super::serializable::announce;
use super::{cold_rows, held_store, last_row};
use crate::errors::or_raise;
use crate::store::pending_groups;
use crate::store::view::Wanted;
use crate::store::visibility::{constraint_checks, is_surely_hidden, moved, sees_row_somewhere};

pub(super) fn install(am: &mut Routine) {
    set_fetches::<TwoSides>(am);
}

/// Fetches from both sides of a table.
struct TwoSides;

/// What the fetches of an index scan remember.
#[derive(Clone, Copy, Default)]
struct FetchState {
    /// Names the reader in [`READERS`], made for the first row under an MVCC snapshot; 0 before
    /// that.
    reader: u64,
    /// Whether [`announce`] was called for this scan.
    announced: bool,
    /// The cold row that was found last.
    last: u64,
    shown: RowsShown,
    beside: RowsBeside,
}

/// Ranges of rows that a scan that only learns whether rows are visible remembers.
const RANGES_SHOWN: usize = 16;

/// Cold rows that an index-only scan knows to be visible: those of row groups that hide none, and
/// some beside each other of others. What the scan asks is answered from here as long as it asks
/// for the same slot under the same snapshot. By default none are known.
#[derive(Clone, Copy, Default)]
struct RowsShown {
    slot: usize,
    seen_by: (usize, u32),
    /// The first row of each range, and one past its last one.
    ranges: [(u64, u64); RANGES_SHOWN],
    /// The place of the next range.
    next: usize,
}

impl RowsShown {
    #[inline]
    fn has(&self, row: RowNumber, slot: Slot<'_>, snapshot: Snapshot<'_>) -> bool {
        let is_in = |&(first, end): &(u64, u64)| (first..end).contains(&row.0);
        self.slot == slot.address()
            && self.ranges.iter().any(is_in)
            && self.seen_by == snapshot.name()
            && !pending_groups::any()
            && !moved::is_wanted(snapshot)
    }

    /// Adds some rows; the oldest ones give their place.
    fn add(&mut self, rows: Range<u64>, slot: Slot<'_>, snapshot: Snapshot<'_>) {
        if (self.slot, self.seen_by) != (slot.address(), snapshot.name()) {
            self.ranges = [(0, 0); RANGES_SHOWN];
            (self.slot, self.seen_by) = (slot.address(), snapshot.name());
        }
        self.ranges[self.next % RANGES_SHOWN] = (rows.start, rows.end);
        self.next = (self.next + 1) % RANGES_SHOWN;
    }
}

/// Cold rows that a scan knows to be visible, beside the one that its slot stands for. The slot
/// goes on to them without the reader, as long as the scan asks for the same slot under the same
/// snapshot and nothing else was put there. By default there are none.
#[derive(Clone, Copy, Default)]
struct RowsBeside {
    slot: usize,
    seen_by: (usize, u32),
    /// The first row, and one past the last one.
    rows: (u64, u64),
    /// The first row's position in its group.
    first_position: u32,
    stored: Stored,
}

impl RowsBeside {
    #[inline]
    fn go_on(&self, row: RowNumber, snapshot: Snapshot<'_>, slot: Slot<'_>) -> bool {
        let (first, end) = self.rows;
        if !(first..end).contains(&row.0)
            || self.slot != slot.address()
            || self.seen_by != snapshot.name()
            || pending_groups::any()
            || moved::is_wanted(snapshot)
        {
            return false;
        }
        let position = self.first_position + (row.0 - first) as u32;
        late_rows::go_on(self.stored, slot, position, row.tid())
    }
}

impl FetchState {
    /// Remembers rows that the scan knows to be visible.
    fn note(&mut self, ahead: Ahead, snapshot: Snapshot<'_>, slot: Slot<'_>) {
        match ahead.slot_is {
            SlotIs::Left => self.shown.add(ahead.rows, slot, snapshot),
            SlotIs::Late(stored) => {
                self.beside = RowsBeside {
                    slot: slot.address(),
                    seen_by: snapshot.name(),
                    rows: (ahead.rows.start, ahead.rows.end),
                    first_position: ahead.first_position,
                    stored,
                };
            }
        }
    }
}

thread_local! {
    /// The readers of open index scans, except the one that is reading now. Here they are dropped
    /// with the transaction if an ERROR leaves them behind, at less cost than by a callback of a
    /// memory context.
    static READERS: RefCell<Vec<(u64, Box<PointReader>)>> = const { RefCell::new(Vec::new()) };
    static LAST_READER: Cell<u64> = const { Cell::new(0) };
}

fn next_reader() -> u64 {
    LAST_READER.set(LAST_READER.get() + 1);
    LAST_READER.get()
}

/// Takes a reader out of [`READERS`], unless it was dropped after an error.
fn take_reader(name: u64) -> Option<Box<PointReader>> {
    READERS.with_borrow_mut(|readers| {
        let at = readers.iter().rposition(|(other, _)| *other == name)?;
        Some(readers.swap_remove(at).1)
    })
}

/// Drops all readers: the transaction has ended, or a subtransaction was rolled back, whose scans
/// do not end their readers. Scans that continue make new ones.
pub fn reset() {
    READERS.with_borrow_mut(Vec::clear);
}

/// Stores a row that a dirty snapshot does not see in the slot, if the check that asks must begin
/// anew because of it ([`constraint_checks`]).
fn fetch_left(
    table: Table<'_>,
    row: RowNumber,
    snapshot: Snapshot<'_>,
    wanted: &Wanted,
    slot: Slot<'_>,
) -> bool {
    if !constraint_checks::asks_of_unseen(snapshot) {
        return false;
    }
    let Some(store) = held_store::for_check(table) else {
        return false;
    };
    let left = constraint_checks::was_left_cold(&store, row, snapshot);
    or_raise(table.oid(), left)
        .is_some_and(|entry| fetch_placed(&store, table, row, entry, wanted, slot))
}

impl RowFetches for TwoSides {
    type State = FetchState;

    /// Index scans are reset before they start, with their snapshot active: the only point at which
    /// an index-only scan, which may never fetch a row, can be noticed. Checks of uniqueness read
    /// no rows for their transaction and do not call this function.
    fn start(state: &mut FetchState, table: Table<'_>) {
        if is_serializable() && !state.announced {
            let announced = try_with_active(|snapshot| announce(table, snapshot));
            state.announced = announced.is_some();
        }
    }

    fn end(state: &mut FetchState) {
        if state.reader != 0 {
            drop(take_reader(state.reader));
        }
    }

    fn keeps_hot(table: Table<'_>, slot: Slot<'_>, snapshot: Snapshot<'_>) -> bool {
        !moved::hides_hot(table, slot, snapshot)
    }

    fn shows_unseen(snapshot: Snapshot<'_>) -> bool {
        constraint_checks::asks_of_unseen(snapshot)
    }

    fn keeps_unseen(slot: Slot<'_>, snapshot: Snapshot<'_>) -> bool {
        constraint_checks::was_left_hot(slot, snapshot)
    }

    #[inline]
    fn go_on(
        state: &mut FetchState,
        row: RowNumber,
        snapshot: Snapshot<'_>,
        slot: Slot<'_>,
    ) -> bool {
        let has_gone = state.beside.go_on(row, snapshot, slot);
        if has_gone {
            state.last = row.0;
        }
        has_gone
    }

    fn fetch(
        state: &mut FetchState,
        table: Table<'_>,
        row: RowNumber,
        snapshot: Snapshot<'_>,
        slot: Slot<'_>,
        all_dead: Option<&mut bool>,
    ) -> bool {
        if is_surely_hidden(table, row, snapshot) {
            slot.clear();
            if snapshot.is_dirty() {
                snapshot.reset_dirty();
            }
            return false;
        }
        if !snapshot.is_mvcc() {
            slot.clear();
            let wanted = match snapshot.is_dirty() {
                true => Wanted::of_check(table),
                false => Wanted::All,
            };
            let mut reader = PointReader::of(wanted.clone());
            if reader.fetch(table, row, snapshot, slot)
                || fetch_left(table, row, snapshot, &wanted, slot)
            {
                return true;
            }
            if let Some(all_dead) = all_dead {
                *all_dead = reader.is_dead_to_all(table);
            }
            return false;
        }
        if state.shown.has(row, slot, snapshot) {
            state.last = row.0;
            slot.clear();
            return true;
        }
        let reader = match state.reader {
            0 => {
                state.reader = next_reader();
                None
            }
            name => take_reader(name),
        };
        // A scan uses one slot for its rows; another slot may belong to another plan.
        let mut reader = match reader {
            Some(reader) if reader.serves(slot) => reader,
            _ => Box::new(PointReader::for_slot(slot, false)),
        };
        // The row before it stays in the slot until then, because its memory serves the next one.
        let found = reader.fetch(table, row, snapshot, slot);
        if !found || reader.leaves_slot() {
            slot.clear();
        }
        if found {
            if reader.reads_whole_rows() {
                last_row::remember(slot);
            }
            let before = RowNumber(std::mem::replace(&mut state.last, row.0));
            if let Some(ahead) = reader.ahead(row, before, snapshot) {
                state.note(ahead, snapshot, slot);
            }
        } else if let Some(all_dead) = all_dead {
            *all_dead = reader.is_dead_to_all(table);
        }
        READERS.with_borrow_mut(|readers| readers.push((state.reader, reader)));
        found
    }

    fn fetch_version(table: Table<'_>, tid: Tid, snapshot: Snapshot<'_>, slot: Slot<'_>) -> bool {
        let any = snapshot.kind() == SnapshotKind::Any;
        let row = match tid.row() {
            Some(row) if any => moved::changed_cold(table, row).unwrap_or(row),
            Some(row) => row,
            None => {
                if !heap_am::fetch_version(table, tid, snapshot, slot) {
                    return false;
                }
                match moved::changed_hot(table, slot) {
                    Some(row) if any => row,
                    _ => return !moved::hides_hot(table, slot, snapshot),
                }
            }
        };
        slot.clear();
        any && (last_row::recall(table, row, slot) || cold_rows::fetch_held(table, row, slot))
            || PointReader::new().fetch(table, row, snapshot, slot)
    }

    fn sees_cold(table: Table<'_>, row: RowNumber, snapshot: Snapshot<'_>) -> bool {
        ColdStore::open(table, LockMode::AccessShare)
            .is_some_and(|store| sees_row_somewhere(&store, table, row, snapshot))
    }
}
