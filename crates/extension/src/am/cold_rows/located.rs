//! A cold row, located once for all steps of a request.
//!
//! What is found here holds for the whole request. The table is locked, so the store keeps its
//! file. Row numbers are not used again, so the group that covers the row, whatever became of that
//! group, stays the one whose lock, marks and forward are the row's. The group's directory entry is
//! not part of this: it may only be relied on once the group is locked, and is read by
//! [`super::standing`], which then remembers the group ([`LocatedRow::known`]).

use std::cell::{OnceCell, RefMut};

use howdah_bridge::cold_lock::Locks;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{GroupId, RowNumber};

use super::locked_groups::{self, LockedGroup, SharedGroup};
use crate::errors::{ColdError, or_raise, raise};
use crate::store::directory;

/// A cold row that a request is for. The table is locked for writing or row locks.
pub(super) struct LocatedRow<'a> {
    pub table: Table<'a>,
    pub row: RowNumber,
    /// The tags of the table's row and group locks.
    pub locks: Locks,
    /// Looked up when first needed: a row that is collected along with others needs none.
    place: OnceCell<Place<'a>>,
}

struct Place<'a> {
    store: ColdStore<'a>,
    /// The group that covers the row: its first cold block.
    group: Option<GroupId>,
    /// The group, if it is among the [`locked_groups`].
    known: OnceCell<SharedGroup>,
}

impl<'a> LocatedRow<'a> {
    pub fn new(table: Table<'a>, row: RowNumber) -> LocatedRow<'a> {
        LocatedRow {
            table,
            row,
            locks: Locks::of(table),
            place: OnceCell::new(),
        }
    }

    fn place(&self) -> &Place<'a> {
        self.place.get_or_init(|| {
            let Some(store) = ColdStore::open(self.table, LockMode::RowExclusive) else {
                raise(self.table.oid(), &ColdError::NoColdStore)
            };
            let known = locked_groups::find(store.id(), self.row);
            let group = match &known {
                Some(known) => Some(known.borrow().placed.entry.group()),
                None => directory::nearest_group(&store, self.row),
            };
            Place {
                store,
                group,
                known: known.map_or_else(OnceCell::new, OnceCell::from),
            }
        })
    }

    /// The cold store of the table.
    pub fn store(&self) -> &ColdStore<'a> {
        &self.place().store
    }

    /// The group that covers the row, in force or not; `None` if there never was any.
    pub fn group(&self) -> Option<GroupId> {
        self.place().group
    }

    /// The group, if this transaction has locked it and remembers it. Held for a moment only.
    pub fn known(&self) -> Option<RefMut<'_, LockedGroup>> {
        self.place().known.get().map(|known| known.borrow_mut())
    }

    /// Remembers the row's group, whose entry was read under its lock.
    pub fn remember(&self, group: LockedGroup) {
        let known = group.remember();
        let _ = self.place().known.set(known);
    }

    /// Raises an error of the store as the server's, about this table.
    pub fn or_raise<T>(&self, result: Result<T, ColdError>) -> T {
        or_raise(self.table.oid(), result)
    }
}
