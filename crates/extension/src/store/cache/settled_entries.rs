//! Directory entries that no transaction is changing, remembered by this backend.
//!
//! A row that is read, locked and changed by its number asks for its group three times, each time
//! by reading the entry's page. An entry whose inserter has committed and that no transaction
//! deletes is the same for every later reader, until the directory changes
//! ([`crate::store::directory_version`]). Serializable readers lose nothing: an entry that they see
//! and that no transaction deletes has no conflict to report.
//!
//! So is a gap: row numbers that no entry covers, or only entries that are dead to every snapshot
//! that sees the transactions that ended them as finished. Index entries of a group that was
//! written anew lead there, and those of a move that was rolled back, of which there are as many as
//! rows.

use std::cell::RefCell;
use std::ops::Range;

use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::snapshot::{Snapshot, SnapshotKind};
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
    ended_by: Xid,
}

/// A range of cold blocks in which no snapshot finds a row that sees `ended_by` as finished.
pub(in crate::store) struct FoundGap {
    pub blocks: Range<u32>,
    /// The latest transaction that has deleted an entry; not a normal one if the gap is empty, but
    /// for entries whose inserters have aborted.
    pub ended_by: Xid,
}

thread_local! {
    /// By file and first cold block.
    static GAPS: RefCell<ByBlock<Gap>> = RefCell::new(ByBlock::of_entries(MOST));
}

/// Whether the row lies in a remembered gap, in which the snapshot sees nothing.
pub(in crate::store) fn is_gap(store: &ColdStore, row: RowNumber, snapshot: Snapshot<'_>) -> bool {
    let sees_as_finished = |xid: Xid| match snapshot.kind() {
        SnapshotKind::Mvcc => xid.precedes(snapshot.xmin()),
        SnapshotKind::Dirty | SnapshotKind::SelfVisible => true,
        SnapshotKind::NonVacuumable => !xid.is_normal(),
        SnapshotKind::Any | SnapshotKind::Toast | SnapshotKind::HistoricMvcc => false,
    };
    gap_end(store, row).is_some_and(sees_as_finished)
}

/// Whether the row lies in a remembered gap in which no snapshot sees anything.
pub(in crate::store) fn is_empty_gap(store: &ColdStore, row: RowNumber) -> bool {
    gap_end(store, row).is_some_and(|ended_by| !ended_by.is_normal())
}

/// The transaction that ended the last row of the remembered gap in which the row lies.
fn gap_end(store: &ColdStore, row: RowNumber) -> Option<Xid> {
    let (file, block) = (store.id(), row.cold_block());
    let (changes, ended_by) = GAPS.with_borrow_mut(|gaps| {
        let (_, gap) = gaps.nearest((file, 0)..=(file, block))?;
        (block < gap.end).then_some((gap.changes, gap.ended_by))
    })?;
    (directory_version::current(file.toast) == Some(changes)).then_some(ended_by)
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

    /// Remembers a gap.
    pub fn note_gap(self, store: &ColdStore, found: FoundGap) {
        let Some(changes) = self.changes else {
            return;
        };
        let gap = Gap {
            end: found.blocks.end,
            changes,
            ended_by: found.ended_by,
        };
        GAPS.with_borrow_mut(|gaps| gaps.insert((store.id(), found.blocks.start), gap));
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
