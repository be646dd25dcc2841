//! The status of each row group, judged for maintenance.
//!
//! Scans ask what a snapshot sees. Index builds, ANALYZE, VACUUM and table rewrites ask more:
//! whether *any* snapshot may still see a group, as `HeapTupleSatisfiesVacuum` answers for a heap
//! tuple. A group's status is that of its directory entry.
//!
//! The pieces of a group's value are tuples of their own. They are deleted with the entry, but
//! pruned and vacuumed independently, and the horizon may go back: when a snapshot is taken while
//! an old transaction runs in another database, a group that was dead is recently dead again. So a
//! deleted group may have lost pieces although its entry is not dead. No snapshot sees its rows
//! then, because pieces are removed only when no snapshot needs them and no later one will. A
//! reader of the rows of a deleted group therefore takes a missing piece to mean that the rows are
//! dead.

use howdah_bridge::shown_tuple::{ShownTuple, TupleStatus};
use howdah_bridge::store::{ColdStore, TupleStamp};
use howdah_bridge::xid::Xid;

use crate::errors::ColdError;
use crate::store::directory::{self, GroupState, PlacedEntry};

/// The status of an entry that is not dead to all, named as `TupleStatus` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStatus {
    Live,
    /// Deleted, but an old snapshot may still see it.
    RecentlyDead,
    /// Insert in progress, by this transaction.
    InsertInProgress(Xid),
    /// Delete in progress, by this transaction.
    DeleteInProgress(Xid),
}

impl GroupStatus {
    /// The transaction in progress that decides the status, unless it is our own.
    pub fn foreign_transaction(self) -> Option<Xid> {
        match self {
            GroupStatus::InsertInProgress(xid) | GroupStatus::DeleteInProgress(xid) => {
                (!xid.is_own()).then_some(xid)
            }
            GroupStatus::Live | GroupStatus::RecentlyDead => None,
        }
    }

    /// Whether the group's rows count as live, by the rule that ANALYZE and index builds share: our
    /// own changes count as committed, those of other transactions in progress as not yet made.
    pub fn counts_as_live(self) -> bool {
        match self {
            GroupStatus::Live => true,
            GroupStatus::RecentlyDead => false,
            GroupStatus::InsertInProgress(_) => self.foreign_transaction().is_none(),
            GroupStatus::DeleteInProgress(_) => self.foreign_transaction().is_some(),
        }
    }
}

/// An entry, its status and the header that decided it.
#[derive(Clone, Copy)]
pub struct JudgedEntry {
    pub placed: PlacedEntry,
    pub status: GroupStatus,
    pub stamp: TupleStamp,
}

impl JudgedEntry {
    /// Whether the group holds rows in the store (not in a loading backend's memory).
    pub fn has_stored_rows(&self) -> bool {
        self.placed.entry.state == GroupState::Stored && self.placed.entry.row_count > 0
    }
}

/// The oldest transaction whose snapshot may need what the store holds.
pub fn horizon(store: &ColdStore) -> Xid {
    store.toast().horizon()
}

/// Every entry that is not dead, ascending.
pub fn entries_not_dead(
    store: &ColdStore,
    oldest_xmin: Xid,
) -> Result<Vec<JudgedEntry>, ColdError> {
    Ok(entries_and_last_deleter(store, oldest_xmin)?.0)
}

/// The same, with the latest transaction that deleted an entry which is dead now: not a normal one
/// if there is none. Entries that were pruned before are not counted: heap has logged their
/// horizon.
pub fn entries_and_last_deleter(
    store: &ColdStore,
    oldest_xmin: Xid,
) -> Result<(Vec<JudgedEntry>, Xid), ColdError> {
    let mut judged = Vec::new();
    let mut last_deleter = Xid::INVALID;
    let mut judge = |tuple: ShownTuple<'_>| {
        let status = match tuple.status(oldest_xmin) {
            TupleStatus::Dead => {
                last_deleter = tuple.later_conflict(last_deleter);
                return false;
            }
            TupleStatus::RecentlyDead => GroupStatus::RecentlyDead,
            TupleStatus::InsertInProgress => GroupStatus::InsertInProgress(tuple.xmin()),
            TupleStatus::DeleteInProgress => GroupStatus::DeleteInProgress(tuple.deleter().0),
            TupleStatus::Live => GroupStatus::Live,
        };
        judged.push((status, tuple.stamp()));
        true
    };
    let entries = directory::groups_where(store, &mut judge)?;
    let entries = entries
        .into_iter()
        .zip(judged)
        .map(|(placed, (status, stamp))| JudgedEntry {
            placed,
            status,
            stamp,
        });
    Ok((entries.collect(), last_deleter))
}
