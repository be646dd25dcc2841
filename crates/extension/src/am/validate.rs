//! The second scan of a concurrent index build.
//!
//! ```text
//!   sorted TIDs of the index   h1 h2 h3 … c1 c2 …      hot before cold, as blocks sort
//!   rows the snapshot sees     h1    h3 … c1 c2 …      heap scan from block 0, then groups
//! ```
//!
//! Both are merged; a row that the index does not have is inserted. Mirrors
//! `heapam_index_validate_scan`, including the look back inside a page that HOT chains require;
//! cold rows come in strict TID order and need no look back.

use howdah_bridge::ffi::unguarded;
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::Table;
use howdah_bridge::tid::block_of;
use pgrx::{PgMemoryContexts, pg_guard, pg_sys};

use super::index_entry::{ChainRoots, IndexEntries, attributes_read, is_hot_only};
use super::scan;
use crate::cursor::ColdCursor;
use crate::store::view::ColdView;

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.index_validate_scan = Some(index_validate_scan);
}

/// The TIDs that the index holds, ascending.
struct IndexedTids {
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
    ///
    /// # Safety
    /// The core's sort is performed and not ended.
    unsafe fn advance_to(&mut self, key: u64, mut passed: impl FnMut(u64)) {
        while !self.exhausted && self.current.is_none_or(|current| current < key) {
            if let Some(current) = self.current {
                passed(current);
            }
            let mut datum = pg_sys::Datum::from(0);
            let mut is_null = false;
            // SAFETY: the sort was performed by the core and outlives the scan.
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

struct Validation {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    state: *mut pg_sys::ValidateIndexState,
    entries: IndexEntries,
    indexed: IndexedTids,
}

#[pg_guard]
unsafe extern "C-unwind" fn index_validate_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    snapshot: pg_sys::Snapshot,
    state: *mut pg_sys::ValidateIndexState,
) {
    // SAFETY: arguments come from the core, which holds table and index open and locked.
    unsafe {
        let mut validation = Validation {
            table,
            index,
            info,
            state,
            entries: IndexEntries::new(table, info),
            indexed: IndexedTids {
                sort: (*state).tuplesort,
                current: None,
                exhausted: false,
            },
        };
        validation.hot_rows(snapshot);
        if !is_hot_only(index) {
            validation.cold_rows(snapshot);
        }
        validation.entries.end();
    }
}

impl Validation {
    /// # Safety
    /// Table and index are open and locked, the snapshot valid, the core's sort not ended.
    unsafe fn hot_rows(&mut self, snapshot: pg_sys::Snapshot) {
        // SAFETY: the scan is ours; its pin keeps the current tuple's page. It is read from
        // block 0 on, as the merge needs.
        unsafe {
            let no_keys = std::ptr::null_mut();
            let scan = pg_sys::table_beginscan_strat(self.table, snapshot, 0, no_keys, true, false);
            let heap_scan = scan::ours(scan).heap().cast::<pg_sys::HeapScanDescData>();
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            let mut roots = ChainRoots::new();
            let mut seen_on_page = [false; 1 << 9];
            report(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, (*heap_scan).rs_nblocks);
            while pg_sys::heap_getnextslot(heap_scan.cast(), forward, self.entries.slot) {
                pgrx::check_for_interrupts!();
                (*self.state).htups += 1.0;
                let block = (*heap_scan).rs_cblock;
                if roots.enter_page(heap_scan) {
                    report(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, block);
                    seen_on_page.fill(false);
                }
                let root = roots.root_of(heap_scan, &(*heap_scan).rs_ctup);
                let key = sort_key(&root);
                self.indexed.advance_to(key, |passed| {
                    if passed >> 16 == u64::from(block) {
                        seen_on_page[passed as usize & 0x1ff] = true;
                    }
                });
                let known = self.indexed.stands_on(key) || seen_on_page[key as usize & 0x1ff];
                if !known {
                    self.insert(root);
                }
            }
            pg_sys::table_endscan(scan);
        }
    }

    /// # Safety
    /// Table and index are open and locked, the snapshot valid, the core's sort not ended.
    unsafe fn cold_rows(&mut self, snapshot: pg_sys::Snapshot) {
        // SAFETY: the table is open; the slot belongs to `entries`.
        unsafe {
            let table = Table::from_raw(self.table);
            let view = ColdView::of(table, Snapshot::from_raw(snapshot));
            if view.is_empty() {
                return;
            }
            let wanted = attributes_read(self.info, (*(*self.table).rd_att).natts as usize);
            // The cursor lives in the current memory context, so that an ERROR may jump over this
            // frame.
            let cursor = ColdCursor::new(view, wanted, None);
            let place =
                PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(Some(cursor));
            if let Some(cursor) = &mut *place {
                while let Some(row) = cursor.next(table) {
                    pgrx::check_for_interrupts!();
                    (*self.state).htups += 1.0;
                    let tid = row.tid().raw();
                    let key = sort_key(&tid);
                    self.indexed.advance_to(key, |_| {});
                    if !self.indexed.stands_on(key) {
                        cursor.store(table, Slot::from_raw(self.entries.slot));
                        self.insert(tid);
                    }
                }
            }
            pg_sys::ExecClearTuple(self.entries.slot);
            if let Some(cursor) = (*place).take() {
                cursor.end();
            }
        }
    }

    /// Inserts the row in the slot under `tid`.
    ///
    /// # Safety
    /// The slot holds the row; the index is open and locked for writing.
    unsafe fn insert(&mut self, mut tid: pg_sys::ItemPointerData) {
        // SAFETY: the slot holds the row; the index is open and locked for inserts.
        unsafe {
            if !self.entries.form() {
                return;
            }
            let unique = if (*self.info).ii_Unique {
                pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES
            } else {
                pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO
            };
            unguarded::index_insert(
                self.index,
                self.entries.values.as_mut_ptr(),
                self.entries.nulls.as_mut_ptr(),
                &mut tid,
                self.table,
                unique,
                false,
                self.info,
            );
            (*self.state).tups_inserted += 1.0;
        }
    }
}

fn report(parameter: u32, value: u32) {
    // SAFETY: writes to the backend's own status entry.
    unsafe { pg_sys::pgstat_progress_update_param(parameter as i32, i64::from(value)) }
}
