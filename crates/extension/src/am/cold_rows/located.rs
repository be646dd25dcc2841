//! A cold row, located once for all steps of a request.
//!
//! What is found here holds for the whole request. The table is locked, so the store keeps its
//! file. Row numbers are not used again, so the group that covers the row, whatever became of that
//! group, stays the one whose lock, marks and forward are the row's. The group's directory entry is
//! not part of this: it may only be relied on once the group is locked, and is read by
//! [`super::standing`].

use std::cell::{Cell, OnceCell};

use howdah_bridge::cold_lock::Locks;
use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{GroupId, RowNumber};
use howdah_bridge::xid::CommandId;
use pgrx::PgSqlErrorCode;

use super::locked_groups::{self, LockedGroup};
use crate::errors::{ColdError, or_raise, refuse};
use crate::store::directory::{self, PlacedEntry};

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
    /// Whether the group is among the [`locked_groups`].
    is_known: Cell<bool>,
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
                refuse(
                    PgSqlErrorCode::ERRCODE_DATA_CORRUPTED,
                    format!(
                        "table with OID {} has no cold store",
                        self.table.oid().to_u32()
                    ),
                    None,
                )
            };
            let known = locked_groups::group_of(store.id(), self.row);
            Place {
                group: known.or_else(|| directory::nearest_group(&store, self.row)),
                is_known: Cell::new(known.is_some()),
                store,
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

    /// Whether this transaction has locked the group before, and remembers it.
    pub fn is_of_known_group(&self) -> bool {
        self.place().is_known.get()
    }

    /// Remembers the row's group, whose entry was read under its lock by this command; `own` is the
    /// command that loaded it, if that was our transaction.
    pub fn remember_group(&self, placed: PlacedEntry, own: Option<CommandId>, command: CommandId) {
        let file = self.store().id();
        LockedGroup::new(self.table, file, placed, own, command).remember();
        self.place().is_known.set(true);
    }

    /// Passes the row's group to `look`, if it is among those that this transaction has locked.
    pub fn with_group<R>(&self, look: impl FnOnce(&mut LockedGroup) -> R) -> Option<R> {
        let place = self.place();
        match place.is_known.get() {
            true => locked_groups::with_group(place.store.id(), self.row, look),
            false => None,
        }
    }

    /// The entry of the row's group as it is now, if it is in force.
    pub fn entry_now(&self) -> Result<Option<PlacedEntry>, ColdError> {
        let Some(group) = self.group() else {
            return Ok(None);
        };
        let mut in_force = |tuple: ShownTuple<'_>| tuple.is_in_force();
        directory::entry_covering(self.store(), group, self.row, &mut in_force)
    }

    /// Raises an error of the store as the server's, about this table.
    pub fn or_raise<T>(&self, result: Result<T, ColdError>) -> T {
        or_raise(self.table.oid(), result)
    }
}
