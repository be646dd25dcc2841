//! What serializable transactions notice of each other on rows that may move.
//!
//! Heap locks what a serializable transaction reads as finely as it can: the rows that an index led to,
//! all of the relation for a whole scan. So it is here, on both sides; a cold row is locked by its cold TID
//! ([`howdah_bridge::predicate`]). Readers lock before they look, and writers ask for locks after they have
//! written their mark, so that of two who come at once at least one notices the other.
//!
//! A lock names a TID and does not follow a row that is moved from hot to cold, or from one row group to
//! another. Three things make up for that:
//!
//! - Who reads rows one by one announces it first, by a lock on a page that no table has. A mover that has
//!   stamped all old places, and is about to commit, gives everybody who announced himself a lock on the
//!   new group; changes ask for that as well as for the row's own lock.
//! - Who announces himself later reads stamped places, if his snapshot is from before the move: a hot tuple
//!   that leads to a cold row, or a row of a group that is gone. He locks the row at its new place
//!   too, and then looks there who has changed it ([`super::moved`]).
//! - Who reads the whole table has its lock. Marks in groups that his snapshot does not see he looks through
//!   as well, for those who changed what he reads at its old place
//!   ([`crate::store::marks::note_unseen_changes`]).
//!
//! CLUSTER and VACUUM FULL lose the ways from old places to new ones. Nobody has read the table then whose
//! transaction still runs, unless the server has given him a lock on the relation; who comes later with a
//! snapshot from before takes one himself, and looks through all marks that his snapshot may miss.
//!
//! A writer whose snapshot is from before the move changes the row at its new place, as anybody does
//! ([`marks::elsewhere`]).
//!
//! An update that changes no indexed column asks nobody on the index pages that its new version enters, as a HOT
//! update of a hot row does not ([`super::cold_rows`]).
//!
//! TID range scans lock the relation; heap locks nothing there.

use howdah_bridge::predicate::{announce_reader, is_serializable, lock_relation};
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};

use crate::errors::or_raise;
use crate::store::{marks, rewritten};

/// To be called before rows are read one by one. The table is locked.
pub fn announce(table: Table<'_>, snapshot: Snapshot<'_>) {
    if !is_serializable() || !snapshot.is_mvcc() {
        return;
    }
    announce_reader(table, snapshot);
    if let Some(store) = ColdStore::open_used(table, LockMode::AccessShare)
        && rewritten::is_unseen(&store, snapshot)
    {
        lock_relation(table, snapshot);
        or_raise(table.oid(), marks::note_unseen_changes(&store, snapshot));
    }
}
