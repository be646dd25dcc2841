//! Whole directories that no transaction is changing, remembered by this backend.
//!
//! A query that statistics answer, or that skips most groups, would spend most of its time on the
//! directory: a descent for all entries, a pinned page and a judgement for each. So the entries
//! that a snapshot saw are remembered, if the fate of every directory tuple was settled, seen or
//! not:
//!
//! ```text
//!   seen       its inserter has committed, no transaction deletes it
//!   not seen   its inserter has aborted, or its deleter has committed
//! ```
//!
//! Until the directory changes ([`crate::store::directory_version`]), every snapshot for which the
//! youngest of these transactions has ended sees the same entries. A tuple whose fate is open keeps
//! the directory from being remembered: the end of its transaction is counted only after other
//! backends may see it.
//!
//! Serializable readers scan the directory, because tuples that they do not see may be conflicts.

use std::cell::RefCell;
use std::rc::Rc;

use howdah_bridge::predicate::is_serializable;
use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::xid::Xid;

use crate::bounded_cache::HashCache;
use crate::store::directory::PlacedEntry;
use crate::store::directory_version;

/// The most entries of all listings together: some 300 kB.
const MOST_ENTRIES: usize = 4_096;
/// The most entries of one listing.
const MOST_IN_LISTING: usize = 1_024;

struct Listing {
    changes: u32,
    /// The youngest transaction on which the listing depends.
    youngest: Xid,
    entries: Rc<[PlacedEntry]>,
}

thread_local! {
    /// By file.
    static LISTINGS: RefCell<HashCache<StoreId, Listing>> =
        RefCell::new(HashCache::of_bytes(MOST_ENTRIES, |_, listing| listing.entries.len() + 1));
}

/// The row groups whose entries the snapshot sees, ascending, if they are remembered.
pub(in crate::store) fn recall(
    store: &ColdStore,
    snapshot: Snapshot<'_>,
) -> Option<Rc<[PlacedEntry]>> {
    if !snapshot.is_mvcc() || is_serializable() {
        return None;
    }
    let file = store.id();
    let (changes, entries) = LISTINGS.with_borrow_mut(|listings| {
        let known = listings.get(&file)?;
        let is_same = known.youngest.precedes(snapshot.xmin());
        is_same.then(|| (known.changes, Rc::clone(&known.entries)))
    })?;
    (directory_version::current(file.toast) == Some(changes)).then_some(entries)
}

/// Watches a scan of the whole directory, from before it begins.
pub(in crate::store) struct Watch {
    changes: Option<u32>,
    /// The youngest transaction so far; `None` if the fate of some tuple is open.
    youngest: Option<Xid>,
}

impl Watch {
    /// To be called before the first entry is read.
    pub fn begin(store: &ColdStore, snapshot: Snapshot<'_>) -> Watch {
        let may_be_kept = snapshot.is_mvcc() && !is_serializable();
        Watch {
            changes: may_be_kept
                .then(|| directory_version::current(store.id().toast))
                .flatten(),
            youngest: Some(Xid::FROZEN),
        }
    }

    /// Examines a tuple that the snapshot has judged.
    pub fn look(&mut self, tuple: ShownTuple<'_>, is_seen: bool) {
        let settled = match is_seen {
            true => tuple.settled_inserter(),
            false => tuple.settled_end(),
        };
        self.youngest = match (self.youngest, settled) {
            (Some(youngest), Some(settled)) => Some(youngest.younger(settled)),
            _ => None,
        };
    }

    /// Remembers the entries that were seen, ascending.
    pub fn note(self, store: &ColdStore, entries: &[PlacedEntry]) {
        let (Some(changes), Some(youngest)) = (self.changes, self.youngest) else {
            return;
        };
        if entries.len() > MOST_IN_LISTING {
            return;
        }
        let listing = Listing {
            changes,
            youngest,
            entries: entries.into(),
        };
        LISTINGS.with_borrow_mut(|listings| listings.insert(store.id(), listing));
    }
}

/// Discards what is known of a file that is truncated in place.
pub(super) fn forget_file(file: StoreId) {
    LISTINGS.with_borrow_mut(|listings| listings.remove(&file));
}
