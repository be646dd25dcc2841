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

/// Rows that this backend may hide before a size that is remembered is found out again: fewer than
/// a group has that is not counted at each planning ([`super::hidden`]).
const MOST_HIDDEN: u32 = 64;
/// Or so small a part of the table's rows, if that is more: no plan depends on it.
const HIDDEN_PART: u64 = 128;

#[derive(Clone, Copy)]
struct Settled {
    /// Names the table's contents: whatever exchanges its TOAST relation's file exchanges this one
    /// too.
    file: TableFile,
    changes: u32,
    until: Instant,
    size: ColdSize,
    /// Rows that this backend has hidden since.
    hidden: u32,
}

thread_local! {
    static SETTLED: RefCell<HashCache<Oid, Settled>> = RefCell::new(HashCache::of_entries(MOST));
}

/// Forgets a table whose files are emptied in place.
pub(super) fn forget(table: Oid) {
    SETTLED.with_borrow_mut(|settled| settled.remove(&table));
}

/// Takes a row off the size that is remembered: this backend has hidden it. What other backends
/// hide is noticed when the time is over, and so is a rollback.
pub(super) fn hide_row(table: Oid) {
    SETTLED.with_borrow_mut(|settled| {
        let Some(mut known) = settled.get(&table).copied() else {
            return;
        };
        known.hidden += 1;
        known.size.rows = known.size.rows.saturating_sub(1);
        known.size.passed_over += 1;
        let most_hidden = u64::from(MOST_HIDDEN).max(known.size.rows / HIDDEN_PART);
        if u64::from(known.hidden) > most_hidden || known.size.rows == 0 {
            settled.remove(&table);
        } else {
            settled.insert(table, known);
        }
    });
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
            hidden: 0,
        };
        SETTLED.with_borrow_mut(|settled| settled.insert(self.file.table, noted));
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ColdSize, Duration, HIDDEN_PART, Instant, KEPT, MOST_HIDDEN, Oid, SETTLED, Settled,
        TableFile, hide_row,
    };

    fn table() -> Oid {
        16_384.into()
    }

    fn remember(rows: u64) {
        let size = ColdSize {
            rows,
            ..ColdSize::default()
        };
        let noted = Settled {
            file: TableFile {
                table: table(),
                number: 1,
            },
            changes: 1,
            until: Instant::now() + KEPT,
            size,
            hidden: 0,
        };
        SETTLED.with_borrow_mut(|settled| settled.insert(table(), noted));
    }

    fn known() -> Option<(u64, Duration)> {
        let known = SETTLED.with_borrow_mut(|settled| settled.get(&table()).copied())?;
        Some((
            known.size.rows,
            known.until.saturating_duration_since(Instant::now()),
        ))
    }

    #[test]
    fn hidden_rows_are_taken_off_until_they_are_many() {
        remember(1_000);
        for hidden in 1..=u64::from(MOST_HIDDEN) {
            hide_row(table());
            let (rows, left) = known().expect("a size");
            assert_eq!(rows, 1_000 - hidden);
            assert!(left <= KEPT, "no longer than before");
        }
        hide_row(table());
        assert_eq!(known(), None, "found out again");
        hide_row(table());
        assert_eq!(known(), None, "nothing is remembered by hiding");
    }

    #[test]
    fn of_a_large_table_more_rows_may_be_hidden() {
        let rows = 1_000 * HIDDEN_PART;
        remember(rows);
        // Some fewer than a thousand: the part is one of the rows that are left.
        (0..990).for_each(|_| hide_row(table()));
        assert_eq!(known().map(|known| known.0), Some(rows - 990));
        (0..10).for_each(|_| hide_row(table()));
        assert_eq!(known(), None);
    }

    #[test]
    fn a_side_of_which_no_row_is_left_is_not_remembered() {
        remember(2);
        hide_row(table());
        assert_eq!(known().map(|known| known.0), Some(1));
        hide_row(table());
        assert_eq!(known(), None);
    }
}
