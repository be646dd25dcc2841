//! The status of marked rows, as maintenance judges it: heap's results, from marks.

use howdah_bridge::store::{ColdStore, Visited};
use howdah_bridge::xid::Xid;

use crate::errors::ColdError;
use crate::store::directory::GroupEntry;
use crate::store::marks::marked_rows::{hidden_where, with_pending};
use crate::store::marks::tuple_visibility::writer_of;
use crate::store::row_set::RowSet;

/// The status of the marked rows of a group, in the terms of `HeapTupleSatisfiesVacuum`.
pub struct RowStatus {
    /// Dead: hidden from every snapshot.
    pub dead: RowSet,
    /// The latest transaction that hid a dead row; not a normal one if all records of that are
    /// frozen.
    pub last_hider: Xid,
    /// Recently dead: hidden by our own transaction or a committed one; old snapshots may see them.
    pub recently_dead: RowSet,
    /// Delete in progress.
    pub delete_in_progress: RowSet,
    /// One of the transactions in progress that hide rows.
    pub deleter: Option<Xid>,
}

/// Judges every mark of a group; `horizon` is the oldest transaction that a snapshot may need.
pub fn row_status(
    store: &ColdStore,
    entry: &GroupEntry,
    horizon: Xid,
) -> Result<RowStatus, ColdError> {
    let writer_status = |shown: &Visited<'_>| {
        let (xid, own) = writer_of(shown);
        // In the order of heap's visibility rules.
        if own.is_some() {
            Status::Committed
        } else if xid == Xid::FROZEN {
            Status::Old(xid)
        } else if xid.is_in_progress() {
            Status::Running(xid)
        } else if !xid.did_commit() {
            Status::Void
        } else if xid.precedes(horizon) {
            Status::Old(xid)
        } else {
            Status::Committed
        }
    };
    let (mut deleter, mut last_hider) = (None, Xid::INVALID);
    let mut where_status = |wanted: fn(&Status) -> bool| {
        hidden_where(store, entry, &mut |shown| {
            let status = writer_status(shown);
            match status {
                Status::Running(xid) => deleter = Some(xid),
                Status::Old(xid) => last_hider = last_hider.younger(xid),
                Status::Committed | Status::Void => {}
            }
            wanted(&status)
        })
    };
    // In this order: if a transaction commits meanwhile, its rows are found dead as well.
    let delete_in_progress =
        where_status(|status| matches!(status, Status::Running(_)))?.unwrap_or_default();
    let recently_dead = where_status(|status| matches!(status, Status::Committed))?;
    let recently_dead = with_pending(store, entry, recently_dead).unwrap_or_default();
    let dead = where_status(|status| matches!(status, Status::Old(_)))?.unwrap_or_default();
    Ok(RowStatus {
        dead,
        last_hider,
        recently_dead,
        delete_in_progress,
        deleter,
    })
}

/// The status of the writer of a mark.
enum Status {
    /// Committed, and every snapshot sees it as finished.
    Old(Xid),
    /// Committed, or our own.
    Committed,
    Running(Xid),
    /// Aborted.
    Void,
}
