//! The status of each row group, for maintenance.
//!
//! A scan needs to know what one snapshot sees. Index builds, ANALYZE, VACUUM and table rewrites
//! need to know whether *any* snapshot may still see a group, as `HeapTupleSatisfiesVacuum` tells
//! of a heap tuple. The status of a group is that of its directory entry.
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

use super::directory::{self, GroupState, PlacedEntry};
use crate::errors::ColdError;

/// The status of an entry that is not dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Live,
    /// Deleted, but an old snapshot may still see it.
    RecentlyDead,
    /// Insert in progress, by this transaction.
    Arriving(Xid),
    /// Delete in progress, by this transaction.
    Leaving(Xid),
}

impl Fate {
    /// The transaction in progress that decides the status, unless it is our own.
    pub fn foreign_transaction(self) -> Option<Xid> {
        match self {
            Fate::Arriving(xid) | Fate::Leaving(xid) => (!xid.is_own()).then_some(xid),
            Fate::Live | Fate::RecentlyDead => None,
        }
    }

    /// Whether the group's rows count as live, by the rule that ANALYZE and index builds share: our
    /// own changes count as committed, those of other transactions in progress as not yet made.
    pub fn counts_as_live(self) -> bool {
        match self {
            Fate::Live => true,
            Fate::RecentlyDead => false,
            Fate::Arriving(_) => self.foreign_transaction().is_none(),
            Fate::Leaving(_) => self.foreign_transaction().is_some(),
        }
    }
}

/// An entry, its status, and the header that decided it.
#[derive(Clone, Copy)]
pub struct FatedEntry {
    pub placed: PlacedEntry,
    pub fate: Fate,
    pub stamp: TupleStamp,
}

impl FatedEntry {
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
pub fn entries_not_dead(store: &ColdStore, oldest_xmin: Xid) -> Result<Vec<FatedEntry>, ColdError> {
    Ok(entries_and_last_deleter(store, oldest_xmin)?.0)
}

/// The same, with the latest transaction that deleted an entry which is dead now: not a normal one
/// if there is none. Entries that were pruned before are not counted: heap has logged their
/// horizon.
pub fn entries_and_last_deleter(
    store: &ColdStore,
    oldest_xmin: Xid,
) -> Result<(Vec<FatedEntry>, Xid), ColdError> {
    let mut judged = Vec::new();
    let mut last_deleter = Xid::INVALID;
    let mut judge = |tuple: ShownTuple<'_>| {
        let fate = match tuple.status(oldest_xmin) {
            TupleStatus::Dead => {
                last_deleter = tuple.later_conflict(last_deleter);
                return false;
            }
            TupleStatus::RecentlyDead => Fate::RecentlyDead,
            TupleStatus::InsertInProgress => Fate::Arriving(tuple.xmin()),
            TupleStatus::DeleteInProgress => Fate::Leaving(tuple.deleter().0),
            TupleStatus::Live => Fate::Live,
        };
        judged.push((fate, tuple.stamp()));
        true
    };
    let entries = directory::groups_where(store, &mut judge)?;
    let entries = entries
        .into_iter()
        .zip(judged)
        .map(|(placed, (fate, stamp))| FatedEntry {
            placed,
            fate,
            stamp,
        });
    Ok((entries.collect(), last_deleter))
}
