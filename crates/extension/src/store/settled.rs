//! Directory entries that nobody is about to change, remembered.
//!
//! A row that is read, locked and changed by its number asks for its group three times, each time by
//! reading the entry's page. An entry whose inserter is over and that nobody deletes is the same for everybody who
//! comes later, until the directory changes ([`super::changes`]). Serializable readers lose nothing: an
//! entry that they see and that nobody deletes has no conflict to tell.

use std::cell::RefCell;

use howdah_bridge::ffi::quiet;
use howdah_bridge::hot::xmin_of;
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use pgrx::pg_sys;

use super::changes;
use super::directory::PlacedEntry;

/// Entries that are remembered.
const MOST: usize = 64;

struct Settled {
    file: (u32, u32),
    changes: u32,
    inserter: pg_sys::TransactionId,
    placed: PlacedEntry,
}

thread_local! {
    static SETTLED: RefCell<Vec<Settled>> = const { RefCell::new(Vec::new()) };
}

/// An entry about to be read.
pub(super) struct Watch {
    changes: Option<u32>,
    inserter: Option<pg_sys::TransactionId>,
}

impl Watch {
    /// To be called before the entry is read.
    pub fn begin(store: &ColdStore) -> Watch {
        Watch {
            changes: changes::count(store.identity().0),
            inserter: None,
        }
    }

    /// Looks at the tuple of an entry that the reader has seen.
    ///
    /// # Safety
    /// The tuple's page is pinned and share-locked.
    pub unsafe fn look(&mut self, tuple: pg_sys::HeapTuple) {
        // SAFETY: as for this function.
        unsafe {
            let header = (*tuple).t_data;
            let bits = u32::from((*header).t_infomask);
            let is_kept = bits & pg_sys::HEAP_XMAX_INVALID != 0;
            let is_born = bits & pg_sys::HEAP_XMIN_COMMITTED != 0;
            self.inserter = (is_kept && is_born).then(|| match bits & pg_sys::HEAP_XMIN_FROZEN {
                pg_sys::HEAP_XMIN_FROZEN => pg_sys::FrozenTransactionId,
                _ => xmin_of(header),
            });
        }
    }

    /// Remembers the entry that was read, if it is settled.
    pub fn note(self, store: &ColdStore, placed: &PlacedEntry) {
        let (Some(changes), Some(inserter)) = (self.changes, self.inserter) else {
            return;
        };
        let noted = Settled {
            file: store.identity(),
            changes,
            inserter,
            placed: *placed,
        };
        SETTLED.with_borrow_mut(|settled| {
            let group = placed.entry.group();
            settled.retain(|s| s.file != noted.file || s.placed.entry.group() != group);
            if settled.len() >= MOST {
                settled.remove(0);
            }
            settled.push(noted);
        });
    }
}

/// The entry that covers the row, in force and for everybody, if it is remembered; for a snapshot only if
/// that sees its inserter, given the snapshot's xmin.
pub(super) fn recall(
    store: &ColdStore,
    row: RowNumber,
    xmin: Option<pg_sys::TransactionId>,
) -> Option<PlacedEntry> {
    let file = store.identity();
    let (placed, changes) = SETTLED.with_borrow(|settled| {
        let mut newest_first = settled.iter().rev();
        let found = newest_first.find(|s| s.file == file && s.placed.entry.covers(row))?;
        // SAFETY: a comparison of two transaction ids.
        let is_seen =
            xmin.is_none_or(|xmin| unsafe { quiet::TransactionIdPrecedes(found.inserter, xmin) });
        is_seen.then_some((found.placed, found.changes))
    })?;
    (changes::count(file.0) == Some(changes)).then_some(placed)
}

/// Forgets the entries of a file that is emptied in place.
pub(super) fn forget_file(file: (u32, u32)) {
    SETTLED.with_borrow_mut(|settled| settled.retain(|s| s.file != file));
}
