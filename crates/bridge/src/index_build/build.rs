//! The scan of an index build: `index_build_range_scan`.
//!
//! Hot rows are indexed under the roots of their HOT chains, with the same cases of
//! `HeapTupleSatisfiesVacuum` as in `heapam_index_build_range_scan`. Rows of another side are added
//! by [`BuildIndex`], after them.
//!
//! In a parallel build the participants share heap's block counter for the hot side.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU32;

use pgrx::{pg_guard, pg_sys};

use super::entries::{IndexInfo, Indexing};
use super::roots::ChainRoots;
use crate::hot::scan::HotScan;
use crate::hot::{is_hot_updated, was_never_seen, was_of_one_command, xmin_of};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::table_am::{Routine, scans};
use crate::tid::Tid;
use crate::xid::Xid;

/// Adds rows to index builds.
pub trait BuildIndex {
    /// Passes all rows that are not hot to [`Build::add`]; returns how many of them count as rows
    /// of the table. Called once the hot rows are done, unless only a range of them is wanted.
    fn add_rows(build: &mut Build<'_>, scan: OuterScan<'_>) -> f64;
}

/// Has further rows added to index builds by `B`. The routine's scans are those of
/// [`crate::table_am::scans`].
pub fn set_build<B: BuildIndex>(routine: &mut Routine) {
    routine.index_build_range_scan = Some(index_build_range_scan::<B>);
}

/// A scan that the access method has begun, and not ended.
#[derive(Clone, Copy)]
pub struct OuterScan<'a> {
    raw: pg_sys::TableScanDesc,
    lives: PhantomData<&'a ()>,
}

impl<'a> OuterScan<'a> {
    /// The number that the participants of a parallel build share, 0 at its begin; `None` if there
    /// are no others.
    pub fn shared(self) -> Option<&'a AtomicU32> {
        // SAFETY: the server keeps the shared descriptor until the scan is ended; it is as long as
        // the access method has requested.
        unsafe { scans::shared_counter((*self.raw).rs_parallel) }
    }

    /// What it sees.
    pub fn snapshot(self) -> Snapshot<'a> {
        // SAFETY: the snapshot of a scan is valid as long as the scan.
        unsafe { Snapshot::from_raw((*self.raw).rs_snapshot) }
    }
}

/// An index build in progress. Table and index are open and locked.
pub struct Build<'a> {
    indexing: Indexing<'a>,
    /// The horizon against which the status of each row is decided; invalid if the scan has an MVCC
    /// snapshot.
    oldest_xmin: Xid,
    any_visible: bool,
    progress: bool,
    callback: BuildCallback,
}

impl<'a> Deref for Build<'a> {
    type Target = Indexing<'a>;

    fn deref(&self) -> &Indexing<'a> {
        &self.indexing
    }
}

impl<'a> DerefMut for Build<'a> {
    fn deref_mut(&mut self) -> &mut Indexing<'a> {
        &mut self.indexing
    }
}

/// An index AM's callback of a build.
#[derive(Clone, Copy)]
struct BuildCallback {
    function: RowCallback,
    state: *mut c_void,
}

/// `IndexBuildCallback` without NULL.
type RowCallback = unsafe extern "C-unwind" fn(
    pg_sys::Relation,
    pg_sys::ItemPointer,
    *mut pg_sys::Datum,
    *mut bool,
    bool,
    *mut c_void,
);

/// What the build does with one row.
#[derive(Clone, Copy)]
struct Verdict {
    alive: bool,
    counts: bool,
}

#[pg_guard]
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn index_build_range_scan<B: BuildIndex>(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    allow_sync: bool,
    any_visible: bool,
    progress: bool,
    start_block: pg_sys::BlockNumber,
    block_count: pg_sys::BlockNumber,
    callback: pg_sys::IndexBuildCallback,
    callback_state: *mut c_void,
    parallel_scan: pg_sys::TableScanDesc,
) -> f64 {
    // SAFETY: arguments come from the server or an index AM, which hold table and index open and
    // locked; a parallel scan was begun by the access method. A scan of our own is ended, and its
    // snapshot unregistered, before returning.
    unsafe {
        let (table, info) = (Table::from_raw(table), IndexInfo::from_raw(info));
        let mut build = Build {
            indexing: Indexing::new(table, Table::from_raw(index), info),
            oldest_xmin: match info.is_concurrent() {
                true => Xid::INVALID,
                false => table.horizon(),
            },
            any_visible,
            progress,
            callback: BuildCallback {
                function: callback
                    .unwrap_or_else(|| pgrx::error!("index build without a callback")),
                state: callback_state,
            },
        };
        let mut own_snapshot = std::ptr::null_mut();
        let scan = if parallel_scan.is_null() {
            let mut snapshot = &raw mut pg_sys::SnapshotAnyData;
            if !build.judges_itself() {
                own_snapshot = pg_sys::RegisterSnapshot(pg_sys::GetTransactionSnapshot());
                snapshot = own_snapshot;
            }
            let no_keys = std::ptr::null_mut();
            pg_sys::table_beginscan_strat(table.raw(), snapshot, 0, no_keys, true, allow_sync)
        } else {
            parallel_scan
        };
        let outer = OuterScan {
            raw: scan,
            lives: PhantomData,
        };
        let mut inner: HotScan<'_> = scans::inner_of(scan);
        if !allow_sync {
            pg_sys::heap_setscanlimits(inner.raw().cast(), start_block, block_count);
        }
        let mut row_count = build.hot_rows(&mut inner);
        let whole_table = start_block == 0 && block_count == pg_sys::InvalidBlockNumber;
        if whole_table && !any_visible {
            row_count += B::add_rows(&mut build, outer);
        }
        build.indexing.entries.end();
        pg_sys::table_endscan(scan);
        if !own_snapshot.is_null() {
            pg_sys::UnregisterSnapshot(own_snapshot);
        }
        row_count
    }
}

impl Build<'_> {
    /// Whether the status of each row is decided here, instead of by a snapshot.
    pub fn judges_itself(&self) -> bool {
        self.oldest_xmin != Xid::INVALID
    }

    /// Adds the row in the slot under a TID, unless the index's predicate excludes it. A row that
    /// is not alive is left out of checks of uniqueness.
    pub fn add(&mut self, tid: Tid, alive: bool) {
        if !self.entries.form() {
            return;
        }
        let mut tid = tid.raw();
        // SAFETY: the index AM's callback, with its state; the values are those of the row in the
        // slot.
        unsafe {
            (self.callback.function)(
                self.index.raw(),
                &mut tid,
                self.entries.values.as_mut_ptr(),
                self.entries.nulls.as_mut_ptr(),
                alive,
                self.callback.state,
            );
        }
    }

    /// Warns that another transaction inserts or deletes rows, which the lock on the table should
    /// prevent.
    pub fn warn_of(&self, what: &str) {
        pgrx::warning!(
            "concurrent {what} in progress within table \"{}\"",
            self.table.name()
        );
    }

    /// Waits for the end of a transaction that inserts or deletes the row at `tid`. No page is
    /// locked.
    pub fn wait_for(&self, xid: Xid, tid: Tid) {
        let mut tid = tid.raw();
        let oper = pg_sys::XLTW_Oper::XLTW_InsertIndexUnique;
        // SAFETY: the table is open, and the TID a variable of ours.
        unsafe { pg_sys::XactLockTableWait(xid.raw(), self.table.raw(), &mut tid, oper) };
        crate::check_for_interrupts!();
    }

    fn report(&self, parameter: u32, value: u32) {
        if self.progress {
            // SAFETY: writes to the backend's own status entry.
            unsafe { pg_sys::pgstat_progress_update_param(parameter as i32, i64::from(value)) }
        }
    }

    /// Adds the hot rows of a scan of the table of which no row was read.
    fn hot_rows(&mut self, scan: &mut HotScan<'_>) -> f64 {
        let slot = self.entries.slot();
        let mut roots = ChainRoots::new();
        let mut reported = pg_sys::InvalidBlockNumber;
        let mut row_count = 0.0;
        self.report(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, blocks_to_scan(scan));
        while scan.next(slot) {
            crate::check_for_interrupts!();
            let done = blocks_done(scan);
            if done != reported {
                self.report(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, done);
                reported = done;
            }
            roots.enter_page(scan);
            let verdict = match self.judges_itself() {
                true => self.judge_hot(scan),
                false => Some(Verdict {
                    alive: true,
                    counts: true,
                }),
            };
            let Some(verdict) = verdict else { continue };
            row_count += f64::from(u8::from(verdict.counts));
            self.add(Tid::from_raw(roots.root_of(scan)), verdict.alive);
        }
        self.report(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, blocks_to_scan(scan));
        row_count
    }

    /// Decides what to do with the scan's current row; `None` omits it. Mirrors the switch of
    /// `heapam_index_build_range_scan`.
    fn judge_hot(&self, scan: &HotScan<'_>) -> Option<Verdict> {
        use pg_sys::HTSV_Result::*;
        let waits = self.info.checks_uniqueness();
        loop {
            // SAFETY: the scan has pinned the page of its current row; the page is locked while the
            // tuple is looked at.
            let (state, header, tid) = unsafe {
                let tuple = &raw mut (*scan.raw()).rs_ctup;
                let buffer = (*scan.raw()).rs_cbuf;
                pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
                let state = pg_sys::HeapTupleSatisfiesVacuum(tuple, self.oldest_xmin.raw(), buffer);
                let header = Header::of((*tuple).t_data, state);
                pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
                (state, header, Tid::from_raw((*tuple).t_self))
            };
            let Header {
                hot_updated,
                unseen,
                unseen_here,
                inserter,
                deleter,
            } = header;
            let verdict = |alive, counts| Some(Verdict { alive, counts });
            return match state {
                HEAPTUPLE_DEAD => None,
                HEAPTUPLE_LIVE => verdict(true, true),
                HEAPTUPLE_RECENTLY_DEAD if hot_updated => {
                    // The live member of the chain is indexed in its place; old snapshots must not
                    // use the index.
                    self.info.note_broken_chain();
                    None
                }
                HEAPTUPLE_RECENTLY_DEAD if unseen => None,
                HEAPTUPLE_RECENTLY_DEAD => verdict(false, false),
                HEAPTUPLE_INSERT_IN_PROGRESS if self.any_visible => verdict(true, true),
                HEAPTUPLE_INSERT_IN_PROGRESS if inserter.is_own() => verdict(true, true),
                HEAPTUPLE_INSERT_IN_PROGRESS => {
                    self.warn_of("insert");
                    if waits {
                        self.wait_for(inserter, tid);
                        continue;
                    }
                    verdict(true, false)
                }
                HEAPTUPLE_DELETE_IN_PROGRESS if unseen_here && deleter.is_own() => None,
                HEAPTUPLE_DELETE_IN_PROGRESS if self.any_visible => verdict(false, true),
                HEAPTUPLE_DELETE_IN_PROGRESS if !deleter.is_own() => {
                    self.warn_of("delete");
                    if waits || hot_updated {
                        self.wait_for(deleter, tid);
                        continue;
                    }
                    verdict(false, true)
                }
                HEAPTUPLE_DELETE_IN_PROGRESS if hot_updated => {
                    self.info.note_broken_chain();
                    None
                }
                _ => verdict(false, false),
            };
        }
    }
}

/// What a tuple's header tells a build.
struct Header {
    hot_updated: bool,
    /// Whether no snapshot can ever have seen the tuple.
    unseen: bool,
    /// Whether no command of the transaction itself has seen it either: one may still, by a cursor.
    unseen_here: bool,
    inserter: Xid,
    /// Invalid unless a transaction in progress is deleting the tuple.
    deleter: Xid,
}

impl Header {
    /// # Safety
    /// The header is that of a tuple on a page that is pinned and locked.
    unsafe fn of(
        header: *mut pg_sys::HeapTupleHeaderData,
        state: pg_sys::HTSV_Result::Type,
    ) -> Header {
        let is_deleting = state == pg_sys::HTSV_Result::HEAPTUPLE_DELETE_IN_PROGRESS;
        // SAFETY: as for this function.
        unsafe {
            let hot_updated = is_hot_updated(header);
            let unseen = !hot_updated && was_never_seen(header);
            Header {
                hot_updated,
                unseen,
                unseen_here: unseen && is_deleting && was_of_one_command(header),
                inserter: Xid::from_raw(xmin_of(header)),
                deleter: match is_deleting {
                    true => Xid::from_raw(pg_sys::HeapTupleHeaderGetUpdateXid(header)),
                    false => Xid::INVALID,
                },
            }
        }
    }
}

/// Number of blocks and first block of a scan, as its participants share them if it is parallel.
fn extent(scan: &HotScan<'_>) -> (pg_sys::BlockNumber, pg_sys::BlockNumber) {
    // SAFETY: the scan is open, and its shared part lives as long as it.
    unsafe {
        let parallel = (*scan.raw()).rs_base.rs_parallel;
        if parallel.is_null() {
            return (scan.block_count(), scan.first_block());
        }
        let shared = parallel.cast::<pg_sys::ParallelBlockTableScanDescData>();
        ((*shared).phs_nblocks, (*shared).phs_startblock)
    }
}

fn blocks_to_scan(scan: &HotScan<'_>) -> pg_sys::BlockNumber {
    extent(scan).0
}

fn blocks_done(scan: &HotScan<'_>) -> pg_sys::BlockNumber {
    let (all, start) = extent(scan);
    blocks_between(scan.block(), start, all)
}

/// Mirrors `heapam_scan_get_blocks_done`: a synchronized scan starts in the middle.
fn blocks_between(
    at: pg_sys::BlockNumber,
    start: pg_sys::BlockNumber,
    all: pg_sys::BlockNumber,
) -> pg_sys::BlockNumber {
    if at > start {
        at - start
    } else {
        all - start + at
    }
}

#[cfg(test)]
mod tests {
    use super::blocks_between;

    #[test]
    fn a_scan_that_starts_in_the_middle_wraps_around() {
        assert_eq!(blocks_between(9, 4, 20), 5);
        assert_eq!(blocks_between(19, 4, 20), 15);
        assert_eq!(blocks_between(0, 4, 20), 16);
        assert_eq!(blocks_between(3, 4, 20), 19);
    }
}
