//! Copies hot rows into the new table.
//!
//! Mirrors `heapam_relation_copy_for_cluster` over heap's own scan and the server's rewrite
//! machinery, which keeps recently dead versions and their update chains. A version whose successor
//! is cold, or becomes cold, stays deleted but loses the link: a writer that reaches it with an old
//! snapshot finds it deleted, as after any VACUUM FULL, and no transaction can share its key.

use howdah_bridge::relation::name_of;
use howdah_bridge::rewrite::{HeapRewrite, progress};
use howdah_bridge::slot::Origin;
use howdah_bridge::tid::is_cold;
use howdah_bridge::tuple_sort::TupleSort;
use howdah_bridge::xid::Xid;
use pgrx::pg_sys;

use super::order::ColdOrder;
use super::rewriting::{Counts, Rewriting};
use crate::am::scan;
use crate::errors::or_raise;
use crate::slot_writer::RowMemory;
use crate::store::view::RowDatums;
use crate::types::must_stay_hot;

pub(super) struct HotCopy<'a> {
    work: &'a Rewriting<'a>,
    rewrite: HeapRewrite,
    values: RowDatums,
    memory: RowMemory,
}

/// The status of a row version for the rewrite.
enum Version {
    /// Live, and no transaction has locked or changed it. It has this origin.
    Untouched(Origin),
    /// To be copied as it is.
    Kept,
    Dead,
}

/// The scan that returns the old hot rows.
enum Source {
    Index(pg_sys::IndexScanDesc),
    Heap {
        ours: pg_sys::TableScanDesc,
        inner: pg_sys::HeapScanDesc,
    },
}

impl Source {
    /// # Safety
    /// Table and index are open and locked for as long as the source is used.
    unsafe fn begin(table: pg_sys::Relation, index: Option<pg_sys::Relation>) -> Source {
        // SAFETY: table and index are open. SnapshotAny: recently dead rows must be seen.
        unsafe {
            let any = &raw mut pg_sys::SnapshotAnyData;
            if let Some(index) = index {
                progress::scanning_along((*index).rd_id);
                let none = std::ptr::null_mut();
                let scan = pg_sys::index_beginscan(table, index, any, none, 0, 0);
                pg_sys::index_rescan(scan, std::ptr::null_mut(), 0, std::ptr::null_mut(), 0);
                return Source::Index(scan);
            }
            progress::scanning();
            let ours = pg_sys::table_beginscan(table, any, 0, std::ptr::null_mut());
            let inner = scan::ours(ours).heap().cast::<pg_sys::HeapScanDescData>();
            progress::blocks_to_scan((*inner).rs_nblocks);
            Source::Heap { ours, inner }
        }
    }

    /// The next hot row version.
    ///
    /// # Safety
    /// The source was not ended; the slot is a buffer slot of its table.
    unsafe fn next(&self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        let forward = pg_sys::ScanDirection::ForwardScanDirection;
        // SAFETY: the scan is open, the slot a buffer slot.
        unsafe {
            match *self {
                Source::Heap { inner, .. } => {
                    let found = pg_sys::heap_getnextslot(inner.cast(), forward, slot);
                    progress::blocks_scanned(blocks_scanned(inner, found));
                    found
                }
                Source::Index(scan) => loop {
                    if !(*scan).xs_heap_continue {
                        let tid = pg_sys::index_getnext_tid(scan, forward);
                        if tid.is_null() {
                            return false;
                        }
                        if is_cold(&*tid) {
                            continue;
                        }
                    }
                    if pg_sys::index_fetch_heap(scan, slot) {
                        if (*scan).xs_recheck {
                            pgrx::error!("CLUSTER does not support lossy index conditions");
                        }
                        return true;
                    }
                },
            }
        }
    }

    /// # Safety
    /// Table and index are still open.
    unsafe fn end(self) {
        // SAFETY: begun by `begin`, ended once.
        unsafe {
            match self {
                Source::Index(scan) => pg_sys::index_endscan(scan),
                Source::Heap { ours, .. } => pg_sys::table_endscan(ours),
            }
        }
    }
}

/// A synchronized scan may start in the middle and wrap around.
///
/// # Safety
/// The scan is open.
unsafe fn blocks_scanned(scan: pg_sys::HeapScanDesc, found: bool) -> pg_sys::BlockNumber {
    // SAFETY: the scan is open.
    unsafe {
        let blocks = (*scan).rs_nblocks;
        if !found {
            return blocks;
        }
        let from_start =
            u64::from((*scan).rs_cblock) + u64::from(blocks) - u64::from((*scan).rs_startblock);
        (from_start % u64::from(blocks.max(1))) as u32 + 1
    }
}

impl<'a> HotCopy<'a> {
    /// # Safety
    /// `work` is the rewrite that is running: its relations are open and locked exclusively.
    pub unsafe fn begin(
        work: &'a Rewriting<'a>,
        freeze_xid: pg_sys::TransactionId,
        cutoff_multi: pg_sys::MultiXactId,
    ) -> HotCopy<'a> {
        // SAFETY: both tables are open and exclusively locked.
        unsafe {
            HotCopy {
                work,
                rewrite: HeapRewrite::begin(
                    work.old_heap.raw(),
                    work.new_heap.raw(),
                    work.oldest_xmin.raw(),
                    freeze_xid,
                    cutoff_multi,
                ),
                values: RowDatums::new((*(*work.new_heap.raw()).rd_att).natts as usize),
                memory: RowMemory::new(),
            }
        }
    }

    /// Copies every version that is not dead, in the order of `index` or sorted by `sort`. Rows
    /// that can be cold are passed to `cold`, if it is given.
    ///
    /// # Safety
    /// `index` is open and locked exclusively, as the tables of the rewrite still are.
    pub unsafe fn copy(
        mut self,
        index: Option<pg_sys::Relation>,
        mut sort: Option<TupleSort>,
        mut cold: Option<&mut ColdOrder<'_>>,
        counts: &mut Counts,
    ) {
        // SAFETY: both tables and the index are open and exclusively locked.
        unsafe {
            let source = Source::begin(self.work.old_heap.raw(), index);
            let slot = pg_sys::table_slot_create(self.work.old_heap.raw(), std::ptr::null_mut());
            while source.next(slot) {
                pgrx::check_for_interrupts!();
                let tuple = pg_sys::ExecFetchSlotHeapTuple(slot, false, std::ptr::null_mut());
                let buffer = (*slot.cast::<pg_sys::BufferHeapTupleTableSlot>()).buffer;
                let version = self.judge(tuple, buffer, counts);
                if matches!(version, Version::Dead) {
                    continue;
                }
                counts.kept += 1.0;
                progress::rows_scanned(counts.kept as u64);
                if let (Version::Untouched(origin), Some(cold)) = (&version, &mut cold)
                    && self.put_cold(tuple, *origin, cold)
                {
                    if !cold.takes_cold_rows() {
                        counts.written += 1;
                        progress::rows_written(counts.written);
                    }
                    continue;
                }
                match &mut sort {
                    Some(sort) => sort.put(tuple),
                    None => {
                        self.write(tuple);
                        counts.written += 1;
                        progress::rows_written(counts.written);
                    }
                }
            }
            source.end();
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            if let Some(sort) = sort {
                self.write_sorted(sort, counts);
            }
            self.memory.delete();
            self.rewrite.end();
        }
    }

    /// Determines the status of a version, and counts it if it is not live.
    ///
    /// # Safety
    /// The tuple lies in the buffer, which is pinned.
    unsafe fn judge(
        &mut self,
        tuple: pg_sys::HeapTuple,
        buffer: pg_sys::Buffer,
        counts: &mut Counts,
    ) -> Version {
        use pg_sys::HTSV_Result::*;
        // SAFETY: the slot holds the buffer's pin.
        unsafe {
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let state =
                pg_sys::HeapTupleSatisfiesVacuum(tuple, self.work.oldest_xmin.raw(), buffer);
            let header = (*tuple).t_data;
            let origin = Origin::of(header);
            let foreign = match state {
                HEAPTUPLE_INSERT_IN_PROGRESS => (!origin.xid.is_own()).then_some("insert"),
                HEAPTUPLE_DELETE_IN_PROGRESS => {
                    let deleter = pg_sys::HeapTupleHeaderGetUpdateXid(header);
                    (!Xid::from_raw(deleter).is_own()).then_some("delete")
                }
                _ => None,
            };
            let is_touched = u32::from((*header).t_infomask) & pg_sys::HEAP_XMAX_INVALID == 0;
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
            if let Some(what) = foreign {
                let table = name_of(self.work.old_heap.raw());
                pgrx::warning!("concurrent {what} in progress within table \"{table}\"");
            }
            match state {
                HEAPTUPLE_DEAD => {
                    counts.removed += 1.0;
                    if self.rewrite.note_dead(tuple) {
                        // An earlier recently dead version turned out to be dead.
                        counts.removed += 1.0;
                        counts.recently_dead -= 1.0;
                    }
                    Version::Dead
                }
                HEAPTUPLE_RECENTLY_DEAD | HEAPTUPLE_DELETE_IN_PROGRESS => {
                    counts.recently_dead += 1.0;
                    Version::Kept
                }
                _ if is_touched || foreign.is_some() => Version::Kept,
                _ => Version::Untouched(origin),
            }
        }
    }

    /// Passes a row to the cold side, unless it must stay hot.
    ///
    /// # Safety
    /// The tuple is one of the old table, and its page pinned.
    unsafe fn put_cold(
        &mut self,
        tuple: pg_sys::HeapTuple,
        origin: Origin,
        cold: &mut ColdOrder<'_>,
    ) -> bool {
        let table = self.work.table();
        let row = &mut self.values;
        // SAFETY: the tuple is valid; the arrays have an entry per attribute.
        self.memory.with(|| unsafe {
            let (values, nulls) = (row.values.as_mut_ptr(), row.nulls.as_mut_ptr());
            let desc = (*self.work.old_heap.raw()).rd_att;
            pg_sys::heap_deform_tuple(tuple, desc, values, nulls);
            if must_stay_hot(cold.layout(), &row.values, &row.nulls) {
                return false;
            }
            or_raise(table, cold.put(row, origin));
            true
        })
    }

    /// Mirrors `reform_and_rewrite_tuple`: dropped columns become NULL.
    ///
    /// # Safety
    /// The tuple is one of the old table; its memory lives during the call.
    unsafe fn write(&mut self, tuple: pg_sys::HeapTuple) {
        // SAFETY: the tuple is valid; the arrays have an entry per attribute.
        unsafe {
            let new_desc = (*self.work.new_heap.raw()).rd_att;
            let (values, nulls) = (
                self.values.values.as_mut_ptr(),
                self.values.nulls.as_mut_ptr(),
            );
            pg_sys::heap_deform_tuple(tuple, (*self.work.old_heap.raw()).rd_att, values, nulls);
            for i in 0..(*new_desc).natts {
                if (*pg_sys::TupleDescAttr(new_desc, i)).attisdropped {
                    *nulls.add(i as usize) = true;
                }
            }
            let copy = pg_sys::heap_form_tuple(new_desc, values, nulls);
            self.rewrite.write(tuple, copy);
            pg_sys::heap_freetuple(copy);
        }
    }

    /// # Safety
    /// The sort holds tuples of the old table and was performed.
    unsafe fn write_sorted(&mut self, sort: TupleSort, counts: &mut Counts) {
        progress::sorting();
        let mut sorted = sort.finish();
        progress::writing();
        while let Some(tuple) = sorted.next_tuple() {
            pgrx::check_for_interrupts!();
            // SAFETY: the tuple lives until the next one is requested.
            unsafe { self.write(tuple) };
            counts.written += 1;
            progress::rows_written(counts.written);
        }
        sorted.end();
    }
}
