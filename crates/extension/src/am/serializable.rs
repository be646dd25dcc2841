//! Predicate locks of serializable transactions on rows that may be moved.
//!
//! Heap locks what a serializable transaction reads as finely as possible: the rows that an index
//! led to, or the whole relation for a sequential scan. The same holds here, on both sides; a cold
//! row is locked by its cold TID ([`howdah_bridge::predicate`]). Readers lock before they read, and
//! writers check for locks after they have written their mark. So of a concurrent reader and writer
//! at least one notices the other.
//!
//! A lock names a TID and does not follow a row that is moved from hot to cold, or from one row
//! group to another. Three rules make up for that:
//!
//! - A transaction that reads rows one by one announces it first, by a lock on a page that no table
//!   has. A mover that has stamped all old places, and is about to commit, gives every announced
//!   reader a lock on the new group; a writer checks for that lock as well as for the row's own
//!   lock.
//! - A transaction that announces itself later reads stamped places, if its snapshot was taken
//!   before the move: a hot tuple that leads to a cold row, or a row of a group that was deleted.
//!   It locks the row at its new place too, and then checks there which transaction has changed it
//!   ([`crate::store::visibility::moved`]).
//! - A transaction that reads the whole table has a lock on the relation. It also reads the marks
//!   in groups that its snapshot does not see, to find transactions that changed rows which it
//!   reads at their old place ([`crate::store::visibility::note_unseen_changes`]).
//!
//! CLUSTER and VACUUM FULL remove the links from old places to new ones. At that time no
//! transaction in progress has read the table, unless the server has given it a lock on the
//! relation. A transaction that comes later with a snapshot from before locks the relation itself,
//! and reads all marks that its snapshot may miss.
//!
//! A writer whose snapshot was taken before the move changes the row at its new place, as any other
//! writer does ([`moved_changes`](crate::store::visibility::moved_changes)).
//!
//! An update that changes no indexed column does not check the locks on the index pages that its
//! new version enters, as a HOT update of a hot row does not ([`super::cold_rows`]).
//!
//! TID range scans lock the relation; heap locks nothing there.

use howdah_bridge::predicate::{announce_reader, is_serializable, lock_relation};
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};

use crate::errors::or_raise;
use crate::store::rewritten;
use crate::store::visibility::note_unseen_changes;

/// Must be called before rows are read one by one. The table is locked.
pub fn announce(table: Table<'_>, snapshot: Snapshot<'_>) {
    if !is_serializable() || !snapshot.is_mvcc() {
        return;
    }
    announce_reader(table, snapshot);
    if let Some(store) = ColdStore::open_used(table, LockMode::AccessShare)
        && rewritten::is_unseen(&store, snapshot)
    {
        lock_relation(table, snapshot);
        or_raise(table.oid(), note_unseen_changes(&store, snapshot));
    }
}
