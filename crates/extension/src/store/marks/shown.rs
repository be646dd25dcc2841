//! Judging a tuple that the store shows.

use howdah_bridge::hot::xmin_of;
use howdah_bridge::store::Visited;
use pgrx::pg_sys;

/// Whether the tuple shown is in force now: of our own transaction, whatever the command, or
/// committed; and not replaced.
pub(super) fn in_force(shown: &Visited<'_>) -> bool {
    // SAFETY: the page is pinned and share-locked while a tuple is shown.
    unsafe {
        pg_sys::HeapTupleSatisfiesVisibility(
            shown.tuple,
            &raw mut pg_sys::SnapshotSelfData,
            shown.buffer,
        )
    }
}

/// Transaction and, for our own, command that wrote the tuple shown.
pub(super) fn writer_of(shown: &Visited<'_>) -> (pg_sys::TransactionId, Option<pg_sys::CommandId>) {
    // SAFETY: as for `in_force`.
    unsafe {
        let header = (*shown.tuple).t_data;
        let xid = xmin_of(header);
        let own = pg_sys::TransactionIdIsCurrentTransactionId(xid);
        (xid, own.then(|| pg_sys::HeapTupleHeaderGetCmin(header)))
    }
}
