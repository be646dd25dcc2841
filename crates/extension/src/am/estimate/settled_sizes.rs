//! Sizes of cold sides that have not changed, remembered.
//!
//! Reading the directory takes some ten microseconds, which does not matter until a query is over
//! some hundred partitions. Where no row of a table's groups is hidden, its size stays the same
//! until the directory changes ([`directory_version`]). Changes that are not counted, those of
//! transactions that were prepared for two-phase commit, are noticed some seconds later: plans need
//! no more.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use howdah_bridge::Oid;
use howdah_bridge::table::TableFile;

use super::cold_size::ColdSize;
use crate::bounded_cache::HashCache;
use crate::store::directory_version;

/// How long a size is relied on.
const KEPT: Duration = Duration::from_secs(10);
/// Tables that are remembered.
const MOST: usize = 4_096;

#[derive(Clone, Copy)]
struct Settled {
    /// Names the table's contents: whatever exchanges its TOAST relation's file exchanges this one
    /// too.
    file: TableFile,
    changes: u32,
    until: Instant,
    size: ColdSize,
}

thread_local! {
    static SETTLED: RefCell<HashCache<Oid, Settled>> = RefCell::new(HashCache::of_entries(MOST));
}

/// Forgets a table whose files are emptied in place.
pub(super) fn forget(table: Oid) {
    SETTLED.with_borrow_mut(|settled| settled.remove(&table));
}

/// A size that is about to be found out, or is known.
pub(super) struct Asked {
    file: TableFile,
    changes: Option<u32>,
}

impl Asked {
    /// To be called before the directory is read; names table, file and TOAST relation.
    pub fn about(file: TableFile, toast: Oid) -> Asked {
        let changes = directory_version::current(toast);
        Asked { file, changes }
    }

    pub fn known(&self) -> Option<ColdSize> {
        let known = SETTLED.with_borrow_mut(|settled| settled.get(&self.file.table).copied())?;
        let is_valid = known.file == self.file && Some(known.changes) == self.changes;
        (is_valid && Instant::now() < known.until).then_some(known.size)
    }

    /// Remembers the size of a cold side of which no row is hidden.
    pub fn remember(self, size: ColdSize) {
        self.remember_for(size, KEPT);
    }

    /// Remembers a size for some time, if the directory does not change meanwhile.
    pub fn remember_for(self, size: ColdSize, kept: Duration) {
        let Some(changes) = self.changes else {
            return;
        };
        let noted = Settled {
            file: self.file,
            changes,
            until: Instant::now() + kept,
            size,
        };
        SETTLED.with_borrow_mut(|settled| settled.insert(self.file.table, noted));
    }
}
