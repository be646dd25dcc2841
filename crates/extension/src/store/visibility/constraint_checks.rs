//! Rows that are moved while a unique or an exclusion constraint is checked.
//!
//! A check judges rows by a dirty snapshot, at the places to which an index leads it. A row that is
//! being moved has entries of both its places. Two rules let checks and movers pass each other.
//!
//! **The new place is passed over while its mover is in progress** ([`passes`]). The check would
//! wait for the mover otherwise, as long as it takes to enter a whole group into the indexes. The
//! old place alone tells what the check must know: the row there is live, or another transaction
//! has changed it, and then the mover leaves it there and hides it in the new group, or gives the
//! group up. Every row of the new group has such an old place if the group has
//! [`GroupFlags::MOVED_ROWS`]; others that a transaction in progress has written are loads, or
//! merges of young groups.
//!
//! **A check that meets an old place begins anew if the row may have left it since the check
//! began** ([`was_left_hot`], [`was_left_cold`]). Movers insert index entries without a check of
//! their own, hence without waiting for the check of another transaction. So the check may have
//! passed over the new entry, or read the index before the entry was there:
//!
//! ```text
//!   check   reads the index, passes over new places ............ old place: left ──> begins anew
//!   mover             enters the new places, stamps, commits
//! ```
//!
//! B-trees are checked under a lock, from the old place to the new one, and know no such order; but
//! a scan for an exclusion constraint copies what a page has, in any order. A row may have left
//! while the check went on if the active snapshot, which is older than the check, sees the mover as
//! in progress. The check is told to wait for that mover, which has ended, and begins anew. The
//! mover is remembered: what it moved is found by every scan that begins from now on.
//!
//! The old place is still there to be met: because of the active snapshot nothing prunes the hot
//! version, kills its index entry, or removes the bytes of a merged group. Without an active
//! snapshot no row is passed over.
//!
//! Most dead versions that checks meet were not moved. So movers announce themselves in shared
//! memory before they make the first place an old one ([`announce_mover`]); as long as the active
//! snapshot sees the last one as finished, dead versions are not looked at. The word is of no use
//! after a restart, when no snapshot is older than a mover.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use howdah_bridge::shared_memory::{Area, Shareable};
use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::{Snapshot, try_with_active};
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::Xid;

use crate::errors::ColdError;
use crate::store::directory::{self, GroupEntry, GroupFlags};

/// The number of the latest mover that has announced itself; 0: none has.
pub struct LastMover(AtomicU32);

// SAFETY: an atomic.
unsafe impl Shareable for LastMover {}

pub static LAST_MOVER: Area<LastMover> = Area::new(c"howdah last mover");

thread_local! {
    /// Movers that were known to have committed when a check of this transaction began anew.
    static KNOWN: RefCell<Vec<Xid>> = const { RefCell::new(Vec::new()) };
}

/// To be called by a transaction that moves or merges rows, before it stamps the first row or
/// deletes the first group.
pub fn announce_mover() {
    let mover = Xid::current();
    if let Some(LastMover(last)) = LAST_MOVER.get() {
        let later = |last| {
            Xid::from_number(last)
                .precedes(mover)
                .then(|| mover.number())
        };
        // Pages that carry the stamps make the word visible to all that read them.
        let _ = last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }
}

/// Called when the transaction is over.
pub fn reset() {
    KNOWN.with_borrow_mut(Vec::clear);
}

/// Whether a row of a group is passed over by a dirty snapshot, by which the group's entry was just
/// judged.
pub fn passes(entry: &GroupEntry, snapshot: Snapshot<'_>) -> bool {
    snapshot.xmin() != Xid::INVALID
        && entry.flags.contain(GroupFlags::MOVED_ROWS)
        && may_have_left(snapshot.xmin())
}

/// Whether rows that the snapshot does not see must be asked about, because some may have left
/// their places.
#[inline]
pub fn asks_of_unseen(snapshot: Snapshot<'_>) -> bool {
    let last = || {
        LAST_MOVER
            .get()
            .map_or(0, |last| last.0.load(Ordering::SeqCst))
    };
    snapshot.is_dirty()
        && try_with_active(|active| !Xid::from_number(last()).precedes(active.xmin())) == Some(true)
}

/// Whether the check must begin anew because the hot row in the slot, which the dirty snapshot does
/// not see, has left its place. Then the snapshot names the mover.
pub fn was_left_hot(slot: Slot<'_>, snapshot: Snapshot<'_>) -> bool {
    let mover = slot.moved_to().map(|(_, mover)| mover);
    mover.is_some_and(|mover| begins_anew(mover, snapshot))
}

/// The same for a cold row, which left with its whole group: the entry of that group.
pub fn was_left_cold(
    store: &ColdStore,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<Option<GroupEntry>, ColdError> {
    let Some(group) = directory::nearest_group(store, row) else {
        return Ok(None);
    };
    let mut merger = Xid::INVALID;
    let mut was_deleted = |tuple: ShownTuple<'_>| {
        merger = tuple.deleter().0;
        merger != Xid::INVALID
    };
    let left = directory::entry_covering(store, group, row, &mut was_deleted)?;
    Ok(left
        .filter(|_| begins_anew(merger, snapshot))
        .map(|placed| placed.entry))
}

/// Whether rows may have left their places by this mover since the check began.
fn may_have_left(mover: Xid) -> bool {
    try_with_active(|active| active.sees_as_running(mover)) == Some(true)
}

fn begins_anew(mover: Xid, snapshot: Snapshot<'_>) -> bool {
    if !may_have_left(mover) || !mover.did_commit() {
        return false;
    }
    let is_new = KNOWN.with_borrow_mut(|known| {
        let is_new = !known.contains(&mover);
        if is_new {
            known.push(mover);
        }
        is_new
    });
    if is_new {
        snapshot.name_inserter(mover);
    }
    is_new
}
