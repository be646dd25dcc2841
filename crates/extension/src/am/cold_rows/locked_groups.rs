//! The groups in which this transaction has locked rows, and what it remembers of them.
//!
//! A group that is locked for work on its rows is not merged away before the transaction ends: its
//! directory entry stays in force, and only flags are added to it. If the whole group is locked, no
//! other transaction hides a row of it either, so its hidden rows may be remembered.
//!
//! Discarded when a subtransaction is rolled back, because that may have released the locks.

use std::cell::RefCell;
use std::rc::Rc;

use howdah_bridge::Oid;
use howdah_bridge::cold_lock::RowLock;
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::CommandId;

use crate::am::moment::Moment;
use crate::bounded_cache::{HashCache, OrderedCache};
use crate::errors::ColdError;
use crate::store::directory::{self, GroupEntry, GroupFlags, GroupState, PlacedEntry};
use crate::store::directory_version;
use crate::store::marks::{self, HiddenParts};
use crate::store::pending_marks;

/// Groups that are remembered; each takes 16 kB at most.
pub(super) const MOST_GROUPS: usize = 64;
/// Tables of which the file is remembered.
const MOST_TABLES: usize = 64;
/// Rows of a wholly locked group that are looked up one by one before its marks are read by parts.
const FEW_ROWS: u32 = 32;

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::new(Known {
        groups: OrderedCache::of_entries(MOST_GROUPS),
        files: HashCache::of_entries(MOST_TABLES),
    });
}

struct Known {
    /// By file and first row. Ranges of one file do not overlap, so the group that covers a row is
    /// the nearest one.
    groups: OrderedCache<(StoreId, RowNumber), SharedGroup>,
    /// By table, the file that it had, and when it was last seen to have it.
    files: HashCache<Oid, (StoreId, Moment)>,
}

impl Known {
    fn covering(&mut self, file: StoreId, row: RowNumber) -> Option<&SharedGroup> {
        let (_, found) = self.groups.nearest((file, RowNumber(0))..=(file, row))?;
        let covers = found.borrow().placed.entry.covers(row);
        covers.then_some(&*found)
    }

    fn note_file(&mut self, table: Oid, file: StoreId) {
        let now = (file, Moment::now());
        match self.files.get(&table) {
            Some(known) => *known = now,
            None => self.files.insert(table, now),
        }
    }
}

/// A remembered group, as the requests for its rows hold it.
pub(super) type SharedGroup = Rc<RefCell<LockedGroup>>;

/// A group that this transaction has locked for work on its rows.
pub(super) struct LockedGroup {
    table: Oid,
    file: StoreId,
    pub placed: PlacedEntry,
    /// The directory's changes before the entry was read; `None` if they are not known.
    changes: Option<u32>,
    /// The command that loaded it, if that was our transaction.
    pub own: Option<CommandId>,
    /// The strongest lock held on the whole group.
    pub bulk: Option<RowLock>,
    /// Rows looked up while the whole group was locked.
    asked: u32,
    /// How many rows a command has changed, and the last of them.
    changed: (CommandId, u32, Option<RowNumber>),
    /// The hidden rows, once many were looked up; then only this transaction can hide more.
    hidden: Option<HiddenParts>,
}

/// What a command has changed in a group before it changes a row.
pub(super) struct ChangedBefore {
    /// Rows.
    pub count: u32,
    /// Whether the last one is of the same cold block.
    pub is_beside: bool,
}

impl LockedGroup {
    /// A group of the table, whose entry was read under the group's lock by this command; `file` is
    /// the id of the table's store.
    pub fn new(
        table: Table<'_>,
        file: StoreId,
        placed: PlacedEntry,
        own: Option<CommandId>,
        command: CommandId,
    ) -> LockedGroup {
        LockedGroup {
            table: table.oid(),
            file,
            placed,
            changes: None,
            own,
            bulk: None,
            asked: 0,
            changed: (command, 0, None),
            hidden: None,
        }
    }

    /// Reads the entry again if the directory has changed since: flags may have been added. A flag
    /// that announces the mark of a row was counted before the lock on the row was given back.
    pub fn refresh(&mut self, store: &ColdStore) -> Result<(), ColdError> {
        let changes = directory_version::current(store.id().toast);
        if changes.is_none() || self.changes != changes {
            self.placed = directory::refresh(store, &self.placed)?;
            self.changes = changes;
        }
        Ok(())
    }

    /// Whether a row of a wholly locked group is known to have no mark.
    pub fn is_unmarked(&mut self, store: &ColdStore, row: RowNumber) -> Result<bool, ColdError> {
        if pending_marks::any() {
            // Marks may be written, and be pending no more, without notice here.
            return Ok(false);
        }
        self.asked += 1;
        if self.asked <= FEW_ROWS {
            return Ok(false);
        }
        if self.hidden.is_none() {
            self.refresh(store)?;
        }
        let entry = &self.placed.entry;
        let hidden = self.hidden.get_or_insert_with(|| HiddenParts::of(entry));
        let Some(position) = entry.position_of(row) else {
            return Ok(false);
        };
        marks::learn_hidden(hidden, store, entry, position)?;
        Ok(hidden.is_hidden(position) == Some(false))
    }

    /// Counts a row that the command changes; returns what it has changed before.
    pub fn count_change(&mut self, command: CommandId, row: RowNumber) -> ChangedBefore {
        let (count, last) = match self.changed {
            (of, count, last) if of == command => (count, last),
            _ => (0, None),
        };
        self.changed = (command, count + 1, Some(row));
        ChangedBefore {
            count,
            is_beside: last.is_some_and(|last| last.cold_block() == row.cold_block()),
        }
    }

    /// Notes that the row was marked.
    pub fn note_marked(&mut self, row: RowNumber) {
        let entry = &mut self.placed.entry;
        entry.flags = entry.flags.union(GroupFlags::ROW_MARKS);
        let first = entry.first_row.0;
        if let Some(hidden) = &mut self.hidden {
            hidden.note((row.0 - first) as u32);
        }
    }

    /// Notes that rows are collected from now on, and hidden without notice here.
    pub fn forget_hidden(&mut self) {
        self.asked = 0;
        self.hidden = None;
    }

    /// Remembers it.
    pub fn remember(self) -> SharedGroup {
        KNOWN.with_borrow_mut(|known| {
            known.note_file(self.table, self.file);
            let name = (self.file, self.placed.entry.first_row);
            let group = Rc::new(RefCell::new(self));
            known.groups.insert(name, Rc::clone(&group));
            group
        })
    }
}

/// The group that covers the row in this file, if it is remembered.
pub(super) fn find(file: StoreId, row: RowNumber) -> Option<SharedGroup> {
    KNOWN.with_borrow_mut(|known| {
        let found = Rc::clone(known.covering(file, row)?);
        let table = found.borrow().table;
        known.note_file(table, file);
        Some(found)
    })
}

/// The remembered group of the table that covers the row, if it is stored and the table is known to
/// have the same file still.
fn with_current<R>(
    table: Table<'_>,
    row: RowNumber,
    look: impl FnOnce(&LockedGroup) -> Option<R>,
) -> Option<R> {
    KNOWN.with_borrow_mut(|known| {
        let (file, seen) = *known.files.get(&table.oid())?;
        if seen != Moment::now() {
            return None;
        }
        let found = known.covering(file, row)?.borrow();
        match found.placed.entry.state {
            GroupState::Stored => look(&found),
            _ => None,
        }
    })
}

/// The group of a row that is known to be there without a look at the store, because the whole
/// group is locked and its hidden rows are known.
pub(super) fn known_there(
    table: Table<'_>,
    row: RowNumber,
    lock: RowLock,
    cid: CommandId,
) -> Option<GroupEntry> {
    if pending_marks::any() {
        return None;
    }
    with_current(table, row, |found| {
        let position = found.placed.entry.position_of(row)?;
        let is_there = found.bulk >= Some(lock)
            && (found.hidden.as_ref()).is_some_and(|h| h.is_hidden(position) == Some(false))
            && found.own.is_none_or(|command| command < cid);
        is_there.then_some(found.placed.entry)
    })
}

/// The stored group of a row, if this transaction has locked the group for work on its rows: then
/// the group is not merged away, and the row keeps its place, whatever its marks tell.
pub(in crate::am) fn held_group(table: Table<'_>, row: RowNumber) -> Option<GroupEntry> {
    with_current(table, row, |found| Some(found.placed.entry))
}

/// Discards all of them.
pub(super) fn forget() {
    KNOWN.with_borrow_mut(|known| {
        known.groups.clear();
        known.files.clear();
    });
}
