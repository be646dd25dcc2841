//! Index builds.
//!
//! ```text
//!   hot rows   heap's loop over the inner heap scan: HOT chains under their roots
//!   cold rows  group by group, the columns that the index reads
//! ```
//!
//! Heap's own loop cannot be called: `heap_getnext` refuses a relation whose routine is not heap's.
//! The code here mirrors `heapam_index_build_range_scan` over `heap_getnextslot`, with the same
//! cases of `HeapTupleSatisfiesVacuum`. The status of a cold group is decided as a whole, by its
//! directory entry and the same rules.
//!
//! In a parallel build the participants share heap's block counter for the hot side and claim cold
//! groups from the counter that follows it, so each group is built by one of them.
//!
//! Kinds of index that cannot hold cold TIDs (BRIN) get hot rows only.

use howdah_bridge::hot::{is_hot_updated, was_never_seen, xmin_of};
use howdah_bridge::relation::count_rows_read;
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::RowNumber;
use pgrx::{PgMemoryContexts, pg_guard, pg_sys};

use super::index_entry::{BuildCallback, ChainRoots, IndexEntries, attributes_read, is_hot_only};
use super::scan;
use crate::cursor::ColdCursor;
use crate::errors::or_raise;
use crate::store::directory::GroupEntry;
use crate::store::pending_groups;
use crate::store::view::{ColdGroup, ColdView};
use crate::store::visibility::group_status::{self, GroupStatus, JudgedEntry};
use crate::store::visibility::{RowStatus, row_status};

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.index_build_range_scan = Some(index_build_range_scan);
}

/// The state of one index build.
struct Build {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    /// The horizon against which the status of each row is decided; invalid if the scan has an MVCC
    /// snapshot.
    oldest_xmin: pg_sys::TransactionId,
    any_visible: bool,
    progress: bool,
    callback: BuildCallback,
}

/// The cold side of a build, kept in a memory context that drops it.
type ColdWork = Option<(ColdCursor<'static>, Vec<GroupVerdict>)>;

/// What the build does with one row.
#[derive(Clone, Copy)]
struct Verdict {
    alive: bool,
    counts: bool,
}

/// What the build does with the rows of one group.
struct GroupVerdict {
    first_row: RowNumber,
    unmarked: Verdict,
    /// The status of rows that have marks.
    marked: Option<RowStatus>,
}

impl GroupVerdict {
    /// `None` if the row is dead.
    fn of(&self, row: RowNumber) -> Option<Verdict> {
        let position = (row.0 - self.first_row.0) as u32;
        match &self.marked {
            Some(marked) if marked.dead.contains(position) => None,
            Some(marked) if marked.recently_dead.contains(position) => Some(Verdict {
                alive: false,
                counts: false,
            }),
            Some(marked) if marked.delete_in_progress.contains(position) => Some(Verdict {
                alive: false,
                ..self.unmarked
            }),
            _ => Some(self.unmarked),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn index_build_range_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    allow_sync: bool,
    any_visible: bool,
    progress: bool,
    start_block: pg_sys::BlockNumber,
    block_count: pg_sys::BlockNumber,
    callback: pg_sys::IndexBuildCallback,
    callback_state: *mut std::ffi::c_void,
    parallel_scan: pg_sys::TableScanDesc,
) -> f64 {
    // SAFETY: arguments come from the core or an index AM, which hold table and index open and
    // locked; a parallel scan was begun by our scan_begin.
    unsafe {
        let oldest_xmin = if (*info).ii_Concurrent {
            pg_sys::InvalidTransactionId
        } else {
            pg_sys::GetOldestNonRemovableTransactionId(table)
        };
        let build = Build {
            table,
            index,
            info,
            oldest_xmin,
            any_visible,
            progress,
            callback: BuildCallback {
                function: callback,
                state: callback_state,
            },
        };
        let mut own_snapshot = std::ptr::null_mut();
        let scan = if parallel_scan.is_null() {
            let mut snapshot = &raw mut pg_sys::SnapshotAnyData;
            if oldest_xmin == pg_sys::InvalidTransactionId {
                own_snapshot = pg_sys::RegisterSnapshot(pg_sys::GetTransactionSnapshot());
                snapshot = own_snapshot;
            }
            let no_keys = std::ptr::null_mut();
            pg_sys::table_beginscan_strat(table, snapshot, 0, no_keys, true, allow_sync)
        } else {
            parallel_scan
        };
        let heap_scan = scan::ours(scan).heap().cast::<pg_sys::HeapScanDescData>();
        if !allow_sync {
            pg_sys::heap_setscanlimits(heap_scan.cast(), start_block, block_count);
        }
        let mut entries = IndexEntries::new(table, info);
        let mut row_count = build.hot_rows(heap_scan, &mut entries);
        let whole_table = start_block == 0 && block_count == pg_sys::InvalidBlockNumber;
        if whole_table && !any_visible && !is_hot_only(index) {
            row_count += build.cold_rows(scan, &mut entries);
        }
        entries.end();
        pg_sys::table_endscan(scan);
        if !own_snapshot.is_null() {
            pg_sys::UnregisterSnapshot(own_snapshot);
        }
        row_count
    }
}

impl Build {
    fn judges_itself(&self) -> bool {
        self.oldest_xmin != pg_sys::InvalidTransactionId
    }

    fn checks_uniqueness(&self) -> bool {
        // SAFETY: `info` is valid during the build.
        unsafe { (*self.info).ii_Unique || !(*self.info).ii_ExclusionOps.is_null() }
    }

    /// # Safety
    /// The scan is one of the table, open and without rows read.
    unsafe fn hot_rows(&self, scan: pg_sys::HeapScanDesc, entries: &mut IndexEntries) -> f64 {
        // SAFETY: the scan is open; its pin keeps the current tuple's page.
        unsafe {
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            let mut roots = ChainRoots::new();
            let mut reported = pg_sys::InvalidBlockNumber;
            let mut row_count = 0.0;
            self.report(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, blocks_to_scan(scan));
            while pg_sys::heap_getnextslot(scan.cast(), forward, entries.slot) {
                pgrx::check_for_interrupts!();
                let done = blocks_done(scan);
                if done != reported {
                    self.report(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, done);
                    reported = done;
                }
                roots.enter_page(scan);
                let tuple = &raw mut (*scan).rs_ctup;
                let verdict = if self.judges_itself() {
                    self.judge_hot(tuple, (*scan).rs_cbuf)
                } else {
                    Some(Verdict {
                        alive: true,
                        counts: true,
                    })
                };
                let Some(verdict) = verdict else { continue };
                row_count += f64::from(u8::from(verdict.counts));
                if entries.form() {
                    let tid = roots.root_of(scan, &*tuple);
                    self.callback.call(self.index, tid, entries, verdict.alive);
                }
            }
            self.report(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, blocks_to_scan(scan));
            row_count
        }
    }

    /// Decides what to do with a hot row; `None` omits it. Mirrors the switch of
    /// `heapam_index_build_range_scan`.
    ///
    /// # Safety
    /// The tuple lies in the buffer, which is pinned and share-locked.
    unsafe fn judge_hot(
        &self,
        tuple: pg_sys::HeapTuple,
        buffer: pg_sys::Buffer,
    ) -> Option<Verdict> {
        use pg_sys::HTSV_Result::*;
        // SAFETY: the scan holds the pin; the content lock is released before waiting.
        unsafe {
            loop {
                pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
                let state = pg_sys::HeapTupleSatisfiesVacuum(tuple, self.oldest_xmin, buffer);
                let header = (*tuple).t_data;
                let hot_updated = is_hot_updated(header);
                let inserter = xmin_of(header);
                let unseen = !hot_updated && was_never_seen(header);
                let deleter = if state == HEAPTUPLE_DELETE_IN_PROGRESS {
                    pg_sys::HeapTupleHeaderGetUpdateXid(header)
                } else {
                    pg_sys::InvalidTransactionId
                };
                pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
                let own = |xid| pg_sys::TransactionIdIsCurrentTransactionId(xid);
                let verdict = |alive, counts| Some(Verdict { alive, counts });
                return match state {
                    HEAPTUPLE_DEAD => None,
                    HEAPTUPLE_LIVE => verdict(true, true),
                    HEAPTUPLE_RECENTLY_DEAD if hot_updated => {
                        // The live member of the chain is indexed in its place; old snapshots must
                        // not use the index.
                        (*self.info).ii_BrokenHotChain = true;
                        None
                    }
                    HEAPTUPLE_RECENTLY_DEAD if unseen => None,
                    HEAPTUPLE_RECENTLY_DEAD => verdict(false, false),
                    HEAPTUPLE_INSERT_IN_PROGRESS if self.any_visible => verdict(true, true),
                    HEAPTUPLE_INSERT_IN_PROGRESS if own(inserter) => verdict(true, true),
                    HEAPTUPLE_INSERT_IN_PROGRESS => {
                        self.warn_of("insert");
                        if self.checks_uniqueness() {
                            self.wait_for(inserter, &mut (*tuple).t_self);
                            continue;
                        }
                        verdict(true, false)
                    }
                    HEAPTUPLE_DELETE_IN_PROGRESS if unseen && own(deleter) => None,
                    HEAPTUPLE_DELETE_IN_PROGRESS if self.any_visible => verdict(false, true),
                    HEAPTUPLE_DELETE_IN_PROGRESS if !own(deleter) => {
                        self.warn_of("delete");
                        if self.checks_uniqueness() || hot_updated {
                            self.wait_for(deleter, &mut (*tuple).t_self);
                            continue;
                        }
                        verdict(false, true)
                    }
                    HEAPTUPLE_DELETE_IN_PROGRESS if hot_updated => {
                        (*self.info).ii_BrokenHotChain = true;
                        None
                    }
                    _ => verdict(false, false),
                };
            }
        }
    }

    /// # Safety
    /// The scan is one of the table and open.
    unsafe fn cold_rows(&self, scan: pg_sys::TableScanDesc, entries: &mut IndexEntries) -> f64 {
        // SAFETY: the scan is ours and open; the slot belongs to `entries`. The cursor lives in the
        // current memory context, so that an ERROR may jump over this frame.
        unsafe {
            let Some(work) = self.cold_work(scan) else {
                return 0.0;
            };
            let (mut row_count, mut rows_read) = (0.0, 0);
            if let Some((cursor, verdicts)) = &mut *work {
                let table = Table::from_raw(self.table);
                while let Some(row) = cursor.next(table) {
                    pgrx::check_for_interrupts!();
                    let verdict = verdicts[cursor.group_index()].of(row);
                    let Some(verdict) = verdict else { continue };
                    rows_read += 1;
                    row_count += f64::from(u8::from(verdict.counts));
                    cursor.store(table, Slot::from_raw(entries.slot));
                    if entries.form() {
                        self.callback
                            .call(self.index, row.tid().raw(), entries, verdict.alive);
                    }
                }
            }
            pg_sys::ExecClearTuple(entries.slot);
            if let Some((cursor, _)) = (*work).take() {
                cursor.end();
            }
            count_rows_read(self.table, rows_read);
            row_count
        }
    }

    /// A cursor over the groups to build and the verdicts on them, `None` if there are none.
    ///
    /// # Safety
    /// The scan is one of the table and open; the current memory context outlives the result.
    unsafe fn cold_work(&self, scan: pg_sys::TableScanDesc) -> Option<*mut ColdWork> {
        // SAFETY: as for cold_rows.
        unsafe {
            let (view, verdicts) = self.cold_view((*scan).rs_snapshot)?;
            let wanted = attributes_read(self.info, (*(*self.table).rd_att).natts as usize);
            let shared = scan::shared_groups(scan);
            // Groups whose status depends on an in-progress transaction are kept: their rows must
            // be there.
            let is_deleted = |rows: &Verdict| !rows.alive && !rows.counts;
            let deleted = verdicts.iter().map(|group| is_deleted(&group.unmarked));
            let cursor = ColdCursor::new(view, wanted, shared).without_the_gone(deleted.collect());
            let work: ColdWork = Some((cursor, verdicts));
            Some(PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(work))
        }
    }

    /// The groups to build, and what to do with the rows of each. `None` if there are none.
    ///
    /// # Safety
    /// The table is open and locked, and the snapshot valid, for as long as the result is used.
    unsafe fn cold_view(
        &self,
        snapshot: pg_sys::Snapshot,
    ) -> Option<(ColdView<'static>, Vec<GroupVerdict>)> {
        const WHOLE: Verdict = Verdict {
            alive: true,
            counts: true,
        };
        // SAFETY: the table is open and locked, and the snapshot valid, longer than the build.
        unsafe {
            let (table, snapshot) = (Table::from_raw(self.table), Snapshot::from_raw(snapshot));
            if !self.judges_itself() {
                let view = ColdView::of(table, snapshot);
                let verdicts = view.groups.iter().map(|group| GroupVerdict {
                    first_row: group.first_row(),
                    unmarked: WHOLE,
                    marked: None,
                });
                let verdicts = verdicts.collect();
                return (!view.is_empty()).then_some((view, verdicts));
            }
            let mut groups: Vec<(ColdGroup, Verdict)> = self
                .judged_groups()
                .into_iter()
                .map(|e| {
                    let verdict = Verdict {
                        alive: matches!(
                            e.status,
                            GroupStatus::Live | GroupStatus::InsertInProgress(_)
                        ),
                        counts: e.status.counts_as_live(),
                    };
                    (ColdGroup::Stored(e.placed.entry), verdict)
                })
                .collect();
            // Rows of a load of this transaction that are still in memory.
            let pending = pending_groups::visible(table, snapshot);
            groups.extend(pending.into_iter().map(|group| (group, WHOLE)));
            groups.sort_by_key(|(group, _)| group.first_row());
            let verdicts = groups
                .iter()
                .map(|(group, unmarked)| GroupVerdict {
                    first_row: group.first_row(),
                    unmarked: *unmarked,
                    marked: self.judged_marks(group.entry()),
                })
                .collect();
            let view = ColdView {
                groups: groups.into_iter().map(|(group, _)| group).collect(),
                ..ColdView::default()
            };
            (!view.is_empty()).then_some((view, verdicts))
        }
    }

    /// The status of the marked rows of a group. Waits for in-progress transactions that have
    /// written marks where uniqueness depends on them, as for hot rows.
    ///
    /// # Safety
    /// The table is open and locked; no page is locked.
    unsafe fn judged_marks(&self, entry: &GroupEntry) -> Option<RowStatus> {
        if entry.flags.are_clear() {
            return None;
        }
        // SAFETY: the table is open and locked.
        unsafe {
            let store = ColdStore::open(Table::from_raw(self.table), LockMode::AccessShare)?;
            let horizon = group_status::horizon(&store);
            loop {
                let status = or_raise((*self.table).rd_id, row_status(&store, entry, horizon));
                let Some(xid) = status.deleter else {
                    return Some(status);
                };
                self.warn_of("delete");
                if !self.checks_uniqueness() {
                    return Some(status);
                }
                self.wait_for(xid.raw(), &mut entry.first_row.tid().raw());
            }
        }
    }

    /// The stored groups that are not dead. Waits for in-progress transactions that have written or
    /// deleted groups where uniqueness depends on them, as for hot rows.
    ///
    /// # Safety
    /// The table is open and locked; no page is locked.
    unsafe fn judged_groups(&self) -> Vec<JudgedEntry> {
        // SAFETY: the table is open and locked.
        unsafe {
            let oid = (*self.table).rd_id;
            let table = Table::from_raw(self.table);
            let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
                return Vec::new();
            };
            if store.toast().main_fork_blocks() == 0 {
                return Vec::new();
            }
            let horizon = group_status::horizon(&store);
            loop {
                let mut entries = or_raise(oid, group_status::entries_not_dead(&store, horizon));
                entries.retain(JudgedEntry::has_stored_rows);
                let foreign = entries
                    .iter()
                    .find_map(|e| e.status.foreign_transaction().map(|xid| (xid, e)));
                let Some((xid, entry)) = foreign else {
                    return entries;
                };
                self.warn_of(match entry.status {
                    GroupStatus::DeleteInProgress(_) => "delete",
                    _ => "insert",
                });
                if !self.checks_uniqueness() {
                    return entries;
                }
                self.wait_for(xid.raw(), &mut entry.placed.entry.first_row.tid().raw());
            }
        }
    }

    /// # Safety
    /// The table is open.
    unsafe fn warn_of(&self, what: &str) {
        // SAFETY: the table is open.
        let name = unsafe { howdah_bridge::relation::name_of(self.table) };
        pgrx::warning!("concurrent {what} in progress within table \"{name}\"");
    }

    /// # Safety
    /// The table is open, the TID valid; no page is locked.
    unsafe fn wait_for(&self, xid: pg_sys::TransactionId, tid: pg_sys::ItemPointer) {
        // SAFETY: no content lock is held; the table is open.
        unsafe {
            let oper = pg_sys::XLTW_Oper::XLTW_InsertIndexUnique;
            pg_sys::XactLockTableWait(xid, self.table, tid, oper);
            pgrx::check_for_interrupts!();
        }
    }

    fn report(&self, parameter: u32, value: u32) {
        if self.progress {
            // SAFETY: writes to the backend's own status entry.
            unsafe { pg_sys::pgstat_progress_update_param(parameter as i32, i64::from(value)) }
        }
    }
}

/// # Safety
/// The scan is open.
unsafe fn shared_part(
    scan: pg_sys::HeapScanDesc,
) -> Option<*mut pg_sys::ParallelBlockTableScanDescData> {
    // SAFETY: the caller's scan is open.
    let parallel = unsafe { (*scan).rs_base.rs_parallel };
    (!parallel.is_null()).then_some(parallel.cast())
}

/// # Safety
/// The scan is open.
unsafe fn blocks_to_scan(scan: pg_sys::HeapScanDesc) -> pg_sys::BlockNumber {
    // SAFETY: the scan is open, and its shared part lives as long as it.
    unsafe { shared_part(scan).map_or((*scan).rs_nblocks, |p| (*p).phs_nblocks) }
}

/// Mirrors `heapam_scan_get_blocks_done`: a synchronized scan starts in the middle.
///
/// # Safety
/// The scan is open.
unsafe fn blocks_done(scan: pg_sys::HeapScanDesc) -> pg_sys::BlockNumber {
    // SAFETY: as for `blocks_to_scan`.
    unsafe {
        let start = shared_part(scan).map_or((*scan).rs_startblock, |p| (*p).phs_startblock);
        let at = (*scan).rs_cblock;
        if at > start {
            at - start
        } else {
            blocks_to_scan(scan) - start + at
        }
    }
}
