//! Reads single cold rows.
//!
//! A cold TID is looked up in this order: first the rows of this backend's loads in progress, then
//! the directory entry that covers the row and is visible to the snapshot. Then its values are read
//! from shared buffers, each by its own byte ranges ([`crate::store::group_access`]).
//!
//! Neighbours are cheap: within one scan under one MVCC snapshot, groups are remembered with
//! everything that was read of them. So the row after the last one needs no access to directory,
//! marks or footer, and none to the store where its blocks are decoded.

use std::ops::Range;
use std::rc::Rc;

use howdah_bridge::cold_lock::Locks;
use howdah_bridge::needed_columns;
use howdah_bridge::predicate::{is_serializable, lock_row};
use howdah_bridge::process::{applies_changes, is_uninterruptible};
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::{Snapshot, SnapshotKind};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::in_parallel_worker;
use pgrx::PgSqlErrorCode;

use super::held_store;
use super::known_groups::{Among, KnownGroup, KnownGroups, ROWS_AHEAD, STEP_ROWS};
use super::late_rows::{self, LatePlace, LateRow, Stored};
use crate::errors::{ColdError, or_raise, refuse};
use crate::slot_writer::write_single;
use crate::store::directory::{self, GroupEntry, GroupFlags, GroupState};
use crate::store::group_access::GroupAccess;
use crate::store::group_bytes::LazyStore;
use crate::store::group_cache;
use crate::store::loads;
use crate::store::pending_groups;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, GroupRows, Wanted};
use crate::store::visibility::{
    Hidden, constraint_checks, hidden_group, hidden_range, hidden_row, is_surely_shown,
    may_be_hidden, moved, surely_shown_from,
};

/// Reads single cold rows of one relation.
pub struct PointReader {
    /// The columns that are read; the slot gets a placeholder of the right form for the others.
    wanted: Wanted,
    /// The address of the slot that the columns are read for; 0 for any slot.
    slot: usize,
    groups: KnownGroups,
    /// Whether no column is read.
    reads_nothing: bool,
    /// Whether the slot is not even filled.
    leaves_slot: bool,
    /// Whether the reader has written into its slot before.
    has_written: bool,
    /// How the row that was fetched last is hidden.
    hidden: Option<Hidden>,
    /// Whether no snapshot can see a group where the row that was fetched last would be.
    is_nowhere: bool,
    /// Rows without a group that were asked about one by one.
    unseen: u32,
    /// The place of rows that are put together when they are read, if the slot's may be.
    late: Option<LatePlace>,
    /// The row that was fetched last, if it is such a row.
    stored: Option<Stored>,
}

/// Rows of one group that a snapshot sees.
pub(super) struct Ahead {
    pub slot_is: SlotIs,
    pub rows: Range<u64>,
    /// The position of the first one in the group.
    pub first_position: u32,
}

/// What a slot needs for the next row.
pub(super) enum SlotIs {
    /// It is left as it is.
    Left,
    /// It stands for a row ([`late_rows::go_on`]).
    Late(Stored),
}

/// The number of rows of a group whose marks are looked up one by one before all its marks are
/// read.
const FEW_ROWS: u32 = 32;

/// Rows without a group are looked up one by one until they are so many.
const FEW_UNSEEN: u32 = 2;

enum Found {
    Stored(GroupEntry, u32),
    Pending(ColdGroup, u32),
}

impl Found {
    fn entry(&self) -> &GroupEntry {
        match self {
            Found::Stored(entry, _) => entry,
            Found::Pending(group, _) => group.entry(),
        }
    }
}

impl Default for PointReader {
    fn default() -> PointReader {
        PointReader::of(Wanted::All)
    }
}

impl PointReader {
    /// A reader of whole rows.
    pub fn new() -> PointReader {
        PointReader::default()
    }

    /// A reader of some columns.
    pub fn of(wanted: Wanted) -> PointReader {
        PointReader {
            reads_nothing: wanted.is_nothing(),
            leaves_slot: wanted.is_visibility(),
            has_written: false,
            wanted,
            slot: 0,
            groups: KnownGroups::default(),
            hidden: None,
            is_nowhere: false,
            unseen: 0,
            late: None,
            stored: None,
        }
    }

    /// A reader of the columns that are needed by the plan whose scan uses this slot;
    /// `is_rechecked` tells whether it checks a bitmap's conditions again.
    pub fn for_slot(slot: Slot<'_>, is_rechecked: bool) -> PointReader {
        let (wanted, late) = match needed_columns::of_slot(slot, is_rechecked) {
            None => (Wanted::All, None),
            Some(reading) => {
                let late =
                    (reading.late).map(|scan| late_rows::place_for(scan, slot, &reading.columns));
                (Wanted::Some(reading.columns), late)
            }
        };
        PointReader {
            slot: slot.address(),
            late,
            ..PointReader::of(wanted)
        }
    }

    /// Whether the reader was made for this slot.
    pub fn serves(&self, slot: Slot<'_>) -> bool {
        self.slot == slot.address()
    }

    /// Whether the slot gets all columns of a row.
    pub fn reads_whole_rows(&self) -> bool {
        matches!(self.wanted, Wanted::All)
    }

    /// Whether only the visibility of rows is learned, and the slot left as it is.
    pub fn leaves_slot(&self) -> bool {
        self.leaves_slot
    }

    /// Rows that a scan need not ask about any more, which comes from the row `before` and has
    /// fetched this one last, one of them.
    pub(super) fn ahead(
        &self,
        row: RowNumber,
        before: RowNumber,
        snapshot: Snapshot<'_>,
    ) -> Option<Ahead> {
        let slot_is = match (self.leaves_slot, self.stored) {
            (true, _) => SlotIs::Left,
            (false, Some(stored)) => SlotIs::Late(stored),
            (false, None) => return None,
        };
        if !snapshot.is_mvcc() {
            return None;
        }
        let known = self.groups.found_last(snapshot.name())?;
        let position = known.entry.position_of(row)?;
        let mut positions = known.shown_ahead(position, before);
        if positions.len() == 1 && (1..=STEP_ROWS).contains(&row.0.wrapping_sub(before.0)) {
            let ahead = position..position.saturating_add(ROWS_AHEAD);
            let rows = surely_shown_from(known.file, &known.entry, ahead, snapshot);
            positions.end = positions.end.max(position + rows);
        }
        if positions.len() == 1 {
            return None;
        }
        let first = known.entry.first_row;
        let number = |position: u32| first.0 + u64::from(position);
        Some(Ahead {
            slot_is,
            rows: number(positions.start)..number(positions.end),
            first_position: positions.start,
        })
    }

    /// Whether the reader's own slot is written to again.
    fn note_written(&mut self) -> bool {
        self.slot != 0 && std::mem::replace(&mut self.has_written, true)
    }

    fn find(
        &mut self,
        table: Table<'_>,
        store: &ColdStore,
        row: RowNumber,
        snapshot: Snapshot<'_>,
    ) -> Option<Found> {
        if snapshot.is_dirty() {
            // As HeapTupleSatisfiesDirty does first. The caller waits for the transaction that it
            // finds named there, and must not wait for itself because of a row of its own load in
            // progress.
            snapshot.reset_dirty();
        }
        if let Some(pending) = pending_groups::of_row(table, row, snapshot) {
            return pending.map(|(group, position)| Found::Pending(group, position));
        }
        let seen_by = snapshot.name();
        if snapshot.is_mvcc()
            && let Some(position) = self.groups.turn_to(row, seen_by)
            && let Some(last) = self.groups.last()
        {
            return Some(Found::Stored(last.entry, position));
        }
        if snapshot.is_mvcc() && self.groups.is_unseen(row, seen_by) {
            self.is_nowhere = directory::is_nowhere(store, row);
            return None;
        }
        let Some(placed) = or_raise(table.oid(), directory::group_of(store, row, snapshot)) else {
            self.is_nowhere = directory::is_nowhere(store, row);
            self.unseen += 1;
            if snapshot.is_mvcc() && self.unseen >= FEW_UNSEEN {
                let unseen = directory::unseen_around(store, row, snapshot);
                self.groups
                    .note_unseen(or_raise(table.oid(), unseen), seen_by);
            }
            return None;
        };
        if snapshot.is_dirty() && constraint_checks::passes(&placed.entry, snapshot) {
            snapshot.reset_dirty();
            crate::stop_point!("passed");
            return None;
        }
        if placed.entry.state == GroupState::Loading {
            if snapshot.is_mvcc() && in_parallel_worker() {
                // Only the leader has its rows; see `crate::transaction`.
                refuse(
                    PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                    "parallel workers cannot read the rows of a load in progress".into(),
                    Some("Disable parallel queries with max_parallel_workers_per_gather.".into()),
                );
            }
            if snapshot.is_dirty() && applies_changes() && !is_uninterruptible() {
                loads::wait_for(table, &placed);
                snapshot.reset_dirty();
                return self.find(table, store, row, snapshot);
            }
            // A row of another backend's load in progress, seen by a dirty snapshot: the row
            // exists, but its values cannot be read. The caller waits for that transaction. Before
            // that it may evaluate index expressions, on NULLs: none of them fails on NULLs, see
            // `load/hot_only.rs`.
            return Some(Found::Stored(placed.entry, 0));
        }
        if snapshot.is_mvcc() {
            let known = KnownGroup {
                entry: placed.entry,
                open: None,
                file: store.id(),
                asked: 0,
                hidden: None,
                among: Among::default(),
            };
            self.groups.take_in(known, seen_by);
        }
        placed
            .entry
            .position_of(row)
            .map(|position| Found::Stored(placed.entry, position))
    }

    /// Whether a row that was found is hidden from the snapshot.
    fn hides(
        &mut self,
        table: Table<'_>,
        store: &ColdStore,
        found: &Found,
        row: RowNumber,
        snapshot: Snapshot<'_>,
    ) -> Result<bool, ColdError> {
        let entry = found.entry();
        if entry.flags.are_clear() {
            return Ok(false);
        }
        if snapshot.is_dirty()
            && entry.flags.contain(GroupFlags::BLOCK_DELETIONS)
            && let Some(deleter) = Locks::of(table).deleter(row)
        {
            snapshot.name_deleter(deleter);
            self.hidden = Some(Hidden::No);
            return Ok(false);
        }
        let asked = &mut self.hidden;
        let mut ask = || {
            let hidden = hidden_row(store, entry, row, snapshot)?;
            *asked = Some(hidden);
            Ok(hidden != Hidden::No)
        };
        let last = match (found, self.groups.last()) {
            (Found::Stored(entry, _), Some(last))
                if snapshot.is_mvcc() && last.entry.group() == entry.group() =>
            {
                last
            }
            _ => return ask(),
        };
        if last.hidden.is_none() {
            // Rows that are known to have no mark need no look-up, however many they are.
            if is_surely_shown(last.file, entry, row, snapshot) {
                return Ok(false);
            }
            let may_be_marked = may_be_hidden(store, entry, row);
            if !may_be_marked && !entry.flags.contain(GroupFlags::RECENT_INSERTS) {
                return ask();
            }
            last.asked += 1;
            if last.asked <= FEW_ROWS {
                // A range of keys would ask about its rows one after the other.
                let position = entry.position_of(row);
                let beside = position.and_then(|at| last.among.ask(at, entry.row_count));
                if let (Some(at), Some(beside)) = (position, beside)
                    && may_be_marked
                    && let Some(hidden) = hidden_range(store, entry, beside.clone(), snapshot)
                {
                    last.among.note(beside, hidden.rows, hidden.how);
                    self.hidden = last.hides(at);
                    return Ok(self.hidden.is_some_and(|hidden| hidden != Hidden::No));
                }
                return ask();
            }
        }
        if last.hidden.is_none() {
            let hidden = hidden_group(store, entry, snapshot)?;
            let (rows, how) = match hidden {
                Some(hidden) => (hidden.rows, hidden.how),
                None => (RowSet::default(), Hidden::No),
            };
            self.groups.note_hidden(rows, how);
        }
        let position = entry.position_of(row);
        let last = self.groups.last();
        self.hidden = position.and_then(|at| last?.hides(at));
        Ok(self.hidden.is_some_and(|hidden| hidden != Hidden::No))
    }

    /// Stores the row in the slot, which is one of the table's, if the snapshot sees it.
    pub fn fetch(
        &mut self,
        table: Table<'_>,
        row: RowNumber,
        snapshot: Snapshot<'_>,
        slot: Slot<'_>,
    ) -> bool {
        (self.hidden, self.is_nowhere, self.stored) = (None, false, None);
        if !moved::is_wanted(snapshot)
            && let Some(found) = self.fetch_near(table, row, snapshot, slot)
        {
            return found;
        }
        let store = match snapshot.is_dirty() {
            true => held_store::for_check(table),
            false => ColdStore::open(table, held_store::mode(table)),
        };
        store.is_some_and(|store| self.fetch_from(&store, table, row, snapshot, slot))
    }

    /// Whether the row that [`PointReader::fetch`] did not find is known to be dead.
    pub(super) fn is_dead_to_all(&self, table: Table<'_>) -> bool {
        match self.hidden {
            Some(Hidden::By(hider)) => table.is_removable_xid(hider),
            _ => self.is_nowhere,
        }
    }

    /// Does what [`PointReader::fetch`] does if the group is that of the row before.
    fn fetch_near(
        &mut self,
        table: Table<'_>,
        row: RowNumber,
        snapshot: Snapshot<'_>,
        slot: Slot<'_>,
    ) -> Option<bool> {
        if !snapshot.is_mvcc() || pending_groups::any() {
            return None;
        }
        let position = self.groups.turn_to(row, snapshot.name())?;
        let last = self.groups.last()?;
        if last.open.is_none() && !self.reads_nothing {
            last.open = Some(group_cache::recall(last.file, &last.entry)?);
        }
        let hidden = match last.hides(position) {
            Some(hidden) => hidden,
            None if is_surely_shown(last.file, &last.entry, row, snapshot) => Hidden::No,
            None => return None,
        };
        if hidden != Hidden::No {
            self.hidden = Some(hidden);
            return Some(false);
        }
        if self.leaves_slot {
            return Some(true);
        }
        let (tid, oid, origin) = (row.tid(), table.oid(), last.entry.origin);
        if self.reads_nothing {
            let is_next = self.note_written();
            write_single(slot, is_next, tid, oid, origin, |layout, _, datums| {
                datums.fill_unneeded(layout);
            });
            return Some(true);
        }
        let group = Rc::clone(last.open.as_ref()?);
        let row = || LateRow {
            group: Rc::clone(&group),
            position,
            tid,
            origin,
        };
        self.stored = self
            .late
            .and_then(|late| late_rows::store(late, slot, table, row()));
        if self.stored.is_some() {
            return Some(true);
        }
        let is_next = self.note_written();
        let store = LazyStore::of(table);
        write_single(slot, is_next, tid, oid, origin, |layout, desc, datums| {
            let wanted = &self.wanted;
            or_raise(
                oid,
                group.fill(&store, position, layout, desc, wanted, datums),
            );
        });
        Some(true)
    }

    /// As [`PointReader::fetch`], with the cold store of the table already open.
    pub fn fetch_from(
        &mut self,
        store: &ColdStore,
        table: Table<'_>,
        row: RowNumber,
        snapshot: Snapshot<'_>,
        slot: Slot<'_>,
    ) -> bool {
        if !moved::is_wanted(snapshot) {
            return self.read(store, table, row, snapshot, slot);
        }
        if is_serializable() {
            // The row is locked before it is read, and is always read anew: see
            // `super::serializable`.
            lock_row(table, row, snapshot);
            self.groups.clear();
        }
        let found = self.read(store, table, row, snapshot, slot);
        if found && or_raise(table.oid(), moved::hides(store, table, row, snapshot)) {
            slot.clear();
            return false;
        }
        found
    }

    fn read(
        &mut self,
        store: &ColdStore,
        table: Table<'_>,
        row: RowNumber,
        snapshot: Snapshot<'_>,
        slot: Slot<'_>,
    ) -> bool {
        let oid = table.oid();
        let Some(found) = self.find(table, store, row, snapshot) else {
            return false;
        };
        if or_raise(oid, self.hides(table, store, &found, row, snapshot)) {
            return false;
        }
        if self.leaves_slot {
            return true;
        }
        let (tid, origin) = (row.tid(), found.entry().origin);
        if let (Some(late), Found::Stored(entry, position)) = (self.late, &found)
            && entry.state != GroupState::Loading
            && snapshot.is_mvcc()
            && !self.reads_nothing
        {
            let row = LateRow {
                group: or_raise(oid, self.open_group(store, *entry)),
                position: *position,
                tid,
                origin,
            };
            self.stored = late_rows::store(late, slot, table, row);
            if self.stored.is_some() {
                return true;
            }
        }
        let is_next = self.note_written();
        match &found {
            Found::Stored(entry, _) if entry.state == GroupState::Loading => {
                write_single(slot, is_next, tid, oid, origin, |_, _, datums| {
                    datums.set_all_null();
                });
            }
            // With such a snapshot the planner finds the ends of an index's range. It reads no
            // column of the row, which may belong to a deleted group.
            Found::Stored(..)
                if self.reads_nothing || snapshot.kind() == SnapshotKind::NonVacuumable =>
            {
                write_single(slot, is_next, tid, oid, origin, |layout, _, datums| {
                    datums.fill_unneeded(layout);
                });
            }
            Found::Stored(entry, position) => {
                let group = or_raise(oid, self.open_group(store, *entry));
                let (store, wanted) = (LazyStore::from(store), &self.wanted);
                write_single(slot, is_next, tid, oid, origin, |layout, desc, datums| {
                    let filled = group.fill(&store, *position, layout, desc, wanted, datums);
                    or_raise(oid, filled);
                });
            }
            Found::Pending(group, position) => {
                let rows = or_raise(oid, GroupRows::load(store, group, &Wanted::All));
                write_single(slot, is_next, tid, oid, origin, |layout, desc, datums| {
                    rows.fill(*position, layout, desc, &Wanted::All, datums);
                });
            }
        }
        true
    }

    fn open_group(
        &mut self,
        store: &ColdStore,
        entry: GroupEntry,
    ) -> Result<Rc<GroupAccess>, ColdError> {
        match self.groups.last() {
            Some(last) if last.entry.group() == entry.group() => match &last.open {
                Some(group) => Ok(Rc::clone(group)),
                None => {
                    let group = group_cache::cached(store, entry)?;
                    last.open = Some(Rc::clone(&group));
                    Ok(group)
                }
            },
            _ => group_cache::cached(store, entry),
        }
    }
}

/// Stores the wanted columns of a row that is known to be in a stored group in the slot, which is
/// one of the table's; `store` is that of the table, `entry` is in force.
pub fn fetch_placed(
    store: &ColdStore,
    table: Table<'_>,
    row: RowNumber,
    entry: GroupEntry,
    wanted: &Wanted,
    slot: Slot<'_>,
) -> bool {
    let Some(position) = entry.position_of(row) else {
        return false;
    };
    let oid = table.oid();
    let group = or_raise(oid, group_cache::cached(store, entry));
    let (tid, store) = (row.tid(), LazyStore::from(store));
    write_single(
        slot,
        false,
        tid,
        oid,
        entry.origin,
        |layout, desc, datums| {
            let filled = group.fill(&store, position, layout, desc, wanted, datums);
            or_raise(oid, filled);
        },
    );
    true
}
