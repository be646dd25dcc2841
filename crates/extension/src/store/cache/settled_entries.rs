//! Directory entries that no transaction is changing, remembered by this backend.
//!
//! A row that is read, locked and changed by its number asks for its group three times, each time
//! by reading the entry's page. An entry whose inserter has committed and that no transaction
//! deletes is the same for every later reader, until the directory changes
//! ([`crate::store::directory_version`]). So is a gap: row numbers that no entry covers. Index
//! entries of a group that was written anew lead there. Serializable readers lose nothing: an entry
//! that they see and that no transaction deletes has no conflict to report.

use std::cell::RefCell;
use std::ops::Range;

use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::Xid;

use crate::bounded_cache::OrderedCache;
use crate::store::directory::PlacedEntry;
use crate::store::directory_version;

/// By file (the [id](ColdStore::id) of a store) and cold block.
pub(in crate::store) type ByBlock<T> = OrderedCache<(StoreId, u32), T>;

/// The number of entries that are remembered: those of half a billion rows.
const MOST: usize = 4_096;

struct Settled {
    changes: u32,
    inserter: Xid,
    placed: PlacedEntry,
}

thread_local! {
    /// By file and group. Ranges of rows do not overlap, so the entry that covers a row is the
    /// nearest one not above it.
    static SETTLED: RefCell<ByBlock<Settled>> = RefCell::new(ByBlock::of_entries(MOST));
}

struct Gap {
    /// The first cold block after it.
    end: u32,
    changes: u32,
}

thread_local! {
    /// By file and first cold block.
    static GAPS: RefCell<ByBlock<Gap>> = RefCell::new(ByBlock::of_entries(MOST));
}

/// Whether the row lies in a remembered gap.
pub(in crate::store) fn is_gap(store: &ColdStore, row: RowNumber) -> bool {
    let (file, block) = (store.id(), row.cold_block());
    let changes = GAPS.with_borrow_mut(|gaps| {
        let (_, gap) = gaps.nearest((file, 0)..=(file, block))?;
        (block < gap.end).then_some(gap.changes)
    });
    changes.is_some() && directory_version::current(file.toast) == changes
}

/// Watches an entry that is about to be read.
pub(in crate::store) struct Watch {
    changes: Option<u32>,
    inserter: Option<Xid>,
}

impl Watch {
    /// To be called before the entry is read.
    pub fn begin(store: &ColdStore) -> Watch {
        Watch {
            changes: directory_version::current(store.id().toast),
            inserter: None,
        }
    }

    /// Remembers that there is no entry, not even a dead one, that covers these cold blocks.
    pub fn note_gap(self, store: &ColdStore, blocks: Range<u32>) {
        let Some(changes) = self.changes else {
            return;
        };
        let end = blocks.end;
        let gap = Gap { end, changes };
        GAPS.with_borrow_mut(|gaps| gaps.insert((store.id(), blocks.start), gap));
    }

    /// Examines the tuple of an entry that the reader has seen.
    pub fn look(&mut self, tuple: ShownTuple<'_>) {
        self.inserter = tuple.settled_inserter();
    }

    /// Remembers the entry that was read, if it is settled.
    pub fn note(self, store: &ColdStore, placed: &PlacedEntry) {
        let (Some(changes), Some(inserter)) = (self.changes, self.inserter) else {
            return;
        };
        let noted = Settled {
            changes,
            inserter,
            placed: *placed,
        };
        let name = (store.id(), placed.entry.group().first_block());
        SETTLED.with_borrow_mut(|settled| settled.insert(name, noted));
    }
}

/// The entry that covers the row, in force for every snapshot, if it is remembered. Given a
/// snapshot's xmin, only if that snapshot sees the entry's inserter.
pub(in crate::store) fn recall(
    store: &ColdStore,
    row: RowNumber,
    xmin: Option<Xid>,
) -> Option<PlacedEntry> {
    let file = store.id();
    let (placed, changes) = SETTLED.with_borrow_mut(|settled| {
        let (_, found) = settled.nearest((file, 0)..=(file, row.cold_block()))?;
        if !found.placed.entry.covers(row) {
            return None;
        }
        let is_seen = xmin.is_none_or(|xmin| found.inserter.precedes(xmin));
        is_seen.then_some((found.placed, found.changes))
    })?;
    (directory_version::current(file.toast) == Some(changes)).then_some(placed)
}

/// Discards the entries of a file that is truncated in place.
pub(super) fn forget_file(file: StoreId) {
    SETTLED.with_borrow_mut(|settled| settled.retain(|(of, _), _| *of != file));
    GAPS.with_borrow_mut(|gaps| gaps.retain(|(of, _), _| *of != file));
}
