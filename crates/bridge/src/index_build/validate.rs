//! The second scan of a concurrent index build: `index_validate_scan`.
//!
//! ```text
//!   sorted TIDs of the index   h1 h2 h3 … c1 c2 …      hot before cold, as blocks sort
//!   rows the snapshot sees     h1    h3 … c1 c2 …      heap's scan from block 0, then the others
//! ```
//!
//! Both are merged; a row that the index does not have is inserted. Mirrors
//! `heapam_index_validate_scan`, including the look back inside a page that HOT chains require;
//! rows that [`ValidateIndex`] adds come in strict TID order and need no look back.

use std::ops::{Deref, DerefMut};

use pgrx::{pg_guard, pg_sys};

use super::entries::{IndexInfo, Indexing};
use super::roots::ChainRoots;
use crate::ffi::unguarded;
use crate::hot::scan::HotScan;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::table_am::Routine;
use crate::tid::{Tid, block_of};

/// Adds rows to the second scan of a concurrent index build.
pub trait ValidateIndex {
    /// Passes each row that the snapshot sees and that is not hot to [`Validation::lacks`], in the
    /// order of TIDs, and inserts those that the index lacks. Called once the hot rows are done.
    fn validate(validation: &mut Validation<'_>, snapshot: Snapshot<'_>);
}

/// Has further rows added by `V`.
pub fn set_validate<V: ValidateIndex>(routine: &mut Routine) {
    routine.index_validate_scan = Some(index_validate_scan::<V>);
}

/// The TIDs that the index holds, ascending.
struct IndexedTids {
    /// The server's sort, which is performed, and ended after the scan.
    sort: *mut pg_sys::Tuplesortstate,
    current: Option<u64>,
    exhausted: bool,
}

/// A TID as the sort orders it: block, then offset.
fn sort_key(tid: &pg_sys::ItemPointerData) -> u64 {
    (u64::from(block_of(tid)) << 16) | u64::from(tid.ip_posid)
}

impl IndexedTids {
    /// Moves to the first TID not below `key`; `passed` gets those that are skipped.
    fn advance_to(&mut self, key: u64, mut passed: impl FnMut(u64)) {
        while !self.exhausted && self.current.is_none_or(|current| current < key) {
            if let Some(current) = self.current {
                passed(current);
            }
            let mut datum = pg_sys::Datum::from(0);
            let mut is_null = false;
            // SAFETY: the sort was performed by the server and outlives the scan.
            let found = unsafe {
                pg_sys::tuplesort_getdatum(
                    self.sort,
                    true,
                    false,
                    &mut datum,
                    &mut is_null,
                    std::ptr::null_mut(),
                )
            };
            self.exhausted = !found;
            self.current = found.then(|| datum.value() as u64);
        }
    }

    fn stands_on(&self, key: u64) -> bool {
        self.current == Some(key)
    }
}

/// A second scan in progress. Table and index are open and locked, the index for inserts.
pub struct Validation<'a> {
    indexing: Indexing<'a>,
    /// The server's counts.
    state: *mut pg_sys::ValidateIndexState,
    indexed: IndexedTids,
}

impl<'a> Deref for Validation<'a> {
    type Target = Indexing<'a>;

    fn deref(&self) -> &Indexing<'a> {
        &self.indexing
    }
}

impl<'a> DerefMut for Validation<'a> {
    fn deref_mut(&mut self) -> &mut Indexing<'a> {
        &mut self.indexing
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_validate_scan<V: ValidateIndex>(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    snapshot: pg_sys::Snapshot,
    state: *mut pg_sys::ValidateIndexState,
) {
    // SAFETY: the server holds table and index open and locked, the snapshot registered, and info
    // and state valid during the call.
    let (mut validation, snapshot) = unsafe {
        let (table, info) = (Table::from_raw(table), IndexInfo::from_raw(info));
        let validation = Validation {
            indexing: Indexing::new(table, Table::from_raw(index), info),
            state,
            indexed: IndexedTids {
                sort: (*state).tuplesort,
                current: None,
                exhausted: false,
            },
        };
        (validation, Snapshot::from_raw(snapshot))
    };
    validation.hot_rows(snapshot);
    V::validate(&mut validation, snapshot);
    validation.indexing.entries.end();
}

impl Validation<'_> {
    /// Counts a row, and tells whether the index lacks it. TIDs ascend from call to call.
    pub fn lacks(&mut self, tid: Tid) -> bool {
        self.count_row();
        let key = sort_key(&tid.raw());
        self.indexed.advance_to(key, |_| {});
        !self.indexed.stands_on(key)
    }

    /// Inserts the row in the slot under a TID, unless the index's predicate excludes it.
    pub fn insert(&mut self, tid: Tid) {
        if !self.entries.form() {
            return;
        }
        let unique = match self.info.is_unique() {
            true => pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES,
            false => pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
        };
        let mut tid = tid.raw();
        // SAFETY: the index is open and locked for inserts; the values are those of the row in the
        // slot.
        unsafe {
            unguarded::index_insert(
                self.index.raw(),
                self.entries.values.as_mut_ptr(),
                self.entries.nulls.as_mut_ptr(),
                &mut tid,
                self.table.raw(),
                unique,
                false,
                self.info.raw(),
            );
            (*self.state).tups_inserted += 1.0;
        }
    }

    fn count_row(&mut self) {
        // SAFETY: the server's state outlives the scan.
        unsafe { (*self.state).htups += 1.0 }
    }

    /// The hot rows, read from block 0 on, as the merge needs.
    fn hot_rows(&mut self, snapshot: Snapshot<'_>) {
        let mut scan = HotScan::begin(self.table, snapshot, false);
        let slot = self.entries.slot();
        let mut roots = ChainRoots::new();
        let mut seen_on_page = [false; 1 << 9];
        report(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, scan.block_count());
        while scan.next(slot) {
            crate::check_for_interrupts!();
            self.count_row();
            let block = scan.block();
            if roots.enter_page(&scan) {
                report(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, block);
                seen_on_page.fill(false);
            }
            let root = roots.root_of(&scan);
            let key = sort_key(&root);
            self.indexed.advance_to(key, |passed| {
                if passed >> 16 == u64::from(block) {
                    seen_on_page[passed as usize & 0x1ff] = true;
                }
            });
            let known = self.indexed.stands_on(key) || seen_on_page[key as usize & 0x1ff];
            if !known {
                self.insert(Tid::from_raw(root));
            }
        }
        scan.end();
    }
}

fn report(parameter: u32, value: u32) {
    // SAFETY: writes to the backend's own status entry.
    unsafe { pg_sys::pgstat_progress_update_param(parameter as i32, i64::from(value)) }
}

#[cfg(test)]
mod tests {
    use super::sort_key;
    use crate::tid::{RowNumber, tid_of};

    #[test]
    fn keys_sort_by_block_then_offset_and_cold_rows_come_last() {
        let keys = [
            sort_key(&tid_of(0, 1)),
            sort_key(&tid_of(0, 291)),
            sort_key(&tid_of(1, 1)),
            sort_key(&tid_of(0x7FFF_FFFE, 5)),
            sort_key(&RowNumber(0).tid().raw()),
            sort_key(&RowNumber(1).tid().raw()),
            sort_key(&RowNumber(300).tid().raw()),
        ];
        assert!(keys.is_sorted(), "{keys:x?}");
    }
}
